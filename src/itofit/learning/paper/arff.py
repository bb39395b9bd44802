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
ω*, β̂*  proposal             as above  proposed frequencies and their amplitudes
j       j                    (K,)      indices drawn in resampling
======  ===================  ========  ===================================================

For several outputs |β̂_k| is the Euclidean norm over them. A step is a function of (generator, state, problem,
settings); it draws, in this order, K uniforms for resampling (if it resamples), K·m normals for the proposal and K
uniforms for the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Complex, Float, InputError, Int, count, flag, fraction, one_of, positive
from itofit.waves.normal_equations import LEAST_RIDGE, MOST_INPUTS, Form, NormalEquations, cheaper_form

Pairing = Literal["printed", "reindex", "solve"]
Stop = Literal["stagnation", "max_iterations"]

WINDOW = 5  # the moving average of the stagnation rule
PATIENCE = 5  # consecutive iterations without a decrease of it that end training
SEARCH_ROWS_PER_FEATURE = 100
SEARCH_ROWS_LEAST = 25_000
SEARCH_ROWS_THREE_INPUTS = 250_000  # of which moments take seconds to make


@dataclass(frozen=True, kw_only=True)
class ARFF:
    """Parameters of Algorithm 1; `None` means "choose it from the data".

    How is said in docs/automatic.md for the default of `itofit.fit`, and below for ``fit(..., refine=False)`` and
    `ARFFRegressor`. A field that is set is obeyed by all of them.

    Parameters
    ----------
    n_features : int, optional
        K, the number of frequencies. None: one for every 20 rows, at least 8 and at most 128.
    ridge : float, optional
        λ, the Tikhonov parameter: (SᴴS + λN) β̂ = Sᴴy. None: 0.002, the paper's.
    delta : float, optional
        δ, the step of the frequencies' random walk, for inputs scaled to [0, 1]. None: 0.3; the paper's is 0.1.
    gamma : float, optional
        γ, the exponent of the Metropolis test. None: 1, the paper's.
    resample : bool
        Draw the frequencies again in proportion to their amplitudes before each proposal.
    pairing : {"printed", "reindex", "solve"}, optional
        Which amplitudes the Metropolis test compares with after resampling: those in the old order, as the paper
        prints it; those that travelled with their frequency; or those solved again for the resampled frequencies.
        None: "printed" (docs/amplitude-pairing.md has the measurement).
    min_iterations : int, optional
        Iterations before the stagnation rule starts to count. None: 20.
    max_iterations : int, optional
        Iterations at most. None: 300, or twice `min_iterations` if that is more.
    validation_fraction : float
        Share of the rows held out for the stagnation rule and the choice of the best network. The default of
        `itofit.fit` judges networks by evidence, which takes all rows.
    search_rows : int, optional
        With more rows than this, frequencies are searched on a random subset of this size and the final amplitudes
        solved on all rows; the default of `itofit.fit` takes that of the drift for both trainings. None: with gridded
        normal equations all rows for one or two inputs and 250,000 for three,
        with direct ones 100 for every feature, at least 25,000.
    normal_equations : {"direct", "gridded"}, optional
        How sums over the data are made: row by row, or from moments of the data at a cost that does not depend on
        the number of rows, for up to three inputs. None: whichever costs less. A gridded training whose frequencies
        grow beyond what is worth the moments starts again as a direct one.

    Examples
    --------
    >>> import itofit
    >>> itofit.ARFF(n_features=128, ridge=2e-3, delta=0.1).n_features
    128
    """

    n_features: int | None = None
    ridge: float | None = None
    delta: float | None = None
    gamma: float | None = None
    resample: bool = True
    pairing: Pairing | None = None
    min_iterations: int | None = None
    max_iterations: int | None = None
    validation_fraction: float = 0.1
    search_rows: int | None = None
    normal_equations: Form | None = None

    def __post_init__(self) -> None:
        for name, least in (("n_features", 1), ("min_iterations", 0), ("max_iterations", 0), ("search_rows", 20)):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), least=least)
        for name in ("ridge", "delta", "gamma"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name), zero=True)
        if None not in (self.min_iterations, self.max_iterations) and self.min_iterations > self.max_iterations:  # type: ignore[operator]
            raise InputError(
                f"min_iterations must not exceed max_iterations, got {self.min_iterations} and {self.max_iterations}"
            )
        fraction("validation_fraction", self.validation_fraction)
        flag("resample", self.resample)
        if self.pairing is not None:
            one_of("pairing", self.pairing, get_args(Pairing))
        if self.normal_equations is not None:
            one_of("normal_equations", self.normal_equations, get_args(Form))

    def resolve(self, n_rows: int, n_inputs: int, n_outputs: int = 1) -> Settings:
        """These parameters with every `None` replaced by a choice for so many rows, inputs and outputs."""

        def first(value: int | None, default: int) -> int:
            return default if value is None else int(value)

        K = first(self.n_features, min(128, max(8, n_rows // 20)))
        least = first(self.min_iterations, 20 if self.max_iterations is None else min(20, self.max_iterations))
        ridge = 2e-3 if self.ridge is None else float(self.ridge)
        all_or_given = first(self.search_rows, n_rows)
        form = self.normal_equations or cheaper_form(min(all_or_given, n_rows), K, n_inputs, n_outputs, ridge)
        if form == "gridded" and n_inputs > MOST_INPUTS:
            raise InputError(
                f"normal_equations='gridded' serves up to {MOST_INPUTS} inputs, the data have {n_inputs}; "
                "use 'direct' or None"
            )
        if form == "gridded" and ridge < LEAST_RIDGE:
            raise InputError(
                f"normal_equations='gridded' needs a ridge of at least {LEAST_RIDGE:g}, got {ridge:g}: below, "
                "amplitudes depend on digits that it does not have; use 'direct' or None"
            )
        return Settings(
            n_features=K,
            ridge=ridge,
            delta=0.3 if self.delta is None else float(self.delta),
            gamma=1.0 if self.gamma is None else float(self.gamma),
            resample=self.resample,
            pairing="printed" if self.pairing is None else self.pairing,
            min_iterations=least,
            max_iterations=first(self.max_iterations, max(300, 2 * least)),
            validation_fraction=float(self.validation_fraction),
            search_rows=first(self.search_rows, _rows_to_search(form, n_rows, n_inputs, K)),
            normal_equations=form,
        )


def _rows_to_search(form: Form, n_rows: int, n_inputs: int, K: int) -> int:
    if form == "direct":
        return max(SEARCH_ROWS_LEAST, SEARCH_ROWS_PER_FEATURE * K)
    return n_rows if n_inputs < MOST_INPUTS else SEARCH_ROWS_THREE_INPUTS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of one training, every one chosen; the fields are those of `ARFF`."""

    n_features: int
    ridge: float
    delta: float
    gamma: float
    resample: bool
    pairing: Pairing
    min_iterations: int
    max_iterations: int
    validation_fraction: float
    search_rows: int
    normal_equations: Form


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


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """How a training went.

    Parameters
    ----------
    validation_error : array of shape (M + 1,)
        Mean squared error on the held-out rows, in scaled units; entry 0 is the start, at zero frequencies.
    acceptance : array of shape (M,)
        Share of the proposed frequencies that each iteration accepted.
    seconds : array of shape (M,)
        Duration of each iteration.
    stopped : {"stagnation", "max_iterations"}
        What ended training.
    """

    validation_error: Float
    acceptance: Float
    seconds: Float
    stopped: Stop

    @property
    def n_iterations(self) -> int:
        """M, the number of iterations made."""
        return len(self.acceptance)

    @property
    def best_iteration(self) -> int:
        """The iteration whose network was returned; 0 is the start."""
        return int(np.argmin(self.validation_error))

    def __repr__(self) -> str:
        return (
            f"History({self.n_iterations} iterations in {self.seconds.sum():.2f} s, stopped by {self.stopped}, "
            f"best validation error {self.validation_error.min():.4g} at iteration {self.best_iteration})"
        )


def train(
    rng: np.random.Generator,
    problem: Problem,
    settings: Settings,
    on_iteration: Callable[[int, Info], None] = lambda iteration, info: None,
) -> tuple[State, History]:
    """Algorithm 1: search frequencies until the validation error stagnates; the best network found, and its history.

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
    history = History(
        validation_error=np.array(errors),
        acceptance=np.array([info.acceptance for info in infos]),
        seconds=np.array([info.seconds for info in infos]),
        stopped=stopped,
    )
    return best, history


def start(problem: Problem, settings: Settings) -> State:
    """All frequencies zero, with the amplitudes that belong to them."""
    omega = np.zeros((settings.n_features, problem.train.n_inputs))
    return State(omega, problem.train.solve(omega, settings.ridge))


def step(rng: np.random.Generator, state: State, problem: Problem, settings: Settings) -> tuple[State, Info]:
    """One iteration of Algorithm 1's outer loop."""
    began = time.perf_counter()
    if settings.resample:
        state = resampled(rng, state, problem, settings)
    omega, beta = state

    # random walk Metropolis proposal
    proposal = omega + settings.delta * rng.standard_normal(omega.shape)
    proposal_beta = problem.train.solve(proposal, settings.ridge)

    # Metropolis test; written as a product, so that an amplitude of zero always gives way
    r = rng.random(len(omega))
    accepted = magnitude(proposal_beta) > r * magnitude(beta) ** settings.gamma
    omega = np.where(accepted[:, None], proposal, omega)

    beta = problem.train.solve(omega, settings.ridge)
    error = problem.validation.mse(omega, beta)
    return State(omega, beta), Info(error, float(accepted.mean()), time.perf_counter() - began)


def resampled(rng: np.random.Generator, state: State, problem: Problem, settings: Settings) -> State:
    """The frequencies drawn again with probabilities |β̂_k| / Σ|β̂_k|, and the amplitudes to compare proposals with."""
    omega, beta = state
    j = draw(rng, magnitude(beta))
    omega = omega[j]
    if settings.pairing == "reindex":
        beta = beta[j]
    elif settings.pairing == "solve":
        beta = problem.train.solve(omega, settings.ridge)
    return State(omega, beta)


def draw(rng: np.random.Generator, weights: Float) -> Int:
    """As many independent indices as there are weights, with probabilities in proportion to them."""
    cumulative = np.cumsum(weights)
    if not cumulative[-1] > 0:  # targets that are all zero
        cumulative = np.arange(1.0, len(weights) + 1)
    j = np.searchsorted(cumulative, rng.random(len(weights)) * cumulative[-1], side="right")
    return np.minimum(j, len(weights) - 1)


def magnitude(beta: Complex) -> Float:
    """|β̂_k|: the Euclidean norm over the outputs, shape (K,)."""
    return np.asarray(np.linalg.norm(beta, axis=1))


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
