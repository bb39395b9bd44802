"""Amplitudes of drift and covariance from all transitions, where frequencies were searched on some of them.

Three passes: normal equations of the drift, one scoring step of the covariance, and the losses of some lengths of it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit.data.passes import Data, add_up, added
from itofit.data.rows import PASS_ROWS
from itofit.data.transitions import Transitions
from itofit.learning.automatic.candidates import in_units_of
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.covariance import fit_covariance
from itofit.learning.automatic.drift import Drift, normal_equations, resolved_drift
from itofit.learning.automatic.limits import Losses
from itofit.learning.automatic.principal import Basis, with_intercept
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.rescoring import ScoringSums, losses_of_trials, rescored
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.matrices.symmetric import outer_entries
from itofit.model.training import SWITCHED_OFF
from itofit.waves.scaling import Scaling

T = TypeVar("T")

ROWS_AT_ONCE = 16_384
"""Transitions of which features and matrices are made at once."""
ROWS_ALONE = 131_072
"""Transitions, at most, that Σ is fitted to one by one where it turns within the cells of a grid."""
MOST_WORK, LEAST_ALONE = 6e10, 16_000
"""Multiplications of a step of that fit, for which there may be fewer transitions; but not fewer than these."""
KEPT_NUMBERS = 4_000_000
"""Numbers of features that are kept from one pass to the next: 32 MB."""


class Functions(NamedTuple):
    """A drift and a covariance."""

    drift: Drift
    sigma: Sigma


class Features:
    """Features of a drift and a covariance at the places of transitions.

    Those of the first parts are kept from one pass to the next, where passes are made in one process.
    """

    def __init__(self, scaling: Scaling, drift: Basis, covariance: Basis | None) -> None:
        self.scaling, self.drift, self.covariance = scaling, drift, covariance
        n_columns = len(drift.penalty) + (0 if covariance is None else len(covariance.penalty))
        self.n_kept = KEPT_NUMBERS // (ROWS_AT_ONCE * n_columns)
        self.kept: dict[int, tuple[Float, Float]] = {}

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"kept": {}}  # workers make their own

    def __call__(self, part: Transitions, number: int) -> tuple[Float, Float]:
        """Those of the drift and of the covariance, at the part of the data that has a number."""
        if number in self.kept:
            return self.kept[number]
        u = self.scaling.points(part.inputs)
        features = self.drift.at(u), features_at(self.covariance, u)
        if number < self.n_kept:
            self.kept[number] = features
        return features


class AllRows:
    """Passes over all transitions, with the features of a drift and a covariance.

    Parameters
    ----------
    data : Data
    n_rows : int
    scaling : Scaling
    basis : Basis
        Features of the drift.
    sigma : Sigma
        The covariance that the drift is weighted by and that is improved on.
    bar : Progress
    """

    def __init__(self, data: Data, n_rows: int, scaling: Scaling, basis: Basis, sigma: Sigma, bar: Progress) -> None:
        self.data, self.n_rows, self.bar = data, n_rows, bar
        self.basis, self.sigma = basis, sigma
        self.features = Features(scaling, basis, sigma.basis)

    def improved_drift(self, drift: Drift) -> Drift:
        """The drift with amplitudes from all transitions."""
        features, sigma, d = self.features, self.sigma, len(drift.unit)
        parts = [[j] for j in range(d)] if sigma.fit.shape.separate else [list(range(d))]  # of outputs that are coupled

        def equations(part: Transitions, number: int) -> tuple[tuple[Float, Float], ...]:
            X, own = features(part, number)
            ones, precision = with_intercept(X), sigma.precision(own)
            return tuple(normal_equations(ones, part.h, part.increments[:, j], precision[:, j][:, :, j]) for j in parts)

        return resolved_drift(self._pass(equations, "drift"), parts, self.basis, drift)

    def improved(self, drift: Drift) -> Functions:
        """Drift and covariance with amplitudes from all transitions."""
        drift, fit = self.improved_drift(drift), self.sigma.fit
        products = products_of_part(self.features, drift, self.sigma)

        def losses(trials: list[Float]) -> list[Losses]:
            def of_part(part: Transitions, number: int) -> tuple[Losses, ...]:
                return losses_of_trials(fit, trials, *products(part, number))

            return list(self._pass(of_part, "covariance"))

        sums = self._pass(lambda part, number: ScoringSums.of(fit, *products(part, number)), "covariance")
        return Functions(drift, self.sigma._replace(fit=rescored(fit, self.sigma.basis, sums, losses)))

    def more_likely_with(self, drift: Drift, other: Sigma) -> AllRows:
        """The same with another covariance of the same features and units, if that suits all transitions better."""
        products = products_of_part(self.features, drift, self.sigma)
        fits = (self.sigma.fit, other.fit)

        def of_part(part: Transitions, number: int) -> tuple[Losses, ...]:
            X, S = products(part, number)
            return tuple(losses for fit in fits for losses in losses_of_trials(fit, [fit.B], X, S))

        now, then = (losses.least for losses in self._pass(of_part, "covariance"))
        if now <= then:
            return self
        chosen = copy(self)
        chosen.sigma = other
        return chosen

    def _pass(self, function: Callable[[Transitions, int], T], label: str) -> T:
        """The sum of function(part, number of the part) over all rows, part by part within each block."""

        def of_block(block: Transitions, number: int) -> T:
            first = number * -(-PASS_ROWS // ROWS_AT_ONCE)
            parts = (block[i : i + ROWS_AT_ONCE] for i in range(0, len(block), ROWS_AT_ONCE))
            return reduce(added, (function(part, first + i) for i, part in enumerate(parts)))

        def shown(n_done: int) -> None:
            self.bar.show(label, f"{n_done:,} of all {self.n_rows:,} transitions", n_done / self.n_rows)

        return add_up(self.data, of_block, shown=shown)


def products_of_part(
    features: Features, drift: Drift, sigma: Sigma
) -> Callable[[Transitions, int], tuple[Float, Float]]:
    """For a part of the data with a number: features of Σ there, and the entries of rrᵀ/h in its units."""
    inverse, structure = np.linalg.inv(sigma.L), sigma.fit.shape.structure
    intercept, c = drift.intercept, np.ascontiguousarray(drift.c)  # as it is after it was sent to workers

    def products(part: Transitions, number: int) -> tuple[Float, Float]:
        X, own = features(part, number)
        residual = part.increments - part.h[:, None] * (intercept + X @ c)
        return own, outer_entries(residual @ inverse.T / np.sqrt(part.h)[:, None], structure)

    return products


def rows_alone(sigma: Sigma, n_rows: int) -> int:
    """How many of all transitions a Σ is fitted to one by one: the fewer the more amplitudes it has."""
    n_amplitudes = sum(int((own.P < SWITCHED_OFF).sum()) for own in sigma.fit.systems)
    return int(min(ROWS_ALONE, n_rows, max(MOST_WORK / n_amplitudes**2, LEAST_ALONE)))


def fitted_alone(sigma: Sigma, cells: Cells, ridge: float | None, n_rows: int) -> Sigma:
    """A full Σ that was fitted to sums over cells, fitted again to residual products of single transitions.

    Parameters
    ----------
    sigma : Sigma
    cells : Cells
        Each with one transition.
    ridge : float, optional
        Algorithm 1's λ, instead of ridges of largest evidence.
    n_rows : int
        Of all transitions, to which ridges that belong to λ are proportional.
    """
    fit, S = sigma.fit, in_units_of(sigma.L, cells.sums)
    products = Products.of(features_at(sigma.basis, cells.u), S, cells.count, cells.fold)
    most = fit.model.most  # sums over cells tell more of this limit
    new = fit_covariance(products, sigma.basis, fit.link, fit.shape, ridge, fit, most)
    if ridge is not None:
        new = replace(new, ridges=new.ridges * (n_rows / len(cells.u)))
    return sigma._replace(fit=new)
