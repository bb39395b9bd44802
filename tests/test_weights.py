"""Normal equations with weights, and their real form, against the sums that define them."""

import numpy as np
import pytest

from itofit.waves.normal_equations import ArrayPart, DirectNormalEquations, GriddedNormalEquations, moments_of

ACCURACY = 1e-12


def problem(n=500, m=2, p=2, K=20, size=4.0, seed=0):
    rng = np.random.default_rng(seed)
    u, y = rng.uniform(-0.5, 0.5, (n, m)), rng.normal(size=(n, p))
    return size * rng.normal(size=(K, m)), u, y, rng.uniform(0.1, 3.0, n)


def direct(u, y, weight):
    return DirectNormalEquations(u, y, weight)


def gridded(u, y, weight):
    return GriddedNormalEquations(ArrayPart(u, y, weight), ACCURACY)


FORMS = pytest.mark.parametrize("form", [direct, gridded])
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        {"m": 1, "size": 3.0},
        {"m": 1, "size": 60.0},
        {"m": 2, "size": 2.0},
        {"m": 2, "size": 25.0, "K": 60},
        {"m": 3, "size": 2.0, "p": 1},
        {"m": 2, "n": 9000, "K": 8},
    ],
    ids=str,
)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["ones", "weights"])


@FORMS
@SHAPES
@WEIGHTED
def test_real_gram_is_the_sum_over_rows(form, shape, weighted):
    omega, u, y, weight = problem(**shape)
    CD = np.concatenate([np.cos(u @ omega.T), np.sin(u @ omega.T)], axis=1)
    weight = weight if weighted else np.ones(len(u))
    G, b = form(u, y, weight if weighted else None).real_gram(omega)
    np.testing.assert_allclose(G, (CD.T * weight) @ CD, rtol=0, atol=1e-10 * weight.sum())
    np.testing.assert_allclose(b, (CD.T * weight) @ y, rtol=0, atol=1e-10 * (weight @ np.abs(y)).max())
    np.testing.assert_allclose(G, G.T, rtol=0, atol=1e-13 * weight.sum())


@FORMS
@SHAPES
def test_weighted_gram_is_the_sum_over_rows(form, shape):
    omega, u, y, weight = problem(**shape)
    S = np.exp(1j * u @ omega.T)
    G, b = form(u, y, weight).gram(omega)
    np.testing.assert_allclose(np.tril(G), np.tril((S.conj().T * weight) @ S), rtol=0, atol=1e-10 * weight.sum())
    np.testing.assert_allclose(b, (S.conj().T * weight) @ y, rtol=0, atol=1e-10 * (weight @ np.abs(y)).max())


@FORMS
@SHAPES
def test_weighted_solution_and_error_are_those_of_the_definition(form, shape):
    omega, u, y, weight = problem(**shape)
    S, N = np.exp(1j * u @ omega.T), len(u)
    weight *= N / weight.sum()
    equations = form(u, y, weight)
    beta = equations.solve(omega, 1e-3)
    expected = np.linalg.solve((S.conj().T * weight) @ S + 1e-3 * N * np.eye(len(omega)), (S.conj().T * weight) @ y)
    np.testing.assert_allclose(beta, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    mse = (weight[:, None] * (y - (S @ beta).real) ** 2).sum() / y.size
    assert equations.mse(omega, beta) == pytest.approx(mse, rel=1e-9)


@FORMS
def test_weights_of_one_change_nothing(form):
    omega, u, y, _ = problem()
    plain, weighted = form(u, y, None), form(u, y, np.ones(len(u)))
    for one, other in zip(plain.real_gram(omega), weighted.real_gram(omega), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-11 * len(u))
    beta = plain.solve(omega, 1e-3)
    np.testing.assert_allclose(weighted.solve(omega, 1e-3), beta, rtol=1e-7, atol=1e-10)
    assert weighted.mse(omega, beta) == pytest.approx(plain.mse(omega, beta), rel=1e-11)


@FORMS
def test_a_row_of_weight_zero_is_not_there(form):
    omega, u, y, weight = problem()
    weight[::3] = 0.0
    kept = weight > 0
    y[~kept] = 1e6
    G, b = form(u, y, weight).real_gram(omega)
    expected, right = direct(u[kept], y[kept], weight[kept]).real_gram(omega)
    np.testing.assert_allclose(G, expected, rtol=0, atol=1e-9 * weight.sum())
    np.testing.assert_allclose(b, right, rtol=0, atol=1e-9 * weight.sum())


@FORMS
def test_a_row_that_counts_thrice_is_three_rows_to_the_gram_matrix(form):
    omega, u, y, _ = problem(n=200)
    times = np.random.default_rng(1).integers(1, 4, len(u))
    G, b = form(u, y, times.astype(float)).real_gram(omega)
    expected, right = direct(np.repeat(u, times, axis=0), np.repeat(y, times, axis=0), None).real_gram(omega)
    np.testing.assert_allclose(G, expected, rtol=0, atol=1e-10 * times.sum())
    np.testing.assert_allclose(b, right, rtol=0, atol=1e-10 * times.sum())


@FORMS
def test_a_row_that_counts_thrice_is_three_rows_to_solutions_and_errors(form):
    omega, u, y, _ = problem(n=200)
    times = np.random.default_rng(1).integers(1, 4, len(u))
    repeated = direct(np.repeat(u, times, axis=0), np.repeat(y, times, axis=0), None)
    equations = form(u, y, times.astype(float))
    beta = repeated.solve(omega, 1e-3)
    np.testing.assert_allclose(equations.solve(omega, 1e-3), beta, rtol=1e-6, atol=1e-8)
    assert equations.mse(omega, beta) == pytest.approx(repeated.mse(omega, beta), rel=1e-9)


@pytest.mark.parametrize("n", [300, 10_000])
def test_weighted_moments_are_sums_of_chebyshev_polynomials(n):
    _, u, y, weight = problem(n=n, m=2, p=1)
    found = moments_of(u, y, (5, 4), weight)
    T = [np.cos(np.arange(5)[:, None] * np.arccos(2 * u[:, d])) for d in range(2)]
    for strength, values in zip((weight, weight * y[:, 0]), found.values, strict=True):
        np.testing.assert_allclose(values[:5, :4], np.einsum("an,bn,n->ab", T[0], T[1][:4], strength), atol=1e-9 * n)
    np.testing.assert_allclose(found.squares, (weight @ y**2), rtol=1e-12)
    assert found.n_rows == n


def test_moments_are_made_again_when_frequencies_grow_and_keep_their_weights():
    omega, u, y, weight = problem(m=1, size=1.0)
    equations = gridded(u, y, weight)
    for size in (1.0, 30.0, 200.0):
        CD = np.concatenate([np.cos(size * u @ omega.T), np.sin(size * u @ omega.T)], axis=1)
        G, _ = equations.real_gram(size * omega)
        np.testing.assert_allclose(G, (CD.T * weight) @ CD, rtol=0, atol=1e-10 * weight.sum())
