"""The flow of two variables: arrows or stream lines of the drift, and ellipses of the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import Float, InputError, flag
from itofit.data.passes import Data
from itofit.data.units import behind
from itofit.looking.plot.canvas import (
    DATA,
    LEARNED,
    SECOND,
    axes_or_new,
    escaped,
    few_ticks,
    legend_below,
    lines,
    nice_below,
    number_text,
    one_scale,
)
from itofit.looking.plot.views import Plane, checked, plane_of
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARROWS, ELLIPSES, STREAM = 13, 5, 41
"""Points along each side of the plane for arrows, ellipses and stream lines: as many as leave them apart."""
LONGEST = 3.0
"""Length of the longest arrow among the data, in distances between arrows."""
HEAD = 0.2
"""Room around arrows for the width of their heads, in the same unit."""
MOST_DOTS = 2000
"""Rows of the data that are drawn: more are one grey area."""


def field(
    sde: LearnedSDE,
    data: Data | None = None,
    *,
    stream: bool = False,
    ellipses: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """The flow in the plane of two variables.

    Arrows are as long as the drift goes within the time that the legend says, ellipses as wide as one standard
    deviation of the noise within theirs. For an underdamped system with one position the plane is that of position and
    velocity, the flow is (v, f), and noise moves the velocity alone. Where no data were learned from, arrows are
    faint, and left out if they are much longer than the others.

    Parameters
    ----------
    sde : LearnedSDE
        With two inputs, of kind "diffusion" or "underdamped"; covariates besides are at their medians.
    data : Transitions, optional
        Drawn as faint dots, at most 2000 of them. They give the range, from quantile 0.005 to 0.995 of each variable.
        Default: those that were learned from.
    stream : bool
        Stream lines instead of arrows: directions only.
    ellipses : bool
        Whether to draw the noise.
    ax : Axes, optional
        Default: those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = itofit.plot.field(sde, data, stream=True)  # doctest: +SKIP
    """
    rows = checked(sde, data)
    stream, ellipses = flag("stream", stream), flag("ellipses", ellipses)
    if len(sde.state_names) != 2 or sde.kind == "general":
        raise InputError(
            "a field needs a model of two variables that move, or of one position and its velocity; this one has "
            f"inputs {', '.join(sde.input_names)} and kind {sde.kind!r}: heatmap and slices draw parts of it"
        )
    plane = plane_of(sde, rows, n=STREAM if stream else ARROWS)
    ax = axes_or_new(ax, (6.4, 5.2))
    handles = _dots(ax, plane, "training data" if rows is None else "data")
    to, clock = flow(sde, plane.points), behind(sde.units.time)
    handles += _stream(ax, plane, to) if stream else _arrows(ax, plane, to, clock)
    if ellipses:
        handles += _noise(ax, sde, plane)
    x, y = plane.labels
    ax.set(xlabel=lines(x, 40), ylabel=lines(y))
    if stream:
        ax.set(xlim=plane.x[[0, -1]], ylim=plane.y[[0, -1]])
    one_scale(ax, plane.names, sde.units)
    few_ticks(ax)
    if plane.title:
        ax.set_title(plane.title, fontsize="small")
    legend_below(ax, handles)
    return ax


def flow(sde: LearnedSDE, points: Float) -> Float:
    """The flow at points (n, m): the drift, or for an underdamped system (v, f). Shape (n, 2)."""
    f = sde.drift(points)
    return f if sde.kind == "diffusion" else np.column_stack([points[:, 1], f[:, 0]])


def _dots(ax: Axes, plane: Plane, label: str) -> list[Any]:
    """Dots for some of the data."""
    dots = plane.rows[:: -(-len(plane.rows) // MOST_DOTS) or 1]
    if not len(dots):
        return []
    look: dict[str, Any] = {"color": DATA, "markersize": 2.5, "alpha": 0.45, "linewidth": 0, "rasterized": True}
    (line,) = ax.plot(*dots.T, ".", zorder=0.5, label=label, **look)
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return [Line2D([], [], color=DATA, marker=".", markersize=6, linewidth=0, label=line.get_label())]


def _arrows(ax: Axes, plane: Plane, to: Float, clock: str) -> list[Any]:
    """Arrows as long as the flow goes within some time, chosen so that most do not meet; axes that hold them all.

    Where there are no data, arrows that are longer than the others are left out.
    """
    from matplotlib.lines import Line2D  # noqa: PLC0415

    known = plane.known(plane.pairs)
    spacing = np.array([plane.x[1] - plane.x[0], plane.y[1] - plane.y[0]])
    sizes = np.abs(to / spacing).max(axis=1)
    size = max(float(np.quantile(sizes[known], 0.8)) / 1.2, float(sizes[known].max()) / LONGEST)
    t = nice_below(1 / size) if size > 0 else 1.0
    faint = ~known & (t * sizes <= LONGEST)
    ends = plane.pairs[known | faint] + 0.5 * t * np.array([[[-1.0]], [[1.0]]]) * to[known | faint]
    low, high = ends.min(axis=(0, 1)) - HEAD * spacing, ends.max(axis=(0, 1)) + HEAD * spacing
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for chosen, color in ((known, LEARNED), (faint, "0.75")):
        if chosen.any():
            at, by = plane.pairs[chosen], to[chosen]
            ax.quiver(
                *at.T,
                *by.T,
                angles="xy",
                scale_units="xy",
                scale=1 / t,
                pivot="mid",
                width=0.0045,
                zorder=2,
                color=color,
            )
    label = f"drift within t = {number_text(t)}{escaped(clock)}"
    return [Line2D([], [], color=LEARNED, marker=r"$\rightarrow$", markersize=13, linewidth=0, label=label)]


def _stream(ax: Axes, plane: Plane, to: Float) -> list[Any]:
    """Stream lines where there are data."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    u, v = (plane.shaped(np.where(plane.known(plane.pairs), values, np.nan)) for values in to.T)
    ax.streamplot(plane.x, plane.y, u, v, color=LEARNED, linewidth=1.0, density=1.1, arrowsize=0.9, zorder=2)
    return [Line2D([], [], color=LEARNED, linewidth=1.2, label="direction of the drift")]


