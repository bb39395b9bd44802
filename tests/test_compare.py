"""Two conditions compared: tests that hold their level, bands that hold all draws, words, pictures and errors."""

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import itofit
from itofit import InputError, Transitions
from itofit.cli import app
from itofit.looking.compare.compared_answers import AnswerDifference
from itofit.looking.compare.comparison import simultaneous_band
from itofit.looking.compare.condition_test import Drawn, Polynomials, _spread_by_drift, condition_tests
from itofit.model.finite_step import moments_of_step
from itofit.model.known import KnownSDE


def known(drift=1.0, noise=0.25):
    return KnownSDE(f=lambda x: drift * (x - x**3), sigma=lambda x: np.full((len(x), 1, 1), np.sqrt(noise)))


def steps(rng, n, drift=1.0, noise=0.25, h=0.05):
    x = rng.normal(size=(n, 1))
    return Transitions.from_pairs(x, x + h * drift * (x - x**3) + np.sqrt(h * noise) * rng.normal(size=(n, 1)), h)


def relaxing(rng, rate, n, h):
    """Exact steps of dx = −rate x dt + dW."""
    x = rng.normal(size=(n, 1))
    decay = np.exp(-rate * h)
    return Transitions.from_pairs(x, decay * x + np.sqrt((1 - decay**2) / (2 * rate)) * rng.normal(size=(n, 1)), h)


@pytest.fixture(scope="module")
def conditions():
    """Data and models of a control, of the same again, and of a treatment that doubles the drift."""
    rng = np.random.default_rng(0)
    data = [steps(rng, 3000), steps(rng, 3000), steps(rng, 3000, drift=2.0)]
    return data, [itofit.fit(own, rng=0) for own in data]


def test_the_distance_is_that_of_two_weighted_regressions():
    rng = np.random.default_rng(1)
    a, b = known(1.0, 0.2), known(1.2, 0.3)
    data = steps(rng, 400), steps(rng, 500)
    drift, _ = condition_tests(a, b, *data)
    x = np.concatenate([own.inputs for own in data])
    basis = Polynomials(x.mean(axis=0), 2 * x.std(axis=0), np.zeros((2, 1)), 3)
    coefficients, covariances = [], []
    for own, noise in zip(data, (0.2, 0.3), strict=True):
        phi = basis(own.inputs)
        left = own.increments[:, 0] - own.h * 1.1 * (own.inputs - own.inputs**3)[:, 0]
        design = phi * np.sqrt(own.h)[:, None]
        solve = np.linalg.pinv(design)
        coefficients.append(solve @ (left / np.sqrt(own.h)))
        covariances.append(noise * solve @ solve.T)
    d = coefficients[0] - coefficients[1]
    expected = d @ np.linalg.solve(sum(covariances), d)
    assert drift.statistic == pytest.approx(expected, rel=1e-9)
    assert drift.n_coefficients == 4
    assert drift.p == pytest.approx(stats.chi2.sf(expected, 4), rel=1e-9)


def test_both_tests_hold_their_level():
    """Of p-values of one equation, Kolmogorov's test at 0.1 % (it fails once in a thousand seeds, for each)."""
    rng = np.random.default_rng(2)
    pairs = [condition_tests(known(), known(), steps(rng, 300), steps(rng, 200)) for _ in range(300)]
    for which in (0, 1):
        assert stats.kstest([pair[which].p for pair in pairs], "uniform").pvalue > 0.001


def test_a_steeper_drift_is_no_other_noise():
    """Over a step h a steeper drift makes less of the same noise: 5 % here, ten standard errors if it counted."""
    rng = np.random.default_rng(3)

    data = relaxing(rng, 1.0, 100_000, 0.1), relaxing(rng, 1.5, 100_000, 0.1)
    models = [itofit.fit(own, rng=0) for own in data]
    comparison = itofit.compare(*models, *data)
    assert comparison.drift_differs
    assert not comparison.noise_differs


