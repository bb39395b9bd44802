"""The Euler-Maruyama likelihood of transitions."""

from __future__ import annotations

import numpy as np

from itofit._checks import Float
from itofit.matrices.symmetric import factors


def gaussian_nll(increments: Float, h: Float, drift: Float, covariance: Float) -> Float:
    """Negative log-likelihood of each transition, the loss of the paper.

    With the residual r = Δx − h f, Σ_ij = s_i s_j C_ij and L Lᵀ = C, the correlations,

        −log p = ½ |L⁻¹ (r/s)|² / h + log det L + Σ log s_i + (d/2) log(2π h),

    which is as accurate for columns of very different units as for columns of one.

    Parameters
    ----------
    increments : array of shape (n, d)
    h : array of shape (n,)
    drift : array of shape (n, d)
    covariance : array of shape (n, d, d)
        Positive definite.

    Returns
    -------
    array of shape (n,)
    """
    d = increments.shape[1]
    s = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    L = factors(covariance) / s[:, :, None]
    residual = (increments - h[:, None] * drift) / s
    white = np.linalg.solve(L, residual[:, :, None])[:, :, 0]
    log_det = np.log(s * np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(0.5 * (white**2).sum(axis=1) / h + log_det + 0.5 * d * np.log(2 * np.pi * h))
