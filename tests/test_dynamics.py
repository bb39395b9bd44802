"""Answers from equations: against closed forms at true functions, what the scheme promises, and what it refuses."""

import warnings

import matplotlib as mpl
import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

import itofit
from itofit import ExtrapolationWarning, InputError, Transitions, dynamics
from itofit.dynamics.answers import Edge
from itofit.dynamics.chain import bernoulli, jumps_of
from itofit.dynamics.mesh import Mesh, mesh_of, positive_steps
from itofit.dynamics.motion import motion_of
from itofit.dynamics.solving import correlations, slowest, stationary
from itofit.dynamics.zero_lines import zero_lines
from itofit.looking.plot.portraits import _beside_observed
from itofit.model.known import KnownSDE

mpl.use("Agg")
S = 0.7


def constant(root):
    return lambda x: np.broadcast_to(root, (len(x), *np.shape(root)))


def double_well(unit=1.0, time=1.0):
    """dx = (x − x³) dt + 0.7 dW, with x measured in other units and time in others."""
    return KnownSDE(
        f=lambda x: unit / time * (x / unit - (x / unit) ** 3), sigma=constant(np.array([[S * unit / np.sqrt(time)]]))
    )


def linear(A, Sigma):
    """An Ornstein-Uhlenbeck process, and its stationary covariance."""
    d = len(A)
    sde = KnownSDE(f=lambda x: x @ A.T, sigma=constant(np.linalg.cholesky(Sigma)), n_inputs=d, n_outputs=d)
    return sde, solve_continuous_lyapunov(A, -Sigma)


def two_wells(x):
    """The double well, and a variable of its own."""
    return np.stack([x[:, 0] - x[:, 0] ** 3, -x[:, 1]], axis=1)


def box_of(covariance, n=4.5):
    sd = np.sqrt(np.diagonal(covariance))
    return np.stack([-n * sd, n * sd])


PLANE = np.array([[-1.0, 1.5], [-1.0, -2.0]]), np.array([[0.9, -0.3], [-0.3, 0.6]])
SPACE = (
    np.array([[-1.0, 1.5, 0.5], [-1.0, -2.0, 0.0], [0.0, 0.7, -3.0]]),
    np.array([[0.9, -0.3, -0.2], [-0.3, 0.6, 0.2], [-0.2, 0.2, 0.7]]),
)


class Ring(KnownSDE):
    """Periodic in its first variable, from 0 to 2π."""

    @property
    def periods(self):
        return np.array([[0.0] * self.n_inputs, [2 * np.pi] + [0.0] * (self.n_inputs - 1)])


# The scheme


@pytest.mark.parametrize("s", [1, 2, 3])
def test_any_noise_is_a_sum_of_positive_steps(s):
    """Also where it is nearly singular, in directions between those of the grid."""
    rng = np.random.default_rng(0)
    R = rng.normal(size=(300, s, s)) * np.logspace(0, -0.7, s)
    D = R @ R.swapaxes(1, 2)
    v, w = positive_steps(D)
    assert (w >= 0).all()
    assert v.dtype.kind == "i"
    assert np.abs(v).max() <= 10
    made = np.einsum("kn,kni,knj->nij", w, v, v)
    np.testing.assert_allclose(np.diagonal(made, axis1=1, axis2=2), np.diagonal(D, axis1=1, axis2=2), rtol=1e-6)
    exact = np.isclose(made, D, rtol=1e-6, atol=1e-9 * D.max()).all(axis=(1, 2))
    assert exact.mean() > 0.75  # elsewhere correlations are weaker
    assert (np.abs(made) <= np.abs(D) * (1 + 1e-6) + 1e-9).all()


