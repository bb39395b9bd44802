"""Sample paths of a stochastic differential equation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from itofit._checks import Either, ExtrapolationWarning, Float, InputError, user_level
from itofit._progress import Progress
from itofit.data.periods import wrapped
from itofit.model.training import DataSummary

Outside = Literal["nearest", "extrapolate", "stop"]
LONGEST = 1e100
"""Steps that can be squared are shorter."""
LONG_STEP = 5.0
"""In units of the mean step of the data: with longer ones a simulation is not of what was learned."""
Rates = Callable[[Float], tuple[Float, Float]]
"""Mean and a root of the covariance of a step, both per time: arrays of shape (n, s) to (n, d) and (n, d, d)."""


class Steps(NamedTuple):
    """How paths move."""

    rates: Rates  # mean and root of the covariance of a step, per time
    box: Float  # (2, m): range in which the rates are known, without ends where inputs are periodic
    outside: Outside  # beyond it: rates at the nearest point of the box, or where the path is, or it stays there
    underdamped: bool  # positions move first, with the old velocity; then the velocity, by the rates there
    force: Callable[[Float], Float] | None = None  # f, if positions move by the mean velocity of the step
    covariates: Callable[[int], Float] | None = None  # number of a step to (n, m − s), the last of the inputs
    periods: Float | None = None  # (2, s): of the state


def gaussian_paths(
    rng: np.random.Generator, state: Float, dt: float, n_steps: int, steps: Steps, progress: Progress
) -> tuple[Float, float]:
    """Paths whose steps are Gaussian, and the share of steps that were made outside the box.

    Parameters
    ----------
    rng : Generator
        Draws n_paths × d normals for each step.
    state : array of shape (n_paths, s)
        Where the paths start: s = d, or for an underdamped system s = 2d, positions before velocities.
    dt, n_steps
        Time step and number of steps.
    steps : Steps
    progress : Progress

    Returns
    -------
    paths : array of shape (n_paths, n_steps + 1, s)
    share_outside : float
    """
    rates, box, outside, underdamped, force, covariates, periods = steps
    n_paths, s = state.shape
    d = s // 2 if underdamped else s
    paths = np.empty((n_paths, n_steps + 1, s))
    paths[:, 0] = state
    moving = np.ones((n_paths, 1), dtype=bool)
    n_outside = 0
    for i in range(n_steps):
        noise = np.sqrt(dt) * rng.standard_normal((n_paths, d, 1))
        state = state.copy()
        held = None if covariates is None else covariates(i)
        if underdamped:
            velocity = state[:, d:].copy()
            if force is not None:
                velocity += 0.5 * dt * force(_a_third_on(state, held, dt, box, outside))
            state[:, :d] += np.where(moving, dt * velocity, 0.0)
        at = _with(state, held)
        nearest = np.clip(at, box[0], box[1])
        left = (at != nearest).any(axis=1, keepdims=True)
        n_outside += int(left.sum())
        if outside == "stop":
            moving &= ~left
        mean, root = rates(at if outside == "extrapolate" else nearest)
        kick = (root @ noise)[:, :, 0]
        state[:, -d:] += np.where(moving, dt * mean + kick, 0.0)
        if force is not None:
            state[:, :d] += np.where(moving, 0.5 * dt * kick, 0.0)
        if periods is not None:
            state = wrapped(state, periods)
        paths[:, i + 1] = state
        progress.show("simulating", f"step {i + 1:,} of {n_steps:,}", (i + 1) / n_steps)
    return paths, n_outside / (n_paths * n_steps)


def _with(state: Float, held: Float | None) -> Float:
    """The inputs: the state, and covariates if there are any."""
    return state if held is None else np.concatenate([state, held], axis=1)


def _a_third_on(state: Float, held: Float | None, dt: float, box: Float, outside: Outside) -> Float:
    """Where ∫ (dt − t) f dt = ½ dt² f, up to third order: positions a third of a step later."""
    d = state.shape[1] // 2
    at = _with(np.concatenate([state[:, :d] + dt / 3 * state[:, d:], state[:, d:]], axis=1), held)
    return at if outside == "extrapolate" else np.clip(at, box[0], box[1])


def warn_of_extrapolation(data: DataSummary | None, dt: float, share_outside: float, outside: Outside) -> None:
    """Warn, in the name of the user, of steps outside the range of the data, or far longer than theirs.

    Parameters
    ----------
    data : DataSummary or None
        What an equation was learned from, if it was.
    dt : float
    share_outside : float
        Share of the steps that were outside the range.
    outside : {"nearest", "extrapolate", "stop"}
    """
    if share_outside and outside != "stop":
        warnings.warn(outside_text(share_outside, outside), ExtrapolationWarning, stacklevel=user_level())
    if data is not None and dt > LONG_STEP * data.h_mean:
        text = (
            f"dt = {dt:.3g} is {dt / data.h_mean:.3g} times the mean step of the data: in so long a step drift and "
            f"noise change in ways that were not observed; take dt = {data.h_mean:.3g} or less, and more steps"
        )
        warnings.warn(text, ExtrapolationWarning, stacklevel=user_level())


def outside_text(share: float, outside: Outside) -> str:
    """What a warning says of a share of the steps that were outside the range of the data."""
    shown = f"{share:.2%}" if share >= 1e-4 else "Less than 0.01%"
    used = "those of the nearest point in it" if outside == "nearest" else "values extrapolated from it"
    return (
        f"{shown} of the steps were outside the range of the data, where nothing is known of drift and covariance: "
        f"{used} were used"
    )


def not_simulated() -> InputError:
    """The error for an equation whose inputs do not follow from what moves."""
    return InputError(
        "this model was learned from transitions of kind 'general', whose inputs do not follow from the state that "
        "moves; {advice}",
        advice=Either(
            python="build the data with from_pairs, from_trajectories or from_underdamped, or use drift and diffusion "
            "in your own scheme",
            command="learn it from a table of tracks, or from arrays x0 and x1",
        ),
    )
