"""Candidates of a drift, compared with the steps that they make."""

import numpy as np
import pytest

import itofit
from itofit import Transitions
from itofit._progress import Progress
from itofit.data.survey import survey
from itofit.learning.automatic.method import Automatic
from itofit.learning.options import FitOptions
from itofit.learning.pipeline import Task, functions_of_one_step
from itofit.learning.step_evidence import ObservedMoves, ObservedProducts, Stepped, _lengths
from itofit.model.finite_step import moments_of_step

H = 0.1


def well(x):
    return x - x**3


def short_tracks(n_steps, seed, n_tracks=2_000, drift=well, noise_of=lambda x: 0.5):
    """Tracks in two wells, simulated with steps of a twentieth; the drift changes much within a step."""
    rng, dt = np.random.default_rng(seed), H / 20
    x = np.sign(rng.normal(size=n_tracks))
    track = [x]
    for _ in range(n_steps):
        for _ in range(20):
            noise = noise_of(x) * np.sqrt(dt) * rng.normal(size=n_tracks)
            ahead = x + dt * drift(x) + noise
            x = x + dt * (drift(x) + drift(ahead)) / 2 + noise
        track.append(x)
    return Transitions.from_trajectories(list(np.array(track).T[:, :, None]), dt=H)


def learned_of(data, **options):
    task = Task(
        data=data,
        survey=survey(data, Progress(False)),
        options=FitOptions(rng=0, **options),
        rng=np.random.default_rng(0),
        seed=0,
        bar=Progress(False),
    )
    method = Automatic(task)
    return method, *functions_of_one_step(method)


@pytest.fixture(scope="module")
def many():
    return short_tracks(50, seed=0)


def test_likelihoods_are_those_of_every_transition():
    """Where each has a cell of its own: against the sum over transitions of their normal densities."""
    data = short_tracks(2, seed=1, n_tracks=500)
    method, drift, covariance = learned_of(data)
    corrected = method._corrected(drift, covariance)
    precision = method._precision(covariance, drift)
    observed = ObservedMoves(drift.cells, precision, method.scaling, data)
    found = observed.log_likelihoods(Stepped(drift.drift, drift.basis, corrected))

    def series(amplitudes):
        return drift.basis.series(amplitudes[:, 0], amplitudes[:, 1:].T, method.scaling)

    m = series(drift.drift.posterior.amplitudes)(data.inputs)
    step = moments_of_step(
        data.inputs,
        data.h,
        series(corrected.drift.amplitudes),
        lambda x: corrected.sigma.at(method.scaling.points(x)),
        underdamped=False,
    ).mean
    variance = covariance.sigma.at(method.scaling.points(data.inputs))[:, 0, 0] * data.h

    def log_density(rates):
        return -0.5 * ((data.increments - data.h[:, None] * rates)[:, 0] ** 2 / variance).sum()

    for value, rates in zip(found, (m, step), strict=True):
        assert value == pytest.approx(log_density(rates) - log_density(np.zeros_like(m)), rel=1e-6)
    assert found[1] != pytest.approx(found[0], rel=1e-6)


def test_cells_of_several_transitions_take_the_length_by_which_steps_matter():
    """Steps of 0.05 and 0.15 at each place: (0.05² + 0.15²) / (0.05 + 0.15) is what the mean move depends on."""
    _, drift, _ = learned_of(short_tracks(2, seed=1, n_tracks=200))
    cells = drift.cells._replace(count=np.full(len(drift.cells.u), 2.0), duration=np.full(len(drift.cells.u), 0.2))
    np.testing.assert_allclose(_lengths(cells, 0.125), 0.125)
    np.testing.assert_allclose(_lengths(drift.cells, 0.125), H)


