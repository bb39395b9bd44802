"""Normal equations that remember the last Gram matrices they made: a search asks for many of their sums twice.

A fit needs the Gram matrix of all its waves, and the step of the walk that follows a solution at some of them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from itofit._checks import Complex, Float, Int
from itofit.waves.normal_equations import DirectNormalEquations, GriddedNormalEquations, NormalEquations
from itofit.waves.normal_equations.direct import EPSILON, solve_ridge

MOST_KNOWN = 3
"""Gram matrices that are remembered: a megabyte or two each."""


class _Known(NamedTuple):
    """A real Gram matrix, its right side, and where each frequency stands in it."""

    places: dict[bytes, int]
    gram: Float  # (2K, 2K)
    right: Float  # (2K, p)

    def at(self, omega: Float) -> Int | None:
        """The rows of the cosines and sines of some frequencies; None if it has not all of them."""
        found = [self.places.get(row, -1) for row in _as_bytes(omega)]
        if -1 in found:
            return None
        K, places = len(self.gram) // 2, np.array(found, dtype=int)
        return np.concatenate([places, K + places])


def _as_bytes(omega: Float) -> list[bytes]:
    """Each of some frequencies (K, m) as bytes."""
    data, size = np.ascontiguousarray(omega).tobytes(), omega.shape[1] * omega.itemsize
    return [data[start : start + size] for start in range(0, len(data), size)]


class KnownSums:
    """Normal equations for one search.

    Parameters
    ----------
    equations : NormalEquations
    """

    def __init__(self, equations: NormalEquations) -> None:
        self.equations, self.total = equations, equations.total
        self.n_rows, self.n_inputs, self.n_outputs = equations.n_rows, equations.n_inputs, equations.n_outputs
        self.known: deque[_Known] = deque(maxlen=MOST_KNOWN)

    def real_gram(self, omega: Float) -> tuple[Float, Float]:
        """[C D]ᵀ[C D] of shape (2K, 2K) and [C D]ᵀy of shape (2K, p)."""
        known = self._looked_up(omega)
        if known is None:
            known = self.equations.real_gram(omega)
            self.known.append(_Known({row: k for k, row in enumerate(_as_bytes(omega))}, *known))
        return known

    def solve(self, omega: Float, ridge: float) -> Complex:
        """β̂ of shape (K, p) with (SᴴS + λN I) β̂ = Sᴴy."""
        known = self._looked_up(omega)
        if known is None:
            return self.equations.solve(omega, ridge)
        noise = self.equations.accuracy if isinstance(self.equations, GriddedNormalEquations) else EPSILON
        return solve_ridge(lambda: DirectNormalEquations.gram_of(*known), ridge * self.total, noise)

    def mse(self, omega: Float, beta: Complex) -> float:
        """Mean over points and outputs of |y − Re(S β̂)|²."""
        return self.equations.mse(omega, beta)

    def _looked_up(self, omega: Float) -> tuple[Float, Float] | None:
        """What `real_gram` returns, if a Gram matrix that was made has it; the last ones first."""
        for known in reversed(self.known):
            places = known.at(omega)
            if places is not None:
                return known.gram[np.ix_(places, places)], known.right[places]
        return None
