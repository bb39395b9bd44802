"""Groups of frequencies: which inputs their waves move with, and of what kind they are.

With m inputs, groups are numbers, in this order:

==============  ==========================================================================
then            squares of one input times another, pair by pair downwards
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
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int

LINEAR_FREQUENCY, PRODUCT_FREQUENCY = 0.05, 0.1
"""Of the sines that are linear terms: a hundred times as long as the data; and of the waves that make products."""
POWER_FREQUENCY = 0.2
"""Of a cosine that is a square, and of two sines, one of them three times as short, whose difference is a cube; and of
the waves that make a square times another input. Longer ones would make so small a product that rounding is felt."""
LONG = (0.0, LINEAR_FREQUENCY, PRODUCT_FREQUENCY, POWER_FREQUENCY, 2 * POWER_FREQUENCY, 3 * POWER_FREQUENCY)
"""Components of the frequencies of such terms."""


@lru_cache(maxsize=64)
def _supports(m: int) -> list[tuple[int, ...]]:
    """The inputs that waves may move with, in the order of their groups from zero on: one, all, two of them."""
    pairs = combinations(range(m), 2) if m > 2 else ()
    return [*((i,) for i in range(m)), tuple(range(m)), *pairs]


@lru_cache(maxsize=64)
def _monomials(m: int) -> list[tuple[int, ...]]:
    """The factors of each monomial, in the order of their groups from −m − 1 downwards."""
    powers = [(i,) * degree for degree in (2, 3) for i in range(m)]
    return [*combinations(range(m), 2), *powers, *((i, i, j) for i, j in permutations(range(m), 2))]


def factors_of_group(group: int, m: int) -> tuple[int, ...]:
    """The inputs whose product a monomial or a linear term is, as often as they are its factors."""
    return (group + m,) if group >= -m else _monomials(m)[-m - 1 - group]


def inputs_of_group(group: int, m: int) -> tuple[int, ...]:
    """The inputs that the waves of a group move with."""
    if group < 0:
        return tuple(sorted(set(factors_of_group(group, m))))
    return _supports(m)[group % len(_supports(m))]


def monomials(m: int) -> Int:
    """The groups of monomials of second and third degree, ascending."""
    return np.arange(first_group(m), -m)


def monomial_waves(group: int, m: int) -> tuple[Float, Float]:
    """Frequencies (k, m) of long waves, and the sum of their cosines and sines (2k,) that is a monomial up to a factor.

    A constant and a linear term are left in it.
    """
    first, *others = factors_of_group(group, m)
    last, degree = others[-1], 1 + len(others)
    if last == first:
        waves = np.zeros((degree - 1, m))
        waves[:, first] = (POWER_FREQUENCY, 3 * POWER_FREQUENCY)[: degree - 1]
        return waves, np.array([1.0, 0.0] if degree == 2 else [0.0, 0.0, 3.0, -1.0])
    waves = np.zeros((degree, m))
    frequency = PRODUCT_FREQUENCY if degree == 2 else POWER_FREQUENCY
    waves[:2, first] = frequency * (degree - 1)
    waves[:, last] = np.array([1, -1, 1])[:degree] * frequency
    return waves, np.array([1.0, -1.0, 0.0, 0.0] if degree == 2 else [0.0, 0.0, 0.0, 1.0, -1.0, -2.0])


def linear_terms(group: Int, m: int) -> npt.NDArray[np.bool_]:
    """Whether each of some groups is a linear term."""
    return np.asarray((group < 0) & (group >= -m))


def first_group(m: int) -> int:
    """The smallest number of a group."""
    return -m - len(_monomials(m))


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
    monomials = [g for g in sorted(groups.tolist(), reverse=True) if g < -m]
    powers = {(first,) for first, *others in (factors_of_group(g, m) for g in monomials) if set(others) == {first}}
    found = powers | {inputs_of_group(g, m) for g in groups.tolist() if g >= -m}
    singles = [inputs[i] for i in range(m) if (i,) in found]
    pairs = [f"{inputs[i]} with {inputs[j]}" for i, j in sorted(s for s in found if len(s) == 2 < m)]
    products = [_in_words(factors_of_group(g, m), inputs) for g in monomials if inputs_of_group(g, m) not in found]
    parts = [", ".join(each) for each in (singles, products, pairs) if each]
    parts += ["all inputs together"] if m > 1 and tuple(range(m)) in found else []
    alone = " alone" if len(singles) == 1 < m and len(parts) == 1 else ""
    linearly = (", linearly" if alone else " linearly") if linear_terms(groups, m).all() else ""
    return " and ".join(parts) + alone + linearly


def terms_in_words(groups: Int, inputs: tuple[str, ...]) -> str | None:
    """The terms of a polynomial, linear ones and monomials, with the names of the inputs; None if there are none."""
    terms = [factors_of_group(g, len(inputs)) for g in groups[groups < 0].tolist()]
    return ", ".join(_in_words(each, inputs) for each in sorted(terms, key=lambda each: (len(each), each))) or None


def _in_words(factors: tuple[int, ...], inputs: tuple[str, ...]) -> str:
    """A monomial with the names of the inputs."""
    powers = {1: "", 2: "²", 3: "³"}
    return "·".join(inputs[i] + powers[factors.count(i)] for i in dict.fromkeys(factors))
