"""The rows that are examined, their standardised residuals, and which of them follow each other in time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._checks import Either, Float, Int, Message
from itofit.data.filtered import at_most
from itofit.data.following import continues
from itofit.data.names import has_given_names, with_velocities
from itofit.data.passes import Data, add_up
from itofit.data.rows import PASS_ROWS
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import factors
from itofit.model.formula.formula_sde import Formula
from itofit.model.hidden.observed import Innovations, drawn_underdamped, innovations
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import BATCH_ROWS, gaussian_nll
from itofit.model.same_system import check_sizes

MOST_ROWS = 200_000
"""Rows that are examined at most: a few seconds of work, and far more than deviations that matter need to be seen."""
STRETCH = 100
"""Consecutive rows that are taken together where not all are: ten times as many as the longest lag of a test."""


class ExaminedRows(NamedTuple):
    """Transitions with what a model says of them."""

    data: Transitions  # n rows; of a model with errors of measurement, steps of the state as far as it was known
    observed: Transitions  # the rows themselves
    n_all: int  # rows of the data that they were taken from
    z: Float  # (n, d) standardised residuals σ⁻¹ (Δx − h f) / √h, with f and σ of the step
    g: Float  # (n, d) the drift in the same unit, σ⁻¹ f √h
    r: Float  # (n, d) residuals Δx − h f in the unit of the data
    order: Int  # (n,) the rows sorted by groups, in time order within each
    run: Int  # (n,) number of the unbroken piece of a trajectory that row order[i] belongs to
    why_no_time: str  # why no transitions follow each other; empty if some do
    inputs: tuple[str, ...]  # names of the m inputs
    outputs: tuple[str, ...]  # names of the d outputs
    through_noise: bool = False  # whether states follow from the data by a filter, and z are its innovations
    of_formula: bool = False  # whether the model is a formula, which may lack what learned functions have
    loss: Float | None = None  # (n,) negative log-likelihood of each row, if no filter is needed for it

    @property
    def drift_size(self) -> Float:
        """Root mean square of each output's learned drift in standard deviations of a step, shape (d,)."""
        return np.sqrt(np.mean(self.g**2, axis=0))


def examine(sde: LearnedSDE, data: Data, rng: np.random.Generator) -> ExaminedRows:
    """All transitions, or stretches of them if there are too many, with what a model says of them."""
    n_all = len(data)
    rows, stretch = _rows_and_stretches(data, rng)
    check_sizes(sde, rows)
    order, follows = _time_order(rows, stretch)
    through_filter = rows.kind == "positions" or sde.measurement_noise is not None
    loss = None
    if not through_filter:
        states, (z, g, r, loss) = rows, _residuals(sde, rows)
    else:
        states, z, g, r = _innovations(sde, rows, order)
    named = sde if has_given_names(sde) else states
    return ExaminedRows(
        data=states,
        observed=rows,
        n_all=n_all,
        z=z,
        g=g,
        r=r,
        order=order,
        run=_runs(follows),
        why_no_time="" if follows.any() else _why_no_time(rows),
        inputs=named.input_names,
        outputs=named.output_names,
        through_noise=through_filter,
        of_formula=isinstance(sde, Formula),
        loss=loss,
    )


def without_longer(sde: LearnedSDE, data: Data, least: int = 1) -> Data:
    """The data without steps of lengths that were left out of the fit; all, if fewer than so many would remain."""
    if sde.data.left_out is None:
        return data
    max_h = sde.data.left_out.max_h
    n_kept = add_up(data, lambda block, number: int((block.h <= max_h).sum()))
    return at_most(data, max_h) if least <= n_kept < len(data) else data


def rows_in_memory(data: Data, rng: np.random.Generator) -> Transitions:
    """The rows that are examined: all, or if there are too many, stretches that are spread evenly over the data."""
    return _rows_and_stretches(data, rng)[0]


def rows_in_time(data: Data, rng: np.random.Generator) -> tuple[Transitions, Int]:
    """The same rows in the order of time, and the number of the unbroken piece that each belongs to, shape (n,)."""
    rows, stretch = _rows_and_stretches(data, rng)
    order, follows = _time_order(rows, stretch)
    return rows[order], _runs(follows)


def _rows_and_stretches(data: Data, rng: np.random.Generator) -> tuple[Transitions, Int]:
    """At most MOST_ROWS rows in memory, and the number of the stretch that each is from, shape (n,)."""
    if isinstance(data, Transitions) and len(data) <= MOST_ROWS:
        return data, np.zeros(len(data), dtype=np.intp)
    return _stretches(data, len(data), rng)


