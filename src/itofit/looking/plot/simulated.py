"""Whether simulated states are distributed like observed ones.

Where observations have errors, paths start from states that are drawn given the observations of their tracks, and
errors are added where they end. That a track begins somewhere is known from the others, too: with the smoothed states
m of all starts, of error covariance P, the starts themselves have the covariance C = Cov(m) − P, and one of them is
normal with mean μ + K (m − μ) and covariance C − K C, where K = C (C + P)⁻¹ and μ is the mean of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import RNG, Float, InputError, Int, count, generator
from itofit.data.covariates import moving
from itofit.data.names import plural
from itofit.data.passes import Data
from itofit.data.periods import nearest_image, wrapped
from itofit.data.transitions import Transitions
from itofit.data.units import product, with_unit, written
from itofit.looking.check.examined import rows_in_time, with_states
from itofit.looking.plot.canvas import DATA, LEARNED, axes_or_new, escaped, lines
from itofit.looking.plot.views import NumberOrName, checked, medians, variable
from itofit.matrices.symmetric import factors, square_root, symmetric
from itofit.model.hidden.observed import smoothed_states
from itofit.model.learned import LearnedSDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_STEPS = 1000
"""Longer trajectories are cut into pieces of so many steps, each simulated from its own observed start."""
PATH_STEPS, PATH_STEPS_MANY = 200_000, 40_000
"""Steps of all simulated paths together, unless a number of paths is given: with few inputs, whose functions are fast
to evaluate, and with many."""
MANY_INPUTS = 3
FEWEST_STARTS = 10
"""Starts from which their spread is estimated, where observations have errors: from fewer it would hardly be known."""
SHOWN = (0.001, 0.999)
"""Quantiles between which distributions are drawn, so that a few outliers do not decide the range."""


def distributions(
    sde: LearnedSDE,
    data: Data,
    *,
    n_paths: int | None = None,
    component: NumberOrName | None = None,
    rng: RNG = 0,
    ax: Axes | None = None,
) -> Axes:
    """Simulated against observed states, after the same times from the same starts.

    Where transitions follow each other, paths start where trajectories do and make the same steps in time, up to 1000;
    all states after the start are compared. Otherwise the ends of single steps are, from the observed starts. If the
    observations have errors, paths start from states drawn given the observations, and errors are added to later ones.
    Steps are those of `LearnedSDE.simulate`, outside the range of the data with drift and noise of its nearest point.

    Parameters
    ----------
    sde : LearnedSDE
        Of kind "diffusion" or "underdamped".
    data : Transitions
        Of more than 200,000, stretches of 100 consecutive ones are taken.
    n_paths : int, optional
        About how many paths to simulate, as many from each start, at least one. Default: as many as make 200,000
        steps together, with four inputs and more 40,000; of longer data, pieces drawn at random are taken.
    component : int or str, optional
        The variable of the state, by number or name. Default: the first that noise moves.
    rng : int, Generator or None
    ax : Axes, optional
        Default: those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = itofit.plot.distributions(sde, data, component="y")  # doctest: +SKIP
    """
    if data is None:
        raise InputError("distributions needs data to compare with: give Transitions")
    checked(sde, data)
    data = with_states(sde, data)
    if sde.kind == "general" or data.kind != sde.kind:
        raise InputError(
            "only models and data of kind 'diffusion' or 'underdamped' can be simulated and compared, got a model of "
            f"kind {sde.kind!r} and data of kind {data.kind!r}: where the inputs go is not known otherwise"
        )
    c = moving(sde).start if component is None else variable("component", component, sde.state_names)
    random, _ = generator(rng)
    wanted = None if n_paths is None else count("n_paths", n_paths)
    name = sde.input_names[c]
    return draw_compared(compare(sde, data, c, wanted, random), name, sde.units.of(name), axes_or_new(ax))


def draw_compared(states: Compared, name: str, unit: str, ax: Axes) -> Axes:
    """Both histograms, labels and legend."""
    _histograms(ax, states)
    steps = "one step" if states.n_steps == 1 else f"1 to {states.n_steps} steps"
    start = "the state at an observed start" if states.with_errors else "an observed start"
    xlabel = f"{with_unit(name, unit)}, {steps} after {start}"
    ylabel = with_unit(f"density of {name}", written(product([(unit, -1)])))
    ax.set(xlabel=lines(escaped(xlabel), 52), ylabel=lines(escaped(ylabel)))
    ax.set_ylim(top=1.2 * ax.get_ylim()[1])  # room for the legend
    ax.legend(frameon=False, fontsize="small", loc="upper center", ncols=2)
    return ax


class Compared(NamedTuple):
    """Values of one variable, observed (a,) and simulated (b,)."""

    observed: Float
    simulated: Float
    n_steps: int
    n_paths: int
    with_errors: bool = False  # whether simulated states have errors of measurement, and start where states were

    @property
    def label(self) -> str:
        """What simulated values are, in a legend."""
        return f"simulated{', with errors' if self.with_errors else ''} ({plural(self.n_paths, 'path')})"


class Starts(NamedTuple):
    """Where n paths start: normal, given the observations."""

    mean: Float  # (n, s)
    root: Float  # (n, s, s): covariance R Rᵀ

    def drawn(self, which: Int, periods: Float, rng: np.random.Generator) -> Float:
        """States (k, s) for the paths that start in these places (k,), within periods (2, s)."""
        normal = rng.standard_normal((len(which), self.mean.shape[1], 1))
        return wrapped(self.mean[which] + (self.root[which] @ normal)[:, :, 0], periods)


def compare(sde: LearnedSDE, data: Data, c: int, n_paths: int | None, rng: np.random.Generator) -> Compared:
    """Values of variable c of the state after steps from observed starts."""
    by_name = compare_all(sde, data, n_paths, rng)
    if sde.input_names[c] not in by_name:
        raise InputError(
            f"{sde.input_names[c]} is a position, which noise does not move within a step: give trajectories, or "
            f"compare one of {', '.join(sde.output_names)}"
        )
    return by_name[sde.input_names[c]]


def compare_all(sde: LearnedSDE, data: Data, n_paths: int | None, rng: np.random.Generator) -> dict[str, Compared]:
    """Values of each variable, from the same paths; positions of an underdamped system need trajectories."""
    wanted = PATH_STEPS if sde.n_inputs < MANY_INPUTS else PATH_STEPS_MANY
    rows, begin, length = starts(data, rng)
    if n_paths is None:
        rows, begin, length = _some(rows, begin, length, wanted, rng)
    copies = -(-wanted // len(rows)) if n_paths is None else -(-n_paths // len(begin))
    with_errors = sde.measurement_noise is not None and sde.kind == "diffusion"
    known = starting_states(sde, rows, begin) if with_errors else None
    first, later = simulate(sde, rows, begin, length, copies, rng, known)
    after_start = np.ones(len(rows), dtype=bool)
    after_start[begin] = False
    by_name = {}
    ends = rows.inputs.copy()
    ends[:, moving(sde)] += rows.increments
    ends = wrapped(ends, sde.periods)
    for c, name in enumerate(sde.state_names):
        if c >= moving(sde).start:
            observed = ends[:, c]
            simulated = np.concatenate([first[:, c], later[:, c]])
            if sde.measurement_noise is not None and with_errors:
                simulated = simulated + sde.measurement_noise.sd[c] * rng.standard_normal(len(simulated))
                simulated = wrapped(simulated[:, None], sde.periods[:, c : c + 1])[:, 0]
        elif length.max() > 1:  # the first position is that of the data
            observed, simulated = rows.inputs[after_start, c], later[:, c]
        else:
            continue
        by_name[name] = Compared(observed, simulated, int(length.max()), copies * len(begin), with_errors)
    return by_name


def starts(data: Data, rng: np.random.Generator) -> tuple[Transitions, Int, Int]:
    """Rows in the order of time, the rows at which paths start, and how many steps each path makes."""
    rows, run = rows_in_time(data, rng)
    begin, length = pieces(run)
    if len(begin) > len(rows) / 2:  # most transitions are alone
        return rows, np.arange(len(rows)), np.ones(len(rows), dtype=np.intp)
    return rows, begin, length


def _some(
    rows: Transitions, begin: Int, length: Int, wanted: int, rng: np.random.Generator
) -> tuple[Transitions, Int, Int]:
    """Pieces drawn at random that have about so many rows together, and these rows; all if there are no more."""
    if len(rows) <= wanted:
        return rows, begin, length
    drawn = rng.permutation(len(begin))
    drawn = np.sort(drawn[: 1 + int(np.searchsorted(np.cumsum(length[drawn]), wanted))])
    ends = np.cumsum(length[drawn])
    kept = np.repeat(begin[drawn] - ends + length[drawn], length[drawn]) + np.arange(ends[-1])
    return rows[kept], ends - length[drawn], length[drawn]


def pieces(run: Int, most: int = MOST_STEPS) -> tuple[Int, Int]:
    """Where unbroken pieces of at most `most` rows begin, and their lengths; `run` (n,) numbers the unbroken runs."""
    first = np.searchsorted(run, run)
    begin = np.flatnonzero((np.arange(len(run)) - first) % most == 0)
    return begin, np.diff(np.append(begin, len(run)))


def starting_states(sde: LearnedSDE, rows: Transitions, begin: Int) -> Starts:
    """The states behind noisy observations at some rows (n,), given those of their tracks and where others start.

    The smoother takes nothing for known of a state before its first observation, which spreads the starts of short
    tracks too much. Where there are enough of them they tell their own spread; errors of two variables then count as
    independent.
    """
    s = len(sde.state_names)
    told = smoothed_states(sde, rows, sde.data.h_mean, sde.scheme)
    m, std, periods = told.x[begin], told.std[begin], sde.periods[:, :s]
    if len(begin) < FEWEST_STARTS:
        return Starts(m, std[:, :, None] * np.eye(s))
    middle = medians(m, periods)
    away = nearest_image(m - middle, periods)
    middle, away = middle + away.mean(axis=0), away - away.mean(axis=0)
    size = away.std(axis=0)
    size = np.where(size > 0, size, 1.0)
    P = (std / size)[:, :, None] ** 2 * np.eye(s)
    C = np.cov((away / size).T, bias=True).reshape(s, s) - P.mean(axis=0)
    values, vectors = np.linalg.eigh(C)
    C = (vectors * np.maximum(values, 0.0)) @ vectors.T
    K = C @ np.linalg.pinv(C + P, hermitian=True)
    root = size[:, None] * square_root(symmetric(C - K @ C), "symmetric")
    return Starts(middle + size * (K @ (away / size)[:, :, None])[:, :, 0], root)


def simulate(
    sde: LearnedSDE,
    rows: Transitions,
    begin: Int,
    length: Int,
    copies: int,
    rng: np.random.Generator,
    known: Starts | None = None,
) -> tuple[Float, Float]:
    """States after the first step (a, m) and after later ones (b, m), of `copies` paths for each piece.

    Paths start from the rows at which pieces begin, or from where states are `known` to have been there.
    """
    d, s, state, low_high = sde.n_outputs, len(sde.state_names), moving(sde), sde._range
    order = np.argsort(-length, kind="stable")  # those still moving are always the first
    which = np.repeat(order, copies)
    begin, length = begin[which], length[which]
    x, passed = rows.inputs[begin], [np.empty((0, sde.n_inputs))]
    if known is not None:
        x[:, :s] = known.drawn(which, sde.periods[:, :s], rng)
    for k in range(int(length[0])):
        n = int(np.searchsorted(-length, -k))  # with length > k
        x, h = x[:n], rows.h[begin[:n] + k][:, None]
        x[:, s:] = rows.inputs[begin[:n] + k, s:]
        if k and sde.kind == "underdamped":
            velocity = x[:, state].copy()
            if sde.scheme == "corrected":
                later = np.concatenate([x[:, :d] + h / 3 * velocity, velocity, x[:, s:]], axis=1)
                velocity += 0.5 * h * sde.drift(np.clip(later, *low_high))
            x[:, :d] += h * velocity
        at = np.clip(x, *low_high)
        mean, covariance = sde._moments(at, h[:, 0], sde.scheme, within=True)
        noise = (factors(covariance) @ rng.standard_normal((n, d, 1)))[:, :, 0]
        x[:, state] += h * mean + np.sqrt(h) * noise
        if k and sde.kind == "underdamped" and sde.scheme == "corrected":
            x[:, :d] += 0.5 * h * np.sqrt(h) * noise
        x = wrapped(x, sde.periods)
        passed.append(x.copy())
    return passed[1], np.concatenate([passed[0], *passed[2:]])


def _histograms(ax: Axes, states: Compared) -> None:
    low, high = np.quantile(np.concatenate([states.observed, states.simulated]), SHOWN)
    bins = np.linspace(low, high, int(np.clip(np.sqrt(len(states.observed)) / 2, 10, 50)) + 1)
    ax.hist(states.observed, bins.tolist(), density=True, color="0.85", edgecolor=DATA, linewidth=0.6, label="observed")
    look: dict[str, Any] = {"histtype": "step", "color": LEARNED, "linewidth": 1.8, "label": states.label}
    ax.hist(states.simulated, bins.tolist(), density=True, **look)
