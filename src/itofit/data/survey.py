"""The first pass over transitions: what scaling, checks and the summary need to know of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit._progress import Progress
from itofit.data.blocked import BlockedTransitions
from itofit.data.rows import column_range, column_sum
from itofit.data.transitions import Transitions


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
    inverse_h_mean: float
    groups: dict[object, int] | None  # their labels, in order, and sizes

    @property
    def n_groups(self) -> int | None:
        """How many groups there are."""
        return None if self.groups is None else len(self.groups)


def survey(data: Transitions | BlockedTransitions, progress: Progress) -> Survey:
    """All statistics in one pass; they do not depend on how the data were cut into blocks."""
    n = 0
    mean = squares = np.zeros(data.n_outputs)  # squares: Σ |rate − mean|²
    low, high, h_sums = np.array(np.inf), np.array(-np.inf), np.zeros(2)
    sizes: Counter[object] | None = Counter()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what does not fit is reported by the checks
        for block in data.blocks():
            rates, h = block.rates, block.h
            block_mean = column_sum(rates) / len(block)
            step, weight = block_mean - mean, len(block) / (n + len(block))
            squares = squares + [((rate - m) ** 2).sum() for rate, m in zip(rates.T, block_mean, strict=True)]
            squares = squares + step**2 * n * weight
            mean = mean + step * weight
            n += len(block)
            ranges = [column_range(array) for array in (block.inputs, rates, block.increments, h[:, None])]
            largest = np.array([(rate**2 * h).max() for rate in rates.T])
            low = np.minimum(low, np.concatenate([lows for lows, _ in ranges]))
            high = np.maximum(high, np.concatenate([*(highs for _, highs in ranges), largest]))
            h_sums += [h.sum(), (1 / h).sum()]
            if block.groups is None or sizes is None:
                sizes = None
            else:
                labels, counts = np.unique(block.groups, return_counts=True)
                sizes.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
            progress.show("reading", f"{n:,} transitions")
    m, d = data.n_inputs, data.n_outputs
    places = np.cumsum([m, d, d, 1])
    input_low, rate_low, least, h_low = np.split(low, places[:-1])
    input_high, rate_high, most, h_high, square = np.split(high, places)
    return Survey(
        n_rows=n,
        low=input_low,
        high=input_high,
        rate_mean=mean,
        rate_std=np.sqrt(squares / n),
        rate_low=rate_low,
        rate_high=rate_high,
        largest_square=square,
        moves=bool(least.any() or most.any()),
        h_min=h_low.item(),
        h_mean=float(h_sums[0] / n),
        h_max=h_high.item(),
        inverse_h_mean=float(h_sums[1] / n),
        groups=None if sizes is None else {label: sizes[label] for label in sorted(sizes, key=_order)},
    )


def _order(label: object) -> tuple[str, object]:
    """By which labels of any types are sorted."""
    return str(type(label)), label


class TransitionRows:
    """Inputs and targets of transitions, made anew in each pass.

    Parameters
    ----------
    data : Transitions or BlockedTransitions
    n_rows : int
    n_outputs : int
        Number of targets, p.
    targets : callable
        Targets of shape (n, p) of a block of transitions.
    """

    def __init__(
        self,
        data: Transitions | BlockedTransitions,
        n_rows: int,
        n_outputs: int,
        targets: Callable[[Transitions], Float],
    ) -> None:
        self.data = data
        self.n_rows, self.n_inputs, self.n_outputs = n_rows, data.n_inputs, n_outputs
        self.in_memory = isinstance(data, Transitions)
        self.targets = targets

    def blocks(self) -> Iterator[tuple[Float, Float]]:
        """All rows in order."""
        for block in self.data.blocks():
            yield block.inputs, self.targets(block)
