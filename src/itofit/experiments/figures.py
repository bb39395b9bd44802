"""The figures of the paper from the runs of one experiment: losses, functions, and distributions of paths.

Every function returns a matplotlib Figure that no window or global state knows of; `save` writes and closes it. The
figures look the same whatever matplotlib is set to elsewhere in the program. Each method has its colour, marker and
dashes in all of them, so that methods can be told apart without colour too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.experiments.catalogue import Case
from itofit.experiments.results import TRUTH, Run, write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

DPI = 150
WIDTH = 11.0
"""Of the widest figure, in inches."""
MAX_COLUMNS = 6
"""Panels beside each other, unless there are more methods than that."""
HIDDEN = 0.005
"""Share of values beyond the axes from which on it is said."""
N_BARS = 12
"""Error bars on a curve."""
NEAR, FACTOR = 5.0, 4.0
"""Final losses are on scale if they are this near to the lowest, or this many times the range of those below them."""
RC = {"font.size": 9, "axes.titlesize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8.5}
LOOKS = {
    "algorithm-2": ("#0072B2", "o", "-"),
    "default": ("#009E73", "s", "-"),
    "adam": ("#D55E00", "^", (0, (6, 1.5))),
    "no-resampling": ("#56B4E9", "D", "-"),
    "drift-step": ("#777777", "P", "-"),
    "adam-deep": ("#E69F00", "v", (0, (4, 1, 1, 1))),
    "hybrid": ("#CC79A7", "X", (0, (2, 1))),
    "hybrid-deep": ("#000000", "*", (0, (1, 1))),
}
"""Colour (Okabe and Ito), marker and dashes of each method."""
OTHER_LOOK = ("#000000", "h", "-")


@contextmanager
def _style() -> Iterator[None]:
    """Matplotlib's own defaults and ours within, the user's settings again after."""
    try:
        from matplotlib import style  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "itofit[plot]"') from error
    with style.context(["default", RC | {"svg.hashsalt": "itofit"}]):
        yield


@_style()
def save(figure: Figure, path: Path) -> None:
    """Write `path`.png and `path`.svg, each whole or not at all, and close the figure."""
    contents = {}
    for kind in ("png", "svg"):
        buffer = BytesIO()
        figure.savefig(buffer, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
        contents[kind] = buffer.getvalue()
    for kind, content in contents.items():
        write_whole(path.with_name(f"{path.name}.{kind}"), content)
    figure.clear()


# Loss against time


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


@_style()
def loss_against_time(case: Case, runs: Sequence[Run], labels: Mapping[str, str]) -> Figure:
    """Validation loss against training time, mean over the runs with one standard deviation both ways.

    Methods with epochs have a curve over the epochs that all their runs have. Markers are at the time and loss of the
    returned network. The range is that of the final losses: what lies beyond it is named in the legend.

    Parameters
    ----------
    case : Case
    runs : sequence of Run
        Of this experiment, of all methods and the truth.
    labels : mapping
        From the names of methods to what the figure calls them.

    Returns
    -------
    Figure
    """
    trainings = [_training(method, group) for method, group in _by_method(runs).items()]
    if not trainings:
        return _empty(case, "no runs")
    truth, expected = (_mean_of_data(runs, name) for name in ("truth_loss", "expected_loss"))
    low, high = _loss_range(trainings, truth, expected)
    figure = _figure(case, 8.5, 4.6)
    axes = figure.subplots()
    handles = [_draw_training(axes, t, labels.get(t.method, t.method), high) for t in trainings]
    for name, value, dashes in (("truth on the same points", truth, (7, 3)), ("expected minimum", expected, (1, 2))):
        label = f"{name} ({_text(value)}{'' if low <= value <= high else ', off scale'})"
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
    (seconds, loss), deviations = _moments(np.array([(run.seconds_to_best, run.loss) for run in ended]).reshape(-1, 2))
    n_epochs = min((len(run.curve_losses) for run in ended), default=0)
    times, curve, deviation = np.empty((3, 0))
    if n_epochs > 1:
        times, _ = _moments(np.array([run.curve_seconds[:n_epochs] for run in ended]))
        curve, deviation = _moments(np.array([run.curve_losses[:n_epochs] for run in ended]))
    shown = (times > 0) & np.isfinite(curve)
    finals = seconds, deviations[0], loss, deviations[1]
    return _Training(method, len(runs), len(runs) - len(ended), *finals, times[shown], curve[shown], deviation[shown])


def _moments(values: Float) -> tuple[Float, Float]:
    """Mean and standard deviation of the finite values in each column; nan if there are too few for them."""
    kept = np.isfinite(values)
    n = kept.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.where(kept, values, 0.0).sum(axis=0) / n
        return mean, np.sqrt(np.where(kept, (values - mean) ** 2, 0.0).sum(axis=0) / (n - 1))


def _mean_of_data(runs: Sequence[Run], name: str) -> float:
    """The mean over the data of what all runs on the same data share."""
    return float(_moments(np.array(list({run.run: getattr(run, name) for run in runs}.values())))[0])


def _loss_range(trainings: Sequence[_Training], truth: float, expected: float) -> tuple[float, float]:
    """Of final losses without absurd ones, the expected loss, and the truth's if that is near."""
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
    """All markers with their bars, and what can be seen of the curves; plain numbers and enough of them."""
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
    """Curve and marker, this at the upper edge if it is above; returns what the legend shows."""
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
        label += f"\n(off scale: {_text(training.loss)})"
        return axes.plot([training.seconds], [0.985], transform=axes.get_xaxis_transform(), label=label, **look)[0]
    bars_x, bars_y = (_bars(np.array([value])) for value in (training.seconds_deviation, training.loss_deviation))
    place = [training.seconds], [training.loss]
    return axes.errorbar(*place, xerr=bars_x, yerr=bars_y, elinewidth=1.1, capsize=3, label=label, **look)


