"""Tracks drawn at random from what is known of the states behind noisy observations.

Given the right model, a drawn track has the law of the system itself. So what learns from clean tracks learns from it.
"""

from __future__ import annotations

import numpy as np

from itofit._checks import Float
from itofit.data.covariates import moving
from itofit.data.following import follows
from itofit.data.passes import Data, add_up
from itofit.data.periods import wrapped
from itofit.data.transitions import Transitions
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import drawn, filtered
from itofit.model.hidden.windows import InOrder, Overlapping, chunks, cut

MOST_DRAWN = 262_144
"""Transitions that are drawn, about, at most: enough to find frequencies."""


def drawn_transitions(
    data: Data, n_rows: int, step: GaussianStep, noise: Float, lengths: tuple[int, int], seed: int
) -> Transitions:
    """Transitions between drawn states in place of observations: of all windows, or of some if there are many.

    Parameters
    ----------
    data : Data
        Of n_rows rows.
    n_rows : int
    step : GaussianStep
    noise : array of shape (d, d)
        Λ.
    lengths : pair of int
        Overlap and kept steps of windows.
    seed : int
    """
    overlap, kept = lengths
    share = min(1.0, MOST_DRAWN / n_rows)

    def of_block(block: Overlapping, number: int) -> list[Transitions]:
        rng = np.random.default_rng([seed, number])
        rows, windows = block.rows, cut(follows(block.rows), overlap, kept, block.n_before)
        windows = windows.at(np.flatnonzero(rng.random(len(windows.first)) < share))
        inputs, increments = rows.inputs.copy(), rows.increments.copy()
        chosen = np.zeros(len(rows), dtype=bool)
        for chunk in chunks(rows, windows):
            states = drawn(filtered(step, chunk, noise), chunk, rng)
            at = chunk.rows[chunk.kept]
            inputs[at, moving(rows)] = states[:-1][chunk.kept]
            increments[at] = (states[1:] - states[:-1])[chunk.kept]
            chosen[at] = True
        if not chosen.any():
            return []
        groups = None if rows.groups is None else rows.groups[chosen]
        variables = rows.kind, rows.input_names, rows.output_names, rows.n_covariates, rows.periods
        states_at = wrapped(inputs[chosen], rows.periods)
        return [Transitions._trusted(states_at, increments[chosen], rows.h[chosen], groups, *variables)]

    return Transitions.concatenate(add_up(InOrder(data, overlap), of_block))
