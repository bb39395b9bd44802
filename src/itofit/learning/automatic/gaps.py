"""Between few data: a drift is kept near its mean where nothing was seen, and its error bars know that.

Transitions of a few short tracks lie in clumps, and most places between the smallest and the largest value of each
input were never visited. There a drift that fits the clumps may be anything: slopes along a direction in which they
hardly extend, or a cubic through two of them. But it is unlikely to be much larger than where it was seen. So the drift
of up to FEW_ROWS transitions gets a prior on its values between them. With features φ at places z that lie, input by
input, somewhere between two transitions, and s² the mean square of f − f̄ at the data, amplitudes c add

    k/s² cᵀ (E φ(z)φ(z)ᵀ − B E φ(x)φ(x)ᵀ)₊ c

to the squares that are minimised: a mean square of s² over those places, shared by the k directions of c in which they
say more than B times as much as the data do, which the positive part of the matrix keeps. Where data are everywhere,
there are hardly any such directions, and next to nothing changes.

Error bars for given frequencies know nothing of other functions that fit as well. A few transitions leave room for
these, too. So as many random waves as suit functions that vary over some part of the range, with amplitudes that make
them as large as f − f̄, are fitted to the same transitions, and what the data leave open of them is added to the
variance. It is little where transitions are, and s² far from all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.learning.automatic.drift import Drift, DriftCells
from itofit.learning.automatic.evidence import Solved
from itofit.learning.automatic.penalised import penalised_solution
from itofit.learning.automatic.principal import Basis
from itofit.model.training import SWITCHED_OFF
from itofit.waves.series import FourierSeries

PLACES = 400
"""Between the data."""
BEYOND = 4.0
"""B: how much more a feature must vary between the data than at them, in mean squares. That of an input that is
Gaussian varies less."""
LEAST_SIZE = 4.0
"""The least s², in units of the variance of a constant drift: more would hardly be seen."""
MATTERS = 0.01
"""Mean square of a change of the drift, in units of the noise of one transition, that changes Σ as well."""
LENGTH = 0.4
"""Of the range of an input, over which other functions vary."""
WAVES = 40
"""Frequencies of these."""


def between(u: Float, rng: np.random.Generator) -> Float:
    """Places (PLACES, m), each input of which is somewhere between those of two of the points u (n, m)."""
    m = u.shape[1]
    one, other = (np.take_along_axis(u, rng.integers(len(u), size=(PLACES, m)), axis=0) for _ in range(2))
    return np.asarray(one + rng.random((PLACES, m)) * (other - one))


def near_its_mean(drift: Drift, rows: DriftCells, basis: Basis, u: Float, rng: np.random.Generator) -> Drift:
    """The drift with a prior on its values between the points u (n, m) of rows; the same if there is no gap at all."""
    if not rows.X.shape[1]:
        return drift
    apart = _excess(rows.X, basis.at(between(u, rng)))
    if not apart.any():
        return drift
    d, n_systems = len(drift.unit), len(drift.systems)
    squares = _mean_squares(drift, rows) / drift.unit**2 + LEAST_SIZE / len(u)
    whole = [(drift.intercept, drift.c), *drift.folds]
    amplitudes = np.array([np.concatenate([a[:, None], c.T], axis=1) / drift.unit[:, None] for a, c in whole])
    parts = amplitudes.reshape(len(whole), n_systems, -1).copy()
    systems, determined = [], 0.0
    for s, (own, sizes) in enumerate(zip(drift.systems, np.split(squares, n_systems), strict=True)):
        Q = _penalty(own, sizes, apart)
        A = own.A + Q
        parts[:, s] -= [penalised_solution(A, Q @ c, own.P) for c in parts[:, s]]
        systems.append(own._replace(A=A, c=parts[0, s]))
        used = np.ix_(on := own.P < SWITCHED_OFF, on)
        determined += float(np.trace(np.linalg.solve(A[used] + np.diag(own.P[on]), own.A[used])))
    solved = [(part[:, 0], part[:, 1:].T) for part in drift.unit[:, None] * parts.reshape(len(whole), d, -1)]
    (intercept, c), *folds = solved
    return replace(drift, intercept=intercept, c=c, folds=folds, systems=systems, determined=determined)


def differ(one: Drift, other: Drift, rows: DriftCells) -> bool:
    """Whether two drifts differ so much at the data that the noise around them does."""
    change = (one.intercept - other.intercept + rows.X @ (one.c - other.c)) / one.unit
    return bool((np.mean(change**2, axis=0) > MATTERS).any())


def with_other_functions(
    spread: FourierSeries,
    drift: Drift,
    rows: DriftCells,
    u: Float,
    rng: np.random.Generator,
    periodic: npt.NDArray[np.bool_],
) -> FourierSeries:
    """Functions whose squares add up to the variances of a drift, and those of others that fit as well.

    Parameters
    ----------
    spread : FourierSeries
        Of the drift alone.
    drift : Drift
    rows : DriftCells
        What it was learned from.
    u : array of shape (n, m)
        Their points, scaled.
    rng : Generator
    periodic : array of bool, shape (m,)
        Which inputs are: whole numbers of waves fit into their range.
    """
    d, m = len(drift.unit), u.shape[1]
    squares = _mean_squares(drift, rows)
    if not squares.any():
        return spread
    omega = rng.standard_normal((WAVES, m)) / LENGTH
    omega[:, periodic] = 2 * np.pi * np.round(omega[:, periodic] / (2 * np.pi))
    phase = u @ omega.T
    X = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(WAVES)  # of unit variance altogether
    known, vectors = np.linalg.eigh(X.T @ (rows.duration[:, None] / rows.duration.mean() * X))
    size = np.sqrt(squares[:, None] / (1 + squares[:, None] / drift.unit[:, None] ** 2 * np.maximum(known, 0.0)))
    real = vectors / np.sqrt(WAVES) * size[:, None]  # (d, 2K, 2K): amplitudes of cosines and sines of each function
    beta = (real[:, :WAVES] - 1j * real[:, WAVES:]).transpose(1, 0, 2)
    K, q = spread.n_features, spread.n_outputs // d
    joined = np.zeros((K + WAVES, d, q + 2 * WAVES), dtype=complex)
    joined[:K, :, :q], joined[K:, :, q:] = spread.beta.reshape(K, d, q), beta
    offset = np.concatenate([spread.offset.reshape(d, q), np.zeros((d, 2 * WAVES))], axis=1)
    return replace(
        spread,
        omega=np.concatenate([spread.omega, omega]),
        beta=joined.reshape(K + WAVES, -1),
        offset=offset.ravel(),
    )


def _mean_squares(drift: Drift, rows: DriftCells) -> Float:
    """Of f − f̄ at the data, for each output: shape (d,). If f was moved to constants, of what it was before."""
    solved = [penalised_solution(own.A, own.b, own.P) for own in drift.systems]
    c = np.concatenate(solved).reshape(len(drift.unit), -1)[:, 1:].T * drift.unit
    share, f = rows.duration / rows.duration.sum(), rows.X @ c
    return np.asarray(share @ (f - share @ f) ** 2)


def _excess(at_data: Float, apart: Float) -> Float:
    """The positive part (R, R) of second moments of features between data, less B times those at the data."""
    moments = apart.T @ apart / len(apart) - BEYOND * (at_data.T @ at_data) / len(at_data)
    values, vectors = np.linalg.eigh(moments)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _penalty(solved: Solved, squares: Float, apart: Float) -> Float:
    """What the prior adds to A (q, q) of some outputs, of which f − f̄ has mean squares (p,)."""
    size = len(solved.P) // len(squares)
    Q = np.zeros_like(solved.A)
    for j, square in enumerate(squares):
        own = slice(j * size + 1, (j + 1) * size)
        on = solved.P[own] < SWITCHED_OFF
        k = np.linalg.matrix_rank(apart[np.ix_(on, on)], hermitian=True) if on.any() else 0
        Q[own, own] = max(int(k), 1) / square * apart
    return Q
