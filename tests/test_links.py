"""Links from symmetric matrices to covariances: their derivatives, and that the result is positive definite."""

import numpy as np
import pytest

from itofit.matrices.links import (
    EPSILON,
    IDENTITY,
    LARGEST_FOLD_FACTOR,
    LARGEST_LOG_STEP,
    LINKS,
    NEARLY_ALL,
    TO_THE_BOUNDARY,
    Shape,
    Spectrum,
    covariance_at,
)
from itofit.matrices.symmetric import LEAST_RATIO, kept_within

each_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
SHAPES = [Shape("full", 1), Shape("full", 2), Shape("full", 4), Shape("diagonal", 3)]
UNLIMITED = np.array([[-np.inf], [np.inf]])


def matrix(H, shape):
    """The symmetric matrix of one vector of entries, written out."""
    if shape.structure == "diagonal":
        return np.diag(H)
    M = np.zeros((shape.d, shape.d))
    M[np.tril_indices(shape.d)] = H
    return M + np.tril(M, -1).T


def of_matrix(M, link):
    """g of a symmetric matrix, by its eigenvalues."""
    eta, Q = np.linalg.eigh(M)
    g = {"identity": eta, "square": eta**2 + EPSILON, "log": np.exp(eta)}[link.name]
    return Q @ np.diag(g) @ Q.T


@each_link
def test_slope_is_the_derivative_of_the_value(link):
    eta, step = np.linspace(-3, 3, 41)[:, None], 1e-5
    finite = (link.value(eta + step) - link.value(eta - step)) / (2 * step)
    np.testing.assert_allclose(link.slope(eta), finite, rtol=1e-8, atol=1e-8)


@each_link
def test_value_is_one_at_its_inverse(link):
    assert link.value(np.array([link.at_one]))[0] == pytest.approx(1.0, abs=1e-11)


@each_link
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-5, 1.5e-4, 2.5e-4, 0.1, 5.0])
def test_divided_difference_is_what_it_says_at_any_distance(link, gap):
    a = np.array([-1.2, 0.0, 0.7])
    K = link.divided_difference(np.stack([a, a + gap], axis=1))
    assert K.shape == (3, 2, 2)
    np.testing.assert_allclose(K[:, 0, 1], K[:, 1, 0], rtol=1e-14)
    np.testing.assert_allclose(K[:, [0, 1], [0, 1]], link.slope(np.stack([a, a + gap], axis=1)), rtol=1e-12)
    if gap >= 0.1:
        expected = (link.value(a + gap) - link.value(a)) / gap
    else:  # the mean of the slope between the two, by Gauss's rule
        nodes, weights = np.polynomial.legendre.leggauss(5)
        expected = 0.5 * weights @ link.slope(a + 0.5 * gap * (1 + nodes[:, None]))
    np.testing.assert_allclose(K[:, 0, 1], expected, rtol=1e-9, atol=1e-12)


@each_link
@pytest.mark.parametrize("d", [2, 4])
def test_divided_difference_gives_the_change_of_the_covariance(link, d):
    rng = np.random.default_rng(0)
    M, dM = rng.normal(size=(2, d, d))
    M, dM = M + M.T, dM + dM.T
    eta, Q = np.linalg.eigh(M)
    change = Q @ (link.divided_difference(eta[None])[0] * (Q.T @ dM @ Q)) @ Q.T
    finite = (of_matrix(M + 1e-6 * dM, link) - of_matrix(M - 1e-6 * dM, link)) / 2e-6
    np.testing.assert_allclose(change, finite, rtol=1e-6, atol=1e-6 * np.abs(finite).max())


@each_link
def test_divided_difference_of_huge_eigenvalues_is_finite(link):
    eta = np.array([[-1e3, 1e3], [1e3, 1e3], [-1e3, -1e3]])
    assert np.isfinite(link.divided_difference(eta)).all()
    assert np.isfinite(link.slope(eta)).all()
    assert np.isfinite(link.value(eta)).all()


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_covariance_is_the_function_of_the_matrix(link, shape):
    H = np.random.default_rng(0).normal(size=(30, shape.n_entries))
    C, changed = covariance_at(H, link, shape, UNLIMITED * np.ones((2, shape.d)))
    assert not changed.any()
    for i, entries in enumerate(H):
        np.testing.assert_allclose(C[i], of_matrix(matrix(entries, shape), link), rtol=0, atol=1e-12 * np.abs(C).max())


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e3, 1e6])
def test_covariance_is_symmetric_positive_definite_within_limits(link, shape, size):
    H = size * np.random.default_rng(0).normal(size=(500, shape.n_entries))
    low, high = 1e-6, 50.0
    C, changed = covariance_at(H, link, shape, np.array([[low] * shape.d, [high] * shape.d]))
    np.testing.assert_allclose(C, C.swapaxes(1, 2), rtol=0, atol=1e-14 * high)
    values = np.linalg.eigvalsh(C)
    assert values.min() > low * (1 - 1e-6)
    assert values.max() < high * (1 + 1e-12)
    np.linalg.cholesky(C)
    free = np.linalg.eigvalsh(np.array([matrix(entries, shape) for entries in H]))
    g = link.value(free)
    beyond = (g < low) | (g > high)
    if not shape.separate:  # eigenvalues of one matrix are within five decades
        beyond |= g < LEAST_RATIO * np.clip(g, low, high).max(axis=1, keepdims=True)
    np.testing.assert_array_equal(changed, beyond.any(axis=1))


