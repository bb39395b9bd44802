"""Lines and planes in the space of inputs, along which functions are drawn, and where data are in them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter

from itofit._checks import Float, InputError, float_array
from itofit.data.names import did_you_mean, plural
from itofit.data.passes import Data
from itofit.data.periods import is_periodic, wrapped
from itofit.data.rows import column_range
from itofit.data.transitions import Transitions
from itofit.data.units import behind
from itofit.looking.check.examined import rows_in_memory, with_states
from itofit.looking.plot.canvas import escaped, number_text
from itofit.looking.plot.reach import reached
from itofit.model.formula.formula_sde import Formula
from itofit.model.learned import LearnedSDE
from itofit.model.training import learned_from

NumberOrName = int | str
"""How a variable is chosen: by its number from 0, or by its name."""
Bool = npt.NDArray[np.bool_]

N_POINTS = 401
"""Points of a curve: more than a screen resolves in one panel."""
N_BINS = 40
"""Bins of the histogram under a curve."""
SPARSE_ROWS, SPARSE_SHARE = 5, 0.05
"""Bins with fewer rows, or with less than this share of what even data would give, are called sparse."""
CENTRAL = (0.005, 0.995)
"""Quantiles of the data between which planes are drawn, so that a few outliers do not decide the range."""
PLANE_POINTS = 81
"""Points along each side of a map."""
CELL_ROWS = 20
"""Rows of a cell of a plane in the mean, so that most cells with data around are not empty by chance."""
FEWEST_CELLS, MOST_CELLS = 4, 24
"""Cells along each side of a plane: coarse enough to be seen, fine enough to follow the data."""
MOST_NAMED = 8
"""Variables that an error lists."""
MOST_VALUES = 6
"""Inputs whose values a title states."""


# What comes in


def checked(sde: LearnedSDE, data: Data | None) -> Transitions | None:
    """The data in memory, at most 200,000 rows of those that are not; an error if they are not those of the model."""
    if not isinstance(sde, LearnedSDE | Formula):
        raise InputError(f"sde must be a LearnedSDE, as itofit.fit returns it, or a Formula, got {type(sde).__name__}")
    if data is None:
        return None
    if not isinstance(data, Data):
        raise InputError(f"data must be Transitions, got {type(data).__name__}; see itofit.Transitions.from_pairs")
    sde._check_data("a plot", data)
    data = with_states(sde, data)
    return rows_in_memory(data, np.random.default_rng(0)) if not isinstance(data, Transitions) else data


def variable(argument: str, value: object, names: tuple[str, ...]) -> int:
    """The number of a variable that was given as number or name."""
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(names):
        return int(value)
    known = ", ".join(f"{i} ({name})" for i, name in enumerate(names[:MOST_NAMED]))
    known += ", ..." if len(names) > MOST_NAMED else ""
    hint = did_you_mean(value, names) if isinstance(value, str) else ""
    raise InputError(f"{argument} must be the number or the name of a variable: {known}; got {value!r}{hint}")


def two_variables(argument: str, value: object, names: tuple[str, ...]) -> tuple[int, int]:
    """The numbers of two variables, which may be the same."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray) or len(value) != 2:
        raise InputError(f"{argument} must be two variables, such as (0, 0), got {value!r}")
    return variable(argument, value[0], names), variable(argument, value[1], names)


class Trained(NamedTuple):
    """Where the data were that a model was learned from, as far as is known."""

    rows: Float  # (n, m) inputs
    each: float  # transitions that each of them stands for
    given: bool  # whether they are the data that were given, and not the places that the model keeps


def trained_on(sde: LearnedSDE, data: Transitions | None) -> Trained | None:
    """The data of a model: those that are given if they are the same, or those places that it keeps.

    Of a model that keeps none they are taken to be those that are given; None if none are.
    """
    places = sde.data.places
    same = data is not None and learned_from(sde, len(data), *column_range(data.inputs))
    if places is not None and not same:
        return Trained(places.inputs, sde.data.n_transitions / len(places.inputs), given=False)
    return None if data is None else Trained(data.inputs, 1.0, given=True)


def rest_point(sde: LearnedSDE, data: Transitions | None, at: npt.ArrayLike | None) -> tuple[Float, str]:
    """Values at which the other inputs are held, shape (m,), and a remark that says how they were chosen."""
    if at is not None:
        point = float_array("at", at)
        if point.shape != (sde.n_inputs,):
            raise InputError(
                f"at must have a value for each of {plural(sde.n_inputs, 'input')} ({', '.join(sde.input_names)}), "
                f"any for those drawn along: expected shape ({sde.n_inputs},), got {point.shape}"
            )
        return point, ""
    rows = data.inputs if data is not None else None if sde.data.places is None else sde.data.places.inputs
    if rows is None:
        return sde.box.mean(axis=0), " (middle of the range)"
    return medians(rows, sde.periods, sde.n_covariates), " (medians of the data)"


