"""Gridded normal equations against direct sums and against the loops.

What "relative" means here: Gram matrices are compared relative to N, which is their diagonal; right sides relative to
Σ_n|y_n| of each output, which is the largest value they could have; amplitudes relative to the norm of all of an
output's, and to the mean of |y| for targets that may cancel; errors relative to the mean of y² and of the
network's square.
"""

import itertools
import multiprocessing
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import itofit
from itofit import ARFF, ARFFRegressor, InputError, Transitions
from itofit._blocks import one_blas_thread
from itofit.waves.chebyshev import n_terms, product_moments, transform_moments
from itofit.waves.normal_equations import (
    ArrayPart,
    DirectNormalEquations,
    GriddedNormalEquations,
    accuracy_for,
    cheaper_form,
    gridded,
    moments_of,
)
from itofit.waves.normal_equations.gridded import (
    ACCURACY,
    LEAST_BOX,
    LEAST_MARGIN,
    MARGIN,
    MOST_MOMENTS,
    FrequenciesTooLarge,
)
from itofit.waves.normal_equations.polynomials import PolynomialSums
from itofit.waves.normal_equations.tables import NodeSums, TableSums
from itofit.waves.series import real_sum

RIDGE = 2e-3
KINDS = ["uniform", "clusters", "few points", "one point", "origin", "corner", "corners", "near the faces", "line"]
POLYNOMIAL_REACH = {1: 40.0, 2: 8.0, 3: 2.0}  # beyond, polynomials would be too many for a test


def points(kind, rng, n, D):
    if kind == "uniform":
        return rng.uniform(-0.5, 0.5, (n, D))
    if kind == "corners":
        return rng.choice([-0.5, 0.5], (n, D))
    if kind == "near the faces":
        return rng.choice([-1.0, 1.0], (n, D)) * (0.5 - 10 ** rng.uniform(-16, -3, (n, D)))
    if kind == "line":
        return np.outer(rng.uniform(-0.5, 0.5, n), np.linspace(1.0, 0.3, D))
    centres = rng.uniform(-0.5, 0.5, (3, D))
    return {
        "clusters": np.clip(centres[rng.integers(3, size=n)] + 1e-5 * rng.normal(size=(n, D)), -0.5, 0.5),
        "few points": centres[rng.integers(3, size=n)],
        "one point": np.tile(centres[:1], (n, 1)),
        "origin": np.zeros((n, D)),
        "corner": np.full((n, D), 0.5),
    }[kind]


def problem(seed=0, n=500, D=2, p=2, K=12, reach=3.0, kind="uniform"):
    """Frequencies in a box with sides 2·reach, points, and targets of very different sizes."""
    rng = np.random.default_rng(seed)
    omega = rng.uniform(-1, 1, (K, D)) * reach
    u = points(kind, rng, n, D)
    y = (rng.normal(size=(n, p)) + np.cos(2 * u[:, :1])) * np.logspace(-8, 8, p)
    return omega, u, y


def equations(u, y, accuracy=ACCURACY):
    return GriddedNormalEquations(ArrayPart(u, y), accuracy)


def gram_error(found, expected, n):
    return np.abs(np.tril(found - expected)).max() / n


def right_error(found, expected, y):
    return (np.abs(found - expected).max(axis=0) / np.abs(y).sum(axis=0)).max()


def amplitude_error(found, expected, y=None):
    size = np.linalg.norm(expected, axis=0) + (0.0 if y is None else np.abs(y).mean(axis=0))
    return (np.linalg.norm(found - expected, axis=0) / size).max()


def assert_same(found, omega, u, y, tolerance=1e-9):
    """All that normal equations answer equals direct sums."""
    direct = DirectNormalEquations(u, y)
    G, b = found.gram(omega)
    expected_G, expected_b = direct.gram(omega)
    assert G.shape == expected_G.shape
    assert b.shape == expected_b.shape
    assert gram_error(G, expected_G, len(u)) < tolerance
    assert right_error(b, expected_b, y) < tolerance
    beta = direct.solve(omega, RIDGE)
    assert amplitude_error(found.solve(omega, RIDGE), beta, y) < 1e3 * tolerance
    rng = np.random.default_rng(0)
    for amplitudes in (beta, (rng.normal(size=beta.shape) + 1j * rng.normal(size=beta.shape)) * y.std(axis=0)):
        size = np.mean(y**2) + np.mean(real_sum(omega, amplitudes, u) ** 2)
        assert abs(found.mse(omega, amplitudes) - direct.mse(omega, amplitudes)) < tolerance * size


