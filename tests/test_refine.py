"""Weighted drift against generalised least squares written out, and Σ by likelihood against scipy.stats."""

from dataclasses import replace
from functools import reduce
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itofit.data.passes import added
from itofit.learning.automatic.all_rows import fitted_alone, rows_alone
from itofit.learning.automatic.cells import FOLDS
from itofit.learning.automatic.coupled import normal_matrix
from itofit.learning.automatic.covariance import (
    MARGIN,
    MARGIN_OF_TRACE,
    fit_covariance,
    held_out_losses,
)
from itofit.learning.automatic.drift import DriftCells, normal_equations, resolved_drift, weighted_drift
from itofit.learning.automatic.evidence import amplitude_ridges
from itofit.learning.automatic.limits import FLOORS, HARDLY_WORSE, Losses, cell_nll
from itofit.learning.automatic.principal import principal_features, with_intercept
from itofit.learning.automatic.products import NoiseModel, Products
from itofit.learning.automatic.rescoring import ScoringSums, losses_of_trials, rescored, with_errors_of_all
from itofit.learning.automatic.scoring import Together
from itofit.learning.automatic.sigma import Sigma
from itofit.matrices.links import IDENTITY, LINKS, Shape, covariance_at
from itofit.matrices.symmetric import entries, raised
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import DirectNormalEquations

LOG, SQUARE = LINKS["log"], LINKS["square"]
each_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
FULL, DIAGONAL = Shape("full", 2), Shape("diagonal", 2)


def features(u, n_waves=3, size=2.0):
    """Principal features of one group for each input, at points u of mean weight one."""
    rng = np.random.default_rng(99)
    m = u.shape[1]
    group = np.repeat(np.arange(m), n_waves)
    omega = size * rng.normal(size=(len(group), m)) * np.eye(m)[group]
    gram, right = DirectNormalEquations(u, np.zeros((len(u), 1))).real_gram(np.concatenate([omega, np.zeros((1, m))]))
    basis, _, _ = principal_features(omega, group, gram, right)
    return basis, basis.at(u)


