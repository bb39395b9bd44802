import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from itofit import ARFF, FourierSeries, Transitions, fit
from itofit.data import rows
from itofit.data.rows import LEFT_OUT, TRAIN, VALIDATION, ArrayRows, Split, column_range, column_sum, slices
from itofit.waves import series as series_module
from itofit.waves.scaling import Scaling
from itofit.waves.series import direct_sum, real_sum

EPSILON = np.finfo(float).eps


def all_parts(split):
    n_blocks = len(list(slices(split.n_rows)))
    return np.concatenate([split.parts(block) for block in range(n_blocks)])


# Blocks


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 35])
def test_blocks_are_all_rows_in_order(n, monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 10)
    x, y = np.arange(2.0 * n).reshape(n, 2), np.arange(3.0 * n).reshape(n, 3)
    data = ArrayRows(x, y)
    assert (len(data), data.in_memory) == (n, True)
    for _ in range(2):  # any number of passes
        blocks = list(data.blocks())
        assert [len(block) for block in blocks] == [10] * (n // 10) + ([n % 10] if n % 10 else [])
        np.testing.assert_array_equal(np.concatenate([x[:0], *(block.x for block in blocks)]), x)
        np.testing.assert_array_equal(np.concatenate([y[:0], *(block.y for block in blocks)]), y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_ranges_and_sums_of_columns(n, order):
    x = np.asarray(np.random.default_rng(n).normal(size=(n, 3)) * [1.0, 1e-9, 1e9], order=order)
    low, high = column_range(x)
    np.testing.assert_array_equal(low, x.min(axis=0))
    np.testing.assert_array_equal(high, x.max(axis=0))
    assert (np.abs(column_sum(x) - x.sum(axis=0)) <= 1e-13 * np.abs(x).sum(axis=0)).all()


# The split into parts


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(2, 60), st.integers(1, 25), st.integers(0, 2**63 - 1))
def test_parts_have_exactly_their_sizes(data, n, block_rows, seed):
    n_searched = data.draw(st.integers(2, n), label="n_searched")
    n_held_out = data.draw(st.integers(1, n_searched - 1), label="n_held_out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PASS_ROWS", block_rows)
        part = all_parts(Split(seed, n, n_searched, n_held_out))
    assert part.shape == (n,)
    counts = [int((part == value).sum()) for value in (LEFT_OUT, TRAIN, VALIDATION)]
    assert counts == [n - n_searched, n_searched - n_held_out, n_held_out]


def test_a_split_of_many_blocks_with_few_rows_to_search(monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 10)
    part = all_parts(Split(0, 305, 26, 3))  # as search_rows=26 of eight million rows
    assert [(part == TRAIN).sum(), (part == VALIDATION).sum()] == [23, 3]


def test_full_blocks_of_the_true_size():
    n = 2 * rows.PASS_ROWS + 12_345
    part = all_parts(Split(5, n, n, n // 10))
    assert len(part) == n
    assert (part == VALIDATION).sum() == n // 10
    assert not (part == LEFT_OUT).any()


def test_a_part_is_a_function_of_seed_and_index(monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 50)
    split = Split(3, 220, 120, 30)
    whole = all_parts(split)
    for block in (4, 0, 2, 2):  # in any order, again and again, from another object
        expected = whole[50 * block : 50 * block + 50]
        np.testing.assert_array_equal(split.parts(block), expected)
        np.testing.assert_array_equal(Split(3, 220, 120, 30).parts(block), expected)
    np.random.default_rng(0).random(7)
    np.testing.assert_array_equal(all_parts(split), whole)


def test_seeds_and_blocks_differ(monkeypatch):
    monkeypatch.setattr(rows, "PASS_ROWS", 100)
    # two draws of 25 out of 100 are the same with a probability of 4e-24
    patterns = {Split(seed, 400, 400, 100).parts(block).tobytes() for seed in range(5) for block in range(4)}
    assert len(patterns) == 20


@settings(max_examples=50, deadline=None)
@given(n=st.integers(200, 2000), share=st.floats(0.05, 0.9), searched=st.floats(0.3, 1.0), seed=st.integers(0, 99))
def test_every_block_has_its_share(n, share, searched, seed):
    n_searched = max(int(searched * n), 2)
    n_held_out = max(int(share * n_searched), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PASS_ROWS", 90)
        split = Split(seed, n, n_searched, n_held_out)
        for block, rows_of_block in enumerate(slices(n)):
            part, size = split.parts(block), rows_of_block.stop - rows_of_block.start
            assert abs((part == VALIDATION).sum() - n_held_out * size / n) < 2
            assert abs((part != LEFT_OUT).sum() - n_searched * size / n) < 2


@pytest.mark.parametrize("value", [TRAIN, VALIDATION])
def test_within_a_block_every_row_is_as_likely(value):
    # False alarms: one in a million for each value.
    n, n_seeds, n_searched, n_held_out = 24, 4000, 15, 6
    counts = np.zeros(n)
    for seed in range(n_seeds):
        counts += Split(seed, n, n_searched, n_held_out).parts(0) == value
    p = (n_held_out if value == VALIDATION else n_searched - n_held_out) / n
    # counts of a fixed number of rows drawn without replacement: n − 1 degrees of freedom
    statistic = (n - 1) / n * ((counts - n_seeds * p) ** 2).sum() / (n_seeds * p * (1 - p))
    assert scipy.stats.chi2.isf(1 - 5e-7, n - 1) < statistic < scipy.stats.chi2.isf(5e-7, n - 1)


def test_neighbours_are_held_out_independently():
    # False alarms: one in a million.
    n, h, n_seeds = 200, 60, 500
    pairs = 0
    for seed in range(n_seeds):
        out = Split(seed, n, n, h).parts(0) == VALIDATION
        pairs += int((out[1:] & out[:-1]).sum())
    # of h rows among n, all but the first of each run are pairs; the number of runs is hypergeometric
    runs = scipy.stats.hypergeom(n, n - h + 1, h)
    expected, deviation = n_seeds * (h - runs.mean()), np.sqrt(n_seeds) * runs.std()
    assert abs(pairs - expected) < scipy.stats.norm.isf(5e-7) * deviation


# Scaling to a box of side one


@settings(max_examples=100, deadline=None)
@given(
    size=st.floats(-20, 20),
    ratio=st.floats(0, 16),
    n=st.integers(2, 30),
    seed=st.integers(0, 999),
)
def test_scaled_points_are_within_the_box_however_far_from_zero_they_were(size, ratio, n, seed):
    rng = np.random.default_rng(seed)
    x = 10**size * (1 + rng.random((n, 2)) * [10**-ratio, 1])  # a range of 10^ratio times less than the values
    u, y = Scaling.of(*column_range(x), np.array([3.0]))(x, np.full((n, 1), 5.0))
    assert np.abs(u).max() <= 0.5
    np.testing.assert_array_equal(y, 2.0)
    constant = column_range(x)[0] == column_range(x)[1]
    assert (np.ptp(u, axis=0) >= np.where(constant, 0.0, 0.5)).all()


@pytest.mark.filterwarnings("ignore::itofit.ConvergenceWarning", "ignore::itofit.DataWarning")
@pytest.mark.parametrize("refine", [True, False], ids=["automatic", "algorithm 2"])
def test_blocks_of_data_far_from_zero_are_the_data_in_memory(refine):
    rng = np.random.default_rng(10)
    x0 = 1e9 + rng.random((2000, 1))
    x1 = x0 + rng.normal(size=(2000, 1))
    quick = ARFF(n_features=8, max_iterations=3, normal_equations="gridded")
    whole = fit(Transitions.from_pairs(x0, x1, h=0.1), drift=quick, covariance=quick, refine=refine, rng=0)
    blocks = [(x0[:700], x1[:700]), (x0[700:], x1[700:])]
    cut = fit(Transitions.from_blocks(blocks, h=0.1), drift=quick, covariance=quick, refine=refine, rng=0)
    np.testing.assert_allclose(cut.drift(x0[:50]), whole.drift(x0[:50]), rtol=0, atol=1e-9)


# Series at many points, by polynomials


@pytest.fixture
def by_polynomials(monkeypatch):
    """The numbers of polynomials of every evaluation that was made by them."""
    sizes = []
    evaluate = series_module.evaluate

    def spy(coefficients, t):
        sizes.append(coefficients.shape[1:])
        return evaluate(coefficients, t)

    monkeypatch.setattr(series_module, "evaluate", spy)
    return sizes


def series(seed, K, m, reach, p=2):
    """Frequencies up to ±reach; amplitudes of different sizes in the outputs, one of which is the highest frequency."""
    rng = np.random.default_rng(seed)
    omega = rng.uniform(-1, 1, (K, m)) * reach
    omega[:2] = np.array([[1.0], [-1.0]]) * reach
    beta = (rng.normal(size=(K, p)) + 1j * rng.normal(size=(K, p))) * np.logspace(0, 6, p)
    beta[1:, -1] = 0
    return omega, beta


def box_points(seed, n, m, half=0.5):
    """Points in a box, many close to its faces and some in its corners."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-half, half, (n, m))
    near = rng.random((n, m)) < 0.2
    u[near] = np.sign(u[near]) * half * (1 - 10 ** rng.uniform(-16, -2, near.sum()))
    u[:2] = [[half] * m, [-half] * m]
    return u


def error(values, omega, beta, u, n_points=300):
    """Largest error relative to Σ_k|β̂_k| of each output; the sums in extended precision, at some of the points."""
    chosen = np.unique(np.linspace(0, len(u) - 1, n_points).astype(int))
    wide = [array.astype(np.longdouble) for array in (omega, u[chosen], beta.real, beta.imag)]
    phase = wide[1] @ wide[0].T
    exact = np.cos(phase) @ wide[2] - np.sin(phase) @ wide[3]
    return float((np.abs(values[chosen] - exact) / np.abs(beta).sum(axis=0)).max())


@pytest.mark.parametrize(
    ("m", "K", "reach"),
    [(1, 40, 0.0), (1, 40, 1.0), (1, 64, 20.0), (1, 128, 75.0), (2, 400, 3.0), (2, 500, 20.0), (3, 900, 3.0)],
)
def test_many_points_as_accurately_as_feature_by_feature(m, K, reach, by_polynomials):
    (omega, beta), u = series(m, K, m, reach), box_points(m, 6000, m)
    values = real_sum(omega, beta, u)
    assert by_polynomials
    assert values.shape == (6000, 2)
    assert error(values, omega, beta, u) < 1e-13
    assert (np.abs(values - direct_sum(omega, beta, u)) / np.abs(beta).sum(axis=0)).max() < 1e-13


@pytest.mark.parametrize("reach", [300.0, 1000.0])
def test_high_frequencies_lose_no_more_than_the_rounding_of_their_phases(reach):
    (omega, beta), u = series(0, int(reach / 4), 1, reach, p=1), box_points(0, 6000, 1)
    assert error(real_sum(omega, beta, u), omega[:1], beta[:1], u, n_points=6000) < 1e-13 + 2 * EPSILON * reach


@pytest.mark.parametrize("half", [1e-12, 1e-3, 12.0])
def test_points_far_outside_of_the_data_or_close_together(half, by_polynomials):
    omega, beta = series(1, 100, 1, 3.0)
    u = 7.0 + box_points(1, 6000, 1, half)
    values = real_sum(omega, beta, u)
    assert by_polynomials
    assert error(values, omega, beta, u) < 2e-13


def test_an_outlier_is_not_paid_for_by_the_others(by_polynomials):
    omega, beta = series(2, 30, 2, 5.0)
    u = box_points(2, 6000, 2)
    u[17, 1] = 1e6
    np.testing.assert_array_equal(real_sum(omega, beta, u), direct_sum(omega, beta, u))
    assert not by_polynomials


@pytest.mark.parametrize("size", [1e100, 1e300])
def test_any_range_of_points(size, by_polynomials):
    omega, beta = series(3, 30, 2, 5.0)
    omega[:, 1] = 0.0
    u = box_points(3, 6000, 2)
    u[:, 1] = size * np.linspace(-1, 1, 6000)
    values = real_sum(omega, beta, u)
    expected = direct_sum(omega[:, :1], beta, u[:, :1])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13 * np.abs(beta).sum())


@pytest.mark.parametrize("value", [0.0, 3.3, -1e3])
def test_a_constant_column(value, by_polynomials):
    omega, beta = series(4, 300, 2, 4.0)
    u = box_points(4, 6000, 2)
    u[:, 1] = value
    values = real_sum(omega, beta, u)
    assert by_polynomials[0][1] == 1
    assert error(values, omega, beta, u) < 1e-13 + 10 * EPSILON * abs(value)


def test_one_point_repeated(by_polynomials):
    omega, beta = series(5, 60, 3, 4.0)
    u = np.tile([[0.3, -0.2, 0.1]], (5000, 1))
    values = real_sum(omega, beta, u)
    assert by_polynomials[0] == (1, 1, 1)
    assert error(values, omega, beta, u) < 1e-14


def test_few_points_are_summed_directly(by_polynomials):
    omega, beta = series(6, 300, 1, 1.0)
    real_sum(omega, beta, box_points(6, 100, 1))
    assert not by_polynomials


def test_more_than_three_inputs():
    (omega, beta), u = series(6, 300, 5, 0.01), box_points(6, 6000, 5)
    assert error(real_sum(omega, beta, u), omega, beta, u) < 1e-13


@settings(max_examples=30, deadline=None)
@given(
    m=st.integers(1, 3),
    K=st.integers(1, 40),
    reach=st.floats(0, 30),
    p=st.integers(1, 4),
    n=st.integers(4096, 5000),
    half=st.floats(0, 3),
    seed=st.integers(0, 999),
)
def test_whichever_way_is_taken_the_sum_is_the_same(m, K, reach, p, n, half, seed):
    (omega, beta), u = series(seed, max(K, 2), m, reach, p), box_points(seed, n, m, half)
    difference = np.abs(real_sum(omega, beta, u) - direct_sum(omega, beta, u))
    assert (difference / np.abs(beta).sum(axis=0)).max() < 1e-13


def test_values_do_not_depend_on_the_threads(by_polynomials, all_threads):
    for m, K, reach in ((1, 128, 120.0), (1, 400, 500.0), (2, 500, 20.0), (3, 900, 3.0)):
        (omega, beta), u = series(7, K, m, reach), box_points(7, 20_000, m)
        on_all = real_sum(omega, beta, u)
        with threadpool_limits(1):
            np.testing.assert_array_equal(real_sum(omega, beta, u), on_all)
    assert by_polynomials


def test_derivatives_at_many_points_equal_those_at_few(by_polynomials):
    omega, beta = series(8, 300, 2, 4.0)
    wave = FourierSeries(omega=omega, beta=beta, shift=np.zeros(2), scale=np.ones(2), offset=np.zeros(2))
    x = box_points(8, 6000, 2)
    size = np.abs(beta).sum()
    for many, few in ((wave.jacobian(x), wave.jacobian(x[:50])), (wave.hessian(x), wave.hessian(x[:50]))):
        np.testing.assert_allclose(many[:50], few, rtol=0, atol=1e-13 * 16 * size)
    assert by_polynomials


def test_memory_is_that_of_the_values(by_polynomials):
    (omega, beta), u = series(9, 256, 2, 3.0), box_points(9, 200_000, 2)
    tracemalloc.start()
    values = real_sum(omega, beta, u)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert by_polynomials
    assert peak < values.nbytes + 32e6  # S alone would be 800 MB