def test_limits_of_a_diagonal_covariance_are_those_of_each_entry():
    limits = np.array([[0.5, 1e-3], [2.0, 10.0]])
    C, changed = covariance_at(np.array([[0.1, 0.1], [5.0, 5.0], [1.0, 1.0]]), IDENTITY, Shape("diagonal", 2), limits)
    np.testing.assert_array_equal(C, [np.diag([0.5, 0.1]), np.diag([2.0, 5.0]), np.diag([1.0, 1.0])])
    np.testing.assert_array_equal(changed, [True, True, False])


@each_link
def test_covariance_turns_with_the_matrix(link):
    rng = np.random.default_rng(0)
    shape, limits = Shape("full", 3), np.array([[0.01] * 3, [2.0] * 3])
    M = rng.normal(size=(3, 3))
    M = M + M.T
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    lower = np.tril_indices(3)
    C, turned = covariance_at(np.stack([M[lower], (R @ M @ R.T)[lower]]), link, shape, limits)[0]
    np.testing.assert_allclose(turned, R @ C @ R.T, atol=1e-12)


def test_spectrum_turns_products_into_the_axes_of_the_matrix():
    rng = np.random.default_rng(0)
    shape = Shape("full", 3)
    H, S = rng.normal(size=(2, 5, 6))
    spectrum = Spectrum.of(H, shape)
    turned = spectrum.turned(S, shape)
    for i in range(5):
        np.testing.assert_allclose(spectrum.turned(H, shape)[i], np.diag(spectrum.eta[i]), atol=1e-12)
        assert np.trace(turned[i]) == pytest.approx(np.trace(matrix(S[i], shape)))
    np.testing.assert_allclose(spectrum.diagonal(turned), turned[:, [0, 1, 2], [0, 1, 2]])


def test_decoupled_entries_are_their_own_spectrum():
    H = np.random.default_rng(0).normal(size=(5, 3))
    spectrum = Spectrum.of(H, Shape("diagonal", 3))
    assert spectrum.Q is None
    assert spectrum.diagonal(spectrum.turned(H, Shape("diagonal", 3))) is H
    assert Shape("full", 1).separate
    assert Shape("diagonal", 3).separate
    assert not Shape("full", 2).separate
    assert [shape.n_entries for shape in SHAPES] == [1, 3, 10, 3]


# What a model keeps


def some_matrices(link, shape, n=6, seed=0):
    """Entries of H with a positive definite C, and a factor L of the structure's own."""
    rng = np.random.default_rng(seed)
    own = np.equal(*np.tril_indices(shape.d)) if shape.structure == "full" else np.ones(shape.d, dtype=bool)
    H = link.at_one * own + 0.2 * rng.normal(size=(n, shape.n_entries))
    L = np.tril(rng.normal(size=(shape.d, shape.d)), -1) + np.diag(rng.uniform(0.5, 3.0, shape.d))
    return H, L if shape.structure == "full" else np.diag(np.diagonal(L))


