"""Files: arrays and JSON in one `.npz`, written whole or not at all, read without executing anything."""

from __future__ import annotations

import json
import os
import secrets
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from itofit._checks import ModelFileError

FORMAT = 8
"""Version of the file format; a reader refuses files of any other."""

_METADATA = "metadata"
_CORRUPT = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    MemoryError,
)
"""What reading a damaged file raises; the last two for encrypted members or deep nesting, and for absurd shapes."""


def write(path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata to exactly this path, replacing what was there only once everything is written."""
    text = json.dumps({"format": FORMAT, "program": "itofit", **metadata})
    with whole_file(path) as file:
        np.savez(file, **{_METADATA: np.array(text)}, **arrays)  # type: ignore[arg-type]


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file, replacing what was there only once everything is written."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of what is at a path when all went well and vanishes otherwise."""
    target = checked_target(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Where a file will be written, links followed; an error if it cannot be."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory; give the path of a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {target}: it is a device or the like, which a file would replace")
    return target


def read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Arrays and metadata of a file written by `write`; a ModelFileError says what is wrong with any other."""
    with open(path, "rb") as opened:
        if not zipfile.is_zipfile(opened):
            raise ModelFileError(f"{path} is not a readable itofit file: it is truncated, corrupt or of another kind")
        opened.seek(0)
        try:
            return _read_open(path, opened)
        except ModelFileError:
            raise
        except _CORRUPT as error:
            raise ModelFileError(f"{path} is not a readable itofit file: it is corrupt ({error})") from error


def _read_open(path: str | os.PathLike[str], opened: BinaryIO) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    file = np.load(opened, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile) or _METADATA not in file.files:
        raise ModelFileError(f"{path} was not written by itofit: it holds no metadata")
    metadata = json.loads(str(file[_METADATA]))
    if not isinstance(metadata, dict) or metadata.get("program") != "itofit":
        raise ModelFileError(f"{path} was not written by itofit")
    version = metadata.get("format")
    if version != FORMAT:
        later = isinstance(version, int) and version > FORMAT
        advice = "upgrade itofit" if later else "it was written before any release; make it again"
        raise ModelFileError(f"{path} has file format {version}, this version of itofit reads {FORMAT}; {advice}")
    arrays = {name: file[name] for name in file.files if name != _METADATA}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ModelFileError(f"{path} is not a readable itofit file: it is corrupt (a member is not an array)")
    return arrays, metadata
