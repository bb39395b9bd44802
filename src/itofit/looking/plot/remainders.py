"""What the model does not explain: residuals against the normal distribution and against the inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtr, ndtri

from itofit._checks import Float, InputError
from itofit.data.units import NO_UNITS
from itofit.looking.check import Diagnosis
from itofit.looking.check.residuals import BIN_ROWS
from itofit.looking.plot.canvas import (
    INTERVAL_STDS,
    LOOKS,
    escaped,
    few_ticks,
    figure_or_new,
    grid_of_axes,
    lines,
    panels_size,
)
from itofit.looking.plot.views import checked
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN_BINS = 16
"""Bins of an input that are drawn: more would touch each other."""
N_QUANTILES, N_EXTREMES = 200, 10
"""Quantiles that are drawn, spread evenly, and the smallest and largest that are always among them."""
COLUMNS, PANEL = 3, (4.2, 3.5)
"""Panels in a row, and width and height of each in inches."""


def residuals(
    diagnosis: Diagnosis, *, axes: Iterable[Axes] | None = None, sde: LearnedSDE | None = None
) -> npt.NDArray[Any]:
    """Standardised residuals, which are independent standard normals if the model is right.

    The first panel compares their quantiles with those of the normal distribution: between the grey lines they would
    be in 19 of 20 cases. The others show mean (full markers, 0 if the model is right) and variance (open ones, 1) in
    bins of each input that hold equally many rows, with 95 % intervals.

    Parameters
    ----------
    diagnosis : Diagnosis
        As `itofit.check` returns it.
    axes : 1 + m Axes, optional
        Default: those of a new figure.
    sde : LearnedSDE, optional
        For the names of the variables and their units. Default: the names in the diagnosis.

    Returns
    -------
    array of 1 + m Axes

    Examples
    --------
    >>> axes = itofit.plot.residuals(itofit.check(sde, data), sde=sde)  # doctest: +SKIP
    """
    if not isinstance(diagnosis, Diagnosis):
        raise InputError(f"diagnosis must be what itofit.check returns, got {type(diagnosis).__name__}")
    z, x = diagnosis.residuals, diagnosis.inputs
    inputs, outputs = _names(diagnosis, sde)
    panels = _panels(axes, 1 + x.shape[1])
    _quantiles(panels[0], z, outputs)
    for ax, values, name in zip(panels[1:], x.T, inputs, strict=True):
        _binned(ax, values, z, name, outputs)
    drawn = np.empty(len(panels), dtype=object)
    drawn[:] = panels
    return drawn


def _names(diagnosis: Diagnosis, sde: LearnedSDE | None) -> tuple[list[str], list[str]]:
    m, d = len(diagnosis.input_names), len(diagnosis.output_names)
    named: LearnedSDE | Diagnosis = diagnosis
    if sde is not None:
        checked(sde, None)
        named = sde
    if sde is not None and (sde.n_inputs, sde.n_outputs) != (m, d):
        raise InputError(
            f"the diagnosis is of another model: it has {m} inputs and {d} outputs, sde has {sde.n_inputs} and "
            f"{sde.n_outputs}"
        )
    units = NO_UNITS if sde is None else sde.units
    return [escaped(units.labelled(name)) for name in named.input_names], [escaped(name) for name in named.output_names]


def _panels(axes: Iterable[Axes] | None, n: int) -> list[Axes]:
    if axes is None:
        return grid_of_axes(figure_or_new(None, panels_size(n, COLUMNS, PANEL)), n, COLUMNS)
    panels = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(panels) != n or not all(hasattr(ax, "plot") for ax in panels):
        raise InputError(f"axes must be {n} matplotlib Axes, for quantiles and each input, got {len(panels)}")
    return panels


# Quantiles


def _quantiles(ax: Axes, z: Float, outputs: list[str]) -> None:
    """Quantiles of the residuals of each output against those of the normal distribution."""
    n = len(z)
    rank = _ranks(n)
    expected = ndtri((rank + 0.5) / n)
    for edge in (0.025, 0.975):
        at = ndtri(betaincinv(rank + 1, n - rank, edge))
        ax.plot(expected, at, color="0.6", linewidth=0.8, label="95 % if normal" if edge < 0.5 else None)
    ax.plot(expected, expected, color="0.3", linewidth=1.0)
    look: dict[str, Any] = {"markersize": 3.5, "alpha": 0.85, "linewidth": 0}
    for (color, marker, _), name, column in zip(_looks(len(outputs)), outputs, np.sort(z, axis=0).T, strict=True):
        ax.plot(expected, column[rank], color=color, marker=marker, label=name, **look)
        look["fillstyle"] = "none"  # all but the first, so that they do not hide it
    ax.set(xlabel="quantile of the normal distribution", ylabel="quantile of the residuals")
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def _ranks(n: int) -> npt.NDArray[np.intp]:
    """Ranks whose normal quantiles are spread evenly, and the most extreme ones."""
    end = float(ndtri(1 - 0.5 / n))
    share = ndtr(np.linspace(-end, end, N_QUANTILES))
    inner = np.clip(np.rint(share * n - 0.5), 0, n - 1).astype(np.intp)
    ends = np.arange(min(N_EXTREMES, n))
    return np.unique(np.concatenate([inner, ends, n - 1 - ends]))


# Bins


class Binned(NamedTuple):
    """Mean and variance of residuals in bins of one input, with standard errors, (b,) each."""

    x: Float
    mean: Float
    mean_error: Float
    variance: Float
    variance_error: Float


def binned(x: Float, z: Float) -> Binned:
    """Moments of z (n,) in bins of x (n,) that hold equally many rows."""
    n_bins = int(np.clip(len(x) // BIN_ROWS, 1, MOST_DRAWN_BINS))
    rows = []
    for part in np.array_split(np.argsort(x, kind="stable"), n_bins):
        values, n = z[part], len(part)
        mean = values.mean()
        second, fourth = np.mean((values - mean) ** 2), np.mean((values - mean) ** 4)
        variance = second * n / max(n - 1, 1)
        rows.append((x[part].mean(), mean, np.sqrt(second / n), variance, np.sqrt(max(fourth - second**2, 0.0) / n)))
    return Binned(*np.array(rows).T)


def _binned(ax: Axes, x: Float, z: Float, name: str, outputs: list[str]) -> None:
    """Mean and variance of all outputs' residuals in bins of one input."""
    for value, word in ((0.0, "mean"), (1.0, "variance")):
        ax.axhline(value, color="0.5", linewidth=0.9, zorder=0.5)
        look: dict[str, Any] = {"rotation": 90, "va": "center", "fontsize": "small"}
        ax.annotate(word, (1.0, value), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points", **look)
    several = len(outputs) > 1
    for (color, marker, _), output, column in zip(_looks(len(outputs)), outputs, z.T, strict=True):
        b = binned(x, column)
        look = {"color": color, "marker": marker, "markersize": 4.5, "linestyle": "", "linewidth": 1.1}
        label = f"of {output}" if several else ""
        ax.errorbar(b.x, b.mean, INTERVAL_STDS * b.mean_error, **look, label=f"mean {label}".strip())
        ax.errorbar(
            b.x,
            b.variance,
            INTERVAL_STDS * b.variance_error,
            **look,
            markerfacecolor="white",
            label=f"variance {label}".strip(),
        )
    ax.set(xlabel=lines(name, 40), ylabel="residuals in bins")
    ax.margins(y=0.12)
    few_ticks(ax, 5)


def _looks(n: int) -> list[Any]:
    return [LOOKS[i % len(LOOKS)] for i in range(n)]