def cells(n=50, d=2, m=2, seed=0):
    """Principal features, cells with a drift and a noise of their own, and the precision of each."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-0.5, 0.5, (n, m))
    basis, X = features(u)
    duration, fold = rng.uniform(0.5, 2.0, n), rng.permutation(n) % FOLDS
    A = rng.normal(size=(n, d, d))
    covariance = A @ A.swapaxes(1, 2) + 0.5 * np.eye(d)
    f = np.stack([3 * np.sin(4 * u[:, i % m]) + i for i in range(d)], axis=1)
    noise = (np.linalg.cholesky(covariance) @ rng.normal(size=(n, d, 1)))[:, :, 0]
    moves = duration[:, None] * f + np.sqrt(duration)[:, None] * noise
    return basis, DriftCells(X, duration, moves, fold), np.linalg.inv(covariance)


def dense_solution(X, duration, moves, precision, P):
    """Generalised least squares over the stacked outputs of all cells: intercepts and amplitudes (d, R + 1)."""
    n, d = moves.shape
    J = np.zeros((n, d, d, X.shape[1] + 1))
    for i in range(d):
        J[:, i, i] = np.column_stack([np.ones(n), X])
    J = J.reshape(n, d, -1)
    W = duration[:, None, None] * np.broadcast_to(precision, (n, d, d))
    left = np.einsum("nia,nij,njb->ab", J, W, J)
    right = np.einsum("nia,nij,nj->a", J, W, moves / duration[:, None])
    return np.linalg.solve(left + np.diag(P), right).reshape(d, -1)


# Drift


@pytest.mark.parametrize("varying", [False, True], ids=["one precision", "many"])
@pytest.mark.parametrize("ridge", [None, 1e-2])
@pytest.mark.parametrize("d", [1, 2])
def test_weighted_drift_is_generalised_least_squares(varying, ridge, d):
    basis, rows, precision = cells(d=d)
    precision = precision if varying else precision[:1]
    f = weighted_drift(rows, basis, precision, ridge)
    if ridge is not None:
        weights = np.broadcast_to(precision, (len(rows.X), d, d))[:, range(d), range(d)]
        in_units = ridge * (rows.duration @ weights)[:, None] / basis.largest
        np.testing.assert_allclose(f.ridges / f.unit[:, None] ** 2, in_units, rtol=1e-10)
    P = amplitude_ridges(f.ridges / f.unit[:, None] ** 2, basis)
    expected = dense_solution(rows.X, rows.duration, rows.moves, precision, P)
    np.testing.assert_allclose(f.intercept, expected[:, 0], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(f.c, expected[:, 1:].T, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("varying", [False, True], ids=["one precision", "many"])
def test_folds_are_solved_without_their_own_data(varying):
    basis, rows, precision = cells()
    precision = precision if varying else precision[:1]
    f = weighted_drift(rows, basis, precision)
    P = amplitude_ridges(f.ridges / f.unit[:, None] ** 2, basis)
    assert len(f.folds) == FOLDS
    for k, (intercept, c) in enumerate(f.folds):
        rest = rows.fold != k
        own = precision[rest] if varying else precision
        expected = dense_solution(rows.X[rest], rows.duration[rest], rows.moves[rest], own, P)
        np.testing.assert_allclose(intercept, expected[:, 0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(c, expected[:, 1:].T, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("varying", [False, True], ids=["one precision", "many"])
def test_a_diagonal_precision_leaves_the_outputs_alone(varying):
    basis, rows, precision = cells()
    precision = precision * np.eye(2)
    precision = precision if varying else precision[:1]
    together = weighted_drift(rows, basis, precision)
    for j in range(2):
        own = precision[:, j, j][:, None, None]
        alone = weighted_drift(rows._replace(moves=rows.moves[:, [j]]), basis, own)
        np.testing.assert_allclose(together.intercept[j], alone.intercept[0], rtol=1e-12)
        np.testing.assert_allclose(together.c[:, j], alone.c[:, 0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(together.ridges[j], alone.ridges[0], rtol=1e-12)
        for (intercept, c), (a, b) in zip(together.folds, alone.folds, strict=True):
            np.testing.assert_allclose(intercept[j], a[0], rtol=1e-12)
            np.testing.assert_allclose(c[:, j], b[:, 0], rtol=1e-12, atol=1e-12)


def test_a_nearly_diagonal_precision_gives_nearly_the_same():
    basis, rows, precision = cells()
    precision = precision * np.eye(2)
    coupled = precision + 1e-9 * np.ones((2, 2))
    one = weighted_drift(rows, basis, precision, 1e-2)
    other = weighted_drift(rows, basis, coupled, 1e-2)
    np.testing.assert_allclose(other.c, one.c, rtol=1e-5, atol=1e-7)
    assert other.determined == pytest.approx(one.determined, rel=1e-6)


def test_number_of_determined_amplitudes_is_the_trace_of_the_hat_matrix():
    basis, rows, precision = cells(d=1)
    f = weighted_drift(rows, basis, precision, 1e-3)
    ones = with_intercept(rows.X)
    H = (ones.T * rows.duration * precision[:, 0, 0]) @ ones
    P = amplitude_ridges(f.ridges / f.unit[:, None] ** 2, basis)
    assert f.determined == pytest.approx(np.trace(np.linalg.solve(H + np.diag(P), H)), rel=1e-7)


def test_normal_matrix_is_a_sum_of_kronecker_products():
    _, (X, _, _, _), precision = cells(n=20)
    expected = sum(np.kron(W, np.outer(x, x)) for W, x in zip(precision, X, strict=True))
    np.testing.assert_allclose(normal_matrix(X, precision), expected, rtol=1e-9, atol=1e-9)
    some = [np.arange(0, X.shape[1], 2), np.arange(X.shape[1])]  # of the features of each output
    both = np.concatenate([some[0], X.shape[1] + some[1]])
    found = normal_matrix(X, precision, some)
    np.testing.assert_allclose(found, expected[np.ix_(both, both)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("varying", [False, True], ids=["one precision", "many"])
def test_a_drift_resolved_on_the_same_rows_is_the_same(varying):
    basis, rows, precision = cells()
    precision = precision if varying else precision[:1]
    f = weighted_drift(rows, basis, precision)
    X, duration, moves, _ = rows
    sums = [
        normal_equations(
            with_intercept(X[part]), duration[part], moves[part], precision[part] if varying else precision
        )
        for part in (slice(0, 13), slice(13, 50))
    ]
    again = resolved_drift([reduce(added, sums)], [[0, 1]], basis, f)
    np.testing.assert_allclose(again.intercept, f.intercept, rtol=1e-9)
    np.testing.assert_allclose(again.c, f.c, rtol=1e-7, atol=1e-9)
    assert again.determined == pytest.approx(f.determined, rel=1e-9)


def test_each_output_finds_the_input_it_depends_on():
    # of 120 pairs of other seeds noise left 6 on; at that rate 10 or more of 40 have probability 1e-5
    own = other = 0
    for seed in range(20):
        basis, rows, precision = cells(n=400, seed=seed)
        on = weighted_drift(rows, basis, precision).ridges < SWITCHED_OFF
        own += int(on[0, 0]) + int(on[1, 1])
        other += int(on[0, 1]) + int(on[1, 0])
    assert own == 40
    assert other < 10


@pytest.mark.parametrize("unit", [1e-8, 10.0, 1e4])
def test_weighted_drift_may_have_any_unit(unit):
    basis, rows, precision = cells(n=200)
    one = weighted_drift(rows, basis, precision)
    other = weighted_drift(rows._replace(moves=unit * rows.moves), basis, precision / unit**2)
    np.testing.assert_allclose(other.c / unit, one.c, rtol=1e-6, atol=1e-6)


def test_weights_make_the_drift_more_accurate_where_the_noise_varies():
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        u = rng.uniform(-0.5, 0.5, (400, 1))
        basis, X = features(u)
        sigma = np.where(np.sin(100 * u[:, 0]) > 0, 5.0, 0.05) ** 2
        truth = 3 * np.sin(4 * u)
        moves = truth + np.sqrt(sigma)[:, None] * rng.normal(size=(400, 1))
        fold, duration = rng.permutation(400) % FOLDS, np.ones(400)

        rows = DriftCells(X, duration, moves, fold)

        def error(precision, rows=rows, basis=basis, truth=truth):
            f = weighted_drift(rows, basis, precision)
            return np.sqrt(np.mean((f.intercept + rows.X @ f.c - truth) ** 2))

        ratios.append(error(1 / sigma[:, None, None]) / error(np.full((1, 1, 1), 1 / sigma.mean())))
    # half of the data are a hundred times as accurate as the others; with features that miss sin 4u by a percent
    assert np.median(ratios) < 0.2


# Likelihood


def wishart(rng, C, count):
    """Σ r rᵀ over `count` draws of N(0, C) for each cell."""
    L = np.linalg.cholesky(C)
    S = np.zeros_like(C)
    for _ in range(int(count.max())):
        r = L @ rng.normal(size=(len(C), C.shape[1], 1))
        S += (r @ r.swapaxes(1, 2)) * (count > 0)[:, None, None]
        count = count - 1
    return S


def entries_of(matrices, shape):
    rows, cols = np.tril_indices(shape.d) if shape.structure == "full" else (np.arange(shape.d),) * 2
    return matrices[:, rows, cols]


def some_cells(link, shape, n=12, seed=0):
    """H with a positive definite C, and Wishart S of other covariances."""
    rng = np.random.default_rng(seed)
    off = np.equal(*np.tril_indices(shape.d)) if shape.structure == "full" else np.ones(shape.d, dtype=bool)
    H = 0.25 * rng.normal(size=(n, shape.n_entries)) + link.at_one * off
    count = rng.integers(1, 5, n).astype(float)
    A = rng.normal(size=(n, shape.d, shape.d))
    S = wishart(rng, A @ A.swapaxes(1, 2) + 0.1 * np.eye(shape.d), count)
    return H, S, count


def named(parameter):
    """A link by its name, anything else as it is shown."""
    return getattr(parameter, "name", None) or str(parameter)


ALL = list(product(LINKS.values(), [FULL, DIAGONAL, Shape("full", 3), Shape("full", 1)]))


@pytest.mark.parametrize(("link", "shape"), ALL, ids=named)
def test_nll_is_that_of_scipy_up_to_a_constant(link, shape):
    rng = np.random.default_rng(0)
    H, _, _ = some_cells(link, shape)
    r = rng.normal(size=(len(H), 3, shape.d))  # three transitions in each cell
    S = np.einsum("nki,nkj->nij", r, r)
    limits = np.array([[-np.inf] * shape.d, [np.inf] * shape.d])
    C, _ = covariance_at(H, link, shape, limits)
    expected = -sum(multivariate_normal(np.zeros(shape.d), C[i]).logpdf(r[i]).sum() for i in range(len(H)))
    found = NoiseModel(link, shape).nll(NoiseModel(link, shape).parts(H, entries_of(S, shape)), np.full(len(H), 3.0))
    assert found + 1.5 * len(H) * shape.d * np.log(2 * np.pi) == pytest.approx(expected, rel=1e-9)


def test_nll_is_infinite_where_a_matrix_is_not_positive_definite():
    H, S, count = some_cells(IDENTITY, FULL)
    H[3] = [1.0, 2.0, 1.0]
    assert NoiseModel(IDENTITY, FULL).nll(NoiseModel(IDENTITY, FULL).parts(H, entries_of(S, FULL)), count) == np.inf
    assert (
        NoiseModel(IDENTITY, DIAGONAL, 0.5).nll(
            NoiseModel(IDENTITY, DIAGONAL, 0.5).parts(H[:, [0, 2]] * [[-1.0, 1.0]], S[:, [0, 1], [0, 1]]), count
        )
        == np.inf
    )


@each_link
def test_quasi_likelihood_goes_over_into_the_gaussian_one(link):
    H, S, count = some_cells(link, DIAGONAL)
    S = entries_of(S, DIAGONAL)
    gaussian, nearly = (
        NoiseModel(link, DIAGONAL).nll(NoiseModel(link, DIAGONAL).parts(H, S), count),
        NoiseModel(link, DIAGONAL, 1e-8).nll(NoiseModel(link, DIAGONAL, 1e-8).parts(H, S), count),
    )
    assert nearly == pytest.approx(gaussian, rel=1e-6)
    for one, other in zip(
        NoiseModel(link, DIAGONAL).derivatives(NoiseModel(link, DIAGONAL).parts(H, S), count),
        NoiseModel(link, DIAGONAL, 1e-8).derivatives(NoiseModel(link, DIAGONAL, 1e-8).parts(H, S), count),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


WITH_TAILS = [(link, shape, 0.0) for link, shape in ALL] + [(link, DIAGONAL, 0.7) for link in LINKS.values()]


def gradient_by_differences(model, H, S, count, step=1e-5):
    """Of the nll of each cell in each entry of H."""
    found = np.empty_like(H)
    for n, p in np.ndindex(*H.shape):
        ends = []
        for sign in (1, -1):
            moved = H[n : n + 1].copy()
            moved[0, p] += sign * step
            ends.append(model.nll(model.parts(moved, S[n : n + 1]), count[n : n + 1]))
        found[n, p] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize(("link", "shape", "kappa"), WITH_TAILS, ids=named)
def test_gradient_is_that_of_the_nll(link, shape, kappa):
    H, S, count = some_cells(link, shape)
    S, model = entries_of(S, shape), NoiseModel(link, shape, kappa)
    gradient, _ = model.derivatives(model.parts(H, S), count)
    expected = gradient_by_differences(model, H, S, count)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("link", "shape", "kappa"), WITH_TAILS, ids=named)
def test_expected_second_derivative_is_that_at_the_expected_products(link, shape, kappa):
    """The nll is linear in S, so the mean of its second derivative is the second derivative at the mean, n C."""
    H, _, count = some_cells(link, shape)
    model = NoiseModel(link, shape, kappa)
    C, _ = covariance_at(H, link, shape, np.array([[-np.inf] * shape.d, [np.inf] * shape.d]))
    S = entries_of(count[:, None, None] * C, shape)
    _, weight = model.derivatives(model.parts(H, S), count)
    step = 1e-5
    for p in range(shape.n_entries):
        ends = [
            model.derivatives(model.parts(H + sign * step * np.eye(shape.n_entries)[p], S), count)[0]
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(weight[:, p], (ends[0] - ends[1])[:, p] / (2 * step), rtol=1e-5, atol=1e-6)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_expected_second_derivative_is_the_variance_of_the_gradient(link, shape):
    # The variance of 40,000 gradients is known to about 2.5 % (they have heavier tails than Gaussian ones); 15 % is
    # six standard errors: one false alarm in 10^7 for each of the entries.
    rng = np.random.default_rng(0)
    H = np.repeat(some_cells(link, shape, n=1, seed=3)[0], 40_000, axis=0)
    C, _ = covariance_at(H, link, shape, np.array([[-np.inf] * shape.d, [np.inf] * shape.d]))
    count = np.full(len(H), 2.0)
    gradient, weight = NoiseModel(link, shape).derivatives(
        NoiseModel(link, shape).parts(H, entries_of(wishart(rng, C, count), shape)), count
    )
    np.testing.assert_allclose(gradient.var(axis=0), weight[0], rtol=0.15)
    assert (np.abs(gradient.mean(axis=0)) < 6 * np.sqrt(weight[0] / len(H))).all()  # one in 10^9


def heavy(rng, C, kappa):
    """Products of mean C and variance 2C² + 2κC."""
    variance = 2 * C**2 + 2 * kappa * C
    return rng.gamma(C**2 / variance, variance / C)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 5.0])
def test_tails_are_measured(kappa):
    # the estimate has a standard error of about 0.02 to 0.2 for 50,000 products: the bounds are beyond five of them
    rng = np.random.default_rng(0)
    C = rng.uniform(0.5, 1.5, (50_000, 1))
    S = heavy(rng, C, kappa)
    found = NoiseModel(IDENTITY, Shape("full", 1)).tails(C, S, np.ones(len(S)))
    assert found == pytest.approx(kappa, abs=0.1 + 0.2 * kappa)
    assert NoiseModel(IDENTITY, FULL).tails(np.zeros((2, 3)), np.ones((2, 3)), np.ones(2)) == 0.0
    assert NoiseModel(SQUARE, Shape("full", 1)).tails(C, S, np.ones(len(S))) == 0.0


def test_weights_with_tails_are_the_inverse_variances():
    # as above: 15 % of the variance of 200,000 gradients is more than five standard errors
    rng = np.random.default_rng(1)
    shape, model = Shape("full", 1), NoiseModel(LOG, Shape("full", 1), 2.0)
    H = np.full((200_000, 1), 0.3)
    S = heavy(rng, LOG.value(H), 2.0)
    gradient, weight = model.derivatives(model.parts(H, S), np.ones(len(H)))
    assert gradient.var() == pytest.approx(weight[0, 0], rel=0.15)
    assert shape.separate


# Fits


def products_of(sigma, u, shape, seed=0, count=1, with_features=True):
    """Products of residuals with covariance sigma(u), and their features."""
    rng = np.random.default_rng(seed)
    counts = np.full(len(u), float(count))
    S = wishart(rng, sigma(u), counts)
    basis, X = features(u) if with_features else (None, np.empty((len(u), 0)))
    return basis, Products.of(X, entries_of(S, shape), counts, rng.permutation(len(u)) % FOLDS)


def constant(u):
    return np.broadcast_to(np.array([[1.3, 0.5], [0.5, 0.7]]), (len(u), 2, 2))


U = np.random.default_rng(5).uniform(-0.5, 0.5, (2000, 2))


def mean_matrix(products, shape):
    mean = products.S.sum(axis=0) / products.count.sum()
    return np.diag(mean) if shape is DIAGONAL else mean[[[0, 1], [1, 2]]]


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_a_constant_covariance_is_the_mean_of_the_products(link, shape, count):
    _, products = products_of(constant, U, shape, count=count, with_features=False)
    inverse = np.linalg.inv(np.linalg.cholesky(mean_matrix(products, shape)))  # in units of it, as fits are made
    if shape is FULL:
        S = entries_of(inverse @ products.S[:, [[0, 1], [1, 2]]] @ inverse.T, FULL)
    else:
        S = products.S * np.diagonal(inverse) ** 2
    fit = fit_covariance(products._replace(S=S), None, link, shape)
    assert fit.added == 0
    np.testing.assert_allclose(fit.at(np.empty((1, 0)))[0], (1 + fit.added) * np.eye(2), atol=1e-9)
    assert fit.determined == pytest.approx(shape.n_entries)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_a_constant_covariance_is_found_from_afar_up_to_what_data_can_tell(link, shape):
    _, products = products_of(lambda u: 2 * constant(u), U, shape, with_features=False)
    fit = fit_covariance(products, None, link, shape)
    C, mean = fit.at(np.empty((1, 0)))[0], mean_matrix(products, shape)
    # a third of the standard error √(2/N) of an entry
    np.testing.assert_allclose(C, mean, rtol=0, atol=np.sqrt(2 / len(U)) / 3 * mean.max())


def varying(u):
    a, b = np.exp(2 * u[:, 0]), np.exp(-1.5 * u[:, 1])
    off = 0.6 * np.sqrt(a * b) * np.cos(2 * u[:, 0])
    return np.stack([np.stack([a, off], axis=1), np.stack([off, b], axis=1)], axis=1)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_a_fit_is_better_than_its_start_and_close_to_the_truth(link, shape):
    basis, products = products_of(varying, U, shape)
    fit = fit_covariance(products, basis, link, shape)
    H = np.zeros((len(U), shape.n_entries))
    H[:] = link.at_one * (np.equal(*np.tril_indices(2)) if shape is FULL else 1.0)
    H_fit = products.ones @ fit.B
    assert (
        fit.model.nll(fit.model.parts(H_fit, products.S), products.count)
        < fit.model.nll(fit.model.parts(H, products.S), products.count) - 50
    )
    C, truth = fit.at(products.ones[:, 1:]), varying(U)
    if shape is DIAGONAL:
        truth = truth * np.eye(2)
    # the amplitudes that the data determine carry the error: about √(2 · 12 / 2000) of Σ, a tenth
    assert np.sqrt(np.mean((C - truth) ** 2)) < 0.2
    np.linalg.cholesky(C)


@each_link
def test_a_fit_has_no_gradient_left(link):
    basis, products = products_of(varying, U, DIAGONAL)
    fit = fit_covariance(products, basis, link, DIAGONAL, ridge=1e-3)
    gradient, weight = fit.model.derivatives(fit.model.parts(products.ones @ fit.B, products.S), products.count)
    for j in range(2):
        A = (products.ones.T * weight[:, j]) @ products.ones
        P = amplitude_ridges(fit.ridges[j : j + 1], basis)
        left = products.ones.T @ gradient[:, j] + P * fit.B[:, j]
        # one more step would gain ½ gᵀ(A + P)⁻¹g of log-likelihood: nothing that data can tell
        assert 0.5 * left @ np.linalg.solve(A + np.diag(P), left) < 0.05


def test_a_given_ridge_is_obeyed_and_a_huge_one_leaves_a_constant():
    basis, products = products_of(varying, U, DIAGONAL)
    fit = fit_covariance(products, basis, LOG, DIAGONAL, ridge=1e9)
    C = fit.at(products.ones[:, 1:])
    np.testing.assert_allclose(C - C[0], 0, atol=1e-4)
    np.testing.assert_allclose(C[0].diagonal(), products.S.mean(axis=0), rtol=0.02)


def test_a_fit_that_starts_from_a_fit_ends_there():
    basis, products = products_of(varying, U, FULL)
    first = fit_covariance(products, basis, LOG, FULL)
    again = fit_covariance(products, basis, LOG, FULL, start=first)
    before, after = (
        f.model.nll(f.model.parts(products.ones @ f.B, products.S), products.count) for f in (first, again)
    )
    assert abs(after - before) < 1
    X = products.ones[:, 1:]
    assert np.abs(again.at(X) - first.at(X)).max() < 0.1 * np.abs(first.at(X)).max()


def test_a_start_outside_the_cone_is_not_taken():
    basis, products = products_of(varying, U, FULL)
    fit = fit_covariance(products, basis, IDENTITY, FULL)
    outside = replace(fit, B=fit.B * -5)
    again = fit_covariance(products, basis, IDENTITY, FULL, start=outside)
    assert np.isfinite(again.model.nll(again.model.parts(products.ones @ again.B, products.S), products.count))
    np.linalg.cholesky(again.at(products.ones[:, 1:]))


def along_a_line(sigma, n=4000):
    u = np.random.default_rng(0).uniform(-0.5, 0.5, (n, 1))
    basis, products = products_of(lambda u: sigma(u)[:, :, None], u, Shape("full", 1))
    truth = np.mean(0.5 * np.log(sigma(u)) + 0.5 * products.S / sigma(u))
    return basis, products, truth


def test_the_true_link_predicts_other_folds_best():
    basis, products, truth = along_a_line(lambda u: np.exp(8 * u))
    losses = {name: fit_covariance(products, basis, link, Shape("full", 1)).cv_nll for name, link in LINKS.items()}
    assert min(losses, key=losses.get) == "log"
    # the excess of each of about six amplitudes is 1 / 2N on average
    assert losses["log"] - truth < 0.01
    assert losses["identity"] - truth > 0.05


def test_cross_validated_loss_is_that_of_new_data():
    # both are means of 2000 losses with a standard deviation of about one: six standard errors of the difference
    basis, products = products_of(varying, U, FULL)
    fit = fit_covariance(products, basis, LOG, FULL)
    _, new = products_of(varying, U, FULL, seed=1)
    assert fit.cv_nll == pytest.approx(held_out_losses(fit, new).mean(), abs=6 * np.sqrt(2 / len(U)))


# Limits


def losses_of(nll, floors):
    """Losses of nll of shape (F, n), for one set of eigenvalues."""
    nll = np.asarray(nll, dtype=float)
    return Losses(np.asarray(floors), nll.sum(axis=1, keepdims=True), (nll @ nll.T)[:, :, None])


def test_the_largest_limit_that_costs_hardly_more_is_taken_whatever_the_least_value():
    floors = [1e-3, 1e-2, 1e-1]
    nll = np.array([[10.0], [10.0 + 0.9 * HARDLY_WORSE], [10.0 + 10 * HARDLY_WORSE]]) * np.ones(1)
    losses = Losses(np.array(floors), nll, np.zeros((3, 3, 1)))  # differences without an error
    most = np.array([5.0])
    np.testing.assert_array_equal(losses.limits(np.array([1.0]), most, 0.0), [[1e-2], [5.0]])
    np.testing.assert_array_equal(losses.limits(np.array([5e-3]), most, 0.0), [[1e-2], [5.0]])


def test_a_limit_above_the_least_value_is_taken_if_it_is_better():
    losses = losses_of([[10.0], [8.0], [3.0]], [1e-3, 1e-2, 1e-1])
    np.testing.assert_array_equal(losses.chosen(np.array([1e-3])), [1e-1])


def test_a_limit_that_is_not_significantly_worse_is_taken():
    rng = np.random.default_rng(0)
    same, noisy = np.zeros(100), 5 * rng.normal(size=100)
    noisy += (20 - noisy.sum()) / 100  # worse by 20, with a standard error of about 50
    losses = losses_of([same, noisy], [1e-3, 1e-2])
    assert losses.chosen(np.array([1.0])) == 1e-2
    assert losses.chosen(np.array([5e-3])) == 1e-3  # but not above the least value
    steady = losses_of([same, same + 0.2], [1e-3, 1e-2])  # worse by 20, with a standard error of 2
    assert steady.chosen(np.array([1.0])) == 1e-3


def test_the_upper_limit_is_never_below_the_lower_one():
    losses = losses_of([[10.0], [1.0]], [1e-3, 0.3])
    np.testing.assert_array_equal(losses.limits(np.array([1.0]), np.array([0.1]), 0.0), [[0.3], [0.3]])


@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
@each_link
def test_losses_are_sums_over_cells_and_add_up(shape, link):
    H, S, count = some_cells(link, shape, n=30)
    S, model, most = entries_of(S, shape), NoiseModel(link, shape), np.full(2, 4.0)
    losses = Losses.of(model, model.parts(H, S), count, most, 0.0)
    assert set(losses.floors) <= set(FLOORS)
    for i, floor in enumerate(losses.floors):
        C, _ = covariance_at(H, link, shape, np.array([[floor] * 2, [4.0] * 2]))
        matrices = np.array([np.diag(row) if shape is DIAGONAL else row[[[0, 1], [1, 2]]] for row in S])
        traces = np.trace(np.linalg.solve(C, matrices), axis1=1, axis2=2)
        expected = 0.5 * (count * np.linalg.slogdet(C)[1] + traces)
        assert losses.sums[i].sum() == pytest.approx(expected.sum(), rel=1e-8)
    halves = [
        Losses.of(model, model.parts(H[rows], S[rows]), count[rows], most, 0.0)
        for rows in (slice(0, 11), slice(11, 30))
    ]
    both = halves[0].plus(halves[1])
    np.testing.assert_allclose(both.sums, losses.sums, rtol=1e-10)
    np.testing.assert_allclose(both.products, losses.products, rtol=1e-10)
    assert losses.least == pytest.approx(losses.sums.min(axis=0).sum())


def test_cell_nll_with_limits_is_that_of_the_limited_values():
    C, own, count = np.array([[0.01, 1.0], [1.0, 100.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 1.0])
    kept = np.array([[0.1, 1.0], [1.0, 10.0]])
    expected = 0.5 * (count[:, None] * np.log(kept) + own / kept)
    np.testing.assert_allclose(cell_nll(raised(C, 0.1, np.array([10.0, 10.0]), 0.0), own, count), expected)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_limits_of_a_fit_hold_its_values_on_the_data(link, shape):
    basis, products = products_of(varying, U, shape)
    fit = fit_covariance(products, basis, link, shape)
    values = fit.model.parts(products.ones @ fit.B, products.S).C
    if shape is DIAGONAL:
        np.testing.assert_allclose(fit.limits[1], MARGIN * values.max(axis=0))
    else:  # no eigenvalue exceeds the trace, which is known to a few hundredths
        largest = np.trace(varying(U), axis1=1, axis2=2).max()
        np.testing.assert_allclose(fit.limits[1], MARGIN_OF_TRACE * largest, rtol=0.2)
        assert values.max() <= fit.limits[1, 0]
    assert (fit.limits[0] > 0).all()
    assert (fit.limits[0] <= fit.limits[1]).all()


@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_held_out_losses_are_the_nll_of_each_cell_within_the_limits(shape):
    basis, products = products_of(varying, U, shape)
    fit = fit_covariance(products, basis, LOG, shape)
    _, new = products_of(varying, U, shape, seed=1, count=2)
    C, _ = covariance_at(new.ones @ fit.B, LOG, shape, fit.limits)
    S = new.S[:, [[0, 1], [1, 2]]] if shape is FULL else new.S[:, :, None] * np.eye(2)
    expected = 0.5 * (2 * np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, S), axis1=1, axis2=2))
    np.testing.assert_allclose(held_out_losses(fit, new), expected, rtol=1e-8, atol=1e-8)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_few_cells_are_judged_by_fits_without_their_fold(link, shape):
    """The loss of each fold is that of a fit to the others from the beginning, up to where scoring ends."""
    basis, products = products_of(varying, U[:300], shape)
    fit = fit_covariance(products, basis, link, shape)
    assert fit.cv_nll == pytest.approx(fit.held_out.sum() / products.count.sum())
    losses = []
    for k in range(FOLDS):
        others = fit_covariance(products.at(np.flatnonzero(products.fold != k)), basis, link, shape)
        losses.append(held_out_losses(others, products.at(np.flatnonzero(products.fold == k))))
    assert fit.cv_nll == pytest.approx(np.concatenate(losses).mean(), abs=0.05)


# Other data


def rescored_on(blocks, basis, fit):
    """One more scoring step on features and products that come in blocks, by sums over these."""

    def losses(trials):
        return list(reduce(added, [losses_of_trials(fit, trials, X, S) for X, S in blocks]))

    return rescored(fit, basis, reduce(added, [ScoringSums.of(fit, X, S) for X, S in blocks]), losses)


@each_link
@pytest.mark.parametrize("shape", [FULL, DIAGONAL], ids=str)
def test_another_step_on_more_data_improves_on_their_likelihood(link, shape):
    basis, products = products_of(varying, U[:500], shape)
    fit = fit_covariance(products, basis, link, shape)
    u = np.random.default_rng(6).uniform(-0.5, 0.5, (5000, 2))
    _, more = products_of(varying, u, shape, seed=2, with_features=False)
    X = basis.at(u)
    new = rescored_on([(X[part], more.S[part]) for part in (slice(0, 1700), slice(1700, 5000))], basis, fit)
    ones = np.column_stack([np.ones(len(X)), X])

    def loss(f):
        return Losses.of(f.model, f.model.parts(ones @ f.B, more.S), more.count, f.limits[1], f.top).least

    assert loss(new) < loss(fit) - 1
    if shape is DIAGONAL:  # whose entries the features can follow: ten times the data
        truth = varying(u) * np.eye(2)
        assert np.mean((new.at(X) - truth) ** 2) < 0.8 * np.mean((fit.at(X) - truth) ** 2)
    np.testing.assert_array_equal(new.ridges, fit.ridges)


@each_link
def test_another_step_moves_coupled_entries_together(link):
    """A whole step is that of `scored`, whose left side knows how entries depend on each other."""
    basis, products = products_of(varying, U, FULL)
    fit = fit_covariance(products, basis, link, FULL)
    X, S = products.ones[:, 1:], products.S
    sums = reduce(added, [ScoringSums.of(fit, X[part], S[part]) for part in (slice(0, 170), slice(170, None))])
    tried = []

    def losses(trials):
        tried.extend(trials)
        return list(losses_of_trials(fit, trials, X, S))

    rescored(fit, basis, sums, losses)
    in_use = np.array([own.P < SWITCHED_OFF for own in fit.systems])
    H, more = products.ones @ fit.B, products.with_added(fit.added, np.equal(*entries("full", 2)))
    if link is IDENTITY:
        H = covariance_at(H, link, FULL, fit.limits)[0][:, [0, 1, 1], [0, 0, 1]]
    step = Together.of(fit.model, more, (fit.B, H), fit.model.parts(H, more.S), in_use)
    P = np.stack([amplitude_ridges(ridges[None], basis) for ridges in fit.ridges])
    np.testing.assert_allclose(tried[-1], step.solution(P.T), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(tried[0], fit.B)


def turning(u):
    """Σ of standard deviations about 1 and 0.3 in a direction that turns, so that its entries depend on each other."""
    c, s = np.cos(3 * u[:, 0]), np.sin(3 * u[:, 0])
    axis = np.stack([c, s], axis=1)
    return axis[:, :, None] * axis[:, None, :] + 0.09 * np.eye(2)


@each_link
def test_error_bars_of_an_entry_count_what_the_others_may_do(link):
    """They are those of the inverse of the normal matrix of all entries, not of each entry's own."""
    basis, products = products_of(turning, U[:900], FULL)
    fit = fit_covariance(products, basis, link, FULL)
    new = with_errors_of_all(fit, products)
    more = products.with_added(fit.added, np.equal(*entries("full", 2)))
    H = products.ones @ fit.B
    A = Together.of(fit.model, more, (fit.B, H), fit.model.parts(H, more.S), None).A
    P = np.concatenate([own.P for own in fit.systems])
    on = np.flatnonzero(P < SWITCHED_OFF)
    joint = np.zeros_like(A)
    joint[np.ix_(on, on)] = np.linalg.inv(A[np.ix_(on, on)] + np.diag(P[on]))
    size, wider = len(fit.B), []
    for j, (own, alone) in enumerate(zip(new.systems, fit.systems, strict=True)):
        used = np.flatnonzero(own.P < SWITCHED_OFF)
        variances = np.diagonal(np.linalg.inv(own.A[np.ix_(used, used)] + np.diag(own.P[used])))
        np.testing.assert_allclose(variances, np.diagonal(joint)[j * size + used], rtol=1e-6)
        before = np.diagonal(np.linalg.inv(alone.A[np.ix_(used, used)] + np.diag(alone.P[used])))
        wider.append((variances / before).max())
        best = np.linalg.solve(own.A[np.ix_(used, used)] + np.diag(own.P[used]), own.b[used])
        assert np.abs((best - own.c[used]) / np.sqrt(variances)).max() < 1  # the fit has settled
    assert max(wider) > 1.2


