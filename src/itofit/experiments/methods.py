"""The methods that are compared: how each learns, from the same data, with which settings."""

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
from itofit.experiments.catalogue import Case, Functions

QUICK_EPOCHS = 8
MOST_SECONDS = 1200.0
"""Of training by Adam: no epoch is started later."""
DEEP = (64, 64)
ADDED_LAYER = (64,)
FINE_TUNING_RATE = 1e-4
"""Learning rate of the hybrids: with Adam's 0.001 their first steps lose what they start from."""
BATCH_OF_DEEP = 32

Report = Callable[[int, int], None]


class Problem(NamedTuple):
    """What a method is given."""

    case: Case
    train: itofit.Transitions
    validation: itofit.Transitions
    seed: int
    quick: bool
    most_seconds: float = MOST_SECONDS


class Outcome(NamedTuple):
    """What it made of it. Times are without compilation."""

    functions: Functions
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
        One sentence.
    learn : callable
        learn(problem, report) with report(done, of) for progress.
    only : tuple of str
        Experiments in which it runs unless it is asked for by name; empty: all.
    needs_jax : bool
    """

    name: str
    label: str
    about: str
    learn: Callable[[Problem, Report], Outcome]
    only: tuple[str, ...] = ()
    needs_jax: bool = False


# Random features


def _fitted(problem: Problem, **options: object) -> tuple[itofit.LearnedSDE, float]:
    """A learned equation and the seconds that it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        warnings.simplefilter("ignore", itofit.DataWarning)
        sde = itofit.fit(problem.train, rng=problem.seed, **options)  # type: ignore[arg-type]
    return sde, time.perf_counter() - began


def _algorithm_2(
    problem: Problem, *, resample: bool = True, drift_step: bool = False
) -> tuple[itofit.LearnedSDE, float]:
    case = problem.case
    return _fitted(
        problem,
        structure=case.structure,
        drift=replace(case.drift_settings, resample=resample),
        covariance=replace(case.covariance_settings, resample=resample),
        refine=False,
        weight_drift=True if drift_step else None,
    )


def _of_features(problem: Problem, sde: itofit.LearnedSDE, seconds: float, to_best: float, settings: str) -> Outcome:
    loss = sde.nll(problem.validation)
    return Outcome(sde, loss, loss, seconds, to_best, 0.0, np.array([to_best]), np.array([loss]), settings)


def _learn_algorithm_2(problem: Problem, report: Report, *, resample: bool = True, drift_step: bool = False) -> Outcome:
    sde, seconds = _algorithm_2(problem, resample=resample, drift_step=drift_step)
    histories = (sde.drift_history, sde.covariance_history)
    to_best = seconds if drift_step else float(sum(h.seconds[: h.best_iteration].sum() for h in histories))
    drift, covariance = sde.drift_settings, sde.covariance_settings
    return _of_features(problem, sde, seconds, to_best, f"drift {drift}; covariance {covariance}")


def _learn_default(problem: Problem, report: Report) -> Outcome:
    sde, seconds = _fitted(problem)
    return _of_features(problem, sde, seconds, seconds, f"none; chosen: {sde.structure}, {sde.link} link")


# Gradients


def _of_adam(run: AdamRun, settings: Adam, before: float = 0.0) -> Outcome:
    """The outcome of a training that began after so many seconds."""
    return Outcome(
        functions=run.network,
        loss=run.best_loss,
        lowest_loss=run.lowest_loss,
        seconds=before + float(run.seconds[-1]),
        seconds_to_best=before + run.seconds_to_best,
        compile_seconds=run.compile_seconds,
        curve_seconds=before + run.seconds,
        curve_losses=run.losses,
        settings=f"{settings}{'; ended early' if run.diverged else ''}",
    )


def _adam(problem: Problem, batch_size: int | None = None, **options: object) -> Adam:
    case = problem.case
    return Adam(
        batch_size=batch_size or case.batch_size,
        n_features=case.drift_settings.n_features or 128,
        epochs=QUICK_EPOCHS if problem.quick else 200,
        seconds=problem.most_seconds,
        spread=case.spread,
        **options,  # type: ignore[arg-type]
    )


def _trained(problem: Problem, settings: Adam, report: Report, start: itofit.LearnedSDE | None = None) -> AdamRun:
    return train_adam(
        problem.train,
        problem.validation,
        settings,
        structure=problem.case.structure,
        rng=problem.seed,
        start=start,
        progress=report,
    )


def _learn_adam(problem: Problem, report: Report) -> Outcome:
    settings = _adam(problem)
    return _of_adam(_trained(problem, settings, report), settings)


def _learn_deep(problem: Problem, report: Report) -> Outcome:
    settings = _adam(problem, BATCH_OF_DEEP, architecture="relu", hidden=DEEP)
    return _of_adam(_trained(problem, settings, report), settings)


def _learn_hybrid(problem: Problem, report: Report, *, hidden: tuple[int, ...] = ()) -> Outcome:
    start, before = _algorithm_2(problem)
    settings = _adam(problem, hidden=hidden, learning_rate=FINE_TUNING_RATE)
    return _of_adam(_trained(problem, settings, report, start), settings, before)


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
            learn=lambda problem, report: _learn_algorithm_2(problem, report, resample=False),
            only=("3a",),
        ),
        Method(
            name="drift-step",
            label="Algorithm 2 and a drift step",
            about="The paper's additional drift training, conditioned on the learned Σ.",
            learn=lambda problem, report: _learn_algorithm_2(problem, report, drift_step=True),
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
            learn=lambda problem, report: _learn_hybrid(problem, report, hidden=ADDED_LAYER),
            only=("3a", "3b"),
            needs_jax=True,
        ),
    )
}
"""The methods by name."""

LABELS = {method.name: method.label for method in METHODS.values()} | {"truth": "Truth"}


def versions() -> str:
    """Of what computes, as text."""
    found = [f"itofit {itofit.__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "finufft", "jax", "optax"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
