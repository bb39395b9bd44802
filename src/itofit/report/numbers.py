"""Drift and noise at a few points, as a table."""

from __future__ import annotations

import math

import numpy as np

from itofit._checks import Float
from itofit.plot.canvas import drift_label, noise_label, number_text, plain
from itofit.plot.curves import Z
from itofit.sde import LearnedSDE
from itofit.transitions import Transitions

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LOW, HIGH = 0.1, 0.9
MOST = 6
"""Inputs that are moved from their medians, and outputs whose covariances are listed."""


def table_note(sde: LearnedSDE) -> str:
    """What the numbers of the table are."""
    if sde.drift_spread is None:
        return "All are per unit of time. This model carries no error bars."
    of = "the mean rate and the covariance of one observed step"
    if sde.step_correction is not None:
        of = "drift and covariance corrected for the length of the observed steps"
    return f"All are per unit of time. Behind ± are 1.96 standard deviations, in brackets 95 % intervals: of {of}."


def representative_points(sde: LearnedSDE, data: Transitions) -> tuple[list[str], Float]:
    """What they are called, and points (k, m): quantiles of one input; or medians, and one input low or high."""
    if sde.n_inputs == 1:
        names = [f"{round(100 * q)} % quantile" for q in QUANTILES]
        return names, np.quantile(data.inputs, QUANTILES, axis=0)
    medians = np.median(data.inputs, axis=0)
    names, points = ["medians"], [medians]
    for i, name in enumerate(sde.input_names[:MOST]):
        for quantile, word in ((LOW, "low"), (HIGH, "high")):
            point = medians.copy()
            point[i] = np.quantile(data.inputs[:, i], quantile)
            names.append(f"{name} {word} ({round(100 * quantile)} %)")
            points.append(point)
    return names, np.array(points)


def points_table(sde: LearnedSDE, data: Transitions) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the table."""
    names, points = representative_points(sde, data)
    columns = {"where": names}
    columns |= {name: [number_text(value) for value in points[:, i]] for i, name in enumerate(sde.input_names)}
    for j, (drifts, variances) in enumerate(zip(_drifts(sde, points), _variances(sde, points), strict=True)):
        columns |= {plain(drift_label(sde, j)): drifts, plain(noise_label(sde, j, j)): variances}
    if sde.structure == "full" and sde.n_outputs <= MOST:
        columns |= _covariances(sde, points)
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _drifts(sde: LearnedSDE, points: Float) -> list[list[str]]:
    """A column for each output."""
    if sde.drift_spread is None:
        return [[number_text(value) for value in column] for column in sde.drift(points).T]
    f, std = sde.drift(points, return_std=True)
    return [[plus_minus(a, b) for a, b in zip(*column, strict=True)] for column in zip(f.T, std.T, strict=True)]


def _variances(sde: LearnedSDE, points: Float) -> list[list[str]]:
    """A column for each output."""
    sigma = sde.covariance(points)
    values = np.diagonal(sigma, axis1=1, axis2=2).T
    if sde.covariance_spread is None:
        return [[number_text(value) for value in column] for column in values]
    low, high = (edge.T for edge in sde.variance_interval(points))
    return [
        [f"{number_text(v)} ({number_text(a)} to {number_text(b)})" for v, a, b in zip(*column, strict=True)]
        for column in zip(values, low, high, strict=True)
    ]


def _covariances(sde: LearnedSDE, points: Float) -> dict[str, list[str]]:
    """A column for each pair of outputs."""
    names, found = sde.output_names, {}
    sigma = sde.covariance(points)
    std = None if sde.covariance_spread is None else sde.covariance(points, return_std=True)[1]
    for i in range(len(names)):
        for j in range(i):
            values = sigma[:, i, j]
            found[plain(noise_label(sde, j, i))] = [
                number_text(value) if std is None else plus_minus(value, std[k, i, j]) for k, value in enumerate(values)
            ]
    return found


def plus_minus(value: float, std: float) -> str:
    """A value with 1.96 standard deviations, two digits of them, and as many decimals of the value."""
    error = Z * std
    decimals = 1 - math.floor(math.log10(error)) if error > 0 else 99
    if not 0 <= decimals <= 5:
        return f"{number_text(value)} ± {number_text(error)}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")
