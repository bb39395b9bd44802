"""What the default method learns: a drift and a covariance, each with what it was learned from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.candidates import ResidualProducts, in_units_of
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.drift import Drift, DriftCells
from itofit.learning.automatic.few_data import moved
from itofit.learning.automatic.fitted_waves import FittedWaves
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.rescoring import with_errors_of_all
from itofit.learning.automatic.search import Searched
from itofit.learning.automatic.sigma import KnownFeatures, Sigma
from itofit.learning.spread import Posterior
from itofit.model.training import SWITCHED_OFF, Candidate
from itofit.waves.wave_groups import linear_terms

SIGNIFICANT = 2.0
"""Standard deviations of a linear term, below which it is called zero."""


class LearnedDrift(NamedTuple):
    """A drift, and what it was learned from."""

    drift: Drift
    searched: Searched
    waves: FittedWaves  # of what was searched, those that it is made of
    cells: Cells  # of Δx and of the entries of Δx Δxᵀ / h
    rows: DriftCells  # the same with the features

    @property
    def basis(self) -> Basis:
        """Its features."""
        return self.waves.basis


class LearnedSigma(NamedTuple):
    """A covariance, and how it was found."""

    sigma: Sigma
    searched: Searched
    candidates: tuple[Candidate, ...]
    products: ResidualProducts  # that it was learned from
    moved: str = ""  # which functions were moved to constants, see `few_data`
    n_alone: int = 0  # single transitions that it was fitted to, as it turns within the cells of a grid

    @property
    def how(self) -> str:
        """What the summary says of it, after on how many transitions frequencies were searched."""
        alone = f"; Σ turns within cells and is fitted to {self.n_alone:,} single transitions" if self.n_alone else ""
        return alone + (moved(self.moved) if self.moved else "")

    def with_errors_of_all(self, features: KnownFeatures) -> LearnedSigma:
        """The same with error bars that count how coupled entries depend on each other."""
        sigma, cells = self.sigma, self.products.cells
        if sigma.constant or not sigma.fit.moves_together:
            return self
        S, X = in_units_of(sigma.L, cells.sums), features(sigma.basis, cells.u)
        fit = with_errors_of_all(sigma.fit, Products.of(X, S, cells.count, cells.fold))
        return self._replace(sigma=sigma._replace(fit=fit))


def reported_ridges(ridges: Float, basis: Basis, posterior: Posterior) -> Float:
    """Ridges (d, G) as a training reports them: linear terms that may be zero, though never off, are called so."""
    reported, linear = ridges.copy(), np.flatnonzero(linear_terms(basis.group, basis.omega.shape[1]))
    variances = np.diagonal(posterior.squares, axis1=1, axis2=2)[:, 1:][:, linear]
    within_error = posterior.amplitudes[:, 1:][:, linear] ** 2 < SIGNIFICANT**2 * variances
    places = np.searchsorted(basis.groups, basis.group[linear])
    for output, place in zip(*np.nonzero(within_error), strict=True):
        reported[output, places[place]] = SWITCHED_OFF
    return reported
