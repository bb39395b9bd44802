"""Which data `itofit fit` holds out of training to judge what was learned."""

from __future__ import annotations

import math
import warnings
from typing import TypeAlias

import numpy as np

from itofit._checks import DataWarning
from itofit.data.following import continues
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.parts import PartedTransitions
from itofit.data.transitions import Transitions
from itofit.looking.check import LEAST_ROWS

AnyTransitions: TypeAlias = Transitions | BlockedTransitions | PartedTransitions


def hold_out(data: AnyTransitions, share: float, seed: int) -> tuple[AnyTransitions, AnyTransitions | None]:
    """Data to learn from, and data to judge by: whole tracks if there are enough of them, else stretches of rows.

    Single rows would not show whether the next step depends on the last. They are held out only if rows do not follow
    each other, or are read in parts. The second is None if nothing is held out.
    """
    if share == 0:
        return data, None
    if isinstance(data, BlockedTransitions | PartedTransitions):  # so many that single rows suffice
        return data.split(share, rng=seed)
    train, rest = _split(data, share, seed)
    if min(len(train), len(rest)) < max(LEAST_ROWS, 5 * data.n_outputs):
        warnings.warn(
            f"too few transitions ({len(data):,}) to hold some out: judged on those it was learned from",
            DataWarning,
            stacklevel=2,
        )
        return data, None
    return train, rest


def _split(data: Transitions, share: float, seed: int) -> tuple[Transitions, Transitions]:
    """Whole tracks, stretches of rows, or single rows held out of transitions in memory."""
    enough = math.ceil(2 / min(share, 1 - share))
    if data.groups is not None and len(np.unique(data.groups)) >= enough:
        return data.split(share, by="groups", rng=seed)
    if len(data) < enough or not _rows_follow(data):
        return data.split(share, rng=seed)
    stretch = np.arange(len(data)) * enough // len(data)
    chosen = np.random.default_rng(seed).permutation(enough)[: round(share * enough)]
    out = np.isin(stretch, chosen)
    return data[~out], data[out]


def _rows_follow(data: Transitions) -> bool:
    """Whether most transitions start where the one before them ended."""
    if data.kind == "general":
        return False
    rows = np.arange(len(data))
    return bool(continues(data, rows[:-1], rows[1:]).mean() > 1 / 2)