def test_bernoulli_is_continuous_and_keeps_the_drift():
    z = np.array([-800.0, -30.0, -1e-5, -1e-9, 0.0, 1e-6, 1e-5, 0.3, 30.0, 800.0])
    F = bernoulli(z)
    assert (F >= 0).all()
    np.testing.assert_allclose(bernoulli(-z[1:-1]) - F[1:-1], z[1:-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("s", [1, 2, 3])
def test_rates_are_not_negative_and_probability_is_conserved(s, moments):
    rng = np.random.default_rng(s)
    A, R = rng.normal(size=(s, s)), rng.normal(size=(s, s))
    sde = KnownSDE(
        f=lambda x: 30 * np.sin(x @ A.T),
        sigma=lambda x: (1 + x[:, :1] ** 2)[:, :, None] * (R + 0.1 * np.eye(s)),
        n_inputs=s,
        n_outputs=s,
    )
    motion = motion_of(sde, box=np.array([[-2.0] * s, [2.0] * s]))
    mesh = mesh_of(motion, 9)
    jumps = jumps_of(mesh, *motion.flow_and_noise(mesh.centres), underdamped=False, moments=moments)
    L = jumps.matrix()
    assert (jumps.rate >= 0).all()
    assert np.abs(L @ np.ones(mesh.n)).max() < 1e-9 * -L.diagonal().min()
    p = stationary(L)
    assert (p >= 0).all()
    assert np.abs(L.T @ p).max() < 1e-9 * -L.diagonal().min()


def test_the_chain_moves_with_the_mean_and_variance_of_the_equation():
    A, Sigma = PLANE
    sde, C = linear(A, Sigma)
    motion = motion_of(sde, box=box_of(C, 2))
    mesh = mesh_of(motion, 60)
    jumps = jumps_of(mesh, *motion.flow_and_noise(mesh.centres), underdamped=False, moments=True)
    inner = ~mesh.edge_layer(0.1)
    step = jumps.step * mesh.size
    mean = np.einsum("jn,jni->ni", jumps.rate, step)[inner]
    square = np.einsum("jn,jni,jnk->nik", jumps.rate, step, step)[inner]
    np.testing.assert_allclose(mean, mesh.centres[inner] @ A.T, atol=1e-9)
    np.testing.assert_allclose(square, np.broadcast_to(Sigma, square.shape), rtol=1e-9)


def test_errors_fall_with_the_square_of_the_size_of_a_cell():
    """Of densities and currents of a turning linear system."""
    sde, C = linear(*PLANE)
    motion = motion_of(sde, box=box_of(C))
    errors = []
    for cells in (24, 48):
        mesh = mesh_of(motion, cells)
        p = stationary(jumps_of(mesh, *motion.flow_and_noise(mesh.centres), underdamped=False).matrix())
        exact = np.exp(-0.5 * np.einsum("ni,ij,nj->n", mesh.centres, np.linalg.inv(C), mesh.centres))
        errors.append(0.5 * np.abs(p - exact / exact.sum()).sum())
    assert 3.5 < errors[0] / errors[1] < 4.6


def test_interpolation_is_exact_for_linear_functions_and_on_rings():
    mesh = Mesh(np.array([[0.0, -1.0], [2 * np.pi, 1.0]]), (200, 5), (True, False))
    at = np.array([[0.001, 0.3], [6.28, -0.5], [3.0, 0.0]])
    values = np.cos(mesh.centres[:, 0]) + 2 * mesh.centres[:, 1]
    np.testing.assert_allclose(mesh.interpolate(values, at), np.cos(at[:, 0]) + 2 * at[:, 1], atol=2e-4)


# In the long run


def test_density_of_one_variable_with_multiplicative_noise():
    """ρ ∝ exp(∫ 2f/Σ) / Σ; the total variation is far below half a percent."""
    sde = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.sqrt(0.4 + 0.2 * np.sin(2 * x))[:, :, None])
    density = dynamics.stationary_density(sde, box=(-2.5, 2.5), cells=400)
    x = np.linspace(-2.5, 2.5, 200_001)
    Sigma = 0.4 + 0.2 * np.sin(2 * x)
    f = 2 * (x - x**3) / Sigma
    exact = np.exp(np.concatenate([[0], np.cumsum(0.5 * (f[1:] + f[:-1]) * np.diff(x))])) / Sigma
    exact = np.interp(density.axes[0], x, exact)
    exact /= exact.sum()
    assert 0.5 * np.abs(density.value / density.value.sum() - exact).sum() < 1e-3
    assert density.value.sum() * density.mesh.volume == pytest.approx(1)
    assert not density.edge.escapes


def test_density_of_a_gradient_in_two_variables_with_correlated_noise():
    """f = −D ∇U with constant D has the density exp(−U)."""
    D = np.array([[0.3, 0.12], [0.12, 0.2]])

    def gradient(x):
        return np.stack([4 * x[:, 0] ** 3 - 4 * x[:, 0] + x[:, 1], 4 * x[:, 1] + x[:, 0]], axis=1)

    sde = KnownSDE(f=lambda x: -gradient(x) @ D, sigma=constant(np.linalg.cholesky(2 * D)), n_inputs=2, n_outputs=2)
    density = dynamics.stationary_density(sde, box=[[-2.1, -2.3], [2.1, 2.3]])
    x, y = np.meshgrid(*density.axes, indexing="ij")
    exact = np.exp(-(x**4 - 2 * x**2 + x * y + 2 * y**2))
    assert 0.5 * np.abs(density.value / density.value.sum() - exact / exact.sum()).sum() < 0.005
    current = dynamics.probability_current(sde, box=[[-2.1, -2.3], [2.1, 2.3]], cells=50)
    speed = np.abs(current.value).max() / (np.abs(gradient(density.mesh.centres)).max() * density.value.max())
    assert speed < 1e-3
    assert dynamics.entropy_production(sde, box=[[-2.1, -2.3], [2.1, 2.3]]).value < 1e-3


def test_density_marginals_moments_and_quasi_potential():
    sde, C = linear(*PLANE)
    density = dynamics.stationary_density(sde, box=box_of(C))
    np.testing.assert_allclose(density.covariance, C, rtol=0.01)
    np.testing.assert_allclose(density.mean, 0, atol=1e-9)
    x, p = density.marginal("x2")
    assert np.average(x**2, weights=p) == pytest.approx(C[1, 1], rel=0.01)
    landscape = dynamics.quasi_potential(sde, box=box_of(C))
    at = np.sqrt(np.diagonal(C)) * [[1.0, 0.5]]
    assert landscape.at(at)[0] == pytest.approx(0.5 * at[0] @ np.linalg.solve(C, at[0]), rel=0.02)
    with pytest.raises(InputError, match="no variable 'y'"):
        density.marginal("y")


def test_entropy_production_of_a_driven_linear_system():
    """tr(AᵀΣ⁻¹… ) in closed form: −tr(A + D C⁻¹ …): the mean of (b − D∇log ρ)ᵀ D⁻¹ (b − D∇log ρ)."""
    A, Sigma = PLANE
    sde, C = linear(A, Sigma)
    velocity = A + 0.5 * Sigma @ np.linalg.inv(C)
    exact = np.trace(velocity.T @ np.linalg.solve(0.5 * Sigma, velocity) @ C)
    answer = dynamics.entropy_production(sde, box=box_of(C))
    assert answer.value == pytest.approx(exact, rel=0.005)
    assert answer.grid_error < 0.02


def test_entropy_production_and_current_on_a_ring():
    """A constant force on a ring: σ = F²/D, J = F/2π; also of second order, F²/γT."""
    ring = Ring(f=lambda x: np.full((len(x), 1), 1.5), sigma=constant(np.array([[1.0]])))
    assert dynamics.entropy_production(ring).value == pytest.approx(1.5**2 / 0.5, rel=1e-3)
    current = dynamics.probability_current(ring)
    np.testing.assert_allclose(current.value, 1.5 / (2 * np.pi), rtol=1e-6)
    assert current.edge is None
    heavy = Ring(f=lambda x: 1.0 - 0.8 * x[:, 1:], sigma=constant(np.array([[np.sqrt(0.8)]])), n_inputs=2)
    assert dynamics.entropy_production(heavy, box={"v": (-3, 5.5)}).value == pytest.approx(2.5, rel=0.01)


def test_one_variable_produces_no_entropy():
    answer = dynamics.entropy_production(double_well(), box=(-2, 2))
    assert answer.value == 0
    assert "detailed balance" in str(answer)


@pytest.mark.parametrize("f", [lambda x: x, lambda x: 0 * x, lambda x: 0 * x + 5, lambda x: 3 * x**2 - 3])
def test_a_system_that_escapes_says_so(f):
    """Also one that is driven so strongly against a wall that nearly all is in the last cells."""
    sde = KnownSDE(f=f, sigma=constant(np.eye(1)))
    with pytest.warns(ExtrapolationWarning, match="no stationary density"):
        density = dynamics.stationary_density(sde, box=(-3, 3))
    assert density.edge.escapes
    assert density.edge.mass > 0.04
    assert "walls hold the state" in str(density)


def test_every_answer_about_the_long_run_says_that_a_system_escapes():
    sde = KnownSDE(f=lambda x: 0 * x + 5, sigma=constant(np.eye(1)))
    for question in (
        dynamics.quasi_potential,
        dynamics.probability_current,
        dynamics.relaxation_times,
        dynamics.autocorrelation,
        dynamics.entropy_production,
    ):
        with pytest.warns(ExtrapolationWarning, match="escapes from the range of the data: 77.7% of the probability"):
            answer = question(sde, box=(-3, 3))
        assert "it has no stationary density" in str(answer)


@pytest.mark.filterwarnings("ignore:this system escapes")
def test_an_outlook_tells_of_the_edge_once():
    sde = KnownSDE(f=lambda x: 0 * x + 5, sigma=constant(np.eye(1)))
    found = dynamics.outlook(sde, box=(-3, 3))
    assert sum(answer.edge is not None for answer in found.answers) == 2
    assert str(found).count("it has no stationary density") == 1
    assert "entropy production: 0" in str(found)


def test_curves_of_correlations_that_turn_are_smooth():
    """exp(−t/2) cos 4t turns five times within four relaxation times: 24 places for each of them."""
    sde, C = linear(np.array([[-0.5, 4.0], [-4.0, -0.5]]), np.eye(2))
    found = dynamics.autocorrelation(sde, box=box_of(C))
    assert len(found.times) == pytest.approx(24 * 8 * 4 / (2 * np.pi), rel=0.05)


def test_modes_of_one_variable_do_not_turn_however_strong_the_wind():
    """Between walls, a drift b has the rates b²/4D + D (kπ/L)²."""
    b, D, length = 0.5, 0.045, 9.0
    sde = KnownSDE(f=lambda x: 0 * x + b, sigma=constant(np.array([[np.sqrt(2 * D)]])))
    with pytest.warns(ExtrapolationWarning):
        found = dynamics.relaxation_times(sde, box=(0, length))
    k = np.arange(1, 4)
    assert (found.frequencies.value == 0).all()
    assert found.value == pytest.approx(1 / (b**2 / (4 * D) + D * (k * np.pi / length) ** 2), rel=1e-3)
    curve = np.sign(found.modes[0] * np.sign(found.modes[0, -1]))
    assert np.count_nonzero(np.diff(curve)) == 1


def test_the_edge_is_told_in_words():
    assert str(Edge(0.0011, 0.0, escapes=False)) == (
        "0.11% of the probability is at the edge of the range, where the flow points inwards"
    )
    assert str(Edge(0.02, 0.3, escapes=False)).endswith("of the range, over which 0.3 would flow per time")


def test_a_system_that_is_cut_off_does_not_escape():
    """The mass at the edge is said, but its forces hold it."""
    density = dynamics.stationary_density(KnownSDE(f=lambda x: -x, sigma=constant(np.eye(1))), box=(-0.8, 0.8))
    assert not density.edge.escapes
    assert "of the probability is at the edge" in str(density)


# Passages


def quadrature(start, target, low, S=S):
    """Mean first-passage time of the double well to the right, reflected at `low`."""
    x = np.linspace(low, target, 400_001)
    D, U = S**2 / 2, x**4 / 4 - x**2 / 2

    def integral(y):
        return np.concatenate([[0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])

    time = integral(np.exp(U / D) / D * integral(np.exp(-U / D)))
    return time[-1] - np.interp(start, x, time)


@pytest.mark.parametrize("target", [1, (1, None), (1, 1.2), {"x": (1, np.inf)}, lambda x: x[:, 0] >= 1])
def test_passage_times_of_one_variable(target):
    time = dynamics.first_passage_time(double_well(), -1, target, box=(-2.5, 2.5), cells=300)
    assert time.value == pytest.approx(quadrature(-1, 1, -2.5), rel=2e-3)
    rate = dynamics.escape_rate(double_well(), -1, target, box=(-2.5, 2.5), cells=300)
    assert rate.value == pytest.approx(1 / time.value)


def test_passage_times_from_a_set_are_means_over_it():
    times = [dynamics.first_passage_time(double_well(), x, 1, box=(-2.5, 2.5)).value for x in (-1.2, -0.8)]
    mean = dynamics.first_passage_time(double_well(), (-1.2, -0.8), 1, box=(-2.5, 2.5)).value
    assert times[1] < mean < times[0]


def test_passage_times_in_the_plane():
    """Out of a circle, of Brownian motion in two dimensions: (R² − r²) / (2 D d)."""
    walk = KnownSDE(f=lambda x: 0 * x, sigma=constant(np.eye(2)), n_inputs=2, n_outputs=2)
    box = [[-1.3, -1.3], [1.3, 1.3]]

    def outside(x):
        return np.linalg.norm(x, axis=1) > 1

    time = dynamics.first_passage_time(walk, [0.3, 0.2], outside, box=box, cells=60)
    assert time.value == pytest.approx((1 - 0.13) / 2, rel=5e-3)
    time = dynamics.first_passage_time(walk, [0.0, 0.0], outside, box=box, method="simulation", rng=0)
    assert time.value == pytest.approx(0.5, rel=0.2)  # six standard errors of 1000 paths


def test_committors():
    """Of Brownian motion linear; of the double well ∫ exp(U/D)."""
    walk = KnownSDE(f=lambda x: 0 * x, sigma=constant(np.eye(1)))
    odds = dynamics.exit_probabilities(walk, 0.5, (0, 2), box=(-1, 3))
    np.testing.assert_allclose(odds.value, [0.75, 0.25], atol=1e-6)
    odds = dynamics.exit_probabilities(double_well(), 0.1, {"left": -1, "right": (1, None)}, box=(-2.5, 2.5))
    x = np.linspace(-1, 1, 100_001)
    weight = np.exp((x**4 / 4 - x**2 / 2) / (S**2 / 2))
    assert odds.value[1] == pytest.approx(weight[x < 0.1].sum() / weight.sum(), abs=1e-4)
    assert odds.value.sum() == pytest.approx(1, abs=1e-6)
    assert "right: 0." in str(odds)
    by_chance = dynamics.exit_probabilities(walk, 0.5, (0, 2), box=(-1, 3), method="simulation", rng=0)
    assert by_chance.value[0] == pytest.approx(0.75, abs=0.08)  # five standard errors


def test_levels_on_a_ring():
    """Of Brownian motion that starts halfway round: (half the way)² / 2D, wherever the ring is cut."""
    ring = Ring(f=lambda x: 0 * x, sigma=constant(np.eye(1)))
    for level in (0.001, 1.0, 6.28):
        time = dynamics.first_passage_time(ring, (level + np.pi) % (2 * np.pi), level, cells=200)
        assert time.value == pytest.approx(np.pi**2, rel=1e-3)


def test_rates_of_kramers():
    """ω₀ω₁/2π exp(−ΔU/D) where the barrier is high: within the next term, of order D/ΔU."""
    s = 0.35
    sde = KnownSDE(f=lambda x: x - x**3, sigma=constant(np.array([[s]])))
    rate = dynamics.escape_rate(sde, -1, 1, box=(-1.8, 1.8)).value
    assert rate == pytest.approx(np.sqrt(2) / (2 * np.pi) * np.exp(-0.25 / (s**2 / 2)), rel=0.25)
    assert rate == pytest.approx(1 / quadrature(-1, 1, -1.8, s), rel=1e-3)


# Forgetting


@pytest.mark.parametrize(("system", "cells"), [(PLANE, None), (SPACE, 20)])
def test_relaxation_times_of_linear_systems(system, cells):
    sde, C = linear(*system)
    times = dynamics.relaxation_times(sde, 1, box=box_of(C), cells=cells)
    slow = max(np.linalg.eigvals(system[0]), key=lambda value: value.real)
    assert times.value[0] == pytest.approx(-1 / slow.real, rel=0.01)
    assert times.frequencies.value[0] == pytest.approx(abs(slow.imag), rel=0.01)


def test_slowest_modes():
    """Of −x dt + dW they are Hermite polynomials; the second is even."""
    sde = KnownSDE(f=lambda x: -x, sigma=constant(np.eye(1)))
    answer = dynamics.relaxation_times(sde, 2, box=(-4, 4))
    np.testing.assert_allclose(answer.value, [1, 0.5], rtol=1e-3)
    first, second = answer.modes
    np.testing.assert_allclose(first, -first[::-1], atol=1e-6)
    np.testing.assert_allclose(second, second[::-1], atol=1e-6)


def test_autocorrelations():
    """Of a linear system exp(At) C; on a ring exp(−Dt)."""
    A, Sigma = PLANE
    sde, C = linear(A, Sigma)
    t = np.linspace(0, 3, 7)
    answer = dynamics.autocorrelation(sde, t, box=box_of(C), cells=60)
    values, vectors = np.linalg.eig(A)
    for i, time in enumerate(t):
        exact = (vectors * np.exp(values * time)) @ np.linalg.inv(vectors) @ C
        np.testing.assert_allclose(answer.value[i], np.diagonal(exact.real) / np.diagonal(C), atol=3e-3)
    ring = Ring(f=lambda x: 0 * x, sigma=constant(np.eye(1)))
    np.testing.assert_allclose(dynamics.autocorrelation(ring, t).value[:, 0], np.exp(-t / 2), atol=1e-3)
    default = dynamics.autocorrelation(double_well(), box=(-2.5, 2.5))
    assert default.value[0] == pytest.approx(1)
    assert default.value[-1] < 0.05


def test_correlations_are_those_of_all_modes():
    """The Krylov space against the exponential of the whole matrix."""
    motion = motion_of(double_well(), box=(-2, 2))
    mesh = mesh_of(motion, 60)
    L = jumps_of(mesh, *motion.flow_and_noise(mesh.centres), underdamped=False).matrix()
    p, t = stationary(L), np.array([0.0, 0.1, 1.0, 20.0])
    g = mesh.centres[:, 0] - p @ mesh.centres[:, 0]
    values, vectors = np.linalg.eig(L.toarray())
    exact = [(p * g) @ ((vectors * np.exp(values * time)) @ np.linalg.solve(vectors, g)).real for time in t]
    np.testing.assert_allclose(correlations(L, p, g[:, None], t)[:, 0], exact, rtol=1e-5)
    found, _ = slowest(L, 3)
    np.testing.assert_allclose(np.sort(found.real)[::-1], np.sort(values.real)[::-1][1:4], rtol=1e-6)


# Second order


def test_a_harmonic_oscillator():
    """Equal temperatures of position and velocity, and the eigenvalues of the flow."""
    g, T = 0.8, 0.5
    sde = KnownSDE(f=lambda x: -x[:, :1] - g * x[:, 1:], sigma=constant(np.array([[np.sqrt(2 * g * T)]])), n_inputs=2)
    box = [[-3.2, -3.2], [3.2, 3.2]]
    density = dynamics.stationary_density(sde, box=box)
    np.testing.assert_allclose(density.covariance, T * np.eye(2), atol=0.005)
    times = dynamics.relaxation_times(sde, 1, box=box, cells=(200, 60))
    assert times.value[0] == pytest.approx(2 / g, rel=0.01)
    assert times.frequencies.value[0] == pytest.approx(np.sqrt(1 - g**2 / 4), rel=0.005)
    assert dynamics.entropy_production(sde, box=box, cells=(400, 80)).value < 1e-3


# Where it rests


def test_fixed_points_and_their_kinds():
    x = dynamics.fixed_points(double_well(), box=(-2, 2))
    np.testing.assert_allclose(x.value[:, 0], [-1, 0, 1], atol=1e-9)
    assert x.kinds == ("stable", "unstable", "stable")
    np.testing.assert_allclose(x.eigenvalues[:, 0], [-2, 1, -2], atol=1e-4)
    saddle = KnownSDE(f=two_wells, sigma=constant(np.eye(2)), n_inputs=2, n_outputs=2)
    points = dynamics.fixed_points(saddle, box=[[-2, -2], [2, 2]])
    np.testing.assert_allclose(points.value, [[-1, 0], [0, 0], [1, 0]], atol=1e-7)
    assert points.kinds == ("stable node", "saddle", "stable node")
    pendulum = Ring(f=lambda x: -np.sin(x[:, :1]) - 0.2 * x[:, 1:], sigma=constant(np.eye(1)), n_inputs=2)
    points = dynamics.fixed_points(pendulum, box={"v": (-3, 3)})
    assert points.kinds == ("stable focus", "saddle")
    four = KnownSDE(
        f=lambda x: 1 - x**2 - 0.1 * x.sum(axis=1, keepdims=True), sigma=constant(np.eye(4)), n_inputs=4, n_outputs=4
    )
    points = dynamics.fixed_points(four, box=[[0] * 4, [2] * 4])
    np.testing.assert_allclose(points.value, [[(-0.4 + np.sqrt(0.16 + 4)) / 2] * 4], atol=1e-7)
    none = dynamics.fixed_points(KnownSDE(f=lambda x: 1 + x**2, sigma=constant(np.eye(1))), box=(-2, 2))
    assert len(none) == 0
    assert "none within the range" in str(none)


def test_the_potential_and_its_barriers():
    answer = dynamics.potential(double_well(), box=(-2, 2))
    np.testing.assert_allclose(answer.value, (answer.x**2 - 1) ** 2 / 4, atol=2e-5)
    np.testing.assert_allclose(answer.barriers.value, [0.25, 0.25], rtol=1e-4)
    assert answer.ways[0] == (pytest.approx(-1), pytest.approx(0, abs=1e-9))


def test_nullclines():
    x = np.linspace(-2, 2, 81)
    ends = zero_lines(x, x, x[:, None] ** 2 + x[None] ** 2 - 1)
    np.testing.assert_allclose(np.linalg.norm(ends, axis=2), 1, atol=2e-3)
    assert np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).sum() == pytest.approx(2 * np.pi, rel=2e-3)
    sde, C = linear(*PLANE)
    lines = dynamics.nullclines(sde, box=box_of(C))
    for k, segments in enumerate(lines.segments):
        np.testing.assert_allclose(segments @ PLANE[0][k], 0, atol=1e-9)


def test_the_period_of_a_limit_cycle():
    """Of van der Pol's oscillator with μ = 1: 6.6633."""
    sde = KnownSDE(f=lambda x: (1 - x[:, :1] ** 2) * x[:, 1:] - x[:, :1], sigma=constant(np.eye(1)), n_inputs=2)
    answer = dynamics.period(sde, box=[[-3, -4], [3, 4]])
    assert answer.value == pytest.approx(6.66329, rel=2e-4)
    assert np.abs(answer.cycle[:, 0]).max() == pytest.approx(2.0086, abs=0.01)
    stable, C = linear(*PLANE)
    with pytest.raises(InputError, match="comes to rest at"):
        dynamics.period(stable, box=box_of(C))


# Units


def test_answers_follow_the_units_of_state_and_time():
    """x in other units and time in others: times scale with time, places with x, and rates of entropy with 1/time."""
    unit, time = 1e3, 60.0
    plain, other = double_well(), double_well(unit, time)
    ask = dynamics.first_passage_time
    first = ask(plain, -1, 1, box=(-2.4, 2.5)).value
    assert ask(other, -unit, unit, box=(-2.4 * unit, 2.5 * unit)).value == pytest.approx(time * first, rel=1e-9)
    slow = [
        dynamics.relaxation_times(sde, 1, box=(-2.4 * u, 2.5 * u)).value for sde, u in ((plain, 1.0), (other, unit))
    ]
    assert slow[1] == pytest.approx(time * slow[0], rel=1e-6)
    points = dynamics.fixed_points(other, box=(-2.4 * unit, 2.5 * unit))
    np.testing.assert_allclose(points.value[:, 0], [-unit, 0, unit], atol=1e-6 * unit)


# Learned equations: error bars


@pytest.fixture(scope="module")
def learned():
    paths = double_well().simulate(np.linspace(-1.2, 1.2, 10), dt=0.01, n_steps=8000, rng=0)[:, ::4]
    return itofit.fit(Transitions.from_trajectories(paths, dt=0.04), rng=0)


def test_intervals_of_a_learned_double_well(learned):
    """True answers within 99.9 % intervals; each has one chance in a thousand to be outside."""
    answers = {
        quadrature(-1, 1, -2.5): dynamics.first_passage_time(learned, -1, 1, rng=0),
        0.25: dynamics.Answer(
            what="barrier",
            value=dynamics.potential(learned, rng=0).barriers.value[0],
            samples=dynamics.potential(learned, rng=0).barriers.samples[:, 0],
            scale="log",
        ),
    }
    for exact, answer in answers.items():
        low, high = answer.interval(0.999)
        assert low < exact < high
        assert 0.005 * exact < answer.std < 0.5 * exact
    points = dynamics.fixed_points(learned, rng=0)
    low, high = points.interval(0.999)
    assert (low[:, 0] < [-1, 0, 1]).all()
    assert (high[:, 0] > [-1, 0, 1]).all()
    assert (points.found_in == 1).all()
    narrow, wide = (np.subtract(*points.interval(level)[::-1]) for level in (0.5, 0.9))
    assert (narrow < wide).all()


def test_the_same_seed_gives_the_same_answer(learned):
    first, again = (dynamics.first_passage_time(learned, -1, 1, samples=5, rng=7).samples for _ in range(2))
    assert (first == again).all()
    assert first.shape == (5,)
    none = dynamics.first_passage_time(learned, -1, 1, samples=0)
    assert np.isnan(none.std)
    assert np.isnan(none.interval()).all()
    assert "no error bars" in repr(none)


def test_drivers_are_held():
    """dx = (u − x) dt: the fixed point is u."""
    sde = KnownSDE(f=lambda x: x[:, 1:] - x[:, :1], sigma=constant(np.eye(1)), n_inputs=2, n_covariates=1)
    for given in ({"u": 0.5}, [0.5], 0.5):
        points = dynamics.fixed_points(sde, covariates=given, box=(-4, 4))
        assert points.value[0, 0] == pytest.approx(0.5)
    assert dynamics.stationary_density(sde, covariates=0.5, box=(-4, 5)).mean[0] == pytest.approx(0.5, abs=1e-4)


def test_four_variables_are_simulated(set_everywhere):
    """An Ornstein-Uhlenbeck process of four: exp(−t), and Gaussian marginals."""
    set_everywhere("STEPS", 600)
    sde = KnownSDE(f=lambda x: -x, sigma=constant(np.eye(4)), n_inputs=4, n_outputs=4)
    box = np.array([[-3.0] * 4, [3.0] * 4])
    density = dynamics.stationary_density(sde, box=box, rng=0)
    assert "by simulation" in str(density)
    assert density.covariance[0, 0] == pytest.approx(0.5, rel=0.1)
    answer = dynamics.autocorrelation(sde, [0, 1], box=box, rng=0)
    np.testing.assert_allclose(answer.value[1], np.exp(-1), atol=0.1)
    with pytest.raises(InputError, match=r"4 variables .* method='simulation'"):
        dynamics.stationary_density(sde, box=box, method="grid")
    with pytest.raises(InputError, match="a grid can have 3"):
        dynamics.relaxation_times(sde, box=box)


# Pictures


def test_every_answer_draws_itself(learned):
    from matplotlib import pyplot

    plane, C = linear(*PLANE)
    drawn = [
        dynamics.fixed_points(learned, samples=4, rng=0),
        dynamics.potential(learned, samples=4, rng=0),
        dynamics.stationary_density(learned, samples=4, rng=0),
        dynamics.first_passage_time(learned, -1, 1, samples=4, rng=0),
        dynamics.escape_rate(learned, -1, 1, samples=4, rng=0),
        dynamics.exit_probabilities(learned, 0, (-1, 1), samples=4, rng=0),
        dynamics.relaxation_times(learned, samples=4, rng=0),
        dynamics.autocorrelation(learned, samples=4, rng=0),
        dynamics.probability_current(learned, samples=4, rng=0),
        dynamics.stationary_density(plane, box=box_of(C), cells=20),
        dynamics.quasi_potential(plane, box=box_of(C), cells=20),
        dynamics.probability_current(plane, box=box_of(C), cells=20),
        dynamics.relaxation_times(plane, box=box_of(C), cells=20),
        dynamics.nullclines(plane, box=box_of(C)),
        dynamics.first_passage_time(plane, [0, 0], {"x1": (1, None)}, box=box_of(C), cells=20),
    ]
    for answer in drawn:
        _, ax = pyplot.subplots()
        assert answer.plot(ax) is ax
        assert str(answer)
        pyplot.close(ax.figure)


# What is refused


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda sde: dynamics.first_passage_time(sde, -1, 5, box=(-2, 2)), r"target \(x = 5\) lies outside the data"),
        (lambda sde: dynamics.first_passage_time(sde, -1, (3, 4), box=(-2, 2)), "lies outside the data"),
        (lambda sde: dynamics.first_passage_time(sde, -1, -1, box=(-2, 2)), "start .* and target .* overlap"),
        (lambda sde: dynamics.first_passage_time(sde, -1, (-1.5, 0), box=(-2, 2)), "overlap"),
        (lambda sde: dynamics.first_passage_time(sde, -1, "right", box=(-2, 2)), "must be a number, an interval"),
        (lambda sde: dynamics.first_passage_time(sde, -1, {"y": (0, 1)}, box=(-2, 2)), "no variable 'y'"),
        (lambda sde: dynamics.first_passage_time(sde, -1, (1, 0.5), box=(-2, 2)), "begin below its end"),
        (lambda sde: dynamics.first_passage_time(sde, -1, lambda x: x, box=(-2, 2)), "True or False"),
        (lambda sde: dynamics.first_passage_time(sde, -1, lambda x: x[:, 0] > 9, box=(-2, 2)), "holds no states"),
        (lambda sde: dynamics.exit_probabilities(sde, 0, ((0.5, 1), (0.9, 2)), box=(-2, 2)), "overlap"),
        (lambda sde: dynamics.exit_probabilities(sde, 0, [1], box=(-2, 2)), "two or more sets"),
        (dynamics.stationary_density, r"box=\{'x': \(low, high\)\}"),
        (lambda sde: dynamics.stationary_density(sde, box={"y": (0, 1)}), "no variable 'y'"),
        (lambda sde: dynamics.stationary_density(sde, box=(1, 0)), r"box must have shape \(2, 1\)"),
        (lambda sde: dynamics.stationary_density(sde, box=(-2, 2), cells=3), "cells must be a whole number"),
        (lambda sde: dynamics.stationary_density(sde, box=(-2, 2), samples=1), "samples must be 0 or at least 2"),
        (lambda sde: dynamics.stationary_density(sde, box=(-2, 2), method="magic"), "method must be one of"),
        (lambda sde: dynamics.stationary_density(sde, box=(-2, 2), covariates=1.0), "nothing drives this equation"),
        (lambda sde: dynamics.autocorrelation(sde, [-1.0], box=(-2, 2)), "times must be numbers >= 0"),
        (lambda sde: dynamics.period(sde, box=(-2, 2)), "two variables or more"),
        (lambda sde: dynamics.nullclines(sde, box=(-2, 2)), "two variables"),
        (lambda _: dynamics.fixed_points(3), "sde must be an equation"),
    ],
)
def test_bad_questions(ask, message):
    with pytest.raises(InputError, match=message):
        ask(double_well())


