"""The picture of a comparison: both conditions, and the difference with its simultaneous band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import Float
from itofit.data.units import with_unit
from itofit.looking.compare.comparison import Band, Comparison
from itofit.looking.plot.canvas import (
    INTERVAL_STDS,
    LEARNED,
    SECOND,
    drift_label,
    escaped,
    figure_or_new,
    lines,
    noise_label,
    shared_legend,
)
from itofit.looking.plot.views import slice_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_ALONG = 101
PANEL = (3.6, 2.9)
EDGE = 0.02
"""Share of the places of several inputs that slices leave out at each end."""
MOST = 4
"""Inputs and outputs that are drawn."""


def figure_size(comparison: Comparison) -> tuple[float, float]:
    """Width and height of the figure, in inches."""
    m, d = min(comparison.a.n_inputs, MOST), min(comparison.a.n_outputs, MOST)
    return (PANEL[0] * 2 * d, PANEL[1] * 2) if comparison.a.n_inputs == 1 else (PANEL[0] * m, PANEL[1] * 2 * d)


def drawn(comparison: Comparison, figure: Figure | None) -> Figure:
    """All panels on a figure."""
    m, d = min(comparison.a.n_inputs, MOST), min(comparison.a.n_outputs, MOST)
    figure = figure_or_new(figure, figure_size(comparison))
    if comparison.a.n_inputs == 1:
        axes = figure.subplots(2, 2 * d, squeeze=False, sharex=True)
        for j in range(d):
            _functions_of_one(comparison, j, axes[0, 2 * j], axes[0, 2 * j + 1])
        _differences(comparison, 0, list(axes[1, ::2]), list(axes[1, 1::2]))
    else:
        axes = figure.subplots(2 * d, m, squeeze=False, sharex="col", sharey="row")
        for i in range(m):
            _differences(comparison, i, list(axes[::2, i]), list(axes[1::2, i]))
        for ax in axes[:, 1:].ravel():
            ax.set_ylabel("")
        middle = np.median(comparison.points, axis=0)
        title = slice_title(comparison.a, (), middle, " (medians of the compared places)", width=90)
        figure.suptitle(f"others {title}", fontsize="medium")
    for place, ax in enumerate(axes[-1]):
        i = 0 if comparison.a.n_inputs == 1 else place
        ax.set_xlabel(escaped(comparison.a.units.labelled(comparison.a.input_names[i])))
    shared_legend(figure, axes.ravel(), columns=3)
    return figure


def _functions_of_one(comparison: Comparison, j: int, drift: Axes, noise: Axes) -> None:
    """Both conditions' drift and variance along one input, with pointwise 95 % intervals."""
    x = comparison.points[:, 0]
    for sde, label, colour in zip((comparison.a, comparison.b), comparison.names, (LEARNED, SECOND), strict=True):
        f, std = (own[:, j] for own in sde.drift(x, return_std=True))
        low, high = (own[:, j] for own in sde.variance_interval(x))
        for ax, y, bottom, top in (
            (drift, f, f - INTERVAL_STDS * std, f + INTERVAL_STDS * std),
            (noise, sde.covariance(x)[:, j, j], low, high),
        ):
            ax.fill_between(x, bottom, top, color=colour, alpha=0.2, linewidth=0)
            ax.plot(
                x, y, color=colour, linewidth=1.6, linestyle="-" if colour == LEARNED else "--", label=escaped(label)
            )
    drift.axhline(0.0, color="0.7", linewidth=0.8, zorder=0.5)
    drift.set_ylabel(lines(drift_label(comparison.a, j), 24))
    noise.set_ylabel(lines(noise_label(comparison.a, j, j), 24))


def _differences(comparison: Comparison, i: int, drifts: Sequence[Axes], noises: Sequence[Axes]) -> None:
    """The differences of all outputs along one input, which are compared once, on axes of their own."""
    points = _along(comparison, i)
    drift = comparison.pair.drift(points, comparison.level)
    ratio = comparison.pair.variance_ratio(points, comparison.level)
    for j, name in enumerate(comparison.a.output_names[: len(drifts)]):
        _draw_band(drifts[j], points[:, i], drift, j, 0.0)
        unit = comparison.a.units.drift(name)
        drifts[j].set_ylabel(escaped(f"drift of {name},\n{with_unit('difference', unit)}"))
        _draw_band(noises[j], points[:, i], ratio, j, 1.0)
        noises[j].set_ylabel(escaped(f"variance of {name},\nratio"))


def _draw_band(ax: Axes, x: Float, band: Band, j: int, none: float) -> None:
    """One output's difference with its band, marked where what it is without a difference is beyond doubt."""
    middle, low, high = (own[:, j] for own in band)
    beyond = band.excludes(none)[:, j]
    ax.axhline(none, color="0.5", linewidth=0.8)
    ax.fill_between(x, low, high, color="0.6", alpha=0.4, linewidth=0, label="simultaneous band")
    ax.fill_between(
        x,
        low,
        high,
        where=beyond,
        color="#009E73",
        alpha=0.5,
        linewidth=0,
        label="beyond doubt" if beyond.any() else None,
    )
    ax.plot(x, middle, color="black", linewidth=1.4, label="difference")


def _along(comparison: Comparison, i: int) -> Float:
    """Places along one input, the others at their medians."""
    places = comparison.points
    points = np.repeat(np.median(places, axis=0)[None], N_ALONG, axis=0)
    edge = 0.0 if places.shape[1] == 1 else EDGE
    low, high = np.quantile(places[:, i], (edge, 1 - edge))
    points[:, i] = np.linspace(low, high, N_ALONG)
    return points
