"""Normal equations that remember the last Gram matrices they made: a search asks for many of their sums twice.

A fit needs the Gram matrix of all its waves, and the step of the walk that follows a solution at some of them. A step
of the walk ends with frequencies that were proposed in it and with frequencies from before, some of them several times:
of their Gram matrix, only what the ones have to do with the others is new.
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
LEAST_WORK = 1e7
"""Rows times the square of the number of frequencies, from which on what a step leaves as it was is not made again."""


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
        return _both(np.array(found, dtype=int), len(self.gram) // 2)


def _both(places: Int, K: int) -> Int:
    """Rows of the cosines and of the sines of some of K frequencies."""
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
        self.walked: deque[_Known] = deque(maxlen=2)  # where the walk was, and what was proposed there

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
        direct = isinstance(self.equations, DirectNormalEquations)
        if known is None and direct and self.n_rows * len(omega) ** 2 >= LEAST_WORK:
            known = self._walked_to(omega)
        if known is None:
            return self.equations.solve(omega, ridge)
        noise = self.equations.accuracy if isinstance(self.equations, GriddedNormalEquations) else EPSILON
        return solve_ridge(lambda: DirectNormalEquations.gram_of(*known), ridge * self.total, noise)

    def _walked_to(self, omega: Float) -> tuple[Float, Float]:
        """What `real_gram` returns, made of what the last two of these had."""
        rows = _as_bytes(omega)
        places = {row: k for k, row in enumerate(dict.fromkeys(rows))}
        at = np.array([places[row] for row in rows])
        once = omega[np.unique(at, return_index=True)[1]]  # each frequency once, in the order of places
        made = self._joined(once, list(places)) or self.equations.real_gram(once)
        self.walked.append(_Known(places, *made))
        everything = _both(at, len(once))
        return made[0][np.ix_(everything, everything)], made[1][everything]

    def _joined(self, omega: Float, rows: list[bytes]) -> tuple[Float, Float] | None:
        """The same for different frequencies, from two Gram matrices that hold all of them between them, if they do."""
        if len(self.walked) < 2 or not isinstance(self.equations, DirectNormalEquations):
            return None
        first, second = sorted(self.walked, key=lambda known: -sum(row in known.places for row in rows))
        inside = np.array([row in first.places for row in rows])
        mine, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        here, there = first.at(omega[mine]), second.at(omega[others])
        if here is None or there is None:
            return None
        own, theirs = _both(mine, len(omega)), _both(others, len(omega))
        G, b = np.empty((2 * len(omega), 2 * len(omega))), np.empty((2 * len(omega), self.n_outputs))
        G[np.ix_(own, own)], b[own] = first.gram[np.ix_(here, here)], first.right[here]
        G[np.ix_(theirs, theirs)], b[theirs] = second.gram[np.ix_(there, there)], second.right[there]
        between = self.equations.real_gram_between(omega[mine], omega[others])
        G[np.ix_(own, theirs)], G[np.ix_(theirs, own)] = between, between.T
        return G, b

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
