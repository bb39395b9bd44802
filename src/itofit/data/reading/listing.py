"""Which files a path means: a file, a directory, a pattern or a list of these, on this machine or elsewhere.

Elsewhere is what fsspec knows by an address, as in s3://bucket/tracks. Names of directories such as cell=7 are columns
of the files in them, as Hive writes them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import unquote

from itofit._checks import InputError, Option, check_regular, shown
from itofit.data.frames.table_columns import MissingPackageError, optional
from itofit.data.reading.file_kinds import FIRST_IN_DIRECTORIES, THEN_IN_DIRECTORIES

T = TypeVar("T")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What a directory is called whose rows have no value in the column of its name."""


class RemoteFile:
    """A file that fsspec opens.

    Parameters
    ----------
    filesystem : fsspec.AbstractFileSystem
    path : str
        In the file system, without its protocol.
    """

    def __init__(self, filesystem: Any, path: str) -> None:  # noqa: ANN401
        self.filesystem, self.path = filesystem, path

    def __str__(self) -> str:
        return str(self.filesystem.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rstrip("/").rpartition("/")[2]

    def open(self, mode: str = "r", **options: Any) -> IO[Any]:  # noqa: ANN401
        """The opened file, as by `Path.open`."""
        opened: IO[Any] = self.filesystem.open(self.path, mode, **options)
        return opened


AnyFile = Path | RemoteFile


class Found(NamedTuple):
    """A file of several."""

    file: AnyFile
    size: int  # bytes
    keys: Mapping[str, str]  # columns that its directories are called after, and their values in it


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def is_one_file(path: object) -> bool:
    """Whether a path means one file of this machine, or what could be one, and no directory, pattern or address."""
    if not isinstance(path, str | os.PathLike):
        return False
    text = os.fspath(path)
    if not isinstance(text, str) or _is_address(text):
        return False
    return not Path(text).is_dir() and (Path(text).exists() or not glob.has_magic(text))


def found_files(paths: Paths, storage_options: Mapping[str, Any] | None = None) -> list[Found]:
    """All files that paths mean: those in directories and of patterns in natural order (2 before 10), lists as given.

    Where links lead to a file of a directory or a pattern on several ways, it is read once. Raise if there are none,
    or one of a list twice.
    """
    if storage_options is not None and not isinstance(storage_options, Mapping):
        text = "{option} must be a dict, as in {{'anon': True}}, got {got}"
        raise InputError(text, option=Option("storage_options"), got=shown(storage_options))
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[Found] = []
    for path in given:
        if not isinstance(path, str | os.PathLike):
            text = "{path} must be a path, or a list of paths, got {got}"
            raise InputError(text, path=Option("path"), got=f"{type(path).__name__} in a list")
        text = os.fspath(path)
        files += _elsewhere(text, storage_options or {}) if _is_address(text) else _here(text)
    if not files:
        raise InputError("{path} must name at least one file, got an empty list", path=Option("path"))
    seen: dict[str, object] = {}
    for found in files:
        name = os.path.realpath(found.file) if isinstance(found.file, Path) else str(found.file)
        if name in seen:
            other = "" if str(seen[name]) == str(found.file) else f", also as {seen[name]}"
            raise InputError("{path} names {file} twice{other}", path=Option("path"), file=found.file, other=other)
        seen[name] = found.file
    return files


def _is_address(path: str) -> bool:
    return "://" in path


def _here(path: str) -> list[Found]:
    """Files of this machine."""
    if Path(path).is_dir():
        files = _tables_of(list(_files_below(path)), partial(_parts_in, Path(path)))
        if not files:
            raise _nothing_in(path)
    elif Path(path).exists() or not glob.has_magic(path):
        if not Path(path).exists():
            raise FileNotFoundError(f"there is no file {path}")
        return [_local(Path(path))]
    else:
        matches = [Path(match) for match in glob.iglob(path, recursive=True)]
        files = [match for match in matches if match.is_file()]
        for folder in matches:
            if folder.is_dir():
                files += _tables_of(list(_files_below(folder)), partial(_parts_in, folder))
        if not files:
            raise FileNotFoundError(f"no file matches {path}")
    return [_local(file) for file in sorted(_without_links(files), key=lambda file: _natural(str(file)))]


def _files_below(top: str | Path) -> Iterator[Path]:
    """All files in a directory and below, also where links lead; every directory once, by its own name if it has one.

    So directories that link to each other, or to themselves, have an end.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [str(top)]
    while waiting:
        links: list[str] = []
        for start in waiting:
            for folder, inner, names in os.walk(start):
                state = os.stat(folder)
                if (state.st_dev, state.st_ino) in seen:
                    inner.clear()
                    continue
                seen.add((state.st_dev, state.st_ino))
                links += [link for name in inner if os.path.islink(link := os.path.join(folder, name))]
                yield from (Path(folder, name) for name in names)
        waiting = sorted(links)


def _without_links(files: Sequence[Path]) -> list[Path]:
    """Every file once: of several ways to it the one with the fewest links."""
    ways: dict[str, set[Path]] = {}
    for file in files:
        ways.setdefault(os.path.realpath(file), set()).add(file)

    def n_links(file: Path) -> tuple[int, object]:
        return sum(own.is_symlink() for own in (file, *file.parents)), _natural(str(file))

    return [next(iter(own)) if len(own) == 1 else min(own, key=n_links) for own in ways.values()]


def _parts_in(folder: Path, entry: Path) -> Sequence[str]:
    return entry.relative_to(folder).parts


def _local(file: Path) -> Found:
    """A file of this machine; raise unless it is one."""
    check_regular(file)
    return Found(file, file.stat().st_size, _keys(file.parts[:-1]))


def _elsewhere(address: str, options: Mapping[str, Any]) -> list[Found]:
    """Files that fsspec finds."""
    core = optional("fsspec.core", f"reading {address}")
    try:
        filesystem, path = core.url_to_fs(address, **options)
    except (ImportError, ValueError) as error:
        raise MissingPackageError("{address} cannot be opened: {error}", address=address, error=error) from None
    if glob.has_magic(path) and not filesystem.exists(path):
        matches = filesystem.glob(path, detail=True)
        if not matches:
            raise FileNotFoundError(f"no file matches {address}")
        entries = [entry for entry in matches.values() if entry["type"] == "file"]
        for entry in matches.values():
            if entry["type"] == "directory":
                entries += _tables_below(filesystem, entry["name"])
    elif filesystem.isdir(path):
        entries = _tables_below(filesystem, path)
        if not entries:
            raise _nothing_in(address)
    elif filesystem.exists(path):
        entries = [filesystem.info(path)]
    else:
        raise FileNotFoundError(f"there is no file {address}")
    unique = {str(entry["name"]): int(entry.get("size") or 0) for entry in entries}
    return [
        Found(RemoteFile(filesystem, name), unique[name], _keys(name.split("/")[:-1]))
        for name in sorted(unique, key=_natural)
    ]


def _tables_below(filesystem: Any, path: str) -> list[dict[str, Any]]:  # noqa: ANN401
    entries = list(filesystem.find(path, detail=True).values())
    inside = len(path.rstrip("/"))
    return _tables_of(entries, lambda entry: str(entry["name"])[inside:].strip("/").split("/"))


def _tables_of(entries: Sequence[T], parts: Callable[[T], Sequence[str]]) -> list[T]:
    """The tables in a directory, by the parts of their paths there: CSV and Parquet files, others if there are none.

    Files that are hidden, notes of a writer or locks of a program are none.
    """
    visible = [entry for entry in entries if not any(part.startswith((".", "_", "~$")) for part in parts(entry))]
    for ends in (FIRST_IN_DIRECTORIES, THEN_IN_DIRECTORIES):
        if found := [entry for entry in visible if parts(entry)[-1].lower().endswith(ends)]:
            return found
    return []


def _nothing_in(path: str) -> InputError:
    ends = ", ".join((*FIRST_IN_DIRECTORIES[:3], *THEN_IN_DIRECTORIES))
    return InputError(f"{path} holds no file that ends in {ends}; give others by a pattern such as '{path}/*.txt'")


def _natural(path: str) -> list[tuple[int, int | str]]:
    """By which paths are sorted: numbers in them by their values."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", path)]


def _keys(folders: Iterable[str]) -> dict[str, str]:
    """Columns and values from the names of directories, as in cell=7."""
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    return {unquote(name): unquote(value) for name, _, value in pairs if name}


def key_columns(files: Sequence[Found]) -> dict[str, list[Any]]:
    """By the name of a column that directories are called after, its value in each file.

    Values are whole numbers if all are, else numbers if all are, else texts; None where one is missing.
    """
    names = list(dict.fromkeys(name for found in files for name in found.keys))
    return {name: _typed([found.keys.get(name, NO_VALUE) for found in files]) for name in names}


def _typed(values: list[str]) -> list[Any]:
    for kind in (int, float):
        try:
            return [None if value == NO_VALUE else kind(value) for value in values]
        except ValueError:
            continue
    return [None if value == NO_VALUE else value for value in values]
