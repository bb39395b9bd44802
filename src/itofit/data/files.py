"""Files of observations: CSV, Parquet and NPZ, read at once or, if they are large, in parts."""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path

import numpy as np

from itofit._checks import Either, InputError, Option, check_regular, count, message_of, positive
from itofit.data.blocked import FORMS, BlockedTransitions
from itofit.data.covariates import warn_of_unknown
from itofit.data.layout import (
    ColumnNames,
    Layout,
    MissingPackageError,
    Table,
    checked_layout,
    column_names,
    moves_in_table,
)
from itofit.data.names import Form
from itofit.data.periods import Periodic
from itofit.data.readers import ArrayParts, Csv, Npz, Parquet, Reader
from itofit.data.rows import PASS_ROWS
from itofit.data.step_limits import StepLimits, none_within_limits, step_limits
from itofit.data.trajectories import OpenTracks, complete, moves_in, warn_of_left_out
from itofit.data.transitions import Transitions

__all__ = ["CHUNK_ROWS", "LARGE_FILE", "read_transitions"]

LARGE_FILE = 200_000_000
"""Bytes of data above which a file is read in parts: on disk for CSV, five times that if it is compressed with gzip;
uncompressed, as the file itself says, for Parquet and NPZ."""
CHUNK_ROWS = PASS_ROWS
"""Default number of rows of a part."""
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".npz")
TIMES, TRACKS = ("time", "Time", "TIME", "t"), ("track", "Track", "TRACK")
"""Default names of the columns of times and tracks."""


def read_transitions(
    path: str | os.PathLike[str],
    *,
    time: Hashable | None = None,
    state: ColumnNames | None = None,
    track: ColumnNames | None = None,
    dt: float | None = None,
    velocity: ColumnNames | None = None,
    unit: str | None = None,
    min_h: float | None = None,
    max_h: float | None = None,
    chunk_rows: int | None = None,
    covariates: ColumnNames | None = None,
    periodic: Periodic | None = None,
    second_order: bool = False,
) -> Transitions | BlockedTransitions:
    r"""Transitions from a file with a row for each observation, or from arrays in an NPZ file.

    A file of up to 200 MB is read at once, as by `Transitions.from_dataframe`. A larger one (`LARGE_FILE`) is read in
    parts, again in each pass of `fit`, with memory for one part and for the last row of every track: the result is
    what `Transitions.from_blocks` gives. Tracks may go on from part to part, and rows of different tracks may
    alternate, but within each track times must increase; an error says so if they do not.

    Parameters
    ----------
    path : str or path
        A file with a header line (.csv with commas, semicolons or tabs, .tsv; both also with .gz), .parquet, or .npz.
        In an NPZ file arrays are columns, and those with two axes several of them. If it has arrays called x0 and x1,
        or x0, v0, x1 and v1, or inputs and increments, and h, these are transitions themselves, with or without
        groups and covariates, and nothing else needs to be said.
    time : name, optional
        Column of times: numbers, or dates as in 2024-01-31 12:00. Without `time` and `dt`, one called time or t.
    state : name or list of names, optional
        Columns of the variables that move. Default: all that hold numbers and are not mentioned otherwise.
    track : name or list of names, optional
        Columns that tell tracks from each other. Default: one called track, if there is one. In CSV files they are
        read as text.
    dt : float, optional
        Time between a row and the next one of its track, instead of `time`.
    velocity : name or list of names, optional
        Columns of velocities, one for each of `state`, of an underdamped system.
    unit : {"ns", "us", "ms", "s", "min", "h", "D", "W"}, optional
        Unit of h, if times are dates.
    min_h, max_h : float, optional
        Moves that took less or more time, but for rounding (a millionth), are left out: those over long breaks, say.
    chunk_rows : int, optional
        Read in parts of so many rows, however large the file is.
    covariates : name or list of names, optional
        Columns of inputs from outside, which do not move; the column of times may be one. Moves that start where one
        is missing are left out, with a warning. In an NPZ file of transitions, what its covariates are called.
    periodic : dict, optional
        Variables that are periodic, as in `Transitions`, by the names of the columns.
    second_order : bool
        `state` are positions of a second-order system without its velocities, as in `Transitions.from_positions`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from itofit.files import read_transitions
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "cells.csv")
    ...     _ = path.write_text("track,time,x,y\na,0,1,2\na,0.5,3,2\nb,0,5,5\nb,0.5,,4\n")
    ...     read_transitions(path)
    Transitions(1 transition, 2 inputs, 2 outputs, h = 0.5, 1 group, kind = diffusion)
    """
    file = _existing(path)
    if chunk_rows is not None:
        count("chunk_rows", chunk_rows)
    limits = step_limits(min_h, max_h)
    reader = _reader(file)
    with errors_naming(file):
        in_parts = chunk_rows is not None or reader.size() > LARGE_FILE
        n_rows = (chunk_rows or CHUNK_ROWS) if in_parts else None
        if isinstance(reader, Npz) and state is None and time is None and (form := reader.form()):
            if second_order:
                raise InputError(
                    "the arrays are transitions, which do not say what follows what: {option} needs columns of times "
                    "and positions",
                    option=Option("second_order", True),
                )
            return _from_arrays(reader, form, dt, limits, n_rows, covariates, periodic)
        layout = _layout_of(reader, time, state, track, dt, velocity, unit, covariates, periodic, second_order)
        if n_rows is None:
            return Transitions._from_moves(layout, moves_in_table(layout, next(reader.parts(layout, None)), limits))
        return Transitions.from_blocks(FileParts(reader, layout, limits, n_rows))


