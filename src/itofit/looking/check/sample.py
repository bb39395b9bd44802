"""The transitions that are judged, their standardised residuals, and which of them follow each other in time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit.data.blocked import BlockedTransitions
from itofit.data.names import are_named
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.learned import LearnedSDE
from itofit.model.sde import BATCH_ROWS

MOST_ROWS = 200_000
STRETCH = 100
"""Rows in a row that are judged where not all are."""
JOINT = 1e-6
"""How far the end of one transition may be from the start of the next, in standard deviations of the increments."""


class Sample(NamedTuple):
    """Transitions with what a model says of them."""

    data: Transitions  # n rows
    n_all: int  # rows of the data that they were taken from
    z: Float  # (n, d) standardised residuals σ⁻¹ (Δx − h f) / √h, with f and σ of the step
    g: Float  # (n, d) the drift in the same unit, σ⁻¹ f √h
    r: Float  # (n, d) residuals Δx − h f in the unit of the data
    order: Int  # (n,) the rows sorted by groups, in time order within each
    run: Int  # (n,) number of the unbroken piece of a trajectory that row order[i] belongs to
    why_no_time: str  # why no transitions follow each other; empty if some do
    inputs: tuple[str, ...]  # names of the m inputs
    outputs: tuple[str, ...]  # names of the d outputs

    @property
    def drift_size(self) -> Float:
        """Root mean square of each output's learned drift in standard deviations of a step, shape (d,)."""
        return np.sqrt(np.mean(self.g**2, axis=0))


def take_sample(sde: LearnedSDE, data: Transitions | BlockedTransitions, rng: np.random.Generator) -> Sample:
    """All transitions, or if there are too many, stretches of consecutive ones that are spread evenly."""
    n_all = len(data)
    stretch = np.zeros(n_all, dtype=np.intp)
    if isinstance(data, BlockedTransitions) or n_all > MOST_ROWS:
        data, stretch = _stretches(data, n_all, rng)
    order = np.arange(len(data)) if data.groups is None else np.argsort(data.groups, kind="stable")
    follows = _follows(data, order, stretch)
    run = np.concatenate([[0], np.cumsum(~follows)])
    z, g, r = _residuals(sde, data)
    named = sde if are_named(sde) else data
    why_no_time = "" if follows.any() else _why_no_time(data)
    return Sample(data, n_all, z, g, r, order, run, why_no_time, named.input_names, named.output_names)


def _stretches(data: Transitions | BlockedTransitions, n_all: int, rng: np.random.Generator) -> tuple[Transitions, Int]:
    """At most MOST_ROWS rows and the number of the stretch that each is from.

    The rows are cut into equal pieces, and a stretch is taken from a random place of each.
    """
    n_stretches, length = (MOST_ROWS // STRETCH, STRETCH) if n_all > MOST_ROWS else (1, n_all)
    edges = n_all * np.arange(n_stretches + 1) // n_stretches
    starts = edges[:-1] + rng.integers(np.diff(edges) - length, endpoint=True)
    if isinstance(data, Transitions) and data.groups is not None:
        data = data[np.argsort(data.groups, kind="stable")]  # so that stretches follow trajectories
    parts, numbers, passed = [], [], 0
    for block in data.blocks():
        at = passed + np.arange(len(block))
        number = np.searchsorted(starts, at, side="right") - 1
        chosen = (number >= 0) & (at - starts[number] < length)
        if chosen.any():
            parts.append(block[np.flatnonzero(chosen)])
            numbers.append(number[chosen])
        passed += len(block)
    return Transitions.concatenate(parts), np.concatenate(numbers)


def _follows(data: Transitions, order: Int, stretch: Int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each row, in the given order, goes on where the one before it ended: shape (n − 1,)."""
    before, after = order[:-1], order[1:]
    follows = stretch[before] == stretch[after]
    if data.groups is not None:
        follows &= data.groups[before] == data.groups[after]
    if data.kind == "general":  # where a transition ends is not known: rows of a group count as they stand
        return follows if data.groups is not None else np.zeros_like(follows)
    d = data.n_outputs
    moving = data.inputs[:, -d:]  # all inputs, or the velocities
    end = moving + data.increments
    slack = JOINT * data.increments.std(axis=0) + 8 * np.finfo(float).eps * np.abs(moving).max(axis=0)
    return follows & (np.abs(end[before] - moving[after]) <= slack).all(axis=1)


def _why_no_time(data: Transitions) -> str:
    if data.kind == "general" and data.groups is None:
        return (
            "The data do not say which transitions follow each other: they have no groups, and for inputs of kind "
            "'general' it cannot be seen otherwise."
        )
    return (
        "No transition starts where the one before it ended, so none are known to follow each other in time. Check "
        "with trajectories (Transitions.from_trajectories) to see this."
    )


def _residuals(sde: LearnedSDE, data: Transitions) -> tuple[Float, Float, Float]:
    """z, g and r of all rows."""
    z, g, r = (np.empty_like(data.increments) for _ in range(3))
    for start in range(0, len(data), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        root = np.sqrt(data.h[rows])[:, None]
        mean, covariance = sde.step_moments(data.inputs[rows], data.h[rows])
        r[rows] = data.increments[rows] - root**2 * mean
        white = np.linalg.solve(factors(covariance), np.stack([r[rows] / root, root * mean], axis=2))
        z[rows], g[rows] = white[:, :, 0], white[:, :, 1]
    return z, g, r
