"""Products of two inputs that a drift depends on: one amplitude each, where waves in a plane would need many."""

from __future__ import annotations

import numpy as np
import scipy.special

from itofit._blocks import one_blas_thread
from itofit._checks import Int
from itofit.learning.automatic.evidence import amplitude_ridges, solve_penalised
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets, fitted_waves
from itofit.waves.wave_groups import inputs_of_group, products_of_inputs

FALSE_ALARM = 0.01
"""Probability that noise alone makes a product stand out, over all products and outputs."""
GAIN_OF_PRODUCT = 15.0
"""Log-evidence that each of them must gain: a single amplitude leaves out of error bars what else there may be."""
NO_PRODUCTS = np.array([], dtype=int)


def with_products(fit: FittedWaves, targets: Targets) -> tuple[FittedWaves, Int]:
    """A fit of long waves, with the products of two inputs that stand out if they make it more evident; which ones.

    Parameters
    ----------
    fit : FittedWaves
        Without products, and without waves that stood out.
    targets : Targets
        Of two and more inputs.
    """
    (omega, group), none = fit.walking, fit.found
    standing = _standing(fit, targets)
    other = fitted_waves(omega, group, none, targets, fit.V, None, standing) if len(standing) else fit
    gain = other.log_evidence - fit.log_evidence
    return (other, standing) if gain > GAIN_OF_PRODUCT * len(standing) else (fit, NO_PRODUCTS)


def _standing(fit: FittedWaves, targets: Targets) -> Int:
    """The groups of products that stand out beside linear terms and the waves of a fit along single inputs."""
    m, V = targets.n_inputs, fit.V
    omega, group = fit.walking
    along, groups = group < m, products_of_inputs(m)
    groups = groups[[not targets.periodic[list(inputs_of_group(g, m))].any() for g in groups.tolist()]]
    if not len(groups):
        return NO_PRODUCTS
    fit = fitted_waves(omega[along], group[along], fit.found, targets, V, None, groups)
    places = np.flatnonzero(fit.basis.group < -m)
    squares = np.zeros((len(groups), len(V)))
    for j, own in enumerate(fit.fits):
        P = amplitude_ridges(own.ridges[None], fit.basis)[1:]
        with one_blas_thread:
            variance = own.variance * solve_penalised(fit.A, fit.b @ V[j], P)[1]
        squares[np.searchsorted(groups, fit.basis.group[places]), j] = own.c[places] ** 2 / variance[places]
    return np.asarray(groups[squares.max(axis=1) > scipy.special.chdtri(1, FALSE_ALARM / squares.size)])
