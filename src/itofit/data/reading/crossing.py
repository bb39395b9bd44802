"""Tracks that cross the units of a source: the rows of a file in a section of row groups, or of a partition.

A unit is read on its own, and a move belongs to the unit that holds its end. So a unit needs the last observation that
each of its tracks had before, and only those tracks cross that are in several units:

    unit 0    a a a a b b b            ends: a, b
    unit 1    b b b c c                ends: b, c;       needs the last observation of b in unit 0
    unit 2    c d d d                  ends: c, d;       needs the last observation of c in unit 1

A first look at all units returns the ends of their tracks, `Ends`; `reading/track_plan.py` puts those of a track in
the order of their times, whatever the order of the units, and gives each unit what it needs, `Before`. Where rows of a
track in two units overlap in time, `reading/interleaved.py` cuts the rows into other units first, in which they do not.

A section is what is read as one part of the data: one unit, or several if these are small, as many files may be.

With k tracks in a unit and s columns of states, velocities and covariates: labels (k,), times of the first and the
last rows (k,), last rows (k, s).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.data.frames.layout import Layout
from itofit.data.frames.table_columns import Table, counted_from
from itofit.data.reading.file_errors import errors_naming
from itofit.data.reading.label_ranges import Ranges
from itofit.data.rows import slices
from itofit.data.step_limits import StepLimits
from itofit.data.trajectories import Observations, complete, in_order, moves_between, starts_of_moves
from itofit.data.transitions import Transitions

Labels = npt.NDArray[Any]


class HasUnits(Protocol):
    """What consists of units."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    @property
    def units(self) -> Sequence[str]:
        """What errors call its units."""
        ...

    @property
    def sources(self) -> Sequence[str]:
        """For each unit what it is a piece of, as a file: rows of a track must not overlap in time in two of these."""
        ...


class Section(HasUnits, Protocol):
    """Units of a source that are read one after the other; it can be pickled, and read wherever it is sent to."""

    @property
    def dask_frame(self) -> str:
        """Python code for a Dask data frame of what it is a piece of, for the advice to sort it."""
        ...

    def pieces(self) -> Sequence[Section]:
        """The smallest sections that it can be cut into."""
        ...

    def first_rows(self, layout: Layout, n_rows: int) -> Table | None:
        """The first rows of its only unit, about so many; None if these cost as much as all of them."""
        ...

    def tables(self, layout: Layout) -> Iterator[tuple[int, Table]]:
        """Numbers of units and their rows in order, a table for each, or several if it is large: the same each time."""
        ...


class Before(NamedTuple):
    """The last observation that each of some tracks had: labels (k,) in order, rows (k, s) and times (k,)."""

    labels: Labels
    rows: Float
    clock: Float | None

    @classmethod
    def of(cls, observations: Observations) -> Before:
        """The last observations of the tracks in a table whose rows are in order."""
        last = np.append(np.flatnonzero(np.diff(observations.track)), len(observations.track) - 1)
        labels = labels_of(observations)
        order = np.argsort(labels)
        clock = None if observations.clock is None else observations.clock[last][order]
        return cls(labels[order], observations.states[last][order], clock)

    def take(self, chosen: npt.NDArray[Any]) -> Before:
        """Those of some tracks."""
        clock = None if self.clock is None else self.clock[chosen]
        return Before(self.labels[chosen], self.rows[chosen], clock)

    def updated(self, later: Before) -> Before:
        """With those of tracks that went on."""
        kept = self.take(~np.isin(self.labels, later.labels))
        labels = np.concatenate([kept.labels, later.labels])
        order = np.argsort(labels)
        clock = None
        if kept.clock is not None and later.clock is not None:
            clock = np.concatenate([kept.clock, later.clock])[order]
        return Before(labels[order], np.concatenate([kept.rows, later.rows])[order], clock)

    def joined(self, observations: Observations) -> Observations:
        """Rows in order, each track preceded by its last observation if it had one."""
        if not len(self.labels):
            return observations
        labels = labels_of(observations)
        place = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        track = np.flatnonzero(self.labels[place] == labels)
        place = place[track]
        first = np.searchsorted(observations.track, track)
        clock = observations.clock
        if clock is not None and self.clock is not None:
            clock = _inserted(clock, first, self.clock[place])
        return observations._replace(
            states=_inserted(observations.states, first, self.rows[place]),
            clock=clock,
            track=_inserted(observations.track, first, track),
            row=_inserted(observations.row, first, np.full(len(first), -1)),
        )


