"""Residual products of transitions on a grid, from the sums over its cells.

In a cell with the duration τ, the moves M = Σ Δx and the products Π = Σ Δx Δxᵀ / h, a drift f that hardly changes
within it leaves over

    Σ rrᵀ / h = Π − f Mᵀ − M fᵀ + τ f fᵀ,        r = Δx − h f,

so that no further pass over the transitions is needed.
"""

from __future__ import annotations

import numpy as np

from itofit._checks import Float, Int
from itofit.data.transitions import Transitions
from itofit.learning.automatic.cells import Cells, Sample, Values
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.sigma import Sigma
from itofit.matrices.symmetric import entries, factors, outer_entries
from itofit.waves.scaling import Scaling

MOST_WITHIN, WITHIN_QUANTILE = 0.75, 0.95
"""Of what a drift adds to squares by changing within a cell, relative to the squares of residuals: its quantile.

Squares of normal numbers are small once in a while, so that this is about 250 times the ratio of their means where that
is the same everywhere; and it sees a twentieth of the data where the noise is weak.
"""

LARGE_CHANGE, MOST_CHANGED = 0.7, 0.005
"""Of the logarithm of a variance within a cell, in any direction; and the share of the data that it may be more for."""

Amplitudes = tuple[Float, Float]
"""Intercept (d,) and c (R, d) of a drift."""


def moves_and_products(block: Transitions, fold: Int) -> Float:
    """Δx and the entries of Δx Δxᵀ / h."""
    products = outer_entries(block.increments / np.sqrt(block.h)[:, None], "full")
    return np.concatenate([block.increments, products], axis=1)


def products_on_grid(cells: Cells, X: Float, basis: Basis, folds: list[Amplitudes], side: int) -> Cells | None:
    """Cells of the entries of rrᵀ/h under the drift of each fold; None if drifts change too much within a cell.

    Parameters
    ----------
    cells : Cells
        Of the moves and of the entries of Δx Δxᵀ / h, on a grid.
    X : array of shape (n, R)
        Features of the drifts there.
    basis : Basis
        Of these.
    folds : list
        A drift for the cells of each fold.
    side : int
        Cells along each input.
    """
    sample = cells.sample
    if sample is None:
        return None
    f = _drifts(basis, folds, sample.u, sample.fold)
    residual = (sample.increments - sample.h[:, None] * f) / np.sqrt(sample.h)[:, None]
    there = _drifts(basis, folds, _elsewhere_in_cells(sample, side), sample.fold)
    if _changes_within_cells(there - f, residual, sample.h):
        return None
    d = residual.shape[1]
    rows, cols = entries("full", d)
    f, moves = _of_folds(X, folds, cells.fold), cells.sums[:, :d]
    cross = f[:, rows] * moves[:, cols] + moves[:, rows] * f[:, cols]
    sums = cells.sums[:, d:] - cross + cells.duration[:, None] * f[:, rows] * f[:, cols]
    squares = (outer_entries(residual, "full") ** 2).mean(axis=0) * cells.count.sum()
    return cells._replace(sums=sums, squares=squares)


def products_of_rows(cells: Cells, X: Float, folds: list[Amplitudes]) -> Cells:
    """Cells of the entries of rrᵀ/h under the drift of each fold, where every cell is one transition.

    Parameters
    ----------
    cells : Cells
        Of the moves first.
    X : array of shape (n, R)
        Features of the drifts there.
    folds : list
        A drift for the cells of each fold.
    """
    moves = cells.sums[:, : len(folds[0][0])]
    residual = moves - cells.duration[:, None] * _of_folds(X, folds, cells.fold)
    sums = outer_entries(residual / np.sqrt(cells.duration)[:, None], "full")
    return cells._replace(sums=sums, squares=np.einsum("nc,nc->c", sums, sums))


def products_of_block(basis: Basis, folds: list[Amplitudes], scaling: Scaling) -> Values:
    """For `Plan.gather`: the entries of rrᵀ/h of each transition under the drift of its fold."""
    series = [basis.series(*fold, scaling) for fold in folds]

    def values(block: Transitions, fold: Int) -> Float:
        residual = block.increments.copy()
        for k, own in enumerate(series):
            mine = np.flatnonzero(fold == k)
            if len(mine):
                residual[mine] -= block.h[mine, None] * own(block.inputs[mine])
        return outer_entries(residual / np.sqrt(block.h)[:, None], "full")

    return values


def _drifts(basis: Basis, folds: list[Amplitudes], u: Float, fold: Int) -> Float:
    """The drift of its fold at each of some scaled points: shape (n, d)."""
    values = basis.sums(u, np.concatenate([c for _, c in folds], axis=1)).reshape(len(u), len(folds), -1)
    values = values + np.array([intercept for intercept, _ in folds])
    return np.asarray(values[np.arange(len(u)), fold])


def _of_folds(X: Float, folds: list[Amplitudes], fold: Int) -> Float:
    """The same for features X (n, R) of the points."""
    values = np.zeros((len(X), len(folds[0][0])))
    for k, (intercept, c) in enumerate(folds):
        mine = np.flatnonzero(fold == k)
        values[mine] = intercept + X[mine] @ c
    return values


def _changes_within_cells(difference: Float, residual: Float, h: Float) -> bool:
    """Whether differences (s, d) of drifts within one cell are seen in residuals (s, d) of transitions of lengths h."""
    ratio = h[:, None] * difference**2 / np.maximum(residual**2, 1e-300)
    return bool((np.quantile(ratio, WITHIN_QUANTILE, axis=0) > MOST_WITHIN).any())


def noise_changes_within_cells(cells: Cells, sigma: Sigma, side: int) -> bool:
    """Whether Σ changes so much within cells that their sums do not tell enough: where noise vanishes or turns, say."""
    sample = cells.sample
    if sample is None or sigma.constant:
        return False
    here, there = (sigma.at(u) for u in (sample.u, _elsewhere_in_cells(sample, side)))
    back = np.linalg.inv(factors(here))
    ratios = np.linalg.eigvalsh(back @ there @ back.swapaxes(1, 2))
    far = np.abs(np.log(np.maximum(ratios, 1e-300))).max(axis=1) > LARGE_CHANGE
    return bool(far.mean() > MOST_CHANGED)


def _elsewhere_in_cells(sample: Sample, side: int) -> Float:
    """Another place in the cell of each row, or in the next one: shape (s, m)."""
    elsewhere = sample.u + np.random.default_rng(0).uniform(-0.5 / side, 0.5 / side, sample.u.shape)
    return np.clip(elsewhere, -0.5, 0.5)