def _stretches(data: Data, n_all: int, rng: np.random.Generator) -> tuple[Transitions, Int]:
    """Stretches of consecutive rows, each from a random place of one of as many equal parts of the data."""
    n_stretches, length = (MOST_ROWS // STRETCH, STRETCH) if n_all > MOST_ROWS else (1, n_all)
    edges = n_all * np.arange(n_stretches + 1) // n_stretches
    starts = edges[:-1] + rng.integers(np.diff(edges) - length, endpoint=True)
    if isinstance(data, Transitions) and data.groups is not None:
        data = data[np.argsort(data.groups, kind="stable")]  # so that stretches follow trajectories

    def of_block(block: Transitions, place: int) -> tuple[list[Transitions], list[Int]]:
        at = place * PASS_ROWS + np.arange(len(block))
        number = np.searchsorted(starts, at, side="right") - 1
        chosen = np.flatnonzero((number >= 0) & (at - starts[number] < length))
        return ([block[chosen]], [number[chosen]]) if len(chosen) else ([], [])

    parts, numbers = add_up(data, of_block)
    return Transitions.concatenate(parts), np.concatenate(numbers)


def _time_order(data: Transitions, stretch: Int) -> tuple[Int, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Rows sorted by groups, in time order within each, (n,); and whether each follows the one before it, (n − 1,)."""
    order = np.arange(len(data)) if data.groups is None else np.argsort(data.groups, kind="stable")
    before, after = order[:-1], order[1:]
    follows = stretch[before] == stretch[after]
    if data.groups is not None:
        follows &= data.groups[before] == data.groups[after]
    if data.kind == "general":  # where a transition ends is not known: rows of a group count as they stand
        return order, follows if data.groups is not None else np.zeros_like(follows)
    return order, follows & continues(data, before, after)


def _runs(follows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Int:
    """The number of the unbroken piece that each row belongs to, shape (n,)."""
    return np.concatenate([[0], np.cumsum(~follows)])


def _why_no_time(data: Transitions) -> str:
    if data.kind == "general" and data.groups is None:
        return (
            "The data do not say which transitions follow each other: they have no groups, and for inputs of kind "
            "'general' it cannot be seen otherwise."
        )
    return Message(
        "No transition starts where the one before it ended, so none are known to follow each other in time.{advice}",
        advice=Either(" Check with trajectories (Transitions.from_trajectories) to see this.", ""),
    )


def _innovations(sde: LearnedSDE, data: Transitions, order: Int) -> tuple[Transitions, Float, Float, Float]:
    """Steps of the state from where it was given the past, and z, g and r of all rows: those of innovations."""
    back = np.argsort(order)
    told = innovations(sde, data[order], sde.data.h_mean, sde.scheme).at(back)
    white = np.asarray(np.linalg.solve(factors(told.S), np.stack([told.v, told.move], axis=2)), dtype=np.float64)
    if data.kind == "positions":
        return _with_velocities(sde, data, told, white[:, :, 0])
    variables = data.kind, data.input_names, data.output_names, data.n_covariates, data.periods
    states = Transitions._trusted(told.inputs, told.move + told.v, data.h, data.groups, *variables)
    return states, white[:, :, 0], white[:, :, 1], told.v


def _with_velocities(
    sde: LearnedSDE, data: Transitions, told: Innovations, z: Float
) -> tuple[Transitions, Float, Float, Float]:
    """The same for positions: the force moves them by ½ h² f within a step."""
    h, force = data.h[:, None], sde.drift(np.clip(told.inputs, *sde._range))
    g = np.linalg.solve(factors(told.S), (0.5 * h**2 * force)[:, :, None])[:, :, 0]
    seen = with_velocities(data)
    variables = seen.kind, seen.input_names, seen.output_names, seen.n_covariates, seen.periods
    states = Transitions._trusted(told.inputs, h * force, data.h, data.groups, *variables)
    return states, z, np.asarray(g), told.v


def with_states(sde: LearnedSDE, data: Data) -> Data:
    """Data with the states of a model: of positions, at most MOST_ROWS with velocities drawn given all of a track."""
    if data.kind != "positions":
        return data
    rows = rows_in_memory(data, np.random.default_rng(0))
    return drawn_underdamped(sde, rows, sde.data.h_mean, seed=0)


def _residuals(sde: LearnedSDE, data: Transitions) -> tuple[Float, Float, Float, Float]:
    """z, g, r and the loss of all rows."""
    z, g, r = (np.empty_like(data.increments) for _ in range(3))
    loss = np.empty(len(data))
    for start in range(0, len(data), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        root = np.sqrt(data.h[rows])[:, None]
        mean, covariance = sde.step_moments(data.inputs[rows], data.h[rows])
        r[rows] = data.increments[rows] - root**2 * mean
        white = np.linalg.solve(factors(covariance), np.stack([r[rows] / root, root * mean], axis=2))
        z[rows], g[rows] = white[:, :, 0], white[:, :, 1]
        loss[rows] = gaussian_nll(data.increments[rows], data.h[rows], mean, covariance)
    return z, g, r, loss
