"""Formulas: the right terms with honest errors, from the equation and not its steps, and the truth about the rest."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import itofit
from itofit import InputError, ModelFileError
from itofit.data.names import Variables
from itofit.model.formula.finding import slots_of
from itofit.model.formula.library import library, parsed
from itofit.model.formula.selection import choose, price_of_term
from itofit.model.formula.term_sums import summed, targets
from itofit.model.formula.written import latex_name, number

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


pytestmark = pytest.mark.usefixtures("few_paths")


def euler(drift, sigma, start, h, n_steps, rng, substeps=5):
    """Tracks (n_tracks, n_steps + 1, d) of an equation, in fine steps."""
    x = np.array(start, dtype=float)
    seen = [x]
    for _ in range(n_steps):
        for _ in range(substeps):
            dt = h / substeps
            x = x + dt * drift(x + 0.5 * dt * drift(x)) + np.sqrt(dt) * sigma(x) * rng.standard_normal(x.shape)
        seen.append(x)
    return np.stack(seen, axis=1)


def well_data(seed=0, n_tracks=40, scale=1.0):
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((n_tracks, 1))
    tracks = euler(lambda x: x - x**3, lambda x: np.sqrt(0.3 + 0.2 * x**2), start, 0.05, 600, rng)
    return itofit.Transitions.from_trajectories(list(scale * tracks), dt=0.05)


@pytest.fixture(scope="module")
def well():
    data = well_data()
    sde = itofit.fit(data, rng=0)
    return data, sde, sde.formula(data)


def names(formula):
    return {name: [term.name for term in line.terms] for name, line in formula.lines.items()}


def variables(inputs=("x", "y"), outputs=("x", "y"), periods=None, k=0):
    periods = np.zeros((2, len(inputs))) if periods is None else periods
    kind = "diffusion" if len(inputs) == len(outputs) + k else "underdamped"
    return Variables(len(inputs), len(outputs), kind, inputs, outputs, periods, k)


# The library


def test_monomials_up_to_a_degree():
    found = [term.name for term in library(variables(), None, 2)]
    assert found == ["1", "x", "y", "x²", "x y", "y²"]
    assert len(library(variables(tuple("abcde"), tuple("abcde")), None, None)) == 56


def test_periodic_inputs_have_waves_that_fit_into_their_period():
    owner = variables(("angle", "v"), ("v",), np.array([[0.0, 0.0], [2 * np.pi, 0.0]]))
    found = {term.name: term for term in library(owner, None, 2)}
    assert {"sin(angle)", "cos(2 angle)", "v cos(angle)", "v²"} <= set(found)
    assert "angle" not in found
    x = np.random.default_rng(0).normal(size=(5, 2))
    turned = x + np.array([2 * np.pi, 0.0])
    for term in found.values():
        np.testing.assert_allclose(term(turned), term(x), atol=1e-12)


@pytest.mark.parametrize(
    ("text", "name"),
    [("x^2 y", "x² y"), ("x*y**3", "x y³"), ("y x", "x y"), ("x²", "x²"), ("sin(2*x) y", "y sin(2 x)"), ("1", "1")],
)
def test_terms_are_read_from_strings(text, name):
    x = np.array([[0.3, -1.2]])
    term = parsed(text, variables())
    python = {"x² y": 0.09 * -1.2, "x y³": 0.3 * (-1.2) ** 3, "x y": -0.36, "x²": 0.09, "1": 1.0}
    assert term.name == name
    np.testing.assert_allclose(term(x), python.get(name, -1.2 * np.sin(0.6)))


# The choice


def score(G, M, places, price):
    places = list(places)
    if not places:
        return 0.0
    return 0.5 * M[places] @ np.linalg.solve(G[np.ix_(places, places)], M[places]) - price * len(places)


@pytest.mark.parametrize("seed", range(8))
def test_the_moves_find_the_best_of_all_subsets(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 1))
    phi = np.concatenate([x**k for k in range(5)] + [np.sin(x), np.abs(x), rng.normal(size=(400, 1))], axis=1)
    y = 0.4 * x[:, 0] - 0.2 * x[:, 0] ** 3 + rng.normal(size=400)
    G, M = phi.T @ phi, phi.T @ y
    price = price_of_term(0.01, 8)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(8), k) for k in range(9))
    best = max(score(G, M, each, price) for each in subsets)
    chosen = choose(G, M, price)
    assert chosen.score == pytest.approx(best, rel=1e-9)
    np.testing.assert_allclose(
        chosen.coefficients, np.linalg.solve(*(G[np.ix_(*[chosen.places] * 2)], M[chosen.places]))
    )


def test_false_terms_are_as_rare_as_promised():
    """Of data sets in which nothing is true, any term is found in at most a share, and not in far fewer.

    1,000 sets at 0.1: their share has a standard error of 0.01. Independent terms reach the promise, correlated ones
    stay below. Chance of a false alarm of this test below 1e-4.
    """
    rng = np.random.default_rng(0)
    for correlation, least in ((0.0, 0.06), (0.9, 0.01)):
        K = 10
        G = np.full((K, K), correlation) + (1 - correlation) * np.eye(K)
        draws = rng.multivariate_normal(np.zeros(K), G, size=1000)
        price = price_of_term(0.1, K)
        share = np.mean([len(choose(G, M, price).places) > 0 for M in draws])
        assert least < share < 0.14


def test_sums_are_the_defining_ones(well):
    data, sde, _ = well
    few = data[:500]
    terms, slots = library(sde, None, 2), slots_of(sde, "covariance")
    sums = summed(few, terms, slots, sde, sde, "euler")
    x, h, dx = few.inputs[:, 0], few.h, few.increments[:, 0]
    f, sigma = sde.drift(few.inputs)[:, 0], sde.covariance(few.inputs)[:, 0, 0]
    phi = np.stack([x**0, x, x**2], axis=1)
    for t, (y, w) in enumerate(((dx / h, h / sigma), ((dx - h * f) ** 2 / h, 1 / (2 * sigma**2)))):
        G = sum(w[n] * np.outer(phi[n], phi[n]) for n in range(500))
        M = sum(w[n] * phi[n] * y[n] for n in range(500))
        np.testing.assert_allclose(sums.G[:, t].sum(axis=0), G)
        np.testing.assert_allclose(sums.M[:, t].sum(axis=0), M)


def test_targets_have_the_variance_that_weights_say():
    """At the true equation w (y − truth)² has mean one, for drift, Σ and σ, also of correlated noise.

    40,000 steps: the standard error is at most 0.02, ten of them are allowed.
    """
    rng = np.random.default_rng(0)
    root = np.array([[0.7, 0.0], [0.5, 0.4]])
    x = rng.normal(size=(40_000, 2))
    data = itofit.Transitions(x, -0.01 * x + 0.1 * rng.normal(size=x.shape) @ root.T, h=0.01)
    sde = itofit.fit(data[:5000], structure="full", correct_step=False, rng=0)
    for noise in ("covariance", "diffusion"):
        y, w, present, _ = targets(data, slots_of(sde, noise), sde, sde, "euler")
        np.testing.assert_allclose(np.mean(w * (y - present) ** 2, axis=0), 1.0, atol=0.2)


# What is found


def test_the_double_well_is_found(well):
    """True coefficients are within 4.5 standard errors; chance of a false alarm 3e-5."""
    _, _, formula = well
    assert names(formula) == {"f_x": ["x", "x³"], "Σ_x": ["1", "x²"]}
    for line, truth in zip(formula.lines.values(), ([1, -1], [0.3, 0.2]), strict=True):
        assert np.all(np.abs(line.coefficients - truth) < 4.5 * line.std)
        assert np.all(line.std < 0.1)
    assert formula.is_short
    assert formula.prediction.verdict != "worse"
    assert "as well as the learned" in str(formula) or "better than the learned" in str(formula)


def test_units_of_the_data_change_coefficients_alone(well):
    data, _, formula = well
    scaled = itofit.Transitions(10 * data.inputs, 10 * data.increments, data.h)
    other = itofit.fit(scaled, rng=0).formula(scaled)
    assert names(other) == names(formula)
    factors = {"f_x": [1, 1e-2], "Σ_x": [1e2, 1]}
    for name, line in other.lines.items():
        expected = formula.lines[name].coefficients * factors[name]
        np.testing.assert_allclose(line.coefficients, expected, rtol=2e-3)


def test_coefficients_are_those_of_the_equation_and_not_of_its_steps():
    """Exact steps of dx = −2x dt + dW over h = 0.1: their mean rate is −1.81 x, their variance 0.82.

    With 60,000 of them errors are 0.03 and 0.006; 4.5 of them are allowed.
    """
    rng = np.random.default_rng(1)
    theta, h = 2.0, 0.1
    x = rng.normal(0, 0.5, 60_000)
    x1 = np.exp(-theta * h) * x + np.sqrt((1 - np.exp(-2 * theta * h)) / (2 * theta)) * rng.normal(size=x.size)
    data = itofit.Transitions.from_pairs(x, x1, h=h)
    formula = itofit.fit(data, rng=0).formula(data)
    assert names(formula) == {"f_x": ["x"], "Σ_x": ["1"]}
    f, sigma = formula.lines.values()
    assert abs(f.coefficients[0] + theta) < 4.5 * f.std[0] < 0.2
    assert abs(sigma.coefficients[0] - 1) < 4.5 * sigma.std[0] < 0.1
    one_step = itofit.fit(data, correct_step=False, rng=0).formula(data)
    assert one_step.lines["f_x"].coefficients[0] == pytest.approx((np.exp(-theta * h) - 1) / h, abs=0.1)
    # a step shows exp(−θh) of a change of θ, and (1 − exp(−2θh))/(2θh) of one of Σ; errors are larger by as much
    shown = np.exp(-theta * h), (1 - np.exp(-2 * theta * h)) / (2 * theta * h)
    ratios = [line.std[0] / one_step.lines[name].std[0] for name, line in formula.lines.items()]
    assert ratios[0] == pytest.approx(1 / shown[0], rel=0.03)
    assert 0.97 / shown[1] < ratios[1] < 1.2 / shown[1]  # that of θ adds to it


@pytest.mark.parametrize("seed", [1, 7])  # in which a false term of Σ would be kept for its coefficient alone
def test_terms_are_as_sure_as_they_must_be_with_the_errors_that_long_steps_leave(seed):
    rng, a = np.random.default_rng(seed), np.exp(-0.4)
    x = rng.normal(size=4000) / np.sqrt(2)
    data = itofit.Transitions.from_pairs(x, a * x + np.sqrt((1 - a**2) / 2) * rng.normal(size=4000), 0.4)
    formula = itofit.fit(data, correct_step=True, rng=0).formula(data, false_alarms=0.3)
    assert names(formula) == {"f_x": ["x"], "Σ_x": ["1"]}
    price = price_of_term(0.3, 2 * len(formula.library))
    for line in formula.lines.values():
        assert (0.5 * (line.coefficients / line.std) ** 2 >= price).all()


@pytest.mark.parametrize(
    ("errors", "verdict", "words"),
    [
        (-3.1, "better", "predicts better than"),
        (1.9, "as well", "predicts as well as"),
        (2.1, "perhaps worse", "may predict worse than"),
        (3.1, "worse", "predicts worse than"),
    ],
)
def test_a_prediction_says_how_sure_it_is(well, errors, verdict, words):
    prediction = well[2].prediction._replace(difference=errors * 0.01, error=0.01)
    formula = replace(well[2], prediction=prediction)
    assert formula.prediction.verdict == verdict
    assert f"\n{words} the learned functions" in str(formula)
    assert formula.is_short == (verdict != "worse")


def test_no_short_formula_is_an_answer():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 20_000)
    step = 0.05 * 2 * np.sin(6 * x) * np.exp(-(x**2)) + 0.1 * rng.normal(size=x.size)
    data = itofit.Transitions(x, step, h=0.05)
    sde = itofit.fit(data, correct_step=False, rng=0)
    formula = sde.formula(data)
    assert not formula.is_short
    assert formula.prediction.verdict == "worse"
    assert formula.lines["f_x"].is_worse
    assert "NO SHORT FORMULA WAS FOUND" in str(formula)
    with_truth = sde.formula(data, terms={"ripple": lambda x: np.sin(6 * x[:, 0]) * np.exp(-(x[:, 0] ** 2))})
    assert with_truth.is_short
    assert names(with_truth)["f_x"] == ["ripple"]


def test_held_out_data_judge(well):
    data, sde, _ = well
    held_out = well_data(seed=5, n_tracks=10)
    formula = sde.formula(data, held_out=held_out)
    rows = np.abs(held_out.inputs - sde.box.mean()) <= np.ptp(sde.box) / 2
    seen = held_out[rows[:, 0]]
    difference = formula.nll(seen, pointwise=True) - sde.one_step.nll(seen, pointwise=True, scheme="euler")
    assert formula.prediction.difference == pytest.approx(difference.mean(), abs=1e-12)
    assert formula.prediction.n == len(seen)
    assert 0.2 < formula.prediction.error / (difference.std() / np.sqrt(len(seen))) < 5
    where = formula.prediction.where
    assert np.nansum(where.share * where.difference) == pytest.approx(difference.mean(), abs=2e-4)


def test_blocks_give_the_same_formula(well):
    data, sde, formula = well
    blocked = itofit.Transitions.from_blocks(lambda: (data[i : i + 7000] for i in range(0, len(data), 7000)))
    other = sde.formula(blocked)
    for one, two in zip(formula.lines.values(), other.lines.values(), strict=True):
        np.testing.assert_array_equal(one.coefficients, two.coefficients)
    assert other.prediction.difference == formula.prediction.difference


def test_covariates_angles_and_velocities():
    """A driven pendulum: dv = (−sin θ − 0.5 v + u) dt + 0.3 dW. Chance of a false alarm below 1e-3."""
    rng = np.random.default_rng(0)
    h, n = 0.05, 20_000
    angle, v, u = rng.uniform(0, 2 * np.pi, n), rng.normal(size=n), rng.normal(size=n)
    kick = h * (-np.sin(angle) - 0.5 * v + u) + 0.3 * np.sqrt(h) * rng.normal(size=n)
    data = itofit.Transitions(
        np.stack([angle, v], axis=1), kick, h, kind="underdamped", input_names=["angle", "v"],
        covariates=u, covariate_names="u", periodic={"angle": 2 * np.pi},
    )  # fmt: skip
    formula = itofit.fit(data, correct_step=False, rng=0).formula(data, degree=2)
    assert names(formula) == {"f_v": ["sin(angle)", "v", "u"], "Σ_v": ["1"]}
    line = formula.lines["f_v"]
    assert np.all(np.abs(line.coefficients - [-1.0, -0.5, 1.0]) < 5 * line.std)
    paths = formula.simulate([[1.0, 0.0]], dt=h, n_steps=20, covariates=[0.5], rng=0)
    assert paths.shape == (1, 21, 2)
    x = data.inputs[:50]
    expected = np.stack([-np.cos(x[:, 0]), 0 * x[:, 0] - 0.5, 0 * x[:, 0] + 1], axis=1)
    np.testing.assert_allclose(formula.drift_jacobian(x)[:, 0], expected, atol=0.1)


# The formula is an equation


def test_a_formula_evaluates_simulates_and_is_judged(well):
    data, sde, formula = well
    x = np.linspace(-1, 1, 7)
    (a, b), (c, d) = (line.coefficients for line in formula.lines.values())
    np.testing.assert_allclose(formula.drift(x)[:, 0], a * x + b * x**3)
    np.testing.assert_allclose(formula.covariance(x)[:, 0, 0], c + d * x**2)
    np.testing.assert_allclose(formula.drift_jacobian(x)[:, 0, 0], a + 3 * b * x**2)
    _, std = formula.drift(x, return_std=True)
    phi = np.stack([x, x**3], axis=1)
    np.testing.assert_allclose(std[:, 0] ** 2, np.sum(phi @ formula.lines["f_x"].covariance * phi, axis=1))
    assert formula.scheme == sde.scheme
    assert abs(formula.nll(data) - sde.nll(data)) < 1e-3
    assert formula.simulate(x, dt=0.05, n_steps=10, rng=0).shape == (7, 11, 1)
    assert itofit.check(formula, data).worst == "good"
    assert itofit.plot.drift(formula, data) is not None
    low, high = formula.variance_interval(x)
    assert np.all(low < formula.covariance(x)[:, 0])
    assert np.all(formula.covariance(x)[:, 0] < high)


def test_drawn_formulas_spread_as_the_errors_say(well):
    """False-alarm rate: that a standard deviation of 400 draws is off by 20 % has a probability of 1e-8."""
    _, _, formula = well
    x = np.linspace(-1.4, 1.4, 6)
    drawn = formula.sample(400, rng=0)
    drifts, sigmas = drawn.drift(x), drawn.covariance(x)
    assert drifts.shape == (400, 6, 1)
    np.testing.assert_allclose(drifts.std(axis=0), formula.drift(x, return_std=True)[1], rtol=0.2)
    np.testing.assert_allclose(sigmas.std(axis=0), formula.covariance(x, return_std=True)[1], rtol=0.2)
    np.testing.assert_allclose(drawn[3].drift(x), drifts[3])
    np.testing.assert_allclose(drawn[3].covariance(x), sigmas[3])
    own = drawn.drift_at_own(x.reshape(1, 6, 1) + 0.01 * np.arange(400)[:, None, None])
    np.testing.assert_allclose(own[7], drawn[7].drift(x + 0.07))
    assert names(drawn[0]) == names(formula)
    assert len(drawn[:5]) == 5
    assert repr(drawn) == "SampledFormulas(400 times the terms of Formula(4 terms in 2 lines))"
    np.testing.assert_array_equal(formula.sample(2, rng=1).drift(x), formula.sample(2, rng=1).drift(x))
    with pytest.raises(InputError, match="n must be a whole number >= 1, got 0"):
        formula.sample(0)


def test_answers_of_a_formula_have_error_bars(well):
    """The well at √(a/b) of a x − b x³ is as far off as a and b are."""
    _, _, formula = well
    points = itofit.dynamics.fixed_points(formula, samples=400, rng=0)
    (a, b), C = formula.lines["f_x"].coefficients, formula.lines["f_x"].covariance
    slope = 0.5 * np.sqrt(-a / b) * np.array([1 / a, -1 / b])
    assert points.std[2, 0] == pytest.approx(np.sqrt(slope @ C @ slope), rel=0.2)
    assert points.std[1, 0] == 0  # without a constant, all of them have it at zero
    assert "x = 0: unstable" in str(points)
    time = itofit.dynamics.first_passage_time(formula, -1, 1, samples=20, rng=0)
    low, high = time.interval()
    assert low < time.value < high


def test_sigma_on_demand():
    """dx = −x dt + (0.5 + 0.4 x²) dW: σ is a short sum, and Σ its square."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.5, 1.5, 30_000)
    step = -0.02 * x + np.sqrt(0.02) * (0.5 + 0.4 * x**2) * rng.normal(size=x.size)
    data = itofit.Transitions(x, step, h=0.02)
    formula = itofit.fit(data, correct_step=False, rng=0).formula(data, noise="diffusion")
    line = formula.lines["σ_x"]
    assert names(formula)["σ_x"] == ["1", "x²"]
    assert np.all(np.abs(line.coefficients - [0.5, 0.4]) < 4.5 * line.std)
    z = np.array([0.0, 1.0])
    np.testing.assert_allclose(formula.covariance(z)[:, 0, 0], line(z[:, None]) ** 2)
    sigma, std = formula.covariance(z, return_std=True)
    np.testing.assert_allclose(std[:, 0, 0], 2 * np.sqrt(sigma[:, 0, 0]) * line.spread(z[:, None]))


