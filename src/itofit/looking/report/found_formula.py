"""The formula at the top of a page that was not given one: found within seconds, or why not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Float, InputError, message_of
from itofit.data.passes import Data, add_up
from itofit.data.rows import column_range
from itofit.data.transitions import Transitions
from itofit.looking.check.examined import rows_in_memory
from itofit.model.formula.finding import find_formula
from itofit.model.formula.formula_sde import Formula
from itofit.model.learned import LearnedSDE
from itofit.model.training import learned_from

MOST_ROWS = 200_000
"""Transitions of one input that a formula is looked for in; of m inputs one m²-th, half if states are hidden."""
MOST_INPUTS = 6
"""With more, the number of possible terms makes it long."""


class Found(NamedTuple):
    """A formula that was looked for on the way to a page."""

    formula: Formula | None
    why_not: str  # if there is none: a sentence
    n_data: int  # transitions of which it was found in all or some


def formula_for(sde: LearnedSDE, data: Data, held_out: Data | None = None) -> Found:
    """A formula for a model, from some of the data if there are many.

    Parameters
    ----------
    sde : LearnedSDE
    data : Transitions
        Those that were learned from, or others.
    held_out : Transitions, optional
        To judge it on instead.
    """
    if sde.n_inputs > MOST_INPUTS:
        why_not = f"With {sde.n_inputs} inputs that takes long: give formula=sde.formula(data)."
        return Found(None, why_not, len(data))
    most = MOST_ROWS // sde.n_inputs**2
    try:
        formula = find_formula(
            sde,
            _some(sde, data, most),
            terms=None,
            degree=None,
            noise="covariance",
            held_out=None if held_out is None else _some(sde, held_out, most),
            false_alarms=0.01,
            units=None,
            time_unit=None,
            seen=_seen(sde, data),
        )
    except InputError as error:
        message = message_of(error)
        return Found(None, f"{message[0].upper()}{message[1:]}.", len(data))
    return Found(formula, "", len(data))


def _some(sde: LearnedSDE, data: Data, most: int) -> Transitions:
    """At most so many of the data: evenly chosen, or if states are hidden the first ones, in half that number."""
    rows = rows_in_memory(data, np.random.default_rng(0))
    return rows[: most // 2] if sde._seen_through_filter(data) else rows[:: -(-len(rows) // most)]


def _seen(sde: LearnedSDE, data: Data) -> bool:
    """Whether data are those that a model was learned from, by their number and the range of their inputs."""
    if len(data) != sde.data.n_transitions or sde._seen_through_filter(data):
        return len(data) == sde.data.n_transitions

    def ranges(block: Transitions, number: int) -> tuple[list[Float], list[Float]]:
        low, high = column_range(block.inputs)
        return [low], [high]

    lows, highs = add_up(data, ranges)
    return learned_from(sde, len(data), np.min(lows, axis=0), np.max(highs, axis=0))
