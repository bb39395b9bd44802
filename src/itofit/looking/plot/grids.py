"""Figures of several panels: slices along every input, and the overview that suits the number of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from itofit._checks import InputError, shown
from itofit.data.passes import Data
from itofit.data.transitions import Transitions
from itofit.data.units import behind
from itofit.looking.plot.canvas import (
    drift_label,
    drift_name,
    escaped,
    figure_or_new,
    grid_of_axes,
    lines,
    noise_label,
    noise_name,
    number_text,
    panels_size,
    shared_legend,
)
from itofit.looking.plot.curves import (
    Curve,
    diffusion,
    draw_curve,
    draw_data,
    drift,
    drift_curve,
    variance_curve,
    y_range,
)
from itofit.looking.plot.fields import field
from itofit.looking.plot.maps import heatmap
from itofit.looking.plot.potentials import potential
from itofit.looking.plot.views import NumberOrName, View, checked, rest_point, slice_title, variable, view_of
from itofit.matrices.symmetric import entries
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SLICES = 6
"""Inputs, and outputs, that slices are drawn of: more panels in a row or column would be too small to read."""


def slices(
    sde: LearnedSDE,
    data: Data | None = None,
    *,
    inputs: Sequence[NumberOrName] | None = None,
    outputs: Sequence[NumberOrName] | None = None,
    figure: Figure | None = None,
) -> Figure:
    """All components of the drift and all variances along every input, the other inputs at their medians.

    Parameters
    ----------
    sde : LearnedSDE
    data : Transitions, optional
        As for `drift`.
    inputs, outputs : sequences of int or str, optional
        Which ones, by number or name. Default: all, if there are no more than six.
    figure : Figure, optional
        Where to draw, also a part of a figure. Default: a new one.

    Returns
    -------
    Figure
        With a row of panels for the drift of each output, then one for the variance of each; a column for each input.

    Examples
    --------
    >>> figure = itofit.plot.slices(sde, data, outputs=["v"])  # doctest: +SKIP
    """
    rows = checked(sde, data)
    columns, chosen = _chosen("inputs", inputs, sde.input_names), _chosen("outputs", outputs, sde.output_names)
    views = [view_of(sde, rows, i) for i in columns]
    quantities = [(drift_label(sde, j), [drift_curve(sde, view, j) for view in views]) for j in chosen]
    quantities += [(noise_label(sde, j, j), [variance_curve(sde, view, j, j) for view in views]) for j in chosen]
    n, m = len(quantities), len(views)
    figure = figure_or_new(figure, (max(1.2 + 2.5 * m, 5.0), 0.7 + 1.9 * n))
    panels = figure.subplots(n, m, sharex="col", sharey="row", squeeze=False)
    for line, (label, curves) in zip(panels, quantities, strict=True):
        _row(list(line), views, curves, label)
    for ax, view in zip(panels[-1], views, strict=True):
        ax.set_xlabel(lines(view.name, 26))
    _title_and_legend(figure, sde, rows, panels[0])
    return figure


def _row(line: list[Axes], views: list[View], curves: list[Curve], label: str) -> None:
    """Draw one quantity along all inputs, with the same range in all panels."""
    ranges = [y_range(view, [curve]) for view, curve in zip(views, curves, strict=True)]
    for ax, view, curve in zip(line, views, curves, strict=True):
        draw_curve(ax, view, curve)
        draw_data(ax, view)
        ax.set_xlim(view.x[0], view.x[-1])
    line[0].set_ylim(min(low for low, _ in ranges), max(high for _, high in ranges))
    line[0].set_ylabel(lines(label.replace(" of ", "\nof ", 1), 20))


def _title_and_legend(figure: Figure, sde: LearnedSDE, data: Transitions | None, panels: Iterable[Axes]) -> None:
    """A title that says where the other inputs rest, and one legend for all panels."""
    if sde.n_inputs > 1:
        point, chosen = rest_point(sde, data, None)
        width = int(11 * figure.bbox.width / figure.dpi)
        figure.suptitle(slice_title(sde, (), point, chosen, width).replace("at ", "others at ", 1), fontsize="medium")
    shared_legend(figure, panels)


def _chosen(argument: str, given: Sequence[NumberOrName] | None, names: tuple[str, ...]) -> list[int]:
    """Numbers of the chosen variables, all by default."""
    if given is None:
        if len(names) > MOST_SLICES:
            raise InputError(f"there are {len(names)} {argument}, too many to draw: choose some with {argument}=")
        return list(range(len(names)))
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise InputError(f"{argument} must be a list of numbers or names, at least one, got {shown(given)}")
    return [variable(argument, each, names) for each in given]


def overview(sde: LearnedSDE, data: Data | None = None, *, figure: Figure | None = None) -> Figure:
    """The picture of a model that suits its number of variables.

    With one variable drift, variance and potential; with two inputs the field, if they are what moves, and maps of all
    components of the drift and entries of the covariance, which the title states if it is constant; otherwise slices,
    of the first six inputs and outputs.

    Parameters
    ----------
    sde : LearnedSDE
    data : Transitions, optional
        As for `drift`.
    figure : Figure, optional
        Where to draw, also a part of a figure. Default: a new one.

    Returns
    -------
    Figure

    Examples
    --------
    >>> figure = itofit.plot.overview(sde, data)  # doctest: +SKIP
    """
    rows = checked(sde, data)
    m, d = sde.n_inputs, sde.n_outputs
    if m > 2 or d > 2:
        figure = slices(sde, rows, inputs=range(min(m, MOST_SLICES)), outputs=range(min(d, MOST_SLICES)), figure=figure)
        if m > MOST_SLICES or d > MOST_SLICES:
            figure.suptitle(
                f"The first {MOST_SLICES} of {max(m, d)} variables: {figure.get_suptitle()}", fontsize="medium"
            )
        return figure
    panels = panels_of(sde, rows)
    columns, size = (len(panels), (4.4, 3.6)) if m == 1 else (3, (4.6, 3.9))
    figure = figure_or_new(figure, panels_size(len(panels), columns, size))
    for ax, panel in zip(grid_of_axes(figure, len(panels), columns), panels, strict=True):
        panel.draw(ax=ax)
    if m > 1 and sde.noise_is_constant:
        figure.suptitle(f"The noise is the same everywhere: {constant_noise_text(sde)}", fontsize="medium")
    return figure


def constant_noise_text(sde: LearnedSDE) -> str:
    """The entries of a Σ that is the same everywhere, in a line."""
    sigma = sde.covariance(sde.box.mean(axis=0)[None])[0]
    rows, columns = entries(sde.structure, sde.n_outputs)
    names = [escaped(name) for name in sde.output_names]
    return ", ".join(
        f"Σ[{names[i]}, {names[j]}] = {number_text(sigma[i, j])}"
        + escaped(behind(sde.units.covariance(sde.output_names[i], sde.output_names[j])))
        for i, j in zip(rows, columns, strict=True)
    )


class Panel(NamedTuple):
    """A function that draws on the axes it is given as ``ax=``, and a phrase that says what it draws."""

    draw: Callable[..., Axes]
    about: str


def panels_of(sde: LearnedSDE, data: Data | None) -> list[Panel]:
    """The panels of `overview` for a model with one or two inputs."""
    names, outputs = ", ".join(sde.input_names), range(sde.n_outputs)
    pairs = [(j, j) for j in outputs]
    drifts, noises = [drift_name(sde, j) for j in outputs], [noise_name(sde, j, j) for j in outputs]
    if sde.n_inputs == 1:
        panels = [Panel(partial(drift, sde, data, output=j), drifts[j]) for j in outputs]
        panels += [Panel(partial(diffusion, sde, data, entry=pair), noises[pair[0]]) for pair in pairs]
        if sde.kind == "diffusion":
            panels.append(Panel(partial(potential, sde, data), f"potential of {names}"))
        return panels
    if sde.noise_is_constant:
        pairs, noises = [], []
    elif sde.structure == "full" and sde.n_outputs == 2:
        pairs.append((0, 1))
        noises.append(noise_name(sde, 0, 1))
    panels = [Panel(partial(heatmap, sde, data, what="drift", entry=j), f"map of the {drifts[j]}") for j in outputs]
    panels += [
        Panel(partial(heatmap, sde, data, what="covariance", entry=pair), f"map of the {noise}")
        for pair, noise in zip(pairs, noises, strict=True)
    ]
    if sde.kind == "general" or len(sde.state_names) < 2:
        return panels
    return [Panel(partial(field, sde, data), f"flow of {names}, and its noise"), *panels]
