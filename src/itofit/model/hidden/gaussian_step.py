"""One step of an equation from a Gaussian state: mean and covariance after it, and how it leans on the state before.

=========  ============  ==========================================================================
symbol     shape         meaning
=========  ============  ==========================================================================
s          (n, D)        state: x, D = d; or position and velocity (x, v), D = 2d
m, P       (n, D), …     mean and covariance of s before the step
F(s)       (n, D)        what moves it: f(x), or (v, f(x, v))
Σ(s)       (n, d, d)     covariance of its noise, which moves the last d components
A          (n, D, D)     slope: Cov(s', s) = A P
Q          (n, D, D)     what noise adds: P' = A P Aᵀ + Q
u          (n, k)        inputs from outside, which are known and keep their value during the step
=========  ============  ==========================================================================

As for a Gaussian s, with the mean slope J = E (F − E F)(s − μ)ᵀ P⁻¹,

    dμ/dt = E F,    dA/dt = J A,    dQ/dt = J Q + Q Jᵀ + E Σ,    P = A P₀ Aᵀ + Q,

with expectations over the 2D points μ ± √D · (columns of a root of P) and one step of Heun's third-order rule for the
whole of h. From a state that is known, P₀ = 0, that is `itofit.model.finite_step`; for a second-order system with
constant Σ, Q = Σ ⊗ [[h³/3, h²/2], [h²/2, h]] exactly. P' is positive definite whatever F is, as Q is kept above a small
share of what it is without F. F and Σ may depend on u as well: expectations are over s alone. A periodic component of s
is on a line, where its functions repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.periods import wrapped
from itofit.matrices.small_matrices import inverse_of_root, lower_root, turned
from itofit.model.finite_step import LEAST_SHARE, START_WEIGHT, Scheme, at_least

Functions = Callable[[Float], tuple[Float, Float]]
"""Points (n, m) to f (n, d) and Σ (n, d, d)."""

AROUND = 1e-4
"""Share of the noise of a step that a state is spread by at least where slopes are taken: known states have none."""
TABLE = ((4096,), (400, 400))
"""Places of one and of two inputs between which functions are interpolated: the error is far below any noise."""
PROBES, TABLE_ERROR = 512, 0.005
"""Places at which a table with covariates is compared with the functions, and its largest error relative to these."""
EVALUATIONS = 3
"""Of functions in a step that cost as much as a place of a table: fewer steps are not worth one."""


GAUSS = np.polynomial.legendre.leggauss(3)
"""Places and weights of the rule of Gauss."""
ORDER_OF_CARRYING = 4
"""Terms of e^{Js} besides the first: the last is far below a hundredth where a step can be followed at all."""


UNDRIVEN = np.zeros((0, 0))
"""Of steps that nothing drives from outside."""


class Moved(NamedTuple):
    """Gaussian states after a step."""

    mean: Float  # (n, D)
    covariance: Float  # (n, D, D)
    slope: Float  # (n, D, D): A
    noise: Float  # (n, D, D): Q


class _Rates(NamedTuple):
    """Means over a Gaussian state."""

    F: Float  # (n, D)
    J: Float  # (n, D, D)
    noise: Float  # (n, D, D): E Σ, in the last d rows and columns


class GaussianStep:
    """The step of a Gaussian state for one drift and covariance.

    Parameters
    ----------
    functions : callable
        f and Σ at points (n, D + k): arrays (n, d) and (n, d, d).
    box : array of shape (2, D + k)
        Outside, functions are those of the nearest point in it, so that no state runs away.
    typical : array of shape (d,)
        The diagonal of Σ, roughly.
    second_order : bool
        Whether the state is (x, v).
    scheme : {"corrected", "euler"}
        The moments above, or s + h F and h Σ at the start of the step alone, averaged over the state.
    substeps : int
        Parts that a step is made of, one after the other, where it is too long for one.
    """

    def __init__(
        self,
        functions: Functions,
        box: Float,
        typical: Float,
        *,
        second_order: bool = False,
        scheme: Scheme = "corrected",
        substeps: int = 1,
    ) -> None:
        self.substeps = substeps
        self.functions, self.box, self.typical = functions, box, typical
        self.second_order, self.scheme = second_order, scheme

    def __call__(self, m: Float, P: Float, h: Float, u: Float = UNDRIVEN) -> Moved:
        """The states of mean m (n, D) and covariance P (n, D, D) after steps h (n,) that are driven by u (n, k)."""
        moved = self._moved(m, P, h / self.substeps, u)
        for _ in range(self.substeps - 1):
            more = self._moved(moved.mean, moved.covariance, h / self.substeps, u)
            A, Q = more.slope @ moved.slope, turned(more.slope, moved.noise) + more.noise
            moved = Moved(more.mean, more.covariance, A, Q)
        return moved

    def _moved(self, m: Float, P: Float, h: Float, u: Float) -> Moved:
        """The states after one part of a step."""
        D = m.shape[1]
        one, step, steps = np.eye(D), h[:, None], h[:, None, None]
        first = self._rates(m, P, h, u)
        if self.scheme == "euler" and not self.second_order:
            A, Q = one + steps * first.J, steps * first.noise
            return Moved(m + step * first.F, turned(A, P) + Q, A, Q)
        A, Q = one + steps / 3 * first.J, steps / 3 * first.noise
        rates = self._rates(m + step / 3 * first.F, turned(A, P) + self._noise_alone(first.noise, h / 3), h, u)
        Q = 2 / 3 * steps * self._growth(rates, Q)
        A = one + 2 / 3 * steps * (rates.J @ A)
        alone = self._noise_alone(first.noise, 2 / 3 * h)
        spread = alone if self.second_order else (Q := _kept_positive(Q, alone))
        rates = self._rates(m + 2 / 3 * step * rates.F, turned(A, P) + spread, h, u)
        rest, alone = 1 - START_WEIGHT, self._noise_alone(first.noise, h)
        mean = m + step * (START_WEIGHT * first.F + rest * rates.F)
        if self.second_order:
            Q = _noise_carried_on(
                START_WEIGHT * first.J + rest * rates.J, START_WEIGHT * first.noise + rest * rates.noise, h
            )
        else:
            Q = _kept_positive(steps * (START_WEIGHT * first.noise + rest * self._growth(rates, Q)), alone)
        A = one + steps * (START_WEIGHT * first.J + rest * (rates.J @ A))
        return Moved(mean, turned(A, P) + Q, A, Q)

    def _growth(self, rates: _Rates, Q: Float) -> Float:
        """dQ/dt."""
        change = rates.J @ Q
        return rates.noise + change + change.swapaxes(1, 2)

    def _rates(self, mean: Float, P: Float, h: Float, u: Float) -> _Rates:
        """Means over the 2D points of a Gaussian state."""
        n, D = mean.shape
        root = lower_root(self._spread(P, h))
        columns = np.sqrt(D) * root.transpose(2, 0, 1)
        points = np.concatenate([mean + columns, mean - columns]).reshape(-1, D)
        f, sigma = self.functions(np.clip(with_held(points, u), *self.box))
        d = f.shape[1]
        F = f if not self.second_order else np.concatenate([points[:, d:], f], axis=1)
        F = F.reshape(2 * D, n, D)
        difference = (F[:D] - F[D:]).transpose(1, 2, 0) / (2 * np.sqrt(D))
        noise = np.zeros((n, D, D))
        noise[:, D - d :, D - d :] = sigma.reshape(2 * D, n, d, d).mean(axis=0)
        return _Rates(F.mean(axis=0), difference @ inverse_of_root(root), noise)

    def _spread(self, P: Float, h: Float) -> Float:
        """P, and a little more so that slopes can be taken: a small share of the variance that noise adds in a step."""
        own = AROUND * h[:, None] * self.typical
        width = np.concatenate([h[:, None] ** 2 / 3 * own, own], axis=1) if self.second_order else own
        spread = P.copy()
        each = np.arange(P.shape[1])
        spread[:, each, each] += width
        return spread

    def _noise_alone(self, noise: Float, h: Float) -> Float:
        """What Q is without F: (n, D, D)."""
        alone = h[:, None, None] * noise
        if self.second_order:
            d = noise.shape[1] // 2
            own = alone[:, d:, d:]
            alone[:, :d, :d] = (h**2 / 3)[:, None, None] * own
            alone[:, :d, d:] = alone[:, d:, :d] = (h / 2)[:, None, None] * own
        return alone


def with_held(points: Float, u: Float) -> Float:
    """Points (c n, D) of n states, c of each in c blocks, with what drives these from outside (n, k): (c n, D + k)."""
    return np.concatenate([points, np.tile(u, (len(points) // len(u), 1))], axis=1) if u.shape[1] else points


def _noise_carried_on(J: Float, noise: Float, h: Float) -> Float:
    """Q = ∫ e^{Js} (E Σ) e^{Jᵀs} ds of a second-order system, by the rule of Gauss with three places: (n, D, D).

    The variance of positions is of third order in h itself, of which a rule of third order has no digit to spare.
    """
    d = J.shape[1] // 2
    powers = [np.broadcast_to(np.eye(2 * d)[:, d:], (len(J), 2 * d, d))]
    for _ in range(ORDER_OF_CARRYING):
        powers.append(J @ powers[-1])
    Q = np.zeros_like(J)
    for place, weight in zip(*GAUSS, strict=True):
        s = (0.5 * (1 + place) * h)[:, None, None]
        M = np.sum([s**k / factorial(k) * power for k, power in enumerate(powers)], axis=0)
        Q += (0.5 * weight * h)[:, None, None] * (M @ noise[:, d:, d:] @ M.swapaxes(1, 2))
    return Q


def _kept_positive(Q: Float, alone: Float) -> Float:
    """Q (n, D, D), of which at least a small share of what it is without F is kept in every direction."""
    if Q.shape[1] == 1:
        return np.maximum(Q, LEAST_SHARE * alone)
    if Q.shape[1] == 2:
        rest = Q - LEAST_SHARE * alone
        small = (rest[:, 0, 0] < 0) | (rest[:, 0, 0] * rest[:, 1, 1] < rest[:, 0, 1] * rest[:, 1, 0])
        if not small.any():
            return Q
        Q = Q.copy()
        Q[small] = at_least(Q[small], alone[small])
        return Q
    return at_least(Q, alone)


def tabulated(exact: Functions, box: Float, n_steps: int, periods: Float, n_covariates: int) -> Functions:
    """Functions of one or two inputs by linear interpolation between the places of a table, if there are many steps.

    A covariance between positive definite ones is positive definite. Functions of more inputs stay as they are, and so
    do those of covariates that change too fast for a table, as those of time may.

    Parameters
    ----------
    exact : callable
    box : array of shape (2, m)
        One period of inputs that are periodic.
    n_steps : int
    periods : array of shape (2, m)
    n_covariates : int
        How many of the inputs, the last ones, come from outside.
    """
    m = box.shape[1]
    if m > len(TABLE) or n_steps < np.prod(TABLE[m - 1]) // EVALUATIONS:
        return exact
    sides = TABLE[m - 1]
    axes = [np.linspace(low, high, n) for low, high, n in zip(*box, sides, strict=True)]
    places = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    f, sigma = exact(places)
    d = f.shape[1]
    table = np.concatenate([f, sigma.reshape(len(f), d * d)], axis=1)
    scale = (np.array(sides) - 1) / (box[1] - box[0])
    strides = [int(np.prod(sides[k + 1 :])) for k in range(m)]

    def functions(x: Float) -> tuple[Float, Float]:
        place = (wrapped(x, periods) - box[0]) * scale
        below = np.minimum(place.astype(np.intp), np.array(sides) - 2)
        rest = place - below
        first = below @ np.array(strides)
        values = 0.0
        for corner in range(2**m):
            up = [(corner >> k) & 1 for k in range(m)]
            weight = np.prod([rest[:, k] if up[k] else 1 - rest[:, k] for k in range(m)], axis=0)
            at = first + sum(stride for stride, one in zip(strides, up, strict=True) if one)
            values = values + weight[:, None] * table[at]
        both = np.asarray(values)
        return both[:, :d], both[:, d:].reshape(-1, d, d)

    return functions if not n_covariates or _is_followed(exact, functions, box) else exact


def _is_followed(exact: Functions, functions: Functions, box: Float) -> bool:
    """Whether a table is as good as functions themselves at random places of a box."""
    x = box[0] + (box[1] - box[0]) * np.random.default_rng(0).random((PROBES, box.shape[1]))
    for own, table in zip(exact(x), functions(x), strict=True):
        if (np.abs(own - table).max(axis=0) > TABLE_ERROR * (np.ptp(own, axis=0) + np.abs(own).mean(axis=0))).any():
            return False
    return True
