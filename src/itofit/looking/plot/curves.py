"""Drift and noise along one input, with their error bars and where the data are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, one_of
from itofit.data.passes import Data
from itofit.looking.plot.canvas import (
    DATA,
    INTERVAL,
    INTERVAL_STDS,
    LEARNED,
    What,
    axes_or_new,
    drift_label,
    lines,
    noise_label,
)
from itofit.looking.plot.views import NumberOrName, View, checked, two_variables, variable, view_of
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP = 0.14
"""Height of the histogram of the data, as a share of the panel."""


class Curve(NamedTuple):
    """Values along a view and the edges of their 95 % intervals, (n,) each; edges are None without error bars."""

    y: Float
    low: Float | None = None
    high: Float | None = None
    positive: bool = False


def drift(
    sde: LearnedSDE,
    data: Data | None = None,
    *,
    output: NumberOrName = 0,
    along: NumberOrName = 0,
    at: npt.ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One component of the drift along one input, with 95 % intervals if the model carries error bars.

    Parameters
    ----------
    sde : LearnedSDE
    data : Transitions, optional
        They give the range and a histogram at the lower edge; without them it is those that were learned from. Shaded
        is where few of these are, near the line that is drawn: of them the model keeps 2000 places.
    output : int or str
        The component, by number or name.
    along : int or str
        The input, by number or name.
    at : array of shape (m,), optional
        Values of the other inputs; the one for `along` does not matter. Default: their medians in the data, or the
        middle of the range; the title of the panel says which.
    ax : Axes, optional
        Default: those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = itofit.plot.drift(sde, data, output="v", along="x")  # doctest: +SKIP
    """
    view = view_of(sde, checked(sde, data), along, at)
    j = variable("output", output, sde.output_names)
    ax = axes_or_new(ax)
    return draw(ax, view, drift_curve(sde, view, j), drift_label(sde, j))


def diffusion(
    sde: LearnedSDE,
    data: Data | None = None,
    *,
    entry: tuple[NumberOrName, NumberOrName] = (0, 0),
    along: NumberOrName = 0,
    at: npt.ArrayLike | None = None,
    what: What = "variance",
    ax: Axes | None = None,
) -> Axes:
    """One entry of the noise covariance Σ, or of its Cholesky factor σ, along one input.

    Intervals are those of `LearnedSDE.variance_interval` on the diagonal, and ± 1.96 standard deviations beside it.
    Those of σ are their roots: known where σ_ii² = Σ_ii, which is a diagonal Σ or the first output.

    Parameters
    ----------
    sde : LearnedSDE
    data, along, at, ax
        As for `drift`.
    entry : two of int or str
        Outputs that the entry belongs to, by number or name.
    what : {"variance", "sigma"}

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = itofit.plot.diffusion(sde, data, entry=("x", "y"))  # doctest: +SKIP
    """
    view = view_of(sde, checked(sde, data), along, at)
    one_of("what", what, ("variance", "sigma"))
    i, j = two_variables("entry", entry, sde.output_names)
    ax = axes_or_new(ax)
    curve = sigma_curve(sde, view, i, j) if what == "sigma" else variance_curve(sde, view, i, j)
    return draw(ax, view, curve, noise_label(sde, i, j, what))


# Values


def drift_curve(sde: LearnedSDE, view: View, j: int) -> Curve:
    """Component j of the drift."""
    if not sde.has_error_bars:
        return Curve(sde.drift(view.points)[:, j])
    f, std = (values[:, j] for values in sde.drift(view.points, return_std=True))
    return Curve(f, f - INTERVAL_STDS * std, f + INTERVAL_STDS * std)


def variance_curve(sde: LearnedSDE, view: View, i: int, j: int) -> Curve:
    """Entry i, j of Σ."""
    if not sde.has_error_bars:
        return Curve(sde.covariance(view.points)[:, i, j], positive=i == j)
    if i == j:
        low, high = sde.variance_interval(view.points)
        return Curve(sde.covariance(view.points)[:, i, i], low[:, i], high[:, i], positive=True)
    value, std = (values[:, i, j] for values in sde.covariance(view.points, return_std=True))
    return Curve(value, value - INTERVAL_STDS * std, value + INTERVAL_STDS * std)


def sigma_curve(sde: LearnedSDE, view: View, i: int, j: int) -> Curve:
    """Entry i, j of σ, with intervals where its square is the entry of Σ."""
    value = sde.diffusion(view.points)[:, i, j]
    if not sde.has_error_bars or i != j or (i > 0 and sde.structure == "full"):
        return Curve(value, positive=i == j)
    low, high = sde.variance_interval(view.points)
    return Curve(value, np.sqrt(low[:, i]), np.sqrt(high[:, i]), positive=True)


# Drawing


def draw(ax: Axes, view: View, curve: Curve, label: str) -> Axes:
    """A curve with its interval, the data, labels and legend."""
    first = not ax.has_data()
    draw_curve(ax, view, curve)
    draw_data(ax, view)
    if first:  # what was drawn before has chosen the range
        ax.set(xlim=view.x[[0, -1]], ylim=y_range(view, [curve]))
    ax.set(xlabel=lines(view.name, 48), ylabel=lines(label))
    if view.title:
        ax.set_title(view.title, fontsize="small")
    ax.legend(frameon=False, fontsize="small")
    return ax


def draw_curve(ax: Axes, view: View, curve: Curve) -> None:
    """A curve with its interval; a line at zero if it may have either sign."""
    if not curve.positive:
        ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0.5)
    if curve.low is not None and curve.high is not None:
        ax.fill_between(view.x, curve.low, curve.high, color=LEARNED, alpha=0.25, linewidth=0, label=INTERVAL)
    ax.plot(view.x, curve.y, color=LEARNED, linewidth=1.8, label="learned")


def draw_data(ax: Axes, view: View) -> None:
    """A histogram of the data at the lower edge, and shades where they are sparse."""
    if not len(view.counts):
        return
    heights, across = STRIP * view.counts / view.counts.max(), ax.get_xaxis_transform()
    edges, (name, label) = np.repeat(view.edges, 2)[1:-1], view.words
    ax.fill_between(
        edges, np.repeat(heights, 2), color=DATA, alpha=0.6, linewidth=0, transform=across, zorder=0.3, label=name
    )
    for low, high in stretches(view):
        ax.axvspan(low, high, color="0.5", alpha=0.13, linewidth=0, zorder=0.1, label=label)
        label = "_more of the same"


def stretches(view: View) -> list[tuple[float, float]]:
    """Intervals in which data are sparse."""
    change = np.diff(np.concatenate([[0], view.sparse.astype(int), [0]]))
    starts, ends = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    return [(float(view.edges[a]), float(view.edges[b])) for a, b in zip(starts, ends, strict=True)]


def y_range(view: View, curves: list[Curve]) -> tuple[float, float]:
    """The range to show: all of the curves where there are data, and at most half as much again for the rest."""
    lows = np.array([curve.y if curve.low is None else curve.low for curve in curves])
    highs = np.array([curve.y if curve.high is None else curve.high for curve in curves])
    low, high = float(lows[:, view.known].min()), float(highs[:, view.known].max())
    more = 0.5 * (high - low)
    low, high = max(float(lows.min()), low - more), min(float(highs.max()), high + more)
    if all(curve.positive for curve in curves):
        return 0.0, 1.12 * high
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin
