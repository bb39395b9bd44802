"""Sets of states: numbers, intervals, boxes, functions of points; where a path starts, and what it shall reach."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, answer_of, float_array, shown
from itofit.data.names import did_you_mean
from itofit.data.periods import is_periodic, wrapped
from itofit.data.units import behind
from itofit.dynamics.motion import Motion

Bool: TypeAlias = npt.NDArray[np.bool_]
States: TypeAlias = float | Sequence[Any] | Mapping[str, Any] | Callable[[Float], Any] | npt.ArrayLike
"""A point, or a set of states, as a user gives it."""
HALVINGS = 30
"""Of a step, to find where it enters a set."""
TURNS = (-2, -1, 0, 1)
"""Whole periods from a value to its images that a way may pass: intervals end up to two periods after the first."""


@dataclass(frozen=True, eq=False)
class Region:
    """A set of states.

    Parameters
    ----------
    text : str
        In words.
    contains : callable or None
        States (n, s) to an array of bool (n,); None for a level.
    level : float or None
        The one value of the only variable that it consists of.
    ends : tuple of two floats or None
        Where an interval of the only variable begins and ends; of a periodic one it begins within the period, and may
        end beyond.
    point : array of shape (s,) or None
        Where a path starts.
    periods : array of shape (2, s)
        Where one period of each variable begins and ends, both zero if it does not go round.
    """

    text: str
    contains: Callable[[Float], Bool] | None = None
    level: float | None = None
    ends: tuple[float, float] | None = None
    point: Float | None = None
    periods: Float | None = None

    def inside(self, points: Float) -> Bool:
        """Which points (n, s) belong to it."""
        if self.contains is None:
            at = self.level if self.point is None else self.point
            return np.asarray((points == at).all(axis=1))
        within = points if self.periods is None else wrapped(points, self.periods)
        return self.contains(within)

    def way_to(self, start: Float, end: Float) -> Float:
        """The share of the way from start to end, both (n, s), after which it is entered: infinite if it is not.

        Along periodic variables ways may begin and end beyond the period, and are shorter than it.
        """
        if self.periods is not None and self.periods.any():
            turns = wrapped(start, self.periods) - start
            start, end = start + turns, end + turns
        if self.level is not None:
            return self._way_to_one_of([self.level], start, end)
        if self.ends is not None:
            finite = [e for e in self.ends if np.isfinite(e)]
            return np.where(self.inside(start), np.inf, self._way_to_one_of(finite, start, end))
        way = np.full(len(start), np.inf)
        enters = np.flatnonzero(self.inside(end))
        enters = enters[~self.inside(start[enters])]
        if len(enters):
            a, b = start[enters], end[enters]
            low, high = np.zeros(len(enters)), np.ones(len(enters))
            for _ in range(HALVINGS):
                middle = 0.5 * (low + high)
                within = self.inside(a + middle[:, None] * (b - a))
                low, high = np.where(within, low, middle), np.where(within, middle, high)
            way[enters] = high
        return way

    def _way_to_one_of(self, levels: list[float], start: Float, end: Float) -> Float:
        """The share of the way (n,) to the first of some values of the only variable, or of their images."""
        period = 0.0 if self.periods is None else float(self.periods[1, 0] - self.periods[0, 0])
        turns = TURNS if period else (0,)
        images = [level + k * period for level in levels for k in turns]
        return np.minimum.reduce([_way_to_level(start[:, 0], end[:, 0], image) for image in images])


def _way_to_level(a: Float, b: Float, level: float) -> Float:
    passes = ((a < level) & (b >= level)) | ((a > level) & (b <= level))
    length = np.where(passes, b - a, 1.0)
    return np.where(passes, (level - a) / length, np.inf)


def region_of(argument: str, given: States | Region, motion: Motion, *, start: bool = False) -> Region:
    """A set of states that a user gave, checked.

    Parameters
    ----------
    argument : str
        Its name, for messages.
    given
        A number or an interval (1-D), a point (only to start from, unless there is one variable), a dictionary from
        names to intervals, or a function.
    motion : Motion
    start : bool
        Whether it is where paths start.
    """
    if isinstance(given, Region):
        return given
    if callable(given):
        return _of_function(argument, given, motion)
    if isinstance(given, Mapping):
        return _of_mapping(argument, given, motion, start=start)
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        if motion.s > 1:
            raise InputError(_expected(argument, motion, given, start=start))
        return _of_numbers(argument, float_array(argument, np.atleast_1d(given)), motion, start=start)
    try:
        ends: list[Any] = list(given)  # type: ignore[arg-type]
        if any(isinstance(end, complex | np.complexfloating) for end in ends):
            raise TypeError
        values = [np.inf * (2 * i - 1) if end is None else float(end) for i, end in enumerate(ends)]
    except (TypeError, ValueError, OverflowError):
        raise InputError(_expected(argument, motion, given, start=start)) from None
    if motion.s == 1 and len(values) == 2:
        return _of_mapping(argument, {motion.names[0]: given}, motion, start=start)
    if len(values) != motion.s:
        raise InputError(_expected(argument, motion, given, start=start))
    return _of_numbers(argument, np.array(values), motion, start=start)


def _expected(argument: str, motion: Motion, given: object, *, start: bool) -> str:
    names = ", ".join(motion.names)
    box = "{" + f"{motion.names[0]!r}: (low, high)" + "}"
    if motion.s == 1:
        return f"{argument} must be a number, an interval (low, high), or a function of points, got {shown(given)}"
    point = f"a point with a number for each of {names}, " if start else ""
    got = shown(given)
    return f"{argument} must be {point}a dictionary of intervals such as {box}, or a function of points, got {got}"


def _of_numbers(argument: str, values: Float, motion: Motion, *, start: bool) -> Region:
    values = wrapped(values[None], motion.images)[0]
    if not ((values >= motion.box[0]) & (values <= motion.box[1])).all():
        raise _outside(argument, motion.place_text(values), motion)
    text = motion.place_text(values)
    if start:
        return Region(text, point=values, level=float(values[0]) if motion.s == 1 else None)
    if motion.s > 1:
        raise InputError(
            f"{argument} is a point, which a path of {motion.s} variables never hits exactly: give a set around it, "
            f"such "
            f"as {{{motion.names[0]!r}: ({values[0] - 0.1:.3g}, {values[0] + 0.1:.3g}), ...}} or a function of points"
        )
    return Region(text, level=float(values[0]), periods=motion.periods)


def _of_function(argument: str, given: Callable[[Float], Any], motion: Motion) -> Region:
    def contains(points: Float) -> Bool:
        answer = np.asarray(answer_of(argument, given, points))
        if answer.shape == (len(points), 1):
            answer = answer[:, 0]
        if answer.shape != (len(points),) or answer.dtype.kind != "b":
            raise InputError(
                f"{argument} must return True or False for each of {len(points)} points, an array of bool of shape "
                f"({len(points)},), got {answer.dtype} of shape {answer.shape}"
            )
        return answer

    contains(0.5 * (motion.box[:1] + motion.box[1:]))
    name = getattr(given, "__name__", "function")
    return Region(argument if name == "<lambda>" else name, contains=contains, periods=motion.periods)


def _of_mapping(argument: str, given: Mapping[str, Any], motion: Motion, *, start: bool) -> Region:
    low, high = np.full(motion.s, -np.inf), np.full(motion.s, np.inf)
    if not given:
        raise InputError(f"{argument} is an empty dictionary, which would be all states")
    for name, ends in given.items():
        if name not in motion.names:
            raise InputError(
                f"{argument}: there is no variable {name!r}{did_you_mean(name, motion.names)}; the state is "
                f"{', '.join(motion.names)}"
            )
        i = motion.names.index(name)
        if isinstance(ends, numbers.Real):
            low[i] = high[i] = float(ends)
            continue
        try:
            low[i], high[i] = (np.inf * (2 * k - 1) if end is None else float(end) for k, end in enumerate(ends))
        except (TypeError, ValueError):
            raise InputError(
                f"{argument}: {name} must be between two numbers, (low, high), None for no end, got {ends!r}"
            ) from None
        if not high[i] > low[i]:
            raise InputError(f"{argument}: the interval of {name} must begin below its end, got {ends!r}")
    if (low == high).any():
        if (low == high).all():
            return _of_numbers(argument, low, motion, start=start)
        raise InputError(f"{argument} must have intervals (low, high) in more than one dimension, got {given!r}")
    parts = [
        (
            f"{name} between {a:.4g} and {b:.4g}"
            if np.isfinite([a, b]).all()
            else f"{name} {f'≥ {a:.4g}' if a > -np.inf else f'≤ {b:.4g}'}"
        )
        + behind(motion.units.of(name))
        for name, a, b in zip(motion.names, low, high, strict=True)
        if np.isfinite([a, b]).any()
    ]
    low, high = _from_the_box_on(low, high, motion)
    period = motion.images[1] - motion.images[0]
    begins_again = (period > 0) & (high - period >= motion.box[0])
    if not parts or ((high < motion.box[0]) | ((low > motion.box[1]) & ~begins_again)).any():
        raise _outside(argument, ", ".join(parts) or "everything", motion)
    goes_round = np.flatnonzero((period > 0) & np.isfinite(low))

    def contains(points: Float) -> Bool:
        within = (points >= low) & (points <= high)
        for i in goes_round:
            within[:, i] = np.mod(points[:, i] - low[i], period[i]) <= high[i] - low[i]
        return np.asarray(within.all(axis=1))

    ends = _ends_of_interval(low[0], high[0], motion) if motion.s == 1 else None
    return Region(", ".join(parts), contains=contains, ends=ends, periods=motion.periods)


def _from_the_box_on(low: Float, high: Float, motion: Motion) -> tuple[Float, Float]:
    """Ends of intervals (s,), of periodic variables of those images that begin within the period of the box.

    Without an end such an interval reaches to that of the box.
    """
    low, high = low.copy(), high.copy()
    for i in np.flatnonzero(is_periodic(motion.images) & (np.isfinite(low) | np.isfinite(high))):
        begin, end = motion.images[:, i]
        first, last = (value - _whole_turns(value, begin, end) for value in (low[i], high[i]))
        if np.isfinite([first, last]).all():
            last = high[i] - _whole_turns(low[i], begin, end)
        low[i] = first if np.isfinite(first) else motion.box[0, i]
        high[i] = last if np.isfinite(last) else motion.box[1, i]
    return low, high


def _whole_turns(value: float, begin: float, end: float) -> float:
    """How far a value is from its image within a period."""
    if begin <= value <= end or not np.isfinite(value):
        return 0.0
    return float((end - begin) * np.floor((value - begin) / (end - begin)))


def _ends_of_interval(low: float, high: float, motion: Motion) -> tuple[float, float] | None:
    """Ends of an interval of the only variable within the box; None if walls cut it in two."""
    if motion.periodic[0] or not motion.images.any():
        return float(low), float(high)
    period = float(motion.images[1, 0] - motion.images[0, 0])
    first, second = low <= motion.box[1, 0], high - period >= motion.box[0, 0]
    if first and second:
        return None
    return (float(low), float(high)) if first else (float(low - period), float(high - period))


def _outside(argument: str, text: str, motion: Motion) -> InputError:
    ranges = ", ".join(
        f"{name} from {low:.4g} to {high:.4g}" for name, low, high in zip(motion.names, *motion.box, strict=True)
    )
    return InputError(
        f"{argument} ({text}) lies outside the data, where nothing is known of the equation: they have {ranges}; give "
        f"a "
        "set within, or another box= at your own risk"
    )


def check_disjoint(regions: Mapping[str, Region], points: Float) -> None:
    """Raise if two of several sets, by the arguments that gave them, share one of the points (n, s)."""
    named = list(regions.items())
    for i, (first, one) in enumerate(named):
        for second, other in named[:i]:
            if _overlap(one, other, points):
                raise InputError(
                    f"{second} ({other.text}) and {first} ({one.text}) overlap: there would be nothing to reach; make "
                    f"them "
                    "apart"
                )


def _overlap(one: Region, other: Region, points: Float) -> bool:
    for a, b in ((one, other), (other, one)):
        at = a.point if a.point is not None else None if a.level is None else np.array([a.level])
        if at is not None:
            if b.level is not None or b.point is not None:
                other_place = b.point if b.point is not None else np.array([b.level], dtype=float)
                return bool(np.array_equal(at, other_place))
            return bool(b.inside(at[None])[0])
    if one.ends and other.ends:
        return _intervals_overlap(one.ends, other.ends, one.periods)
    return bool((one.inside(points) & other.inside(points)).any())


def _intervals_overlap(one: tuple[float, float], other: tuple[float, float], periods: Float | None) -> bool:
    if periods is None or not periods.any():
        return max(one[0], other[0]) <= min(one[1], other[1])
    period = float(periods[1, 0] - periods[0, 0])
    return any((b[0] - a[0]) % period <= a[1] - a[0] for a, b in ((one, other), (other, one)))
