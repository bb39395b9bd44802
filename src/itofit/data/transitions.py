"""Transitions in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from itofit._checks import InputError, columns, columns_like, gone_through, same_rows
from itofit.data.array_checks import checked_durations, checked_groups
from itofit.data.covariates import Covariates, covariate_rows, moving, warn_of_unknown
from itofit.data.frames.layout import Clock, ColumnNames, Layout, Table, checked_layout, moves_in_table
from itofit.data.large.sources import Source
from itofit.data.move_rows import MoveRows
from itofit.data.names import Form, Kind, Names, checked_variables, position_names, same_variables, underdamped_names
from itofit.data.notebooks import rows_html
from itofit.data.periods import Periodic, checked_periods, nearest_image, wrapped
from itofit.data.position_tracks import FromPositions
from itofit.data.step_limits import step_limits
from itofit.data.trajectories import Moves, complete, moves_in_trajectories
from itofit.data.units import NO_UNITS
from itofit.data.with_units import GivenUnits, joint_units, unit_of_dates

if TYPE_CHECKING:
    from itofit.data.large.blocked import BlockedTransitions
    from itofit.data.large.parts import PartedTransitions


class Transitions(MoveRows, FromPositions):
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
    kind : {"diffusion", "underdamped", "positions", "general"}, optional
        How the inputs follow from the moving state: they are the state; the new position and the old velocity; the
        position, without the velocity (`from_positions`); or something else, which cannot be simulated. Default:
        "diffusion" when m = d, else "general".
    input_names, output_names : sequence of str, optional
        What the variables are called, m and d different names; one may come as a string. Default: "x" for one, "x1",
        "x2", ... for several, and for underdamped systems the velocities "v" or "v1", "v2", ...; where the outputs are
        among the inputs, they have their names.
    covariates : array of shape (n, k), optional
        Inputs from outside, which drift and covariance depend on and which do not move: temperature, dose, season,
        time. They become the last of the inputs, and keep their value during a step. Transitions whose covariates are
        NaN are left out, with a warning.
    covariate_names : sequence of k str, optional
        What they are called. Default: "u", or "u1", "u2", ...
    periodic : dict, optional
        Variables that are periodic, by name or number among all inputs: the length of the period, which begins at
        zero, or where it begins and ends, as in ``{"angle": (-np.pi, np.pi)}``. Their values are wrapped into the
        period, and increments are those to the nearest image, at most half a period long.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> x0 = np.linspace(-1.0, 1.0, 100)
    >>> itofit.Transitions(x0, -0.1 * x0, h=0.1)
    Transitions(100 transitions, 1 input, 1 output, h = 0.1, kind = diffusion)
    >>> itofit.Transitions(x0, -0.1 * x0, h=0.1, input_names="height").output_names
    ('height',)
    """

    def __init__(
        self,
        inputs: npt.ArrayLike,
        increments: npt.ArrayLike,
        h: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        kind: Kind | None = None,
        input_names: Names | None = None,
        output_names: Names | None = None,
        covariates: npt.ArrayLike | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
    ) -> None:
        x, dx = columns("inputs", inputs), columns("increments", increments)
        same_rows("increments", dx, "inputs", x)
        if len(x) == 0:
            raise InputError("there are no transitions: inputs has no rows")
        steps, labels, m, k = checked_durations(h, len(x)), checked_groups(groups, x), x.shape[1], 0
        if covariates is not None:
            u = covariate_rows(covariates, len(x), "transition")
            x, k = np.concatenate([x, u], axis=1), u.shape[1]
        variables = checked_variables(m, dx.shape[1], kind, input_names, output_names, k, covariate_names)
        periods = checked_periods(periodic, variables[1])
        self._set(x, dx, steps, labels, *variables, k, periods, NO_UNITS)
        known = complete(x[:, m:])
        if not known.all():
            warn_of_unknown(int((~known).sum()), len(known))
            x, dx, steps, labels = x[known], dx[known], steps[known], None if labels is None else labels[known]
        dx = dx if self.kind == "general" else nearest_image(dx, periods[:, moving(self)])
        self._set(wrapped(x, periods), dx, steps, labels, *variables, k, periods, NO_UNITS)

    # Constructors

    def _repr_html_(self) -> str:
        return rows_html(self)

    @classmethod
    def from_pairs(
        cls,
        x0: npt.ArrayLike,
        x1: npt.ArrayLike,
        h: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        names: Names | None = None,
        covariates: npt.ArrayLike | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
    ) -> Transitions:
        """Scattered snapshots: the state x0 and, a time h later, x1.

        Parameters
        ----------
        x0, x1 : arrays of shape (n, d)
            Or (n,) for one variable.
        h : float or array of shape (n,)
        groups : array of shape (n,), optional
        names : sequence of d str, optional
            What the variables are called.
        covariates, covariate_names, periodic
            As in `Transitions`.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> itofit.Transitions.from_pairs(np.zeros((50, 2)), np.ones((50, 2)), h=0.5).increments.shape
        (50, 2)
        """
        start = columns("x0", x0)
        end = columns_like("x1", x1, "x0", start)
        driven = covariates, covariate_names, periodic
        return cls(start, end - start, h, groups, "diffusion", names, None, *driven)

    @classmethod
    def from_underdamped(
        cls,
        x0: npt.ArrayLike,
        v0: npt.ArrayLike,
        x1: npt.ArrayLike,
        v1: npt.ArrayLike,
        h: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        names: Names | None = None,
        velocity_names: Names | None = None,
        covariates: npt.ArrayLike | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
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
        names, velocity_names : sequences of d str, optional
            What the positions and the velocities are called. Default: that of position "x" is "v_x".
        covariates, covariate_names, periodic
            As in `Transitions`.

        Examples
        --------
        >>> import itofit
        >>> data = itofit.Transitions.from_underdamped([0.0], [1.0], [0.1], [0.9], 0.1, names="angle")
        >>> data.input_names, data.output_names
        (('angle', 'v_angle'), ('v_angle',))
        """
        start = columns("x0", x0)
        velocity, end, new_velocity = (
            columns_like(name, value, "x0", start) for name, value in (("v0", v0), ("x1", x1), ("v1", v1))
        )
        inputs = np.concatenate([end, velocity], axis=1)
        both = underdamped_names(start.shape[1], names, velocity_names)
        driven = covariates, covariate_names, periodic
        return cls(inputs, new_velocity - velocity, h, groups, "underdamped", both, None, *driven)

    @classmethod
    def from_trajectories(
        cls,
        paths: npt.ArrayLike | Sequence[npt.ArrayLike],
        dt: float | None = None,
        times: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
        min_h: float | None = None,
        max_h: float | None = None,
        names: Names | None = None,
        covariates: Covariates | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
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
            Moves that took less or more time, but for rounding (a millionth), are left out.
        names : sequence of d str, optional
            What the variables are called.
        covariates : array or list of arrays, optional
            Inputs from outside, one row for each observation: (T, k) or (T,) for one trajectory, a list of such arrays
            or (n, T, k) for several; one array serves all trajectories of its length. The value where a move starts
            counts for it; where that is NaN the move is left out, with a warning.
        covariate_names, periodic
            As in `Transitions`.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.array([0.0, 0.1, np.nan, 0.3, 0.2])
        >>> itofit.Transitions.from_trajectories(path, dt=0.5).inputs.ravel()
        array([0. , 0.3])
        """
        moves, u = moves_in_trajectories(paths, dt, times, step_limits(min_h, max_h), covariates)
        return cls(*moves, "diffusion", names, None, u, covariate_names, periodic)

    @classmethod
    def from_dataframe(
        cls,
        df: Any,  # noqa: ANN401
        *,
        state: ColumnNames,
        time: Hashable | None = None,
        track: ColumnNames | None = None,
        dt: float | None = None,
        velocity: ColumnNames | None = None,
        unit: str | None = None,
        min_h: float | None = None,
        max_h: float | None = None,
        covariates: ColumnNames | None = None,
        periodic: Periodic | None = None,
        second_order: bool = False,
        units: GivenUnits = None,
        time_unit: str | None = None,
    ) -> Transitions:
        """All moves between consecutive rows of the tracks in a table.

        A row with a missing value is a gap: no move starts there, ends there or passes over it. Rows of a track may be
        anywhere in the table; they are sorted by time if they are not, with a warning.

        Parameters
        ----------
        df : DataFrame
            Of pandas, Polars, Arrow or any other library that has the Arrow interface or that narwhals knows; one row
            for each observation.
        state : name or list of names
            Columns of the variables that move: numbers of any type. They give their names to the result.
        time : name, optional
            Column of times: numbers, dates or durations. Give either `time` or `dt`.
        track : name or list of names, optional
            Columns that tell tracks from each other: whole numbers, strings or others. They become `groups`, as
            whole numbers or strings. Rows without a value are left out, with a warning.
        dt : float, optional
            Time between a row and the next one of its track.
        velocity : name or list of names, optional
            Columns of velocities, one for each of `state`: for underdamped systems, as in `from_underdamped`.
        unit : {"ns", "us", "ms", "s", "min", "h", "D", "W"}, optional
            Unit of h, if times are dates or durations.
        min_h, max_h : float, optional
            Moves that took less or more time, but for rounding (a millionth), are left out.
        covariates : name or list of names, optional
            Columns of inputs from outside; the column of times may be one, of which dates count from 1970. Their values
            where a move starts count for it; moves that start where one is missing are left out, with a warning.
        periodic : dict, optional
            As in `Transitions`, by the names of the columns.
        second_order : bool
            Whether velocities exist but were not observed, as in `from_positions`.
        units, time_unit : dict and str, optional
            Units of the variables and of time, as in `with_units`; dates have that of `unit`.

        Examples
        --------
        >>> import itofit, pandas as pd
        >>> df = pd.DataFrame({"cell": ["a", "a", "b", "b"], "t": [0.0, 0.5, 0.0, 1.0], "x": [1.0, 1.5, 4.0, 2.0]})
        >>> data = itofit.Transitions.from_dataframe(df, time="t", state="x", track="cell")
        >>> data.increments.ravel(), data.h, data.groups.tolist(), data.input_names
        (array([ 0.5, -2. ]), array([0.5, 1. ]), ['a', 'b'], ('x',))
        """
        layout = checked_layout(state, velocity, track, covariates, Clock(time, dt, unit), periodic, second_order)
        limits = step_limits(min_h, max_h)
        data = cls._from_moves(layout, moves_in_table(layout, Table(df), limits))
        return data.with_units(units, unit_of_dates(unit, time_unit))

    @classmethod
    def from_dask(
        cls,
        frame: Any,  # noqa: ANN401
        *,
        state: ColumnNames,
        time: Hashable | None = None,
        track: ColumnNames | None = None,
        dt: float | None = None,
        velocity: ColumnNames | None = None,
        unit: str | None = None,
        min_h: float | None = None,
        max_h: float | None = None,
        covariates: ColumnNames | None = None,
        periodic: Periodic | None = None,
        second_order: bool = False,
        units: GivenUnits = None,
        time_unit: str | None = None,
    ) -> PartedTransitions:
        """All moves between consecutive rows of the tracks in a Dask data frame.

        Partitions are computed again for each pass of `fit`, each where it is needed: by the threads of this machine,
        or by the workers of ``fit(data, client=client)``. Only the ends of tracks come to this machine. Tracks may
        cross partitions, and rows may be in any order; far from that of their times they are read several times. A
        partition that follows from all others, after a shuffle, is computed with all of them: persist such a frame, or
        write it to Parquet files first. Partitions of a frame that was persisted stay with the workers that hold them.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            One row for each observation; partitions may be empty.
        state, time, track, dt, velocity, unit, min_h, max_h, covariates, periodic, second_order, units, time_unit
            As in `from_dataframe`.

        Examples
        --------
        >>> import itofit, pandas as pd, dask.dataframe as dd
        >>> df = pd.DataFrame({"cell": ["a", "a", "b", "b"], "t": [0.0, 0.5, 0.0, 1.0], "x": [1.0, 1.5, 4.0, 2.0]})
        >>> frame = dd.from_pandas(df, npartitions=3, sort=False)
        >>> data = itofit.Transitions.from_dask(frame, time="t", state="x", track="cell")
        >>> len(data), next(data.blocks()).increments.ravel()
        (2, array([ 0.5, -2. ]))
        """
        from itofit.data.reading.dask_frames import transitions_of_dask  # noqa: PLC0415  (they are made of Transitions)

        layout = checked_layout(state, velocity, track, covariates, Clock(time, dt, unit), periodic, second_order)
        data = transitions_of_dask(frame, layout, step_limits(min_h, max_h))
        return data.with_units(units, unit_of_dates(unit, time_unit))

    @classmethod
    def from_blocks(
        cls,
        source: Source,
        form: Form = "pairs",
        *,
        h: float | None = None,
        kind: Kind | None = None,
        names: Names | None = None,
        covariate_names: Names | None = None,
        periodic: Periodic | None = None,
    ) -> BlockedTransitions:
        """Data larger than memory, read block by block as often as needed.

        `fit` passes over such data four to seven times, and nine times or more where it searches on a part of the rows
        (four inputs and more); with ``refine=False`` four or six times. It takes memory for a block, not for the
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
            these names, and perhaps `covariates`. For "trajectory" and "trajectories" an array of consecutive
            observations (T, d), a tuple of them and their times, or a dictionary with the names path, times and
            covariates: for the first each block goes on where the last one ended, for the second it is a trajectory of
            its own. A block may also be a `Transitions`.
        h : float, optional
            The time each move took, if the blocks do not hold it.
        kind : {"diffusion", "underdamped", "positions", "general"}, optional
            As in `Transitions`, for `form="increments"`; "positions" also for trajectories of positions alone.
        names : sequence of str, optional
            What the variables are called: those of the state, the positions for `form="underdamped"`, the inputs for
            `form="increments"`. Blocks that are `Transitions` with names keep them.
        covariate_names, periodic
            As in `Transitions`; blocks that are `Transitions` with periodic variables keep them.

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.cumsum(np.random.default_rng(0).normal(size=(1000, 2)), axis=0)
        >>> def blocks():
        ...     for start in range(0, 999, 100):          # read from files here
        ...         rows = path[start : start + 101]
        ...         yield rows[:-1], rows[1:]
        >>> data = itofit.Transitions.from_blocks(blocks, h=0.1)
        >>> len(data), len(itofit.Transitions.from_blocks(path, "trajectory", h=0.1))
        (999, 999)
        >>> len(itofit.Transitions.from_blocks((path[:-1], path[1:]), h=0.1))
        999
        """
        from itofit.data.large.blocked import BlockedTransitions  # noqa: PLC0415  (they are made of Transitions)

        return BlockedTransitions(source, form, h, kind, names, covariate_names, periodic)

    @classmethod
    def concatenate(cls, parts: Sequence[Transitions]) -> Transitions:
        """Several sets of transitions as one; groups are kept if all of them have some.

        Groups of different sets that have the same label count as one.
        """
        parts = gone_through(parts) or []
        if not parts or not all(isinstance(part, Transitions) for part in parts):
            raise InputError("concatenate needs a list of Transitions, at least one")
        same_variables(parts)
        units = joint_units(parts)
        first: Transitions = parts[0]
        if len(parts) == 1:
            return first
        x, dx, h = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "increments", "h"))
        grouped = all(part.groups is not None for part in parts)
        groups = np.concatenate([part.groups for part in parts]) if grouped else None
        return cls._trusted(x, dx, h, groups, *first._variables[:-1], units)

    @classmethod
    def _from_moves(cls, layout: Layout, moves: Moves) -> Transitions:
        """Transitions from the moves in a table of this layout."""
        names, velocity_names, drivers = ([str(name) for name in own] for own in layout.variables)
        places = np.cumsum([len(names), len(velocity_names)])
        (x0, v0, u), (x1, v1, _) = (np.split(rows, places, axis=1) for rows in (moves.start, moves.end))
        driven: dict[str, Any] = {"covariates": u, "covariate_names": drivers} if drivers else {}
        driven["periodic"] = layout.periodic
        if layout.second_order:
            return cls(x0, x1 - x0, moves.h, moves.groups, "positions", *position_names(len(names), names), **driven)
        if not layout.velocity:
            return cls.from_pairs(x0, x1, moves.h, moves.groups, names, **driven)
        return cls.from_underdamped(x0, v0, x1, v1, moves.h, moves.groups, names, velocity_names, **driven)