class FileParts:
    """A file of observations as blocks of transitions, from the start each time it is called.

    Parameters
    ----------
    reader : Reader
    layout : Layout
        Which columns hold what.
    limits : StepLimits
        The shortest and the longest time of a move.
    n_rows : int
        Rows of a part.
    """

    def __init__(self, reader: Reader, layout: Layout, limits: StepLimits, n_rows: int) -> None:
        self.reader, self.layout, self.limits, self.n_rows = reader, layout, limits, n_rows
        self.warned = False

    def __call__(self) -> Iterator[Transitions]:
        """One pass over the file."""
        tracks, origin, n_untracked, n_moves, n_unknown = OpenTracks(), None, 0, 0, 0
        shortest, longest = np.inf, 0.0
        with errors_naming(self.reader.path):
            for table in self.reader.parts(self.layout, self.n_rows):
                observations, origin, n = self.layout.observations(table, origin)
                n_untracked += n
                if not len(observations.track):
                    continue
                moves = moves_in(tracks.joined(observations), self.layout.dt, sort=False)
                if not len(moves.h):
                    continue
                shortest, longest = min(shortest, moves.h.min()), max(longest, moves.h.max())
                kept = self.limits.allow(moves.h)
                n_moves += int(kept.sum())
                known = complete(moves.start)  # but for covariates all are
                n_unknown, kept = n_unknown + int((kept & ~known).sum()), kept & known
                if kept.any():
                    yield Transitions._from_moves(self.layout, moves if kept.all() else moves.take(kept))
            if longest and not n_moves:
                raise none_within_limits(shortest, longest)
        if not self.warned:
            self.warned = True
            warn_of_left_out(n_untracked, tracks.n_rows)
            warn_of_unknown(n_unknown, n_moves or 1)


