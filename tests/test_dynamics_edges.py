"""Answers of `itofit.dynamics` and `itofit.compare` where numbers are extreme, or variables are angles."""

import numpy as np
import pytest
from scipy import sparse

import itofit
from itofit import dynamics
from itofit.dynamics.elimination import Eliminated
from itofit.dynamics.resting import EVERY_POINT
from itofit.dynamics.solving import passage, stationary
from itofit.looking.compare.condition_test import Polynomials, products_of
from itofit.model.known import KnownSDE


def constant(size, d=1):
    return lambda x: np.broadcast_to(size * np.eye(d), (len(x), d, d))


class Ring(KnownSDE):
    """An equation whose first variable is an angle."""

    @property
    def periods(self):
        periods = np.zeros((2, self.n_inputs))
        periods[:, 0] = -np.pi, np.pi
        return periods


# Rates of very different size


@pytest.fixture(scope="module")
def chain():
    """Random rates (60, 60) over eight decades between cells that are not in order, and rates out of some cells."""
    rng = np.random.default_rng(0)
    rates = 10 ** rng.uniform(-8, 0, (60, 60)) * (rng.random((60, 60)) < 0.1) + np.diag(np.full(59, 1e-3), 1)
    rates += np.diag(np.full(59, 1e-3), -1)
    np.fill_diagonal(rates, 0.0)
    return rates, np.where(rng.random(60) < 0.1, 1e-4, 0.0)


def test_cells_are_eliminated_as_a_dense_solver_does(chain):
    rates, leaving = chain
    sources = np.random.default_rng(1).random((60, 2))
    found = Eliminated.of(sparse.csc_matrix(rates), leaving, sources).passage()
    expected = np.linalg.solve(np.diag(rates.sum(axis=1) + leaving) - rates, sources)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_elimination_finds_where_a_chain_rests(chain):
    rates, _ = chain
    p = Eliminated.of(sparse.csc_matrix(rates), np.zeros(60), np.zeros((60, 0))).stationary()
    np.testing.assert_allclose(p @ rates, p * rates.sum(axis=1), rtol=1e-10)
    assert p.sum() == pytest.approx(1)


def test_out_of_some_cells_there_is_no_way():
    rates = sparse.csc_matrix(np.array([[0, 1.0, 0, 0], [2.0, 0, 0, 0], [0, 0, 0, 1.0], [0, 0, 1.0, 0]]))
    L = rates - sparse.diags(np.asarray(rates.sum(axis=1)).ravel() + np.array([0.5, 0, 0, 0]))
    time = passage(L.tocsc(), np.array([0.5, 0, 0, 0]), np.ones((4, 1)), np.ones(4, dtype=bool))[:, 0]
    assert time[:2] == pytest.approx([3.0, 3.5])
    assert np.isinf(time[2:]).all()


def test_two_cells_that_hardly_exchange_rest_as_they_should():
    rates = np.array([[0, 1e-30], [3e-30, 0]])
    rates = np.block([[np.zeros((2, 2)), np.eye(2)], [np.eye(2), rates]])  # each with a neighbour it often visits
    p = stationary((sparse.csc_matrix(rates) - sparse.diags(rates.sum(axis=1))).tocsc())
    assert p == pytest.approx([0.375, 0.125, 0.375, 0.125])


def double_well(noise, tilt=0.0):
    return KnownSDE(f=lambda x: x - x**3 + tilt, sigma=constant(noise))


def exact_time(noise):
    """From −1 to 1 with a wall at −2.2, by quadrature."""
    x = np.linspace(-2.2, 1, 400_001)
    U, D = 2 * (x**4 / 4 - x**2 / 2) / noise**2, noise**2 / 2
    step = x[1] - x[0]
    inner = np.cumsum(np.exp(U.min() - U)) * step
    outer = x >= -1
    return float((np.exp(U[outer] - U.min()) * inner[outer]).sum() * step / D)


@pytest.mark.parametrize("noise", [0.5, 0.15, 0.12, 0.11, 0.08])
def test_times_over_high_barriers_have_all_their_digits(noise):
    time = dynamics.first_passage_time(double_well(noise), -1, 1, box=(-2.2, 2.2))
    assert float(time.value) == pytest.approx(exact_time(noise), rel=1e-3)
    assert (np.asarray(time.curve.value) >= 0).all()


