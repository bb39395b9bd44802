"""The first pass over transitions: what scaling, checks and the summary need to know of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple, Protocol

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit.data.following import follows, track_order
from itofit.data.large.parts import PartedTransitions
from itofit.data.passes import Data, add_up, added
from itofit.data.periods import is_periodic
from itofit.data.rows import column_range, column_sum
from itofit.data.transitions import Transitions

SAMPLED_ROWS = 4_096
"""Rows of inputs that are kept to see how they are distributed."""
SAMPLE_SEED = 4_096
"""Which of them are drawn does not depend on the seed of a fit: the survey follows from the data alone."""
TAIL_SHARE = 0.001
"""Share of the sampled rows at each end of an input that does not decide its core."""
LEAST_TAIL = 2
"""Rows at each end that do not, however few there are."""
FAR, MARGIN = 3.0, 0.25
"""Outliers are farther from the other rows than FAR times the range of these; the core is wider by MARGIN times it."""
BINS_PER_OCTAVE = 32
"""Of the histogram of time steps on a logarithmic scale: its bins are 2 % wide."""


class Survey(NamedTuple):
    """Statistics of all transitions; of the inputs (m,), of the rates increments / h and of their noise (d,)."""

    n_rows: int
    low: Float
    high: Float
    core_low: Float  # range of the inputs without outliers, within low and high
    core_high: Float
    sample: Float  # (n, m): inputs of rows drawn at random, all if there are few
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
    n_following: int  # transitions that start where the one before them in a block ended
    n_apart: int  # those that would besides if the rows of each group in a block were together
    groups: dict[object, int] | None  # their labels, in order, and sizes

    @property
    def n_groups(self) -> int | None:
        """How many groups there are."""
        return None if self.groups is None else len(self.groups)


class _Sample(NamedTuple):
    """Inputs of the rows with the smallest of random keys: a random sample of all rows, whatever their blocks.

    Every row has a key, an exponential number. Of n of them only the smallest are drawn, in order: their differences
    are exponential with the rates n, n − 1, ... So a block costs as much as the rows that are kept of it.
    """

    keys: Float  # (k,), in order
    inputs: Float  # (k, m)

    @classmethod
    def of(cls, block: Transitions, number: int) -> _Sample:
        """That of the block of a number."""
        rng, n = np.random.default_rng([SAMPLE_SEED, number]), len(block)
        k = min(n, SAMPLED_ROWS)
        keys = (rng.standard_exponential(k) / np.arange(n, n - k, -1)).cumsum()
        return cls(keys, block.inputs[rng.choice(n, k, replace=False)])

    def plus(self, other: _Sample) -> _Sample:
        """That of both sets of rows."""
        keys = np.concatenate([self.keys, other.keys])
        rows = np.argsort(keys, kind="stable")[:SAMPLED_ROWS]
        return _Sample(keys[rows], np.concatenate([self.inputs, other.inputs])[rows])


def core(sample: Float, low: Float, high: Float) -> tuple[Float, Float]:
    """The range of inputs that a few outliers do not decide.

    Without the outermost rows at each end, inputs of a sample have a range. If there are data farther below it, or
    farther above, than FAR times its length, the core ends at MARGIN times its length on that side, and otherwise where
    the data end. An input that nearly always has one value keeps its whole range.

    Parameters
    ----------
    sample : array (n, m)
    low, high : array (m,)
        The whole range.

    Returns
    -------
    low, high : array (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.data.survey import core
    >>> x = np.append(np.linspace(0, 1, 101), 1e6)[:, None]
    >>> core(x, x[0], x[-1])
    (array([0.]), array([1.2325]))
    """
    tail = min(max(int(TAIL_SHARE * len(sample)), LEAST_TAIL), (len(sample) - 1) // 2)
    inner = np.sort(sample, axis=0)[tail : len(sample) - tail]
    with np.errstate(over="ignore", invalid="ignore"):
        length = inner[-1] - inner[0]
        far_below, far_above = low < inner[0] - FAR * length, high > inner[-1] + FAR * length
        below, above = inner[0] - MARGIN * length, inner[-1] + MARGIN * length
    varies = length > 0
    return np.where(far_below & varies, below, low), np.where(far_above & varies, above, high)


class _Sums(NamedTuple):
    """What a block tells of itself; adds up over blocks."""

    n: int
    mean: Float  # (d,): of the rates
    squares: Float  # (d,): Σ |rate − mean|²
    low: Float  # of inputs, rates, increments and h
    high: Float  # of the same and of rate² · h
    h_sums: Float  # Σ h and Σ 1/h
    h_bins: Counter[int]  # transitions in each bin of log h
    n_following: int  # within blocks
    n_apart: int
    sizes: Counter[object] | None  # transitions of each group
    sample: _Sample

    @classmethod
    def of(cls, block: Transitions, number: int) -> _Sums:
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
            n_following, n_apart = _following(block)
        sizes: Counter[object] | None = None
        if block.groups is not None:
            labels, counts = np.unique(block.groups, return_counts=True)
            sizes = Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        sample = _Sample.of(block, number)
        return cls(len(block), mean, squares, low, high, h_sums, h_bins, n_following, n_apart, sizes, sample)

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
                n_following=self.n_following + other.n_following,
                n_apart=self.n_apart + other.n_apart,
                sizes=added(self.sizes, other.sizes),
                sample=self.sample.plus(other.sample),
            )


def _following(block: Transitions) -> tuple[int, int]:
    """How many transitions of a block follow the one before them, and how many more if groups were together."""
    if block.kind == "general":
        return 0, 0
    beside, order = int(follows(block).sum()), track_order(block)
    return beside, 0 if order is None else max(0, int(follows(block[order]).sum()) - beside)


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
    if isinstance(data, PartedTransitions):
        data.look(progress)
    total = add_up(
        data,
        _Sums.of,
        shown=lambda n_done: progress.show("reading", f"{n_done:,} transitions"),
    )
    m, d = data.n_inputs, data.n_outputs
    places = np.cumsum([m, d, d, 1])
    input_low, rate_low, least, h_low = np.split(total.low, places[:-1])
    input_high, rate_high, most, h_high, square = np.split(total.high, places)
    core_low, core_high = core(total.sample.inputs, input_low, input_high)
    if (periodic := is_periodic(data.periods)).any():  # their range is a period, wherever in it the data are
        input_low, core_low = (np.where(periodic, data.periods[0], low) for low in (input_low, core_low))
        input_high, core_high = (np.where(periodic, data.periods[1], high) for high in (input_high, core_high))
    sizes = total.sizes
    return Survey(
        n_rows=total.n,
        low=input_low,
        high=input_high,
        core_low=core_low,
        core_high=core_high,
        sample=total.sample.inputs,
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
        n_following=total.n_following,
        n_apart=total.n_apart,
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
