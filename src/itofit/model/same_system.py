"""Whether data are transitions of the system that an equation describes: its variables, of about their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import Either, Float, InputError
from itofit.data.names import check_variables, with_velocities
from itofit.data.passes import Data
from itofit.data.transitions import Transitions

if TYPE_CHECKING:
    from itofit.model.sde import SDE

MOST_TIMES = 1e50
"""By which sizes of data may exceed those that were learned from: fourth powers of much more are not finite."""


def check_data(sde: SDE, what: str, data: object) -> None:
    """Raise unless data are transitions of the variables of an equation and, if in memory, of possible sizes."""
    if not isinstance(data, Data):
        raise InputError(f"{what} needs Transitions, got {type(data).__name__}; see itofit.Transitions.from_pairs")
    if data.kind == "positions" and sde.hidden_velocity is None:
        raise InputError(
            "the data are positions alone, but the model was not learned from such: {advice}",
            advice=Either(
                python="make them with from_trajectories, or with from_underdamped if velocities are known",
                command="leave out --second-order, or name the columns of velocities with --velocity",
            ),
        )
    check_variables(sde, with_velocities(data))
    if isinstance(data, Transitions):
        check_sizes(sde, data)


def check_sizes(sde: SDE, rows: Transitions) -> None:
    """Raise if places or moves are so far from those of an equation that powers of their ratio would overflow."""
    low, high = sde.box
    if not len(rows) or not np.isfinite(sde.box).all():  # nothing, or an equation that was not learned
        return
    if rows.kind == "positions":  # the first inputs, which move within their range
        low, high = low[: rows.n_outputs], high[: rows.n_outputs]
        unit = high - low
    else:
        noise = sde.covariance(0.5 * low[None] + 0.5 * high[None])[0]
        unit = np.sqrt(np.diagonal(noise) * rows.h.min())
    with np.errstate(over="ignore", divide="ignore"):  # infinite is too large as well
        places = np.abs(rows.inputs[:, : len(low)] - low).max(axis=0) / (high - low)
        moves = np.abs(rows.increments).max(axis=0) / unit
    for what, names, times in (("inputs", rows.input_names, places), ("increments", rows.output_names, moves)):
        _check_ratios(what, names[: len(times)], times)


def _check_ratios(what: str, names: tuple[str, ...], times: Float) -> None:
    for name, ratio in zip(names, times, strict=True):
        if ratio > MOST_TIMES:
            raise InputError(
                f"the {what} of {name} are {ratio:.0e} times as large as the model expects, more than double precision "
                "can judge: are the units of variables and of time those of the model?"
            )
