"""Monomials that a drift depends on: one amplitude each, where waves would need several.

Squares and cubes of one input, products of two, and squares of one times another, around where inputs are zero or, if
that is neither within the data nor near them, around the middle of these. Products that stand out beside linear terms
and waves along single inputs are terms beside waves. All monomials without any waves are a polynomial of which the
evidence keeps few terms: a candidate for the drift, see `itofit.learning.automatic.search`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special

from itofit._blocks import one_blas_thread
from itofit._checks import Int
from itofit.learning.automatic.evidence import amplitude_ridges
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets, fitted_waves
from itofit.learning.automatic.penalised import solve_penalised
from itofit.waves.wave_groups import factors_of_group, inputs_of_group, monomials

FALSE_ALARM = 0.01
"""Probability that noise alone makes a monomial stand out, over all monomials and outputs."""
GAIN_OF_PRODUCT = 15.0
"""Log-evidence that each product must gain: a single amplitude leaves out of error bars what else there may be."""
MOST_INPUTS = 5
"""With which the square of an input times another is tried: there are many with more."""
NO_MONOMIALS = np.array([], dtype=int)


def with_products(fit: FittedWaves, targets: Targets) -> tuple[FittedWaves, Int]:
    """A fit of long waves, with the products of two inputs that stand out if they make it more evident; which ones.

    Parameters
    ----------
    fit : FittedWaves
        Without monomials, and without waves that stood out.
    targets : Targets
        Of two and more inputs.
    """
    products = _standing(fit, targets)
    if len(products):
        other = fitted_waves(*fit.walking, fit.found, targets, fit.V, None, products)
        if other.log_evidence - fit.log_evidence > GAIN_OF_PRODUCT * len(products):
            return other, products
    return fit, NO_MONOMIALS


def polynomial(fit: FittedWaves, targets: Targets) -> FittedWaves:
    """A fit of linear terms and all monomials, with the waves of another switched off.

    Parameters
    ----------
    fit : FittedWaves
        With waves that are short enough to tell error bars what a polynomial may lack.
    targets : Targets
    """
    return fitted_waves(*fit.walking, fit.found, targets, fit.V, None, _tried(targets), without_waves=True)


def _tried(targets: Targets) -> Int:
    """The groups of monomials that are tried."""
    m = targets.n_inputs
    return np.array([g for g in monomials(m).tolist() if _may_be(g, m, targets.periodic)], dtype=int)


def _may_be(group: int, m: int, periodic: npt.NDArray[np.bool_]) -> bool:
    """Whether a monomial is tried; periodic inputs have none."""
    inputs = list(inputs_of_group(group, m))
    return not periodic[inputs].any() and (m <= MOST_INPUTS or len(inputs) == 1 or _is_product(group, m))


def _is_product(group: int, m: int) -> bool:
    """Whether a monomial is the product of two inputs, each of them once."""
    return factors_of_group(group, m) == inputs_of_group(group, m)


def _standing(fit: FittedWaves, targets: Targets) -> Int:
    """The groups of products that stand out beside linear terms, other monomials and waves along single inputs."""
    m, V = targets.n_inputs, fit.V
    omega, group = fit.walking
    along, groups = group < m, _tried(targets)
    if not len(groups):
        return NO_MONOMIALS
    fit = fitted_waves(omega[along], group[along], fit.found, targets, V, None, groups)
    places = np.flatnonzero(fit.basis.group < -m)
    squares = np.zeros((len(groups), len(V)))
    for j, own in enumerate(fit.fits):
        P = amplitude_ridges(own.ridges[None], fit.basis)[1:]
        with one_blas_thread:
            variance = own.variance * solve_penalised(fit.A, fit.b @ V[j], P)[1]
        squares[np.searchsorted(groups, fit.basis.group[places]), j] = own.c[places] ** 2 / variance[places]
    is_product = np.array([_is_product(g, m) for g in groups.tolist()])
    return np.asarray(groups[is_product & (squares.max(axis=1) > scipy.special.chdtri(1, FALSE_ALARM / squares.size))])
