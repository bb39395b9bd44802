"""The first pass over transitions: what scaling, checks and the summary need to know of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple, Protocol

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit.data.passes import Data, add_up, added
from itofit.data.rows import column_range, column_sum
from itofit.data.transitions import Transitions

BINS_PER_OCTAVE = 32
"""Of the histogram of time steps on a logarithmic scale: its bins are 2 % wide."""


class Survey(NamedTuple):
    """Statistics of all transitions; of the inputs (m,), of the rates increments / h and of their noise (d,)."""

    n_rows: int
    low: Float
    high: Float
    rate_mean: Float
    rate_std: Float
    rate_low: Float
    rate_high: Float
    largest_square: Float  # of rate · √h
    moves: bool  # whether any increment is not zero
    h_min: float
    h_mean: float
    h_max: float
    h_median: float  # to within a hundredth
    inverse_h_mean: float
    groups: dict[object, int] | None  # their labels, in order, and sizes

    @property
    def n_groups(self) -> int | None:
        """How many groups there are."""
        return None if self.groups is None else len(self.groups)


class _Sums(NamedTuple):
    """What a block tells of itself; adds up over blocks."""

    n: int
    mean: Float  # (d,): of the rates
    squares: Float  # (d,): Σ |rate − mean|²
    low: Float  # of inputs, rates, increments and h
    high: Float  # of the same and of rate² · h
    h_sums: Float  # Σ h and Σ 1/h
    h_bins: Counter[int]  # transitions in each bin of log h
    sizes: Counter[object] | None  # transitions of each group

    @classmethod
    def of(cls, block: Transitions) -> _Sums:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # the checks report what does not fit
            rates, h = block.rates, block.h
            mean = column_sum(rates) / len(block)
            squares = np.array([((rate - m) ** 2).sum() for rate, m in zip(rates.T, mean, strict=True)])
            ranges = [column_range(array) for array in (block.inputs, rates, block.increments, h[:, None])]
            largest = np.array([(rate**2 * h).max() for rate in rates.T])
            low = np.concatenate([lows for lows, _ in ranges])
            high = np.concatenate([*(highs for _, highs in ranges), largest])
            h_sums = np.array([h.sum(), (1 / h).sum()])
            h_bins = _counts(h, *ranges[-1])
        sizes: Counter[object] | None = None
        if block.groups is not None:
            labels, counts = np.unique(block.groups, return_counts=True)
            sizes = Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        return cls(len(block), mean, squares, low, high, h_sums, h_bins, sizes)

    def plus(self, other: _Sums) -> _Sums:
        """Those of both sets of transitions."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            mean, squares = joined_moments(self, other)
            return _Sums(
                n=self.n + other.n,
                mean=mean,
                squares=squares,
                low=np.minimum(self.low, other.low),
                high=np.maximum(self.high, other.high),
                h_sums=self.h_sums + other.h_sums,
                h_bins=self.h_bins + other.h_bins,
                sizes=added(self.sizes, other.sizes),
            )


class HasMoments(Protocol):
    """A number of rows, their mean, and the sum of their squared distances from it."""

    @property
    def n(self) -> int: ...  # noqa: D102
    @property
    def mean(self) -> Float: ...  # noqa: D102
    @property
    def squares(self) -> Float: ...  # noqa: D102


def joined_moments(one: HasMoments, other: HasMoments) -> tuple[Float, Float]:
    """Mean and squares of two sets of rows together, without cancellation."""
    step, weight = other.mean - one.mean, other.n / (one.n + other.n)
    return one.mean + step * weight, one.squares + other.squares + step**2 * one.n * weight


def survey(data: Data, progress: Progress) -> Survey:
    """All statistics in one pass; they do not depend on how the data were cut into blocks."""
    total = add_up(
        data,
        lambda block, number: _Sums.of(block),
        shown=lambda n_done: progress.show("reading", f"{n_done:,} transitions"),
    )
    m, d = data.n_inputs, data.n_outputs
    places = np.cumsum([m, d, d, 1])
    input_low, rate_low, least, h_low = np.split(total.low, places[:-1])
    input_high, rate_high, most, h_high, square = np.split(total.high, places)
    sizes = total.sizes
    return Survey(
        n_rows=total.n,
        low=input_low,
        high=input_high,
        rate_mean=total.mean,
        rate_std=np.sqrt(total.squares / total.n),
        rate_low=rate_low,
        rate_high=rate_high,
        largest_square=square,
        moves=bool(least.any() or most.any()),
        h_min=h_low.item(),
        h_mean=float(total.h_sums[0] / total.n),
        h_max=h_high.item(),
        h_median=float(np.clip(_median(total.h_bins), h_low.item(), h_high.item())),
        inverse_h_mean=float(total.h_sums[1] / total.n),
        groups=None if sizes is None else {label: sizes[label] for label in sorted(sizes, key=_order)},
    )


def _counts(h: Float, low: Float, high: Float) -> Counter[int]:
    """How many of some time steps, between two of them, are in each bin of log h."""
    if low.item() == high.item():
        return Counter({math.floor(BINS_PER_OCTAVE * math.log2(low.item())): len(h)})
    place = np.floor(BINS_PER_OCTAVE * np.log2(h)).astype(np.int64)
    first = int(place.min())
    counts = np.bincount(place - first)
    return Counter({first + int(i): int(counts[i]) for i in np.flatnonzero(counts)})


def _median(bins: Counter[int]) -> float:
    """The middle of the bin that holds the median."""
    places = sorted(bins)
    below = np.cumsum([bins[place] for place in places])
    middle = places[int(np.searchsorted(below, below[-1] / 2))]
    return float(2 ** ((middle + 0.5) / BINS_PER_OCTAVE))


def _order(label: object) -> tuple[str, object]:
    """By which labels of any types are sorted."""
    return str(type(label)), label
