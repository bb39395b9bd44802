"""The linear force of largest likelihood, with its noise and the errors of measurement: exact for linear systems.

Learning goes from here upwards. From difference quotients alone it may end far away, as noise that is taken for an
error of measurement makes room for more of the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.data.following import follows
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions
from itofit.learning.second_order.difference_quotients import LinearStart, Terms, at_least
from itofit.matrices.symmetric import with_eigenvalues
from itofit.model.hidden.gaussian_step import GaussianStep, with_held
from itofit.model.hidden.sensitivities import Normal, error_directions, of_drift, of_noise
from itofit.model.hidden.tracking import Prior, filtered
from itofit.model.hidden.windows import chunks, cut, second_order_window_lengths

MOST_ROUNDS = 12
"""Of scoring."""
SETTLED_GAIN = 0.1
"""Of the log-likelihood: rounds that gain less end it."""
SHARES = (1.0, 0.5, 0.2, 0.05)
"""Of a step, that are tried until one gains."""
MOST_ROWS = 20_000
"""Rows that a linear force is learned from, in windows spread over the data: it is a start."""
LARGEST_STEP = 0.5
"""Relative change of Σ in a round, in any direction."""
LEAST_ERROR = 1e-6
"""Variance of errors of measurement, relative to that which noise gives to the position within a step: none."""
LARGEST_CHANGE, MOST_PARTS = 0.35, 6
"""Of a force within one part of a step, relative to itself, and the parts of a step at most."""
BOUND = 1.5
"""Half of the range of states, relative to the data's, in which a linear force is linear."""


@dataclass(frozen=True, kw_only=True)
class LinearForce:
    """f = intercept + slopes (x, v, u), Σ and Λ, with the prior of velocities where a track starts."""

    terms: Terms
    intercept: Float  # (d,)
    slopes: Float  # (d, b)
    sigma: Float  # (d, d)
    noise: Float  # (d, d)
    prior: Prior
    box: Float  # (2, 2d + k)
    h: float  # a typical step

    @property
    def step(self) -> GaussianStep:
        """One step of the state (x, v)."""

        def functions(s: Float) -> tuple[Float, Float]:
            d = len(self.sigma)
            return self.intercept + self.terms.at(s) @ self.slopes.T, np.broadcast_to(self.sigma, (len(s), d, d))

        return GaussianStep(
            functions, self.box, np.diagonal(self.sigma), second_order=True, substeps=parts_of_step(self.h * self.rate)
        )

    @property
    def rate(self) -> float:
        """How fast the force makes the state change: the larger of ‖∂f/∂v‖ and ‖∂f/∂x‖^½."""
        return self.terms.rate(self.slopes)

    @property
    def lengths(self) -> tuple[int, int]:
        """Overlap and kept steps of windows."""
        return second_order_window_lengths(self.sigma, self.noise, self.h)


def parts_of_step(change: float) -> int:
    """The parts that a step is made of in which the force changes by so much, relative to itself."""
    return int(np.clip(np.ceil(change / LARGEST_CHANGE), 1, MOST_PARTS)) if np.isfinite(change) else 1


class _Sums(NamedTuple):
    """−log p and normal equations of a linear force."""

    loss: float
    force: Normal
    noise: Normal

    def plus(self, other: _Sums) -> _Sums:
        """Those of more windows."""
        return _Sums(self.loss + other.loss, self.force.plus(other.force), self.noise.plus(other.noise))


