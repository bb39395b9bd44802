"""Inputs that follow from others: copies, sums and other linear combinations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.rows import scaled
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions

EXACT = 1e-6
"""Distance from a combination of other inputs, relative to an input's standard deviation, that says nothing new."""
CANDIDATE = 1e-5
"""The same, as a root mean square over sampled rows, below which all rows are looked at."""
TAKES_PART = 1e-4
"""Coefficient of an input in units of standard deviations above which it is part of a combination."""


class Combination(NamedTuple):
    """An input that is a linear combination of others, by their places."""

    column: int
    others: tuple[int, ...]
    copies: bool  # whether it equals the first of them


def dependent_input(data: Data, survey: Survey) -> Combination | None:
    """The first input that is a linear combination of those before it in every row, up to rounding, and of which.

    It is looked for in the survey's sample, without outliers; only if one is found there is it made sure of in a pass
    over all rows.
    """
    within = ((survey.sample >= survey.core_low) & (survey.sample <= survey.core_high)).all(axis=1)
    rows = survey.sample[within]
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    if len(rows) <= rows.shape[1] or not (scale > 0).all():
        return None
    u = scaled(rows, shift, scale)
    left_over = np.abs(np.diagonal(np.linalg.qr(u, mode="r"))) / np.sqrt(len(u))  # of each column by those before it
    for column in np.flatnonzero(left_over < CANDIDATE):
        weights = scipy.linalg.lstsq(u[:, :column], u[:, column])[0]
        if _holds(data, weights, shift, scale):
            others = tuple(int(place) for place in np.flatnonzero(np.abs(weights) > TAKES_PART))
            copies = bool((rows[:, others[0]] == rows[:, column]).all())
            return Combination(int(column), others, copies)
    return None


def _holds(data: Data, weights: Float, shift: Float, scale: Float) -> bool:
    """Whether an input is the combination of those before it in every row, up to rounding."""
    column = len(weights)

    def exceptions(block: Transitions, number: int) -> int:
        u = scaled(block.inputs, shift, scale)
        distance = np.abs(u[:, column] - u[:, :column] @ weights)
        return int((distance > EXACT * np.maximum(1.0, np.abs(u).max(axis=1))).sum())

    return add_up(data, exceptions) == 0
