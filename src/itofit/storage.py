"""Files: arrays and JSON in one `.npz`, written whole or not at all, read without executing anything."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from itofit._checks import ModelFileError

FORMAT = 1
"""Version of the file format; a reader refuses files of a later one."""

_METADATA = "metadata"


def write(path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata to exactly this path, replacing what was there only once everything is written."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, "program": "itofit", **metadata})
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **{_METADATA: np.array(text)}, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Arrays and metadata of a file written by `write`; a ModelFileError says what is wrong with any other."""
    with open(path, "rb") as opened:
        if not zipfile.is_zipfile(opened):
            raise ModelFileError(f"{path} is not a readable itofit file: it is truncated, corrupt or of another kind")
    try:
        with np.load(path, allow_pickle=False) as file:
            if _METADATA not in file.files:
                raise ModelFileError(f"{path} was not written by itofit: it holds no metadata")
            metadata = json.loads(str(file[_METADATA]))
            if not isinstance(metadata, dict) or metadata.get("program") != "itofit":
                raise ModelFileError(f"{path} was not written by itofit")
            found = metadata.get("format")
            if not isinstance(found, int) or found > FORMAT:
                raise ModelFileError(
                    f"{path} has file format {found}, this version of itofit reads up to {FORMAT}; upgrade itofit"
                )
            arrays = {name: file[name] for name in file.files if name != _METADATA}
    except ModelFileError:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ModelFileError(f"{path} is not a readable itofit file: it is truncated or corrupt ({error})") from error
    return arrays, metadata


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
