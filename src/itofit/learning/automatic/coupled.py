"""Least squares in which several outputs with the same features are coupled by the weights: their left sides.

=======  ========  ===============  ==========================================================
symbol   name      shape            meaning
=======  ========  ===============  ==========================================================
x        ones      (n, R)           features, the same for all outputs
W        weight    (n, d, d)        positive semidefinite, between the outputs
A        A         (Σ R_i, Σ R_i)   Σ_n W_n ⊗ x_n x_nᵀ, between R_i features of each output i
=======  ========  ===============  ==========================================================

Every block Σ w x xᵀ of A is a symmetric matrix, and with weights w that are never negative it is a product of a matrix
with its own transpose, which takes half the time of another one. Weights between two outputs have either sign, but
W_ii + W_jj + 2 W_ij has not, and its sum gives away that of W_ij:

    2 Σ W_ij x xᵀ = Σ (W_ii + W_jj + 2 W_ij) x xᵀ − Σ W_ii x xᵀ − Σ W_jj x xᵀ,

in units of the outputs in which the sums of their weights are the same, so that nothing is lost in the difference. That
is for features that both outputs have; other ones take products of two matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_chunks, row_blocks
from itofit._checks import Float, Int

FEW_FEATURES = 40
"""Up to so many, a product of two matrices takes no longer than what it takes to do without it."""


class WeightedSum(NamedTuple):
    """Σ w x yᵀ over all rows, for some features x and others y, which are the same if none are given."""

    weight: Float  # (n,): of one sign if x and y are the same
    left: Int  # (k,): which features x
    right: Int | None = None  # (l,): which features y

    def of(self, features: Float, rows: slice) -> Float:
        """The sum over the rows of a block, for all features (R, block) there."""
        x = _some(features, self.left)
        if self.right is None:  # half the work of a product of two matrices
            x = x * np.sqrt(self.weight[rows])
            return np.asarray(x @ x.T)
        return np.asarray((x * self.weight[rows]) @ _some(features, self.right).T)


def _some(features: Float, places: Int) -> Float:
    """Some rows of an array, in ascending order."""
    return features if len(places) == len(features) else features[places]


def weighted_sums(ones: Float, sums: Sequence[WeightedSum]) -> list[Float]:
    """Several sums over the rows of the same features (n, R), block by block as these stay in the cache."""
    shapes = [(len(left), len(left if right is None else right)) for _, left, right in sums]

    def over(chunk: slice) -> list[Float]:
        totals = [np.zeros(shape) for shape in shapes]
        for block in row_blocks(chunk.stop - chunk.start):
            rows = slice(chunk.start + block.start, min(chunk.start + block.stop, chunk.stop))
            features = np.ascontiguousarray(ones[rows].T)
            for total, each in zip(totals, sums, strict=True):
                if total.size:
                    np.add(total, each.of(features, rows), out=total)
        return totals

    parts = map_chunks(over, len(ones), result_bytes=8 * sum(k * q for k, q in shapes) + 1)
    return [reduce(np.add, own) for own in zip(*parts, strict=True)]


def normal_matrix(ones: Float, weight: Float, columns: Sequence[Int] | None = None) -> Float:
    """A for the features and weights of all rows; of the features of each output, only some columns may be meant.

    Columns ascend.
    """
    d = weight.shape[1]
    if columns is None:
        columns = [np.arange(ones.shape[1])] * d
    if ones.shape[1] <= FEW_FEATURES:
        return _block_by_block(ones, weight, columns)
    used = np.zeros(ones.shape[1], dtype=bool)
    for each in columns:
        used[each] = True
    place = np.cumsum(used) - 1
    x, own = ones if used.all() else ones[:, used], [place[each] for each in columns]
    unit = 1 / np.sqrt(np.maximum(weight[:, np.arange(d), np.arange(d)].sum(axis=0), 1e-300))
    weight = np.ascontiguousarray(np.moveaxis(weight * np.outer(unit, unit), 0, 2))  # (d, d, n)
    pairs = [(i, j) for i in range(d) for j in range(i)]
    sums = [WeightedSum(weight[i, i], own[i]) for i in range(d)]
    for i, j in pairs:
        common, mine, others = _shared(own[i], own[j])
        both = np.maximum(weight[i, i] + weight[j, j] + 2 * weight[i, j], 0.0)
        sums.append(WeightedSum(both, common))
        sums.append(WeightedSum(weight[i, j], mine, own[j]))
        sums.append(WeightedSum(weight[i, j], common, others))
    totals = weighted_sums(x, sums)
    ends = np.cumsum([0, *map(len, own)])
    A = np.empty((ends[-1], ends[-1]))
    for i in range(d):
        A[ends[i] : ends[i + 1], ends[i] : ends[i + 1]] = totals[i] / unit[i] ** 2
    for k, (i, j) in enumerate(pairs):
        block = _between(own[i], own[j], totals[i], totals[j], totals[d + 3 * k : d + 3 * k + 3]) / (unit[i] * unit[j])
        A[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = block
        A[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] = block.T
    return A


def _block_by_block(ones: Float, weight: Float, columns: Sequence[Int]) -> Float:
    """`normal_matrix` by a product of two matrices for each two outputs."""
    ends = np.cumsum([0, *map(len, columns)])
    places = [slice(a, b) for a, b in pairwise(ends)]
    A = np.zeros((ends[-1], ends[-1]))
    for rows in row_blocks(len(weight)):
        own, W = [_some(ones[rows].T, use) for use in columns], weight[rows]
        for i, mine in enumerate(places):
            x = own[i] * np.sqrt(W[:, i, i])
            A[mine, mine] += x @ x.T
            for j in range(i):
                A[mine, places[j]] += (own[i] * W[:, i, j]) @ own[j].T
    for i, mine in enumerate(places):
        A[: ends[i], mine] = A[mine, : ends[i]].T
    return A


def _shared(mine: Int, others: Int) -> tuple[Int, Int, Int]:
    """The features that two outputs have in common, and those that either has alone."""
    if np.array_equal(mine, others):
        return mine, mine[:0], mine[:0]
    common = np.intersect1d(mine, others)
    return common, np.setdiff1d(mine, common), np.setdiff1d(others, common)


def _between(mine: Int, others: Int, alone: Float, other_alone: Float, sums: Sequence[Float]) -> Float:
    """Σ W_ij x yᵀ for the features of two outputs.

    Parameters
    ----------
    mine, others : arrays of shapes (k,) and (l,)
        Which features these are.
    alone, other_alone : arrays of shapes (k, k) and (l, l)
        Σ W_ii x xᵀ and Σ W_jj y yᵀ.
    sums : sequence of three arrays
        Σ (W_ii + W_jj + 2 W_ij) x xᵀ for the features that both have, Σ W_ij x yᵀ for those of the first alone, and of
        common ones with those of the second alone.
    """
    both, first, second = sums
    if len(both) == len(mine) == len(others):
        return np.asarray(0.5 * (both - alone - other_alone))
    common = np.isin(mine, others)
    among = np.isin(others, mine)
    block = np.empty((len(mine), len(others)))
    block[np.ix_(common, among)] = 0.5 * (both - alone[np.ix_(common, common)] - other_alone[np.ix_(among, among)])
    block[~common] = first
    block[np.ix_(common, ~among)] = second
    return block
