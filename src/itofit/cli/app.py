"""What the commands share: the program, where and how it prints, and how it reports a user's mistake."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

from itofit._checks import (
    CONTROL,
    ConvergenceWarning,
    DataWarning,
    ExtrapolationWarning,
    InputError,
    ModelFileError,
    message_of,
    printable,
)
from itofit._version import __version__
from itofit.cli.words import worded
from itofit.data.large.cluster import ClusterError

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

MISTAKES = (InputError, ModelFileError, ClusterError, OSError)
"""What a command reports in a line."""
MISTAKE = 2
"""Exit code of a command that could not be carried out as it was given."""
NO_MEMORY = 71
"""Exit code if there was not enough memory, by the convention for errors of the system."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells."""
SECOND_COLUMN = re.compile(r" *(\S+( \S+)*)?  +(?=\S)")
"""What stands before the second column of a line, if it has one."""
LEAST_COLUMN = 8
"""Where a second column begins at the least: fewer spaces are an indent."""
PIPE_CLOSED = 141
"""Exit code if the program that reads the output has ended, by the convention of shells."""


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
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Greek letters shows others in their place
            stream.reconfigure(errors="replace")


def explained(command: Callable[P, T]) -> Callable[P, T]:
    """A command that reports mistakes in a line, without a traceback, and warnings as notes."""

    @functools.wraps(command)
    def explained_command(*args: P.args, **kwargs: P.kwargs) -> T:
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
            except MISTAKES as error:  # notes may be about something else: not printed
                print_aside(f"itofit {command.__name__}: {_explanation(error)}")
                raise typer.Exit(MISTAKE) from error
            except MemoryError:
                print_aside(
                    f"itofit {command.__name__}: there is not enough memory; use fewer rows or variables, or a file in "
                    "parts"
                )
                raise typer.Exit(NO_MEMORY) from None
            except typer.Exit:
                _print_notes(caught)
                raise
            _print_notes(caught)
            return result

    return explained_command


def _explanation(error: Exception) -> str:
    """What an error says in the words of the command line; for those of the operating system, without their number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return worded(message_of(error))


# Printing


def _print_notes(caught: list[warnings.WarningMessage]) -> None:
    """Print each different warning once."""
    texts = (worded(message_of(each.message)) if isinstance(each.message, Warning) else each.message for each in caught)
    for text in dict.fromkeys(texts):
        print_note(text)


def print_note(text: str) -> None:
    """Print what the user should know beside the result."""
    print_aside(f"note: {text}")


def print_aside(text: str) -> None:
    """Print to standard error, as it is but for what steers a terminal."""
    plain = printable(text)
    errors.print(folded(plain, errors.width) if errors.is_terminal else plain, markup=False, soft_wrap=True)


def print_text(text: str) -> None:
    """Print to standard output, as it is but for what steers a terminal; on one, lines end between words."""
    plain = printable(text)
    console.print(folded(plain, console.width) if console.is_terminal else plain, markup=False, soft_wrap=True)


def folded(text: str, width: int) -> str:
    """Lines that are longer than a terminal is wide go on below, under their second column or with an indent."""
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    found = SECOND_COLUMN.match(line)
    column = found.end() if found else 0
    if not LEAST_COLUMN <= column <= width // 3:
        column = len(line) - len(line.lstrip())
    indent = column if column >= LEAST_COLUMN else column + 4
    return textwrap.fill(
        line[column:],
        width,
        initial_indent=line[:column],  # in which spaces count
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_json(content: dict[str, Any]) -> None:
    """Print to standard output what a machine can read."""
    text = json.dumps(_with_nulls(content), allow_nan=False, indent=2, ensure_ascii=False)
    text = CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    console.print(text, markup=False, soft_wrap=True)


def _with_nulls(content: Any) -> Any:  # noqa: ANN401
    """The content with null for infinities and NaN, which JSON does not have."""
    if isinstance(content, dict):
        return {str(name): _with_nulls(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_nulls(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
