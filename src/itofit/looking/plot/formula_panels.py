"""A formula beside the learned functions: its lines, and where it predicts as well as they do and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import InputError
from itofit.data.passes import Data
from itofit.data.transitions import Transitions
from itofit.data.units import with_unit
from itofit.looking.plot.canvas import (
    DATA,
    INTERVAL_STDS,
    LEARNED,
    SECOND,
    escaped,
    figure_or_new,
    grid_of_axes,
    lines,
    panels_size,
)
from itofit.looking.plot.curves import STRIP, Curve, draw_curve, draw_data, drift_curve, variance_curve, y_range
from itofit.looking.plot.views import View, checked, view_of
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.lines import Line
from itofit.model.formula.written import line_name
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.4, 3.4)
COLUMNS = 3
MOST_LINES = 9
"""Of a formula that are drawn beside the learned functions."""
LEAST_SHARE = 0.01
"""Of the data in a bin that decides the range of losses."""


def formula(
    formula: Formula, sde: LearnedSDE | None = None, data: Data | None = None, *, figure: Figure | None = None
) -> Figure:
    """Where a formula predicts as well as the learned functions and where not; with these, both of them.

    Parameters
    ----------
    formula : Formula
    sde : LearnedSDE, optional
        The learned functions: each line is drawn with them along the input that it depends on most, the others at their
        medians in the data.
    data : Transitions, optional
        As for `drift`.
    figure : Figure, optional
        Where to draw. Default: a new one.

    Returns
    -------
    Figure
        The last panels, one for each input, are the loss of the formula above that of the learned functions, in nats
        per transition: above zero the learned functions know more.

    Examples
    --------
    >>> figure = itofit.plot.formula(sde.formula(data), sde, data)  # doctest: +SKIP
    """
    if not isinstance(formula, Formula):
        raise InputError(f"formula must be a Formula, as LearnedSDE.formula returns it, got {type(formula).__name__}")
    rows = None if sde is None else checked(sde, data)
    shown = [] if sde is None else [*formula.drift_lines, *formula.noise_lines][:MOST_LINES]
    losses = [] if formula.prediction is None else list(range(formula.n_inputs))
    n = len(shown) + len(losses)
    if not n:
        raise InputError("there is nothing to draw: give sde=, the learned functions, to see the formula beside them")
    figure = figure_or_new(figure, panels_size(n, COLUMNS, PANEL))
    panels = grid_of_axes(figure, n, COLUMNS)
    for ax, line in zip(panels, shown, strict=False):
        assert sde is not None
        draw_line(ax, formula, sde, rows, line)
    for ax, place in zip(panels[len(shown) :], losses, strict=True):
        draw_losses(ax, formula, place)
    _share_legend(figure, panels)
    return figure


def _share_legend(figure: Figure, panels: list[Axes]) -> None:
    """One legend under all panels, where it hides nothing."""
    handles: dict[str, Any] = {}
    for ax in panels:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        if (own := ax.get_legend()) is not None:
            own.remove()
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False, fontsize="small"
    )


def draw_line(ax: Axes, formula: Formula, sde: LearnedSDE, data: Transitions | None, line: Line) -> Axes:
    """A line of a formula with the learned function, along the input on which it depends most."""
    view = view_of(sde, data, _along(formula, line))
    learned = _learned_curve(sde, view, line)
    draw_curve(ax, view, learned)
    draw_data(ax, view)
    values = line(view.points)
    ax.plot(view.x, values, color=SECOND, linewidth=1.8, linestyle="--", label="formula")
    ax.set(xlim=view.x[[0, -1]], ylim=y_range(view, [learned, Curve(values, positive=learned.positive)]))
    ax.set(xlabel=lines(_label(formula, line_input(formula, line)), 48), ylabel=escaped(_line_label(formula, line)))
    if view.title:
        ax.set_title(view.title, fontsize="small")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _learned_curve(sde: LearnedSDE, view: View, line: Line) -> Curve:
    what, row, column = line.slot
    if what == "drift":
        return drift_curve(sde, view, row)
    if what == "covariance":
        return variance_curve(sde, view, row, column)
    return Curve(sde.diffusion(view.points)[:, row, column], positive=row == column)


def _along(formula: Formula, line: Line) -> int:
    """The input on which a line changes most over the range; its own variable if it is constant."""
    middle = np.tile(formula.box.mean(axis=0), (41, 1))
    changes = []
    for place in range(formula.n_inputs):
        points = middle.copy()
        points[:, place] = np.linspace(formula.box[0, place], formula.box[1, place], 41)
        changes.append(np.ptp(line(points)) if len(line.terms) else 0.0)
    if max(changes) > 0:
        return int(np.argmax(changes))
    name = formula.output_names[line.slot.row]
    return formula.input_names.index(name) if name in formula.input_names else 0


def line_input(formula: Formula, line: Line) -> str:
    """The name of the input along which a line is drawn."""
    return formula.input_names[_along(formula, line)]


def _label(formula: Formula, name: str) -> str:
    """The name of a variable with its unit, as on an axis."""
    return escaped(formula.units.labelled(name))


def _line_label(formula: Formula, line: Line) -> str:
    """The name of a line with its unit."""
    (what, i, j), units = line.slot, formula.units
    row, column = formula.output_names[i], formula.output_names[j]
    unit = {
        "drift": units.drift(row),
        "covariance": units.covariance(row, column),
        "diffusion": units.diffusion(row),
    }[what]
    return with_unit(line_name(formula, line.slot), unit)


def draw_losses(ax: Axes, formula: Formula, place: int) -> Axes:
    """Loss of a formula above that of the learned functions, along one input."""
    assert formula.prediction is not None
    edges, share, difference, error = (part[place] for part in formula.prediction.where)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1] - edges[0])
    ax.axhline(0.0, color="0.4", linewidth=0.9, zorder=0.5)
    heights = STRIP * share / max(float(share.max()), 1e-12)
    ax.bar(
        middle, heights, 2 * half, color=DATA, alpha=0.6, linewidth=0, transform=ax.get_xaxis_transform(), label="data"
    )
    known = np.isfinite(difference)
    worse = known & (difference > INTERVAL_STDS * np.where(known, error, 1.0))
    for rows, colour, marker, label in (
        (known & ~worse, LEARNED, "o", "formula as good"),
        (worse, SECOND, "s", "formula worse"),
    ):
        if rows.any():
            bars = INTERVAL_STDS * error[rows]
            ax.errorbar(
                middle[rows], difference[rows], bars, fmt=marker, color=colour, markersize=4, capsize=2, label=label
            )
    ax.set(xlim=edges[[0, -1]], xlabel=lines(_label(formula, formula.input_names[place]), 48))
    ax.set_ylabel("loss above that of the\nlearned functions [nats]")
    shown = known & (share >= LEAST_SHARE)
    if shown.any():  # a few transitions at the edge do not decide the range
        reach = INTERVAL_STDS * error[shown]
        low, high = (
            min(0.0, float((difference[shown] - reach).min())),
            max(0.0, float((difference[shown] + reach).max())),
        )
        ax.set_ylim(low - 0.3 * (high - low), high + 0.1 * (high - low))
    ax.legend(frameon=False, fontsize="small")
    return ax