@contextmanager
def only(gram, error="nodes"):
    """Make one kind of sums the cheapest: polynomials or tables for Gram matrices, nodes or rows for errors."""
    dear, free = dict.fromkeys((1, 2, 3), np.inf), dict.fromkeys((1, 2, 3), -1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gridded, "INTERPOLATION", dear if gram == "polynomials" else free)
        patch.setattr(gridded, "FEATURE", np.inf if error == "nodes" else -1.0)
        yield


class CountingPart(ArrayPart):
    """Counts how often moments were asked for."""

    def __init__(self, u, y):
        super().__init__(u, y)
        self.asked = []

        self.rows = u, y

    def moments(self, Q):
        self.asked.append(Q)
        return moments_of(*self.rows, Q)


# Against the loops and against direct sums


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 30),
    D=st.integers(1, 3),
    p=st.integers(1, 3),
    K=st.integers(1, 6),
    share=st.floats(0, 1),
    sums=st.sampled_from(["polynomials", "tables"]),
)
def test_gram_right_side_amplitudes_and_error_equal_the_loops(seed, n, D, p, K, share, sums):
    omega, u, y = problem(seed, n, D, p, K, share * POLYNOMIAL_REACH[D])
    with only(sums):
        found = equations(u, y)
        G, b = found.gram(omega)
        beta = found.solve(omega, RIDGE)
        expected_G, expected_b = reference.gram(omega, u, y)
        assert gram_error(G, expected_G, n) < 1e-9
        assert right_error(b, expected_b, y) < 1e-9
        assert amplitude_error(beta, reference.ridge(omega, u, y, RIDGE), y) < 1e-6
        size = np.mean(y**2) + np.mean(reference.predict(omega, beta, u) ** 2)
        assert abs(found.mse(omega, beta) - reference.mean_squared_error(omega, beta, u, y)) < 1e-9 * size


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 400),
    D=st.integers(1, 3),
    K=st.integers(1, 40),
    reach=st.floats(0, 1).map(lambda share: 10 ** (4 * share - 2)),
    kind=st.sampled_from(KINDS),
)
def test_any_data_and_frequencies(seed, n, D, K, reach, kind):
    omega, u, y = problem(seed, n, D, 3, K, min(reach, {1: 100.0, 2: 60.0, 3: 8.0}[D]), kind)
    assert_same(equations(u, y), omega, u, y)


