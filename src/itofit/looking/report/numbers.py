"""Drift and noise at a few points, as tables."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.transitions import Transitions
from itofit.data.units import behind, with_unit
from itofit.looking.plot.canvas import INTERVAL_STDS, number_text
from itofit.looking.plot.views import rest_point
from itofit.model.learned import LearnedSDE

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Where drift and noise of a single input are listed."""
LOW, HIGH = 0.1, 0.9
"""Quantiles to which one of several inputs is moved from its median."""
MOST_LISTED = 6
"""Inputs that are moved so, and outputs whose covariances are listed."""
PAIRS = 2
"""Pairs of outputs in a table of covariances: as many as fit on a phone."""


class Table(NamedTuple):
    """A title, the heads of the columns, and rows of cells."""

    title: str
    heads: list[str]
    rows: list[list[str]]


def tables_note(sde: LearnedSDE, data: Transitions) -> str:
    """A note that says what the numbers of the tables mean."""
    where = ""
    if sde.n_inputs > 1:
        values = zip(sde.input_names, rest_point(sde, data, None)[0], strict=True)
        named = ", ".join(f"{name} = {number_text(x)}{behind(sde.units.of(name))}" for name, x in values)
        where = f"Medians are {named}; in the other rows one input is at a quantile, the others at their medians. "
    if not sde.units.time:
        where += "All are per unit of time. "
    if not sde.has_error_bars:
        return f"{where}This model carries no error bars."
    of = "the mean rate and the covariance of one observed step"
    if sde.scheme == "corrected":
        of = "drift and covariance corrected for the length of the observed steps"
    return f"{where}Behind ± are 1.96 standard deviations, in brackets 95 % intervals: of {of}."


def representative_points(sde: LearnedSDE, data: Transitions) -> tuple[list[str], Float]:
    """Labels and points (k, m): quantiles of a single input; or all medians, and each input in turn low or high."""

    def label(i: int, x: float, quantile: float) -> str:
        name = sde.input_names[i]
        return f"{name} = {number_text(x)}{behind(sde.units.of(name))} ({round(100 * quantile)} %)"

    if sde.n_inputs == 1:
        quantiles = np.quantile(data.inputs, QUANTILES, axis=0)
        return [label(0, x, quantile) for (x,), quantile in zip(quantiles, QUANTILES, strict=True)], quantiles
    middle, _ = rest_point(sde, data, None)
    names, points = ["medians"], [middle]
    for i in range(min(sde.n_inputs, MOST_LISTED)):
        for quantile in (LOW, HIGH):
            point = middle.copy()
            point[i] = np.quantile(data.inputs[:, i], quantile)
            names.append(label(i, point[i], quantile))
            points.append(point)
    return names, np.array(points)


def tables(sde: LearnedSDE, data: Transitions) -> list[Table]:
    """A table of drift and variance for each output, and tables of covariances: all narrow enough for a phone."""
    names, points = representative_points(sde, data)
    listed = []
    for j, (drifts, variances) in enumerate(zip(_drifts(sde, points), _variances(sde, points), strict=True)):
        rows = [list(row) for row in zip(names, drifts, variances, strict=True)]
        name = sde.output_names[j]
        units = sde.units.drift(name), sde.units.covariance(name, name)
        heads = ["where", *map(with_unit, ("drift", "noise variance"), units)]
        if sde.noise_is_constant:
            rows, heads = [row[:2] for row in rows], heads[:2]
        listed.append(Table(name, heads, rows))
    if sde.structure == "full" and sde.n_outputs <= MOST_LISTED and not sde.noise_is_constant:
        pairs = list(_covariances(sde, points).items())
        for some in (pairs[k : k + PAIRS] for k in range(0, len(pairs), PAIRS)):
            rows = [list(row) for row in zip(names, *(cells for _, cells in some), strict=True)]
            listed.append(Table("noise covariance", ["where", *(pair for pair, _ in some)], rows))
    return listed


def constant_noise(sde: LearnedSDE) -> Table:
    """The matrix Σ of a noise that is the same everywhere."""
    middle = sde.box.mean(axis=0)[None]
    sigma = sde.covariance(middle)[0]
    std = sde.covariance(middle, return_std=True)[1][0] if sde.has_error_bars else None
    names = sde.output_names
    units = [[sde.units.covariance(one, other) for other in names] for one in names]
    shared = len({unit for row in units for unit in row}) == 1

    def cell(i: int, j: int) -> str:
        text = number_text(sigma[i, j]) if std is None else plus_minus(sigma[i, j], std[i, j])
        return text if shared else text + behind(units[i][j])

    rows = [[name, *(cell(i, j) for j in range(len(names)))] for i, name in enumerate(names)]
    symbol = with_unit("Σ", units[0][0]) if shared else "Σ"
    return Table(f"noise covariance {symbol}, the same everywhere", ["", *names], rows)


def _drifts(sde: LearnedSDE, points: Float) -> list[list[str]]:
    """The drift at the points (k, m): a column of k cells for each output."""
    if not sde.has_error_bars:
        return [[number_text(value) for value in column] for column in sde.drift(points).T]
    f, std = sde.drift(points, return_std=True)
    return [[plus_minus(a, b) for a, b in zip(*column, strict=True)] for column in zip(f.T, std.T, strict=True)]


def _variances(sde: LearnedSDE, points: Float) -> list[list[str]]:
    """The noise variance at the points (k, m): a column of k cells for each output."""
    sigma = sde.covariance(points)
    values = np.diagonal(sigma, axis1=1, axis2=2).T
    if not sde.has_error_bars:
        return [[number_text(value) for value in column] for column in values]
    low, high = (edge.T for edge in sde.variance_interval(points))
    return [
        [f"{number_text(v)} ({number_text(a)} to {number_text(b)})" for v, a, b in zip(*column, strict=True)]
        for column in zip(values, low, high, strict=True)
    ]


def _covariances(sde: LearnedSDE, points: Float) -> dict[str, list[str]]:
    """The noise covariance at the points (k, m): a column of k cells for each pair of outputs."""
    names, columns = sde.output_names, {}
    sigma = sde.covariance(points)
    std = sde.covariance(points, return_std=True)[1] if sde.has_error_bars else None
    for i in range(len(names)):
        for j in range(i):
            values = sigma[:, i, j]
            columns[with_unit(f"{names[j]} and {names[i]}", sde.units.covariance(names[j], names[i]))] = [
                number_text(value) if std is None else plus_minus(value, std[k, i, j]) for k, value in enumerate(values)
            ]
    return columns


def plus_minus(value: float, std: float) -> str:
    """A value ± 1.96 standard deviations: these with two digits, the value with as many decimals."""
    error = INTERVAL_STDS * std
    decimals = 1 - math.floor(math.log10(error)) if error > 0 else 99
    if not 0 <= decimals <= 5:
        return f"{number_text(value)} ± {number_text(error)}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")
