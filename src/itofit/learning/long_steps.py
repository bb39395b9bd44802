"""Transitions that took too long for the dynamics, and are left out of a fit.

Over a gap in a track there is one step that is many times as long as the others. Where the drift changes much within
it, h ‖∇f‖ being large, neither the drift of one step nor a correction for its length can follow it. A few such steps
outweigh all others, since each counts by its length. So where lengths are very uneven a first drift is learned from the
steps of usual length. Its gradient says how long a step may be.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from itofit._checks import Float, InputError
from itofit.data.passes import Data, add_up
from itofit.data.short_steps import at_most
from itofit.data.step_limits import ROUNDING, none_within_limits
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.method import Automatic
from itofit.learning.pipeline import Task
from itofit.learning.spread import spread_series
from itofit.learning.verdicts import check_learnable
from itofit.model.finite_step import rates_of_change
from itofit.model.training import LeftOut

USUAL = 3.0
"""Times the median that a step may take without being asked about."""
LONGEST = 0.7
"""h ‖∇f‖ up to which steps can be followed."""
PLACES = 2_000
"""Transitions, about so many, at whose places gradients are taken."""


def without_long_steps(task: Task) -> Task:
    """The task without transitions that are too long, as `max_h` of `itofit.fit` says."""
    given, lengths = task.options.max_h, task.survey
    if given is None:
        return task
    if given != "auto":
        return _shortened(task, (1 + ROUNDING) * given)
    usual = USUAL * lengths.h_median
    if lengths.h_max <= usual or not task.options.refine or task.data.kind == "general":
        return task
    try:
        longest = max(usual, LONGEST / max(_rate(_shortened(task, usual), task.data), LONGEST / lengths.h_max))
        return _shortened(task, longest)
    except InputError:  # too few are left to learn from
        return task


def _shortened(task: Task, longest: float) -> Task:
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


def _rate(task: Task, everywhere: Data) -> float:
    """The size of the gradient of a first drift, in root mean square over places of the data and without its noise."""
    rng = np.random.default_rng(0 if task.seed is None else task.seed)
    method = Automatic(replace(task, rng=rng))
    learned = method.drift()
    posterior, basis, scaling = learned.drift.posterior, learned.basis, method.scaling
    f = basis.series(posterior.amplitudes[:, 0], posterior.amplitudes[:, 1:].T, scaling)
    doubts = spread_series(basis, posterior.squares, scaling)
    x = _places(everywhere, rng)
    d, unit = task.data.n_outputs, x.std(axis=0)
    J = f.jacobian(x)
    noise = (doubts.jacobian(x).reshape(len(x), d, -1, x.shape[1]) ** 2).sum(axis=2)
    in_units = unit / unit[-d:, None]
    if not (J * in_units).any():
        return 0.0
    certain = max(0.0, 1 - float((noise * in_units**2).sum() / ((J * in_units) ** 2).sum()))
    rates = rates_of_change(J, unit, underdamped=task.data.kind == "underdamped")
    return float(np.sqrt(certain * np.mean(rates**2)))


def _places(data: Data, rng: np.random.Generator) -> Float:
    """Inputs (n, m) of about PLACES transitions, spread at random over all of them."""
    seed, share = int(rng.integers(2**63)), PLACES / len(data)

    def drawn(block: Transitions, number: int) -> list[Float]:
        return [block.inputs[np.random.default_rng([seed, number]).random(len(block)) < share]]

    return np.concatenate(add_up(data, drawn))
