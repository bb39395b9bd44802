"""The automatic fit as a whole: what it finds, what it keeps its hands off, and its records."""

import functools
import warnings

import numpy as np
import pytest

import itofit
from itofit import ARFF, InputError, Transitions, fit
from itofit.learning.automatic.search import search
from itofit.matrices.links import LINKS
from itofit.model.summary import candidates_text
from itofit.model.training import SWITCHED_OFF, Candidate


def system(n=800, seed=0, m=2, correlation=0.0, varying=0.0, h=None, rotation=2.0):
    """Transitions of dx = -2x dt + (0.5 + varying x) dW, with irregular steps."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (n, m)), rng.normal(size=(n, m))
    h = rng.uniform(0.01, 0.05, n) if h is None else np.full(n, h)
    z[:, -1] = correlation * z[:, 0] + np.sqrt(1 - correlation**2) * z[:, -1] if m > 1 else z[:, -1]
    return Transitions(x, -rotation * x * h[:, None] + np.sqrt(h)[:, None] * z * (0.5 + varying * x), h)


def scaled(data, unit):
    return Transitions(data.inputs, data.increments * unit, data.h, data.groups)


@functools.cache
def separable(seed):
    """A fit to `system` of that seed."""
    return fit(system(seed=seed), rng=seed)


def of_one_step(data, **options):
    """A fit to data whose steps are Euler steps, or whose inputs and increments do not belong together."""
    return fit(data, correct_step=False, **options)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def assert_positive_definite(sde, n=10_000, times=2.0, seed=0):
    """At n points of a box `times` as large as that of the data."""
    centre, size = sde.box.mean(axis=0), np.ptp(sde.box, axis=0)
    x = centre + times * size * np.random.default_rng(seed).uniform(-0.5, 0.5, (n, sde.n_inputs))
    sigma = sde.covariance(x)
    np.testing.assert_array_equal(sigma, sigma.swapaxes(1, 2))
    np.linalg.cholesky(sigma)
    assert np.isfinite(sde.drift(x)).all()


# What it finds


def test_each_drift_depends_on_its_own_input_in_a_separable_problem():
    # an output is put on all inputs together in about one of five (11 of 60 for other seeds); at that rate 7 or
    # more of 12 have probability 2e-3
    own = 0
    for seed in range(6):
        sde = separable(seed)
        words = [sde.drift_function.training.depends_on(j, sde.input_names) for j in range(2)]
        assert words[0] not in (None, "x2 alone")
        assert words[1] not in (None, "x1 alone")
        jacobian = sde.drift_jacobian(np.random.default_rng(1).uniform(-0.9, 0.9, (50, 2)))
        for j, word in enumerate(words):
            if word.startswith(f"x{j + 1} alone"):
                own += 1
                assert np.abs(jacobian[:, j, 1 - j]).max() < 0.6  # a linear term may be small, and is never zero
    assert own > 5


def test_a_constant_noise_is_found_to_be_constant():
    # it is taken to vary in one of six (5 of 30 for other seeds); at that rate 5 or more of 6 have probability 7e-4
    n_constant = 0
    for seed in range(6):
        sde = separable(seed)
        sigma = sde.covariance(np.random.default_rng(1).uniform(-1, 1, (50, 2)))
        if sde.covariance_function.training.n_features:
            continue
        n_constant += 1
        assert np.ptp(sigma, axis=0).max() == 0
        # √(2 / 800) of 0.25 is 0.0125: five standard errors, one false alarm in 10^6
        np.testing.assert_allclose(sigma[0], 0.25 * np.eye(2), atol=5 * 0.0125)
    assert n_constant > 1


@pytest.mark.parametrize("seed", range(3))
def test_correlated_noise_is_learned_in_full(seed):
    # a correlation of 0.6 among 800 is seventeen standard errors
    sde = fit(system(correlation=0.6, seed=seed), rng=seed)
    assert sde.structure == "full"
    assert sde.covariance(np.zeros((1, 2)))[0, 0, 1] == pytest.approx(0.15, abs=0.06)


def test_uncorrelated_noise_is_learned_as_diagonal():
    # off-diagonal entries are tried with probability 0.01 and kept less often: 2 or more of 8 have probability 3e-3
    structures = [fit(system(seed=seed, n=400), rng=seed).structure for seed in range(8)]
    assert structures.count("full") < 2


def test_noise_that_depends_on_the_state_is_found():
    sde = fit(system(n=3000, varying=0.3), rng=0)
    x = np.random.default_rng(1).uniform(-0.9, 0.9, (200, 2))
    sigma = np.diagonal(sde.covariance(x), axis1=1, axis2=2)
    assert rms(sigma / (0.5 + 0.3 * x) ** 2 - 1) < 0.2
    assert sde.structure == "diagonal"


def test_weights_improve_on_the_drift_where_the_noise_varies():
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, 2000)
        sigma = np.exp(3 * x)
        data = Transitions(x, np.sin(3 * x) * 0.1 + sigma * np.sqrt(0.1) * rng.normal(size=2000), 0.1)
        # in units of the noise, as the likelihood sees it: most of it where the noise is weak
        errors = [rms((fit(data, rng=0, weight_drift=w).drift(x)[:, 0] - np.sin(3 * x)) / sigma) for w in (True, False)]
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 0.5


def test_drift_error_falls_like_one_over_the_root_of_n():
    x = np.linspace(-0.9, 0.9, 50)
    sizes = [500, 4000, 32_000]  # all of them; on a grid
    errors = [
        np.exp(
            np.mean(
                [np.log(rms(of_one_step(system(n, s, m=1, h=0.05), rng=s).drift(x)[:, 0] + 2 * x)) for s in range(8)]
            )
        )
        for n in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # a mean of eight logarithms of errors is known to about 0.2; the slope, over two decades, to 0.07: four of those
    assert -0.8 < slope < -0.2


def test_residuals_of_other_folds_make_the_covariance_unbiased():
    """With few data and many amplitudes, residuals of the own drift are too small."""
    wiggly = ARFF(n_features=24, ridge=1e-6, max_iterations=0)
    found = {True: [], False: []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        for seed in range(8):
            for cross_fit, means in found.items():
                sde = fit(system(100, seed, m=1), drift=wiggly, cross_fit=cross_fit, structure="full", rng=seed)
                means.append(sde.floor_factor.item() ** 2)
    # about eight of a hundred residuals' freedom are used; eight seeds know the mean to 5 %, paired far better
    assert np.mean(found[False]) < 0.96 * np.mean(found[True])
    assert np.mean(found[True]) > 0.25 * (1 - 3 * np.sqrt(2 / 800))


# What does not matter


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (system(varying=0.3, correlation=0.5), {}),
        (system(6000, m=1, varying=0.3), {}),
        (system(600, m=2), {"drift": ARFF(search_rows=200)}),
    ],
    ids=["all", "gathered", "subset"],
)
def test_streamed_data_give_the_same_as_data_in_memory(data, how):
    def source():
        for start in range(0, len(data), 173):
            yield data[start : start + 173]

    here, there = fit(data, rng=2, **how), fit(Transitions.from_blocks(source, "increments"), rng=2, **how)
    x = data.inputs[:100]
    np.testing.assert_allclose(there.drift(x), here.drift(x), rtol=1e-9)
    np.testing.assert_allclose(there.covariance(x), here.covariance(x), rtol=1e-9)
    assert there.searched_on == here.searched_on


def test_groups_in_blocks_give_the_same_as_in_memory():
    rng = np.random.default_rng(0)
    data = system(500, varying=0.3)
    data = Transitions(data.inputs, data.increments, data.h, rng.integers(0, 12, 500).astype(str))
    blocks = Transitions.from_blocks([data[:77], data[77:300], data[300:]], "increments")
    np.testing.assert_allclose(fit(blocks, rng=0).drift(data.inputs), fit(data, rng=0).drift(data.inputs), rtol=1e-9)


def test_same_seed_same_result_and_another_seed_another():
    data = system(400, varying=0.3)
    first, again, other = (fit(data, rng=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.drift(data.inputs), again.drift(data.inputs))
    np.testing.assert_array_equal(first.covariance(data.inputs), again.covariance(data.inputs))
    assert (first.drift(data.inputs) != other.drift(data.inputs)).any()


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_inputs_may_have_any_unit_and_origin(correlation):
    """Zero is far away after the move: near the data, monomials are zero where inputs are."""
    data = system(varying=0.2, correlation=correlation)
    shift, scale = np.array([3.0, -700.0]), np.array([0.01, 40.0])
    moved = Transitions(data.inputs * scale + shift, data.increments, data.h)
    here, there = of_one_step(data, rng=1), of_one_step(moved, rng=1)
    x = data.inputs[:50]
    np.testing.assert_allclose(there.drift(x * scale + shift), here.drift(x), atol=1e-6)
    np.testing.assert_allclose(there.covariance(x * scale + shift), here.covariance(x), atol=1e-6)


def test_a_wind_is_added_to_the_drift_and_nothing_else():
    data = system(varying=0.2)
    wind = np.array([5.0, -7.0])
    here = of_one_step(data, rng=1)
    there = of_one_step(Transitions(data.inputs, data.increments + wind * data.h[:, None], data.h), rng=1)
    np.testing.assert_allclose(there.drift(data.inputs), here.drift(data.inputs) + wind, atol=1e-6)
    np.testing.assert_allclose(there.covariance(data.inputs), here.covariance(data.inputs), atol=1e-7)


UNITS = [1e-8, 1e8, np.array([3.0, 1e-3])]


@functools.cache
def in_unit_one(varying, correlation):
    data = system(varying=varying, correlation=correlation)
    return data, of_one_step(data, rng=1)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("how", [{"varying": 0.3, "correlation": 0.0}, {"varying": 0.0, "correlation": 0.6}], ids=str)
def test_outputs_may_have_any_unit(unit, how):
    data, here = in_unit_one(**how)
    there = of_one_step(scaled(data, unit), rng=1)
    x, units = data.inputs[:100], unit * np.ones(2)
    np.testing.assert_allclose(there.drift(x) / units, here.drift(x), atol=1e-5)
    np.testing.assert_allclose(there.covariance(x) / np.outer(units, units), here.covariance(x), atol=1e-6)
    assert (there.structure, there.link) == (here.structure, here.link)


def test_time_may_have_any_unit():
    data = system(varying=0.3)
    here, there = fit(data, rng=1), fit(Transitions(data.inputs, data.increments, 1e4 * data.h), rng=1)
    np.testing.assert_allclose(1e4 * there.drift(data.inputs), here.drift(data.inputs), atol=1e-5)
    np.testing.assert_allclose(1e4 * there.covariance(data.inputs), here.covariance(data.inputs), atol=1e-6)


@pytest.mark.parametrize("unit", [1e-8, 1e4, 1e8])
def test_a_drift_is_found_in_any_unit(unit):
    data = scaled(system(2000, m=1), unit)
    x = np.linspace(-0.8, 0.8, 20)
    assert rms(fit(data, rng=0).drift(x)[:, 0] / unit + 2 * x) < 0.5


# Positive definite


@pytest.mark.filterwarnings("ignore:the noise of increments column")  # which is so in some of them
@pytest.mark.parametrize("seed", range(12))
def test_covariance_of_few_data_is_positive_definite_far_outside(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(20, 51)), int(rng.integers(1, 4))
    x, h = rng.uniform(-1, 1, (n, m)), rng.uniform(0.01, 0.1, n)
    z = rng.normal(size=(n, m))
    z[:, -1] = z[:, 0] + 10 ** rng.uniform(-6, 0) * z[:, -1] if m > 1 else z[:, -1]
    z *= np.exp(2 * x[:, :1] * rng.integers(0, 3)) * 10.0 ** rng.uniform(-8, 8, m)
    assert_positive_definite(fit(Transitions(x, np.sqrt(h)[:, None] * z, h), rng=seed))


def spreading(decades, correlation, n=2000):
    """Two noises, one growing and one falling by so many decades over the data, and mixed."""
    rng = np.random.default_rng(1)
    x, z = rng.uniform(-1, 1, (n, 2)), rng.normal(size=(n, 2))
    growth = np.exp(0.5 * decades * np.log(10) / 2 * x[:, 0])
    z = np.stack([z[:, 0] * growth, z[:, 1] / growth], axis=1)
    return Transitions(x, 0.1 * z @ np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T, 0.01)


def test_noise_over_decades_is_positive_definite_everywhere():
    assert_positive_definite(fit(spreading(4, 0.5), rng=0))


def test_nearly_singular_noise_over_decades_is_positive_definite_everywhere():
    assert_positive_definite(fit(spreading(20, 0.9999), rng=0))


@pytest.mark.parametrize("link", ["identity", "log", "square"])
@pytest.mark.parametrize("structure", ["full", "diagonal"])
def test_every_link_and_structure_is_positive_definite_and_obeyed(link, structure):
    sde = fit(system(300, varying=0.4, correlation=0.5), link=link, structure=structure, rng=0)
    assert (sde.link, sde.structure) == (link, structure)
    assert {(c.link, c.structure) for c in sde.candidates} == {(link, structure)}
    assert_positive_definite(sde)


def few(seed, n, m, growth):
    """Noise that grows along the first input, in all outputs."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (n, m)), rng.normal(size=(n, m))
    z[:, -1] += z[:, 0]
    return Transitions(x, 0.1 * z * np.exp(growth * x[:, :1]), 0.01)


