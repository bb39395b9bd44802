"""The automatic search: what it finds in noise, what it leaves alone, and that it does what it is told."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

import itofit
from itofit import ARFF
from itofit.learning.automatic import search as search_module
from itofit.learning.automatic import walk as walk_module
from itofit.learning.automatic.fitted_waves import Targets, fitted_waves, noise_units
from itofit.learning.automatic.refinement import moved_waves
from itofit.learning.automatic.search import search
from itofit.learning.automatic.walk import Walk, groups_for, long_waves, reach_of
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import ArrayPart, DirectNormalEquations, GriddedNormalEquations
from itofit.waves.wave_groups import directions, inputs_of_group, stood_out


def targets_of(u, y, weight=None, gridded=False):
    y = y.reshape(len(u), -1)
    weight = np.ones(len(u)) if weight is None else weight
    mean = weight @ y / weight.sum()
    y = y - mean
    part = (u, y, weight)
    equations = GriddedNormalEquations(ArrayPart(*part), 1e-12) if gridded else DirectNormalEquations(*part)
    return Targets(u, y, weight, (y.T * weight) @ y, weight.sum(), equations, np.ones(u.shape[1]), mean)


def points(n, m, seed):
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(-0.5, 0.5, (n, m))


def noisy(signal, n, m, seed=0, noise=1.0, gridded=False):
    rng, u = points(n, m, seed)
    truth = signal(u)
    return u, truth, targets_of(u, truth + noise * rng.normal(size=n), gridded=gridded)


def look(targets, arff=None, seed=0, **how):
    return search(np.random.default_rng(seed), targets, arff or ARFF(), **how)


def walk_of(targets, arff, seed=0):
    """Frequencies at their start, for outputs in their own units."""
    rng = np.random.default_rng(seed)
    group = groups_for(targets.n, targets.n_inputs, arff.n_features)
    omega = long_waves(rng, group, targets)
    return Walk(rng, targets, arff, np.eye(len(targets.squares)), omega, group)


def values(waves, u):
    """The sum of fitted waves at points u."""
    return waves.basis.at(u) @ waves.amplitudes


def unexplained(waves, u, truth):
    return np.var(truth - values(waves, u)[:, 0]) / np.var(truth)


def groups_in_use(searched):
    basis = searched.best.basis_in_use
    return [] if basis is None else list(np.unique(basis.group))


def training_of(searched):
    """The record of a training that ended with what was found, for one output."""
    (fit,) = searched.best.fits
    return searched.training(ARFF(), searched.best.basis, fit.ridges[None], fit.determined)


# What it finds


@pytest.mark.parametrize(
    ("signal", "n", "m"),
    [
        (lambda u: np.sin(30 * u[:, 0]), 2000, 1),
        (lambda u: np.sin(120 * u[:, 0]), 2000, 1),
        (lambda u: np.sin(20 * u[:, 0] + 11 * u[:, 1]), 4000, 2),
        (lambda u: np.sin(25 * u[:, 1]), 4000, 2),
    ],
    ids=["sin 30u", "sin 120u", "sin(20u + 11v)", "sin 25v"],
)
@pytest.mark.parametrize("gridded", [False, True], ids=["direct", "gridded"])
def test_short_waves_in_noise_are_found_where_a_smooth_start_sees_nothing(signal, n, m, gridded):
    u, truth, targets = noisy(signal, n, m, gridded=gridded)
    searched = look(targets)
    assert unexplained(searched.start, u, truth) > 0.8
    assert unexplained(searched.best, u, truth) < 0.2
    assert searched.n_standing_out > 0
    assert searched.improved
    assert len(searched.best.found) > 0


def test_what_was_found_is_as_accurate_as_the_noise_allows():
    # one wave of known frequency has the error 2/n on average; the search may pay ten times that
    u, truth, targets = noisy(lambda u: np.sin(30 * u[:, 0]), 5000, 1)
    searched = look(targets)
    assert np.mean((truth - truth.mean() - values(searched.best, u)[:, 0]) ** 2) < 20 / 5000


def test_a_smooth_function_gets_no_short_waves():
    # of 100 sets of this kind one had a wave that stands out; 4 or more of 15 have probability 1e-5 at that rate
    seeded = 0
    for seed in range(15):
        u, truth, targets = noisy(lambda u: np.sin(3 * u[:, 0]), 500, 1, seed=seed)
        searched = look(targets, seed=seed)
        seeded += searched.n_standing_out > 0
        assert unexplained(searched.best, u, truth) < 0.05
    assert seeded < 4


def test_an_output_that_depends_on_one_input_uses_its_group():
    _, _, targets = noisy(lambda u: 3 * np.sin(5 * u[:, 1]), 2000, 2)
    assert 1 in groups_in_use(look(targets))
    assert 0 not in groups_in_use(look(targets))


@pytest.mark.parametrize("m", [1, 2])
def test_noise_gets_no_short_waves(m):
    # FALSE_ALARM is the probability that a set of noise gives the start a wave; more than `most` of 100 have one of
    # 1e-6
    most = binom.isf(1e-6, 100, walk_module.FALSE_ALARM)
    assert most < 15
    seeded = 0
    for seed in range(100):
        rng, u = points(200, m, seed)
        targets = targets_of(u, rng.normal(size=200))
        walk = walk_of(targets, ARFF(), seed)
        first = walk.fitted()
        seeded += walk.look(first) is not first
    assert seeded <= most


def test_noise_leaves_nothing_on():
    # of 150 sets of noise of other seeds 5 left a group on; at that rate more than 6 of 30 have probability 2e-5
    on = 0
    for seed in range(30):
        rng, u = points(300, 2, seed)
        searched = look(targets_of(u, rng.normal(size=300)), seed=seed)
        on += len(groups_in_use(searched)) > 0
    assert on <= 6


# What it is told


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("n_features", [1, 2, 7, 50, 200])
def test_the_number_of_features_is_obeyed(m, n_features):
    rng, u = points(60, m, 0)
    searched = look(targets_of(u, rng.normal(size=60)), ARFF(n_features=n_features, max_iterations=1))
    assert searched.best.basis.n_waves == n_features
    assert training_of(searched).n_features == n_features


@pytest.mark.parametrize(("m", "sizes"), [(1, [48]), (2, [16, 16, 32]), (3, [16, 16, 16, 48]), (5, [12] * 5 + [96])])
def test_frequencies_are_shared_among_groups(m, sizes):
    np.testing.assert_array_equal(np.bincount(groups_for(1e6, m, None)), sizes)
    few = np.bincount(groups_for(20, m, None))
    assert len(few) == len(sizes)
    assert few.min() >= 4
    assert few.sum() <= 9 * len(sizes)
    free = directions(groups_for(1e6, m, None), m)
    assert free.shape == (sum(sizes), m)
    np.testing.assert_array_equal(free.sum(axis=1), np.repeat([1] * (len(sizes) - 1) + [m], sizes))


def test_frequencies_stay_in_their_groups_and_within_reach():
    _, _, targets = noisy(lambda u: np.sin(20 * u[:, 0] + 11 * u[:, 1]), 2000, 2)
    for arff in (ARFF(delta=40.0, min_iterations=12, max_iterations=12), ARFF()):
        searched = look(targets, arff)
        for omega, kind in zip(searched.best.basis.omega, searched.best.kind.tolist(), strict=True):
            assert set(np.flatnonzero(omega)) <= set(inputs_of_group(kind, 2))
        assert np.abs(searched.best.basis.omega).max() <= reach_of(2)


def steps(arff, seed=0, n_steps=3, m=2):
    """Frequencies before and after each of some iterations, and the walk."""
    _, _, targets = noisy(lambda u: np.sin(9 * u[:, 0]), 300, m)
    walk = walk_of(targets, arff, seed)
    omegas = [walk.omega]
    for _ in range(n_steps):
        walk.step()
        omegas.append(walk.omega)
    return walk, omegas


def test_a_step_of_zero_moves_nothing():
    _, omegas = steps(ARFF(delta=0.0, resample=False))
    np.testing.assert_array_equal(omegas[-1], omegas[0])


def test_with_a_step_of_zero_resampling_draws_within_groups():
    walk, omegas = steps(ARFF(delta=0.0, resample=True))
    assert not np.array_equal(omegas[-1], omegas[0])
    for g in range(3):
        before = {tuple(row) for row in omegas[0][walk.group == g]}
        assert {tuple(row) for row in omegas[-1][walk.group == g]} <= before


def test_the_step_is_the_standard_deviation_of_the_walk():
    # γ = 0 and a test that |β*| > uniform fails for small amplitudes only; among accepted moves of about 60 normal
    # numbers the standard deviation is known to a tenth, the bounds are five times that
    for delta in (0.01, 0.1):
        walk, (before, after) = steps(ARFF(delta=delta, resample=False), n_steps=1)
        moved = (after - before)[(walk.free > 0) & (after != before).any(axis=1, keepdims=True)]
        assert len(moved) > 20
        assert 0.5 < moved.std() / delta < 1.5


def test_steps_of_their_own_span_more_than_a_decade():
    _, (before, after) = steps(ARFF(resample=False), n_steps=1)
    length = np.linalg.norm(after - before, axis=1)
    length = length[length > 0]
    assert length.max() / length.min() > 10
    assert length.max() < 3.0 * 6


def test_resample_false_keeps_every_frequency_near_its_place():
    _, omegas = steps(ARFF(delta=1e-6, resample=False), n_steps=5)
    np.testing.assert_allclose(omegas[-1], omegas[0], atol=1e-4)


def test_gamma_is_the_exponent_of_the_amplitude_before():
    # with amplitudes far below one a large γ makes the bound vanish, so all proposals are accepted
    _, _, targets = noisy(lambda u: np.sin(9 * u[:, 0]), 300, 2)
    small = targets._replace(
        y=1e-3 * targets.y,
        squares=1e-6 * targets.squares,
        equations=DirectNormalEquations(targets.u, 1e-3 * targets.y, targets.weight),
    )
    rates = {}
    for gamma in (0.0, 1.0, 9.0):
        walk = walk_of(small, ARFF(gamma=gamma, delta=3.0))
        for _ in range(4):
            walk.step()
        rates[gamma] = np.mean(walk.acceptance)
    assert rates[0.0] < 0.1  # |β*| < 0.001 against a uniform number
    assert rates[0.0] < rates[1.0] < rates[9.0]
    assert rates[9.0] == 1.0


def test_one_iteration_is_the_metropolis_step_written_out():
    for pairing in (None, "printed", "reindex", "solve"):
        arff = ARFF(delta=0.4, ridge=1e-3, gamma=1.2, pairing=pairing, n_features=6)
        walk, (omega, after) = steps(arff, n_steps=1, m=1)
        rng = np.random.default_rng(0)
        rng.standard_normal(walk.free.shape)  # the start

        def size(w, walk=walk):
            S = np.exp(1j * walk.targets.u @ w.T)
            left = S.conj().T @ S + 1e-3 * len(S) * np.eye(len(w))
            return np.linalg.norm(np.linalg.solve(left, S.conj().T @ walk.targets.y), axis=1)

        before = size(omega)
        total = np.cumsum(before)
        j = np.searchsorted(total / total[-1], rng.random(6), side="right")
        compared = {"reindex": before[j], "solve": size(omega[j])}.get(pairing, before)
        proposal = omega[j] + 0.4 * rng.standard_normal((6, 1))
        accepted = size(proposal) > rng.random(6) * compared**1.2
        np.testing.assert_allclose(after, np.where(accepted[:, None], proposal, omega[j]), atol=1e-9)
        assert walk.acceptance == [accepted.mean()]


def test_a_given_ridge_is_that_of_the_result():
    u, _, targets = noisy(lambda u: np.sin(9 * u[:, 0]), 400, 2)
    searched = look(targets, ARFF(ridge=3e-3))
    (fit,) = searched.best.fits
    np.testing.assert_allclose(fit.ridges, 3e-3 * 400 / searched.best.basis.largest)
    waves, linear = (searched.best.basis.omega[chosen] for chosen in (searched.best.kind >= 0, searched.best.kind < 0))
    Z = np.concatenate([np.cos(u @ waves.T), np.sin(u @ waves.T), np.sin(u @ linear.T)], axis=1)
    Z = Z - Z.mean(axis=0)
    size = np.where(np.arange(Z.shape[1]) < 2 * len(waves), 1.0, Z.var(axis=0))  # linear terms count in their own units
    B = np.linalg.solve(Z.T @ Z + 3e-3 * 400 * np.diag(size), Z.T @ targets.y)
    # not the same to rounding: components that carry less than 1e-9 of the variance are left out
    np.testing.assert_allclose(values(searched.best, u), Z @ B, atol=1e-4)


@pytest.mark.parametrize("most", [0, 1, 3, 6])
def test_the_most_iterations_are_obeyed(most):
    _, _, targets = noisy(lambda u: np.sin(30 * u[:, 0]), 1000, 1)
    training = training_of(look(targets, ARFF(min_iterations=most, max_iterations=most)))
    assert training.n_iterations == most
    assert len(training.seconds) == most
    assert training.iteration[0] == 0
    assert training.iteration[-1] == most


@pytest.mark.parametrize("least", [0, 1, 4, 20])
def test_the_least_iterations_are_obeyed(least):
    rng, u = points(200, 1, 3)
    training = training_of(look(targets_of(u, rng.normal(size=200)), ARFF(min_iterations=least)))
    assert training.n_iterations >= max(least, 1)
    assert training.n_iterations <= max(2 * least, 4)
    assert training.stopped == "evidence"


def test_a_search_that_was_cut_short_says_so():
    _, _, targets = noisy(lambda u: np.sin(30 * u[:, 0]), 1000, 1)
    assert look(targets, ARFF(n_features=6, max_iterations=1)).stopped == "max_iterations"


def test_given_features_are_not_added_to():
    _, _, targets = noisy(lambda u: sum(np.sin(k * u[:, 0]) for k in (10, 47, 90, 133, 171)), 3000, 1, gridded=True)
    assert training_of(look(targets, ARFF(n_features=6))).n_features == 6


def test_features_are_added_where_waves_are_left_over():
    rng = np.random.default_rng(1)
    omega, phase = rng.uniform(20, 250, 30), rng.uniform(0, 6, 30)
    u, truth, targets = noisy(lambda u: np.sin(u * omega + phase).sum(axis=1), 6000, 1, noise=0.3, gridded=True)
    searched = look(targets)
    assert training_of(searched).n_features > groups_for(6000, 1, None).size
    assert stood_out(searched.best.kind, 1).sum() >= 20
    assert unexplained(searched.best, u, truth) < 0.01


def test_features_are_added_before_iterations_run_out():
    u, truth, targets = noisy(lambda u: np.sin(200 * (u[:, 0] + 0.5) ** 2), 6000, 1, noise=0.1, gridded=True)
    assert unexplained(look(targets).best, u, truth) < 0.5


# How it is done


def test_the_same_seed_gives_the_same_result_and_another_another():
    _, _, targets = noisy(lambda u: np.sin(20 * u[:, 0] + 11 * u[:, 1]), 1000, 2)
    first, again, other = (look(targets, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.best.basis.omega, again.best.basis.omega)
    np.testing.assert_array_equal(first.best.amplitudes, again.best.amplitudes)
    assert not np.array_equal(first.best.basis.omega, other.best.basis.omega)


def test_the_best_network_that_was_judged_is_kept():
    _, _, targets = noisy(lambda u: np.sin(30 * u[:, 0]), 1000, 1)
    searched = look(targets)
    training = training_of(searched)
    assert training.score[0] == 0
    best = training.score[training.iteration == training.best_iteration].max()
    assert searched.best.log_evidence - searched.start.log_evidence == pytest.approx(best)
    assert best >= training.score.max() - search_module.LEAST_EVIDENCE_GAIN
    waves = searched.best
    again = fitted_waves(*waves.walking, waves.found, targets, waves.V, None)
    assert again.log_evidence == pytest.approx(waves.log_evidence, rel=1e-6)


def test_progress_is_reported_with_the_gain_so_far():
    _, _, targets = noisy(lambda u: np.sin(30 * u[:, 0]), 1000, 1)
    seen = []
    searched = look(targets, on_iteration=lambda i, gain: seen.append((i, gain)))
    assert [i for i, _ in seen] == searched.iteration[1:]
    assert all(a <= b for (_, a), (_, b) in pairwise(seen))
    assert seen[-1][1] == pytest.approx(searched.best.log_evidence - searched.start.log_evidence)


def test_weights_count_as_repetitions():
    rng, u = points(300, 1, 0)
    times = rng.integers(1, 4, 300)
    y = np.sin(9 * u[:, 0]) + rng.normal(size=300)
    weighted = targets_of(u, y, times.astype(float))
    repeated = targets_of(np.repeat(u, times, axis=0), np.repeat(y, times))
    omega, group = 5 * rng.normal(size=(8, 1)), np.zeros(8, dtype=int)
    none = np.empty((0, 1))
    one, other = (fitted_waves(omega, group, none, targets, np.eye(1), None) for targets in (weighted, repeated))
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)
    np.testing.assert_allclose(values(one, u), values(other, u), atol=1e-6)


def test_noise_units_make_residuals_uncorrelated_and_of_unit_variance():
    rng, u = points(500, 2, 0)
    noise = rng.normal(size=(500, 2)) @ np.array([[1.0, 30.0], [0.0, 0.1]])
    targets = targets_of(u, noise + 5 * np.sin(4 * u))
    searched = look(targets, mixed=True)
    V = noise_units(searched.best, targets)
    residuals = (targets.y - values(searched.best, u)) @ V.T
    np.testing.assert_allclose(residuals.T @ residuals / 500, np.eye(2), atol=1e-6)


def test_a_combination_without_noise_makes_all_outputs_accurate():
    rng, u = points(1000, 1, 0)
    truth = np.stack([np.sin(9 * u[:, 0]), np.cos(7 * u[:, 0])], axis=1)
    common = 3 * rng.normal(size=(1000, 1))
    targets = targets_of(u, truth + common * [[1.0, 1.0]] + 1e-3 * rng.normal(size=(1000, 2)))
    searched = look(targets, mixed=True)
    difference = (values(searched.best, u) - truth + truth.mean(axis=0)) @ [1.0, -1.0]
    assert np.std(difference) < 0.01  # the noise of the difference is 1.4e-3, that of each output 3


def test_outputs_may_have_any_unit():
    rng, u = points(400, 2, 0)
    y = np.stack([np.sin(20 * u[:, 0]), u[:, 1]], axis=1) + 0.3 * rng.normal(size=(400, 2))
    unit = np.array([1e-8, 1e8])
    one, other = (look(targets_of(u, y * scale), mixed=True) for scale in (1.0, unit))
    np.testing.assert_allclose(other.best.basis.omega, one.best.basis.omega, rtol=1e-6)
    np.testing.assert_allclose(values(other.best, u) / unit, values(one.best, u), rtol=1e-4, atol=1e-5)


def test_groups_in_use_are_those_of_any_output():
    _, _, targets = noisy(lambda u: np.sin(5 * u[:, 0]), 500, 2)
    searched = look(targets)
    (fit,) = searched.best.fits
    np.testing.assert_array_equal(
        groups_in_use(searched), np.unique(searched.best.basis.group)[fit.ridges < SWITCHED_OFF]
    )


# Waves that stood out


@pytest.mark.parametrize("m", [1, 2, 3])
def test_waves_that_stood_out_move_to_where_they_leave_least_over(m):
    _, u = points(3000, m, 0)
    true = np.array([[9.0, 0.0, 0.0], [20.0, 0.0, 0.0]]) if m == 1 else np.array([[9.0, 0.0, 0.0], [6.0, -11.0, 0.0]])
    true = true[:, :m]
    angles = u @ true.T
    y = np.stack(
        [np.cos(angles[:, 0]) + np.sin(angles[:, 1]), 0.5 * np.sin(angles[:, 0]) + np.cos(angles[:, 1])], axis=1
    )
    targets = targets_of(u, y)
    nothing = np.empty((0, m)), np.empty(0, dtype=int)
    off = true + 0.1 * np.sign(true) * [[1.0], [-1.0]]

    def fitted(found):
        return fitted_waves(*nothing, found, targets, np.eye(2), None)

    for _ in range(3):
        moved = moved_waves(fitted(off), targets)
        assert np.abs(moved - true).max() < 0.5 * np.abs(off - true).max()
        np.testing.assert_array_equal(moved == 0, true == 0)  # a wave along an input remains one
        off = moved


def test_refined_waves_are_fewer_and_nearer():
    _, _, targets = noisy(lambda u: np.cos(18.3 * u[:, 0] + 13.1 * u[:, 1]), 20_000, 2, noise=0.5)
    searched = look(targets)
    assert len(searched.best.found) == 1  # a frequency that is off leaves something over that further waves must mend
    assert np.abs(np.abs(searched.best.found) - [18.3, 13.1]).max() < 0.1  # six standard errors


def test_waves_of_a_covariance_are_moved_together_if_they_are_few(monkeypatch):
    """Of a wave that is three hundredths off, Σ has an error of a tenth."""
    rng = np.random.default_rng([1, 14])
    x, kicks = rng.uniform(-1, 1, (100_000, 2)), rng.standard_normal((100_000, 2))
    s, c = np.sin(3 * np.pi * x.T), np.cos(3 * np.pi * x.T)
    drift = 0.4 * np.stack([s[0] * c[1], -c[0] * s[1]], axis=1)
    noise = 0.5 + 0.2 * np.stack([np.cos(3 * np.pi * x.sum(axis=1)), s[0]], axis=1)
    data = itofit.Transitions(x, 0.01 * drift + 0.1 * noise * kicks, 0.01, kind="diffusion")

    def error():
        sde = itofit.fit(data, correct_step=False, rng=1)
        learned = np.diagonal(sde.covariance(x[:5000]), axis1=1, axis2=2)
        return np.sqrt(np.mean((learned / noise[:5000] ** 2 - 1) ** 2))

    assert error() < 0.04
    monkeypatch.setattr(walk_module, "FEW_WAVES", 0)
    assert error() > 0.05
