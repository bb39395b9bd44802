"""Axes to draw on, with matplotlib imported when something is drawn, and the colours of all pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from itofit._checks import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEARNED, SECOND, DATA = "#0072B2", "#D55E00", "0.55"
"""Colours (Okabe and Ito): of what was learned, of a second curve beside it, of data."""
SIZE = (6.0, 4.0)
"""Width and height of a figure with one panel, in inches."""


@contextmanager
def missing_matplotlib() -> Iterator[None]:
    """Say what to install if an import of matplotlib within fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "itofit[plot]"') from error


def axes_or_new(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """The axes that were given, or those of a new figure of pyplot."""
    with missing_matplotlib():
        from matplotlib.axes import Axes  # noqa: PLC0415
    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise InputError(f"ax must be matplotlib Axes or None, got {type(ax).__name__}")
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def escaped(name: str) -> str:
    """A name as matplotlib reads it: with a backslash before a dollar, which would begin a formula."""
    return name.replace("$", r"\$")
