"""The drift weighted by Σ⁻¹, at given frequencies.

The negative log-likelihood of a cell (`itofit.learning.automatic.cells`) with the duration τ and the moves M = Σ Δx
is, in the drift f and up to constants,

    ½ (τ fᵀΣ⁻¹f − 2 fᵀΣ⁻¹M),

so all cells together are a least-squares problem with weights τ Σ⁻¹ that couples the outputs. Its ridges, one for each
output and group of frequencies, maximise the evidence. So what one output owes to one input is found for each pair, and
a noise that is nearly singular makes all outputs as accurate as the combination that it leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.cells import FOLDS, Cells
from itofit.learning.automatic.coupled import normal_matrix
from itofit.learning.automatic.evidence import (
    LEAST_NOISE,
    Solved,
    amplitude_ridges,
    best_ridges,
    first_ridges,
    given_ridges,
    ridge_groups,
    staying_groups,
)
from itofit.learning.automatic.fitted_waves import FittedWaves
from itofit.learning.automatic.penalised import Penalised, penalised_solution, solve_penalised
from itofit.learning.automatic.principal import Basis, with_intercept
from itofit.learning.automatic.sparsity import OddsOfZero, odds_of_zero
from itofit.learning.spread import Posterior, mean_squares
from itofit.matrices.symmetric import reference_factor, to_matrices
from itofit.waves.wave_groups import linear_terms

ROUNDS_OF_WEIGHTS = 4
"""Of generalised least squares, at most, until the residual covariance has settled."""
WEIGHTS_SETTLED = 0.02
"""Change of the residual covariance that changes the weights too little for another round."""
SIGNIFICANT_CORRELATION = 3.0
"""Standard errors of the correlation of two outputs' noise beyond which they are coupled."""


@dataclass(frozen=True, eq=False)
class Drift:
    """A drift intercept + X c for given frequencies."""

    intercept: Float  # (d,)
    c: Float  # (R, d)
    ridges: Float  # (d, G), for outputs in their units
    unit: Float  # (d,)
    determined: float  # number of amplitudes that the data determine
    folds: list[tuple[Float, Float]]  # intercept and c without the data of each fold
    systems: list[Solved]  # intercept and c of outputs that are coupled, in units of `unit`

    @cached_property
    def posterior(self) -> Posterior:
        """Intercept and c of each output, and the mean squares of their errors."""
        with one_blas_thread:
            squares = mean_squares(self.systems, self.unit)
        return Posterior(np.concatenate([self.intercept[:, None], self.c.T], axis=1), squares)

    @property
    def log_evidence(self) -> float:
        """Of the moves, given their noise, above that of a constant drift."""
        return sum(system.log_evidence for system in self.systems)


class DriftCells(NamedTuple):
    """What a drift is fitted to."""

    X: Float  # (n, R): principal features at the cells
    duration: Float  # (n,): τ
    moves: Float  # (n, d): M
    fold: Int  # (n,)

    def sums(self) -> FoldSums:
        """What a fit with one covariance for all places needs, fold by fold."""
        ones = with_intercept(self.X)
        G, b = [], []
        for rows in (np.flatnonzero(self.fold == k) for k in range(FOLDS)):
            own = np.take(ones.T, rows, axis=1)
            x = own * np.sqrt(self.duration[rows])
            G.append(x @ x.T)
            b.append(self.moves[rows].T @ own.T)
        return FoldSums(np.array(G), np.array(b))


class FoldSums(NamedTuple):
    """Sums over the cells of each fold, with the features (1, X)."""

    G: Float  # (FOLDS, R + 1, R + 1): Σ τ (1, X)(1, X)ᵀ
    b: Float  # (FOLDS, d, R + 1): Σ M (1, X)ᵀ


def cells_with(basis: Basis, cells: Cells, d: int) -> DriftCells:
    """Cells of the moves of d outputs with features."""
    return DriftCells(basis.at(cells.u), cells.duration, cells.sums[:, :d], cells.fold)


def weighted_drift(cells: DriftCells, basis: Basis, precision: Float, ridge: float | None = None) -> Drift:
    """The drift of largest evidence for weights τ Σ⁻¹, and that without each fold of the data.

    Parameters
    ----------
    cells : DriftCells
    basis : Basis
        Of their features.
    precision : array of shape (n, d, d) or (1, d, d)
        Σ⁻¹ at the cells, or one for all.
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    """
    if len(precision) == 1:
        return _drift_of_one_precision(cells.sums(), len(cells.X), basis, precision[0], ridge)
    d, ones = cells.moves.shape[1], with_intercept(cells.X)
    folds = [np.flatnonzero(cells.fold == k) for k in range(FOLDS)]

    def part(outputs: list[int]) -> Drift:
        own = precision[:, outputs][:, :, outputs]
        sides = [
            normal_equations(
                np.take(ones.T, rows, axis=1).T, cells.duration[rows], cells.moves[rows][:, outputs], own[rows]
            )
            for rows in folds
        ]
        H, g = (np.stack(side) for side in zip(*sides, strict=True))
        return _solved_drift(H, g, len(ones), len(outputs), basis, ridge)

    if d > 1 and not precision[:, ~np.eye(d, dtype=bool)].any():
        return _together([part([j]) for j in range(d)])
    return part(list(range(d)))


