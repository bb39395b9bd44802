"""Equations whose functions are given, and what every equation can do with its functions alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from itofit import InputError, Transitions
from itofit.model.known import KnownSDE
from itofit.model.sde import SDE


def zeros(d):
    return lambda x: np.zeros((len(x), d))


def same_noise(sigma):
    return lambda x: np.broadcast_to(sigma, (len(x), *np.shape(sigma)))


@pytest.mark.parametrize(
    ("sizes", "kind", "inputs", "outputs"),
    [
        ((1, 1), "diffusion", ("x",), ("x",)),
        ((2, 2), "diffusion", ("x1", "x2"), ("x1", "x2")),
        ((2, 1), "underdamped", ("x", "v"), ("v",)),
    ],
)
def test_the_kind_follows_from_the_numbers_of_variables(sizes, kind, inputs, outputs):
    m, d = sizes
    sde = KnownSDE(f=zeros(d), sigma=same_noise(np.eye(d)), n_inputs=m, n_outputs=d)
    assert (sde.kind, sde.input_names, sde.output_names) == (kind, inputs, outputs)
    assert np.isinf(sde.box).all()


def test_inputs_that_do_not_follow_from_the_state():
    with pytest.raises(InputError, match="general=True"):
        KnownSDE(f=zeros(2), sigma=same_noise(np.eye(2)), n_inputs=3, n_outputs=2)
    sde = KnownSDE(f=zeros(2), sigma=same_noise(np.eye(2)), n_inputs=3, n_outputs=2, general=True)
    assert sde.kind == "general"
    assert sde.covariance(np.zeros((4, 3))).shape == (4, 2, 2)
    with pytest.raises(InputError, match="kind 'general'"):
        sde.simulate(np.zeros(2), 0.1, 1)
    with pytest.raises(InputError, match="use 'euler'"):
        sde.step_moments(np.zeros((4, 3)), 0.1, "corrected")


def test_diffusion_is_the_given_one_unless_a_factor_is_asked_for():
    upper = np.array([[1.0, 2.0], [0.0, -3.0]])
    sde = KnownSDE(f=zeros(2), sigma=same_noise(upper), n_inputs=2, n_outputs=2)
    x = np.zeros((1, 2))
    np.testing.assert_array_equal(sde.diffusion(x)[0], upper)
    np.testing.assert_allclose(sde.diffusion(x, "cholesky")[0], np.linalg.cholesky(upper @ upper.T))
    symmetric = sde.diffusion(x, "symmetric")[0]
    np.testing.assert_allclose(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric @ symmetric, upper @ upper.T)


# What every equation can do

CUTS = [(0, 120), (120, 121), (121, 300)]
ROOT = np.array([[0.6, 0.0], [0.3, 0.4]])


class Rotating(SDE):
    """A subclass that gives the two functions, numbers and names, and nothing else."""

    n_inputs, n_outputs, kind = 2, 2, "diffusion"
    input_names = output_names = ("a", "b")
    box = np.array([[-np.inf, -np.inf], [np.inf, np.inf]])

    def drift(self, x):
        x = self._points(x)
        return np.stack([-x[:, 0] - 2 * x[:, 1], 2 * x[:, 0] - x[:, 1]], axis=1)

    def covariance(self, x):
        return (1 + self._points(x)[:, 0] ** 2)[:, None, None] * (ROOT @ ROOT.T)


def steps(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x, h = rng.normal(size=(n, 2)), rng.uniform(0.05, 0.2, n)
    return Transitions.from_pairs(x, x + 0.3 * rng.normal(size=(n, 2)), h)


def test_an_equation_needs_both_functions():
    class Half(SDE):
        def drift(self, x):
            return x

    with pytest.raises(TypeError, match="covariance"):
        Half()


def test_nll_is_that_of_gaussian_steps():
    sde, data = Rotating(), steps()
    expected = [
        -multivariate_normal(h * f, h * C).logpdf(dx)
        for dx, h, f, C in zip(
            data.increments, data.h, sde.drift(data.inputs), sde.covariance(data.inputs), strict=True
        )
    ]
    np.testing.assert_allclose(sde.nll(data, pointwise=True), expected, rtol=1e-10)
    assert sde.nll(data) == pytest.approx(np.mean(expected), rel=1e-12)


def test_nll_does_not_depend_on_where_the_data_are():
    sde, data = Rotating(), steps()
    cut = [(x, x + dx, h) for x, dx, h in ((data.inputs[i:j], data.increments[i:j], data.h[i:j]) for i, j in CUTS)]
    blocked = Transitions.from_blocks(cut)
    memory = Transitions.from_pairs(*(np.concatenate(column) for column in zip(*cut, strict=True)))
    assert sde.nll(blocked) == sde.nll(memory)
    np.testing.assert_array_equal(sde.nll(blocked, pointwise=True), sde.nll(memory, pointwise=True))


def test_diffusion_is_a_root_of_the_covariance():
    sde, x = Rotating(), steps().inputs
    for factor in ("cholesky", "symmetric"):
        sigma = sde.diffusion(x, factor)
        np.testing.assert_allclose(sigma @ sigma.swapaxes(1, 2), sde.covariance(x), rtol=1e-12, atol=1e-14)
    assert (sde.diffusion(x)[:, 0, 1] == 0).all()


def test_a_step_has_the_moments_of_the_functions():
    sde, x = Rotating(), steps().inputs
    mean, covariance = sde.step_moments(x, 0.1)
    np.testing.assert_array_equal(mean, sde.drift(x))
    np.testing.assert_array_equal(covariance, sde.covariance(x))
    assert sde.scheme == "euler"
    # corrected: ½ h (∇f f + ½ Σ : ∇²f) to first order, with a linear drift: ½ h A² x
    A, h = np.array([[-1.0, -2.0], [2.0, -1.0]]), 1e-3
    mean, _ = sde.step_moments(x, h, "corrected")
    np.testing.assert_allclose((mean - x @ A.T) / h, 0.5 * x @ (A @ A).T, rtol=0.01, atol=0.01)


def test_paths_take_one_step_of_euler_and_maruyama():
    sde, x = Rotating(), steps(5).inputs
    paths = sde.simulate(x, dt=0.1, n_steps=1, rng=4)
    noise = np.random.default_rng(4).standard_normal((5, 2, 1))
    kick = (np.linalg.cholesky(sde.covariance(x)) @ noise)[:, :, 0]
    np.testing.assert_array_equal(paths[:, 0], x)
    np.testing.assert_allclose(paths[:, 1], x + 0.1 * sde.drift(x) + np.sqrt(0.1) * kick, rtol=1e-12)
    np.testing.assert_array_equal(paths, sde.simulate(x, dt=0.1, n_steps=1, rng=4))


def test_paths_have_the_moments_of_the_equation():
    # mean and variance of 20,000 paths of dx = −x dt + ½ dW: six standard errors, one false alarm in 10^9
    sde, n, dt = KnownSDE(f=lambda x: -x, sigma=same_noise([[0.5]])), 20_000, 0.02
    end = sde.simulate(np.full(n, 2.0), dt, 50, rng=0)[:, -1, 0]
    decay = 1 - dt
    variance = 0.25 * dt * (1 - decay**100) / (1 - decay**2)
    assert abs(end.mean() - 2 * decay**50) < 6 * np.sqrt(variance / n)
    assert abs(end.var() / variance - 1) < 6 * np.sqrt(2 / n)


def test_an_underdamped_path_moves_its_position_first():
    sde = KnownSDE(f=lambda x: -x[:, :1], sigma=same_noise([[0.3]]), n_inputs=2, n_outputs=1)
    path = sde.simulate([1.0, 0.5], dt=0.1, n_steps=1, rng=0)[0]
    kick = 0.3 * np.sqrt(0.1) * np.random.default_rng(0).standard_normal()
    np.testing.assert_allclose(path[1], [1.05, 0.5 - 0.1 * 1.05 + kick])


def test_points_may_be_columns_of_a_data_frame_in_any_order():
    pandas = pytest.importorskip("pandas")
    sde, x = Rotating(), steps(4).inputs
    frame = pandas.DataFrame({"other": 0.0, "b": x[:, 1], "a": x[:, 0]})
    np.testing.assert_array_equal(sde.drift(frame), sde.drift(x))


def test_starts_may_be_columns_of_a_data_frame_in_any_order():
    sde = KnownSDE(f=zeros(2), sigma=same_noise(np.eye(2)), n_inputs=2, n_outputs=2)
    frame = pd.DataFrame({"x2": [9.0], "x1": [1.0], "label": ["a"]})
    np.testing.assert_array_equal(sde.simulate(frame, dt=0.1, n_steps=1, rng=0)[0, 0], [1.0, 9.0])


def test_nll_needs_the_variables_of_the_equation():
    with pytest.raises(InputError, match="Transitions"):
        Rotating().nll(np.zeros((3, 2)))
    with pytest.raises(InputError, match="2"):
        Rotating().nll(Transitions(np.zeros((3, 1)), np.ones((3, 1)), 0.1))


@pytest.mark.parametrize(
    ("f", "sigma", "message"),
    [
        (
            lambda x: x[:, 0],
            lambda x: x[:, :, None],
            r"f must return an array of shape \(3, 1\) for 3 points, got \(3,\)",
        ),
        (lambda x: x, lambda x: x, r"sigma must return an array of shape \(3, 1, 1\) for 3 points, got \(3, 1\)"),
        (lambda x: x, lambda x: np.ones((len(x), 1, 2)), r"sigma must return .* got \(3, 1, 2\)"),
    ],
)
def test_functions_must_return_what_they_should(f, sigma, message):
    sde = KnownSDE(f=f, sigma=sigma)
    with pytest.raises(InputError, match=message):
        sde.simulate(np.ones(3), dt=0.1, n_steps=1, rng=0)
