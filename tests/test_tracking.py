"""Filter, smoother and drawn tracks against plain linear algebra; windows; steps of Gaussian states."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from itofit import Transitions
from itofit.data.following import follows
from itofit.model.finite_step import moments_of_step
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import Prior, drawn, filtered, smoothed
from itofit.model.hidden.windows import MOST_OVERLAP, InOrder, chunks, cut, window_lengths

WIDE = 1e6


def linear_step(B, sigma, **options):
    """The step of dx = B x dt + σ dW, Σ = σσᵀ; of a second-order system B is (d, 2d)."""
    d = len(B)
    box = np.array([[-WIDE] * B.shape[1], [WIDE] * B.shape[1]])

    def functions(s):
        return s @ B.T, np.repeat(sigma[None], len(s), axis=0)

    return GaussianStep(functions, box, np.diagonal(sigma), second_order=B.shape[1] == 2 * d, **options)


def dense(A, Q, noise, y, P0, d):
    """Mean and covariance of all states, and log p of the observations after the first, by plain linear algebra.

    A, Q are those of each step, the first state has mean (y_0, 0) and covariance P0.
    """
    T, D = len(A), len(P0)
    G = np.zeros(((T + 1) * D, (T + 1) * D))  # states from the first one and the noise of each step
    N = np.zeros_like(G)
    for t in range(T + 1):
        block = slice(t * D, (t + 1) * D)
        G[block, block] = np.eye(D)
        if t:
            G[block] += A[t - 1] @ G[slice((t - 1) * D, t * D)]
        N[block, block] = P0 if t == 0 else Q[t - 1]
    prior = G @ N @ G.T
    mean = G @ np.concatenate([y[0], np.zeros(D - d), np.zeros(T * D)])
    seen = np.concatenate([t * D + np.arange(d) for t in range(1, T + 1)])
    S = prior[np.ix_(seen, seen)] + np.kron(np.eye(T), noise)
    away = y[1:].ravel() - mean[seen]
    gain = prior[:, seen] @ np.linalg.inv(S)
    log_p = multivariate_normal.logpdf(away, cov=S)
    return mean + gain @ away, prior - gain @ prior[seen], log_p


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_filter_and_smoother_are_exact_for_linear_systems(d, second_order):
    rng = np.random.default_rng(d)
    D = 2 * d if second_order else d
    B = rng.normal(size=(d, D)) - 2 * np.eye(d, D, D - d)
    root = np.eye(d) + 0.3 * rng.normal(size=(d, d))
    sigma, noise = root @ root.T, 0.05 * (np.eye(d) + 0.5)
    T, h = 12, rng.uniform(0.05, 0.2, 12)
    y = np.cumsum(rng.normal(size=(T + 1, d)), axis=0)
    data = Transitions.from_trajectories(y, times=np.concatenate([[0.0], np.cumsum(h)]))
    step = linear_step(B, sigma)
    prior = Prior(np.zeros(D - d), 2.0 * np.eye(D - d))
    (chunk,) = chunks(data, cut(follows(data), 5, 100))
    found = filtered(step, chunk, noise, prior)
    after = smoothed(found, chunk)

    moved = [step(np.zeros((1, D)), np.zeros((1, D, D)), np.array([each])) for each in h]
    P0 = np.zeros((D, D))
    P0[:d, :d], P0[d:, d:] = noise, prior.covariance
    A, Q = [each.slope[0] for each in moved], [each.noise[0] for each in moved]
    mean, covariance, log_p = dense(A, Q, noise, y, P0, d)
    np.testing.assert_allclose(found.losses()[chunk.kept].sum(), -log_p, rtol=1e-9)
    np.testing.assert_allclose(after.m[:, 0].ravel(), mean, rtol=0, atol=1e-8)
    for t in range(T + 1):
        own = slice(t * D, (t + 1) * D)
        np.testing.assert_allclose(after.P[t, 0], covariance[own, own], atol=1e-8)
        if t < T:
            later = slice((t + 1) * D, (t + 2) * D)
            np.testing.assert_allclose(after.C[t, 0], covariance[later, own], atol=1e-8)


def test_drawn_tracks_have_the_moments_of_the_smoother():
    """False alarms: 5 standard errors at 26 places, about 1 in 70,000."""
    rng = np.random.default_rng(0)
    y = np.cumsum(0.3 * rng.normal(size=(13, 1)), axis=0)
    n = 4000
    data = Transitions.from_trajectories([y] * n, dt=0.1)
    (chunk,) = chunks(data, cut(follows(data), 5, 100))
    found = filtered(linear_step(np.array([[-1.0]]), np.eye(1)), chunk, 0.05 * np.eye(1))
    after, tracks = smoothed(found, chunk), drawn(found, chunk, rng)
    sd = np.sqrt(after.P[:, 0, 0, 0])
    assert (np.abs(tracks[:, :, 0].mean(axis=1) - after.m[:, 0, 0]) < 5 * sd / np.sqrt(n)).all()
    assert (np.abs(tracks[:, :, 0].std(axis=1) / sd - 1) < 5 / np.sqrt(2 * n)).all()
    both = np.mean(np.prod(tracks[:2, :, 0] - after.m[:2, :, 0], axis=0))
    assert abs(both - after.C[0, 0, 0, 0]) < 5 * sd[0] * sd[1] / np.sqrt(n) * 1.5


def test_step_from_a_known_state_is_that_of_finite_steps():
    rng = np.random.default_rng(1)
    x, h = rng.normal(size=(40, 2)), np.linspace(0.01, 0.3, 40)

    def drift(x):
        return np.stack([x[:, 1] - x[:, 0] ** 3, np.sin(x[:, 0]) - x[:, 1]], axis=1)

    def covariance(x):
        root = np.eye(2) + 0.3 * np.stack([np.stack([np.cos(x[:, 0]), 0 * x[:, 0]], 1), x / (1 + x**2)], axis=1)
        return root @ root.swapaxes(1, 2)

    box = np.array([[-WIDE] * 2, [WIDE] * 2])
    moved = GaussianStep(lambda s: (drift(s), covariance(s)), box, np.ones(2))(x, np.zeros((40, 2, 2)), h)
    exact = moments_of_step(x, h, drift, covariance, underdamped=False)
    np.testing.assert_allclose((moved.mean - x) / h[:, None], exact.mean, atol=2e-4)
    np.testing.assert_allclose(moved.covariance / h[:, None, None], exact.covariance, atol=3e-4)


def test_second_order_step_has_the_noise_of_integrated_velocity():
    h, sigma = 0.3, np.array([[2.0, 0.5], [0.5, 1.0]])
    moved = linear_step(np.zeros((2, 4)), sigma)(np.ones((1, 4)), np.zeros((1, 4, 4)), np.array([h]))
    np.testing.assert_allclose(moved.noise[0], np.kron([[h**3 / 3, h**2 / 2], [h**2 / 2, h]], sigma), rtol=1e-10)
    np.testing.assert_allclose(moved.mean[0], [1 + h, 1 + h, 1, 1])


def test_slope_of_a_linear_step_is_its_exponential_to_third_order():
    B = np.array([[-1.0, 0.5], [-0.3, -2.0]])
    errors = []
    for h in (0.1, 0.05):
        moved = linear_step(B, np.eye(2))(np.ones((1, 2)), 0.1 * np.eye(2)[None], np.array([h]))
        errors.append(np.abs(moved.slope[0] - expm(h * B)).max())
    assert errors[0] / errors[1] > 12  # 16 for an error of fourth order


def test_every_row_is_kept_once_and_windows_stay_within_tracks():
    rng = np.random.default_rng(2)
    paths = [np.cumsum(rng.normal(size=(n, 1)), axis=0) for n in (2, 3, 50, 731, 400)]
    data = Transitions.from_trajectories(paths, dt=1.0)
    count = np.zeros(len(data), dtype=int)
    for chunk in chunks(data, cut(follows(data), 10, 40)):
        np.add.at(count, chunk.rows[chunk.kept], 1)
        assert (np.diff(chunk.active) <= 0).all()
        for w in range(chunk.rows.shape[1]):
            rows = chunk.rows[chunk.rows[:, w] >= 0, w]
            assert len(np.unique(data.groups[rows])) == 1
            assert (np.diff(rows) == 1).all()
    assert (count == 1).all()


def test_windows_hardly_change_the_likelihood():
    rng = np.random.default_rng(3)
    x = np.zeros(3000)
    for t in range(1, 3000):
        x[t] = 0.98 * x[t - 1] + 0.2 * rng.normal()
    data = Transitions.from_trajectories((x + 0.1 * rng.normal(size=3000))[:, None], dt=0.02)
    step = linear_step(np.array([[-1.0]]), 2 * np.eye(1))

    def loss(overlap, kept):
        parts = chunks(data, cut(follows(data), overlap, kept))
        return sum(filtered(step, c, 0.01 * np.eye(1)).losses()[c.kept].sum() for c in parts)

    assert abs(loss(30, 100) - loss(0, 10_000)) < 1e-3


@pytest.mark.parametrize("error", [1e15, 1e40, np.inf])
@pytest.mark.filterwarnings("error")
def test_errors_beyond_all_bounds_need_the_longest_windows(error):
    """Scoring may try them."""
    assert window_lengths(np.eye(1), np.array([[error]]))[0] == MOST_OVERLAP


def test_blocks_overlap_so_that_tracks_go_on(monkeypatch):
    from itofit.data import rows

    data = Transitions.from_trajectories(np.cumsum(np.ones((101, 1)), axis=0), dt=1.0)
    monkeypatch.setattr(rows, "PASS_ROWS", 30)
    seen = []
    for block in InOrder(data, 7).blocks():
        windows = cut(follows(block.rows), 7, 10, block.n_before)
        for chunk in chunks(block.rows, windows):
            seen += block.rows.inputs[chunk.rows[chunk.kept], 0].tolist()
        assert block.n_before == (7 if seen and len(seen) > 30 else 0)
    assert sorted(seen) == data.inputs[:, 0].tolist()
