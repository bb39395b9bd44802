"""The Euler-Maruyama likelihood of transitions."""

from __future__ import annotations

import numpy as np

from itofit._checks import Float


def gaussian_nll(increments: Float, h: Float, drift: Float, covariance: Float) -> Float:
    """Negative log-likelihood of each transition, the loss of the paper.

    With the residual r = Δx − h f and L Lᵀ = Σ,

        −log p = ½ |L⁻¹ r|² / h + log det L + (d/2) log(2π h).

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
    L = np.linalg.cholesky(covariance)
    residual = increments - h[:, None] * drift
    white = np.linalg.solve(L, residual[:, :, None])[:, :, 0]
    log_det = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(0.5 * (white**2).sum(axis=1) / h + log_det + 0.5 * d * np.log(2 * np.pi * h))
