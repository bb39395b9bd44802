"""Which transitions follow each other: one starts where the other ended."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from itofit._checks import Int
from itofit.data.covariates import moving
from itofit.data.periods import nearest_image
from itofit.data.transitions import Transitions

SLACK = 1e-6
"""Share of a typical step by which the end of one transition may miss the start of the next: files are rounded."""
ROUNDING = 8 * np.finfo(float).eps
"""The same as a share of the state itself: increments are differences of large numbers."""


def continues(data: Transitions, before: Int, after: Int) -> npt.NDArray[np.bool_]:
    """Whether each of some transitions starts where another one ended.

    Parameters
    ----------
    data : Transitions
        Not of kind "general", whose inputs do not say where a transition ends.
    before, after : arrays of shape (n,)
        Rows of the data.

    Returns
    -------
    array of bool, shape (n,)
    """
    state = data.inputs[:, moving(data)]  # all but covariates, or the velocities
    end = state + data.increments
    slack = SLACK * data.increments.std(axis=0) + ROUNDING * np.abs(state).max(axis=0)
    away = nearest_image(end[before] - state[after], data.periods[:, moving(data)])
    return np.asarray((np.abs(away) <= slack).all(axis=1))


def track_order(data: Transitions) -> Int | None:
    """An order of rows in which those of each group are together; None if they are so as they stand."""
    if data.groups is None:
        return None
    changes = np.flatnonzero(data.groups[1:] != data.groups[:-1])
    if len(changes) + 1 == len(np.unique(data.groups[np.append(changes, len(data) - 1)])):
        return None
    return np.argsort(data.groups, kind="stable")


def follows(data: Transitions) -> npt.NDArray[np.bool_]:
    """Whether each row continues the one before it, shape (n,); the first does not."""
    after = np.arange(1, len(data))
    one_track = np.zeros(len(data), dtype=bool)
    one_track[1:] = continues(data, after - 1, after)
    if data.groups is not None:
        one_track[1:] &= data.groups[1:] == data.groups[:-1]
    return one_track
