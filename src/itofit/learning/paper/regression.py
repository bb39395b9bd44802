"""Algorithm 1 on data in the user's units: scale, hold out, search, solve, and scale back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, TypeAlias, TypeVar

import numpy as np

from itofit._checks import Float, InputError
from itofit._progress import Progress
from itofit.data.passes import Blocks, add_up
from itofit.data.rows import PASS_ROWS, TRAIN, VALIDATION, Split, column_sum, n_held_out
from itofit.learning.paper.arff import Info, Problem, State, train
from itofit.model.training import LearnedFunction
from itofit.waves.normal_equations import (
    MOST_INPUTS,
    DirectNormalEquations,
    FrequenciesTooLarge,
    GriddedNormalEquations,
    Moments,
    NormalEquations,
    accuracy_for,
    moments_of,
)
from itofit.waves.parameters import ARFF
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries

T = TypeVar("T")
Kept: TypeAlias = tuple[Moments | None, list[tuple[Float, Float]]]
"""Moments of a part of the rows, if they are used, and the rows themselves, if they are kept."""

FIRST_MOMENTS = {1: 256, 2: 64, 3: 24}
"""Moments made in the first pass, in each direction, by number of inputs; more in another if a frequency needs them."""
FIRST_MOMENTS_OUT_OF_MEMORY = {1: 1024, 2: 96, 3: 32}
"""The same for data that are read again in each pass: enough for |ω| up to about 600, 40 and 8."""
GROWTH = {1: 2.0, 2: 1.5, 3: 1.25}
"""By what factor at least the number of moments grows, by number of inputs."""
KEPT_ROWS = 25_000
"""A part with fewer rows is kept in memory beside its moments."""
ROUNDING = 1e-9
"""By how much rounding may carry a scaled input beyond the range of the first pass."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Points and targets of Algorithm 1, made anew from each block of some data.

    Parameters
    ----------
    data : Data
        Or anything else that has blocks.
    points_and_targets : callable
        x (n, m) and y (n, p) of a block, in the user's units.
    scaling : Scaling
        From these to scaled points and centred targets.
    n_rows, n_outputs : int
    progress : Progress
    label : str
        What progress calls a pass.
    """

    data: Blocks[Any]
    points_and_targets: Callable[[Any], tuple[Float, Float]]
    scaling: Scaling
    n_rows: int
    n_outputs: int
    progress: Progress
    label: str

    @property
    def n_inputs(self) -> int:
        """The number m of inputs."""
        return len(self.scaling.shift)

    def add_up(self, function: Callable[[Float, Float, int], T]) -> T:
        """The sum of function(scaled points, centred targets, number of the block) over all blocks, in one pass."""
        scaling, points_and_targets, in_memory = self.scaling, self.points_and_targets, self.data.in_memory

        def of_block(block: object, number: int) -> T:
            u, y = scaling(*points_and_targets(block))
            if not in_memory and not np.abs(u).max() < 0.5 + ROUNDING:
                first = number * PASS_ROWS
                raise InputError(
                    f"inputs in rows {first} to {first + len(u) - 1} are outside the range they had in an earlier "
                    "pass: the source must give the same values each time it is read"
                )
            return function(u, y, number)

        def shown(n_done: int) -> None:
            share = n_done / self.n_rows
            self.progress.show(self.label, f"read {n_done:,} of {self.n_rows:,} rows", share)

        return add_up(self.data, of_block, shown=shown)


class TrainingSet:
    """Rows to train and to validate on, read in one pass: as moments, or as arrays.

    Parameters
    ----------
    rng : Generator
        Gives the split its seed.
    rows : Rows
    arff : ARFF
        Parameters of the training.
    """

    def __init__(self, rng: np.random.Generator, rows: Rows, arff: ARFF) -> None:
        self.rows, self.arff = rows, arff
        self.settings = settings = arff.resolve(rows.n_rows, rows.n_inputs, rows.n_outputs)
        n_searched = min(settings.search_rows, rows.n_rows)
        n_out = n_held_out(settings.validation_fraction, n_searched)
        self.split = Split(int(rng.integers(2**63)), rows.n_rows, n_searched, n_out)
        self.sizes = {TRAIN: n_searched - n_out, VALIDATION: n_out}
        self.gridded = settings.normal_equations == "gridded"
        first = FIRST_MOMENTS if rows.data.in_memory else FIRST_MOMENTS_OUT_OF_MEMORY
        Q = (first[rows.n_inputs],) * rows.n_inputs if self.gridded else None
        self.mean, self.moments, self.arrays = self._read(Q)

    def problem(self, unit: Float) -> Problem:
        """What Algorithm 1 needs, for the targets divided by their unit."""
        return Problem(*(self._equations(part, unit) for part in (TRAIN, VALIDATION)))

    def solve_on_all(self, omega: Float, unit: Float) -> State:
        """Amplitudes at the frequencies omega from all rows, searched or not, in one more pass."""
        ridge = self.settings.ridge
        if self.gridded and self.rows.n_inputs < MOST_INPUTS:  # where moments cost less than one direct solve
            equations = GriddedNormalEquations(WholePart(self.rows, unit), accuracy_for(ridge))
            return State(omega, equations.solve(omega, ridge))
        sums = self.rows.add_up(lambda u, y, number: DirectNormalEquations(u, y / unit).real_gram(omega))
        return State(omega, DirectNormalEquations.solved(*sums, ridge * self.rows.n_rows))

    def require(self, Q: tuple[int, ...]) -> None:
        """Make at least Q moments in each direction, in a new pass if there are fewer."""
        have = self.moments[TRAIN].values.shape[1:]
        if any(q > h for q, h in zip(Q, have, strict=True)):
            growth = GROWTH[len(have)]
            new = [h if q <= h else max(q, ceil(growth * h)) for q, h in zip(Q, have, strict=True)]
            # All directions alike for data that are read in each pass, so that passes stay few
            more = tuple(new if self.rows.data.in_memory else [max(new)] * len(new))
            self.mean, self.moments, self.arrays = self._read(more)

    def as_direct(self, rng: np.random.Generator) -> TrainingSet:
        """The same rows for a training with direct normal equations."""
        return TrainingSet(rng, self.rows, replace(self.arff, normal_equations="direct"))

    def _equations(self, part: int, unit: Float) -> NormalEquations:
        if self.gridded:
            return GriddedNormalEquations(TrainingPart(self, part, unit), accuracy_for(self.settings.ridge))
        u, y = self.arrays[part]
        return DirectNormalEquations(u, y / unit)

    def _read(self, Q: tuple[int, ...] | None) -> tuple[Float, dict[int, Moments], dict[int, tuple[Float, Float]]]:
        """One pass: the mean of all targets, Q moments of the two parts, and the rows of those that are kept."""
        split, sizes = self.split, self.sizes

        def of_block(u: Float, y: Float, number: int) -> tuple[Float, tuple[Kept, ...]]:
            member = split.parts(number)
            parts = []
            for part in (TRAIN, VALIDATION):
                rows = np.flatnonzero(member == part)
                own = u.take(rows, axis=0), y.take(rows, axis=0)
                keep = Q is None or sizes[part] <= KEPT_ROWS
                parts.append((None if Q is None else moments_of(*own, Q), [own] if keep else []))
            return column_sum(y), tuple(parts)

        total, parts = self.rows.add_up(of_block)
        named = dict(zip((TRAIN, VALIDATION), parts, strict=True))
        moments = {part: sums for part, (sums, _) in named.items() if sums is not None}
        arrays = {
            part: (np.concatenate([u for u, _ in pieces]), np.concatenate([y for _, y in pieces]))
            for part, (_, pieces) in named.items()
            if pieces
        }
        return total / self.rows.n_rows + self.rows.scaling.offset, moments, arrays


class TrainingPart:
    """One part of a training set, with its targets divided by their unit."""

    def __init__(self, whole: TrainingSet, part: int, unit: Float) -> None:
        self.whole, self.part, self.unit = whole, part, unit
        self.n_rows = whole.sizes[part]
        self.n_inputs, self.n_outputs = whole.rows.n_inputs, whole.rows.n_outputs

    @property
    def arrays(self) -> tuple[Float, Float] | None:
        """Its rows, if they were kept."""
        if self.part not in self.whole.arrays:
            return None
        u, y = self.whole.arrays[self.part]
        return u, y / self.unit

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of its rows, at least Q of them in each direction."""
        self.whole.require(Q)
        return self.whole.moments[self.part].scaled(self.unit)


