"""A linear force, its noise and errors of measurement from differences of three positions: where learning starts.

=========  ==========  ====================================================================================
symbol     shape       meaning
=========  ==========  ====================================================================================
y₋, y₀, y₊ (n, d)      three positions in a row, h₋ and h₊ apart
u₋, u₊     (n, d)      mean velocities (y₀ − y₋)/h₋ and (y₊ − y₀)/h₊
D          (n, d)      their difference u₊ − u₋
x̂, v̂, â    (n, d)      (y₋ + y₀ + y₊)/3, (y₊ − y₋)/(h₋ + h₊) and 2D/(h₋ + h₊)
Σ, Λ       (d, d)      of the noise of velocities, and of errors of measurement
=========  ==========  ====================================================================================

Mean velocities before and after y₀ differ by the force, and by noise of variance Σ (h₋ + h₊)/3, that of the next
difference having Σ h₊/6 in common with it. With steps of one length, differences have covariances

    h Σ (⅔, ⅙, 0) + h⁻² Λ (6, −4, 1)    at lags 0, 1, 2.

Given the velocity at y₀, the noise before y₀ is not zero on average: velocities that are large have been driven there.
So the mean of â b(x̂, v̂) is that of f b and c Σ ∂_v b besides, c = (h₋ + 2h₊)/3(h₋ + h₊), one half for even steps.
All this is to first order in h; where steps are long it is a start.

Covariates are terms of the linear force as well; over both steps they have the mean of their values, by duration. A
position that is periodic has no slope: its sine and cosine are terms instead (`Terms`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit.data.covariates import moving
from itofit.data.following import follows
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import with_eigenvalues

LEAST_TRIPLES = 10
"""Three positions in a row, for each coefficient of a linear force, that it takes to start."""
LEAST_SHARE = 0.02
"""Of the variance of differences that is at least noise of the system; and of what would be errors that are errors."""
MOST_ERRORS = 0.5
"""Share of the variance of differences that errors of measurement may make, to start with."""
LARGEST_RATE = 1.0
"""Of a linear force, relative to the inverse of a step, to start with: others cannot be followed."""


class Terms(NamedTuple):
    """What a linear force is linear in: positions, velocities and covariates, which are b terms altogether.

    In place of a periodic position there is its sine, and after all others its cosine, both times the period over 2π.
    """

    periods: Float  # (2, d): of the positions

    @classmethod
    def of(cls, data: Transitions) -> Terms:
        """Those of moves of positions."""
        return cls(data.periods[:, moving(data)])

    def at(self, states: Float) -> Float:
        """At states (n, 2d + k), covariates included: shape (n, b)."""
        turning = np.flatnonzero(is_periodic(self.periods))
        if not len(turning):
            return states
        unit = (self.periods[1, turning] - self.periods[0, turning]) / (2 * np.pi)
        angle = states[:, turning] / unit
        straight = states.copy()
        straight[:, turning] = unit * np.sin(angle)
        return np.concatenate([straight, unit * np.cos(angle)], axis=1)

    def rate(self, slopes: Float) -> float:
        """How fast a force (d, b) makes the state change: the larger of ‖∂f/∂v‖ and, at most, ‖∂f/∂x‖^½."""
        d, n_turning = len(slopes), int(is_periodic(self.periods).sum())
        by_position, by_velocity = slopes[:, :d], slopes[:, d : 2 * d]
        if n_turning:
            by_position = np.concatenate([by_position, slopes[:, -n_turning:]], axis=1)
        return float(max(np.linalg.norm(by_velocity, 2), np.sqrt(np.linalg.norm(by_position, 2))))


class LinearStart(NamedTuple):
    """A linear force and two noises."""

    intercept: Float  # (d,)
    slopes: Float  # (d, b): by positions, velocities and other terms
    sigma: Float  # (d, d)
    noise: Float  # (d, d)


class Triples(NamedTuple):
    """Positions in a row, of which the middle ones follow each other."""

    before: Int  # (n,): rows of the moves to the middle positions; the next rows are the moves from there
    x: Float  # (n, d)
    v: Float  # (n, d)
    D: Float  # (n, d)
    h: Float  # (n, 2)
    u: Float  # (n, k): covariates

    @property
    def states(self) -> Float:
        """Positions, velocities and covariates, shape (n, 2d + k)."""
        return np.concatenate([self.x, self.v, self.u], axis=1)


def triples(data: Transitions) -> Triples:
    """All of three positions in a row."""
    before = np.flatnonzero(follows(data)) - 1
    step, h = data.increments, data.h
    middle = data.inputs[before + 1][:, moving(data)]
    h2 = np.stack([h[before], h[before + 1]], axis=1)
    x = middle + (step[before + 1] - step[before]) / 3
    v = (step[before] + step[before + 1]) / h2.sum(axis=1)[:, None]
    D = step[before + 1] / h2[:, 1:] - step[before] / h2[:, :1]
    driven = data.inputs[:, data.n_inputs - data.n_covariates :]
    u = (h2[:, :1] * driven[before] + h2[:, 1:] * driven[before + 1]) / h2.sum(axis=1)[:, None]
    return Triples(before, x, v, D, h2, u)


def noises(found: Triples, residual: Float) -> tuple[Float, Float]:
    """Σ and Λ, positive definite, that differences (n, d) without the force show by covariances at three lags."""
    coefficients, products = [], []
    for lag in range(3):
        first = np.arange(len(found.before) - lag)
        first = first[found.before[first + lag] == found.before[first] + lag]
        if len(first) < LEAST_TRIPLES:
            break
        a, b = residual[first], residual[first + lag]
        products.append((a.T @ b + b.T @ a) / (2 * len(first)))
        coefficients.append(_coefficients(found.h[first], found.h[first + lag], lag))
    weight = np.array([1.0, 1.0, 1.0])[: len(products)]
    left = np.array(coefficients) * weight[:, None]
    d = residual.shape[1]
    unit = np.abs(left).max(axis=0)
    right = (np.array(products) * weight[:, None, None]).reshape(len(left), -1)
    both = (np.linalg.lstsq(left / unit, right, rcond=None)[0] / unit[:, None]).reshape(2, d, d)
    total = products[0]
    return tuple(  # type: ignore[return-value]
        at_least(0.5 * (part + part.T), LEAST_SHARE * total / size) for part, size in zip(both, left[0], strict=True)
    )


def _coefficients(h: Float, later: Float, lag: int) -> tuple[float, float]:
    """Of Σ and Λ in the mean product of differences so many steps apart, whose steps are h and later (n, 2)."""
    own, other = (np.stack([1 / a, -1 / a - 1 / b, 1 / b], axis=1) for a, b in (h.T, later.T))  # of three positions
    errors = float((own[:, lag:] * other[:, : 3 - lag]).sum(axis=1).mean())
    of_sigma = (h.sum(axis=1) / 3, h[:, 1] / 6, np.zeros(1))[lag]
    return float(of_sigma.mean()), errors


def at_least(matrix: Float, least: Float) -> Float:
    """A symmetric matrix with eigenvalues of at least one in units of another one."""
    return with_eigenvalues(matrix, least, lambda values: np.maximum(values, 1.0))


def linear_start(data: Transitions) -> LinearStart:
    """The linear force and the noises that differences of positions show.

    Where most of the differences is errors of measurement, force and noise come from every second position, every
    fourth and so on, until it is less.

    Parameters
    ----------
    data : Transitions
        Moves of positions, those of a track in a row; at least LEAST_TRIPLES (1 + 2d) of three positions in a row.
    """
    first = _linear_start(data)
    start, thinned = first, data
    while _share_of_errors(thinned, start) > MOST_ERRORS:
        fewer = every_second(thinned)
        if fewer is None or len(triples(fewer).before) < LEAST_TRIPLES * (1 + 2 * data.n_outputs):
            break
        start, thinned = _linear_start(fewer), fewer
    return start._replace(noise=first.noise)


def _share_of_errors(data: Transitions, start: LinearStart) -> float:
    """The largest share of the variance of D that errors of measurement make, over the variables."""
    h = float(np.median(data.h))
    errors = 6 / h**2 * np.diagonal(start.noise)
    return float((errors / (errors + 2 / 3 * h * np.diagonal(start.sigma))).max())


def every_second(data: Transitions) -> Transitions | None:
    """Moves between every second position of each track; None if no track has three."""
    one_track = follows(data)
    begin = np.maximum.accumulate(np.where(one_track, 0, np.arange(len(data))))
    first = np.flatnonzero((np.arange(len(data)) - begin) % 2 == 0)
    first = first[(first + 1 < len(data))]
    first = first[one_track[first + 1]]
    if not len(first):
        return None
    increments, h = (part[first] + part[first + 1] for part in (data.increments, data.h))
    groups = None if data.groups is None else data.groups[first]
    return Transitions._trusted(data.inputs[first], increments, h, groups, *data._variables)


def _linear_start(data: Transitions) -> LinearStart:
    """`linear_start` from all positions."""
    found = triples(data)
    d, n = data.n_outputs, len(found.before)
    duration = found.h.sum(axis=1)[:, None]
    a = 2 * found.D / duration
    terms, velocity = Terms.of(data), slice(d, 2 * d)
    b = terms.at(found.states)
    parts = np.split(b, [d, 2 * d], axis=1)
    mean = np.concatenate([np.ascontiguousarray(part).mean(axis=0) for part in parts])
    b = b - mean
    on_line = ~is_periodic(terms.periods)
    sigma, noise = noises(found, found.D - found.D.mean(axis=0))
    for _ in range(3):  # Σ without what the force explains, and the force with that Σ
        share = float(((found.h[:, 0] + 2 * found.h[:, 1]) / (3 * duration[:, 0])).mean())
        left = b.T @ b / n
        left[velocity, velocity] -= _share_of(left[velocity, velocity], noise * float((2 / duration**2).mean()))
        left[:d, :d] -= _share_of(left[:d, :d], noise / 3 * np.outer(on_line, on_line))
        right = a.T @ b / n
        right[:, velocity] -= share * sigma
        unit = np.sqrt(np.diagonal(left))
        slopes = np.linalg.lstsq(left / np.outer(unit, unit), (right / unit).T, rcond=1e-6)[0].T / unit
        slopes = slopes * min(1.0, LARGEST_RATE / max(terms.rate(slopes) * float(np.median(duration)) / 2, 1e-300))
        explained = 0.5 * duration * (a.mean(axis=0) + b @ slopes.T)
        sigma, noise = noises(found, found.D - explained)
    return LinearStart(a.mean(axis=0) - slopes @ mean, slopes, sigma, noise)


def _share_of(total: Float, part: Float) -> Float:
    """A part of a covariance that leaves at least a fifth of it in each variable."""
    most = 0.8 * np.diagonal(total) / np.maximum(np.diagonal(part), 1e-300)
    return np.asarray(part * min(1.0, float(most.min())))
