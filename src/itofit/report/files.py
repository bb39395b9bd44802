"""A page as a file."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Where a page will be written, links followed; an error before any work if it cannot be."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory; give the path of a file in it")
    return target


def write_whole(target: Path, text: str) -> None:
    """Write a file, replacing what was there only once everything is written."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
