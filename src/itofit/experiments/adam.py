"""Adam on the Euler-Maruyama likelihood, the baseline of the paper, and its continuation of a learned SDE.

An epoch is one compiled function (`itofit.experiments.compiled`), a scan over shuffled batches. JAX and optax are
imported when training starts; they compute in double precision, and the precision of JAX elsewhere does not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple, get_args

import numpy as np

from itofit._checks import RNG, Float, InputError, count, generator, one_of, positive
from itofit.data.transitions import Transitions
from itofit.experiments.compiled import Programs, compile_programs
from itofit.experiments.network_sde import NetworkSDE
from itofit.experiments.network_starts import learned_networks, random_networks
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import Architecture, Network
from itofit.learning.paper.arff import stagnates
from itofit.matrices.symmetric import Structure
from itofit.model.learned import LearnedSDE


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Settings of a training by Adam.

    Parameters
    ----------
    batch_size : int
        Number of transitions in a step; the last step of an epoch takes the rest.
    n_features : int
        K, of each of the two Fourier layers; a learned SDE to start from brings its own.
    hidden : tuple of int
        Sizes of hidden ReLU layers. With "relu" they replace the Fourier layer; with "fourier" they stand on top of it,
        as an additional branch that starts at zero.
    architecture : {"fourier", "relu"}
    epochs : int
    learning_rate : float
    seconds : float, optional
        No epoch starts after this much time in training.
    spread : float
        Standard deviation of the frequencies at the start: 1 for smooth functions, 5 or 10 for those with details
        (experiments 6 and 7); see `network_starts.new_frequencies`.
    """

    batch_size: int
    n_features: int = 128
    hidden: tuple[int, ...] = ()
    architecture: Architecture = "fourier"
    epochs: int = 200
    learning_rate: float = 1e-3
    seconds: float | None = None
    spread: float = 1.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "n_features", "epochs"):
            count(name, getattr(self, name))
        one_of("architecture", self.architecture, get_args(Architecture))
        positive("learning_rate", self.learning_rate)
        positive("spread", self.spread)
        if self.seconds is not None:
            positive("seconds", self.seconds)
        if not isinstance(self.hidden, tuple):
            raise InputError(f"hidden must be a tuple of layer sizes such as (64, 64), got {self.hidden!r}")
        for size in self.hidden:
            count("hidden", size)
        if self.architecture == "relu" and not self.hidden:
            raise InputError("hidden must name at least one layer for architecture='relu', got (); try (64, 64)")


@dataclass(frozen=True, kw_only=True, eq=False)
class AdamRun:
    """The trained networks and the course of their training by Adam. Epoch 0 is the start.

    Parameters
    ----------
    network : NetworkSDE
        The networks after `best_epoch`.
    losses : array of shape (epochs + 1,)
        Mean validation loss after each epoch; shorter if training ended early.
    seconds : array of shape (epochs + 1,)
        Training time up to each epoch, without compilation and without the validation losses.
    compile_seconds : float
    stagnated_at : int
        The epoch at which the moving average of five losses had failed to decrease five times in a row; the last
        epoch if that never happened.
    best_epoch : int
        The epoch with the lowest loss up to `stagnated_at`.
    diverged : bool
        Whether training ended because a loss was not finite; that loss is left out.
    """

    network: NetworkSDE
    losses: Float
    seconds: Float
    compile_seconds: float
    stagnated_at: int
    best_epoch: int
    diverged: bool

    @property
    def best_loss(self) -> float:
        """Validation loss of `network`."""
        return float(self.losses[self.best_epoch])

    @property
    def seconds_to_best(self) -> float:
        """Training time up to `best_epoch`."""
        return float(self.seconds[self.best_epoch])

    @property
    def lowest_epoch(self) -> int:
        """The epoch with the lowest loss of all, also after stagnation."""
        return int(np.argmin(self.losses))

    @property
    def lowest_loss(self) -> float:
        """The lowest loss of all."""
        return float(self.losses[self.lowest_epoch])


