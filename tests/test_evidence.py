"""Principal features and ridges of largest evidence, against dense Gaussian models written out."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from itofit.learning.automatic import evidence
from itofit.learning.automatic.evidence import SETTLED, Solution, Solved, maximise_evidence, regress, updated_ridges
from itofit.learning.automatic.penalised import left_by_others, penalised_solution, solve_penalised
from itofit.learning.automatic.principal import DOUBT, Basis, principal_features
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import DirectNormalEquations
from itofit.waves.scaling import Scaling
from itofit.waves.wave_groups import LINEAR_FREQUENCY, monomial_waves, monomials

GROUP = np.repeat([0, 1, 2], [4, 3, 5])


def problem(n=200, seed=0, weighted=False, size=1.5, p=1):
    """Points, targets of mean zero, weights of mean one, and frequencies along the axes and in all directions."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-0.5, 0.5, (n, 2))
    weight = rng.uniform(0.2, 2.0, n) if weighted else np.ones(n)
    weight *= n / weight.sum()
    y = rng.normal(size=(n, p))
    y -= weight @ y / n
    omega = size * rng.normal(size=(len(GROUP), 2)) * np.array([[1, 0], [0, 1], [1, 1]])[GROUP]
    return u, y, weight, omega


def features(u, y, weight, omega, group=GROUP):
    gram, right = DirectNormalEquations(u, y, weight).real_gram(np.concatenate([omega, np.zeros((1, omega.shape[1]))]))
    return principal_features(omega, group, gram, right)


# Features


@pytest.mark.parametrize("weighted", [False, True])
def test_principal_features_are_uncorrelated_within_a_group(weighted):
    u, y, weight, omega = problem(weighted=weighted)
    basis, A, b = features(u, y, weight, omega)
    X = basis.at(u)
    np.testing.assert_allclose(weight @ X / weight.sum(), 0, atol=1e-5)
    covariance = (X.T * weight) @ X / weight.sum()
    for g in range(3):
        mine = basis.group == g
        np.testing.assert_allclose(covariance[np.ix_(mine, mine)], np.eye(mine.sum()), atol=1e-5)
    np.testing.assert_allclose(A, (X.T * weight) @ X, atol=1e-5 * len(u))
    np.testing.assert_allclose(b, (X.T * weight) @ y, atol=1e-5 * len(u))


def test_beside_monomials_features_that_are_rounding_are_left_out():
    """Nearly all data are at one place. A is that of the features themselves; it was not even positive definite."""
    rng = np.random.default_rng(0)
    u = 0.02 * rng.normal(size=(5000, 2))
    u[:100] += 0.98 ** np.arange(100)[:, None] * [0.5, -0.5]
    groups = monomials(2).tolist()
    long = [monomial_waves(g, 2)[0] for g in groups]
    omega = 1.5 * rng.normal(size=(40, 2)) * np.repeat(np.eye(2), 20, axis=0)
    waves = np.concatenate([*long, LINEAR_FREQUENCY * np.eye(2), omega])
    group = np.concatenate([np.repeat(groups, [len(each) for each in long]), [-2, -1], np.repeat([0, 1], 20)])
    order = np.argsort(group, kind="stable")
    basis, A, _ = features(u, np.zeros((5000, 1)), np.ones(5000), waves[order], group[order])
    assert {-7, -6, -5, -4, -3, -2, -1} <= set(basis.group)  # of the third degree in two inputs nothing is left
    assert np.linalg.eigvalsh(A / len(u)).min() > -1e-4
    X = basis.at(u)
    np.testing.assert_allclose(A / len(u), X.T @ X / len(u), atol=1e-3)


