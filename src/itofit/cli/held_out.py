"""Which data `itofit fit` holds out of training to judge what was learned."""

from __future__ import annotations

import warnings
from typing import TypeAlias

import numpy as np

from itofit._checks import DataWarning
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.parts import PartedTransitions
from itofit.data.stretch_split import StretchSplit, in_stretches, rows_follow, stretches_together
from itofit.data.transitions import Transitions
from itofit.looking.check import LEAST_ROWS, LEAST_ROWS_PER_OUTPUT

AnyTransitions: TypeAlias = Transitions | BlockedTransitions | PartedTransitions


def hold_out(data: AnyTransitions, share: float, seed: int) -> tuple[AnyTransitions, AnyTransitions | None]:
    """Data to learn from, and data to judge by: whole tracks if there are enough of them, else stretches of rows.

    Single rows would not show whether the next step depends on the last, and would cut the tracks that a model of
    positions or of noisy observations is learned from. They are held out only if rows do not follow each other. Data
    that are read in parts are cut in stretches, however many tracks there are. The second is None if nothing is held
    out.
    """
    if share == 0:
        return data, None
    least = max(LEAST_ROWS, LEAST_ROWS_PER_OUTPUT * data.n_outputs)
    if not isinstance(data, Transitions):
        if min(share, 1 - share) * len(data) >= least:
            return _split_of_parts(data, share, seed)
    else:
        train, rest = _split(data, share, seed)
        if min(len(train), len(rest)) >= least:
            return train, rest
    warnings.warn(
        f"too few transitions ({len(data):,}) to hold some out: judged on those it was learned from",
        DataWarning,
        stacklevel=2,
    )
    return data, None


def _split(data: Transitions, share: float, seed: int) -> tuple[Transitions, Transitions]:
    """Whole tracks, stretches of rows, or single rows held out of transitions in memory."""
    enough = stretches_together(share)
    if data.groups is not None and len(np.unique(data.groups)) >= enough:
        return data.split(share, by="groups", rng=seed)
    if len(data) < enough or not rows_follow(data):
        return data.split(share, rng=seed)
    out = StretchSplit(seed, len(data), share).held_out(0, len(data))
    return data[~out], data[out]


def _split_of_parts(
    data: BlockedTransitions | PartedTransitions, share: float, seed: int
) -> tuple[AnyTransitions, AnyTransitions]:
    """Stretches of rows, or single rows held out of transitions that are read in parts."""
    if data.kind == "positions" or rows_follow(data):
        return in_stretches(data, share, seed)
    return data.split(share, rng=seed)