def test_waves_that_stand_for_the_length_of_steps_give_way_to_a_polynomial(many):
    """The mean of a step has terms of the fifth degree, for which waves are chosen; the drift has none."""
    method, drift, covariance = learned_of(many)
    simple = drift.searched.candidates[0]
    assert drift.waves is not simple
    waves = method._corrected(drift, covariance)
    chosen, corrected = method._or_simplest(drift, covariance, waves)
    assert chosen.waves is simple
    assert corrected is not waves
    sde = itofit.fit(many, rng=0)
    x = np.random.default_rng(1).choice(many.inputs, 2_000)

    def error(drift):
        return np.sqrt(np.mean((drift(x) - well(x)) ** 2))

    before = drift.basis.series(waves.drift.amplitudes[:, 0], waves.drift.amplitudes[:, 1:].T, method.scaling)
    assert error(sde.drift) < 0.9 * error(before)
    assert sde.one_step.drift_function.series.omega.shape != sde.drift_function.series.omega.shape
    assert sde.step_correction.outcome == "corrected"


def test_a_drift_that_is_no_polynomial_keeps_its_waves():
    data = short_tracks(50, seed=0, drift=lambda x: -np.tanh(3 * x) - np.sin(4 * x))
    method, drift, covariance = learned_of(data)
    corrected = method._corrected(drift, covariance)
    assert drift.waves is not drift.searched.candidates[0]
    assert method._or_simplest(drift, covariance, corrected) == (drift, corrected)


def linear_pairs(n, h, seed=0):
    """Two variables that turn and relax, from places at which steps of lengths h (n,) start; constant noise."""
    rng = np.random.default_rng(seed)
    A, substeps = np.array([[-1.0, 3.0], [-2.0, -1.0]]), 50
    x = x0 = rng.normal(size=(n, 2))
    dt = (h / substeps)[:, None]
    for _ in range(substeps):
        noise = np.sqrt(dt) * rng.normal(size=(n, 2)) * [0.5, 0.8]
        x = x + dt * ((x + (x + dt * x @ A.T + noise)) / 2) @ A.T + noise
    return Transitions.from_pairs(x0, x, h)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_loss_of_products_is_that_of_every_transition(structure):
    """Of uneven steps, with a cell each: up to a constant, the mean nll with covariances of steps.

    A diagonal Σ makes steps whose variables are correlated; only their variances count, as in its own fit.
    """
    data = linear_pairs(800, np.random.default_rng(1).uniform(0.02, 0.1, 800))
    method, drift, covariance = learned_of(data, structure=structure)
    corrected, products = method._corrected(drift, covariance), covariance.products
    observed = ObservedProducts(products.cells, method.scaling, data)
    found = observed.loss(drift.basis, corrected.drift, corrected.sigma)
    amplitudes = corrected.drift.amplitudes
    C = moments_of_step(
        data.inputs,
        data.h,
        drift.basis.series(amplitudes[:, 0], amplitudes[:, 1:].T, method.scaling),
        lambda x: corrected.sigma.at(method.scaling.points(x)),
        underdamped=False,
    ).covariance
    r = products.cells.sums  # entries 11, 12, 22 of one transition each
    assert len(r) == len(data)
    by_hand = 0.0
    for c, (a, b, e) in zip(C, r, strict=True):
        if structure == "diagonal":
            by_hand += 0.5 * (np.log(c[0, 0] * c[1, 1]) + a / c[0, 0] + e / c[1, 1])
        else:
            by_hand += 0.5 * (np.log(np.linalg.det(c)) + np.trace(np.linalg.inv(c) @ [[a, b], [b, e]]))
    assert found == pytest.approx(by_hand / len(data), rel=1e-6)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_no_other_constant_makes_steps_more_likely(structure):
    data = linear_pairs(2_000, np.full(2_000, 0.1))
    method, drift, covariance = learned_of(data, structure=structure)
    corrected, products = method._corrected(drift, covariance), covariance.products
    observed = ObservedProducts(products.cells, method.scaling, data)
    constant = method._constant(products, covariance.sigma.fit.shape, steady=False)
    best = observed.most_likely_constant(drift.basis, corrected.drift, corrected.sigma, constant)
    value = best.L @ best.L.T
    least = observed.loss(drift.basis, corrected.drift, best)
    error = np.sqrt(2 / len(data))
    for i, j in ((0, 0), (1, 1)) if structure == "diagonal" else ((0, 0), (0, 1), (1, 1)):
        for sign in (-1, 1):
            other = value.copy()
            other[i, j] += sign * error * np.sqrt(value[i, i] * value[j, j])
            other[j, i] = other[i, j]
            assert observed.loss(drift.basis, corrected.drift, best.with_mean(other)) > least


