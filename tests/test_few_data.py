"""Few data get a simple answer: fits that gain little over constants are moved to these, others are left alone."""

import numpy as np
import pytest

import itofit
from itofit import Transitions
from itofit.learning.automatic import few_data, method
from itofit.learning.automatic.few_data import FEW_ROWS
from itofit.model.likelihood import gaussian_nll

H = 0.05


def noise(rng, x, a=0.0):
    """One step of noise that may be stronger far away."""
    return np.sqrt(H) * (0.3 + a * x**2) * rng.normal(size=x.shape)


def learned(seed, n, d, drift, a=0.0):
    """A fit to n pairs of d variables, and by how much it is worse than constants with fresh noise at its inputs."""
    rng = np.random.default_rng([seed, n, d])
    x = rng.normal(size=(n, d))
    data = Transitions.from_pairs(x, x + H * drift * x + noise(rng, x, a), H)
    sde = itofit.fit(data, rng=seed)
    again = np.repeat(x, 50, axis=0)
    moves = H * drift * again + noise(rng, again, a)
    constant = data.increments.mean(axis=0) / H
    residuals = (data.increments - H * constant) / np.sqrt(H)
    covariance = residuals.T @ residuals / n
    h, many = np.full(len(again), H), (len(again), 1)
    best = gaussian_nll(moves, h, np.tile(constant, many), np.tile(covariance, (*many, 1)))
    mean, own = sde.step_moments(again, h)
    return sde, float((gaussian_nll(moves, h, mean, own) - best).mean() / d)


def test_noise_alone_is_hardly_learned():
    """Twelve data sets of 30 to 90 rows without a drift: none is worse by more than 0.03, and 0.005 on average."""
    above = [learned(seed, n, d, 0.0)[1] for seed in range(2) for n in (30, 50, 90) for d in (1, 3)]
    assert max(above) <= 0.03
    assert np.mean(above) <= 0.005


def test_data_whose_fit_was_worse_than_constants():
    """It was worse by 0.04, with noise that is strong at a few places far away."""
    assert learned(1, 30, 1, 0.0, 0.5)[1] <= 0.02


@pytest.mark.parametrize(("n", "drift"), [(30, -8.0), (300, -1.0)])
def test_what_is_clear_or_simple_is_kept_as_it_was_learned(monkeypatch, n, drift):
    """A drift that gains more than CLEAR_GAIN for its one amplitude, and one for which there are ENOUGH_ROWS."""
    sde = itofit.fit(_data(n, drift), rng=0)
    assert "moved" not in sde.summary()
    monkeypatch.setattr(few_data, "CLEAR_GAIN", 0.0)
    assert itofit.fit(_data(n, drift), rng=0).drift([[1.0]]) == sde.drift([[1.0]])


@pytest.mark.parametrize(("name", "value"), [("CLEAR_GAIN", 1e3), ("ENOUGH_ROWS", 1e3)])
def test_what_is_clear_or_simple_is_moved_by_other_limits(monkeypatch, name, value):
    """Each of the two limits matters: thirty rows with a clear drift, and three hundred with a weak one."""
    monkeypatch.setattr(few_data, name, value)
    n, drift = (30, -8.0) if name == "CLEAR_GAIN" else (300, -0.1)
    assert "moved" in itofit.fit(_data(n, drift), rng=0).summary()


def _data(n, drift):
    """The data of `learned` with seed 0 and one variable."""
    rng = np.random.default_rng([0, n, 1])
    x = rng.normal(size=(n, 1))
    return Transitions.from_pairs(x, x + H * drift * x + noise(rng, x), H)


def test_the_summary_says_what_was_done():
    sde = itofit.fit(_data(30, -0.5), rng=0)
    assert "so few say little of f, moved 60% of the way to constants" in sde.summary()


def test_more_data_are_left_alone(monkeypatch):
    """Beyond FEW_ROWS nothing of it is asked."""

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(method, "unclear", never)
    with pytest.raises(AssertionError):
        itofit.fit(_data(FEW_ROWS, -0.5), rng=0)
    itofit.fit(_data(FEW_ROWS + 1, -0.5), rng=0)


def test_a_ridge_that_is_set_is_obeyed():
    sde = itofit.fit(_data(30, -0.5), drift=itofit.ARFF(ridge=0.01), rng=0)
    assert "moved" not in sde.summary()


def test_error_bars_hold_what_was_taken_away(monkeypatch):
    """f̄ + w (f − f̄) deviates from f by (1 − w)(f − f̄), which its error bars know; f and f̄ are those of w = 1 and 0."""
    x = np.linspace(-1.5, 1.5, 7)[:, None]
    found = {}
    for w in (0.0, few_data.KEPT, 1.0):
        monkeypatch.setattr(few_data.nearer_to_constant, "__defaults__", (w,))
        found[w] = itofit.fit(_data(30, -0.5), correct_step=False, rng=0).drift(x, return_std=True)
    (constant, _), (moved, error), (as_learned, own) = found.values()
    assert np.ptp(constant) < 1e-9 * np.ptp(as_learned)
    np.testing.assert_allclose(moved, constant + few_data.KEPT * (as_learned - constant))
    assert (error >= (1 - 1e-9) * np.maximum(own, (1 - few_data.KEPT) * np.abs(as_learned - constant) * 0.9)).all()


def test_correlations_of_few_data_are_not_lost():
    """Noises of four variables with correlations of 0.4: one data set in six has its test passed by chance alone."""
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(0.6 * np.eye(4) + 0.4)
    x = rng.normal(size=(40, 4))
    data = Transitions.from_pairs(x, x + np.sqrt(H) * rng.normal(size=x.shape) @ root.T, H)
    sde = itofit.fit(data, rng=0)
    assert sde.structure == "full"
    assert itofit.fit(data, structure="diagonal", rng=0).structure == "diagonal"
