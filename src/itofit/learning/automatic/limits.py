"""Limits of the eigenvalues of C: the largest lower ones that predict as well as any."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit.learning.automatic.products import NoiseModel, Parts
from itofit.matrices.symmetric import raised

FLOORS = np.concatenate([10.0 ** np.arange(-12.0, -4.0), 10.0 ** np.arange(-4.0, -0.4, 0.5)])
"""Lower limits of C that are compared."""
LEAST_OF_LINEAR = 5e-5
"""Where C is linear in H only larger ones are: it passes through zero, and its smallest values are chance."""
HARDLY_WORSE = 1.0
"""Log-likelihood that a larger lower limit may cost."""


class Losses(NamedTuple):
    """The nll of cells with each of several lower limits of C, summed: over all eigenvalues, or entry by entry."""

    floors: Float  # (F,)
    sums: Float  # (F, k)
    products: Float  # (F, F, k): of what one limit and another add to the nll with the least

    @classmethod
    def of(cls, model: NoiseModel, parts: Parts, count: Float, most: Float, top: float) -> Losses:
        """Those of H and S, with upper limits (d,), and a lower one of the largest eigenvalues of coupled entries."""
        spectrum, C, turned = parts
        floors = _floors(model)
        own = spectrum.diagonal(turned)
        low_top = np.zeros(len(C), dtype=bool) if model.shape.separate else C.max(axis=1) < top
        first = cell_nll(raised(C, floors[0], most, 0.0), own, count)  # (n, d)
        any_below = (floors[-1] > C).any(axis=1) | low_top  # limits change nothing elsewhere
        low, rest = np.flatnonzero(any_below), np.flatnonzero(~any_below)
        below, products, before = (np.take(each.T, low, axis=1) for each in (C, own, first))  # (d, l)
        losses = np.repeat(
            before[:, None], len(floors), axis=1
        )  # (d, F, l): long rows are summed faster than short ones
        for k, floor in enumerate(floors[1:], start=1):  # C is the floor there, or as it was
            at_floor = 0.5 * (count[low] * np.log(floor) + products / floor)
            np.copyto(losses[:, k], at_floor, where=below < floor)
        small = np.flatnonzero(low_top[low])
        if len(small):
            rows = low[small]
            for k, floor in enumerate(floors):
                losses[:, k, small] = cell_nll(raised(C[rows], floor, most, top), own[rows], count[rows]).T
        sums = np.take(first.T, rest, axis=1).sum(axis=1) + losses.sum(axis=2).T
        added = losses - losses[:, :1]
        if not model.shape.separate:
            sums, added = sums.sum(axis=1, keepdims=True), added.sum(axis=0, keepdims=True)
        return cls(floors, sums, np.moveaxis(added @ added.swapaxes(1, 2), 0, 2))

    @classmethod
    def of_largest(cls, model: NoiseModel, parts: Parts, count: Float, most: Float) -> Losses:
        """Those with each of several limits of the largest eigenvalue of coupled entries."""
        floors, C, own = _floors(model), parts.C, parts.spectrum.diagonal(parts.turned)
        low = np.flatnonzero(C.max(axis=1) < floors[-1])
        C, own, count = C[low], own[low], count[low]
        kept = (raised(C, floors[0], most, floor) for floor in floors)
        losses = np.array([cell_nll(each, own, count).sum(axis=1) for each in kept])  # (F, l)
        added = losses - losses[0]
        return cls(floors, losses.sum(axis=1)[:, None], (added @ added.T)[:, :, None])

    def plus(self, other: Losses) -> Losses:
        """Those of both sets of cells."""
        return Losses(self.floors, self.sums + other.sums, self.products + other.products)

    @property
    def least(self) -> float:
        """With the best limits."""
        return float(self.sums.min(axis=0).sum())

    def chosen(self, least: Float) -> Float:
        """The largest limits (k,) that no others beat significantly.

        They exceed `least` only if that lowers the loss or costs no more than HARDLY_WORSE: that few data lie below
        does not mean that new ones will.
        """
        best = np.argmin(self.sums, axis=0)
        error = self._errors(best)
        worse = self.sums - self.sums.min(axis=0) - HARDLY_WORSE
        good = (worse <= 2 * error) & (self.floors[:, None] <= np.maximum(self.floors[best], least)) | (worse <= 0)
        return np.asarray(self.floors[len(self.floors) - 1 - np.argmax(good[::-1], axis=0)])

    def chosen_of_largest(self, least: float) -> float:
        """The largest limit up to `least`, or the best of all if that is significantly better."""
        sums = self.sums[:, 0]
        usual, best = max(int((self.floors <= least).sum()) - 1, 0), int(np.argmin(sums))
        error = self._errors(np.array([best]))[usual, 0]
        return float(self.floors[best if sums[usual] - sums[best] > HARDLY_WORSE + 2 * error else usual])

    def _errors(self, best: Int) -> Float:
        """Standard errors (F, k) of how much more is lost with each limit than with the best ones (k,)."""
        k, own = np.arange(len(best)), np.einsum("ffk->fk", self.products)
        return np.asarray(np.sqrt(np.maximum(own - 2 * self.products[:, best, k] + own[best, k], 0.0)))

    def limits(self, least: Float, most: Float, top: float) -> Float:
        """Limits (2, d) with the chosen lower ones, that of the largest of coupled eigenvalues last."""
        lower = np.broadcast_to(self.chosen(least), most.shape).copy()
        lower[-1] = max(lower[-1], top)
        return np.stack([lower, np.maximum(most, lower)])


def _floors(model: NoiseModel) -> Float:
    return FLOORS[FLOORS > LEAST_OF_LINEAR] if model.link.linear else FLOORS


def kept_eigenvalues(C: Float, limits: Float, *, separate: bool) -> Float:
    """Eigenvalues (n, d) within limits (2, d), or entries of a diagonal C."""
    return np.clip(C, *limits) if separate else raised(C, limits[0, 0], limits[1], limits[0, -1])


def cell_nll(C: Float, own: Float, count: Float) -> Float:
    """½ (n log C + S/C) for eigenvalues C (n, d) within their limits, and the diagonal of S in their axes."""
    return np.asarray(0.5 * (count[:, None] * np.log(C) + own / C))