def _from_arrays(
    reader: Npz,
    form: Form,
    dt: float | None,
    limits: StepLimits,
    n_rows: int | None,
    covariates: ColumnNames | None,
    periodic: Periodic | None,
) -> Transitions | BlockedTransitions:
    """Transitions from an NPZ file whose arrays are transitions and not columns of observations."""
    drivers = None if covariates is None else [str(name) for name in column_names("covariates", covariates)]
    names = FORMS[form][1]
    stored = reader.headers()
    if "h" not in stored and dt is None:
        text = "there is no array h, the time each move took; give {dt} if it is the same for all"
        raise InputError(text, dt=Option("dt", keyword=True))
    if "h" in stored and dt is not None:
        raise InputError("h was given twice, in the file and as {dt}", dt=Option("dt", keyword=True))
    blocks = ArrayParts(reader, tuple(name for name in names if name in stored), n_rows)
    if n_rows is not None:
        data = Transitions.from_blocks(blocks, form, h=dt, covariate_names=drivers, periodic=periodic)
        return data if limits == StepLimits() else Transitions.from_blocks(LimitedBlocks(data, limits))
    make = FORMS[form][0]
    duration = {} if dt is None else {"h": positive("dt", dt)}
    whole = make(**next(blocks()), **duration, covariate_names=drivers, periodic=periodic)
    kept = limits.allow(whole.h)
    if not kept.any():
        raise none_within_limits(whole.h.min(), whole.h.max())
    return whole if kept.all() else whole[kept]


class LimitedBlocks:
    """Blocks of the transitions that took an allowed time, from the start each time it is called."""

    def __init__(self, data: BlockedTransitions, limits: StepLimits) -> None:
        self.data, self.limits = data, limits

    def __call__(self) -> Iterator[Transitions]:
        """One pass over the data."""
        shortest, longest, n_kept = np.inf, 0.0, 0
        for block in self.data.blocks():
            shortest, longest = min(shortest, block.h.min()), max(longest, block.h.max())
            kept = self.limits.allow(block.h)
            n_kept += int(kept.sum())
            if kept.any():
                yield block[kept]
        if not n_kept:
            raise none_within_limits(shortest, longest)


def _layout_of(
    reader: Reader,
    time: Hashable | None,
    state: ColumnNames | None,
    track: ColumnNames | None,
    dt: float | None,
    velocity: ColumnNames | None,
    unit: str | None,
    covariates: ColumnNames | None,
    periodic: Periodic | None,
    second_order: bool,
) -> Layout:
    """Which columns of a file hold what: those the user names, else those that their names and first rows suggest."""
    head = reader.head()
    if not head.n_rows:
        raise InputError("holds names of columns and no rows")
    if time is None and dt is None:
        time = next((name for name in TIMES if name in head.columns), None)
        if time is None:
            contents = "the columns are " + head.column_list()
            if isinstance(reader, Npz):
                contents = f"the arrays are {head.column_list()}, and neither x0, x1 and h nor inputs, increments and h"
            raise InputError(
                "give {time}, the column of times, or {dt}, the time between rows; {contents}",
                time=Option("time", keyword=True),
                dt=Option("dt", keyword=True),
                contents=contents,
            )
    if track is None:
        track = next((name for name in TRACKS if name in head.columns), None)
    if state is None:
        used = {time, *TIMES}
        for argument, names in (("track", track), ("velocity", velocity), ("covariates", covariates)):
            used |= set() if names is None else set(column_names(argument, names))
        state = [name for name in head.columns if name not in used and _is_variable(head, name)]
        if not state:
            raise InputError(f"no column holds numbers that could be a state; the columns are {head.column_list()}")
    state = _all_columns(reader, "state", state)
    velocity = None if velocity is None else _all_columns(reader, "velocity", velocity)
    covariates = None if covariates is None else _all_columns(reader, "covariates", covariates)
    layout = checked_layout(state, time, track, dt, velocity, unit, covariates, periodic, second_order)
    for name, argument in layout.columns.items():
        _check_column(head, argument, name)
    roles = [("state", layout.state), ("velocity", layout.velocity), ("track", layout.track)]
    roles += [] if layout.time is None else [("time", (layout.time,))]
    for (one, names), (other, others) in combinations(roles, 2):
        if both := [name for name in names if name in others]:
            raise InputError(
                "the column {name!r} is named twice, as {one} and as {other}",
                name=both[0],
                one=Option(one, keyword=True),
                other=Option(other, keyword=True),
            )
    return layout


