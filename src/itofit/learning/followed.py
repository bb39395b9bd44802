"""The transitions whose steps are followed when the length of steps is undone.

Most are drawn at random. But what is learned of a rare place, on the way from a distant start, say, rests on a few
transitions, and if none of them were followed a correction could do there what it liked. So transitions are also drawn
by their leverage in the projections of both corrections on their features, the larger one: (1, X) (A + P)⁻¹ (1, X)ᵀ,
times what a transition tells, for the A of all data and the ridges P of the projection. All leverages together are at
most the number of amplitudes, so this adds few. Each transition then stands for as many as the inverse of its
probability says.

Of many data the leverages of some are computed, each of which is then drawn for all that it stands for, and those of
the outermost transitions of each block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.evidence import Solved
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.sigma import Sigma
from itofit.learning.spread import posterior_squares
from itofit.learning.step_matrices import SHARE_OF_RIDGE, SHARE_OF_SIGMA_RIDGE, spectrum_and_information
from itofit.matrices.symmetric import factors
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.training import SWITCHED_OFF, variances
from itofit.waves.scaling import Scaling

LEAST_PLACES, PLACES_PER_FEATURE = 1_000, 6
"""Transitions that are drawn at random: at least, and for each feature."""
TIMES_LEVERAGE = 4.0
"""Probability of a transition besides, in units of its leverage."""
DRAWS = 4
"""Functions drawn from each posterior, whose mean square is its variance well enough to draw places by."""
MOST_LEVERAGES = 100_000
"""Transitions, drawn at random from more than these, whose leverage is computed; besides the outermost."""
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
    data: Data, n_rows: int, drift: Drift, basis: Basis, sigma: Sigma, scaling: Scaling, seed: int
) -> Followed:
    """Enough of n_rows transitions to follow the steps of a drift and a covariance.

    Parameters
    ----------
    data : Data
    n_rows : int
    drift, basis : Drift, Basis
        The drift and its features.
    sigma : Sigma
    scaling : Scaling
    seed : int
    """
    n_features = max(len(basis.penalty), len(sigma.fit.c))
    share = min(1.0, max(LEAST_PLACES, PLACES_PER_FEATURE * n_features) / n_rows)
    usually_seen = max(min(1.0, MOST_LEVERAGES / n_rows), share)
    in_drift = _leverage_in_drift(drift, basis, sigma, scaling, np.random.default_rng([seed, 3]))
    in_covariance = _leverage_in_covariance(sigma, scaling, np.random.default_rng([seed, 4]))

    def drawn(block: Transitions, number: int) -> _Drawn:
        if not len(block):
            return _Drawn([], [])
        rng = np.random.default_rng([seed, 2, number])
        seen = np.full(len(block), usually_seen)
        seen[block.inputs.argmin(axis=0)] = seen[block.inputs.argmax(axis=0)] = 1.0
        part = np.flatnonzero(rng.random(len(block)) < seen)
        rows, seen = block[part], seen[part]
        leverage = np.maximum(in_drift(rows), in_covariance(rows))
        probability = np.minimum(share + TIMES_LEVERAGE * leverage, seen)
        kept = np.flatnonzero(rng.random(len(rows)) * seen < probability)
        return _Drawn([rows[kept]], [probability[kept]]) if len(kept) else _Drawn([], [])

    total = add_up(data, drawn, most_rows=BATCH_ROWS)
    return Followed(Transitions.concatenate(total.data), 1 / np.concatenate(total.probability))


def _leverage_in_drift(
    drift: Drift, basis: Basis, sigma: Sigma, scaling: Scaling, rng: np.random.Generator
) -> Callable[[Transitions], Float]:
    """A function that says what leverage (n,) transitions have in the projection of the drift's correction."""
    noise = np.diagonal(sigma.L @ sigma.L.T)
    flat = _doubts(drift.systems, drift.unit, SHARE_OF_RIDGE, rng)
    series = basis.series(flat[:, 0], flat[:, 1:].T, scaling)
    return lambda rows: rows.h * (variances(series(rows.inputs), len(noise)) / noise).max(axis=1)


def _leverage_in_covariance(sigma: Sigma, scaling: Scaling, rng: np.random.Generator) -> Callable[[Transitions], Float]:
    """The same for the covariance's correction."""
    if sigma.basis is None:
        return lambda rows: np.zeros(len(rows))
    fit, p = sigma.fit, sigma.fit.shape.n_entries
    systems = [system._replace(variance=1.0) for system in fit.systems]
    flat = np.concatenate([fit.B.T, _doubts(systems, np.ones(p), SHARE_OF_SIGMA_RIDGE, rng)])
    series = sigma.basis.series(flat[:, 0], flat[:, 1:].T, scaling)

    def leverage(rows: Transitions) -> Float:
        values = series(rows.inputs)
        information = spectrum_and_information(fit, values[:, :p], np.ones(len(rows)))[1]
        return np.asarray((information * variances(values[:, p:], p)).max(axis=1))

    return leverage


def _doubts(systems: Sequence[Solved], unit: Float, share: float, rng: np.random.Generator) -> Float:
    """Amplitudes of DRAWS functions for each of d outputs whose squares add up, in the mean, to its variance.

    That is the variance with a share of the ridges: shape (d · DRAWS, R + 1).
    """
    few = [each._replace(P=np.where(each.P < SWITCHED_OFF, share, 1.0) * each.P) for each in systems]
    parts = []
    for own in posterior_squares(few, unit):
        values, vectors = np.linalg.eigh(own)
        root = np.sqrt(np.maximum(values, 0.0)) * vectors @ vectors.T  # which does not depend on signs of eigenvectors
        parts.append((root @ rng.normal(size=(len(own), DRAWS)) / np.sqrt(DRAWS)).T)
    return np.concatenate(parts)


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
