"""Answers by simulation: for more variables than a grid can have, or to compare with one.

Paths make steps of Euler and Maruyama of a length at which the drift hardly changes. They are reflected at the edge of
the box, and go round along periodic variables. Paths in the long run are followed until it no longer matters where they
started, and passages until nearly all have arrived; an answer says what is missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import RNG, Float, InputError, Int, generator
from itofit.data.periods import nearest_image, wrapped
from itofit.data.units import behind
from itofit.dynamics.mesh import Mesh
from itofit.dynamics.motion import Motion
from itofit.dynamics.questions import Cells, shape_of
from itofit.dynamics.regions import Region
from itofit.dynamics.resting import slopes
from itofit.model.sampled import DrawnSDEs

STEP = 0.03
"""Relative to the fastest of typical rates of change."""
FARTHEST = 0.03
"""What noise makes of a step, relative to the box."""
PATHS, SAMPLE_PATHS = 1000, 200
"""Of the equation itself, and of each sample."""
STEPS, LONGEST_RUN = 2000, 32_000
"""Of paths in the long run: when they are first asked whether it has settled, and until this is given up."""
KEPT = 100
"""Times in the last half of a long run at which its states are kept."""
REMEMBERED = 0.05
"""Share of a variance that may still be between paths, because of where they started, in the long run."""
APART, LEAST_CHANGE = 4.0, 0.02
"""Standard errors, and standard deviations of the state, by which means in the long run may still change."""
ROUNDING = 1e-9
"""Variance, relative to the square of the range, of what does not vary."""
MOST_STEPS = 20_000
"""Until paths are given up to arrive anywhere."""
ARRIVED = 0.99
"""Share of the paths that is waited for."""
LATE = 0.5
"""Share of the time after which arrivals tell when the paths will arrive that have not."""
BETWEEN = 30
"""How often a path is looked at during a step."""
DENSITY_CELLS = 40
"""In each direction, of the grid on which states are counted."""
MOST_SAMPLES = 16
"""Samples that are simulated: further ones would take long and add little."""


class _Walk:
    """Paths of an equation in a box."""

    def __init__(self, motion: Motion, n: int, start: Float, dt: float, rng: np.random.Generator) -> None:
        self.motion, self.dt, self.rng = motion, dt, rng
        self.x = start[rng.integers(len(start), size=n)].copy()

    def step(self) -> Float:
        """One step of all paths; they are returned."""
        motion, dt, s = self.motion, self.dt, self.motion.s
        d = s // 2 if motion.underdamped else s
        at = motion.inputs(self.x)
        f, root = motion.sde.drift(at), motion.sde.diffusion(at)
        kick = dt * f + np.sqrt(dt) * (root @ self.rng.standard_normal((len(at), d, 1)))[:, :, 0]
        x = self.x.copy()
        x[:, s - d :] += kick
        if motion.underdamped:
            x[:, :d] += dt * x[:, d:]
        self.x = self._reflected(wrapped(x, motion.periods))
        return self.x

    def _reflected(self, x: Float) -> Float:
        low, high = np.where(self.motion.periodic, [[-np.inf], [np.inf]], self.motion.box)
        beyond = (x < low) | (x > high)
        x = np.where(x < low, 2 * low - x, np.where(x > high, 2 * high - x, x))
        if self.motion.underdamped:
            d = self.motion.s // 2
            x[:, d:] = np.where(beyond[:, :d], -x[:, d:], x[:, d:])
        return np.clip(x, low, high)


def time_step(motion: Motion) -> float:
    """A step during which the drift hardly changes, and in which noise does not go far."""
    span = motion.box[1] - motion.box[0]
    places = motion.box[0] + span * (0.1 + 0.8 * np.random.default_rng(0).random((200, motion.s)))
    J = slopes(motion.flow, places, span) * span / span[:, None]
    rate = float(np.median(np.linalg.norm(J, 2, axis=(1, 2))))
    noise = np.diagonal(motion.flow_and_noise(places)[1], axis1=1, axis2=2) / span**2
    return min(STEP / max(rate, 1e-300), FARTHEST**2 / (2 * float(np.median(noise.max(axis=1)))))


def _each(motion: Motion, sampled: DrawnSDEs | None) -> list[Motion]:
    return [] if sampled is None else [Motion(one, motion.box, motion.held) for one in sampled[:MOST_SAMPLES]]


def _notes_on_samples(sampled: DrawnSDEs | None) -> list[str]:
    """What is to be known of error bars."""
    if sampled is None or not len(sampled):
        return []
    used = min(len(sampled), MOST_SAMPLES)
    which = f"{used} of {len(sampled)}" if used < len(sampled) else f"{used}"
    return [f"error bars are from {which} samples, with the chance of {SAMPLE_PATHS} paths each"]


# In the long run


class _LongRun(NamedTuple):
    """States in the last half of a simulation."""

    states: Float  # (n_times, n, s)
    n_steps: int  # of the whole simulation
    settled: bool  # whether it no longer matters where the paths started

    @property
    def notes(self) -> list[str]:
        """What is to be known if it has not settled."""
        if self.settled:
            return []
        return [
            f"the long run had not settled after {self.n_steps:,} steps: it still matters where paths started, so that "
            "shares of parts between which they rarely change may be far off"
        ]


def _in_the_long_run(motion: Motion, n: int, dt: float, rng: np.random.Generator) -> _LongRun:
    """States of n paths that started all over the middle of the box.

    They are followed for twice as long, again and again, until what they do in the last half of the time has settled.
    """
    span = motion.box[1] - motion.box[0]
    walk = _Walk(motion, n, motion.box[0] + span * (0.25 + 0.5 * rng.random((n, motion.s))), dt, rng)
    n_steps = max(STEPS // 2, 2)
    _states_during(walk, n_steps)
    while True:
        states = _states_during(walk, n_steps)
        n_steps *= 2
        settled = _has_settled(motion, states)
        if settled or 2 * n_steps > LONGEST_RUN:
            return _LongRun(states, n_steps, settled)


def _in_the_same_run(motion: Motion, like: _LongRun, n: int, dt: float, rng: np.random.Generator) -> Float:
    """States of n paths of a sample (n_times, n, s), which start where those of the equation are, and run as long."""
    walk = _Walk(motion, n, like.states.reshape(-1, motion.s), dt, rng)
    _states_during(walk, like.n_steps // 2)
    return _states_during(walk, like.n_steps // 2)


def _states_during(walk: _Walk, n_steps: int) -> Float:
    """States at some times of the next steps: shape (n_times, n, s)."""
    every, kept = max(n_steps // KEPT, 1), []
    for i in range(1, n_steps + 1):
        x = walk.step()
        if i % every == 0:
            kept.append(x)
    return np.stack(kept)


def _has_settled(motion: Motion, states: Float) -> bool:
    """Whether the two halves of a time with states (n_times, n, s) agree, and paths differ in them by chance alone.

    What is looked at are means over a half of each path, of all variables and their squares. As long as paths stay in
    the part where they started, these are alike in both halves of one path, and differ between paths. Where paths only
    turn, as on a limit cycle, they are about the same for all.
    """
    n_times, n, s = states.shape
    scale = np.where(motion.periodic, 1.0, motion.box[1] - motion.box[0])
    columns = [own / size for own, size in zip(motion.observed(states.reshape(-1, s)), scale, strict=True)]
    q = np.concatenate(columns, axis=1).reshape(n_times, n, -1)
    q = np.concatenate([q, (q - q.mean(axis=(0, 1))) ** 2], axis=2)
    variance = q.var(axis=(0, 1)) + ROUNDING
    first, last = q[: n_times // 2].mean(axis=0), q[n_times // 2 :].mean(axis=0)  # (n, k)
    between = ((first - first.mean(axis=0)) * (last - last.mean(axis=0))).mean(axis=0)
    change = last - first
    error = change.std(axis=0) / np.sqrt(n)
    allowed = np.maximum(APART * error, LEAST_CHANGE * np.sqrt(variance))
    return bool((between <= REMEMBERED * variance).all() and (np.abs(change.mean(axis=0)) <= allowed).all())


class SimulatedDensity(NamedTuple):
    """Densities of the first two variables on a grid."""

    mesh: Mesh
    value: Float  # (cells, ...)
    samples: Float  # (n_samples, cells, ...)
    notes: tuple[str, ...]


def density_by_simulation(motion: Motion, sampled: DrawnSDEs | None, rng: RNG, cells: Cells = None) -> SimulatedDensity:
    """The density of the first two variables, counted in cells of a grid, and that of samples."""
    shown_of = min(2, motion.s)
    shape = shape_of(cells, motion.names[:shown_of], (DENSITY_CELLS,) * shown_of)
    random, dt = generator(rng)[0], time_step(motion)
    mesh = Mesh(motion.box[:, :shown_of], shape, tuple(bool(p) for p in motion.periodic[:shown_of]))

    def density(states: Float) -> Float:
        ranges = [tuple(ends) for ends in mesh.box.T]
        return np.histogramdd(states.reshape(-1, motion.s)[:, :shown_of], bins=shape, range=ranges, density=True)[0]

    run = _in_the_long_run(motion, PATHS, dt, random)
    samples = [density(_in_the_same_run(own, run, SAMPLE_PATHS, dt, random)) for own in _each(motion, sampled)]
    names = ", ".join(motion.names[:shown_of])
    notes = [
        f"by simulation of {PATHS} paths with {run.n_steps:,} steps of {dt:.2g}; density of {names}",
        *run.notes,
        *_notes_on_samples(sampled),
    ]
    return SimulatedDensity(mesh, density(run.states), np.array(samples).reshape(-1, *shape), tuple(notes))


# Passages


class Passages(NamedTuple):
    """What became of paths from a start."""

    mean_time: float
    shares: Float  # (n_targets,)
    sampled_times: Float  # (n_samples,)
    sampled_shares: Float  # (n_samples, n_targets)
    note: str


def simulated_passages(
    motion: Motion, start: Region, targets: tuple[Region, ...], sampled: DrawnSDEs | None, rng: RNG
) -> Passages:
    """Times until paths arrive in one of several sets, and in which.

    Paths of all samples start in the same places, and their noise begins in the same way.
    """
    random, dt = generator(rng)[0], time_step(motion)
    begin, notes = _starts(motion, start, dt, random)
    arrivals = _followed_paths(motion, begin, targets, PATHS, dt, random)
    found = _estimated(arrivals, len(targets))
    seed = int(random.integers(2**31))
    others = [
        _estimated(
            _followed_paths(own, begin, targets, SAMPLE_PATHS, dt, np.random.default_rng(seed)),
            len(targets),
        )
        for own in _each(motion, sampled)
    ]
    error = f"the mean time has a standard error of {found.time_error:.2g}"
    if len(targets) > 1:
        error = f"probabilities have standard errors of up to {found.share_error:.2g}"
    return Passages(
        found.mean_time,
        found.shares,
        np.array([each.mean_time for each in others]),
        np.array([each.shares for each in others]).reshape(-1, len(targets)),
        "; ".join(
            [
                f"by simulation of {PATHS} paths with steps of {dt:.2g}: {error}",
                *_notes_on_missed(arrivals, motion),
                *notes,
                *_notes_on_samples(sampled),
            ]
        ),
    )


def _starts(motion: Motion, start: Region, dt: float, rng: np.random.Generator) -> tuple[Float, list[str]]:
    """Places (n, s) in which paths start, as often as the state is there in the long run, and what is to be known."""
    if start.point is not None:
        return start.point[None], []
    run = _in_the_long_run(motion, PATHS, dt, rng)
    states = run.states.reshape(-1, motion.s)
    inside = states[start.inside(states)]
    if len(inside):
        return inside, run.notes
    span = motion.box[1] - motion.box[0]
    places = motion.box[0] + span * rng.random((100_000, motion.s))
    places = places[start.inside(places)]
    if not len(places):
        raise InputError(f"start ({start.text}) is so small that no path was ever there: give a point, or a larger set")
    return places, ["the state was never seen in the start, so paths begin all over it", *run.notes]


class _Arrivals(NamedTuple):
    """Paths that were followed until nearly all had arrived in a target."""

    times: Float  # (n_arrived,)
    targets: Int  # (n_arrived,): the number of the target
    missed: int  # how many paths had not arrived
    end: float  # the time until which they were followed


def _followed_paths(
    motion: Motion, begin: Float, targets: tuple[Region, ...], n: int, dt: float, rng: np.random.Generator
) -> _Arrivals:
    """When and where n paths arrive.

    Between two states a path is a Brownian bridge, and looked at `BETWEEN` times: otherwise it would often enter a set
    unseen.
    """
    walk = _Walk(motion, n, begin, dt, rng)
    times, numbers, n_steps = [], [], 0
    while len(walk.x) > (1 - ARRIVED) * n and n_steps < MOST_STEPS:
        before = walk.x
        after = walk.step()
        way, first = _way_of_bridges(motion, before, after, targets, dt, rng)
        there = np.isfinite(way)
        if there.any():
            times.append(dt * (n_steps + way[there]))
            numbers.append(first[there])
            walk.x = after[~there]
        n_steps += 1
    none = np.zeros(0)
    return _Arrivals(
        np.concatenate([none, *times]), np.concatenate([none, *numbers]).astype(int), len(walk.x), dt * n_steps
    )


class _Estimate(NamedTuple):
    """What follows from arrivals."""

    mean_time: float
    shares: Float  # (n_targets,)
    time_error: float
    share_error: float  # the largest


def _estimated(found: _Arrivals, n_targets: int) -> _Estimate:
    """The mean time and the shares of the targets, with their standard errors.

    Paths that are still on their way go on to arrive as others did late, at the same rate and in the same sets: by then
    they have forgotten where they started. What is not known of them is part of the errors.
    """
    n = len(found.times) + found.missed
    if found.missed == n:
        return _Estimate(np.inf, np.full(n_targets, np.nan), np.inf, np.nan)
    missed = np.arange(n) >= len(found.times)
    until = np.append(found.times, np.full(found.missed, found.end))
    into = np.zeros((n, n_targets))
    into[~missed, found.targets] = 1.0
    begin = LATE * found.end if (found.times > LATE * found.end).any() else 0.0
    late, waited = ~missed & (until > begin), np.maximum(until - begin, 0.0)
    further, late_shares = waited.sum() / late.sum(), into[late].mean(axis=0)
    for_each = found.missed / late.sum()  # how many paths go on as each of the late ones
    times = until + missed * further + for_each * (waited - late * further)  # the last term has the mean zero, and
    shares = into + np.outer(missed, late_shares) + for_each * late[:, None] * (into - late_shares)  # tells of errors
    return _Estimate(
        float(times.mean()),
        shares.mean(axis=0),
        float(times.std() / np.sqrt(n)),
        float(shares.std(axis=0).max() / np.sqrt(n)),
    )


def _notes_on_missed(found: _Arrivals, motion: Motion) -> list[str]:
    if not found.missed:
        return []
    until = f"{found.end:.3g}{behind(motion.units.time)}"
    if not len(found.times):
        return [f"none of them arrived until {until}"]
    share = found.missed / (found.missed + len(found.times))
    return [f"{100 * share:.2g}% of them had not arrived after {until}, and are taken to arrive as others did late"]


def _way_of_bridges(
    motion: Motion, before: Float, after: Float, targets: tuple[Region, ...], dt: float, rng: np.random.Generator
) -> tuple[Float, Int]:
    """The share of a step (n,) after which paths enter a set first, infinite if they do not, and which set (n,)."""
    n, s = before.shape
    noise = rng.standard_normal((BETWEEN, n, s)).cumsum(axis=0) / np.sqrt(BETWEEN)
    shares = np.arange(1, BETWEEN + 1)[:, None, None] / BETWEEN
    bridge = noise - shares * noise[-1]
    if motion.underdamped:
        bridge[:, :, : s // 2] = 0.0
    root = np.zeros((n, s, s))
    d = s // 2 if motion.underdamped else s
    root[:, s - d :, s - d :] = motion.sde.diffusion(motion.inputs(before))
    way_on = nearest_image(after - before, motion.periods)  # and not once round the other way
    places = before + shares * way_on + np.sqrt(dt) * np.einsum("nij,knj->kni", root, bridge)
    starts = np.concatenate([before[None], places[:-1]])
    ways = np.stack([own.way_to(starts.reshape(-1, s), places.reshape(-1, s)).reshape(BETWEEN, n) for own in targets])
    first, way = ways.argmin(axis=0), ways.min(axis=0)  # (BETWEEN, n)
    piece = np.isfinite(way).argmax(axis=0)
    own = np.arange(n)
    return (piece + way[piece, own]) / BETWEEN, first[piece, own]


# Forgetting


def simulated_correlations(
    motion: Motion, lags: Float, sampled: DrawnSDEs | None, rng: RNG
) -> tuple[Float, Float, str]:
    """Autocorrelations of each variable (n_times, s), those of samples, and a note."""
    random, dt = generator(rng)[0], time_step(motion)
    at = np.rint(lags / dt).astype(int)
    run = _in_the_long_run(motion, PATHS, dt, random)
    value = _correlation(motion, run.states[-1], at, dt, random)
    samples = [
        _correlation(own, _in_the_same_run(own, run, SAMPLE_PATHS, dt, random)[-1], at, dt, random)
        for own in _each(motion, sampled)
    ]
    note = f"by simulation of {PATHS} paths with steps of {dt:.2g}"
    notes = "; ".join([note, *run.notes, *_notes_on_samples(sampled)])
    return value, np.array(samples).reshape(-1, *value.shape), notes


def _correlation(motion: Motion, states: Float, at: Int, dt: float, rng: np.random.Generator) -> Float:
    """Autocorrelations (n_times, s) at whole numbers of steps (n_times,), of paths that start in states (n, s)."""
    walk = _Walk(motion, len(states), states, dt, rng)
    walk.x = states.copy()
    path = np.stack([states, *(walk.step().copy() for _ in range(max(int(at.max()), 1)))])
    values = [own.reshape(*path.shape[:2], -1) for own in motion.observed(path.reshape(-1, motion.s))]
    away = [own - own.mean(axis=(0, 1)) for own in values]  # of each variable (n_steps, n, 1 or 2)
    products = [[(own[: len(own) - k] * own[k:]).sum(axis=2).mean() for own in away] for k in at]
    return np.asarray(products) / [(own**2).sum(axis=2).mean() for own in away]