def test_monomials_of_third_degree_stay_where_data_fill_a_sixth_of_their_range():
    """A long track of van der Pol's equation has such outermost places; x²y, which its drift is of, was left out."""
    rng = np.random.default_rng(1)
    u = np.clip(rng.normal(size=(5000, 2)) / 12, -0.5, 0.5)
    groups = monomials(2).tolist()
    long = [monomial_waves(g, 2)[0] for g in groups]
    waves = np.concatenate([*long, LINEAR_FREQUENCY * np.eye(2)])
    group = np.concatenate([np.repeat(groups, [len(each) for each in long]), [-2, -1]])
    basis, _, _ = features(u, np.zeros((5000, 1)), np.ones(5000), waves, group)
    assert set(basis.group) == set(range(-9, 0))
    simple = np.column_stack([np.ones(len(u)), u])
    for g, monomial in ((-9, u[:, 1] ** 2 * u[:, 0]), (-8, u[:, 0] ** 2 * u[:, 1]), (-6, u[:, 0] ** 3)):
        own = basis.at(u)[:, basis.group == g][:, 0]
        wanted = monomial - simple @ np.linalg.lstsq(simple, monomial, rcond=None)[0]
        assert abs(np.corrcoef(own, wanted)[0, 1]) > 0.9999


def test_products_are_features_of_their_own_without_linear_terms():
    u, y, weight, omega = problem(n=500, weighted=True)
    long = LINEAR_FREQUENCY * np.eye(2)
    waves = np.concatenate([monomial_waves(-3, 2)[0], long, omega])
    group = np.concatenate([[-3, -3, -2, -1], GROUP])
    basis, A, b = features(u, y, weight, waves, group)
    X = basis.at(u)
    assert list(np.unique(basis.group)) == [-3, -2, -1, 0, 1, 2]
    product, share = u[:, 0] * u[:, 1], weight / weight.sum()
    simple = np.column_stack([np.ones(500), u])
    root = np.sqrt(weight)[:, None]
    product = product - simple @ np.linalg.lstsq(root * simple, root[:, 0] * product, rcond=None)[0]
    product /= np.sqrt(share @ product**2)
    mine = X[:, basis.group == -3]
    assert mine.shape == (500, 1)
    np.testing.assert_allclose(mine[:, 0] * np.sign(mine[:, 0] @ product), product, atol=0.01)
    everywhere = X[:, basis.group == 2]  # in all directions, without what the others say
    np.testing.assert_allclose((everywhere.T * share) @ X[:, basis.group < 0], 0, atol=1e-6)
    np.testing.assert_allclose(A, (X.T * weight) @ X, atol=1e-5 * len(u))
    np.testing.assert_allclose(b, (X.T * weight) @ y, atol=1e-5 * len(u))


def test_penalties_are_the_shares_of_the_largest_variance():
    u, y, weight, omega = problem()
    basis, _, _ = features(u, y, weight, omega)
    Z = np.concatenate([np.cos(u @ omega.T), np.sin(u @ omega.T)], axis=1)
    for g in range(3):
        mine = np.tile(g == GROUP, 2)
        variances = np.linalg.eigvalsh(np.cov(Z[:, mine].T, bias=True))
        mu = 1 / basis.penalty[basis.group == g]
        assert mu.max() == 1
        np.testing.assert_allclose(np.sort(mu), variances[-len(mu) :] / variances[-1], rtol=1e-5)
        assert basis.largest[g] == pytest.approx(variances[-1], rel=1e-10)
        assert (variances[: -len(mu)] <= 1.1e-9 * variances[-1]).all()


def test_features_of_axis_groups_do_not_move_with_the_other_input():
    u, y, weight, omega = problem()
    basis, _, _ = features(u, y, weight, omega)
    moved = basis.at(u + np.array([0.0, 0.3]))
    np.testing.assert_allclose(moved[:, basis.group == 0], basis.at(u)[:, basis.group == 0], atol=1e-9)
    assert np.abs(moved - basis.at(u))[:, basis.group == 1].max() > 0.1


def test_a_group_that_is_constant_on_the_data_has_features_without_nan():
    u, y, weight, omega = problem()
    omega[GROUP == 1] = 0.0
    basis, A, b = features(u, y, weight, omega)
    assert not (basis.group == 1).any()
    for array in (*basis[:6], A, b):
        assert np.isfinite(array).all()
    np.testing.assert_allclose(weight @ basis.at(u), 0, atol=1e-4 * len(u))


