"""The likelihood of transitions: of Gaussian steps, and of steps whose covariance is uncertain itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from scipy.special import gammaln

from itofit._checks import Float, flag
from itofit.data.large.cluster import Client
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.finite_step import Scheme

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

BATCH_ROWS = 65_536
"""Rows taken together where each has a matrix of its own, to bound the memory of all."""
LEAST_FREEDOM, MOST_FREEDOM = 2.0, 1e6
"""Degrees of freedom of Student's distribution: where Σ could be anything, and where it is Gaussian to a millionth."""


class LossOptions(TypedDict, total=False):
    """Options of `LearnedSDE.nll` that say nothing of what it returns."""

    predictive: bool
    client: Client


def summed(losses: Callable[[Transitions], Float], data: Data, pointwise: bool) -> float | Float:
    """Losses (n,) of transitions, or their mean."""

    def total(block: Transitions, number: int) -> tuple[float, int]:
        return float(losses(block).sum()), len(block)

    if flag("pointwise", pointwise):
        return np.concatenate(add_up(data, lambda block, number: [losses(block)], most_rows=BATCH_ROWS))
    loss, n = add_up(data, total, most_rows=BATCH_ROWS)
    return loss / n


def predictive_losses(block: Transitions, sde: LearnedSDE, scheme: Scheme) -> Float:
    """Loss of each transition, with the errors of a model's drift and covariance in its distribution."""
    moments = sde._moments(block.inputs, block.h, scheme)
    _, drift_error = sde.drift(block.inputs, return_std=True)
    sigma, sigma_error = (np.diagonal(a, axis1=1, axis2=2) for a in sde.covariance(block.inputs, return_std=True))
    return uncertain_nll(block.increments, block.h, *moments, drift_error, sigma_error / sigma)


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
    squares, log_det = _whitened(increments, h, drift, covariance)
    return np.asarray(0.5 * squares + log_det + 0.5 * increments.shape[1] * np.log(2 * np.pi * h))


def student_nll(increments: Float, h: Float, drift: Float, covariance: Float, freedom: Float) -> Float:
    """Negative log-likelihood of each transition if its covariance is known only as well as from some observations.

    With a covariance whose scale was estimated from ν of them, a Gaussian step has Student's distribution of ν degrees
    of freedom: Gaussian for large ν, with heavy tails for a few.

    Parameters
    ----------
    increments, h, drift, covariance : arrays
        As for `gaussian_nll`.
    freedom : array of shape (n,)
        ν, positive.

    Returns
    -------
    array of shape (n,)
    """
    d = increments.shape[1]
    squares, log_det = _whitened(increments, h, drift, covariance)
    tails = 0.5 * (freedom + d) * np.log1p(squares / freedom)
    norm = gammaln(0.5 * freedom) - gammaln(0.5 * (freedom + d)) + 0.5 * d * np.log(np.pi * freedom * h)
    return np.asarray(tails + norm + log_det)


def uncertain_nll(
    increments: Float, h: Float, mean: Float, covariance: Float, mean_error: Float, relative_error: Float
) -> Float:
    """Negative log-likelihood of each transition, with the errors of drift and covariance in its distribution.

    Errors of the outputs' drifts that are small beside the noise of a step are correlated as their noises are, which is
    so for regressions on the same features. What is larger than the noise, far from all data, is independent.
    A variance whose relative standard deviation is s is as well known as from ν = 2/s² observations.

    Parameters
    ----------
    increments, h, mean, covariance : arrays
        As for `gaussian_nll`.
    mean_error : array of shape (n, d)
        Standard deviations of the drift.
    relative_error : array of shape (n, d)
        Those of the variances, relative to them.
    """
    noise = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    added = np.sqrt(h)[:, None] * mean_error / noise
    correlated = added / np.sqrt(1 + added**2)
    total = covariance * (1 + correlated[:, :, None] * correlated[:, None, :])
    each = np.arange(added.shape[1])
    total[:, each, each] = (noise * np.hypot(1, added)) ** 2
    freedom = 2 / np.mean(relative_error**2, axis=1).clip(2 / MOST_FREEDOM, 2 / LEAST_FREEDOM)
    return student_nll(increments, h, mean, total, freedom)


def _whitened(increments: Float, h: Float, drift: Float, covariance: Float) -> tuple[Float, Float]:
    """|L⁻¹ (r/s)|² / h and log det L + Σ log s_i of each transition."""
    s = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    L = factors(covariance) / s[:, :, None]
    residual = (increments - h[:, None] * drift) / s
    white = np.linalg.solve(L, residual[:, :, None])[:, :, 0]
    log_det = np.log(s * np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray((white**2).sum(axis=1) / h), np.asarray(log_det)
