"""Rows of tracks that stand in several units in no order of time, cut into windows in which they are in order.

Of each piece of the data, as a row group, a second look tells how its rows are spread over tracks and times. From that
windows of about so many rows are made, either of tracks one after the other, a track being cut in time where it must
be, or of times of all tracks:

    rows of tracks a, b, c     window 0: a up to t1     window 1: a from t1 on, b, c up to t2     window 2: ...
    rows over times            window 0: up to t1       window 1: t1 to t2                        window 2: ...

A window reads every piece that may hold some of its rows, leaves out the others and sorts. So a piece may be read for
several windows, up to MOST_READS times on average: then rows in any order are read, at a price. The cheapest windows
are taken. Where windows are of tracks, transitions come in the order of one table of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from itofit._checks import Float, InputError, Int
from itofit.data.frames.layout import Layout
from itofit.data.large.parts import Run
from itofit.data.reading.crossing import Labels, Ordered, Reading, Section, TablesInOrder, labels_of, observed
from itofit.data.reading.label_ranges import Ranges
from itofit.data.step_limits import StepLimits
from itofit.data.trajectories import Observations, in_order

WINDOW_ROWS = (2**19, 2**20, 2**21)
"""Rows of a window, about: the largest needs some 350 MB for one variable, the smallest keeps more threads busy."""
MOST_READS = 16
"""How often each row may be read in a pass, on average, before it is better to sort the data once."""
SAMPLES = 64
"""Rows of a table whose tracks and times stand for all of them."""
MOST_PAIRS = 50_000_000
"""Of windows and tracks in pieces, that are looked at to find which windows are cheap."""


def in_windows(readings: Sequence[Reading], tangled: set[int], run: Run) -> list[TablesInOrder]:
    """The same rows in other units: those of the sections that are tangled in windows, where the first of these was."""
    chosen = [readings[i] for i in sorted(tangled)]
    pieces = [piece for reading in chosen for piece in reading.pieces()]
    found = [(piece, own) for piece, own in zip(pieces, run(spread_of, pieces), strict=True) if len(own.labels)]
    like = chosen[0]
    windows = _cheapest([own for _, own in found], like)
    made: list[TablesInOrder] = []
    told: set[int] = set()
    for number, (window, held) in enumerate(windows):
        sections = tuple((found[i][0].section, i not in told) for i in held)
        told |= set(held)
        name = f"rows of {sections[0][0].name} and others in the order of their times, window {number}"
        made.append(WindowReading(sections, window, name, like.layout, like.limits, like.origin))
    first = min(tangled)
    before = [own for i, own in enumerate(readings[:first]) if i not in tangled]
    after = [own for i, own in enumerate(readings) if i > first and i not in tangled]
    return [*before, *made, *after]


class Spread(NamedTuple):
    """How the rows of a piece are spread over tracks and times."""

    labels: Labels  # (k,), in order of appearance
    first: Float  # (k,): times of each track; NaN where no row has one
    last: Float
    n_rows: int
    track: Int  # (q,): of some rows the numbers of their tracks
    clock: Float  # (q,): and their times
    weight: Float  # (q,): how many rows each of them stands for


def spread_of(reading: Reading) -> Spread:
    """How the rows of a piece are spread."""
    every = (table for _, table, _ in observed(reading.section, reading.layout, reading.origin))
    tables = [table._replace(states=table.states[:0].copy(), place=str, time=str, files=None) for table in every]
    labels, codes = _common_labels(tables)
    first, last = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    samples = []
    for code, table in zip(codes, tables, strict=True):
        assert table.clock is not None, "only times overlap"
        timed = np.flatnonzero(~np.isnan(table.clock))
        track, clock = code[timed], table.clock[timed]
        np.fmin.at(first, track, clock)
        np.fmax.at(last, track, clock)
        order = np.lexsort((clock, track))
        step = max(1, len(order) // SAMPLES)
        some = order[step // 2 :: step]
        samples.append((track[some], clock[some], np.full(len(some), len(order) / max(len(some), 1))))
    n_rows = sum(len(table.track) for table in tables)
    if not samples:
        return Spread(labels, first, last, 0, np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
    return Spread(labels, first, last, n_rows, *(np.concatenate(own) for own in zip(*samples, strict=True)))


def _common_labels(tables: Sequence[Observations]) -> tuple[Labels, list[Int]]:
    """The labels in several tables, (k,) in order of appearance, and for the rows of each table their numbers."""
    own = [labels_of(table)[_appearance(table.track)] if len(table.track) else labels_of(table)[:0] for table in tables]
    every = np.concatenate([labels for labels in own if len(labels)]) if any(map(len, own)) else np.zeros(0, np.intp)
    unique, first = np.unique(every, return_index=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    codes = []
    for table in tables:
        labels = labels_of(table)
        known = np.minimum(np.searchsorted(unique, labels), max(len(unique) - 1, 0))
        codes.append(rank[known][table.track] if len(table.track) else table.track)
    return unique[order], codes


def _appearance(track: Int) -> Int:
    """The numbers of tracks in the order in which they appear."""
    unique, first = np.unique(track, return_index=True)
    return unique[np.argsort(first)]


# Windows


class Window(NamedTuple):
    """Some tracks, of which the first begins at a time and the last ends before one; or all tracks within two times."""

    labels: Labels | None  # (k,), in order; None: all
    low: float
    high: float

    def rows(self, observations: Observations) -> tuple[Int, Int]:
        """Which rows of a table are in it, (n,), and the numbers of their tracks: among its labels, or the table's."""
        number, known = observations.track, np.ones(len(observations.track), dtype=bool)
        first = last = known
        if self.labels is not None:
            labels, order = labels_of(observations), np.argsort(self.labels)
            place = order[np.minimum(np.searchsorted(self.labels, labels, sorter=order), len(order) - 1)]
            number, known = place[observations.track], (self.labels[place] == labels)[observations.track]
            first, last = number == 0, number == len(order) - 1
        inside = known.copy()
        for end, bound, sign in ((first, self.low, 1), (last, self.high, -1)):
            at = np.flatnonzero(known & end)
            if np.isfinite(bound) and len(at):
                clock = _times_with_gaps(observations, at)
                inside[at] &= (clock >= bound) == (sign > 0)
        rows = np.flatnonzero(inside)
        return rows, number[rows]


