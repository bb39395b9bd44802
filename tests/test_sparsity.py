"""Terms that are probably zero: odds learned from all terms, single terms for waves, and what polynomials lack."""

import itertools

import numpy as np
import pytest
from scipy import stats

from itofit import Transitions, fit
from itofit.learning.automatic.evidence import Solved, squares_without_ridge, updated_ridges
from itofit.learning.automatic.fitted_waves import FALSE_TERMS, doubt_of_terms
from itofit.learning.automatic.principal import LinearPrior, principal_features
from itofit.learning.automatic.sparsity import (
    MOST_ODDS,
    TERMS_ASSUMED,
    OddsOfZero,
    odds_of_zero,
    share_of_terms,
)
from itofit.learning.missing_terms import missing_squares, sizes_up_to
from itofit.learning.spread import mean_squares
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import DirectNormalEquations
from itofit.waves.wave_groups import (
    LINEAR_FREQUENCY,
    depends_on,
    factors_of_group,
    first_group,
    inputs_of_group,
    monomial_waves,
    monomials,
)


def squares(seed, n_zero, n_other, size):
    """z² of terms that are zero, and of others so many standard errors from it."""
    z = np.random.default_rng(seed).normal(size=n_zero + n_other)
    z[n_zero:] += size * np.where(np.arange(n_other) % 2, 1, -1)
    return z**2


def test_terms_far_from_zero_have_no_odds_of_zero():
    """Only what is assumed beside them remains: at z = 20, the odds of any term are below 10⁻⁷ for all of 20 seeds."""
    assert max(odds_of_zero(squares(seed, 0, 9, 20.0)).log_odds for seed in range(20)) < np.log(1e-7)


def test_odds_are_those_of_the_share_and_sizes_of_terms():
    """600 zero terms and 200 others of z² = v χ² for v = 64: (1 − π) / π, and odds given z within 40 %."""
    assert TERMS_ASSUMED == 1
    share = 201 / 801
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z2 = np.append(rng.normal(size=600), 8 * rng.normal(size=200)) ** 2
        odds = odds_of_zero(z2)
        assert np.exp(odds.log_odds) == pytest.approx((1 - share) / share, rel=0.4)
        z = np.array([1.5, 2.0, 2.5, 3.0])
        expected = (1 - share) / share * np.exp(-0.5 * z**2 * (1 - 1 / 64)) * 8
        np.testing.assert_allclose(odds.given(z**2), expected, rtol=0.4)


def test_large_terms_do_not_make_small_ones_pass_for_zero():
    """Six terms of z = 14 ± 4 beside 30 with a standard deviation of 2.8: whether zero, given z = 1, for 40 seeds.

    The odds are 0.12 on average. With one v for all terms that are not zero they were 0.84.
    """
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = np.append(rng.normal(14, 4, 6), rng.normal(0, 2.8, 30)) + rng.normal(size=36)
        found.append(odds_of_zero(z**2).given(np.array([1.0]))[0])
    assert np.mean(found) < 0.3


def test_odds_of_few_terms_are_limited():
    """A single zero term among three: odds of a third at most before its estimate, as another is assumed."""
    for seed in range(20):
        odds = odds_of_zero(squares(seed, 1, 2, 100.0))
        assert np.exp(odds.log_odds) <= 1 / 3 + 1e-6
        assert (odds.given(np.array([0.0, 1.0, 1e4])) <= MOST_ODDS).all()
    assert np.exp(odds_of_zero(np.full(4, 0.5)).log_odds) <= 4.0


@pytest.mark.parametrize("z", [0.0, 1.0, 2.0, 5.0])
def test_odds_shrink_single_amplitudes_to_their_share(z):
    """With ridges that have settled, an estimate z is shrunk to 1 / (1 + K + γ / (γ² z² + 3))."""
    n, variance, ridge = 1000.0, 1.0, np.array([1.0])
    odds = OddsOfZero(np.log(2.0), np.array([25.0]), np.array([0.0]))
    for _ in range(200):
        kept = n / (n + ridge)
        used = (kept * z) ** 2 / n
        K = odds.given(squares_without_ridge(ridge, kept, used, variance))
        ridge = updated_ridges(ridge, kept, variance, used, np.array([3.0 / n]), 0.0, K)
    np.testing.assert_allclose(K, 2 * 5 * np.exp(-0.5 * z**2 * 24 / 25), rtol=1e-3)
    np.testing.assert_allclose(ridge / n, kept / (kept**2 * z**2 + 3) + K, rtol=1e-3)


