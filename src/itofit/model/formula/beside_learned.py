"""Whether a formula predicts data as well as the learned functions, paired transition by transition, and where not.

The loss is the negative log-likelihood of a step, as `SDE.nll`. Of one line alone it is the squared error of its step's
mean, ½ h (Δx_a/h − μ_a)² / Σ_aa, or of its covariance, ½ (r_a r_b/h − C_ab)² / (Σ_aa Σ_bb + Σ_ab²), with the Σ of the
learned functions. Standard errors are those of the sums over stretches of rows, which need not be independent within.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.model.finite_step import Scheme
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.lines import Prediction, Slot, Where
from itofit.model.formula.term_sums import FOLDS, ROWS, STRETCHES, folds_of
from itofit.model.likelihood import gaussian_nll
from itofit.model.sde import SDE

BINS = 16
"""Along each input."""
LEAST_IN_BIN = 10
"""Transitions that a bin needs to be told of."""


class Differences(NamedTuple):
    """Sums of differences of losses, formula − learned."""

    stretches: Float  # (S, 1 + T): in all and of each line, by stretches
    n: Float  # (S,)
    bins: Float  # (3, m, BINS): numbers, sums, sums of squares

    def plus(self, other: Differences) -> Differences:
        """The sums of both."""
        return Differences(*(one + two for one, two in zip(self, other, strict=True)))


def compared(
    learned: SDE,
    steps: tuple[SDE, Scheme],
    formulas: Sequence[Formula],
    data: Data,
    slots: Sequence[Slot],
    optimism: float,
    how: str,
) -> tuple[Prediction, list[tuple[float, float]]]:
    """How formulas, one for each fold of rows, predict beside the learned functions: in all, and of each line.

    Parameters
    ----------
    learned : SDE
    steps : SDE and scheme
        The learned equation by which steps are predicted, and how.
    formulas : sequence of FOLDS Formula
    data : Data
    slots : sequence of T Slot
    optimism : float
        By how much the loss of the learned functions is too small because they have seen the data.
    how : str
        On which data, in words.
    """
    n_rows = len(data)
    edges = edges_of(learned.box)

    def differences(block: Transitions, number: int) -> Differences:
        fold = folds_of(number, len(block), n_rows)
        out = np.empty((len(block), 1 + len(slots)))
        for f in np.unique(fold):
            rows = np.flatnonzero(fold == f)
            out[rows] = _losses(learned, steps, formulas[f], block[rows], slots)
        return added_differences(out, block.inputs, number * ROWS, n_rows, edges)

    return told(add_up(data, differences, most_rows=ROWS), edges, optimism, how)


def edges_of(box: Float) -> Float:
    """Ends of the bins along each input of a box (2, m): shape (m, BINS + 1)."""
    return np.linspace(box[0], box[1], BINS + 1, axis=1)


def added_differences(out: Float, inputs: Float, first: int, n_rows: int, edges: Float) -> Differences:
    """Differences (n, 1 + T) of losses of rows that follow each other, added up.

    Parameters
    ----------
    out : array of shape (n, 1 + T)
        In all and of each line.
    inputs : array of shape (n, m)
    first : int
        The number of the first of these rows among all n_rows.
    n_rows : int
    edges : array of shape (m, BINS + 1)
    """
    n_stretches = FOLDS * STRETCHES
    stretch = np.minimum((first + np.arange(len(out))) * n_stretches // n_rows, n_stretches - 1)
    sums = np.stack([np.bincount(stretch, column, n_stretches).astype(float) for column in out.T], axis=1)
    return Differences(sums, np.bincount(stretch, minlength=n_stretches).astype(float), _binned(inputs, out, edges))


def told(found: Differences, edges: Float, optimism: float, how: str) -> tuple[Prediction, list[tuple[float, float]]]:
    """What differences of losses say: in all, and of each line."""
    mean, error = _mean_and_error(found.stretches, found.n)
    share = optimism / max(1, len(mean) - 1)
    where = _where(found.bins, edges, optimism)
    total = Prediction(float(mean[0] - optimism), float(error[0]), int(found.n.sum()), how, where)
    return total, [(float(a - share), float(b)) for a, b in zip(mean[1:], error[1:], strict=True)]


def _losses(
    learned: SDE, steps: tuple[SDE, Scheme], formula: Formula, rows: Transitions, slots: Sequence[Slot]
) -> Float:
    """Differences of losses of n transitions: in all and of each line, shape (n, 1 + T)."""
    x, h, dx = rows.inputs, rows.h, rows.increments
    own, other = formula._moments(x, h, formula.scheme), steps[0]._moments(x, h, steps[1])
    weights = learned.covariance(x)
    columns = [gaussian_nll(dx, h, *own) - gaussian_nll(dx, h, *other)]
    for what, a, b in slots:
        if what == "drift":
            weight = h / weights[:, a, a]
            squares = [(dx[:, a] / h - mean[:, a]) ** 2 for mean, _ in (own, other)]
        else:
            weight = 1 / (weights[:, a, a] * weights[:, b, b] + weights[:, a, b] ** 2)
            moved = [dx - h[:, None] * mean for mean, _ in (own, other)]
            squares = [
                (r[:, a] * r[:, b] / h - step[:, a, b]) ** 2 for r, (_, step) in zip(moved, (own, other), strict=True)
            ]
        columns.append(0.5 * weight * (squares[0] - squares[1]))
    return np.stack(columns, axis=1)


def _binned(inputs: Float, out: Float, edges: Float) -> Float:
    bins = np.zeros((3, len(edges), BINS))
    for i, (values, ends) in enumerate(zip(inputs.T, edges, strict=True)):
        place = np.clip(np.searchsorted(ends, values, side="right") - 1, 0, BINS - 1)
        for power in range(3):
            bins[power, i] = np.bincount(place, out[:, 0] ** power, BINS)
    return bins


def _where(bins: Float, edges: Float, optimism: float) -> Where:
    n, total, squares = bins
    enough = n >= LEAST_IN_BIN
    safe = np.maximum(n, 1.0)
    mean = total / safe
    error = np.sqrt(np.maximum(squares / safe - mean**2, 0.0) / safe)
    return Where(edges, n / n.sum(axis=1, keepdims=True), np.where(enough, mean - optimism, np.nan),
                 np.where(enough, error, np.nan))  # fmt: skip


def _mean_and_error(sums: Float, n: Float) -> tuple[Float, Float]:
    """Means over all rows, and their standard errors from the spread of stretches."""
    full = n > 0
    sums, n = sums[full], n[full]
    mean = sums.sum(axis=0) / n.sum()
    spread = ((sums - n[:, None] * mean) ** 2).sum(axis=0) * len(n) / max(len(n) - 1, 1)
    return mean, np.sqrt(spread) / n.sum()
