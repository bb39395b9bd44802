"""Drift and covariance with nothing to tune: frequencies by evidence, amplitudes by likelihood.

1. *Frequencies of the drift* (`itofit.learning.automatic.search`) on increments / h.
2. *Drift*: generalised least squares with one covariance for all places, and the same without each fold of the data.
3. *Residuals* of every transition under the drift that has not seen its fold: their products are unbiased for Σ, and a
   little larger by what the drift is uncertain, as those of new data will be.
4. *Frequencies of the covariance* on those products, in units of their mean.
5. *Covariance*: the likelihood with each link, full and diagonal. What predicts the other folds best is kept.
6. Where the covariance depends on the place: 2 again with Σ⁻¹ as weights, 3, and 5 for the link that was kept.
7. Where frequencies were searched on a subset: amplitudes of drift and covariance from all transitions.
8. On demand, what the length of the observed steps made of them is undone (`itofit.learning.steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float, InputError, Int
from itofit._progress import Progress
from itofit.data.blocked import BlockedTransitions
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.cells import Cells, Plan
from itofit.learning.automatic.covariance import Products, fit_covariance, held_out_losses, rescored
from itofit.learning.automatic.drift import Drift, resolved_drift, weighted_drift
from itofit.learning.automatic.evidence import LEAST_NOISE, Basis, with_intercept
from itofit.learning.automatic.search import Found, SearchHistory, Targets, groups_for, search
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.learning.paper.arff import ARFF
from itofit.learning.paper.regression import Scaling
from itofit.learning.spread import mean_squares, spread_series
from itofit.learning.steps import undo_step
from itofit.matrices.links import Link, Shape
from itofit.matrices.symmetric import Structure, entries, outer_entries, reference_factor, to_matrices
from itofit.model.training import AutomaticSettings, Candidate, StepCorrection
from itofit.waves.normal_equations import (
    MOST_INPUTS,
    ArrayPart,
    DirectNormalEquations,
    GriddedNormalEquations,
    NormalEquations,
    cheaper_form,
)
from itofit.waves.series import FourierSeries

Data: TypeAlias = Transitions | BlockedTransitions

ROWS_FOR_MOMENTS = 12_000
"""With three inputs and fewer cells than this, sums are direct."""
ACCURACY = 1e-12
"""Of sums from moments, which evidence needs."""
ROUNDS = 4
"""Of generalised least squares, at most, until the residual covariance has settled."""
SETTLED = 0.02
FALSE_ALARM = 0.01
"""Probability that off-diagonal entries of Σ are tried although there are none."""
LEAST_GAIN = 2.0
"""Of the log-likelihood of held-out folds that off-diagonal entries of Σ must bring."""
ROWS_AT_ONCE = 16_384
"""Transitions of which features and matrices are made at once where all are seen."""
KEPT_NUMBERS = 4_000_000
"""Numbers of features that are kept from one pass over all transitions to the next: 32 MB."""
FOLDS_TO_FIT = 2
"""Of the five folds: on them the candidates are fitted, and on the others compared."""
ENTRIES_TO_CHOOSE = 16_000
"""Cells that candidates are fitted to, at most, times the number of entries of Σ."""
LEAST_PLACES, PLACES_PER_FEATURE = 1_000, 6
"""Transitions whose steps are followed to correct for their length: at least, and for each feature."""
MOST_ENTRIES = 10
"""Entries of Σ among which frequencies are searched; beyond, those on the diagonal alone."""


class Automatic(NamedTuple):
    """What was learned and how."""

    drift_series: FourierSeries
    covariance_series: FourierSeries
    drift_spread: FourierSeries
    covariance_spread: FourierSeries
    structure: Structure
    link: Link
    factor: Float  # (d, d)
    limits: Float  # (2, d)
    drift_history: SearchHistory
    covariance_history: SearchHistory
    drift_settings: AutomaticSettings
    covariance_settings: AutomaticSettings
    candidates: tuple[Candidate, ...]
    searched_on: str
    corrected: CorrectedSeries | None


class CorrectedSeries(NamedTuple):
    """The same for steps of no length."""

    drift: FourierSeries
    drift_spread: FourierSeries
    covariance: FourierSeries
    covariance_spread: FourierSeries
    step_spread: FourierSeries  # of the noise that trust in the correction is measured by
    record: StepCorrection


def learn_automatically(
    rng: np.random.Generator,
    data: Data,
    found: Survey,
    structure: Structure | None,
    drift: ARFF,
    covariance: ARFF,
    links: tuple[Link, ...],
    cross_fit: bool,
    weighted: bool,
    correct_step: bool,
    bar: Progress,
) -> Automatic:
    """Learn drift and covariance; `structure` None: whichever predicts held-out folds better."""
    d = data.n_outputs
    scaling = Scaling.of(found.low, found.high, np.zeros(d))
    plan = Plan(found, scaling.shift, scaling.scale, int(rng.integers(2**63)), drift.search_rows)
    cells = plan.gather(data, _moves_and_products, bar, "reading")
    moves = cells.sums[:, :d]
    f_found = search(rng, _drift_targets(cells, d, drift), drift, mixed=d > 1, on_iteration=_shown(bar, "drift"))
    X = f_found.basis.at(cells.u)
    f = _drift_of_one_covariance(f_found, X, cells, moves, drift)
    learned = _Covariance(rng, plan, data, f_found.basis, covariance, links, cross_fit, weighted, bar)
    sigma = learned.choose(f, structure)
    if weighted and (not sigma.constant or sigma.fit.shape.structure == "diagonal"):
        bar.show("drift", "weighted by the inverse covariance")
        precision = sigma.precision(features_at(sigma.basis, cells.u))
        f = weighted_drift(X, f_found.basis, cells.duration, moves, precision, cells.fold, drift.ridge)
        sigma = learned.again(f, sigma)
    if plan.drawn:
        with one_blas_thread:
            f, sigma = _finished_on_all(data, plan, f_found.basis, f, sigma, bar)
    with one_blas_thread:
        f = f._replace(squares=mean_squares(f.systems, f.unit))
        covariance_squares = mean_squares(sigma.fit.systems)
    corrected = None
    if correct_step:
        corrected = _corrected(data, plan, scaling, f, f_found.basis, sigma, covariance_squares, bar)
    return Automatic(
        drift_series=f_found.basis.series(f.intercept, f.c, scaling.shift, scaling.scale),
        covariance_series=sigma.series(scaling),
        drift_spread=spread_series(f_found.basis, f.squares, scaling.shift, scaling.scale),
        covariance_spread=spread_series(sigma.features(scaling), covariance_squares, scaling.shift, scaling.scale),
        structure=sigma.fit.shape.structure,
        link=sigma.fit.link,
        factor=sigma.L,
        limits=sigma.fit.limits,
        drift_history=f_found.history,  # type: ignore[arg-type]
        covariance_history=learned.found.history,  # type: ignore[arg-type]
        drift_settings=AutomaticSettings(
            n_features=len(f_found.basis.omega),
            groups=np.unique(f_found.basis.group),
            ridges=f.ridges,
            determined=f.determined,
        ),
        covariance_settings=AutomaticSettings(
            n_features=0 if sigma.basis is None else len(sigma.basis.omega),
            groups=np.array([], dtype=int) if sigma.basis is None else np.unique(sigma.basis.group),
            ridges=sigma.fit.ridges,
            determined=sigma.fit.determined,
        ),
        candidates=learned.candidates,
        searched_on=plan.how,
        corrected=corrected,
    )


# The drift


def _moves_and_products(block: Transitions, fold: object) -> Float:
    """Δx and the entries of Δx Δxᵀ / h."""
    products = outer_entries(block.increments / np.sqrt(block.h)[:, None], "full")
    return np.concatenate([block.increments, products], axis=1)


def _equations(u: Float, y: Float, weight: Float, arff: ARFF) -> NormalEquations:
    K = len(groups_for(weight.sum(), u.shape[1], arff.n_features))
    form = arff.normal_equations or cheaper_form(len(u), K, u.shape[1], y.shape[1], 1e-4)
    if u.shape[1] == MOST_INPUTS and len(u) < ROWS_FOR_MOMENTS and arff.normal_equations is None:
        form = "direct"  # moments are worth their making for hundreds of solves, and a search takes tens
    if form == "gridded":
        return GriddedNormalEquations(ArrayPart(u, y, weight), ACCURACY)
    return DirectNormalEquations(u, y, weight)


def _spread(u: Float, weight: Float) -> Float:
    """By how much the range of each input exceeds that of nine tenths of the data, as it would be for uniform data."""
    spread = np.empty(u.shape[1])
    for i, column in enumerate(u.T):
        order = np.argsort(column)
        below = np.cumsum(weight[order])
        low, high = column[order][np.searchsorted(below, [0.05 * below[-1], 0.95 * below[-1]])]
        spread[i] = max(1.0, 0.9 / max(high - low, 1e-6))
    return spread


def _drift_targets(cells: Cells, d: int, arff: ARFF) -> Targets:
    """Mean rates of the cells, weighted by their durations."""
    N, total = cells.count.sum(), cells.duration.sum()
    weight, moves = cells.duration * (N / total), cells.sums[:, :d]
    mean = moves.sum(axis=0) / total
    products = to_matrices(cells.sums[:, d:].sum(axis=0)[None], "full", d)[0]
    squares = (products / total - np.outer(mean, mean)) * N
    y = moves / cells.duration[:, None] - mean
    return Targets(cells.u, y, weight, squares, N, _equations(cells.u, y, weight, arff), _spread(cells.u, cells.count))


def _drift_of_one_covariance(found: Found, X: Float, cells: Cells, moves: Float, arff: ARFF) -> Drift:
    """Generalised least squares with the residual covariance of its own result as weight."""
    d, N = moves.shape[1], cells.count.sum()
    products = to_matrices(cells.sums[:, d:].sum(axis=0)[None], "full", d)[0]
    back = np.linalg.inv(found.V)
    noise = np.array([fit.variance for fit in found.fits])
    precision = _uncoupled((back * noise) @ back.T * (cells.duration.sum() / N), N)
    for _ in range(ROUNDS):
        f = weighted_drift(X, found.basis, cells.duration, moves, precision[None], cells.fold, arff.ridge)
        values = f.intercept + X @ f.c
        cross = values.T @ moves
        mean = (products - cross - cross.T + (values.T * cells.duration) @ values) / N
        own = np.diag_indices(d)
        mean[own] = np.maximum(mean[own], LEAST_NOISE * products[own] / N)  # cancellation leaves no more
        inverse = np.linalg.inv(reference_factor(mean))
        change = np.abs(np.linalg.eigvalsh(inverse @ np.linalg.inv(precision) @ inverse.T) - 1).max()
        precision = _uncoupled(mean, N)
        if change < SETTLED:
            break
    return f


def _uncoupled(covariance: Float, N: float) -> Float:
    """The inverse of a covariance of N observations, diagonal if no correlation is significant."""
    L = reference_factor(covariance)
    unit = np.sqrt(np.diagonal(covariance))
    correlation = covariance / np.outer(unit, unit) - np.eye(len(unit))
    if np.abs(correlation).max() < 3 / np.sqrt(N):
        return np.diag(1 / unit**2)
    inverse = np.linalg.inv(L)
    return np.asarray(inverse.T @ inverse)


# The covariance


def check_noise(mean: Float) -> None:
    """Raise if the mean covariance of residuals says that there is no noise at all."""
    for column, variance in enumerate(np.diagonal(mean)):
        if not variance > 0:
            raise InputError(f"increments column {column} follows the drift exactly: it carries no noise to learn")


def _in_use(found: Found) -> Basis | None:
    """The features of which the data determine something."""
    groups = found.groups_in_use
    return found.basis.of_groups(groups) if len(groups) else None


class _Tried(NamedTuple):
    """A candidate and what it loses on each of the held-out cells."""

    name: str  # of its frequencies
    sigma: Sigma
    losses: Float

    def gain_of(self, other: _Tried) -> float:
        """How much better another one is, less the standard error of that."""
        difference = self.losses - other.losses
        return float(difference.sum() - np.sqrt(len(difference)) * difference.std())


def _first_as_good_as_any(tried: list[_Tried]) -> _Tried:
    """The first than which the best is not significantly better."""
    best = min(tried, key=lambda candidate: float(candidate.losses.sum()))
    return next(candidate for candidate in tried if candidate is best or candidate.gain_of(best) <= 0)


def _correlated(cells: Cells, sigma: Sigma, X: Float) -> bool:
    """Whether residuals in units of a diagonal covariance are correlated, everywhere or as a feature varies."""
    rows, cols = entries("full", len(sigma.L))
    off = rows > cols
    variances = np.diagonal(sigma.at(cells.u), axis1=1, axis2=2)
    products = cells.sums[:, off] / np.sqrt(variances[:, rows[off]] * variances[:, cols[off]])
    ones = with_intercept(X)
    z = (ones.T @ products) / np.sqrt(np.maximum((ones**2).T @ products**2, 1e-300))
    return bool(np.abs(z).max(initial=0.0) > np.sqrt(2 * np.log(z.size / FALSE_ALARM + 1)))


class _Covariance:
    """The search for Σ, given drifts."""

    def __init__(
        self,
        rng: np.random.Generator,
        plan: Plan,
        data: Data,
        drift_basis: Basis,
        arff: ARFF,
        links: tuple[Link, ...],
        cross_fit: bool,
        weighted: bool,
        bar: Progress,
    ) -> None:
        self.weighted = weighted
        self.rng, self.plan, self.data = rng, plan, data
        self.drift_basis, self.arff, self.links, self.cross_fit, self.bar = drift_basis, arff, links, cross_fit, bar
        self.d = data.n_outputs
        self.candidates: tuple[Candidate, ...] = ()
        self.found: Found

    def residual_products(self, f: Drift) -> tuple[Cells, Float]:
        """Cells of the entries of rrᵀ/h, and their mean (d, d)."""
        folds = f.folds if self.cross_fit else [(f.intercept, f.c)] * len(f.folds)
        series = [self.drift_basis.series(*fold, self.plan.shift, self.plan.scale) for fold in folds]

        def values(block: Transitions, fold: Int) -> Float:
            residual = block.increments.copy()
            for k, drift in enumerate(series):
                mine = np.flatnonzero(fold == k)
                if len(mine):
                    residual[mine] -= block.h[mine, None] * drift(block.inputs[mine])
            return outer_entries(residual / np.sqrt(block.h)[:, None], "full")

        cells = self.plan.gather(self.data, values, self.bar, "residuals")
        mean = to_matrices(cells.sums.sum(axis=0)[None] / cells.count.sum(), "full", self.d)[0]
        check_noise(mean)
        return cells, mean

    def in_units(self, cells: Cells, mean: Float, structure: Structure) -> tuple[Float, Float]:
        """L of a mean covariance, and the entries of L⁻¹ S L⁻ᵀ of each cell."""
        if structure == "diagonal":
            variance = np.diagonal(mean)
            rows, cols = entries("full", self.d)
            return np.diag(np.sqrt(variance)), cells.sums[:, rows == cols] / variance
        L = reference_factor(mean)
        inverse = np.linalg.inv(L)
        rows, cols = entries("full", self.d)
        S = inverse @ to_matrices(cells.sums, "full", self.d) @ inverse.T
        return L, S[:, rows, cols]

    def choose(self, f: Drift, structure: Structure | None) -> Sigma:
        """Search frequencies, fit all candidates, keep what predicts held-out folds best."""
        cells, mean = self.residual_products(f)
        first: Structure = structure or "full"
        targets = self._targets(cells, self.in_units(cells, mean, first)[1], first)
        self.found = search(self.rng, targets, self.arff, on_iteration=_shown(self.bar, "covariance"))
        bases: dict[str, Basis | None] = {"start": _in_use(self.found.start)}  # type: ignore[arg-type]
        if self.found.history.best_iteration > 0:  # type: ignore[union-attr]
            bases["search"] = _in_use(self.found)
        features = {name: features_at(basis, cells.u) for name, basis in bases.items()}
        candidates = np.flatnonzero(cells.fold < FOLDS_TO_FIT)
        rest = np.flatnonzero(cells.fold >= FOLDS_TO_FIT)
        tried: list[_Tried] = []

        def compare(which: Structure, names: Iterable[str], links: Iterable[Link]) -> None:
            L, S = self.in_units(cells, mean, which)
            fitted = candidates[:: max(1, -(-len(candidates) * S.shape[1] // ENTRIES_TO_CHOOSE))]
            for name in names:
                basis, products = bases[name], Products.of(features[name], S, cells.count, cells.fold)
                for link in links if basis is not None else self.links[:1]:
                    self.bar.show("covariance", f"{which}, {link} link")
                    fit = fit_covariance(products.at(fitted), basis, link, Shape(which, self.d), self.arff.ridge)
                    count = cells.count[rest]
                    losses = held_out_losses(fit, products.at(rest)) + count * np.log(np.diagonal(L)).sum()
                    tried.append(_Tried(name, Sigma(basis, L, fit), losses))
                    self.candidates += (Candidate(which, name, link, float(losses.sum() / count.sum())),)

        compare(structure or "diagonal", list(bases)[-1:], self.links)
        chosen = _first_as_good_as_any(tried)
        if len(bases) > 1:  # the start's frequencies, unless those that were found are better
            compare(structure or "diagonal", ["start"], [chosen.sigma.fit.link])
            chosen = _first_as_good_as_any([tried[-1], chosen])
        if structure is None and _correlated(cells, chosen.sigma, features[chosen.name]):
            n_diagonal = len(tried)
            compare("full", bases, [chosen.sigma.fit.link])
            full = _first_as_good_as_any(tried[n_diagonal:])
            if chosen.gain_of(full) > LEAST_GAIN:
                compare("full", [full.name], [link for link in self.links if link != chosen.sigma.fit.link])
                chosen = _first_as_good_as_any(tried[n_diagonal:])
        best = chosen.sigma.without_what_is_off()
        for other in tried:
            if other.name == chosen.name and (other.sigma.fit.link, other.sigma.fit.shape) == (
                self.links[0],
                best.fit.shape,
            ):
                best = best._replace(simplest=other.sigma.fit)
        if self.weighted and best.basis is not None:
            return best  # good enough for weights; what is kept is fitted to the residuals of the weighted drift
        return self._fitted(cells, mean, best)

    def again(self, f: Drift, sigma: Sigma) -> Sigma:
        """The same link and structure for the residuals of another drift."""
        return self._fitted(*self.residual_products(f), sigma)

    def _fitted(self, cells: Cells, mean: Float, sigma: Sigma) -> Sigma:
        """A covariance fitted again, to all cells."""
        self.bar.show("covariance", f"{sigma.fit.shape.structure}, {sigma.fit.link} link, all cells")
        L, S = self.in_units(cells, mean, sigma.fit.shape.structure)
        products = Products.of(features_at(sigma.basis, cells.u), S, cells.count, cells.fold)
        fit = fit_covariance(products, sigma.basis, sigma.fit.link, sigma.fit.shape, self.arff.ridge, start=sigma.fit)
        if fit.shape.separate and sigma.basis is not None and fit.link != self.links[0]:
            # with more data the simplest link may be as good after all
            simple = fit_covariance(
                products, sigma.basis, self.links[0], sigma.fit.shape, self.arff.ridge, start=sigma.simplest
            )
            fit = min(fit, simple, key=lambda fit: fit.cv_nll)
        return Sigma(sigma.basis, L, fit)

    def _targets(self, cells: Cells, S: Float, structure: Structure) -> Targets:
        """Mean products of the cells, weighted by their numbers of transitions."""
        N, d = cells.count.sum(), self.d
        rows, cols = entries(structure, d)
        chosen = np.arange(len(rows)) if len(rows) <= MOST_ENTRIES else np.flatnonzero(rows == cols)
        y = S[:, chosen] / cells.count[:, None]
        mean = S[:, chosen].sum(axis=0) / N
        between = (cells.count[:, None] * (y - mean) ** 2).sum(axis=0)
        within = np.where(rows == cols, 2.0, 1.0)[chosen] * (N - len(y))  # as for Gaussian products of unit variance
        if Shape(structure, d).separate:
            own = np.equal(*entries("full", d))
            variance = cells.sums[:, own].sum(axis=0) / N
            within = cells.squares[own] / variance**2 - (cells.count[:, None] * y**2).sum(axis=0)
        y = y - mean
        squares = np.diag(between + within)
        return Targets(
            cells.u,
            y,
            cells.count,
            squares,
            N,
            _equations(cells.u, y, cells.count, self.arff),
            _spread(cells.u, cells.count),
        )


# All transitions


def _finished_on_all(
    data: Data, plan: Plan, basis: Basis, f: Drift, sigma: Sigma, bar: Progress
) -> tuple[Drift, Sigma]:
    """Amplitudes of drift and covariance from all transitions, in one pass and two."""
    kept: list[tuple[Float, Float]] = []  # features, from one pass to the next, as far as they fit
    n_columns = len(basis.penalty) + (0 if sigma.basis is None else len(sigma.basis.penalty))
    most_kept = KEPT_NUMBERS // (ROWS_AT_ONCE * n_columns)

    def blocks(label: str) -> Iterator[tuple[Transitions, Float, Float]]:
        n = 0
        parts = (block[i : i + ROWS_AT_ONCE] for block in data.blocks() for i in range(0, len(block), ROWS_AT_ONCE))
        for place, part in enumerate(parts):
            n += len(part)
            bar.show(label, f"{n:,} of all {plan.n_rows:,} transitions", n / plan.n_rows)
            if place < len(kept):
                features = kept[place]
            else:
                u = plan.scaled(part.inputs)
                features = basis.at(u), features_at(sigma.basis, u)
            if len(kept) == place < most_kept:
                kept.append(features)
            yield part, *features

    f = resolved_drift(
        ((X, block.h, block.increments, sigma.precision(own)) for block, X, own in blocks("drift")), basis, f
    )
    inverse = np.linalg.inv(sigma.L)
    structure = sigma.fit.shape.structure

    def products() -> Iterator[tuple[Float, Float]]:
        for block, X, own in blocks("covariance"):
            residual = block.increments - block.h[:, None] * (f.intercept + X @ f.c)
            yield own, outer_entries(residual @ inverse.T / np.sqrt(block.h)[:, None], structure)

    return f, sigma._replace(fit=rescored(products, sigma.basis, sigma.fit))


# Steps


def _corrected(
    data: Data,
    plan: Plan,
    scaling: Scaling,
    f: Drift,
    basis: Basis,
    sigma: Sigma,
    covariance_squares: Float,
    bar: Progress,
) -> CorrectedSeries:
    """Drift and covariance of which the observed steps are what was learned."""
    bar.show("drift and covariance", "correcting for the length of steps")
    share = max(LEAST_PLACES, PLACES_PER_FEATURE * len(basis.penalty)) / plan.n_rows
    rng = np.random.default_rng([plan.seed, 2])
    some = (block[np.flatnonzero(rng.random(len(block)) < share)] for block in data.blocks())
    followed = Transitions.concatenate([part for part in some if len(part)])
    found = undo_step(followed, plan.n_rows, f, basis, sigma, scaling)
    squares = covariance_squares * found.spread_ratio[:, None, None] ** 2
    squares[:, 0, 0] += found.spread_added**2
    return CorrectedSeries(
        drift=basis.series(found.drift.intercept, found.drift.c, scaling.shift, scaling.scale),
        drift_spread=spread_series(basis, found.drift.squares, scaling.shift, scaling.scale),
        covariance=found.sigma.series(scaling),
        covariance_spread=spread_series(sigma.features(scaling), squares, scaling.shift, scaling.scale),
        step_spread=spread_series(basis, found.noise, scaling.shift, scaling.scale),
        record=found.record,
    )


def _shown(bar: Progress, label: str) -> Callable[[int, float], None]:
    return lambda iteration, gain: bar.show(label, f"iteration {iteration}, log-evidence {gain:+.1f}")
