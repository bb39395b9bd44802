"""Answers by simulation: for more variables than a grid can have, or to compare with one.

Paths make steps of Euler and Maruyama of a length at which the drift hardly changes, and are reflected at the edge of
the box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import RNG, Float, Int, generator
from itofit.data.periods import wrapped
from itofit.dynamics.mesh import Mesh
from itofit.dynamics.motion import Motion
from itofit.dynamics.regions import Region
from itofit.dynamics.resting import slopes
from itofit.model.sampled import DrawnSDEs

STEP = 0.03
"""Relative to the fastest of typical rates of change."""
FARTHEST = 0.03
"""What noise makes of a step, relative to the box."""
PATHS, SAMPLE_PATHS = 1000, 200
"""Of the equation itself, and of each sample."""
STEPS, MOST_STEPS = 2000, 20_000
"""Of paths in the long run, and until they are given up to arrive anywhere."""
ARRIVED, SAMPLES_ARRIVED = 0.9, 0.7
"""Share of the paths that is waited for."""
BETWEEN = 30
"""How often a path is looked at during a step."""
DENSITY_CELLS = 40
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


def _in_the_long_run(motion: Motion, n: int, dt: float, rng: np.random.Generator, every: int = 20) -> Float:
    """States of n paths at many times, after they have forgotten where they started: (n_times, n, s)."""
    span = motion.box[1] - motion.box[0]
    walk = _Walk(motion, n, motion.box[0] + span * (0.25 + 0.5 * rng.random((n, motion.s))), dt, rng)
    return np.stack([walk.step().copy() for _ in range(STEPS)][STEPS // 4 :: every])


def simulated_density(motion: Motion, sampled: DrawnSDEs | None, rng: RNG) -> tuple[Mesh, Float, Float]:
    """The density of the first two variables on a grid, and that of samples."""
    random, dt = generator(rng)[0], time_step(motion)
    shown = min(2, motion.s)
    mesh = Mesh(motion.box[:, :shown], (DENSITY_CELLS,) * shown, tuple(bool(p) for p in motion.periodic[:shown]))

    def density(own: Motion, n: int) -> Float:
        states = _in_the_long_run(own, n, dt, random).reshape(-1, motion.s)[:, :shown]
        ranges = [tuple(ends) for ends in mesh.box.T]
        return np.histogramdd(states, bins=mesh.shape, range=ranges, density=True)[0]

    value = density(motion, PATHS)
    samples = [density(own, SAMPLE_PATHS) for own in _each(motion, sampled)]
    return mesh, value, np.array(samples).reshape(-1, *mesh.shape)


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

    Paths of all samples have the same noise, so that their answers differ by what differs in the equations.
    """
    random, dt = generator(rng)[0], time_step(motion)
    begin = _starts(motion, start, dt, random)
    time, shares, error, missed = _followed_paths(motion, begin, targets, PATHS, dt, random, ARRIVED)
    seed = int(random.integers(2**31))
    others = [
        _followed_paths(own, begin, targets, SAMPLE_PATHS, dt, np.random.default_rng(seed), SAMPLES_ARRIVED)
        for own in _each(motion, sampled)
    ]
    note = f"by simulation of {PATHS} paths with steps of {dt:.2g}: the mean time has a standard error of {error:.2g}"
    if missed:
        note += f"; the last {missed:.0%} were not waited for and count as exponential"
    return Passages(
        time,
        shares,
        np.array([each[0] for each in others]),
        np.array([each[1] for each in others]).reshape(-1, len(targets)),
        note,
    )


def _starts(motion: Motion, start: Region, dt: float, rng: np.random.Generator) -> Float:
    if start.point is not None:
        return start.point[None]
    states = _in_the_long_run(motion, PATHS, dt, rng).reshape(-1, motion.s)
    inside = states[start.inside(states)]
    if len(inside):
        return inside
    span = motion.box[1] - motion.box[0]
    places = motion.box[0] + span * rng.random((100_000, motion.s))
    return places[start.inside(places)]


def _followed_paths(
    motion: Motion, begin: Float, targets: tuple[Region, ...], n: int, dt: float, rng: np.random.Generator, until: float
) -> tuple[float, Float, float, float]:
    """The mean time, shares of the targets, the standard error of the time, and the share that was not waited for.

    Times of those that have not arrived are taken as exponential: total time over arrivals. Between two states a path
    is a Brownian bridge, and looked at `BETWEEN` times: otherwise it would often enter a set unseen.
    """
    walk = _Walk(motion, n, begin, dt, rng)
    total, arrived, n_steps = 0.0, np.zeros(len(targets)), 0
    while len(walk.x) > (1 - until) * n and n_steps < MOST_STEPS:
        before = walk.x
        after = walk.step()
        n_steps += 1
        way, first = _way_of_bridges(motion, before, after, targets, dt, rng)
        there = np.isfinite(way)
        total += dt * float(np.where(there, way, 1.0).sum())
        if there.any():
            arrived += np.bincount(first[there], minlength=len(targets))
            walk.x = after[~there]
    number = float(arrived.sum())
    if not number:
        return np.inf, np.full(len(targets), np.nan), np.inf, 1.0
    mean = total / number
    return mean, arrived / number, mean / np.sqrt(number), 1 - number / n


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
    places = before + shares * (after - before) + np.sqrt(dt) * np.einsum("nij,knj->kni", root, bridge)
    starts = np.concatenate([before[None], places[:-1]])
    ways = np.stack([own.way_to(starts.reshape(-1, s), places.reshape(-1, s)).reshape(BETWEEN, n) for own in targets])
    first, way = ways.argmin(axis=0), ways.min(axis=0)  # (BETWEEN, n)
    piece = np.isfinite(way).argmax(axis=0)
    own = np.arange(n)
    return (piece + way[piece, own]) / BETWEEN, first[piece, own]


def simulated_correlations(
    motion: Motion, lags: Float, sampled: DrawnSDEs | None, rng: RNG
) -> tuple[Float, Float, str]:
    """Autocorrelations of each variable (n_times, s), those of samples, and a note."""
    random, dt = generator(rng)[0], time_step(motion)

    def correlation(own: Motion, n: int) -> Float:
        last = max(round(float(lags.max()) / dt), 1)
        states = _in_the_long_run(own, n, dt, random)[-1]
        walk = _Walk(own, n, states, dt, random)
        walk.x = states.copy()
        path = np.stack([states, *(walk.step().copy() for _ in range(last))])
        away = path - path.mean(axis=(0, 1))
        at = np.rint(lags / dt).astype(int).clip(0, last)
        return np.asarray(
            [(away[: len(away) - k] * away[k:]).mean(axis=(0, 1)) for k in at] / (away**2).mean(axis=(0, 1))
        )

    value = correlation(motion, PATHS)
    samples = [correlation(own, SAMPLE_PATHS) for own in _each(motion, sampled)]
    return value, np.array(samples).reshape(-1, *value.shape), f"by simulation of {PATHS} paths with steps of {dt:.2g}"
