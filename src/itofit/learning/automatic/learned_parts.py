"""What the default method learns: a drift and a covariance, each with what it was learned from."""

from __future__ import annotations

from typing import NamedTuple

from itofit.learning.automatic.candidates import ResidualProducts
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.drift import Drift, DriftCells
from itofit.learning.automatic.fitted_waves import FittedWaves
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.search import Searched
from itofit.learning.automatic.sigma import Sigma
from itofit.model.training import Candidate


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
