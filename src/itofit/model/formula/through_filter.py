"""A formula for an equation whose states are hidden: behind errors of measurement, or velocities behind positions.

Terms are chosen as for observed states, on normal equations that innovations make (`filtered_sums`): of all lines of
the drift together and of all lines of the noise together, for through a filter the lines are not independent. The first
round starts from the learned functions, later ones from the formula itself, until its coefficients no longer change.
Its errors of measurement are estimated with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.rows import PASS_ROWS
from itofit.matrices.symmetric import entries
from itofit.model.formula.beside_learned import Differences, added_differences, edges_of, told
from itofit.model.formula.filtered_sums import Equations, Errors, drift_equations, filtered_sums, noise_equations
from itofit.model.formula.formula_sde import Formula
from itofit.model.formula.library import Term
from itofit.model.formula.lines import Line, Prediction, Slot
from itofit.model.formula.selection import Chosen, choose, same_choice
from itofit.model.hidden.observed import Observed, Observer
from itofit.model.hidden.sensitivities import error_directions, positive_part
from itofit.model.hidden.windows import InOrder, Overlapping
from itofit.model.measurement import MeasurementNoise

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE


class Hidden(NamedTuple):
    """What is asked of data with hidden states."""

    sde: LearnedSDE
    data: Data
    terms: list[Term]
    slots: list[Slot]
    empty: Formula

    @property
    def n_drift(self) -> int:
        """Lines of the drift."""
        return self.sde.n_outputs

    @property
    def h(self) -> float:
        """The mean length of a step."""
        return self.sde.data.h_mean

    def with_terms(self, places: Sequence[int]) -> Hidden:
        """The same with some of the terms."""
        return self._replace(terms=[self.terms[k] for k in places])

    def equations(self, present: LearnedSDE | Formula) -> Round:
        """One pass over the data with the filter of an equation."""
        sums = filtered_sums(self.data, self.terms, self.slots, present, self.h, self.empty.scheme)
        noise = present.measurement_noise
        d = self.n_drift
        errors = np.zeros(d * (d + 1) // 2) if noise is None else noise.covariance[entries("full", d)]
        known = noise is None or noise.known
        drift = drift_equations(sums, d)
        of_noise, of_errors = noise_equations(sums, len(self.slots) - d, errors, known=known)
        return Round(drift, of_noise, of_errors, noise)


class Round(NamedTuple):
    """The equations of both kinds of lines, and how errors of measurement follow."""

    drift: Equations
    noise: Equations
    errors: Errors | None
    before: MeasurementNoise | None


def settled_through_filter(asked: Hidden, first: Round, price: float, most_rounds: int, share: float) -> Formula:
    """The formula whose own filter leads to no other one.

    Parameters
    ----------
    asked : Hidden
    first : Round
        From the learned functions.
    price : float
        Of a term.
    most_rounds : int
    share : float
        Of their standard errors, by which coefficients may still change.
    """
    formula, chosen = _with_round(asked, first, price, None)
    for _ in range(most_rounds):
        before = chosen
        formula, chosen = _with_round(asked, asked.equations(formula), price, before)
        if all(same_choice(one, two, share) for one, two in zip(before, chosen, strict=True)):
            break
    return formula


def _with_round(
    asked: Hidden, found: Round, price: float, before: Sequence[Chosen] | None
) -> tuple[Formula, tuple[Chosen, Chosen]]:
    """The formula that normal equations lead to: the choice for the drift and for the noise."""
    starts = (None, None) if before is None else tuple(one.places for one in before)
    drift = choose(*found.drift, price, starts[0])
    noise = choose(*found.noise, price, starts[1])
    K, d = len(asked.terms), asked.n_drift
    lines = [*_lines(drift, asked.slots[:d], asked.terms), *_lines(noise, asked.slots[d:], asked.terms)]
    formula = replace(
        asked.empty,
        drift_lines=tuple(lines[:d]),
        noise_lines=tuple(lines[d:]),
        measurement_noise=_measured(found, noise, K * (len(asked.slots) - d)),
    )
    return formula, (drift, noise)


def _measured(found: Round, noise: Chosen, n: int) -> MeasurementNoise | None:
    """Errors of measurement that belong to chosen terms, of n in all."""
    before = found.before
    if before is None or found.errors is None:
        return before
    coefficients, covariance = np.zeros(n), np.zeros((n, n))
    coefficients[noise.places] = noise.coefficients
    covariance[np.ix_(noise.places, noise.places)] = noise.covariance
    values, spread = found.errors.at(coefficients, covariance)
    directions = error_directions(len(before.covariance))
    return replace(
        before,
        covariance=positive_part(np.tensordot(values, directions, 1), before.covariance),
        std=np.tensordot(np.sqrt(np.maximum(np.diagonal(spread), 0.0)), directions, 1),
    )


def _lines(chosen: Chosen, slots: Sequence[Slot], terms: Sequence[Term]) -> list[Line]:
    """The lines of a choice among all terms of several lines."""
    K, lines = len(terms), []
    for number, slot in enumerate(slots):
        own = np.flatnonzero(chosen.places // K == number)
        lines.append(
            Line(
                slot=slot,
                terms=tuple(terms[k] for k in chosen.places[own] % K),
                coefficients=chosen.coefficients[own],
                covariance=chosen.covariance[np.ix_(own, own)],
            )
        )
    return lines


# How it predicts


def judged_through_filter(asked: Hidden, formula: Formula, held_out: Data | None, seen: bool | None) -> Formula:
    """The formula with how it predicts observations, given those before them.

    Its coefficients are not solved again for each fold, which would take as many passes: what is expected of having
    seen the data, one over the number of transitions for each coefficient or amplitude, is taken into account instead.
    """
    sde = asked.sde
    if held_out is not None:
        rows, optimism = held_out, 0.0
        how = f"{len(rows):,} held-out observations, each given those before it"
    else:
        rows, n = asked.data, len(asked.data)
        seen = n == sde.data.n_transitions if seen is None else seen
        own = sde.n_determined * n / sde.data.n_transitions if seen else 0.0
        optimism = (own - formula.n_terms) / n
        how = (
            f"{n:,} observations, each given those before it; for having seen them, {formula.n_terms / n:.1g} is added "
            f"for the formula and {own / n:.1g} taken off for the learned functions"
        )
    prediction, clipped = _compared(asked, sde, formula, rows, optimism, how)
    d = asked.n_drift
    each = [_compared(asked, _Mixed(sde, formula, number), formula, rows, 0.0, "")[0] for number in range(d + 1)]
    return replace(
        formula,
        drift_lines=tuple(map(_with_difference, formula.drift_lines, each)),
        noise_lines=tuple(_with_difference(line, each[d]) for line in formula.noise_lines),
        prediction=prediction,
        clipped_share=clipped / len(rows),
    )


def _compared(
    asked: Hidden, other: Observed, formula: Formula, data: Data, optimism: float, how: str
) -> tuple[Prediction, int]:
    """How a formula predicts beside another equation, and at how many places its Σ had to be limited."""
    observers = [Observer(each, data, asked.h, asked.empty.scheme) for each in (formula, other)]
    n_rows, edges = len(data), edges_of(asked.sde.box)

    def differences(block: Overlapping, number: int) -> tuple[Differences, int]:
        own, theirs = (observer.innovations(block) for observer in observers)
        loss = (own.loss - theirs.loss)[:, None]
        at = np.clip(theirs.inputs, *asked.sde._range)
        return added_differences(loss, at, number * PASS_ROWS, n_rows, edges), int(formula.floored(at).sum())

    with one_blas_thread:
        found, clipped = add_up(InOrder(data, max(each.overlap for each in observers)), differences)
    return told(found, edges, optimism, how)[0], clipped


def _with_difference(line: Line, prediction: Prediction) -> Line:
    """A line with its loss above that of the learned function in its place."""
    return replace(line, difference=prediction.difference, error=prediction.error)


class _Mixed:
    """A formula of which one line of the drift, or after these all of the noise, is what was learned."""

    def __init__(self, sde: LearnedSDE, formula: Formula, number: int) -> None:
        self.sde, self.formula, self.number = sde, formula, number
        self.box, self.floor_factor = formula.box, formula.floor_factor
        self.periods, self.n_covariates = formula.periods, formula.n_covariates
        self.of_drift = number < formula.n_outputs
        self.measurement_noise = (formula if self.of_drift else sde).measurement_noise
        self.hidden_velocity = formula.hidden_velocity

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at points (n, m): shape (n, d)."""
        f = self.formula.drift(x)
        if self.of_drift:
            f[:, self.number] = self.sde.drift(x)[:, self.number]
        return f

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ at points (n, m): shape (n, d, d)."""
        return (self.formula if self.of_drift else self.sde).covariance(x)
