"""True against trained functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import Case
from itofit.experiments.figures.drawing import (
    HIDDEN,
    LOOKS,
    OTHER_LOOK,
    WIDTH,
    by_method,
    corner,
    empty_figure,
    moments,
    outside_text,
    style,
    title_height,
    titled_figure,
    wrapped,
)
from itofit.experiments.results import TRUTH, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_COLUMNS = 6
"""Panels beside each other, unless there are more methods than that."""


class _Panel(NamedTuple):
    """An entry of f or σ as one method learned it: values at the points of its best run, and those of its others."""

    name: str
    method: str
    title: str
    points: Float
    true: Float
    trained: Float
    others: list[tuple[Float, Float]]


@style()
def true_against_trained(case: Case, runs: Sequence[Run], labels: Mapping[str, str], methods: Sequence[str]) -> Figure:
    """True and trained entries of f and σ, the methods beside each other.

    Shown is the run of lowest loss of each method. With one input the entries are drawn over it, with other runs
    faint; with more, trained values are drawn against true ones, or as a histogram where the truth is constant. The
    axis of trained values ends at most one range of the true values beyond these; shares outside are printed.

    Parameters
    ----------
    case, runs, labels
        As for `loss_against_time`.
    methods : sequence of str
        Which to show, in this order.

    Returns
    -------
    Figure
    """
    groups = {method: [run for run in group if np.isfinite(run.loss)] for method, group in by_method(runs).items()}
    shown = [method for method in methods if groups.get(method)]
    if not shown:
        return empty_figure(case, "no runs")
    panels = [_panels(case, runs, groups[method], labels.get(method, method)) for method in shown]
    figure, width, places = _places(case, [entries[0].title for entries in panels])
    for axes, entry in zip(places, zip(*panels, strict=True), strict=True):
        _draw_entry(case, axes, entry, width)
    return figure


def _entries(case: Case) -> list[tuple[int, int]]:
    """Rows and columns of the learned entries of σ."""
    d = case.n_outputs
    if case.structure == "diagonal":
        return [(i, i) for i in range(d)]
    entries = [(i, j) for i in range(d) for j in range(i + 1)]
    return entries if case.factor == "cholesky" else sorted((j, i) for i, j in entries)


def _names(case: Case) -> list[str]:
    """Names of the entries of f, then of those of σ."""
    variables = ", ".join(case.inputs) if all(len(name) == 1 for name in case.inputs) else "x"
    numbers = ("",) if case.n_outputs == 1 else tuple("₁₂₃₄₅₆₇₈₉"[: case.n_outputs])
    names = [f"f{i}" for i in numbers] + [f"σ{numbers[i]}{numbers[j]}" for i, j in _entries(case)]
    return [f"{name}({variables})" for name in names]


def _places(case: Case, titles: Sequence[str]) -> tuple[Figure, float, list[list[Axes]]]:
    """A figure, the width of a panel, and for each entry axes for each method: rows of f, then rows of σ."""
    n_methods, sizes = len(titles), (case.n_outputs, len(_entries(case)))
    per_row = max(1, min(max(sizes), MAX_COLUMNS // n_methods))
    heights = [-(-size // per_row) for size in sizes]
    width = min(WIDTH, 0.6 + 3.3 * per_row * n_methods)
    panel = width / (per_row * n_methods)
    note = "run of lowest loss of each method; dashed: truth" + ("; faint: other runs" if case.n_inputs == 1 else "")
    if max(len(name) for name in case.inputs) > 2:
        note += f"; x = ({', '.join(case.inputs)})"
    height = 0.8 + sum(heights) * (0.45 + title_height(titles, panel) + max(1.2, 0.65 * panel))
    figure = titled_figure(case, width, height, note)
    grid = figure.add_gridspec(sum(heights), per_row * n_methods)
    places = []
    for size, above in zip(sizes, (0, heights[0]), strict=True):
        for i in range(size):
            row, column = above + i // per_row, i % per_row * n_methods
            first = figure.add_subplot(grid[row, column])
            others = [
                figure.add_subplot(grid[row, column + k], sharex=first, sharey=first) for k in range(1, n_methods)
            ]
            places.append([first, *others])
    return figure, panel, places


def _panels(case: Case, runs: Sequence[Run], group: Sequence[Run], label: str) -> list[_Panel]:
    best = min(group, key=lambda run: run.loss)
    truths = [run for run in runs if run.method == TRUTH and run.run == best.run]
    true = (truths[0].drift, truths[0].covariance) if truths else None
    true_values = _values(case, *(true or (case.truth.drift(best.points), case.truth.covariance(best.points))))
    values = _values(case, best.drift, best.covariance)
    rest = [(run.points, _values(case, run.drift, run.covariance)) for run in group if run is not best]
    title = f"{label}, run\N{NO-BREAK SPACE}{best.run}"
    return [
        _Panel(name, best.method, title, best.points, true_values[:, k], values[:, k], [(x, y[:, k]) for x, y in rest])
        for k, name in enumerate(_names(case))
    ]


def _values(case: Case, drift: Float, covariance: Float) -> Float:
    """The entries of f and σ, shape (n, number of entries); nan where Σ has no square root."""
    usable = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)))
    eigenvalues = np.linalg.eigvalsh(covariance[usable])
    usable = usable[eigenvalues[:, 0] > 1e-15 * eigenvalues[:, -1]]
    sigma = np.full(covariance.shape, np.nan)
    sigma[usable] = case.shown_diffusion(covariance[usable])
    rows, columns = np.array(_entries(case)).T
    return np.column_stack([drift, sigma[:, rows, columns]])


def _draw_entry(case: Case, places: Sequence[Axes], panels: Sequence[_Panel], width: float) -> None:
    """Draw one entry as all methods learned it, with the same axes for each."""
    true, trained = (np.concatenate(arrays) for arrays in zip(*((p.true, p.trained) for p in panels), strict=True))
    true, trained = true[np.isfinite(true)], trained[np.isfinite(trained)]
    low, high = _window(true, trained)
    first, name = places[0], panels[0].name
    for axes, panel in zip(places, panels, strict=True):
        if case.n_inputs == 1:
            _draw_functions(axes, panel)
            axes.set(xlabel=case.inputs[0], ylim=(low, high + 0.2 * (high - low)))
        elif _constant(true):
            shares = _draw_histogram(axes, panel, np.linspace(low, high, 41))
            axes.set(xlabel=f"trained {name}", xlim=(low, high), ylim=(0, max(1.4 * shares, axes.get_ylim()[1])))
        else:
            _draw_scatter(axes, panel)
            axes.set(xlabel=f"true {name}", xlim=_window(true, true), ylim=(low, high))
        outside = np.mean((panel.trained < low) | (panel.trained > high) | ~np.isfinite(panel.trained))
        with np.errstate(over="ignore"):
            error = np.sqrt(moments((panel.trained - panel.true) ** 2)[0])
        corner(axes, f"RMSE {error:.3g}" + (f"\n{outside_text(float(outside))}" if outside > HIDDEN else ""))
        axes.set_title(wrapped(panel.title, width))
        axes.locator_params(axis="x", nbins=3 if width < 2.5 else 6)
        axes.locator_params(axis="y", nbins=4 if width < 2.5 else 6)
        axes.tick_params(labelleft=axes is first)
    first.set_ylabel(name if case.n_inputs == 1 else "share of points" if _constant(true) else f"trained {name}")


def _constant(true: Float) -> bool:
    return true.size == 0 or bool(np.ptp(true) <= 1e-12 + 1e-8 * np.abs(true).max())


def _window(true: Float, trained: Float) -> tuple[float, float]:
    """A range for trained values: at most one range of the true values beyond these, or 99 % if those are constant."""
    if not trained.size:
        low, high = (float(true.min()), float(true.max())) if true.size else (0.0, 0.0)
    elif _constant(true):
        inside = np.append(np.quantile(trained, [0.005, 0.995]), true[:1])
        low, high = float(inside.min()), float(inside.max())
    else:
        reach = np.ptp(true)
        inside = np.append(true, trained.clip(true.min() - reach, true.max() + reach))
        low, high = float(inside.min()), float(inside.max())
    size = max(abs(low), abs(high))
    margin = 0.06 * (high - low) if high - low > 1e-9 * size else 0.1 * size or 0.1
    return low - margin, high + margin


def _draw_functions(axes: Axes, panel: _Panel) -> None:
    """Draw true and trained values over the only input."""
    colour = LOOKS.get(panel.method, OTHER_LOOK)[0]
    for points, trained in panel.others:
        order = np.argsort(points[:, 0])
        axes.plot(points[order, 0], trained[order], color=colour, alpha=0.25, linewidth=0.7, rasterized=True)
    order = np.argsort(panel.points[:, 0])
    x = panel.points[order, 0]
    axes.plot(x, panel.true[order], color="0.35", linewidth=2.6, linestyle=(0, (3, 1.5)), label="true")
    axes.plot(x, panel.trained[order], color=colour, linewidth=1.2, label="trained")


def _draw_histogram(axes: Axes, panel: _Panel, edges: Float) -> float:
    """Draw a histogram of the trained values with the true one; returns the largest share."""
    shares = np.histogram(panel.trained[np.isfinite(panel.trained)], edges)[0] / len(panel.trained)
    axes.stairs(shares, edges, fill=True, color=LOOKS.get(panel.method, OTHER_LOOK)[0], alpha=0.7)
    axes.axvline(panel.true[0], color="black", linewidth=1.4, linestyle=(0, (3, 1.5)), ymax=0.75)
    return float(shares.max())


def _draw_scatter(axes: Axes, panel: _Panel) -> None:
    colour = LOOKS.get(panel.method, OTHER_LOOK)[0]
    axes.scatter(panel.true, panel.trained, s=5, color=colour, alpha=0.5, linewidths=0, rasterized=True)
    axes.axline((0, 0), slope=1, color="black", linewidth=1.0, linestyle=(0, (3, 1.5)))
