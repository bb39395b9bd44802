import tracemalloc

import numpy as np
import pytest
import reference
from threadpoolctl import threadpool_limits

import itofit
from itofit import ARFF, Transitions

FEW = ARFF(n_features=8, ridge=1e-2, delta=0.5, min_iterations=3, max_iterations=12)
FREE = ARFF(n_features=8, delta=0.5, min_iterations=3, max_iterations=12)
"""The same with the ridges that the data choose."""
ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])
pytestmark = pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")


def walk(seed=0, n=100, m=2):
    """Transitions of a linear system with noise that depends on where it is, with irregular steps."""
    rng = np.random.default_rng(seed)
    x0, h = rng.uniform(-1, 1, (n, m)), rng.uniform(0.01, 0.1, n)
    noise = (0.5 + 0.2 * x0) * np.sqrt(h)[:, None] * rng.normal(size=(n, m))
    noise[:, -1] += 0.8 * noise[:, 0]
    return Transitions.from_pairs(x0, x0 - 2 * x0 * h[:, None] + noise, h)


def ornstein_uhlenbeck(n, rng, theta=2.0, sigma=0.5, h=0.01):
    """Exact transitions of dx = -θ x dt + σ dW, started uniformly in [-1, 1]."""
    x0 = rng.uniform(-1, 1, n)
    spread = sigma * np.sqrt((1 - np.exp(-2 * theta * h)) / (2 * theta))
    return Transitions.from_pairs(x0, x0 * np.exp(-theta * h) + spread * rng.normal(size=n), h)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
@pytest.mark.parametrize("m", [1, 2])
def test_algorithm_2_equals_the_loops_with_the_same_random_numbers(structure, m):
    data = walk(m=m)
    sde = itofit.fit(data, structure=structure, drift=FEW, covariance=FEW, refine=False, rng=3)
    drift, entries = reference.algorithm_2(
        np.random.default_rng(3),
        data.inputs,
        data.increments,
        data.h,
        full=structure == "full",
        validation_fraction=0.1,
        n_features=8,
        ridge_parameter=1e-2,
        delta=0.5,
        gamma=1.0,
        resample=True,
        pairing=sde.drift_function.training.parameters.pairing,
        min_iterations=3,
        max_iterations=12,
    )
    np.testing.assert_allclose(sde.drift(data.inputs), drift(data.inputs), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        sde.covariance_function.series(data.inputs), entries(data.inputs), rtol=1e-10, atol=1e-10
    )


def test_algorithm_2_learns_all_of_the_covariance_unless_told_otherwise():
    data = walk()
    sde, full = (
        itofit.fit(data, drift=FEW, covariance=FEW, refine=False, rng=3, **how) for how in ({}, {"structure": "full"})
    )
    assert (sde.structure, sde.link, sde.floor) == ("full", "identity", 1e-3)
    np.testing.assert_array_equal(sde.covariance(data.inputs), full.covariance(data.inputs))


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@ALGORITHMS
def test_raw_covariance_is_symmetric_and_diagonal_where_asked(refine):
    data = walk()

    def raw(structure, link):
        sde = itofit.fit(
            data, structure=structure, link=link, drift=FEW, covariance=FEW, floor=0.9, refine=refine, rng=0
        )
        assert sde.floored(data.inputs).any()  # so that raw values differ from the others
        return sde.covariance(data.inputs, raw=True)

    for link in ("identity", "square", "log") if refine else ("identity",):
        full, diagonal = raw("full", link), raw("diagonal", link)
        np.testing.assert_array_equal(full, full.swapaxes(1, 2))
        assert (full[:, 0, 1] != 0).all()
        assert (diagonal[:, 0, 1] == 0).all()