def test_the_log_link_on_few_data_is_positive_definite_far_outside():
    assert_positive_definite(fit(few(11, 25, 2, 4), link="log", structure="full", rng=0))


def test_the_log_link_on_few_data_has_limits_that_mean_something():
    sde = fit(few(3, 40, 2, 2), link="log", structure="full", rng=0)
    assert sde.limits[1].max() < 1e6


def test_a_fit_of_noise_that_varies_much_does_not_overflow():
    fit(few(2, 200, 2, 4), rng=0)


# What it is told


def test_floor_is_obeyed():
    data = system(varying=0.4)
    free, floored = fit(data, rng=0), fit(data, floor=0.8, rng=0)
    assert floored.floor == 0.8
    x = data.inputs
    L = np.diagonal(floored.floor_factor) ** 2
    expected = np.maximum(np.diagonal(free.covariance(x), axis1=1, axis2=2), 0.8 * L)
    np.testing.assert_allclose(np.diagonal(floored.covariance(x), axis1=1, axis2=2), expected, rtol=1e-9)
    assert floored.floored_share == pytest.approx(floored.floored(x).mean())
    assert floored.floored_share > free.floored_share


def test_weight_drift_false_leaves_the_drift_to_one_covariance():
    data = system(varying=0.4)
    weighted, plain = fit(data, rng=0), fit(data, rng=0, weight_drift=False)
    assert (weighted.drift(data.inputs) != plain.drift(data.inputs)).any()
    # the same frequencies in both: only amplitudes differ
    np.testing.assert_array_equal(weighted.drift_function.series.omega, plain.drift_function.series.omega)