def test_covariance_stays_positive_definite():
    """A truth whose parabola is negative at the edge: it is clipped there, with a note."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    step = 0.1 * np.sqrt(1 / (1 + x**2)) * rng.normal(size=x.size)
    data = itofit.Transitions(x, step, h=0.01)
    formula = itofit.fit(data, correct_step=False, rng=0).formula(data, degree=2)
    assert formula.covariance([3.0], raw=True)[0, 0, 0] < 0
    assert formula.covariance([3.0])[0, 0, 0] > 0
    assert formula.floored([3.0, 0.0]).tolist() == [True, False]
    assert 0 < formula.clipped_share < 1
    assert "kept positive definite" in str(formula)


# In words


def test_numbers_are_rounded_to_their_errors():
    assert number(1.23456, 0.012)[:3] == ("1.235", "0.012", 0)
    assert number(-3.2e-7, 1.1e-8) == ("3.20", "0.11", -7, True)
    assert number(123456.0, 2345.0)[:3] == ("1.235", "0.023", 5)


def test_text_latex_and_sympy(well):
    sympy = pytest.importorskip("sympy")
    data, sde, formula = well
    with_units = sde.formula(data, units={"x": "µm"}, time_unit="s")
    assert "µm⁻² s⁻¹ x³" in str(with_units)
    assert "µm² s⁻¹ +" in str(with_units)
    assert "± 0.0" in str(formula).splitlines()[1]
    assert formula.latex().startswith("\\begin{aligned}\nf_{x} &= (")
    assert "x^{3}" in formula.latex()
    assert r"\mathrm{\mu m^{-2}\,s^{-1}}" in with_units.latex()
    equation = formula.sympy()
    at = equation.drift.subs({equation.symbols[0]: 0.5})
    np.testing.assert_allclose(float(at[0]), formula.drift([0.5])[0, 0])
    derivative = sympy.diff(equation.drift[0], equation.symbols[0]).subs({equation.symbols[0]: 0.5})
    np.testing.assert_allclose(float(derivative), formula.drift_jacobian([0.5])[0, 0, 0])
    assert latex_name("x1") == "x_{1}"
    assert latex_name("theta") == r"\theta"
    assert latex_name("log_VIX") == r"\mathrm{log\_VIX}"


def test_intervals_are_normal(well):
    _, _, formula = well
    low, high = formula.interval(0.95)["f_x", "x"]
    line = formula.lines["f_x"]
    np.testing.assert_allclose([low, high], line.coefficients[0] + np.array([-1, 1]) * 1.959964 * line.std[0])


# Keeping


def test_a_saved_formula_is_the_same(well, tmp_path):
    data, sde, formula = well
    formula.save(tmp_path / "formula.npz")
    other = itofit.load_formula(tmp_path / "formula.npz")
    assert str(other) == str(formula)
    np.testing.assert_array_equal(other.drift(data.inputs[:9]), formula.drift(data.inputs[:9]))
    np.testing.assert_array_equal(other.prediction.where.difference, formula.prediction.where.difference)
    with pytest.raises(ModelFileError, match="holds a formula"):
        itofit.load(tmp_path / "formula.npz")
    sde.save(tmp_path / "sde.npz")
    with pytest.raises(ModelFileError, match="holds no formula"):
        itofit.load_formula(tmp_path / "sde.npz")


def test_functions_of_the_user_are_asked_for_again(well, tmp_path):
    data, sde, _ = well

    def own(x):
        return x[:, 0] - x[:, 0] ** 3

    formula = sde.formula(data, terms={"pull": own}, degree=0)
    assert names(formula)["f_x"] == ["pull"]
    formula.save(tmp_path / "formula.npz")
    with pytest.raises(InputError, match=r"give functions=\{'pull'"):
        itofit.load_formula(tmp_path / "formula.npz")
    other = itofit.load_formula(tmp_path / "formula.npz", {"pull": own})
    np.testing.assert_array_equal(other.drift([0.3]), formula.drift([0.3]))
    np.testing.assert_allclose(
        formula.drift_jacobian([0.3])[0, 0, 0], formula.lines["f_x"].coefficients[0] * (1 - 3 * 0.3**2), rtol=1e-6
    )


def test_a_damaged_file_is_told(well, tmp_path):
    _, _, formula = well
    formula.save(tmp_path / "formula.npz")
    content = dict(np.load(tmp_path / "formula.npz"))
    content["0.coefficients"] = np.array([np.nan, 1.0])
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(ModelFileError, match="coefficients must be finite"):
        itofit.load_formula(tmp_path / "bad.npz")
    plain = json.loads(str(content["metadata"]))
    plain["formula"]["lines"][0]["terms"][0]["powers"] = [10**6]
    np.savez(
        tmp_path / "bad.npz", **dict(np.load(tmp_path / "formula.npz")) | {"metadata": np.array(json.dumps(plain))}
    )
    with pytest.raises(ModelFileError, match="powers"):
        itofit.load_formula(tmp_path / "bad.npz")


# Surfaces


def test_pictures_and_report(well, tmp_path):
    data, sde, formula = well
    figure = formula.plot(sde, data)
    assert len(figure.axes) == 3
    assert len(formula.plot().axes) == 1
    matplotlib.pyplot.close("all")
    itofit.report(sde, data[:2000], tmp_path / "page.html", formula=formula)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The formula" in page
    assert page.index("The formula") < page.index("What was learned")
    with pytest.raises(InputError, match=r"formula must be what sde\.formula returns, True or False"):
        itofit.report(sde, data[:2000], tmp_path / "page.html", formula="x - x^3")


def test_the_command_finds_prints_and_saves(well, tmp_path):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from itofit.cli import app

    data, sde, _ = well
    sde.save(tmp_path / "sde.npz")
    with open(tmp_path / "data.csv", "w") as file:
        file.write("track,t,x\n")
        for group in range(40):
            rows = data.inputs[data.groups == group][:, 0]
            file.writelines(f"{group},{0.05 * i:.2f},{value!r}\n" for i, value in enumerate(rows.tolist()))
    arguments = ["formula", str(tmp_path / "sde.npz"), str(tmp_path / "data.csv")]
    runner = CliRunner()
    told = runner.invoke(app, [*arguments, "-o", str(tmp_path / "f.npz"), "--units", "x=mm,time=s", "--terms", "x^5"])
    assert told.exit_code == 0, told.output
    assert "f_x = (" in told.output
    assert "mm² s⁻¹" in told.output
    found = json.loads(runner.invoke(app, [*arguments, "--json"]).output)
    assert found["lines"]["f_x"]["terms"] == ["x", "x³"]
    assert found["short"]
    out = tmp_path / "paths.csv"
    moved = runner.invoke(app, ["simulate", str(tmp_path / "f.npz"), "-o", str(out), "--start", "0", "--dt", "0.05"])
    assert moved.exit_code == 0, moved.output
    wrong = runner.invoke(app, [*arguments, "--terms", "tanh(x)"])
    assert wrong.exit_code == 2
    assert "cannot be read" in wrong.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terms": {"f": lambda x: x[:3, 0]}}, r"'f' must return real numbers of shape \(3000,\)"),
        ({"terms": {"f": lambda x: np.stack([x, x], axis=1)}}, "'f' must return real numbers"),
        ({"terms": {"f": lambda x: np.log(np.where(x[:, 0] > 0.5, x[:, 0], np.nan))}}, "'f' is not finite at"),
        ({"terms": ["x^5", "x**5"]}, "holds 'x⁵' twice"),
        ({"terms": {"copy": lambda x: 2 * x[:, 0]}}, "'copy' is a combination of 'x'"),
        ({"terms": {"x": lambda x: x[:, 0]}}, "'x' is a term already"),
        ({"terms": ["z^2"]}, "cannot be read at 'z"),
        ({"terms": [3]}, "terms must be products as strings"),
        ({"degree": -1}, "degree must be a whole number >= 0"),
        ({"noise": "sigma"}, "noise must be one of"),
        ({"false_alarms": 0.0}, "false_alarms must be a number > 0"),
        ({"units": {"z": "m"}}, "there is no variable 'z'"),
        ({"units": "m"}, "units must be a dict"),
    ],
)
def test_bad_input_is_told(well, options, message):
    data, sde, _ = well
    with pytest.raises(InputError, match=message):
        sde.formula(data[:3000], **options)


def test_bad_data_are_told(well):
    data, sde, _ = well
    with pytest.raises(InputError, match="formula needs Transitions"):
        sde.formula(data.inputs)
    with pytest.raises(InputError, match="needs at least 50 transitions"):
        sde.formula(data[:20])


def test_far_from_zero_the_degree_is_lowered(well):
    """Around 10⁶ powers cannot be told from each other: fewer are tried, unless the user asks for them."""
    data, _, _ = well
    far = itofit.Transitions(data.inputs + 1e6, data.increments, data.h)
    sde = itofit.fit(far, correct_step=False, rng=0)
    assert len(sde.formula(far).library) < 5
    with pytest.raises(InputError, match="measure variables from their mean"):
        sde.formula(far, degree=4)


def test_the_check_of_a_formula_that_is_too_short_says_so(well):
    data, sde, _ = well
    short = sde.formula(data, degree=1)
    place = itofit.check(short, data)["place"]
    assert place.verdict == "bad"
    assert place.advice.startswith("The formula is too short: find it with a higher degree or other terms, or use the")
    assert place.advice.count("The formula is too short") == 1
