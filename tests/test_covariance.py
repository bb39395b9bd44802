import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itofit.matrices.symmetric import (
    entries,
    floor_limits,
    outer_entries,
    positive_definite,
    reference_factor,
    square_root,
    to_matrices,
)


def random_covariances(rng, n, d):
    A = rng.normal(size=(n, d, d))
    return A @ A.swapaxes(1, 2) + 0.1 * np.eye(d)


def test_half_vectorisation_follows_the_papers_formula():
    d = 4
    rows, cols = entries("full", d)
    for i in range(1, d + 1):
        for j in range(1, i + 1):
            place = i * (i - 1) // 2 + j
            assert (rows[place - 1] + 1, cols[place - 1] + 1) == (i, j)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_entries_and_matrices_are_inverse(d):
    r = np.random.default_rng(0).normal(size=(10, d))
    outer = r[:, :, None] * r[:, None, :]
    np.testing.assert_allclose(to_matrices(outer_entries(r, "full"), "full", d), outer)
    np.testing.assert_allclose(to_matrices(outer_entries(r, "diagonal"), "diagonal", d), outer * np.eye(d))


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_both_factors_square_to_the_covariance(d):
    sigma = random_covariances(np.random.default_rng(1), 50, d)
    lower, symmetric = square_root(sigma, "cholesky"), square_root(sigma, "symmetric")
    for factor in (lower, symmetric):
        np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), sigma, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(symmetric, symmetric.swapaxes(1, 2), atol=1e-13)
    assert (np.linalg.eigvalsh(symmetric) > 0).all()


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 5), seed=st.integers(0, 999), scale=st.sampled_from([1e-12, 1.0, 1e12]))
def test_every_raw_value_becomes_positive_definite(d, seed, scale):
    rng = np.random.default_rng(seed)
    units = scale ** rng.uniform(-1, 1, d)
    raw = rng.normal(size=(30, d, d)) * np.outer(units, units)
    rows, cols = entries("full", d)
    factor = units[:, None] * reference_factor(random_covariances(rng, 1, d)[0])
    sigma, _ = positive_definite(raw[:, rows, cols], "full", factor, floor_limits(1e-3, d))
    inverse = np.linalg.inv(factor)
    assert np.linalg.eigvalsh(inverse @ sigma @ inverse.T).min() > 0.999e-3
    np.linalg.cholesky(sigma)
    np.testing.assert_array_equal(sigma, sigma.swapaxes(1, 2))


def test_values_above_the_floor_are_not_touched():
    rng = np.random.default_rng(2)
    sigma = random_covariances(rng, 20, 3)
    sigma[::4] *= -1
    rows, cols = entries("full", 3)
    fixed, below = positive_definite(sigma[:, rows, cols], "full", np.eye(3), floor_limits(1e-3, 3))
    np.testing.assert_array_equal(below, np.arange(20) % 4 == 0)
    np.testing.assert_array_equal(fixed[~below], sigma[~below])
    np.testing.assert_allclose(fixed[below], np.tile(1e-3 * np.eye(3), (5, 1, 1)), atol=1e-12)


def test_diagonal_structure_has_its_floor_for_each_entry():
    vectors = np.array([[1.0, -1.0], [1e-9, 4.0], [2.0, 3.0]])
    sigma, below = positive_definite(vectors, "diagonal", np.diag([1.0, 2.0]), floor_limits(0.01, 2))
    np.testing.assert_allclose(np.diagonal(sigma, axis1=1, axis2=2), [[1.0, 0.04], [0.01, 4.0], [2.0, 3.0]])
    np.testing.assert_array_equal(below, [True, True, False])


def test_each_entry_of_a_diagonal_has_limits_of_its_own():
    limits = np.array([[0.5, 0.01], [4.0, np.inf]])
    sigma, changed = positive_definite(np.array([[9.0, 9.0], [0.1, 0.1], [1.0, 1.0]]), "diagonal", np.eye(2), limits)
    np.testing.assert_array_equal(np.diagonal(sigma, axis1=1, axis2=2), [[4.0, 9.0], [0.5, 0.1], [1.0, 1.0]])
    np.testing.assert_array_equal(changed, [True, True, False])


@pytest.mark.parametrize("floored", [True, False])
def test_eigenvalues_above_the_ceiling_are_lowered_and_the_others_kept(floored):
    rng = np.random.default_rng(4)
    values = np.array([[0.5, 1.0, 2.0], [0.5, 1.0, 50.0], [0.5, 20.0, 30.0], [1e-5 if floored else 0.5, 1.0, 50.0]])
    Q = np.linalg.qr(rng.normal(size=(4, 3, 3)))[0]
    L = reference_factor(random_covariances(rng, 1, 3)[0])
    rows, cols = entries("full", 3)

    def matrices(values):
        return L @ (Q * values[:, None, :]) @ Q.swapaxes(1, 2) @ L.T

    limits = np.array([[1e-3] * 3, [10.0] * 3])
    sigma, changed = positive_definite(matrices(values)[:, rows, cols], "full", L, limits)
    np.testing.assert_allclose(sigma, matrices(np.clip(values, 1e-3, 10.0)), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(changed, [False, True, True, True])


def test_floor_is_the_same_in_any_units_and_directions():
    rng, limits = np.random.default_rng(3), floor_limits(0.05, 3)
    mean, raw = random_covariances(rng, 1, 3)[0], random_covariances(rng, 8, 3) - 2 * np.eye(3)
    A = rng.normal(size=(3, 3))
    rows, cols = entries("full", 3)
    here, _ = positive_definite(raw[:, rows, cols], "full", reference_factor(mean), limits)
    moved = A @ raw @ A.T
    there, _ = positive_definite(moved[:, rows, cols], "full", reference_factor(A @ mean @ A.T), limits)
    np.testing.assert_allclose(there, A @ here @ A.T, rtol=1e-8, atol=1e-10)


def test_a_singular_mean_covariance_still_has_a_factor():
    mean = np.array([[1.0, 1.0], [1.0, 1.0]]) * np.outer([1e-6, 1e6], [1e-6, 1e6])
    factor = reference_factor(mean)
    np.testing.assert_allclose(factor @ factor.T, mean, rtol=1e-7)
    np.linalg.cholesky(1e-3 * factor @ factor.T)