def test_series_is_intercept_plus_features_at_new_points():
    u, y, weight, omega = problem()
    basis, _, _ = features(u, y, weight, omega)
    rng = np.random.default_rng(1)
    shift, scale = np.array([300.0, -2.0]), np.array([0.01, 50.0])
    intercept, c = rng.normal(size=3), rng.normal(size=(len(basis.mean), 3))
    new = rng.uniform(-1, 1, (40, 2))
    series = basis.series(intercept, c, Scaling(shift, scale, np.zeros(2), scale > 0))
    expected = intercept + basis.at(new) @ c
    np.testing.assert_allclose(series(shift + scale * new), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_features_at_a_point_do_not_depend_on_the_other_points():
    u, y, weight, omega = problem()
    basis, _, _ = features(u, y, weight, omega)
    many = np.random.default_rng(1).uniform(-0.5, 0.5, (6000, 2))  # enough for evaluation by polynomials
    np.testing.assert_allclose(basis.at(many)[:50], basis.at(many[:50]), atol=1e-8)


@pytest.mark.parametrize("groups", [[0], [2], [0, 2], [0, 1, 2]])
def test_some_groups_alone_have_the_same_features(groups):
    u, y, weight, omega = problem()
    basis, _, _ = features(u, y, weight, omega)
    some = basis.of_groups(np.array(groups))
    kept = np.isin(basis.group, groups)
    np.testing.assert_allclose(some.at(u), basis.at(u)[:, kept], atol=1e-9)
    assert len(some.omega) == np.isin(GROUP, groups).sum()
    np.testing.assert_array_equal(some.largest, basis.largest[groups])


# Evidence


def dense_log_evidence(X, y, P, weight):
    """Of y ~ N(0, σ² (W⁻¹ + X P⁻¹ Xᵀ)) at the σ² that maximises it, given n − 1 free observations."""
    n = len(y)
    covariance = np.diag(1 / weight) + (X / P) @ X.T
    variance = y @ np.linalg.solve(covariance, y) / (n - 1)
    exact = multivariate_normal(np.zeros(n), variance * covariance).logpdf(y)
    return exact + 0.5 * np.log(variance)  # one observation went into the mean


@pytest.mark.parametrize("weighted", [False, True])
def test_evidence_is_the_marginal_likelihood_up_to_a_constant(weighted):
    u, y, weight, omega = problem(n=120, weighted=weighted)
    y = y[:, 0] + 2 * np.sin(3 * u[:, 0])
    y -= weight @ y / len(y)
    basis, A, b = features(u, y[:, None], weight, omega)
    X, names = basis.at(u), np.unique(basis.group)
    given, found = [], []
    for ridge in (1e-6, 1e-3, 0.3, 10.0):
        P = (ridge * len(u) / basis.largest)[np.searchsorted(names, basis.group)] * basis.penalty
        given.append(dense_log_evidence(X, y, P, weight))
        found.append(regress(A, b[:, 0], float(weight @ y**2), len(y), basis, ridge).log_evidence)
    assert np.ptp(given) > 5  # the ridges differ in evidence, so that there is something to compare
    np.testing.assert_allclose(np.diff(found), np.diff(given), rtol=1e-3, atol=2e-3)


def test_given_ridge_is_ridge_regression_on_the_waves():
    u, y, weight, omega = problem(weighted=True, size=6.0)
    basis, A, b = features(u, y, weight, omega)
    X, n = basis.at(u), len(u)
    fit = regress(A, b[:, 0], float(weight @ y[:, 0] ** 2), n, basis, ridge=1e-2)
    mu = basis.largest[basis.group] / basis.penalty  # variance of each principal component
    c = np.linalg.solve((X.T * weight) @ X + np.diag(1e-2 * n / mu), (X.T * weight) @ y[:, 0])
    np.testing.assert_allclose(fit.c, c, rtol=0, atol=1e-8)
    Z = np.concatenate([np.cos(u @ omega.T), np.sin(u @ omega.T)], axis=1)
    Z -= weight @ Z / n
    B = np.linalg.solve((Z.T * weight) @ Z + 1e-2 * n * np.eye(2 * len(omega)), (Z.T * weight) @ y[:, 0])
    np.testing.assert_allclose(X @ fit.c, Z @ B, rtol=0, atol=1e-7)


def test_residual_variance_and_number_of_determined_amplitudes_are_those_of_the_hat_matrix():
    u, y, weight, omega = problem()
    basis, A, b = features(u, y, weight, omega)
    X, n, squares = basis.at(u), len(u), float((y**2).sum())
    fit = regress(A, b[:, 0], squares, n, basis, ridge=1e-3)
    P = 1e-3 * n / basis.largest[basis.group] * basis.penalty
    hat = X @ np.linalg.solve(X.T @ X + np.diag(P), X.T)
    assert fit.determined == pytest.approx(np.trace(hat), rel=1e-6)
    assert fit.variance == pytest.approx(((y - hat @ y) ** 2).sum() / (n - 1 - np.trace(hat)), rel=1e-6)


@pytest.mark.parametrize("groups", [[0, 1], [0, 1, 2]])
def test_ridges_of_largest_evidence_are_a_fixed_point_of_their_update(groups):
    u, y, weight, omega = problem(n=400)
    y = y[:, 0] + 3 * np.sin(4 * u[:, 0]) + 6 * np.sin(5 * u[:, 1])
    y -= y.mean()
    mine = np.isin(GROUP, groups)
    basis, A, b = features(u, y[:, None], weight, omega[mine], GROUP[mine])
    fit = regress(A, b[:, 0], float(y @ y), len(y), basis)
    P = fit.ridges[basis.group] * basis.penalty
    c, inverse_diagonal, _ = solve_penalised(A, b[:, 0], P)
    determined = np.bincount(basis.group, 1 - inverse_diagonal * P)
    used = np.bincount(basis.group, basis.penalty * c**2)
    on = fit.ridges < SWITCHED_OFF
    assert on.sum() >= 2
    # where the update rests, λ = σ² (γ + 1) / Σ c²/μ; it is left when log λ moves by less than 0.2
    np.testing.assert_allclose(np.log(fit.variance * (determined + 1)[on] / (fit.ridges * used)[on]), 0, atol=0.2)
    again = updated_ridges(fit.ridges, determined, fit.variance, used)
    np.testing.assert_allclose(np.log(again / fit.ridges), 0, atol=0.3)


def test_ridges_are_near_the_maximum_of_the_evidence():
    u, y, weight, omega = problem(n=400)
    y = y[:, 0] + 3 * np.sin(4 * u[:, 0])
    y -= y.mean()
    basis, A, b = features(u, y[:, None], weight, omega)
    best = regress(A, b[:, 0], float(y @ y), len(y), basis).log_evidence
    others = [regress(A, b[:, 0], float(y @ y), len(y), basis, 10.0**e).log_evidence for e in np.arange(-8, 3, 0.5)]
    assert best > max(others) - 1


def test_update_of_ridges_rests_where_the_formula_says_and_switches_off_for_good():
    determined, used, variance = np.array([3.0, 2.0, 1e-4, 2.0]), np.array([0.5, 2.0, 1.0, 1.0]), 0.7
    rest = variance * (determined + 1) / used
    np.testing.assert_allclose(updated_ridges(rest, determined, variance, used)[:2], rest[:2])
    assert updated_ridges(rest, determined, variance, used)[2] == SWITCHED_OFF
    assert updated_ridges(np.full(4, SWITCHED_OFF), determined, variance, used)[3] == SWITCHED_OFF
    above, below = (
        updated_ridges(10 * rest, determined, variance, used),
        updated_ridges(rest / 10, determined, variance, used),
    )
    assert (above[:2] < 10 * rest[:2]).all()
    assert (below[:2] > rest[:2] / 10).all()


def test_noise_switches_groups_off():
    # of 600 sets of noise of other seeds 20 left a group on; at that rate more than 22 of 200 have probability 1e-6
    on = 0
    for seed in range(200):
        u, y, weight, omega = problem(n=100, seed=seed)
        basis, A, b = features(u, y, weight, omega)
        on += (regress(A, b[:, 0], float(y[:, 0] @ y[:, 0]), 100, basis).ridges < SWITCHED_OFF).any()
    assert on <= 22


def test_a_signal_switches_on_the_group_of_its_input_and_not_that_of_another():
    # noise leaves a group on in about one of a hundred; more than 4 of 40 have probability 1e-4 at that rate
    own = other = 0
    for seed in range(40):
        u, y, weight, omega = problem(n=400, seed=seed)
        y = y[:, 0] + 2 * u[:, 0] * np.sqrt(12)
        y -= y.mean()
        basis, A, b = features(u, y[:, None], weight, omega[GROUP < 2], GROUP[GROUP < 2])
        on = regress(A, b[:, 0], float(y @ y), len(y), basis).ridges < SWITCHED_OFF
        own, other = own + on[0], other + on[1]
    assert own == 40
    assert other <= 4


def test_evidence_of_a_solved_regression_is_that_of_its_normal_distribution():
    """Above that of amplitudes without a ridge, whose prior is as wide as one likes."""
    rng, variance, wide = np.random.default_rng(3), 0.7, 1e7
    X = np.concatenate([np.ones((40, 1)), rng.normal(size=(40, 5))], axis=1)
    y, P, group = rng.normal(size=40) + X[:, 2], np.array([0.0, 2.0, 2.0, 0.5, 0.5, 0.5]), np.array([-1, 0, 0, 1, 1, 1])
    solved = Solved(X.T @ X, X.T @ y, P, np.zeros(6), group, variance)

    def log_density(features, prior):
        return multivariate_normal(cov=variance * (np.eye(40) + (features * prior) @ features.T)).logpdf(y)

    given = log_density(X, np.concatenate([[wide], 1 / P[1:]])) - log_density(X[:, :1], np.array([wide]))
    assert solved.log_evidence == pytest.approx(given, rel=1e-5)


def test_ridges_have_the_largest_evidence_of_all_choices_of_groups():
    u, y, weight, omega = problem(n=400, seed=14)
    y = y[:, 0] + 2 * u[:, 0] * np.sqrt(12)  # depends on input 0 alone
    y -= y.mean()
    basis, A, b = features(u, y[:, None], weight, omega)
    mine = basis.group == 0
    of_0 = basis.of_groups(np.array([0]))
    together = regress(A, b[:, 0], float(y @ y), len(y), basis)
    alone = regress(A[np.ix_(mine, mine)], b[mine, 0], float(y @ y), len(y), of_0)
    assert together.log_evidence > alone.log_evidence - 1


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_regression_is_equivariant_in_the_unit_of_the_targets(scale):
    u, y, weight, omega = problem(n=300)
    y = y[:, 0] + 3 * np.sin(4 * u[:, 0])
    y -= y.mean()
    basis, A, b = features(u, y[:, None], weight, omega)
    one = regress(A, b[:, 0], float(y @ y), len(y), basis)
    other = regress(A, scale * b[:, 0], float(scale**2 * (y @ y)), len(y), basis)
    np.testing.assert_allclose(other.c, scale * one.c, rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(other.ridges, one.ridges, rtol=1e-9)
    assert other.variance == pytest.approx(scale**2 * one.variance)
    assert other.log_evidence == pytest.approx(one.log_evidence)


# Solving


@pytest.mark.parametrize("spread", [0.0, 12.0])
def test_penalised_solution_equals_that_of_numpy(spread):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12)) * 10 ** np.linspace(-spread, 0, 12)
    A, b = X.T @ X, X.T @ rng.normal(size=60)
    P = np.where(np.arange(12) % 4 == 0, 0.0, np.diagonal(A) * rng.uniform(0.01, 2.0, 12))
    before = A.copy()
    c, inverse_diagonal, log_det = solve_penalised(A, b, P)
    unit = 1 / np.sqrt(np.diagonal(A))  # NumPy needs columns of one size
    M = (A + np.diag(P)) * np.outer(unit, unit)
    np.testing.assert_allclose(c, unit * np.linalg.solve(M, unit * b), rtol=1e-8)
    np.testing.assert_allclose(inverse_diagonal, unit**2 * np.diagonal(np.linalg.inv(M)), rtol=1e-8)
    assert log_det == pytest.approx(np.linalg.slogdet(M)[1] - 2 * np.log(unit).sum(), abs=1e-8)
    np.testing.assert_allclose(penalised_solution(A, b, P), c, rtol=1e-8)
    np.testing.assert_array_equal(A, before)