def test_cross_fit_false_takes_residuals_of_the_drift_itself():
    data = system(300, m=1)
    sde = fit(data, rng=0, cross_fit=False)
    r = (data.rates - sde.drift(data.inputs)) * np.sqrt(data.h)[:, None]
    assert sde.covariance(np.zeros(1)).item() == pytest.approx(np.mean(r**2), rel=1e-6)
    crossed = fit(data, rng=0)
    assert crossed.covariance(np.zeros(1)).item() > sde.covariance(np.zeros(1)).item()


@pytest.mark.parametrize("name", ["drift", "covariance"])
def test_parameters_of_a_search_are_obeyed(name, monkeypatch):
    searched = []

    def kept(*args, **kwargs):
        searched.append(search(*args, **kwargs))
        return searched[-1]

    monkeypatch.setattr("itofit.learning.automatic.method.search", kept)
    arff = ARFF(n_features=9, min_iterations=3, max_iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        sde = fit(system(varying=0.4), rng=0, **{name: arff})
    training = getattr(sde, f"{name}_function").training
    assert training.n_iterations == 3
    assert training.parameters == arff
    drift, covariance = (each.best.basis.n_waves for each in searched)
    assert (drift if name == "drift" else covariance) == 9
    assert training.n_features == 9 if name == "drift" else training.n_features <= 9  # of Σ, those in use
    if name == "drift":  # else it may be a polynomial
        assert len(sde.drift_function.series.omega) == 2 + 9  # and two linear terms


def test_a_given_ridge_of_the_drift_is_obeyed():
    data = system(300, m=1, h=0.05)
    sde = fit(data, drift=ARFF(ridge=1e9), rng=0)
    np.testing.assert_allclose(sde.drift(data.inputs), data.rates.mean(), atol=1e-4)


def test_refine_false_is_still_algorithm_2():
    sde = fit(system(200), refine=False, rng=0, drift=ARFF(n_features=8), covariance=ARFF(n_features=8))
    assert sde.drift_function.training.judge == "validation error"
    assert sde.covariance_function.training.judge == "validation error"
    assert not sde.has_error_bars
    assert (sde.link, sde.structure, sde.candidates, sde.floor) == ("identity", "full", (), 1e-3)
    assert np.isinf(sde.limits[1]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"refine": False, "link": "log"}, "link must be 'identity'"),
        ({"refine": False, "cross_fit": True}, "cross_fit=True needs refine=True"),
        ({"link": "cube"}, "link must be one of"),
        ({"structure": "scalar"}, "structure must be one of"),
        ({"weight_drift": 1}, "weight_drift must be True or False"),
        ({"floor": 1e-9}, "floor must be at least"),
        ({"drift": "fast"}, "drift must be an itofit.ARFF"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_said_before_any_work(arguments, message):
    with pytest.raises(InputError, match=message):
        fit(system(50), **arguments)


# Kinds and sizes


def test_underdamped_systems_are_learned_and_simulated():
    rng = np.random.default_rng(0)
    n, h = 4000, 0.02
    x, v = rng.normal(size=(2, n))
    x1 = x + h * v
    v1 = v + h * (-3 * x1 - v) + 0.3 * np.sqrt(h) * rng.normal(size=n)
    sde = fit(Transitions.from_underdamped(x, v, x1, v1, h), rng=0)
    assert (sde.kind, sde.n_inputs, sde.n_outputs) == ("underdamped", 2, 1)
    points = rng.uniform(-1, 1, (200, 2))
    assert rms(sde.drift(points)[:, 0] - points @ [-3.0, -1.0]) < 0.2
    assert sde.covariance(points).ravel() == pytest.approx(0.09, rel=0.15)
    assert sde.simulate([0.1, 0.0], h, 10, rng=0).shape == (1, 11, 2)


def test_general_inputs_may_differ_in_number_from_the_increments():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 1, 1000)
    move = np.stack([np.sin(6 * t), t, np.ones(1000)], axis=1) + 0.1 * rng.normal(size=(1000, 3))
    sde = fit(Transitions(t, move, 1.0), rng=0)
    assert (sde.kind, sde.n_inputs, sde.n_outputs) == ("general", 1, 3)
    grid = np.linspace(0.05, 0.95, 30)
    np.testing.assert_allclose(sde.drift(grid)[:, 0], np.sin(6 * grid), atol=0.08)
    assert_positive_definite(sde)


