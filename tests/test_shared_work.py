"""Work that is shared or skipped: what comes of it is what the defining sums and separate calls give."""

import numpy as np
import pytest

import itofit
from itofit._progress import Progress
from itofit.data.survey import survey
from itofit.learning.automatic import known_sums
from itofit.learning.automatic.cells import SIDE, Cells, Plan, are_gathered
from itofit.learning.automatic.drift import DriftCells, drift_of_one_covariance
from itofit.learning.automatic.evidence import (
    amplitude_ridges,
    best_ridges,
    first_ridges,
    regress,
    start_of_regressions,
)
from itofit.learning.automatic.fitted_waves import Targets, fitted_waves
from itofit.learning.automatic.grid_residuals import products_of_rows
from itofit.learning.automatic.known_sums import MOST_KNOWN, KnownSums
from itofit.learning.automatic.limits import FLOORS, Losses, cell_nll
from itofit.learning.automatic.penalised import (
    LARGE_FACTOR,
    VERY_LARGE_FACTOR,
    Penalised,
    inverse_root,
    solve_penalised,
)
from itofit.learning.automatic.periodogram import Lattice
from itofit.learning.automatic.principal import principal_features
from itofit.learning.automatic.products import NoiseModel, Products
from itofit.learning.automatic.scoring import systems_of, weighted_system
from itofit.learning.automatic.sigma import KnownFeatures, features_at
from itofit.learning.noisy import through_noise
from itofit.learning.step_matrices import function_variances
from itofit.learning.steps import SHARES, _different
from itofit.matrices.links import LINKS, Shape, covariance_at
from itofit.matrices.symmetric import raised
from itofit.model.training import SWITCHED_OFF
from itofit.waves.normal_equations import ArrayPart, DirectNormalEquations, GriddedNormalEquations
from itofit.waves.scaling import Scaling
from itofit.waves.series import real_sum


def rows(seed=0, n=400, m=2, p=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, (n, m)), rng.standard_normal((n, p)), rng.uniform(0.5, 1.5, n)


def equations_of(form, u, y, weight):
    if form == "direct":
        return DirectNormalEquations(u, y, weight)
    return GriddedNormalEquations(ArrayPart(u, y, weight), 1e-12)


class Counted:
    """Normal equations that count how often they are asked."""

    def __init__(self, equations):
        self.equations, self.total, self.n_asked = equations, equations.total, 0
        self.n_rows, self.n_inputs, self.n_outputs = equations.n_rows, equations.n_inputs, equations.n_outputs

    def real_gram(self, omega):
        self.n_asked += 1
        return self.equations.real_gram(omega)

    def solve(self, omega, ridge):
        self.n_asked += 1
        return self.equations.solve(omega, ridge)


@pytest.mark.parametrize("form", ["direct", "gridded"])
def test_sums_that_are_known_are_those_of_the_data(form):
    equations = equations_of(form, *rows())
    known, counted = KnownSums(equations), Counted(equations)
    omega = 3 * np.random.default_rng(1).standard_normal((12, 2))
    G, _ = known.real_gram(omega)
    for some in (np.array([5, 2, 2, 9]), np.arange(12)):  # also twice the same
        for found, expected in zip(known.real_gram(omega[some]), equations.real_gram(omega[some]), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(G).max())
        found, expected = known.solve(omega[some], 1e-3), equations.solve(omega[some], 1e-3)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    known = KnownSums(counted)
    known.real_gram(omega)
    known.real_gram(omega[3:])
    known.solve(omega[:4], 1e-3)
    assert counted.n_asked == 1
    known.solve(omega[:4] + 1, 1e-3)
    assert counted.n_asked == 2
    for shift in range(MOST_KNOWN):  # which push the first ones out
        known.real_gram(omega + 2 + shift)
    known.real_gram(omega)
    assert counted.n_asked == 3 + MOST_KNOWN


