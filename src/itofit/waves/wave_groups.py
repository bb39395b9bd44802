"""Groups of frequencies: which inputs their waves move with, and of what kind they are.

With m inputs, groups are numbers, in this order:

==============  ==========================================================================
then            cubes of one input, input by input downwards
then            squares of one input, input by input downwards
below −m        products of two inputs, pair by pair downwards
−m … −1         linear terms, input by input
0 … m − 1       waves along one input
m               waves in all directions
then            waves in the plane of two inputs, pair by pair
then            waves that stood out: along one input, in a plane, in all directions
==============  ==========================================================================
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int

LINEAR_FREQUENCY, PRODUCT_FREQUENCY = 0.05, 0.1
"""Of the sines that are linear terms: a hundred times as long as the data; and of the cosines that make products."""
POWER_FREQUENCY = 0.2
"""Of a cosine that is a square, and of two sines, one of them three times as short, whose difference is a cube."""
LONG = (0.0, LINEAR_FREQUENCY, PRODUCT_FREQUENCY, POWER_FREQUENCY, 3 * POWER_FREQUENCY)
"""Components of the frequencies of such terms."""


@lru_cache(maxsize=64)
def _supports(m: int) -> list[tuple[int, ...]]:
    """The inputs that waves may move with, in the order of their groups from zero on: one, all, two of them."""
    pairs = combinations(range(m), 2) if m > 2 else ()
    return [*((i,) for i in range(m)), tuple(range(m)), *pairs]


@lru_cache(maxsize=64)
def _pairs(m: int) -> list[tuple[int, int]]:
    """The pairs of inputs, in the order of the groups of their products."""
    return list(combinations(range(m), 2))


def inputs_of_group(group: int, m: int) -> tuple[int, ...]:
    """The inputs that the waves of a group move with."""
    if group < -m - len(_pairs(m)):
        return ((-m - 1 - group - len(_pairs(m))) % m,)
    if group < -m:
        return _pairs(m)[-m - 1 - group]
    return (group + m,) if group < 0 else _supports(m)[group % len(_supports(m))]


def monomials(m: int) -> Int:
    """The groups of cubes, squares and products of two inputs, ascending."""
    return np.arange(first_group(m), -m)


def monomial_waves(group: int, m: int) -> tuple[Float, Float]:
    """Frequencies (k, m) of long waves, and the sum of their cosines and sines (2k,) that is a monomial up to a factor.

    A constant and a linear term are left in it.
    """
    inputs = inputs_of_group(group, m)
    waves = np.zeros((2, m))
    if len(inputs) == 2:
        waves[:, inputs[0]], waves[:, inputs[1]] = PRODUCT_FREQUENCY, (PRODUCT_FREQUENCY, -PRODUCT_FREQUENCY)
        return waves, np.array([1.0, -1.0, 0.0, 0.0])
    waves[:, inputs[0]] = POWER_FREQUENCY, 3 * POWER_FREQUENCY
    if group >= first_group(m) + m:  # a square
        return waves[:1], np.array([1.0, 0.0])
    return waves, np.array([0.0, 0.0, 3.0, -1.0])


def linear_terms(group: Int, m: int) -> npt.NDArray[np.bool_]:
    """Whether each of some groups is a linear term."""
    return np.asarray((group < 0) & (group >= -m))


def first_group(m: int) -> int:
    """The smallest number of a group."""
    return -3 * m - len(_pairs(m))


def group_of_inputs(inputs: tuple[int, ...], m: int, *, stood_out: bool = False) -> int:
    """The group of waves that move with some inputs, in ascending order; more than two of m are all."""
    supports = _supports(m)
    own = supports.index(inputs) if inputs in supports else m
    return own + (len(supports) if stood_out else 0)


def group_of_wave(omega: Float) -> int:
    """The group of a wave of frequency omega (m,) that stood out."""
    return group_of_inputs(tuple(np.flatnonzero(omega).tolist()), len(omega), stood_out=True)


def stood_out(group: Int, m: int) -> npt.NDArray[np.bool_]:
    """Whether the waves of each of some groups stood out."""
    return np.asarray(group >= len(_supports(m)))


def last_group(m: int) -> int:
    """The largest number of a group."""
    return 2 * len(_supports(m)) - 1


def directions(group: Int, m: int) -> Float:
    """Which components of frequencies of some groups may differ from zero: zeros and ones of shape (K, m)."""
    free = np.zeros((len(group), m))
    for g in np.unique(group).tolist():
        free[np.ix_(group == g, inputs_of_group(g, m))] = 1.0
    return free


def depends_on(groups: Int, inputs: tuple[str, ...]) -> str | None:
    """What waves of some groups depend on, in words that use the names of the inputs; None if there are none."""
    if not len(groups):
        return None
    m = len(inputs)
    monomials = {inputs_of_group(g, m) for g in groups.tolist() if g < -m}
    found = {inputs_of_group(g, m) for g in groups.tolist() if g >= -m} | {s for s in monomials if len(s) == 1}
    singles = [inputs[i] for i in range(m) if (i,) in found]
    pairs = [f"{inputs[i]} with {inputs[j]}" for i, j in sorted(s for s in found if len(s) == 2 < m)]
    products = monomials - found
    parts = [", ".join(singles)] if singles else []
    parts += [", ".join(f"{inputs[i]}·{inputs[j]}" for i, j in sorted(products))] if products else []
    parts += [", ".join(pairs)] if pairs else []
    parts += ["all inputs together"] if m > 1 and tuple(range(m)) in found else []
    alone = " alone" if len(singles) == 1 < m and len(parts) == 1 else ""
    linearly = (", linearly" if alone else " linearly") if linear_terms(groups, m).all() else ""
    return " and ".join(parts) + alone + linearly