@pytest.mark.parametrize("n_terms", [14, 45, 200, 1000])
def test_noise_keeps_one_monomial_of_a_polynomial_at_most(n_terms):
    """Single amplitudes stay on if noise alone exceeds them with a probability of one over the number of terms.

    At most: on the way up ridges take longer steps, and amplitudes up to 15 % larger may be lost to them.
    """
    n, variance, doubt = 1e4, 1.0, doubt_of_terms(n_terms)
    z = np.sqrt(stats.chi2.isf(FALSE_TERMS / n_terms, 1))
    for factor, stays in ((0.98, False), (1.15, True)):
        ridge = np.array([1.0])
        for _ in range(400):
            kept = n / (n + ridge)
            ridge = updated_ridges(ridge, kept, variance, (kept * factor * z) ** 2 / n, doubt=doubt)
        assert (ridge[0] < SWITCHED_OFF) == stays
    assert FALSE_TERMS == 1


def linear_ring(seed, coupling, n=20_000, h=0.02):
    """Five variables, each of which depends on itself and, with some weight, on the one before it."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 1, 5))
    for i, noise in enumerate(0.5 * np.sqrt(h) * rng.normal(size=(n, 5))):
        x[i + 1] = x[i] + h * (coupling * np.roll(x[i], 1) - x[i]) + noise
    return Transitions.from_trajectories(x, dt=h), x


def test_a_system_with_few_couplings_is_learned_better_than_by_least_squares():
    """15 of 25 terms are zero. For another seed the ratio of errors was 0.81, and 0.95 without the odds."""
    data, x = linear_ring(0, 0.8)
    truth = 0.8 * np.roll(x, 1, axis=1) - x
    sde = fit(data, rng=0, correct_step=False)
    ones = np.column_stack([np.ones(len(x)), x])
    least_squares = ones @ np.linalg.lstsq(ones[:-1], data.rates, rcond=None)[0]
    ours, theirs = (np.sqrt(np.mean((f - truth) ** 2)) for f in (sde.drift(x), least_squares))
    assert ours < 0.88 * theirs


def test_monomials_of_what_is_never_zero_are_zero_where_it_would_be():
    """A Brusselator, concentrations of 0.4 to 3: its x1²·x2 is one term, and three around the middle of the data.

    So it was for seeds 0 and 2 to 5, with errors of 0.05 to 0.08; around the middle they are 0.10 to 0.16.
    """
    rng, n, h = np.random.default_rng(0), 5_000, 0.02
    x = np.empty((n + 1, 2))
    x[0] = 1.0, 1.5
    for i, noise in enumerate(0.15 * np.sqrt(h) * rng.normal(size=(n, 2))):
        x[i + 1] = x[i] + h * brusselator(x[i]) + noise * x[i]
    assert x.min() > 0.3
    sde = fit(Transitions.from_trajectories(x, dt=h), rng=0, correct_step=False)
    assert "f of x1, f of x2 depend on x1, x2, x1²·x2\n" in sde.summary()
    truth = np.array([brusselator(place) for place in x])
    assert np.sqrt(np.mean((sde.drift(x) - truth) ** 2)) < 0.1 * truth.std()


def brusselator(x):
    reaction = x[0] ** 2 * x[1]
    return np.array([1 - 2.8 * x[0] + reaction, 1.8 * x[0] - reaction])


# Squares and cubes


def test_every_monomial_is_one_of_its_inputs():
    m, u = 3, np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
    groups = monomials(m).tolist()
    assert groups == list(range(first_group(m), -m))
    seen = []
    for g in groups:
        omega, amplitudes = monomial_waves(g, m)
        value = np.concatenate([np.cos(u @ omega.T), np.sin(u @ omega.T)], axis=1) @ amplitudes
        simple = np.column_stack([np.ones(200), u])
        factors = factors_of_group(g, m)
        assert set(factors) == set(inputs_of_group(g, m))
        left = [f - simple @ np.linalg.lstsq(simple, f, rcond=None)[0] for f in (value, u[:, factors].prod(axis=1))]
        assert abs(np.corrcoef(*left)[0, 1]) > 0.9999
        seen.append(tuple(sorted(factors)))
    degrees = [factors for k in (2, 3) for factors in itertools.combinations_with_replacement(range(m), k)]
    assert sorted(seen) == sorted(set(degrees) - {(0, 1, 2)})  # all but the product of three


def test_monomials_are_zero_where_inputs_are():
    """Moved to another origin, the features of a monomial and its linear terms hold it there."""
    rng = np.random.default_rng(0)
    u, origin, m = rng.uniform(-0.5, 0.5, (500, 2)), np.array([0.2, -0.1]), 2
    (g,) = (g for g in monomials(m).tolist() if factors_of_group(g, m) == (0, 0, 1))
    waves = np.concatenate([monomial_waves(g, m)[0], LINEAR_FREQUENCY * np.eye(2)])
    group = np.array([g, g, g, -2, -1])
    equations = DirectNormalEquations(u, np.zeros((500, 1)), np.ones(500))
    gram, right = equations.real_gram(np.concatenate([waves, np.zeros((1, 2))]))
    truth = (u[:, 0] - origin[0]) ** 2 * (u[:, 1] - origin[1])
    left = {}
    for there in (None, origin):
        X = np.column_stack([np.ones(500), principal_features(waves, group, gram, right, origin=there)[0].at(u)])
        left[there is None] = np.std(truth - X @ np.linalg.lstsq(X, truth, rcond=None)[0]) / np.std(truth)
    assert left[False] < 2e-3
    assert left[True] > 0.1


def test_a_power_is_named_as_its_input():
    m = 2
    square_of_b, cube_of_b = -5, -7
    assert factors_of_group(square_of_b, m) == (1, 1)
    assert depends_on(np.array([cube_of_b]), ("a", "b")) == "b alone"
    assert depends_on(np.array([cube_of_b, -m - 1, -1]), ("a", "b")) == "b and a·b"
    assert depends_on(np.array([first_group(m), -2, -1]), ("a", "b")) == "a, b and b²·a"


def cubic(seed, n=8_000, h=0.02):
    """A bistable variable and one that follows it."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 1, 2))
    for i, noise in enumerate(0.7 * np.sqrt(h) * rng.normal(size=(n, 2))):
        a, b = x[i]
        x[i + 1] = x[i] + h * np.array([4 * (a - a**3), a - b]) + noise
    return Transitions.from_trajectories(x, dt=h)