def _times_with_gaps(observations: Observations, at: Int) -> Float:
    """The times of some rows; of those that have none, that of the row of their track that they follow.

    Raise if there is no such row: it is somewhere else, and nobody knows which it is.
    """
    assert observations.clock is not None
    clock = observations.clock[at]
    missing = np.isnan(clock)
    if missing.any():
        order = np.argsort(observations.track[at], kind="stable")
        track, absent = observations.track[at][order], missing[order]
        last = np.maximum.accumulate(np.where(absent, 0, np.arange(len(order))))
        lost = absent[last] | (track[last] != track)
        if lost.any():
            raise InputError(
                "{place} has no time, and it is not known which row it follows, since the rows of {track} are not in "
                "the order of their times; give it a time, or sort the rows",
                place=observations.place(int(observations.row[at[order[np.argmax(lost)]]])),
                track=observations.track_name(int(at[order[np.argmax(lost)]])),
            )
        clock[order] = clock[order][last]
    return clock


class WindowReading(NamedTuple):
    """The rows of a window: another way than `Reading` to the rows of a unit in order."""

    sections: tuple[tuple[Section, bool], ...]  # that may hold some, and whether rows without a track are counted here
    window: Window
    name: str
    layout: Layout
    limits: StepLimits
    origin: Any
    shared: Sequence[Ranges | None] = ()

    @property
    def units(self) -> Sequence[str]:
        """Itself."""
        return [self.name]

    @property
    def sources(self) -> Sequence[str]:
        """None that is known."""
        return [""]

    def first_rows(self, n_rows: int) -> None:
        """All of them are read to know which these are."""

    def in_order(self) -> Iterator[Ordered]:
        """Its rows in one table, if there are any."""
        tables, n_untracked = [], 0
        for section, counted in self.sections:
            for number, (_, table, n) in enumerate(observed(section, self.layout, self.origin)):
                n_untracked += n if counted else 0
                rows, track = self.window.rows(table)
                if len(rows):
                    own = table.take(rows)._replace(track=track, place=str, time=str, files=None)  # without the table
                    tables.append(_Kept(own, section, number))
        if tables:
            yield Ordered(0, *in_order(self._joined(tables), sort=True), n_untracked)

    def _joined(self, tables: Sequence[_Kept]) -> Observations:
        """Rows of several tables in one, their tracks numbered by the labels of the window, or as they appear."""
        labels, named = self.window.labels, tables[0].rows.labels is not None
        if labels is None:
            labels, codes = _common_labels([own.rows for own in tables])
            track = np.concatenate(codes)
        else:
            used, track = np.unique(np.concatenate([own.rows.track for own in tables]), return_inverse=True)
            labels = labels[used]
        starts = np.cumsum([0, *(len(own.rows.track) for own in tables)])

        def own_row(i: int) -> tuple[Observations, int, str]:
            """The table of a row, which is read again, its place in it, and its file."""
            kept = tables[int(np.searchsorted(starts, i, side="right")) - 1]
            row = int(kept.rows.row[i - int(starts[np.searchsorted(starts, i, side="right") - 1])])
            again = observed(kept.section, self.layout, self.origin)
            unit, table, _ = next(islice(again, kept.number, None))
            return table, row, kept.section.sources[unit]

        def place(i: int) -> str:
            table, row, source = own_row(i)
            return table.place(row) + (f" of {source}" if source else "")

        def time(i: int) -> str:
            table, row, _ = own_row(i)
            return table.time(row)

        clocks = [own.rows.clock for own in tables if own.rows.clock is not None]
        return tables[0].rows._replace(
            states=np.concatenate([own.rows.states for own in tables]),
            clock=np.concatenate(clocks),
            track=track,
            labels=labels if named else None,
            row=np.arange(starts[-1]),
            place=place,
            time=time,
        )


