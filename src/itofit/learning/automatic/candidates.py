"""Which covariance: its frequencies, its link, and whether it has off-diagonal entries.

Candidates are compared by the likelihood of every cell with amplitudes that have not seen its fold. A simpler one is
replaced only by one that is better by more than a standard error, or by so much that it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from itofit._checks import Float, Int
from itofit._progress import Progress
from itofit.learning.automatic.cells import Cells
from itofit.learning.automatic.covariance import fit_covariance, held_out_losses
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.matrices.links import Link, Shape
from itofit.matrices.symmetric import Structure, entries, reference_factor, to_matrices
from itofit.model.training import Candidate

FALSE_ALARM = 0.01
"""Probability that off-diagonal entries of Σ are tried although there are none."""
LEAST_GAIN = 2.0
"""Of the log-likelihood of held-out folds, that off-diagonal entries of Σ must bring."""
TOLERATED = 0.02
"""Nats per transition, besides LEAST_GAIN in all, that a simpler candidate may lose at most; a standard error of the
difference that is larger is one of few data."""
ENTRIES_TO_CHOOSE = 16_000
"""Cells that candidates are fitted to, at most, times the number of entries of Σ: enough to tell them apart."""
LEAST_PER_ENTRY = 10
"""Transitions for each entry of Σ, below which a full one is constant."""
MOST_REGIONS, LEAST_IN_REGION, REGIONS_PER_ENTRY = 32, 400.0, 4
"""Regions of the data whose mean covariances are compared, transitions in each, and regions for each entry of Σ."""
LESS_VARIATION = 0.5
"""Of the trace of Σ in other units than the mean, by its square, for which these are worth it."""
LEAST_OF_UNITS = 0.1
"""Least eigenvalue of these units' inverse, in units of the mean."""
ROUNDING = 1e-9
"""Of the variation of mean covariances."""
CONSTANT = "none"
"""Name of the frequencies of a constant Σ."""


class ResidualProducts(NamedTuple):
    """Cells of the entries of rrᵀ/h, and their mean."""

    cells: Cells
    mean: Float  # (d, d)

    def in_units(self, structure: Structure, *, steady: bool = True) -> tuple[Float, Float]:
        """L of the mean covariance, or of one of steady trace, and the entries of L⁻¹ S L⁻ᵀ of each cell."""
        d = len(self.mean)
        rows, cols = entries("full", d)
        if structure == "diagonal":
            variance = np.diagonal(self.mean)
            return np.diag(np.sqrt(variance)), self.cells.sums[:, rows == cols] / variance
        L = reference_factor(self.mean_of_steady_trace if steady else self.mean)
        return L, in_units_of(L, self.cells.sums)

    @property
    def mean_of_steady_trace(self) -> Float:
        """The mean covariance, or a matrix M that serves better: tr M⁻¹Σ is d on average, but varies far less.

        A limit of the eigenvalues of M⁻¹Σ is sharp where their sum is nearly the same everywhere. So it is where noise
        has the same strength everywhere and is nearly singular, whatever directions it has more often than others.
        """
        cells, d = self.cells, len(self.mean)
        most = min(MOST_REGIONS, cells.count.sum() / LEAST_IN_REGION)
        if most < REGIONS_PER_ENTRY * cells.sums.shape[1]:
            return self.mean
        region = regions(cells.u, int(most))
        count = np.bincount(region, cells.count).astype(float)
        sums = np.column_stack([np.bincount(region, own) for own in cells.sums.T])
        L = reference_factor(self.mean)
        inverse = np.linalg.inv(L)
        W = steadiest_trace(inverse @ to_matrices(sums / count[:, None], "full", d) @ inverse.T, count)
        return np.asarray(L @ np.linalg.inv(W) @ L.T)


def in_units_of(L: Float, sums: Float) -> Float:
    """The entries (n, p) of L⁻¹ S L⁻ᵀ for the entries of full matrices S."""
    d, inverse = len(L), np.linalg.inv(L)
    rows, cols = entries("full", d)
    return np.asarray((inverse @ to_matrices(sums, "full", d) @ inverse.T)[:, rows, cols])