@ALGORITHMS
@pytest.mark.parametrize("structure", ["auto", "diagonal", "full"])
def test_shifting_and_scaling_the_inputs_changes_the_functions_accordingly(structure, refine):
    data = walk()
    shift, scale = np.array([3.0, -70.0]), np.array([0.01, 40.0])
    moved = Transitions(data.inputs * scale + shift, data.increments, data.h)
    arff = FREE if refine else FEW
    here, there = (
        itofit.fit(each, structure=structure, drift=arff, covariance=arff, refine=refine, correct_step=False, rng=1)
        for each in (data, moved)
    )
    x = data.inputs[:20]
    np.testing.assert_allclose(there.drift(x * scale + shift), here.drift(x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(there.covariance(x * scale + shift), here.covariance(x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        there.drift_jacobian(x * scale + shift), here.drift_jacobian(x) / scale, rtol=1e-6, atol=1e-8
    )


@ALGORITHMS
def test_scaling_and_drifting_the_increments_changes_the_functions_accordingly(refine):
    data = walk()
    scale, wind = np.array([1e-3, 200.0]), np.array([5.0, -7.0])
    blown = Transitions(data.inputs, data.increments * scale + wind * data.h[:, None], data.h)
    arff = FREE if refine else FEW
    here, there = (
        itofit.fit(each, drift=arff, covariance=arff, refine=refine, correct_step=False, rng=1)
        for each in (data, blown)
    )
    x = data.inputs[:20]
    rounding = 1e-8 * np.abs(here.drift(x) * scale).max()
    np.testing.assert_allclose(there.drift(x), here.drift(x) * scale + wind, rtol=1e-7, atol=rounding)
    np.testing.assert_allclose(there.covariance(x), here.covariance(x) * np.outer(scale, scale), rtol=1e-6, atol=1e-12)


@ALGORITHMS
def test_slower_time_changes_the_functions_accordingly(refine):
    data = walk()
    slow = Transitions(data.inputs, data.increments, 100 * data.h)
    arff = FREE if refine else FEW
    here, there = (itofit.fit(each, drift=arff, covariance=arff, refine=refine, rng=1) for each in (data, slow))
    np.testing.assert_allclose(100 * there.drift(data.inputs), here.drift(data.inputs), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(100 * there.covariance(data.inputs), here.covariance(data.inputs), rtol=1e-7)


def test_units_change_nothing_but_units_with_nothing_set():
    """Where inputs are zero does: monomials are those of the inputs as they are given."""
    data = walk(n=400)
    scale, wind, slower = np.array([1e-3, 200.0]), np.array([1e-5, -7.0]), 100.0
    other = Transitions(40 * data.inputs, data.increments * scale + wind * data.h[:, None] * slower, slower * data.h)
    here, there = (itofit.fit(each, correct_step=False, rng=1) for each in (data, other))
    assert (here.structure, here.link) == (there.structure, there.link)
    x = data.inputs
    expected = here.drift(x) * scale / slower + wind
    np.testing.assert_allclose(there.drift(40 * x), expected, rtol=1e-7, atol=1e-9)
    expected = here.covariance(x) * np.outer(scale, scale) / slower
    np.testing.assert_allclose(there.covariance(40 * x), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@ALGORITHMS
@pytest.mark.parametrize("arff", [FEW, None], ids=["few", "nothing set"])
def test_same_seed_same_result_and_another_seed_another(arff, refine):
    data = walk()
    x = data.inputs
    first, again, other = (itofit.fit(data, drift=arff, covariance=arff, refine=refine, rng=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.drift(x), again.drift(x))
    np.testing.assert_array_equal(first.covariance(x), again.covariance(x))
    assert (first.drift(x) != other.drift(x)).any()


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")  # the seed that was drawn may be an unlucky one
@ALGORITHMS
def test_a_fit_without_a_seed_can_be_repeated_from_the_one_it_drew(refine):
    data = walk()
    settings = {"drift": FEW, "covariance": FEW, "refine": refine}
    first = itofit.fit(data, **settings)
    again = itofit.fit(data, **settings, rng=first.seed)
    np.testing.assert_array_equal(first.drift(data.inputs), again.drift(data.inputs))
    assert itofit.fit(data, **settings, rng=np.random.default_rng(1)).seed is None


def test_drift_error_of_algorithm_2_falls_like_one_over_the_root_of_n():
    x = np.linspace(-0.9, 0.9, 50)
    truth = -(1 - np.exp(-2.0 * 0.01)) / 0.01 * x  # the mean of one exact step
    settings = ARFF(n_features=16, ridge=1e-4, min_iterations=10, max_iterations=30)

    def error(n, seed):
        data = ornstein_uhlenbeck(n, np.random.default_rng(seed))
        sde = itofit.fit(data, drift=settings, covariance=FEW, refine=False, rng=seed)
        return np.sqrt(np.mean((sde.drift(x)[:, 0] - truth) ** 2))

    sizes = [1000, 10_000, 100_000]
    errors = [np.exp(np.mean([np.log(error(n, seed)) for seed in range(6)])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # over a hundred sets of six seeds the slope had mean -0.51 and standard deviation 0.06
    assert -0.75 < slope < -0.25


@ALGORITHMS
def test_covariance_of_an_ornstein_uhlenbeck_process_is_found(refine):
    sde = itofit.fit(ornstein_uhlenbeck(20_000, np.random.default_rng(0)), refine=refine, rng=0)
    sigma = sde.covariance(np.linspace(-0.9, 0.9, 20))[:, 0, 0]
    np.testing.assert_allclose(sigma, 0.25 * (1 - np.exp(-0.04)) / 0.04, rtol=0.1)


def test_search_on_a_subset_ends_with_a_solve_on_all_rows():
    data = ornstein_uhlenbeck(30_000, np.random.default_rng(0))
    subset = ARFF(n_features=16, ridge=1e-4, min_iterations=10, max_iterations=20, search_rows=1000)
    sde = itofit.fit(data, drift=subset, covariance=FEW, refine=False, rng=0)
    alone = itofit.fit(data[:1000], drift=subset, covariance=FEW, refine=False, rng=0)
    x = np.linspace(-0.9, 0.9, 50)

    def error(model):
        return np.sqrt(np.mean((model.drift(x)[:, 0] + 2 * x) ** 2))

    assert error(sde) < 0.6 * error(alone)
    u = (data.inputs - sde.drift_function.series.shift) / sde.drift_function.series.scale
    S = np.exp(1j * u @ sde.drift_function.series.omega.T)
    z = data.rates - sde.drift_function.series.offset
    # all rows but the hundred held out: the same amplitudes up to what a hundred rows can change
    beta = np.linalg.solve(S.conj().T @ S + 1e-4 * len(z) * np.eye(16), S.conj().T @ z)
    values, expected = sde.drift_function.series(data.inputs) - sde.drift_function.series.offset, (S @ beta).real
    assert np.sqrt(np.mean((values - expected) ** 2)) < 0.03 * np.sqrt(np.mean(expected**2))


@pytest.mark.parametrize("m", [1, 2])
def test_amplitudes_of_an_automatic_fit_come_from_all_rows(m):
    rng = np.random.default_rng(0)
    x0 = rng.uniform(-1, 1, (30_000, m))
    data = Transitions.from_pairs(x0, x0 - 0.02 * x0 + 0.05 * rng.normal(size=x0.shape), 0.01)
    subset = ARFF(search_rows=1000)
    sde, alone = (itofit.fit(each, drift=subset, covariance=subset, rng=0) for each in (data, data[:1000]))
    assert sde.searched_on == "1000 of them, drawn at random"
    assert alone.searched_on == "all of them"
    x = rng.uniform(-0.9, 0.9, (50, m))

    def error(model):
        return np.sqrt(np.mean((model.drift(x) + 2 * x) ** 2))

    assert error(sde) < 0.6 * error(alone)


@ALGORITHMS
def test_off_diagonal_targets_without_correlation_do_not_drown_the_others(refine):
    rng = np.random.default_rng(0)
    x0 = rng.uniform(-1, 1, (4000, 2))
    data = Transitions.from_pairs(x0, x0 - 0.1 * x0 + rng.normal(size=(4000, 2)) * 0.1 * (1 + 0.5 * x0), 0.1)
    sde = itofit.fit(data, structure="full", refine=refine, rng=0)
    x = rng.uniform(-0.8, 0.8, (200, 2))
    found, true = sde.covariance(x), 0.1 * (1 + 0.5 * x) ** 2
    assert np.sqrt(np.mean((found[:, [0, 1], [0, 1]] - true) ** 2)) < 0.02
    assert np.sqrt(np.mean(found[:, 0, 1] ** 2)) < 0.02


def test_reaching_the_last_iteration_warns_and_is_recorded():
    with pytest.warns(itofit.ConvergenceWarning, match="covariance ended at max_iterations = 3"):
        sde = itofit.fit(walk(), drift=FEW, covariance=ARFF(n_features=8, max_iterations=3), refine=False, rng=0)
    assert sde.covariance_function.training.stopped == "max_iterations"


def waves(n=4000):
    """Transitions with a drift and a noise of several waves, which no start has."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, n)
    h, sigma = 0.1, 1 + 0.6 * np.sin(20 * x)
    return Transitions(x, h * 10 * np.sin(25 * x) + np.sqrt(h) * sigma * rng.normal(size=n), h)


@pytest.mark.parametrize("name", ["drift", "covariance"])
def test_an_automatic_search_that_reaches_its_last_iteration_warns_and_is_recorded(name):
    with pytest.warns(itofit.ConvergenceWarning, match=f"{name} ended at max_iterations = 1"):
        sde = itofit.fit(waves(), **{name: ARFF(n_features=6, max_iterations=1)}, rng=0)
    assert getattr(sde, f"{name}_function").training.stopped == "max_iterations"
    assert getattr(sde, f"{name}_function").training.n_iterations == 1


@ALGORITHMS
def test_general_inputs_may_differ_in_number_from_the_increments(refine):
    rng = np.random.default_rng(0)
    position = rng.uniform(0, 1, 500)
    data = Transitions(
        position, np.stack([np.sin(6 * position), position], axis=1) + 0.1 * rng.normal(size=(500, 2)), 1.0
    )
    sde = itofit.fit(data, drift=FEW, covariance=FEW, refine=refine, rng=0)
    assert (sde.n_inputs, sde.n_outputs, sde.kind) == (1, 2, "general")
    assert sde.covariance(position).shape == (500, 2, 2)


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@ALGORITHMS
@pytest.mark.parametrize("floor", [None, 1e-6, 1e-3, 0.9])
def test_noise_confined_to_a_plane_is_still_positive_definite(floor, refine):
    rng = np.random.default_rng(0)
    x0 = rng.uniform(0.2, 0.4, (400, 2))
    move = 0.01 * rng.normal(size=(400, 2))
    move = np.hstack([move, -move.sum(axis=1, keepdims=True)])
    sde = itofit.fit(Transitions(x0, move, 0.1), drift=FEW, covariance=FEW, floor=floor, refine=refine, rng=0)
    np.linalg.cholesky(sde.covariance(x0))
    assert np.isfinite(sde.nll(Transitions(x0, move, 0.1)))


def places(lattice, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, (n, 2)).astype(float) if lattice else rng.uniform(-1, 1, (n, 2))


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@ALGORITHMS
@pytest.mark.parametrize("lattice", [False, True], ids=["anywhere", "on a lattice"])
@pytest.mark.parametrize(("n", "d", "seed"), [(200, 2, 0), (500, 3, 1), (1000, 2, 2)])
def test_one_noise_for_all_variables_is_still_positive_definite(n, d, seed, lattice, refine):
    x, rng = places(lattice, n, seed), np.random.default_rng(seed)
    drift = np.sin(3 * x @ rng.normal(size=(2, d)))
    noise = (1 + 0.9 * np.sin(2 * x[:, :1])) * rng.normal(size=(n, 1))
    data = Transitions(x, 0.1 * drift + np.sqrt(0.1) * noise, 0.1)
    sde = itofit.fit(data, refine=refine, rng=0)
    np.linalg.cholesky(sde.covariance(np.concatenate([x, 3 * x + 1])))
    assert np.isfinite(sde.drift(x)).all()
    assert np.isfinite(sde.nll(data))


@pytest.mark.parametrize("lattice", [False, True], ids=["anywhere", "on a lattice"])
def test_data_without_noise_are_named_and_give_no_nan(lattice):
    x = places(lattice, 400)
    data = Transitions(x, 0.1 * np.sin(3 * x), 0.1)
    try:
        with pytest.warns(itofit.DataWarning, match=r"increments column [01] follows the drift .* carry no noise"):
            sde = itofit.fit(data, rng=0)
    except itofit.InputError as error:
        assert "follows the drift exactly: it carries no noise" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(sde.nll(data))
        np.linalg.cholesky(sde.covariance(x))


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
@ALGORITHMS
@pytest.mark.parametrize("floor", [1e-6, 1e-3, 0.5])
def test_the_floor_that_was_asked_for_holds(floor, refine):
    data = walk(n=400, m=1)
    sde = itofit.fit(data, drift=FEW, covariance=FEW, floor=floor, refine=refine, rng=0)
    assert sde.floor == floor
    assert sde.covariance(np.linspace(-30, 30, 1000)).min() >= floor * sde.floor_factor.item() ** 2


@ALGORITHMS
def test_a_clock_among_the_variables_is_named(refine):
    x = np.cumsum(0.1 * np.random.default_rng(0).normal(size=500))
    track = np.column_stack([x, 0.01 * np.arange(500)])
    with pytest.raises(itofit.InputError, match=r"increments column 1 moves at a constant rate \(1\)"):
        itofit.fit(Transitions.from_trajectories(track, dt=0.01), refine=refine)


@pytest.mark.filterwarnings("ignore:the (drift that was learned|learned covariance):itofit.DataWarning")
def test_steps_much_shorter_than_the_rest_are_a_warning():
    data = walk(n=400)
    h = data.h.copy()
    h[:4] = 1e-7
    uneven = Transitions(data.inputs, data.increments, h)
    with pytest.warns(itofit.DataWarning, match="time steps are very uneven"):
        itofit.fit(uneven, drift=FEW, covariance=FEW, refine=False, rng=0)


def test_steps_much_shorter_than_the_rest_do_not_disturb_the_default():
    data = walk(n=400)
    h, increments = data.h.copy(), data.increments.copy()
    h[:4], increments[:4] = 1e-7, 0.5 * np.sqrt(1e-7) * np.random.default_rng(1).normal(size=(4, 2))
    sde, without = (itofit.fit(each, rng=0) for each in (Transitions(data.inputs, increments, h), data[4:]))
    x = data.inputs
    assert np.sqrt(np.mean((sde.drift(x) - without.drift(x)) ** 2)) < 0.1 * np.sqrt(np.mean(without.drift(x) ** 2))


@ALGORITHMS
def test_memory_of_a_fit_is_a_few_times_the_data(refine):
    def peak(n):
        data = walk(n=n, m=3)
        settings = ARFF(n_features=16, min_iterations=1, max_iterations=3, search_rows=2000)
        tracemalloc.start()
        with threadpool_limits(1):  # each thread has rows of its own
            itofit.fit(data, drift=settings, covariance=settings, refine=refine, rng=0)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(4_000)  # what is imported and made once
    added_rows, bytes_of_a_row = 100_000, 8 * (3 + 3 + 1)
    assert peak(120_000) - peak(20_000) < 8 * added_rows * bytes_of_a_row


def test_a_drift_without_any_dependence_is_a_warning():
    x0 = np.random.default_rng(0).uniform(-1, 1, 400)
    noise = np.random.default_rng(1).normal(size=400)
    data = Transitions(x0, noise, 0.1)
    with pytest.warns(itofit.DataWarning, match="the drift that was learned is a constant"):
        sde = itofit.fit(data, drift=ARFF(n_features=8, max_iterations=0), covariance=FEW, refine=False, rng=0)
    assert np.ptp(sde.drift(x0)) == 0


def test_pure_noise_is_a_constant_drift_and_covariance_and_no_warning():
    x0 = np.random.default_rng(0).uniform(-1, 1, 400)
    sde = itofit.fit(Transitions(x0, np.random.default_rng(1).normal(size=400), 0.1), rng=0)
    drift, std = sde.drift(x0, return_std=True)
    assert (np.abs(drift - drift.mean()) < 2 * std).all()
    assert np.ptp(sde.covariance(x0)) < 1e-6 * sde.covariance(x0).max()
    assert "f of x is constant" in sde.summary()


def test_a_covariance_that_is_mostly_floor_is_a_warning():
    data = walk(n=400, m=1)
    with pytest.warns(itofit.DataWarning, match="needed its floor at 100% of the data"):
        itofit.fit(data, drift=FEW, covariance=ARFF(n_features=8, ridge=1e6, max_iterations=0), refine=False, rng=0)


@ALGORITHMS
def test_variances_of_uncorrelated_noise_are_found_with_the_full_structure(refine):
    rng = np.random.default_rng(0)
    x0 = rng.uniform(-2, 2, (5000, 2))
    sigma = 0.5 + 0.25 * np.cos(2 * x0)
    data = Transitions.from_pairs(x0, x0 - 0.05 * x0 + np.sqrt(0.05) * sigma * rng.normal(size=x0.shape), 0.05)
    found = itofit.fit(data, structure="full", refine=refine, rng=0).covariance(x0)[:, [0, 1], [0, 1]]
    assert np.sqrt(np.mean((found - sigma**2) ** 2)) < 0.5 * (sigma**2).std()
