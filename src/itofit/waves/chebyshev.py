"""Chebyshev polynomials: how smooth functions of scaled points are carried by few numbers.

For |t| ≤ 1 and any frequency θ the Jacobi-Anger expansion

    exp(iθt) = J_0(θ) + 2 Σ_m i^m J_m(θ) T_m(t)

ends, to any accuracy, soon after m = θ: the Bessel functions J_m(θ) vanish faster than any power. So sums over data of
functions whose frequencies are bounded depend on the data through few moments Σ_n s_n T_m(t_n) alone.

======  =========  ===============  ==========================================================
symbol  name       shape            meaning
======  =========  ===============  ==========================================================
t       t          (D, n)           points in [−1, 1]^D
s       strengths  (c, n)           what each point weighs, in each of c sums
Q       Q          D numbers        polynomials kept in each direction: T_0 … T_{Q−1}
======  =========  ===============  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, prod, sqrt

import finufft
import numpy as np
import scipy.fft
import scipy.special

from itofit._checks import Complex, Float
from itofit.waves.trigonometry import cos_sin

BLOCK_NUMBERS = 65_536  # in the largest array of a block: it stays in the cache
NUFFT_ACCURACY = 1e-13  # the best that finufft reaches in double precision, but for a digit

# Seconds, measured on one core; only their ratios matter.
_PRODUCT = 6e-11  # one multiplication and addition in a matrix product
_POLYNOMIAL = 7e-10  # one polynomial at one point
_SPREAD = {1: 4.5e-8, 2: 1.6e-7, 3: 1.2e-6}  # one point and column of a non-uniform transform
_MODE = 1.5e-8  # one point and column of the fast Fourier transform behind it


def polynomials(t: Float, Q: int, out: Float | None = None) -> Float:
    """Rows T_0(t), …, T_{Q−1}(t) at the points t of shape (n,): shape (Q, n).

    Each round doubles the number of rows, by T_{m+k} = 2 T_m T_k − T_{m−k}.
    """
    T = np.empty((Q, len(t))) if out is None else out
    T[0] = 1.0
    if Q > 1:
        T[1] = t
    m = 1
    while m + 1 < Q:
        new = T[m + 1 : 2 * m + 1]
        k = len(new)
        np.multiply(2 * T[m], T[1 : k + 1], out=new)
        new -= T[m - k : m][::-1]
        m += k
    return T


def tail(theta: float, tolerance: float) -> Float:
    """What T_m and all later ones together can contribute to exp(iθt), for m = 0, 1, … down to a tolerance."""
    most = int(theta + 12 * np.cbrt(theta) + 40)
    sums = np.cumsum(2 * np.abs(scipy.special.jv(np.arange(most), theta))[::-1])[::-1]
    return np.minimum(sums[: max(int(np.argmax(sums < tolerance)), 1)], 1.0)


def n_terms(theta: float, tolerance: float) -> int:
    """How many polynomials carry exp(iθt) on [−1, 1] up to an error of `tolerance`."""
    return len(tail(theta, tolerance))


def expansion(theta: Float, Q: int) -> Complex:
    """Coefficients c_km of exp(iθ_k t) = Σ_m c_km T_m(t), m < Q: shape (K, Q)."""
    return np.asarray(cosine_sine_expansion(theta, Q) * np.where(np.arange(Q) % 2, 1j, 1.0))


def cosine_sine_expansion(theta: Float, Q: int) -> Float:
    """Coefficients of cos(θ_k t), which are the even ones, and of sin(θ_k t), the odd ones: shape (K, Q)."""
    CD = cos_sin(theta[:, None], nodes(Q)[:, None])
    return (CD[: len(theta)] + CD[len(theta) :]) @ _to_coefficients(Q)


@lru_cache(maxsize=64)
def nodes(Q: int) -> Float:
    """The Q zeros of T_Q, shape (Q,)."""
    return np.asarray(np.cos(np.pi * (np.arange(Q) + 0.5) / Q))


@lru_cache(maxsize=64)
def _to_coefficients(Q: int) -> Float:
    """The matrix (Q, Q) from values at the nodes to coefficients, acting from the right."""
    angles = np.outer(2 * np.arange(Q) + 1, np.arange(Q)) % (4 * Q)  # in units of π / 2Q
    matrix = np.cos(np.pi / (2 * Q) * angles) * (2 / Q)
    matrix[:, 0] /= 2
    return np.asarray(matrix)


def weights_at_nodes(moments: Float, Q: Sequence[int]) -> Float:
    """Weights at the tensor product of `nodes` that have the same leading Q moments as the data.

    Parameters
    ----------
    moments : array of shape (c, at least Q_1, ..., at least Q_D)
    Q : sequence of D numbers

    Returns
    -------
    array of shape (c, Q_1, ..., Q_D)
    """
    leading = moments[(slice(None), *(slice(q) for q in Q))]
    return np.asarray(scipy.fft.dctn(leading, type=3, axes=range(1, leading.ndim)) / prod(Q))


def moments(t: Float, strengths: Float, Q: Sequence[int]) -> Float:
    """Σ_n s_n T_{m_1}(t_n1) ⋯ T_{m_D}(t_nD) for all m_d < Q_d: shape (c, Q_1, ..., Q_D).

    By matrix products, or where there are many polynomials by a non-uniform fast Fourier transform: with t = cos θ,
    T_m(t) is cos mθ. Whichever costs less.

    Parameters
    ----------
    t : array of shape (D, n)
    strengths : array of shape (c, n)
    Q : sequence of D numbers
    """
    columns, n = strengths.shape
    evaluated = sum(Q) if len(Q) > 1 else 2 * sqrt(Q[0])
    product_seconds = n * (_PRODUCT * columns * prod(Q) + _POLYNOMIAL * (columns + 1) * evaluated)
    transform_seconds = columns * (n * _SPREAD[len(Q)] + _MODE * prod(4 * q for q in Q))
    if product_seconds < transform_seconds:
        return product_moments(t, strengths, Q)
    return transform_moments(t, strengths, Q)


def product_moments(t: Float, strengths: Float, Q: Sequence[int]) -> Float:
    """`moments` by matrix products, a block of points at a time."""
    if len(Q) == 1:
        return _factored_moments(t[0], strengths, Q[0])
    columns = len(strengths)
    total = np.zeros((columns * Q[0], prod(Q[1:])))
    for rows in _blocks(t.shape[1], columns * Q[0]):
        first, *rest = (polynomials(t[d, rows], q) for d, q in enumerate(Q))
        left = (strengths[:, None, rows] * first).reshape(len(total), -1)
        right = rest[0] if len(rest) == 1 else (rest[0][:, None] * rest[1]).reshape(total.shape[1], -1)
        total += left @ right.T
    return total.reshape(columns, *Q)


def _blocks(n: int, numbers: int) -> Iterator[slice]:
    """Blocks of n points where each point takes so many numbers."""
    size = min(max(BLOCK_NUMBERS // numbers, 512), 16_384)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _factored_moments(t: Float, strengths: Float, Q: int) -> Float:
    """Moments in one dimension from products of few polynomials.

    With T_{jq} for j < J and T_k for k < q, the sums P_jk = Σ s T_{jq} T_k are ½ (μ_{jq+k} + μ_{jq−k}): all moments
    μ follow, from the lowest on, and 2√Q polynomials are evaluated at each point instead of Q.
    """
    q = ceil(sqrt(Q))
    J = ceil(Q / q)
    columns = len(strengths)
    P = np.zeros((columns * J, q))
    for rows in _blocks(len(t), columns * J):
        steps = polynomials(t[rows], q + 1)
        giants = polynomials(steps[q], J)  # T_j(T_q(t)) = T_{jq}(t)
        P += (strengths[:, None, rows] * giants).reshape(columns * J, -1) @ steps[:q].T
    sums = P.reshape(columns, J, q)
    mu = np.empty((columns, J * q))
    mu[:, :q] = sums[:, 0]
    for j in range(1, J):
        place = j * q
        mu[:, place] = sums[:, j, 0]
        mu[:, place + 1 : place + q] = 2 * sums[:, j, 1:] - mu[:, place - 1 : place - q : -1]
    return mu[:, :Q]


def evaluate(coefficients: Float, t: Float) -> Float:
    """Σ_m c_m T_{m_1}(t_1) ⋯ T_{m_D}(t_D) at the points t of shape (D, n): shape (p, n).

    Parameters
    ----------
    coefficients : array of shape (p, Q_1, ..., Q_D)
    t : array of shape (D, n)
    """
    factored = len(t) == 1
    C = _factored(coefficients) if factored else coefficients
    p, *Q = C.shape
    out = np.empty((p, t.shape[1]))
    for rows in _blocks(t.shape[1], prod(C.shape[:-1])):
        if factored:
            steps = polynomials(t[0, rows], Q[1] + 1)
            T = [polynomials(steps[-1], Q[0]), steps[:-1]]
        else:
            T = [polynomials(t[d, rows], q) for d, q in enumerate(Q)]
        values: Float = np.reshape(C.reshape(-1, Q[-1]) @ T[-1], (*C.shape[:-1], -1))
        for factor in T[-2::-1]:
            values *= factor
            values = values.sum(axis=-2)
        out[:, rows] = values
    return out


def evaluation_seconds(n: int, Q: Sequence[int], p: int, K: int) -> float:
    """What `evaluate` costs for a sum of K features, with its set-up."""
    if len(Q) == 1:
        Q = (ceil(sqrt(Q[0])),) * 2
    products = _PRODUCT * p * prod(Q) + _POLYNOMIAL * (sum(Q) + 2 * p * prod(Q[:-1]))
    return 2 * n * products + 4 * K * p * prod(Q) * _PRODUCT + 1e-4


def _factored(coefficients: Float) -> Float:
    """C of shape (p, J, q) with Σ_m c_m T_m = Σ_jk C_jk T_{jq} T_k: the reverse of `_factored_moments`."""
    p, Q = coefficients.shape
    q = ceil(sqrt(Q))
    J = ceil(Q / q)
    c = np.zeros((p, J * q))
    c[:, :Q] = coefficients
    for place in range((J - 1) * q, 0, -q):
        c[:, place - 1 : place - q : -1] -= c[:, place + 1 : place + q]
        c[:, place + 1 : place + q] *= 2
    return np.reshape(c, (p, J, q))


def transform_moments(t: Float, strengths: Float, Q: Sequence[int]) -> Float:
    """`moments` by a non-uniform fast Fourier transform, on one core."""
    angles = [np.arccos(np.clip(column, -1.0, 1.0)) for column in t]
    plan = finufft.Plan(1, tuple(2 * q - 1 for q in Q), n_trans=len(strengths), eps=NUFFT_ACCURACY, isign=1, nthreads=1)
    plan.setpts(*angles)
    modes = plan.execute(strengths.astype(complex))
    sums: Float = modes.real.reshape(-1, *(2 * q - 1 for q in Q))
    for axis, q in enumerate(Q, start=1):  # cos a cos b … is the mean of cos(a ± b ± …)
        sums = np.moveaxis(sums, axis, 0)
        sums = np.moveaxis((sums[q - 1 :] + sums[q - 1 :: -1]) / 2, 0, axis)
    return sums
