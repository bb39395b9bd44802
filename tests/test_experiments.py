import numpy as np
import pytest

from itofit import InputError
from itofit.experiments import EXPERIMENTS, epidemic, wave
from itofit.model.likelihood import gaussian_nll

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


# The true equations are equations like any other


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_diffusion_is_the_printed_one_and_other_roots_are_at_hand(name):
    experiment = EXPERIMENTS[name]
    x = np.random.default_rng(0).uniform(experiment.low, experiment.high, (7, experiment.n_inputs))
    np.testing.assert_array_equal(experiment.diffusion(x), experiment.sigma(x))
    for factor in ("cholesky", "symmetric"):
        sigma = experiment.diffusion(x, factor)
        np.testing.assert_allclose(sigma @ sigma.swapaxes(1, 2), experiment.covariance(x), atol=1e-15)
    np.testing.assert_allclose(experiment.diffusion(x, experiment.factor), experiment.diffusion(x), atol=1e-7)


@pytest.mark.parametrize(
    ("source", "data"),
    [
        (EXPERIMENTS["4a"], EXPERIMENTS["4a"].sample(100, rng=0, fine_steps=5)),
        (EXPERIMENTS["5"], EXPERIMENTS["5"].sample(100, rng=0, fine_steps=5)),
        (epidemic, epidemic.sample_epidemic(3, rng=0)),
        (wave, wave.sample_wave(20, rng=0)),
    ],
)
def test_losses_of_the_truth_are_those_of_gaussian_steps(source, data):
    by_hand = gaussian_nll(data.increments, data.h, source.drift(data.inputs), source.covariance(data.inputs))
    np.testing.assert_allclose(source.true_nll(data), by_hand, rtol=1e-13)


def test_true_equations_can_be_simulated():
    """One step of the data's length, against the drift and the noise that the same seed draws."""
    experiment = EXPERIMENTS["4a"]
    x = np.full((2, 3), 0.5)
    paths = experiment.simulate(x, experiment.h, 1, rng=0)
    noise = np.sqrt(experiment.h) * np.random.default_rng(0).standard_normal((2, 3, 1))
    step = experiment.h * experiment.drift(x) + (experiment.diffusion(x) @ noise)[:, :, 0]
    np.testing.assert_allclose(paths[:, 1], x + step, rtol=1e-14)
    assert EXPERIMENTS["5"].simulate([0.1, 0.2], 0.01, 3, rng=0).shape == (1, 4, 2)
    assert epidemic.EQUATION.simulate([0.5, 0.25], 0.01, 3, rng=0).shape == (1, 4, 2)


def test_the_position_of_the_wave_does_not_follow_from_what_moves():
    assert wave.EQUATION.kind == "general"
    with pytest.raises(InputError, match="kind 'general'"):
        wave.EQUATION.simulate([0.5], 0.01, 3)
