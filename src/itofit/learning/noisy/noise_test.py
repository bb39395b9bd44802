"""Whether tracks carry errors of measurement.

An error adds to one increment what it takes from the next, so residuals z of consecutive steps, in units of their
noise, have products whose mean is −Λ in these units. Without errors it is zero, whatever drift, noise and step length
are, as the mean of a step given the past is that of its start. So one pass over the residuals of a plain fit tells
whether it is worth the while to look closer:

    Z = −Σ ½ (z z₊ᵀ + z₊ zᵀ), each entry divided by its standard error

has independent normal entries of variance 1 (½ off the diagonal) if Λ = 0. Looking closer is a likelihood ratio.
As Λ is positive semidefinite, both compare with a mixture of χ² distributions whose weights alternate to ½; its tail
is at most that of ½ χ²_q + ½ χ²_{q−1}, q = d (d + 1)/2, which for one variable is the half χ² of a boundary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from itofit._checks import Float, Int
from itofit.data.following import follows
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.hidden.windows import InOrder, Overlapping
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import BATCH_ROWS

LEVEL = 0.01
"""Probability that errors of measurement are taken for real where there are none."""
LEAST_PAIRS = 50
"""Pairs of consecutive steps without which nothing is said."""
LEAST_SHARE = 0.003
"""Of the variance of a step, that must be errors of measurement: less changes nothing that matters."""


def p_of_gain(twice_gain: float, d: int) -> float:
    """The probability of a likelihood ratio, twice the gain in nats, if there are no errors of d variables."""
    q = d * (d + 1) // 2
    if twice_gain <= 0:
        return 1.0
    return 0.5 * float(chdtrc(q, twice_gain) + (chdtrc(q - 1, twice_gain) if q > 1 else 0.0))


class LagProducts(NamedTuple):
    """Products of consecutive residuals, and of increments, added up."""

    n_pairs: int
    products: Float  # (d, d): Σ ½ (z z₊ᵀ + z₊ zᵀ)
    squares: Float  # (d, d): the same, entry by entry squared
    n: int
    duration: float
    increments: Float  # (2, d, d): Σ ΔΔᵀ and Σ ΔΔ₊ᵀ
    residuals: Float  # (2, d, d): Σ rrᵀ and Σ rr₊ᵀ of the residuals in the unit of the data

    @property
    def h(self) -> float:
        """Mean length of steps."""
        return self.duration / self.n

    @property
    def p(self) -> float:
        """The probability of such negative products if there were no errors."""
        d = len(self.products)
        if self.n_pairs < LEAST_PAIRS:
            return 1.0
        Z = -self.products / np.sqrt(np.maximum(self.squares, 1e-300))
        Z = np.where(np.eye(d, dtype=bool), Z, Z / np.sqrt(2))
        return p_of_gain(float((np.maximum(np.linalg.eigvalsh(Z), 0.0) ** 2).sum()), d)

    @property
    def share(self) -> float:
        """The largest share of the variance of residuals, over directions, that is errors of measurement."""
        return 2 * float(np.linalg.eigvalsh(-self.products / max(self.n_pairs, 1))[-1])


def lag_products(data: Data, sde: LearnedSDE) -> LagProducts:
    """One pass over the data with the residuals of a plain fit."""
    one_step = sde.one_step or sde

    def of_block(block: Overlapping, number: int) -> LagProducts:
        rows, first = block.rows, block.n_before
        pairs = np.flatnonzero(follows(rows))
        pairs = pairs[pairs >= first]
        z, r = residuals_of(one_step, rows)
        own = np.arange(first, len(rows))
        a, b = z[pairs - 1], z[pairs]
        product = a[:, :, None] * b[:, None, :]
        product = 0.5 * (product + product.swapaxes(1, 2))
        return LagProducts(
            n_pairs=len(pairs),
            products=product.sum(axis=0),
            squares=(product**2).sum(axis=0),
            n=len(own),
            duration=float(rows.h[first:].sum()),
            increments=_products(rows.increments, own, pairs),
            residuals=_products(r, own, pairs),
        )

    return add_up(InOrder(data, 1), of_block)


def _products(steps: Float, own: Int, pairs: Int) -> Float:
    """Sums of products of some steps with themselves and of steps before pairs with these: shape (2, d, d)."""
    return np.stack([steps[own].T @ steps[own], steps[pairs - 1].T @ steps[pairs]])


def residuals_of(sde: LearnedSDE, rows: Transitions) -> tuple[Float, Float]:
    """Residuals σ⁻¹ (Δx − h f) / √h in units of the noise, and Δx − h f: shapes (n, d)."""
    z, r = np.empty_like(rows.increments), np.empty_like(rows.increments)
    for start in range(0, len(rows), BATCH_ROWS):
        own = slice(start, start + BATCH_ROWS)
        x, h = rows.inputs[own], rows.h[own, None]
        r[own] = residual = rows.increments[own] - h * sde.drift(x)
        sigma = sde.covariance(x)
        if z.shape[1] == 1:
            z[own] = residual / np.sqrt(h * sigma[:, :, 0])
        else:
            z[own] = np.linalg.solve(factors(sigma), (residual / np.sqrt(h))[:, :, None])[:, :, 0]
    return z, r