@pytest.mark.parametrize("weighted", [True, False])
def test_solutions_along_a_walk_are_those_of_the_data(weighted, monkeypatch):
    monkeypatch.setattr(known_sums, "LEAST_WORK", 0.0)
    u, y, weight = rows()
    equations = DirectNormalEquations(u, y, weight if weighted else None)
    known, rng = KnownSums(equations), np.random.default_rng(1)
    joined = 0
    omega, found = 3 * rng.standard_normal((12, 2)), 3 * rng.standard_normal((2, 2))
    for _ in range(4):
        proposal = omega[rng.integers(12, size=12)] + rng.standard_normal((12, 2))
        for here in (omega, proposal):
            everything = np.concatenate([here, found])
            expected = equations.solve(everything, 1e-3)
            joined += known._joined(*_once(everything)) is not None
            solution = known.solve(everything, 1e-3)
            np.testing.assert_allclose(solution, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        omega = np.where(rng.random((12, 1)) < 0.5, proposal, omega[rng.integers(12, size=12)])
    assert joined == 3  # every step but the first, where no other was before


def _once(omega):
    """Different frequencies, with their bytes."""
    once = np.unique(omega, axis=0)
    return once, known_sums._as_bytes(once)


@pytest.mark.parametrize("ridge", [None, 1e-3])
def test_the_first_round_is_the_same_for_all_outputs(ridge):
    basis, A, b, n = regression()
    started = start_of_regressions(A, n, basis, ridge)
    for j in range(b.shape[1]):
        alone, together = (regress(A, b[:, j], 3 * n, n, basis, ridge, each) for each in (None, started))
        np.testing.assert_allclose(together.c, alone.c, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(together.ridges, alone.ridges, rtol=1e-12)
        assert together.log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)


def regression(seed=3, n=400):
    u, y, weight = rows(seed, n)
    y[:, 0] += np.sin(4 * u[:, 0])
    omega = 2 * np.random.default_rng(seed).standard_normal((10, 2)) * np.repeat([[1, 0], [0, 1]], 5, axis=0)
    equations = DirectNormalEquations(u, y, weight)
    fit = fitted_waves(
        omega, np.repeat([0, 1], 5), np.empty((0, 2)), _targets(u, y, weight, equations), np.eye(2), None
    )
    return fit.basis, fit.A, fit.b, float(n)


def _targets(u, y, weight, equations):
    squares = (y.T * weight) @ y
    return Targets(u, y, weight, squares, float(len(u)), equations, np.ones(2), np.zeros(2), linear_stays=True)


def test_penalised_problems_are_solved_without_what_is_switched_off():
    rng = np.random.default_rng(0)
    X, b, P = rng.standard_normal((50, 6)), rng.standard_normal(6), rng.uniform(1, 2, 6)
    A = X.T @ X
    for off in ([], [1, 4], range(6)):
        ridges = P.copy()
        ridges[list(off)] = 2 * SWITCHED_OFF
        on = np.flatnonzero(ridges < SWITCHED_OFF)
        inner = A[np.ix_(on, on)] + np.diag(ridges[on])
        factored = Penalised.of(A, ridges)
        c, inverse_diagonal, log_det = solve_penalised(A, b, ridges)
        expected = np.zeros(6)
        expected[on] = np.linalg.solve(inner, b[on])
        np.testing.assert_allclose(c, expected, rtol=1e-9)
        np.testing.assert_allclose(factored.solution(b), c)
        np.testing.assert_allclose(inverse_diagonal[on], np.diagonal(np.linalg.inv(inner)), rtol=1e-9)
        whole = np.linalg.slogdet(inner)[1] + np.log(np.delete(ridges, on)).sum()
        assert log_det == factored.log_det == pytest.approx(whole, rel=1e-9)


def test_ridges_from_a_first_round_that_was_made_are_the_same():
    basis, A, b, _ = regression()
    H = np.zeros((len(A) + 1,) * 2)
    H[1:, 1:], H[0, 0] = A, 400.0
    g, first = np.append(3.0, b[:, 0]), first_ridges(basis)[None]
    started = Penalised.of(H, amplitude_ridges(first, basis))
    alone, together = (best_ridges(H, g, basis, first, started=each) for each in (None, started))
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize(("m", "reach", "p"), [(1, 40.0, 1), (1, 40.0, 3), (2, 12.0, 2), (3, 8.0, 3), (4, 24.0, 3)])
def test_periodograms_are_the_defining_sums(m, reach, p):
    lattice = Lattice(np.random.default_rng(0), m, reach)
    u, strengths, _ = rows(1, 300, m, p)
    strengths *= 10.0 ** np.arange(0, 2 * p, 2)  # outputs that are taken together have sizes of their own
    sums = lattice.sums(u, strengths)
    expected = np.exp(1j * (lattice.omega @ u.T)) @ strengths
    error = np.abs(sums.waves - expected).max(axis=0) / np.abs(expected).max(axis=0)
    assert (error < 1e-5).all()
    np.testing.assert_allclose(sums.squares, (strengths**2).sum(axis=0))


def test_limits_that_are_tried_give_the_losses_of_the_cells():
    rng = np.random.default_rng(0)
    C, S, count = 10.0 ** rng.uniform(-5, 1, (200, 2)), rng.gamma(1.0, size=(200, 2)), np.ones(200)
    model, most = NoiseModel(LINKS["log"], Shape("diagonal", 2)), np.array([10.0, 20.0])
    losses = Losses.of(model, model.parts(np.log(C), S), count, most, 0.0)
    expected = np.array([cell_nll(raised(C, floor, most, 0.0), S, count).sum(axis=0) for floor in FLOORS])
    np.testing.assert_allclose(losses.sums, expected, rtol=1e-12)


@pytest.mark.parametrize("top", [0.0, 0.3])
def test_limits_of_coupled_entries_give_the_losses_of_matrices(top):
    """Of matrices whose eigenvalues are raised to a floor, and all of them where the largest is below its own limit."""
    rng = np.random.default_rng(1)
    shape, count, most = Shape("full", 2), rng.uniform(1, 5, 60), np.full(2, 5.0)
    H = rng.standard_normal((60, 3)) * [2.0, 1.0, 2.0] - [2.0, 0.0, 2.0]
    roots = rng.standard_normal((60, 2, 2))
    products = roots @ roots.swapaxes(1, 2)
    S = products[:, [0, 1, 1], [0, 0, 1]]
    model = NoiseModel(LINKS["log"], shape)
    parts = model.parts(H, S)

    def loss(floor, largest):
        C = covariance_at(H, model.link, shape, np.array([[floor, max(floor, largest)], most]))[0]
        values = np.trace(np.linalg.solve(C, products), axis1=1, axis2=2)
        return 0.5 * (count * np.linalg.slogdet(C)[1] + values)

    usual = FLOORS >= 1e-4  # smaller ones are also raised to a share of the largest eigenvalue
    expected = np.array([loss(floor, top).sum() for floor in FLOORS[usual]])
    np.testing.assert_allclose(Losses.of(model, parts, count, most, top).sums[usual, 0], expected, rtol=1e-9)
    tops, low = Losses.of_largest(model, parts, count, most), parts.C.max(axis=1) < FLOORS[-1]
    made = np.array(
        [cell_nll(raised(parts.C, FLOORS[0], most, f), parts.spectrum.diagonal(parts.turned), count) for f in FLOORS]
    )
    np.testing.assert_allclose(tops.sums[:, 0], made[:, low].sum(axis=(1, 2)), rtol=1e-9)


def test_products_of_rows_are_those_of_residuals_under_the_drift_of_their_fold():
    rng = np.random.default_rng(0)
    n, d = 60, 2
    X, moves, h, fold = (
        rng.standard_normal((n, 3)),
        rng.standard_normal((n, d)),
        rng.uniform(0.5, 2, n),
        np.arange(n) % 5,
    )
    folds = [(rng.standard_normal(d), rng.standard_normal((3, d))) for _ in range(5)]
    cells = Cells(
        rng.uniform(size=(n, 1)), np.ones(n), h, fold, np.column_stack([moves, np.zeros((n, 3))]), np.zeros(5)
    )
    found = products_of_rows(cells, X, folds)
    for row in range(n):
        intercept, c = folds[fold[row]]
        r = (moves[row] - h[row] * (intercept + X[row] @ c)) / np.sqrt(h[row])
        np.testing.assert_allclose(found.sums[row], [r[0] ** 2, r[0] * r[1], r[1] ** 2], rtol=1e-9)
    np.testing.assert_allclose(found.squares, (found.sums**2).sum(axis=0))


def test_features_are_made_once_for_each_basis_and_places():
    basis = regression()[0]
    u, features = rows(5)[0], KnownFeatures()
    X = features(basis, u)
    np.testing.assert_array_equal(X, features_at(basis, u))
    assert features(basis, u) is X
    assert features(basis, u.copy()) is not X
    assert features(None, u).shape == (len(u), 0)


def test_columns_of_products_are_contiguous():
    X, S, _ = rows(2, 50, 3, 2)
    products = Products.of(X, S, np.ones(50), np.zeros(50, dtype=int))
    some = products.at(np.array([7, 3, 40]))
    np.testing.assert_array_equal(some.S, S[[7, 3, 40]])
    np.testing.assert_array_equal(some.ones[:, 1:], X[[7, 3, 40]])
    B = np.random.default_rng(0).standard_normal((4, 2))
    np.testing.assert_allclose(products.values(B), products.ones @ B)
    for each in (products, some):
        assert each.S.flags.f_contiguous
        assert each.values(B).flags.f_contiguous


def test_variances_of_functions_leave_out_what_is_switched_off():
    rng = np.random.default_rng(0)
    features, roots = rng.standard_normal((30, 6)), rng.standard_normal((2, 6, 6))
    roots[0, [1, 4]] = 0.0
    squares = roots @ roots.swapaxes(1, 2)
    expected = np.einsum("na,jab,nb->nj", features, squares, features)
    np.testing.assert_allclose(function_variances(features, squares), expected, rtol=1e-10)


def test_shares_of_a_step_that_do_the_same_are_tried_once():
    assert _different(SHARES, drift=True, sigma=True) == SHARES
    assert _different(SHARES, drift=True, sigma=False) == ((1.0, 1.0), (0.5, 0.5), (0.2, 0.2))
    assert _different(SHARES, drift=False, sigma=True) == ((1.0, 1.0), (0.5, 0.5), (0.2, 0.2))
    assert _different(SHARES, drift=False, sigma=False) == ()


@pytest.mark.parametrize(("interleaved", "passes"), [(False, 0), (True, 1)])
def test_single_transitions_are_not_asked_for_errors_of_measurement(monkeypatch, interleaved, passes):
    asked, lag_products = [], through_noise.lag_products
    monkeypatch.setattr(through_noise, "lag_products", lambda *given: asked.append(1) or lag_products(*given))
    rng = np.random.default_rng(0)
    x = 0.9 ** np.arange(101)[:, None, None] + 0.1 * rng.standard_normal((101, 2, 1)).cumsum(axis=0)
    moves, groups = np.diff(x, axis=0).reshape(200, 1), None
    start = x[:-1].reshape(200, 1)
    if interleaved:  # two tracks whose rows alternate: no row follows the one before it, but they are tracks
        groups = np.tile([0, 1], 100)
    else:
        order = rng.permutation(200)
        start, moves = start[order], moves[order]
    data = itofit.Transitions(start, moves, 0.1, kind="diffusion", groups=groups)
    itofit.fit(data, rng=0)
    assert len(asked) == passes


def test_who_is_gathered_is_what_the_plan_does():
    for m, n in ((1, 5_000), (1, 5_001), (2, 16_000), (2, 16_001), (4, 16_001)):
        x = np.random.default_rng(0).uniform(size=(n, m))
        known = survey(itofit.Transitions(x, 0.1 * x, 0.1, kind="diffusion"), Progress(False))
        plan = Plan(known, Scaling.of(known.low, known.high, np.zeros(m)), 0)
        assert plan.gathered == are_gathered(n, m) == (m in SIDE and n in (5_001, 16_001))


def test_drifts_with_decoupled_noise_are_those_of_single_outputs():
    u, _, h = rows(4, 500)
    rng = np.random.default_rng(4)
    moves = h[:, None] * np.column_stack([np.sin(4 * u[:, 0]), u[:, 1]]) + np.sqrt(h)[:, None] * rng.normal(
        size=(500, 2)
    )
    rates, mean = moves / h[:, None], moves.sum(axis=0) / h.sum()
    equations = DirectNormalEquations(u, rates - mean, h)
    omega = 2 * rng.standard_normal((10, 2)) * np.repeat([[1, 0], [0, 1]], 5, axis=0)
    waves = fitted_waves(
        omega, np.repeat([0, 1], 5), np.empty((0, 2)), _targets(u, rates - mean, h, equations), np.eye(2), None
    )
    fold = np.arange(500) % 5
    products = np.column_stack([moves[:, 0] ** 2, moves[:, 0] * moves[:, 1], moves[:, 1] ** 2]) / h[:, None]
    cells = Cells(u, np.ones(500), h, fold, np.column_stack([moves, products]), np.zeros(5))
    X = waves.basis.at(u)
    both = drift_of_one_covariance(waves, cells, DriftCells(X, h, moves, fold), None)
    assert len(both.systems) == 2
    for j in range(2):
        own = Cells(u, np.ones(500), h, fold, np.column_stack([moves[:, j], products[:, 2 * j]]), np.zeros(2))
        one = waves._replace(V=np.eye(1), fits=waves.fits[j : j + 1])
        alone = drift_of_one_covariance(one, own, DriftCells(X, h, moves[:, [j]], fold), None)
        np.testing.assert_allclose(both.c[:, j], alone.c[:, 0], rtol=0.02, atol=0.02 * np.abs(alone.c).max())


@pytest.mark.parametrize("link", sorted(LINKS))
def test_scoring_steps_that_share_a_left_side_are_those_of_each_entry(link):
    rng = np.random.default_rng(0)
    n, R, p = 300, 5, 3
    products = Products.of(rng.standard_normal((n, R)), rng.gamma(1.0, size=(n, p)), rng.uniform(1, 4, n), np.arange(n))
    model = NoiseModel(LINKS[link], Shape("diagonal", p))
    H = np.asfortranarray(rng.uniform(0.5, 1.5, (n, p)))
    in_use = rng.random((p, R + 1)) < 0.7
    for used in (None, in_use):
        systems, weight, z = systems_of(model, products, H, model.parts(H, products.S), used)
        for j, (A, b) in enumerate(systems):
            on = np.ones(R + 1, dtype=bool) if used is None else used[j]
            left, right = weighted_system(products.ones, weight[:, j], z[:, j])
            np.testing.assert_allclose(A, np.where(on[:, None] & on, left, 0.0), rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(b, np.where(on, right, 0.0), rtol=1e-10, atol=1e-10)


def test_variances_of_functions_are_right_where_those_of_amplitudes_are_singular():
    features = np.random.default_rng(0).standard_normal((50, 4))
    one = np.ones((1, 4, 4))
    np.testing.assert_allclose(function_variances(features, one)[:, 0], features.sum(axis=1) ** 2, rtol=1e-10)


@pytest.mark.parametrize("n", [LARGE_FACTOR, 2 * LARGE_FACTOR + 1, VERY_LARGE_FACTOR + 3])
def test_inverses_by_halves_are_inverses(n):
    X = np.random.default_rng(0).standard_normal((2 * n, n))
    A, P = X.T @ X, np.linspace(0, 5, n)
    W, log_det = inverse_root(A, P)
    assert (np.triu(W, 1) == 0).all()
    np.testing.assert_allclose(W.T @ W @ (A + np.diag(P)), np.eye(n), atol=1e-9)
    assert log_det == pytest.approx(np.linalg.slogdet(A + np.diag(P))[1], rel=1e-9)


def test_sums_leave_out_waves_without_amplitude():
    rng = np.random.default_rng(0)
    omega, beta, u = rng.standard_normal((6, 2)), rng.standard_normal((6, 3)) + 1j, rng.uniform(-1, 1, (50, 2))
    for off in ([1, 4], range(6)):
        beta[list(off)] = 0.0
        expected = (np.exp(1j * (u @ omega.T)) @ beta).real
        np.testing.assert_allclose(real_sum(omega, beta, u), expected, atol=1e-13)
        np.testing.assert_allclose(real_sum(omega, beta, np.tile(u, (100, 1)))[:50], expected, atol=1e-13)


def test_features_that_are_made_group_by_group_are_the_same():
    u, y, weight = rows(2, 600, 6, 1)
    group = np.repeat(np.arange(7), 12)
    free = np.concatenate([np.repeat(np.eye(6), 12, axis=0), np.ones((12, 6))])
    omega = 20 * free * np.random.default_rng(0).standard_normal(free.shape)
    sums = DirectNormalEquations(u, y, weight).real_gram(np.concatenate([omega, np.zeros((1, 6))]))
    basis = principal_features(omega, group, *sums)[0]
    CD = np.concatenate([np.cos(u @ omega.T), np.sin(u @ omega.T)], axis=1)
    assert basis.parts is not None
    np.testing.assert_allclose(basis.at(u), CD @ basis.transform - basis.mean, atol=1e-8)
    assert basis.of_groups(np.array([0, 3])).parts is None  # so few that all at once cost no more
