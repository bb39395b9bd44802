"""The pipeline: from transitions to a learned equation, by one of two methods.

    survey → method.drift → residual products → method.covariance → (reweight, again) → (undo the step) → model

`Paper` is Algorithm 2 as published, `Automatic` the default. Both answer the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit._progress import Progress
from itofit._version import __version__
from itofit.data.passes import Data, add_up
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions
from itofit.learning.options import FitOptions
from itofit.matrices.links import LINKS, LinkName, Shape
from itofit.matrices.symmetric import Structure
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.training import (
    MOST_PLACES,
    Candidate,
    DataSummary,
    LearnedFunction,
    LeftOut,
    Places,
    StepCorrection,
)

MOST_REWEIGHTED = 4
"""Rounds of drifts weighted by covariances and covariances of what these drifts leave over."""

F = TypeVar("F")
P = TypeVar("P")
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a method is given."""

    data: Data
    survey: Survey
    options: FitOptions
    rng: np.random.Generator
    seed: int | None  # of rng, where it is known
    bar: Progress
    left_out: LeftOut | None = None


class Learned(NamedTuple):
    """What a method has learned, in the form of a model."""

    drift: LearnedFunction
    covariance: LearnedFunction
    structure: Structure
    link: LinkName
    limits: Float  # (2, d)
    factor: Float  # (d, d): L
    candidates: tuple[Candidate, ...] = ()
    searched_on: str = "all of them"
    drift_in_noise_units: bool = False

    @property
    def floored(self) -> Callable[[Float], npt.NDArray[np.bool_]]:
        """Where Σ needs its limits: a function of inputs of shape (n, m), with values of shape (n,)."""
        link, series, factor, limits = LINKS[self.link], self.covariance.series, self.factor, self.limits
        shape = Shape(self.structure, len(factor))
        return lambda x: link.covariance(series(x), factor, shape, limits)[1]


class Correction(NamedTuple):
    """Drift and covariance without what the length of the steps made of them."""

    learned: Learned
    record: StepCorrection


class Method(Protocol[F, P, C]):
    """A way to learn drifts F and covariances C, with residual products P in between."""

    def drift(self, before: F | None = None, noise: C | None = None) -> F:
        """The drift; given one and the covariance of its noise, the same weighted by the inverse of that."""
        ...

    def residual_products(self, drift: F) -> P:
        """The entries of rrᵀ/h for the residuals r = Δx − h f of the transitions."""
        ...

    def covariance(self, products: P, before: C | None = None) -> C:
        """The covariance of which residual products are samples; given one, with what was decided for it."""
        ...

    def reweights(self, covariance: C, before: C | None = None) -> bool:
        """Whether the drift is learned again, weighted by the inverse of this covariance; given the one before it too.

        Where noise is weak, an error of the drift looks like noise, and more weight cures it.
        """
        ...

    def on_all_rows(self, drift: F, covariance: C) -> tuple[F, C]:
        """Both from all transitions, where they came from a part of them."""
        ...

    def learned(self, drift: F, covariance: C) -> Learned:
        """Both as parts of a model."""
        ...

    def without_step(self, drift: F, covariance: C) -> Correction:
        """Both without what the length of the steps made of them."""
        ...


def learn(task: Task, method: Method[F, P, C]) -> LearnedSDE:
    """One learned equation."""
    drift, covariance = functions_of_one_step(method)
    learned = method.learned(drift, covariance)
    if not task.options.corrects_step(task.data.kind):
        return model_of(task, learned, *floored_shares(task, learned))
    correction = method.without_step(drift, covariance)
    share, share_of_one_step = floored_shares(task, correction.learned, learned)
    one_step = as_part(model_of(task, learned, share_of_one_step))
    return replace(model_of(task, correction.learned, share), step_correction=correction.record, one_step=one_step)


def functions_of_one_step(method: Method[F, P, C]) -> tuple[F, C]:
    """Drift and covariance of the observed steps."""
    drift = method.drift()
    covariance = method.covariance(method.residual_products(drift))
    before, rounds = None, 0
    while rounds < MOST_REWEIGHTED and method.reweights(covariance, before):
        drift, before, rounds = method.drift(drift, covariance), covariance, rounds + 1
        covariance = method.covariance(method.residual_products(drift), covariance)
    return method.on_all_rows(drift, covariance)


def floored_shares(task: Task, *all_learned: Learned) -> Iterator[float]:
    """The share of the data at which each of some covariances needs its limits, in one pass."""
    all_floored = [learned.floored for learned in all_learned]

    def n_floored(block: Transitions, number: int) -> Float:
        return np.array([floored(block.inputs).sum() for floored in all_floored])

    for n in add_up(task.data, n_floored, most_rows=BATCH_ROWS):
        yield int(n) / task.survey.n_rows


def places_of(survey: Survey) -> Places:
    """Some of the places at which data were: the same however the data are cut into parts."""
    return Places(inputs=survey.sample[:MOST_PLACES].copy())


def as_part(sde: LearnedSDE) -> LearnedSDE:
    """A model as a part of another, which holds the places of their data."""
    return replace(sde, data=replace(sde.data, places=None))


def model_of(task: Task, learned: Learned, floored_share: float) -> LearnedSDE:
    """What was learned, with what it was learned from."""
    data, survey = task.data, task.survey
    return LearnedSDE(
        drift_function=learned.drift,
        covariance_function=learned.covariance,
        structure=learned.structure,
        link=learned.link,
        kind=data.kind,
        limits=learned.limits,
        floor_factor=learned.factor,
        floored_share=floored_share,
        box=np.array([survey.low, survey.high]),
        seed=task.seed,
        data=DataSummary(
            n_transitions=survey.n_rows,
            n_groups=survey.n_groups,
            h_min=survey.h_min,
            h_mean=survey.h_mean,
            h_max=survey.h_max,
            left_out=task.left_out,
            places=places_of(survey),
        ),
        version=__version__,
        candidates=learned.candidates,
        searched_on=learned.searched_on,
        drift_in_noise_units=learned.drift_in_noise_units,
        input_names=data.input_names,
        output_names=data.output_names,
        n_covariates=data.n_covariates,
        periods=data.periods,
    )
