"""How a question is put to a learned equation on a grid: to itself on two grids, and to samples on the coarser one.

The value is extrapolated from the two grids, with the known order of the scheme; what that adds is reported as the
error of the grid. Samples differ from the value as they do from the value of their own grid, which is why that may be
coarse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from itofit._checks import RNG, Float, InputError
from itofit.dynamics.answers import Scale
from itofit.dynamics.mesh import Mesh, mesh_of
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.model.sampled import SampledSDEs
from itofit.model.sde import SDE

Method = Literal["auto", "grid", "simulation"]
Solve: TypeAlias = Callable[[Mesh, Float, Float], Float]
"""A grid, the flow (n, s) and the noise (n, s, s) at its cells to a value of any shape."""
CELLS = {1: 1000, 2: 100, 3: 24}
"""Cells in each direction, by the number of variables."""
COARSER = {1: 4, 2: 2, 3: 2}
"""By which number they are divided for samples."""
LEAST_CELLS, MOST_CELLS = 8, 400_000
"""In each direction, and altogether."""
MOST_VARIABLES = 3
"""On a grid."""


class Question(NamedTuple):
    """An equation with samples of it, and the grids for its answers."""

    motion: Motion
    sampled: SampledSDEs | None
    fine: Mesh
    coarse: Mesh

    @property
    def n_samples(self) -> int:
        """How many equations from the posterior there are."""
        return 0 if self.sampled is None else len(self.sampled)

    @property
    def order(self) -> int:
        """With which power of the size of a cell errors fall."""
        return 1 if self.motion.underdamped else 2


def question_of(
    sde: SDE, covariates: Held, box: Box, cells: int | tuple[int, ...] | None, samples: int, rng: RNG
) -> Question:
    """A question on a grid, for arguments as a user gives them."""
    motion = motion_of(sde, covariates, box)
    check_grid(motion)
    shape = _shape(cells, motion)
    coarser = tuple(max(LEAST_CELLS, k // COARSER[motion.s]) for k in shape)
    return Question(motion, samples_of(sde, samples, rng), mesh_of(motion, shape), mesh_of(motion, coarser))


def check_grid(motion: Motion) -> None:
    """Raise if there are too many variables for a grid."""
    if motion.s > MOST_VARIABLES:
        raise InputError(
            f"the state has {motion.s} variables ({', '.join(motion.names)}), and a grid can have {MOST_VARIABLES}: use "
            "method='simulation' where it is offered, or learn an equation of fewer variables"
        )


def _shape(cells: int | tuple[int, ...] | None, motion: Motion) -> tuple[int, ...]:
    s = motion.s
    if cells is None:
        return (2 * CELLS[s], CELLS[s]) if motion.underdamped else (CELLS[s],) * s
    shape: Any = (cells,) * s if isinstance(cells, int | np.integer) else tuple(cells)
    whole = all(isinstance(k, int | np.integer) and k >= LEAST_CELLS for k in shape)
    if len(shape) != s or not whole or np.prod([float(k) for k in shape]) > MOST_CELLS:
        raise InputError(
            f"cells must be a whole number >= {LEAST_CELLS}, or one for each of {', '.join(motion.names)}, not more than "
            f"{MOST_CELLS:,} altogether, got {cells!r}"
        )
    return tuple(int(k) for k in shape)


class Solved(NamedTuple):
    """Answers to a question."""

    value: Float
    samples: Float  # (n_samples, ...)
    grid_errors: Float  # (...): relative to the value

    @property
    def grid_error(self) -> float:
        """The largest of them."""
        return float(np.nanmax(self.grid_errors, initial=0.0))


def solved(question: Question, solve: Solve, scale: Scale = "linear") -> Solved:
    """A number or an array that does not depend on the grid: its value, and those of samples."""
    motion, sampled, fine, coarse = question
    at_fine = np.asarray(solve(fine, *motion.flow_and_noise(fine.centres)))
    at_coarse = np.asarray(solve(coarse, *motion.flow_and_noise(coarse.centres)))
    ratio = float(np.mean(np.array(fine.shape) / coarse.shape)) ** question.order
    value = _moved(at_fine, at_coarse, at_fine, scale, 1 / (ratio - 1))
    samples = np.empty((0, *value.shape))
    if sampled is not None:
        b, D = motion.sampled_flow_and_noise(sampled, coarse.centres)
        own = np.stack([np.asarray(solve(coarse, *each)) for each in zip(b, D, strict=True)])
        samples = _moved(value, at_coarse, own, scale)
    size = np.maximum(np.abs(value), 1e-300)
    return Solved(value, samples, np.abs(value - at_fine) / size)


def _moved(value: Float, start: Float, end: Float, scale: Scale, times: float = 1.0) -> Float:
    """A value that moves by as much as there is between a start and an end: by a factor if all are positive."""
    moved = value + times * (end - start)
    if scale == "share":
        return np.clip(moved, 0.0, 1.0)
    if scale == "log":
        by_factor = (value > 0) & (start > 0) & (end > 0)
        factor = np.where(by_factor, end, 1.0) / np.where(by_factor, start, 1.0)
        return np.where(by_factor, value * factor**times, moved)
    return moved


class Field(NamedTuple):
    """A function on the cells of the fine grid."""

    value: Float  # (n, ...)
    samples: Float  # (n_samples, n, ...)
    grid_error: float


def solved_field(question: Question, solve: Solve, scale: Scale = "linear") -> Field:
    """A function on the cells (n, ...): its value on the fine grid, samples from the coarse one, interpolated."""
    motion, sampled, fine, coarse = question
    value = np.asarray(solve(fine, *motion.flow_and_noise(fine.centres)))
    at_coarse = np.asarray(solve(coarse, *motion.flow_and_noise(coarse.centres)))
    on_coarse = fine.interpolate(value, coarse.centres)
    difference = np.abs(on_coarse - at_coarse).sum() / np.abs(on_coarse).sum()
    ratio = float(np.mean(np.array(fine.shape) / coarse.shape)) ** question.order
    samples = np.empty((0, *value.shape))
    if sampled is not None:
        b, D = motion.sampled_flow_and_noise(sampled, coarse.centres)
        parts = []
        for each in zip(b, D, strict=True):
            own = np.asarray(solve(coarse, *each))
            if scale == "log":
                tiny = 1e-300
                factor = np.log(np.maximum(own, tiny)) - np.log(np.maximum(at_coarse, tiny))
                parts.append(value * np.exp(coarse.interpolate(factor, fine.centres)))
            else:
                parts.append(value + coarse.interpolate(own - at_coarse, fine.centres))
        samples = np.stack(parts)
    return Field(value, samples, float(difference / (ratio - 1)))
