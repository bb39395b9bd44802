"""Transitions that do not fit into memory, read block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Either, Float, InputError, Option, message_of, one_of, positive
from itofit.data import rows
from itofit.data.covariates import covariate_rows, moving, warn_of_unknown
from itofit.data.large.pieces import Pieces
from itofit.data.large.sources import BlockSource, FirstPass, Source, block_arguments
from itofit.data.names import (
    Form,
    Kind,
    Names,
    checked_variables,
    default_names,
    plural,
    same_drivers_and_periods,
    same_names,
    underdamped_names,
)
from itofit.data.periods import Periodic, checked_periods, nearest_image, surroundings_text, wrapped
from itofit.data.rows import TRAIN, VALIDATION
from itofit.data.splitting import split_of_rows
from itofit.data.trajectories import complete
from itofit.data.transitions import Transitions
from itofit.data.with_units import WithUnits, with_those_of


class NotInMemoryError(InputError, AttributeError):
    """An attribute was asked for that only transitions in memory have."""


class BlockedTransitions(WithUnits):
    """Transitions that are read block by block, again for each pass; `Transitions.from_blocks` makes them.

    Only their first block is read when they are made. Every pass checks that the source gives blocks of the same
    lengths as before.
    """

    in_memory = False

    def __init__(
        self,
        source: Source,
        form: Form,
        h: float | None,
        kind: Kind | None,
        names: Names | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
    ) -> None:
        self._form = one_of("form", form, get_args(Form))
        if isinstance(source, Transitions):
            source = [source]
        self._source = BlockSource(source, blocks_are_arrays=form in TRACKS)
        self._h = None if h is None else positive("h", h)
        if (
            kind is not None
            and form != "increments"
            and not (form in TRACKS and isinstance(kind, str) and kind == "positions")
        ):
            raise InputError(
                "{kind} can be chosen for {increments} alone; it follows from {form}",
                kind=Option("kind"),
                increments=Option("form", "increments"),
                form=Option("form", form),
            )
        self._declared_kind = kind
        self._names, self._covariate_names, self._periodic = names, covariate_names, periodic
        self._warned = False
        self._first_pass = FirstPass()
        first = next(self._converted(), None)
        if first is None:
            raise InputError("{problem}", problem=NO_TRANSITION)
        self.n_inputs, self.n_outputs = first[1].n_inputs, first[1].n_outputs
        self.kind: Kind = first[1].kind
        self.input_names, self.output_names = first[1].input_names, first[1].output_names
        self.n_covariates, self.periods, self.units = first[1].n_covariates, first[1].periods, first[1].units
        self._units_of_source = self.units  # which `with_units` does not replace

    def __len__(self) -> int:
        """How many transitions there are; before the first whole pass, this makes one."""
        if self._first_pass.lengths is None:
            for _ in self._checked():
                pass
        assert self._first_pass.lengths is not None
        return sum(self._first_pass.lengths)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        read = "not read yet"
        if (lengths := self._first_pass.lengths) is not None:
            read = f"{plural(sum(lengths), 'transition')} in {plural(len(lengths), 'block')}"
        widths = f"{plural(self.n_inputs, 'input')}, {plural(self.n_outputs, 'output')}"
        return f"BlockedTransitions({read}, {widths}, kind = {self.kind}{surroundings_text(self)})"

    def blocks(self) -> Iterator[Transitions]:
        """All transitions in order, in blocks of a fixed size, whatever blocks the source gives.

        Rows are copied as they come, because a source may use its arrays again.
        """
        waiting: list[Transitions] = []
        n_waiting = 0
        for block in self._checked():
            start = 0
            while start < len(block):
                part = block[start : start + rows.PASS_ROWS - n_waiting]
                start += len(part)
                n_waiting += len(part)
                if n_waiting < rows.PASS_ROWS:
                    waiting.append(part.copy())
                else:
                    yield Transitions.concatenate([*waiting, part])
                    waiting, n_waiting = [], 0
        if waiting:
            yield Transitions.concatenate(waiting)

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Say why there are no arrays of all transitions."""
            if name in ARRAYS:
                raise NotInMemoryError(
                    f"transitions that are read block by block have no {name} of all of them at once: take those of "
                    "each block, for block in data.blocks(), or of a part that fits into memory, "
                    "next(data.blocks())"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def split(
        self, held_out: float = 0.1, *, by: Literal["rows"] = "rows", rng: RNG = None
    ) -> tuple[BlockedTransitions, BlockedTransitions]:
        """Two parts at random, one to learn from and one held out; a pass over either reads all of the data.

        Parameters
        ----------
        held_out : float
            Share of the transitions that is held out, between 0 and 1; at least one is on each side.
        by : {"rows"}
            Single transitions. Whole trajectories can be held out of `Transitions` in memory alone.
        rng : int, Generator or None

        Returns
        -------
        rest, held_out : BlockedTransitions
        """
        split = split_of_rows(self, held_out, by, rng, "block by block")

        def part(which: int) -> Iterator[Transitions]:
            for i, block in enumerate(self.blocks()):
                chosen = np.flatnonzero(split.parts(i) == which)
                if len(chosen):
                    yield block[chosen]

        rest, out = (
            Transitions.from_blocks(partial(part, which))._carrying(self.units) for which in (TRAIN, VALIDATION)
        )
        return rest, out

    def _checked(self) -> Iterator[Transitions]:
        """The source's blocks; raise if they differ from each other in form, or from those of an earlier pass."""
        return self._first_pass.checked(self._of_one_form())

    def _of_one_form(self) -> Iterator[tuple[int, Transitions]]:
        """The source's blocks with their numbers, in the units of these data; raise if one has other variables.

        Their units are compared with those of all blocks before them: the first ones may have none.
        """
        known = self._units_of_source
        for i, block in self._converted():
            if (block.n_inputs, block.n_outputs, block.kind) != (self.n_inputs, self.n_outputs, self.kind):
                raise InputError(
                    f"block {i} of the source has {plural(block.n_inputs, 'input')} and "
                    f"{plural(block.n_outputs, 'output')}, kind {block.kind}; the first has {self.n_inputs} and "
                    f"{self.n_outputs}, kind {self.kind}"
                )
            try:
                same_drivers_and_periods(block, self)
                same_names(block, self)
                known = with_those_of(block, known)
            except InputError as error:
                raise _in_block(i, error) from None
            yield i, block._carrying(self.units)

    def _converted(self) -> Iterator[tuple[int, Transitions]]:
        """The source's blocks with their numbers, as Transitions; an error names the block that cannot be converted.

        At the end of the first whole pass a warning says how many transitions lack a covariate and were left out.
        """
        pieces, n_unknown, n_all = Pieces(self._h), 0, 0
        with closing(self._source.blocks()) as blocks:
            for i, block in enumerate(blocks):
                try:
                    if isinstance(block, Transitions):
                        transitions, pieces = block, Pieces(self._h)
                    elif self._form == "trajectory":
                        transitions = self._from_moves(*pieces.moves(block), None, pieces.d)
                    elif self._form == "trajectories":
                        own = Pieces(self._h)
                        moves = own.moves(block)
                        transitions = self._from_moves(*moves, np.full(len(moves[2]), i), own.d)
                    else:
                        transitions = self._from_arrays(block)
                    known = complete(transitions.inputs[:, transitions.n_inputs - transitions.n_covariates :])
                    n_unknown, n_all = n_unknown + int((~known).sum()), n_all + len(known)
                    if not known.any():
                        continue
                    transitions = self._described(transitions if known.all() else transitions[known])
                except InputError as error:
                    raise _in_block(i, error) from None
                yield i, transitions
        if n_unknown and not self._warned:
            self._warned = True
            warn_of_unknown(n_unknown, n_all)

    def _from_arrays(self, block: object) -> Transitions:
        """Transitions from a tuple, dictionary or table of arrays; rows with unknown covariates are among them."""
        make, order = FORMS[self._form]
        arguments = block_arguments(block, order, self._h)
        if make is Transitions:
            arguments["kind"] = self._declared_kind
        covariates = arguments.pop("covariates", None)
        transitions = make(**arguments)
        if covariates is None:
            return transitions
        u = covariate_rows(covariates, len(transitions), "transition")
        inputs = np.concatenate([transitions.inputs, u], axis=1)
        return _trusted(inputs, transitions.increments, transitions.h, transitions.groups, transitions.kind, u.shape[1])

    def _from_moves(
        self, start: Float, increments: Float, h: Float, groups: npt.NDArray[np.generic] | None, d: int
    ) -> Transitions:
        """Transitions from the moves of a trajectory, with default names."""
        return _trusted(start, increments, h, groups, self._declared_kind or "diffusion", start.shape[1] - d)

    def _described(self, block: Transitions) -> Transitions:
        """A block with the names and periods that were given for all, unless it has its own."""
        kind, d, k = block.kind, block.n_outputs, block.n_covariates
        names, periods, units = (block.input_names, block.output_names), block.periods, block.units
        named = self._names is not None or self._covariate_names is not None
        if named and names == default_names(block.n_inputs, d, kind, k):
            own = underdamped_names(d, self._names) if kind == "underdamped" else self._names
            names = checked_variables(block.n_inputs - k, d, kind, own, None, k, self._covariate_names)[1:]
            before = (*block.input_names, *block.output_names)
            units = units.renamed(dict(zip(before, (*names[0], *names[1]), strict=True)))
        if self._periodic is not None and not periods.any():
            periods = checked_periods(self._periodic, names[0])
        x, dx = wrapped(block.inputs, periods), block.increments
        dx = dx if kind == "general" else nearest_image(dx, periods[:, moving(block)])
        return Transitions._trusted(x, dx, block.h, block.groups, kind, *names, k, periods, units)


def _trusted(
    inputs: Float, increments: Float, h: Float, groups: npt.NDArray[np.generic] | None, kind: Kind, k: int
) -> Transitions:
    """Transitions with default names, of whose inputs the last k are covariates."""
    names = default_names(inputs.shape[1], increments.shape[1], kind, k)
    return Transitions._trusted(inputs, increments, h, groups, kind, *names, k)


def _in_block(number: int, error: InputError) -> InputError:
    """An error in a block of the source, with the number of the block; a file has no blocks that a user knows of."""
    block = Either(python=f"block {number} of the source: ", command="")
    return InputError("{block}{problem}", block=block, problem=message_of(error))


NO_TRANSITION = Either(
    python="the source of blocks holds no transition",
    command="there is no transition: no track has two complete rows in a row",
)
TRACKS = ("trajectory", "trajectories")
ARRAYS = ("inputs", "increments", "h", "groups", "rates")
FORMS: dict[str, tuple[Callable[..., Transitions], tuple[str, ...]]] = {
    "pairs": (Transitions.from_pairs, ("x0", "x1", "h", "groups", "covariates")),
    "increments": (Transitions, ("inputs", "increments", "h", "groups", "covariates")),
    "underdamped": (Transitions.from_underdamped, ("x0", "v0", "x1", "v1", "h", "groups", "covariates")),
}
