"""The methods that are compared: how each learns from the same data, and with which settings."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np

import itofit
from itofit._checks import Float
from itofit.experiments.adam import Adam, AdamRun, train_adam
from itofit.experiments.catalogue import Case
from itofit.model.sde import SDE

QUICK_EPOCHS = 8
MOST_SECONDS = 1200.0
"""No epoch of a training by Adam starts after this time."""
DEEP = (64, 64)
ADDED_LAYER = (64,)
FINE_TUNING_RATE = 1e-4
"""Learning rate of the hybrids: with Adam's 0.001 the first steps destroy what they start from."""
BATCH_OF_DEEP = 32

ShowProgress = Callable[[int, int], None]
"""Called with the number of epochs done and of all."""


class Task(NamedTuple):
    """The data and limits that a method is given."""

    case: Case
    train: itofit.Transitions
    validation: itofit.Transitions
    seed: int
    quick: bool
    most_seconds: float = MOST_SECONDS


class Outcome(NamedTuple):
    """The equation that a method learned, with its losses and times; times are without compilation."""

    sde: SDE
    loss: float
    lowest_loss: float
    seconds: float
    seconds_to_best: float
    compile_seconds: float
    curve_seconds: Float
    curve_losses: Float
    settings: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method.

    Parameters
    ----------
    name, label : str
    about : str
        One sentence for readers of the results.
    learn : callable
        learn(task, show_progress) calls show_progress(done, of) as it goes.
    only : tuple of str
        Experiments in which it runs by default; empty: all.
    needs_jax : bool
    """

    name: str
    label: str
    about: str
    learn: Callable[[Task, ShowProgress], Outcome]
    only: tuple[str, ...] = ()
    needs_jax: bool = False


# Random features


def _fitted(task: Task, **options: object) -> tuple[itofit.LearnedSDE, float]:
    """A learned equation, and how many seconds learning took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        warnings.simplefilter("ignore", itofit.DataWarning)
        sde = itofit.fit(task.train, rng=task.seed, **options)  # type: ignore[arg-type]
    return sde, time.perf_counter() - began


def _algorithm_2(task: Task, *, resample: bool = True, drift_step: bool = False) -> tuple[itofit.LearnedSDE, float]:
    case = task.case
    return _fitted(
        task,
        structure=case.structure,
        drift=replace(case.drift_settings, resample=resample),
        covariance=replace(case.covariance_settings, resample=resample),
        refine=False,
        weight_drift=True if drift_step else None,
    )


def _outcome_of_features(task: Task, sde: itofit.LearnedSDE, seconds: float, to_best: float, settings: str) -> Outcome:
    loss = sde.nll(task.validation)
    return Outcome(sde, loss, loss, seconds, to_best, 0.0, np.array([to_best]), np.array([loss]), settings)


def _learn_algorithm_2(
    task: Task, show_progress: ShowProgress, *, resample: bool = True, drift_step: bool = False
) -> Outcome:
    sde, seconds = _algorithm_2(task, resample=resample, drift_step=drift_step)
    to_best = seconds if drift_step else _seconds_to_best(sde)
    return _outcome_of_features(task, sde, seconds, to_best, _settings_text(sde))


def _seconds_to_best(sde: itofit.LearnedSDE) -> float:
    """Training time of drift and covariance, each up to its best iteration."""
    trainings = (sde.drift_function.training, sde.covariance_function.training)
    return float(sum(training.seconds[: training.best_iteration].sum() for training in trainings))


def _settings_text(sde: itofit.LearnedSDE) -> str:
    drift, covariance = sde.drift_function.training, sde.covariance_function.training
    return f"drift {drift.parameters}; covariance {covariance.parameters}"


def _learn_default(task: Task, show_progress: ShowProgress) -> Outcome:
    sde, seconds = _fitted(task)
    return _outcome_of_features(task, sde, seconds, seconds, f"none; chosen: {sde.structure}, {sde.link} link")


# Gradients