def _bars(deviations: Float) -> Float | None:
    """No error bars if there are no standard deviations, as of one run."""
    return deviations if np.isfinite(deviations).all() else None


# True and trained functions


class _Panel(NamedTuple):
    """An entry of f or σ as one method learned it: values at the points of its best run, and those of its others."""

    name: str
    method: str
    title: str
    points: Float
    true: Float
    trained: Float
    others: list[tuple[Float, Float]]


@_style()
def true_against_trained(case: Case, runs: Sequence[Run], labels: Mapping[str, str], methods: Sequence[str]) -> Figure:
    """True and trained entries of f and σ, the methods beside each other.

    Shown is the run of lowest loss of each method. With one input the entries are drawn over it, with other runs
    faint; with more, trained values are drawn against true ones, or as a histogram where the truth is constant. The
    axis of trained values ends at most one range of the true values beyond these; shares outside are printed.

    Parameters
    ----------
    case, runs, labels
        As for `loss_against_time`.
    methods : sequence of str
        Which to show, in this order.

    Returns
    -------
    Figure
    """
    groups = {method: [run for run in group if np.isfinite(run.loss)] for method, group in _by_method(runs).items()}
    shown = [method for method in methods if groups.get(method)]
    if not shown:
        return _empty(case, "no runs")
    panels = [_panels(case, runs, groups[method], labels.get(method, method)) for method in shown]
    figure, width, places = _places(case, [entries[0].title for entries in panels])
    for axes, entry in zip(places, zip(*panels, strict=True), strict=True):
        _draw_entry(case, axes, entry, width)
    return figure


def _entries(case: Case) -> list[tuple[int, int]]:
    """Rows and columns of the learned entries of σ."""
    d = case.n_outputs
    if case.structure == "diagonal":
        return [(i, i) for i in range(d)]
    entries = [(i, j) for i in range(d) for j in range(i + 1)]
    return entries if case.factor == "cholesky" else sorted((j, i) for i, j in entries)


def _names(case: Case) -> list[str]:
    """Of the entries of f, then of those of σ."""
    variables = ", ".join(case.inputs) if all(len(name) == 1 for name in case.inputs) else "x"
    numbers = ("",) if case.n_outputs == 1 else tuple("₁₂₃₄₅₆₇₈₉"[: case.n_outputs])
    names = [f"f{i}" for i in numbers] + [f"σ{numbers[i]}{numbers[j]}" for i, j in _entries(case)]
    return [f"{name}({variables})" for name in names]


