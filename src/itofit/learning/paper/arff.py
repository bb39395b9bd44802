"""Algorithm 1: adaptive random Fourier features with Metropolis sampling and resampling.

======  ===================  ========  ===================================================
symbol  name                 shape     meaning
======  ===================  ========  ===================================================
K       settings.n_features            number of features
λ       settings.ridge                 Tikhonov parameter
δ       settings.delta                 step of the random walk, for inputs scaled to [0, 1]
γ       settings.gamma                 exponent of the Metropolis test
ω       omega                (K, m)    frequencies
β̂       beta                 (K, p)    complex amplitudes
======  ===================  ========  ===================================================

A step is a function of (generator, state, problem, settings). What it does to the frequencies is
`itofit.learning.metropolis.metropolis_step` with a random walk as its proposal, which draws K·m normals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Complex, Float
from itofit.learning.metropolis import Kernel, magnitude, metropolis_step
from itofit.model.training import Stop, Training
from itofit.waves.normal_equations import NormalEquations
from itofit.waves.parameters import Settings

WINDOW = 5  # the moving average of the stagnation rule
PATIENCE = 5  # consecutive iterations without a decrease of it that end training


class Problem(NamedTuple):
    """The data of one training: what amplitudes are solved on, and what networks are judged on."""

    train: NormalEquations
    validation: NormalEquations


class State(NamedTuple):
    """What the next step needs."""

    omega: Float  # (K, m)
    beta: Complex  # (K, p)


class Info(NamedTuple):
    """What one iteration tells about itself."""

    validation_error: float
    acceptance: float
    seconds: float


def train(
    rng: np.random.Generator,
    problem: Problem,
    settings: Settings,
    on_iteration: Callable[[int, Info], None] = lambda iteration, info: None,
) -> tuple[State, Training]:
    """Algorithm 1: search frequencies until the validation error stagnates; the best network found, and how it went.

    Parameters
    ----------
    rng : Generator
    problem : Problem
        Training and validation data.
    settings : Settings
    on_iteration : callable, optional
        Called as on_iteration(i, info) after each iteration i = 1, 2, ...
    """
    state = best = start(problem, settings)
    errors = [problem.validation.mse(*state)]
    infos: list[Info] = []
    stopped: Stop = "max_iterations"
    for i in range(1, settings.max_iterations + 1):
        with one_blas_thread:
            state, info = step(rng, state, problem, settings)
        if info.validation_error < min(errors):
            best = state
        errors.append(info.validation_error)
        infos.append(info)
        on_iteration(i, info)
        if i >= settings.min_iterations + PATIENCE and stagnates(errors[1:]):
            stopped = "stagnation"
            break
    return best, _training(problem, settings, errors, infos, stopped)


def _training(problem: Problem, settings: Settings, errors: list[float], infos: list[Info], stopped: Stop) -> Training:
    """The record of a training: errors of the start and of each iteration, and what the iterations tell."""
    K, m, p = settings.n_features, problem.train.n_inputs, problem.train.n_outputs
    return Training(
        judge="validation error",
        iteration=np.arange(len(errors), dtype=float),
        score=np.array(errors),
        acceptance=np.array([info.acceptance for info in infos]),
        seconds=np.array([info.seconds for info in infos]),
        best_iteration=int(np.argmin(errors)),
        stopped=stopped,
        n_features=K,
        parameters=settings.as_arff(),
        determined=p + 2.0 * K * p,
        groups=np.array([m if m > 1 else 0]),
        ridges=np.full((p, 1), settings.ridge),
    )


def start(problem: Problem, settings: Settings) -> State:
    """All frequencies zero, with the amplitudes that belong to them."""
    omega = np.zeros((settings.n_features, problem.train.n_inputs))
    return State(omega, problem.train.solve(omega, settings.ridge))


def step(rng: np.random.Generator, state: State, problem: Problem, settings: Settings) -> tuple[State, Info]:
    """One iteration of Algorithm 1's outer loop."""
    began = time.perf_counter()

    def solve(omega: Float) -> Complex:
        return problem.train.solve(omega, settings.ridge)

    def random_walk(rng: np.random.Generator, omega: Float) -> Float:
        return omega + settings.delta * rng.standard_normal(omega.shape)

    kernel = Kernel(
        sizes=lambda omega: magnitude(solve(omega)),
        propose=random_walk,
        resample=settings.resample,
        pairing=settings.pairing,
        gamma=settings.gamma,
    )
    omega, accepted = metropolis_step(rng, state.omega, magnitude(state.beta), kernel)
    beta = solve(omega)
    error = problem.validation.mse(omega, beta)
    return State(omega, beta), Info(error, float(accepted.mean()), time.perf_counter() - began)


def stagnates(errors: list[float]) -> bool:
    """Whether the moving average of five errors failed to decrease in each of the last five iterations.

    The paper's sentence can also be read as "has found no lower value in the last five iterations". That reading ends
    some trainings while their error falls, because it rose before. So does counting iterations before the minimum
    (docs/method.md has the measurement).
    """
    if len(errors) < WINDOW + PATIENCE:
        return False
    averages = np.convolve(errors[-WINDOW - PATIENCE :], np.full(WINDOW, 1 / WINDOW), mode="valid")
    return bool((np.diff(averages[-PATIENCE - 1 :]) >= 0).all())
