"""Single transitions that start far from all others, and are left out of a fit.

Waves and cells are measured by the range of the inputs, which one outlier would make many times as large as that of the
data. A few are left out, with a warning. More of them, or a larger share of few data, are taken for a part of the
dynamics: a relaxation from far away, say.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from itofit._checks import DataWarning, InputError, user_level
from itofit.data.filtered import those
from itofit.data.names import plural
from itofit.data.passes import add_up
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.pipeline import Task
from itofit.learning.verdicts import check_learnable

MOST_OUTLIERS = 10
"""Transitions that are left out, at most."""
RARE = 500
"""Of so many transitions one may be an outlier; more are the ends of short tracks, one is always allowed."""


def without_outliers(task: Task) -> Task:
    """The task without transitions that start far from all others; it warns in the name of the caller's caller."""
    low, high = task.survey.core_low, task.survey.core_high
    if not task.options.refine or (np.array_equal(low, task.survey.low) and np.array_equal(high, task.survey.high)):
        return task

    def inside(block: Transitions) -> npt.NDArray[np.bool_]:
        return np.logical_and.reduce([(x >= a) & (x <= b) for x, a, b in zip(block.inputs.T, low, high, strict=True)])

    n = add_up(task.data, lambda block, number: int((~inside(block)).sum()))
    if not 0 < n <= min(MOST_OUTLIERS, max(1, task.survey.n_rows // RARE)):
        return task
    data = those(task.data, inside)
    try:
        kept = survey(data, task.bar)
        check_learnable(kept, data)
    except InputError:  # the others say nothing without them
        return task
    ranges = zip(data.input_names, kept.low, kept.high, strict=True)
    others = ", ".join(f"{name} between {a:.3g} and {b:.3g}" for name, a, b in ranges)
    warnings.warn(
        f"{plural(n, 'transition')} left out that {'starts' if n == 1 else 'start'} far from all others ({others}). "
        "If the dynamics lead there, observe more on the way",
        DataWarning,
        stacklevel=user_level(),
    )
    return replace(task, data=data, survey=kept)
