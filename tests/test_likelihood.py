import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t

import itofit
from itofit.model.likelihood import gaussian_nll, student_nll


def steps(d, n=20):
    """Increments, durations, drifts and covariances of n steps."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(n, d, d))
    covariance = A @ A.swapaxes(1, 2) + 0.05 * np.eye(d)
    increments, drift, h = rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.uniform(0.001, 1, n)
    return increments, h, drift, covariance


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_loss_is_that_of_scipys_normal_distribution(d):
    n = 20
    increments, h, drift, covariance = steps(d, n)
    expected = [-multivariate_normal(h[i] * drift[i], h[i] * covariance[i]).logpdf(increments[i]) for i in range(n)]
    np.testing.assert_allclose(gaussian_nll(increments, h, drift, covariance), expected, rtol=1e-9)


def test_loss_survives_columns_of_very_different_scales():
    scales = np.array([1e-12, 1.0, 1e12])
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 3, 3))
    covariance = A @ A.swapaxes(1, 2) + 0.1 * np.eye(3)
    increments, drift, h = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), np.full(5, 0.1)
    plain = gaussian_nll(increments, h, drift, covariance)
    scaled = gaussian_nll(increments * scales, h, drift * scales, covariance * np.outer(scales, scales))
    np.testing.assert_allclose(scaled, plain + np.log(scales).sum(), rtol=1e-9)


@pytest.mark.parametrize("d", [1, 3])
def test_loss_of_an_uncertain_covariance_is_that_of_scipys_student_distribution(d):
    increments, h, drift, covariance = steps(d)
    freedom = np.random.default_rng(0).uniform(1, 30, len(h))
    expected = [
        -multivariate_t(h[i] * drift[i], h[i] * covariance[i], df=freedom[i]).logpdf(increments[i])
        for i in range(len(h))
    ]
    np.testing.assert_allclose(student_nll(increments, h, drift, covariance, freedom), expected, rtol=1e-9)


def test_a_covariance_that_is_known_makes_gaussian_steps():
    given = steps(2)
    np.testing.assert_allclose(student_nll(*given, np.full(20, 1e9)), gaussian_nll(*given), rtol=1e-4)


def linear_track(n, seed):
    """dx = −x dt + 0.1 dW in steps of 0.1."""
    rng, x = np.random.default_rng(seed), [0.3]
    for _ in range(n):
        x.append(0.9 * x[-1] + 0.1 * np.sqrt(0.1) * rng.normal())
    return itofit.Transitions.from_trajectories(np.array(x), dt=0.1)


def test_the_predictive_loss_counts_what_few_data_leave_open():
    """Far from 30 transitions the drift is a guess: what comes is hardly a surprise, if that is counted."""
    sde = itofit.fit(linear_track(30, seed=1), rng=0)
    far = itofit.Transitions.from_pairs([[3.0]], [[2.7 + 0.05]], 0.1)
    assert sde.nll(far, predictive=True) < sde.nll(far) - 1
    with pytest.raises(itofit.InputError, match="predictive must be True or False"):
        sde.nll(far, predictive="yes")


def test_many_data_leave_nothing_open():
    sde, held_out = itofit.fit(linear_track(20_000, seed=2), rng=0), linear_track(2000, seed=3)
    assert sde.nll(held_out, predictive=True) == pytest.approx(sde.nll(held_out), abs=2e-3)
    pointwise = sde.nll(held_out, pointwise=True, predictive=True)
    assert pointwise.mean() == pytest.approx(sde.nll(held_out, predictive=True))


@pytest.mark.filterwarnings("ignore::itofit.DataWarning")
def test_a_model_without_error_bars_cannot_predict_with_them():
    data = linear_track(200, seed=4)
    sde = itofit.fit(data, refine=False, rng=0)
    with pytest.raises(itofit.InputError, match="no error bars"):
        sde.nll(data, predictive=True)