def test_what_is_switched_off_takes_no_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    A, b, P, on = X.T @ X, X.T @ rng.normal(size=60), rng.uniform(1, 2, 6), np.array([0, 1, 4])
    off = np.full(6, SWITCHED_OFF)
    off[on] = P[on]
    c, inverse_diagonal, log_det = solve_penalised(A, b, off)
    expected, inverse_expected, log_det_expected = solve_penalised(A[np.ix_(on, on)], b[on], P[on])
    np.testing.assert_allclose(c[on], expected)
    np.testing.assert_array_equal(penalised_solution(A, b, off) == 0, off == SWITCHED_OFF)
    np.testing.assert_allclose((inverse_diagonal * off)[on], inverse_expected * P[on])
    np.testing.assert_allclose(np.delete(inverse_diagonal * off, on), 1.0)  # of which the data determine nothing
    assert log_det - np.log(off).sum() == pytest.approx(log_det_expected - np.log(P[on]).sum())


def test_penalised_solution_of_an_indefinite_matrix_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        solve_penalised(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones(2), np.zeros(2))


def test_basis_without_features_is_none_at_all():
    basis = Basis(np.zeros((1, 2)), np.zeros((2, 0)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0))
    assert basis.at(np.zeros((5, 2))).shape == (5, 0)
    series = basis.series(np.array([2.0, 3.0]), np.zeros((0, 2)), Scaling.of(np.zeros(2), np.ones(2), np.zeros(2)))
    np.testing.assert_array_equal(series(np.zeros((4, 2))), np.tile([2.0, 3.0], (4, 1)))