class _Kept(NamedTuple):
    """Those rows of a table that are in a window, and which table of a section it is."""

    rows: Observations
    section: Section
    number: int


# Which windows


class _Points(NamedTuple):
    """Places in the order of tracks and times: ranks of tracks (n,), all 0 where they do not matter, and times (n,)."""

    rank: Int
    clock: Float

    def below(self, cuts: _Points) -> Int:
        """For each of them how many of some cuts, in order, are not above it, (n,)."""
        rank, clock = np.concatenate([cuts.rank, self.rank]), np.concatenate([cuts.clock, self.clock])
        is_cut = np.arange(len(rank)) < len(cuts.rank)
        order = np.lexsort((~is_cut, clock, rank))
        number = np.empty(len(rank), dtype=np.intp)
        number[order] = np.cumsum(is_cut[order])
        return number[len(cuts.rank) :]


class _Pieces:
    """Pieces by what they told, their tracks by ranks: in order of appearance, as in one table of all rows.

    Parameters
    ----------
    own : sequence of Spread
    by_track : bool
        Whether windows are of tracks one after the other, or of times alone.
    """

    def __init__(self, own: Sequence[Spread], by_track: bool) -> None:
        self.own, self.by_track = own, by_track
        unique, first, inverse = np.unique(
            np.concatenate([spread.labels for spread in own]), return_index=True, return_inverse=True
        )
        appearance = np.argsort(first)
        self.labels = unique[appearance]
        rank = np.empty(len(unique), dtype=np.intp)
        rank[appearance] = np.arange(len(unique))
        n_tracks = np.array([len(spread.labels) for spread in own])
        self.piece = np.repeat(np.arange(len(own)), n_tracks)
        self.rank = rank[inverse.ravel()] * by_track
        starts = np.cumsum(n_tracks) - n_tracks
        if by_track:
            ends = (np.concatenate([getattr(spread, end) for spread in own]) for end in ("first", "last"))
        else:
            self.piece, self.rank = np.arange(len(own)), np.zeros(len(own), dtype=np.intp)
            ends = (
                np.array([end.reduce(getattr(spread, name)) for spread in own])
                for end, name in ((np.fmin, "first"), (np.fmax, "last"))
            )
        self.first, self.last = (_Points(self.rank, end) for end in ends)
        tracks = [spread.track + start for spread, start in zip(own, starts, strict=True)]
        self.samples = _Points(
            rank[inverse.ravel()][np.concatenate(tracks)] * by_track, np.concatenate([spread.clock for spread in own])
        )
        self.weight = np.concatenate([spread.weight for spread in own])

    def cuts(self, size: int) -> _Points:
        """Where windows of about so many rows begin, but for the first."""
        order = np.lexsort((self.samples.clock, self.samples.rank))
        total = np.cumsum(self.weight[order])
        n_windows = -(-int(total[-1]) // size) if len(total) else 0
        shares = np.arange(1, n_windows) / max(n_windows, 1)
        chosen = order[np.unique(np.searchsorted(total, total[-1:] * shares))]
        return _Points(self.samples.rank[chosen], self.samples.clock[chosen])

    def needed(self, cuts: _Points) -> tuple[Int, Int] | None:
        """Numbers of windows and of pieces that may hold some of their rows, (n,) each; None if they are very many."""
        low, high = self.first.below(cuts), self.last.below(cuts)
        n = high - low + 1
        if n.sum() > MOST_PAIRS:
            return None
        window = np.repeat(low - np.cumsum(n) + n, n) + np.arange(n.sum())
        pairs = np.unique(window * len(self.own) + np.repeat(self.piece, n))
        return np.divmod(pairs, len(self.own))

    def windows(self, cuts: _Points) -> list[Window]:
        """The windows between some cuts."""
        lows, highs = np.append(-np.inf, cuts.clock), np.append(cuts.clock, np.inf)
        if not self.by_track:
            return [Window(None, *own) for own in zip(lows.tolist(), highs.tolist(), strict=True)]
        firsts, lasts = np.append(0, cuts.rank), np.append(cuts.rank, len(self.labels) - 1)
        return [
            Window(self.labels[first : last + 1], low, high)
            for first, last, low, high in zip(firsts, lasts, lows.tolist(), highs.tolist(), strict=True)
        ]


def _cheapest(spreads: Sequence[Spread], reading: Reading) -> list[tuple[Window, list[int]]]:
    """Windows and the numbers of the pieces they need, such that few rows are read; raise if these are far too many."""
    sizes = np.array([own.n_rows for own in spreads])
    best, fewest = None, np.inf
    for by_track in (True, False):
        pieces = _Pieces(spreads, by_track)
        for size in WINDOW_ROWS:
            cuts = pieces.cuts(size)
            needed = pieces.needed(cuts)
            reads = np.inf if needed is None else float(sizes[needed[1]].sum() / sizes.sum())
            if needed is not None and reads < 0.9 * fewest:  # small windows, and whole tracks, unless others cost less
                best, fewest = (pieces, cuts, needed), reads
    if best is None or fewest > MOST_READS:
        raise _needs_sorting(reading, int(sizes.sum()), fewest)
    pieces, cuts, (window, piece) = best
    windows = pieces.windows(cuts)
    held = np.split(piece, np.searchsorted(window, np.arange(1, len(windows))))
    return [(own, numbers.tolist()) for own, numbers in zip(windows, held, strict=True) if len(numbers)]


def _needs_sorting(reading: Reading, n_rows: int, reads: float) -> InputError:
    """The error for rows in such an order that it costs too much to read them."""
    how = f'{reading.section.dask_frame}.sort_values({reading.layout.time!r}).to_parquet("sorted")'
    return InputError(
        "{name}: the {n:,} rows are so far from the order of their times that each pass would read them {reads} times; "
        "sort them once, as with {how}, and read the result",
        name=reading.section.sources[0] or reading.name,
        n=n_rows,
        reads="far too many" if np.isinf(reads) else f"{reads:.0f}",
        how=how,
    )
