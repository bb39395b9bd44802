"""Least squares seen through a filter: how innovations and their covariances change with all that is learned.

======  =================  ===========================================================================
symbol  shape              meaning
======  =================  ===========================================================================
φ       (T, W, R + 1)      features of the drift, one first, at the filter's means
∂m      (W, D, q)          change of the state's mean with each of q parameters
∂P      (W, k, q)          change of its covariance, k = D (D + 1)/2
A, K    (W, D, D), …       slope of the step, and gain (`itofit.model.hidden.tracking`)
======  =================  ===========================================================================

A filter is linear in small changes of what it is told. With E = I − K H, where H picks the observed components,

    ∂m⁻ = A ∂m + ∂(mean of the step),                   ∂v = −H ∂m⁻,
    ∂P⁻ = A ∂P Aᵀ + ∂Q,                                 ∂S = H ∂P⁻ Hᵀ + ∂Λ,
    ∂m₊ = E ∂m⁻ + (E ∂P⁻ Hᵀ − K ∂Λ) S⁻¹ v,              ∂P₊ = E ∂P⁻ Eᵀ + K ∂Λ Kᵀ.

Amplitudes of the drift move means by ½ (I + A) h φ, those of the noise move Q by the mean of e^{Js} h ∂Σ e^{Jᵀs} over a
step (Simpson's rule). Innovations v are independent N(0, S), so to parameters θ belong the score and the information

    g = Σ (−∂v)ᵀ S⁻¹ v + ½ tr S⁻¹ ∂S S⁻¹ (vvᵀ − S),     I = Σ ∂vᵀ S⁻¹ ∂v + ½ tr S⁻¹ ∂S S⁻¹ ∂S.

Given the past, v has mean zero and vvᵀ has mean S. So g vanishes on average at the truth whatever the derivatives are:
what is neglected in them (that A and Q change with the mean, too) makes a step of scoring less accurate, and no bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.matrices.small_matrices import inverse_of_root, lower_root
from itofit.matrices.symmetric import entries
from itofit.model.hidden.tracking import Filtered
from itofit.model.hidden.windows import Chunk

BUFFER_ROWS = 8192
"""Rows of whitened derivatives that are collected before they are multiplied."""
LARGEST_NOISE_STEP = 5.0
"""The factor by which Λ may grow in a round."""


class Normal(NamedTuple):
    """Normal equations: information and score of parameters, added up."""

    information: Float  # (q, q)
    score: Float  # (q,)

    def plus(self, other: Normal) -> Normal:
        """Those of more data."""
        return Normal(self.information + other.information, self.score + other.score)

    def among(self, q: int, places: Int) -> Normal:
        """The same among q parameters, of which the others have no information."""
        if len(places) == q:
            return self
        information, score = np.zeros((q, q)), np.zeros(q)
        information[np.ix_(places, places)], score[places] = self
        return Normal(information, score)


class _Sums:
    """Sums of WᵀW and Wᵀe over rows W, e that come in small parts."""

    def __init__(self, q: int) -> None:
        self.information, self.score = np.zeros((q, q)), np.zeros(q)
        self.parts: list[tuple[Float, Float]] = []
        self.n = 0

    def add(self, W: Float, e: Float) -> None:
        """Rows W (n, q) and their targets e (n,)."""
        self.parts.append((W, e))
        self.n += len(e)
        if self.n >= BUFFER_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.parts:
            W, e = (np.concatenate(part) for part in zip(*self.parts, strict=True))
            self.information += W.T @ W
            self.score += W.T @ e
            self.parts, self.n = [], 0

    def result(self) -> Normal:
        self.flush()
        return Normal(self.information, self.score)


def of_drift(found: Filtered, chunk: Chunk, features: Float) -> Normal:
    """Normal equations of the amplitudes of the drift: d (R + 1), output by output.

    Parameters
    ----------
    found : Filtered
    chunk : Chunk
    features : array of shape (T, W, R + 1)
        At the filter's means where steps start.
    """
    W, D, d = found.K.shape[1:]
    R = features.shape[2]
    moves, back = _half_way(found.slope), _white(found.S)
    sums = _Sums(d * R)
    G = np.zeros((W, D, d, R))
    for t, n in enumerate(chunk.active.tolist()):
        flat = G[:n].reshape(n, D, d * R)
        flat = flat * found.slope[t, :n] if D == 1 else found.slope[t, :n] @ flat
        own = flat.reshape(n, D, d, R)
        step = chunk.h[t, :n, None] * features[t, :n]
        own += moves[t, :n, :, D - d :, None] * step[:, None, None, :]
        flat = own.reshape(n, D, d * R)
        kept = np.flatnonzero(chunk.kept[t, :n])
        if len(kept):
            white = back[t, kept]
            sums.add((white @ flat[kept, :d]).reshape(-1, d * R), (white @ found.v[t, kept, :, None]).reshape(-1))
        G[:n] = (flat - found.K[t, :n] @ flat[:, :d]).reshape(n, D, d, R)
    return sums.result()


def of_noise(
    found: Filtered,
    chunk: Chunk,
    features: Float,
    changes: Float,
    errors: Float,
    in_use: npt.NDArray[np.bool_] | None = None,
) -> Normal:
    """Normal equations of the amplitudes of Σ, p (R + 1), entry by entry, and of q parameters of Λ after them.

    Symmetric matrices are packed: their lower triangles, row by row (`Packing`).

    Parameters
    ----------
    found : Filtered
    chunk : Chunk
    features : array of shape (T, W, R + 1)
        At the filter's means where steps start.
    changes : array of shape (T, W, p, d, d)
        ∂Σ/∂H_e there, for each entry e of H.
    errors : array of shape (q, d, d)
        ∂Λ for each of its parameters.
    in_use : array of bool, shape (p, R + 1), optional
        Other amplitudes get neither information nor score.
    """
    W, D, d = found.K.shape[1:]
    R, p, q = features.shape[2], changes.shape[2], len(errors)
    used = np.arange(p * R) if in_use is None else np.flatnonzero(in_use)
    entry, feature = np.divmod(used, R)
    n_all, of_errors = len(used) + q, slice(len(used), len(used) + q)
    half, back = _half_way(found.slope), _white(found.S)
    state, seen = Packing(D), Packing(d)
    own_errors = seen.packed(errors).T  # (k, q)
    weight = np.where(np.equal(*seen.places), np.sqrt(0.5), 1.0)  # entries off the diagonal stand for two
    target = np.eye(d)[seen.places]
    sums = _Sums(n_all)
    dm, dP = np.zeros((W, D, n_all)), np.zeros((W, state.size, n_all))
    dP[:, state.within(d), of_errors] = own_errors
    for t, n in enumerate(chunk.active.tolist()):
        A, K, white = found.slope[t, :n], found.K[t, :n], back[t, :n]
        dm_before, dP_before = A @ dm[:n], state.turning(A) @ dP[:n]
        Q = state.packed(_noise_of_step(A, half[t, :n], changes[t, :n], chunk.h[t, :n])).swapaxes(1, 2)  # (n, k, p)
        if in_use is None:
            dP_before[..., : p * R] += (Q[..., None] * features[t, :n, None, None, :]).reshape(n, state.size, p * R)
        else:
            dP_before[..., : len(used)] += Q[:, :, entry] * features[t][:n, None, feature]
        v = white @ found.v[t, :n, :, None]  # (n, d, 1)
        kept = np.flatnonzero(chunk.kept[t, :n])
        if len(kept):
            sums.add((white[kept] @ dm_before[kept, :d]).reshape(-1, n_all), v[kept].reshape(-1))
            dS = dP_before[kept][:, state.within(d)]
            dS[:, :, of_errors] += own_errors
            over = (v[kept] @ v[kept].swapaxes(1, 2))[:, seen.places[0], seen.places[1]] - target
            turning = weight[:, None] * seen.turning(white[kept])
            sums.add((turning @ dS).reshape(-1, n_all), (weight * over).reshape(-1))
        pull = (white.swapaxes(1, 2) @ v)[:, :, 0]  # S⁻¹v, (n, d)
        rest = np.repeat(np.eye(D)[None], n, axis=0)
        rest[:, :, :d] -= K
        dm[:n] = rest @ (dm_before + state.times(pull) @ dP_before)
        dm[:n, :, of_errors] -= K @ (seen.times(pull) @ own_errors)
        dP[:n] = state.turning(rest) @ dP_before
        dP[:n, :, of_errors] += state.turning(K) @ own_errors
    return sums.result().among(p * R + q, np.append(used, np.arange(p * R, p * R + q)))


def error_directions(d: int) -> Float:
    """∂Λ for each of its entries, the lower triangle row by row: shape (q, d, d)."""
    rows, cols = entries("full", d)
    directions = np.zeros((len(rows), d, d))
    directions[np.arange(len(rows)), rows, cols] = 1.0
    directions[np.arange(len(rows)), cols, rows] = 1.0
    return directions


def positive_part(noise: Float, before: Float) -> Float:
    """Λ without negative eigenvalues, and no more than a few times as large as before."""
    unit = np.sqrt(np.maximum(np.diagonal(noise), np.maximum(np.diagonal(before), 1e-300)))
    values, vectors = np.linalg.eigh(noise / np.outer(unit, unit))
    kept = (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(unit, unit)
    most = LARGEST_NOISE_STEP * float(np.trace(before / np.outer(unit, unit)))
    size = float(np.trace(kept / np.outer(unit, unit)))
    return np.asarray(kept * min(1.0, most / size)) if size > most > 0 else kept


class Packing:
    """Symmetric matrices of size D as vectors of their lower triangles, row by row."""

    def __init__(self, D: int) -> None:
        self.D, self.places = D, np.tril_indices(D)
        self.size = len(self.places[0])
        self.number = np.zeros((D, D), dtype=np.intp)
        self.number[self.places] = np.arange(self.size)
        self.number = np.maximum(self.number, self.number.T)

    def within(self, d: int) -> slice:
        """Where the entries of the first d rows and columns are."""
        return slice(0, d * (d + 1) // 2)

    def packed(self, matrices: Float) -> Float:
        """(..., D, D) to (..., k)."""
        return np.asarray(matrices[..., self.places[0], self.places[1]])

    def turning(self, A: Float) -> Float:
        """The matrices (n, k, l) that turn packed M of size d into packed A M Aᵀ, for A (n, D, d)."""
        if self.D == 1:
            return A**2
        (rows, cols), d = self.places, A.shape[2]
        T = np.zeros((len(A), self.size, d * (d + 1) // 2))
        for a in range(d):
            for b in range(d):
                T[:, :, self.number[a, b]] += A[:, rows, a] * A[:, cols, b]
        return T

    def times(self, vectors: Float) -> Float:
        """The matrices (n, D, k) that turn packed M into M[:, :d] u, for u (n, d)."""
        T = np.zeros((len(vectors), self.D, self.size))
        for i in range(self.D):
            for j in range(vectors.shape[1]):
                T[:, i, self.number[i, j]] += vectors[:, j]
        return T


def _half_way(slope: Float) -> Float:
    """½ (I + A)."""
    return np.asarray(0.5 * (np.eye(slope.shape[-1]) + slope))


def _white(S: Float) -> Float:
    """S^{-1/2}, lower triangular, of (T, W, d, d)."""
    d = S.shape[-1]
    return inverse_of_root(lower_root(S.reshape(-1, d, d))).reshape(S.shape)


def _noise_of_step(A: Float, half: Float, change: Float, h: Float) -> Float:
    """∂Q (n, p, D, D) for changes (n, p, d, d) of Σ, by Simpson's rule."""
    D, d = A.shape[1], change.shape[2]
    full = np.zeros((*change.shape[:2], D, D))
    full[:, :, D - d :, D - d :] = change
    steps = h[:, None, None, None] / 6

    def seen(M: Float) -> Float:
        return np.asarray(M[:, None] @ full @ M[:, None].swapaxes(2, 3))

    return np.asarray(steps * (full + 4 * seen(half) + seen(A)))
