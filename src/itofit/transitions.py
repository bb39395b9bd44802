"""Transitions: what training learns from, whatever form the observations came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, get_args

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

Kind = Literal["diffusion", "underdamped", "general"]


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
        fields = {"inputs": x, "increments": dx, "h": _durations(h, len(x)), "groups": _labels(groups, x), "kind": kind}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

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
        trajectories = _trajectories(paths)
        durations = _steps(trajectories, dt, times)
        shortest = 0.0 if min_h is None else positive("min_h", min_h)
        longest = np.inf if max_h is None else positive("max_h", max_h)
        inputs, increments, h, groups = [], [], [], []
        for label, (path, steps) in enumerate(zip(trajectories, durations, strict=True)):
            seen = ~np.isnan(path.sum(axis=1))
            kept = seen[:-1] & seen[1:] & (steps >= shortest) & (steps <= longest)
            inputs.append(path[:-1][kept])
            increments.append(np.diff(path, axis=0)[kept])
            h.append(steps[kept])
            groups.append(np.full(int(kept.sum()), label))
        if not sum(len(part) for part in h):
            raise InputError(
                "the trajectories hold no transition: each has fewer than two consecutive observations "
                f"(lengths {', '.join(str(len(path)) for path in trajectories[:5])}"
                f"{', ...' if len(trajectories) > 5 else ''})"
                + ("" if min_h is None and max_h is None else ", or none between min_h and max_h")
            )
        return cls(
            np.concatenate(inputs), np.concatenate(increments), np.concatenate(h), np.concatenate(groups), "diffusion"
        )

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
        low, high = self.h.min(), self.h.max()
        h = f"h = {low:g}" if low == high else f"h = {low:.3g} to {high:.3g}"
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

    def __getitem__(self, rows: slice | npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Transitions:
        """Some of the transitions: a slice, a mask or an array of indices."""
        if isinstance(rows, list):
            rows = np.asarray(rows)
        if not isinstance(rows, slice) and (not isinstance(rows, np.ndarray) or rows.ndim != 1):
            raise InputError(f"select transitions with a slice, a mask or an array of indices, got {rows!r}")
        groups = None if self.groups is None else self.groups[rows]
        return Transitions(self.inputs[rows], self.increments[rows], self.h[rows], groups, self.kind)

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
        n_out = min(max(round(share * n_units), 1), n_units - 1)
        out = np.zeros(n_units, dtype=bool)
        out[random.permutation(n_units)[:n_out]] = True
        return self[~out[unit]], self[out[unit]]


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


def _trajectories(paths: npt.ArrayLike | Sequence[npt.ArrayLike]) -> list[Float]:
    """Trajectories as a list of arrays of shape (T, d)."""
    if isinstance(paths, np.ndarray) and paths.dtype.kind == "O":
        raise InputError("paths must be numbers, got dtype object; give trajectories of different lengths as a list")
    if isinstance(paths, list | tuple) and _holds_arrays(paths):
        lengths = {len(path) if isinstance(path, list | tuple) else None for path in paths}
        if None not in lengths and len(lengths) == 1 and len(paths) > len(paths[0]):
            raise InputError(
                f"paths is a list of {len(paths)} lists of {len(paths[0])}: "
                "for one trajectory give np.array(paths), for several a list of arrays"
            )
        found = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(paths)]
    else:
        array = float_array("paths", paths, allow_nan=True)  # type: ignore[arg-type]
        if array.ndim == 3:
            found = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(array)]
        else:
            found = [columns("paths", array, allow_nan=True)]
    if not found:
        raise InputError("paths holds no trajectory")
    widths = {path.shape[1] for path in found}
    if len(widths) > 1:
        raise InputError(f"all trajectories must have the same number of columns, got {sorted(widths)}")
    return found


def _holds_arrays(values: Sequence[object]) -> bool:
    """Whether a list is one of arrays (or lists), and not of numbers."""
    return len(values) > 0 and (isinstance(values[0], list | tuple) or np.ndim(values[0]) > 0)  # type: ignore[arg-type]


def _steps(paths: list[Float], dt: float | None, times: npt.ArrayLike | Sequence[npt.ArrayLike] | None) -> list[Float]:
    """The time from each observation to the next, for each trajectory."""
    if dt is not None:
        step = positive("dt", dt)
        return [np.full(max(len(path) - 1, 0), step) for path in paths]
    if isinstance(times, np.ndarray) and times.ndim == 2:
        times = list(times)
    if isinstance(times, list | tuple) and _holds_arrays(times):
        if len(times) != len(paths):
            raise InputError(f"times must have one array for each trajectory: expected {len(paths)}, got {len(times)}")
        clocks = [_clock(f"times[{i}]", clock, path) for i, (clock, path) in enumerate(zip(times, paths, strict=True))]
    else:
        clocks = [_clock("times", times, path) for path in paths]  # type: ignore[arg-type]
    return [np.diff(clock) for clock in clocks]


def _clock(name: str, times: npt.ArrayLike | None, path: Float) -> Float:
    array = plain_array(name, times)  # type: ignore[arg-type]
    first = array.flat[0] if array.size and array.dtype.kind == "O" else None
    if array.dtype.kind in "mM" or isinstance(first, date | timedelta):
        raise InputError(
            f"{name} must be numbers, got dates; take t = np.asarray({name}, dtype='datetime64[us]'), then "
            "(t - t[0]) / np.timedelta64(1, 's')"
        )
    clock = float_array(name, array)
    if clock.shape != (len(path),):
        raise InputError(f"{name} must have one time for each observation: expected ({len(path)},), got {clock.shape}")
    backward = np.flatnonzero(np.diff(clock) <= 0)
    if len(backward):
        i = int(backward[0])
        raise InputError(
            f"{name} must be increasing: {name}[{i}] = {clock[i]:g} is followed by {clock[i + 1]:g}; "
            "sort the rows, drop repeated times, and give several trajectories as a list"
        )
    return clock