def medians(rows: Float, periods: Float, n_covariates: int = 0) -> Float:
    """The median of each input, (m,): that of a covariate is one of its values, a periodic one's is near their mean."""
    values, m = np.median(rows, axis=0), rows.shape[1]
    for place in range(m - n_covariates, m):
        values[place] = np.quantile(rows[:, place], 0.5, method="lower")
    for place in np.flatnonzero(is_periodic(periods)).tolist():
        low, high = periods[:, place]
        turn = np.exp(2j * np.pi * (rows[:, place] - low) / (high - low))
        away = np.angle(turn / turn.mean()) if np.abs(turn.mean()) > 0 else np.angle(turn)
        values[place] = low + (high - low) * np.mod((np.angle(turn.mean()) + np.median(away)) / (2 * np.pi), 1.0)
    return wrapped(values[None], periods)[0]


def slice_title(sde: LearnedSDE, along: tuple[int, ...], point: Float, chosen: str, width: int = 60) -> str:
    """A title that says at which values the other inputs are held; empty if there are none."""
    others = [i for i in range(sde.n_inputs) if i not in along]
    if not others:
        return ""
    if len(others) > MOST_VALUES and chosen:
        return f"at fixed values{chosen}"
    names = sde.input_names
    values = ", ".join(escaped(f"{names[i]} = {number_text(point[i])}{behind(sde.units.of(names[i]))}") for i in others)
    return textwrap.fill(f"at {values}{chosen}", width)


# Along one input


class View(NamedTuple):
    """A line through the space of inputs, along one of them."""

    x: Float  # (n,) values of that input
    points: Float  # (n, m)
    name: str  # with its unit
    title: str
    edges: Float  # (b + 1,) bins of the data, or no entries
    counts: Float  # (b,) rows in them that are shown, wherever these are in other directions
    sparse: Bool  # (b,) whether few of the data that were learned from are in a bin, or near the line in it
    words: tuple[str, str]  # what rows that are shown are called, and places where few were learned from

    @property
    def known(self) -> Bool:
        """Which points are in bins that are not sparse, shape (n,); all if there are no data, or sparse ones only."""
        if not len(self.counts) or self.sparse.all():
            return np.ones(len(self.x), dtype=bool)
        bins = np.clip(np.searchsorted(self.edges, self.x, side="right") - 1, 0, len(self.counts) - 1)
        return ~self.sparse[bins]


def view_of(
    sde: LearnedSDE, data: Transitions | None, along: NumberOrName = 0, at: npt.ArrayLike | None = None
) -> View:
    """The line along one input over the range of the data, or of those that were learned from."""
    axis = variable("along", along, sde.input_names)
    point, chosen = rest_point(sde, data, at)
    low, high = sde.box[:, axis]
    edges, counts, sparse = np.zeros(0), np.zeros(0), np.zeros(0, bool)
    trained = trained_on(sde, data)
    if data is not None and not is_periodic(sde.periods)[axis] and np.ptp(data.inputs[:, axis]) > 0:
        low, high = data.inputs[:, axis].min(), data.inputs[:, axis].max()
    shown = data.inputs if data is not None else None if trained is None else trained.rows
    if trained is not None and shown is not None and np.ptp(shown[:, axis]) > 0:
        edges = np.linspace(low, high, N_BINS + 1)
        counts = np.histogram(shown[:, axis], edges)[0].astype(np.float64)
        sparse = _sparse(trained, axis, edges, bool(is_periodic(sde.periods)[axis]))
        if sde.n_inputs > 1:
            middles = np.tile(point, (N_BINS, 1))
            middles[:, axis] = 0.5 * (edges[1:] + edges[:-1])
            sparse |= ~reached(trained.rows, sde.periods, middles)
    x = np.linspace(low, high, N_POINTS)
    points = np.tile(point, (N_POINTS, 1))
    points[:, axis] = x
    name = escaped(sde.units.labelled(sde.input_names[axis]))
    of = "training " if trained is not None and not trained.given else ""
    words = "data" if data is not None else f"{of}data", f"few {of}data"
    return View(x, points, name, slice_title(sde, (axis,), point, chosen), edges, counts, sparse, words)


