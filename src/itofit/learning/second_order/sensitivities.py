"""How the likelihood of positions depends on a force's amplitudes, on its noise and on errors of measurement.

=========  ===================  ==================================================================================
symbol     shape                meaning
=========  ===================  ==================================================================================
φ          (T, W, R + 1)        features of the force in the middle of each step, one first
q          d (R + 1)            amplitudes of the force, output by output
∂m         (W, D, q)            derivative of the filter's mean by the amplitudes
v, S       (T, W, d), …         innovations and their covariance (`itofit.model.hidden.tracking`)
=========  ===================  ==================================================================================

The filter's mean before an observation moves with the amplitudes as

    ∂m⁻ = A ∂m + ½ h (1 + A) [0, φ],    ∂m = (1 − K H) ∂m⁻,

since what the force adds within a step is carried on by half of the step in the mean. The innovations of a right model
have mean zero given the past, on which ∂m⁻ depends alone, so that Σ (H ∂m⁻)ᵀ S⁻¹ v = 0 determines the amplitudes
without bias, and Σ (H ∂m⁻)ᵀ S⁻¹ (H ∂m⁻) is the information on them: normal equations, in which ridges have the meaning
that they have in the regression of velocities that were seen.

For the size of the noise, Σ → (1 + E) Σ (1 + E)ᵀ, and for Λ, derivatives of P⁻, S, K and v follow the same recursions;
Fisher's scoring with them is exact for linear systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.matrices.symmetric import entries
from itofit.model.hidden.small_matrices import inverse_of, inverse_of_root, lower_root
from itofit.model.hidden.tracking import Filtered
from itofit.model.hidden.windows import Chunk

Features = Callable[[Float], Float]
"""States (n, D) to features (n, R + 1), the first of them one."""

ROWS_AT_ONCE = 8192
"""Derivatives of innovations that are multiplied at once."""


class Equations(NamedTuple):
    """Normal equations of changes of the amplitudes, H Δ = g."""

    H: Float  # (q, q)
    g: Float  # (q,)

    def plus(self, other: Equations) -> Equations:
        """Those of more windows."""
        return Equations(self.H + other.H, self.g + other.g)


def force_equations(found: Filtered, chunk: Chunk, features: Features) -> Equations:
    """The normal equations for the amplitudes of a force, from the innovations that a chunk keeps."""
    T, W = chunk.h.shape
    d, D = found.v.shape[2], found.m.shape[2]
    middle = 0.5 * (found.m[:-1] + found.mean_before)
    phi = features(middle.reshape(-1, D)).reshape(T, W, -1)
    q = d * phi.shape[2]
    H, g = np.zeros((q, q)), np.zeros(q)
    white = inverse_of_root(lower_root(found.S.reshape(-1, d, d))).reshape(T, W, d, d)
    innovations = (white @ found.v[..., None])[..., 0]
    dm = np.zeros((W, D, q))
    waiting: list[Float] = []
    targets: list[Float] = []
    n_waiting = 0
    for t, n in enumerate(chunk.active.tolist()):
        A = found.slope[t, :n]
        dm[:n] = A @ dm[:n] + _moved_by_force(A, chunk.h[t, :n], phi[t, :n], d)
        kept = chunk.kept[t, :n]
        if kept.any():
            waiting.append((white[t, :n][kept] @ dm[:n, :d][kept]).reshape(-1, q))
            targets.append(innovations[t, :n][kept].ravel())
            n_waiting += len(targets[-1])
        dm[:n] -= found.K[t, :n] @ dm[:n, :d]
        if waiting and (n_waiting >= ROWS_AT_ONCE or t == T - 1):
            G = np.concatenate(waiting)
            H += G.T @ G
            g += G.T @ np.concatenate(targets)
            waiting, targets, n_waiting = [], [], 0
    return Equations(H, g)


def _moved_by_force(A: Float, h: Float, phi: Float, d: int) -> Float:
    """What features (n, R + 1) of the force add to the state within a step: shape (n, D, d (R + 1))."""
    n, D = A.shape[:2]
    column = 0.5 * h[:, None, None] * (np.eye(D)[:, D - d :] + A[:, :, D - d :])
    return np.asarray((column[:, :, :, None] * phi[:, None, None, :]).reshape(n, D, -1))


class NoiseScore(NamedTuple):
    """Slope and information of the likelihood of positions, by the sizes of noises."""

    slope: Float  # (p,): of −log p
    information: Float  # (p, p)

    def plus(self, other: NoiseScore) -> NoiseScore:
        """Those of more windows."""
        return NoiseScore(self.slope + other.slope, self.information + other.information)


def symmetric_directions(d: int) -> Float:
    """The symmetric matrices that have one entry of the lower triangle: shape (d (d + 1) / 2, d, d)."""
    rows, cols = entries("full", d)
    E = np.zeros((len(rows), d, d))
    for e, i, j in zip(E, rows, cols, strict=True):
        e[i, j] = e[j, i] = 1.0
    return E


def noise_score(found: Filtered, chunk: Chunk, of_sigma: Float, of_errors: Float) -> NoiseScore:
    """Of the innovations that a chunk keeps.

    Parameters
    ----------
    found : Filtered
    chunk : Chunk
    of_sigma : array of shape (a, d, d)
        Directions E in which noise grows, Σ → (1 + E) Σ (1 + E)ᵀ.
    of_errors : array of shape (b, d, d)
        Directions in which Λ grows.
    """
    d, D, W = found.v.shape[2], found.m.shape[2], found.m.shape[1]
    a, b = len(of_sigma), len(of_errors)
    p = a + b
    grow = np.zeros((a, D, D))
    for k in range(0, D, d):
        grow[:, k : k + d, k : k + d] = of_sigma
    errors = np.concatenate([np.zeros((a, d, d)), of_errors])[:, None]
    dP, dm = np.zeros((p, W, D, D)), np.zeros((p, W, D))
    dP[:, :, :d, :d] = errors
    slope, information = np.zeros(p), np.zeros((p, p))
    for t, n in enumerate(chunk.active.tolist()):
        A, K, S_inverse = found.slope[t, :n], found.K[t, :n], inverse_of(found.S[t, :n])
        Q = found.covariance_before[t, :n] - A @ found.P[t, :n] @ A.swapaxes(1, 2)
        before = A @ dP[:, :n] @ A.swapaxes(1, 2)
        change = grow[:, None] @ Q
        before[:a] += change + change.swapaxes(2, 3)
        moved = (A @ dm[:, :n, :, None])[..., 0]
        dS = before[:, :, :d, :d] + errors
        v = found.v[t, :n]
        kept = chunk.kept[t, :n]
        slope_t, information_t = _score_of_step(dS[:, kept], -moved[:, kept, :d], v[kept], S_inverse[kept])
        slope += slope_t
        information += information_t
        dK = (before[..., :d] - K @ dS) @ S_inverse
        dm[:, :n] = moved - (K @ moved[:, :, :d, None])[..., 0] + (dK @ v[:, :, None])[..., 0]
        rest = np.broadcast_to(np.eye(D), (n, D, D)).copy()
        rest[:, :, :d] -= K
        dP[:, :n] = rest @ before @ rest.swapaxes(1, 2) + K @ errors @ K.swapaxes(1, 2)
    return NoiseScore(slope, information)


def _score_of_step(dS: Float, dv: Float, v: Float, S_inverse: Float) -> tuple[Float, Float]:
    """Slope (p,) and information (p, p) of n innovations v (n, d), for dS (p, n, d, d) and dv (p, n, d)."""
    p = len(dS)
    relative = S_inverse @ dS
    white = (S_inverse @ v[:, :, None])[:, :, 0]
    trace = np.trace(relative, axis1=2, axis2=3).sum(axis=1)
    quadratic = np.einsum("ni,pnij,nj->p", white, dS, white)
    slope = 0.5 * (trace - quadratic) + np.einsum("pni,ni->p", dv, white)
    flat, turned = relative.reshape(p, -1), relative.swapaxes(2, 3).reshape(p, -1)
    moved = (S_inverse @ dv[..., None])[..., 0]
    return slope, 0.5 * flat @ turned.T + dv.reshape(p, -1) @ moved.reshape(p, -1).T


def added(parts: Iterator[Equations] | Iterator[NoiseScore]) -> Equations | NoiseScore:
    """The sum over chunks."""
    total = next(parts)
    for part in parts:
        total = total.plus(part)  # type: ignore[arg-type]
    return total
