"""Checks of what comes in from outside, and the exceptions and warnings that speak of it.

Every check names the argument, what was expected, what came, and what to do. Arrays come back as float64 with the
number of axes that was asked for; nothing is copied that is already in that form.
"""

from __future__ import annotations

import numbers
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Float: TypeAlias = npt.NDArray[np.float64]
Complex: TypeAlias = npt.NDArray[np.complex128]
Int: TypeAlias = npt.NDArray[np.intp]
RNG: TypeAlias = int | np.integer | np.random.Generator | None


# Messages

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that steer a terminal, turn the direction of text, or are bytes of a file name that is not UTF-8."""
MOST_SHOWN = 80
"""Characters of a value that are shown in a message."""


def printable(text: str) -> str:
    r"""A text without characters that steer a terminal: names and labels may come from files of others.

    Examples
    --------
    >>> from itofit._checks import printable
    >>> print(printable("\x1b[2Jx"))
    \x1b[2Jx
    """
    return CONTROL.sub(lambda found: _escaped(ord(found.group())), text)


def _escaped(character: int) -> str:
    if 0xDC80 <= character <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{character - 0xDC00:02x}"
    return f"\\x{character:02x}" if character <= 0xFF else f"\\u{character:04x}"


def shown(value: object) -> str:
    """What a message shows of a value that came: its beginning, if it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


class Option(NamedTuple):
    """An argument of a function, perhaps with a value: what the command line calls --argument.

    Parameters
    ----------
    name : str
    value : object, optional
        The value that is spoken of; left out, the argument itself is.
    of : str, optional
        The function, where the text names it: fit(..., link='log').
    keyword : bool
        Whether the text asks the reader to give the argument, and writes it as a keyword: give time=.
    """

    name: str
    value: object = None
    of: str | None = None
    keyword: bool = False

    def __str__(self) -> str:
        text = self.name + "=" * self.keyword if self.value is None else f"{self.name}={self.value!r}"
        return text if self.of is None else f"{self.of}(..., {text})"


class Variable(NamedTuple):
    """A column of the inputs or of the increments, by its place, and by its name where one is known."""

    role: Literal["inputs", "increments"]
    place: int
    name: str | None = None

    def __str__(self) -> str:
        column = f"{self.role} column {self.place}"
        return column if self.name is None else f"{column} ({self.name})"


class Either(NamedTuple):
    """A phrase that is one thing in Python and another at the command line."""

    python: str
    command: str

    def __str__(self) -> str:
        return self.python


AS_GAPS = Either(python="set these values to NaN, which are gaps", command="leave them empty, which are gaps")
"""What to do with values that are no numbers where gaps are allowed."""


class Message(str):
    """A text that keeps what it speaks of as data, so that every surface can say it in its own words.

    As a string it is what Python says. Fields of the template are values; `Option`, `Variable`, `Either` and other
    messages among them are worded anew by `worded`.

    Examples
    --------
    >>> from itofit._checks import Message, Option
    >>> text = Message("{h} must be a number > 0, got {got!r}", h=Option("min_h"), got=-1)
    >>> print(text)
    min_h must be a number > 0, got -1
    >>> text.worded(lambda part: "--min-step" if part == Option("min_h") else None)
    '--min-step must be a number > 0, got -1'
    """

    template: str
    fields: dict[str, object]

    def __new__(cls, template: str, /, **fields: object) -> Self:
        message = super().__new__(cls, printable(_filled(template, fields)))
        message.template, message.fields = template, fields
        return message

    def worded(self, word: Callable[[object], str | None]) -> str:
        """The text with every field as `word` says it; where that is None, as Python does."""

        def said(part: object) -> object:
            own = word(part)
            if own is not None:
                return own
            return part.worded(word) if isinstance(part, Message) else part

        return printable(_filled(self.template, {name: said(part) for name, part in self.fields.items()}))

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        return (self.template,), self.fields


def _filled(template: str, fields: dict[str, object]) -> str:
    """A template with its fields, some of which may have more digits than Python writes."""
    try:
        return template.format(**fields)
    except ValueError:
        return template.format(**{name: part if _has_text(part) else _Shown(part) for name, part in fields.items()})


def _has_text(value: object) -> bool:
    """Whether Python writes a value."""
    try:
        str(value)
    except ValueError:
        return False
    return True


class _Shown:
    """What a message shows of a value that Python does not write."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return shown(self.value)


def message_of(error: Exception) -> str:
    """What an error or a warning says: its `Message`, if it was raised with one."""
    return error.args[0] if len(error.args) == 1 and isinstance(error.args[0], Message) else str(error)


class InputError(ValueError):
    """An argument or the data cannot be used; the message says what to change.

    Parameters
    ----------
    text : str
        What to say; the template of a `Message` if fields are given.
    **fields
        What the template speaks of.
    """

    def __init__(self, text: str, /, **fields: object) -> None:
        if fields:
            text = Message(text, **fields)
        super().__init__(text if isinstance(text, Message) else printable(text))


class CallError(InputError, TypeError):
    """A function was called with arguments that it does not have; the message says which it has."""


class ModelFileError(ValueError):
    """A file is not a model that this version can read; the message says why."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class DataWarning(UserWarning):
    """The data can be learned from, but not well; the message says why and what to do."""


class ConvergenceWarning(UserWarning):
    """Training ended at its maximal number of iterations, before its validation error settled."""


class ExtrapolationWarning(UserWarning):
    """A simulation left the range of the data the functions were learned from, or makes far longer steps than these."""


PACKAGE = str(Path(__file__).parent)


def user_level() -> int:
    """The stacklevel of a warning that is given in the name of the first caller outside of itofit."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def plain_array(name: str, value: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """`value` as an array of any kind, unless that would lose its mask or it has no rectangular shape."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            "{option} is a masked array, whose mask would be lost; use {name}.filled(np.nan) where gaps are allowed",
            option=Option(name),
            name=name,
        )
    try:
        return np.asarray(value)
    except ValueError:
        text = "{option} must be a rectangular array, but its rows have different lengths"
        raise InputError(text, option=Option(name)) from None


