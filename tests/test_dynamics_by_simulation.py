"""Simulated answers, and answers where something is periodic or small: against closed forms and quadrature.

Estimates by chance must be within five standard errors, which one in two million of normal ones is not.
"""

import sys

import numpy as np
import pytest

from itofit import InputError, dynamics
from itofit.dynamics import by_simulation
from itofit.dynamics.motion import motion_of
from itofit.dynamics.regions import region_of
from itofit.model.known import KnownSDE

SIMULATED = {"method": "simulation", "rng": 0}


def constant(root):
    return lambda x: np.broadcast_to(root, (len(x), *np.shape(root)))


class Ring(KnownSDE):
    """Periodic in its first variable, from −π to π."""

    @property
    def periods(self):
        return np.array([[-np.pi] + [0.0] * (self.n_inputs - 1), [np.pi] + [0.0] * (self.n_inputs - 1)])


def brownian(kind=KnownSDE):
    return kind(f=lambda x: 0 * x, sigma=constant(np.eye(1)))


def two_wells(noise, tilt=0.0):
    return KnownSDE(f=lambda x: x - x**3 + tilt, sigma=constant(np.array([[noise]])))


def integral(x, y):
    return np.concatenate([[0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])


def time_to_right(noise, start, target, wall):
    """Mean first-passage time of two wells by quadrature, reflected at a wall to the left."""
    x = np.linspace(wall, target, 200_001)
    D, U = noise**2 / 2, x**4 / 4 - x**2 / 2
    time = integral(x, np.exp((U + 0.25) / D) / D * integral(x, np.exp(-(U + 0.25) / D)))
    return time[-1] - np.interp(start, x, time)


@pytest.fixture
def paths(monkeypatch):
    """Sets how many paths are simulated."""
    return lambda n: monkeypatch.setattr(by_simulation, "PATHS", n)


# Passages on a ring


def test_paths_on_a_ring_do_not_sweep_it_where_it_is_cut(paths):
    """Brownian motion from 3 to 0 has the ways 3 and 2π − 3, whose product is the time; exits are linear."""
    paths(400)
    time = dynamics.first_passage_time(brownian(Ring), 3, 0, **SIMULATED)
    assert time.value == pytest.approx(3 * (2 * np.pi - 3), abs=5 * 0.4)
    odds = dynamics.exit_probabilities(brownian(Ring), 3, [0, 1], **SIMULATED)
    np.testing.assert_allclose(odds.value, [2 / (2 * np.pi - 1), 1 - 2 / (2 * np.pi - 1)], atol=5 * 0.025)


def test_the_way_to_a_set_may_cross_the_seam():
    """Ways are given unwrapped, from wherever they begin, and lead into the images of a set."""
    motion = motion_of(brownian(Ring))
    start = np.array([[3.0], [3.0 - 2 * np.pi], [-2.9], [3.0]])
    end = start + np.array([[0.2], [0.2], [-0.29], [0.03]])
    for target in ((3.1, 3.3), (3.1 - 2 * np.pi, 3.3 - 2 * np.pi), lambda x: np.abs(np.abs(x[:, 0]) - np.pi) < 0.1):
        way = region_of("target", target, motion).way_to(start, end)
        assert (way[:3] < 1).all()
        assert way[3] == np.inf
    way = region_of("target", 3.1, motion).way_to(start, end)
    np.testing.assert_allclose(way, [0.5, 0.5, (2 * np.pi - 6.0) / 0.29, np.inf], rtol=1e-9)


# Slow paths count


def test_exits_are_not_those_of_the_fast_paths():
    """Brownian motion from 1.5 to 0 or 10; those that arrive late are more often at 10."""
    odds = dynamics.exit_probabilities(brownian(), 1.5, (0, 10), box=(-1, 11), **SIMULATED)
    np.testing.assert_allclose(odds.value, [0.85, 0.15], atol=3 * 0.0113)  # one in 400 seeds, and this one is fixed
    assert "standard errors of up to 0.011" in odds.notes[0]


def test_times_are_not_those_of_the_fast_paths():
    """From above the barrier most paths arrive at once, and some only after a visit to the other well."""
    time = dynamics.first_passage_time(two_wells(0.55), 0.25, 1, box=(-2, 2), **SIMULATED)
    error = float(time.notes[0].split("standard error of ")[1].split(";")[0])
    exact = time_to_right(0.55, 0.25, 1, -2)
    assert error < 0.08 * exact
    assert time.value == pytest.approx(exact, abs=3 * error)  # one in 400 seeds, and this one is fixed


def test_paths_that_are_missed_go_on_as_others_did_late():
    """Half of them arrive at once in one set, the others at a rate of a tenth in two sets: until 15, and beyond."""
    slow = -10 * np.log1p(-(np.arange(4000) + 0.5) / 4000)
    fast = np.full(4000, 0.1)
    seen = slow < 15
    targets = np.concatenate([np.zeros(4000, dtype=int), 1 + np.arange(4000)[seen] % 2])
    arrivals = by_simulation._Arrivals(np.concatenate([fast, slow[seen]]), targets, int((~seen).sum()), 15.0)
    found = by_simulation._estimated(arrivals, 3)
    assert found.mean_time == pytest.approx(0.5 * 0.1 + 0.5 * 10, rel=0.003)
    np.testing.assert_allclose(found.shares, [0.5, 0.25, 0.25], atol=1e-3)


def test_the_standard_error_is_that_of_the_estimate():
    """Of 400 paths that arrive at a rate of a tenth: most of them until 30, a third of them until 4."""
    rng = np.random.default_rng(0)
    for end in (30.0, 4.0):
        found = []
        for _ in range(600):
            times = rng.exponential(10, 400)
            seen = times < end
            arrived = by_simulation._Arrivals(times[seen], (rng.random(seen.sum()) < 0.3) * 1, int((~seen).sum()), end)
            found.append(by_simulation._estimated(arrived, 2))
        for value, error in (("mean_time", "time_error"), ("shares", "share_error")):
            values = np.array([np.atleast_1d(getattr(each, value))[0] for each in found])
            errors = np.array([getattr(each, error) for each in found])
            assert errors.mean() == pytest.approx(values.std(), rel=5 / np.sqrt(2 * 600))


def test_nobody_arrives(monkeypatch, paths):
    paths(20)
    monkeypatch.setattr(by_simulation, "MOST_STEPS", 5)
    time = dynamics.first_passage_time(two_wells(0.2), -1, 1, box=(-2, 2), **SIMULATED)
    assert time.value == np.inf
    assert "none of them arrived until" in str(time)


def test_samples_are_counted(paths, monkeypatch):
    """The first few of them; the answer of each has the chance of its own paths alone."""
    paths(100)
    monkeypatch.setattr(by_simulation, "SAMPLE_PATHS", 100)
    monkeypatch.setattr(by_simulation, "MOST_SAMPLES", 2)
    sde = brownian()
    motion = motion_of(sde, box=(-1, 3))
    start, targets = (region_of(name, x, motion, start=name == "start") for name, x in (("start", 0.5), ("target", 2)))
    found = by_simulation.simulated_passages(motion, start, (targets,), [sde] * 3, 0)
    assert "error bars are from 2 of 3 samples" in found.note
    assert found.sampled_times.shape == (2,)
    assert found.sampled_times == pytest.approx(9 - 2.25, abs=5 * 6 / 10)  # reflected at −1


# The long run


def below_zero(noise, tilt):
    x = np.linspace(-2, 2, 40_001)
    weight = np.exp((x**2 / 2 - x**4 / 4 + tilt * x) / (noise**2 / 2))
    return weight[x < 0].sum() / weight.sum()


def test_the_long_run_is_long_enough(paths):
    """Half of the paths start in the upper well, which they leave after long: the state is hardly ever there."""
    paths(400)
    density = dynamics.stationary_density(two_wells(0.45, 0.25), box=(-2, 2), **SIMULATED)
    x, p = density.marginal("x")
    share = p[x < 0].sum() / p.sum()
    assert share == pytest.approx(below_zero(0.45, 0.25), abs=5 * 0.003)


def test_a_long_run_that_has_not_settled_says_so(monkeypatch, paths):
    """Between wells that are never left; on a cycle paths forget nothing, but all of them see the same."""
    paths(100)
    monkeypatch.setattr(by_simulation, "LONGEST_RUN", 2000)
    density = dynamics.stationary_density(two_wells(0.1), box=(-2, 2), **SIMULATED)
    assert "the long run had not settled after 2,000 steps" in str(density)
    assert "had not settled" in str(dynamics.autocorrelation(two_wells(0.1), [0, 1], box=(-2, 2), **SIMULATED))
    time = dynamics.first_passage_time(two_wells(0.2), (-1.2, -0.9), (-0.9 + 1e-6, None), box=(-2, 2), **SIMULATED)
    assert "had not settled" in str(time)
    turning = KnownSDE(
        f=lambda x: x * (1 - (x**2).sum(axis=1, keepdims=True)) + x[:, ::-1] * [2.0, -2.0],
        sigma=constant(0.001 * np.eye(2)),
        n_inputs=2,
        n_outputs=2,
    )
    density = dynamics.stationary_density(turning, box=[[-2, -2], [2, 2]], cells=(10, 12), **SIMULATED)
    assert "settled" not in str(density)
    assert density.value.shape == (10, 12)


def test_cells_of_a_simulated_density(paths, monkeypatch):
    paths(50)
    monkeypatch.setattr(by_simulation, "STEPS", 400)
    sde = KnownSDE(f=lambda x: -x, sigma=constant(np.eye(4)), n_inputs=4, n_outputs=4)
    motion = motion_of(sde, box=[[-3] * 4, [3] * 4])
    for cells, shape in ((None, (40, 40)), (10, (10, 10)), ((8, 12), (8, 12))):
        found = by_simulation.density_by_simulation(motion, [sde] * 2, 0, cells)
        assert found.value.shape == shape
        assert found.samples.shape == (2, *shape)
        assert found.value.sum() * found.mesh.volume == pytest.approx(1)
    assert "error bars are from 2 samples" in found.notes[-1]
    for cells in (5, (10, 10, 10, 10), "many"):
        with pytest.raises(InputError, match="cells must be a whole number >= 8, or one for each of x1, x2"):
            by_simulation.density_by_simulation(motion, None, 0, cells)


def test_simulated_correlations_on_a_ring(paths):
    """Of the angle, exp(−Dt) cos t; the wrapped number jumps by a whole period."""
    paths(400)
    spin = Ring(f=lambda x: 0 * x + 1, sigma=constant(np.array([[0.5]])))
    t = np.array([0.0, 1.0, 2.0, 3.0, 6.0])
    found = dynamics.autocorrelation(spin, t, **SIMULATED).value[:, 0]
    np.testing.assert_allclose(found, np.exp(-t / 8) * np.cos(t), atol=0.1)  # 0.07 are half a step


# Intervals and walls on a ring


@pytest.mark.parametrize("turns", [-1, 0, 1, 5])
def test_an_interval_may_lie_across_the_seam(turns, paths):
    """From zero to its ends 3 and 3.5 there are the ways 3 and 2π − 3.5."""
    paths(200)
    low, high = 3 + 2 * np.pi * turns, 3.5 + 2 * np.pi * turns
    exact = 3 * (2 * np.pi - 3.5)
    for target in ((low, high), {"x": (low, high)}):
        assert dynamics.first_passage_time(brownian(Ring), 0, target).value == pytest.approx(exact, rel=1e-3)
    found = dynamics.first_passage_time(brownian(Ring), 0, (low, high), **SIMULATED)
    assert found.value == pytest.approx(exact, abs=5 * 0.45)
    with pytest.raises(InputError, match="overlap"):
        dynamics.first_passage_time(brownian(Ring), -3, (low, high))
    with pytest.raises(InputError, match="overlap"):
        dynamics.exit_probabilities(brownian(Ring), 0, [(low, high), (-3, -2.5)])


def test_intervals_of_a_ring_without_an_end_reach_to_the_end_of_the_period():
    for target in ((2, None), (2, np.pi), (2 + 2 * np.pi, None), (None, -2), (-np.pi, -2), (None, -2 - 2 * np.pi)):
        time = dynamics.first_passage_time(brownian(Ring), 0, target).value
        assert time == pytest.approx(2 * np.pi, rel=1e-3)


def test_a_box_that_is_less_than_a_period_has_walls(paths):
    """From 0.5 to 0 with a wall at 1: L² − (L − y)² with L = 1 and y = 0.5."""
    paths(400)
    box = (-2, 1)
    assert dynamics.first_passage_time(brownian(Ring), 0.5, 0, box=box).value == pytest.approx(0.75, rel=1e-3)
    found = dynamics.first_passage_time(brownian(Ring), 0.5, 0, box=box, **SIMULATED)
    assert found.value == pytest.approx(0.75, abs=5 * 0.045)
    ring = Ring(f=lambda x: -np.sin(x), sigma=constant(np.eye(1)))
    density = dynamics.stationary_density(ring, box=box)
    exact = np.exp(2 * np.cos(density.axes[0]))
    np.testing.assert_allclose(density.value / density.value.sum(), exact / exact.sum(), rtol=1e-3)
    assert not density.mesh.periodic[0]


def test_a_box_with_walls_may_lie_across_the_seam():
    """From 3 to −2.5, which is 3.78, with a wall at 2; also where the equation is known within its period alone."""

    def flow(x):
        assert (np.abs(x) <= np.pi).all()
        return 0 * x

    sde = Ring(f=flow, sigma=constant(np.eye(1)))
    length, y = 2 * np.pi - 2.5 - 2, 3 - 2
    for target in (-2.5, (-2.5, -2.4), (2 * np.pi - 2.5, 2 * np.pi - 2.4)):
        time = dynamics.first_passage_time(sde, 3, target, box=(2, 4)).value
        assert time == pytest.approx(length**2 - y**2, rel=2e-3)
    with pytest.raises(InputError, match="lies outside"):
        dynamics.first_passage_time(sde, 3, (0, 1), box=(2, 4))


def test_an_interval_that_walls_cut_in_two():
    """All but a piece in the middle: the exit of Brownian motion from there."""
    time = dynamics.first_passage_time(brownian(Ring), 0.2, (1, 2 * np.pi - 0.5), box=(-2, 2)).value
    assert time == pytest.approx((1 - 0.2) * (0.5 + 0.2), rel=1e-3)


def test_a_box_of_one_period_is_a_ring_wherever_it_is_cut():
    for begin in (-np.pi, 0.0, 1.0):
        box = (begin, begin + 2 * np.pi)
        time = dynamics.first_passage_time(brownian(Ring), -1, 1.5, box=box).value
        assert time == pytest.approx(2.5 * (2 * np.pi - 2.5), rel=1e-3)
    with pytest.raises(InputError, match=r"must not be longer than its period, 6\.28319"):
        dynamics.stationary_density(brownian(Ring), box=(-4, 4))


# The usual questions


def in_the_plane(f, noise, kind=KnownSDE):
    return kind(f=f, sigma=constant(noise * np.eye(2)), n_inputs=2, n_outputs=2)


def passages(found):
    return [answer for answer in found.answers if isinstance(answer, dynamics.PassageTime)]


def test_surroundings_reach_across_the_seam():
    """Two wells opposite each other: the same times both ways, whether one of them is at the seam or not."""
    times = []
    for shift in (0.0, 1.5):

        def flow(x, shift=shift):
            return np.stack([-np.sin(2 * (x[:, 0] - shift)), -x[:, 1]], axis=1)

        found = passages(dynamics.outlook(in_the_plane(flow, 0.8, Ring), box={"x2": (-2, 2)}))
        times += [answer.value for answer in found]
    np.testing.assert_allclose(times, times[0], rtol=1e-4)


def wells_in_the_plane(strength, noise):
    return in_the_plane(lambda x: np.stack([strength * x[:, 0] - x[:, 0] ** 3, -x[:, 1]], axis=1), noise)


def test_an_outlook_with_little_noise():
    """Where a state is that belongs to a well is smaller than cells: it is made as large as they are."""
    found = dynamics.outlook(wells_in_the_plane(1.0, 0.15), box=[[-4, -4], [4, 4]])
    assert not found.notes
    assert [answer.way for answer in passages(found)] == [(0, 2), (2, 0)]
    exact = time_to_right(0.15, -1, 1 - 0.16, -2)  # the radius is a cell of the grid of samples
    for answer in passages(found):
        assert "at least a cell of the grid" in answer.what
        assert np.log(answer.value) == pytest.approx(np.log(exact), rel=0.02)


def test_an_outlook_with_much_noise():
    """Wells within one standard deviation of each other: there is nothing to reach, and the rest is answered."""
    found = dynamics.outlook(wells_in_the_plane(0.1, 0.5), box=[[-2, -2], [2, 2]])
    kinds = [type(answer).__name__ for answer in found.answers]
    assert kinds == ["FixedPoints", "RelaxationTimes", "Answer"]
    assert len(found.notes) == 2
    for note in found.notes:
        assert "left out, the start is within one standard deviation around x1 = " in note
        assert note in str(found)


def test_an_outlook_leaves_out_what_cannot_be_answered(monkeypatch):
    """Whatever it is, it does not take the other answers with it; mistakes in what was given are errors as before."""

    def fails(*_, **__):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(sys.modules["itofit.dynamics.outlook"], "relaxation_times", fails)
    found = dynamics.outlook(two_wells(0.7), box=(-2, 2))
    assert [type(answer).__name__ for answer in found.answers] == [
        "FixedPoints",
        "PassageTime",
        "PassageTime",
        "Answer",
    ]
    assert found.notes == ("relaxation times: left out, Singular matrix",)
    with pytest.raises(InputError, match="samples"):
        dynamics.outlook(two_wells(0.7), box=(-2, 2), samples=1)
    with pytest.raises(InputError, match="box"):
        dynamics.outlook(two_wells(0.7))


# Cycles round a ring


@pytest.mark.parametrize("speed", [1.0, -2.0])
def test_a_cycle_may_go_round_a_periodic_variable(speed):
    turning = in_the_plane(lambda x: np.stack([np.full(len(x), speed), np.sin(x[:, 0]) - x[:, 1]], axis=1), 0.1, Ring)
    answer = dynamics.period(turning, box={"x2": (-2, 2)}, samples=0)
    assert answer.value == pytest.approx(2 * np.pi / abs(speed), rel=1e-4)
    height = 1 / np.sqrt(1 + speed**2)  # of a linear response to a force of frequency `speed`
    assert np.abs(answer.cycle[:, 1]).max() == pytest.approx(height, rel=2e-3)


def test_a_pendulum_that_is_driven_turns():
    """θ'' = F − sin θ − γθ' without a fixed point: its period from the equation of the energy, by quadrature."""
    force, friction = 3.0, 1.5
    sde = Ring(
        f=lambda x: force - np.sin(x[:, :1]) - friction * x[:, 1:], sigma=constant(np.array([[0.1]])), n_inputs=2
    )
    answer = dynamics.period(sde, box={"v": (-1, 5)}, samples=0)
    theta = np.linspace(0, 2 * np.pi, 4001)
    v = np.full(4001, force / friction)
    for _ in range(6):  # turns, until the velocity is periodic
        v[0] = v[-1]
        for i in range(4000):
            h = theta[1]
            slope = (force - np.sin(theta[i])) / v[i] - friction
            middle = v[i] + 0.5 * h * slope
            v[i + 1] = v[i] + h * ((force - np.sin(theta[i] + 0.5 * h)) / middle - friction)
    exact = integral(theta, 1 / v)[-1]
    assert answer.value == pytest.approx(exact, rel=1e-4)


def test_an_outlook_has_cycles_round_a_ring():
    turning = in_the_plane(lambda x: np.stack([np.ones(len(x)), 1 - x[:, 1]], axis=1), 0.1, Ring)
    found = dynamics.outlook(turning, box={"x2": (0, 2)})
    assert [type(answer).__name__ for answer in found.answers] == ["FixedPoints", "Period", "RelaxationTimes", "Answer"]
    assert found.answers[1].value == pytest.approx(2 * np.pi, rel=1e-4)
    assert not found.notes
