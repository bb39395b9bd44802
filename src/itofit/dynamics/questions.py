"""Questions to equations on grids: to the learned one on a fine and a coarser one, to samples on a coarse one.

The value is extrapolated from the first two, with the known order of the scheme; what that adds is reported as the
error of the grid. Samples differ from the value as they do from the value of their own grid, which is why that may be
coarse. Of second-order systems errors are of first order in the cells of positions, so these are many, and it is they
that become fewer on the coarser grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from itofit._checks import RNG, Float, InputError, gone_through, is_whole, shown
from itofit.dynamics.answers import Scale
from itofit.dynamics.mesh import Mesh, mesh_of
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.model.sampled import DrawnSDEs
from itofit.model.sde import SDE

Method = Literal["auto", "grid", "simulation"]
Cells: TypeAlias = int | tuple[int, ...] | None
Solve: TypeAlias = Callable[[Mesh, Float, Float], Float]
"""A grid, the flow (n, s) and the noise (n, s, s) at its cells to a value of any shape."""
CELLS = {1: 1000, 2: 100, 3: 24}
"""Cells in each direction, by the number of variables."""
COARSER = {1: 4, 2: 2, 3: 2}
"""By which number they are divided on the coarser grid, which is that of samples, too."""
POSITIONS, VELOCITIES = 800, 100
"""Cells of a second-order system."""
LEAST_CELLS, LEAST_COARSE, MOST_CELLS = 8, 4, 400_000
"""In each direction, and altogether."""
MOST_VARIABLES = 3
"""On a grid."""
SURE, MOST_FACTOR = 1e-6, 2.0
"""Densities relative to the largest that are extrapolated, and by how much at most."""
TINY = 1e-300


class Question(NamedTuple):
    """An equation with samples of it, and the grids for its answers."""

    motion: Motion
    sampled: DrawnSDEs | None
    fine: Mesh
    coarser: Mesh  # to extrapolate from
    coarse: Mesh  # for samples

    @property
    def n_samples(self) -> int:
        """How many equations from the posterior there are."""
        return 0 if self.sampled is None else len(self.sampled)

    @property
    def further(self) -> float:
        """By how much of the way from the coarser to the fine grid a value is still away from its limit."""
        ratio = self.fine.shape[0] / self.coarser.shape[0]
        return 1 / (ratio ** (1 if self.motion.underdamped else 2) - 1)


def question_of(sde: SDE, covariates: Held, box: Box, cells: Cells, samples: int, rng: RNG) -> Question:
    """A question on a grid, for arguments as a user gives them."""
    motion = motion_of(sde, covariates, box)
    check_grid(motion)
    usual = (POSITIONS, VELOCITIES) if motion.underdamped else (CELLS[motion.s],) * motion.s
    shape = shape_of(cells, motion.names, usual)
    coarser = coarse = mesh_of(motion, tuple(max(LEAST_COARSE, k // COARSER[motion.s]) for k in shape))
    if motion.underdamped:
        coarser = mesh_of(motion, (max(LEAST_COARSE, shape[0] // 2), shape[1]))
        coarse = mesh_of(motion, tuple(max(LEAST_COARSE, k // n) for k, n in zip(shape, (4, 2), strict=True)))
    return Question(motion, samples_of(sde, samples, rng), mesh_of(motion, shape), coarser, coarse)


def check_grid(motion: Motion) -> None:
    """Raise if there are too many variables for a grid."""
    if motion.s > MOST_VARIABLES:
        raise InputError(
            f"the state has {motion.s} variables ({', '.join(motion.names)}), and a grid can have {MOST_VARIABLES}: "
            f"use "
            "method='simulation' where it is offered, or learn an equation of fewer variables"
        )


def shape_of(cells: Cells, names: tuple[str, ...], usual: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of cells for each of some variables, as a user gives them or as usual."""
    if cells is None:
        return usual
    each = gone_through(cells)
    shape: Any = (cells,) * len(names) if each is None else tuple(each)
    whole = all(is_whole(k) and LEAST_CELLS <= k <= MOST_CELLS for k in shape)
    if len(shape) != len(names) or not whole or np.prod([float(k) for k in shape]) > MOST_CELLS:
        raise InputError(
            f"cells must be a whole number >= {LEAST_CELLS}, or one for each of {', '.join(names)}, not more than "
            f"{MOST_CELLS:,} altogether, got {shown(cells)}"
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


def solved(question: Question, solve: Solve, scale: Scale = "linear", *, moments: bool = False) -> Solved:
    """A number or an array that does not depend on the grid: its value, and those of samples.

    With the `moments` scheme nothing is extrapolated, unless the system is of second order: its error is small, and
    does not fall as a power of the size where cells are large.
    """
    at_fine, at_coarser, at_coarse = _on_grids(question, solve)
    limit = _moved(at_fine, at_coarser, at_fine, scale, question.further)
    value = at_fine if moments and not question.motion.underdamped else limit
    own = [_moved(value, at_coarse, each, scale) for each in _of_samples(question, solve)]
    size = np.maximum(np.abs(value), 1e-300)
    return Solved(value, np.array(own).reshape(-1, *value.shape), np.abs(limit - at_fine) / size)


def _on_grids(question: Question, solve: Solve) -> list[Float]:
    """Answers on the fine, the coarser and the coarse grid; on the last two only if they are wanted."""
    motion, sampled, fine, coarser, coarse = question
    answers = [np.asarray(solve(mesh, *motion.flow_and_noise(mesh.centres))) for mesh in (fine, coarser)]
    if coarse is not coarser and sampled is not None:
        return [*answers, np.asarray(solve(coarse, *motion.flow_and_noise(coarse.centres)))]
    return [*answers, answers[1]]


def _of_samples(question: Question, solve: Solve) -> Iterator[Float]:
    """Answers of samples, on the coarse grid."""
    if question.sampled is not None:
        mesh = question.coarse
        b, D = question.motion.sampled_flow_and_noise(question.sampled, mesh.centres)
        yield from (np.asarray(solve(mesh, *each)) for each in zip(b, D, strict=True))


def _moved(value: Float, start: Float, end: Float, scale: Scale, times: float = 1.0) -> Float:
    """A value that moves by as much as there is between a start and an end: by a factor if all are positive."""
    moved = value + times * (end - start)
    if scale == "share":
        return np.clip(moved, 0.0, 1.0)
    if scale == "square":
        return np.maximum(moved, 0.0)
    if scale == "log":
        by_factor = (value > 0) & (start > 0) & (end > 0) & np.isfinite(value + start + end)
        factor = np.where(by_factor, end, 1.0) / np.where(by_factor, start, 1.0)
        return np.where(by_factor, value * factor**times, np.where(np.isfinite(value), moved, value))
    return moved


class Field(NamedTuple):
    """A function on the cells of the fine grid."""

    value: Float  # (n, ...)
    samples: Float  # (n_samples, n, ...)
    grid_error: float


def solved_field(question: Question, solve: Solve, scale: Scale = "linear") -> Field:
    """A function on the cells (n, ...): its value on the fine grid, samples from the coarse one, interpolated."""
    fine, coarser, coarse = question.fine, question.coarser, question.coarse
    value, at_coarser, at_coarse = _on_grids(question, solve)
    on_coarser = fine.interpolate(value, coarser.centres)
    error = question.further * np.abs(on_coarser - at_coarser).sum() / np.abs(on_coarser).sum()
    if question.motion.underdamped:  # of first order: extrapolation is worth its while
        value = _extrapolated(value, coarser.interpolate(at_coarser, fine.centres), scale, question.further)
    own = [_moved_on(value, coarse, fine, at_coarse, each, scale) for each in _of_samples(question, solve)]
    return Field(value, np.array(own).reshape(-1, *value.shape), float(error))


def _extrapolated(value: Float, coarser: Float, scale: Scale, further: float) -> Float:
    """The limit of infinitely many cells; of what is nearly zero, nothing changes."""
    if scale != "log":
        return value + further * (value - coarser)
    known = np.minimum(value, coarser) > SURE * value.max()
    ratio = np.where(known, value, 1.0) / np.where(known, coarser, 1.0)
    return value * np.clip(ratio, 1 / MOST_FACTOR, MOST_FACTOR) ** further


def _moved_on(value: Float, coarse: Mesh, fine: Mesh, start: Float, end: Float, scale: Scale) -> Float:
    """A function on the fine grid that changes as one on the coarse grid does, by factors or differences."""
    if scale != "log":
        return value + coarse.interpolate(end - start, fine.centres)
    change = np.log(np.maximum(end, TINY)) - np.log(np.maximum(start, TINY))
    return value * np.exp(coarse.interpolate(change, fine.centres))
