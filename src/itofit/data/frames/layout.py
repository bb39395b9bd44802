"""Which columns of a table hold what, and the moves in a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, KeysView, Set
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from itofit._checks import LARGEST_COUNT, InputError, Option, flag, gone_through, is_whole, one_of, positive, shown
from itofit.data.frames.table_columns import (
    PLAIN,
    UNITS,
    MissingPackageError,
    Table,
    Texts,
    counted_from,
    counted_from_1970,
    optional,
)
from itofit.data.names import plural
from itofit.data.periods import Periodic, checked_periods
from itofit.data.step_limits import StepLimits, none_within_limits
from itofit.data.trajectories import Moves, Observations, moves_in, warn_of_left_out

__all__ = [
    "PLAIN",
    "Clock",
    "ColumnNames",
    "Layout",
    "MissingPackageError",
    "Table",
    "Texts",
    "checked_layout",
    "column_names",
    "moves_in_table",
    "optional",
]

ColumnNames: TypeAlias = Hashable | Iterable[Hashable]


class Clock(NamedTuple):
    """When rows were observed, as the user says it: a column of times, or the time between rows."""

    time: Hashable | None = None
    dt: float | None = None
    unit: str | None = None  # of h, if times are dates


NO_CLOCK = Clock()


class Layout(NamedTuple):
    """Which columns of a table hold what; `checked_layout` makes it from a user's arguments."""

    state: tuple[Hashable, ...]
    velocity: tuple[Hashable, ...]
    time: Hashable | None
    track: tuple[Hashable, ...]
    dt: float | None
    unit: str | None
    covariates: tuple[Hashable, ...] = ()
    periodic: Periodic | None = None
    second_order: bool = False  # whether the state is positions, whose velocities were not observed
    texts: Texts = PLAIN

    @property
    def variables(self) -> tuple[tuple[Hashable, ...], ...]:
        """The columns of states, velocities and covariates."""
        return self.state, self.velocity, self.covariates

    @property
    def columns(self) -> dict[Hashable, str]:
        """All columns, and the argument that names each."""
        variables = dict.fromkeys(self.covariates, "covariates")
        variables |= dict.fromkeys(self.state, "state") | dict.fromkeys(self.velocity, "velocity")
        return variables | ({} if self.time is None else {self.time: "time"}) | dict.fromkeys(self.track, "track")

    def observations(self, table: Table, origin: Any = None) -> tuple[Observations, Any, int]:  # noqa: ANN401
        """Rows of a `Table`, the time that times count from, and the number of rows left out: those without a track.

        Dates that are a covariate as well count from 1970 there, so that they are the same in all data.
        """
        for name, argument in self.columns.items():
            table.check(argument, name)
        clock = moments = None
        if self.time is not None:
            moments = table.moments(self.time, self.unit, self.texts)
            clock, origin = counted_from(moments, self.unit, origin)
        moving = [table.numbers(name, self.texts.decimal)[:, None] for name in self.state + self.velocity]
        states = moving[0] if len(moving) == 1 else np.concatenate(moving, axis=1)
        given = [
            counted_from_1970(moments, self.unit)
            if moments is not None and name == self.time
            else table.numbers(name, self.texts.decimal)
            for name in self.covariates
        ]
        states = np.column_stack([states, *given]) if given else states
        track, labels = table.labels(self.track) if self.track else (np.zeros(len(states), dtype=np.intp), None)
        rows = Observations(
            states, clock, track, labels, np.arange(len(states)), table.place, lambda i: table.shown(self.time, i)
        )._replace(n_covariates=len(self.covariates), files=table.files)
        kept = track >= 0
        return (rows if kept.all() else rows.take(np.flatnonzero(kept))), origin, int((~kept).sum())


def _check_second_order(layout: Layout) -> None:
    """Raise if a layout of positions alone has velocities."""
    if layout.second_order and layout.velocity:
        raise InputError(
            "{second_order} is for positions whose velocities were not observed, but {velocity} names them: leave out "
            "one of the two",
            second_order=Option("second_order", True),
            velocity=Option("velocity"),
        )


def _check_roles(layout: Layout) -> None:
    """Raise if a column has two of them; that of times may be a covariate as well."""
    otherwise = {*layout.state, *layout.velocity, *layout.track}
    if both := [name for name in layout.covariates if name in otherwise]:
        raise InputError(
            "the column {name!r} is named twice, among {covariates} and otherwise",
            name=both[0],
            covariates=Option("covariates", keyword=True),
        )
    roles: list[tuple[str, tuple[Hashable, ...]]] = [
        ("state", layout.state),
        ("velocity", layout.velocity),
        ("track", layout.track),
    ]
    roles += [] if layout.time is None else [("time", (layout.time,))]
    for (one, names), (other, others) in combinations(roles, 2):
        taken = set(others)
        if twice := [name for name in names if name in taken]:
            raise InputError(
                "the column {name!r} is named twice, as {one} and as {other}",
                name=twice[0],
                one=Option(one, keyword=True),
                other=Option(other, keyword=True),
            )


