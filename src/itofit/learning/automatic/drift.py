"""The drift weighted by Σ⁻¹, at given frequencies.

The negative log-likelihood of a cell (`itofit.learning.automatic.cells`) with the duration τ and the moves M = Σ Δx
is, in the drift f and up to constants,

    ½ (τ fᵀΣ⁻¹f − 2 fᵀΣ⁻¹M),

so all cells together are a least-squares problem with weights τ Σ⁻¹ that couples the outputs. Its ridges, one for each
output and group of frequencies, maximise the evidence. So what one output owes to one input is found for each pair, and
a noise that is nearly singular makes all outputs as accurate as the combination that it leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float, Int
from itofit.learning.automatic.cells import FOLDS
from itofit.learning.automatic.evidence import (
    OFF,
    SETTLED,
    Basis,
    Solved,
    first_ridges,
    given_ridges,
    solve_penalised,
    updated_ridges,
    with_intercept,
)

MOST_ROUNDS = 40


class Drift(NamedTuple):
    """A drift intercept + X c for given frequencies."""

    intercept: Float  # (d,)
    c: Float  # (R, d)
    ridges: Float  # (d, G), for outputs in their units
    unit: Float  # (d,)
    determined: float  # number of amplitudes that the data determine
    folds: list[tuple[Float, Float]]  # intercept and c without the data of each fold
    systems: list[Solved]  # intercept and c of outputs that know of each other, in units of `unit`
    squares: Float = np.empty((0, 0, 0))  # (d, R + 1, R + 1): of their errors, once known (`itofit.learning.spread`)

    @property
    def amplitudes(self) -> Float:
        """Intercept and c of each output: shape (d, R + 1)."""
        return np.concatenate([self.intercept[:, None], self.c.T], axis=1)

    def turned(self, operators: Float) -> Drift:
        """The drift whose amplitudes are those of this one, output by output turned by matrices (d, R + 1, R + 1)."""
        amplitudes = np.einsum("jab,jb->ja", operators, self.amplitudes)
        squares = operators @ self.squares @ operators.swapaxes(1, 2)
        return self._replace(intercept=amplitudes[:, 0], c=amplitudes[:, 1:].T, squares=squares)


def normal_matrix(X: Float, weight: Float) -> Float:
    """Σ_n W_n ⊗ x_n x_nᵀ for features X (n, R) and weights (n, d, d): shape (dR, dR)."""
    d, R = weight.shape[1], X.shape[1]
    H = np.empty((d, R, d, R))
    for i in range(d):
        x = X.T * np.sqrt(weight[:, i, i])
        H[i, :, i] = x @ x.T  # half the work of a product of two matrices
        for j in range(i):
            coupled = weight[:, i, j].any()
            H[i, :, j] = (X.T * weight[:, i, j]) @ X if coupled else 0.0
            H[j, :, i] = H[i, :, j].T
    return H.reshape(d * R, d * R)


def weighted_drift(
    X: Float,
    basis: Basis,
    duration: Float,
    moves: Float,
    precision: Float,
    fold: Int,
    ridge: float | None = None,
) -> Drift:
    """The drift of largest evidence for weights τ Σ⁻¹, and that without each fold of the data.

    Parameters
    ----------
    X : array of shape (n, R)
        Principal features at the cells.
    basis : Basis
        Theirs.
    duration, moves : arrays of shape (n,) and (n, d)
        τ and M.
    precision : array of shape (n, d, d) or (1, d, d)
        Σ⁻¹ at the cells, or one for all.
    fold : array of shape (n,)
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    """
    d, (n, R) = moves.shape[1], X.shape
    if d > 1 and not precision[:, ~np.eye(d, dtype=bool)].any():  # the outputs do not know of each other
        alone = [
            weighted_drift(X, basis, duration, moves[:, [j]], precision[:, [j]][:, :, [j]], fold, ridge)
            for j in range(d)
        ]
        return Drift(
            intercept=np.concatenate([f.intercept for f in alone]),
            c=np.concatenate([f.c for f in alone], axis=1),
            ridges=np.concatenate([f.ridges for f in alone]),
            unit=np.concatenate([f.unit for f in alone]),
            determined=sum(f.determined for f in alone),
            folds=[
                (np.concatenate([a for a, _ in parts]), np.concatenate([c for _, c in parts], axis=1))
                for parts in zip(*(f.folds for f in alone), strict=True)
            ],
            systems=[part for f in alone for part in f.systems],
        )
    ones = with_intercept(X)
    H, g = np.zeros((FOLDS, d * (R + 1), d * (R + 1))), np.zeros((FOLDS, d * (R + 1)))
    for k in range(FOLDS):
        rows = fold == k
        own = precision if len(precision) == 1 else precision[rows]
        H[k], g[k] = _normal_equations(ones[rows], duration[rows], moves[rows], own)
    unit = np.sqrt(n / np.diagonal(H.sum(axis=0))[:: R + 1])  # of each output, so that ridges have none
    scale = np.repeat(unit, R + 1)
    H, g = H * np.outer(scale, scale), g * scale
    with one_blas_thread:
        total, right = H.sum(axis=0), g.sum(axis=0)
        given = None if ridge is None else np.repeat(given_ridges(ridge, n, basis)[None], d, axis=0)
        ridges, P = best_ridges(total, right, basis, d, given)
        solution, inverse_diagonal, _ = solve_penalised(total, right, P)
        folds = [solve_penalised(total - H[k], right - g[k], P)[0] for k in range(FOLDS)]
    parts = [(scale * part).reshape(d, -1) for part in (solution, *folds)]
    split = [(part[:, 0], part[:, 1:].T) for part in parts]
    solved = [Solved(total, right, P, solution, ridge_groups(basis, d))]
    return Drift(*split[0], ridges, unit, float((1 - inverse_diagonal * P).sum()), split[1:], solved)


def resolved_drift(blocks: Iterable[tuple[Float, Float, Float, Float]], basis: Basis, drift: Drift) -> Drift:
    """A drift solved again on other data with the same ridges.

    Parameters
    ----------
    blocks : iterable of (X, h, moves, precision)
        Of shapes (n, R), (n,), (n, d), and (n, d, d) or (1, d, d).
    basis : Basis
    drift : Drift
    """
    d = len(drift.ridges)
    P = amplitude_ridges(drift.ridges, basis)
    scale = np.repeat(drift.unit, len(P) // d)
    H, g = np.zeros((len(P), len(P))), np.zeros(len(P))
    for X, h, moves, precision in blocks:
        more, right = _normal_equations(with_intercept(X), h, moves, precision)
        H += more
        g += right
    H, g = H * np.outer(scale, scale), g * scale
    solution, inverse_diagonal, _ = solve_penalised(H, g, P)
    parts = (scale * solution).reshape(d, -1)
    determined = float((1 - inverse_diagonal * P).sum())
    solved = [Solved(H, g, P, solution, ridge_groups(basis, d))]
    return Drift(parts[:, 0], parts[:, 1:].T, drift.ridges, drift.unit, determined, [], solved)


def _normal_equations(ones: Float, duration: Float, moves: Float, precision: Float) -> tuple[Float, Float]:
    """Left and right side of generalised least squares, shapes (d (R + 1), d (R + 1)) and (d (R + 1),)."""
    if len(precision) == 1:
        x = ones.T * np.sqrt(duration)
        return np.kron(precision[0], x @ x.T), (precision[0] @ (moves.T @ ones)).ravel()
    H = normal_matrix(ones, duration[:, None, None] * precision)
    return H, (np.einsum("nij,nj->in", precision, moves) @ ones).ravel()


def amplitude_ridges(ridges: Float, basis: Basis) -> Float:
    """The ridge of every amplitude, output by output, its intercept first: shape (d (R + 1),)."""
    place = _places(basis)
    P = np.zeros((len(ridges), len(place) + 1))
    P[:, 1:] = ridges[:, place] * basis.penalty
    return P.ravel()


def _places(basis: Basis) -> Int:
    """The place of each feature's group among all groups, which ascend: shape (R,)."""
    return np.cumsum(np.diff(basis.group, prepend=basis.group[:1]) != 0)


