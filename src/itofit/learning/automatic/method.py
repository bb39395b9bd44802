"""Automatic: drift and covariance with nothing to tune, frequencies by evidence, amplitudes by likelihood.

1. *Frequencies of the drift* (`itofit.learning.automatic.search`) on increments / h.
2. *Drift*: generalised least squares with one covariance for all places, and the same without each fold of the data.
3. *Residuals* of every transition under the drift that has not seen its fold: their products are unbiased for Σ, and a
   little larger by what the drift is uncertain, as those of new data will be.
4. *Frequencies of the covariance* on those products, in units of their mean.
5. *Covariance*: the likelihood with each link, full and diagonal. What predicts the other folds best is kept.
6. Where the covariance depends on the place: 2 again with Σ⁻¹ as weights, 3, and 5 for the link that was kept. The
   evidence with these weights also decides again which of the frequencies a drift of one input is made of.
7. Where frequencies were searched on a subset, or Σ changes too much within cells: amplitudes of drift and covariance
   from all transitions; of a full Σ that turns first from single ones.
8. What the length of the observed steps made of them is undone, where the data show it (`itofit.learning.steps`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit._progress import Progress
from itofit.data.passes import add_up
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions
from itofit.learning.automatic.all_rows import AllRows, fitted_alone, rows_alone
from itofit.learning.automatic.candidates import Comparison, ResidualProducts
from itofit.learning.automatic.cells import Cells, Plan
from itofit.learning.automatic.covariance import fit_covariance
from itofit.learning.automatic.drift import Drift, cells_with, drift_of_one_covariance, odds_of_terms, weighted_drift
from itofit.learning.automatic.few_data import (
    FEW_ROWS,
    KEPT,
    at_one,
    best_constant,
    correlated_mean,
    nearer_to_constant,
    unclear,
    varying_less,
)
from itofit.learning.automatic.fitted_waves import FittedWaves, Targets
from itofit.learning.automatic.gaps import differ, near_its_mean, with_other_functions
from itofit.learning.automatic.grid_residuals import (
    moves_and_products,
    noise_changes_within_cells,
    products_of_block,
    products_of_rows,
    products_on_grid,
)
from itofit.learning.automatic.learned_parts import LearnedDrift, LearnedSigma, reported_ridges
from itofit.learning.automatic.periodogram import Lattice, Sums, Waves, separate_peaks
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.products import Products
from itofit.learning.automatic.search import LEAST_EVIDENCE_GAIN, search, simplest
from itofit.learning.automatic.sigma import KnownFeatures, Sigma, features_at
from itofit.learning.automatic.targets import covariance_targets, drift_targets, origin
from itofit.learning.automatic.walk import FALSE_ALARM, MOST_PEAKS, reach_of
from itofit.learning.followed import followed_transitions
from itofit.learning.pipeline import Correction, Learned, Task
from itofit.learning.spread import Posterior, spread_series
from itofit.learning.step_evidence import ObservedMoves, ObservedProducts, Stepped
from itofit.learning.steps import Corrected, undo_step
from itofit.learning.verdicts import check_noise
from itofit.matrices.links import Shape
from itofit.matrices.symmetric import Structure, to_matrices
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.training import SWITCHED_OFF, LearnedFunction
from itofit.waves.scaling import Scaling

MOST_LOST = 0.02
"""Nats per transition and output that a covariance may lose by being fitted again."""
LEAST_GAIN_OF_WEIGHTS = 0.05
"""Nats per transition and output that better weights must have gained before the drift is weighted once more."""
ROWS_IN_CELL = 20.0
"""Fewer transitions of tracks in each cell of several inputs, on average, let noise decide where in a cell they are."""
POWER_NEEDED = 40.0
"""Of a wave in the periodogram of a subset that is to be learned from it: well above what noise has somewhere."""
REST_OF_STEPS = 1 / 3
"""Of the square of how far Σ is corrected for the length of steps, relative to it: what is left over, about."""


class Automatic:
    """The default method, for `itofit.learning.pipeline`: what the user has not set is chosen from the data.

    Parameters
    ----------
    task : Task
    of_states : bool
        Whether its data are not those of the user but drawn states, of which functions are to be learned as they seem:
        however few they are, nothing is moved to constants.
    """

    def __init__(self, task: Task, *, of_states: bool = False) -> None:
        self.task, self.data, self.bar, self.d = task, task.data, task.bar, task.data.n_outputs
        self.arff, self.covariance_arff = task.options.drift_parameters, task.options.covariance_parameters
        self.scaling = Scaling.of(task.survey.low, task.survey.high, np.zeros(self.d))
        self.features = KnownFeatures()
        self.few = task.survey.n_rows <= FEW_ROWS and not of_states
        self.plan = Plan(task.survey, self.scaling, int(task.rng.integers(2**63)), self.arff.search_rows, few=self.few)

    def drift(self, before: LearnedDrift | None = None, noise: LearnedSigma | None = None) -> LearnedDrift:
        """By generalised least squares: with one covariance for all places, or with that which was learned."""
        if before is None or noise is None:
            return self._first_drift()
        self.bar.show("drift", "weighted by the inverse covariance")
        precision = self._precision(noise, before)
        drifts = [self._weighted_drift(waves, before, precision) for waves in before.searched.candidates]
        return simplest(drifts, lambda learned: learned.drift.log_evidence)

    def drift_of(self, waves: FittedWaves, before: LearnedDrift, noise: LearnedSigma) -> LearnedDrift:
        """One of the candidates of a drift, weighted by the inverse of a covariance."""
        return self._weighted_drift(waves, before, self._precision(noise, before))

    def _weighted_drift(self, waves: FittedWaves, before: LearnedDrift, precision: Float) -> LearnedDrift:
        rows = before.rows if waves is before.waves else cells_with(waves.basis, before.cells, self.d)
        drift = weighted_drift(rows, waves.basis, precision, self.arff.ridge)
        return before._replace(drift=drift, waves=waves, rows=rows)

    def _precision(self, noise: LearnedSigma, drift: LearnedDrift) -> Float:
        """Σ⁻¹ at the cells."""
        return noise.sigma.precision(self.features(noise.sigma.basis, drift.cells.u))

    def _first_drift(self) -> LearnedDrift:
        """Cells of the data, frequencies for their mean rates, and amplitudes; on a larger subset if that is needed."""
        found = np.empty((0, self.data.n_inputs))
        while True:
            cells = self.plan.gather(self.data, moves_and_products, self.bar, "reading")
            targets, shown = self._periodic(drift_targets(cells, self.d, self.arff)), _shown(self.bar, "drift")
            targets = targets._replace(origin=origin(self.task.survey.low, self.task.survey.high, self.scaling))
            searched = search(self.task.rng, targets, self.arff, mixed=self.d > 1, found=found, on_iteration=shown)
            n = self.plan.split.n_searched
            if not self.plan.drawn or self.arff.search_rows is not None or n == self.plan.most_rows:
                break
            left = self._left_over(searched.best, targets)
            if not len(left.omega):
                break
            needed = POWER_NEEDED / left.power.min() * self.task.survey.n_rows
            self.plan = self.plan.with_rows(int(np.clip(needed, 2 * n, self.plan.most_rows)))
            found = np.concatenate([searched.best.found, left.omega])
        best, ridge = searched.simplest, self.arff.ridge
        rows = cells_with(best.basis, cells, self.d)
        drift = drift_of_one_covariance(best, cells, rows, ridge)
        odds = odds_of_terms(best.basis, drift)
        if odds is not None and ridge is None:
            searched = searched.with_odds(odds)
            best = searched.simplest
            drift = drift_of_one_covariance(best, cells, rows, ridge)
        return LearnedDrift(drift, searched, best, cells, rows)

    def _periodic(self, targets: Targets) -> Targets:
        """Targets that know which inputs are periodic."""
        periodic = is_periodic(self.data.periods)
        return targets._replace(periods=tuple(periodic.tolist())) if periodic.any() else targets

    def _left_over(self, waves: FittedWaves, targets: Targets) -> Waves:
        """Peaks that stand out of what waves leave over of all transitions."""
        m = self.data.n_inputs
        lattice = Lattice(self.task.rng, m, reach_of(m), targets.periodic)
        mean, n_rows, scaling = targets.mean, self.task.survey.n_rows, self.scaling
        basis, amplitudes, V = waves.basis, waves.amplitudes, waves.V

        def sums(block: Transitions, number: int) -> Sums:
            u = scaling.points(block.inputs)
            rates = mean + basis.sums(u, amplitudes)
            return lattice.sums(u, (block.increments - block.h[:, None] * rates) @ V.T)

        def shown(n_done: int) -> None:
            self.bar.show("drift", f"what is left over, {n_done:,} of {n_rows:,} transitions", n_done / n_rows)

        left = lattice.power(add_up(self.data, sums, most_rows=BATCH_ROWS, shown=shown)).standing_out(FALSE_ALARM)
        return separate_peaks(left, MOST_PEAKS)

    def residual_products(self, drift: LearnedDrift) -> ResidualProducts:
        """Of each transition, under the drift that has not seen its fold if drifts are cross-fitted."""
        folds = self._of_folds(drift.drift)
        if not self.plan.gathered:
            return self._mean_of(products_of_rows(drift.cells, drift.rows.X, folds))
        on_grid = products_on_grid(drift.cells, drift.rows.X, drift.basis, folds, self.plan.side)
        return self._mean_of(on_grid or self._products_in_a_pass(self.plan, drift.basis, folds))

    def _of_folds(self, drift: Drift) -> list[tuple[Float, Float]]:
        """The drift that the residuals of each fold come from."""
        cross_fit = self.task.options.cross_fit is not False
        return drift.folds if cross_fit else [(drift.intercept, drift.c)] * len(drift.folds)

    def _products_in_a_pass(self, plan: Plan, basis: Basis, folds: list[tuple[Float, Float]]) -> Cells:
        """Cells of the entries of rrᵀ/h, in a pass over the transitions."""
        return plan.gather(self.data, products_of_block(basis, folds, self.scaling), self.bar, "residuals")

    def _mean_of(self, cells: Cells) -> ResidualProducts:
        """Residual products with their mean; an error if an output has no noise."""
        mean = to_matrices(cells.sums.sum(axis=0)[None] / cells.count.sum(), "full", self.d)[0]
        check_noise(mean, self.data)
        return ResidualProducts(cells, mean)

    def covariance(self, products: ResidualProducts, before: LearnedSigma | None = None) -> LearnedSigma:
        """The candidate that predicts held-out folds best; given a covariance, the same fitted again unless that fails.

        Where noise is nearly singular, scoring may not come back from where the fit to other cells ended. Where better
        weights have left far less over, another candidate may be better, and the choice is made again.
        """
        if before is None:
            return self._chosen(products)
        again = self._fitted_to_all_cells(products, before.sigma)
        if again.loss > before.sigma.loss + MOST_LOST * self.d:
            return before
        learned = before._replace(sigma=again, products=products)
        if not self._far_less_left(learned, before):
            return learned
        other = self._chosen(products)
        other = other._replace(sigma=self._fitted_to_all_cells(products, other.sigma))
        return other if other.sigma.loss < again.loss - MOST_LOST * self.d else learned

    def _chosen(self, products: ResidualProducts) -> LearnedSigma:
        """The candidate that predicts held-out folds best."""
        asked = self.task.options.structure
        structure: Structure | None = None if asked == "auto" else asked
        targets = self._periodic(covariance_targets(products, structure or "full", self.covariance_arff))
        searched = search(self.task.rng, targets, self.covariance_arff, on_iteration=_shown(self.bar, "covariance"))
        bases = {"start": searched.start.basis_in_use}
        if searched.improved:
            bases["search"] = searched.best.basis_in_use
        links, ridge = self.task.options.links, self.covariance_arff.ridge
        comparison = Comparison(products, bases, links, ridge, self.bar, self.features)
        sigma = comparison.choose(structure)
        if not self._weighted or sigma.constant:  # else it is good enough for weights, and will be fitted again
            sigma = self._fitted_to_all_cells(products, sigma)
        return LearnedSigma(sigma, searched, comparison.candidates, products)

    def _far_less_left(self, now: LearnedSigma, before: LearnedSigma) -> bool:
        """Whether better weights have lowered the loss a lot."""
        return before.sigma.loss - now.sigma.loss >= LEAST_GAIN_OF_WEIGHTS * self.d

    def reweights(self, covariance: LearnedSigma, before: LearnedSigma | None = None) -> bool:
        """Where the weights differ from those of one covariance for all places, and much from those before."""
        sigma = covariance.sigma
        if before is not None and not self._far_less_left(covariance, before):
            return False
        return self._weighted and (not sigma.constant or sigma.fit.shape.structure == "diagonal")

    def on_all_rows(self, drift: LearnedDrift, covariance: LearnedSigma) -> tuple[LearnedDrift, LearnedSigma]:
        """With amplitudes from all transitions, where they came from a subset, or from cells that are too coarse."""
        n_rows, sigma = self.task.survey.n_rows, covariance.sigma
        if self._simple:
            return self._of_few_rows(drift, covariance)
        with one_blas_thread:
            if not self._coarse(drift, sigma):
                return self._drift_of_all_rows(drift, sigma, coarse=False), covariance.with_errors_of_all(self.features)
            all_rows = AllRows(self.data, n_rows, self.scaling, drift.basis, sigma, self.bar)
            alone = self._of_rows_alone(drift, sigma)
            if alone is not None:
                all_rows = all_rows.more_likely_with(drift.drift, alone)
            n_alone = rows_alone(sigma, n_rows) if all_rows.sigma is alone else 0
            improved = all_rows.improved(drift.drift)
            return drift._replace(drift=improved.drift), covariance._replace(sigma=improved.sigma, n_alone=n_alone)

    def _coarse(self, drift: LearnedDrift, sigma: Sigma) -> bool:
        """Whether Σ was learned from a subset, or from cells within which it changes too much."""
        return self.plan.drawn or noise_changes_within_cells(drift.cells, sigma, self.plan.side)

    def _drift_of_all_rows(self, drift: LearnedDrift, sigma: Sigma, *, coarse: bool) -> LearnedDrift:
        """A drift with amplitudes from all transitions where they tell more than a subset or cells do."""
        n_rows = self.task.survey.n_rows
        if not coarse and not (self.plan.follows_tracks and n_rows < ROWS_IN_CELL * len(drift.cells.u)):
            return drift
        all_rows = AllRows(self.data, n_rows, self.scaling, drift.basis, sigma, self.bar)
        return drift._replace(drift=all_rows.improved_drift(drift.drift))

    def _of_rows_alone(self, drift: LearnedDrift, sigma: Sigma) -> Sigma | None:
        """A full Σ that was fitted to sums over cells, fitted again to single transitions; None if it was not.

        Where Σ turns within a cell, its sum is less singular than Σ is anywhere in it. Entries that are sums of waves
        themselves hardly turn so fast.
        """
        fit = sigma.fit
        if not self.plan.gathered or fit.shape.separate or fit.link.linear:
            return None
        self.bar.show("covariance", f"{fit.shape.structure}, {fit.link.symbol} as a sum of waves, single transitions")
        n_rows, folds = self.task.survey.n_rows, self._of_folds(drift.drift)
        cells = self._products_in_a_pass(self.plan.ungathered(rows_alone(sigma, n_rows)), drift.basis, folds)
        return fitted_alone(sigma, cells, self.covariance_arff.ridge, n_rows)

    @property
    def _simple(self) -> bool:
        """Whether so few transitions get a simple answer; ridges are obeyed if set."""
        ridges = (self.arff.ridge, self.covariance_arff.ridge)
        return self.few and not self.plan.drawn and ridges == (None, None)

    def _of_few_rows(self, drift: LearnedDrift, covariance: LearnedSigma) -> tuple[LearnedDrift, LearnedSigma]:
        """Both nearer to constants, between the data and if few transitions are hardly more likely with them."""
        kept = near_its_mean(drift.drift, drift.rows, drift.basis, drift.cells.u, np.random.default_rng(self.plan.seed))
        changed, drift = differ(drift.drift, kept, drift.rows), drift._replace(drift=kept)
        sigma, products = covariance.sigma, self.residual_products(drift)
        X = self.features(sigma.basis, drift.cells.u)
        unclear_drift, unclear_noise = unclear(drift.rows, drift.drift, sigma.fit, sigma.of_features(X))
        if unclear_drift:
            drift = drift._replace(drift=nearer_to_constant(drift.drift, best_constant(drift.rows)))
            products = self.residual_products(drift)
        if changed or unclear_drift or unclear_noise:
            sigma = varying_less(sigma, products, X, KEPT if unclear_noise else 1.0)
        mean = correlated_mean(sigma, products, X) if self.task.options.structure == "auto" else None
        if mean is not None:
            full = self._constant(products._replace(mean=mean), Shape("full", self.d))
            sigma = full._replace(fit=at_one(full.fit))
        names = " and ".join(name for name, far in (("f", unclear_drift), ("Σ", unclear_noise)) if far)
        return drift, covariance._replace(sigma=sigma, moved=names)

    def learned(self, drift: LearnedDrift, covariance: LearnedSigma) -> Learned:
        """Both as parts of a model."""
        sigma = covariance.sigma
        function = self._covariance_function(covariance, sigma, sigma.fit.squares)
        return self._with_functions(covariance, self._drift_function(drift, drift.drift.posterior), function)

    def without_step(self, drift: LearnedDrift, covariance: LearnedSigma) -> Correction:
        """Drift and covariance of which the observed steps are what was learned."""
        self.bar.show("drift and covariance", "correcting for the length of steps")
        drift, corrected = self._or_simplest(drift, covariance, self._corrected(drift, covariance))
        covariance, corrected = self._or_constant(drift, covariance, corrected)
        squares = covariance.sigma.fit.squares * corrected.spread_ratio[:, None, None] ** 2
        squares[:, 0, 0] += corrected.spread_added**2
        function = self._covariance_function(covariance, corrected.sigma, squares)
        learned = self._with_functions(covariance, self._drift_function(drift, corrected.drift), function)
        return Correction(learned, corrected.record)

    def _with_functions(self, learned: LearnedSigma, drift: LearnedFunction, covariance: LearnedFunction) -> Learned:
        sigma, floor = learned.sigma, self.task.options.floor
        limits = sigma.fit.limits
        if floor is not None:
            limits = np.maximum([[floor], [floor]], limits * [[0.0], [1.0]])
        return Learned(
            drift=drift,
            covariance=covariance,
            structure=sigma.fit.shape.structure,
            link=sigma.fit.link.name,
            limits=limits,
            factor=sigma.L,
            candidates=learned.candidates,
            searched_on=self.plan.how + learned.how,
        )

    def _corrected(self, drift: LearnedDrift, covariance: LearnedSigma) -> Corrected:
        """Both corrected for the length of steps, in their own features."""
        what = self.task.survey.n_rows, drift.drift, drift.basis, covariance.sigma, self.scaling
        followed = followed_transitions(self.data, *what, self.plan.seed)
        return undo_step(followed, *what, always=self.task.options.correct_step != "auto")

    def _or_simplest(
        self, drift: LearnedDrift, covariance: LearnedSigma, corrected: Corrected
    ) -> tuple[LearnedDrift, Corrected]:
        """The simplest candidate of the drift instead, if it is as evident with the steps that it makes."""
        simple = drift.searched.candidates[0]
        if drift.waves is simple or self._simple or not self._weighted or corrected.record.withheld:
            return drift, corrected
        same, other = (self.drift_of(waves, drift, covariance) for waves in (drift.waves, simple))
        ahead = same.drift.log_evidence - other.drift.log_evidence
        if ahead > corrected.shown:  # more than the length of steps makes of any drift
            return drift, corrected
        other = self._drift_of_all_rows(other, covariance.sigma, coarse=self._coarse(other, covariance.sigma))
        steps = self._corrected(other, covariance)
        observed = ObservedMoves(drift.cells, self._precision(covariance, drift), self.scaling, self.data)
        both = (Stepped(drift.drift, drift.basis, corrected), Stepped(other.drift, other.basis, steps))
        return (other, steps) if observed.prefer_simple(*both, ahead) else (drift, corrected)

    def _or_constant(
        self, drift: LearnedDrift, covariance: LearnedSigma, corrected: Corrected
    ) -> tuple[LearnedSigma, Corrected]:
        """A constant covariance instead, if the steps that it makes are as likely for the amplitudes that it saves."""
        sigma, products, record = covariance.sigma, covariance.products, corrected.record
        asked_for, incomplete = self.covariance_arff.ridge is not None, self._simple or self.plan.drawn
        if sigma.constant or asked_for or incomplete or record.withheld or record.lengths_chosen:
            return covariance, corrected
        n_rows, shape = self.task.survey.n_rows, sigma.fit.shape
        constant = self._constant(products, shape, steady=False)
        if n_rows * (constant.loss - sigma.loss) > corrected.shown:  # more than the length of steps makes of any Σ
            return covariance, corrected
        observed, steps = ObservedProducts(products.cells, self.scaling, self.data), (drift.basis, corrected.drift)
        constant = constant._replace(fit=at_one(constant.fit))
        best = observed.most_likely_constant(*steps, corrected.sigma, constant)
        lost = n_rows * (observed.loss(*steps, best) - observed.loss(*steps, corrected.sigma))
        if not lost <= sigma.fit.determined - best.fit.determined + LEAST_EVIDENCE_GAIN:
            return covariance, corrected
        as_it_is, rest = np.ones(shape.n_entries), REST_OF_STEPS * record.covariance_change**2
        corrected = corrected._replace(sigma=best, spread_ratio=as_it_is, spread_added=rest * as_it_is)
        return covariance._replace(sigma=best, n_alone=0), corrected

    @property
    def _weighted(self) -> bool:
        return self.task.options.weight_drift is not False

    def _fitted_to_all_cells(self, products: ResidualProducts, sigma: Sigma) -> Sigma:
        """A covariance fitted again, with its features, link and structure, to the products of all cells."""
        fit, ridge, simplest = sigma.fit, self.covariance_arff.ridge, self.task.options.links[0]
        structure = fit.shape.structure
        self.bar.show("covariance", f"{structure}, {fit.link.symbol} as a sum of waves, all cells")
        L, S = products.in_units(structure)
        cells = products.cells
        rows = Products.of(self.features(sigma.basis, cells.u), S, cells.count, cells.fold)
        new = fit_covariance(rows, sigma.basis, fit.link, fit.shape, ridge, start=fit)
        if fit.shape.separate and not sigma.constant and fit.link is not simplest:
            # With more data the simplest link may be as good after all
            simple = fit_covariance(rows, sigma.basis, simplest, fit.shape, ridge, start=sigma.simplest)
            new = min(new, simple, key=lambda each: each.cv_nll)
        if sigma.constant or (new.ridges < SWITCHED_OFF).any():
            return Sigma(sigma.basis, L, new)
        return self._constant(products, fit.shape)

    def _constant(self, products: ResidualProducts, shape: Shape, *, steady: bool = True) -> Sigma:
        """The covariance that is the same everywhere, in units of steady trace or of itself."""
        (L, S), cells = products.in_units(shape.structure, steady=steady), products.cells
        alone = Products.of(features_at(None, cells.u), S, cells.count, cells.fold)
        return Sigma(None, L, fit_covariance(alone, None, self.task.options.links[0], shape))

    # Functions of a model

    def _drift_function(self, learned: LearnedDrift, posterior: Posterior) -> LearnedFunction:
        """A drift with the amplitudes of a posterior."""
        drift, basis, amplitudes = learned.drift, learned.basis, posterior.amplitudes
        ridges, searched = reported_ridges(drift.ridges, basis, posterior), learned.searched
        if learned.waves is not searched.best:
            searched = searched._replace(best_iteration=0)
        spread = spread_series(basis, posterior.squares, self.scaling)
        if self._simple:
            rng, periodic = np.random.default_rng(self.plan.seed), is_periodic(self.data.periods)
            spread = with_other_functions(spread, drift, learned.rows, learned.cells.u, rng, periodic)
        return LearnedFunction(
            series=basis.series(amplitudes[:, 0], amplitudes[:, 1:].T, self.scaling),
            training=searched.training(self.arff, basis, ridges, drift.determined),
            spread=spread,
        )

    def _covariance_function(self, learned: LearnedSigma, sigma: Sigma, squares: Float) -> LearnedFunction:
        """A covariance with the mean squares (p, R + 1, R + 1) of errors of H."""
        fit, searched = learned.sigma.fit, learned.searched
        if sigma.constant:
            searched = searched._replace(best_iteration=0)
        return LearnedFunction(
            series=sigma.series(self.scaling),
            training=searched.training(self.covariance_arff, sigma.basis, fit.ridges, fit.determined),
            spread=spread_series(sigma.features(self.scaling), squares, self.scaling),
        )


def _shown(bar: Progress, label: str) -> Callable[[int, float], None]:
    return lambda iteration, gain: bar.show(label, f"iteration {iteration}, log-evidence {gain:+.1f}")
