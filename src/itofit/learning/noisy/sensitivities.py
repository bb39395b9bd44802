"""Least squares seen through a filter: how innovations and their covariances change with all that is learned.

======  =================  ===========================================================================
symbol  shape              meaning
======  =================  ===========================================================================
φ       (T, W, R + 1)      features of the drift, one first, at the filter's means
∂m      (W, D, q)          change of the state's mean with each of q parameters
∂P      (W, D·D, q)        change of its covariance
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

from itofit._checks import Float
from itofit.model.hidden.small_matrices import inverse_of_root, lower_root
from itofit.model.hidden.tracking import Filtered
from itofit.model.hidden.windows import Chunk

BUFFER_ROWS = 8192
"""Rows of whitened derivatives that are collected before they are multiplied."""


class Normal(NamedTuple):
    """Normal equations: information and score of parameters, added up."""

    information: Float  # (q, q)
    score: Float  # (q,)

    def plus(self, other: Normal) -> Normal:
        """Those of more data."""
        return Normal(self.information + other.information, self.score + other.score)


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


def of_noise(found: Filtered, chunk: Chunk, features: Float, changes: Float, errors: Float) -> Normal:
    """Normal equations of the amplitudes of Σ, p (R + 1), entry by entry, and of q parameters of Λ after them.

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
    """
    W, D, d = found.K.shape[1:]
    R, p, q = features.shape[2], changes.shape[2], len(errors)
    n_all = p * R + q
    half, back = _half_way(found.slope), _white(found.S)
    one, own_errors = np.eye(D), errors.reshape(q, d * d).T
    sums = _Sums(n_all)
    dm, dP = np.zeros((W, D, n_all)), np.zeros((W, D, D, n_all))
    dP[:, :d, :d, p * R :] = np.moveaxis(errors, 0, 2)
    for t, n in enumerate(chunk.active.tolist()):
        A = found.slope[t, :n]
        dm_before = A @ dm[:n]
        dP_before = _turned(A, dP[:n])
        Q = _noise_of_step(A, half[t, :n], changes[t, :n], chunk.h[t, :n])  # (n, p, D, D)
        grown = Q.transpose(0, 2, 3, 1)[..., None] * features[t, :n, None, None, None, :]
        dP_before[..., : p * R] += grown.reshape(n, D, D, p * R)
        dS = dP_before[:, :d, :d].reshape(n, d * d, n_all).copy()
        dS[:, :, p * R :] += own_errors
        K, white = found.K[t, :n], back[t, :n]
        v = white @ found.v[t, :n, :, None]  # (n, d, 1)
        kept = np.flatnonzero(chunk.kept[t, :n])
        if len(kept):
            sums.add((white[kept] @ dm_before[kept, :d]).reshape(-1, n_all), v[kept].reshape(-1))
            white_dS = _turned(white[kept], dS[kept].reshape(-1, d, d, n_all)).reshape(-1, n_all) / np.sqrt(2)
            over = (v[kept] @ v[kept].swapaxes(1, 2) - np.eye(d)) / np.sqrt(2)
            sums.add(white_dS, over.reshape(-1))
        pull = white.swapaxes(1, 2) @ v  # S⁻¹v, (n, d, 1)
        rest = np.repeat(one[None], n, axis=0)
        rest[:, :, :d] -= K
        gain = np.einsum("nijq,nj->niq", dP_before[:, :, :d], pull[:, :, 0])
        dm[:n] = rest @ (dm_before + gain)
        dm[:n, :, p * R :] -= K @ np.einsum("qij,nj->niq", errors, pull[:, :, 0])
        dP[:n] = _turned(rest, dP_before)
        dP[:n, :, :, p * R :] += np.einsum("nia,qab,njb->nijq", K, errors, K)
    return sums.result()


def _half_way(slope: Float) -> Float:
    """½ (I + A)."""
    return np.asarray(0.5 * (np.eye(slope.shape[-1]) + slope))


def _white(S: Float) -> Float:
    """S^{-1/2}, lower triangular, of (T, W, d, d)."""
    d = S.shape[-1]
    return inverse_of_root(lower_root(S.reshape(-1, d, d))).reshape(S.shape)


def _turned(A: Float, M: Float) -> Float:
    """A M Aᵀ for A (n, D, D) and M (n, D, D, q)."""
    n, D, _, q = M.shape
    if D == 1:
        return M * (A**2)[..., None]
    left = (A @ M.reshape(n, D, D * q)).reshape(n, D, D, q)
    turned = A @ left.swapaxes(1, 2).reshape(n, D, D * q)
    return np.asarray(turned.reshape(n, D, D, q).swapaxes(1, 2))


def _noise_of_step(A: Float, half: Float, change: Float, h: Float) -> Float:
    """∂Q (n, p, D, D) for changes (n, p, d, d) of Σ, by Simpson's rule."""
    D, d = A.shape[1], change.shape[2]
    full = np.zeros((*change.shape[:2], D, D))
    full[:, :, D - d :, D - d :] = change
    steps = h[:, None, None, None] / 6

    def seen(M: Float) -> Float:
        return np.asarray(M[:, None] @ full @ M[:, None].swapaxes(2, 3))

    return np.asarray(steps * (full + 4 * seen(half) + seen(A)))