def train_adam(
    train: Transitions,
    validation: Transitions,
    settings: Adam,
    *,
    structure: Structure,
    rng: RNG = None,
    start: LearnedSDE | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AdamRun:
    """Train two networks, for drift and diffusion, together on the Euler-Maruyama likelihood by Adam.

    Parameters
    ----------
    train, validation : Transitions
    settings : Adam
    structure : {"diagonal", "full"}
        Whether σ holds standard deviations, or is a lower triangular factor.
    rng : int, Generator or None
        Draws the initial weights and the batches.
    start : LearnedSDE, optional
        Continue from it: its drift exactly; its covariance as closely as a Fourier layer of the same frequencies for
        the factor can. Both layers are then trained.
    progress : callable, optional
        progress(done, of) is called after each epoch.

    Returns
    -------
    AdamRun
    """
    jax, optax = _import_jax()
    _check(train, validation, settings, structure, start)
    random, _ = generator(rng)
    units = NetworkUnits.of(train, structure)
    networks = start_networks(random, train, units, settings, structure, start)
    precision_of_caller = jax.config.jax_enable_x64
    if progress is not None:
        progress = jax.enable_x64(precision_of_caller)(progress)
    with jax.enable_x64():
        programs = compile_programs(
            jax,
            optax,
            networks,
            units,
            structure,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            train=train,
            validation=validation,
        )
        course = _train(jax, programs, settings, random, progress)
        best = {name: {key: np.array(a) for key, a in part.items()} for name, part in course.best.items()}
    network = NetworkSDE(
        drift_network=best["drift"],
        diffusion_network=best["diffusion"],
        scales=units,
        structure=structure,
        kind=train.kind,
    )
    return AdamRun(
        network=network,
        losses=course.losses,
        seconds=course.seconds,
        compile_seconds=programs.compile_seconds,
        stagnated_at=course.stagnated_at,
        best_epoch=course.best_epoch,
        diverged=course.diverged,
    )


def _import_jax() -> tuple[ModuleType, ModuleType]:
    try:
        import jax  # noqa: PLC0415
        import optax  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('the Adam baselines need JAX and optax: pip install "itofit[adam]"') from error
    return jax, optax


def _check(train: object, validation: object, settings: object, structure: object, start: LearnedSDE | None) -> None:
    """Raise unless these can be trained."""
    if not isinstance(train, Transitions):
        raise InputError(f"train must be Transitions in memory, got {type(train).__name__}")
    m, d = train.n_inputs, train.n_outputs
    if not isinstance(validation, Transitions):
        raise InputError(f"validation must be Transitions in memory, got {type(validation).__name__}")
    if (validation.n_inputs, validation.n_outputs) != (m, d):
        raise InputError(
            f"validation must have {m} inputs and {d} outputs like train, "
            f"got {validation.n_inputs} and {validation.n_outputs}"
        )
    if not isinstance(settings, Adam):
        raise InputError(f"settings must be an Adam, got {type(settings).__name__}")
    one_of("structure", structure, get_args(Structure))
    if start is None:
        return
    if not isinstance(start, LearnedSDE):
        raise InputError(f"start must be a LearnedSDE, got {type(start).__name__}")
    if (start.n_inputs, start.n_outputs) != (m, d):
        raise InputError(
            f"start must have {m} inputs and {d} outputs like the data, got {start.n_inputs} and {start.n_outputs}"
        )
    if settings.architecture != "fourier":
        raise InputError(f"start needs architecture='fourier', got {settings.architecture!r}")
    if start.structure == "full" and structure == "diagonal" and d > 1:
        raise InputError("start has a full covariance, which structure='diagonal' cannot hold; use structure='full'")
    if start.drift_in_noise_units:
        raise InputError("start has a drift in units of the noise, which is no series; fit without weight_drift")


def start_networks(
    rng: np.random.Generator,
    train: Transitions,
    units: NetworkUnits,
    settings: Adam,
    structure: Structure,
    start: LearnedSDE | None,
) -> dict[str, Network]:
    """The networks `drift` and `diffusion` before training: those of a learned equation, or random ones."""
    if start is not None:
        return learned_networks(rng, start, units, structure, train.inputs, settings.hidden)
    return random_networks(
        rng,
        train.n_inputs,
        train.n_outputs,
        structure,
        n_features=settings.n_features,
        hidden=settings.hidden,
        architecture=settings.architecture,
        spread=settings.spread,
    )


# The loop


class _Course(NamedTuple):
    """How a training went; the fields are those of `AdamRun`."""

    best: dict[str, Network]  # the networks after `best_epoch`
    losses: Float
    seconds: Float
    stagnated_at: int
    best_epoch: int
    diverged: bool


def _train(
    jax: ModuleType,
    programs: Programs,
    settings: Adam,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> _Course:
    """Train for all epochs; returns the best parameters before stagnation, and the losses of all epochs."""
    parameters, state = programs.parameters, programs.state
    losses, seconds = [float(programs.loss(parameters))], [0.0]
    best, best_epoch, stagnated_at, diverged = np.array(parameters), 0, None, False
    for epoch in range(1, settings.epochs + 1):
        if settings.seconds is not None and seconds[-1] >= settings.seconds:
            break
        began = time.perf_counter()
        # NumPy's permutation, because XLA sorts random numbers, half of the time of an epoch of 900,000 rows
        order = rng.permutation(len(programs.rows))
        parameters, state = jax.block_until_ready(programs.epoch(parameters, state, programs.rows, order))
        seconds_of_epoch = time.perf_counter() - began
        loss = float(programs.loss(parameters))
        if not np.isfinite(loss):
            diverged = True
            break
        losses.append(loss)
        seconds.append(seconds[-1] + seconds_of_epoch)
        if stagnated_at is None:
            if loss < losses[best_epoch]:
                best, best_epoch = np.array(parameters), epoch
            if stagnates(losses[1:]):
                stagnated_at = epoch
        if progress is not None:
            progress(epoch, settings.epochs)
    return _Course(
        best=programs.unravel(jax.numpy.asarray(best)),
        losses=np.array(losses),
        seconds=np.array(seconds),
        stagnated_at=len(losses) - 1 if stagnated_at is None else stagnated_at,
        best_epoch=best_epoch,
        diverged=diverged,
    )
