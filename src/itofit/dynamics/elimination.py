"""Markov chains of which some rates are 10²⁰ times as small as others: cells are eliminated without any subtraction.

A solver of linear equations sees a generator, on whose diagonal stands the sum of all rates that lead away. The rate at
which a chain leaves a deep well is lost there as soon as it is 10¹⁶ times as small as that from cell to cell. So
cells are taken out one after the other (Grassmann, Taksar and Heyman, 1985): whoever came to one goes on from there to
the others, in proportion to its rates. All numbers stay sums, products and ratios of positive ones, so that each has
nearly all of its digits, however small it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from itofit._checks import Float, Int

LEAST, MOST = 1e-200, 1e200
"""A way that is taken less often is none, and a longer time has no end."""


class Eliminated(NamedTuple):
    """A chain of n cells, in an order in which rates lead to cells nearby, after all cells were taken out in turn."""

    order: Int  # (n,): the cell that is taken out first, second, ...
    rates: Float  # (n, n) in a band: to later cells above the diagonal, from them below, when that cell's turn came
    width: int  # of the band to either side
    total: Float  # (n,): of all rates to later cells and out of the chain
    sources: Float  # (n, k)

    @classmethod
    def of(cls, L: Any, leaving: Float, sources: Float) -> Eliminated:  # noqa: ANN401  (SciPy has no types)
        """Of a chain with the rates L (n, n), whose diagonal has no say, and rates (n,) and sources (n, k) of cells."""
        order = np.asarray(reverse_cuthill_mckee(sparse.csr_matrix(L), symmetric_mode=False))
        place = np.argsort(order)
        entries = L.tocoo()
        i, j = place[entries.row], place[entries.col]
        n, width = len(order), max(int(np.abs(i - j).max(initial=0)), 1)
        rates = _band(n, width)
        rates[i, j] = np.where(i == j, 0.0, entries.data)
        leaving, sources, total = leaving[order], sources[order], np.empty(n)
        for k in range(n):
            later = slice(k + 1, min(k + 1 + width, n))
            row, column = rates[k, later], rates[later, k]
            total[k] = row.sum() + leaving[k]
            if total[k] > LEAST:
                share = column / total[k]
                rates[later, later] += share[:, None] * row
                leaving[later] += share * leaving[k]
                with np.errstate(over="ignore"):
                    sources[later] = np.minimum(sources[later] + share[:, None] * sources[k], MOST)
        return cls(order, rates, width, total, sources)

    def passage(self) -> Float:
        """Sums (n, k) of sources on the way out, for each start; infinite if no way leads out before MOST."""
        u = np.zeros_like(self.sources)
        for k in reversed(range(len(u))):
            own = k + 1 + np.flatnonzero(self.rates[k, k + 1 : k + 1 + self.width] > 0)
            reached = self.sources[k] + self.rates[k, own] @ u[own]
            with np.errstate(over="ignore"):
                u[k] = reached / self.total[k] if self.total[k] > LEAST else np.where(self.sources[k] > 0, np.inf, 0.0)
        return np.where(u < MOST, u, np.inf)[np.argsort(self.order)]

    def stationary(self) -> Float:
        """The probabilities (n,) of the cells in the long run, if none leads out."""
        n = len(self.order)
        p = np.zeros(n)
        p[-1] = 1.0
        for k in reversed(range(n - 1)):
            later = slice(k + 1, min(k + 1 + self.width, n))
            p[k] = p[later] @ self.rates[later, k]
            if self.total[k] > LEAST:
                p[k] /= self.total[k]
            elif p[k] > 0:  # whoever comes here never goes back
                p[later.start :] = 0.0
            if p[k] > 1e100:
                p /= p[k]
        return (p / p.sum())[np.argsort(self.order)]


def _band(n: int, width: int) -> Float:
    """A matrix (n, n) of zeros of which there is only the band of `width` to either side of the diagonal."""
    content = np.zeros(n * (2 * width + 1) + 2 * width)
    size = content.itemsize
    return as_strided(content[width:], (n, n), (2 * width * size, size))
