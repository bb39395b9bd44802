"""Files: arrays and JSON in one `.npz`, written whole or not at all, read without executing anything."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from itofit._checks import InputError, ModelFileError, check_regular, path_of, printable, shown
from itofit.model.archives import Archive

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT, WITHOUT_PLACES = 9, 8
"""Version of the file format, and the one before, without places at which data were; others are refused."""

METADATA, METADATA_BYTES = "metadata", 16_000_000
"""The member of an archive that holds JSON, and how large that may be."""
LONGEST_NAME = 200
"""Bytes of a name that are part of the name of the temporary file beside it; file systems allow 255 in all."""
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
"""A file without any of these is meant to stay as it is, also for who may do everything."""
OLD_SECONDS, VERY_OLD_SECONDS = 60, 86_400
"""Age of a temporary file that nobody writes any more, and where it cannot be known whether somebody does."""


# Writing


def write(path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata to exactly this path, replacing what was there only once everything is written."""
    write_whole(path, archive(arrays, metadata))


def archive(arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> bytes:
    """The content of a file of arrays and metadata."""
    text = json.dumps({"format": FORMAT, "program": "itofit", **metadata})
    content = io.BytesIO()
    np.savez(content, **{METADATA: np.array(text)}, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file, replacing what was there only once everything is written."""
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # bytes of file names that are not UTF-8
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of what is at a path when all went well and vanishes otherwise.

    It has the permissions of the file that it replaces. What writers that were killed have left is removed.
    """
    target = checked_target(path)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    beginning = _beginning(target)
    _remove_old(target.parent, beginning)
    partial = target.with_name(f"{beginning}{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb", opener=_with_mode(0o666 if mode is None else mode)) as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            partial.chmod(mode)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _with_mode(mode: int) -> Callable[[str, int], int]:
    """How to open a new file with permissions, less those that the user's mask takes away."""
    return lambda name, flags: os.open(name, flags, mode)


def _beginning(target: Path) -> str:
    """How the names of temporary files for a file begin."""
    return f".{os.fsdecode(os.fsencode(target.name)[:LONGEST_NAME])}."


def _remove_old(directory: Path, beginning: str) -> None:
    """Remove temporary files that nobody writes any more; what cannot be removed stays."""
    name = re.compile(re.escape(beginning) + r"[0-9a-f]{8}\.partial")
    with suppress(OSError):
        for entry in os.scandir(directory):
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                    if age > VERY_OLD_SECONDS or (age > OLD_SECONDS and _nobody_writes(entry.path)):
                        os.unlink(entry.path)


def _lock(file: BinaryIO) -> None:
    """Hold a file while it is written, where the system can do that."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _nobody_writes(path: str) -> bool:
    """Whether no writer holds a file."""
    if fcntl is None:
        return False
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


PAGES = (".html", ".htm")
"""Ends of the names of pages."""


def check_ending(who: str, path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise if the name of a file says that it is of another kind than these; a name may also have no end."""
    if path.suffix and path.suffix.lower() not in suffixes:
        expected = " or ".join(suffixes)
        raise InputError(f"{who} writes a {expected} file, got {path.name}: give a name that ends in {expected}")


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Where a file will be written, links followed; an error if it cannot be."""
    target = Path(os.path.realpath(path_of(path)))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory; give the path of a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {target}: it is a device or the like, which a file would replace")
    if target.exists() and not (target.stat().st_mode & WRITABLE and os.access(target, os.W_OK)):
        raise PermissionError(f"cannot write {target}: the file must not be written to; change its permissions first")
    return target


# Reading

Wanted = Callable[[dict[str, Any]], set[str]]
"""Names of the arrays that metadata ask for."""


def read(
    source: str | os.PathLike[str] | bytes, wanted: Wanted | None = None
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Arrays and metadata of a file written by `write`; a ModelFileError says what is wrong with any other.

    Parameters
    ----------
    source : path or bytes
        A file, or the content of one.
    wanted : callable, optional
        Which arrays are read, given the metadata. Others, which another version may have added, are not looked at.
    """
    if isinstance(source, bytes):
        return _read_open("the model", io.BytesIO(source), len(source), wanted)
    if not Path(path_of(source)).exists():
        raise _missing(Path(source))
    check_regular(source)
    with open(source, "rb") as opened:
        return _read_open(os.fspath(source), opened, os.fstat(opened.fileno()).st_size, wanted)


def _missing(file: Path) -> FileNotFoundError:
    """The error for a file that is not there, which suggests one beside it."""
    beside = [entry.name for entry in file.parent.iterdir()] if file.parent.is_dir() else []
    near = get_close_matches(file.name, beside, n=1, cutoff=0.7)
    hint = f" (is it {near[0]} that you mean?)" if near else "; itofit.fit(data).save(path) writes one"
    return FileNotFoundError(printable(f"there is no file {file}{hint}"))


def _read_open(
    name: str, opened: BinaryIO, n_bytes: int, wanted: Wanted | None
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    if not zipfile.is_zipfile(opened):
        raise ModelFileError(f"{name} is not a readable itofit file: it is truncated, corrupt or of another kind")
    opened.seek(0)
    try:
        file = Archive(opened, n_bytes)
        metadata = _metadata(name, file)
        others = set(file.names) - {METADATA}
        arrays = {each: file.read(each) for each in sorted(others if wanted is None else others & wanted(metadata))}
    except ModelFileError:
        raise
    except Exception as error:  # what packages raise that unpack damaged members is not listed anywhere
        raise ModelFileError(f"{name} is not a readable itofit file: it is corrupt ({error})") from error
    return arrays, metadata


def _metadata(name: str, file: Archive) -> dict[str, Any]:
    if METADATA not in file.names:
        raise ModelFileError(f"{name} was not written by itofit: it holds no metadata")
    metadata = json.loads(str(file.read(METADATA, METADATA_BYTES)))
    if not isinstance(metadata, dict) or metadata.get("program") != "itofit":
        raise ModelFileError(f"{name} was not written by itofit")
    version = metadata.get("format")
    if version not in (FORMAT, WITHOUT_PLACES):
        later = isinstance(version, int) and version > FORMAT
        advice = "upgrade itofit" if later else "it was written before any release; make it again"
        raise ModelFileError(
            f"{name} has file format {shown(version)}, this version of itofit reads {WITHOUT_PLACES} and {FORMAT}; "
            f"{advice}"
        )
    return metadata


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether a file of arrays was written by itofit, this version or another."""
    try:
        check_regular(path)
        with open(path, "rb") as opened:
            file = Archive(opened, os.fstat(opened.fileno()).st_size)
            metadata = json.loads(str(file.read(METADATA, METADATA_BYTES)))
    except Exception:  # whatever it is, it is not ours
        return False
    return isinstance(metadata, dict) and metadata.get("program") == "itofit"
