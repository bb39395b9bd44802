"""Arguments and options that commands share, and checks of them before any work."""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import itofit
from itofit._checks import InputError
from itofit.looking.plot.canvas import drawn
from itofit.model.storage import PAGES, check_ending, checked_target, is_ours, read, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Files = Annotated[
    list[str],
    typer.Argument(
        help="Data: a .csv, .tsv, .txt, .jsonl (also .gz), .parquet, .feather, .arrow, .xlsx, .npy or .npz file; or "
        "several files of one kind, a directory or a pattern of them, also by an address such as s3://bucket/tracks.",
        metavar="FILE...",
    ),
]
Model = Annotated[Path, typer.Argument(help="A model that itofit saved.", metavar="MODEL")]
Decimal = Annotated[str, typer.Option(help="What decimals begin with in texts: a point or a comma.")]
Json = Annotated[bool, typer.Option("--json", help="Print for machines.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Svg = Annotated[bool, typer.Option("--svg", help="Pictures of the page as SVG, sharp at any size, instead of PNG.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files also if itofit did not write them.")]

MODELS, TABLES = (".npz",), (".csv", ".parquet")
"""Ends of the names of files that commands write."""
PICTURE_MARKS = {
    ".png": b"Software\0itofit ",
    ".svg": b"<dc:title>itofit ",
    ".pdf": b"/Creator (itofit ",
}
MARKS = PICTURE_MARKS | dict.fromkeys(PAGES, b'<meta name="generator" content="itofit')
"""What the pictures and pages of itofit hold."""
MARKED_BYTES = 4096
"""Within how many of their first or last bytes they do."""


def equation_in(path: Path) -> itofit.LearnedSDE | itofit.Formula:
    """The model or the formula that a file holds."""
    return itofit.load_formula(path) if "formula" in read(path)[1] else itofit.load(path)


def model_in(path: Path) -> itofit.LearnedSDE:
    """The model that a file holds; an error if that is a formula."""
    sde = equation_in(path)
    if isinstance(sde, itofit.Formula):
        raise InputError(f"{path} holds a formula: this command takes the model that the formula was found for")
    return sde


def check_writable(option: str, path: Path, *needed: Path, suffixes: tuple[str, ...] = (), force: bool) -> None:
    """Raise if a file cannot be written, or would replace one that the command needs or that is the user's.

    Parameters
    ----------
    option : str
        What gave the path.
    path : Path
    *needed : Path
        Files that the command reads or writes besides.
    suffixes : tuple of str, optional
        Ends of the name that say what the file is; a name may also have none, but no other.
    force : bool
        Replace any file. False: only those that itofit wrote.
    """
    if suffixes:
        check_ending(option, path, suffixes)
    target = checked_target(path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, f"cannot write there: {os.strerror(errno.EACCES)}", str(path))
    for other in needed:
        if target == Path(os.path.realpath(other)):
            raise InputError(f"{option}: {path} is needed for something else; give another name")
    if not force and target.exists() and target.stat().st_size and not _is_own(target):
        raise InputError(f"{option}: {path} exists, and it is not known to come from itofit; add --force to replace it")


def _is_own(file: Path) -> bool:
    """Whether a file says that itofit wrote it; tables cannot."""
    mark = MARKS.get(file.suffix.lower())
    if mark is None:
        return is_ours(file)
    with file.open("rb") as opened:
        head = opened.read(MARKED_BYTES)
        opened.seek(max(0, file.stat().st_size - MARKED_BYTES))
        return mark in head or mark in opened.read()


def check_picture(option: str, path: Path, *needed: Path, force: bool) -> None:
    """Raise if a picture cannot be drawn into a file, or would replace one as in `check_writable`."""
    if path.suffix.lower() not in PICTURE_MARKS:
        raise InputError(f"{option} must end in {', '.join(PICTURE_MARKS)}, got {path.name}")
    check_writable(option, path, *needed, force=force)
    check_installed("matplotlib", "plot", option)


def write_picture(path: Path, figure: Figure, dpi: int) -> None:
    """Write a figure to a file, whole or not at all."""
    with writing(path):
        write_whole(path, drawn(figure, path.suffix[1:].lower(), dpi))


def check_installed(package: str, extra: str, purpose: str) -> None:
    """Raise if a package that a command needs is not installed."""
    if importlib.util.find_spec(package) is None:
        raise InputError(f'{purpose} needs {package}, which is not installed: pip install "itofit[{extra}]"')


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let errors of the operating system name the file that is written, and not the temporary one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not str(error.filename or ".partial").endswith(".partial"):
            raise
        raise OSError(error.errno, f"{os.strerror(error.errno)}; nothing was written", str(path)) from error
