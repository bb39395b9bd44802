"""Sample paths of a stochastic differential equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress

Outside = Literal["nearest", "extrapolate", "stop"]


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
    """Paths by Euler-Maruyama steps, and the share of steps that were made outside a box.

    Parameters
    ----------
    rng : Generator
        Draws n_paths × d normals for each step.
    state : array of shape (n_paths, s)
        Where the paths start: s = d, or for an underdamped system s = 2d, positions before velocities.
    dt, n_steps
        Time step and number of steps.
    drift, diffusion : callables
        f and σ: arrays of shape (n_paths, s) to (n_paths, d) and (n_paths, d, d).
    underdamped : bool
        Positions move first, with the old velocity; then f and σ, at the new position, move the velocity.
    box : array of shape (2, s)
        Range in which f and σ are known.
    outside : {"nearest", "extrapolate", "stop"}
        Beyond it, take f and σ at the nearest point of the box, or where the path is, or let it stay where it left.
    progress : Progress

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
        at = state if outside == "extrapolate" else nearest
        state[:, -d:] += np.where(moving, dt * drift(at) + (diffusion(at) @ noise)[:, :, 0], 0.0)
        paths[:, i + 1] = state
        progress.show("simulating", f"step {i + 1} of {n_steps}")
    return paths, n_outside / (n_paths * n_steps)