def _places(case: Case, titles: Sequence[str]) -> tuple[Figure, float, list[list[Axes]]]:
    """A figure, the width of a panel, and for each entry axes for each method: rows of f, then rows of σ."""
    n_methods, sizes = len(titles), (case.n_outputs, len(_entries(case)))
    per_row = max(1, min(max(sizes), MAX_COLUMNS // n_methods))
    heights = [-(-size // per_row) for size in sizes]
    width = min(WIDTH, 0.6 + 3.3 * per_row * n_methods)
    panel = width / (per_row * n_methods)
    note = "run of lowest loss of each method; dashed: truth" + ("; faint: other runs" if case.n_inputs == 1 else "")
    if max(len(name) for name in case.inputs) > 2:
        note += f"; x = ({', '.join(case.inputs)})"
    height = 0.8 + sum(heights) * (0.45 + _title_height(titles, panel) + max(1.2, 0.65 * panel))
    figure = _figure(case, width, height, note)
    grid = figure.add_gridspec(sum(heights), per_row * n_methods)
    places = []
    for size, above in zip(sizes, (0, heights[0]), strict=True):
        for i in range(size):
            row, column = above + i // per_row, i % per_row * n_methods
            first = figure.add_subplot(grid[row, column])
            others = [
                figure.add_subplot(grid[row, column + k], sharex=first, sharey=first) for k in range(1, n_methods)
            ]
            places.append([first, *others])
    return figure, panel, places


def _panels(case: Case, runs: Sequence[Run], group: Sequence[Run], label: str) -> list[_Panel]:
    best = min(group, key=lambda run: run.loss)
    truths = [run for run in runs if run.method == TRUTH and run.run == best.run]
    true = (truths[0].drift, truths[0].covariance) if truths else None
    true_values = _values(case, *(true or (case.truth.drift(best.points), case.truth.covariance(best.points))))
    values = _values(case, best.drift, best.covariance)
    rest = [(run.points, _values(case, run.drift, run.covariance)) for run in group if run is not best]
    title = f"{label}, run\N{NO-BREAK SPACE}{best.run}"
    return [
        _Panel(name, best.method, title, best.points, true_values[:, k], values[:, k], [(x, y[:, k]) for x, y in rest])
        for k, name in enumerate(_names(case))
    ]


def _values(case: Case, drift: Float, covariance: Float) -> Float:
    """The entries of f and σ, shape (n, number of entries); nan where Σ has no square root."""
    usable = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)))
    eigenvalues = np.linalg.eigvalsh(covariance[usable])
    usable = usable[eigenvalues[:, 0] > 1e-15 * eigenvalues[:, -1]]
    sigma = np.full(covariance.shape, np.nan)
    sigma[usable] = case.diffusion(covariance[usable])
    rows, columns = np.array(_entries(case)).T
    return np.column_stack([drift, sigma[:, rows, columns]])


def _draw_entry(case: Case, places: Sequence[Axes], panels: Sequence[_Panel], width: float) -> None:
    """One entry, by all methods, on the same axes."""
    true, trained = (np.concatenate(arrays) for arrays in zip(*((p.true, p.trained) for p in panels), strict=True))
    true, trained = true[np.isfinite(true)], trained[np.isfinite(trained)]
    low, high = _window(true, trained)
    first, name = places[0], panels[0].name
    for axes, panel in zip(places, panels, strict=True):
        if case.n_inputs == 1:
            _draw_functions(axes, panel)
            axes.set(xlabel=case.inputs[0], ylim=(low, high + 0.2 * (high - low)))
        elif _constant(true):
            shares = _draw_histogram(axes, panel, np.linspace(low, high, 41))
            axes.set(xlabel=f"trained {name}", xlim=(low, high), ylim=(0, max(1.4 * shares, axes.get_ylim()[1])))
        else:
            _draw_scatter(axes, panel)
            axes.set(xlabel=f"true {name}", xlim=_window(true, true), ylim=(low, high))
        outside = np.mean((panel.trained < low) | (panel.trained > high) | ~np.isfinite(panel.trained))
        with np.errstate(over="ignore"):
            error = np.sqrt(_moments((panel.trained - panel.true) ** 2)[0])
        _corner(axes, f"RMSE {error:.3g}" + (f"\n{_outside(float(outside))}" if outside > HIDDEN else ""))
        axes.set_title(_wrapped(panel.title, width))
        axes.locator_params(axis="x", nbins=3 if width < 2.5 else 6)
        axes.locator_params(axis="y", nbins=4 if width < 2.5 else 6)
        axes.tick_params(labelleft=axes is first)
    first.set_ylabel(name if case.n_inputs == 1 else "share of points" if _constant(true) else f"trained {name}")


def _constant(true: Float) -> bool:
    return true.size == 0 or bool(np.ptp(true) <= 1e-12 + 1e-8 * np.abs(true).max())


def _window(true: Float, trained: Float) -> tuple[float, float]:
    """A range for trained values: not further from the true ones than their range, or 99 % where these are constant."""
    if not trained.size:
        low, high = (float(true.min()), float(true.max())) if true.size else (0.0, 0.0)
    elif _constant(true):
        inside = np.append(np.quantile(trained, [0.005, 0.995]), true[:1])
        low, high = float(inside.min()), float(inside.max())
    else:
        reach = np.ptp(true)
        inside = np.append(true, trained.clip(true.min() - reach, true.max() + reach))
        low, high = float(inside.min()), float(inside.max())
    size = max(abs(low), abs(high))
    margin = 0.06 * (high - low) if high - low > 1e-9 * size else 0.1 * size or 0.1
    return low - margin, high + margin


def _draw_functions(axes: Axes, panel: _Panel) -> None:
    """Over the only input."""
    colour = LOOKS.get(panel.method, OTHER_LOOK)[0]
    for points, trained in panel.others:
        order = np.argsort(points[:, 0])
        axes.plot(points[order, 0], trained[order], color=colour, alpha=0.25, linewidth=0.7, rasterized=True)
    order = np.argsort(panel.points[:, 0])
    x = panel.points[order, 0]
    axes.plot(x, panel.true[order], color="0.35", linewidth=2.6, linestyle=(0, (3, 1.5)), label="true")
    axes.plot(x, panel.trained[order], color=colour, linewidth=1.2, label="trained")


def _draw_histogram(axes: Axes, panel: _Panel, edges: Float) -> float:
    """Of the trained values, with the true one; returns the greatest share."""
    shares = np.histogram(panel.trained[np.isfinite(panel.trained)], edges)[0] / len(panel.trained)
    axes.stairs(shares, edges, fill=True, color=LOOKS.get(panel.method, OTHER_LOOK)[0], alpha=0.7)
    axes.axvline(panel.true[0], color="black", linewidth=1.4, linestyle=(0, (3, 1.5)), ymax=0.75)
    return float(shares.max())


def _draw_scatter(axes: Axes, panel: _Panel) -> None:
    colour = LOOKS.get(panel.method, OTHER_LOOK)[0]
    axes.scatter(panel.true, panel.trained, s=5, color=colour, alpha=0.5, linewidths=0, rasterized=True)
    axes.axline((0, 0), slope=1, color="black", linewidth=1.0, linestyle=(0, (3, 1.5)))


# Distributions of paths


@_style()
def trajectory_distributions(
    case: Case, runs: Sequence[Run], labels: Mapping[str, str], methods: Sequence[str]
) -> Figure:
    """Density of simulated paths over time and value, of the truth and of the methods, a row for each component.

    Lines are the mean and the 5 % and 95 % quantiles of the paths within the bins, those of the truth dashed. Colours
    reach up to the density that 99.5 % of the occupied bins of a row have. The greatest share of paths that is outside
    the bins at any time is printed above a panel.

    Parameters
    ----------
    case, runs, labels, methods
        As for `true_against_trained`.

    Returns
    -------
    Figure
    """
    simulated = {run.method: run for run in reversed(runs) if run.histogram.size}
    shown = [simulated[method] for method in (TRUTH, *methods) if method in simulated]
    if not shown:
        return _empty(case, "no simulated paths")
    n_rows, n_columns = len(case.components), len(shown)
    width = min(WIDTH, 1.6 + 3.0 * n_columns)
    panel = (width - 1.6) / n_columns
    titles = [labels.get(run.method, run.method) for run in shown]
    note = "solid: mean, 5 % and 95 % quantiles of the simulated paths; dashed: those of the truth"
    figure = _figure(case, width, 1.2 + _title_height(titles, panel) + n_rows * max(1.9, 0.75 * panel), note)
    places = figure.subplots(n_rows, n_columns, sharex=True, sharey="row", squeeze=False)
    for c, component in enumerate(case.components):
        meshes = [_draw_density(axes, case, run, c) for axes, run in zip(places[c], shown, strict=True)]
        occupied = np.concatenate([array[array > 0] for array in (np.asarray(mesh.get_array()) for mesh in meshes)])
        for mesh in meshes:
            mesh.set_clim(0.0, float(np.quantile(occupied, 0.995)) if occupied.size else 1.0)
        figure.colorbar(meshes[0], ax=places[c].tolist(), label="density", extend="max", aspect=15, pad=0.01)
        for axes, run in zip(places[c], shown, strict=True):
            _draw_moments(axes, case, run, c, dashed=False)
            if run.method != TRUTH and TRUTH in simulated:
                _draw_moments(axes, case, simulated[TRUTH], c, dashed=True)
        places[c, 0].set_ylabel(component)
    for axes, title in zip(places[0], titles, strict=True):
        axes.set_title(f"{_wrapped(title, panel)}\n{axes.get_title()}".strip())
    for axes in places[-1]:
        axes.set_xlabel("time t")
    return figure


def _draw_density(axes: Axes, case: Case, run: Run, c: int) -> QuadMesh:
    shares, edges = run.histogram[c], run.edges[c]
    end = case.n_steps * case.time_step
    half = 0.5 * end / max(len(shares) - 1, 1)
    times = np.linspace(-half, end + half, len(shares) + 1)
    mesh = axes.pcolormesh(times, edges, (shares / np.diff(edges)).T, cmap="magma_r", rasterized=True)
    axes.set(xlim=(0, end), ylim=(edges[0], edges[-1]))
    outside = 1 - shares.sum(axis=1).min()
    if outside > HIDDEN:
        axes.set_title(_outside(outside))
    return mesh


def _draw_moments(axes: Axes, case: Case, run: Run, c: int, dashed: bool) -> None:
    """Mean and quantiles over time; white lines with black edges, or black dashes on white, are seen on any shade."""
    from matplotlib import patheffects  # noqa: PLC0415

    line, edge = ("black", "white") if dashed else ("white", "black")
    effects = [patheffects.withStroke(linewidth=2.2 if dashed else 3.0, foreground=edge)]
    look: dict[str, Any] = {"color": line, "linewidth": 1.0 if dashed else 1.8, "path_effects": effects}
    times = np.linspace(0, case.n_steps * case.time_step, len(run.histogram[c]))
    for values in _mean_and_quantiles(run.histogram[c], run.edges[c]):
        axes.plot(times, values, linestyle=(0, (3, 2)) if dashed else "-", **look)


def _mean_and_quantiles(shares: Float, edges: Float) -> Float:
    """Mean, 5 % and 95 % quantile of histograms (T, B), shape (3, T); values are uniform within a bin."""
    with np.errstate(invalid="ignore"):
        within = shares / shares.sum(axis=1, keepdims=True)
    cumulated = np.concatenate([np.zeros((len(shares), 1)), within.cumsum(axis=1)], axis=1)
    quantiles = [[np.interp(q, row, edges) for row in cumulated] for q in (0.05, 0.95)]
    return np.array([within @ (0.5 * (edges[1:] + edges[:-1])), *quantiles])


# What all figures share


def _figure(case: Case, width: float, height: float, note: str = "") -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"Experiment {case.name}: {case.title}", fontsize=11)
    if note:
        figure.supxlabel(note, fontsize=9)
    return figure


def _empty(case: Case, why: str) -> Figure:
    figure = _figure(case, 8.0, 4.0)
    figure.text(0.5, 0.5, f"nothing to draw: {why}", ha="center")
    return figure


def _by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each method but the truth, in the order of LOOKS."""
    found = {run.method for run in runs} - {TRUTH}
    order = [*(method for method in LOOKS if method in found), *sorted(found - set(LOOKS))]
    return {method: [run for run in runs if run.method == method] for method in order}


def _corner(axes: Axes, text: str) -> None:
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
    axes.text(0.03, 0.97, text, transform=axes.transAxes, ha="left", va="top", fontsize=8, bbox=box)


def _wrapped(title: str, width: float) -> str:
    """A title in lines that fit a panel of so many inches."""
    return textwrap.fill(title, max(8, int(13 * width)))


def _title_height(titles: Sequence[str], width: float) -> float:
    return 0.16 * max(_wrapped(title, width).count("\n") + 1 for title in titles)


def _text(value: float) -> str:
    """A number with a proper minus sign."""
    return f"{value:.4g}".replace("-", "−")


def _outside(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} % outside"