@pytest.mark.parametrize("link", [LOG, SQUARE], ids=["log", "square"])
def test_error_bars_do_not_take_a_step_of_all_entries_for_an_error_of_each(link):
    """After a whole step each entry is at its best where the others are; where they were it would be far off."""
    basis, products = products_of(turning, U[:900], FULL)
    fit = fit_covariance(products, basis, link, FULL)
    u = np.random.default_rng(6).uniform(-0.5, 0.5, (8000, 2))
    _, more = products_of(turning, u, FULL, seed=2, with_features=False)
    sums = ScoringSums.of(fit, basis.at(u), more.S)
    new = rescored(fit, basis, sums, lambda trials: list(losses_of_trials(fit, trials, basis.at(u), more.S)))
    off, before = [], []
    for own, b in zip(new.systems, sums.b, strict=True):
        on = own.P < SWITCHED_OFF
        left, error = (own.A @ own.c + own.P * own.c)[on], np.sqrt(np.diagonal(own.A)[on])
        off.append(np.abs((left - own.b[on]) / error).max())
        before.append(np.abs((left - b[on]) / error).max())
    assert max(off) < 1e-6
    assert max(before) > 3


def test_a_ridge_that_is_given_is_that_of_all_transitions_where_some_are_fitted_alone():
    basis, products = products_of(turning, U, FULL)
    start = Sigma(basis, np.eye(2), fit_covariance(products, basis, LOG, FULL, 1e-5))
    cells = SimpleNamespace(u=U, sums=products.S, count=products.count, fold=products.fold)
    same, of_more = (fitted_alone(start, cells, 1e-5, n * len(U)).fit for n in (1, 10))
    np.testing.assert_allclose(of_more.ridges, 10 * same.ridges)
    free, of_many = (fitted_alone(start, cells, None, n * len(U)).fit for n in (1, 10))
    np.testing.assert_array_equal(of_many.ridges, free.ridges)  # those of largest evidence are those of a prior


