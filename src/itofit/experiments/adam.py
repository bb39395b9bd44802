"""Adam on the Euler-Maruyama likelihood, the baseline of the paper, and its continuation of a learned SDE.

An epoch is one compiled function (`itofit.experiments.compiled`), a scan over shuffled batches. JAX and optax are
imported when training starts; they compute in double precision, whatever JAX is set to elsewhere in the program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, get_args

import numpy as np

from itofit._checks import RNG, Float, InputError, count, generator, one_of, positive
from itofit.data.transitions import Transitions
from itofit.experiments.compiled import Programs, compile_programs
from itofit.experiments.networks import (
    SMALL,
    Architecture,
    Network,
    NetworkSDE,
    Scaling,
    check_dimensions,
    covariance_network,
    hidden_layers,
    new_frequencies,
    new_network,
    series_network,
    unit_bias,
)
from itofit.learning.paper.arff import stagnates
from itofit.matrices.symmetric import Structure
from itofit.model.learned import LearnedSDE


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Settings of a training by Adam.

    Parameters
    ----------
    batch_size : int
        Transitions of a step; the last of an epoch has what is left.
    n_features : int
        K, of each of the two Fourier layers; a learned SDE to start from brings its own.
    hidden : tuple of int
        Sizes of hidden ReLU layers: instead of the Fourier layer for "relu"; for "fourier" on top of it, as an
        additional branch that starts at zero.
    architecture : {"fourier", "relu"}
    epochs : int
    learning_rate : float
    seconds : float, optional
        No epoch is started after so much time in training.
    spread : float
        Of the frequencies at the start: 1 for smooth functions, 5 or 10 for those with details (experiments 6 and 7);
        see `networks.new_frequencies`.
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
    """What a training by Adam found, and its course. Epoch 0 is the start.

    Parameters
    ----------
    network : NetworkSDE
        As it was after `best_epoch`.
    losses : array of shape (epochs + 1,)
        Mean validation loss after each epoch; shorter if training ended early.
    seconds : array of shape (epochs + 1,)
        Time spent in training until then, without compilation and without the validation losses.
    compile_seconds : float
    stagnated_at : int
        The epoch at which the moving average of five losses had failed to decrease five times in a row; the last
        epoch, if that never happened.
    best_epoch : int
        That of the lowest loss up to there.
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
        """Training time until `network` was found."""
        return float(self.seconds[self.best_epoch])

    @property
    def lowest_epoch(self) -> int:
        """The epoch of the lowest loss of all, also after stagnation."""
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
        Of σ: standard deviations, or a lower triangular factor.
    rng : int, Generator or None
        Draws the initial weights and the batches.
    start : LearnedSDE, optional
        Continue from it: its drift exactly; its covariance as closely as a Fourier layer of the same frequencies for
        the factor can. Both layers are then trained.
    progress : callable, optional
        Called with the number of epochs done and of all.

    Returns
    -------
    AdamRun
    """
    jax, optax = _import_jax()
    _check(train, validation, settings, structure, start)
    random, _ = generator(rng)
    scaling = Scaling.of(train, structure)
    networks = start_networks(random, train, scaling, settings, structure, start)
    outside = jax.config.jax_enable_x64
    if progress is not None:
        progress = jax.enable_x64(outside)(progress)  # the caller's code keeps the caller's precision
    with jax.enable_x64():
        programs = compile_programs(
            jax, optax, networks, scaling, structure, settings.batch_size, settings.learning_rate, train, validation
        )
        course = _train(jax, programs, settings, random, progress)
        found = {name: {key: np.array(a) for key, a in part.items()} for name, part in course.best.items()}
    network = NetworkSDE(
        drift_network=found["drift"],
        diffusion_network=found["diffusion"],
        scaling=scaling,
        structure=structure,
        kind=train.kind,
    )
    return AdamRun(network=network, compile_seconds=programs.compile_seconds, **course.record)


def _import_jax() -> tuple[ModuleType, ModuleType]:
    try:
        import jax  # noqa: PLC0415
        import optax  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('the Adam baselines need JAX and optax: pip install "itofit[adam]"') from error
    return jax, optax


def _check(train: object, validation: object, settings: object, structure: object, start: LearnedSDE | None) -> None:
    """Raise on anything that cannot be trained."""
    if not isinstance(train, Transitions):
        raise InputError(f"train must be Transitions in memory, got {type(train).__name__}")
    m, d = train.n_inputs, train.n_outputs
    check_dimensions("validation", validation, m, d)
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
    scaling: Scaling,
    settings: Adam,
    structure: Structure,
    start: LearnedSDE | None,
) -> dict[str, Network]:
    """The networks `drift` and `diffusion` before training."""
    m, d = train.n_inputs, train.n_outputs
    bias = unit_bias(structure, d)
    if start is None:
        if settings.architecture == "relu":
            return {
                "drift": new_network(rng, None, m, np.zeros(d), settings.hidden, None),
                "diffusion": new_network(rng, None, m, bias, settings.hidden, SMALL),
            }
        omega = new_frequencies(rng, 2 * settings.n_features, m, settings.spread).reshape(2, -1, m)
        return {
            "drift": new_network(rng, omega[0], m, np.zeros(d), settings.hidden, SMALL),
            "diffusion": new_network(rng, omega[1], m, bias, settings.hidden, SMALL),
        }
    networks = {
        "drift": series_network(start.drift_series, scaling),
        "diffusion": covariance_network(start, scaling, structure, train.inputs),
    }
    for network in networks.values() if settings.hidden else ():
        network.update(hidden_layers(rng, 2 * len(network["omega"]), settings.hidden))
        network["out"] = np.zeros((settings.hidden[-1], len(network["bias"])))
    return networks


# The loop


class _Course(NamedTuple):
    best: dict[str, Network]
    record: dict[str, Any]  # fields of AdamRun


def _train(
    jax: ModuleType,
    programs: Programs,
    settings: Adam,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> _Course:
    """All epochs; the parameters kept are the best before stagnation, the losses those of all."""
    parameters, state = programs.parameters, programs.state
    losses, seconds = [float(programs.loss(parameters))], [0.0]
    best, best_epoch, stagnated_at, diverged = np.array(parameters), 0, None, False
    for epoch in range(1, settings.epochs + 1):
        if settings.seconds is not None and seconds[-1] >= settings.seconds:
            break
        began = time.perf_counter()
        # NumPy's permutation, because XLA's sorts random numbers: at 900,000 rows that took half of the epoch
        order = rng.permutation(len(programs.rows))
        parameters, state = jax.block_until_ready(programs.epoch(parameters, state, programs.rows, order))
        took = time.perf_counter() - began
        loss = float(programs.loss(parameters))
        if not np.isfinite(loss):
            diverged = True
            break
        losses.append(loss)
        seconds.append(seconds[-1] + took)
        if stagnated_at is None:
            if loss < losses[best_epoch]:
                best, best_epoch = np.array(parameters), epoch
            if stagnates(losses[1:]):
                stagnated_at = epoch
        if progress is not None:
            progress(epoch, settings.epochs)
    record = {
        "losses": np.array(losses),
        "seconds": np.array(seconds),
        "stagnated_at": len(losses) - 1 if stagnated_at is None else stagnated_at,
        "best_epoch": best_epoch,
        "diverged": diverged,
    }
    return _Course(programs.unravel(jax.numpy.asarray(best)), record)
