"""Sums over data in small boxes of frequencies: every feature as a polynomial.

With |ω| ≤ Ω and u in [−½, ½]^D a feature is a short sum of products of Chebyshev polynomials,

    exp(iω·u) = Σ_a B_a(ω) T_a(2u),      T_a = T_{a_1} ⋯ T_{a_D},      B_a(ω) = Π_d c_{a_d} i^{a_d} J_{a_d}(ω_d/2),

with c_0 = 1 and c_m = 2. So with M_ab = Σ_n T_a T_b and Y_a = Σ_n y_n T_a, which are moments of the data,

    SᴴS = Bᴴ M B = (LᵀB)ᴴ (LᵀB),      M = L Lᵀ,      Sᴴy = Bᴴ Y.

======  ==========  ==========================================================================
symbol  shape       meaning
======  ==========  ==========================================================================
a       (R, D)      degrees of the polynomials kept, from the most to the least important
B       (R, K)      coefficients: real numbers b, kept as (K, R), times i where |a| is odd
M, Y    (R, R|p)    moments
L       (R, r)      first r columns of the Cholesky factor of M
r       ≤ R         rows of LᵀB that are formed
======  ==========  ==========================================================================

The rows of LᵀB are the features' coefficients in the basis of L²(data) that orthogonalises the T_a in their order.
Leaving out its last rows changes a Gram matrix by the square of what a feature has there: with a relative accuracy of
1e-10 in mind, rows where features have less than 1e-5 together.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from itofit._checks import Complex, Float, Int
from itofit.waves.chebyshev import cosine_sine_expansion, tail
from itofit.waves.normal_equations.moments import Moments

JITTER = 1e-13
"""Added to the diagonal of M, relative to N, for data that lie on fewer points than there are polynomials."""


def degrees(box: Float, accuracy: float) -> tuple[Int, int]:
    """Degrees a of shape (R, D) of the polynomials that matter in a box, the most important first, and r.

    The coefficients of those left out, all together, are below the accuracy at any ω in the box; those after the first
    r, below its square root.
    """
    tails = [tail(side / 2, 0.01 * accuracy) for side in box]
    importance = tails[0]
    for values in tails[1:]:
        importance = np.multiply.outer(importance, values)
    order = np.argsort(-importance, axis=None, kind="stable")
    left_out = np.cumsum(importance.ravel()[order][::-1])[::-1]  # if the rest starts here
    R, r = (max(int((left_out >= bound).sum()), 1) for bound in (accuracy, np.sqrt(accuracy)))
    return np.stack(np.unravel_index(order[:R], importance.shape), axis=1), r


class PolynomialSums:
    """Gram matrix and right side at frequencies within a box.

    Parameters
    ----------
    data : Moments
        At least 2 max(a) + 1 in each direction.
    a : array of shape (R, D)
        From `degrees`.
    r : int
        How many rows of LᵀB are formed.
    """

    def __init__(self, data: Moments, a: Int, r: int) -> None:
        odd = a.sum(axis=1) % 2
        order = np.argsort(odd, kind="stable")  # even |a| first: there B is real
        self.n_even = len(a) - int(odd.sum())
        self.a = a[order]
        self.sizes = a.max(axis=0) + 1
        self.sign = np.where((self.a % 2).sum(axis=1) < 2, 1.0, -1.0)  # of the product of i for every odd degree
        M = _products(data.values[0], a, a[:r])
        M[np.diag_indices(r)] += JITTER * data.n_rows
        self.L = _first_columns_of_factor(M)[order]
        self.Y = data.values[(slice(1, None), *self.a.T)].T

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """The lower triangle of SᴴS (K, K), and Sᴴy (K, p)."""
        b, n = self._coefficients(omega), self.n_even
        C = np.empty((len(omega), self.L.shape[1]), dtype=complex)
        C.real, C.imag = b[:, :n] @ self.L[:n], b[:, n:] @ self.L[n:]
        right = np.empty((len(omega), self.Y.shape[1]), dtype=complex)
        right.real, right.imag = b[:, :n] @ self.Y[:n], -(b[:, n:] @ self.Y[n:])
        return scipy.linalg.blas.zherk(1.0, C.T, trans=2, lower=1), right

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p): cosines are even, sines odd."""
        b, n = self._coefficients(omega), self.n_even
        CD = np.concatenate([b[:, :n] @ self.L[:n], b[:, n:] @ self.L[n:]])
        return CD @ CD.T, np.concatenate([b[:, :n] @ self.Y[:n], b[:, n:] @ self.Y[n:]])

    def _coefficients(self, omega: Float) -> Float:
        """B of shape (K, R): B_a(ω_k) is b_ka, times i where |a| is odd."""
        b = cosine_sine_expansion(0.5 * omega[:, 0], self.sizes[0]).take(self.a[:, 0], axis=1)
        for d in range(1, omega.shape[1]):
            b *= cosine_sine_expansion(0.5 * omega[:, d], self.sizes[d]).take(self.a[:, d], axis=1)
        b *= self.sign
        return b


def _first_columns_of_factor(M: Float) -> Float:
    """The first r columns of the Cholesky factor of a matrix, shape (R, r), from its first r columns."""
    r = M.shape[1]
    top = np.linalg.cholesky(M[:r])
    rest = scipy.linalg.solve_triangular(top, M[r:].T, lower=True, check_finite=False)
    return np.concatenate([top, rest.T])


def _products(moments: Float, a: Int, b: Int) -> Float:
    """Σ_n T_a T_b for all pairs, from the moments: T_m T_k = ½ (T_{m+k} + T_{|m−k|}) in each direction."""
    flat, places = moments.ravel(), [np.zeros((1, 1), dtype=np.int32)]
    for m, k, size in zip(a.T.astype(np.int32), b.T.astype(np.int32), moments.shape, strict=True):
        total, difference = m[:, None] + k, np.abs(m[:, None] - k)
        places = [place * np.int32(size) + degree for place in places for degree in (total, difference)]
    result = np.zeros((len(a), len(b)))
    for place in places:
        result += flat.take(place)
    return result / len(places)