def _sparse(trained: Trained, axis: int, edges: Float, periodic: bool) -> Bool:
    """Which bins along an input have few of the data that were learned from, shape (b,).

    Of places that stand for many more, a bin counts as the middle one of itself and its neighbours: chance leaves a few
    too many or too few in single ones.
    """
    wider = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    counts = trained.each * np.histogram(trained.rows[:, axis], wider)[0]
    if periodic:
        counts[[0, -1]] = counts[[-2, 1]]
    inside = counts[1:-1]
    least = max(SPARSE_ROWS, SPARSE_SHARE * float(inside.mean()))
    if trained.each > 1:
        inside = np.median([counts[:-2], inside, counts[2:]], axis=0)
    return np.asarray(inside < least)


# Along two inputs


class Plane(NamedTuple):
    """A rectangle in the space of inputs, along two of them."""

    x: Float  # (nx,)
    y: Float  # (ny,)
    points: Float  # (ny · nx, m), x fastest
    names: tuple[str, str]
    labels: tuple[str, str]  # with units
    title: str
    edges: tuple[Float, Float]  # of the cells in which data are counted, or no entries
    counts: Float  # (bx, by) rows in them that were learned from
    rows: Float  # (n, 2) the data that are shown, in the plane's variables
    near: Bool  # (bx, by) whether the middle of a cell of the plane is as near to rows as usual

    def known(self, points: Float) -> Bool:
        """Which points (n, 2) of the plane have data in or around their cell; all if there are no data."""
        if not self.counts.size:
            return np.ones(len(points), dtype=bool)
        cell = tuple(
            np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
            for edges, values in zip(self.edges, points.T, strict=True)
        )
        return np.asarray(self.reached[cell])

    @property
    def reached(self) -> Bool:
        """Which cells have data in them, or in more than half of the cells around them, shape (bx, by).

        In a plane among more than two inputs, data in a cell may be far from the plane: only near ones count.
        """
        some = self.counts > 0
        around = uniform_filter(some.astype(np.float64), 3, mode="nearest")
        return np.asarray((some | (around > 0.5)) & self.near)

    @property
    def pairs(self) -> Float:
        """The points in the plane's two variables, (ny · nx, 2)."""
        return np.column_stack([each.ravel() for each in np.meshgrid(self.x, self.y)])

    def shaped(self, values: Float) -> Float:
        """Values at the points as (ny, nx)."""
        return values.reshape(len(self.y), len(self.x))


def plane_of(
    sde: LearnedSDE,
    data: Transitions | None,
    along: tuple[NumberOrName, NumberOrName] = (0, 1),
    at: npt.ArrayLike | None = None,
    n: int = PLANE_POINTS,
) -> Plane:
    """The plane along two inputs between the outer quantiles of the data, or over the range learned from."""
    axes = two_variables("along", along, sde.input_names)
    if axes[0] == axes[1]:
        raise InputError(f"along must be two different inputs, got {sde.input_names[axes[0]]} twice")
    point, chosen = rest_point(sde, data, at)
    box, rows = sde.box[:, axes], np.zeros((0, 2))
    edges, counts, near = (np.zeros(0), np.zeros(0)), np.zeros((0, 0)), np.zeros((0, 0), bool)
    if (trained := trained_on(sde, data)) is not None:
        rows = (trained.rows if data is None else data.inputs)[:, axes]
        central = np.quantile(rows, CENTRAL, axis=0)
        inside = (np.ptp(central, axis=0) > 0) & ~is_periodic(sde.periods)[list(axes)]
        box = np.where(inside, central, box)
        b = int(np.clip(np.sqrt(len(trained.rows) / CELL_ROWS), FEWEST_CELLS, MOST_CELLS))
        edges = (np.linspace(box[0, 0], box[1, 0], b + 1), np.linspace(box[0, 1], box[1, 1], b + 1))
        learned_from = trained.rows[:, axes]
        counts = np.histogram2d(learned_from[:, 0], learned_from[:, 1], bins=list(edges))[0]
        near = np.ones((b, b), bool)
        if sde.n_inputs > 2:
            middles = np.tile(point, (b * b, 1))
            middles[:, axes] = np.stack(
                [each.ravel() for each in np.meshgrid(*(0.5 * (e[1:] + e[:-1]) for e in edges), indexing="ij")], axis=1
            )
            near = reached(trained.rows, sde.periods, middles).reshape(b, b)
    x, y = (np.linspace(box[0, k], box[1, k], n) for k in (0, 1))
    points = np.tile(point, (n * n, 1))
    points[:, axes] = np.column_stack([each.ravel() for each in np.meshgrid(x, y)])
    names = sde.input_names[axes[0]], sde.input_names[axes[1]]
    labels = escaped(sde.units.labelled(names[0])), escaped(sde.units.labelled(names[1]))
    return Plane(x, y, points, names, labels, slice_title(sde, axes, point, chosen), edges, counts, rows, near)
