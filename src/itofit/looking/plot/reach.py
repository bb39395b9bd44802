"""Which places among several inputs data reach: also where each input alone has data, all together may have none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.data.periods import is_periodic

MOST_ROWS = 2000
"""Rows that are looked at, evenly chosen: enough to see where they are."""
NEIGHBOURS = 5
USUAL = 0.99
"""Share of the rows that have their neighbours nearer than a place that counts as reached."""


def reached(rows: Float, periods: Float, points: Float) -> npt.NDArray[np.bool_]:
    """Whether places (k, m) have data (n, m) around them as usual data have: shape (k,).

    Distances to the fifth neighbour are compared with those of the rows themselves, each input in units of its standard
    deviation; periodic ones count along their circle.
    """
    from scipy.spatial import cKDTree  # noqa: PLC0415  (as long to import as a picture takes)

    rows = rows[:: -(-len(rows) // MOST_ROWS)]
    k = min(NEIGHBOURS, len(rows) - 1)
    if k < 1:
        return np.ones(len(points), dtype=bool)
    size = np.where((spread := rows.std(axis=0)) > 0, spread, 1.0)
    at, to = (_unrolled(values, periods, size) for values in (rows, points))
    tree = cKDTree(at)
    usual = np.quantile(tree.query(at, k=[k + 1])[0][:, 0], USUAL)
    return np.asarray(tree.query(to, k=[k])[0][:, 0] <= usual)


def _unrolled(x: Float, periods: Float, size: Float) -> Float:
    """Coordinates in which distances are taken: inputs over their sizes, and two for each periodic one."""
    columns = []
    for values, low, high, own, turns in zip(x.T, *periods, size, is_periodic(periods), strict=True):
        if not turns:
            columns.append(values / own)
            continue
        radius, angle = (high - low) / (2 * np.pi * own), 2 * np.pi * (values - low) / (high - low)
        columns += [radius * np.cos(angle), radius * np.sin(angle)]
    return np.stack(columns, axis=1)