class WholePart:
    """All rows, searched or not, with their targets divided by their unit."""

    arrays = None

    def __init__(self, rows: Rows, unit: Float) -> None:
        self.rows, self.unit = rows, unit
        self.n_rows, self.n_inputs, self.n_outputs = rows.n_rows, rows.n_inputs, rows.n_outputs

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of the rows, in one pass."""
        unit = self.unit
        return self.rows.add_up(lambda u, y, number: moments_of(u, y / unit, Q))


def fit_series(rng: np.random.Generator, rows: TrainingSet, unit: Float) -> LearnedFunction:
    """Learn y ≈ g(x) as a Fourier series.

    Inputs are scaled to a length of one in each column, targets to (y − offset) / unit. A random share of the rows is
    held out to judge networks. With more than `search_rows` rows the search sees a random subset of that size; the
    amplitudes of the best frequencies are then solved again on all rows.

    Parameters
    ----------
    rng : Generator
    rows : TrainingSet
    unit : array of shape (p,)
        Of the targets.
    """

    def show(iteration: int, info: Info) -> None:
        error = f"validation error {info.validation_error:.4g}"
        most = rows.settings.max_iterations
        rows.rows.progress.show(rows.rows.label, f"iteration {iteration} of at most {most}, {error}")

    try:
        best, training = train(rng, rows.problem(unit), rows.settings, show)
    except FrequenciesTooLarge:
        rows = rows.as_direct(rng)
        best, training = train(rng, rows.problem(unit), rows.settings, show)
    scaling = rows.rows.scaling
    if rows.settings.search_rows < rows.rows.n_rows:
        best = rows.solve_on_all(best.omega, unit)
    series = FourierSeries(
        omega=best.omega * scaling.varies,  # other frequencies change nothing on the data, and must not beside them
        beta=best.beta * unit,
        shift=scaling.shift,
        scale=scaling.scale,
        offset=scaling.offset,
    )
    return LearnedFunction(series=series, training=training)