def float_array(name: str, value: npt.ArrayLike, *, allow_nan: bool = False) -> Float:
    """`value` as a float64 array of real numbers; infinities never pass, NaN only if `allow_nan`."""
    array = plain_array(name, value)
    if array.dtype.kind == "c":
        text = "{option} must be real, got complex numbers ({dtype}); take .real or stack the two parts"
        raise InputError(text, option=Option(name), dtype=array.dtype)
    if array.dtype.kind not in "fiu":
        raise InputError(
            "{option} must be an array of real numbers, got dtype {dtype}; "
            "convert it first, for example with np.asarray({name}, dtype=float)",
            option=Option(name),
            dtype=array.dtype,
            name=name,
        )
    with np.errstate(over="ignore"):  # of a wider type: infinite then
        finite = array.astype(np.float64, copy=False)
    bad = np.isinf(finite) if allow_nan else ~np.isfinite(finite)
    if bad.any() and array.ndim == 0:
        raise InputError("{option} must be finite, got {got}", option=Option(name), got=array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            "{option} must be finite{or_nan}: {n_bad} of {size} values are not, the first at index {first}; {advice}",
            option=Option(name),
            or_nan=" or NaN" if allow_nan else "",
            n_bad=int(bad.sum()),
            size=array.size,
            first=first if len(first) != 1 else first[0],
            advice=AS_GAPS if allow_nan else "remove these rows",
        )
    return finite


def columns(name: str, value: npt.ArrayLike, *, n_columns: int | None = None, allow_nan: bool = False) -> Float:
    """`value` as an array (n, n_columns); a vector (n,) is read as one column, a number as one point."""
    array = float_array(name, value, allow_nan=allow_nan)
    if array.ndim == 0 and n_columns == 1:
        array = array[None]
    if array.ndim == 1 and n_columns in (None, 1):
        array = array[:, None]
    if array.ndim != 2 or (n_columns is not None and array.shape[1] != n_columns):
        wanted = f"(n, {n_columns})" if n_columns is not None else "(n, d), or (n,) for one variable"
        advice = ""
        if n_columns is not None and array.shape == (n_columns,):
            advice = f"; one point is {name}[None, :]"
        elif n_columns is not None and array.ndim == 2 and array.shape[0] == n_columns:
            advice = f"; is it {name}.T that you mean?"
        text = "{option} must have shape {wanted}, got {got}{advice}"
        raise InputError(text, option=Option(name), wanted=wanted, got=array.shape, advice=advice)
    if array.shape[1] == 0:
        text = "{option} must have at least one column, got shape {got}"
        raise InputError(text, option=Option(name), got=array.shape)
    return array