def _drift_of_one_precision(sums: FoldSums, n: int, basis: Basis, precision: Float, ridge: float | None) -> Drift:
    """`weighted_drift` for one Σ⁻¹ (d, d) at all of n cells."""
    d = len(precision)
    if d > 1 and not precision[~np.eye(d, dtype=bool)].any():
        G = sums.G * (n / sums.G[:, 0, 0].sum())  # in units of each output the same for all of them
        started = None
        if ridge is None:
            started = Penalised.of(G.sum(axis=0), amplitude_ridges(first_ridges(basis)[None], basis))
        unit = np.sqrt(n / (np.diagonal(precision) * sums.G[:, 0, 0].sum()))
        right = sums.b.swapaxes(0, 1) * (np.diagonal(precision) * unit)[:, None, None]
        return _together([_in_units(G, right[j], unit[[j]], n, basis, ridge, started) for j in range(d)])
    H = np.stack([np.kron(precision, G) for G in sums.G])
    g = np.stack([(precision @ b).ravel() for b in sums.b])
    return _solved_drift(H, g, n, d, basis, ridge)


def _together(drifts: list[Drift]) -> Drift:
    """The drift of all outputs, from those of decoupled ones."""
    return Drift(
        intercept=np.concatenate([f.intercept for f in drifts]),
        c=np.concatenate([f.c for f in drifts], axis=1),
        ridges=np.concatenate([f.ridges for f in drifts]),
        unit=np.concatenate([f.unit for f in drifts]),
        determined=sum(f.determined for f in drifts),
        folds=[
            (np.concatenate([a for a, _ in parts]), np.concatenate([c for _, c in parts], axis=1))
            for parts in zip(*(f.folds for f in drifts), strict=True)
        ],
        systems=[part for f in drifts for part in f.systems],
    )


def _solved_drift(H: Float, g: Float, n: int, d: int, basis: Basis, ridge: float | None) -> Drift:
    """The drift of d outputs that the noise couples, from the sides of `normal_equations` of each fold of n cells."""
    R = H.shape[1] // d - 1
    unit = np.sqrt(n / np.diagonal(H.sum(axis=0))[:: R + 1])  # of each output, so that ridges have none
    scale = np.repeat(unit, R + 1)
    return _in_units(H * np.outer(scale, scale), g * scale, unit, n, basis, ridge)


