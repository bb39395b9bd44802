"""The pipeline: from transitions to a learned equation, by one of two methods.

    survey → method.drift → residual products → method.covariance → (reweight, again) → (undo the step) → model

`Paper` is Algorithm 2 as published, `Automatic` the default. Both answer the same questions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit._version import __version__
from itofit.data.passes import Data, add_up
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions
from itofit.learning.options import FitOptions
from itofit.matrices.links import LinkName
from itofit.matrices.symmetric import Structure
from itofit.model.learned import LearnedSDE
from itofit.model.sde import BATCH_ROWS
from itofit.model.training import Candidate, DataSummary, LearnedFunction, StepCorrection

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


class Correction(NamedTuple):
    """Drift and covariance without what the length of the steps made of them."""

    drift: LearnedFunction
    covariance: LearnedFunction
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

    def reweights(self, covariance: C) -> bool:
        """Whether the drift is learned again, weighted by the inverse of this covariance."""
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
    drift = method.drift()
    covariance = method.covariance(method.residual_products(drift))
    if method.reweights(covariance):
        drift = method.drift(drift, covariance)
        covariance = method.covariance(method.residual_products(drift), covariance)
    drift, covariance = method.on_all_rows(drift, covariance)
    sde = _model(task, method.learned(drift, covariance))
    if not task.options.correct_step:
        return _with_floors_counted(task, sde)
    corrected = method.without_step(drift, covariance)
    return _with_floors_counted(
        task,
        replace(
            sde,
            drift_function=corrected.drift,
            covariance_function=corrected.covariance,
            step_correction=corrected.record,
            one_step=sde,
        ),
    )


def _model(task: Task, learned: Learned) -> LearnedSDE:
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
        floored_share=0.0,  # counted at the end
        box=np.array([survey.low, survey.high]),
        seed=task.seed,
        data=DataSummary(
            n_transitions=survey.n_rows,
            n_groups=survey.n_groups,
            h_min=survey.h_min,
            h_mean=survey.h_mean,
            h_max=survey.h_max,
        ),
        version=__version__,
        candidates=learned.candidates,
        searched_on=learned.searched_on,
        drift_in_noise_units=learned.drift_in_noise_units,
        input_names=data.input_names,
        output_names=data.output_names,
    )


def _with_floors_counted(task: Task, sde: LearnedSDE) -> LearnedSDE:
    """The model, and what it was before the step was undone, with the shares of the data that needed their limits."""
    models = [sde] if sde.one_step is None else [sde, sde.one_step]

    def n_floored(block: Transitions, number: int) -> Float:
        return np.array([model.floored(block.inputs).sum() for model in models])

    shares = add_up(task.data, n_floored, most_rows=BATCH_ROWS) / task.survey.n_rows
    sde, *before = (replace(model, floored_share=float(share)) for model, share in zip(models, shares, strict=True))
    return replace(sde, one_step=before[0] if before else None)