# The loop that maximises the evidence

PLACE = np.repeat([0, 1, 2], 3)  # the group of each of nine orthogonal features
N = 500.0


def orthogonal(z, variance=2.0):
    """The regression on features with A = N, amplitudes z standard deviations from zero without a ridge; its calls."""
    calls = []

    def solve(ridges):
        calls.append(ridges.copy())
        P = ridges[PLACE]
        c = np.sqrt(variance * N) * np.array(z) / (N + P)
        return Solution(ridges, c, np.bincount(PLACE, N / (N + P)), np.bincount(PLACE, c**2), variance)

    return solve, calls


SIGNAL = (20.0, -15.0, 8.0, 3.0, 4.0, -2.0, 0.0, 0.0, 0.0)  # strong, weak, none


@pytest.mark.parametrize("start", [1e-6, 1.0, 1e4])
def test_ridges_end_at_the_fixed_point_of_the_evidence(start, monkeypatch):
    monkeypatch.setattr(evidence, "SETTLED", 1e-12)
    solve, _ = orthogonal(SIGNAL)
    found = maximise_evidence(solve, np.full(3, start), 500)
    assert found.settled
    at = solve(found.ridges)
    on = found.ridges < SWITCHED_OFF
    np.testing.assert_array_equal(on, [True, True, False])
    np.testing.assert_allclose(found.ridges[on], at.variance * (at.determined + DOUBT)[on] / at.used[on], rtol=1e-9)
    # by hand: with γ = Nk / (N + λ) and Σ c² = σ² N Σ z² / (N + λ)², for k = 3 features
    for ridge, z in zip(found.ridges[on], np.reshape(SIGNAL, (3, 3)), strict=False):
        assert ridge * N * (z @ z) == pytest.approx((3 * N / (N + ridge) + DOUBT) * (N + ridge) ** 2, rel=1e-9)


