"""Nullclines: the lines in the plane of two variables on which one of them stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import RNG, Float, InputError, Int, count
from itofit.dynamics.answers import Answer
from itofit.dynamics.axes import axes_or_new, escaped, label_plane
from itofit.dynamics.drawn import look
from itofit.dynamics.motion import Box, Held, motion_of, samples_of
from itofit.dynamics.resting import slopes
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Nullclines(Answer):
    """Nullclines of two variables: `value` is an array of points (n, 2) on them, `samples` their moves.

    Parameters
    ----------
    segments : tuple of two arrays of shape (n_k, 2, 2)
        For each component of the flow, pieces of the lines on which it is zero: number, end, coordinate.
    component : array of shape (n,)
        Which component is zero at each point of `value`, the middles of the segments.
    across : array of shape (n, 2)
        Unit vectors across the lines at these points.
    names : tuple of str
    """

    segments: tuple[Float, Float]
    component: Int
    across: Float
    names: tuple[str, ...]

    def value_text(self) -> str:
        """In words."""
        counts = [len(part) for part in self.segments]
        return f"{counts[0]} pieces where {self.names[0]} stays, {counts[1]} where {self.names[1]} stays"

    @property
    def std(self) -> Float:
        """How far points may be off across the line, (n,): the error of the flow over its slope."""
        return (
            np.asarray(self.samples.std(axis=0, ddof=1)) if len(self.samples) else np.full(len(self.component), np.nan)
        )

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Points (n, 2) on either side of the lines, between which these are with a probability `level`.

        The first lie against `across`, the second along it. NaN without error bars.
        """
        away = self._stds(level) * self.std[:, None] * self.across
        return np.asarray(self.value) - away, np.asarray(self.value) + away

    def plot(self, ax: Axes | None = None) -> Axes:
        """Lines on which one variable stays, with the ends of their 95 % intervals as faint dots beside."""
        from matplotlib.collections import LineCollection  # noqa: PLC0415

        ax = axes_or_new(ax, (5.0, 4.6))
        for k, part in enumerate(self.segments):
            own, (color, _) = self.component == k, look(k)
            if len(self.samples) and own.any():
                for side in self.interval():
                    ax.plot(*side[own].T, ",", color=color, alpha=0.6)
            ax.add_collection(LineCollection(list(part), colors=color, linestyles="-", linewidths=1.6))
            ax.plot([], [], color=color, label=escaped(f"{self.names[k]} stays"))
        ax.autoscale()
        label_plane(ax, self.names, self.units)
        ax.legend(frameon=False, fontsize="small")
        return ax


def nullclines(
    sde: SDE, *, covariates: Held = None, box: Box = None, cells: int = 100, samples: int = 50, rng: RNG = None
) -> Nullclines:
    """The lines in the plane of two variables on which one of them stays: where they cross are the fixed points.

    Parameters
    ----------
    sde : SDE
        With two variables; of second-order systems with one position, they are v = 0 and f = 0.
    covariates, box, samples, rng
        As for `stationary_density`.
    cells : int
        In each direction of the grid between whose points the lines are drawn.

    Examples
    --------
    >>> lines = itofit.dynamics.nullclines(sde)                              # doctest: +SKIP
    """
    motion = motion_of(sde, covariates, box)
    if motion.s != 2:
        raise InputError(f"nullclines are drawn in the plane of two variables; the state has {', '.join(motion.names)}")
    count("cells", cells)
    x, y = (np.linspace(low, high, cells + 1) for low, high in motion.box.T)
    at = np.stack([part.ravel() for part in np.meshgrid(x, y, indexing="ij")], axis=1)
    b = motion.flow(at).reshape(len(x), len(y), 2)
    segments = tuple(zero_lines(x, y, b[:, :, k]) for k in range(2))
    middles = np.concatenate([part.mean(axis=1) for part in segments])
    component = np.repeat([0, 1], [len(part) for part in segments])
    sampled = samples_of(sde, samples, rng)
    slope = slopes(motion.flow, middles, motion.box[1] - motion.box[0])[np.arange(len(middles)), component]
    steep = np.maximum(np.linalg.norm(slope, axis=1), 1e-300)
    own = np.empty((0, len(middles)))
    if sampled is not None and len(middles):
        flows = motion.sampled_flow_and_noise(sampled, middles)[0]
        own = flows[:, np.arange(len(middles)), component] / steep
    return Nullclines(
        what="nullclines",
        value=middles,
        samples=own,
        segments=(segments[0], segments[1]),
        component=component,
        across=slope / steep[:, None],
        names=motion.names,
        units=motion.units,
    )


def zero_lines(x: Float, y: Float, values: Float) -> Float:
    """Pieces of the lines on which values (nx, ny) on a grid are zero: shape (k, 2, 2)."""
    ends: list[list[Float]] = [[], []]
    for corners in (((0, 0), (1, 0), (0, 1)), ((1, 1), (1, 0), (0, 1))):  # each cell is two triangles
        cut = []
        for (i, j), (k, m) in ((corners[0], corners[1]), (corners[1], corners[2]), (corners[2], corners[0])):
            nx, ny = values.shape
            a, b = values[i : nx - 1 + i, j : ny - 1 + j], values[k : nx - 1 + k, m : ny - 1 + m]
            crosses = (a < 0) != (b < 0)
            share = np.where(crosses, a / np.where(crosses, a - b, 1.0), np.nan)
            X = x[i : nx - 1 + i, None] + share * (x[k : nx - 1 + k] - x[i : nx - 1 + i])[:, None]
            Y = y[None, j : ny - 1 + j] + share * (y[m : ny - 1 + m] - y[j : ny - 1 + j])[None]
            cut.append(np.stack([X, Y], axis=-1).reshape(-1, 2))
        sides = np.stack(cut)  # (3, cells, 2): two of three sides are cut, or none
        has = np.isfinite(sides[:, :, 0])
        pieces = np.flatnonzero(has.sum(axis=0) == 2)
        first = has[:, pieces].argmax(axis=0)
        last = 2 - has[::-1, pieces].argmax(axis=0)
        ends[0].append(sides[first, pieces])
        ends[1].append(sides[last, pieces])
    return np.stack([np.concatenate(ends[0]), np.concatenate(ends[1])], axis=1)
