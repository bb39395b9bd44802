"""Mean and covariance of one observed step, which a finite h makes different from h f and h Σ.

With the state x_t that starts at x, to first order in h,

    E[Δx | x] / h   = f + (h/2) L f,                         L = f·∇ + ½ Σ:∇∇
    Cov[Δx | x] / h = Σ + (h/2) (L Σ + (∇f) Σ + Σ (∇f)ᵀ).

Here the moments μ_t and P_t of x_t − x follow, as for a Gaussian x_t,

    dμ/dt = E f(x_t),    dP/dt = E Σ(x_t) + E (x_t − μ) fᵀ + E f (x_t − μ)ᵀ,

with expectations over the 2d points μ ± √d · (columns of a root of P), which are exact for cubic functions, and one
step of Heun's third-order rule for the whole of h. That is right to first order in h for every f and Σ, and beyond for
a linear f and constant Σ, needs no derivatives, and stays finite and positive definite however long the step is.

In an underdamped system the inputs are the new position and the old velocity. On the way to there, at the share τ of h,
the position is x − (1 − τ) h v − ½ (1 − τ²) h² f, and the noise moves the velocity alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.matrices.small_matrices import inverse_of_root
from itofit.matrices.symmetric import factors, symmetric

LEAST_SHARE = 0.05
"""Of Σ, that the covariance of a step is at least: less means that the step is too long for any of this."""
START_WEIGHT = 0.25
"""Of the start of the step in means over it; the rest is spread over the places of the last stage (Heun's rule)."""

SIGNIFICANT = 3.0
"""Standard deviations that a correction must have to be made although others are far smaller."""
ROUNDS = 30
"""Of the mean square of corrections and how much each of them counts for it."""

Function = Callable[[Float], Float]
Scheme = Literal["euler", "corrected"]


class Step(NamedTuple):
    """What one step of length h from each of n inputs does."""

    mean: Float  # (n, d): E Δx / h
    covariance: Float  # (n, d, d): Cov Δx / h
    start: Float  # (n, m): where the step starts
    places: Float  # (2d, n, m): where it is later, with START_WEIGHT a sample of all of it
    away: Float  # (2d, n, d): how far the moving part of each place is from their mean

    def average(self, function: Function) -> Float:
        """The mean of a function over the step, for functions of arrays (n, m): shape (n, ...)."""
        later = sum(function(place) for place in self.places) / len(self.places)
        return np.asarray(START_WEIGHT * function(self.start) + (1 - START_WEIGHT) * later)


def moments_of_step(
    x: Float, h: Float, drift: Function, covariance: Function, *, underdamped: bool, n_held: int = 0
) -> Step:
    """Mean and covariance of one step.

    Parameters
    ----------
    x : array of shape (n, m)
        Inputs.
    h : array of shape (n,)
        Length of the step from each.
    drift, covariance : callables
        f and Σ: arrays of shape (n, m) to (n, d) and (n, d, d).
    underdamped : bool
        Whether the inputs are the new position and the old velocity.
    n_held : int
        How many of the inputs, the last ones, are covariates: they are held during the step.
    """
    step, s = h[:, None], x.shape[1] - n_held
    d = s // 2 if underdamped else s
    force = drift(x) if underdamped else None

    def place(time: float, move: Float) -> Float:
        """The inputs after a share of the step in which the moving part moved."""
        if force is None:
            return np.concatenate([x[:, :s] + move, x[:, s:]], axis=1) if n_held else x + move
        velocity = x[:, d:s]
        position = x[:, :d] - (1 - time) * step * velocity - 0.5 * (1 - time**2) * step**2 * force
        return np.concatenate([position, velocity + move, x[:, s:]], axis=1)

    def stage(time: float, move: Float, root: Float) -> tuple[Float, Float, Float, Float]:
        """Rates of mean and covariance at a share of the step, the places they are taken at, and how far away."""
        columns = np.sqrt(d) * np.moveaxis(root, 2, 0)
        away = np.concatenate([columns, -columns])
        places = np.stack([place(time, move + each) for each in away])
        flat = places.reshape(-1, places.shape[2])
        f, sigma = drift(flat).reshape(2 * d, -1, d), covariance(flat).reshape(2 * d, -1, d, d)
        cross = np.einsum("pni,pnj->nij", away, f) / (2 * d)
        return f.mean(axis=0), sigma.mean(axis=0) + cross + cross.swapaxes(1, 2), places, away

    start = place(0.0, np.zeros((len(x), d)))
    f, sigma = drift(start), covariance(start)
    root = factors(sigma)
    scale = np.sqrt(h)[:, None, None]
    rate, growth, _, _ = stage(1 / 3, step / 3 * f, np.sqrt(1 / 3) * scale * root)
    root = factors(at_least(growth, sigma))
    rate, growth, places, away = stage(2 / 3, 2 / 3 * step * rate, np.sqrt(2 / 3) * scale * root)
    mean = START_WEIGHT * f + (1 - START_WEIGHT) * rate
    total = symmetric(START_WEIGHT * sigma + (1 - START_WEIGHT) * growth)
    return Step(mean, at_least(total, sigma), start, places, away)


def rates_of_change(jacobian: Float, unit: Float, *, underdamped: bool) -> Float:
    """How fast a drift makes the state change: ‖∇f‖, or the larger of ‖∂f/∂v‖ and ‖∂f/∂x‖^½; shape (n,).

    Parameters
    ----------
    jacobian : array of shape (n, d, m)
        Derivatives by covariates, after those by the state, do not count: they are held.
    unit : array of shape (m,)
        Of each input, which norms do not depend on.
    underdamped : bool
    """
    d = jacobian.shape[1]
    moving = slice(d, 2 * d) if underdamped else slice(d)
    scaled = jacobian[:, :, moving] * unit[moving] / unit[moving, None]
    rate = np.linalg.norm(scaled, 2, axis=(1, 2))
    if not underdamped:
        return np.asarray(rate)
    by_position = np.linalg.norm(jacobian[:, :, :d] * unit[:d] / unit[:d, None], 2, axis=(1, 2))
    return np.maximum(rate, np.sqrt(by_position))


def at_least(matrices: Float, sigma: Float, share: float = LEAST_SHARE) -> Float:
    """Symmetric matrices whose eigenvalues in units of Σ are raised to a share where they are less, all (n, d, d)."""
    root = factors(sigma)
    back = inverse_of_root(root)
    white = symmetric(back @ matrices @ back.swapaxes(1, 2))
    try:  # far cheaper than eigenvalues, and usually all there is to do
        np.linalg.cholesky(white - share * np.eye(white.shape[1]))
        return matrices
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(white)
    low = values[:, 0] < share
    axes = root[low] @ vectors[low]
    kept = np.maximum(values[low], share)
    raised = matrices.copy()
    raised[low] = symmetric((axes * kept[:, None, :]) @ axes.swapaxes(1, 2))
    return raised


def mean_signal(squares: Float, variance: Float, weight: Float) -> Float:
    """The b² ≥ 0 for which squares (n, ...) are most likely those of normal numbers of variance b² + v: shape (...).

    Where v is large, squares say little of b²: they count by 1 / (b² + v)².
    """
    unit = np.maximum(squares.max(axis=0), variance.max(axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    squares, variance = np.asfortranarray(squares / unit), np.asfortranarray(variance / unit)  # sums of columns
    weight = weight.reshape(-1, *[1] * (squares.ndim - 1))
    signal = (weight * squares).sum(axis=0) / weight.sum()
    for _ in range(ROUNDS):
        count = weight / np.maximum(signal + variance, 1e-12) ** 2
        signal = np.maximum((count * (squares - variance)).sum(axis=0) / count.sum(axis=0), 0.0)
    return np.asarray(unit * signal)


def trusted(signal: Float | float, variance: Float, squares: Float) -> Float:
    """The share of a correction that is made: its mean square over the data is b², its variance v, its square here δ².

    It is b² / (b² + v), or 1 − (SIGNIFICANT √v / δ)² where that is more: a correction that is by itself many times its
    standard deviation needs no other places to be believed.
    """
    total = signal + variance
    usual = signal / np.where(total > 0, total, 1.0)
    alone = np.where(squares > 0, 1 - SIGNIFICANT**2 * variance / np.where(squares > 0, squares, 1.0), 0.0)
    return np.asarray(np.where(signal > 0, np.maximum(usual, alone), 0.0))
