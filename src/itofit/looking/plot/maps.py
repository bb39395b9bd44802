"""Maps of drift and noise over two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, one_of
from itofit.data.passes import Data
from itofit.looking.plot.canvas import (
    axes_or_new,
    colour_bar,
    drift_label,
    few_ticks,
    lines,
    noise_label,
    number_text,
    one_scale,
)
from itofit.looking.plot.views import NumberOrName, Plane, checked, plane_of, two_variables, variable
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = 7
"""Contours at most: as many as leave room for their numbers."""
EVEN_VALUES, NEARLY_EVEN = 1e-6, 1e-3
"""Values that differ by less than these shares are the same everywhere but for rounding, or nearly: not coloured."""


def heatmap(
    sde: LearnedSDE,
    data: Data | None = None,
    *,
    what: Literal["drift", "covariance"] = "drift",
    entry: NumberOrName | tuple[NumberOrName, NumberOrName] | None = None,
    along: tuple[NumberOrName, NumberOrName] = (0, 1),
    at: npt.ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A component of the drift or an entry of the covariance over the plane of two inputs.

    Contours of negative values are dashed. Cells of the plane without data that were learned from are hatched; colours
    are those that the values have elsewhere. A value that is the same everywhere is written instead.

    Parameters
    ----------
    sde : LearnedSDE
        With two inputs or more.
    data : Transitions, optional
        They give the range, from quantile 0.005 to 0.995 of each input. Default: those that were learned from.
    what : {"drift", "covariance"}
    entry : int or str, or two of them, optional
        The output for the drift, two outputs for the covariance, by number or name. Default: the first.
    along : two of int or str
        The inputs, by number or name.
    at : array of shape (m,), optional
        Values of the other inputs, as for `drift`.
    ax : Axes, optional
        Default: those of a new figure.

    Returns
    -------
    Axes
        The colour bar, if there is one, has its own, a child of them.

    Examples
    --------
    >>> ax = itofit.plot.heatmap(sde, data, what="covariance", entry=("x", "y"))  # doctest: +SKIP
    """
    rows = checked(sde, data)
    if sde.n_inputs < 2:
        raise InputError(f"a heat map needs two inputs, this model has {sde.input_names[0]} alone; draw drift")
    plane = plane_of(sde, rows, along, at)
    values, label = _values(sde, plane, one_of("what", what, ("drift", "covariance")), entry)
    ax = axes_or_new(ax, (6.0, 4.6))
    _colours(ax, plane, values, label)
    _hatched(ax, plane)
    x, y = plane.labels
    ax.set(xlim=plane.x[[0, -1]], ylim=plane.y[[0, -1]], xlabel=lines(x, 40), ylabel=lines(y))
    one_scale(ax, plane.names, sde.units)
    few_ticks(ax)
    if plane.title:
        ax.set_title(plane.title, fontsize="small")
    return ax


def _values(sde: LearnedSDE, plane: Plane, what: str, entry: object) -> tuple[Float, str]:
    """The values that are drawn, (ny, nx), and their label."""
    if what == "drift":
        j = variable("entry", 0 if entry is None else entry, sde.output_names)
        return plane.shaped(sde.drift(plane.points)[:, j]), drift_label(sde, j)
    i, j = two_variables("entry", (0, 0) if entry is None else entry, sde.output_names)
    return plane.shaped(sde.covariance(plane.points)[:, i, j]), noise_label(sde, i, j)


def _colours(ax: Axes, plane: Plane, values: Float, label: str) -> None:
    """Colours, contours and a colour bar; its range is that of the values where there are data."""
    known = plane.shaped(plane.known(plane.pairs).astype(np.float64)) > 0
    inside = values[known] if known.any() else values.ravel()
    low, high = float(inside.min()), float(inside.max())
    signed = low < 0 < high
    if signed:
        low, high = -max(-low, high), max(-low, high)
    differ = (high - low) / (max(abs(low), abs(high)) or 1.0)
    if differ <= NEARLY_EVEN:
        nearly = "" if differ <= EVEN_VALUES else f"\nto within {100 * NEARLY_EVEN:g} %"
        _one_value(ax, f"{lines(label, 26)}\nis {number_text(float(inside.mean()))} everywhere{nearly}")
        return
    beyond = bool(values.min() < low), bool(values.max() > high)
    extend: Any = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[beyond]
    look: dict[str, Any] = {"cmap": "RdBu_r" if signed else "cividis", "shading": "gouraud", "rasterized": True}
    mesh = ax.pcolormesh(plane.x, plane.y, values, vmin=low, vmax=high, **look)
    _contours(ax, plane, values, (low, high), signed)
    colour_bar(ax, mesh, lines(label), extend=extend)


def _one_value(ax: Axes, text: str) -> None:
    """A text in place of a map whose colours would all be the same."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes, "zorder": 5}
    ax.text(0.5, 0.5, text, bbox={"facecolor": "white", "edgecolor": "none", "pad": 8}, **look)
    ax.set_facecolor("0.96")


def _contours(ax: Axes, plane: Plane, values: Float, limits: tuple[float, float], signed: bool) -> None:
    """Lines of equal values with their numbers, white on dark colours and dashed where negative."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    levels = np.asarray(MaxNLocator(LEVELS).tick_values(*limits), dtype=np.float64)
    dark = np.where(signed, np.abs(levels) > 0.6 * limits[1], levels < sum(limits) / 2)
    ink = ["white" if each else "0.1" for each in dark]
    dashes = ["--" if level < 0 else "-" for level in levels]
    drawn = ax.contour(plane.x, plane.y, values, levels, colors=ink, linestyles=dashes, linewidths=0.8)
    ax.clabel(drawn, fontsize=8)


def _hatched(ax: Axes, plane: Plane) -> None:
    """Grey hatches over the cells without data."""
    if not plane.counts.size or plane.reached.all():
        return
    empty = np.argwhere(~plane.reached)
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    (x, y), codes = plane.edges, [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    cells = empty[:, None, :] + corners
    outline = np.stack([x[cells[:, :, 0]], y[cells[:, :, 1]]], axis=2).reshape(-1, 2)
    ax.add_patch(
        PathPatch(
            Path(outline, codes * len(empty)),
            facecolor=(0.9, 0.9, 0.9, 0.75),
            edgecolor=(0.45, 0.45, 0.45, 0.8),
            hatch="////",
            linewidth=0,
            label="no data",
        )
    )
