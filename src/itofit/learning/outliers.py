"""Transitions that start far from all others: left out of a fit, or the beginning of a relaxation.

Waves and cells are measured by the range of the inputs, which one outlier would make many times as large as that of the
data. So a few are left out, with a warning. More of them, or a larger share of few data, are taken for a part of the
dynamics: a relaxation from far away, say. If a few move as slowly as a relaxation does, a fit with them is made as
well. It is the better one if it makes the others as likely: what these leave open, how the drift goes on, is known.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import DataWarning, InputError, user_level
from itofit.data.covariates import moving
from itofit.data.filtered import those
from itofit.data.names import plural
from itofit.data.passes import Data, add_up
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.search import LEAST_EVIDENCE_GAIN
from itofit.learning.pipeline import Task
from itofit.learning.verdicts import check_learnable
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import gaussian_nll

MOST_OUTLIERS = 10
"""Transitions that are left out, at most."""
RARE = 500
"""Of so many transitions one may be an outlier; more are the ends of short tracks, one is always allowed."""
STILL_AWAY = 0.25
"""Of their distance from the middle of the others: so far away they end, in the mean, where a path relaxes."""
FARTHEST = 100.0
"""Half ranges of the others from their middle, beyond which nothing is taken for a relaxation."""


class Outliers(NamedTuple):
    """Transitions that start far from all others."""

    rows: Transitions
    others: Task  # the same without them

    @property
    def relax(self) -> bool:
        """Whether they may be the beginning of a relaxation, by how far they move."""
        if self.rows.kind in ("general", "positions"):
            return False
        known, state = self.others.survey, moving(self.rows)
        middle, half = 0.5 * (known.low + known.high), 0.5 * (known.high - known.low)
        if not half.all():
            return False
        start = (self.rows.inputs - middle) / half
        end = start[:, state] + self.rows.increments / half[state]
        away, still_away = (np.linalg.norm(x, axis=1).mean() for x in (start[:, state], end))
        return bool(np.abs(start).max() <= FARTHEST and still_away >= STILL_AWAY * away)

    def belong(self, with_them: LearnedSDE, without: LearnedSDE, others: Data) -> bool:
        """Whether a model that was learned with them is as good as one that was learned without.

        To that they are noise, as large as they are. What they gain by following the other model pays for its
        amplitudes, and for no more than these: for the others it must be about as likely.

        Parameters
        ----------
        with_them, without : LearnedSDE
        others : Transitions
            That both were learned from.
        """
        left_out = with_them.data.left_out
        rows = self.rows if left_out is None else self.rows[self.rows.h <= left_out.max_h]
        if not len(rows):
            return False
        gain = len(rows) * (min(_loss_of_noise(rows), without.nll(rows)) - with_them.nll(rows))
        if not gain > 0:
            return False
        n_rows = add_up(others, lambda block, number: len(block))
        lost = n_rows * (with_them.nll(others) - without.nll(others))
        return lost + max(0.0, _amplitudes(with_them) - gain) <= _amplitudes(without) + LEAST_EVIDENCE_GAIN

    def warn(self) -> None:
        """Say, in the name of the user's call, that they were left out."""
        known, n = self.others.survey, len(self.rows)
        ranges = zip(self.rows.input_names, known.low, known.high, strict=True)
        others = ", ".join(f"{name} between {a:.3g} and {b:.3g}" for name, a, b in ranges)
        warnings.warn(
            f"{plural(n, 'transition')} left out that {'starts' if n == 1 else 'start'} far from all others "
            f"({others}). If the dynamics lead there, observe more on the way",
            DataWarning,
            stacklevel=user_level(),
        )


def outliers(task: Task) -> Outliers | None:
    """Transitions of a task that start far from all others; None if there are none, or too many."""
    low, high = task.survey.core_low, task.survey.core_high
    if not task.options.refine or (np.array_equal(low, task.survey.low) and np.array_equal(high, task.survey.high)):
        return None

    def inside(block: Transitions) -> npt.NDArray[np.bool_]:
        return np.logical_and.reduce([(x >= a) & (x <= b) for x, a, b in zip(block.inputs.T, low, high, strict=True)])

    def some_outside(block: Transitions, number: int) -> list[Transitions]:
        rows = np.flatnonzero(~inside(block))[: MOST_OUTLIERS + 1]
        return [block[rows]] if len(rows) else []

    found = add_up(task.data, some_outside)
    if not 0 < sum(map(len, found)) <= min(MOST_OUTLIERS, max(1, task.survey.n_rows // RARE)):
        return None
    data = those(task.data, inside)
    try:
        kept = survey(data, task.bar)
        check_learnable(kept, data)
    except InputError:  # the others say nothing without them
        return None
    return Outliers(Transitions.concatenate(found), replace(task, data=data, survey=kept))


def _loss_of_noise(rows: Transitions) -> float:
    """The mean nll of transitions that are noise, each entry as large as it is in root mean square."""
    variance = (rows.increments**2 / rows.h[:, None]).mean(axis=0)
    if not variance.all():
        return -np.inf
    covariances = np.repeat(np.diag(variance)[None], len(rows), axis=0)
    return float(gaussian_nll(rows.increments, rows.h, np.zeros_like(rows.increments), covariances).mean())


def _amplitudes(sde: LearnedSDE) -> float:
    """How many amplitudes of a model its data determine."""
    return sde.drift_function.training.determined + sde.covariance_function.training.determined