def test_a_ridge_beyond_what_the_signal_can_bring_back_goes_up():
    """Where (γ + DOUBT)(N + λ)² > λ N Σ z² every update is larger than the ridge before it."""
    solve, _ = orthogonal(SIGNAL)
    weak = np.square(SIGNAL[3:6]).sum()
    for start, on in ((0.5 * N * weak, True), (2 * N * weak, False)):
        found = maximise_evidence(solve, np.array([1.0, start, 1.0]), 60)
        assert (found.ridges[1] < SWITCHED_OFF) == on


def test_a_group_without_effect_is_switched_off_and_stays_off():
    solve, calls = orthogonal(SIGNAL)
    found = maximise_evidence(solve, np.ones(3), 60)
    assert found.settled
    assert found.ridges[2] == SWITCHED_OFF
    off = np.array(calls)[:, 2] == SWITCHED_OFF
    assert (np.diff(off.astype(int)) >= 0).all()
    np.testing.assert_array_equal(
        maximise_evidence(solve, np.array([1.0, SWITCHED_OFF, 1.0]), 60).ridges[1], SWITCHED_OFF
    )


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_a_group_that_explains_no_more_than_noise_is_switched_off(noise):
    """Three amplitudes of z each explain 3 z² in units of noise, against the 3 + DOUBT that they would need."""
    solve, _ = orthogonal([*SIGNAL[:6], noise, -noise, noise])
    assert maximise_evidence(solve, np.ones(3), 60).ridges[2] == SWITCHED_OFF
    assert 3 * noise**2 < 3 + DOUBT


