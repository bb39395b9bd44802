"""What data can rule out: how large a deviation may be given them, and how many data would show that it is small.

A deviation is estimated with an error. The upper end of its 95 % interval is what it may be at most; if that is less
than what matters, a fault that matters would have been seen. Each bound is exceeded by the true deviation with a
probability of 2.5 %, so a finding whose bounds all are small misses a fault that matters as rarely, however many
deviations it looks at: one of them is at fault, and that one would have to be missed.

========  =====================================================================
symbol    meaning
========  =====================================================================
n         rows that were judged
limit     size of a deviation that matters, in its own unit
λ         noncentrality of χ²: n times the square of a deviation
========  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv, chdtri, chndtr, gammaincinv, ndtr, ndtri

from itofit._checks import Float

Form: TypeAlias = Callable[[float], str]
"""How a deviation is written."""
MISSED = 0.025
"""Probability that a deviation is larger than its bound."""
Z = float(ndtri(1 - MISSED))
UNLUCKY = 0.05
"""Probability that as many rows as are said to be enough are not, by one deviation, although nothing is wrong."""
EXPECTED_IN_TAIL = 2
"""Rare events among as many rows as are enough to see that they are rare: more are there in one of thirty data sets."""
BEYOND = 1e6
"""Errors, in units of what matters, that no number of rows makes small."""
BISECTIONS = 50
"""Halvings of the range in which a noncentrality is looked for: to rounding."""
MANY = 1e4
"""Statistics beyond which √χ² is normal for all that matters."""


class Margin(NamedTuple):
    """What may be wrong with a property although nothing was found."""

    quantity: str  # what may be off, in words
    bound: float  # upper end of the 95 % interval of the deviation, in its own unit
    limit: float  # what matters, in the same unit
    enough: float  # rows with which the bound would be less than the limit if nothing is wrong
    form: Form

    @property
    def excluded(self) -> bool:
        """Whether a deviation that matters is ruled out."""
        return self.bound < self.limit

    @property
    def text(self) -> str:
        """What cannot be ruled out, in words."""
        return f"{self.quantity} may be off by up to {self.form(self.bound)} ({self.form(self.limit)} matters)"


def _margin(quantity: str, bound: float, limit: float, n: float, enough: float, form: Form) -> Margin:
    """A margin from n rows; where so many should have been enough but were not, twice as many are."""
    return Margin(quantity, float(bound), limit, float(enough if bound < limit else max(enough, 2 * n)), form)


def of_estimate(quantity: str, value: float, error: float, limit: float, n: float, *, form: Form) -> Margin:
    """That of an estimate with its standard error, from n rows."""
    return _margin(quantity, abs(value) + Z * error, limit, n, rows_enough(n, error, limit), form)


def rows_enough(n: float, error: float, limit: float, among: int = 1) -> float:
    """Rows whose errors are so small that bounds of so many deviations are below a limit, given the error of n rows."""
    ratio = (Z + float(ndtri(1 - UNLUCKY / (2 * among)))) * error / limit
    return n * ratio**2 if ratio < BEYOND else np.inf


def of_bins(quantity: str, values: Float, errors: Float, limit: float, n: float, *, most: int, form: Form) -> Margin:
    """That of the worst of some estimates (b,) with their standard errors, from n rows altogether.

    More rows are cut into more bins, at most so many.
    """
    enough = rows_enough(n * most / len(values), float(errors.max()), limit, among=most)
    return _margin(quantity, np.max(np.abs(values) + Z * errors), limit, n, enough, form)


def of_square(
    quantity: str, statistic: float, dof: int, limit: float, n: float, *, most: int | None = None, form: Form
) -> Margin:
    """That of a root mean square over dof components, of which n times the square is noncentral χ².

    With more rows it is one over `most` components, if given.
    """
    bound = np.sqrt(largest_noncentrality(statistic, dof) / n)
    most = dof if most is None else most
    enough = largest_noncentrality(float(chdtri(most, UNLUCKY)), most) / limit**2
    return _margin(quantity, bound, limit, n, enough, form)


def of_share(quantity: str, count: int, n: int, limit: float, *, form: Form) -> Margin:
    """That of the share of rare events, of which some were counted among n rows (Clopper and Pearson)."""
    bound = float(betaincinv(count + 1, n - count, 1 - MISSED)) if count < n else 1.0
    return _margin(quantity, bound, limit, n, gammaincinv(EXPECTED_IN_TAIL + 1, 1 - MISSED) / limit, form)


def largest_noncentrality(statistic: float, dof: int) -> float:
    """The λ at which χ² with so many degrees of freedom is as small as a statistic with probability `MISSED`.

    About (t + 1.96)² for one degree of freedom and a statistic t². A statistic that is smaller than its mean counts as
    the mean: data that were learned from, to which the model was fitted, rule out no more than others.
    """
    if not np.isfinite(statistic):
        return np.inf
    statistic = max(statistic, float(dof))
    low, high = 0.0, (np.sqrt(statistic) + 2 * Z) ** 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _as_small(statistic, dof, middle) > MISSED else (low, middle)
    return high


def _as_small(statistic: float, dof: int, noncentrality: float) -> float:
    """Probability that noncentral χ² is at most a statistic."""
    if statistic < MANY:
        return float(chndtr(statistic, dof, noncentrality))
    return float(ndtr(np.sqrt(statistic) - np.sqrt(noncentrality + dof - 1)))
