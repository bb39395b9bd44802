"""What the commands share: the program, where it prints, and how it tells a user's mistake."""

from __future__ import annotations

import functools
import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console

from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
from itofit._version import __version__
from itofit.cli.words import spoken

P = ParamSpec("P")
T = TypeVar("T")

app = typer.Typer(
    name="itofit",
    help="Learn stochastic differential equations from data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

MISTAKE = 2
"""Exit code of a command that could not be carried out as it was given."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
PIPE_CLOSED = 141
"""Exit code if what reads the output has left, as shells have it."""


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"itofit {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Learn stochastic differential equations from data."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # Greek letters where the terminal knows none are no failure
            stream.reconfigure(errors="replace")


def explained(command: Callable[P, T]) -> Callable[P, T]:
    """A command whose mistakes are told in a line, without a traceback, and whose warnings are notes."""

    @functools.wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings(record=True) as caught:
            for kind in (ConvergenceWarning, DataWarning, ExtrapolationWarning):
                warnings.simplefilter("always", kind)
            try:
                result = command(*args, **kwargs)
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes at its end, and would fail again
                raise typer.Exit(PIPE_CLOSED) from None
            except KeyboardInterrupt:
                errors.print(f"itofit {command.__name__}: interrupted")
                raise typer.Exit(INTERRUPTED) from None
            except (InputError, ModelFileError, OSError) as error:  # which may be about something else than notes
                errors.print(f"itofit {command.__name__}: {spoken(_message(error))}", markup=False, soft_wrap=True)
                raise typer.Exit(MISTAKE) from error
            except typer.Exit:
                _print_notes(caught)
                raise
            _print_notes(caught)
            return result

    return told


def _print_notes(caught: list[warnings.WarningMessage]) -> None:
    for text in dict.fromkeys(str(one.message) for one in caught):
        errors.print(f"note: {spoken(text)}", markup=False, soft_wrap=True)


def _message(error: Exception) -> str:
    """What an error says; of those of the operating system, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)
