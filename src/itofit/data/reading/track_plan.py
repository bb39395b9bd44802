"""Transitions of a source whose tracks may cross its units: the first look at all of them, and the parts they make.

All tracks of all units are rows here: unit, label, first and last time, (n,) each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from itofit._checks import InputError, Int, Option
from itofit.data.covariates import warn_of_unknown
from itofit.data.frames.file_rows import OTHER_LABELS, if_several_tracks
from itofit.data.frames.layout import Layout
from itofit.data.frames.table_columns import UNITS
from itofit.data.large.parts import Looked, PartedTransitions, Run
from itofit.data.reading.crossing import (
    Before,
    Ends,
    Labels,
    Reading,
    Section,
    TablesInOrder,
    TrackPart,
    ends_of,
    origin_of,
)
from itofit.data.reading.interleaved import in_windows
from itofit.data.reading.label_ranges import Ranges, shared_ranges
from itofit.data.step_limits import StepLimits, none_within_limits
from itofit.data.trajectories import Moves, complete, warn_of_left_out, warn_of_sorted
from itofit.data.transitions import Transitions


def parted(sections: Sequence[Section], layout: Layout, limits: StepLimits) -> PartedTransitions:
    """Transitions of all sections, in their order; nothing is read before it is needed."""
    s = sum(len(own) for own in layout.variables)
    some = Moves(np.zeros((1, s)), np.zeros((1, s)), np.ones(1), np.zeros(1, dtype=np.intp) if layout.track else None)
    return PartedTransitions(FirstLook(tuple(sections), layout, limits), Transitions._from_moves(layout, some))


@dataclass(frozen=True)
class FirstLook:
    """What looks at all sections, once, and makes parts of them."""

    sections: tuple[Section, ...]
    layout: Layout
    limits: StepLimits

    def __call__(self, run: Run) -> Looked:
        """The parts that hold transitions, and how many."""
        origin = self._origin(run)
        shared = _shared(self.sections, self.layout)
        own = [
            Reading(section, self.layout, self.limits, origin, ranges)
            for section, ranges in zip(self.sections, shared, strict=True)
        ]
        readings: list[TablesInOrder] = [*own]
        ends = run(ends_of, readings)
        plan = self._plan(readings, ends)
        if plan is not None and (tangled := plan.tangled(origin)):
            readings = in_windows(own, tangled, run)
            known = {id(reading): told for reading, told in zip(own, ends, strict=True)}
            new = [reading for reading in readings if id(reading) not in known]
            known |= {id(reading): told for reading, told in zip(new, run(ends_of, new), strict=True)}
            plan = self._plan(readings, [known[id(reading)] for reading in readings])
        if plan is None:
            return Looked((), ())
        plan.check(origin)
        plan.warn()
        before: list[dict[int, Before]] = [{} for _ in readings]
        lengths = [0] * len(readings)
        for i, unit in enumerate(plan.units):
            lengths[unit.section] += int(plan.n_kept[i])
            if (needed := plan.before(i)) is not None:
                before[unit.section][unit.number] = needed
        held = [number for number, n in enumerate(lengths) if n]
        several = {unit.section for unit in plan.units if unit.number or not unit.ends.as_read}
        parts = [TrackPart(readings[i], before[i], i not in several) for i in held]
        return Looked(parts, [lengths[i] for i in held])

    def _plan(self, readings: Sequence[TablesInOrder], ends: Sequence[dict[int, Ends]]) -> _Plan | None:
        """What follows what, given the ends of all units; None if there are no rows."""
        units = [Unit(number, unit, own) for number, told in enumerate(ends) for unit, own in sorted(told.items())]
        return _Plan(units, readings, self.layout, self.limits) if units else None

    def _origin(self, run: Run) -> Any:  # noqa: ANN401
        """What times count from: the first of them, as in one table of all rows."""
        if self.layout.time is None:
            return None
        for section in self.sections:
            (origin,) = run(partial(origin_of, layout=self.layout), [section])
            if origin is not None:
                return origin
        return None


class Unit(NamedTuple):
    """A unit that has rows."""

    section: int
    number: int  # in the section
    ends: Ends


class _Plan:
    """Which track goes on from which unit to which.

    Attributes
    ----------
    n_kept : array of shape (n_units,)
        Transitions of each unit, with those that lead to it from others.
    """

    def __init__(
        self, units: Sequence[Unit], readings: Sequence[TablesInOrder], layout: Layout, limits: StepLimits
    ) -> None:
        self.units, self.readings, self.layout, self.limits = units, readings, layout, limits
        self.ends = ends = [unit.ends for unit in units]
        self.unit = np.repeat(np.arange(len(ends)), [len(own.last.labels) for own in ends])
        self.labels = self._labels_of_one_kind()
        self.first = np.concatenate([own.first_clock for own in ends])
        self.last = np.concatenate([own.last_clock for own in ends])
        self.rows = np.concatenate([own.last.rows for own in ends])
        clock = [own.last.clock for own in ends if own.last.clock is not None]
        self.clock = np.concatenate(clock) if clock else None
        _, self.track = np.unique(self.labels, return_inverse=True)
        self._untimed_are_gaps()
        timed = np.flatnonzero(~np.isnan(self.first))
        order = timed[np.lexsort((self.unit[timed], self.first[timed], self.track[timed]))]
        goes_on = self.track[order[1:]] == self.track[order[:-1]]
        one, other = order[:-1][goes_on], order[1:][goes_on]
        by_unit = np.lexsort((self.labels[other], self.unit[other]))
        self.one, self.next = one[by_unit], other[by_unit]  # rows: a track, and where it goes on
        self.into = self.unit[self.next]
        self._count()

    def _name(self, unit: int) -> str:
        own = self.units[unit]
        return self.readings[own.section].units[own.number]

    def _source(self, row: int) -> str:
        """What the unit of a row is a piece of."""
        own = self.units[int(self.unit[row])]
        return self.readings[own.section].sources[own.number]

    def _labels_of_one_kind(self) -> Labels:
        """All labels, (n,); raise if some are whole numbers and others are not."""
        labels = [own.last.labels for own in self.ends]
        text = [i for i, own in enumerate(labels) if len(own) and own.dtype.kind == "U"]
        whole = [i for i, own in enumerate(labels) if len(own) and own.dtype.kind != "U"]
        if text and whole:
            raise InputError(
                "{track}: {columns} must be of one type, but it holds whole numbers in {one} and {label!r} in {other}; "
                "convert all of it to text",
                track=Option("track"),
                columns=" and ".join(f"column {name!r}" for name in self.layout.track),
                one=self._name(whole[0]),
                label=str(labels[text[0]][0]),
                other=self._name(text[0]),
            )
        chosen = [labels[i] for i in text or whole]
        return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.intp)

    def _untimed_are_gaps(self) -> None:
        """Rows without a time are a gap after those that they follow, if these are in the unit before."""
        untimed = np.isnan(self.first)
        if not untimed.any():
            return
        order = np.lexsort((self.unit, self.track))
        for place in np.flatnonzero(untimed[order])[::-1]:
            if place and self.track[order[place - 1]] == self.track[order[place]]:
                self.rows[order[place - 1]] = np.nan

    def _count(self) -> None:
        d = len(self.layout.state + self.layout.velocity)
        first_complete = np.concatenate([own.first_complete for own in self.ends])
        h = (
            np.full(len(self.one), self.layout.dt)
            if self.clock is None
            else self.first[self.next] - self.last[self.one]
        )
        moves = complete(self.rows[self.one, :d]) & first_complete[self.next]
        allowed = moves & self.limits.allow(h)
        known = complete(self.rows[self.one])
        n = len(self.ends)
        crossing, unknown = (np.bincount(self.into[chosen], minlength=n) for chosen in (allowed, allowed & ~known))
        self.n_moves = int(sum(own.n_moves for own in self.ends) + crossing.sum())
        self.n_unknown = int(sum(own.n_unknown for own in self.ends) + unknown.sum())
        self.n_kept = np.array([own.n_moves - own.n_unknown for own in self.ends]) + crossing - unknown
        low, high = np.array([own.span for own in self.ends]).T
        self.span = min(low.min(), h[moves].min(initial=np.inf)), max(high.max(), h[moves].max(initial=0.0))

    def tangled(self, origin: Any) -> set[int]:  # noqa: ANN401
        """The sections in which rows of a track are not in order: they overlap in time with those in another unit.

        Raise if these are units of two files.
        """
        sections = {unit.section for unit in self.units if unit.ends.goes_back}
        one, other = self._overlapping()
        for pair in zip(one.tolist(), other.tolist(), strict=True):
            if len({self._source(row) for row in pair}) > 1:
                raise self._overlap(pair, origin)
        section = np.array([unit.section for unit in self.units])[self.unit]  # of each row
        chosen = np.isin(section, [*sections, *section[one], *section[other]])
        while True:  # with all that lie between rows of theirs
            low, high = (
                np.full(self.track.max(initial=-1) + 1, np.inf),
                np.full(self.track.max(initial=-1) + 1, -np.inf),
            )
            np.fmin.at(low, self.track[chosen], self.first[chosen])
            np.fmax.at(high, self.track[chosen], self.last[chosen])
            between = (self.first <= high[self.track]) & (self.last >= low[self.track])
            wider = np.isin(section, section[chosen | between])
            if (wider == chosen).all():
                return sections | set(section[chosen].tolist())
            chosen = wider

    def _overlapping(self) -> tuple[Int, Int]:
        """Rows of all tracks that overlap in time, (n,) each: that which lasts longest so far, and one that begins.

        Every row that overlaps with another one is among them.
        """
        if self.clock is None:
            return (np.zeros(0, dtype=np.intp),) * 2
        order = np.lexsort((self.unit, self.first, self.track))
        order = order[~np.isnan(self.first[order])]
        by_last = np.argsort(self.last[order], kind="stable")
        rank = np.empty(len(order), dtype=np.intp)
        rank[by_last] = np.arange(len(order))
        longest = np.maximum.accumulate(self.track[order] * len(order) + rank)  # of each track, for these are in order
        holder = order[by_last[longest % max(len(order), 1)]]
        again = self.track[order[1:]] == self.track[order[:-1]]
        again &= self.last[holder[:-1]] >= self.first[order[1:]]
        return holder[:-1][again], order[1:][again]

    def check(self, origin: Any) -> None:  # noqa: ANN401
        """Raise if rows of a track overlap in time in two units, or if no move took an allowed time."""
        one, other = self._overlapping()
        if len(one):
            raise self._overlap((int(one[0]), int(other[0])), origin)
        if self.span[1] and not self.n_moves:
            raise none_within_limits(*self.span)

    def _overlap(self, rows: tuple[int, int], origin: Any) -> InputError:  # noqa: ANN401
        one, other = sorted(rows, key=lambda row: int(self.unit[row]))
        shown = partial(_shown, origin=origin, unit=self.layout.unit)
        named = bool(self.layout.track)
        return InputError(
            "the rows of {track} overlap in time: those in {one} have the times {one_times}, those in {other} "
            "{other_times}; {advice}",
            track=f"track {self.labels[one]}" if named else "the trajectory",
            one=self._name(int(self.unit[one])),
            one_times=f"{shown(self.first[one])} to {shown(self.last[one])}",
            other=self._name(int(self.unit[other])),
            other_times=f"{shown(self.first[other])} to {shown(self.last[other])}",
            advice=OTHER_LABELS if named else if_several_tracks(self._source(one) != self._source(other)),
        )

    def before(self, unit: int) -> Before | None:
        """The last observations, elsewhere, of the tracks that come to a unit."""
        chosen = self.one[slice(*np.searchsorted(self.into, [unit, unit + 1]))]
        if not len(chosen):
            return None
        return Before(self.labels[chosen], self.rows[chosen], None if self.clock is None else self.clock[chosen])

    def warn(self) -> None:
        """Warn of rows that were sorted or left out."""
        unsorted = [own.unsorted for own in self.ends if len(own.unsorted)]
        back = self.unit[self.one] > self.unit[self.next]  # from one unit to another: of two files that is no news
        one, other = self.one[back].tolist(), self.next[back].tolist()
        same = [self._source(a) == self._source(b) for a, b in zip(one, other, strict=True)]
        if any(same):
            unsorted.append(self.labels[self.one[back][same]])
        several = np.bincount(self.track, weights=np.concatenate([own.n_rows for own in self.ends])) > 1
        single = sum(own.n_inner_single for own in self.ends)
        inner = np.repeat([False, True], [single, sum(own.n_inner for own in self.ends) - single])
        n_rows = np.concatenate([several, inner]).astype(np.int8) + 1  # 1, or 2 for more
        if unsorted:
            warn_of_sorted(len(np.unique(np.concatenate(unsorted))), len(n_rows) if self.layout.track else None)
        warn_of_left_out(sum(own.n_untracked for own in self.ends), n_rows)
        warn_of_unknown(self.n_unknown, self.n_moves or 1)


def _shared(sections: Sequence[Section], layout: Layout) -> list[tuple[Ranges | None, ...]]:
    """For each unit of each section the labels that it may have in common with others; nothing if that is not known.

    It follows from the ranges of labels that a section may tell (`label_ranges`): for each unit one, an empty tuple if
    it has no rows, or None.
    """
    own = [section.label_ranges(layout) if hasattr(section, "label_ranges") else [None] for section in sections]
    known = [label_range for units in own for label_range in units if label_range]
    if (
        None in (label_range for units in own for label_range in units)
        or len({type(end) for label_range in known for end in label_range}) > 1
    ):
        return [()] * len(sections)
    shared = iter(shared_ranges(known))
    return [tuple(next(shared) if label_range else None for label_range in units) for units in own]


def _shown(time: float, origin: Any, unit: str | None) -> str:  # noqa: ANN401
    """A time as a number, or as the date that it stands for."""
    if unit is None:
        return f"{time + float(origin or 0):g}"
    microseconds = np.array(1, dtype=f"timedelta64[{UNITS[unit]}]") / np.timedelta64(1, "us")
    return str(origin + np.timedelta64(round(time * float(microseconds)), "us"))
