"""Transitions: what training learns from, whatever form the observations came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args
from zlib import crc32

import numpy as np
import numpy.typing as npt

from itofit._checks import (
    RNG,
    Float,
    InputError,
    columns,
    columns_like,
    float_array,
    fraction,
    generator,
    one_of,
    plain_array,
    positive,
    same_rows,
)
from itofit.rows import PASS_ROWS, TRAIN, VALIDATION, Split, n_held_out, slices
from itofit.sources import BlockSource, Source
from itofit.trajectories import Pieces, as_trajectories, moves, steps_of

Kind = Literal["diffusion", "underdamped", "general"]
Form = Literal["pairs", "increments", "underdamped", "trajectory", "trajectories"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Transitions:
    """Observed moves of a noisy system: where it was, how far it moved, and in what time.

    Parameters
    ----------
    inputs : array of shape (n, m)
        What drift and covariance depend on; (n,) is read as one column.
    increments : array of shape (n, d)
        What they move; (n,) is read as one column.
    h : float or array of shape (n,)
        The time each move took.
    groups : array of shape (n,), optional
        Which trajectory each transition came from: numbers or strings.
    kind : {"diffusion", "underdamped", "general"}, optional
        How the inputs follow from the moving state, which simulation needs to know: they are the state; they are the
        new position and the old velocity; or something else, which cannot be simulated. Default: "diffusion" when
        m = d, else "general".

    Examples
    --------
    >>> import numpy as np, itofit
    >>> x0 = np.linspace(-1.0, 1.0, 100)
    >>> itofit.Transitions(x0, -0.1 * x0, h=0.1)
    Transitions(100 transitions, 1 input, 1 output, h = 0.1, kind = diffusion)
    """

    inputs: Float
    increments: Float
    h: Float
    groups: npt.NDArray[np.generic] | None
    kind: Kind

    def __init__(
        self,
        inputs: npt.ArrayLike,
        increments: npt.ArrayLike,
        h: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        kind: Kind | None = None,
    ) -> None:
        x, dx = columns("inputs", inputs), columns("increments", increments)
        same_rows("increments", dx, "inputs", x)
        if len(x) == 0:
            raise InputError("there are no transitions: inputs has no rows")
        m, d = x.shape[1], dx.shape[1]
        if kind is None:
            kind = "diffusion" if m == d else "general"
        one_of("kind", kind, get_args(Kind))
        if kind == "diffusion" and m != d:
            raise InputError(f"kind='diffusion' needs as many inputs as increments, got {m} and {d}")
        if kind == "underdamped" and m != 2 * d:
            raise InputError(
                "kind='underdamped' needs a position and a velocity for each increment: "
                f"expected {2 * d} inputs, got {m}"
            )
        self._set(inputs=x, increments=dx, h=_durations(h, len(x)), groups=_labels(groups, x), kind=kind)

    # Constructors

    @classmethod
    def from_pairs(
        cls, x0: npt.ArrayLike, x1: npt.ArrayLike, h: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> Transitions:
        """Scattered snapshots: the state x0 and, a time h later, x1.

        Parameters
        ----------
        x0, x1 : arrays of shape (n, d)
            Or (n,) for one variable.
        h : float or array of shape (n,)
        groups : array of shape (n,), optional

        Examples
        --------
        >>> import numpy as np, itofit
        >>> itofit.Transitions.from_pairs(np.zeros((50, 2)), np.ones((50, 2)), h=0.5).increments.shape
        (50, 2)
        """
        start = columns("x0", x0)
        end = columns_like("x1", x1, "x0", start)
        return cls(start, end - start, h, groups, "diffusion")

    @classmethod
    def from_underdamped(
        cls,
        x0: npt.ArrayLike,
        v0: npt.ArrayLike,
        x1: npt.ArrayLike,
        v1: npt.ArrayLike,
        h: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
    ) -> Transitions:
        """Positions and velocities of a second-order system, dx = v dt, dv = f(x, v) dt + σ(x, v) dW.

        The noise drives the velocity alone. Inputs are (x1, v0), increments v1 − v0: one step of the symplectic
        Euler-Maruyama scheme.

        Parameters
        ----------
        x0, v0, x1, v1 : arrays of shape (n, d)
            Or (n,) for one position.
        h : float or array of shape (n,)
        groups : array of shape (n,), optional
        """
        start = columns("x0", x0)
        velocity, end, new_velocity = (
            columns_like(name, value, "x0", start) for name, value in (("v0", v0), ("x1", x1), ("v1", v1))
        )
        inputs = np.concatenate([end, velocity], axis=1)
        return cls(inputs, new_velocity - velocity, h, groups, "underdamped")

    @classmethod
    def from_trajectories(
        cls,
        paths: npt.ArrayLike | Sequence[npt.ArrayLike],
        dt: float | None = None,
        times: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
        min_h: float | None = None,
        max_h: float | None = None,
    ) -> Transitions:
        """All moves between consecutive observations of one or several trajectories.

        A row with NaN is a missing observation: no move starts there, ends there or passes over it. No move leads
        from one trajectory to another. `groups` of the result counts the trajectories from 0.

        Parameters
        ----------
        paths : array or list of arrays
            One trajectory of shape (T, d) or (T,); several of the same length as (n, T, d); or a list of trajectories
            of any lengths. One trajectory given as a list of rows needs np.array(...) around it.
        dt : float, optional
            Time between observations. Give either `dt` or `times`.
        times : array of shape (T,) or list of arrays, optional
            Times of the observations, increasing, any spacing; one array serves all trajectories of its length.
        min_h, max_h : float, optional
            Moves that took less or more time are left out.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.array([0.0, 0.1, np.nan, 0.3, 0.2])
        >>> itofit.Transitions.from_trajectories(path, dt=0.5).inputs.ravel()
        array([0. , 0.3])
        """
        if (dt is None) == (times is None):
            given = "neither was given" if dt is None else "not both"
            raise InputError(f"give either dt, the time between observations, or times, one for each: {given}")
        trajectories = as_trajectories(paths)
        durations = steps_of(trajectories, dt, times)
        shortest = 0.0 if min_h is None else positive("min_h", min_h)
        longest = np.inf if max_h is None else positive("max_h", max_h)
        parts = []
        for label, (path, steps) in enumerate(zip(trajectories, durations, strict=True)):
            inputs, increments, h = moves(path, steps, shortest, longest)
            parts.append((inputs, increments, h, np.full(len(h), label)))
        if not any(len(part[0]) for part in parts):
            raise InputError(
                "the trajectories hold no transition: each has fewer than two consecutive observations "
                f"(lengths {', '.join(str(len(path)) for path in trajectories[:5])}"
                f"{', ...' if len(trajectories) > 5 else ''})"
                + ("" if min_h is None and max_h is None else ", or none between min_h and max_h")
            )
        inputs, increments, h, groups = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(inputs, increments, h, groups, "diffusion")

    @classmethod
    def from_blocks(
        cls,
        source: Source,
        form: Form = "pairs",
        *,
        h: float | None = None,
        kind: Kind | None = None,
    ) -> BlockedTransitions:
        """Data larger than memory, read block by block as often as needed.

        `fit` passes over such data five times, and eight times where it searches on a part of the rows (several inputs
        and more than 16,000 rows); with ``refine=False`` four or six times. It takes memory for a block, not for the
        data, and learns the same as from the same rows in memory, however they are cut into blocks.

        Parameters
        ----------
        source : callable, sequence or other re-iterable
            What gives the blocks: a function without arguments that starts a new iteration over them, a list of
            them, or any object that can be iterated over again and again. Or whole arrays that are sliced, such as
            memory-mapped ones or those of HDF5 files: for `form="trajectory"` the trajectory or a tuple of it and its
            times, for pairs and the like a tuple of them.
        form : {"pairs", "increments", "underdamped", "trajectory", "trajectories"}
            What a block is. A tuple of arrays (x0, x1, h), (inputs, increments, h) or (x0, v0, x1, v1, h), without h if
            it is given for all, with `groups` as a last element if known; or a dictionary or table of arrays with
            these names. For "trajectory" and "trajectories" an array of consecutive observations (T, d) or a tuple of
            them and their times: for the first each block goes on where the last one ended, for the second it is a
            trajectory of its own. A block may also be a `Transitions`.
        h : float, optional
            The time each move took, if blocks do not say.
        kind : {"diffusion", "underdamped", "general"}, optional
            As in `Transitions`, for `form="increments"`.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.cumsum(np.random.default_rng(0).normal(size=(1000, 2)), axis=0)
        >>> def blocks():
        ...     for start in range(0, 999, 100):          # read from files here
        ...         rows = path[start : start + 101]
        ...         yield rows[:-1], rows[1:]
        >>> data = itofit.Transitions.from_blocks(blocks, h=0.1)
        >>> len(data)
        999
        >>> len(itofit.Transitions.from_blocks(path, "trajectory", h=0.1))
        999
        >>> len(itofit.Transitions.from_blocks((path[:-1], path[1:]), h=0.1))
        999
        """
        return BlockedTransitions(source, form, h, kind)

    @classmethod
    def concatenate(cls, parts: Sequence[Transitions]) -> Transitions:
        """Several sets of transitions as one; groups are kept if all of them have some.

        Groups of different sets that have the same label count as one.
        """
        parts = list(parts)
        if not parts or not all(isinstance(part, Transitions) for part in parts):
            raise InputError("concatenate needs a list of Transitions, at least one")
        forms = {(part.n_inputs, part.n_outputs, part.kind) for part in parts}
        if len(forms) > 1:
            raise InputError(f"all parts must have the same inputs, outputs and kind, got {sorted(forms)}")
        if len(parts) == 1:
            return parts[0]
        grouped = all(part.groups is not None for part in parts)
        return cls._trusted(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.increments for part in parts]),
            np.concatenate([part.h for part in parts]),
            np.concatenate([part.groups for part in parts]) if grouped else None,
            parts[0].kind,
        )

    @classmethod
    def _trusted(
        cls, inputs: Float, increments: Float, h: Float, groups: npt.NDArray[np.generic] | None, kind: Kind
    ) -> Transitions:
        """Transitions from arrays that were checked before."""
        self = object.__new__(cls)
        self._set(inputs=inputs, increments=increments, h=h, groups=groups, kind=kind)
        return self

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    # What they are

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return self.inputs.shape[1]

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return self.increments.shape[1]

    @property
    def rates(self) -> Float:
        """Increments / h, the targets of the drift, shape (n, d)."""
        return self.increments / self.h[:, None]

    def __repr__(self) -> str:
        h = f"h = {shown_range(self.h.min(), self.h.max())}"
        parts = [
            plural(len(self), "transition"),
            plural(self.n_inputs, "input"),
            plural(self.n_outputs, "output"),
            h,
        ]
        if self.groups is not None:
            parts.append(plural(len(np.unique(self.groups)), "group"))
        return f"Transitions({', '.join(parts)}, kind = {self.kind})"

    # Parts of them

    def copy(self) -> Transitions:
        """The same transitions in arrays of their own."""
        groups = None if self.groups is None else self.groups.copy()
        return self._trusted(self.inputs.copy(), self.increments.copy(), self.h.copy(), groups, self.kind)

    def blocks(self) -> Iterator[Transitions]:
        """All transitions in order, in blocks of a fixed size."""
        for rows in slices(len(self)):
            yield self[rows]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Transitions:
        """Some of the transitions: a slice, a mask or an array of indices."""
        if isinstance(rows, list):
            rows = np.asarray(rows)
        if not isinstance(rows, slice) and (not isinstance(rows, np.ndarray) or rows.ndim != 1):
            raise InputError(f"select transitions with a slice, a mask or an array of indices, got {rows!r}")
        groups = None if self.groups is None else self.groups[rows]
        chosen = self._trusted(self.inputs[rows], self.increments[rows], self.h[rows], groups, self.kind)
        if not len(chosen):
            raise InputError("there are no transitions left: none was selected")
        return chosen

    def split(
        self, held_out: float = 0.1, *, by: Literal["rows", "groups"] = "rows", rng: RNG = None
    ) -> tuple[Transitions, Transitions]:
        """Two parts at random: one to learn from, one held out.

        Parameters
        ----------
        held_out : float
            Share of the rows (or of the groups) that is held out, between 0 and 1; at least one is on each side.
        by : {"rows", "groups"}
            Whether single transitions or whole trajectories are held out.
        rng : int, Generator or None

        Returns
        -------
        rest, held_out : Transitions

        Examples
        --------
        >>> import numpy as np, itofit
        >>> x = np.linspace(0, 1, 200)
        >>> data = itofit.Transitions.from_pairs(x, x**2, 0.1)
        >>> rest, validation = data.split(0.1, rng=0)
        >>> len(rest), len(validation)
        (180, 20)
        """
        share = fraction("held_out", held_out)
        random, _ = generator(rng)
        if one_of("by", by, ("rows", "groups")) == "groups":
            if self.groups is None:
                raise InputError("by='groups' needs transitions with groups; this data has none")
            labels, unit = np.unique(self.groups, return_inverse=True)
            n_units = len(labels)
        else:
            unit = np.arange(len(self))
            n_units = len(self)
        if n_units < 2:
            raise InputError(f"cannot split {plural(n_units, by.removesuffix('s'))}: at least two are needed")
        out = np.zeros(n_units, dtype=bool)
        out[random.permutation(n_units)[: n_held_out(share, n_units)]] = True
        return self[~out[unit]], self[out[unit]]


class BlockedTransitions:
    """Transitions that are read block by block, again for each pass; `Transitions.from_blocks` makes them.

    Only their first block is read when they are made. Every pass checks that the source gives blocks of the same
    lengths as before.
    """

    def __init__(self, source: Source, form: Form, h: float | None, kind: Kind | None) -> None:
        self._form = one_of("form", form, get_args(Form))
        if isinstance(source, Transitions):
            source = [source]
        self._source = BlockSource(source, blocks_are_arrays=form in ("trajectory", "trajectories"))
        self._h = None if h is None else positive("h", h)
        if kind is not None and form != "increments":
            raise InputError(f"kind can be chosen for form='increments' alone; it follows from form={form!r}")
        self._declared_kind = kind
        self._lengths: list[int] | None = None
        self._ends: list[int] = []
        first = next(self._converted(), None)
        if first is None:
            raise InputError("the source of blocks holds no transition")
        self.n_inputs, self.n_outputs = first[1].n_inputs, first[1].n_outputs
        self.kind: Kind = first[1].kind

    def __len__(self) -> int:
        """How many transitions there are; before the first whole pass, this makes one."""
        if self._lengths is None:
            for _ in self._checked():
                pass
        assert self._lengths is not None
        return sum(self._lengths)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        read = "not read yet"
        if self._lengths is not None:
            read = f"{plural(sum(self._lengths), 'transition')} in {plural(len(self._lengths), 'block')}"
        widths = f"{plural(self.n_inputs, 'input')}, {plural(self.n_outputs, 'output')}"
        return f"BlockedTransitions({read}, {widths}, kind = {self.kind})"

    def blocks(self) -> Iterator[Transitions]:
        """All transitions in order, in blocks of a fixed size, whatever blocks the source gives.

        Rows are copied as they come, because a source may use its arrays again.
        """
        waiting: list[Transitions] = []
        n_waiting = 0
        for block in self._checked():
            start = 0
            while start < len(block):
                part = block[start : start + PASS_ROWS - n_waiting]
                start += len(part)
                n_waiting += len(part)
                if n_waiting < PASS_ROWS:
                    waiting.append(part.copy())
                else:
                    yield Transitions.concatenate([*waiting, part])
                    waiting, n_waiting = [], 0
        if waiting:
            yield Transitions.concatenate(waiting)

    def split(self, held_out: float = 0.1, *, rng: RNG = None) -> tuple[BlockedTransitions, BlockedTransitions]:
        """Two parts at random, one to learn from and one held out, each read through the whole.

        Parameters
        ----------
        held_out : float
            Share of the transitions that is held out, between 0 and 1; at least one is on each side.
        rng : int, Generator or None

        Returns
        -------
        rest, held_out : BlockedTransitions
        """
        share = fraction("held_out", held_out)
        random, _ = generator(rng)
        n = len(self)
        if n < 2:
            raise InputError(f"cannot split {plural(n, 'row')}: at least two are needed")
        split = Split(int(random.integers(2**63)), n, n, n_held_out(share, n))

        def part(which: int) -> Iterator[Transitions]:
            for i, block in enumerate(self.blocks()):
                chosen = np.flatnonzero(split.parts(i) == which)
                if len(chosen):
                    yield block[chosen]

        rest, out = (Transitions.from_blocks(partial(part, which)) for which in (TRAIN, VALIDATION))
        return rest, out

    def _checked(self) -> Iterator[Transitions]:
        """The source's blocks, with an error if they differ in form, or in length from those of an earlier pass."""
        lengths: list[int] = []
        if self._lengths is None:
            self._ends = []
        for i, block in self._converted():
            if (block.n_inputs, block.n_outputs, block.kind) != (self.n_inputs, self.n_outputs, self.kind):
                raise InputError(
                    f"block {i} of the source has {plural(block.n_inputs, 'input')} and "
                    f"{plural(block.n_outputs, 'output')}, kind {block.kind}; the first has {self.n_inputs} and "
                    f"{self.n_outputs}, kind {self.kind}"
                )
            n = len(lengths)
            if self._lengths is not None and (n >= len(self._lengths) or len(block) != self._lengths[n]):
                before = f"had {self._lengths[n]}" if n < len(self._lengths) else "did not exist"
                raise InputError(
                    f"block {i} of the source has {plural(len(block), 'transition')} and {before} in an earlier pass: "
                    "the source must give the same blocks each time it is read"
                )
            ends = crc32(b"".join(part[[0, -1]].tobytes() for part in (block.inputs, block.increments, block.h)))
            if self._lengths is None:
                self._ends.append(ends)
            elif ends != self._ends[n]:
                raise InputError(
                    f"block {i} of the source has other values than in an earlier pass: the source must give the same "
                    "blocks each time it is read"
                )
            lengths.append(len(block))
            yield block
        if self._lengths is not None and len(lengths) < len(self._lengths):
            raise InputError(
                f"block {len(lengths)} of the source is missing: it gave {plural(len(self._lengths), 'block')} in an "
                "earlier pass; if it is a function, it must start a new iteration each time it is called"
            )
        self._lengths = lengths

    def _converted(self) -> Iterator[tuple[int, Transitions]]:
        """The source's blocks with their numbers, as Transitions; an error names the block that cannot be."""
        pieces = Pieces(self._h)
        with closing(self._source.blocks()) as blocks:
            for i, block in enumerate(blocks):
                try:
                    if isinstance(block, Transitions):
                        found, pieces = block, Pieces(self._h)
                    elif self._form == "trajectory":
                        found = Transitions._trusted(*pieces.moves(block), None, "diffusion")
                    elif self._form == "trajectories":
                        moved = Pieces(self._h).moves(block)
                        found = Transitions._trusted(*moved, np.full(len(moved[2]), i), "diffusion")
                    else:
                        found = self._transitions(block)
                except InputError as error:
                    raise InputError(f"block {i} of the source: {error}") from None
                if len(found):
                    yield i, found

    def _transitions(self, block: object) -> Transitions:
        """A block of arrays as Transitions."""
        make, names = _FORMS[self._form]
        order = [name for name in names if name != "h" or self._h is None]
        if isinstance(block, Mapping) or hasattr(block, "iloc"):
            arguments = dict(block)  # type: ignore[call-overload]
        elif isinstance(block, tuple | list) and len(block) <= len(order):
            arguments = dict(zip(order, block, strict=False))
        else:
            got = f"{len(block)} elements" if isinstance(block, tuple | list) else type(block).__name__
            raise InputError(f"must be a tuple ({', '.join(order[:-1])}), a dictionary or Transitions, got {got}")
        if unknown := [str(name) for name in arguments if name not in names]:
            raise InputError(f"has {', '.join(unknown)}, which is none of {', '.join(names)}")
        if self._h is not None:
            third = np.asarray(arguments.get("groups", 0))
            if "h" in arguments or third.dtype.kind == "f":
                raise InputError("h was given twice, in the block and as h=")
            arguments["h"] = self._h
        if missing := [name for name in names[:-1] if name not in arguments]:
            raise InputError(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
                + ("; give it in each block, or to from_blocks as h=" if missing == ["h"] else "")
            )
        first = plain_array(names[0], arguments[names[0]])
        if first.ndim and not len(first):
            raise InputError("is empty; leave such blocks out")
        if self._form == "increments":
            arguments["kind"] = self._declared_kind
        return make(**arguments)


