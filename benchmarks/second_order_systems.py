"""Systems with inertia for benchmarks: dx = v dt, dv = f(x, v) dt + σ dW, simulated in twenty steps per observation."""

from typing import NamedTuple

import numpy as np

SUBSTEPS = 20


class System(NamedTuple):
    """A force of arrays x, v (..., d), and the factor σ (d, d) of its noise."""

    force: object
    sigma: np.ndarray
    start: tuple


def van_der_pol(mu):
    return System(lambda x, v: mu * (1 - x**2) * v - x, np.eye(1), (1.0,))


def pendulum(x, v):
    """Friction is weakest where the pendulum stands on its head."""
    return -4 * np.sin(x) - (0.6 + 0.5 * np.cos(x)) * v


def trap(x, v):
    """A trap that stiffens, friction, and a force across the velocity."""
    across = np.stack([-v[..., 1], v[..., 0]], axis=-1)
    return -(1 + 0.5 * (x**2).sum(axis=-1, keepdims=True)) * x - 0.5 * v + 0.8 * across


PENDULUM = System(pendulum, 1.5 * np.eye(1), (0.5,))
TRAP = System(trap, np.array([[0.6, 0.0], [0.3, 0.5]]), (0.5, 0.0))


def tracks(rng, system, n_tracks, n_rows, h, warm_up=10.0):
    """States (n_tracks, n_rows, 2d) of independent tracks."""
    d, dt = len(system.start), h / SUBSTEPS
    x = np.tile(system.start, (n_tracks, 1)) + 0.1 * rng.standard_normal((n_tracks, d))
    v = np.zeros_like(x)
    states = np.empty((n_tracks, n_rows, 2 * d))
    for i in range(-int(warm_up / h), n_rows):
        for kick in np.sqrt(dt) * rng.standard_normal((SUBSTEPS, n_tracks, d)) @ system.sigma.T:
            before, v = v, v + dt * system.force(x, v) + kick
            x = x + 0.5 * dt * (before + v)  # with the old velocity alone, its noise would be 7 % too small
        if i >= 0:
            states[:, i, :d], states[:, i, d:] = x, v
    return states
