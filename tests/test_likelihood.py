import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itofit.model.likelihood import gaussian_nll


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_loss_is_that_of_scipys_normal_distribution(d):
    rng = np.random.default_rng(d)
    n = 20
    A = rng.normal(size=(n, d, d))
    covariance = A @ A.swapaxes(1, 2) + 0.05 * np.eye(d)
    increments, drift, h = rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.uniform(0.001, 1, n)
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