_FORMS: dict[str, tuple[Callable[..., Transitions], tuple[str, ...]]] = {
    "pairs": (Transitions.from_pairs, ("x0", "x1", "h", "groups")),
    "increments": (Transitions, ("inputs", "increments", "h", "groups")),
    "underdamped": (Transitions.from_underdamped, ("x0", "v0", "x1", "v1", "h", "groups")),
}


def shown_range(low: float, high: float) -> str:
    """Two numbers, or one if they differ by rounding alone."""
    return f"{low:g}" if high - low <= 1e-9 * high else f"{low:.3g} to {high:.3g}"


def plural(n: int, word: str) -> str:
    """A number and what it counts, in words."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _durations(h: npt.ArrayLike, n: int) -> Float:
    """One h for each of n transitions; a single number serves all of them and takes no memory."""
    durations = float_array("h", h)
    if durations.ndim == 2 and durations.shape == (n, 1):
        durations = durations[:, 0]
    if durations.ndim > 1 or (durations.ndim == 1 and len(durations) != n):
        raise InputError(f"h must be a number or have shape ({n},), got {durations.shape}")
    if not (durations > 0).all():
        raise InputError(
            f"h must be > 0: {int((durations <= 0).sum())} of {durations.size} values are not, "
            f"the smallest is {durations.min():g}"
        )
    return np.broadcast_to(durations, (n,))


def _labels(groups: npt.ArrayLike | None, inputs: Float) -> npt.NDArray[np.generic] | None:
    if groups is None:
        return None
    labels = plain_array("groups", groups)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.ravel()):
        labels = labels.astype(str)
    if labels.ndim != 1 or labels.dtype.kind not in "iubUS":
        raise InputError(
            f"groups must be one whole number or string for each transition, got shape {labels.shape}, {labels.dtype}"
        )
    same_rows("groups", labels, "inputs", inputs)
    return labels
