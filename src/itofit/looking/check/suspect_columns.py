"""Columns that are not what they seem: copies and combinations of others, and angles that were cut at a turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Either, Float, Message
from itofit._progress import Progress
from itofit.data.covariates import moving
from itofit.data.dependence import TAKES_PART, dependent_input
from itofit.data.periods import is_periodic
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding
from itofit.looking.check.phrases import percent
from itofit.looking.check.thresholds import FEW_TURNS, NEARLY_DEPENDENT, SHORT_OF_A_TURN

TURNS = {
    2 * np.pi: ("2 * np.pi", "2pi", "(-np.pi, np.pi)", "-3.14159265:3.14159265"),
    360.0: ("360", "360", "(-180, 180)", "-180:180"),
    24.0: ("24", "24", "(-12, 12)", "-12:12"),
}
"""Periods of angles and hours: as Python and the command line write them, from zero on and around it."""
PARTS = 10
"""Of the range of a column; one that turns round is seen in most of them, one that jumps between two states is not."""
LEAST_TURNS = 2
"""Jumps from end to end that make a cut."""


# Copies and combinations


def dependent_columns(rows: ExaminedRows) -> Finding | None:
    """A finding if an input, or the motion of an output, follows from others: all of it, or nearly."""
    data = rows.observed
    n, names = len(data), rows.inputs[: data.n_inputs]
    for values, labels, moves in ((data.increments, rows.outputs, True), (data.inputs, names, False)):
        if values.shape[1] < 2 or n <= values.shape[1] or not (values.std(axis=0) > 0).all():
            continue
        told = _relation(values, labels, data.h)
        if told is not None:
            return _dependence(*told, moves=moves)
    return None


def _relation(values: Float, names: tuple[str, ...], h: Float) -> tuple[str, str, float] | None:
    """A column of values (n, m), how it follows from which others, and the share of it that does not."""
    table = Transitions._trusted(values, values, h, None, "general", names, names)
    with Progress(False) as progress:
        found = dependent_input(table, survey(table, progress))
    if found is not None:
        of = " and ".join(names[place] for place in found.others)
        relation = "copy" if found.copies else "linear function" if len(found.others) == 1 else "linear combination"
        return names[found.column], f"a {relation} of {of}", 0.0
    u = (values - values.mean(axis=0)) / values.std(axis=0)
    own = np.abs(np.diagonal(np.linalg.qr(u, mode="r"))) / np.sqrt(len(u))
    column = int(np.argmin(own))
    if own[column] >= NEARLY_DEPENDENT:
        return None
    weights = np.linalg.lstsq(u[:, :column], u[:, column])[0]
    of = " and ".join(names[place] for place in np.flatnonzero(np.abs(weights) > max(TAKES_PART, NEARLY_DEPENDENT)))
    return names[column], f"nearly a linear function of {of}", float(own[column])


def _dependence(column: str, relation: str, own: float, moves: bool) -> Finding:
    what = f"The motion of {column}" if moves else column
    rest = f"; {percent(own, 2)} of its spread is its own" if own else " in every row"
    return Finding(
        name="columns",
        title="columns",
        values={"own_share": own},
        numbers=f"{column} is {relation}",
        verdict="bad" if moves and not own else "caution",
        text=f"{what} is {relation}{rest}: "
        + ("there is less noise than variables." if moves else "the effects of these cannot be told apart here."),
        advice=Message(
            "{left_out}, or judge the model on data in which they differ.",
            left_out=Either("Leave one of these columns out", "Leave one of them out of --state or --covariate"),
        ),
    )


# Angles


class Turn(NamedTuple):
    """A column that jumps from one end of its range to the other, as an angle does that was cut at a turn."""

    name: str
    period: float
    low: float
    n: int  # jumps


def wrapped_angle(rows: ExaminedRows) -> Finding | None:
    """A finding if a variable that is not known as periodic jumps by a whole turn."""
    data = rows.observed
    x, steps, first = data.inputs[:, moving(data)], data.increments, moving(data).start
    if data.kind == "underdamped" and data.groups is not None:  # positions move from row to row
        d, groups = data.n_outputs, data.groups[rows.order]
        x, same = data.inputs[rows.order, :d], groups[1:] == groups[:-1]
        x, steps, first = x[:-1][same], np.diff(x, axis=0)[same], 0
    elif data.kind not in ("diffusion", "positions"):
        return None
    for i in range(x.shape[1]):
        if len(x) and not is_periodic(data.periods)[first + i]:
            turn = turn_of(x[:, i], steps[:, i], rows.inputs[first + i])
            if turn is not None:
                return _turning(turn, len(x))
    return None


def turn_of(x: Float, steps: Float, name: str) -> Turn | None:
    """The turn of a column (n,) with its steps (n,): jumps over most of its range, which one turn makes short.

    The range of a cut angle is its period, less a part of a step. A column that jumps between two states has no known
    period, and is not seen on the way: so the period must be that of an angle, or most of the range must be visited.
    """
    ends = x + steps
    low, high = float(min(x.min(), ends.min())), float(max(x.max(), ends.max()))
    length = high - low
    jumps = np.abs(steps) > length / 2
    n, others = int(jumps.sum()), np.abs(steps[~jumps])
    if not LEAST_TURNS <= n <= FEW_TURNS * len(x):
        return None
    longest = float(np.quantile(others, 0.999))
    known = [period for period in TURNS if 0 <= period * (1 + 1e-6) - length <= max(SHORT_OF_A_TURN * period, longest)]
    rounded = float(f"{length:.2g}")
    period = known[0] if known else rounded if length <= rounded <= (1 + SHORT_OF_A_TURN) * length else length
    if longest > length / 4 or np.median(np.abs(period - np.abs(steps[jumps]))) > longest:
        return None
    visited = len(np.unique(np.floor((x - low) / length * PARTS * (1 - 1e-12))))
    return Turn(name, period, low, n) if known or visited >= PARTS - 1 else None


def _turning(turn: Turn, n: int) -> Finding:
    around_zero = turn.low < -turn.period / 4
    if turn.period in TURNS:
        python, command = TURNS[turn.period][2:] if around_zero else TURNS[turn.period][:2]
    elif abs(turn.low) < SHORT_OF_A_TURN * turn.period:
        python = command = f"{turn.period:.4g}"
    else:
        ends = f"{turn.low:.4g}", f"{turn.low + turn.period:.4g}"
        python, command = f"({', '.join(ends)})", ":".join(ends)
    return Finding(
        name="angle",
        title="angle",
        values={"period": turn.period, "n_turns": float(turn.n), "share": turn.n / n},
        numbers=f"{turn.name} jumps by {turn.period:.4g}, {turn.n} of {n} steps",
        verdict="bad",
        text=f"{turn.name} jumps from one end of its range to the other, {turn.n} times by about {turn.period:.4g}: it "
        "seems to be an angle or a phase, cut where a turn ends.",
        advice=Message(
            "Learn and check it with {periodic}.",
            periodic=Either(f"periodic={{{turn.name!r}: {python}}}", f"--periodic {turn.name}={command}"),
        ),
    )
