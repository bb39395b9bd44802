"""Calls with arguments that a function does not have: what Python says of them, in words that help."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

from itofit._checks import CallError

P = ParamSpec("P")
T = TypeVar("T")


def explaining(*, positional: str = "", **instead: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that says what to write where a call does not fit its arguments.

    Parameters
    ----------
    positional : str
        What to do if too many arguments come without names.
    **instead : str
        What to write instead of arguments that users of other packages expect.

    Examples
    --------
    >>> from itofit.model.calls import explaining
    >>> @explaining(seed="rng")
    ... def draw(n, *, rng=None):
    ...     return n
    >>> draw(3, seed=0)
    Traceback (most recent call last):
    itofit._checks.CallError: draw has no argument seed: is it rng that you mean?
    """

    def with_words(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def explained(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it came from within
                    raise
                problem = _problem(function, args, kwargs, positional, instead)
                raise CallError(problem or str(error)) from None

        return explained

    return with_words


def _problem(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    positional: str,
    instead: dict[str, str],
) -> str:
    """What does not fit; empty if that is something else."""
    name, parameters = function.__name__, inspect.signature(function).parameters
    known = [each for each in parameters if each != "self"]
    places = [each.name for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    for unknown in (each for each in kwargs if each not in known):
        free = [each for each in known if each not in (*places[: len(args)], *kwargs)]
        near = instead.get(unknown) or next(iter(get_close_matches(unknown, free, n=1)), None)
        meant = f"is it {near} that you mean?" if near else f"its arguments are {', '.join(known)}"
        return f"{name} has no argument {unknown}: {meant}"
    if len(args) > len(places):
        own = [place for place in places if place != "self"]
        more = len(args) - len(places)
        advice = positional or "give the others by their names"
        return f"{name} takes {', '.join(own)} without a name, and {more} more came: {advice}"
    missing = [
        place
        for place in places[len(args) :]
        if parameters[place].default is inspect.Parameter.empty and place not in kwargs
    ]
    return f"{name} needs {' and '.join(missing)}; its arguments are {', '.join(known)}" if missing else ""