def test_a_cubic_drift_is_learned_by_a_cube():
    """And not of the variable that follows."""
    for seed in range(3):
        sde = fit(cubic(seed), rng=seed, correct_step=False)
        training = sde.drift_function.training
        on = [[factors_of_group(g, 2) for g in training.groups[ridges < 1e12].tolist()] for ridges in training.ridges]
        assert (0, 0, 0) in on[0]
        assert {(0,)} <= set(on[1]) <= {(0,), (1,)}
        assert training.n_features == 0
        assert len(sde.drift_function.series.omega) < 12


def van_der_pol(seed, n=4_000, h=0.05):
    """Positions and velocities."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 1, 2))
    for i, noise in enumerate(np.sqrt(h) * rng.normal(size=(n, 2)) * [0.1, 1.0]):
        a, b = x[i]
        x[i + 1] = x[i] + h * np.array([b, (1 - a * a) * b - a]) + noise
    return Transitions.from_trajectories(x, dt=h)


def test_a_polynomial_is_learned_as_well_as_from_its_own_terms():
    """Mean squared errors over four data sets; with waves alone they were 3.6 times those of the right terms."""
    ours, theirs = 0.0, 0.0
    for seed in range(4):
        data = van_der_pol(seed)
        a, b = data.inputs.T
        truth = (1 - a * a) * b - a
        sde = fit(data, rng=seed, correct_step=False, measurement_noise=False)
        terms = np.column_stack([np.ones(len(a)), a, b, a * a * b])
        right = terms @ np.linalg.lstsq(terms, data.rates[:, 1], rcond=None)[0]
        ours += np.mean((sde.drift(data.inputs)[:, 1] - truth) ** 2)
        theirs += np.mean((right - truth) ** 2)
    assert ours < 1.3 * theirs


def test_what_is_no_polynomial_is_not_learned_as_one():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (5_000, 2))
    f = np.column_stack([np.sin(3 * x[:, 0]), -x[:, 1]])
    data = Transitions(x, 0.01 * f + 0.05 * rng.normal(size=x.shape), 0.01)
    sde = fit(data, rng=0, correct_step=False)
    assert sde.drift_function.training.n_features > 0
    assert np.sqrt(np.mean((sde.drift(x) - f) ** 2)) < 0.1


# What polynomials lack


def test_the_share_of_terms_counts_those_in_use_and_one_of_each_kind():
    assert share_of_terms(0, np.full(18, -50.0)) == pytest.approx(1 / 20)
    assert share_of_terms(3, np.full(15, -50.0)) == pytest.approx(4 / 20)
    assert share_of_terms(3, np.full(15, 50.0)) == pytest.approx(19 / 20)
    undecided = share_of_terms(3, np.zeros(15))  # each is there as probably as any
    assert undecided == pytest.approx((3 + 15 * undecided + 1) / 20)


def test_sizes_of_missing_terms_double_from_twice_the_noise_to_the_largest_in_use():
    np.testing.assert_allclose(np.sqrt(sizes_up_to(0.0)), [2])
    np.testing.assert_allclose(np.sqrt(sizes_up_to(30.0**2)), [2, 4, 8, 16, 32])


def polynomial_problem():
    """An intercept, a linear term and two monomials in use, a monomial and two waves that are off, in that order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 7)) @ (np.eye(7) + 0.3 * rng.standard_normal((7, 7)))
    X[:, 4] += X[:, 2]  # is partly explained by what is in use
    A = X.T @ X
    y = X[:, :4] @ [1.0, 0.5, 0.4, -0.6] + rng.standard_normal(400)
    P = np.array([0.0, 2.0, 3.0, 4.0, SWITCHED_OFF, SWITCHED_OFF, 50 * SWITCHED_OFF])
    c = np.append(np.linalg.solve(A[:4, :4] + np.diag(P[:4]), X[:, :4].T @ y), np.zeros(3))
    linear = LinearPrior(doubt=0.0, doubt_of_waves=1.0, least=3.0, alone=True)
    return Solved(A, X.T @ y, P, c, np.array([-1, 0, 1, 2, 3, 4, 4]), stays={0: linear})


