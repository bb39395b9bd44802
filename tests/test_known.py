"""Equations whose functions are given."""

import numpy as np
import pytest

from itofit import InputError
from itofit.model.known import KnownSDE


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
