"""Errors of coefficients whose steps were undone: what a step shows depends less on them the longer it is.

Coefficients c of all lines solve Σ w φ (y − m(c)) = 0, where m are the moments of a step as the formula makes it. With
J = Σ w φ (∂m/∂c)ᵀ and A = G⁻¹ J, which tends to one for short steps, their covariance is A⁻¹ G⁻¹ A⁻ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.library import values_of
from itofit.model.formula.lines import Slot
from itofit.model.formula.term_sums import targets

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

ROWS = 4_000
"""Transitions from which A is made."""
SHIFT = 0.1
"""Errors by which a coefficient is changed to see what it changes."""


def with_step_errors(formula: Formula, sde: LearnedSDE, data: Data, slots: Sequence[Slot]) -> Formula:
    """The formula with the covariances of its coefficients as they are after its steps were undone."""
    lines = [*formula.drift_lines, *formula.noise_lines]
    if not formula.corrected or not formula.n_terms:
        return formula
    rows = _some_rows(data)
    x, h = rows.inputs, rows.h
    weights = targets(rows, slots, sde, formula, "euler").w
    phi = [values_of(line.terms, x) for line in lines]
    weighted = [p * weights[:, t, None] for t, p in enumerate(phi)]
    G = scipy.linalg.block_diag(*(p.T @ q for p, q in zip(phi, weighted, strict=True)))
    own = scipy.linalg.block_diag(*(line.covariance for line in lines))
    J = np.empty_like(G)
    column = 0
    for t, line in enumerate(lines):
        for k, step in enumerate(SHIFT * line.std):
            ends = [_moved(formula, t, k, sign * step)._moments(x, h, "corrected") for sign in (1, -1)]
            mean, covariance = ((up - down) / (2 * step) for up, down in zip(*ends, strict=True))
            J[:, column] = np.concatenate(
                [q.T @ each for q, each in zip(weighted, _changes(formula, x, h, slots, mean, covariance), strict=True)]
            )
            column += 1
    unit = np.sqrt(np.diagonal(own))  # all in units of the errors, so that no matrix is badly scaled
    A = np.linalg.solve(G * np.outer(unit, unit), J * np.outer(unit, unit))
    back = np.linalg.inv(A)
    total = np.outer(unit, unit) * (back @ (own / np.outer(unit, unit)) @ back.T)
    return _with_covariances(formula, total)


def _some_rows(data: Data) -> Transitions:
    """Transitions from all of the data, evenly."""
    every = max(1, len(data) // ROWS)
    parts = add_up(data, lambda block, number: [block[np.arange(0, len(block), every)]])
    return parts[0] if len(parts) == 1 else Transitions.concatenate(parts)


def _moved(formula: Formula, t: int, k: int, by: float) -> Formula:
    """The formula with one coefficient changed."""
    lines = [*formula.drift_lines, *formula.noise_lines]
    coefficients = lines[t].coefficients.copy()
    coefficients[k] += by
    lines[t] = replace(lines[t], coefficients=coefficients)
    d = formula.n_outputs
    return replace(formula, drift_lines=tuple(lines[:d]), noise_lines=tuple(lines[d:]))


def _changes(
    formula: Formula, x: Float, h: Float, slots: Sequence[Slot], mean: Float, covariance: Float
) -> list[Float]:
    """How what is compared with the targets changes, given the changes of mean (n, d) and covariance (n, d, d)."""
    if slots[-1].what == "diffusion":
        L = factors(formula.covariance(x))
        back = np.linalg.inv(factors(formula._moments(x, h, "corrected")[1]))
        half = np.tril(back @ covariance @ back.swapaxes(1, 2))
        diagonal = np.arange(len(L[0]))
        half[:, diagonal, diagonal] *= 0.5
        covariance = L @ half
    return [mean[:, a] if what == "drift" else covariance[:, a, b] for what, a, b in slots]


def _with_covariances(formula: Formula, total: Float) -> Formula:
    """The formula with the blocks of a covariance of all coefficients."""
    lines, start = [], 0
    for line in (*formula.drift_lines, *formula.noise_lines):
        own = slice(start, start + len(line.terms))
        lines.append(replace(line, covariance=total[own, own]))
        start = own.stop
    d = formula.n_outputs
    return replace(formula, drift_lines=tuple(lines[:d]), noise_lines=tuple(lines[d:]))
