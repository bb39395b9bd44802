import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from itofit.waves import chebyshev
from itofit.waves.chebyshev import (
    cosine_sine_expansion,
    evaluate,
    expansion,
    moments,
    n_terms,
    nodes,
    polynomials,
    product_moments,
    tail,
    transform_moments,
    weights_at_nodes,
)

EPSILON = np.finfo(float).eps
ANGLES = np.linspace(0, np.pi, 1501)
SIZES = [(1,), (2,), (3,), (4,), (5,), (17,), (100,)]
SIZES += [(1, 1), (1, 4), (5, 1), (2, 3), (17, 6), (1, 1, 1), (2, 1, 5), (4, 3, 2), (7, 5, 6)]


def defining_polynomials(t, Q):
    return np.array([np.cos(m * np.arccos(t)) for m in range(Q)])


def products_of_polynomials(t, Q):
    """T_{m_1}(t_n1) ⋯ T_{m_D}(t_nD), shape (Q_1, ..., Q_D, n)."""
    product = np.ones(t.shape[1])
    for column, q in zip(reversed(t), reversed(Q), strict=True):
        T = defining_polynomials(column, q)
        product = T.reshape(q, *[1] * (product.ndim - 1), -1) * product
    return product


def points(rng, D, n):
    """Random ones among which are the corners and the middle."""
    t = rng.uniform(-1, 1, (D, n))
    t[:, : n // 4] = rng.choice([-1.0, 0.0, 1.0], (D, n // 4))
    return t


def plane_waves(theta, t):
    """exp(iθ_k·t_n), shape (K, n)."""
    return np.exp(1j * (theta @ t))


# Polynomials


@pytest.mark.parametrize("Q", [1, 2, 3, 4, 5, 8, 9, 17, 100, 1000])
def test_polynomials_are_cosines_of_multiples_of_the_angle(Q):
    inner = np.linspace(-0.9, 0.9, 1001)
    m = np.arange(Q)[:, None]
    assert (np.abs(polynomials(inner, Q) - defining_polynomials(inner, Q)) <= 20 * EPSILON * (1 + m)).all()
    outer = np.concatenate([1 - np.logspace(-15, -1, 300), -1 + np.logspace(-15, -1, 300)])
    # there T_m has slopes up to m², which is what rounding is multiplied with
    assert (np.abs(polynomials(outer, Q) - defining_polynomials(outer, Q)) <= 10 * EPSILON * (1 + m**2)).all()


def test_polynomials_at_the_ends_and_in_the_middle_are_exact():
    T = polynomials(np.array([1.0, -1.0, 0.0]), 50)
    m = np.arange(50)
    np.testing.assert_array_equal(T[:, 0], np.ones(50))
    np.testing.assert_array_equal(T[:, 1], (-1.0) ** m)
    np.testing.assert_array_equal(T[:, 2], np.where(m % 2, 0.0, (-1.0) ** (m // 2)))


def test_a_polynomial_of_a_polynomial_is_a_polynomial():
    t = np.linspace(-1, 1, 201)
    np.testing.assert_allclose(polynomials(polynomials(t, 8)[7], 5)[4], polynomials(t, 29)[28], rtol=0, atol=1e-12)


def test_polynomials_fill_the_array_they_are_given():
    out = np.full((9, 7), np.nan)
    t = np.linspace(-1, 1, 7)
    assert polynomials(t, 9, out) is out
    np.testing.assert_array_equal(out, polynomials(t, 9))
    assert polynomials(np.empty(0), 3).shape == (3, 0)


# Expansion of plane waves


def truncation_error(theta, Q):
    """Largest error on [−1, 1] of the Jacobi-Anger sum of Q terms, at points whose polynomials are cosines."""
    m = np.arange(Q)
    c = np.where(m == 0, 1, 2) * 1j ** (m % 4) * scipy.special.jv(m, theta)
    return np.abs(np.exp(1j * theta * np.cos(ANGLES)) - np.cos(np.outer(ANGLES, m)) @ c).max()


@pytest.mark.parametrize("theta", [0.0, 1e-9, 1e-3, 0.3, 1.0, 2.5, 10.0, 33.3, 100.0, 250.0, 500.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-10, 1e-13, 1e-15])
def test_as_many_terms_as_are_needed(theta, tolerance):
    Q = n_terms(theta, tolerance)
    left_out = 2 * np.abs(scipy.special.jv(np.arange(Q, Q + 300), theta))
    assert left_out.sum() <= tolerance
    assert truncation_error(theta, Q) <= tolerance + 5 * EPSILON * (2 + theta)  # rounding here


@pytest.mark.parametrize("theta", [0.3, 1.0, 2.5, 10.0, 33.3, 100.0, 250.0, 500.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-10])
def test_three_terms_fewer_are_too_few(theta, tolerance):
    assert truncation_error(theta, n_terms(theta, tolerance) - 3) > tolerance


def test_the_constant_needs_one_term():
    assert n_terms(0.0, 1e-15) == 1


def test_more_terms_for_higher_frequencies_and_lower_tolerances():
    theta = np.linspace(0, 500, 400)
    for tolerance in (1e-3, 1e-10, 1e-15):
        counts = [n_terms(value, tolerance) for value in theta]
        assert counts == sorted(counts)
        assert all(
            more >= fewer for more, fewer in zip([n_terms(t, tolerance / 10) for t in theta], counts, strict=True)
        )


@pytest.mark.parametrize("theta", [0.0, 0.5, 7.0, 80.0])
def test_the_tail_bounds_what_polynomials_from_there_on_contribute(theta):
    rest = tail(theta, 1e-12)
    everything = 2 * np.abs(scipy.special.jv(np.arange(len(rest) + 200), theta))
    expected = np.minimum(np.cumsum(everything[::-1])[::-1][: len(rest)], 1.0)
    np.testing.assert_allclose(rest, expected, rtol=1e-9)
    assert (rest >= 1e-12).all()


@pytest.mark.parametrize("reach", [0.0, 0.7, 20.0, 150.0])
def test_expansions_are_bessel_functions_and_sum_to_plane_waves(reach):
    theta = np.array([-1.0, -0.4, 0.0, 0.2, 0.9, 1.0]) * reach
    Q, m = n_terms(reach, 1e-14), np.arange(n_terms(reach, 1e-14))
    c = expansion(theta, Q)
    assert c.shape == (6, Q)
    bessel = np.where(m == 0, 1, 2) * 1j ** (m % 4) * scipy.special.jv(m, theta[:, None])
    np.testing.assert_allclose(c, bessel, rtol=0, atol=1e-13)
    t = np.cos(ANGLES)
    sums = c @ np.cos(np.outer(m, ANGLES))
    np.testing.assert_allclose(sums, np.exp(1j * theta[:, None] * t), rtol=0, atol=1e-12)


def test_even_coefficients_are_those_of_cosines_and_odd_ones_of_sines():
    theta, Q = np.array([-9.0, 0.5, 8.0]), n_terms(9.0, 1e-14)
    c, T, t = cosine_sine_expansion(theta, Q), np.cos(np.outer(np.arange(Q), ANGLES)), np.cos(ANGLES)
    np.testing.assert_allclose(c[:, ::2] @ T[::2], np.cos(theta[:, None] * t), rtol=0, atol=1e-13)
    np.testing.assert_allclose(c[:, 1::2] @ T[1::2], np.sin(theta[:, None] * t), rtol=0, atol=1e-13)


# Nodes that stand for data


@pytest.mark.parametrize("Q", [1, 2, 5, 64])
def test_nodes_are_the_zeros_of_the_next_polynomial(Q):
    assert len(set(nodes(Q))) == Q
    assert np.abs(defining_polynomials(nodes(Q), Q + 1)[Q]).max() < 1e-13
    assert np.abs(nodes(Q)).max() < 1


@pytest.mark.parametrize("reach", [(0.0,), (3.0,), (90.0,), (4.0, 30.0), (25.0, 0.0), (2.0, 9.0, 0.5)])
def test_weights_at_nodes_stand_for_the_data_up_to_the_highest_frequency(reach):
    rng = np.random.default_rng(0)
    D = len(reach)
    t, strengths = points(rng, D, 60), rng.normal(size=(2, 60)) * [[1.0], [1e6]]
    Q = tuple(n_terms(side, 1e-12) for side in reach)
    mu = product_moments(t, strengths, tuple(q + extra for extra, q in enumerate(Q, start=1)))
    weights = weights_at_nodes(mu, Q)
    assert weights.shape == (2, *Q)

    theta = rng.uniform(-1, 1, (50, D)) * reach
    theta[:4] = np.array([[1.0], [-1.0], [0.0], [0.5]]) * reach
    grid = np.stack(np.meshgrid(*(nodes(q) for q in Q), indexing="ij")).reshape(D, -1)
    sums = weights.reshape(2, -1) @ plane_waves(theta, grid).T
    size = np.abs(strengths).sum(axis=1, keepdims=True)
    assert (np.abs(sums - strengths @ plane_waves(theta, t).T) / size).max() < 1e-11


def test_weights_at_nodes_have_the_moments_of_the_data():
    rng = np.random.default_rng(1)
    t, strengths, Q = points(rng, 2, 40), rng.normal(size=(3, 40)), (6, 9)
    mu = product_moments(t, strengths, Q)
    grid = np.stack(np.meshgrid(*(nodes(q) for q in Q), indexing="ij")).reshape(2, -1)
    again = product_moments(grid, weights_at_nodes(mu, Q).reshape(3, -1), Q)
    np.testing.assert_allclose(again, mu, rtol=0, atol=1e-12)


# Moments


@pytest.mark.parametrize("form", [product_moments, transform_moments, moments])
@pytest.mark.parametrize("n", [0, 1, 37])
@pytest.mark.parametrize("Q", SIZES, ids=str)
def test_moments_equal_the_defining_sum(form, n, Q):
    rng = np.random.default_rng(n)
    t, strengths = points(rng, len(Q), n), rng.normal(size=(3, n)) * [[1.0], [1e-8], [1e8]]
    found = form(t, strengths, Q)
    assert found.shape == (3, *Q)
    expected = np.tensordot(strengths, products_of_polynomials(t, Q), axes=(1, -1))
    size = np.abs(strengths).sum(axis=1).reshape(3, *[1] * len(Q))
    assert (np.abs(found - expected) <= 1e-12 * size).all()


@pytest.mark.parametrize("form", [product_moments, transform_moments])
@pytest.mark.parametrize("corner", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("Q", [(50,), (9, 5), (4, 3, 6)], ids=str)
def test_moments_of_points_that_are_all_the_same(form, corner, Q):
    t, strengths = np.full((len(Q), 6), corner), np.arange(6.0)[None]
    expected = 15 * products_of_polynomials(t[:, :1], Q)[None, ..., 0]
    np.testing.assert_allclose(form(t, strengths, Q), expected, rtol=0, atol=15e-12)


@pytest.mark.parametrize("Q", [(23,), (12, 7), (5, 4, 3)], ids=str)
@pytest.mark.parametrize("block", [64, 1000])
def test_blocks_do_not_show_in_moments_and_values(Q, block, monkeypatch):
    rng = np.random.default_rng(2)
    n = 5 * 512 + 77  # blocks have at least 512 points
    t, strengths, c = points(rng, len(Q), n), rng.normal(size=(2, n)), rng.normal(size=(2, *Q))
    monkeypatch.setattr(chebyshev, "BLOCK_NUMBERS", block)
    T = products_of_polynomials(t, Q)
    expected = np.tensordot(strengths, T, axes=(1, -1))
    np.testing.assert_allclose(product_moments(t, strengths, Q), expected, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(evaluate(c, t), np.tensordot(c, T, axes=len(Q)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", [product_moments, transform_moments])
def test_moments_of_points_that_rounding_put_outside_of_the_box(form):
    t = np.array([[1 + 2 * EPSILON, -1 - 2 * EPSILON, 0.3]])
    expected = defining_polynomials(np.clip(t[0], -1, 1), 9).sum(axis=1)
    np.testing.assert_allclose(form(t, np.ones((1, 3)), (9,))[0], expected, rtol=0, atol=1e-12)


def test_the_cheaper_way_to_moments_is_taken_and_both_agree(monkeypatch):
    rng = np.random.default_rng(3)
    t, strengths = points(rng, 2, 20_000), rng.normal(size=(2, 20_000))
    taken = []
    for form in (product_moments, transform_moments):
        monkeypatch.setattr(chebyshev, form.__name__, lambda *data, form=form: taken.append(form) or form(*data))
    few, many = moments(t, strengths, (4, 5)), moments(t, strengths, (90, 90))
    assert taken == [product_moments, transform_moments]
    np.testing.assert_allclose(many[:, :4, :5], few, rtol=0, atol=1e-12 * 20_000)


def test_moments_add_up_over_sets_of_points():
    rng = np.random.default_rng(4)
    t, strengths, Q = points(rng, 2, 50), rng.normal(size=(1, 50)), (8, 6)
    parts = [moments(t[:, rows], strengths[:, rows], Q) for rows in (slice(0, 1), slice(1, 30), slice(30, 50))]
    np.testing.assert_allclose(sum(parts), moments(t, strengths, Q), rtol=0, atol=1e-12)


def test_mirrored_points_have_moments_of_alternating_sign():
    rng = np.random.default_rng(5)
    t, strengths = points(rng, 1, 300), rng.normal(size=(1, 300))
    for form in (product_moments, transform_moments):
        np.testing.assert_allclose(
            form(-t, strengths, (40,)), form(t, strengths, (40,)) * (-1.0) ** np.arange(40), rtol=0, atol=1e-10
        )


# Values of sums of polynomials


@pytest.mark.parametrize("Q", SIZES, ids=str)
@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 41])
def test_values_equal_the_defining_sum(Q, p, n):
    rng = np.random.default_rng(p)
    t, c = points(rng, len(Q), n), rng.normal(size=(p, *Q))
    before = c.copy()
    values = evaluate(c, t)
    assert values.shape == (p, n)
    np.testing.assert_allclose(
        values, np.tensordot(c, products_of_polynomials(t, Q), axes=len(Q)), rtol=0, atol=1e-12 * np.abs(c).sum()
    )
    np.testing.assert_array_equal(c, before)  # coefficients are left as they were


@settings(max_examples=30, deadline=None)
@given(Q=st.lists(st.integers(1, 9), min_size=1, max_size=3), n=st.integers(1, 30), seed=st.integers(0, 999))
def test_evaluation_is_the_adjoint_of_moments(Q, n, seed):
    rng = np.random.default_rng(seed)
    t, strengths, c = points(rng, len(Q), n), rng.normal(size=(1, n)), rng.normal(size=(1, *Q))
    product = np.vdot(moments(t, strengths, Q), c)
    size = np.abs(strengths).sum() * np.abs(c).sum()
    assert np.vdot(strengths, evaluate(c, t)) == pytest.approx(product, abs=1e-12 * size)