def unlimited(shape):
    return UNLIMITED * np.ones((2, shape.d))


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_kept_gives_the_covariance_back(link, shape):
    H, L = some_matrices(link, shape)
    sigma, changed = link.covariance(link.kept(H, L, shape), L, shape, unlimited(shape))
    assert not changed.any()
    for i, entries in enumerate(H):
        np.testing.assert_allclose(sigma[i], L @ of_matrix(matrix(entries, shape), link) @ L.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(sigma, sigma.swapaxes(1, 2))


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_kept_is_linear_in_the_amplitudes(link, shape):
    """So amplitudes of H become those of the kept functions, feature by feature."""
    rng = np.random.default_rng(1)
    B, X = rng.normal(size=(4, shape.n_entries)), rng.normal(size=(9, 4))
    _, L = some_matrices(link, shape)
    np.testing.assert_allclose(X @ link.kept(B, L, shape), link.kept(X @ B, L, shape), rtol=1e-10, atol=1e-12)


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kept_functions_are_held_within_limits_in_units_of_the_mean_covariance(link, shape):
    H, L = some_matrices(link, shape, n=40)
    limits = np.array([[0.8] * shape.d, [1.3] * shape.d])
    free, _ = link.covariance(link.kept(H, L, shape), L, shape, unlimited(shape))
    sigma, changed = link.covariance(link.kept(H, L, shape), L, shape, limits)
    inverse = np.linalg.inv(L)
    before, after = (np.linalg.eigvalsh(inverse @ matrices @ inverse.T) for matrices in (free, sigma))
    np.testing.assert_array_equal(changed, ((before < 0.8) | (before > 1.3)).any(axis=1))
    assert changed.any()
    np.testing.assert_allclose(after, np.clip(before, 0.8, 1.3), rtol=1e-10)


def test_the_identity_leaves_matrices_within_their_limits_alone_to_the_last_bit():
    shape = Shape("full", 3)
    H, L = some_matrices(IDENTITY, shape)
    kept = IDENTITY.kept(H, L, shape)
    sigma, changed = IDENTITY.covariance(kept, L, shape, np.array([[1e-3] * 3, [1e3] * 3]))
    assert not changed.any()
    np.testing.assert_array_equal(sigma[:, *np.tril_indices(3)], kept)


@each_link
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_derivatives_are_finite_differences_of_the_covariance(link, shape):
    H, L = some_matrices(link, shape)

    def sigma(at):
        return link.covariance(link.kept(at, L, shape), L, shape, unlimited(shape))[0]

    changes = list(link.derivatives(link.kept(H, L, shape), L, shape))
    assert len(changes) == shape.n_entries
    for e, change in enumerate(changes):
        step = 1e-6 * np.eye(shape.n_entries)[e]
        finite = (sigma(H + step) - sigma(H - step)) / 2e-6
        np.testing.assert_allclose(change, finite, rtol=1e-7, atol=1e-7 * np.abs(L).max() ** 2)


# Fitting

SEPARATE, COUPLED = Shape("diagonal", 3), Shape("full", 3)


@each_link
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_step_of_decoupled_entries_keeps_them_where_the_link_allows(link, size):
    rng = np.random.default_rng(0)
    H, change = rng.uniform(0.1, 2.0, (50, 3)), size * rng.normal(size=(50, 3)) * [1.0, 10.0, 1e-6]
    share = link.largest_share(H, change, SEPARATE)
    assert share.shape == (3,)
    assert ((share > 0) & (share <= 1)).all()
    if link.name == "identity":  # most of the way to zero, and all of it if it ends before
        left = (H + share * change) / H
        assert left.min() > (1 - TO_THE_BOUNDARY) * (1 - 1e-12)
        whole = ((H + change) / H).min(axis=0) > 1 - TO_THE_BOUNDARY
        np.testing.assert_array_equal(share == 1, whole)
        np.testing.assert_allclose(left.min(axis=0)[~whole], 1 - TO_THE_BOUNDARY)
    elif link.name == "log":
        np.testing.assert_allclose(share, min(1.0, LARGEST_LOG_STEP / np.abs(change).max()))
    else:
        np.testing.assert_array_equal(share, 1.0)


def test_variances_that_have_vanished_stop_no_others():
    H, change = np.array([[1.0, 1.0, 1.0], [-0.5, 0.0, 2.0]]), np.array([[-0.2, -0.2, -2.0], [3.0, -0.7, 1.0]])
    share = LINKS["identity"].largest_share(H, change, SEPARATE)
    np.testing.assert_array_equal(share[:2], 1.0)
    assert 0 < share[2] < 0.5


@each_link
def test_a_step_of_coupled_entries_has_one_share(link):
    rng = np.random.default_rng(0)
    H, change = rng.normal(size=(2, 50, 6)) * [[[1.0]], [[100.0]]]
    nearly_all = np.quantile(np.abs(change).max(axis=1), NEARLY_ALL)
    expected = LARGEST_LOG_STEP / nearly_all if link.name == "log" else 1.0
    np.testing.assert_allclose(link.largest_share(H, change, COUPLED), [expected])
    np.testing.assert_array_equal(link.largest_share(H, np.zeros_like(change), COUPLED), [1.0])


def test_a_step_is_as_long_as_it_is_felt_below_the_upper_limit():
    """The change of log C, its eigenvalues cut at a limit, by finite differences; beyond, H may go any way."""
    rng = np.random.default_rng(0)
    H, change = rng.normal(size=(2, 50, 6)) * [[[1.0]], [[100.0]]]
    eta = np.array([np.linalg.eigvalsh(matrix(own, COUPLED)) for own in H])
    most, step = np.exp(np.quantile(eta, 0.7)), 1e-9

    def below(H):
        values, Q = np.linalg.eigh(np.array([matrix(own, COUPLED) for own in H]))
        return ((Q * np.minimum(values, np.log(most))[:, None, :]) @ Q.swapaxes(1, 2))[:, *np.tril_indices(3)]

    felt = (below(H + step * change) - below(H - step * change)) / (2 * step)
    expected = LARGEST_LOG_STEP / np.quantile(np.abs(felt).max(axis=1), NEARLY_ALL)
    np.testing.assert_allclose(LINKS["log"].largest_share(H, change, COUPLED, most), [expected], rtol=1e-5)
    far_beyond = np.tile([9.0, 0.0, 8.0, 0.0, 0.0, 7.0], (50, 1))
    np.testing.assert_array_equal(LINKS["log"].largest_share(far_beyond, change, COUPLED, 2.0), [1.0])


@each_link
def test_what_was_extrapolated_stays_near(link):
    rng = np.random.default_rng(0)
    H = rng.uniform(0.5, 2.0, (50, 3))
    values = H + 100 * rng.normal(size=(50, 3))
    near = link.near(values, H, SEPARATE)
    if link.name == "identity":
        np.testing.assert_array_equal(near, np.clip(values, H / LARGEST_FOLD_FACTOR, H * LARGEST_FOLD_FACTOR))
        assert (near > 0).all()
    elif link.name == "log":
        assert np.abs(near - H).max() <= LARGEST_LOG_STEP * (1 + 1e-12)
    else:
        np.testing.assert_array_equal(near, values)
    np.testing.assert_array_equal(link.near(H, H, SEPARATE), H)
    six = rng.normal(size=(4, 6))
    np.testing.assert_array_equal(link.near(six + 0.1, six, COUPLED), six + 0.1)


@each_link
def test_standard_deviations_follow_those_of_the_covariance_to_first_order(link):
    """Standard deviations of H are those of C over g'(η): before C = g(η) grows by a ratio, and after."""
    typical, ratio, added = np.array([0.3, 1.0, 4.0]), np.array([0.5, 1.0, 3.0]), np.array([0.1, 0.2, 0.3])
    inverse = {"identity": lambda C: C, "square": np.sqrt, "log": np.log}[link.name]
    np.testing.assert_allclose(link.value(inverse(typical)), typical, rtol=1e-11)
    factor, more = link.spread_with(ratio, added, typical)
    np.testing.assert_allclose(factor, ratio * link.slope(inverse(typical)) / link.slope(inverse(ratio * typical)))
    np.testing.assert_allclose(more, added * typical / link.slope(inverse(typical)))


def test_links_are_found_by_their_names_the_simplest_first():
    assert list(LINKS) == ["identity", "log", "square"]
    assert all(link.name == name for name, link in LINKS.items())
    assert [name for name, link in LINKS.items() if link.linear] == ["identity"]
    assert len({link.symbol for link in LINKS.values()}) == len({link.meaning for link in LINKS.values()}) == 3


# Limits


def test_eigenvalues_are_raised_together_where_the_largest_is_below_its_limit():
    values = np.array([[1e-6, 2e-6], [1e-3, 2e-2], [1e-6, 1.0], [0.5, 50.0], [-1.0, -0.5]])
    kept = kept_within(values, np.array([[1e-4, 0.1], [10.0, 10.0]]))
    np.testing.assert_allclose(kept, [[0.1, 0.1], [5e-3, 0.1], [1e-4, 1.0], [0.5, 10.0], [0.1, 0.1]])
    one = np.full(2, 1e-4)
    np.testing.assert_array_equal(kept_within(values, np.array([one, [10.0, 10.0]])), np.clip(values, 1e-4, 10.0))


@pytest.mark.parametrize("link", ["identity", "log", "square"])
def test_a_full_covariance_has_a_largest_eigenvalue_above_its_limit(link):
    rng = np.random.default_rng(0)
    H, L = rng.standard_normal((500, 3)) - [1.0, 0.0, 1.0], np.array([[2.0, 0.0], [0.3, 0.1]])
    limits, own = np.array([[1e-3, 0.2], [10.0, 10.0]]), LINKS[link]
    sigma, changed = own.covariance(own.kept(H, L, Shape("full", 2)), L, Shape("full", 2), limits)
    back = np.linalg.inv(L)
    values = np.linalg.eigvalsh(back @ sigma @ back.T)
    assert values[:, 1].min() > 0.2 - 1e-9
    assert values[:, 0].min() > 1e-3 - 1e-9
    free = own.covariance(
        own.kept(H, L, Shape("full", 2)), L, Shape("full", 2), np.array([[-np.inf] * 2, [np.inf] * 2])
    )[0]
    np.testing.assert_allclose(sigma[~changed], free[~changed], rtol=1e-9)
    assert 0 < changed.mean() < 1