def test_noise_that_varies_with_the_length_of_steps_alone_is_constant(many):
    """The variance of a step is h Σ (1 + h f′): in two wells it varies by a third although Σ does not."""
    sde = itofit.fit(many, rng=0)
    x = np.random.default_rng(1).choice(many.inputs, 2_000)
    of_steps, variance = sde.one_step.covariance(x)[:, 0, 0], sde.covariance(x)[:, 0, 0]
    assert np.ptp(of_steps) > 0.3 * of_steps.mean()
    assert np.ptp(variance) == 0
    assert variance[0] == pytest.approx(0.25, rel=0.02)
    assert "; a constant Σ explains how the noise of steps varies" in sde.summary()
    assert "covariance  constant: " in sde.summary()


def test_a_diagonal_noise_that_varies_a_little_is_not_called_constant():
    """Variables that turn: steps are correlated although noises are not. Only a constant was credited with that."""
    rng, n, h, substeps = np.random.default_rng(0), 20_000, 0.1, 20
    x0 = x = rng.normal(size=(n, 2))
    dt = h / substeps
    for _ in range(substeps):
        size = np.stack([0.5 * (1 + 0.2 * np.tanh(2 * x[:, 0])), np.ones(n)], axis=1)
        noise = size * np.sqrt(dt) * rng.normal(size=(n, 2))
        f = np.stack([3 * x[:, 1] - x[:, 0], -x[:, 1] - 2 * x[:, 0]], axis=1)
        x = x + dt * f + noise
    sde = itofit.fit(Transitions.from_pairs(x0, x, h), structure="diagonal", rng=0)
    low, high = sde.covariance(np.array([[-0.6, 0.0], [0.6, 0.0]]))[:, 0, 0]
    assert high / low == pytest.approx(0.340 / 0.174, rel=0.15)


def test_error_bars_of_a_constant_hold_what_steps_leave_over(many):
    """Of five data sets Σ is within two or three of its errors of the truth; noise alone makes less than half of it."""
    fits = [itofit.fit(short_tracks(50, seed), rng=0) for seed in range(5)]
    variance, std = np.array([sde.covariance(np.zeros((1, 1)), return_std=True) for sde in fits])[:, :, 0, 0, 0].T
    assert np.abs(variance - 0.25).max() < 2.5 * std.min()
    assert std.min() > 2 * 0.25 * np.sqrt(2 / len(many))


@pytest.mark.parametrize("n_steps", [5, 50])
def test_noise_that_varies_by_a_quarter_is_not_taken_for_that_of_steps(n_steps):
    """Ten data sets in all, of 10,000 and 100,000 transitions, none of which may end as a constant."""
    for seed in range(5):
        sde = itofit.fit(short_tracks(n_steps, seed, noise_of=lambda x: 0.5 + 0.06 * np.tanh(2 * x)), rng=0)
        assert sde.covariance_function.training.n_features
        variance = sde.covariance(np.array([-1.0, 1.0]))[:, 0, 0]
        np.testing.assert_allclose(variance, (0.5 + 0.06 * np.tanh([-2.0, 2.0])) ** 2, rtol=0.15)


def test_a_ridge_that_was_asked_for_is_obeyed(many):
    asked = itofit.fit(many, covariance=itofit.ARFF(ridge=1e-3), rng=0)
    assert asked.covariance_function.training.n_features
    assert np.ptp(asked.covariance(many.inputs[:1_000])) > 0


def test_a_subset_does_not_decide_that_noise_is_constant(many):
    """Of 20,000 transitions that were searched on; waves then have amplitudes from all 100,000."""
    sde = itofit.fit(many, drift=itofit.ARFF(search_rows=20_000), rng=0)
    assert "20000" in sde.searched_on
    assert sde.covariance_function.training.n_features == sde.one_step.covariance_function.training.n_features > 0