def steadiest_trace(means: Float, count: Float) -> Float:
    """W (d, d) for which tr WC of matrices C (k, d, d), on average one, varies least: one, unless W is far better.

    Parameters
    ----------
    means : array of shape (k, d, d)
        Of the products of each of k regions. What noise makes of them is least in tr C, and so speaks for that.
    count : array of shape (k,)
        Transitions in each.
    """
    d = means.shape[1]
    rows, cols = entries("full", d)
    one = (rows == cols).astype(float)
    deviations = means[:, rows, cols] - one
    variation = deviations.T @ (count[:, None] * deviations) / count.sum()
    w = np.linalg.solve(variation + (ROUNDING * np.trace(variation) + 1e-300) * np.eye(len(one)), one)
    w *= d / (w @ one)
    W = to_matrices(np.where(rows == cols, w, 0.5 * w)[None], "full", d)[0]
    better = w @ variation @ w < LESS_VARIATION * (one @ variation @ one)
    return W if better and np.linalg.eigvalsh(W)[0] > LEAST_OF_UNITS else np.eye(d)


def regions(u: Float, number: int) -> Int:
    """Which region each cell (n, m) is in: halves of halves, input by input, at most `number` of as many cells each."""
    splits = number.bit_length() - 1
    along = [np.argsort(u[:, axis], kind="stable") for axis in range(min(splits, u.shape[1]))]
    region = np.zeros(len(u), dtype=np.int16)  # short numbers are sorted far faster
    for split in range(splits):
        order = along[split % u.shape[1]]
        order = order[np.argsort(region[order], kind="stable")]
        first = np.flatnonzero(np.diff(region[order], prepend=-1))
        size = np.diff(first, append=len(u))
        rank = np.arange(len(u)) - np.repeat(first, size)
        region[order] = 2 * region[order] + (2 * rank >= np.repeat(size, size))
    return region.astype(int)


class Trial(NamedTuple):
    """A candidate and what it loses on each cell, fitted to other folds."""

    frequencies: str  # "start", "search" or "none"
    sigma: Sigma
    losses: Float

    def gain_of(self, other: Trial) -> float:
        """How much better another one is."""
        return float((self.losses - other.losses).sum())

    def tolerance(self, other: Trial, N: float) -> float:
        """How much worse than another one it may be of N transitions and still be as good."""
        difference = self.losses - other.losses
        return min(float(np.sqrt(len(difference)) * difference.std()), LEAST_GAIN + TOLERATED * N)


def simplest_of_the_best(trials: list[Trial], N: float) -> Trial:
    """The first that the best does not beat significantly, judged by N transitions."""
    best = min(trials, key=lambda trial: float(trial.losses.sum()))
    return next(trial for trial in trials if trial is best or trial.gain_of(best) <= trial.tolerance(best, N))