@pytest.mark.parametrize("error", ["nodes", "rows"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_each_kind_of_sums_on_each_kind_of_data(sums, D, kind, error):
    omega, u, y = problem(3, 600, D, 3, 20, POLYNOMIAL_REACH[D], kind)
    with only(sums, error):
        found = equations(u, y)
        assert_same(found, omega, u, y)
        assert isinstance(found._gram_sums, PolynomialSums if sums == "polynomials" else TableSums)
        assert isinstance(found._error_sums, NodeSums if error == "nodes" else DirectNormalEquations)


@pytest.mark.parametrize("by", [product_moments, transform_moments])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_whichever_way_moments_were_made(sums, D, kind, by, monkeypatch):
    monkeypatch.setattr("itofit.waves.normal_equations.moments.moments", by)
    omega, u, y = problem(4, 300, D, 1, 20, POLYNOMIAL_REACH[D], kind)
    with only(sums):
        assert_same(equations(u, y), omega, u, y)


@pytest.mark.parametrize(
    ("D", "K", "reach", "sums"),
    [
        (1, 100, 2.0, PolynomialSums),
        (1, 100, 600.0, TableSums),
        (2, 128, 1.0, PolynomialSums),
        (2, 60, 40.0, TableSums),
        (3, 128, 0.3, PolynomialSums),
        (3, 60, 9.0, TableSums),
    ],
)
def test_polynomials_serve_small_boxes_and_tables_large_ones(D, K, reach, sums):
    omega, u, y = problem(5, 3000, D, 2, K, reach)
    found = equations(u, y)
    assert_same(found, omega, u, y)
    assert isinstance(found._gram_sums, sums)


def test_errors_by_nodes_for_many_rows_and_by_rows_for_few():
    omega, u, y = problem(6, 20_000, 2, 1, 50, 30.0)
    beta = np.ones((50, 1), dtype=complex)
    for n, sums in ((20, DirectNormalEquations), (20_000, NodeSums)):
        found = equations(u[:n], y[:n])
        assert found.mse(omega, beta) == pytest.approx(DirectNormalEquations(u[:n], y[:n]).mse(omega, beta), rel=1e-9)
        assert isinstance(found._error_sums, sums)


def test_rows_out_of_memory_are_not_read_again_for_an_error():
    omega, u, y = problem(7, 20, 2, 1, 5, 30.0)
    part = CountingPart(u, y)
    part.arrays = None
    found = GriddedNormalEquations(part)
    beta = np.ones((5, 1), dtype=complex)
    assert found.mse(omega, beta) == pytest.approx(DirectNormalEquations(u, y).mse(omega, beta), rel=1e-9)
    assert isinstance(found._error_sums, NodeSums)


def test_many_rows_in_chunks():
    omega, u, y = problem(8, 30_011, 2, 2, 30, 5.0)
    assert_same(equations(u, y), omega, u, y)


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_shifted_frequencies_have_the_same_gram_matrix(sums):
    omega, u, y = problem(9, 400, 2, 1, 10, 2.0)
    with only(sums):
        found = equations(u, y)
        G, shifted = found.gram(omega)[0], found.gram(omega + np.array([0.7, -0.4]))[0]
    np.testing.assert_allclose(np.tril(G), np.tril(shifted), rtol=0, atol=1e-9 * 400)
    np.testing.assert_allclose(np.diagonal(G), 400, rtol=1e-9)


# Targets, ridge and degenerate cases


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_every_output_is_as_accurate_as_alone(sums):
    omega, u, y = problem(10, 500, 2, 5, 15)
    assert np.abs(y).max(axis=0).max() > 1e15 * np.abs(y).max(axis=0).min()
    with only(sums):
        together = equations(u, y).solve(omega, RIDGE)
        for output in range(5):
            alone = equations(u, y[:, [output]]).solve(omega, RIDGE)
            np.testing.assert_allclose(together[:, [output]], alone, rtol=0, atol=1e-9 * np.linalg.norm(alone))


def test_targets_of_zero_have_amplitudes_of_zero_and_no_error():
    omega, u, _ = problem(11)
    found = equations(u, np.zeros((500, 2)))
    beta = found.solve(omega, RIDGE)
    np.testing.assert_array_equal(beta, 0)
    assert found.mse(omega, beta) == 0


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_targets_that_are_a_network_are_found_and_leave_no_error(sums):
    rng = np.random.default_rng(12)
    omega, u, _ = problem(12, 400, 2, 1, 4, 6.0)
    omega = np.concatenate([omega, -omega])  # β̂ and its conjugate: a real network is a complex one as well
    half = rng.normal(size=(4, 1)) + 1j * rng.normal(size=(4, 1))
    beta = np.concatenate([half, half.conj()])
    y = (np.exp(1j * u @ omega.T) @ beta).real
    with only(sums):
        found = equations(u, y)
        assert amplitude_error(found.solve(omega, 0.0), beta) < 1e-5
        assert 0 <= found.mse(omega, beta) < 1e-9 * np.mean(y**2)


def test_an_error_is_never_negative():
    rng = np.random.default_rng(12)
    omega, u, _ = problem(12, 400, 2, 1, 4, 6.0)
    errors = []
    with only("tables"):
        for _ in range(
            20
        ):  # rounding is as likely to be negative as positive: all positive by chance once in a million
            beta = rng.normal(size=(4, 1)) + 1j * rng.normal(size=(4, 1))
            errors.append(equations(u, real_sum(omega, beta, u)).mse(omega, beta))
    assert min(errors) >= 0
    assert max(errors) < 1e-9


@pytest.mark.parametrize("kind", ["uniform", "one point"])
def test_a_huge_ridge_is_the_right_side(kind):
    omega, u, y = problem(13, kind=kind)
    _, b = DirectNormalEquations(u, y).gram(omega)
    beta = equations(u, y).solve(omega, 1e12)
    assert amplitude_error(beta, b / (500 * 1e12)) < 1e-9


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_coinciding_frequencies_without_ridge_share_the_least_amplitude(D, sums):
    _, u, y = problem(14, D=D)
    with only(sums):
        found = equations(u, y)
        beta = found.solve(np.zeros((7, D)), 0.0)
        np.testing.assert_allclose(beta, np.tile(y.mean(axis=0) / 7, (7, 1)), rtol=1e-8)
        omega = np.repeat(np.eye(D)[:1] * [[2.0], [-5.0], [0.0]], [3, 1, 2], axis=0)
        shared = found.solve(omega, 0.0)
        assert amplitude_error(shared, DirectNormalEquations(u, y).solve(omega, 0.0)) < 1e-7
        np.testing.assert_allclose(shared[:3], np.tile(shared[:1], (3, 1)), rtol=1e-7)
        small_ridge = found.solve(omega, 1e-7)  # is the limit of small ridges
        assert amplitude_error(small_ridge, shared) < 1e-5


def test_columns_without_variation():
    omega, u, y = problem(15, 300, 3)
    u[:, 1] = 0.0
    assert_same(equations(u, y), omega, u, y)
    without = DirectNormalEquations(u[:, [0, 2]], y).solve(omega[:, [0, 2]], RIDGE)
    assert amplitude_error(equations(u, y).solve(omega, RIDGE), without) < 1e-6
    assert_same(equations(0 * u, y), omega, 0 * u, y)


# Accuracy


def worst_case(D, reach):
    """Frequencies in the corners of a box, on its faces and inside."""
    return np.array(list(itertools.product([-1.0, 1.0, 0.4, 0.0], repeat=D))) * reach


@pytest.mark.parametrize("accuracy", [1e-3, 1e-6, 1.6e-10, 1e-10, 1.8e-11, 2e-12, 1e-13])
@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_the_accuracy_asked_for_is_kept_everywhere_in_the_box(sums, D, accuracy):
    """Up to a factor of ten: bounds of finufft and of truncated expansions in each direction are estimates."""
    reach = min(POLYNOMIAL_REACH[D], 5.0)
    omega = worst_case(D, reach * MARGIN)
    with only(sums):
        for kind in ("uniform", "corner", "one point"):
            _, u, y = problem(16, 300, D, 2, kind=kind)
            found = equations(u, y, accuracy)
            found.gram(omega / MARGIN)  # makes the box that omega fills
            G, b = found.gram(omega)
            np.testing.assert_allclose(found.box, reach * MARGIN)
            expected_G, expected_b = DirectNormalEquations(u, y).gram(omega)
            bound = 10 * accuracy + 1e-12  # rounding
            assert gram_error(G, expected_G, 300) < bound
            assert right_error(b, expected_b, y) < bound


@pytest.mark.parametrize("accuracy", [1e-6, 1e-10, 1e-13])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_errors_are_as_accurate_as_asked_for(D, accuracy):
    reach = POLYNOMIAL_REACH[D]
    omega = worst_case(D, reach)
    _, u, y = problem(17, 300, D, 2, kind="near the faces")
    rng = np.random.default_rng(17)
    beta = (rng.normal(size=(len(omega), 2)) + 1j * rng.normal(size=(len(omega), 2))) * y.std(axis=0)
    with only("tables"):
        error = equations(u, y, accuracy).mse(omega, beta)
    expected = DirectNormalEquations(u, y).mse(omega, beta)
    # frequencies of |network|² are sums of two: Σ|β̂|² bounds its expansion
    size = np.mean(y**2) + np.mean(np.abs(beta).sum(axis=0) ** 2)
    assert abs(error - expected) < (10 * accuracy + 1e-12) * size


@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("ridge", [1e-2, 2e-3, 2e-6, 1e-7, 1e-8])
def test_amplitudes_are_accurate_at_the_accuracy_chosen_for_a_ridge(D, ridge):
    omega, u, y = problem(18, 2000, D, 2, 20, 6.0)
    for sums in ("polynomials", "tables"):
        if sums == "polynomials" and D == 3:
            omega = omega / 3
        with only(sums):
            beta = equations(u, y, accuracy_for(ridge)).solve(omega, ridge)
        assert amplitude_error(beta, DirectNormalEquations(u, y).solve(omega, ridge)) < 1e-4


def test_the_accuracy_for_a_ridge_is_within_bounds_and_falls_with_it():
    ridges = np.logspace(-20, 2, 100)
    chosen = [accuracy_for(ridge) for ridge in ridges]
    assert chosen == sorted(chosen)
    assert min(chosen) >= 1e-13
    assert max(chosen) <= ACCURACY
    assert accuracy_for(0.0) == 1e-13


# Growth of the box


@pytest.mark.parametrize("D", [1, 2, 3])
def test_a_box_grows_with_the_frequencies_in_the_direction_they_grow_in(D):
    _, u, y = problem(19, 400, D, 2)
    part = CountingPart(u, y)
    found = GriddedNormalEquations(part)
    unit = problem(19, K=8, D=D, reach=1.0)[0]
    unit[0] = 1.0
    boxes = []
    for reach in (0.0, 0.5, 2.0, 7.0, 20.0):
        omega = unit * [reach, *[0.2] * (D - 1)]
        assert_same(found, omega, u, y)
        assert_same(equations(u, y), omega, u, y)  # fresh ones
        assert found.box[0] >= max(reach, LEAST_BOX)
        np.testing.assert_array_equal(found.box[1:], LEAST_BOX)
        boxes.append(found.box[0])
        n_asked = len(part.asked)
        found.gram(0.9 * omega)
        found.gram(omega * [found.box[0] / max(reach, 1e-9), *[1.0] * (D - 1)] if reach else omega)
        assert len(part.asked) == n_asked  # what the box holds needs nothing new
    assert boxes == sorted(boxes)
    assert boxes[-1] == MARGIN * 20.0


@pytest.mark.parametrize("D", [1, 2, 3])
def test_results_after_growth_equal_those_of_fresh_equations(D):
    omega, u, y = problem(20, 400, D, 1, 15, 8.0)
    grown = equations(u, y)
    for share in (0.0, 0.1, 0.3, 1.0):
        grown.solve(share * omega, RIDGE)
        grown.mse(share * omega, np.ones((15, 1), dtype=complex))
    fresh = equations(u, y)
    beta = fresh.solve(omega, RIDGE)
    np.testing.assert_array_equal(grown.solve(omega, RIDGE), beta)  # the boxes are the same
    assert grown.mse(omega, beta) == fresh.mse(omega, beta)
    again, first = grown.gram(0.1 * omega)[0], equations(u, y).gram(0.1 * omega)[0]
    assert gram_error(again, first, 400) < 1e-9


@pytest.mark.parametrize("D", [1, 2, 3])
def test_boxes_that_would_be_too_large_are_refused(D):
    omega, u, y = problem(21, 200, D, 2, 6, 2.0)
    part = CountingPart(u, y)
    found = GriddedNormalEquations(part)
    assert_same(found, omega, u, y)
    box, n_asked = found.box, len(part.asked)
    for reach in (MOST_MOMENTS[D] / LEAST_MARGIN, 1e6, 1e15):
        far = omega.copy()
        far[0, -1] = reach
        for ask in (lambda far=far: found.solve(far, RIDGE), lambda far=far: found.mse(far, np.ones((6, 2), complex))):
            with pytest.raises(FrequenciesTooLarge):
                ask()
        np.testing.assert_array_equal(found.box, box)
    assert_same(found, omega, u, y)
    assert len(part.asked) == n_asked  # the box and its sums were kept


@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_largest_box(D):
    side = next(side for side in range(MOST_MOMENTS[D], 0, -1) if n_terms(side, ACCURACY) <= MOST_MOMENTS[D])
    omega, u, y = problem(22, 300, D, 1, 6, 3.0)
    omega[0, 0] = side / MARGIN
    found = equations(u, y)
    assert_same(found, omega, u, y)
    assert found.box[0] == pytest.approx(side)
    omega[0, 0] = side / LEAST_MARGIN
    found = equations(u, y)
    assert_same(found, omega, u, y)
    assert found.box[0] == pytest.approx(side)
    omega[0, 0] = (side + 1) / LEAST_MARGIN  # one more, and it is too large
    with pytest.raises(FrequenciesTooLarge):
        equations(u, y).gram(omega)


# Moments


def test_moments_add_up_over_sets_of_rows_and_scale_with_the_targets():
    _, u, y = problem(23, 500)
    whole = moments_of(u, y, (7, 9))
    assert whole.n_rows == 500
    parts = [moments_of(u[rows], y[rows], (7, 9)) for rows in (slice(0, 0), slice(0, 13), slice(13, 500))]
    total = parts[0].plus(parts[1]).plus(parts[2])
    assert total.n_rows == 500
    np.testing.assert_allclose(total.values[0], whole.values[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(total.squares, (y**2).sum(axis=0), rtol=1e-12)
    unit = np.array([3.0, 1e8])
    scaled, expected = whole.scaled(unit), moments_of(u, y / unit, (7, 9))
    for output in range(3):
        size = 1e-12 * np.abs(expected.values[output]).max()
        np.testing.assert_allclose(scaled.values[output], expected.values[output], rtol=0, atol=size)
    np.testing.assert_allclose(scaled.squares, expected.squares, rtol=1e-12)


# Threads, processes, memory


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_results_are_the_same_on_one_thread_as_on_all(D, sums, all_threads):
    omega, u, y = problem(24, 20_000, D, 2, 150, POLYNOMIAL_REACH[D])

    def answers():
        found = equations(u, y)
        beta = found.solve(omega, RIDGE)
        return beta, found.mse(omega, beta)

    with only(sums):
        on_all = answers()
        with threadpool_limits(1):
            for one, all_of_them in zip(answers(), on_all, strict=True):
                np.testing.assert_array_equal(one, all_of_them)


def test_the_users_threads_are_left_as_they_were():
    omega, u, y = problem(25, 5000, 2, 2, 100)
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        for sums in ("polynomials", "tables"):
            with only(sums):
                found = equations(u, y)
                found.mse(omega, found.solve(omega, RIDGE))
        assert [library["num_threads"] for library in threadpool_info()] == before


@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_several_threads_at_once_get_their_results_and_leave_the_limits_alone(sums):
    omega, u, y = problem(26, 5000, 2, 2, 100)
    with only(sums):
        found = equations(u, y)
        alone = found.solve(omega, RIDGE)
        error = found.mse(omega, alone)
        with threadpool_limits(2):
            before = [library["num_threads"] for library in threadpool_info()]
            with ThreadPoolExecutor(4) as pool:
                together = list(pool.map(lambda _: found.solve(omega, RIDGE), range(20)))
                errors = list(pool.map(lambda _: found.mse(omega, alone), range(20)))
            assert [library["num_threads"] for library in threadpool_info()] == before
    for beta in together:
        np.testing.assert_array_equal(beta, alone)
    assert errors == [error] * 20


def test_the_last_thread_to_leave_lifts_the_limit_on_blas_whoever_set_it():
    entered, leave = threading.Event(), threading.Event()

    def enter_and_leave():
        with one_blas_thread:
            entered.set()
            leave.wait(timeout=60)

    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        other = threading.Thread(target=enter_and_leave)
        with one_blas_thread:
            other.start()
            entered.wait(timeout=60)
        leave.set()
        other.join(timeout=60)
        assert [library["num_threads"] for library in threadpool_info()] == before


def test_a_box_that_another_thread_enlarges_meanwhile():
    omega, u, y = problem(27, 500, 1, 1, 10, 1.0)
    others = []

    class Interrupted(ArrayPart):
        """Another thread asks for higher frequencies while moments for the first are made."""

        def moments(self, Q):
            if not others:
                others.append(threading.Thread(target=lambda: found.gram(30 * omega)))
                others[0].start()
                others[0].join(timeout=0.5)  # it may wait for the first to end
            return super().moments(Q)

    found = GriddedNormalEquations(Interrupted(u, y))
    direct = DirectNormalEquations(u, y)
    assert gram_error(found.gram(omega)[0], direct.gram(omega)[0], 500) < 1e-9
    others[0].join(timeout=60)
    assert gram_error(found.gram(30 * omega)[0], direct.gram(30 * omega)[0], 500) < 1e-9


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if a test before has imported it
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("sums", ["polynomials", "tables"])
def test_a_forked_child_gets_the_same_results(sums):
    omega, u, y = problem(28, 20_000, 2, 2, 100)
    context = multiprocessing.get_context("fork")
    with only(sums):
        used = equations(u, y)  # its plans and threads are the parent's
        here = used.solve(omega, RIDGE)
        answers = context.Queue()

        def work():
            answers.put([found.solve(omega, RIDGE) for found in (used, equations(u, y))])

        child = context.Process(target=work)
        child.start()
        try:
            there = answers.get(timeout=60)
            child.join(timeout=60)
        finally:
            child.kill()
    for beta in there:
        np.testing.assert_array_equal(beta, here)
    assert child.exitcode == 0


@pytest.mark.parametrize("D", [1, 2, 3])
def test_memory_does_not_grow_with_the_rows(D):
    def peak(n):
        omega, u, y = problem(29, n, D, 2, 64, 5.0)
        with only("tables"):
            found = equations(u, y)
            beta = found.solve(omega, RIDGE)
            found.mse(omega, beta)
            tracemalloc.start()
            found.mse(omega, found.solve(omega, RIDGE))
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return used

    small, large = peak(5000), peak(100_000)
    assert large < 1.1 * small + 1e5
    assert large < 64e6


def test_memory_of_making_moments_is_that_of_few_copies_of_the_rows():
    _, u, y = problem(30, 200_000, 2, 2)
    tracemalloc.start()
    moments_of(u, y, (40, 40))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6  # all products of polynomials at all points would be 2.6 GB


# The choice between the forms


def test_direct_sums_where_moments_cannot_serve():
    assert cheaper_form(10**9, 128, 4, 1, RIDGE) == "direct"
    assert cheaper_form(10**9, 128, 100, 1, RIDGE) == "direct"
    assert cheaper_form(10**9, 128, 1, 1, 0.0) == "direct"
    assert cheaper_form(10**9, 128, 1, 1, 1e-12) == "direct"


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
@pytest.mark.parametrize("K", [8, 32, 128, 512])
def test_few_rows_are_summed_directly_and_many_are_not(n_inputs, K):
    assert n_inputs == 1 or cheaper_form(20, K, n_inputs, 1, RIDGE) == "direct"
    assert cheaper_form(100_000, K, n_inputs, 1, RIDGE) == "gridded"
    forms = [cheaper_form(n, K, n_inputs, 1, RIDGE) for n in np.logspace(0, 9, 200).astype(int)]
    assert forms == sorted(forms)  # "direct" up to some number of rows, "gridded" from there on


def test_what_is_chosen_is_what_is_resolved():
    for n_rows, n_inputs in ((50, 1), (200_000, 1), (200_000, 3), (200_000, 4)):
        chosen = ARFF(n_features=64).resolve(n_rows, n_inputs)
        assert chosen.normal_equations == cheaper_form(n_rows, 64, n_inputs, 1, chosen.ridge)
    assert ARFF(n_features=64).resolve(200_000, 1).search_rows == 200_000
    assert ARFF(n_features=64).resolve(200_000, 4).search_rows == 25_000
    assert ARFF(n_features=64, search_rows=100).resolve(10**6, 1).normal_equations == cheaper_form(100, 64, 1, 1, RIDGE)


# Training


def transitions(seed, n, D):
    rng = np.random.default_rng(seed)
    x0 = rng.uniform(-2, 2, (n, D))
    x1 = x0 + 0.01 * 10 * np.sin(2 * x0) + 0.1 * (0.5 + 0.2 * x0) * rng.normal(size=(n, D))
    return Transitions.from_pairs(x0, x1, h=0.01)


ALGORITHMS = pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])


@ALGORITHMS
@pytest.mark.parametrize("learn", ["drift", "covariance"])
def test_a_ridge_that_moments_cannot_serve_is_refused(learn, refine):
    impossible = ARFF(normal_equations="gridded", ridge=1e-9)
    with pytest.raises(InputError, match="'gridded' needs a ridge of at least 1e-08, got 1e-09"):
        itofit.fit(transitions(0, 100, 1), **{learn: impossible}, refine=refine, rng=0)


def test_many_outputs_make_moments_dear():
    assert cheaper_form(4000, 64, 3, 1, RIDGE) == "gridded"
    assert cheaper_form(4000, 64, 3, 55, RIDGE) == "direct"


@ALGORITHMS
@pytest.mark.parametrize("learn", ["drift", "covariance"])
def test_more_than_three_inputs_are_refused_before_any_work(learn, refine):
    message = r"normal_equations='gridded' serves up to 3 inputs, the data have 4; use 'direct' or None"
    impossible = ARFF(normal_equations="gridded")
    with pytest.raises(InputError, match=message):
        impossible.resolve(1000, 4)
    at_once = ARFF(n_features=4, max_iterations=0)  # would warn: refusal comes before any training
    settings = {"drift": at_once, "covariance": at_once, learn: impossible}
    with pytest.raises(InputError, match=message):
        itofit.fit(transitions(0, 100, 4), **settings, refine=refine, rng=0)


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")
@ALGORITHMS
@pytest.mark.parametrize(("D", "delta"), [(1, 0.3), (1, 5.0), (2, 0.3), (2, 5.0), (3, 5.0)])
def test_both_forms_learn_the_same_functions(D, delta, refine):
    data, x = transitions(1, 600, D), np.random.default_rng(2).uniform(-2, 2, (300, D))
    values = []
    for form in ("direct", "gridded"):
        arff = ARFF(n_features=20, delta=delta / D, max_iterations=8, normal_equations=form)
        sde = itofit.fit(data, drift=arff, covariance=arff, refine=refine, rng=3)
        assert refine or sde.drift_function.training.parameters.normal_equations == form
        values.append((sde.drift(x), sde.covariance(x), sde.drift_function.training.acceptance))
    assert np.ptp(values[0][0]) > 1
    for direct, grid in zip(*values, strict=True):
        np.testing.assert_allclose(grid, direct, rtol=0, atol=1e-6 * np.abs(direct).max())


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning", "ignore::itofit.DataWarning")
@pytest.mark.parametrize("D", [1, 2, 3])
def test_frequencies_that_grow_too_large_start_a_direct_training(D):
    data, x = transitions(1, 600, D), np.random.default_rng(2).uniform(-2, 2, (300, D))
    wide = ARFF(n_features=20, delta=1e3, max_iterations=8)
    wide, narrow = replace(wide, normal_equations="gridded"), ARFF(n_features=8)
    sde = itofit.fit(data, drift=wide, covariance=narrow, refine=False, rng=3)
    assert sde.drift_function.training.parameters.normal_equations == "direct"
    assert sde.drift_function.training.n_iterations == 8
    assert np.isfinite(sde.drift(x)).all()


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")
@ALGORITHMS
def test_both_forms_learn_the_same_functions_from_a_part_of_the_rows(refine):
    data, x = transitions(4, 3000, 2), np.random.default_rng(5).uniform(-2, 2, (300, 2))
    values = []
    for form in ("direct", "gridded"):
        arff = ARFF(n_features=16, max_iterations=8, search_rows=700, normal_equations=form)
        # steps that are followed are drawn with probabilities that depend on the last digits
        options = {"drift": arff, "covariance": arff, "refine": refine, "correct_step": False}
        values.append(itofit.fit(data, rng=6, **options).drift(x))
    np.testing.assert_allclose(values[1], values[0], rtol=0, atol=1e-6 * np.abs(values[0]).max())


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning")
@pytest.mark.parametrize("levels", [2, 5])
def test_many_rows_on_a_lattice_of_points(levels):
    rng = np.random.default_rng(7)
    X = rng.integers(levels, size=(100_000, 2)).astype(float)
    truth = X[:, 0] - 0.5 * X[:, 1]
    y = truth + rng.normal(size=100_000)
    model = ARFFRegressor(n_features=128, delta=0.5, max_iterations=25, normal_equations="gridded", random_state=0)
    values = model.fit(X, y).predict(X[:1000])
    # False alarms: rarer than one in a million. Every point of the lattice has 4000 rows or more, whose mean is within
    # 0.11 of the truth; the ridge of 0.002 takes less than 0.1 of the largest value away.
    assert np.abs(values - truth[:1000]).max() < 0.25
