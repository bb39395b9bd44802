"""What an answer is: a value, how far it may be off, and how it was computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from itofit._checks import Float, fraction
from itofit.data.units import NO_UNITS, Units, behind, with_unit
from itofit.dynamics.axes import LEARNED, axes_or_new, escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scale = Literal["linear", "log", "share", "square"]
"""How a value varies: by differences, by factors because it is positive, between zero and one, or as a square."""
SEEN = 0.001
"""Share of the probability at the edge that is worth mentioning."""
COARSE, SHARE_OF_STD = 0.02, 0.1
"""Error of the grid that is worth mentioning: relative to a value, and to its error bar."""


class Edge(NamedTuple):
    """How much the edge of the box matters, where paths are reflected.

    Parameters
    ----------
    mass : float
        Probability of the outermost cells, a fortieth of the range at each end.
    flux : float
        Probability that the flow would carry over the edge, per time.
    escapes : bool
        Whether the state is at an end of the range about as often as elsewhere: walls hold it, and not its own forces.
    """

    mass: float
    flux: float
    escapes: bool

    def __str__(self) -> str:
        text = f"{self.mass:.{1 if self.mass >= 0.01 else 2}%} of the probability is at the edge of the range"
        text += f", over which {self.flux:.2g} would flow per time" if self.flux else ", where the flow points inwards"
        return (
            f"{text}: walls hold the state, and not its own forces; it has no stationary density"
            if self.escapes
            else text
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Answer:
    """A number or an array of numbers with its uncertainty.

    Parameters
    ----------
    what : str
        In words.
    value : float or array of shape (...)
        At the learned functions themselves.
    samples : array of shape (n_samples, ...)
        The same for equations from the posterior; empty if there are none.
    scale : {"linear", "log", "share", "square"}
        How it varies, which decides on the form of intervals.
    grid_error : float
        About how far a grid of cells is off: what the step from a coarser grid to an infinitely fine one changes,
        relative to the value. NaN if no grid was used.
    edge : Edge or None
        How much the edge of the data's range matters.
    notes : tuple of str
        What else should be known.
    unit : str
        Of the value; empty if it is not known, or there is none.
    units : Units
        Of the equation's variables and of time.
    """

    what: str
    value: Float | float
    samples: Float
    scale: Scale = "linear"
    grid_error: float = np.nan
    edge: Edge | None = None
    notes: tuple[str, ...] = ()
    unit: str = ""
    units: Units = NO_UNITS

    @property
    def label(self) -> str:
        """What it is, with its unit, as on an axis."""
        return with_unit(self.what, self.unit)

    @property
    def std(self) -> Float | float:
        """Standard deviation over the posterior, of the value's shape; NaN without error bars."""
        return _plain(self._std(self.samples))

    def _std(self, samples: Float) -> Float:
        enough = np.isfinite(samples).sum(axis=0) >= 2 if len(samples) else np.zeros(np.shape(self.value), dtype=bool)
        out = np.full(np.shape(self.value), np.nan)
        if np.any(enough):
            finite = np.where(np.isfinite(samples), samples, np.nan)[:, enough] if out.ndim else samples
            with np.errstate(over="ignore"):  # that of times without end is infinite
                out[enough] = np.nanstd(finite, axis=0, ddof=1)
        return np.where(np.isinf(self.value) & (len(samples) > 0), np.inf, out)

    def interval(self, level: float = 0.95) -> tuple[Float | float, Float | float]:
        """Ends of the interval that has a probability `level`: two values, or arrays of the value's shape.

        It is that of Student's distribution around the value: of its logarithm if it is positive, of its root if it is
        a square, which may be zero, and cut at zero and one if it is a probability. What is zero in all samples, as the
        time to a set is within it, is sure to be zero. NaN without error bars.
        """
        t = self._stds(level)
        value = np.asarray(self.value, dtype=float)
        if self.scale == "log":
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                factor = np.exp(np.minimum(t * self._std(np.log(self.samples)), 700.0))
            factor = np.where(self._surely_zero(), 1.0, factor)
            return _plain(value / factor), _plain(value * factor)
        if self.scale == "square":
            root = np.sqrt(value)
            away = np.sqrt(np.mean((np.sqrt(self.samples) - root) ** 2, axis=0)) if len(self.samples) else np.nan
            return _plain(np.maximum(root - t * away, 0.0) ** 2), _plain((root + t * away) ** 2)
        width = t * self._std(self.samples)
        low, high = value - width, value + width
        if self.scale == "share":
            low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        return _plain(low), _plain(high)

    def _stds(self, level: float) -> float:
        """How many standard deviations the interval of a level reaches, by Student's distribution."""
        n = max(len(self.samples), 2)
        return float(stdtrit(n - 1, 0.5 + 0.5 * fraction("level", level)))

    def _surely_zero(self) -> npt.NDArray[np.bool_]:
        """Where the value and all samples are zero, of the value's shape."""
        if not len(self.samples):
            return np.zeros(np.shape(self.value), dtype=bool)
        return np.asarray((np.asarray(self.value) == 0) & (self.samples == 0).all(axis=0))

    # In words

    def __str__(self) -> str:
        value = self.value_text()
        gap = "" if value.startswith("\n") else " "
        return "\n".join([f"{self.what}:{gap}{value}", *(f"  {note}" for note in self.all_notes())])

    __repr__ = __str__

    def value_text(self) -> str:
        """The value with its error and interval."""
        if np.ndim(self.value):
            return f"array of shape {np.shape(self.value)}"
        return with_error(float(self.value), self)

    def all_notes(self) -> list[str]:
        """What should be known, line by line."""
        lines = list(self.notes)
        if self._grid_matters():
            lines.append(f"the grid is coarse: it may be off by {self.grid_error:.1%}; give more cells=")
        if self.edge is not None and (self.edge.mass > SEEN or self.edge.escapes):
            lines.append(str(self.edge))
        if not len(self.samples):
            lines.append("no error bars: the equation has no posterior to draw from, or samples=0")
        return lines

    def _grid_matters(self) -> bool:
        """Whether the error of the grid is worth mentioning: not if it is far less than the error bar."""
        if not np.isfinite(self.grid_error) or self.grid_error <= COARSE:
            return False
        std = self.std
        known = np.ndim(std) == 0 and np.isfinite(std)
        return not known or bool(self.grid_error * np.abs(self.value) > SHARE_OF_STD * std)

    # As a picture

    def plot(self, ax: Axes | None = None) -> Axes:
        """The samples of a number as a histogram, with the value and its 95 % interval; of several numbers dots."""
        ax = axes_or_new(ax, (5.0, 3.0))
        if np.size(self.value) == 1:
            self._draw_number(ax)
        else:
            self._draw_numbers(ax)
        ax.set_xlabel(escaped(self.label))
        return ax

    def _draw_number(self, ax: Axes) -> None:
        """A line, over a histogram of the samples if there are any; the interval if it has two ends."""
        if len(self.samples):
            low, high = (float(np.ravel(end)[0]) for end in self.interval())
            own = self.samples.ravel()
            ax.hist(own[np.isfinite(own)], bins="auto", color=LEARNED, alpha=0.35, label="posterior")
            if np.isfinite([low, high]).all():
                ax.axvspan(low, high, color=LEARNED, alpha=0.12, linewidth=0, label="95 % interval")
            ax.set_ylabel("samples")
        ax.axvline(float(np.ravel(self.value)[0]), color=LEARNED, linewidth=1.8, label="value")
        ax.legend(frameon=False, fontsize="small")

    def _draw_numbers(self, ax: Axes) -> None:
        """Dots below each other, with bars if there are samples; none of what is infinite."""
        values = np.where(np.isfinite(self.value), self.value, np.nan).ravel()
        at = np.arange(len(values))
        ax.plot(values, at, "o", color=LEARNED)
        if len(self.samples):
            low, high = (np.ravel(end) for end in self.interval())
            ax.errorbar(values, at, xerr=[values - low, high - values], fmt="none", ecolor=LEARNED, capsize=3)
        ax.set_yticks(at)
        ax.set_ylim(-0.5, len(values) - 0.5)


def with_error(value: float, answer: Answer) -> str:
    """A number with its error and interval in words."""
    std = float(np.asarray(answer.std))
    if not np.isfinite(std) or std == 0:
        return f"{value:.4g}{behind(answer.unit)}"
    low, high = (float(end) for end in answer.interval())
    return f"{value:.4g} ± {std:.2g}{behind(answer.unit)} (95 % interval {low:.4g} to {high:.4g})"


def short(answer: Answer) -> str:
    """A number with its error."""
    std, value = float(np.asarray(answer.std)), float(np.asarray(answer.value))
    return (f"{value:.4g} ± {std:.2g}" if np.isfinite(std) and std > 0 else f"{value:.4g}") + behind(answer.unit)


def _plain(array: Float) -> Float | float:
    """An array, or a number if it has no axes."""
    return float(array) if np.ndim(array) == 0 else np.asarray(array)
