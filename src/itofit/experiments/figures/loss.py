"""Validation loss against training time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import Case
from itofit.experiments.figures.drawing import (
    LOOKS,
    OTHER_LOOK,
    by_method,
    empty_figure,
    moments,
    number_text,
    style,
    titled_figure,
)
from itofit.experiments.results import Run

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_BARS = 12
"""Error bars on a curve."""
NEAR, FACTOR = 5.0, 4.0
"""Final losses are on scale if they are this near to the lowest, or this many times the range of those below them."""


class _Training(NamedTuple):
    """The runs of one method; means and standard deviations are of those that ended with a finite loss."""

    method: str
    n_runs: int
    n_diverged: int
    seconds: float
    seconds_deviation: float
    loss: float
    loss_deviation: float
    curve_seconds: Float
    curve_mean: Float
    curve_deviation: Float


@style()
def loss_against_time(case: Case, runs: Sequence[Run], labels: Mapping[str, str]) -> Figure:
    """Validation loss against training time, mean over the runs with one standard deviation both ways.

    Methods with epochs have a curve over the epochs that all their runs have. Markers are at the time and loss of the
    returned network. The range is that of the final losses: what lies beyond it is named in the legend.

    Parameters
    ----------
    case : Case
    runs : sequence of Run
        The runs of this experiment, of all methods and the truth.
    labels : mapping
        From the names of methods to what the figure calls them.

    Returns
    -------
    Figure
    """
    trainings = [_training(method, group) for method, group in by_method(runs).items()]
    if not trainings:
        return empty_figure(case, "no runs")
    truth, expected = (_mean_of_data(runs, name) for name in ("truth_loss", "expected_loss"))
    low, high = _loss_range(trainings, truth, expected)
    figure = titled_figure(case, 8.5, 4.6)
    axes = figure.subplots()
    handles = [_draw_training(axes, t, labels.get(t.method, t.method), high) for t in trainings]
    for name, value, dashes in (("truth on the same points", truth, (7, 3)), ("expected minimum", expected, (1, 2))):
        label = f"{name} ({number_text(value)}{'' if low <= value <= high else ', off scale'})"
        handles.append(axes.axhline(value, color="0.25", linewidth=1.4, linestyle=(0, dashes), label=label))
    counts = sorted({training.n_runs for training in trainings})
    number = " to ".join(str(count) for count in (counts[0], *counts[1:][-1:]))
    note = "one run of each method" if counts == [1] else f"mean and one standard deviation of {number} runs"
    axes.set_xlabel(f"training time (s); markers: time to the returned network\n{note}")
    axes.set_ylabel("validation loss")
    axes.set_ylim(low, high)
    _set_time_axis(axes, trainings, high)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.01), frameon=False, handlelength=3.2)
    return figure


def _training(method: str, runs: Sequence[Run]) -> _Training:
    ended = [run for run in runs if np.isfinite(run.loss)]
    (seconds, loss), deviations = moments(np.array([(run.seconds_to_best, run.loss) for run in ended]).reshape(-1, 2))
    n_epochs = min((len(run.curve_losses) for run in ended), default=0)
    times, curve, deviation = np.empty((3, 0))
    if n_epochs > 1:
        times, _ = moments(np.array([run.curve_seconds[:n_epochs] for run in ended]))
        curve, deviation = moments(np.array([run.curve_losses[:n_epochs] for run in ended]))
    shown = (times > 0) & np.isfinite(curve)
    finals = seconds, deviations[0], loss, deviations[1]
    return _Training(method, len(runs), len(runs) - len(ended), *finals, times[shown], curve[shown], deviation[shown])


def _mean_of_data(runs: Sequence[Run], name: str) -> float:
    """The mean, over data sets, of a number that all runs on the same data share."""
    return float(moments(np.array(list({run.run: getattr(run, name) for run in runs}.values())))[0])


def _loss_range(trainings: Sequence[_Training], truth: float, expected: float) -> tuple[float, float]:
    """The range of final losses without absurd ones, the expected loss, and the truth's loss if that is near."""
    finals = sorted((t.loss, float(np.nan_to_num(t.loss_deviation))) for t in trainings if np.isfinite(t.loss))
    low = finals[0][0] if finals else float(np.nan_to_num(expected))
    values = [low, expected] if np.isfinite(expected) else [low]
    for mean, deviation in finals:
        reach = max(NEAR, FACTOR * (max(values) - low))
        if mean - low <= reach:
            values += [mean - min(deviation, reach), mean + min(deviation, reach)]
    span = max(max(values) - min(values), 1e-3 * max(1.0, abs(low)))
    if min(values) - 2 * span <= truth <= max(values) + 2 * span:
        values.append(truth)
        span = max(max(values) - min(values), span)
    return min(values) - 0.1 * span, max(values) + 0.4 * span


def _set_time_axis(axes: Axes, trainings: Sequence[_Training], high: float) -> None:
    """Show all markers with their bars and the visible part of the curves, with enough plain numbers on the axis."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    markers = [t.seconds + k * np.nan_to_num(t.seconds_deviation) for t in trainings for k in (-1, 0, 1)]
    times = np.concatenate([markers, *(t.curve_seconds[t.curve_mean <= high] for t in trainings)])
    times = times[np.isfinite(times) & (times > 0)]
    first, last = (times.min() / 1.4, times.max() * 1.4) if times.size else (0.1, 10.0)
    subs = (1, 2, 3, 4, 6, 8) if last < 10 * first else (1, 2, 5) if last < 2000 * first else (1,)
    axes.set_xscale("log", nonpositive="clip")
    axes.set_xlim(first, last)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_training(axes: Axes, training: _Training, label: str, high: float) -> Artist | tuple[Artist, ...]:
    """Draw curve and marker, which is at the upper edge if it is above; returns the legend's entry."""
    colour, marker, dashes = LOOKS.get(training.method, OTHER_LOOK)
    look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 8, "markeredgecolor": "white"}
    look |= {"markeredgewidth": 0.5, "linestyle": "none", "zorder": 3}
    if training.n_diverged:
        label += f"\n({training.n_diverged} of {training.n_runs} runs diverged)"
    if training.curve_seconds.size:
        look["linestyle"] = dashes
        times = np.log(training.curve_seconds)
        some = np.unique(np.searchsorted(times, np.linspace(times[0], times[-1], N_BARS)).clip(max=len(times) - 1))
        axes.plot(training.curve_seconds, training.curve_mean, color=colour, linestyle=dashes, linewidth=1.2)
        x, y, bars = (array[some] for array in (training.curve_seconds, training.curve_mean, training.curve_deviation))
        axes.errorbar(x, y, yerr=_bars(bars), fmt="none", ecolor=colour, elinewidth=0.9, capsize=2)
    if training.loss > high:
        label += f"\n(off scale: {number_text(training.loss)})"
        return axes.plot([training.seconds], [0.985], transform=axes.get_xaxis_transform(), label=label, **look)[0]
    bars_x, bars_y = (_bars(np.array([value])) for value in (training.seconds_deviation, training.loss_deviation))
    place = [training.seconds], [training.loss]
    return axes.errorbar(*place, xerr=bars_x, yerr=bars_y, elinewidth=1.1, capsize=3, label=label, **look)


def _bars(deviations: Float) -> Float | None:
    """Error bars, or None if there are no standard deviations because there is only one run."""
    return deviations if np.isfinite(deviations).all() else None