def regression(solved, used, P):
    """Amplitudes and their covariance, among all seven, and the log-evidence up to what all have in common."""
    inverse = np.linalg.inv(solved.A[np.ix_(used, used)] + np.diag(P))
    m, squares = np.zeros(7), np.zeros((7, 7))
    m[used], squares[np.ix_(used, used)] = inverse @ solved.b[used], inverse
    log_evidence = 0.5 * (solved.b[used] @ m[used] + np.linalg.slogdet(inverse)[1] + np.log(P[4:]).sum())
    return m, squares, log_evidence


def test_missing_terms_count_as_probably_as_they_are_there():
    """M is that of an average over all regressions with one more group, each size of it as probable as any other."""
    solved = polynomial_problem()
    used = np.arange(4)
    c, alone, without = regression(solved, used, solved.P[:4])
    expected, ratios, moments = np.zeros((7, 7)), [], []
    largest = max(c[k] ** 2 / (alone[k, k] * (1 - solved.P[k] * alone[k, k])) for k in (2, 3))
    sizes = 4.0 ** np.arange(1, 2 + np.ceil(np.log(largest / 4) / np.log(4)))
    for own, penalty in (([4], [1.0]), ([5, 6], [1.0, 50.0])):
        left = solved.A[np.ix_(own, own)] - solved.A[np.ix_(own, used)] @ alone[:4, :4] @ solved.A[np.ix_(used, own)]
        ridges = [np.append(solved.P[:4], np.diagonal(left).mean() * np.array(penalty) / v) for v in sizes]
        fits = [regression(solved, np.append(used, own), P) for P in ridges]
        ratios.append(np.exp([log_evidence - without for _, _, log_evidence in fits]) / len(sizes))
        moments.append([squares - alone + np.outer(m - c, m - c) for m, squares, _ in fits])
    share = 0.5
    for _ in range(200):  # of three monomials, and one of each kind
        odds = share / (1 - share) * ratios[0].sum()
        share = (2 + odds / (1 + odds) + 1) / 5
    for own, added in zip(ratios, moments, strict=True):
        odds = share / (1 - share) * own
        expected += np.einsum("v,vij->ij", odds / (1 + odds.sum()), added)
    np.testing.assert_allclose(missing_squares([solved])[0], expected, rtol=1e-6, atol=1e-12)


