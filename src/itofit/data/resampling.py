"""Data sets drawn with replacement from one: whole tracks, or single transitions that belong to none."""

from __future__ import annotations

import numpy as np

from itofit._checks import InputError, Option
from itofit.data.names import plural
from itofit.data.transitions import Transitions

FEWEST_TRACKS = 8
"""With fewer, what is drawn says little of how tracks differ."""


def check_resampled(data: object) -> None:
    """Raise unless data sets can be drawn from some data."""
    if not isinstance(data, Transitions):
        raise InputError(
            "{bootstrap} draws tracks of data in memory, and these are read in blocks: give fewer data, or take the "
            "posterior's error bars",
            bootstrap=Option("bootstrap"),
        )
    if data.groups is not None and (n := len(np.unique(data.groups))) < FEWEST_TRACKS:
        raise InputError(
            "{bootstrap} draws whole tracks and needs at least {fewest}, got {tracks}: take the posterior's error "
            "bars, or cut long tracks into stretches that are tracks of their own",
            bootstrap=Option("bootstrap"),
            fewest=FEWEST_TRACKS,
            tracks=plural(n, "track"),
        )


def resampled(data: Transitions, rng: np.random.Generator) -> Transitions:
    """As many tracks as there are, drawn with replacement; or as many transitions, if they belong to none.

    Copies of a track keep its label, so that they are held out together.
    """
    if data.groups is None:
        return data[rng.integers(len(data), size=len(data))]
    _, which = np.unique(data.groups, return_inverse=True)
    rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    return data[np.concatenate([rows[k] for k in rng.integers(len(rows), size=len(rows))])]