def _all_columns(reader: Reader, argument: str, names: ColumnNames) -> list[Hashable]:
    """The columns that some names stand for: in an NPZ file, one name may stand for several."""
    return [column for name in column_names(argument, names) for column in reader.columns_of(name)]


def _check_column(head: Table, argument: str, name: Hashable) -> None:
    """Raise unless there is a column of this name, and suggest the only one that begins with the same letter."""
    if name not in head.columns:
        word = str(name).strip().lower()
        similar = {str(column): str(column).strip().lower() for column in head.columns}
        near = get_close_matches(word, similar.values(), n=1)
        begins = [column for column, plain in similar.items() if plain and (plain[0] == word[:1])]
        if not near and len(begins) == 1 and 1 in (len(begins[0].strip()), len(word)):  # tme for t, v for velocity
            raise head.no_such_column(argument, name, f" (is it {begins[0]!r} that you mean?)")
    head.check(argument, name)


def _is_variable(head: Table, name: Hashable) -> bool:
    """Whether a column holds numbers and is not an index that pandas wrote."""
    return not str(name).startswith(("Unnamed: ", "__index_level_")) and head.holds_numbers(name)


@contextmanager
def errors_naming(file: Path) -> Iterator[None]:
    """Let errors name the file, and not what failed inside the packages that read it."""
    try:
        yield
    except MissingPackageError:
        raise
    except InputError as error:
        message = message_of(error)
        if message.startswith(f"{file}: "):
            raise InputError(message) from None
        raise InputError("{file}: {problem}", file=file, problem=message) from None
    except (ValueError, EOFError, OSError, csv.Error, zlib.error, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:  # it came from the operating system
            raise
        text = "holds nothing" if type(error).__name__ == "EmptyDataError" else f"cannot be read: {str(error).strip()}"
        if isinstance(error, UnicodeDecodeError):
            text = f"cannot be read: it is not text in UTF-8 ({error.reason}); save it as UTF-8"
        raise InputError(f"{file}: {text}") from error


def _existing(path: str | os.PathLike[str]) -> Path:
    """The path of a file; raise unless it exists."""
    if not isinstance(path, str | os.PathLike):
        text = "{path} must be the path of a file, got {got}"
        raise InputError(text, path=Option("path"), got=type(path).__name__)
    file = Path(path)
    if file.is_dir():
        inside = sorted(entry.name for entry in file.iterdir() if entry.name.lower().endswith(SUFFIXES))[:3]
        raise IsADirectoryError(f"{file} is a directory; give a file" + (f" in it, as {inside[0]}" if inside else ""))
    if not file.exists():
        entries = sorted(file.parent.iterdir()) if file.parent.is_dir() else []
        files = [entry.name for entry in entries if entry.is_file()]
        names = {_stem(name): name for name in files if name.lower().endswith(SUFFIXES)}
        near = get_close_matches(_stem(file.name), names, n=1, cutoff=0.7)
        hint = f" (is it {names[near[0]]} that you mean?)" if near else ""
        raise FileNotFoundError(f"there is no file {file}{hint}")
    check_regular(file)
    return file


def _stem(name: str) -> str:
    """The name of a file without its suffix."""
    return name.removesuffix(".gz").rpartition(".")[0] or name


def _reader(file: Path) -> Reader:
    """The reader for a file, by the end of its name."""
    name = file.name.lower()
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return Csv(file)
    if name.endswith((".parquet", ".pq")):
        return Parquet(file)
    if name.endswith(".npz"):
        return Npz(file)
    raise InputError(
        "{file} is of a kind that cannot be read: expected {suffixes}; {advice}",
        file=file,
        suffixes=", ".join(SUFFIXES),
        advice=Either(
            python="read others into a DataFrame for Transitions.from_dataframe", command="convert it to one of these"
        ),
    )
