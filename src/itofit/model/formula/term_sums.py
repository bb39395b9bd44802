"""What data say of the coefficients of terms: weighted normal equations, one pass over the data.

=======  ===============  ==========================================================================================
symbol   shape            meaning
=======  ===============  ==========================================================================================
φ        (n, K)           values of the terms
y        (n, T)           targets: what each transition says of each of the T lines
w        (n, T)           one over the variance of that
G, M     (F, T, K, K),    Σ w φ φᵀ and Σ w φ y over each of F folds, stretches of rows that follow each other
         (F, T, K)
=======  ===============  ==========================================================================================

With the mean h·μ and covariance h·C of a step as a present equation has them, f and Σ its functions, and r = Δx − h μ,

    y of f_a   = Δx_a/h − (μ − f)_a            w = h / Σ_aa
    y of Σ_ab  = r_a r_b/h − (C − Σ)_ab        w = 1 / (Σ_aa Σ_bb + Σ_ab²)
    y of σ     = L + L·half(z zᵀ − 1),         z = L_C⁻¹ r/√h, half: lower triangle with half of its diagonal

which are those of the equation and not of its finite steps. The weights are those of the learned Σ, and calibrated: the
mean of w (y − ŷ)² should be one wherever the noise is small or large. It is measured in classes of 1/w and divided by,
so that a learned Σ that is wrong where it is small, or increments that are not Gaussian there, do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.finite_step import Scheme, at_least
from itofit.model.formula.library import Term, values_of
from itofit.model.formula.lines import Slot
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

FOLDS = 5
STRETCHES = 10
"""Of rows that follow each other in each fold."""
ROWS = 32_768
"""Rows whose terms are held at once."""
CLASSES = 24
"""Of predicted variances, in which weights are calibrated: from 10⁻⁸ to 10⁴ of the mean one."""
LEAST_NOISE = 0.1
"""Of the mean covariance: where Σ is less in some direction, transitions count as if it were so much. There a step is
often made of few events, and most say nothing."""
PRIOR_ROWS = 300.0
"""That a class needs for its own calibration: it counts as if so many more rows were like the mean of all."""


class TermSums(NamedTuple):
    """Normal equations of T lines in K terms, for each of F folds."""

    G: Float  # (F, T, K, K)
    M: Float  # (F, T, K)
    squares: Float  # (F, T): Σ w (y − the present equation's)²
    n: Float  # (F,)
    classes: Float  # (2, T, CLASSES): rows, and Σ w (y − the present equation's)² with weights before calibration
    low: Float  # (m,): smallest inputs
    high: Float  # (m,)

    def plus(self, other: TermSums) -> TermSums:
        """The sums of both."""
        added = (one + two for one, two in zip(self[:5], other[:5], strict=True))
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return TermSums._make((*added, *ends))

    def without(self, fold: int | None) -> tuple[Float, Float]:
        """G (T, K, K) and M (T, K) of all folds but one, in units in which targets have variance 1/w."""
        kept = [f for f in range(len(self.n)) if f != fold]
        noise = self.squares.sum(axis=0) / self.n.sum()
        return self.G[kept].sum(axis=0) / noise[:, None, None], self.M[kept].sum(axis=0) / noise[:, None]

    @property
    def calibration(self) -> Float:
        """By what weights before calibration are divided in each class: shape (T, CLASSES)."""
        n, squares = self.classes
        mean = squares.sum(axis=1, keepdims=True) / n.sum(axis=1, keepdims=True)
        return np.asarray((squares + PRIOR_ROWS * mean) / (n + PRIOR_ROWS))


class Targets(NamedTuple):
    """What transitions say of lines."""

    y: Float  # (n, T)
    w: Float  # (n, T)
    present: Float  # (n, T): what the present equation says
    noise: Float  # (n, T): what classes are made by, the learned variance without the length of the step


def summed(
    data: Data,
    terms: Sequence[Term],
    slots: Sequence[Slot],
    learned: LearnedSDE,
    present: SDE,
    scheme: Scheme,
    calibration: Float | None = None,
) -> TermSums:
    """One pass over the data.

    Parameters
    ----------
    data : Data
    terms : sequence of K Term
    slots : sequence of T Slot
    learned : LearnedSDE
        Whose Σ weights the transitions.
    present : SDE
        Whose steps say what their length makes of drift and covariance.
    scheme : {"euler", "corrected"}
        Whether it makes anything of them.
    calibration : array of shape (T, CLASSES), optional
        Of the weights, from an earlier pass.
    """
    n_rows = len(data)
    typical = typical_noise(slots, learned.floor_factor)
    divisor = np.ones((len(slots), CLASSES)) if calibration is None else calibration

    def sums(block: Transitions, number: int) -> TermSums:
        phi = values_of(terms, block.inputs)
        y, w, now, noise = targets(block, slots, learned, present, scheme)
        place = np.clip((2 * np.log10(noise / typical) + 2 * CLASSES / 3).astype(int), 0, CLASSES - 1)
        classes = np.empty((2, len(slots), CLASSES))
        error = w * (y - now) ** 2
        for t in range(len(slots)):
            classes[0, t] = np.bincount(place[:, t], minlength=CLASSES)
            classes[1, t] = np.bincount(place[:, t], error[:, t], CLASSES)
            w[:, t] /= divisor[t, place[:, t]]
        fold = folds_of(number, len(block), n_rows)
        K, T = phi.shape[1], y.shape[1]
        G, M = np.zeros((FOLDS, T, K, K)), np.zeros((FOLDS, T, K))
        squares, n = np.zeros((FOLDS, T)), np.bincount(fold, minlength=FOLDS).astype(float)
        for f in np.flatnonzero(n):
            rows = fold == f
            part, weight, target = phi[rows], w[rows], y[rows]
            for t in range(T):
                weighted = part * weight[:, t, None]
                G[f, t], M[f, t] = part.T @ weighted, weighted.T @ target[:, t]
            squares[f] = (weight * (target - now[rows]) ** 2).sum(axis=0)
        return TermSums(G, M, squares, n, classes, block.inputs.min(axis=0), block.inputs.max(axis=0))

    with one_blas_thread:
        return add_up(data, sums, most_rows=ROWS)


def typical_noise(slots: Sequence[Slot], L: Float) -> Float:
    """What the predicted variances are measured by: those of the mean covariance L Lᵀ, shape (T,)."""
    mean = (L @ L.T)[None]
    return np.array([_noise(slot, mean)[0] for slot in slots])


def _noise(slot: Slot, sigma: Float) -> Float:
    """The size of the noise in what a transition says of a line: a variance, or the square root of one of squares."""
    what, a, b = slot
    if what == "covariance":
        return np.sqrt(sigma[:, a, a] * sigma[:, b, b] + sigma[:, a, b] ** 2)
    return np.asarray(sigma[:, a, a])


def folds_of(number: int, n: int, n_rows: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The fold of each of n rows of a part with a number."""
    return ((number * ROWS + np.arange(n)) * (FOLDS * STRETCHES) // n_rows) % FOLDS


def targets(block: Transitions, slots: Sequence[Slot], learned: LearnedSDE, present: SDE, scheme: Scheme) -> Targets:
    """What each transition says of each line, and how surely."""
    x, h, dx = block.inputs, block.h, block.increments
    f, sigma = present.drift(x), present.covariance(x)
    mean, step = (f, sigma) if scheme == "euler" else present._moments(x, h, scheme)
    weights = at_least(
        sigma if learned is present else learned.covariance(x),
        np.broadcast_to(learned.floor_factor @ learned.floor_factor.T, sigma.shape),
        LEAST_NOISE,
    )
    r = dx - h[:, None] * mean
    found = [
        _of_drift(slot, dx / h[:, None] - (mean - f), f, h, weights)
        if slot.what == "drift"
        else _of_covariance(slot, r, h, step - sigma, sigma, weights)
        for slot in slots
        if slot.what != "diffusion"
    ]
    if slots[-1].what == "diffusion":
        found += _of_diffusion([slot for slot in slots if slot.what == "diffusion"], r, h, step, sigma, weights)
    noise = np.stack([_noise(slot, weights) for slot in slots], axis=1)
    return Targets._make((*(np.stack(part, axis=1) for part in zip(*found, strict=True)), noise))


def _of_drift(slot: Slot, rates: Float, f: Float, h: Float, weights: Float) -> tuple[Float, Float, Float]:
    a = slot.row
    return rates[:, a], h / weights[:, a, a], f[:, a]


def _of_covariance(
    slot: Slot, r: Float, h: Float, change: Float, sigma: Float, weights: Float
) -> tuple[Float, Float, Float]:
    _, a, b = slot
    variance = weights[:, a, a] * weights[:, b, b] + weights[:, a, b] ** 2
    return r[:, a] * r[:, b] / h - change[:, a, b], 1 / variance, sigma[:, a, b]


def _of_diffusion(
    slots: Sequence[Slot], r: Float, h: Float, step: Float, sigma: Float, weights: Float
) -> list[tuple[Float, Float, Float]]:
    """Entries of the lower triangular σ: one step of scoring from the present one."""
    d = r.shape[1]
    L, scale = factors(sigma), factors(weights)
    z = np.linalg.solve(factors(step), r[:, :, None])[:, :, 0] / np.sqrt(h)[:, None]
    half = np.tril(z[:, :, None] * z[:, None, :] - np.eye(d), -1)
    diagonal = np.arange(d)
    half[:, diagonal, diagonal] = 0.5 * (z**2 - 1)
    change = L @ half
    found = []
    for _, a, b in slots:
        variance = 0.5 * scale[:, a, b] ** 2 + (scale[:, a, b + 1 : a + 1] ** 2).sum(axis=1)
        found.append((L[:, a, b] + change[:, a, b], 1 / variance, L[:, a, b]))
    return found
