"""Transitions in parts that can be read independently of each other: files, row groups, partitions.

A reader makes them from `Part`s. The number of a row is that among the rows of all parts, in their order, and blocks
have PASS_ROWS rows across parts, so that nothing that is learned depends on how the data were parted:

    PartedTransitions(parts, variables, lengths)            each part and its number of transitions are known
    PartedTransitions(parts, variables)                     transitions are counted in a pass, when they are needed
    PartedTransitions(look, variables)                      parts = look(run) is called before the first pass

where `run(function, items)` is the list of function(item): on threads, or on a cluster if the data are on one, for
which function and items can be pickled. A reader whose tracks cross parts looks at all of them by it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from itofit._blocks import map_in_order
from itofit._checks import RNG, InputError
from itofit._progress import Progress
from itofit.data import rows
from itofit.data.large.blocked import ARRAYS, NO_TRANSITION, NotInMemoryError
from itofit.data.large.stretches import (
    Marks,
    Part,
    Stretch,
    Variables,
    changed_values,
    errors_naming_part,
    stretches,
)
from itofit.data.names import HasVariables, plural
from itofit.data.passes import OnCluster, Shown
from itofit.data.periods import surroundings_text
from itofit.data.rows import TRAIN, VALIDATION, Split
from itofit.data.splitting import split_of_rows
from itofit.data.transitions import Transitions
from itofit.data.with_units import WithUnits

S = TypeVar("S")
T = TypeVar("T")


class Run(Protocol):
    """Does independent pieces of work."""

    def __call__(self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """The result for each item, in order."""
        ...


class Looked(NamedTuple):
    """Parts, and how many transitions each of them has, if that is known."""

    parts: Sequence[Part]
    lengths: Sequence[int] | None = None


class _Layout:
    """The parts, their lengths and their marks, which the same data on other machines share."""

    def __init__(self, look: Callable[[Run], Looked]) -> None:
        self.look = look
        self.looked: Looked | None = None
        self.marks: Marks = {}

    def known(self, run: Run) -> Looked:
        """The parts with their lengths."""
        if self.looked is None:
            self.looked = self.look(run)
        if self.looked.lengths is None:
            self.looked = Looked(self.looked.parts, run(n_rows_of, self.looked.parts))
        return self.looked


class PartedTransitions(WithUnits):
    """Transitions in parts that are read again for each pass, on threads or on a cluster.

    Parameters
    ----------
    parts : sequence of Part, or callable
        The parts in order, or a function that is called once, before the first pass, with a `Run`, and returns them:
        as `Looked`.
    variables : HasVariables, optional
        What the parts have in common: any transitions of theirs. None: the first block is read.
    lengths : sequence of int, optional
        Transitions of each part; None: they are counted before the first pass.
    """

    in_memory = False

    def __init__(
        self,
        parts: Sequence[Part] | Callable[[Run], Looked],
        variables: HasVariables | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        if callable(parts):
            look = parts
        else:
            given = Looked(tuple(parts), lengths)
            look = _AsGiven(given)
        self._layout = _Layout(look)
        self.cluster: OnCluster | None = None
        own = Variables.of(variables if variables is not None else self._first_block())
        self._variables = own
        self.n_inputs, self.n_outputs, self.kind = own.n_inputs, own.n_outputs, own.kind
        self.input_names, self.output_names = own.input_names, own.output_names
        self.n_covariates, self.periods, self.units = own.n_covariates, own.periods, own.units

    def _first_block(self) -> Transitions:
        for part in self._layout.look(self.run).parts:
            with errors_naming_part(part.name):
                block = next(iter(part.blocks()), None)
            if block is not None:
                return block
        raise InputError("{problem}", problem=NO_TRANSITION)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in order."""
        return tuple(self._known.parts)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Transitions of each part."""
        assert self._known.lengths is not None
        return tuple(self._known.lengths)

    @property
    def _known(self) -> Looked:
        known = self._layout.known(self.run)
        if not sum(known.lengths or ()):
            raise InputError("{problem}", problem=NO_TRANSITION)
        return known

    def __len__(self) -> int:
        """How many transitions there are; if that is not known yet, all parts are read."""
        return sum(self.lengths)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        looked = self._layout.looked
        read = "not read yet"
        if looked is not None and looked.lengths is not None:
            read = f"{plural(sum(looked.lengths), 'transition')} in {plural(len(looked.lengths), 'part')}"
        widths = f"{plural(self.n_inputs, 'input')}, {plural(self.n_outputs, 'output')}"
        return f"PartedTransitions({read}, {widths}, kind = {self.kind}{surroundings_text(self)})"

    # Passes

    def on(self, cluster: OnCluster | None) -> PartedTransitions:
        """The same data, passes over which run on a cluster (`itofit.data.large.cluster`), or on this machine."""
        other = copy(self)
        other.cluster = cluster
        return other

    def look(self, progress: Progress) -> None:
        """Look at all parts and count their transitions, if that is not done yet."""

        def run(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
            n = len(items)
            return self.run(function, items, lambda k: progress.show("looking", f"at part {k:,} of {n:,}", k / n))

        self._layout.known(run)

    def run(self, function: Callable[[S], T], items: Sequence[S], shown: Shown = lambda n_done: None) -> list[T]:
        """The result of a function for each item: on the cluster, or on the threads of this machine."""
        if self.cluster is not None:
            return self.cluster.run(function, items, shown)
        results: list[T] = []
        for result in map_in_order(function, items, threads=True):
            results.append(result)
            shown(len(results))
        return results

    @property
    def in_stretches(self) -> PartedTransitions:
        """For `itofit.data.passes`: these data can be read in stretches."""
        return self

    def stretches(self, n_threads: int, overlap: int = 0) -> list[Stretch]:
        """All blocks, in stretches that suit so many threads, after so many rows of the block before each."""
        return stretches(self.parts, self.lengths, rows.PASS_ROWS, self._variables, n_threads, overlap)

    def compare(self, marks: Marks) -> None:
        """Raise if blocks of a part are not those of an earlier pass."""
        before = self._layout.marks
        for (number, n_blocks), own in marks.items():
            if before.setdefault((number, n_blocks), own) != own:
                raise changed_values(self.parts[number])

    def blocks(self) -> Iterator[Transitions]:
        """All transitions in order, in blocks of a fixed size, whatever the parts are."""
        for stretch in self.stretches(1):
            marks: Marks = {}
            yield from stretch.blocks(marks)
            self.compare(marks)

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Say why there are no arrays of all transitions."""
            if name in ARRAYS:
                raise NotInMemoryError(
                    f"transitions that are read in parts have no {name} of all of them at once: take those of "
                    "each block, for block in data.blocks(), or of a part that fits into memory, "
                    "next(data.blocks())"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # Some of the rows

    def those(self, keep: Callable[[Transitions], npt.NDArray[np.bool_]]) -> PartedTransitions:
        """The transitions that a function says to keep, given a block: it returns a mask of its rows."""
        return self._of_other_parts([KeptPart(part, keep) for part in self.parts])

    def split(
        self, held_out: float = 0.1, *, by: Literal["rows"] = "rows", rng: RNG = None
    ) -> tuple[PartedTransitions, PartedTransitions]:
        """Data to learn from and data held out, at random, in the same parts and on the same machines as these.

        Arguments are those of `BlockedTransitions.split`. Which transitions are held out depends on neither the parts
        nor the workers.
        """
        split = split_of_rows(self, held_out, by, rng, "in parts")
        starts = np.cumsum([0, *self.lengths])
        own = list(zip(self.parts, starts.tolist(), self.lengths, strict=False))
        rest, out = (
            self._of_other_parts([SplitPart(part, start, n, split, which) for part, start, n in own])
            for which in (TRAIN, VALIDATION)
        )
        return rest, out

    def _of_other_parts(self, parts: Sequence[Part]) -> PartedTransitions:
        """Data of the same form, where these are, in other parts."""
        return PartedTransitions(parts, self._variables)._carrying(self.units).on(self.cluster)


class _AsGiven:
    """A look at parts that are known."""

    def __init__(self, looked: Looked) -> None:
        self.looked = looked

    def __call__(self, run: Run) -> Looked:
        return self.looked


class KeptPart:
    """Those transitions of a part that a function says to keep."""

    def __init__(self, part: Part, keep: Callable[[Transitions], npt.NDArray[np.bool_]]) -> None:
        self.part, self.keep = part, keep

    @property
    def name(self) -> str:
        """That of the part."""
        return self.part.name

    def blocks(self) -> Iterator[Transitions]:
        """Those of its blocks that are not empty."""
        for block in self.part.blocks():
            chosen = np.flatnonzero(self.keep(block))
            if len(chosen):
                yield block if len(chosen) == len(block) else block[chosen]


class SplitPart:
    """Those transitions of a part that are on one side of a random split of all.

    Parameters
    ----------
    part : Part
    first, n_rows : int
        The number of its first row among those of all parts, and how many it has.
    split : Split
    which : int
        TRAIN or VALIDATION.
    """

    def __init__(self, part: Part, first: int, n_rows: int, split: Split, which: int) -> None:
        self.part, self.first, self.n_rows, self.split, self.which = part, first, n_rows, split, which

    @property
    def name(self) -> str:
        """That of the part."""
        return self.part.name

    def blocks(self) -> Iterator[Transitions]:
        """Those of its blocks that are not empty."""
        sides = self._sides()
        have = next(sides, np.empty(0, dtype=bool))
        for block in self.part.blocks():
            while len(have) < len(block):
                have = np.concatenate([have, next(sides)])
            chosen, have = np.flatnonzero(have[: len(block)]), have[len(block) :]
            if len(chosen):
                yield block[chosen]

    def count(self) -> int:
        """How many there are; nothing is read for it."""
        return sum(int(side.sum()) for side in self._sides())

    def _sides(self) -> Iterator[npt.NDArray[np.bool_]]:
        """Whether each row of the part is on its side, block of the split by block."""
        stop = self.first + self.n_rows
        for number in range(self.first // rows.PASS_ROWS, -(-stop // rows.PASS_ROWS)):
            start = number * rows.PASS_ROWS
            yield (self.split.parts(number) == self.which)[max(0, self.first - start) : stop - start]


def n_rows_of(part: Any) -> int:  # noqa: ANN401
    """How many transitions a part has: it says so (`count`), or it is read."""
    with errors_naming_part(part.name):
        if hasattr(part, "count"):
            return int(part.count())
        blocks: Iterable[Transitions] = part.blocks()
        return sum(len(block) for block in blocks)