def test_wells_behind_a_high_barrier_have_their_share():
    density = dynamics.stationary_density(double_well(0.11, tilt=0.02), box=(-2.2, 2.2))
    x, p = density.marginal("x")
    exact = np.exp(2 * (x**2 / 2 - x**4 / 4 + 0.02 * x) / 0.11**2)
    assert p[x < 0].sum() * (x[1] - x[0]) == pytest.approx(exact[x < 0].sum() / exact.sum(), rel=1e-3)


def test_times_over_high_barriers_in_two_dimensions():
    sde = KnownSDE(
        f=lambda x: np.stack([x[:, 0] - x[:, 0] ** 3, -x[:, 1]], axis=1),
        sigma=constant(0.15, 2),
        n_inputs=2,
        n_outputs=2,
    )
    time = dynamics.first_passage_time(sde, [-1, 0], {"x1": (1, None)}, box=[[-2.2, -1], [2.2, 1]], cells=(80, 8))
    assert float(time.value) == pytest.approx(exact_time(0.15), rel=0.2)


def test_a_relaxation_that_rounding_hides_is_said_to_be():
    times = dynamics.relaxation_times(double_well(0.1), n=2, box=(-2.2, 2.2))
    assert np.isinf(times.value[0])
    assert times.value[1] == pytest.approx(1.0, rel=0.05)
    assert "so slow that rounding does not tell" in str(times)
    with pytest.raises(itofit.InputError, match="times must be given"):
        dynamics.autocorrelation(double_well(0.1), box=(-2.2, 2.2))


# Points of rest


def test_a_flow_that_vanishes_rests_everywhere():
    points = dynamics.fixed_points(KnownSDE(f=lambda x: 0 * x, sigma=constant(1.0)), box=(-2, 2))
    assert len(points) == 0
    assert EVERY_POINT in str(points)


def test_slopes_without_real_part_are_no_saddle():
    turning = KnownSDE(
        f=lambda x: np.stack([x[:, 1], -x[:, 0]], axis=1), sigma=constant(1.0, 2), n_inputs=2, n_outputs=2
    )
    assert dynamics.fixed_points(turning, box=[[-2, -2], [2, 2.1]]).kinds == ("centre",)
    one_way = KnownSDE(
        f=lambda x: np.stack([-x[:, 0], 0 * x[:, 1]], axis=1), sigma=constant(1.0, 2), n_inputs=2, n_outputs=2
    )
    assert set(dynamics.fixed_points(one_way, box=[[-2, -2], [2, 2.1]]).kinds) == {"marginal"}


def test_barriers_on_a_ring_are_on_both_sides():
    found = dynamics.potential(Ring(f=lambda x: np.sin(x - 1) + 0.3, sigma=constant(1.0)))
    up, down = np.asarray(found.barriers.value)
    assert up - down == pytest.approx(0.3 * 2 * np.pi, rel=1e-4)  # the work of the constant force over a turn
    assert [round(top, 3) for _, top in found.ways] == [0.695, 0.695]
    low, high = (least for least, _ in found.ways)
    assert low - high == pytest.approx(2 * np.pi)


# Second order


@pytest.mark.parametrize("velocities", [(-6, 6), (-3, 6), (0.5, 5.5)])
def test_entropy_does_not_depend_on_the_range_of_velocities(velocities):
    driven = Ring(f=lambda x: 3 - x[:, 1:], sigma=constant(1.0), n_inputs=2)
    rate = dynamics.entropy_production(driven, box={"v": velocities}, cells=(40, 100))
    assert float(rate.value) == pytest.approx(18, rel=0.02)  # F² / D
    assert ("opposite velocity is outside the range" in str(rate)) == (velocities != (-6, 6))


# Comparisons


def test_both_waves_of_an_angle_are_compared():
    periods = np.array([[-np.pi], [np.pi]])
    basis = Polynomials(np.zeros(1), np.ones(1), periods, 2)
    x = np.linspace(-np.pi, np.pi, 50)[:, None]
    for wave in (np.sin(x), np.cos(x), np.sin(2 * x), np.cos(2 * x)):
        left = wave - basis(x) @ np.linalg.lstsq(basis(x), wave, rcond=None)[0]
        assert np.abs(left).max() < 1e-12


def test_products_of_angles_and_others_have_their_degree():
    assert products_of(np.array([False]), 2) == [(0,), (1,), (2,)]
    assert products_of(np.array([True]), 2) == [(0,), (1,), (2,), (3,), (4,)]
    assert len(products_of(np.array([False, False]), 3)) == 10
    assert products_of(np.array([True, False]), 1) == [(0, 0), (0, 1), (1, 0), (2, 0)]
