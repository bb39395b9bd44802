"""Normal equations from the data themselves, in any dimension.

The feature matrix S exists one block of rows at a time, as its real form [C D] (cosines and sines), whose Gram matrix
is one symmetric rank-k update:

    [C D]ᵀ[C D] = ( CᵀC  CᵀD )        SᴴS = CᵀC + DᵀD + i (CᵀD − DᵀC),        Sᴴy = Cᵀy − i Dᵀy
                  ( DᵀC  DᵀD )

That is half the work of the complex product SᴴS, at the speed of a real one. The memory beside the data is a few
blocks and a few Gram matrices, whatever N is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg

from itofit._blocks import map_chunks, one_blas_thread
from itofit._checks import Complex, Float
from itofit.waves.series import feature_blocks, real_amplitudes

EPSILON = float(np.finfo(float).eps)


class DirectNormalEquations:
    """Points u of shape (N, m) and targets y of shape (N, p), summed over directly.

    Parameters
    ----------
    u : array of shape (N, m)
        Scaled inputs.
    y : array of shape (N, p)
        Scaled targets.
    weight : array of shape (N,), optional
        What each row counts, so that N is their sum; ones if left out.
    """

    def __init__(self, u: Float, y: Float, weight: Float | None = None) -> None:
        self.u, self.y = u, y
        self.root = None if weight is None else np.sqrt(weight)
        self.n_rows, self.n_inputs = u.shape
        self.total = self.n_rows if weight is None else float(weight.sum())
        self.n_outputs = y.shape[1]

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p)."""
        K = len(omega)
        G, b = np.zeros((2 * K, 2 * K)), np.zeros((2 * K, self.n_outputs))
        sums = partial(_sums, omega, self.u, self.y, self.root)
        for gram, right in map_chunks(sums, self.n_rows, result_bytes=2 * 8 * (2 * K) ** 2):
            G += gram
            b += right
        return G, b

    def real_gram_between(self, omega: Float, others: Float) -> Float:
        """[C D]ᵀ[C D] between K frequencies and K' others: shape (2K, 2K')."""
        total = np.zeros((2 * len(omega), 2 * len(others)))
        sums = partial(_sums_between, omega, others, self.u, self.root)
        for part in map_chunks(sums, self.n_rows, result_bytes=2 * total.nbytes):
            total += part
        return total

    @staticmethod
    def gram_of(G: Float, b: Float) -> tuple[Complex, Complex]:
        """SᴴS of shape (K, K) and Sᴴy of shape (K, p), from what `real_gram` returned."""
        K = len(G) // 2
        return G[:K, :K] + G[K:, K:] + 1j * (G[:K, K:] - G[K:, :K]), b[:K] - 1j * b[K:]

    @staticmethod
    def solved(G: Float, b: Float, shift: float) -> Complex:
        """β̂ of shape (K, p) with (SᴴS + shift I) β̂ = Sᴴy, from what `real_gram` returned, or its sum over blocks."""
        gram, right = DirectNormalEquations.gram_of(G, b)
        return solve_ridge(lambda: (gram.copy(), right), shift)

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """SᴴS of shape (K, K) and Sᴴy of shape (K, p)."""
        return self.gram_of(*self.real_gram(omega))

    def solve(self, omega: Float, ridge: float) -> Complex:
        """β̂ of shape (K, p) with (SᴴS + λN I) β̂ = Sᴴy."""
        return self.solved(*self.real_gram(omega), ridge * self.total)

    def mse(self, omega: Float, beta: Complex) -> float:
        """Mean over points and outputs of |y − Re(S β̂)|²."""
        B = real_amplitudes(beta).T
        total = sum(map_chunks(partial(_squares, omega, B, self.u, self.y, self.root), self.n_rows))
        return total / (self.total * self.n_outputs)


def _sums(omega: Float, u: Float, y: Float, root: Float | None, rows: slice) -> tuple[Float, Float]:
    """[C D]ᵀ[C D] and [C D]ᵀy over some rows, weighted by the squares of their roots."""
    gram = np.zeros((2 * len(omega), 2 * len(omega)))
    product = np.empty_like(gram)
    right = np.zeros((2 * len(omega), y.shape[1]))
    for block, CD in feature_blocks(omega, u, rows):
        targets = y[block]
        if root is not None:
            np.multiply(CD, root[block], out=CD)
            targets = (targets.T * root[block]).T
        gram += np.matmul(CD, CD.T, out=product)  # NumPy's syrk; SciPy's would hold the other threads up
        right += CD @ targets
    return gram, right


def _sums_between(omega: Float, others: Float, u: Float, root: Float | None, rows: slice) -> Float:
    """[C D]ᵀ[C D] of some frequencies with others over some rows, weighted by the squares of their roots."""
    total = np.zeros((2 * len(omega), 2 * len(others)))
    pairs = zip(feature_blocks(omega, u, rows), feature_blocks(others, u, rows), strict=True)
    for (block, CD), (_, other) in pairs:
        if root is not None:
            np.multiply(CD, root[block] ** 2, out=CD)
        total += CD @ other.T
    return total


def _squares(omega: Float, B: Float, u: Float, y: Float, root: Float | None, rows: slice) -> float:
    """Σ |y − [C D] B|² over some rows, weighted by the squares of their roots."""
    total = 0.0
    for block, CD in feature_blocks(omega, u, rows):
        residual = y[block].T - B @ CD
        if root is not None:
            residual *= root[block]
        total += float(np.vdot(residual, residual))
    return total


def solve_ridge(sums: Callable[[], tuple[Complex, Complex]], shift: float, noise: float = EPSILON) -> Complex:
    """Solve (gram + shift·I) β = right for a Hermitian positive semidefinite gram.

    By Cholesky. Where rounding leaves the shifted matrix indefinite (frequencies that coincide, with a ridge of zero
    or near the rounding error of gram), by its eigenvectors instead: directions whose eigenvalue is below K·ε times
    the largest carry no information and are left out, which is the limit of the ridge solution for shift → 0.

    Parameters
    ----------
    sums : callable
        Makes gram, of which the lower triangle counts and which is overwritten, and right; a second time if need be.
    shift : float
    noise : float
        ε, the relative error of gram.
    """
    with one_blas_thread:
        gram, right = sums()
        gram = np.asfortranarray(gram)
        gram[np.diag_indices(len(gram))] += shift
        factor, beta, failed = scipy.linalg.lapack.zposv(gram, right, lower=1, overwrite_a=1)
        if not failed and np.isfinite(beta).all() and _well_conditioned(factor, noise):
            return np.asarray(beta)
        gram, right = sums()
        values, vectors = scipy.linalg.eigh(gram, lower=True, check_finite=False)
        values = values + shift
        kept = values > len(gram) * noise * max(values[-1], 0.0)
        V = vectors[:, kept]
        return np.asarray(V @ ((V.conj().T @ right) / values[kept, None]))


def _well_conditioned(factor: Complex, noise: float) -> bool:
    """Whether the pivots of a Cholesky factor stand clear of rounding: a singular matrix may factor by luck."""
    pivots = np.diagonal(factor).real
    return bool(pivots.min() ** 2 > len(pivots) * noise * pivots.max() ** 2)
