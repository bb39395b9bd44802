"""What observations through a filter say of the coefficients of terms: normal equations of all lines together.

Where the state is hidden behind errors of measurement, or velocities are not observed at all, no transition says by
itself what a drift is. But innovations do, and so the same terms have normal equations (`model.hidden.sensitivities`):

=======  ================  =========================================================================================
symbol   shape             meaning
=======  ================  =========================================================================================
φ        (n, K)            values of the terms, averaged over where the state is during a step
c        (T·K,)            coefficients of T lines, line by line
g, I     (q,), (q, q)      score and information of parameters, at a present equation
Λ        (d (d + 1)/2,)    entries of the covariance of the errors of measurement
=======  ================  =========================================================================================

The present functions need not be sums of terms: each is one more feature, whose coefficient is one. With p for these,

    G = I_cc,    M = g_c + I_cp·1 + I_cΛ Λ,

are the equations G c = M of the step of scoring that leaves the present functions for sums of terms. Unless Λ is known
it is solved for with the terms of the noise, and eliminated from their equations:

    G' = G − I_cΛ I_ΛΛ⁻¹ I_Λc,    M' = M − I_cΛ I_ΛΛ⁻¹ (g_Λ + I_Λp·1 + I_ΛΛ Λ).

Where errors of measurement or steps have heavy tails, innovations in units of their predicted spread do not have the
variance one, nor their squares the variance two: both sides are divided by what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.periods import endless
from itofit.matrices.small_matrices import inverse_of_root, lower_root
from itofit.matrices.symmetric import entries, factors
from itofit.model.finite_step import START_WEIGHT, Scheme
from itofit.model.formula.library import Term, values_of
from itofit.model.formula.lines import Slot
from itofit.model.hidden.gaussian_step import with_held
from itofit.model.hidden.observed import Observed, Observer
from itofit.model.hidden.sensitivities import Normal, error_directions, of_drift, of_noise
from itofit.model.hidden.tracking import Filtered
from itofit.model.hidden.windows import Chunk, InOrder, Overlapping


class FilteredSums(NamedTuple):
    """What the filter of a present equation says of terms, added up over the data."""

    drift: Normal  # of d (K + d) coefficients
    noise: Normal  # of p (K + p) coefficients and the entries of Λ
    squares: Float  # (2,): of whitened innovations, and of their products above what is expected
    n: int

    def plus(self, other: FilteredSums) -> FilteredSums:
        """Those of more data."""
        return FilteredSums(
            self.drift.plus(other.drift), self.noise.plus(other.noise), self.squares + other.squares, self.n + other.n
        )


class Equations(NamedTuple):
    """Normal equations of the terms of the drift's lines, or of those of the noise."""

    G: Float  # (T K, T K)
    M: Float  # (T K,)


class Errors(NamedTuple):
    """How Λ follows from the coefficients of the noise: alone − slope c, with a covariance given these."""

    alone: Float  # (q,)
    slope: Float  # (q, T K)
    covariance: Float  # (q, q)

    def at(self, coefficients: Float, covariance: Float) -> tuple[Float, Float]:
        """Entries of Λ and their covariance, for all coefficients of the noise (T K,) and the covariance of these."""
        return self.alone - self.slope @ coefficients, self.covariance + self.slope @ covariance @ self.slope.T


def filtered_sums(
    data: Data, terms: Sequence[Term], slots: Sequence[Slot], present: Observed, h: float, scheme: Scheme
) -> FilteredSums:
    """One pass over the data.

    Parameters
    ----------
    data : Data
        Observations: of noisy states, or of positions.
    terms : sequence of K Term
    slots : sequence of Slot
        The lines: d of the drift, then those of the noise.
    present : Observed
        The equation that the filter has.
    h : float
        Typical length of steps.
    scheme : {"euler", "corrected"}
        The moments of its steps.
    """
    observer = Observer(present, data, h, scheme)
    d = len(present.floor_factor)
    noise_slots = slots[d:]
    errors, box = error_directions(d), endless(present.box, present.periods)

    def of_block(block: Overlapping, number: int) -> FilteredSums:
        total: FilteredSums | None = None
        for chunk, found in observer.filtered(block):
            T, W = found.mean_before.shape[:2]
            u = chunk.u.reshape(T * W, -1)
            values = _mean_over_step(found, u, partial(_values, terms, noise_slots, present), box, scheme)
            phi, drift, noise = np.split(values.reshape(T, W, -1), [len(terms), len(terms) + d], axis=2)
            at = with_held(found.m[:-1].reshape(T * W, -1), u)
            changes = _changes(noise_slots, present.covariance(np.clip(at, *box)))
            features = [np.concatenate([phi, now], axis=2) for now in (drift, noise)]
            own = FilteredSums(
                of_drift(found, chunk, features[0]),
                of_noise(found, chunk, features[1], changes.reshape(T, W, *changes.shape[1:]), errors),
                _squares(found, chunk),
                chunk.n_kept,
            )
            total = own if total is None else total.plus(own)
        assert total is not None
        return total

    with one_blas_thread, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return add_up(InOrder(data, observer.overlap), of_block)


