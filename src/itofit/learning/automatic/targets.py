"""What the searches for frequencies learn: means of the cells, weighted by what stands behind them."""

from __future__ import annotations

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.candidates import ResidualProducts
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.fitted_waves import Targets
from itofit.learning.automatic.walk import RIDGE, groups_for
from itofit.matrices.links import Shape
from itofit.matrices.symmetric import Structure, entries, to_matrices
from itofit.waves.normal_equations import (
    MOST_INPUTS,
    SPARE,
    ArrayPart,
    DirectNormalEquations,
    GriddedNormalEquations,
    NormalEquations,
    cheaper_form,
)
from itofit.waves.parameters import ARFF
from itofit.waves.scaling import Scaling

ACCURACY = 1e-12
"""Of sums from moments, which evidence needs."""
SPARE_OF_DRIFT = 1.75
"""How many more moments are made than those of the longest waves, so that they also do for four times shorter ones."""
MOST_ENTRIES = 10
"""Entries of Σ among which frequencies are searched; beyond, those on the diagonal alone."""
MOST_OF_THEM = (0.05, 0.95)
"""Quantiles between which most of the data are."""
NEAR_THE_DATA = 0.5
"""Of their range: so far from them may be where monomials are zero. What cannot be negative seldom reaches zero."""


def origin(low: Float, high: Float, scaling: Scaling) -> Float:
    """Zero of each input where it lies within the data or near them, else their middle, scaled: shape (m,)."""
    near = NEAR_THE_DATA * (high - low)
    zero = scaling.points(np.zeros((1, len(low))))[0]
    return np.where((low - near <= 0) & (high + near >= 0), zero, 0.0)


def drift_targets(cells: Cells, d: int, arff: ARFF) -> Targets:
    """Mean rates of the cells, weighted by their durations."""
    N, total = cells.count.sum(), cells.duration.sum()
    weight, moves = cells.duration * (N / total), cells.sums[:, :d]
    mean = moves.sum(axis=0) / total
    products = to_matrices(cells.sums[:, d:].sum(axis=0)[None], "full", d)[0]
    squares = (products / total - np.outer(mean, mean)) * N
    y = moves / cells.duration[:, None] - mean
    equations, spread = _equations(cells.u, y, weight, arff, SPARE_OF_DRIFT), _spread(cells.u, cells.count)
    return Targets(cells.u, y, weight, squares, N, equations, spread, mean, linear_stays=True)


def covariance_targets(products: ResidualProducts, structure: Structure, arff: ARFF) -> Targets:
    """Mean products of the cells, weighted by their numbers of transitions."""
    cells, d = products.cells, len(products.mean)
    S = products.in_units(structure)[1]
    N = cells.count.sum()
    rows, cols = entries(structure, d)
    chosen = np.arange(len(rows)) if len(rows) <= MOST_ENTRIES else np.flatnonzero(rows == cols)
    y = S[:, chosen] / cells.count[:, None]
    mean = S[:, chosen].sum(axis=0) / N
    between = (cells.count[:, None] * (y - mean) ** 2).sum(axis=0)
    within = np.where(rows == cols, 2.0, 1.0)[chosen] * (N - len(y))  # as for Gaussian products of unit variance
    if Shape(structure, d).separate:
        own = np.equal(*entries("full", d))
        variance = cells.sums[:, own].sum(axis=0) / N
        within = cells.squares[own] / variance**2 - (cells.count[:, None] * y**2).sum(axis=0)
    y = y - mean
    squares = np.diag(between + within)
    equations = _equations(cells.u, y, cells.count, arff)
    return Targets(cells.u, y, cells.count, squares, N, equations, _spread(cells.u, cells.count), mean)


def _equations(u: Float, y: Float, weight: Float, arff: ARFF, spare: float = SPARE) -> NormalEquations:
    K = len(groups_for(weight.sum(), u.shape[1], arff.n_features))
    form = arff.normal_equations or cheaper_form(len(u), K, u.shape[1], y.shape[1], RIDGE)
    if u.shape[1] == MOST_INPUTS and arff.normal_equations is None:
        form = "direct"  # moments are worth their making for hundreds of solves, and a search takes tens
    if form == "gridded":
        return GriddedNormalEquations(ArrayPart(u, y, weight, spare), ACCURACY)
    return DirectNormalEquations(u, y, weight)


def _spread(u: Float, weight: Float) -> Float:
    """By how much the range of each input exceeds that of nine tenths of the data, as it would be for uniform data."""
    spread = np.empty(u.shape[1])
    for i, column in enumerate(u.T):
        order = np.argsort(column)
        below = np.cumsum(weight[order])
        low, high = column[order][np.searchsorted(below, [share * below[-1] for share in MOST_OF_THEM])]
        spread[i] = max(1.0, 0.9 / max(high - low, 1e-6))
    return spread