def _noise(ax: Axes, sde: LearnedSDE, plane: Plane) -> list[Any]:
    """Ellipses of one standard deviation within some time, or lines along the velocity; none overlap by much."""
    from matplotlib.collections import LineCollection, PolyCollection  # noqa: PLC0415

    cell = np.array([np.ptp(plane.x), np.ptp(plane.y)]) / ELLIPSES
    steps = np.arange(ELLIPSES) + 0.5
    grid = np.meshgrid(plane.x[0] + cell[0] * steps, plane.y[0] + cell[1] * steps)
    at = np.column_stack([each.ravel() for each in grid])
    at = at[plane.known(at)]
    if not len(at):
        return []
    sigma = np.zeros((len(at), 2, 2))
    sigma[:, -sde.n_outputs :, -sde.n_outputs :] = sde.diffusion(
        np.column_stack([at, np.tile(plane.points[0, 2:], (len(at), 1))])
    )
    variance = np.einsum("nij,nij->ni", sigma, sigma)
    t = nice_below(0.1 / float(np.quantile((variance / cell**2).max(axis=1), 0.9)))
    angle = np.linspace(0, 2 * np.pi, 61) if sde.kind == "diffusion" else np.array([-0.5, 0.5]) * np.pi
    edge = np.stack([np.cos(angle), np.sin(angle)])
    outlines = at[:, None, :] + np.sqrt(t) * (sigma @ edge).swapaxes(1, 2)
    label = f"noise within t = {number_text(t)}{escaped(behind(sde.units.time))}"
    drawn: Any
    if sde.kind == "diffusion":
        drawn = PolyCollection(outlines, facecolors="none", edgecolors=SECOND, linewidths=1.2, zorder=3, label=label)
    else:
        drawn = LineCollection(list(outlines), colors=SECOND, linewidths=1.8, zorder=3, label=label)
    ax.add_collection(drawn, autolim=False)
    return [drawn]
