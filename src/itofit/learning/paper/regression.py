"""Algorithm 1 on data in the user's units: scale, hold out, search, solve, and scale back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import ConvergenceWarning, Float, InputError
from itofit._progress import Progress
from itofit.data.rows import TRAIN, VALIDATION, Rows, Split, column_sum, n_held_out, scaled
from itofit.learning.automatic.search import SearchHistory
from itofit.learning.paper.arff import ARFF, History, Info, Problem, Settings, State, train
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
from itofit.waves.series import FourierSeries

FIRST_MOMENTS = {1: 256, 2: 64, 3: 24}
"""Moments made in the first pass, in each direction, by number of inputs; more in another if a frequency needs them."""
FIRST_MOMENTS_OUT_OF_MEMORY = {1: 1024, 2: 96, 3: 32}
"""The same for data that are read again in each pass: enough for |ω| up to about 600, 40 and 8."""
GROWTH = {1: 2.0, 2: 1.5, 3: 1.25}
"""By what factor at least the number of moments grows, by number of inputs."""
KEPT_ROWS = 25_000
"""A part with fewer rows is kept in memory beside its moments."""


class Fitted(NamedTuple):
    """A learned function, how its training went, and with what settings."""

    series: FourierSeries
    history: History
    settings: Settings


@dataclass(frozen=True)
class Scaling:
    """From the user's points to scaled ones, u = (x − shift) / scale, and from targets to y − offset."""

    shift: Float
    scale: Float
    offset: Float
    varies: npt.NDArray[np.bool_]  # which inputs are not constant

    @classmethod
    def of(cls, low: Float, high: Float, offset: Float) -> Scaling:
        """Inputs between low and high go to [−½, ½]; a constant one goes to zero."""
        shift = low + 0.5 * (high - low)
        scale = 2 * np.maximum(high - shift, shift - low)  # the range, and not less if shift was rounded
        return cls(shift, np.where(scale > 0, scale, 1.0), offset, scale > 0)

    def __call__(self, x: Float, y: Float) -> tuple[Float, Float]:
        """Scaled points and targets."""
        return scaled(x, self.shift, self.scale), (y.T - self.offset[:, None]).T


class Sample:
    """Rows to train and to validate on, read in one pass: as moments, or as arrays.

    Parameters
    ----------
    rng : Generator
        Gives the split its seed.
    rows : Rows
    arff : ARFF
        Parameters of the training.
    scaling : Scaling
    progress : Progress
    label : str
        What progress calls the pass.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        rows: Rows,
        arff: ARFF,
        scaling: Scaling,
        progress: Progress,
        label: str,
    ) -> None:
        self.arff = arff
        self.settings = settings = arff.resolve(rows.n_rows, rows.n_inputs, rows.n_outputs)
        n_searched = min(settings.search_rows, rows.n_rows)
        n_out = n_held_out(settings.validation_fraction, n_searched)
        self.rows, self.scaling, self.progress, self.label = rows, scaling, progress, label
        self.split = Split(int(rng.integers(2**63)), rows.n_rows, n_searched, n_out)
        self.sizes = {TRAIN: n_searched - n_out, VALIDATION: n_out}
        self.gridded = settings.normal_equations == "gridded"
        self.moments: dict[int, Moments] = {}
        self.arrays: dict[int, tuple[Float, Float]] = {}
        first = FIRST_MOMENTS if rows.in_memory else FIRST_MOMENTS_OUT_OF_MEMORY
        self.mean = self._read((first[rows.n_inputs],) * rows.n_inputs if self.gridded else None)

    def problem(self, unit: Float) -> Problem:
        """What Algorithm 1 needs, for the targets divided by their unit."""
        return Problem(*(self._equations(part, unit) for part in (TRAIN, VALIDATION)))

    def solve_on_all(self, omega: Float, unit: Float) -> State:
        """Amplitudes at the frequencies omega from all rows, searched or not, in one more pass."""
        rows, ridge = self.rows, self.settings.ridge
        equations: NormalEquations
        if self.gridded and rows.n_inputs < MOST_INPUTS:  # where moments cost less than one direct solve
            equations = GriddedNormalEquations(WholePart(self, unit), accuracy_for(ridge))
        else:
            equations = DirectNormalEquations.over(
                lambda: ((u, y / unit) for u, y in self.blocks()), rows.n_rows, rows.n_inputs, rows.n_outputs
            )
        return State(omega, equations.solve(omega, ridge))

    def require(self, Q: tuple[int, ...]) -> None:
        """Make at least Q moments in each direction, in a new pass if there are fewer."""
        have = self.moments[TRAIN].values.shape[1:]
        if any(q > h for q, h in zip(Q, have, strict=True)):
            growth = GROWTH[len(have)]
            new = [h if q <= h else max(q, ceil(growth * h)) for q, h in zip(Q, have, strict=True)]
            self._read(tuple(new if self.rows.in_memory else [max(new)] * len(new)))  # so that passes stay few

    def as_direct(self, rng: np.random.Generator) -> Sample:
        """The same rows for a training with direct normal equations."""
        arff = replace(self.arff, normal_equations="direct")
        return Sample(rng, self.rows, arff, self.scaling, self.progress, self.label)

    def _equations(self, part: int, unit: Float) -> NormalEquations:
        if self.gridded:
            return GriddedNormalEquations(SamplePart(self, part, unit), accuracy_for(self.settings.ridge))
        u, y = self.arrays[part]
        return DirectNormalEquations(u, y / unit)

    def blocks(self) -> Iterator[tuple[Float, Float]]:
        """All rows, with scaled points and centred targets."""
        done = 0
        for x, y in self.rows.blocks():
            u, centred = self.scaling(x, y)
            if not self.rows.in_memory and not np.abs(u).max() < 0.5 + 1e-9:
                raise InputError(
                    f"inputs in rows {done} to {done + len(x) - 1} are outside the range they had in an earlier pass: "
                    "the source must give the same values each time it is read"
                )
            yield u, centred
            done += len(x)
            self.progress.show(self.label, f"read {done:,} of {self.rows.n_rows:,} rows", done / self.rows.n_rows)

    def _read(self, Q: tuple[int, ...] | None) -> Float:
        """One pass: Q moments of the two parts, the rows of those that are kept, and the mean of all targets."""
        pieces: dict[int, list[tuple[Float, Float]]] = {TRAIN: [], VALIDATION: []}
        moments: dict[int, Moments] = {}
        total = np.zeros(self.rows.n_outputs)
        for i, (u, y) in enumerate(self.blocks()):
            total += column_sum(y)
            member = self.split.parts(i)
            for part, found in pieces.items():
                chosen = np.flatnonzero(member == part)
                piece = u.take(chosen, axis=0), y.take(chosen, axis=0)
                if Q is not None:
                    more = moments_of(*piece, Q)
                    moments[part] = moments[part].plus(more) if part in moments else more
                if Q is None or self.sizes[part] <= KEPT_ROWS:
                    found.append(piece)
        self.moments = moments
        self.arrays = {
            part: (np.concatenate([u for u, _ in found]), np.concatenate([y for _, y in found]))
            for part, found in pieces.items()
            if found
        }
        return total / self.rows.n_rows + self.scaling.offset


class SamplePart:
    """One part of a sample, with its targets divided by their unit."""

    def __init__(self, sample: Sample, part: int, unit: Float) -> None:
        self.sample, self.part, self.unit = sample, part, unit
        self.n_rows = sample.sizes[part]
        self.n_inputs, self.n_outputs = sample.rows.n_inputs, sample.rows.n_outputs

    @property
    def arrays(self) -> tuple[Float, Float] | None:
        """Its rows, if they were kept."""
        if self.part not in self.sample.arrays:
            return None
        u, y = self.sample.arrays[self.part]
        return u, y / self.unit

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of its rows, at least Q of them in each direction."""
        self.sample.require(Q)
        return self.sample.moments[self.part].scaled(self.unit)