def test_error_bars_of_a_polynomial_are_those_of_its_terms_and_of_missing_ones():
    solved = polynomial_problem()
    in_use = Solved(solved.A[:4, :4], solved.b[:4], solved.P[:4], solved.c[:4], solved.group[:4], stays=solved.stays)
    found, missing = mean_squares([solved])[0], missing_squares([solved])[0]
    nothing_off = mean_squares([in_use])[0]
    np.testing.assert_allclose(found[:4, :4], nothing_off + missing[:4, :4], rtol=1e-9)
    np.testing.assert_allclose(found[4:], missing[4:], rtol=1e-9)


def test_what_the_data_show_of_a_missing_term_widens_error_bars():
    """A term of four standard errors counts with all of them, one of none with a part of what noise makes of it."""
    solved, used, found = polynomial_problem(), np.arange(4), []
    inverse = np.linalg.inv(solved.A[:4, :4] + np.diag(solved.P[:4]))
    left = solved.A[4, 4] - solved.A[4, used] @ inverse @ solved.A[used, 4]
    for z in (0.0, 4.0):
        b = solved.b.copy()
        b[4] = solved.A[4, used] @ inverse @ b[used] + z * np.sqrt(left)
        found.append(missing_squares([solved._replace(b=b)])[0][4, 4] * left)
    assert 0.02 < found[0] < 0.5
    assert 10 < found[1] < 17


def test_bands_of_a_polynomial_are_hardly_wider_than_those_of_its_own_terms():
    """As if one or two of a dozen terms were there besides: twice as wide with all of them at twice the noise."""
    ours, theirs = 0.0, 0.0
    for seed in range(6):
        data = van_der_pol(seed)
        a, b = data.inputs.T
        sde = fit(data, rng=seed, correct_step=False, measurement_noise=False)
        terms = np.column_stack([np.ones(len(a)), a, b, a * a * b])
        inverse = np.linalg.inv(terms.T @ terms) / 0.05
        ours += np.mean(sde.drift(data.inputs, return_std=True)[1][:, 1] ** 2)
        theirs += np.mean(np.einsum("ni,ij,nj->n", terms, inverse, terms))
    assert 1.0 < np.sqrt(ours / theirs) < 1.5


def fifth_power(seed, n=1_000, h=0.05):
    """A double well whose walls are steeper than those of a cubic drift."""
    rng = np.random.default_rng(seed)
    x = np.ones((n + 1, 1))
    for i, noise in enumerate(0.7 * np.sqrt(h) * rng.normal(size=n)):
        x[i + 1] = x[i] + h * (x[i] - x[i] ** 5 / 3) + noise
    return Transitions.from_trajectories(x, dt=h)


def test_bands_cover_what_is_taken_for_a_polynomial_and_is_none():
    covered = []
    for seed in range(12):
        data = fifth_power(seed)
        sde = fit(data, rng=seed, correct_step=False, measurement_noise=False)
        x = data.inputs
        f, std = sde.drift(x, return_std=True)
        if sde.drift_function.training.n_features == 0:
            covered.append(np.mean(np.abs(f - (x - x**5 / 3)) < 1.96 * std))
    assert len(covered) >= 6
    assert np.mean(covered) > 0.85
