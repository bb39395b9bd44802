"""Which covariance: its frequencies, its link, and whether it has off-diagonal entries.

Candidates are fitted to two of the five folds and compared on the others. A candidate is replaced only by one that
is better by more than a standard error, so that of candidates that are equally good the simplest is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.covariance import fit_covariance, held_out_losses
from itofit.learning.automatic.evidence import Basis, with_intercept
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.matrices.links import Link, Shape
from itofit.matrices.symmetric import Structure, entries, reference_factor, to_matrices
from itofit.model.training import Candidate

FALSE_ALARM = 0.01
"""Probability that off-diagonal entries of Σ are tried although there are none."""
LEAST_GAIN = 2.0
"""Of the log-likelihood of held-out folds, beyond its standard error, that off-diagonal entries of Σ must bring."""
FOLDS_TO_FIT = 2
"""Of the five folds: on them the candidates are fitted, and on the others compared."""
ENTRIES_TO_CHOOSE = 16_000
"""Cells that candidates are fitted to, at most, times the number of entries of Σ: enough to tell them apart."""


class ResidualProducts(NamedTuple):
    """Cells of the entries of rrᵀ/h, and their mean."""

    cells: Cells
    mean: Float  # (d, d)

    def in_units(self, structure: Structure) -> tuple[Float, Float]:
        """L of the mean covariance, and the entries of L⁻¹ S L⁻ᵀ of each cell."""
        d = len(self.mean)
        rows, cols = entries("full", d)
        if structure == "diagonal":
            variance = np.diagonal(self.mean)
            return np.diag(np.sqrt(variance)), self.cells.sums[:, rows == cols] / variance
        L = reference_factor(self.mean)
        inverse = np.linalg.inv(L)
        S = inverse @ to_matrices(self.cells.sums, "full", d) @ inverse.T
        return L, S[:, rows, cols]


class Trial(NamedTuple):
    """A candidate and what it loses on each of the held-out cells."""

    frequencies: str  # "start" or "search"
    sigma: Sigma
    losses: Float

    def gain_of(self, other: Trial) -> float:
        """How much better another one is, less the standard error of that."""
        difference = self.losses - other.losses
        return float(difference.sum() - np.sqrt(len(difference)) * difference.std())


def simplest_of_the_best(trials: list[Trial]) -> Trial:
    """The first that the best does not beat significantly."""
    best = min(trials, key=lambda trial: float(trial.losses.sum()))
    return next(trial for trial in trials if trial is best or trial.gain_of(best) <= 0)


def correlated(cells: Cells, sigma: Sigma, X: Float) -> bool:
    """Whether residuals in units of a diagonal covariance are correlated, everywhere or as a feature varies."""
    rows, cols = entries("full", len(sigma.L))
    off = rows > cols
    variances = np.diagonal(sigma.at(cells.u), axis1=1, axis2=2)
    products = cells.sums[:, off] / np.sqrt(variances[:, rows[off]] * variances[:, cols[off]])
    ones = with_intercept(X)
    z = (ones.T @ products) / np.sqrt(np.maximum((ones**2).T @ products**2, 1e-300))
    return bool(np.abs(z).max(initial=0.0) > np.sqrt(2 * np.log(z.size / FALSE_ALARM + 1)))


class Comparison:
    """Candidates for Σ on the residual products of one drift.

    Parameters
    ----------
    products : ResidualProducts
    bases : dict
        Features to choose from by the name of their frequencies, the simplest first; None: no features, Σ is constant.
    links : tuple of Link
        To choose from, the simplest first.
    ridge : float or None
        Algorithm 1's λ, instead of ridges of largest evidence.
    bar : Progress
    """

    def __init__(
        self,
        products: ResidualProducts,
        bases: dict[str, Basis | None],
        links: tuple[Link, ...],
        ridge: float | None,
        bar: Progress,
    ) -> None:
        self.products, self.bases, self.links, self.ridge, self.bar = products, bases, links, ridge, bar
        cells = products.cells
        self.features = {name: features_at(basis, cells.u) for name, basis in bases.items()}
        self.fitted_to = np.flatnonzero(cells.fold < FOLDS_TO_FIT)
        self.compared_on = np.flatnonzero(cells.fold >= FOLDS_TO_FIT)
        self.trials: list[Trial] = []

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What was tried, with the loss of each transition on the held-out folds."""
        n = self.products.cells.count[self.compared_on].sum()
        return tuple(
            Candidate(t.sigma.fit.shape.structure, t.frequencies, t.sigma.fit.link.name, float(t.losses.sum() / n))
            for t in self.trials
        )

    def choose(self, structure: Structure | None) -> Sigma:
        """The covariance that predicts held-out folds best, of one structure or of either."""
        chosen = self._chosen(structure)
        best = chosen.sigma.simplified()
        for other in self.trials:
            same = other.frequencies == chosen.frequencies and other.sigma.fit.shape == best.fit.shape
            if same and other.sigma.fit.link is self.links[0]:
                best = best._replace(simplest=other.sigma.fit)
        return best

    def _chosen(self, structure: Structure | None) -> Trial:
        first = structure or "diagonal"
        chosen = simplest_of_the_best(self._try(first, list(self.bases)[-1:], self.links))
        link = chosen.sigma.fit.link
        if len(self.bases) > 1:  # the start's frequencies, unless those that were found are better
            chosen = simplest_of_the_best([*self._try(first, ["start"], [link]), chosen])
        X = self.features[chosen.frequencies]
        if structure is not None or not correlated(self.products.cells, chosen.sigma, X):
            return chosen
        full = self._try("full", self.bases, [chosen.sigma.fit.link])
        best = simplest_of_the_best(full)
        if chosen.gain_of(best) <= LEAST_GAIN:
            return chosen
        others = [link for link in self.links if link is not chosen.sigma.fit.link]
        return simplest_of_the_best([*full, *self._try("full", [best.frequencies], others)])

    def _try(self, structure: Structure, names: Iterable[str], links: Iterable[Link]) -> list[Trial]:
        """Fit candidates to some folds and judge them on the others."""
        cells, (L, S) = self.products.cells, self.products.in_units(structure)
        shape = Shape(structure, len(L))
        rows = self.fitted_to[:: max(1, -(-len(self.fitted_to) * S.shape[1] // ENTRIES_TO_CHOOSE))]
        new = []
        for name in names:
            basis, products = self.bases[name], Products.of(self.features[name], S, cells.count, cells.fold)
            held_out = products.at(self.compared_on)
            for link in links if basis is not None else self.links[:1]:
                self.bar.show("covariance", f"{structure}, {link.symbol} as a sum of waves")
                fit = fit_covariance(products.at(rows), basis, link, shape, self.ridge)
                losses = held_out_losses(fit, held_out) + held_out.count * np.log(np.diagonal(L)).sum()
                new.append(Trial(name, Sigma(basis, L, fit), losses))
        self.trials += new
        return new
