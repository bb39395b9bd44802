"""Phase portraits, stationary densities beside those observed, and passage times from anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.ndimage import gaussian_filter

from itofit._checks import RNG, Float, InputError, flag
from itofit.data.passes import Data
from itofit.data.units import with_unit
from itofit.dynamics.axes import label_plane
from itofit.dynamics.drawn import look, top_of
from itofit.dynamics.long_run import Density, probability_current, stationary_density
from itofit.dynamics.motion import Box, Held, motion_of
from itofit.dynamics.passages import PassageTime, first_passage_time
from itofit.dynamics.regions import States
from itofit.dynamics.resting import fixed_points
from itofit.dynamics.zero_lines import nullclines
from itofit.looking.check.examined import rows_in_memory, with_states
from itofit.looking.plot.canvas import DATA, LEARNED, SECOND, axes_or_new, escaped, legend_below
from itofit.model.hidden.observed import smoothed_states
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from itofit.model.learned import LearnedSDE

STREAM = 41
"""Points along each side for stream lines."""
MOST_DOTS = 2000
"""Rows of the data that are drawn: more are one grey area."""
BINS = 60
"""Of histograms, along each variable."""
MOST_BLUR = 2.0
"""Standard deviation of the smoothing of densities of two variables, in bins."""
LEVELS = (0.1, 0.4, 0.8)
"""Contours of learned and observed densities, relative to the maximum of the learned one."""
REACH, SHARP = 4.0, 0.1
"""Of errors: how many standard deviations are followed, and cells below which they are no wider than a cell."""
OBSERVED, BEHIND = "observed", "states behind the observations"
"""What dots and histograms show."""
WITH_ERRORS = "learned, with errors"


def phase_portrait(
    sde: SDE,
    data: Data | None = None,
    *,
    current: bool = False,
    covariates: Held = None,
    box: Box = None,
    samples: int = 50,
    rng: RNG = None,
    ax: Axes | None = None,
) -> Axes:
    """The flow of two variables with its fixed points and nullclines.

    Stream lines are the flow; on coloured lines one of the variables stays. Fixed points are filled where stable, open
    where not, crosses if saddles, with 95 % intervals.

    Parameters
    ----------
    sde : SDE
        With two variables; second-order systems have position and velocity.
    data : Transitions, optional
        Drawn as faint dots, at most 2000 of them; of positions alone, and of observations with errors, the states
        behind them.
    current : bool
        Stream lines of the probability current of the stationary density instead of the flow: what goes round in the
        long run.
    covariates, box, samples, rng
        As for `itofit.dynamics.stationary_density`.
    ax : Axes, optional

    Examples
    --------
    >>> ax = itofit.plot.phase_portrait(sde, data)  # doctest: +SKIP
    """
    motion = motion_of(sde, covariates, box)
    if motion.s != 2:
        raise InputError(f"a phase portrait has two variables; the state has {', '.join(motion.names)}")
    ax = axes_or_new(ax, (6.0, 5.2))
    if data is not None:
        rows, words = _states(sde, data)
        ax.plot(rows[:, 0], rows[:, 1], ".", color=DATA, markersize=2, alpha=0.35, zorder=0, rasterized=True)
        if words != OBSERVED:
            ax.plot([], [], ".", color=DATA, markersize=6, label=words)
    options: dict[str, Any] = {"covariates": covariates, "box": box, "rng": rng}
    x, y = (np.linspace(low, high, STREAM) for low, high in motion.box.T)
    at = np.stack([part.ravel() for part in np.meshgrid(x, y)], axis=1)
    if flag("current", current):
        b = probability_current(sde, samples=0, **options).at(at)
        speed = np.linalg.norm(b / (motion.box[1] - motion.box[0]), axis=1)
        b = np.where((speed > 1e-3 * speed.max())[:, None], b, np.nan)
    else:
        b = motion.flow(at)
    u, v = (b[:, i].reshape(STREAM, STREAM) for i in range(2))
    ax.streamplot(x, y, u, v, color="0.45", linewidth=0.7, density=1.1, arrowsize=0.8, zorder=1)
    nullclines(sde, samples=samples, **options).plot(ax)
    fixed_points(sde, samples=samples, **options).plot(ax)
    ax.set(xlim=motion.box[:, 0], ylim=motion.box[:, 1])
    label_plane(ax, motion.names, motion.units)
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    legend_below(ax, handles=list(once.values()), columns=2 if BEHIND in once else 3)
    return ax


def _all_states(sde: SDE, data: Data) -> tuple[Float, str]:
    """States of all transitions as they were observed, (n, s), and what they are called.

    Of a model of positions alone they are drawn at random given the positions.
    """
    sde._check_data("a plot", data)
    if data.kind == "positions":  # of a model that was learned from such
        data = with_states(cast("LearnedSDE", sde), data)
    states = np.concatenate([block.inputs for block in data.blocks()])[:, : len(sde.state_names)]
    return states, OBSERVED if sde.hidden_velocity is None else BEHIND


def _states(sde: SDE, data: Data) -> tuple[Float, str]:
    """At most some states, evenly chosen, (n, s), and what they are called: their means if observations have errors."""
    if _error_covariance(sde) is None:
        rows, words = _all_states(sde, data)
    else:
        sde._check_data("a plot", data)
        model = cast("LearnedSDE", sde)
        tracks = rows_in_memory(data, np.random.default_rng(0))
        rows, words = smoothed_states(model, tracks, model.data.h_mean, model.scheme).x, BEHIND
    return rows[:: max(1, len(rows) // MOST_DOTS)], words


def _error_covariance(sde: SDE) -> Float | None:
    """Of what was observed of the state, (s, s); None if there are no errors, or states were drawn without them."""
    noise = sde.measurement_noise
    return None if noise is None or sde.kind != "diffusion" else noise.covariance


def density(
    sde: SDE,
    data: Data | None = None,
    *,
    covariates: Held = None,
    box: Box = None,
    samples: int = 50,
    rng: RNG = None,
    ax: Axes | None = None,
) -> Axes:
    """The stationary density of an equation, beside the histogram of data.

    They agree if the data are as in the long run: not if tracks are shorter than the relaxation times, or start in
    special places. If the observations have errors of measurement, these spread them: then it is the density with such
    errors that agrees with them, and it is drawn as well.

    Parameters
    ----------
    sde : SDE
        With one or two variables; of more, the first two are shown.
    data : Transitions, optional
        Observed states, of positions alone the states behind them: a histogram of one variable; of two, contour lines
        of their smoothed density, beside those of the stationary density at the same levels, both with errors of
        measurement if there are any.
    covariates, box, samples, rng
        As for `itofit.dynamics.stationary_density`.
    ax : Axes, optional

    Examples
    --------
    >>> ax = itofit.plot.density(sde, data)  # doctest: +SKIP
    """
    answer = stationary_density(sde, covariates=covariates, box=box, samples=samples, rng=rng)
    ax = axes_or_new(ax, (5.6, 4.4))
    states, words = (None, "") if data is None else _all_states(sde, data)
    errors = None if data is None else _error_covariance(sde)
    if len(answer.names) == 1:
        return _density_of_one(answer, states, words, errors, ax)
    answer.plot(ax)
    if states is not None:
        x, y, learned, seen = _beside_observed(answer, states, errors)
        levels = [level * learned.max() for level in LEVELS]
        ax.contour(x, y, learned.T, levels, colors="white", linewidths=1.1, linestyles="dashed")
        ax.contour(x, y, seen.T, levels, colors=SECOND, linewidths=1.3)
        ax.plot([], [], color="0.6", linestyle="dashed", label="learned" if errors is None else WITH_ERRORS)
        ax.plot([], [], color=SECOND, label=words)
        legend_below(ax)
    return ax


def _density_of_one(answer: Density, states: Float | None, words: str, errors: Float | None, ax: Axes) -> Axes:
    """The density of one variable over the histogram of states (n, 1), with errors of covariance (1, 1) besides."""
    highest = 0.0
    if states is not None:
        heights = ax.hist(states[:, 0], BINS, density=True, color=DATA, alpha=0.45, label=words, zorder=0)[0]
        highest = float(np.max(heights))
    answer.plot(ax)
    ax.lines[-1].set_label("learned")
    if errors is not None:
        mesh = answer.mesh
        beyond = 0 if mesh.periodic[0] else int(np.ceil(REACH * np.sqrt(errors[0, 0]) / mesh.size[0]))
        x = mesh.box[0, 0] + mesh.size[0] * (np.arange(-beyond, mesh.n + beyond) + 0.5)
        spread = _with_errors(np.pad(np.asarray(answer.value), beyond), mesh.size, mesh.periodic, errors)
        ax.plot(x, spread, color=SECOND, linewidth=1.6, linestyle="--", label=WITH_ERRORS)
        if states is not None and beyond:
            low, high = np.clip([states.min(), states.max()], x[0], x[-1])
            ax.set_xlim(min(low, mesh.box[0, 0]), max(high, mesh.box[1, 0]))
    ax.set_ylabel(escaped(with_unit("density", answer.unit)))
    ax.set_ylim(top=max(ax.get_ylim()[1], 1.05 * highest))
    legend_below(ax)
    return ax


def _with_errors(density: Float, size: Float, periodic: Sequence[bool], errors: Float) -> Float:
    """A density on cells (*cells,) of a size (s,), of states with errors of covariance (s, s) added."""
    from scipy.signal import fftconvolve  # noqa: PLC0415  (takes as long to import as all plots)

    reach = np.ceil(REACH * np.sqrt(np.diagonal(errors)) / size).astype(int)
    offsets = np.stack(np.meshgrid(*(np.arange(-k, k + 1) for k in reach), indexing="ij"), axis=-1) * size
    precision = np.linalg.inv(errors + np.diag((SHARP * size) ** 2))
    kernel = np.exp(-0.5 * np.einsum("...i,ij,...j->...", offsets, precision, offsets))
    around = density
    for axis, (k, wraps) in enumerate(zip(reach.tolist(), periodic, strict=True)):
        width = [(k, k) if i == axis else (0, 0) for i in range(density.ndim)]
        around = np.pad(around, width, mode="wrap" if wraps else "constant")
    return np.maximum(fftconvolve(around, kernel / kernel.sum(), mode="valid"), 0.0)


def _beside_observed(answer: Density, states: Float, errors: Float | None = None) -> tuple[Float, Float, Float, Float]:
    """Densities of the first two variables, learned and of states (n, s), on bins whose middles come first.

    Both are smoothed in the same way, so that lines of few data are not ragged and those of a thin ring still agree.
    The width is that of Scott's rule for two variables, n^(-1/6) of a standard deviation. With errors of covariance
    (s, s) both are densities of what was observed within the box.
    """
    mesh, box = answer.mesh, answer.mesh.box[:, :2]
    n = [next(k for k in range(BINS, 0, -1) if cells % k == 0) for cells in mesh.shape[:2]]  # bins are whole cells
    learned = np.asarray(answer.value).reshape(n[0], mesh.shape[0] // n[0], n[1], mesh.shape[1] // n[1], -1)
    learned = learned.mean(axis=(1, 3, 4)) * np.prod(mesh.box[1, 2:] - mesh.box[0, 2:])
    if errors is not None:
        size = (box[1] - box[0]) / n
        learned = _with_errors(learned, size, mesh.periodic[:2], errors[:2, :2])
        learned /= learned.sum() * np.prod(size)
    seen, *edges = np.histogram2d(states[:, 0], states[:, 1], bins=n, range=box.T, density=True)
    width = states[:, :2].std(axis=0) * len(states) ** (-1 / 6) / ((box[1] - box[0]) / n)
    modes = ["wrap" if wraps else "constant" for wraps in mesh.periodic[:2]]
    smooth = (gaussian_filter(own, np.minimum(width, MOST_BLUR), mode=modes) for own in (learned, seen))
    middles = (0.5 * (edge[1:] + edge[:-1]) for edge in edges)
    return *middles, *smooth


def passage_times(
    sde: SDE,
    data: Data | None = None,
    *,
    targets: States | Sequence[States],
    covariates: Held = None,
    box: Box = None,
    samples: int = 50,
    rng: RNG = None,
    ax: Axes | None = None,
) -> Axes:
    """Mean first-passage times of one variable to one or more targets, from anywhere, with 95 % bands.

    Parameters
    ----------
    sde : SDE
        With one variable.
    data : Transitions, optional
        Drawn as marks along the axis, at most 2000 of them; of observations with errors, the states behind them.
    targets : set of states, or list of them
        As for `itofit.dynamics.first_passage_time`; a list holds several.
    covariates, box, samples, rng
        As for `itofit.dynamics.stationary_density`.
    ax : Axes, optional

    Examples
    --------
    >>> ax = itofit.plot.passage_times(sde, data, targets=[-1, 1])  # doctest: +SKIP
    """
    motion = motion_of(sde, covariates, box)
    if motion.s != 1:
        raise InputError(f"passage times are drawn along one variable; the state has {', '.join(motion.names)}")
    ax = axes_or_new(ax)
    several = list(targets) if isinstance(targets, list) else [targets]
    options: dict[str, Any] = {"covariates": covariates, "box": box, "samples": samples, "rng": rng}
    tops = []
    for i, target in enumerate(several):
        time, (color, dashes) = _time_to(sde, target, motion.box, options), look(i)
        if time.curve is None or time.mesh is None:
            continue
        x, value = time.mesh.axes[0], np.asarray(time.curve.value)
        if len(time.curve.samples):
            low, high = (np.asarray(end) for end in time.curve.interval())
            ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
            tops.append(top_of(value, high))
        ax.plot(
            x,
            value,
            color=color,
            linestyle=dashes,
            label=escaped(re.sub(r"-(?=\d)", "−", time.curve.what.partition("time ")[2])),
        )
    if data is not None:
        rows, _ = _states(sde, data)
        ax.plot(rows[:, 0], np.zeros(len(rows)), "|", color=LEARNED, alpha=0.1)
    units = motion.units
    ax.set(xlabel=escaped(f"start {units.labelled(motion.names[0])}"), xlim=motion.box[:, 0])
    ax.set_ylabel(escaped(with_unit("mean first-passage time", units.time)))
    ax.set_ylim(0.0, min(ax.get_ylim()[1], 1.05 * max(tops, default=np.inf)))
    legend_below(ax)
    return ax


def _time_to(sde: SDE, target: States, box: np.ndarray, options: dict[str, Any]) -> PassageTime:
    """The passage time to a target, from the end of the range that is not in it."""
    for start in (box[0, 0], box[1, 0]):
        try:
            return first_passage_time(sde, float(start), target, **options)
        except InputError as error:
            if "overlap" not in str(error):
                raise
    raise InputError(f"targets: {target!r} holds both ends of the range; give a smaller set")