def best_linear_force(
    data: Transitions, start: LinearStart, prior: Prior, box: Float, known: Float | None = None
) -> LinearForce:
    """By Fisher scoring on the innovations, from a start.

    Parameters
    ----------
    data : Transitions
        Moves of positions.
    start : LinearStart
    prior : Prior
        Of velocities where a track starts.
    box : array of shape (2, 2d + k)
        Range of states and covariates, beyond which the force no longer grows.
    known : array of shape (d, d), optional
        Λ, if it is known.
    """
    middle, half, terms = box.mean(axis=0), 0.5 * BOUND * (box[1] - box[0]), Terms.of(data)
    half[np.flatnonzero(is_periodic(terms.periods))] = np.inf
    model = LinearForce(
        terms=terms,
        intercept=start.intercept,
        slopes=start.slopes,
        sigma=start.sigma,
        noise=start.noise if known is None else known,
        prior=prior,
        box=np.array([middle - half, middle + half]),
        h=float(np.median(data.h)),
    )
    with one_blas_thread, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sums = _sums(data, model)
        if not np.isfinite(sums.loss):
            model = replace(model, intercept=0 * model.intercept, slopes=0 * model.slopes)
            sums = _sums(data, model)
        for _ in range(MOST_ROUNDS):
            for share in SHARES:
                trial = _moved(model, sums, share, known=known is not None)
                new = _sums(data, trial)
                if new.loss < sums.loss:  # false for what is not a number
                    break
            else:
                break
            gain, model, sums = sums.loss - new.loss, trial, new
            if gain < SETTLED_GAIN:
                break
    return model


def _sums(data: Transitions, model: LinearForce) -> _Sums:
    """One pass over the windows."""
    d = len(model.sigma)
    directions = error_directions(d)
    windows = cut(follows(data), *model.lengths)
    n = max(1, round(len(windows.first) * min(1.0, MOST_ROWS / len(data))))
    windows = windows.at(np.linspace(0, len(windows.first) - 1, n).round().astype(int))
    total = None
    for chunk in chunks(data, windows):
        found = filtered(model.step, chunk, model.noise, model.prior)
        T, W = chunk.h.shape
        middle = 0.5 * (found.m[:-1] + found.mean_before)
        states = with_held(middle.reshape(T * W, -1), chunk.u.reshape(T * W, -1))
        terms = model.terms.at(np.clip(states, *model.box)).reshape(T, W, -1)
        features = np.concatenate([np.ones((T, W, 1)), terms], axis=2)
        changes = np.broadcast_to(directions, (T, W, *directions.shape))
        own = _Sums(
            float(found.losses()[chunk.kept].sum()),
            of_drift(found, chunk, features),
            of_noise(found, chunk, features[:, :, :1], changes, directions),
        )
        total = own if total is None else total.plus(own)
    assert total is not None
    return total


def _moved(model: LinearForce, sums: _Sums, share: float, *, known: bool) -> LinearForce:
    """The model after a share of a step of scoring, in which Λ stays if it is known."""
    d = len(model.sigma)
    H, g = sums.force
    scale = 1 / np.sqrt(np.maximum(np.diagonal(H), 1e-300))
    change = scale * np.linalg.solve(H * np.outer(scale, scale) + 1e-9 * np.eye(len(H)), scale * g)
    force = share * change.reshape(d, -1)
    information, score = sums.noise
    if known:
        p = len(score) // 2
        information, score = information[:p, :p], score[:p]
    scale = 1 / np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    of_noise = scale * np.linalg.solve(information * np.outer(scale, scale) + 1e-9 * np.eye(len(scale)), scale * score)
    directions = error_directions(d)
    parts = [share * np.tensordot(part, directions, 1) for part in np.split(of_noise, 1 if known else 2)]
    least = LEAST_ERROR * model.h**3 / 3 * model.sigma
    return replace(
        model,
        intercept=model.intercept + force[:, 0],
        slopes=model.slopes + force[:, 1:],
        sigma=_within(model.sigma, parts[0]),
        noise=model.noise if known else at_least(model.noise + parts[1], least),
    )


def _within(sigma: Float, change: Float) -> Float:
    """Σ with a change that is not too large in any direction."""
    return with_eigenvalues(change, sigma, lambda values: 1 + np.clip(values, -LARGEST_STEP, 1.0))