def test_bad_questions_in_the_plane():
    sde, C = linear(*PLANE)
    with pytest.raises(InputError, match="never hits exactly"):
        dynamics.first_passage_time(sde, [0, 0], [1, 0], box=box_of(C))
    with pytest.raises(InputError, match="a point with a number for each of x1, x2"):
        dynamics.first_passage_time(sde, 0.0, {"x1": (1, None)}, box=box_of(C))
    with pytest.raises(InputError, match="potential needs one variable"):
        dynamics.potential(sde, box=box_of(C))
    driven = KnownSDE(f=lambda x: x[:, :1], sigma=constant(np.eye(1)), n_inputs=2, n_covariates=1)
    with pytest.raises(InputError, match=r"covariates=\{'u': 0.0\}"):
        dynamics.fixed_points(driven, box=(-1, 1))
    with pytest.raises(InputError, match="none called 'w'"):
        dynamics.fixed_points(driven, box=(-1, 1), covariates={"w": 1.0})
    general = KnownSDE(f=lambda x: x[:, :1], sigma=constant(np.eye(1)), n_inputs=2, general=True)
    with pytest.raises(InputError, match="kind 'general'"):
        dynamics.fixed_points(general)


def test_warnings_are_not_left_over(learned):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dynamics.stationary_density(learned, samples=3, rng=0)


