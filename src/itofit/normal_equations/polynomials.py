"""Sums over data in small boxes of frequencies: every feature as a polynomial.

With |ω| ≤ Ω and u in [−½, ½]^D a feature is a short sum of products of Chebyshev polynomials,

    exp(iω·u) = Σ_a B_a(ω) T_a(2u),      T_a = T_{a_1} ⋯ T_{a_D},      B_a(ω) = Π_d c_{a_d} i^{a_d} J_{a_d}(ω_d/2),

with c_0 = 1 and c_m = 2. So with M_ab = Σ_n T_a T_b and Y_a = Σ_n y_n T_a, which are moments of the data,

    SᴴS = Bᴴ M B,      Sᴴy = Bᴴ Y,      Σ_n |y_n − Re(S β̂)_n|² = cᵀMc − 2 cᵀY + Σ_n y_n²  with c = Re(B β̂).

======  ==========  ==========================================================================
symbol  shape       meaning
======  ==========  ==========================================================================
a       (R, D)      degrees of the polynomials kept, from the most to the least important
B       (R, K)      coefficients: real numbers b, kept as (K, R), times i where |a| is odd
M, Y    (R, R|p)    moments
L       (R, R)      M = L Lᵀ, so that SᴴS = (LᵀB)ᴴ (LᵀB)
r       ≤ R         rows of LᵀB that are formed
======  ==========  ==========================================================================

The rows of LᵀB are the features' coefficients in the basis of L²(data) that orthogonalises the T_a in their order.
Leaving out its last rows changes a Gram matrix by the square of what a feature has there: with a relative accuracy of
1e-10 in mind, the rows where features have less than 1e-5.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from itofit._checks import Complex, Float, Int
from itofit.chebyshev import cosine_sine_expansion, tail
from itofit.normal_equations.moments import Moments

JITTER = 1e-13
"""Added to the diagonal of M, relative to N, for data that lie on fewer points than there are polynomials."""


def degrees(box: Float, tolerance: float) -> tuple[Int, Float]:
    """Degrees a of shape (R, D) of the polynomials that matter in a box, and how much each can, in falling order.

    Those are left out whose coefficients, together, are below the tolerance at any ω in the box.
    """
    tails = [tail(side / 2, tolerance) for side in box]
    importance = tails[0]
    for values in tails[1:]:
        importance = np.multiply.outer(importance, values)
    order = np.argsort(-importance, axis=None, kind="stable")
    kept = order[importance.ravel()[order] >= tolerance]
    return np.stack(np.unravel_index(kept, importance.shape), axis=1), importance.ravel()[kept]


class PolynomialSums:
    """Gram matrix, right side and squared error at frequencies within a box.

    Parameters
    ----------
    data : Moments
        At least 2 max(a) + 1 in each direction.
    a : array of shape (R, D)
        From `degrees`.
    r : int
        How many rows of LᵀB are formed.
    """

    n_points = 0

    def __init__(self, data: Moments, a: Int, r: int) -> None:
        M = _products(data.values[0], a)
        L = np.linalg.cholesky(M + JITTER * data.n_rows * np.eye(len(a)))[:, :r]
        order = np.argsort(a.sum(axis=1) % 2, kind="stable")  # even |a| before odd
        self.n_even = int((a.sum(axis=1) % 2 == 0).sum())
        self.a = a[order]
        self.sizes = a.max(axis=0) + 1
        self.sign = np.where((self.a % 2).sum(axis=1) < 2, 1.0, -1.0)  # of the product of i for every odd degree
        self.L = L[order]
        self.M = M[np.ix_(order, order)]
        self.Y = data.values[(slice(1, None), *self.a.T)].T
        self.squares = data.squares

    def gram(self, omega: Float) -> tuple[Complex, Complex]:
        """The lower triangle of SᴴS (K, K), and Sᴴy (K, p)."""
        b, n = self.coefficients(omega), self.n_even
        even, odd = b[:, :n], b[:, n:]
        C = np.empty((len(omega), self.L.shape[1]), dtype=complex)
        C.real, C.imag = even @ self.L[:n], odd @ self.L[n:]
        right = even @ self.Y[:n] - 1j * (odd @ self.Y[n:])
        return scipy.linalg.blas.zherk(1.0, C.T, trans=2, lower=1), right

    def squared_error(self, omega: Float, beta: Complex) -> float:
        """Σ_n |y_n − Re(S β̂)_n|², over rows and outputs."""
        b, n = self.coefficients(omega), self.n_even
        c = np.concatenate([b[:, :n].T @ beta.real, -(b[:, n:].T @ beta.imag)])
        return max(float(np.vdot(c, self.M @ c - 2 * self.Y) + self.squares.sum()), 0.0)

    def coefficients(self, omega: Float) -> Float:
        """B of shape (K, R): B_a(ω_k) is b_ka, times i where |a| is odd."""
        b = cosine_sine_expansion(0.5 * omega[:, 0], self.sizes[0]).take(self.a[:, 0], axis=1)
        b *= self.sign
        for d in range(1, omega.shape[1]):
            b *= cosine_sine_expansion(0.5 * omega[:, d], self.sizes[d]).take(self.a[:, d], axis=1)
        return b


def _products(moments: Float, a: Int) -> Float:
    """M_ab = Σ_n T_a T_b of shape (R, R) from the moments: T_m T_k = ½ (T_{m+k} + T_{|m−k|}) in each direction."""
    places = np.zeros((1, len(a), len(a)), dtype=np.intp)  # in the flat array of moments
    for degree, size in zip(a.T, moments.shape, strict=True):
        total, difference = degree[:, None] + degree, np.abs(degree[:, None] - degree)
        places = np.concatenate([places * size + total, places * size + difference])
    return np.asarray(moments.ravel().take(places).mean(axis=0))
