"""Which transitions are held out: single ones, or in memory also whole trajectories."""

from __future__ import annotations

from collections.abc import Sized
from typing import Literal

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, InputError, Option, fraction, generator, one_of
from itofit.data.names import plural
from itofit.data.rows import Split, n_held_out


def held_out_rows(
    rng: np.random.Generator,
    share: float,
    n_rows: int,
    by: Literal["rows", "groups"],
    groups: npt.NDArray[np.generic] | None,
) -> npt.NDArray[np.bool_]:
    """A mask of shape (n_rows,) of the rows that are held out: a share of the rows, or of the groups.

    Parameters
    ----------
    rng : Generator
    share : float
        Between 0 and 1; at least one row or group is on each side.
    n_rows : int
    by : {"rows", "groups"}
    groups : array of shape (n_rows,), optional
        Labels of the rows; needed to split by groups.
    """
    if one_of("by", by, ("rows", "groups")) == "rows":
        unit, n_units = np.arange(n_rows), n_rows
    elif groups is None:
        text = "{by} needs transitions with groups; this data has none"
        raise InputError(text, by=Option("by", "groups"))
    else:
        labels, unit = np.unique(groups, return_inverse=True)
        n_units = len(labels)
    if n_units < 2:
        raise InputError(f"cannot split {plural(n_units, by.removesuffix('s'))}: at least two are needed")
    out = np.zeros(n_units, dtype=bool)
    out[rng.permutation(n_units)[: n_held_out(share, n_units)]] = True
    return out[unit]


def split_of_rows(data: Sized, held_out: float, by: str, rng: RNG, how: str) -> Split:
    """A random split of the single transitions of data that are read in some way, as `how` says."""
    share = fraction("held_out", held_out)
    if one_of("by", by, ("rows", "groups")) == "groups":
        raise InputError(
            "{groups} needs transitions in memory, and these are read {how}: give the trajectories to learn from and "
            "those to hold out as two sources, or split {rows}",
            groups=Option("by", "groups"),
            how=how,
            rows=Option("by", "rows"),
        )
    random, _ = generator(rng)
    n_rows = len(data)
    if n_rows < 2:
        raise InputError(f"cannot split {plural(n_rows, 'row')}: at least two are needed")
    return Split(int(random.integers(2**63)), n_rows, n_rows, n_held_out(share, n_rows))
