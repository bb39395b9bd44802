"""Windows of tracks: stretches of transitions that follow each other, cut so that many can be filtered at once.

A stretch of transitions is cut into windows that keep some of them each, every transition in one. Before and after what
it keeps, a window has transitions of the same stretch in addition, as many as it takes to forget where it starts:

    stretch   |------------------------------------------------|
    windows   |====kept====|++after+|
                  |+before+|====kept====|++after+|
                                |+before+|======kept===========|

Windows of a chunk are sorted by length, the longest first, so that those that are not at their end yet are the first
ones. The memory of a chunk is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.data.covariates import moving
from itofit.data.following import track_order
from itofit.data.large.parts import PartedTransitions
from itofit.data.large.stretches import Marks, Stretch
from itofit.data.passes import Data
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions

CHUNK_STEPS = 65_536
"""Steps of all windows of a chunk, at most, the longest of which all are counted with."""

FORGOTTEN = 1e-4
"""Share of the start of a window that is left in the filter where it begins to keep."""
LEAST_OVERLAP, MOST_OVERLAP, LEAST_KEPT = 8, 400, 128
"""Steps before and after what a window keeps, and that it keeps at least."""


class Windows(NamedTuple):
    """Windows of rows that follow each other."""

    first: Int  # (W,): the row that each begins with
    length: Int  # (W,): its number of rows
    begin: Int  # (W,): the first of these that it keeps, counted from its own first
    end: Int  # (W,): the one after the last that it keeps

    def at(self, which: Int) -> Windows:
        """Some of them."""
        return Windows(*(part[which] for part in self))


class Chunk(NamedTuple):
    """Windows that are filtered together, the longest first; arrays are in the order of time."""

    y: Float  # (T + 1, W, d): observations, zero after the end of a window
    h: Float  # (T, W): time between them
    rows: Int  # (T, W): the row of each step, −1 after the end
    kept: npt.NDArray[np.bool_]  # (T, W): whether it is one that the window keeps
    active: Int  # (T,): how many windows have this step
    u: Float  # (T, W, k): what drives each step from outside
    periods: Float | None = None  # (2, d): where one period of each observed variable begins and ends, if any has one

    @property
    def n_kept(self) -> int:
        """The number of rows that are kept."""
        return int(self.kept.sum())


def window_lengths(step_noise: Float, noise: Float) -> tuple[int, int]:
    """Overlap and kept steps of windows, from the covariance of the noise of a step and that of measurement.

    A filter forgets its start by a factor of 1 − K at each step, K being its gain.
    """
    back = np.linalg.inv(np.linalg.cholesky(step_noise))
    largest = float(np.linalg.eigvalsh(back @ noise @ back.T)[-1])
    ratio = 1 / min(max(largest, 1e-9), 1e12)  # beyond, the overlap is the least or the most
    gain = 0.5 * (np.sqrt(ratio**2 + 4 * ratio) - ratio)
    needed = np.log(FORGOTTEN) / np.log(max(1 - gain, 1e-9))
    overlap = int(np.clip(np.ceil(needed), LEAST_OVERLAP, MOST_OVERLAP))
    return overlap, max(LEAST_KEPT, 3 * overlap)


def second_order_window_lengths(sigma: Float, noise: Float, h: float) -> tuple[int, int]:
    """The same for a filter of positions and velocities, which forgets within about (Λ/Σh³)^¼ steps.

    Without errors of measurement it forgets as fast as one of positions alone whose errors are as large as its noise.
    """
    back = np.linalg.inv(np.linalg.cholesky(h**3 * sigma))
    largest = max(1.0, float(np.linalg.eigvalsh(back @ noise @ back.T)[-1]))
    return window_lengths(np.eye(1), np.full((1, 1), np.sqrt(largest)))


def cut(one_track: npt.NDArray[np.bool_], overlap: int, kept: int, n_before: int = 0) -> Windows:
    """Windows of rows, given which of them continue the one before.

    Parameters
    ----------
    one_track : array of bool, shape (n,)
    overlap : int
        Rows before and after what is kept.
    kept : int
        Rows that a window keeps, about.
    n_before : int
        Rows at the start that are there to overlap alone, and not kept.
    """
    n = len(one_track)
    starts = np.flatnonzero(~one_track)
    ends = np.append(starts[1:], n)
    inside = np.maximum(starts, n_before)
    own = ends - inside
    starts, ends, inside, own = (part[own > 0] for part in (starts, ends, inside, own))
    pieces = np.maximum(1, np.round(own / kept).astype(int))
    stretch = np.repeat(np.arange(len(starts)), pieces)
    number = np.arange(len(stretch)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = inside[stretch] + own[stretch] * number // pieces[stretch]
    high = inside[stretch] + own[stretch] * (number + 1) // pieces[stretch]
    first = np.maximum(starts[stretch], low - overlap)
    last = np.minimum(ends[stretch], high + overlap)
    return Windows(first, last - first, low - first, high - first)


def chunks(data: Transitions, windows: Windows) -> Iterator[Chunk]:
    """The windows in chunks, the longest first."""
    windows = windows.at(np.argsort(-windows.length, kind="stable"))
    states, driven = data.inputs[:, moving(data)], data.inputs[:, data.n_inputs - data.n_covariates :]
    ends = states + data.increments
    periods = data.periods[:, moving(data)] if is_periodic(data.periods[:, moving(data)]).any() else None
    start = 0
    while start < len(windows.first):
        size = max(1, CHUNK_STEPS // int(windows.length[start]))
        own = windows.at(np.arange(start, min(start + size, len(windows.first))))
        start += size
        time = np.arange(own.length[0])[:, None]
        within = time < own.length
        rows = np.where(within, own.first + time, -1)
        y = np.zeros((len(time) + 1, len(own.first), data.n_outputs))
        y[0] = states[own.first]
        y[1:] = np.where(within[:, :, None], ends[rows], 0.0)
        kept = (time >= own.begin) & (time < own.end)
        h, active = np.where(within, data.h[rows], 1.0), within.sum(axis=1)
        yield Chunk(y, h, rows, kept, active, driven[rows], periods)


class Overlapping(NamedTuple):
    """A block of data after the last rows of the block before it."""

    rows: Transitions
    n_before: int

    def __len__(self) -> int:
        return len(self.rows) - self.n_before


class InOrder:
    """Data whose blocks overlap, so that tracks go on across blocks: rows of a group in memory are brought together."""

    def __init__(self, data: Data, overlap: int) -> None:
        self.in_memory, self.overlap = data.in_memory, overlap
        self.data = in_track_order(data)

    @property
    def in_stretches(self) -> OverlappingStretches | None:
        """For `itofit.data.passes`: how data in parts are read."""
        return OverlappingStretches(self.data, self.overlap) if isinstance(self.data, PartedTransitions) else None

    def blocks(self) -> Iterator[Overlapping]:
        """All blocks with the last rows of the one before."""
        before: Transitions | None = None
        for block in self.data.blocks():
            rows = block if before is None else Transitions.concatenate([before, block])
            yield Overlapping(rows, len(rows) - len(block))
            before = rows[max(0, len(rows) - self.overlap) :].copy() if self.overlap else None


class OverlappingStretches:
    """Data in parts whose blocks overlap, in stretches."""

    def __init__(self, data: PartedTransitions, overlap: int) -> None:
        self.data, self.overlap, self.cluster = data, overlap, data.cluster

    def stretches(self, n_threads: int) -> list[OverlappingStretch]:
        """All blocks, in stretches that suit so many threads."""
        own = self.data.stretches(n_threads, self.overlap)
        return [OverlappingStretch(stretch, self.overlap) for stretch in own]

    def compare(self, marks: Marks) -> None:
        """Raise if blocks of a part are not those of an earlier pass."""
        self.data.compare(marks)


class OverlappingStretch(NamedTuple):
    """Blocks that follow each other, each after the last rows of the one before it."""

    stretch: Stretch
    overlap: int

    @property
    def first(self) -> int:
        """The number of its first block."""
        return self.stretch.first

    @property
    def block_rows(self) -> int:
        """Rows of every block but the last of all, without those that overlap."""
        return self.stretch.block_rows

    def blocks(self, marks: Marks) -> Iterator[Overlapping]:
        """The blocks."""
        return (Overlapping(rows, n_before) for rows, n_before in self.stretch.overlapping(self.overlap, marks))


def in_track_order(data: Data) -> Data:
    """Data in memory with the rows of each group together, in their order; others as they are."""
    if not isinstance(data, Transitions):
        return data
    order = track_order(data)
    return data if order is None else data[order]