def checked_layout(
    state: ColumnNames,
    velocity: ColumnNames | None = None,
    track: ColumnNames | None = None,
    covariates: ColumnNames | None = None,
    clock: Clock = NO_CLOCK,
    periodic: Periodic | None = None,
    second_order: bool = False,
) -> Layout:
    """The layout that a user's arguments describe; raise if they do not fit together."""
    time, dt, unit = clock
    if (dt is None) == (time is None):
        raise InputError(
            "give either {time}, the column of times, or {dt}, the time between rows: {given}",
            time=Option("time"),
            dt=Option("dt"),
            given="neither was given" if dt is None else "not both",
        )
    if not _can_be_name(time):
        text = "{option} must be the name of a column, got the {kind} {got}"
        raise InputError(text, option=Option("time"), kind=type(time).__name__, got=shown(time))
    if unit is not None:
        one_of("unit", unit, tuple(UNITS))
        if time is None:
            text = "{unit} is the unit of a column of dates, but no column of times was given"
            raise InputError(text, unit=Option("unit"))
    layout = Layout(
        column_names("state", state),
        () if velocity is None else column_names("velocity", velocity),
        time,
        () if track is None else column_names("track", track),
        None if dt is None else positive("dt", dt),
        unit,
        () if covariates is None else column_names("covariates", covariates),
        periodic,
        flag("second_order", second_order),
    )
    _check_second_order(layout)
    checked_periods(periodic, tuple(str(name) for own in layout.variables for name in own))
    if velocity is not None and len(layout.velocity) != len(layout.state):
        raise InputError(
            "{velocity} must name one column for each of {state}: expected {expected}, got {got}",
            velocity=Option("velocity"),
            state=Option("state"),
            expected=len(layout.state),
            got=len(layout.velocity),
        )
    _check_roles(layout)
    return layout


def _can_be_name(name: object) -> bool:
    """Whether it can be told whether a column is called so; of what is missing, such as pandas' NA, it cannot."""
    if is_whole(name) and abs(name) > LARGEST_COUNT:  # type: ignore[arg-type]
        return False
    return isinstance(name, Hashable) and isinstance(name == name, bool | np.bool_)  # noqa: PLR0124


def column_names(argument: str, names: ColumnNames) -> tuple[Hashable, ...]:
    """Names of columns as a tuple, from a name, a list, an array or an index; one that is a tuple must be in a list."""
    if isinstance(names, Set) and not isinstance(names, KeysView):
        text = "{option} must name columns in order, got a {kind}, which has none; give a list"
        raise InputError(text, option=Option(argument), kind=type(names).__name__)
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        given: tuple[Hashable, ...] = (names,)
    else:
        listed: Any = names.tolist() if hasattr(names, "tolist") else names
        each = gone_through(listed)
        given = (listed,) if each is None else tuple(each)  # an array of no axes holds one
    if not given:
        raise InputError("{option} must name at least one column, got {got!r}", option=Option(argument), got=names)
    for name in given:
        if not _can_be_name(name):
            text = "{option} must be the name of a column or a list of names, got the {kind} {name} in it"
            raise InputError(text, option=Option(argument), kind=type(name).__name__, name=shown(name))
    if len(set(given)) < len(given):
        raise InputError("{option} names a column twice: {got!r}", option=Option(argument), got=names)
    return given


def moves_in_table(layout: Layout, table: Table, limits: StepLimits) -> Moves:
    """All moves in a whole table that took an allowed time, with warnings of rows that were left out."""
    observations, _, n_untracked = layout.observations(table)
    n_rows = np.bincount(observations.track)
    moves = moves_in(observations, layout.dt, sort=True)
    if not len(moves.h):
        without = f", and {plural(n_untracked, 'row')} without a track" if n_untracked else ""
        raise InputError(
            "there is no transition: no track has two consecutive rows that are complete "
            f"({plural(len(observations.track), 'row')} in {plural(len(n_rows), 'track')}{without})"
        )
    kept = limits.allow(moves.h)
    if not kept.any():
        raise none_within_limits(moves.h.min(), moves.h.max())
    warn_of_left_out(n_untracked, n_rows)
    return moves if kept.all() else moves.take(kept)