def test_a_subset_is_searched_and_all_are_used():
    """Frequencies from a subset: the error is that of all, and not of the subset."""
    data = system(40_000, h=0.05)
    sde = of_one_step(data, drift=ARFF(search_rows=16_000), rng=0)
    assert sde.searched_on == "16000 of them, drawn at random"
    # two or three amplitudes for each output: √(3 · 0.25 / (0.05 · 40,000)) = 0.02, with three times that as a bound
    x = np.random.default_rng(1).uniform(-0.9, 0.9, (100, 2))
    assert rms(sde.drift(x) + 2 * x) < 0.06
    np.testing.assert_allclose(sde.covariance(x), np.broadcast_to(0.25 * np.eye(2), (100, 2, 2)), atol=0.01)
    # amplitudes solve the normal equations of all rows: residuals are orthogonal to what is in use, up to the ridge
    residual = data.increments - data.h[:, None] * sde.drift(data.inputs)
    assert np.abs(residual.sum(axis=0)).max() < 1e-6 * np.abs(data.increments).sum()


def test_a_subset_of_few_is_improved_upon_by_all():
    x = np.linspace(-0.9, 0.9, 50)
    pairs = []
    for seed in range(6):
        data = system(20_000, seed, m=1, h=0.05)
        few = ARFF(search_rows=1000)
        pairs.append([rms(of_one_step(d, drift=few, rng=seed).drift(x)[:, 0] + 2 * x) for d in (data, data[:1000])])
    assert np.median([a / b for a, b in pairs]) < 0.6  # √20 more accurate, but for the ridges