def columns_like(name: str, value: npt.ArrayLike, other_name: str, other: Float) -> Float:
    """`value` as an array of shape (n, d), the same as that of another argument."""
    array = columns(name, value)
    if array.shape != other.shape:
        raise InputError(
            "{option} must have the shape of {other}: expected {expected}, got {got}{advice}",
            option=Option(name),
            other=Option(other_name),
            expected=other.shape,
            got=np.shape(value),
            advice=f"; {name} needs {other.shape[1]} columns" if len(array) == len(other) else "",
        )
    return array


def same_rows(name: str, array: npt.NDArray[np.generic], other_name: str, other: Float) -> None:
    """Raise unless two arrays have the same number of rows."""
    if len(array) != len(other):
        raise InputError(
            "{option} must have as many rows as {other}: expected {expected}, got {got}",
            option=Option(name),
            other=Option(other_name),
            expected=len(other),
            got=len(array),
        )


LARGEST_COUNT = 2**63 - 1
"""What arrays can count."""
LARGEST_SEED = 2**256
"""Beyond, a seed would not fit into the files of models."""


def is_whole(value: object) -> bool:
    """Whether something is a whole number, and neither a truth value nor a duration."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.timedelta64)


def positive(name: str, value: object, *, zero: bool = False) -> float:
    """A finite real number above zero (or, with `zero`, not below it)."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)
    try:
        number = float(value) if is_real else np.nan  # type: ignore[arg-type]
    except OverflowError:
        number = np.inf
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        got = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) and value.ndim else shown(value)
        least = ">=" if zero else ">"
        raise InputError("{option} must be a number {least} 0, got {got}", option=Option(name), least=least, got=got)
    return number


def fraction(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    number = positive(name, value)
    if number >= 1:
        raise InputError("{option} must lie strictly between 0 and 1, got {got}", option=Option(name), got=shown(value))
    return number


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError("{option} must be True or False, got {got}", option=Option(name), got=shown(value))
    return bool(value)


def count(name: str, value: object, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if not is_whole(value) or not least <= int(value) <= LARGEST_COUNT:  # type: ignore[call-overload]
        text = "{option} must be a whole number >= {least}{limit}, got {got}"
        limit = " and less than 2⁶³" * (is_whole(value) and int(value) >= least)  # type: ignore[call-overload]
        raise InputError(text, option=Option(name), least=least, limit=limit, got=shown(value))
    return int(value)  # type: ignore[call-overload]


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        text = "{option} must be one of {listed}, got {got}"
        raise InputError(text, option=Option(name), listed=listed, got=shown(value))
    return value


def generator(rng: RNG) -> tuple[np.random.Generator, int | None]:
    """A random generator, and the seed that makes it again (None if a generator was handed in).

    Without a seed one is drawn from the operating system, so that every result can be repeated.
    """
    if isinstance(rng, np.random.Generator):
        return rng, None
    if rng is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        rng = entropy
    if not is_whole(rng) or not 0 <= int(rng) < LARGEST_SEED:
        others = Either(python=", a numpy.random.Generator or None", command="")
        text = "{option} must be a whole number >= 0{others}, got {got}"
        raise InputError(text, option=Option("rng"), others=others, got=shown(rng))
    return np.random.default_rng(int(rng)), int(rng)


def answer_of(name: str, function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
    """What a user's function returns; if it does not take what it is called with, an error names the argument."""
    try:
        return function(*args)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it came from within
            raise
        text = "{option} must be a function that can be called with {n}: {error}"
        n = "one argument" if len(args) == 1 else f"{len(args)} arguments"
        raise InputError(text, option=Option(name), n=n, error=error) from None


def gone_through(value: object) -> list[Any] | None:
    """All that something holds; None if it cannot be gone through, as an array without axes cannot."""
    try:
        return list(value)  # type: ignore[call-overload]
    except TypeError:
        return None


def path_of(value: object, name: str = "path") -> str:
    """The path of a file, which came as text or as an object that stands for one."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        raise InputError("{option} must be the path of a file, got {got}", option=Option(name), got=shown(value))
    return path


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise if there is something at a path that is no file, such as a pipe, which would be waited for without end."""
    if Path(path).exists() and not Path(path).is_file():
        what = "a directory" if Path(path).is_dir() else "a pipe, a device or the like"
        raise InputError(f"{os.fspath(path)!s} is {what}: give the path of a file")