@pytest.mark.parametrize(("n_in_use", "expected"), [(100, 131_072), (1_000, 60_000), (10_000, 16_000)])
def test_the_more_amplitudes_the_fewer_transitions_stand_alone(n_in_use, expected):
    ridges = np.repeat([0.0, SWITCHED_OFF], [n_in_use // 2, 50])
    sigma = SimpleNamespace(fit=SimpleNamespace(systems=[SimpleNamespace(P=ridges)] * 2))
    assert rows_alone(sigma, 10**9) == expected
    assert rows_alone(sigma, 5_000) == 5_000


def test_eigenvalues_stay_below_a_limit_that_is_known():
    basis, products = products_of(varying, U, FULL)
    X = products.ones[:, 1:]
    free, limited = (fit_covariance(products, basis, LOG, FULL, most=most) for most in (np.inf, 1.2))
    assert np.linalg.eigvalsh(free.at(X)).max() > 1.5
    assert np.linalg.eigvalsh(limited.at(X)).max() <= 1.2 * (1 + 1e-12)


def test_another_step_that_does_not_help_is_not_made():
    basis, products = products_of(varying, U, DIAGONAL)
    fit = fit_covariance(products, basis, LOG, DIAGONAL)
    X = products.ones[:, 1:]
    new = rescored_on([(X, products.S)], basis, fit)

    def loss(f):
        parts = f.model.parts(products.ones @ f.B, products.S)
        return Losses.of(f.model, parts, products.count, f.limits[1], f.top).least

    assert loss(new) <= loss(fit)
    assert loss(new) > loss(fit) - 1  # it was at its best already


def test_a_constant_covariance_is_scored_again_to_the_mean_of_all():
    _, products = products_of(constant, U[:300], DIAGONAL, with_features=False)
    fit = fit_covariance(products, None, IDENTITY, DIAGONAL)
    _, more = products_of(constant, U, DIAGONAL, seed=3, with_features=False)
    new = rescored_on([(np.empty((len(U), 0)), more.S)], None, fit)
    np.testing.assert_allclose(new.at(np.empty((1, 0)))[0], np.diag(more.S.mean(axis=0)), rtol=1e-6)
