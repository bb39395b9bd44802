"""The transitions whose steps are followed when the length of steps is undone.

Most are drawn at random. But what a drift says at a rare place, on the way from a distant start, say, rests on a few
transitions, and if none of them were followed a correction could do there what it liked. So transitions are also drawn
by their leverage: the variance of the drift at their place, relative to that of their own rate of change. All leverages
together are the number of amplitudes that the data determine, so this adds few. Each transition then stands for as many
as the inverse of its probability says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.principal import Basis
from itofit.learning.spread import posterior_squares
from itofit.matrices.symmetric import factors
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.training import variances
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries

LEAST_PLACES, PLACES_PER_FEATURE = 1_000, 6
"""Transitions that are drawn at random: at least, and for each feature."""
TIMES_LEVERAGE = 4.0
"""Probability of a transition besides, in units of its leverage."""
DRAWS = 4
"""Functions drawn from the posterior of the drift, whose mean square is its variance well enough to draw places by."""
MOST_LEVERAGES = 100_000
"""Transitions, drawn at random from more than these, whose leverage is computed."""
LEAST_VARIATION = 0.01
"""Standard deviation of h relative to its mean from which on it is asked who chose them."""
MOST_NEIGHBOURS = 20
"""Transitions that start nearby, of which the usual h is the mean."""
SIGNIFICANT = 3.0
"""Standard errors by which Δx must grow too little with h before paths are said to have chosen their steps."""


class Followed(NamedTuple):
    """Transitions whose steps are followed."""

    data: Transitions
    count: Float  # type: ignore[assignment]  # (n,): how many of all transitions each of them stands for


class _Drawn(NamedTuple):
    """Of a block: the transitions that were drawn, and their probabilities."""

    data: list[Transitions]
    probability: list[Float]


def followed_transitions(
    data: Data, n_rows: int, drift: Drift, basis: Basis, noise: Float, scaling: Scaling, seed: int
) -> Followed:
    """Enough of n_rows transitions to follow the steps of a drift.

    Parameters
    ----------
    data : Data
    n_rows : int
    drift, basis : Drift, Basis
        The drift and its features.
    noise : array of shape (d,)
        Mean variances Σ_jj of the outputs.
    scaling : Scaling
    seed : int
    """
    share = min(1.0, max(LEAST_PLACES, PLACES_PER_FEATURE * len(basis.penalty)) / n_rows)
    seen = min(1.0, MOST_LEVERAGES / n_rows)
    doubts = _doubts(drift, basis, scaling, np.random.default_rng([seed, 3]))

    def drawn(block: Transitions, number: int) -> _Drawn:
        rng = np.random.default_rng([seed, 2, number])
        part = np.flatnonzero(rng.random(len(block)) < max(seen, share))
        if not len(part):
            return _Drawn([], [])
        rows = block[part]
        leverage = rows.h * (variances(doubts(rows.inputs), len(noise)) / noise).max(axis=1)
        probability = np.minimum(share / max(seen, share) + TIMES_LEVERAGE * leverage, 1.0)
        kept = np.flatnonzero(rng.random(len(rows)) < probability)
        return _Drawn([rows[kept]], [max(seen, share) * probability[kept]]) if len(kept) else _Drawn([], [])

    total = add_up(data, drawn, most_rows=BATCH_ROWS)
    return Followed(Transitions.concatenate(total.data), 1 / np.concatenate(total.probability))


def _doubts(drift: Drift, basis: Basis, scaling: Scaling, rng: np.random.Generator) -> FourierSeries:
    """DRAWS functions for each output whose squares add up, in the mean, to the variance of the drift."""
    parts = []
    for own in posterior_squares(drift.systems, drift.unit):
        values, vectors = np.linalg.eigh(own)
        root = np.sqrt(np.maximum(values, 0.0)) * vectors @ vectors.T  # which does not depend on signs of eigenvectors
        parts.append((root @ rng.normal(size=(len(own), DRAWS)) / np.sqrt(DRAWS)).T)
    flat = np.concatenate(parts)
    return basis.series(flat[:, 0], flat[:, 1:].T, scaling)


def lengths_chosen(u: Float, h: Float, increments: Float, drift: Float, sigma: Float, count: Float) -> bool:
    """Whether paths chose the lengths of their steps: Δx does not grow by f as h does at one place.

    Parameters
    ----------
    u, h, increments : arrays of shapes (n, m), (n,) and (n, d)
        Transitions, their inputs scaled.
    drift, sigma : arrays of shapes (n, d) and (n, d, d)
        m and C there.
    count : array of shape (n,)
        How many transitions each stands for, up to a factor.
    """
    if not h.std() > LEAST_VARIATION * h.mean() or len(h) < MOST_NEIGHBOURS:
        return False
    from scipy.spatial import cKDTree  # noqa: PLC0415  # a quarter of the time to import itofit

    near = cKDTree(u).query(u, k=MOST_NEIGHBOURS)[1]
    usual = h[near[:, 1:]].mean(axis=1)  # not its own
    longer = (h - usual) / usual
    residual = increments - h[:, None] * drift
    unit, white = np.moveaxis(np.linalg.solve(factors(sigma), np.stack([drift, residual], axis=2)), 2, 0)
    size = (unit**2).sum(axis=1)
    information = max(float((count * longer**2 * usual) @ size), 1e-300)
    slope = (count * longer) @ (unit * white).sum(axis=1) / information
    return bool(slope < -0.5 - SIGNIFICANT * np.sqrt((count * longer) ** 2 @ (h * size)) / information)
