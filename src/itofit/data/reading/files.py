"""Files of observations, read at once or, if they are large, in parts."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from itofit._checks import (
    Either,
    Float,
    InputError,
    Option,
    check_regular,
    count,
    flag,
    one_of,
    positive,
    shown,
)
from itofit.data.covariates import warn_of_unknown
from itofit.data.frames.file_rows import FILE_NAME
from itofit.data.frames.layout import (
    Clock,
    ColumnNames,
    Layout,
    Texts,
    column_names,
    moves_in_table,
)
from itofit.data.large.blocked import FORMS, BlockedTransitions
from itofit.data.large.parts import PartedTransitions
from itofit.data.names import Form
from itofit.data.periods import Periodic
from itofit.data.reading.csv_files import CsvFiles, row_reader
from itofit.data.reading.file_errors import errors_naming
from itofit.data.reading.file_kinds import KINDS, NPZ, SHOWN, SUFFIXES, kind_by_name
from itofit.data.reading.file_layout import (
    TIMES,
    TRACKS,
    check_for_arrays,
    layout_of,
    or_columns,
    warn_of_joined_files,
)
from itofit.data.reading.listing import Found, Paths, found_files, is_one_file
from itofit.data.reading.numpy_files import ArrayParts, Npz
from itofit.data.reading.parquet_files import ParquetFiles
from itofit.data.reading.readers import Csv, Reader, kind_of
from itofit.data.reading.track_plan import parted
from itofit.data.reading.wide_tables import WideFiles, WideReader, check_wide, wide_layout
from itofit.data.rows import PASS_ROWS
from itofit.data.step_limits import StepLimits, none_within_limits, step_limits
from itofit.data.trajectories import OpenTracks, complete, moves_in, warn_of_left_out
from itofit.data.transitions import Transitions
from itofit.data.with_units import GivenUnits, unit_of_dates

__all__ = ["CHUNK_ROWS", "LARGE_FILE", "read_transitions"]

LARGE_FILE = 200_000_000
"""Bytes of data above which a file is read in parts: on disk for texts, five times that if they are compressed;
uncompressed, as the file itself says, for Parquet and NPZ; a quarter of what an Excel file unpacks to."""
CHUNK_ROWS = PASS_ROWS
"""Default number of rows of a part."""
SECTION_ROWS = PASS_ROWS // 4
"""Default number of rows that are read together, at least: passes begin and end somewhere in such a section."""


def read_transitions(
    path: Paths,
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
    storage_options: Mapping[str, Any] | None = None,
    units: GivenUnits = None,
    time_unit: str | None = None,
    decimal: str = ".",
    dayfirst: bool = False,
    wide: bool = False,
    sheet: str | None = None,
) -> Transitions | BlockedTransitions | PartedTransitions:
    r"""Transitions from files with a row for each observation, or from arrays in NumPy's files.

    Up to 200 MB are read at once, as by `Transitions.from_dataframe`. More (`LARGE_FILE`) are read in parts, again in
    each pass of `fit`, with memory for a few parts and for the last rows of tracks. Several files are read as if they
    were one: tracks may go on from file to file, whatever the order of the files, and rows of different tracks may
    alternate. Rows of a file may be in any order; far from the order of their times they are read several times, and an
    error says how to sort them once if that is too often. Rows of a track must not overlap in time in two files, and in
    a large file of another kind than CSV and Parquet times must increase within each track.

    Parameters
    ----------
    path : str, path or list of these
        A text with a line of names (.csv with commas, semicolons or tabs, .tsv; .txt and .dat also with spaces), in
        which all but .csv may do without: columns are then called x1, x2, ...; a file of JSON lines (.jsonl, .ndjson);
        these also compressed (.gz, .bz2, .xz); .parquet; Feather or Arrow (.feather, .arrow, .ipc); a sheet of an Excel
        file (.xlsx, needs openpyxl); an array (.npy), one track (n, d) or several (n_tracks, n, d), with `dt`; or .npz.
        Or several files of one kind: a directory, with all CSV and Parquet files that are below it, or all others if
        there are none of these; a pattern such as ``tracks/*.parquet``; or a list. Names of directories like cell=7 are
        columns of the files in them, and "__filename" is one that holds the path of the file, for files that are a
        track each. A file to which links lead in several ways is read once. Files elsewhere have an address, such as
        "s3://bucket/tracks", for which fsspec and its driver must be installed.
        In an NPZ file arrays are columns, and those with two axes several of them. If it has arrays called x0 and x1,
        or x0, v0, x1 and v1, or inputs and increments, and h, these are transitions themselves, with or without
        groups and covariates, and nothing else needs to be said. Without h, with `dt`, they are transitions as well,
        unless there is an array of times or tracks or `state` or `time` is given.
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
        Columns of inputs from outside, which do not move; the column of times may be one, in which dates are counted
        from the beginning of 1970 in units of `unit`. Moves that start where one is missing are left out, with a
        warning. In an NPZ file of transitions, what its covariates are called.
    periodic : dict, optional
        Variables that are periodic, as in `Transitions`, by the names of the columns.
    second_order : bool
        `state` are positions of a second-order system without its velocities, as in `Transitions.from_positions`.
    storage_options : dict, optional
        For files elsewhere: what their fsspec file system is told, such as credentials.
    units, time_unit : dict and str, optional
        Units of the variables and of time, as in ``{"x": "µm"}`` and "s", for labels, tables and answers; see
        `Transitions.with_units`. Dates have that of `unit`.
    decimal : {".", ","}
        What stands before the decimals of numbers that are texts.
    dayfirst : bool
        Whether dates that are texts begin with the day, as 31.1.2024 or 31/01/2024 12:00.
    wide : bool
        Whether every column of `state`, by default all that hold numbers, is a track of one variable. This is then
        called x, and the tracks are called as the columns.
    sheet : str, optional
        Which sheet of an Excel file is read. Default: the first.

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
    if chunk_rows is not None:
        count("chunk_rows", chunk_rows)
    limits, time_unit = step_limits(min_h, max_h), unit_of_dates(unit, time_unit)
    texts = Texts(one_of("decimal", decimal, (".", ",")), flag("dayfirst", dayfirst))
    if flag("wide", wide):
        check_wide(track, velocity)
    given = {"state": state, "velocity": velocity, "track": track, "covariates": covariates}
    columns = {argument: None if names is None else column_names(argument, names) for argument, names in given.items()}
    named = {name for names in columns.values() for name in names or ()}
    reader = _reader_of(path, storage_options, columns["track"] or TRACKS, sheet, named)
    with errors_naming(reader.path):
        in_parts = chunk_rows is not None or reader.size() > LARGE_FILE
        n_rows = (chunk_rows or CHUNK_ROWS) if in_parts else None
        if (
            isinstance(reader, Npz)
            and (state is None and time is None and not wide)
            and (form := reader.form(of_columns=(*TIMES, *TRACKS)))
        ):
            check_for_arrays(
                form,
                track=track,
                velocity=velocity,
                unit=unit,
                decimal=None if decimal == "." else decimal,
                dayfirst=dayfirst or None,
                second_order=second_order or None,
            )
            data: Transitions | BlockedTransitions | PartedTransitions = _from_arrays(
                reader, form, dt, limits, n_rows, covariates, periodic
            )
        else:
            if n_rows is not None and isinstance(reader, Csv):
                reader = CsvFiles([Found(reader.path, Path(path).stat().st_size, {})], path)  # type: ignore[arg-type]
            roles = (
                columns["state"],
                columns["velocity"],
                columns["track"],
                columns["covariates"],
                Clock(time, dt, unit),
            )
            if wide:
                inner = layout_of(reader, *roles, texts=texts, wide=True)
                reader = (WideFiles if isinstance(reader, ParquetFiles | CsvFiles) else WideReader)(reader, inner)
                layout = wide_layout(inner, periodic, second_order)
            else:
                layout = layout_of(reader, *roles, texts=texts, periodic=periodic, second_order=second_order)
                warn_of_joined_files(reader, layout)
            data = _from_rows(reader, layout, limits, n_rows, chunk_rows or SECTION_ROWS)
        return data.with_units(units, time_unit)


def _from_rows(
    reader: Reader, layout: Layout, limits: StepLimits, n_rows: int | None, section_rows: int
) -> Transitions | BlockedTransitions | PartedTransitions:
    """Transitions from files with a row for each observation: at once, or in parts of so many rows."""
    if n_rows is None:
        moves = moves_in_table(layout, next(reader.parts(layout, None)), limits)
        return Transitions._from_moves(layout, moves)
    if isinstance(reader, ParquetFiles | CsvFiles | WideFiles):
        return parted(reader.sections(layout, section_rows), layout, limits)
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
        shortest, longest, kinds = np.inf, 0.0, set[str]()
        with errors_naming(self.reader.path):
            for table in self.reader.parts(self.layout, self.n_rows):
                observations, origin, n = self.layout.observations(table, origin)
                n_untracked += n
                if not len(observations.track):
                    continue
                if observations.labels is not None:
                    kinds.add(observations.labels.dtype.kind)
                if len(kinds) > 1:
                    text = "{track}: some rows have whole numbers and others do not; convert all of them to text"
                    raise InputError(text, track=Option("track"))
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
        raise InputError(
            "there is no array h, the time each move took; give {dt} if it is the same for all{or_columns}",
            dt=Option("dt", keyword=True),
            or_columns=or_columns(form),
        )
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


def read_columns(path: Path, names: Sequence[str], decimal: str = ".") -> Float:
    """Some columns of numbers of a file on this machine, (n, k)."""
    texts = Texts(one_of("decimal", decimal, (".", ",")))
    reader = _reader(_existing(path), (), None)
    with errors_naming(reader.path):
        layout = Layout(tuple(names), (), None, (), 1.0, None, texts=texts)
        head = reader.head()
        for name in names:
            head.check("columns", name)
        parts = [[part.numbers(name, decimal) for name in names] for part in reader.parts(layout, None)]
        return np.concatenate([np.column_stack(part) for part in parts])


def _reader_of(
    path: Paths,
    storage_options: Mapping[str, Any] | None,
    labels: Sequence[Hashable],
    sheet: str | None,
    named: Set[Hashable],
) -> Reader:
    """What reads the files that a path means, given columns that may hold tracks, and all that the user names."""
    if not isinstance(path, str | os.PathLike) and not (isinstance(path, Sequence) and not isinstance(path, bytes)):
        text = "{path} must be the path of a file or a directory, a pattern, or a list of paths, got {got}{advice}"
        made_by = "from_dask" if hasattr(path, "__dask_graph__") else "from_dataframe"
        advice = f"; data frames go to itofit.Transitions.{made_by}" if hasattr(path, "columns") else ""
        raise InputError(text, path=Option("path"), got=type(path).__name__, advice=advice)
    if sheet is not None and not isinstance(sheet, str):
        raise InputError("{sheet} must be the name of a sheet, got {got}", sheet=Option("sheet"), got=shown(sheet))
    if is_one_file(path):
        return _reader(_existing(Path(os.fspath(path))), labels, sheet, named)  # type: ignore[arg-type]
    files = found_files(path, storage_options)
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else f"{files[0].file}, ..."
    return _reader_of_many(files, str(files[0].file) if len(files) == 1 else name, labels, sheet)


def _reader_of_many(files: list[Found], called: str, labels: Sequence[Hashable], sheet: str | None) -> Reader:
    """The reader for several files of one kind."""
    first: dict[str, Found] = {}
    for found in files:
        kind = kind_by_name(found.file.name)
        if kind is None:
            if not found.file.name.lower().endswith(NPZ):
                raise _no_kind(found.file)
            raise InputError(f"{found.file} is read alone and from this machine: .npz files may hold different arrays")
        first.setdefault(kind, found)
        _check_sheet(kind, sheet, found.file)
    if len(first) > 1:
        (one, a), (other, b) = [(kind, first[kind]) for kind in KINDS if kind in first][:2]
        raise InputError(
            f"{called}: there are {one} and {other} files, as {a.file} and {b.file}; give a pattern such as "
            f"'tracks/*{KINDS[other][0]}'"
        )
    return ParquetFiles(files, called, labels) if "Parquet" in first else CsvFiles(files, called, sheet)


def _check_sheet(kind: str | None, sheet: str | None, file: object) -> None:
    if sheet is not None and kind != "Excel":
        raise InputError("{sheet} is for Excel files, and {file} is none", sheet=Option("sheet"), file=file)


def _existing(file: Path) -> Path:
    """The path of a file; raise unless it exists."""
    if not file.exists():
        entries = sorted(file.parent.iterdir()) if file.parent.is_dir() else []
        files = [entry for entry in entries if entry.is_file() and entry.name.lower().endswith(SUFFIXES)]
        names = {kind_of(entry).rpartition(".")[0]: entry.name for entry in files}
        near = get_close_matches(kind_of(file).rpartition(".")[0] or file.name.lower(), names, n=1, cutoff=0.7)
        hint = f" (is it {names[near[0]]} that you mean?)" if near else ""
        raise FileNotFoundError(f"there is no file {file}{hint}")
    check_regular(file)
    return file


def _reader(file: Path, labels: Sequence[Hashable], sheet: str | None, named: Set[Hashable] = frozenset()) -> Reader:
    """The reader for a file, by the end of its name; `named` are columns that may be in its path alone."""
    kind = kind_by_name(file.name)
    _check_sheet(kind, sheet, file)
    if file.name.lower().endswith(NPZ):
        return Npz(file, FILE_NAME in named)
    if kind is not None:
        (found,) = found_files(file)
        keys = {name: value for name, value in found.keys.items() if name in named}
        if kind == "Parquet":
            return ParquetFiles([found._replace(keys=keys)], file, labels)
        if keys or FILE_NAME in named:
            return CsvFiles([found._replace(keys=keys)], file, sheet)
        return row_reader(file, sheet)
    raise _no_kind(file)


def _no_kind(file: object) -> InputError:
    return InputError(
        "{file} is of a kind that cannot be read: expected {suffixes}; {advice}",
        file=file,
        suffixes=SHOWN,
        advice=Either(
            python="read others into a DataFrame for Transitions.from_dataframe", command="convert it to one of these"
        ),
    )