def _outcome_of_adam(run: AdamRun, settings: Adam, before: float = 0.0) -> Outcome:
    """The outcome of a training by Adam that took `before` seconds to prepare."""
    return Outcome(
        sde=run.network,
        loss=run.best_loss,
        lowest_loss=run.lowest_loss,
        seconds=before + float(run.seconds[-1]),
        seconds_to_best=before + run.seconds_to_best,
        compile_seconds=run.compile_seconds,
        curve_seconds=before + run.seconds,
        curve_losses=run.losses,
        settings=f"{settings}{'; ended early' if run.diverged else ''}",
    )


def _adam_settings(task: Task, batch_size: int | None = None, **options: object) -> Adam:
    case = task.case
    return Adam(
        batch_size=batch_size or case.batch_size,
        n_features=case.drift_settings.n_features or 128,
        epochs=QUICK_EPOCHS if task.quick else 200,
        seconds=task.most_seconds,
        spread=case.spread,
        **options,  # type: ignore[arg-type]
    )


def _trained(
    task: Task, settings: Adam, show_progress: ShowProgress, start: itofit.LearnedSDE | None = None
) -> AdamRun:
    return train_adam(
        task.train,
        task.validation,
        settings,
        structure=task.case.structure,
        rng=task.seed,
        start=start,
        progress=show_progress,
    )


def _learn_adam(task: Task, show_progress: ShowProgress) -> Outcome:
    settings = _adam_settings(task)
    return _outcome_of_adam(_trained(task, settings, show_progress), settings)


def _learn_deep(task: Task, show_progress: ShowProgress) -> Outcome:
    settings = _adam_settings(task, BATCH_OF_DEEP, architecture="relu", hidden=DEEP)
    return _outcome_of_adam(_trained(task, settings, show_progress), settings)


def _learn_hybrid(task: Task, show_progress: ShowProgress, *, hidden: tuple[int, ...] = ()) -> Outcome:
    start, before = _algorithm_2(task)
    settings = _adam_settings(task, hidden=hidden, learning_rate=FINE_TUNING_RATE)
    return _outcome_of_adam(_trained(task, settings, show_progress, start), settings, before)


METHODS = {
    method.name: method
    for method in (
        Method(
            name="algorithm-2",
            label="Algorithm 2",
            about="The paper's algorithm with the paper's settings.",
            learn=_learn_algorithm_2,
        ),
        Method(
            name="default",
            label="itofit default",
            about="itofit.fit(data), which chooses everything from the data.",
            learn=_learn_default,
        ),
        Method(
            name="adam",
            label="Adam, shallow",
            about="The same kind of network with trainable frequencies, trained on the likelihood by Adam.",
            learn=_learn_adam,
            needs_jax=True,
        ),
        Method(
            name="no-resampling",
            label="Algorithm 2 without resampling",
            about="The paper's ablation.",
            learn=lambda task, show_progress: _learn_algorithm_2(task, show_progress, resample=False),
            only=("3a",),
        ),
        Method(
            name="drift-step",
            label="Algorithm 2 and a drift step",
            about="The paper's additional drift training, conditioned on the learned Σ.",
            learn=lambda task, show_progress: _learn_algorithm_2(task, show_progress, drift_step=True),
            only=("1", "1-", "2", "3a", "3b", "4a", "4b", "5", "5-", "6", "6-lag"),
        ),
        Method(
            name="adam-deep",
            label="Adam, deep",
            about="Two hidden ReLU layers of 64 for each function.",
            learn=_learn_deep,
            only=("3a",),
            needs_jax=True,
        ),
        Method(
            name="hybrid",
            label="Hybrid, shallow",
            about="A network that starts from Algorithm 2's frequencies and amplitudes, then trained by Adam.",
            learn=_learn_hybrid,
            only=("3a", "3b"),
            needs_jax=True,
        ),
        Method(
            name="hybrid-deep",
            label="Hybrid, one layer more",
            about="The same with a hidden ReLU layer of 64 added on top of the features.",
            learn=lambda task, show_progress: _learn_hybrid(task, show_progress, hidden=ADDED_LAYER),
            only=("3a", "3b"),
            needs_jax=True,
        ),
    )
}
"""The methods by name."""

LABELS = {method.name: method.label for method in METHODS.values()} | {"truth": "Truth"}


def versions() -> str:
    """Versions of itofit, Python and the libraries that compute, as text."""
    parts = [f"itofit {itofit.__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "finufft", "jax", "optax"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)
