"""Pictures of answers and of data beside them: what they show is what the equation and the data say."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

import itofit
from itofit import Transitions, Units, dynamics, plot
from itofit.dynamics.answers import Answer
from itofit.dynamics.drawn import draw_curve, look, top_of
from itofit.dynamics.long_run import Density, OnGrid
from itofit.dynamics.mesh import Mesh
from itofit.dynamics.relaxation import RelaxationTimes
from itofit.dynamics.zero_lines import Nullclines
from itofit.looking.plot.portraits import BEHIND, WITH_ERRORS, _all_states, _beside_observed, _with_errors
from itofit.looking.plot.simulated import compare
from itofit.model.known import KnownSDE
from itofit.model.measurement import HiddenVelocity, MeasurementNoise

mpl.use("Agg")
SD = 0.7
"""Of errors of measurement, and of the states of the Ornstein-Uhlenbeck process dx = −x dt + dW."""
ODD = r"x$\q$y"
"""A name that would be a wrong formula."""


@pytest.fixture(autouse=True)
def tidy():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def new_axes():
    return Figure(layout="constrained").add_subplot()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line(ax, label):
    return next(each for each in ax.lines if each.get_label() == label)


def ou(rng, n, steps, dt=0.2, sd=0.0, d=1):
    """Tracks (n, steps + 1, d) of that process from its stationary distribution, with errors."""
    x, a = [rng.normal(size=(n, d)) * np.sqrt(0.5)], np.exp(-dt)
    for _ in range(steps):
        x.append(a * x[-1] + np.sqrt(0.5 * (1 - a**2)) * rng.normal(size=(n, d)))
    return np.stack(x, axis=1) + sd * rng.normal(size=(n, steps + 1, d))


def tracks(x, dt=0.2, **options):
    return Transitions.from_trajectories(list(x), dt=dt, **options)


def with_errors(sde, sd=SD):
    """A model of exact states that is seen with errors of a known standard deviation."""
    d = sde.n_outputs
    known = {"covariance": sd**2 * np.eye(d), "std": np.zeros((d, d)), "known": True, "gain": 0.0, "p": 1.0}
    return replace(sde, measurement_noise=MeasurementNoise(**known, corrected=True))


def fitted(x, **options):
    return itofit.fit(tracks(x, **options), measurement_noise=False, rng=0)


@pytest.fixture(scope="module")
def process():
    return fitted(ou(np.random.default_rng(0), 40, 200))


@pytest.fixture(scope="module")
def plane():
    return fitted(ou(np.random.default_rng(1), 30, 100, d=2))


@pytest.fixture(scope="module")
def wells():
    """A double well, learned from few data."""
    rng, h = np.random.default_rng(2), 0.05
    x = [np.repeat([-1.0, 1.0], 10)]
    for _ in range(200):
        x.append(x[-1] + h * (x[-1] - x[-1] ** 3) + 0.6 * np.sqrt(h) * rng.normal(size=20))
    return itofit.fit(tracks(np.stack(x, axis=1)[:, :, None], h), measurement_noise=False, rng=0)


# Positions


@pytest.fixture(scope="module")
def oscillator():
    """An oscillator that a covariate drives, as if it were learned from positions alone; states and positions."""
    rng, h, k = np.random.default_rng(3), 0.1, 60
    x, v = rng.normal(size=(2, 30))
    u = np.repeat(rng.uniform(5, 6, (30, 12)), 5, axis=1)
    path, speed = [x], [v]
    for i in range(k - 1):
        x, v = x + h * v, v + h * (-x - 0.5 * v + 0.2 * (u[:, i] - 5.5)) + 0.5 * np.sqrt(h) * rng.normal(size=30)
        path.append(x)
        speed.append(v)
    x, v = np.stack(path, axis=1), np.stack(speed, axis=1)
    pairs = [(z[:, :-1].reshape(-1, 1), z[:, 1:].reshape(-1, 1)) for z in (x, v)]
    rows = np.repeat(np.arange(30), k - 1)
    driven = u[:, :-1].reshape(-1, 1)
    seen = Transitions.from_underdamped(pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1], h, rows, covariates=driven)
    sde = itofit.fit(seen, correct_step=False, rng=0)
    hidden = HiddenVelocity(mean=np.zeros(1), covariance=np.eye(1), substeps=1)
    data = Transitions.from_positions(list(x[:, :, None]), dt=h, covariates=list(u[:, :, None]))
    return replace(sde, hidden_velocity=hidden), data, v


def test_positions_are_drawn_with_their_velocities(oscillator):
    """And not with the covariate, which is between 5 and 6, in their place."""
    sde, data, v = oscillator
    options = {"covariates": 5.5, "samples": 0}
    ax = plot.phase_portrait(sde, data, ax=new_axes(), **options)
    assert np.abs(ax.lines[0].get_ydata()).max() < 5
    assert BEHIND in legend(ax)
    assert BEHIND in legend(plot.density(sde, data, ax=new_axes(), **options))
    states, _ = _all_states(sde, data)
    assert states.shape == (len(data), 2)
    assert np.corrcoef(states[:, 1], v[:, :-1].ravel())[0, 1] > 0.9


def test_positions_alone_are_drawn_with_their_velocities():
    """Without a covariate there is no second column that could be taken for velocities."""
    rng, h = np.random.default_rng(4), 0.1
    x, v = ou(rng, 20, 60, h)[:, :, 0], ou(rng, 20, 60, h)[:, :, 0]
    pairs = (z[:, :-1].reshape(-1, 1) for z in (x, v)), (z[:, 1:].reshape(-1, 1) for z in (x, v))
    sde = itofit.fit(Transitions.from_underdamped(*pairs[0], *pairs[1], h), correct_step=False, rng=0)
    sde = replace(sde, hidden_velocity=HiddenVelocity(mean=np.zeros(1), covariance=np.eye(1), substeps=1))
    data = Transitions.from_positions(list(x[:, :, None]), dt=h)
    for draw in (plot.density, plot.phase_portrait):
        assert BEHIND in legend(draw(sde, data, samples=0, ax=new_axes()))


# Errors of measurement


@pytest.mark.parametrize("steps", [2, 40])
def test_a_right_model_is_not_accused_for_errors_of_measurement(process, steps):
    """Starts that were the observations themselves would make the standard deviation 14 % too large after 2 steps.

    That of 2000 tracks has a standard error of 1.3 %, as has the estimate of the starts: 5 of both together are 9 %.
    """
    data = tracks(ou(np.random.default_rng(5), 2000, steps, sd=SD))
    found = compare(with_errors(process), data, 0, None, np.random.default_rng(0))
    assert abs(np.log(found.simulated.std() / found.observed.std())) < 0.09
    assert found.label.startswith("simulated, with errors")


def test_starts_that_were_all_the_same_are_found(process):
    """Tracks of one step that all begin at 2: the mean and spread of their ends are right to 5 standard errors."""
    rng = np.random.default_rng(6)
    x = np.full((500, 2, 1), 2.0)
    x[:, 1, 0] = 2 * np.exp(-0.2) + np.sqrt(0.5 * (1 - np.exp(-0.4))) * rng.normal(size=500)
    found = compare(with_errors(process), tracks(x + SD * rng.normal(size=x.shape)), 0, None, rng)
    assert abs(found.simulated.mean() - found.observed.mean()) < 10 * found.observed.std() / np.sqrt(500)
    assert abs(np.log(found.simulated.std() / found.observed.std())) < 0.16


def test_few_starts_are_taken_as_the_smoother_says(process):
    data = tracks(ou(np.random.default_rng(7), 1, 300, sd=SD))
    found = compare(with_errors(process), data, 0, 3, np.random.default_rng(0))
    assert (found.n_paths, len(found.simulated)) == (3, 900)
    assert np.isfinite(found.simulated).all()


def test_densities_of_noisy_observations_have_their_errors(process):
    """States have the variance ½, observations ½ + 0.49; 8000 correlated rows agree with that to a few percent."""
    data = tracks(ou(np.random.default_rng(8), 40, 200, sd=SD))
    ax = plot.density(with_errors(process), data, samples=0, ax=new_axes())
    assert set(legend(ax)) == {"observed", "learned", WITH_ERRORS}
    for label, variance in (("learned", 0.5), (WITH_ERRORS, 0.99)):
        x, p = line(ax, label).get_data()
        p = p / p.sum()
        assert p @ x**2 - (p @ x) ** 2 == pytest.approx(variance, rel=0.08)
    bars = np.array([bar.get_height() for bar in ax.patches])
    assert bars.max() == pytest.approx(line(ax, WITH_ERRORS).get_ydata().max(), rel=0.15)
    assert "observed" in legend(plot.density(process, data, samples=0, ax=new_axes()))


def test_contours_of_noisy_observations_have_their_errors(plane):
    data = tracks(ou(np.random.default_rng(9), 60, 200, sd=SD, d=2))
    sde, box = with_errors(plane), [[-4, -4], [4, 4]]
    answer = dynamics.stationary_density(sde, box=box, samples=0)
    states, _ = _all_states(sde, data)
    x, y, learned, seen = _beside_observed(answer, states, SD**2 * np.eye(2))
    area = (x[1] - x[0]) * (y[1] - y[0])
    assert learned.sum() * area == pytest.approx(1, abs=1e-3)
    assert 0.5 * np.abs(learned - seen).sum() * area < 0.1
    assert 0.5 * np.abs(_beside_observed(answer, states)[2] - seen).sum() * area > 0.25
    assert legend(plot.density(sde, data, box=box, samples=0, ax=new_axes())) == [WITH_ERRORS, "observed"]


def test_dots_of_noisy_observations_are_the_states_behind_them(plane, process):
    """Smoothed states of this process are 0.5 away from the state, as the filter says, and not 0.7."""
    x = ou(np.random.default_rng(10), 9, 200, d=2)
    data = tracks(x + SD * np.random.default_rng(11).normal(size=x.shape))
    ax = plot.phase_portrait(with_errors(plane), data, samples=0, ax=new_axes())
    states = np.column_stack(ax.lines[0].get_data())
    assert (states - x[:, :-1].reshape(-1, 2)).std() < 0.55
    assert BEHIND in legend(ax)
    assert BEHIND not in legend(plot.phase_portrait(plane, data, samples=0, ax=new_axes()))


@pytest.mark.parametrize("periodic", [False, True])
def test_errors_spread_a_density_by_their_covariance(periodic):
    """Of two variables with correlated errors; over the seam of periodic ones as elsewhere."""
    size, errors = np.array([0.1, 0.2]), np.array([[0.25, 0.2], [0.2, 0.36]])
    density = np.zeros((80, 60))
    density[40, 30] = 1.0
    spread = _with_errors(density, size, (periodic, periodic), errors)
    place = np.stack(np.meshgrid(*(np.arange(k) for k in density.shape), indexing="ij"), axis=-1).reshape(-1, 2)
    away = (place - [40, 30]) * size
    np.testing.assert_allclose((away.T * spread.ravel()) @ away, errors, rtol=0.02)
    assert spread.sum() == pytest.approx(1)
    if periodic:
        moved = _with_errors(np.roll(density, (40, 30), (0, 1)), size, (True, True), errors)
        np.testing.assert_allclose(moved, np.roll(spread, (40, 30), (0, 1)), atol=1e-12)
    sharp = _with_errors(density, size, (periodic, periodic), 0.0 * errors)
    np.testing.assert_allclose(sharp, density, atol=1e-12)


# Intervals


def test_every_answer_has_an_interval(wells, plane):
    options = {"samples": 4, "rng": 0}
    flat = options | {"cells": 16}
    answers = [
        *(ask(wells, **options) for ask in (dynamics.fixed_points, dynamics.potential, dynamics.quasi_potential)),
        *(ask(wells, **options) for ask in (dynamics.relaxation_times, dynamics.autocorrelation)),
        *(ask(wells, -1, 1, **options) for ask in (dynamics.first_passage_time, dynamics.escape_rate)),
        dynamics.exit_probabilities(wells, 0, (-1, 1), **options),
        *(ask(plane, **flat) for ask in (dynamics.nullclines, dynamics.stationary_density, dynamics.quasi_potential)),
        *(ask(plane, **flat) for ask in (dynamics.probability_current, dynamics.entropy_production)),
    ]
    for answer in answers:
        low, high = (np.asarray(end) for end in answer.interval(0.9))
        assert low.shape == high.shape == np.shape(answer.value)
        if not isinstance(answer, Nullclines):  # whose ends are two sides of a line
            assert (low <= high)[np.isfinite(low)].all()


def test_intervals_of_nullclines_lie_across_them(plane):
    lines = dynamics.nullclines(plane, cells=20, samples=10, rng=0)
    (low, high), (inner, _) = lines.interval(), lines.interval(0.5)
    np.testing.assert_allclose(0.5 * (low + high), lines.value)
    width = np.einsum("ni,ni->n", high - low, lines.across)
    np.testing.assert_allclose(width, np.linalg.norm(high - low, axis=1))
    np.testing.assert_allclose(width, 2 * 2.262 * lines.std, rtol=1e-3)  # of Student's distribution with 9 degrees
    assert (np.linalg.norm(inner - lines.value, axis=1) < 0.5 * width).all()
    assert np.isnan(dynamics.nullclines(plane, cells=20, samples=0).interval()[0]).all()


def test_the_band_of_passage_times_is_that_of_the_time_itself(wells):
    """From 0 up, zero where the target is, and wholly drawn where the times are long."""
    time = dynamics.first_passage_time(wells, -1, (1, None), samples=12, rng=0)
    low, high = time.curve.interval()
    assert np.isfinite([low, high]).all()
    assert (low >= 0).all()
    x = time.mesh.axes[0]
    assert (high[x > 1.1] == 0).all()
    np.testing.assert_allclose([np.interp(-1, x, end) for end in (low, high)], time.interval(), rtol=0.02)
    bottom, top = time.plot(new_axes()).get_ylim()
    assert bottom == 0
    assert top >= 0.999 * high[x < -0.5].max()


def test_what_is_zero_in_all_samples_is_surely_zero():
    samples = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 1.0], [1.5, 0.0, 2.0]])
    low, high = Answer(what="", value=np.array([1.5, 0.0, 0.0]), samples=samples, scale="log").interval()
    assert (low[1], high[1]) == (0, 0)
    assert 0 < low[0] < 1.5 < high[0]
    low, high = Answer(what="", value=np.zeros(2), samples=np.empty((0, 2)), scale="log").interval()
    assert np.isnan([low, high]).all()


# Axes that show all there is


def test_the_band_of_a_constant_is_drawn_whole():
    """As of the current of a periodic variable, which is the same everywhere."""
    samples = 0.1353 + 0.007 * np.linspace(-1.5, 1.5, 9)[:, None] * np.ones(50)
    answer = Answer(what="current", value=np.full(50, 0.1353), samples=samples)
    ax = draw_curve(np.linspace(0, 1, 50), answer, "x", new_axes())
    assert ax.get_ylim()[1] > answer.interval()[1].max()
    assert ax.get_ylim()[0] < answer.interval()[0].min()


def test_a_band_that_is_wide_in_a_few_places_does_not_decide_the_range():
    x = np.linspace(-1, 1, 200)
    high = x**2 + 0.1 + 100 * (np.abs(x) > 0.97)
    assert top_of(x**2, high) == pytest.approx(1.5, abs=0.01)
    assert top_of(np.ones(3), np.array([1.2, 1.2, 1.2])) == 1.2
    assert np.isnan(top_of(np.full(3, np.nan), np.ones(3)))


def test_values_without_samples_are_drawn():
    walk = KnownSDE(f=lambda x: 0 * x, sigma=lambda x: np.ones((len(x), 1, 1)))
    odds = dynamics.exit_probabilities(walk, start=0.5, targets=(0, 2), box=(-1, 3))
    ax = odds.plot(new_axes())
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [0.75, 0.25], atol=0.001)
    assert not ax.containers
    samples = np.array([[0.7, 0.3], [0.8, 0.2]])
    drawn = Answer(what="", value=np.array([0.75, 0.25]), samples=samples, scale="share").plot(new_axes())
    assert isinstance(drawn.containers[0], ErrorbarContainer)


@pytest.mark.parametrize("value", [np.inf, np.array([2.0]), np.array([np.inf, 2.0])])
def test_infinite_values_can_be_drawn(value):
    samples = np.array([0.9, 1.0, 1.2]).reshape(-1, *[1] * np.ndim(value)) * value
    drawn(Answer(what="time", value=value, samples=samples, scale="log").plot(new_axes()))


def colour_label(ax):
    return ax.child_axes[0].get_ylabel()


def test_colours_of_a_current_in_space_are_the_density_of_two_variables():
    """Of an Ornstein-Uhlenbeck process with variance ½: 1/π at the middle, to what cells of 0.4 leave of it."""
    sde = KnownSDE(f=lambda x: -x, sigma=lambda x: np.tile(np.eye(3), (len(x), 1, 1)), n_inputs=3, n_outputs=3)
    options = {"box": [[-3] * 3, [3] * 3], "cells": 15, "samples": 0}
    ax = dynamics.probability_current(sde, **options).plot(new_axes())
    (colours,) = [each for each in ax.collections if isinstance(each, QuadMesh)]
    assert colours.get_array().sum() * 0.4**2 == pytest.approx(1, abs=1e-6)
    assert colours.get_array().max() == pytest.approx(1 / np.pi, rel=0.1)
    assert colour_label(ax) == "stationary density of x1, x2"
    density = dynamics.stationary_density(sde, **options).plot(new_axes())
    assert colour_label(density) == "stationary density, mean over x3"


def test_colours_say_where_a_quasi_potential_is_higher():
    mesh = Mesh(np.array([[0.0, 0.0], [1.0, 1.0]]), (10, 10), (False, False))
    for height, extend in ((94.0, "max"), (5.0, "neither")):
        value = height * mesh.centres.sum(axis=1).reshape(10, 10) / 1.9
        place = {"mesh": mesh, "names": ("x", "y")}
        answer = OnGrid(what="quasi-potential −log ρ", value=value, samples=np.empty((0, 10, 10)), **place)
        (colours,) = [each for each in answer.plot(new_axes()).collections if isinstance(each, QuadMesh)]
        assert colours.colorbar.extend == extend
        assert colours.norm.vmax == pytest.approx(min(height, 12.0), rel=1e-6)
        assert colours.get_array().max() == pytest.approx(height)


# Many curves, odd names


def test_as_many_curves_are_drawn_as_there_are():
    well = KnownSDE(f=lambda x: -(x**3), sigma=lambda x: np.ones((len(x), 1, 1)))
    targets = [-1.5, -1.0, -0.5, 0.5, 1.0, 1.5]
    ax = plot.passage_times(well, targets=targets, box=(-2, 2), ax=new_axes())
    assert len(ax.lines) == len(legend(ax)) == 6
    ax = dynamics.relaxation_times(well, n=6, box=(-2, 2)).plot(new_axes())
    assert len(legend(ax)) == 6
    assert len({(color, str(dashes)) for color, dashes in map(look, range(16))}) == 16


def drawn(ax):
    """The figure as matplotlib draws it, which it refuses if a text is a wrong formula."""
    ax.figure.draw_without_rendering()
    return ax


@pytest.fixture(scope="module")
def odd(plane):
    """A model of two variables with odd names and units, and data of it."""
    x = ou(np.random.default_rng(12), 5, 50, d=2)
    named = replace(plane, input_names=(ODD, "z"), output_names=(ODD, "z"), units=Units((ODD, "z"), (ODD, ODD), ODD))
    return named, tracks(x, names=[ODD, "z"])


def test_names_that_look_like_formulas(odd):
    sde, data = odd
    options = {"samples": 2, "rng": 0}
    for ask in (dynamics.nullclines, dynamics.fixed_points):
        drawn(ask(sde, **options).plot(new_axes()))
    for ask in (dynamics.autocorrelation, dynamics.stationary_density, dynamics.relaxation_times):
        drawn(ask(sde, cells=12, **options).plot(new_axes()))
    sets = {f"low {ODD}": {ODD: (None, -0.5)}, "high": {ODD: (0.5, None)}}
    odds = dynamics.exit_probabilities(sde, [0, 0], sets, cells=12, **options)
    assert len(drawn(odds.plot(new_axes())).get_yticks()) == 2
    drawn(plot.phase_portrait(sde, data, ax=new_axes(), **options))


def test_units_that_look_like_formulas():
    mesh = Mesh(np.array([[0.0], [1.0]]), (10,), (False,))
    units = Units(time=ODD)
    turns = Answer(what="", value=np.zeros(2), samples=np.empty((0, 2)))
    times = RelaxationTimes(
        what="times",
        value=np.array([2.0, 1.0]),
        samples=np.empty((0, 2)),
        frequencies=turns,
        modes=np.ones((2, 10)),
        mesh=mesh,
        names=(ODD,),
        unit=ODD,
        units=units,
    )
    drawn(times.plot(new_axes()))


# Moments of a density


@pytest.mark.parametrize("seam", [0.0, 0.4, 0.5])
def test_moments_of_an_angle_do_not_depend_on_where_its_period_begins(seam):
    """A well of standard deviation 0.25 around a place of the circle, with a variable beside it that follows it."""
    mesh = Mesh(np.array([[0.0, -2.0], [2 * np.pi, 2.0]]), (200, 100), (True, False))
    middle = 2 * np.pi * seam
    away = np.mod(mesh.centres[:, 0] - middle + np.pi, 2 * np.pi) - np.pi
    beside = mesh.centres[:, 1] - 0.3 - away
    p = np.exp(-0.5 * (away / 0.25) ** 2 - 0.5 * (beside / 0.2) ** 2).reshape(200, 100)
    p /= p.sum() * mesh.volume
    density = Density(what="density", value=p, samples=np.empty((0, *p.shape)), mesh=mesh, names=("angle", "y"))
    assert np.mod(density.mean[0] - middle + np.pi, 2 * np.pi) - np.pi == pytest.approx(0, abs=1e-6)
    assert density.mean[1] == pytest.approx(0.3, abs=1e-6)
    expected = [[0.0625, 0.0625], [0.0625, 0.0625 + 0.04]]
    np.testing.assert_allclose(density.covariance, expected, rtol=1e-3)