# The usual questions, and the command line


def test_the_usual_questions_at_once(learned):
    answers = dynamics.outlook(learned, samples=4, rng=0).answers
    assert [type(answer).__name__ for answer in answers] == [
        "FixedPoints",
        "RelaxationTimes",
        "PassageTime",
        "PassageTime",
        "Answer",
    ]
    assert str(dynamics.outlook(learned, samples=4, rng=0)) == "\n".join(map(str, answers))
    wells = KnownSDE(f=two_wells, sigma=constant(0.6 * np.eye(2)), n_inputs=2, n_outputs=2)
    answers = dynamics.outlook(wells, box=[[-2, -2], [2, 2]]).answers
    assert "one standard deviation around x1 = 1, x2 = 0" in str(answers[2])
    exact = quadrature(-1, 0.8, -2, 0.6)  # nearly: the set is a disc around the other well
    assert answers[2].value == pytest.approx(exact, rel=0.15)

    def turning(x):
        return x * (1 - (x**2).sum(axis=1, keepdims=True)) + x[:, ::-1] * [2.0, -2.0]

    cycle = KnownSDE(f=turning, sigma=constant(0.3 * np.eye(2)), n_inputs=2, n_outputs=2)
    answers = dynamics.outlook(cycle, box=[[-2, -2], [2, 2]]).answers
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["FixedPoints", "Period", "RelaxationTimes", "Answer"]
    assert answers[1].value == pytest.approx(np.pi, rel=1e-4)


