"""Between few data: a drift stays near its mean where nothing was seen, and its error bars say so."""

from functools import cache

import numpy as np
import pytest

import itofit
from itofit import Transitions
from itofit.learning.automatic import gaps, method
from itofit.model.likelihood import gaussian_nll, student_nll, uncertain_nll

H = 0.01


def clumps(seed, slope=20.0):
    """Short tracks from two places of three variables, which relax quickly."""
    rng = np.random.default_rng(seed)
    starts = np.array([[1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    tracks = []
    for start in starts:
        x = [start]
        for _ in range(16):
            x.append(x[-1] - H * slope * (x[-1] - 0.8 * start) + 0.1 * np.sqrt(H) * rng.normal(size=3))
        tracks.append(np.array(x))
    return Transitions.from_trajectories(tracks, H)


def drift_between(data):
    """Root mean squares of f − f̄ between the data and at them, and of its error between them, for each output."""
    sde = itofit.fit(data, correct_step=False, measurement_noise=False, rng=0)
    apart = gaps.between(data.inputs, np.random.default_rng(1))
    f, error = sde.drift(apart, return_std=True)
    at_data = sde.drift(data.inputs)
    mean = at_data.mean(axis=0)
    return [np.sqrt(np.mean(each**2, axis=0)) for each in (f - mean, at_data - mean, error)]


@cache
def drift_between_clumps(seed):
    """`drift_between` of the clumps of a seed, with all priors as they are."""
    return drift_between(clumps(seed))


def test_a_drift_of_two_clumps_is_no_larger_between_them(monkeypatch):
    """Without the prior it is, in some of ten data sets; with it, in none."""
    with_prior = [drift_between_clumps(seed) for seed in range(10)]
    monkeypatch.setattr(method, "near_its_mean", lambda drift, *_: drift)
    without = [drift_between(clumps(seed)) for seed in range(10)]
    ratios = [max((apart / at_data).max() for apart, at_data, _ in sizes) for sizes in (with_prior, without)]
    assert ratios[0] < 3 < ratios[1]


def test_error_bars_between_clumps_are_about_as_large_as_the_drift():
    """It is not known there at all, but for its size."""
    for seed in range(5):
        _, at_data, error = drift_between_clumps(seed)
        assert (error > 0.5 * at_data).all()
        assert (error < 10 * at_data).all()


def test_where_data_are_everywhere_next_to_nothing_changes(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    data = Transitions.from_pairs(x, x - H * 5 * np.tanh(x) + 0.1 * np.sqrt(H) * rng.normal(size=x.shape), H)
    sde = itofit.fit(data, rng=0)
    monkeypatch.setattr(method, "near_its_mean", lambda drift, *_: drift)
    np.testing.assert_allclose(itofit.fit(data, rng=0).drift(x), sde.drift(x), atol=1e-5)


def test_other_functions_have_the_variance_that_the_data_leave_them(monkeypatch):
    """s² φ(x)ᵀ (1 + s²/v Σ φ φᵀ)⁻¹ φ(x) for transitions of equal length, each of which tells f up to a variance v."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(50, 1))
    data = Transitions.from_pairs(x, x - H * 20 * x + 0.3 * np.sqrt(H) * rng.normal(size=x.shape), H)
    options = {"correct_step": False, "rng": 0}
    sde = itofit.fit(data, **options)
    monkeypatch.setattr(method, "with_other_functions", lambda spread, *_: spread)
    without = itofit.fit(data, **options)
    points = np.linspace(-1, 1, 9)[:, None]
    added = sde.drift(points, return_std=True)[1] ** 2 - without.drift(points, return_std=True)[1] ** 2

    spread = sde.drift_function.spread
    omega = spread.omega[-gaps.WAVES :]

    def waves(x):
        phase = (x - spread.shift) / spread.scale @ omega.T
        return np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(gaps.WAVES)

    square = float(np.var(sde.drift(x)))
    variance = float(without.covariance(x[:1])[0, 0, 0]) / H
    inverse = np.linalg.inv(np.eye(2 * gaps.WAVES) + square / variance * waves(x).T @ waves(x))
    expected = square * np.einsum("ni,ij,nj->n", waves(points), inverse, waves(points))
    # The drift was fitted with the residual variance without, and Σ with that of other folds
    np.testing.assert_allclose(added[:, 0], expected, rtol=0.1)


def test_error_bars_of_a_periodic_input_are_periodic():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, size=(60, 1))
    moved = angle + H * 30 * np.sin(angle) + 0.2 * np.sqrt(H) * rng.normal(size=angle.shape)
    data = Transitions.from_pairs(angle, moved, H, names=["angle"], periodic={"angle": 2 * np.pi})
    sde = itofit.fit(data, rng=0)
    ends = np.array([[1.0], [1.0 + 2 * np.pi]])
    _, (one, other) = sde.drift(ends, return_std=True)
    np.testing.assert_allclose(one, other, rtol=1e-9)
    # Not by wrapping alone
    values = sde.drift_function.spread(np.array([[0.0], [2 * np.pi]]))
    np.testing.assert_allclose(values[0], values[1], atol=1e-9 * np.abs(values).max())


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_errors_of_the_drift_are_correlated_only_as_far_as_noise_is_as_large(size):
    """Small ones follow the noises' correlation, large ones are independent; the total is positive definite."""
    rng = np.random.default_rng(0)
    n, d = 200, 3
    root = np.array([[1.0, 0, 0], [0.99, 0.1, 0], [0.5, -0.5, 0.2]])
    sigma = np.tile(root @ root.T, (n, 1, 1))
    noise = np.sqrt(np.diagonal(sigma[0]))
    h, mean = np.full(n, 1.0), np.zeros((n, d))
    error = np.tile(size * noise, (n, 1))
    moves = rng.normal(size=(n, d)) * (1 + size)
    found = uncertain_nll(moves, h, mean, sigma, error, np.zeros((n, d)))
    if size < 1:
        expected = gaussian_nll(moves, h, mean, sigma * (1 + size**2))
    elif size > 1:
        expected = gaussian_nll(moves, h, mean, np.tile(np.diag((size * noise) ** 2), (n, 1, 1)))
    else:
        half = sigma * (1 + 0.5) + 0.5 * np.eye(d) * noise**2
        expected = student_nll(moves, h, mean, half, np.full(n, 1e6))
    np.testing.assert_allclose(found, expected, rtol=1e-2)
