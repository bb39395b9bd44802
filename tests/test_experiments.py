import numpy as np
import pytest

from itofit.experiments import EXPERIMENTS

EXPECTED_LOSS = {"1": -2.0349, "2": -6.8523, "3a": -1.5835, "3b": -3.1671, "4a": -16.1698, "4b": -11.6125, "5": -2.0349}


@pytest.mark.parametrize("name", EXPECTED_LOSS)
def test_the_equations_have_the_published_expected_loss(name):
    experiment = EXPERIMENTS[name]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    grid = np.meshgrid(*[experiment.low + (experiment.high - experiment.low) * (nodes + 1) / 2] * experiment.n_inputs)
    x = np.stack([axis.ravel() for axis in grid], axis=1)
    w = np.prod(np.meshgrid(*[weights / 2] * experiment.n_inputs), axis=0).ravel()
    log_det = np.linalg.slogdet(experiment.h * experiment.covariance(x))[1]
    loss = 0.5 * w @ log_det + experiment.n_outputs / 2 * (1 + np.log(2 * np.pi))
    assert loss == pytest.approx(EXPECTED_LOSS[name], abs=6e-5)


@pytest.mark.parametrize(("name", "rate"), [("1", 0.5), ("1-", -0.5)])
def test_linear_data_have_the_moments_of_the_exact_solution(name, rate):
    data = EXPERIMENTS[name].sample(20_000, rng=0, fine_steps=100)
    h = 0.1
    residual = data.increments[:, 0] - data.inputs[:, 0] * np.expm1(rate * h)
    variance = 0.01 * np.expm1(2 * rate * h) / (2 * rate)
    # 4.5 standard errors: a false alarm in about 100,000 seeds
    assert abs(residual.mean()) < 4.5 * np.sqrt(variance / 20_000)
    assert abs(residual.var() / variance - 1) < 4.5 * np.sqrt(2 / 20_000) + 1e-3


def test_correlated_noise_has_the_true_covariance():
    experiment = EXPERIMENTS["4b"]
    data = experiment.sample(20_000, rng=1, fine_steps=20)
    residual = data.increments - data.inputs * np.expm1(-0.01)
    true = 0.01 * experiment.covariance(data.inputs[:1])[0]
    unit = np.sqrt(np.outer(np.diag(true), np.diag(true)))
    assert (np.abs(np.cov(residual.T) - true) / unit).max() < 4.5 * np.sqrt(2 / 20_000) + 0.02


@pytest.mark.parametrize(("name", "friction"), [("5", 0.5), ("5-", -0.5)])
def test_underdamped_data_follow_their_equation(name, friction):
    data = EXPERIMENTS[name].sample(20_000, rng=2, fine_steps=50)
    assert data.kind == "underdamped"
    x, v = data.inputs.T
    residual = data.increments[:, 0] - 0.01 * (-(x**3) - x + friction * v)
    assert abs(residual.mean()) < 4.5 * np.sqrt(0.001 / 20_000)
    assert abs(residual.var() / 0.001 - 1) < 0.1
    slope = np.polyfit(v, residual, 1)[0] / 0.01  # of what the friction leaves over
    assert abs(slope) < 0.15


def test_the_same_seed_gives_the_same_data():
    first, again = (EXPERIMENTS["3a"].sample(50, rng=3, fine_steps=5) for _ in range(2))
    np.testing.assert_array_equal(first.increments, again.increments)
    assert len(EXPERIMENTS["1"].sample(rng=0, fine_steps=1)) == 10_000