def test_ridges_are_left_once_they_hardly_move():
    solve, calls = orthogonal(SIGNAL)
    found = maximise_evidence(solve, np.ones(3), 60)
    assert len(calls) < 60
    moves = [np.abs(np.log(after / before)).max() for before, after in pairwise([*calls, found.ridges])]
    assert moves[-1] < SETTLED
    assert all(move >= SETTLED for move in moves[:-1])
    np.testing.assert_array_equal(found.solution.ridges, calls[-1])  # that of the last round, not of its update


def test_rounds_are_at_most_as_many_as_were_allowed():
    solve, calls = orthogonal(SIGNAL)
    found = maximise_evidence(solve, np.full(3, 1e-6), 2)
    assert len(calls) == 2
    assert not found.settled
    for before, after in pairwise([*calls, found.ridges]):
        at = solve(before)
        np.testing.assert_array_equal(after, updated_ridges(before, at.determined, at.variance, at.used))


def test_without_groups_there_is_nothing_to_move():
    empty = np.zeros(0)
    found = maximise_evidence(lambda ridges: Solution(ridges, empty, empty, empty, 1.0), empty, 5)
    assert found.settled
    assert found.ridges.shape == (0,)


def test_doubt_is_what_regressions_rest_at():
    """`regress` is the loop with its own solve: its ridges rest where those of the loop do, to where they settle."""
    u, y, weight, omega = problem(n=400)
    y = y[:, 0] + 3 * np.sin(4 * u[:, 0]) + 6 * np.sin(5 * u[:, 1])
    y -= y.mean()
    mine = GROUP < 2
    basis, A, b = features(u, y[:, None], weight, omega[mine], GROUP[mine])
    fit = regress(A, b[:, 0], float(y @ y), len(y), basis)
    c, inverse, _ = solve_penalised(A, b[:, 0], fit.ridges[basis.group] * basis.penalty)
    determined = np.bincount(basis.group, 1 - inverse * fit.ridges[basis.group] * basis.penalty)
    rest = fit.variance * (determined + DOUBT) / np.bincount(basis.group, basis.penalty * c**2)
    np.testing.assert_allclose(np.log(fit.ridges / rest), 0, atol=SETTLED)


# What others leave


@pytest.mark.parametrize("own", [slice(0, 3), slice(4, 7), slice(8, 10)])
def test_what_others_leave_is_the_schur_complement(own):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 10)) * 10 ** rng.uniform(-3, 3, 10)
    A, P = X.T @ X, 10 ** rng.uniform(-3, 3, 10)
    mine = np.zeros(10, dtype=bool)
    mine[own] = True
    across = A[np.ix_(mine, ~mine)]
    expected = A[np.ix_(mine, mine)] - across @ np.linalg.solve(A[np.ix_(~mine, ~mine)] + np.diag(P[~mine]), across.T)
    np.testing.assert_allclose(left_by_others(A, P, own), expected, rtol=1e-8)


def test_what_others_leave_is_never_negative():
    """Where the same is said twice, nothing is left, and the difference that defines it is rounding of either sign."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 6)) * np.array([1e12, 1.0, 1.0, 1e12, 1.0, 1.0])
    X[:, 3:] = X[:, :3] * (1 + 1e-13 * rng.normal(size=(50, 3)))
    left = left_by_others(X.T @ X, np.zeros(6), slice(0, 3))
    assert (np.linalg.eigvalsh(left) >= 0).all()
    assert (np.diagonal(left) < 1e-5 * np.diagonal(X.T @ X)[:3]).all()
