"""The Gaussian filter along tracks, its smoother, and tracks drawn from what that says.

=========  ==============  =====================================================================
symbol     shape           meaning
=========  ==============  =====================================================================
y          (T + 1, W, d)   observations of W windows, y = s[:d] + η, η ~ N(0, Λ)
Λ          (d, d)          covariance of the errors of measurement
m, P       (T + 1, W, …)   mean and covariance of the state given all observations so far
m⁻, P⁻     (T, W, …)       the same before the observation at the end of a step
A          (T, W, D, D)    slope of the step
v, S       (T, W, …)       innovation y − m⁻[:d] and its covariance P⁻[:d, :d] + Λ
K          (T, W, D, d)    gain P⁻[:, :d] S⁻¹
=========  ==============  =====================================================================

The likelihood of the observations is that of the innovations, which are independent N(0, S) if the model is right.
The smoother is that of Rauch, Tung and Striebel: with G = P Aᵀ (P⁻)⁻¹ of the step that follows,

    m̂ = m + G (m̂₊ − m⁻₊),    P̂ = P + G (P̂₊ − P⁻₊) Gᵀ,    Cov(s₊, s) = P̂₊ Gᵀ.

A drawn track goes backwards as well: s given s₊ is normal with mean m + G (s₊ − m⁻₊) and covariance P − G P⁻₊ Gᵀ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.periods import nearest_image
from itofit.matrices.small_matrices import inverse_of, inverse_of_root, lower_root, turned
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.windows import Chunk


class Prior(NamedTuple):
    """What is known of components that are not observed, where a window starts."""

    mean: Float  # (D − d,)
    covariance: Float  # (D − d, D − d)


NO_PRIOR = Prior(np.zeros(0), np.zeros((0, 0)))
"""Of a state that is observed as a whole."""


class Filtered(NamedTuple):
    """A filter along the windows of a chunk; what lies after the end of a window means nothing."""

    m: Float  # (T + 1, W, D)
    P: Float  # (T + 1, W, D, D)
    mean_before: Float  # (T, W, D): m⁻
    covariance_before: Float  # (T, W, D, D): P⁻
    slope: Float  # (T, W, D, D): A
    v: Float  # (T, W, d)
    S: Float  # (T, W, d, d)
    K: Float  # (T, W, D, d)

    def losses(self) -> Float:
        """−log p of each observation given those before, shape (T, W)."""
        T, W, d = self.v.shape
        root = lower_root(self.S.reshape(-1, d, d))
        white = (inverse_of_root(root) @ self.v.reshape(-1, d, 1))[:, :, 0]
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray((0.5 * (white**2).sum(axis=1) + log_det + 0.5 * d * np.log(2 * np.pi)).reshape(T, W))


def filtered(step: GaussianStep, chunk: Chunk, noise: Float, prior: Prior = NO_PRIOR) -> Filtered:
    """The filter, from a first observation of which nothing else is known.

    Parameters
    ----------
    step : GaussianStep
    chunk : Chunk
    noise : array of shape (d, d)
        Λ.
    prior : Prior
        Of hidden components.
    """
    T, W = chunk.h.shape
    d, D = chunk.y.shape[2], chunk.y.shape[2] + len(prior.mean)
    m, P = np.zeros((T + 1, W, D)), np.zeros((T + 1, W, D, D))
    before, P_before = np.zeros((T, W, D)), np.broadcast_to(np.eye(D), (T, W, D, D)).copy()
    slope, S = np.zeros((T, W, D, D)), np.broadcast_to(np.eye(d), (T, W, d, d)).copy()
    v, K = np.zeros((T, W, d)), np.zeros((T, W, D, d))
    m[0, :, :d], m[0, :, d:] = chunk.y[0], prior.mean
    P[0, :, :d, :d], P[0, :, d:, d:] = noise, prior.covariance
    one = np.eye(D)
    for t, n in enumerate(chunk.active.tolist()):
        moved = step(m[t, :n], P[t, :n], chunk.h[t, :n], chunk.u[t, :n])
        P_moved = 0.5 * (moved.covariance + moved.covariance.swapaxes(1, 2))
        before[t, :n], P_before[t, :n], slope[t, :n] = moved.mean, P_moved, moved.slope
        S[t, :n] = P_moved[:, :d, :d] + noise
        away = chunk.y[t + 1, :n] - moved.mean[:, :d]
        v[t, :n] = away if chunk.periods is None else nearest_image(away, chunk.periods)
        gain = P_moved[:, :, :d] @ inverse_of(S[t, :n])
        K[t, :n] = gain
        m[t + 1, :n] = moved.mean + (gain @ v[t, :n, :, None])[:, :, 0]
        rest = np.repeat(one[None], n, axis=0)
        rest[:, :, :d] -= gain
        P[t + 1, :n] = turned(rest, P_moved) + gain @ noise @ gain.swapaxes(1, 2)
    return Filtered(m, P, before, P_before, slope, v, S, K)


class Smoothed(NamedTuple):
    """States given all observations of a window."""

    m: Float  # (T + 1, W, D)
    P: Float  # (T + 1, W, D, D)
    C: Float  # (T, W, D, D): Cov(s₊, s) of the ends and starts of steps


def smoothed(found: Filtered, chunk: Chunk) -> Smoothed:
    """The smoother, backwards along what a filter found."""
    m, P = found.m.copy(), found.P.copy()
    C = np.zeros_like(found.slope)
    for t in range(len(chunk.active) - 1, -1, -1):
        n = int(chunk.active[t])
        G = _gains(found, t, n)
        m[t, :n] += (G @ (m[t + 1, :n] - found.mean_before[t, :n])[:, :, None])[:, :, 0]
        P[t, :n] += turned(G, P[t + 1, :n] - found.covariance_before[t, :n])
        C[t, :n] = P[t + 1, :n] @ G.swapaxes(1, 2)
    return Smoothed(m, P, C)


def drawn(found: Filtered, chunk: Chunk, rng: np.random.Generator) -> Float:
    """States (T + 1, W, D) of tracks drawn at random, given all observations of a window."""
    T, W, D = found.m.shape[0] - 1, *found.m.shape[1:]
    normal = rng.standard_normal((T + 1, W, D))
    flat = found.P.reshape(-1, D, D)
    states = found.m + (lower_root(flat) @ normal.reshape(-1, D, 1)).reshape(T + 1, W, D)  # right for the last one
    for t in range(T - 1, -1, -1):
        n = int(chunk.active[t])
        G = _gains(found, t, n)
        P = found.P[t, :n] - turned(G, found.covariance_before[t, :n])
        mean = found.m[t, :n] + (G @ (states[t + 1, :n] - found.mean_before[t, :n])[:, :, None])[:, :, 0]
        states[t, :n] = mean + (lower_root(P) @ normal[t, :n, :, None])[:, :, 0]
    return states


def _gains(found: Filtered, t: int, n: int) -> Float:
    """G of the n windows that have step t: (n, D, D)."""
    backwards = inverse_of(found.covariance_before[t, :n])
    return np.asarray(found.P[t, :n] @ found.slope[t, :n].swapaxes(1, 2) @ backwards)
