"""Sample paths of a stochastic differential equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress

Outside = Literal["nearest", "extrapolate", "stop"]
Rates = Callable[[Float], tuple[Float, Float]]
"""Mean and a root of the covariance of a step, both per time: arrays of shape (n, s) to (n, d) and (n, d, d)."""


def gaussian_paths(
    rng: np.random.Generator,
    state: Float,
    dt: float,
    n_steps: int,
    *,
    rates: Rates,
    underdamped: bool,
    box: Float,
    outside: Outside,
    progress: Progress,
    mean_velocity: bool = False,
) -> tuple[Float, float]:
    """Paths whose steps are Gaussian, and the share of steps that were made outside a box.

    Parameters
    ----------
    rng : Generator
        Draws n_paths × d normals for each step.
    state : array of shape (n_paths, s)
        Where the paths start: s = d, or for an underdamped system s = 2d, positions before velocities.
    dt, n_steps
        Time step and number of steps.
    rates : callable
        Mean and root of the covariance of a step from inputs of shape (n_paths, s), per time.
    underdamped : bool
        Positions move first, with the old velocity; then the velocity, by the rates at the new position.
    box : array of shape (2, s)
        Range in which the rates are known.
    outside : {"nearest", "extrapolate", "stop"}
        Beyond it, take the rates at the nearest point of the box, or where the path is, or let it stay where it left.
    progress : Progress
    mean_velocity : bool
        Positions of an underdamped system end up moved by the mean of the old and the new velocity.

    Returns
    -------
    paths : array of shape (n_paths, n_steps + 1, s)
    share_outside : float
    """
    n_paths, s = state.shape
    d = s // 2 if underdamped else s
    paths = np.empty((n_paths, n_steps + 1, s))
    paths[:, 0] = state
    moving = np.ones((n_paths, 1), dtype=bool)
    n_outside = 0
    for i in range(n_steps):
        noise = np.sqrt(dt) * rng.standard_normal((n_paths, d, 1))
        state = state.copy()
        if underdamped:
            state[:, :d] += np.where(moving, dt * state[:, d:], 0.0)
        nearest = np.clip(state, box[0], box[1])
        left = (state != nearest).any(axis=1, keepdims=True)
        n_outside += int(left.sum())
        if outside == "stop":
            moving &= ~left
        mean, root = rates(state if outside == "extrapolate" else nearest)
        move = np.where(moving, dt * mean + (root @ noise)[:, :, 0], 0.0)
        state[:, -d:] += move
        if underdamped and mean_velocity:
            state[:, :d] += 0.5 * dt * move
        paths[:, i + 1] = state
        progress.show("simulating", f"step {i + 1} of {n_steps}")
    return paths, n_outside / (n_paths * n_steps)


def euler_maruyama(
    rng: np.random.Generator,
    state: Float,
    dt: float,
    n_steps: int,
    *,
    drift: Callable[[Float], Float],
    diffusion: Callable[[Float], Float],
    underdamped: bool,
    box: Float,
    outside: Outside,
    progress: Progress,
) -> tuple[Float, float]:
    """`gaussian_paths` whose rates are f and σ where a step starts."""
    return gaussian_paths(
        rng,
        state,
        dt,
        n_steps,
        rates=lambda at: (drift(at), diffusion(at)),
        underdamped=underdamped,
        box=box,
        outside=outside,
        progress=progress,
    )