def ridge_groups(basis: Basis, d: int) -> Int:
    """Which amplitudes have a ridge in common, output by output; −1 for intercepts: shape (d (R + 1),)."""
    place = _places(basis)
    of_output = np.arange(d)[:, None] * (place.max(initial=-1) + 1) + place
    return np.asarray(np.concatenate([np.full((d, 1), -1), of_output], axis=1).ravel())


def best_ridges(
    H: Float,
    g: Float,
    basis: Basis,
    d: int,
    given: Float | None,
    ridges: Float | None = None,
    rounds: int = MOST_ROUNDS,
    variance: float = 1.0,
) -> tuple[Float, Float]:
    """Ridges (d, G) of largest evidence for noise of known variance, and the ridge of each amplitude, (d (R + 1),).

    The first of the R + 1 amplitudes of an output is its intercept, without a ridge.
    """
    groups, G = ridge_groups(basis, d), len(np.unique(basis.group))
    penalised = groups >= 0
    everywhere = groups[penalised]  # output and group of each amplitude with a ridge
    penalty = np.tile(basis.penalty, d)
    if ridges is None:
        ridges = np.repeat(first_ridges(basis)[None], d, axis=0)
    if given is not None:
        return given, amplitude_ridges(given, basis)
    flat = ridges.ravel()
    for _ in range(rounds):
        P = amplitude_ridges(flat.reshape(d, G), basis)
        active = P < OFF
        c = np.zeros(len(P))
        inverse_diagonal = np.zeros(len(P))
        c[active], inverse_diagonal[active], _ = solve_penalised(H[np.ix_(active, active)], g[active], P[active])
        shares = np.where(active, 1 - inverse_diagonal * P, 0.0)[penalised]
        determined = np.bincount(everywhere, np.clip(shares, 0.0, 1.0), d * G).astype(float)
        used = np.bincount(everywhere, penalty * c[penalised] ** 2, d * G).astype(float)
        new = updated_ridges(flat, determined, variance, used)
        moved = np.abs(np.log(new / flat)).max(initial=0.0)
        flat = new
        if moved < SETTLED:
            break
    return flat.reshape(d, G), amplitude_ridges(flat.reshape(d, G), basis)