def _mean_over_step(found: Filtered, u: Float, function: Callable[[Float], Float], box: Float, scheme: Scheme) -> Float:
    """Means of functions over steps, (n, D + k) to (n, q), for all T·W of a filter, driven by u (T W, k): (T W, q).

    What moves a state is what functions are on its way: at its start and, three times as much, where two thirds of the
    step have passed, over the points of a Gaussian state there, by the rule that steps are made with.
    """
    D = found.m.shape[2]
    start, P = found.m[:-1].reshape(-1, D), found.P[:-1].reshape(-1, D, D)
    end, P_end = found.mean_before.reshape(-1, D), found.covariance_before.reshape(-1, D, D)

    def mean(share: float) -> Float:
        root = lower_root(P + share * (P_end - P))
        columns = np.sqrt(D) * root.transpose(2, 0, 1)
        middle = start + share * (end - start)
        points = np.concatenate([middle + columns, middle - columns])  # (2D, n, D)
        values = function(np.clip(with_held(points.reshape(-1, D), u), *box))
        return np.asarray(values.reshape(2 * D, len(start), -1).mean(axis=0))

    return mean(0.0) if scheme == "euler" else START_WEIGHT * mean(0.0) + (1 - START_WEIGHT) * mean(2 / 3)


def _values(terms: Sequence[Term], slots: Sequence[Slot], present: Observed, x: Float) -> Float:
    """Values of K terms, of d drifts and of p lines of the noise at points (n, D): shape (n, K + d + p)."""
    sigma = present.covariance(x)
    matrices = factors(sigma) if slots[0].what == "diffusion" else sigma
    own = np.stack([matrices[:, slot.row, slot.column] for slot in slots], axis=1)
    return np.concatenate([values_of(terms, x), present.drift(x), own], axis=1)


def _changes(slots: Sequence[Slot], sigma: Float) -> Float:
    """How Σ (n, d, d) changes with each of p lines of the noise: shape (n, p, d, d)."""
    units = np.zeros((len(slots), *sigma.shape[1:]))
    for number, slot in enumerate(slots):
        units[number, slot.row, slot.column] = 1.0
    if slots[0].what == "diffusion":
        half = units @ factors(sigma)[:, None].swapaxes(2, 3)
        return np.asarray(half + half.swapaxes(2, 3))
    both = np.maximum(units, units.swapaxes(1, 2))
    return np.broadcast_to(both, (len(sigma), *both.shape))


def _squares(found: Filtered, chunk: Chunk) -> Float:
    """Sums of squares of innovations, and of their products above those expected, each one on average if right."""
    v, S = found.v[chunk.kept], found.S[chunk.kept]
    white = (inverse_of_root(lower_root(S)) @ v[:, :, None])[:, :, 0]
    i, j = entries("full", v.shape[1])
    over = (white[:, i] * white[:, j] - (i == j)) * np.where(i == j, np.sqrt(0.5), 1.0)
    return np.array([(white**2).sum() / v.shape[1], (over**2).sum() / len(i)])


def drift_equations(sums: FilteredSums, d: int) -> Equations:
    """Of the terms of the d lines of the drift."""
    terms, now = _places(len(sums.drift.score), d)
    return _equations(sums.drift, terms, now, sums.squares[0] / sums.n)


def noise_equations(sums: FilteredSums, p: int, errors: Float, *, known: bool) -> tuple[Equations, Errors | None]:
    """Of the terms of p lines of the noise, without Λ, and what Λ is once these are known.

    Parameters
    ----------
    sums : FilteredSums
    p : int
    errors : array of shape (q,)
        The entries of Λ that the present equation has.
    known : bool
        Whether they stay as they are.
    """
    information, score = sums.noise
    q, size = len(errors), sums.squares[1] / sums.n
    terms, now = _places(len(score) - q, p)
    if known:
        return _equations(sums.noise, terms, now, size), None
    last = np.arange(len(score) - q, len(score))
    both = _equations(sums.noise, np.concatenate([terms, last]), now, size)
    k = len(terms)
    M = both.M + information[np.concatenate([terms, last])][:, last] @ errors / size
    cross, back = both.G[:k, k:], np.asarray(np.linalg.inv(both.G[k:, k:]), dtype=np.float64)
    slope = back @ cross.T
    return Equations(both.G[:k, :k] - cross @ slope, M[:k] - slope.T @ M[k:]), Errors(back @ M[k:], slope, back)


def _places(n: int, n_lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the coefficients of terms are among n of some lines, and where each line's own present function is."""
    each = n // n_lines
    place = np.arange(n).reshape(n_lines, each)
    K = each - n_lines
    return place[:, :K].ravel(), place[np.arange(n_lines), K + np.arange(n_lines)]


def _equations(normal: Normal, terms: np.ndarray, now: np.ndarray, size: float) -> Equations:
    information, score = normal
    M = score[terms] + information[np.ix_(terms, now)].sum(axis=1)
    return Equations(information[np.ix_(terms, terms)] / size, M / size)
