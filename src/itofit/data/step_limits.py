"""Limits of the time that a move may take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, Option, positive
from itofit.data.names import shown_range

ROUNDING = 1e-6
"""Share by which a time step may miss its limits: steps are differences of times, and these are rounded."""


class StepLimits(NamedTuple):
    """The shortest and the longest time that a move may take."""

    shortest: float = 0.0
    longest: float = np.inf

    def allow(self, h: Float) -> npt.NDArray[np.bool_]:
        """Which of some durations, of shape (n,), lie within the limits."""
        return (h >= self.shortest) & (h <= self.longest)


def step_limits(min_h: float | None, max_h: float | None) -> StepLimits:
    """The limits that a user gave, made wider by rounding; None is no limit."""
    shortest = 0.0 if min_h is None else positive("min_h", min_h)
    longest = np.inf if max_h is None else positive("max_h", max_h)
    if shortest > longest:
        raise InputError(
            "{min_h} must be at most {max_h}, got {shortest:g} and {longest:g}",
            min_h=Option("min_h"),
            max_h=Option("max_h"),
            shortest=shortest,
            longest=longest,
        )
    return StepLimits((1 - ROUNDING) * shortest, (1 + ROUNDING) * longest)


def none_within_limits(shortest: float, longest: float) -> InputError:
    """The error for data in which no move took an allowed time, given the shortest and the longest that they took."""
    return InputError(
        "no transition took a time between {min_h} and {max_h}: they took {durations}",
        min_h=Option("min_h"),
        max_h=Option("max_h"),
        durations=shown_range(shortest, longest),
    )