def _inserted(array: npt.NDArray[Any], places: Int, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array with rows before those at some places; that of a single one costs less."""
    if len(places) != 1:
        return np.insert(array, places, rows, axis=0)
    return np.concatenate([array[: places[0]], rows, array[places[0] :]])


def labels_of(observations: Observations) -> Labels:
    """The labels of tracks, (k,); the only one, without a name, is called 0."""
    return np.zeros(1, dtype=np.intp) if observations.labels is None else observations.labels


class Ordered(NamedTuple):
    """A table of a unit, its rows in order of tracks and times."""

    unit: int
    observations: Observations
    unsorted: Int  # numbers of the tracks that were not in order
    n_untracked: int  # rows without a track, left out
    as_read: bool = False  # whether its rows stood in this order


class OfSection:
    """What is called as a section and consists of its units."""

    section: Section

    @property
    def name(self) -> str:
        """That of the section."""
        return self.section.name

    @property
    def units(self) -> Sequence[str]:
        """Those of the section."""
        return self.section.units

    @property
    def sources(self) -> Sequence[str]:
        """Those of the section."""
        return self.section.sources


@dataclass(frozen=True)
class Reading(OfSection):
    """How the rows of a section become transitions."""

    section: Section
    layout: Layout
    limits: StepLimits
    origin: Any  # what times count from
    shared: Sequence[Ranges | None] = ()  # for each unit: which labels other units may have, all if that is not known

    def in_order(self) -> Iterator[Ordered]:
        """The tables that have rows."""
        for unit, observations, n_untracked in observed(self.section, self.layout, self.origin):
            if len(observations.track):
                ordered, unsorted = in_order(observations, sort=True)
                yield Ordered(unit, ordered, unsorted, n_untracked, ordered.row is observations.row)
            elif n_untracked:
                yield Ordered(unit, observations, np.zeros(0, dtype=np.intp), n_untracked)

    def first_rows(self, n_rows: int) -> Observations | None:
        """The first rows of the only unit, about so many, as they stand; None if these cost as much as all of them."""
        table = self.section.first_rows(self.layout, n_rows)
        return None if table is None else in_order(self.layout.observations(table, self.origin)[0], sort=True)[0]

    def pieces(self) -> list[Reading]:
        """The same of the smallest sections, of which all labels are told."""
        return [replace(self, section=piece, shared=()) for piece in self.section.pieces()]


def observed(section: Section, layout: Layout, origin: Any) -> Iterator[tuple[int, Observations, int]]:  # noqa: ANN401
    """Units of a section, the rows of each of its tables, and how many have no track."""
    for unit, table in section.tables(layout):
        with errors_naming(section.sources[unit] or section.units[unit]):
            observations, _, n_untracked = layout.observations(table, origin)
        yield unit, observations, n_untracked


class TablesInOrder(HasUnits, Protocol):
    """What `Reading` has, and any other way to rows of units in order: it can be pickled."""

    @property
    def layout(self) -> Layout:
        """Which columns hold what."""
        ...

    @property
    def limits(self) -> StepLimits:
        """The shortest and the longest time of a move."""
        ...

    @property
    def shared(self) -> Sequence[Ranges | None]:
        """For each unit: which labels other units may have, all if that is not known."""
        ...

    def in_order(self) -> Iterator[Ordered]:
        """The tables that have rows."""
        ...

    def first_rows(self, n_rows: int) -> Observations | None:
        """The first rows of its only unit, about so many, as they stand; None if these cost as much as all of them."""
        ...


class TrackPart:
    """The transitions that end in a section: a part of the data.

    Parameters
    ----------
    reading : TablesInOrder
    before : dict of Before
        By numbers of units: the last observations of tracks that come from other units.
    as_read : bool
        Whether it has one unit, whose rows stand in order.
    """

    def __init__(self, reading: TablesInOrder, before: dict[int, Before], as_read: bool = False) -> None:
        self.reading, self.before, self.as_read = reading, before, as_read

    @property
    def name(self) -> str:
        """That of the section."""
        return self.reading.name

    def blocks(self) -> Iterator[Transitions]:
        """Its transitions, in the order of tracks and times within each of its tables."""
        before: Before | None = None
        previous: Ordered | None = None
        for table in self.reading.in_order():
            if not len(table.observations.track):
                continue
            goes_on = previous is not None and previous.unit == table.unit
            if previous is not None and goes_on:
                last = Before.of(previous.observations)
                before = last if before is None else before.updated(last)
            else:
                before = self.before.get(table.unit)
            previous = table
            joined = table.observations if before is None else before.joined(table.observations)
            if goes_on:
                in_order(joined, sort=False)  # it was so in the first look
            if (block := self._transitions(joined)) is not None:
                yield from (block[rows] for rows in slices(len(block)))

    def beginning(self, n_rows: int) -> Iterator[Transitions]:
        """Its first transitions, at least so many; if these cannot be had for less, all of them."""
        wanted = n_rows + 1
        while self.as_read and (rows := self.reading.first_rows(wanted)) is not None:
            before = self.before.get(0)
            block = self._transitions(rows if before is None else before.joined(rows))
            if block is not None and len(block) >= n_rows:
                yield block
                return
            wanted *= 2  # there are gaps
        yield from self.blocks()

    def _transitions(self, observations: Observations) -> Transitions | None:
        """The moves between rows in order; None if there are none."""
        moves = moves_between(observations, self.reading.layout.dt)
        kept = self.reading.limits.allow(moves.h) & complete(moves.start)  # but for covariates all are complete
        if not kept.any():
            return None
        return Transitions._from_moves(self.reading.layout, moves if kept.all() else moves.take(kept))


class Ends(NamedTuple):
    """What a unit tells of its tracks, (k,) each, in the order of their labels, and of its moves."""

    last: Before
    first_clock: Float  # NaN where no row has a time
    last_clock: Float  # of the last row that has a time
    first_complete: npt.NDArray[np.bool_]  # whether a move can lead to the first row
    n_rows: Int
    n_moves: int  # within the unit, of an allowed length
    n_unknown: int  # of these, without covariates
    span: tuple[float, float]  # the shortest and the longest time that any took
    n_untracked: int
    unsorted: Labels  # tracks whose rows were not in order
    n_inner: int = 0  # tracks that cannot be in another unit, and of which nothing else is told
    n_inner_single: int = 0  # of these, with one row
    goes_back: bool = False  # whether one of its tables goes back in time behind an earlier one
    as_read: bool = False  # whether it is one table, whose rows stand in order

    def within(self, ranges: Ranges) -> Ends:
        """Those of tracks whose labels are within some ranges."""
        chosen = np.zeros(len(self.last.labels), dtype=bool)
        for low, high in ranges:
            chosen |= (self.last.labels >= low) & (self.last.labels <= high)
        return self._replace(
            last=self.last.take(chosen),
            first_clock=self.first_clock[chosen],
            last_clock=self.last_clock[chosen],
            first_complete=self.first_complete[chosen],
            n_rows=self.n_rows[chosen],
            n_inner=int((~chosen).sum()),
            n_inner_single=int((self.n_rows[~chosen] == 1).sum()),
        )


def ends_of(reading: TablesInOrder) -> dict[int, Ends]:
    """Those of each unit of a section that has rows."""
    parts: dict[int, list[Ends]] = {}
    last: dict[int, Before] = {}
    for table in reading.in_order():
        before = last.get(table.unit)
        source = reading.sources[table.unit]
        with errors_naming(source) if source else nullcontext():  # a window names the files itself
            own = _ends_of_table(reading, table, before)
        parts.setdefault(table.unit, []).append(own)
        last[table.unit] = own.last if before is None else before.updated(own.last)
    ends = {unit: own[0] if len(own) == 1 else _joined_ends(own, last[unit]) for unit, own in parts.items()}
    for unit, ranges in enumerate(reading.shared):
        if ranges is not None and unit in ends:
            ends[unit] = ends[unit].within(ranges)
    return ends


def _ends_of_table(reading: TablesInOrder, table: Ordered, before: Before | None) -> Ends:
    observations, n_untracked = table.observations, table.n_untracked
    n_columns = observations.states.shape[1] - observations.n_covariates
    if not len(observations.track):
        empty = np.zeros(0)
        last = Before(labels_of(observations)[:0], observations.states, observations.clock)
        none = np.zeros(0, dtype=bool)
        return Ends(last, empty, empty, none, none.astype(np.intp), 0, 0, (np.inf, 0.0), n_untracked, last.labels)
    joined = observations if before is None else before.joined(observations)
    if goes_back := before is not None and len(in_order(joined._replace(files=None), sort=True)[1]) > 0:
        joined = observations  # what is counted here is counted again in other units
    starts, h = starts_of_moves(joined, reading.layout.dt)
    allowed = reading.limits.allow(h)
    known = complete(joined.states[:, n_columns:].take(starts, axis=0))
    labels = labels_of(observations)
    order = np.argsort(labels)
    first = np.flatnonzero(np.diff(observations.track, prepend=-1))
    first_clock, last_clock = (np.zeros(len(labels)),) * 2
    if observations.clock is not None:
        first_clock, last_clock = (end.reduceat(observations.clock, first)[order] for end in (np.fmin, np.fmax))
    return Ends(
        Before.of(observations),
        first_clock,
        last_clock,
        complete(observations.states[first[order], :n_columns]),
        np.bincount(observations.track)[order],
        int(allowed.sum()),
        int((allowed & ~known).sum()),
        (float(h.min()), float(h.max())) if len(h) else (np.inf, 0.0),
        n_untracked,
        labels[table.unsorted],
        goes_back=goes_back,
        as_read=table.as_read,
    )


def _joined_ends(parts: Sequence[Ends], last: Before) -> Ends:
    """Those of a unit that was read in several tables, given the last observations in it."""
    labels = np.concatenate([part.last.labels for part in parts])
    number = np.searchsorted(last.labels, labels)
    k = len(last.labels)
    first_clock, last_clock = np.full(k, np.nan), np.full(k, np.nan)
    np.fmin.at(first_clock, number, np.concatenate([part.first_clock for part in parts]))
    np.fmax.at(last_clock, number, np.concatenate([part.last_clock for part in parts]))
    first_complete = np.zeros(k, dtype=bool)
    first_complete[number[::-1]] = np.concatenate([part.first_complete for part in parts])[::-1]  # the first one stays
    n_rows = np.zeros(k, dtype=np.intp)
    np.add.at(n_rows, number, np.concatenate([part.n_rows for part in parts]))
    return Ends(
        last,
        first_clock,
        last_clock,
        first_complete,
        n_rows,
        sum(part.n_moves for part in parts),
        sum(part.n_unknown for part in parts),
        (min(part.span[0] for part in parts), max(part.span[1] for part in parts)),
        sum(part.n_untracked for part in parts),
        np.unique(np.concatenate([part.unsorted for part in parts])),
        goes_back=any(part.goes_back for part in parts),
    )


def origin_of(section: Section, layout: Layout) -> Any:  # noqa: ANN401
    """What the times of a section count from: None if it has none."""
    for unit, table in section.tables(layout):
        if layout.time is not None and table.n_rows:
            with errors_naming(section.sources[unit] or section.units[unit]):
                table.check("time", layout.time)
                _, origin = counted_from(table.moments(layout.time, layout.unit, layout.texts), layout.unit)
            if origin is not None:
                return origin
    return None
