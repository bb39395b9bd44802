"""Distributions of simulated paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import Case
from itofit.experiments.figures.drawing import (
    HIDDEN,
    WIDTH,
    empty_figure,
    outside_text,
    style,
    title_height,
    titled_figure,
    wrapped,
)
from itofit.experiments.results import TRUTH, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure


@style()
def trajectory_distributions(
    case: Case, runs: Sequence[Run], labels: Mapping[str, str], methods: Sequence[str]
) -> Figure:
    """Density of simulated paths over time and value, of the truth and of the methods, a row for each component.

    Lines are the mean and the 5 % and 95 % quantiles of the paths within the bins, those of the truth dashed. Colours
    reach up to the density that 99.5 % of the occupied bins of a row have. The greatest share of paths that is outside
    the bins at any time is printed above a panel.

    Parameters
    ----------
    case, runs, labels, methods
        As for `true_against_trained`.

    Returns
    -------
    Figure
    """
    simulated = {run.method: run for run in reversed(runs) if run.histogram.size}
    shown = [simulated[method] for method in (TRUTH, *methods) if method in simulated]
    if not shown:
        return empty_figure(case, "no simulated paths")
    n_rows, n_columns = len(case.components), len(shown)
    width = min(WIDTH, 1.6 + 3.0 * n_columns)
    panel = (width - 1.6) / n_columns
    titles = [labels.get(run.method, run.method) for run in shown]
    note = "solid: mean, 5 % and 95 % quantiles of the simulated paths; dashed: those of the truth"
    figure = titled_figure(case, width, 1.2 + title_height(titles, panel) + n_rows * max(1.9, 0.75 * panel), note)
    places = figure.subplots(n_rows, n_columns, sharex=True, sharey="row", squeeze=False)
    for c, component in enumerate(case.components):
        meshes = [_draw_density(axes, case, run, c) for axes, run in zip(places[c], shown, strict=True)]
        occupied = np.concatenate([array[array > 0] for array in (np.asarray(mesh.get_array()) for mesh in meshes)])
        for mesh in meshes:
            mesh.set_clim(0.0, float(np.quantile(occupied, 0.995)) if occupied.size else 1.0)
        figure.colorbar(meshes[0], ax=places[c].tolist(), label="density", extend="max", aspect=15, pad=0.01)
        for axes, run in zip(places[c], shown, strict=True):
            _draw_moments(axes, case, run, c, dashed=False)
            if run.method != TRUTH and TRUTH in simulated:
                _draw_moments(axes, case, simulated[TRUTH], c, dashed=True)
        places[c, 0].set_ylabel(component)
    for axes, title in zip(places[0], titles, strict=True):
        axes.set_title(f"{wrapped(title, panel)}\n{axes.get_title()}".strip())
    for axes in places[-1]:
        axes.set_xlabel("time t")
    return figure


def _draw_density(axes: Axes, case: Case, run: Run, c: int) -> QuadMesh:
    shares, edges = run.histogram[c], run.edges[c]
    end = case.n_steps * case.time_step
    half = 0.5 * end / max(len(shares) - 1, 1)
    times = np.linspace(-half, end + half, len(shares) + 1)
    mesh = axes.pcolormesh(times, edges, (shares / np.diff(edges)).T, cmap="magma_r", rasterized=True)
    axes.set(xlim=(0, end), ylim=(edges[0], edges[-1]))
    outside = 1 - shares.sum(axis=1).min()
    if outside > HIDDEN:
        axes.set_title(outside_text(outside))
    return mesh


def _draw_moments(axes: Axes, case: Case, run: Run, c: int, dashed: bool) -> None:
    """Draw mean and quantiles over time, in white with black edges or black dashes on white: visible on any shade."""
    from matplotlib import patheffects  # noqa: PLC0415

    line, edge = ("black", "white") if dashed else ("white", "black")
    effects = [patheffects.withStroke(linewidth=2.2 if dashed else 3.0, foreground=edge)]
    look: dict[str, Any] = {"color": line, "linewidth": 1.0 if dashed else 1.8, "path_effects": effects}
    times = np.linspace(0, case.n_steps * case.time_step, len(run.histogram[c]))
    for values in mean_and_quantiles(run.histogram[c], run.edges[c]):
        axes.plot(times, values, linestyle=(0, (3, 2)) if dashed else "-", **look)


def mean_and_quantiles(shares: Float, edges: Float) -> Float:
    """Mean, 5 % and 95 % quantile of histograms (T, B), shape (3, T); values are uniform within a bin."""
    with np.errstate(invalid="ignore"):
        within = shares / shares.sum(axis=1, keepdims=True)
    cumulated = np.concatenate([np.zeros((len(shares), 1)), within.cumsum(axis=1)], axis=1)
    quantiles = [[np.interp(q, row, edges) for row in cumulated] for q in (0.05, 0.95)]
    return np.array([within @ (0.5 * (edges[1:] + edges[:-1])), *quantiles])