class WholePart:
    """All rows of a sample, with their targets divided by their unit."""

    arrays = None

    def __init__(self, sample: Sample, unit: Float) -> None:
        self.sample, self.unit = sample, unit
        self.n_rows, self.n_inputs = sample.rows.n_rows, sample.rows.n_inputs
        self.n_outputs = sample.rows.n_outputs

    def moments(self, Q: tuple[int, ...]) -> Moments:
        """The moments of the rows, in one pass."""
        return reduce(Moments.plus, (moments_of(u, y / self.unit, Q) for u, y in self.sample.blocks()))


def fit_series(rng: np.random.Generator, sample: Sample, unit: Float) -> Fitted:
    """Learn y ≈ g(x) as a Fourier series.

    Inputs are scaled to a length of one in each column, targets to (y − offset) / unit. A random share of the rows is
    held out to judge networks. With more than `search_rows` rows the search sees a random subset of that size; the
    amplitudes of the best frequencies are then solved again on all rows.

    Parameters
    ----------
    rng : Generator
    sample : Sample
        The rows.
    unit : array of shape (p,)
        Of the targets.
    """

    def show(iteration: int, info: Info) -> None:
        error = f"validation error {info.validation_error:.4g}"
        sample.progress.show(
            sample.label, f"iteration {iteration} of at most {sample.settings.max_iterations}, {error}"
        )

    try:
        best, history = train(rng, sample.problem(unit), sample.settings, show)
    except FrequenciesTooLarge:
        sample = sample.as_direct(rng)
        best, history = train(rng, sample.problem(unit), sample.settings, show)
    settings, scaling = sample.settings, sample.scaling
    if settings.search_rows < sample.rows.n_rows:
        best = sample.solve_on_all(best.omega, unit)
    varies = sample.scaling.varies  # elsewhere frequencies change nothing on the data, and must not beside them
    series = FourierSeries(
        omega=best.omega * varies,
        beta=best.beta * unit,
        shift=scaling.shift,
        scale=scaling.scale,
        offset=scaling.offset,
    )
    return Fitted(series, history, settings)


def warn_if_unsettled(history: History | SearchHistory, label: str) -> None:
    """Warn, in the name of the caller's caller, if a training ended at its maximal number of iterations."""
    if history.stopped == "max_iterations":
        judge = "validation error" if isinstance(history, History) else "evidence"
        warnings.warn(
            f"{label} ended at max_iterations = {history.n_iterations} before its {judge} settled; "
            "allow more iterations",
            ConvergenceWarning,
            stacklevel=3,
        )
