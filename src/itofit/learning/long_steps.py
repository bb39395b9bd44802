"""Transitions that took too long for the dynamics, and are left out of a fit.

Over a gap in a track there is one step that is many times as long as the others. Where the drift changes much within
it, h ‖∇f‖ being large, neither the drift of one step nor a correction for its length can follow it. A few such steps
outweigh all others, since each counts by its length. So where lengths are very uneven a first drift is learned from the
steps of usual length. Its gradient says how long a step may be, unless the long steps show that this drift is not the
dynamics.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from itofit._checks import Float, InputError
from itofit.data.covariates import moving
from itofit.data.filtered import at_most
from itofit.data.passes import Data, add_up
from itofit.data.periods import endless
from itofit.data.step_limits import ROUNDING, none_within_limits
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.cells import are_gathered
from itofit.learning.automatic.method import Automatic
from itofit.learning.pipeline import Task
from itofit.learning.spread import spread_series
from itofit.learning.verdicts import check_learnable
from itofit.model.finite_step import rates_of_change
from itofit.model.training import LeftOut
from itofit.waves.series import FourierSeries

USUAL = 3.0
"""Times the median that a step may take without being asked about."""
LONGEST = 0.7
"""h ‖∇f‖ up to which steps can be followed."""
ITERATIONS = 1
"""Of the search for frequencies: waves that stand out and long ones tell how fast a drift changes."""
ROWS = 3_000
"""Transitions that it is made on, where they are not gathered on a grid: enough for a rate within a few percent."""
PLACES = 2_000
"""Transitions, about so many, at whose places gradients are taken, and long ones that are compared with the drift."""
SUBSTEPS = 50
"""In which the drift is followed through a long step."""
LEAST_MOVED = 0.5
"""Share of what the drift says that long steps must have moved; paths that forgot their start move half of it."""
ERRORS = 2.0
"""Standard errors by which they must have moved less before the drift is not believed."""


def without_long_steps(task: Task) -> Task:
    """The task without transitions that are too long, as `max_h` of `itofit.fit` says."""
    given, lengths = task.options.max_h, task.survey
    if given is None:
        return task
    if given != "auto":
        return shortened(task, (1 + ROUNDING) * given)
    usual = USUAL * lengths.h_median
    if lengths.h_max <= usual or not task.options.refine or task.data.kind in ("general", "positions"):
        return task
    try:
        return shortened(task, _longest(task, usual))
    except InputError:  # too few are left to learn from
        return task


def shortened(task: Task, longest: float) -> Task:
    """The task with transitions up to a length alone."""
    lengths = task.survey
    if lengths.h_max <= longest:
        return task
    if lengths.h_min > longest:
        raise none_within_limits(lengths.h_min, lengths.h_max)
    data = at_most(task.data, longest)
    kept = survey(data, task.bar)
    check_learnable(kept, data)
    left_out = LeftOut(n=lengths.n_rows - kept.n_rows, max_h=longest, longest=lengths.h_max)
    return replace(task, data=data, survey=kept, left_out=left_out)


def _longest(task: Task, usual: float) -> float:
    """The length of steps that can be followed, at least the usual one."""
    rng = np.random.default_rng(0 if task.seed is None else task.seed)
    short = shortened(task, usual)
    drift, doubts = _first_drift(replace(short, rng=rng))
    rate = _rate(drift, doubts, _drawn(task.data, rng, 0.0))
    if rate * task.survey.h_max <= LONGEST:
        return np.inf
    longest = max(usual, LONGEST / rate)
    box = np.array([short.survey.low, short.survey.high])
    return np.inf if _contradicted(drift, _drawn(task.data, rng, longest), box) else longest


def _first_drift(task: Task) -> tuple[FourierSeries, FourierSeries]:
    """A drift, and functions whose squares add up to its variances."""
    short_search = replace(task.options.drift_parameters, max_iterations=ITERATIONS)
    gathered = are_gathered(task.survey.n_rows, task.data.n_inputs)  # then more rows cost no more
    if short_search.search_rows is None and not gathered:
        short_search = replace(short_search, search_rows=ROWS)
    method = Automatic(replace(task, options=replace(task.options, drift=short_search)))
    learned = method.drift()
    posterior, scaling = learned.drift.posterior, method.scaling
    drift = learned.basis.series(posterior.amplitudes[:, 0], posterior.amplitudes[:, 1:].T, scaling)
    return drift, spread_series(learned.basis, posterior.squares, scaling)


def _rate(drift: FourierSeries, doubts: FourierSeries, data: Transitions) -> float:
    """The size of a drift's gradient, in root mean square over transitions and without its noise."""
    x, d, m, held = data.inputs, data.n_outputs, data.n_inputs, slice(data.n_inputs - data.n_covariates, None)
    unit = x.std(axis=0)
    in_units = unit / unit[moving(data), None]
    in_units[:, held] = 0.0
    J, noise = drift.jacobian(x), (doubts.jacobian(x).reshape(len(x), d, -1, m) ** 2).sum(axis=2)
    size = float(((J * in_units) ** 2).sum())
    certain = 1 - float((noise * in_units**2).sum()) / size if size > 0 else 0.0
    rates = rates_of_change(J, unit, underdamped=data.kind == "underdamped")
    return float(np.sqrt(max(certain, 0.0) * np.mean(rates**2)))


def _contradicted(drift: FourierSeries, data: Transitions, box: Float) -> bool:
    """Whether long steps moved far less than a drift of short ones says.

    Then the short ones do not show the dynamics: errors of measurement look like a strong pull back in them, and the
    long steps are the better ones.
    """
    x, unit, state = data.inputs.copy(), data.increments.std(axis=0), moving(data)
    if data.kind == "underdamped" or not unit.all():  # a single one has no unit, and says too little
        return False
    box = endless(box, data.periods)[:, state]
    for _ in range(SUBSTEPS):
        x[:, state] = np.clip(x[:, state] + data.h[:, None] / SUBSTEPS * drift(x), *box)
    expected, moved = (x - data.inputs)[:, state] / unit, data.increments / unit
    total = float((expected**2).sum())
    share = float((expected * moved).sum()) / total
    error = float(np.sqrt((expected**2 * (moved - share * expected) ** 2).sum())) / total
    return share + ERRORS * error < LEAST_MOVED


def _drawn(data: Data, rng: np.random.Generator, longer_than: float) -> Transitions:
    """About PLACES of the transitions that took longer, or all of them if they are fewer."""
    seed = int(rng.integers(2**63))
    share = PLACES / add_up(data, lambda block, number: int((block.h > longer_than).sum()))

    def drawn(block: Transitions, number: int) -> list[Transitions]:
        some = np.random.default_rng([seed, number]).random(len(block)) < share
        rows = np.flatnonzero(some & (block.h > longer_than))
        return [block[rows]] if len(rows) else []

    return Transitions.concatenate(add_up(data, drawn))