def called(*arguments):
    from typer.testing import CliRunner

    from itofit.cli import app

    return CliRunner().invoke(app, ["dynamics", *map(str, arguments)])


def test_the_command_line(learned, tmp_path):
    import json

    learned.save(tmp_path / "sde.npz")
    result = called(tmp_path / "sde.npz", "--samples", 4, "-o", tmp_path / "figure.png")
    assert result.exit_code == 0, result.output
    assert "fixed points:" in result.output
    assert result.output.count("mean first-passage time") == 2
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    result = called(tmp_path / "sde.npz", "--start", "-1", "--target", "0.9:", "--samples", 4, "--json")
    answer = json.loads(result.stdout)["answers"][0]
    expected = dynamics.first_passage_time(learned, -1, (0.9, None), samples=4, rng=0)
    assert answer["value"] == pytest.approx(expected.value)
    assert answer["low"] == pytest.approx(expected.interval()[0])
    for given in ("x=0.9:", "x=0.9:1.5", "1"):
        assert called(tmp_path / "sde.npz", "--start", "x=-1.2:-0.8", "--target", given, "--samples", 0).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--start", "-1"), "belong together"),
        (("--start", "-1", "--target", "much"), "--target must be a number"),
        (("--start", "-1", "--target", ":"), "--target must be a number"),
        (("--start", "-1", "--target", "9"), "lies outside the data"),
        (("--start", "1,2", "--target", "1"), "the state is x"),
        (("--covariates", "u=1"), "nothing drives this equation"),
        (("-o", "figure.txt"), "--output must end in .png"),
    ],
)
def test_mistakes_at_the_command_line(learned, tmp_path, options, message):
    learned.save(tmp_path / "sde.npz")
    result = called(tmp_path / "sde.npz", "--samples", 0, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_plots_of_dynamics(learned):
    from matplotlib import pyplot

    data = Transitions.from_trajectories(learned.simulate([-1.0, 1.0], dt=0.04, n_steps=300, rng=0), dt=0.04)
    ax = itofit.plot.density(learned, data, samples=4, rng=0)
    assert {"observed", "learned"} <= {text.get_text() for text in ax.get_legend().get_texts()}
    ax = itofit.plot.passage_times(learned, data, targets=[-1, (0.8, 1.2)], samples=4, rng=0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["to x = −1", "to x between 0.8 and 1.2"]
    with pytest.raises(InputError, match="two variables"):
        itofit.plot.phase_portrait(learned)
    plane, C = linear(*PLANE)
    seen = Transitions.from_trajectories(plane.simulate(np.zeros((2, 2)), dt=0.05, n_steps=300, rng=0), dt=0.05)
    for current in (False, True):
        ax = itofit.plot.phase_portrait(plane, seen, box=box_of(C), current=current)
        assert "stable focus" in {text.get_text() for text in ax.get_legend().get_texts()}
    assert itofit.plot.density(plane, seen, box=box_of(C)).collections
    with pytest.raises(InputError, match="one variable"):
        itofit.plot.passage_times(plane, targets={"x1": (1, None)}, box=box_of(C))
    pyplot.close("all")


@pytest.mark.parametrize("system", [PLANE, SPACE])
def test_the_observed_density_is_smoothed_as_the_learned_one(system):
    """States from the stationary density itself have the same density, up to what chance makes of 20,000 of them."""
    sde, C = linear(*system)
    answer = dynamics.stationary_density(sde, box=box_of(C), samples=0)
    states = np.random.default_rng(0).multivariate_normal(np.zeros(len(C)), C, 20_000)
    x, y, learned, seen = _beside_observed(answer, states)
    assert learned.shape == seen.shape == (len(x), len(y))
    area = (x[1] - x[0]) * (y[1] - y[0])
    assert learned.sum() * area == pytest.approx(1, abs=1e-3)
    assert 0.5 * np.abs(learned - seen).sum() * area < 0.05


def test_relaxation_of_a_circle_without_noise_says_that_it_does_not_end():
    angle = 0.1 * np.arange(400)
    data = itofit.Transitions.from_trajectories(np.column_stack([np.cos(angle), -np.sin(angle)]), dt=0.1)
    with pytest.warns(itofit.DataWarning, match="carry no noise"):
        sde = itofit.fit(data, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ExtrapolationWarning)
        times = dynamics.relaxation_times(sde, cells=50, samples=10, rng=0)
    low, high = times.interval()
    assert not np.isnan([times.value, times.std, low, high]).any()