def test_errors_of_a_drift_count_as_they_change_what_steps_make_of_noise():
    """Against the moments of steps of each drawn drift, which relax by a fifth within a step."""
    rng = np.random.default_rng(6)
    data = relaxing(rng, 2.0, 2000, 0.1), relaxing(rng, 2.0, 2000, 0.05)
    models = [itofit.fit(own, correct_step=True, rng=0) for own in data]
    draws = models[0].sample(100, rng=0)
    basis = Polynomials(np.zeros(1), np.full(1, 2.0), np.zeros((2, 1)), 2)
    found = _spread_by_drift(tuple(models), 0, draws, data[0], basis)
    rows = data[0]
    own, other = (sde.covariance(rows.inputs)[:, 0, 0] for sde in models)
    phi, coefficients = basis(rows.inputs), []
    as_learned = models[0]._moments(rows.inputs, rows.h, "corrected")[1][:, 0, 0]
    for drawn in draws:
        step = moments_of_step(rows.inputs, rows.h, drawn.drift, models[0].covariance, underdamped=False)
        products = own * as_learned / step.covariance[:, 0, 0] / (0.5 * (own + other))
        coefficients.append(np.linalg.lstsq(phi, products, rcond=None)[0])
    expected = np.cov(np.transpose(coefficients))
    np.testing.assert_allclose(np.sqrt(np.diagonal(found)), np.sqrt(np.diagonal(expected)), rtol=0.25)
    known_drifts = condition_tests(*models, *data)[1]
    drawn = tuple(Drawn(sde.sample(100, rng=0), own) for sde, own in zip(models, data, strict=True))
    uncertain = condition_tests(*models, *data, drawn)[1]
    assert uncertain.statistic < known_drifts.statistic


def test_blocks_give_what_memory_gives(conditions):
    (a, _, b), (sde_a, _, sde_b) = conditions

    def in_blocks(data):
        parts = [(part.inputs, part.increments, part.h) for part in (data[:1000], data[1000:])]
        return Transitions.from_blocks(parts, form="increments", kind="diffusion")

    blocked = in_blocks(a), in_blocks(b)
    one, other = itofit.compare(sde_a, sde_b, a, b), itofit.compare(sde_a, sde_b, *blocked)
    assert one.drift_test.p == pytest.approx(other.drift_test.p, rel=1e-6)
    assert one.noise_test.p == pytest.approx(other.noise_test.p, rel=1e-6)


def test_a_treatment_is_found_and_a_repetition_is_not(conditions):
    (control, again, treated), (a, same, b) = conditions
    comparison = itofit.compare(a, b, control, treated, names=("control", "treated"))
    assert comparison.drift_differs
    assert comparison.drift.excludes(0.0).any()
    assert "Drift: they differ" in str(comparison)
    assert repr(comparison) == "Comparison(control, treated: drifts differ)"
    assert not itofit.compare(a, same, control, again).differs


def test_without_data_the_bands_decide(conditions):
    _, (a, same, b) = conditions
    comparison = itofit.compare(a, b)
    assert comparison.drift_test is None
    assert comparison.drift_differs
    assert "Not tested: give the data of both conditions" in str(comparison)
    assert not itofit.compare(a, same).differs


def test_bands_hold_whole_draws():
    rng = np.random.default_rng(4)
    draws = np.cumsum(rng.normal(size=(2000, 30, 2)), axis=1)
    band = simultaneous_band(np.zeros((30, 2)), draws, 0.1)
    within = ((draws - draws.mean(axis=0) >= band.low) & (draws - draws.mean(axis=0) <= band.high)).all(axis=(1, 2))
    assert within.mean() == pytest.approx(0.9, abs=0.001)


def test_answers_are_compared(conditions):
    _, (a, _, b) = conditions
    comparison = itofit.compare(a, b, answers={"slope": lambda sde: float(sde.drift([0.3])[0, 0])})
    (slope,) = comparison.answers
    assert slope.difference == slope.b - slope.a
    assert "slope" in str(comparison)

    class Answer:
        value, std = 3.0, 0.4

    found = AnswerDifference.of("time", Answer(), Answer(), 0.05)
    assert found.std == pytest.approx(0.4 * np.sqrt(2))
    assert found.interval[1] == pytest.approx(1.96 * found.std, rel=1e-4)
    with pytest.raises(InputError, match="the answer 'vector' must be one number"):
        itofit.compare(a, b, answers={"vector": lambda sde: sde.drift([0.1, 0.2])})
    with pytest.raises(InputError, match="answers must be a dictionary of functions by their names, or True"):
        itofit.compare(a, b, answers=["slope"])
    with pytest.raises(InputError, match="answers must be functions of a model, got int for 'slope'"):
        itofit.compare(a, b, answers={"slope": 3})


