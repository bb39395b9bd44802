"""How errors of a learned drift change what steps of some length make of noise.

An error δ of a drift changes the covariance C of a step by ΔC = ½ h (Σ (∇δ)ᵀ + (∇δ) Σ) to first order in h. Here it is
taken by the places of `itofit.model.finite_step`, without derivatives, for many drawn drifts at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.model.finite_step import START_WEIGHT, moments_of_step
from itofit.model.sampled import SampledSDEs
from itofit.model.sde import SDE


class UncertainSteps(NamedTuple):
    """The covariance of n steps, over h, and how it changes with each of k drawn drifts."""

    covariance: Float  # (n, d, d): C
    changes: Float  # (k, n, d, d): ΔC


def uncertain_steps(sde: SDE, samples: SampledSDEs, x: Float, h: Float) -> UncertainSteps:
    """Of steps h (n,) from places x (n, m), for equations drawn from the posterior of a learned one."""
    d, held = sde.n_outputs, sde.n_covariates
    step = moments_of_step(x, h, sde.drift, sde.covariance, underdamped=sde.kind == "underdamped", n_held=held)
    drifts = samples.drift(step.places.reshape(-1, x.shape[1])).reshape(len(samples), 2 * d, len(x), d)
    cross = np.einsum("pni,kpnj->knij", step.away, drifts - drifts.mean(axis=0)) / (2 * d)
    return UncertainSteps(step.covariance, (1 - START_WEIGHT) * (cross + cross.swapaxes(2, 3)))
