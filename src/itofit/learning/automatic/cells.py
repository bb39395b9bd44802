"""Transitions gathered into cells: few points in memory that say of the data what fits need.

The likelihood of transitions depends on them through sums over those that start at the same place. So transitions are
gathered, in one pass:

- few of them as they are, one for each cell;
- many, with up to three inputs, by the cells of a fine grid, in which drift and covariance hardly change;
- many, with more inputs, as a random subset (fits are finished on all of them, see `itofit.learning.automatic.method`).

Every cell belongs to one of five folds, of whole groups of transitions where that makes folds of similar sizes. Then
each fold has a grid of its own. Otherwise, with several inputs, whole cells of one finer grid are in a fold. A short
track is cut into five: what lies between two transitions that follow each other would say little of other places.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit._progress import Progress
from itofit.data.passes import Data, add_up
from itofit.data.rows import LEFT_OUT, Split
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions
from itofit.waves.scaling import Scaling

FOLDS = 5
"""Parts of the data, of which all but one predict that one."""
LEAST_FOLD = 0.5
"""Least size of a fold made of whole groups, relative to an equal one; otherwise folds are made of single rows."""
SHORT_TRACK = 1_000
"""Transitions of too few tracks for that, up to which each fold is a stretch of them."""
SIDE = {1: 1024, 2: 112, 3: 26}
"""Cells of the grid of each fold along each of one, two and three inputs."""
SIDE_OF_ALL = {2: 256, 3: 44}
"""The same of one grid for all folds."""
MOST_ROWS_ALONE = 5_000
"""With one input and more transitions than this they are put on a grid."""
MOST_ROWS = 16_000
"""With more transitions than this they are put on a grid, for two and three inputs; for more a subset is drawn."""
MOST_ROWS_DRAWN = 128_000
"""The largest subset, for which memory is enough."""
SAMPLED = 8_000
"""Transitions that are kept as they are besides the grid: for what sums over its cells do not tell."""

Values = Callable[[Transitions, Int], Float]
"""Of a block of transitions and the folds of its rows: values of shape (rows, c) that are summed in each cell."""


class Sample(NamedTuple):
    """Transitions drawn at random from all that are on a grid."""

    u: Float  # (s, m): scaled inputs
    h: Float  # (s,)
    increments: Float  # (s, d)
    fold: Int  # (s,)


class Cells(NamedTuple):
    """Sums over the transitions of each cell."""

    u: Float  # (n, m): the mean of the scaled inputs, weighted by h
    count: Float  # type: ignore[assignment]  # (n,): transitions
    duration: Float  # (n,): Σ h
    fold: Int  # (n,)
    sums: Float  # (n, c): of the values that were asked for
    squares: Float  # (c,): Σ of the values' squares over all transitions
    sample: Sample | None = None  # where they are on a grid


def are_gathered(n_rows: int, n_inputs: int) -> bool:
    """Whether so many transitions are gathered by the cells of a grid, unless the user says how many are searched."""
    return n_inputs in SIDE and n_rows > _most_alone(n_inputs)


def _most_alone(n_inputs: int) -> int:
    """Transitions up to which each has a cell of its own."""
    return MOST_ROWS_ALONE if n_inputs == 1 else MOST_ROWS


class Plan:
    """Which cell and which fold each transition belongs to.

    Parameters
    ----------
    survey : Survey
        Of the transitions.
    scaling : Scaling
        Of the inputs, to [−½, ½].
    seed : int
        Of the folds and the subset.
    search_rows : int, optional
        The number of transitions above which they are gathered or drawn from.
    few : bool
        Whether folds are made of single transitions, whatever tracks they belong to: of so few that their tracks have
        little in common.
    """

    def __init__(
        self, survey: Survey, scaling: Scaling, seed: int, search_rows: int | None = None, *, few: bool = False
    ) -> None:
        self.survey, self.n_rows, self.scaling, self.seed, self.few = survey, survey.n_rows, scaling, seed, few
        self.n_inputs = m = len(scaling.shift)
        limit = _most_alone(m) if search_rows is None else search_rows
        self.gathered = search_rows is None and are_gathered(survey.n_rows, m)
        self.drawn = survey.n_rows > limit and not self.gathered
        n_drawn = min(SAMPLED if self.gathered else limit, survey.n_rows)
        self.split = Split(seed, survey.n_rows, n_drawn, 1)
        self.fold_of_group = None if survey.groups is None else _balanced_folds(survey.groups, seed)
        self.fold_of_cell: Int | None = None
        self.side = SIDE.get(m, 0)
        if self.gathered and self.fold_of_group is None and m in SIDE_OF_ALL:
            self.side = SIDE_OF_ALL[m]
            self.fold_of_cell = np.random.default_rng([seed, 3]).permutation(self.side**m) % FOLDS

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"survey": None}  # workers need none of it, and it knows every track

    @property
    def most_rows(self) -> int:
        """Of a subset, at most."""
        return min(MOST_ROWS_DRAWN, self.n_rows)

    def with_rows(self, n: int) -> Plan:
        """The same for a subset of n transitions."""
        return Plan(self.survey, self.scaling, self.seed, n, few=self.few)

    def ungathered(self, n: int) -> Plan:
        """The same folds for transitions that are not gathered, n of them at most; it forgets the survey."""
        other = copy(self)
        other.gathered, other.drawn = False, self.n_rows > n
        other.split = Split(self.seed, self.n_rows, min(n, self.n_rows), 1)
        return other

    @property
    def follows_tracks(self) -> bool:
        """Whether transitions of tracks are on a grid of several inputs.

        One that follows another in the same cell starts where the noise of that has led: the mean place of a cell
        depends on the noise of its transitions, which biases a regression on mean places if they are few.
        """
        return self.gathered and self.n_inputs > 1 and self.survey.groups is not None

    @property
    def how(self) -> str:
        """What becomes of the transitions, in words."""
        if self.gathered:
            return f"a grid of {' × '.join([str(self.side)] * self.n_inputs)} cells"
        return f"{self.split.n_searched} of them, drawn at random" if self.drawn else "all of them"

    def folds(self, block: Transitions, index: int) -> Int:
        """The fold of each row of a block."""
        if not self.few and self.fold_of_group is not None:
            assert block.groups is not None
            labels, place = np.unique(block.groups, return_inverse=True)
            return np.array([self.fold_of_group[label] for label in labels.tolist()])[place]
        if not self.few and block.groups is not None and self.n_rows <= SHORT_TRACK:
            return np.arange(len(block)) * FOLDS // len(block)
        rng = np.random.default_rng([self.seed, 1, index])
        return rng.permutation(len(block)) % FOLDS

    def gather(self, data: Data, values: Values, progress: Progress, label: str) -> Cells:
        """Sum values over the cells, in one pass."""
        m = self.n_inputs

        def of_block(block: Transitions, number: int) -> tuple[Float | list[Float], Float | float, list[Float]]:
            u, sample = self.scaling.points(block.inputs), []
            if self.gathered or self.fold_of_cell is not None:
                place, fold = self._places(block, u, number)
            else:
                fold = self.folds(block, number)
            if self.gathered:
                sample = [self._sampled(block, u, fold, number)]
            if self.drawn:
                rows = np.flatnonzero(self.split.parts(number) != LEFT_OUT)
                if not len(rows):
                    return [], 0.0, []
                block, u, fold = block[rows], u[rows], fold[rows]
            own = values(block, fold)
            squares = np.einsum("nc,nc->c", own, own)
            table = [np.ones(len(u)), block.h, *(u.T * block.h), *own.T]
            if self.gathered:
                return np.stack([np.bincount(place, row, self.n_cells) for row in table]), squares, sample
            return [np.stack([*table, fold.astype(float)])], squares, []

        def shown(n_done: int) -> None:
            progress.show(label, f"{n_done:,} of {self.n_rows:,} transitions", n_done / self.n_rows)

        sums, squares, sample = add_up(data, of_block, shown=shown)
        if self.gathered:
            folds = np.arange(self.n_cells) % FOLDS if self.fold_of_cell is None else self.fold_of_cell
            total = np.concatenate([sums, folds[None]])[:, sums[0] > 0]
        else:
            total = np.concatenate(sums, axis=1)
        return Cells(
            u=np.ascontiguousarray((total[2 : 2 + m] / total[1]).T),
            count=total[0],
            duration=total[1],
            fold=total[-1].astype(int),
            sums=np.ascontiguousarray(total[2 + m : -1].T),
            squares=np.asarray(squares),
            sample=_sample_of(np.concatenate(sample), m) if self.gathered else None,
        )

    @property
    def n_cells(self) -> int:
        """The number of all cells, whether there are transitions in them or not."""
        return self.side**self.n_inputs * (FOLDS if self.fold_of_cell is None else 1)

    def _places(self, block: Transitions, u: Float, index: int) -> tuple[Int, Int]:
        """The cell of each row of a block with scaled inputs u (n, m), and its fold: both of shape (n,)."""
        place = np.zeros(len(u), dtype=np.int64)
        for column in u.T:
            place = place * self.side + np.clip(((column + 0.5) * self.side).astype(np.int64), 0, self.side - 1)
        if self.fold_of_cell is not None:
            return place, self.fold_of_cell[place]
        fold = self.folds(block, index)
        return place * FOLDS + fold, fold

    def _sampled(self, block: Transitions, u: Float, fold: Int, number: int) -> Float:
        """Those of a block's rows that are kept as they are: columns of u, h, increments and fold."""
        rows = np.flatnonzero(self.split.parts(number) != LEFT_OUT)
        return np.column_stack([u[rows], block.h[rows], block.increments[rows], fold[rows]])


def _sample_of(columns: Float, m: int) -> Sample:
    """A sample from columns of u (m of them), h, increments and fold."""
    return Sample(columns[:, :m], columns[:, m], columns[:, m + 1 : -1], columns[:, -1].astype(int))


def _balanced_folds(groups: dict[object, int], seed: int) -> dict[object, int] | None:
    """A fold for each group, with about as many transitions in each; None if the groups are too few or too unequal."""
    labels = list(groups)
    shuffled = [labels[i] for i in np.random.default_rng(seed).permutation(len(labels))]
    load, fold_of = [0] * FOLDS, {}
    for label in sorted(shuffled, key=lambda label: -groups[label]):
        fold_of[label] = load.index(min(load))
        load[fold_of[label]] += groups[label]
    return fold_of if min(load) * FOLDS > LEAST_FOLD * sum(load) else None
