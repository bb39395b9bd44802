"""Whether a system is of first or of second order: one of second order keeps its velocity from step to step.

With increments Δ_t of a track at times t and positions y_t, let C_k = ⟨Δ_t Δ_{t+k}⟩, and C'_3 the same for what is
left of Δ_t and Δ_{t+3} after regression on functions of y_{t+2} (and of covariates, if there are any). Then

    share = 3 C'_3 / (C_0 + 2 C_1).

In a system of first order the next increments do not depend on the last ones, given where it is: C'_3 is zero, whatever
the drift is. In a system of second order, over steps that are short against the time in which velocities change, all C
are h² ⟨v²⟩, and the share is that of the velocity which the position does not tell. Errors of measurement that are
independent of each other add 2Λ to C_0 and −Λ to C_1, which cancel, and nothing to C'_3, as Δ_t, y_{t+2} and Δ_{t+3}
have no observation in common.

Of a system of first order the sum of the products Δ_t Δ_{t+3} divided by its standard error, which counts that
neighbouring products are correlated (Newey and West), is a standard normal number for many products: that is the test,
one-sided.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from itofit._checks import Float, Int
from itofit.data.following import follows
from itofit.data.transitions import Transitions

LEAST_PRODUCTS = 50
"""Of increments three steps apart, for a test."""
LEAST_SHARE = 0.2
"""Of the motion that keeps its velocity, from which on a system is called of second order."""
LEVEL = 0.005
"""Of the test. Of 4,500 tracks of systems of first order, some under errors of measurement far larger than a step, one
in 150 was called of second order."""
SURE = 1.64
"""Standard errors by which the share must be less than LEAST_SHARE for a system to be called of first order."""
LEAST_MOTION = 0.02
"""Of the mean square of increments, that motion is at least; the rest may be errors of measurement."""
NEIGHBOURS = 4
"""Products whose correlation counts: those that have a step in common."""
ROWS_OF_A_FEATURE = 50
"""Rows for each function of the position that increments are regressed on."""

Order = Literal["first", "second", "unclear"]


class Persistence(NamedTuple):
    """How much of the motion keeps its velocity from step to step, beyond what the position says of it."""

    share: float
    error: float
    p: float  # of a share at least as large in a system of first order
    n: int  # products of increments

    @property
    def order(self) -> Order:
        """Which order the data show."""
        if self.n < LEAST_PRODUCTS or not np.isfinite(self.share):
            return "unclear"
        if self.p < LEVEL and self.share >= LEAST_SHARE:
            return "second"
        little = self.share + SURE * self.error < LEAST_SHARE
        return "first" if little and self.p > LEVEL else "unclear"


def persistence(data: Transitions) -> Persistence:
    """Of moves, those of a track in a row; all variables together, each in its own unit."""
    one_track = follows(data)
    start = np.concatenate([np.flatnonzero(~one_track), [len(data)]])
    left = np.repeat(start[1:], np.diff(start)) - np.arange(len(data))  # moves of the track from each on
    first = np.flatnonzero(left > 3)
    n, d = len(first), data.n_outputs
    if n < LEAST_PRODUCTS:
        return Persistence(np.nan, np.nan, np.nan, n)
    B = _functions(data.inputs[first + 2])
    if data.n_covariates:  # what drives both increments is known without errors, also when they were made
        u = data.inputs[:, data.n_inputs - data.n_covariates :]
        B = np.concatenate([B, u[first], u[first + 3]], axis=1)
    step = data.increments - data.increments.mean(axis=0)
    now, later = (_unexplained(B, step[rows]) for rows in (first, first + 3))
    motion = np.mean(step[first] ** 2 + 2 * step[first] * step[first + 1], axis=0)  # C_0 + 2 C_1
    unit = np.maximum(motion, LEAST_MOTION * np.mean(step**2, axis=0))
    products = (now * later / np.where(unit > 0, unit, np.inf)).sum(axis=1)
    share = 3 * float(products.mean()) / d
    error = 3 * _standard_error(products, first) / d
    if error == 0:
        return Persistence(np.nan, np.nan, np.nan, n)
    return Persistence(share, error, float(ndtr(-share / error)), n)


def _standard_error(products: Float, first: Int) -> float:
    """Of the mean of products that begin at some rows, neighbours being correlated."""
    total = float(np.sum(products**2))
    for lag in range(1, NEIGHBOURS + 1):
        near = first[lag:] == first[:-lag] + lag
        weight = 1 - lag / (NEIGHBOURS + 1)
        total += 2 * weight * float(np.sum((products[lag:] * products[:-lag])[near]))
    return float(np.sqrt(max(total, 0.0))) / len(products)


def _functions(x: Float) -> Float:
    """Polynomials of the ranks of positions (n, d), and products of two: shape (n, b)."""
    n, d = x.shape
    u = np.stack([_ranks(column) for column in x.T], axis=1)
    degree = int(np.clip(n // (ROWS_OF_A_FEATURE * d), 1, 7))
    columns = [np.ones(n)]
    columns += [np.polynomial.legendre.Legendre.basis(k)(column) for column in u.T for k in range(1, degree + 1)]
    most = min(degree, 3) if n > 10 * ROWS_OF_A_FEATURE * d * d else 0
    for i in range(d):
        for j in range(i):
            columns += [u[:, i] ** a * u[:, j] ** b for a in range(1, most + 1) for b in range(1, most + 2 - a)]
    return np.column_stack(columns)


def _ranks(values: Float) -> Float:
    """Ranks, scaled to run from −1 to 1."""
    order: Int = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values))
    return 2 * (ranks + 0.5) / len(values) - 1


def _unexplained(B: Float, y: Float) -> Float:
    """What is left of columns after regression on those of B."""
    return np.asarray(y - B @ np.linalg.lstsq(B, y, rcond=1e-10)[0])
