"""Which tracks can be in several units of a source, from the least and the greatest label of each unit.

    unit 0    |a ...... f|                      in common with others: f
    unit 1              |f ..... m|             f
    unit 2                          |n ... z|   nothing

Where tracks are written one after the other, hardly any can, and of the others a unit need tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

Ranges = Sequence[tuple[Any, Any]]
"""The least and the greatest label of some sets of tracks."""
NEAR = 16
"""Units on either side, in the order of labels, that a unit is compared with; if more overlap, any track may cross."""


def shared_ranges(ranges: Ranges) -> list[Ranges | None]:
    """For each of some ranges of labels what it has in common with others; None if that is with many.

    Examples
    --------
    >>> from itofit.data.reading.label_ranges import shared_ranges
    >>> shared_ranges([(1, 5), (5, 9), (10, 12), (3, 4)])
    [[(3, 4), (5, 5)], [(5, 5)], [], [(3, 4)]]
    """
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    lows, highs = ([ranges[unit][end] for unit in order] for end in (0, 1))
    reach = list(accumulate(highs, max))
    shared: list[Ranges | None] = [None] * len(ranges)
    for place, unit in enumerate(order):
        low, high = ranges[unit]
        left, right = place - 1, place + 1
        common: list[tuple[Any, Any]] = []
        while left >= max(0, place - NEAR) and reach[left] >= low:
            if highs[left] >= low:
                common.append((low, min(high, highs[left])))
            left -= 1
        while right < min(len(order), place + NEAR) and lows[right] <= high:
            common.append((lows[right], min(high, highs[right])))
            right += 1
        complete = (left < 0 or reach[left] < low) and (right == len(order) or lows[right] > high)
        shared[unit] = common if complete else None
    return shared
