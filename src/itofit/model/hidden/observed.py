"""What an equation says of observations with errors: innovations, their likelihood, and the states behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.data.following import follows, track_order
from itofit.data.names import with_velocities
from itofit.data.passes import Data, add_up
from itofit.data.periods import endless, wrapped
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import symmetric
from itofit.model.finite_step import Scheme
from itofit.model.hidden.gaussian_step import GaussianStep, tabulated, with_held
from itofit.model.hidden.tracking import NO_PRIOR, Filtered, Prior, drawn, filtered, smoothed
from itofit.model.hidden.windows import (
    Chunk,
    InOrder,
    Overlapping,
    chunks,
    cut,
    second_order_window_lengths,
    window_lengths,
)
from itofit.model.measurement import HiddenVelocity, MeasurementNoise


class Observed(Protocol):
    """An equation that is seen through noise."""

    @property
    def box(self) -> Float: ...  # noqa: D102
    @property
    def floor_factor(self) -> Float: ...  # noqa: D102
    @property
    def periods(self) -> Float: ...  # noqa: D102
    @property
    def n_covariates(self) -> int: ...  # noqa: D102
    @property
    def measurement_noise(self) -> MeasurementNoise | None: ...  # noqa: D102
    @property
    def hidden_velocity(self) -> HiddenVelocity | None: ...  # noqa: D102
    def drift(self, x: npt.ArrayLike) -> Float: ...  # noqa: D102
    def covariance(self, x: npt.ArrayLike) -> Float: ...  # noqa: D102


class Innovations(NamedTuple):
    """What a model says of the observation at the end of each of n transitions, given those before."""

    loss: Float  # (n,): −log p
    v: Float  # (n, d): observed less predicted
    S: Float  # (n, d, d): covariance of that
    inputs: Float  # (n, m): where the state was, given the observations so far, and what drove it from outside
    move: Float  # (n, d): by how much what is observed of it was predicted to move

    def at(self, rows: Int) -> Innovations:
        """Those of some rows."""
        return Innovations(*(part[rows] for part in self))


class States(NamedTuple):
    """The states behind observations, given all of a track: means and standard deviations.

    Parameters
    ----------
    x, std : arrays of shape (n, s)
        Where each of the n transitions starts.
    end, end_std : arrays of shape (n, s)
        Where it ends, which within a track is where the next one starts.
    """

    x: Float
    std: Float
    end: Float
    end_std: Float


class Observer:
    """The filter of a learned equation."""

    def __init__(self, sde: Observed, data: Data, h: float, scheme: Scheme) -> None:
        mean = sde.floor_factor @ sde.floor_factor.T
        d = len(mean)

        def exact(x: Float) -> tuple[Float, Float]:
            return sde.drift(x), symmetric(sde.covariance(x))

        noise, hidden = sde.measurement_noise, sde.hidden_velocity
        self.noise = np.zeros((d, d)) if noise is None else noise.covariance
        self.prior = NO_PRIOR if hidden is None else Prior(hidden.mean, hidden.covariance)
        second_order = hidden is not None
        self.periods, self.s = sde.periods, sde.box.shape[1] - sde.n_covariates
        self.step = GaussianStep(
            tabulated(exact, sde.box, len(data), sde.periods, sde.n_covariates),
            endless(sde.box, sde.periods),
            np.diagonal(mean),
            second_order=second_order,
            scheme=scheme,
            substeps=1 if hidden is None else hidden.substeps,
        )
        lengths = (
            second_order_window_lengths(mean, self.noise, h) if second_order else window_lengths(h * mean, self.noise)
        )
        self.overlap, self.kept = lengths

    def filtered(self, block: Overlapping) -> Iterator[tuple[Chunk, Filtered]]:
        """The filter along all windows of a block."""
        windows = cut(follows(block.rows), self.overlap, self.kept, block.n_before)
        for chunk in chunks(block.rows, windows):
            yield chunk, filtered(self.step, chunk, self.noise, self.prior)

    def innovations(self, block: Overlapping) -> Innovations:
        """Of the rows of a block, in their order."""
        n, d, m = len(block.rows), block.rows.n_outputs, self.step.box.shape[1]
        told = Innovations(np.empty(n), np.empty((n, d)), np.empty((n, d, d)), np.empty((n, m)), np.empty((n, d)))
        for chunk, found in self.filtered(block):
            kept, rows = chunk.kept, chunk.rows[chunk.kept]
            told.loss[rows] = found.losses()[kept]
            told.v[rows], told.S[rows] = found.v[kept], found.S[kept]
            told.inputs[rows] = wrapped(with_held(found.m[:-1][kept], chunk.u[kept]), self.periods)
            told.move[rows] = (found.mean_before - found.m[:-1])[kept][:, :d]
        return told.at(np.arange(block.n_before, n))

    def states(self, block: Overlapping) -> States:
        """Of the rows of a block, in their order."""
        n, s = len(block.rows), self.s
        told = States(*(np.empty((n, s)) for _ in range(4)))
        for chunk, found in self.filtered(block):
            after = smoothed(found, chunk)
            sd = np.sqrt(np.maximum(np.diagonal(after.P, axis1=2, axis2=3), 0.0))
            rows = chunk.rows[chunk.kept]
            told.x[rows], told.std[rows] = self._wrapped(after.m[:-1][chunk.kept]), sd[:-1][chunk.kept]
            told.end[rows], told.end_std[rows] = self._wrapped(after.m[1:][chunk.kept]), sd[1:][chunk.kept]
        return States(*(part[block.n_before :] for part in told))

    def drawn(self, block: Overlapping, rng: np.random.Generator) -> tuple[Float, Float]:
        """States (n, s) where the rows of a block start and end, drawn at random given all observations."""
        n, s = len(block.rows), self.s
        start, end = np.empty((n, s)), np.empty((n, s))
        for chunk, found in self.filtered(block):
            states, rows = drawn(found, chunk, rng), chunk.rows[chunk.kept]
            start[rows], end[rows] = states[:-1][chunk.kept], states[1:][chunk.kept]
        return start[block.n_before :], end[block.n_before :]

    def _wrapped(self, states: Float) -> Float:
        return wrapped(states, self.periods[:, : self.s])


def total_loss(sde: Observed, data: Data, h: float, scheme: Scheme) -> float:
    """Mean −log p of the observations at the ends of transitions."""
    observer = Observer(sde, data, h, scheme)

    def of_block(block: Overlapping, number: int) -> tuple[float, int]:
        return float(observer.innovations(block).loss.sum()), len(block)

    loss, n = add_up(InOrder(data, observer.overlap), of_block)
    return loss / n


def innovations(sde: Observed, data: Data, h: float, scheme: Scheme) -> Innovations:
    """Of all rows, in their order."""
    observer = Observer(sde, data, h, scheme)
    ordered = InOrder(data, observer.overlap)
    parts = add_up(ordered, lambda block, number: [observer.innovations(block)])
    told = Innovations(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return told.at(_back(data))


def smoothed_states(sde: Observed, data: Data, h: float, scheme: Scheme) -> States:
    """Of all rows, in their order."""
    observer = Observer(sde, data, h, scheme)
    parts = add_up(InOrder(data, observer.overlap), lambda block, number: [observer.states(block)])
    back = _back(data)
    return States(*(np.concatenate(part)[back] for part in zip(*parts, strict=True)))


def drawn_underdamped(sde: Observed, data: Data, h: float, seed: int) -> Transitions:
    """Transitions with velocities, drawn at random given the positions, in the order of the data."""
    observer, d = Observer(sde, data, h, "corrected"), data.n_outputs
    own = with_velocities(data)
    variables = own.kind, own.input_names, own.output_names, own.n_covariates, own.periods

    def of_block(block: Overlapping, number: int) -> list[Transitions]:
        start, end = observer.drawn(block, np.random.default_rng([seed, number]))
        rows = block.rows[block.n_before :]
        inputs = np.concatenate([end[:, :d], start[:, d:], rows.inputs[:, d:]], axis=1)
        moved = end[:, d:] - start[:, d:]
        return [Transitions._trusted(wrapped(inputs, own.periods), moved, rows.h, rows.groups, *variables)]

    parts = add_up(InOrder(data, observer.overlap), of_block)
    return Transitions.concatenate(parts)[_back(data)]


def _back(data: Data) -> Int:
    """Where each row stands among the rows in the order of tracks."""
    order = track_order(data) if isinstance(data, Transitions) else None
    return np.arange(len(data)) if order is None else np.argsort(order)