def test_gathered_data_give_nearly_the_same_as_all():
    data = system(5001, m=1, varying=0.3)
    gathered, alone = fit(data, rng=0), fit(data[:5000], rng=0)
    assert "grid" in gathered.searched_on
    assert alone.searched_on == "all of them"
    x = np.linspace(-0.9, 0.9, 50)
    assert rms(gathered.drift(x) - alone.drift(x)) < 0.15
    np.testing.assert_allclose(gathered.covariance(x), alone.covariance(x), rtol=0.1)


def test_twenty_transitions_are_enough_and_nineteen_are_not():
    assert_positive_definite(fit(system(20), rng=0))
    with pytest.raises(InputError, match="at least 20 transitions"):
        fit(system(19), rng=0)


def test_data_without_noise_are_learned_with_a_warning():
    x = np.random.default_rng(0).uniform(-1, 1, 300)
    with pytest.warns(itofit.DataWarning, match="no noise"):
        sde = of_one_step(Transitions(x, 0.01 * np.sin(2 * x), 0.01), rng=0)
    np.testing.assert_allclose(sde.drift(x)[:, 0], np.sin(2 * x), atol=1e-3)
    assert_positive_definite(sde, times=1.0)


def test_the_result_does_not_warn_and_nll_is_near_that_of_the_truth():
    data, new = system(3000, varying=0.3), system(3000, seed=9, varying=0.3)
    sde = fit(data, rng=0)
    truth = [
        -0.5 * np.log(2 * np.pi * s**2 * new.h) - (dx + 2 * x * new.h) ** 2 / (2 * s**2 * new.h)
        for x, dx in zip(new.inputs.T, new.increments.T, strict=True)
        for s in [0.5 + 0.3 * x]
    ]
    excess = sde.nll(new) + np.sum(truth) / len(new)
    # half an amplitude's worth, 1 / 2N, for each of about 15 that the data determine, and 3000 held-out rows: ± 0.005
    assert -0.02 < excess < 0.03


