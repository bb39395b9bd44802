"""Roots and inverses of many small symmetric matrices, by formulas where they have one or two rows.

A filter needs them for a few hundred states at each of its steps, and the steps of an equation for thousands of places;
calls of LAPACK would take most of their time.
"""

from __future__ import annotations

import numpy as np

from itofit._checks import Float
from itofit.matrices.symmetric import factors

LEAST = 1e-300
"""Variances below are taken for this."""
LEAST_SHARE = 1e-14
"""Of a variance, that the rest of it is at least which another variable does not explain."""


def lower_root(P: Float) -> Float:
    """Cholesky factors of covariances (n, D, D), which may be singular."""
    D = P.shape[1]
    if D == 1:
        return np.sqrt(np.maximum(P, LEAST))
    if D == 2:
        root = np.zeros_like(P)
        a = np.sqrt(np.maximum(P[:, 0, 0], LEAST))
        b = P[:, 1, 0] / a
        root[:, 0, 0], root[:, 1, 0] = a, b
        own = np.maximum(P[:, 1, 1], LEAST)
        root[:, 1, 1] = np.sqrt(np.maximum(own - b**2, LEAST_SHARE * own))
        return root
    own = np.arange(D)
    raised = P.copy()
    raised[:, own, own] = np.maximum(P[:, own, own], LEAST)
    return factors(raised)


def inverse_of_root(root: Float) -> Float:
    """Inverses of lower triangular matrices (n, D, D)."""
    D = root.shape[1]
    if D == 1:
        return 1 / root
    if D == 2:
        back = np.zeros_like(root)
        a, c = root[:, 0, 0], root[:, 1, 1]
        back[:, 0, 0], back[:, 1, 1] = 1 / a, 1 / c
        back[:, 1, 0] = -root[:, 1, 0] / (a * c)
        return back
    return np.asarray(np.linalg.inv(root))


def inverse_of(P: Float) -> Float:
    """Inverses of covariances (n, D, D), which may be singular up to rounding."""
    if P.shape[1] == 1:
        return 1 / np.maximum(P, LEAST)
    back = inverse_of_root(lower_root(P))
    return np.asarray(back.swapaxes(1, 2) @ back)


def turned(A: Float, P: Float) -> Float:
    """A P Aᵀ for matrices (n, D, D)."""
    if P.shape[1:] == (1, 1) and A.shape[1:] == (1, 1):
        return A * P * A
    return np.asarray(A @ P @ A.swapaxes(1, 2))
