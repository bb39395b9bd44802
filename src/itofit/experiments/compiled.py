"""One epoch of Adam as one compiled function, and its parts.

All parameters are one vector, so that a step is a few dozen small operations without Python between them. JAX and optax
are handed in as arguments: nothing here imports them before training starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np

from itofit.data.transitions import Transitions
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import Array, Network, outputs, row_losses
from itofit.matrices.symmetric import Structure

BLOCK = 2048
"""Rows whose loss is evaluated at once."""


class Programs(NamedTuple):
    """Compiled functions and their first arguments; JAX arrays of double precision."""

    epoch: Callable[..., Array]  # parameters, state, rows, their order -> parameters, state
    loss: Callable[..., Array]  # parameters -> mean validation loss
    unravel: Callable[..., Array]  # parameters -> networks
    parameters: Array
    state: Array
    rows: Array
    compile_seconds: float


def compile_programs(
    jax: ModuleType,
    optax: ModuleType,
    networks: dict[str, Network],
    units: NetworkUnits,
    structure: Structure,
    *,
    batch_size: int,
    learning_rate: float,
    train: Transitions,
    validation: Transitions,
) -> Programs:
    """Compile one epoch and the validation loss ahead of time, for these data."""
    loss_sum, parameters, unravel = loss_function(jax, networks, train.n_inputs, structure)
    step, state = training_step(jax, optax, loss_sum, parameters, learning_rate)
    rows, held_out = jax.numpy.asarray(units.rows(train)), jax.numpy.asarray(units.rows(validation))
    constant = units.constant(validation)

    def epoch(parameters: Array, state: Array, rows: Array, order: Array) -> Array:
        return fold(jax, step, (parameters, state), rows[order], batch_size)

    def mean_loss(parameters: Array, rows: Array) -> Array:
        total = fold(jax, lambda sum_, block: sum_ + loss_sum(parameters, block), 0.0, rows, BLOCK)
        return constant + total / len(rows)

    began = time.perf_counter()
    order = np.arange(len(rows))
    compiled = jax.jit(epoch, donate_argnums=(0, 1)).lower(parameters, state, rows, order).compile()
    judge = jax.jit(mean_loss).lower(parameters, held_out).compile()
    return Programs(
        epoch=compiled,
        loss=lambda parameters: judge(parameters, held_out),
        unravel=unravel,
        parameters=parameters,
        state=state,
        rows=rows,
        compile_seconds=time.perf_counter() - began,
    )


def loss_function(
    jax: ModuleType, networks: dict[str, Network], m: int, structure: Structure
) -> tuple[Callable[[Array, Array], Array], Array, Callable[[Array], dict[str, Network]]]:
    """The summed loss of rows as a function of one vector of parameters, that vector, and the way back to networks."""
    from jax.flatten_util import ravel_pytree  # noqa: PLC0415

    parameters, unravel = ravel_pytree(networks)
    at = partial(outputs, xp=jax.numpy, features=_features(jax))

    def loss_sum(parameters: Array, rows: Array) -> Array:
        parts = unravel(parameters)
        u = rows[:, :m]
        g, T = at(parts["drift"], u), at(parts["diffusion"], u)
        return row_losses(g, T, rows, m, structure, xp=jax.numpy).sum()

    return loss_sum, parameters, unravel


def training_step(
    jax: ModuleType,
    optax: ModuleType,
    loss_sum: Callable[[Array, Array], Array],
    parameters: Array,
    learning_rate: float,
) -> tuple[Callable[[Array, Array], Array], Array]:
    """One step of Adam, from (parameters, state) and a batch to the next pair, and the state it starts from."""
    optimiser = optax.adam(learning_rate)

    def step(carry: Array, batch: Array) -> Array:
        parameters, state = carry
        gradient = jax.grad(loss_sum)(parameters, batch) / len(batch)
        updates, state = optimiser.update(gradient, state)
        return parameters + updates, state

    return step, optimiser.init(parameters)


def fold(jax: ModuleType, step: Callable[[Array, Array], Array], carry: Array, rows: Array, size: int) -> Array:
    """`step` through batches of `size` rows, the last one with what is left."""
    n = len(rows) // size * size
    if n:
        batches = rows[:n].reshape(-1, size, rows.shape[1])
        carry, _ = jax.lax.scan(lambda carry, batch: (step(carry, batch), None), carry, batches)
    return step(carry, rows[n:]) if n < len(rows) else carry


def _features(jax: ModuleType) -> Callable[[Array, Array], Array]:
    """The cosines and the sines of ω·u, whose derivatives reuse the sines and cosines."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def features(angle: Array) -> Array:
        return cosine_and_sine(jax.numpy, angle)

    def forward(angle: Array) -> Array:
        # Without the barrier they may be computed again wherever they are used
        pair = jax.lax.optimization_barrier(cosine_and_sine(jax.numpy, angle))
        return pair, pair

    def backward(pair: Array, gradients: Array) -> Array:
        return (gradients[1] * pair[0] - gradients[0] * pair[1],)

    features.defvjp(forward, backward)
    return lambda omega, u: features(u @ omega.T)


_PI = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21)
"""Three numbers whose sum is π; the first two are so short that their multiples are exact."""
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(12))
_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(11))


def cosine_and_sine(xp: ModuleType, angle: Array) -> tuple[Array, Array]:
    """Cosine and sine to 4e-16 for angles up to 10⁶: Taylor polynomials on ±π/2, after half turns are taken off.

    XLA's own functions, on a CPU, compute one number at a time: five sixths of a training step were spent in them.
    """
    turns = xp.round(angle * (1 / np.pi))
    r = angle
    for part in _PI:
        r = r - turns * part
    sign = 1 - 2 * (turns - 2 * xp.floor(0.5 * turns))
    z = r * r
    return sign * _polynomial(_COSINE, z), sign * r * _polynomial(_SINE, z)


def _polynomial(coefficients: tuple[float, ...], z: Array) -> Array:
    value: Array = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = coefficient + z * value
    return value
