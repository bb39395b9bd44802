"""Axes to draw on, with matplotlib imported when something is drawn, and the colours of all pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from itofit._checks import InputError
from itofit.data.units import Units, same_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEARNED, SECOND, DATA = "#0072B2", "#D55E00", "0.55"
"""Colours (Okabe and Ito): of what was learned, of a second curve beside it, of data."""
EQUAL_UP_TO = 2.5
"""Ratio of the two ranges up to which both axes have the same scale."""
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

    return pyplot.subplots(figsize=size, layout="compressed")[1]


def colour_bar(ax: Axes, picture: Any, label: str, **look: Any) -> None:  # noqa: ANN401
    """A colour bar beside axes, as high as these are, whatever their scale."""
    own = ax.inset_axes((1.04, 0.0, 0.05, 1.0))
    ax.figure.colorbar(picture, cax=own, label=label, **look)


def label_plane(ax: Axes, names: Sequence[str], units: Units) -> None:
    """Label axes with two variables, or with one, and give them one scale if both have the same unit."""
    ax.set_xlabel(escaped(units.labelled(names[0])))
    if len(names) > 1:
        ax.set_ylabel(escaped(units.labelled(names[1])))
        one_scale(ax, names, units)


def one_scale(ax: Axes, names: Sequence[str], units: Units) -> None:
    """Give both axes one scale if both variables have the same unit, unless a narrow strip would be left.

    Without units those count that have the same name but for a number: x1 and x2.
    """
    one, other = units.of(names[0]), units.of(names[1])
    alike = same_unit(one, other) if one and other else not (one or other) and _letters(names[0]) == _letters(names[1])
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    sides = abs(right - left), abs(high - low)
    if alike and max(sides) <= EQUAL_UP_TO * min(sides):
        ax.set_aspect("equal", adjustable="box")


def _letters(name: str) -> str:
    return name.rstrip("0123456789")


def escaped(name: str) -> str:
    """A name as matplotlib reads it: with a backslash before a dollar, which would begin a formula."""
    return name.replace("$", r"\$")