# Records


@pytest.fixture(scope="module")
def rich():
    """A model whose records all hold something."""
    data = system(600, varying=0.4, correlation=0.5)
    return fit(Transitions(data.inputs, data.increments, data.h, np.arange(600) // 50), rng=7)


def test_summary_says_what_was_chosen(rich):
    text = rich.summary()
    assert f"structure   {rich.structure}: " in text
    assert f"link        {rich.link}: " in text
    assert "600 transitions in 12 groups" in text
    assert "frequencies searched on all of them" in text
    assert "drift       a polynomial, as no waves are clearly more evident" in text
    assert rich.drift_function.training.n_features == 0
    assert f"{rich.covariance_function.training.n_features} frequencies" in text
    assert "candidates  held-out loss above the best" in text
    assert text.count("+0.0000") >= 1
    for candidate in rich.candidates:
        what = f"waves for {LINKS[candidate.link].symbol}, frequencies of the {candidate.frequencies}"
        what = "constant" if candidate.frequencies == "none" else what
        assert f"{candidate.structure}, {what}" in text
    for j in range(2):
        assert rich.drift_function.training.depends_on(j, rich.input_names) in text
    assert "seed        7" in text
    assert "None" not in text
    assert "nan" not in text


def test_candidates_are_listed_from_the_best():
    tried = (Candidate("full", "start", "log", 1.5), Candidate("diagonal", "search", "square", 1.25))
    first, second = candidates_text(tried)
    assert first == "diagonal, waves for √Σ, frequencies of the search: +0.0000"
    assert second == "full, waves for log Σ, frequencies of the start: +0.2500"


# Products


def rotor(n, coupling, seed=0):
    """Three variables, of which the second is driven by the product of the others."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 3))
    for i in range(1, n):
        a, b, c = x[i - 1]
        f = np.array([-a + b, -b + coupling * a * c, -c])
        x[i] = x[i - 1] + 0.05 * f + np.sqrt(0.05) * rng.normal(size=3)
    return itofit.Transitions.from_trajectories(x, dt=0.05)


def test_a_product_of_two_inputs_is_one_term():
    data = rotor(20_000, 1.0)
    sde = itofit.fit(data, rng=0, correct_step=False)
    training = sde.drift_function.training
    assert "x1·x3" in training.depends_on(1, sde.input_names)
    assert "·" not in (training.depends_on(0, sde.input_names) or "")
    assert "x1·x3" in sde.summary()
    # against least squares on the right terms
    x = data.inputs
    terms = np.column_stack([np.ones(len(x)), x, x[:, 0] * x[:, 2]])
    known = terms @ np.linalg.lstsq(terms, data.rates[:, 1], rcond=None)[0]
    truth = -x[:, 1] + x[:, 0] * x[:, 2]
    error, least = (np.sqrt(np.mean((f - truth) ** 2)) for f in (sde.drift(x)[:, 1], known))
    assert error < 1.5 * least


def test_products_are_saved_with_a_model(tmp_path):
    sde = itofit.fit(rotor(5_000, 2.0), rng=0, correct_step=False)
    assert (sde.drift_function.training.groups < -3).any()
    sde.save(tmp_path / "sde.npz")
    again = itofit.load(tmp_path / "sde.npz")
    np.testing.assert_array_equal(again.drift_function.training.groups, sde.drift_function.training.groups)
    assert again.summary() == sde.summary()


def test_without_products_none_is_found():
    found = 0
    for seed in range(5):
        sde = itofit.fit(rotor(3_000, 0.0, seed), rng=seed, correct_step=False)
        training = sde.drift_function.training
        found += bool((training.ridges[:, training.groups < -3] < SWITCHED_OFF).any())
    assert found == 0


# Weights


def test_a_drift_is_weighted_until_weak_noise_is_seen():
    # noise over four decades: where it is weak, an error of the first drift is far larger than the noise
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (10_000, 1))
    size = 10.0 ** (2 * x - 2)
    drift = 1.5 * np.sin(3 * x) - x**3
    data = itofit.Transitions.from_pairs(x, x + 0.01 * drift + 0.1 * size * rng.normal(size=x.shape), 0.01)
    sde = itofit.fit(data, rng=0, correct_step=False)
    weak = np.linspace(-0.98, -0.6, 50)[:, None]
    ratio = sde.covariance(weak)[:, 0, 0] / (10.0 ** (2 * weak - 2))[:, 0] ** 2
    assert ratio.max() < 2
    assert ratio.min() > 0.5
