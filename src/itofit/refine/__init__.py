"""Likelihood refinement at given frequencies: the drift weighted by Σ⁻¹, and Σ by the likelihood itself."""

from itofit.refine.covariance import CovarianceFit, Products, fit_covariance, held_out_losses, rescored
from itofit.refine.drift import Drift, resolved_drift, weighted_drift

__all__ = [
    "CovarianceFit",
    "Drift",
    "Products",
    "fit_covariance",
    "held_out_losses",
    "rescored",
    "resolved_drift",
    "weighted_drift",
]