def _in_units(
    H: Float, g: Float, unit: Float, n: int, basis: Basis, ridge: float | None, started: Penalised | None = None
) -> Drift:
    """The same for sides in units (d,) of the outputs, of which a first round may be given as for `best_ridges`."""
    d = len(unit)
    with one_blas_thread:
        total, right = H.sum(axis=0), g.sum(axis=0)
        if ridge is None:
            first = np.repeat(first_ridges(basis)[None], d, axis=0)
            ridges = best_ridges(total, right, basis, first, started=started)
        else:
            ridges = np.repeat(given_ridges(ridge, n, basis)[None], d, axis=0)
        P = amplitude_ridges(ridges, basis)
        solution, inverse_diagonal, _ = solve_penalised(total, right, P)
        folds = [penalised_solution(total - H[k], right - g[k], P) for k in range(FOLDS)]
    scale = np.repeat(unit, len(P) // d)
    parts = [(scale * part).reshape(d, -1) for part in (solution, *folds)]
    split = [(part[:, 0], part[:, 1:].T) for part in parts]
    solved = [Solved(total, right, P, solution, ridge_groups(basis, d), stays=staying_groups(basis, d))]
    return Drift(*split[0], ridges, unit, float((1 - inverse_diagonal * P).sum()), split[1:], solved)


def drift_of_one_covariance(waves: FittedWaves, cells: Cells, rows: DriftCells, ridge: float | None) -> Drift:
    """Generalised least squares with the residual covariance of its own result as weight.

    Parameters
    ----------
    waves : FittedWaves
        What the search for frequencies ended with.
    cells : Cells
        Of moves and of the entries of Δx Δxᵀ / h.
    rows : DriftCells
        The same with the features.
    ridge : float or None
        Algorithm 1's λ, instead of ridges of largest evidence.
    """
    d, N = rows.moves.shape[1], cells.count.sum()
    products = to_matrices(cells.sums[:, d:].sum(axis=0)[None], "full", d)[0]
    back = np.linalg.inv(waves.V)
    noise = np.array([fit.variance for fit in waves.fits])
    precision = precision_of((back * noise) @ back.T * (cells.duration.sum() / N), N)
    sums = rows.sums()
    for _ in range(ROUNDS_OF_WEIGHTS):
        f = _drift_of_one_precision(sums, len(rows.X), waves.basis, precision, ridge)
        values = f.intercept + rows.X @ f.c
        cross = values.T @ rows.moves
        mean = (products - cross - cross.T + (values.T * cells.duration) @ values) / N
        own = np.diag_indices(d)
        mean[own] = np.maximum(mean[own], LEAST_NOISE * products[own] / N)  # cancellation leaves no more
        inverse = np.linalg.inv(reference_factor(mean))
        change = np.abs(np.linalg.eigvalsh(inverse @ np.linalg.inv(precision) @ inverse.T) - 1).max()
        precision = precision_of(mean, N)
        if change < WEIGHTS_SETTLED:
            break
    return f


def odds_of_terms(basis: Basis, drift: Drift) -> OddsOfZero | None:
    """How likely linear terms are zero, from those of a drift of several inputs and many data; None if not known."""
    linear, m = basis.linear, basis.omega.shape[1]
    places = 1 + np.flatnonzero(linear_terms(basis.group, m))
    if linear is None or linear.doubt > 0 or m == 1 or not len(places):  # periodic inputs have no linear terms
        return None
    squares = []
    for A, b, P, c, *_ in drift.systems:
        inverse_diagonal = solve_penalised(A, b, P)[1]
        size = len(basis.group) + 1
        own = (np.arange(0, len(c), size)[:, None] + places).ravel()
        variance = inverse_diagonal[own]
        squares.append(c[own] ** 2 / (variance * np.maximum(1 - P[own] * variance, 1e-9)))
    return odds_of_zero(np.concatenate(squares))


def precision_of(covariance: Float, N: float) -> Float:
    """The inverse of a covariance of N observations, diagonal if no correlation is significant."""
    L = reference_factor(covariance)
    unit = np.sqrt(np.diagonal(covariance))
    correlation = covariance / np.outer(unit, unit) - np.eye(len(unit))
    if np.abs(correlation).max() < SIGNIFICANT_CORRELATION / np.sqrt(N):
        return np.diag(1 / unit**2)
    inverse = np.linalg.inv(L)
    return np.asarray(inverse.T @ inverse)


def resolved_drift(
    equations: Sequence[tuple[Float, Float]], parts: Sequence[list[int]], basis: Basis, drift: Drift
) -> Drift:
    """A drift solved again with the same ridges.

    Parameters
    ----------
    equations : sequence
        The sums H and g of `normal_equations` over other data, for each part of the outputs.
    parts : sequence of list of int
        Outputs that are coupled with each other.
    basis, drift : Basis, Drift
    """
    return _together([_resolved(*sums, own, basis, drift) for sums, own in zip(equations, parts, strict=True)])


def _resolved(H: Float, g: Float, outputs: list[int], basis: Basis, drift: Drift) -> Drift:
    """Some outputs of it."""
    d, ridges, unit = len(outputs), drift.ridges[outputs], drift.unit[outputs]
    P = amplitude_ridges(ridges, basis)
    scale = np.repeat(unit, len(P) // d)
    H, g = H * np.outer(scale, scale), g * scale
    solution, inverse_diagonal, _ = solve_penalised(H, g, P)
    parts = (scale * solution).reshape(d, -1)
    determined = float((1 - inverse_diagonal * P).sum())
    solved = [Solved(H, g, P, solution, ridge_groups(basis, d), stays=staying_groups(basis, d))]
    return Drift(parts[:, 0], parts[:, 1:].T, ridges, unit, determined, [], solved)


def normal_equations(ones: Float, duration: Float, moves: Float, precision: Float) -> tuple[Float, Float]:
    """Left and right side of generalised least squares, shapes (d (R + 1), d (R + 1)) and (d (R + 1),)."""
    if len(precision) == 1:
        x = ones.T * np.sqrt(duration)
        return np.kron(precision[0], x @ x.T), (precision[0] @ (moves.T @ ones)).ravel()
    H = normal_matrix(ones, duration[:, None, None] * precision)
    return H, (np.einsum("nij,nj->in", precision, moves) @ ones).ravel()
