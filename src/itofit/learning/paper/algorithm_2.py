"""Algorithm 2 as published: Algorithm 1 for the drift, then for the covariance of its residuals.

With the drift f learned from increments / h, every transition has a residual r = √h (Δx / h − f(x)), whose products
r rᵀ are samples of Σ. The paper's additional drift step learns g in f = Σ^½ g from Σ^{−½} increments / h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import add_up
from itofit.data.survey import joined_moments
from itofit.data.transitions import Transitions
from itofit.learning.paper.regression import Rows, TrainingSet, fit_series
from itofit.learning.pipeline import Correction, Learned, Task
from itofit.learning.verdicts import check_noise
from itofit.matrices.links import IDENTITY, Shape
from itofit.matrices.symmetric import (
    FLOOR,
    Structure,
    entries,
    floor_limits,
    outer_entries,
    reference_factor,
    square_root,
    to_matrices,
)
from itofit.model.training import LearnedFunction
from itofit.waves.scaling import Scaling

LEAST_CORRELATION = 0.25
"""Below this mean correlation, which none of the paper's experiments has, off-diagonal covariance targets are scaled by
the variances and not by their mean."""


class PaperCovariance(NamedTuple):
    """A learned covariance, and the mean of the residual products it was learned from."""

    function: LearnedFunction
    mean: Float  # (d, d)


class _Moments(NamedTuple):
    """Mean and squares of some rows; they add up."""

    n: int
    mean: Float
    squares: Float

    def plus(self, other: _Moments) -> _Moments:
        return _Moments(self.n + other.n, *joined_moments(self, other))


class Paper:
    """The method of the paper, for `itofit.learning.pipeline`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        options, self.d = task.options, task.data.n_outputs
        self.structure: Structure = "full" if options.structure == "auto" else options.structure
        self.floor = FLOOR if options.floor is None else float(options.floor)

    def drift(self, before: LearnedFunction | None = None, noise: PaperCovariance | None = None) -> LearnedFunction:
        """Algorithm 1 on increments / h; given a covariance, on Σ^{−½} increments / h."""
        survey, arff = self.task.survey, self.task.options.drift_parameters
        if noise is None:
            rows = self._rows(lambda block: block.rates, survey.rate_mean, "drift")
            return fit_series(self.task.rng, TrainingSet(self.task.rng, rows, arff), survey.rate_std)

        covariance_at = self._covariance_function(noise)

        def in_units_of_noise(block: Transitions) -> Float:
            root = square_root(covariance_at(block.inputs), "symmetric")
            return np.asarray(np.linalg.solve(root, block.rates[:, :, None])[:, :, 0])

        def moments(block: Transitions, number: int) -> _Moments:
            g = in_units_of_noise(block)
            mean = g.mean(axis=0)
            return _Moments(len(g), mean, ((g - mean) ** 2).sum(axis=0))

        n, mean, squares = add_up(self.task.data, moments)
        rows = self._rows(in_units_of_noise, mean, "drift again")
        return fit_series(self.task.rng, TrainingSet(self.task.rng, rows, arff), np.sqrt(squares / n))

    def residual_products(self, drift: LearnedFunction) -> Rows:
        """The learned entries of r rᵀ of every transition."""
        series, structure = drift.series, self.structure

        def products(block: Transitions) -> Float:
            residuals = (block.rates - series(block.inputs)) * np.sqrt(block.h)[:, None]
            return outer_entries(residuals, structure)

        return self._rows(products, np.zeros(Shape(self.structure, self.d).n_entries), "covariance")

    def covariance(self, products: Rows, before: PaperCovariance | None = None) -> PaperCovariance:
        """Algorithm 1 on residual products; the additional drift step leaves the covariance as it is."""
        if before is not None:
            return before
        rows = TrainingSet(self.task.rng, products, self.task.options.covariance_parameters)
        mean = to_matrices(rows.mean[None], self.structure, self.d)[0]
        check_noise(mean, self.task.data)
        return PaperCovariance(fit_series(self.task.rng, rows, _target_units(mean, self.structure)), mean)

    def reweights(self, covariance: PaperCovariance, before: PaperCovariance | None = None) -> bool:
        """Once, and only on demand."""
        return bool(self.task.options.weight_drift) and before is None

    def on_all_rows(
        self, drift: LearnedFunction, covariance: PaperCovariance
    ) -> tuple[LearnedFunction, PaperCovariance]:
        """As they are: Algorithm 1 has solved its last amplitudes on all rows."""
        return drift, covariance

    def learned(self, drift: LearnedFunction, covariance: PaperCovariance) -> Learned:
        """Both as parts of a model."""
        return Learned(
            drift=drift,
            covariance=covariance.function,
            structure=self.structure,
            link=IDENTITY.name,
            limits=floor_limits(self.floor, self.d),
            factor=reference_factor(covariance.mean, self.floor),
            drift_in_noise_units=bool(self.task.options.weight_drift),
        )

    def without_step(self, drift: LearnedFunction, covariance: PaperCovariance) -> Correction:
        """Not part of the paper's method; `FitOptions` does not let it be asked for."""
        raise NotImplementedError("Algorithm 2 learns the mean and covariance of one step")

    def _rows(self, targets: Callable[[Transitions], Float], offset: Float, label: str) -> Rows:
        """The transitions' inputs with some targets."""
        survey = self.task.survey
        return Rows(
            data=self.task.data,
            points_and_targets=lambda block: (block.inputs, targets(block)),
            scaling=Scaling.of(survey.low, survey.high, offset),
            n_rows=survey.n_rows,
            n_outputs=len(offset),
            progress=self.task.bar,
            label=label,
        )

    def _covariance_function(self, covariance: PaperCovariance) -> Callable[[Float], Float]:
        """Σ as a function of inputs, as the model will have it."""
        factor, limits = reference_factor(covariance.mean, self.floor), floor_limits(self.floor, self.d)
        series, shape = covariance.function.series, Shape(self.structure, self.d)
        return lambda x: IDENTITY.covariance(series(x), factor, shape, limits)[0]


def _target_units(mean: Float, structure: Structure) -> Float:
    """What covariance targets are divided by: the sizes of their means, as in the paper.

    The mean of an off-diagonal entry may vanish, and dividing by it would let the noise of that entry drown the
    others. Where it is less than a quarter of √(Σ_ii Σ_jj), that root is the size.
    """
    rows, cols = entries(structure, len(mean))
    size, means = np.sqrt(np.diagonal(mean)[rows] * np.diagonal(mean)[cols]), np.abs(mean[rows, cols])
    return np.where(means < LEAST_CORRELATION * size, size, means)