def correlated(cells: Cells, sigma: Sigma, X: Float) -> bool:
    """Whether residuals in units of a diagonal covariance are correlated, everywhere or as a feature varies.

    Two tests, each with half of FALSE_ALARM: the likelihood ratio of constant correlations and none, and the
    correlation of the products with each feature.
    """
    d, N = len(sigma.L), cells.count.sum()
    rows, cols = entries("full", d)
    off = rows > cols
    unit = np.sqrt(np.diagonal(sigma.of_features(X), axis1=1, axis2=2))
    products = cells.sums / (unit[:, rows] * unit[:, cols])
    mean = to_matrices(products.sum(axis=0)[None], "full", d)[0]
    scale = 1 / np.sqrt(np.diagonal(mean))
    ratio = -(N - (2 * d + 11) / 6) * np.linalg.slogdet(mean * np.outer(scale, scale))[1]  # Bartlett's
    if ratio > chdtri(int(off.sum()), FALSE_ALARM / 2):
        return True
    z = (X.T @ products[:, off]) / np.sqrt(np.maximum((X**2).T @ products[:, off] ** 2, 1e-300))
    return bool(np.abs(z).max(initial=0.0) > np.sqrt(2 * np.log(z.size / (FALSE_ALARM / 2) + 1)))


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
    features : callable, optional
        Features of a basis at scaled points; `features_at` if they are not known anyway.
    """

    def __init__(
        self,
        products: ResidualProducts,
        bases: dict[str, Basis | None],
        links: tuple[Link, ...],
        ridge: float | None,
        bar: Progress,
        features: Callable[[Basis | None, Float], Float] = features_at,
    ) -> None:
        self.products, self.bases, self.links, self.ridge, self.bar = products, bases, links, ridge, bar
        cells = products.cells
        self.features = {name: features(basis, cells.u) for name, basis in bases.items()}
        self.trials: list[Trial] = []

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """What was tried, with the loss of each transition on folds that it was not fitted to."""
        return tuple(
            Candidate(
                t.sigma.fit.shape.structure,
                t.frequencies,
                t.sigma.fit.link.name,
                float(t.losses.sum() / self.n_transitions),
            )
            for t in self.trials
        )

    @property
    def n_transitions(self) -> float:
        """How many there are."""
        return float(self.products.cells.count.sum())

    def choose(self, structure: Structure | None) -> Sigma:
        """The covariance that predicts held-out folds best, of one structure or of either."""
        chosen = self._chosen(structure)
        best = chosen.sigma
        for other in self.trials:
            same = other.frequencies == chosen.frequencies and other.sigma.fit.shape == best.fit.shape
            if same and other.sigma.fit.link is self.links[0]:
                best = best._replace(simplest=other.sigma.fit)
        return best

    def _chosen(self, structure: Structure | None) -> Trial:
        chosen = self._best_of(structure or "diagonal")
        X = self.features[chosen.frequencies]
        if structure is not None or not correlated(self.products.cells, chosen.sigma, X):
            return chosen
        full = self._try("full", [CONSTANT], self.links)
        if LEAST_PER_ENTRY * full[0].sigma.fit.shape.n_entries <= self.n_transitions:
            full.append(self._best_of("full"))
        best = min(full, key=lambda trial: float(trial.losses.sum()))
        return best if chosen.gain_of(best) > LEAST_GAIN else chosen

    def _best_of(self, structure: Structure) -> Trial:
        """Of one structure: links with the frequencies that were found, then those of the start with the best link."""
        best = self._simplest(self._try(structure, list(self.bases)[-1:], self.links))
        if len(self.bases) == 1:
            return best
        return self._simplest([*self._try(structure, ["start"], [best.sigma.fit.link]), best])

    def _simplest(self, trials: list[Trial]) -> Trial:
        return simplest_of_the_best(trials, self.n_transitions)

    def _try(self, structure: Structure, names: Iterable[str], links: Iterable[Link]) -> list[Trial]:
        """Fit candidates to cells of all folds, and judge them on all cells."""
        cells, (L, S) = self.products.cells, self.products.in_units(structure)
        shape, in_units = Shape(structure, len(L)), cells.count * np.log(np.diagonal(L)).sum()
        rows = np.random.default_rng(0).permutation(len(S))  # every fold, wherever its cells stand
        fitted, others = np.sort(rows[: ENTRIES_TO_CHOOSE // S.shape[1]]), rows[ENTRIES_TO_CHOOSE // S.shape[1] :]
        new = []
        for name in names:
            basis, X = self.bases.get(name), self.features.get(name, np.empty((len(S), 0)))
            products = Products.of(X, S, cells.count, cells.fold)
            to_fit, to_judge = products.at(fitted), products.at(others)
            for link in links:
                self.bar.show("covariance", f"{structure}, {link.symbol} as a sum of waves")
                fit = fit_covariance(to_fit, basis, link, shape, self.ridge)
                losses = np.empty(len(S))
                losses[fitted], losses[others] = fit.held_out, held_out_losses(fit, to_judge)
                new.append(Trial(name, Sigma(basis, L, fit), losses + in_units))
                if fit.found_constant:  # as it would be with every link
                    break
        self.trials += new
        return new
