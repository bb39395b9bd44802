"""Normal equations from the data themselves, in any dimension.

The feature matrix S exists one block of rows at a time, as its real form [C D] (cosines and sines), whose Gram matrix
is one symmetric rank-k update:

    [C D]ᵀ[C D] = ( CᵀC  CᵀD )        SᴴS = CᵀC + DᵀD + i (CᵀD − DᵀC),        Sᴴy = Cᵀy − i Dᵀy
                  ( DᵀC  DᵀD )

That is half the work of the complex product SᴴS, at the speed of a real one. The memory beside the data is a few
blocks and a few Gram matrices, whatever N is.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from itofit._blocks import map_chunks, one_blas_thread
from itofit._checks import Complex, Float
from itofit.fourier import feature_blocks, real_amplitudes


class DirectNormalEquations:
    """Points u of shape (N, m) and targets y of shape (N, p), summed over directly.

    Parameters
    ----------
    u : array of shape (N, m)
        Scaled inputs.
    y : array of shape (N, p)
        Scaled targets.
    """

    def __init__(self, u: Float, y: Float) -> None:
        self.u = u
        self.y = y
        self.n_rows, self.n_inputs = u.shape
        self.n_outputs = y.shape[1]

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """SᴴS of shape (K, K) and Sᴴy of shape (K, p)."""
        K = len(omega)

        def sums(chunk: slice) -> tuple[Float, Float]:
            gram = np.zeros((2 * K, 2 * K))
            product = np.empty_like(gram)
            right = np.zeros((2 * K, self.n_outputs))
            for block, CD in feature_blocks(omega, self.u, chunk):
                gram += np.matmul(CD, CD.T, out=product)  # NumPy's syrk; SciPy's would hold the other threads up
                right += CD @ self.y[block]
            return gram, right

        parts = map_chunks(sums, self.n_rows, result_bytes=2 * 8 * (2 * K) ** 2)
        G, b = parts[0]
        for gram, right in parts[1:]:
            G += gram
            b += right
        return G[:K, :K] + G[K:, K:] + 1j * (G[:K, K:] - G[K:, :K]), b[:K] - 1j * b[K:]

    def solve(self, omega: Float, ridge: float) -> Complex:
        """β̂ of shape (K, p) with (SᴴS + λN I) β̂ = Sᴴy."""
        gram, right = self.gram(omega)
        return solve_ridge(gram, right, ridge * self.n_rows)

    def mse(self, omega: Float, beta: Complex) -> float:
        """Mean over points and outputs of |y − Re(S β̂)|²."""
        B = real_amplitudes(beta).T

        def squares(chunk: slice) -> float:
            total = 0.0
            for block, CD in feature_blocks(omega, self.u, chunk):
                residual = self.y[block].T - B @ CD
                total += float(np.vdot(residual, residual))
            return total

        return sum(map_chunks(squares, self.n_rows)) / self.y.size


def solve_ridge(gram: Complex, right: Complex, shift: float) -> Complex:
    """Solve (gram + shift·I) β = right for a Hermitian positive semidefinite gram.

    By Cholesky. Where rounding leaves the shifted matrix indefinite (frequencies that coincide, with a ridge of zero
    or near the rounding error of gram), by its eigenvectors instead: directions whose eigenvalue is below K·ε times
    the largest carry no information and are left out, which is the limit of the ridge solution for shift → 0.
    """
    K = len(gram)
    with one_blas_thread:
        shifted = gram.copy()
        shifted.flat[:: K + 1] += shift
        try:
            factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
            beta = scipy.linalg.cho_solve(factor, right, check_finite=False)
            if np.isfinite(beta).all() and _well_conditioned(factor[0]):
                return np.asarray(beta)
        except np.linalg.LinAlgError:
            pass
        values, vectors = scipy.linalg.eigh(gram, check_finite=False)
        values = values + shift
        kept = values > K * np.finfo(float).eps * max(values[-1], 0.0)
        V = vectors[:, kept]
        return np.asarray(V @ ((V.conj().T @ right) / values[kept, None]))


def _well_conditioned(factor: Complex) -> bool:
    """Whether the pivots of a Cholesky factor stand clear of rounding: a singular matrix may factor by luck."""
    pivots = np.diagonal(factor).real
    return bool(pivots.min() ** 2 > len(pivots) * np.finfo(float).eps * pivots.max() ** 2)
