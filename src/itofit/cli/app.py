"""What the commands share: the program, where it prints, and how it tells a user's mistake."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.console import Console

from itofit._checks import ConvergenceWarning, DataWarning, ExtrapolationWarning, InputError, ModelFileError
from itofit._version import __version__

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


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"itofit {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Learn stochastic differential equations from data."""


def explained(command: Callable[P, T]) -> Callable[P, T]:
    """A command whose mistakes are told in a line, without a traceback, and whose warnings are notes."""

    @functools.wraps(command)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings(record=True) as caught:
            for kind in (ConvergenceWarning, DataWarning, ExtrapolationWarning):
                warnings.simplefilter("always", kind)
            try:
                return command(*args, **kwargs)
            except (InputError, ModelFileError, OSError) as error:
                errors.print(f"itofit {command.__name__}: {_message(error)}", markup=False, soft_wrap=True)
                raise typer.Exit(MISTAKE) from error
            finally:
                for text in dict.fromkeys(str(one.message) for one in caught):
                    errors.print(f"note: {text}", markup=False, soft_wrap=True)

    return told


def _message(error: Exception) -> str:
    """What an error says; of those of the operating system, without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