def test_plain_numbers_are_computed_for_samples_too(conditions):
    """Also one of NumPy, whose method called std is none of its error bars."""
    _, (a, _, b) = conditions
    (value,) = itofit.compare(a, b, answers={"drift": lambda sde: sde.drift([0.3])[0, 0]}).answers
    std = np.hypot(*(sde.drift([0.3], return_std=True)[1][0, 0] for sde in (a, b)))
    assert value.std == pytest.approx(std, rel=0.3)  # of 50 draws each, four of its standard errors
    (slope,) = itofit.compare(a, b, answers={"slope": lambda sde: sde.drift_jacobian([0.3])[0, 0, 0]}).answers
    assert np.isnan(slope.std)  # drawn equations have no such method
    assert value.text(0.05).startswith(f"{value.difference:+.4g} ± {value.std:.2g} (95 % interval")


def test_the_usual_answers_are_compared(conditions):
    _, (a, same, b) = conditions
    found = {own.name: own for own in itofit.compare(a, b, answers=True).answers}
    assert {"number of stable points", "x of point 1, stable", "slowest relaxation time", "time from point 1 to 3"} <= (
        set(found)
    )
    low, high = found["slowest relaxation time"].interval
    assert low < found["slowest relaxation time"].difference < high
    none = itofit.compare(a, same, answers=True).answers
    assert all(own.interval[0] < 0 < own.interval[1] for own in none if own.std > 0)
    text = str(itofit.compare(a, b, answers=True, names=("control", "treated")))
    assert "control" in text.splitlines()[-len(found) - 1]


def test_what_one_condition_alone_has_is_left_out():
    """Two wells, and one: their points cannot be paired, but relaxation can be compared."""
    rng = np.random.default_rng(3)
    one = itofit.fit(relaxing(rng, 1.0, 3000, 0.05), rng=0)
    two = itofit.fit(steps(rng, 3000, drift=2.0), rng=0)
    found = {own.name: own for own in itofit.compare(one, two, answers=True).answers}
    assert set(found) == {"number of stable points", "slowest relaxation time"}
    assert found["number of stable points"].difference == 1
    assert found["number of stable points"].text(0.05) == "+1"


def test_errors_name_what_differs(conditions):
    (control, _, _), (a, _, b) = conditions
    rng = np.random.default_rng(5)
    far = steps(rng, 200)
    moved = itofit.fit(Transitions.from_pairs(far.inputs + 100, far.inputs + 100 + far.increments, 0.05), rng=0)
    with pytest.raises(InputError, match="no range in common along x"):
        itofit.compare(a, moved)
    other = itofit.fit(Transitions.from_pairs(far.inputs, far.inputs + far.increments, 0.05, names=["y"]), rng=0)
    with pytest.raises(InputError, match="both models must be of the same variables"):
        itofit.compare(a, other)
    with pytest.raises(InputError, match="a must be a LearnedSDE"):
        itofit.compare(control, b)
    with pytest.raises(InputError, match="samples must be at least 20"):
        itofit.compare(a, b, samples=3)
    with pytest.raises(InputError, match="names must be two"):
        itofit.compare(a, b, names="ab")


def test_pictures_of_one_and_of_two_inputs(conditions):
    _, (a, _, b) = conditions
    assert len(itofit.compare(a, b).plot().axes) == 4
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2, 300, 2))
    models = [
        itofit.fit(Transitions.from_pairs(own, 0.9 * own + 0.1 * rng.normal(size=own.shape), 0.1), rng=0) for own in x
    ]
    comparison = itofit.compare(*models)
    assert len(comparison.plot().axes) == 8
    assert comparison.picture("svg").startswith(b"<?xml")


def test_the_command(conditions, tmp_path):
    (control, _, treated), (a, _, b) = conditions
    for name, sde, data in (("control", a, control), ("treated", b, treated)):
        sde.save(tmp_path / f"{name}.npz")
        np.savez(tmp_path / f"{name}_data.npz", x0=data.inputs, x1=data.inputs + data.increments, h=data.h)
    files = [str(tmp_path / name) for name in ("control.npz", "treated.npz", "control_data.npz", "treated_data.npz")]
    picture = tmp_path / "picture.png"
    result = CliRunner().invoke(app, ["compare", *files, "-o", str(picture)])
    assert result.exit_code == 0, result.output
    assert "treated compared with control" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    machine = CliRunner().invoke(app, ["compare", *files, "--json"])
    assert json.loads(machine.output)["drift_differs"] is True
    wrong = CliRunner().invoke(app, ["compare", *files[:3]])
    assert "give the data of both conditions, or of none" in wrong.output
    assert "must end in .png" in CliRunner().invoke(app, ["compare", *files, "-o", "x.txt"]).output
