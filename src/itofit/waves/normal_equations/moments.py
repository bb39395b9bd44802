"""What sums over data of products of two features depend on: the Chebyshev moments of the data."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_chunks
from itofit._checks import Float
from itofit.waves.chebyshev import moments


class Moments(NamedTuple):
    """What a set of rows u in [−½, ½]^D with targets y leaves behind of itself; adds up over sets."""

    n_rows: int
    values: Float  # (1 + p, Q_1, ..., Q_D): Σ T_m(2u) and Σ y T_m(2u)
    squares: Float  # (p,): Σ y²

    def plus(self, other: Moments) -> Moments:
        """Those of both sets together."""
        return Moments(self.n_rows + other.n_rows, self.values + other.values, self.squares + other.squares)

    def scaled(self, unit: Float) -> Moments:
        """Those of the targets y / unit."""
        factor = np.concatenate([[1.0], 1 / unit]).reshape(-1, *[1] * (self.values.ndim - 1))
        return Moments(self.n_rows, self.values * factor, self.squares / unit**2)


def moments_of(u: Float, y: Float, Q: tuple[int, ...], weight: Float | None = None) -> Moments:
    """Moments of the rows u (n, D) and y (n, p), weighted (n,) or not, Q in each direction, on all cores."""

    def sums(chunk: slice) -> tuple[Float, Float]:
        strengths = np.ones((1 + y.shape[1], chunk.stop - chunk.start))
        strengths[1:] = y[chunk].T
        if weight is not None:
            strengths *= weight[chunk]
        return moments(2 * u[chunk].T, strengths, Q), np.einsum("pn,np->p", strengths[1:], y[chunk])

    parts = map_chunks(sums, len(u), result_bytes=8 * (1 + y.shape[1]) * prod(Q))
    total = Moments(len(u), *parts[0])
    for values, squares in parts[1:]:
        total = total.plus(Moments(0, values, squares))
    return total
