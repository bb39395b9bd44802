"""Normal equations with ridges: (A + P) c = b for a positive semidefinite A, by scaled Cholesky factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from itofit._checks import Float
from itofit.model.training import SWITCHED_OFF

JITTERS = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
"""Added to the diagonal of normal equations, in units of itself: the first that makes them positive definite."""
LARGE_FACTOR, VERY_LARGE_FACTOR = 64, 512
"""Rows of triangular matrices up to which LAPACK inverts them at once, and up to which products ignore that they are
triangular."""


class Penalised(NamedTuple):
    """A + P of a ridge regression, factored; what is switched off takes no part in A."""

    on: npt.NDArray[np.bool_] | slice  # (R,): which amplitudes are not switched off; all of them: a slice
    root: Float  # of these, see `inverse_root`
    inverse_diagonal: Float  # (R,): of (A + P)⁻¹
    log_det: float  # of A + P

    @classmethod
    def of(cls, A: Float, P: Float) -> Penalised:
        """For A of shape (R, R) and ridges (R,)."""
        on, inner = _in_use(A, P)
        if on is None:
            root, log_det = inverse_root(A, P)
            return cls(slice(None), root, np.einsum("ij,ij->j", root, root), log_det)
        root, log_det = inverse_root(inner, P[on])
        inverse_diagonal = 1 / np.maximum(P, 1.0)
        inverse_diagonal[on] = np.einsum("ij,ij->j", root, root)
        return cls(on, root, inverse_diagonal, log_det + float(np.log(P[~on]).sum()))

    def solution(self, b: Float) -> Float:
        """(A + P)⁻¹ b."""
        own = self.root.T @ (self.root @ b[self.on])
        if isinstance(self.on, slice):
            return np.asarray(own)
        c = np.zeros(len(b))
        c[self.on] = own
        return c


def solve_penalised(A: Float, b: Float, P: Float) -> tuple[Float, Float, float]:
    """(A + P)⁻¹ b, the diagonal of (A + P)⁻¹, and log det (A + P)."""
    factored = Penalised.of(A, P)
    return factored.solution(b), factored.inverse_diagonal, factored.log_det


def penalised_solution(A: Float, b: Float, P: Float) -> Float:
    """The first of these alone, which is a third of the work."""
    on, A = _in_use(A, P)
    used = slice(None) if on is None else on
    factor, scale = _scaled_factor(A, P[used])
    c = np.zeros(len(P))
    c[used] = dpotrs(factor, scale * b[used], lower=1)[0] * scale
    return c


def _in_use(A: Float, P: Float) -> tuple[npt.NDArray[np.bool_] | None, Float]:
    """Which amplitudes are not switched off, or None if all are in use; and A between these."""
    on = P < SWITCHED_OFF
    return (None, A) if on.all() else (on, A[on][:, on])


def inverse_root(A: Float, P: Float) -> tuple[Float, float]:
    """A lower triangular matrix W with WᵀW = (A + P)⁻¹, and log det (A + P)."""
    if not len(P):  # which LAPACK refuses
        return A, 0.0
    factor, scale = _scaled_factor(A, P)
    log_det = 2 * float(np.log(factor.diagonal() / scale).sum())
    inverse_factor = _inverse_factor(factor)
    inverse_factor *= scale
    return inverse_factor, log_det


def left_by_others(A: Float, P: Float, own: slice) -> Float:
    """What A says of some amplitudes where the others, with their ridges, may do as they like: a Schur complement.

    Made of a Cholesky factor, it has no negative eigenvalues. The difference that defines it has where little is left.

    Parameters
    ----------
    A : array of shape (R, R)
    P : array of shape (R,)
    own : slice
        Of those amplitudes, r of them; their own ridges do not count.

    Returns
    -------
    array of shape (r, r)
    """
    mine = np.arange(len(P))[own]
    order = np.concatenate([np.delete(np.arange(len(P)), mine), mine])
    ridges = P[order]
    ridges[-len(mine) :] = 0.0
    factor, scale = _scaled_factor(A[np.ix_(order, order)], ridges)
    root = np.tril(factor[-len(mine) :, -len(mine) :]) / scale[-len(mine) :, None]
    return np.asarray(root @ root.T)


def _inverse_factor(L: Float) -> Float:
    """The inverse of a lower triangular matrix, by that of its halves if it is large: LAPACK's takes twice as long."""
    n = len(L)
    if n <= LARGE_FACTOR:
        return np.asarray(dtrtri(L, lower=1)[0])
    half = n // 2
    inverse = np.zeros((n, n), order="F")
    first, last = inverse[:half, :half], inverse[half:, half:]
    first[:], last[:] = _inverse_factor(L[:half, :half]), _inverse_factor(L[half:, half:])
    if n <= VERY_LARGE_FACTOR:
        inverse[half:, :half] = -(last @ (L[half:, :half] @ first))
    else:
        product = dtrmm(-1.0, first, L[half:, :half], side=1, lower=1)
        inverse[half:, :half] = dtrmm(1.0, last, product, lower=1, overwrite_b=1)
    return inverse


def _scaled_factor(A: Float, P: Float) -> tuple[Float, Float]:
    """The Cholesky factor of A + P with columns scaled to unit length, and the scale (R,)."""
    scale = 1 / np.sqrt(np.maximum(A.diagonal() + P, 1e-300))  # zero where there are no data
    M = np.empty(A.shape, order="F")  # as LAPACK wants it, which would make a copy of another one
    for jitter in JITTERS:
        np.multiply(scale[:, None], scale, out=M)
        M *= A
        M.ravel(order="K")[:: len(M) + 1] = 1.0 + jitter  # a view of the diagonal
        factor, failed = dpotrf(M, lower=1, overwrite_a=1)
        if not failed:
            return factor, scale
    raise np.linalg.LinAlgError("the normal equations are not positive definite")
