"""Rows of transitions in memory: what they hold, their sizes, and parts of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, fraction, generator, is_whole, plain_array, shown
from itofit.data.names import Kind, plural, shown_range
from itofit.data.periods import surroundings_text
from itofit.data.rows import slices
from itofit.data.splitting import held_out_rows
from itofit.data.units import NO_UNITS, Units, behind
from itofit.data.with_units import WithUnits


def _check_choice(rows: object, n: int) -> None:
    """Raise unless they choose among n transitions: a slice, a mask, or indices."""
    if isinstance(rows, slice):
        valid = all(end is None or is_whole(end) for end in (rows.start, rows.stop, rows.step)) and rows.step != 0
    else:
        valid = isinstance(rows, np.ndarray) and rows.ndim == 1 and (rows.dtype.kind in "biu" or not rows.size)
    if not valid:
        raise InputError(f"select transitions with a slice, a mask or an array of indices, got {shown(rows)}")
    if not isinstance(rows, np.ndarray):
        return
    if rows.dtype.kind == "b" and len(rows) != n:
        raise InputError(f"a mask must have a value for each of {plural(n, 'transition')}, got {len(rows)}")
    if rows.dtype.kind in "iu" and rows.size and not -n <= rows.min() <= rows.max() < n:
        far = rows.max() if rows.max() >= n else rows.min()
        raise InputError(f"there are {plural(n, 'transition')}, and none has the index {far}")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MoveRows(WithUnits):
    """What `itofit.Transitions` hold, whichever way they were made."""

    in_memory = True

    inputs: Float
    increments: Float
    h: Float
    groups: npt.NDArray[np.generic] | None
    kind: Kind
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    n_covariates: int
    periods: Float
    units: Units

    @classmethod
    def _trusted(
        cls,
        inputs: Float,
        increments: Float,
        h: Float,
        groups: npt.NDArray[np.generic] | None,
        kind: Kind,
        input_names: tuple[str, ...],
        output_names: tuple[str, ...],
        n_covariates: int = 0,
        periods: Float | None = None,
        units: Units = NO_UNITS,
    ) -> Self:
        """Transitions from arrays and names that were checked before."""
        self = object.__new__(cls)
        own = np.zeros((2, len(input_names))) if periods is None else periods
        self._set(inputs, increments, h, groups, kind, input_names, output_names, n_covariates, own, units)
        return self

    def _set(self, *values: object) -> None:
        for name, value in zip(MoveRows.__annotations__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def _variables(self) -> tuple[Kind, tuple[str, ...], tuple[str, ...], int, Float, Units]:
        return self.kind, self.input_names, self.output_names, self.n_covariates, self.periods, self.units

    # Sizes and rates

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
        sizes = {"transition": len(self), "input": self.n_inputs, "output": self.n_outputs}
        parts = [plural(n, word) for word, n in sizes.items()]
        parts.append(f"h = {shown_range(self.h.min(), self.h.max())}{behind(self.units.time)}")
        if self.groups is not None:
            parts.append(plural(len(np.unique(self.groups)), "group"))
        return f"Transitions({', '.join(parts)}, kind = {self.kind}{surroundings_text(self)})"

    # Parts

    def copy(self) -> Self:
        """The same transitions in arrays of their own."""
        groups = None if self.groups is None else self.groups.copy()
        return self._trusted(self.inputs.copy(), self.increments.copy(), self.h.copy(), groups, *self._variables)

    def blocks(self) -> Iterator[Self]:
        """All transitions in order, in blocks of a fixed size."""
        for rows in slices(len(self)):
            yield self[rows]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Self:
        """Some of the transitions: a slice, a mask or an array of indices."""
        if isinstance(rows, list):
            rows = plain_array("rows", rows)
        _check_choice(rows, len(self))
        if isinstance(rows, np.ndarray) and not rows.size:
            rows = rows.astype(np.intp)
        groups = None if self.groups is None else self.groups[rows]
        chosen = self._trusted(self.inputs[rows], self.increments[rows], self.h[rows], groups, *self._variables)
        if not len(chosen):
            raise InputError("there are no transitions left: none was selected")
        return chosen

    def split(
        self, held_out: float = 0.1, *, by: Literal["rows", "groups"] = "rows", rng: RNG = None
    ) -> tuple[Self, Self]:
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
        out = held_out_rows(random, share, len(self), by, self.groups)
        return self[~out], self[out]
