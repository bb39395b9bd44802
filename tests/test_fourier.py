import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from itofit import FourierSeries, InputError
from itofit.waves.series import cos_sin, real_sum


def make_series(rng, K=6, m=2, p=3):
    return FourierSeries(
        omega=rng.normal(size=(K, m)) * 3,
        beta=rng.normal(size=(K, p)) + 1j * rng.normal(size=(K, p)),
        shift=rng.normal(size=m),
        scale=rng.uniform(0.5, 3, m),
        offset=rng.normal(size=p),
    )


@pytest.mark.parametrize("magnitude", [1e-8, 1.0, 1e3, 1e8, 1e15])
def test_features_are_as_accurate_as_cosine_and_sine(magnitude):
    rng = np.random.default_rng(0)
    omega, u = magnitude * rng.normal(size=(40, 1)), rng.normal(size=(500, 1))
    theta = omega @ u.T
    features = cos_sin(omega, u)
    assert np.abs(features[:40] - np.cos(theta)).max() < 1e-15
    assert np.abs(features[40:] - np.sin(theta)).max() < 1e-15


def test_features_at_the_poles_of_the_tangent():
    quarter = np.pi * np.array([[1.0], [-1.0], [3.0], [0.0], [2.0]])
    features = cos_sin(quarter, np.ones((1, 1)))
    assert np.abs(features[:5] - np.cos(quarter)).max() < 1e-15
    assert np.abs(features[5:] - np.sin(quarter)).max() < 1e-15


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 40), K=st.integers(1, 8), m=st.integers(1, 4), p=st.integers(1, 3), seed=st.integers(0, 99))
def test_values_equal_the_defining_sum(n, K, m, p, seed):
    rng = np.random.default_rng(seed)
    omega, x = 5 * rng.normal(size=(K, m)), rng.normal(size=(n, m))
    beta = rng.normal(size=(K, p)) + 1j * rng.normal(size=(K, p))
    np.testing.assert_allclose(real_sum(omega, beta, x), reference.predict(omega, beta, x), rtol=0, atol=1e-12)


def test_blocks_and_threads_do_not_show_in_the_values():
    rng = np.random.default_rng(1)
    series = make_series(rng)
    x = rng.normal(size=(20_011, 2))
    whole = series(x)
    assert whole.shape == (20_011, 3)
    np.testing.assert_allclose(whole[[0, 1023, 1024, 20_010]], series(x[[0, 1023, 1024, 20_010]]), rtol=0, atol=1e-13)


def test_derivatives_equal_central_differences():
    rng = np.random.default_rng(2)
    series = make_series(rng)
    x = rng.normal(size=(7, 2))
    e = 1e-5
    for b in range(2):
        step = e * np.eye(2)[b]
        slope = (series(x + step) - series(x - step)) / (2 * e)
        np.testing.assert_allclose(series.jacobian(x)[:, :, b], slope, rtol=1e-7, atol=1e-7)
        bend = (series.jacobian(x + step) - series.jacobian(x - step)) / (2 * e)
        np.testing.assert_allclose(series.hessian(x)[:, :, :, b], bend, rtol=1e-7, atol=1e-7)


def test_derivatives_of_a_plane_wave():
    omega, shift, scale = np.array([[2.0, -1.0]]), np.array([1.0, 2.0]), np.array([0.5, 4.0])
    wave = FourierSeries(omega=omega, beta=np.array([[1.0 + 0j]]), shift=shift, scale=scale, offset=np.zeros(1))
    x = np.random.default_rng(3).normal(size=(9, 2))
    phase, k = ((x - shift) / scale) @ omega[0], omega[0] / scale
    np.testing.assert_allclose(wave.jacobian(x)[:, 0], -np.sin(phase)[:, None] * k, atol=1e-13)
    np.testing.assert_allclose(wave.hessian(x)[:, 0], -np.cos(phase)[:, None, None] * np.outer(k, k), atol=1e-13)


def test_wrong_number_of_columns_is_refused():
    series = make_series(np.random.default_rng(4))
    with pytest.raises(InputError, match=r"x must have shape \(n, 2\), got \(5, 3\)"):
        series(np.zeros((5, 3)))
