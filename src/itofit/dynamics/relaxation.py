"""How fast a system forgets: relaxation times, slowest modes, autocorrelation functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from itofit._checks import RNG, Complex, Float, InputError, count, float_array, one_of
from itofit.data.units import behind, with_unit
from itofit.dynamics.answers import Answer, with_error
from itofit.dynamics.axes import axes_or_new, escaped
from itofit.dynamics.by_simulation import simulated_correlations
from itofit.dynamics.chain import jumps_of
from itofit.dynamics.drawn import draw_modes, look
from itofit.dynamics.long_run import edge_in_long_run
from itofit.dynamics.mesh import Mesh
from itofit.dynamics.motion import Box, Held, motion_of, samples_of
from itofit.dynamics.questions import MOST_VARIABLES, TINY, Cells, Method, Question, question_of, solved
from itofit.dynamics.solving import REAL, correlations, slowest, stationary
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_SPAN, DEFAULT_TIMES = 4.0, 81
"""Of an autocorrelation function: slowest relaxation times that it covers, and number of times."""
BEYOND_ROUNDING = "a mode so slow that rounding does not tell its time from an infinite one; passage times tell it"
"""What is said of it."""
TIMES_PER_TURN, MOST_TIMES = 24, 1001
"""Of one that turns: times for each turn, so that its curve is smooth, and altogether."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RelaxationTimes(Answer):
    """Relaxation times, slowest first: `value` has shape (k,).

    Parameters
    ----------
    frequencies : Answer
        Angular frequencies with which the modes turn while they decay, shape (k,); zero for those that do not.
    modes : array of shape (k, cells, ...)
        Real parts of the functions of the state whose mean decays with these times, largest absolute value one.
    mesh : Mesh
    names : tuple of str
    """

    frequencies: Answer
    modes: Float
    mesh: Mesh
    names: tuple[str, ...]

    def value_text(self) -> str:
        """Line by line."""
        lines = []
        for i, (time, turns) in enumerate(zip(np.asarray(self.value), np.asarray(self.frequencies.value), strict=True)):
            own = Answer(what="", value=float(time), samples=self.samples[:, i], scale="log", unit=self.unit)
            text = with_error(float(time), own)
            if turns > 1e-9 / time:
                rate = Answer(
                    what="", value=float(turns), samples=self.frequencies.samples[:, i], unit=self.frequencies.unit
                )
                text += f", turning with angular frequency {with_error(float(turns), rate)}"
            lines.append(text)
        return "\n  " + "\n  ".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The slowest modes: curves of one variable, a map of the slowest one of two."""
        if len(self.names) > 2:
            return super().plot(ax)
        return draw_modes(self, self.modes, self.names, self.mesh, ax)


def relaxation_times(
    sde: SDE,
    n: int = 3,
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
) -> RelaxationTimes:
    """The times with which deviations from the stationary density decay, the slowest first.

    They are −1/Re λ of the eigenvalues λ of the generator; a pair of complex ones is a mode that turns, and counts
    once.

    Parameters
    ----------
    sde : SDE
    n : int
        How many.
    covariates, box, cells, samples, rng
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: -2 * x, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> times = dynamics.relaxation_times(sde, n=2, box=(-3, 3))
    >>> print(times.value.round(3))                                    # 1/2, and that of x², 1/4
    [0.5  0.25]
    """
    k = count("n", n)
    question = question_of(sde, covariates, box, cells, samples, rng)

    fine = question.fine
    reference, vectors = _modes(question, fine, *question.motion.flow_and_noise(fine.centres), k)

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        values = reference if mesh is fine else _modes(question, mesh, b, D, k, reference)[0]
        return np.concatenate([-values.real, values.imag])

    rates, own, errors = solved(question, solve, moments=True)
    turned = vectors * np.exp(-1j * np.angle(vectors[np.abs(vectors).argmax(axis=0), np.arange(k)]))
    modes = (turned.real / np.abs(turned.real).max(axis=0)).T.reshape(k, *fine.shape)
    with np.errstate(divide="ignore"):
        return RelaxationTimes(
            what="relaxation times",
            value=1 / np.maximum(rates[:k], 0.0),
            samples=1 / np.maximum(own[:, :k], 0.0),
            scale="log",
            grid_error=float(errors[:k][rates[:k] > 0].max(initial=0.0)),
            notes=(BEYOND_ROUNDING,) if (rates[:k] <= 0).any() else (),
            edge=edge_in_long_run(question),
            unit=sde.units.time,
            units=sde.units,
            frequencies=Answer(
                what="angular frequencies",
                value=rates[k:],
                samples=own[:, k:],
                unit=f"rad/{sde.units.time}" if sde.units.time else "",
            ),
            modes=modes,
            mesh=fine,
            names=question.motion.names,
        )


def _modes(
    question: Question, mesh: Mesh, b: Float, D: Float, k: int, like: Complex | None = None
) -> tuple[Complex, Complex]:
    """The k slowest modes, one of each conjugate pair: eigenvalues (k,) and functions (n, k).

    Given eigenvalues that they should be `like`, they are those nearest to these, so that modes that are about as slow
    as each other are not mixed up.
    """
    L = jumps_of(mesh, b, D, underdamped=question.motion.underdamped, moments=True).matrix()
    values, vectors = slowest(L, 2 * k + 2)
    turns = np.abs(values.imag) > REAL * np.abs(values)
    values = np.where(turns, values, values.real + 0j)
    one_of_pair = np.flatnonzero(values.imag >= 0)
    if len(one_of_pair) < k:
        raise InputError(f"n: {k} modes were asked for, but {len(one_of_pair)} found; ask for fewer")
    if like is None:
        chosen = one_of_pair[:k]
    else:
        found, wanted = (np.log(np.where(each == 0, TINY, each)) for each in (values[one_of_pair], like))
        distance = np.abs(found - wanted[:, None])
        chosen = one_of_pair[linear_sum_assignment(distance)[1]]
    return values[chosen], vectors[:, chosen]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Autocorrelation(Answer):
    """Autocorrelation functions: `value` has shape (n_times, s).

    Parameters
    ----------
    times : array of shape (n_times,)
    names : tuple of str
    """

    times: Float
    names: tuple[str, ...]

    def value_text(self) -> str:
        """In words."""
        ends = f"{self.times[0]:.4g} to {self.times[-1]:.4g}{behind(self.units.time)}"
        return f"of {', '.join(self.names)} at {len(self.times)} times from {ends}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Curves with their 95 % bands."""
        ax = axes_or_new(ax)
        low, high = self.interval()
        for i, name in enumerate(self.names):
            color, dashes = look(i)
            if len(self.samples):
                ax.fill_between(
                    self.times, np.asarray(low)[:, i], np.asarray(high)[:, i], color=color, alpha=0.2, linewidth=0
                )
            ax.plot(self.times, np.asarray(self.value)[:, i], color=color, linestyle=dashes, label=escaped(name))
        ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
        ax.set(xlabel=escaped(with_unit("time", self.units.time)), ylabel="autocorrelation", xlim=self.times[[0, -1]])
        ax.legend(frameon=False, fontsize="small")
        return ax


def autocorrelation(
    sde: SDE,
    times: npt.ArrayLike | None = None,
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
    method: Method = "auto",
) -> Autocorrelation:
    """How similar each variable is to itself some time later, in the long run: one at time zero.

    Of a periodic variable it is the mean cosine of the angle between, without that of the means.

    Parameters
    ----------
    sde : SDE
    times : array of shape (n_times,), optional
        From zero on; by default 81 up to four times the slowest relaxation time, more if the slowest mode turns.
    covariates, box, cells, samples, rng, method
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: -x, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> dynamics.autocorrelation(sde, [0, 1, 2], box=(-4, 4)).value[:, 0].round(3)   # exp(-t)
    array([1.   , 0.368, 0.135])
    """
    one_of("method", method, ("auto", "grid", "simulation"))
    motion = motion_of(sde, covariates, box)
    by_simulation = method == "simulation" or (method == "auto" and motion.s > MOST_VARIABLES)
    if times is None:
        if by_simulation:
            raise InputError("times must be given if the answer comes from simulation, such as np.linspace(0, 10, 101)")
        rough = question_of(sde, covariates, box, cells, 0, None)
        slow, _ = _modes(rough, rough.coarse, *motion.flow_and_noise(rough.coarse.centres), 1)
        if slow[0].real == 0:
            raise InputError(f"times must be given: there is {BEYOND_ROUNDING}")
        span = -DEFAULT_SPAN / float(slow[0].real)
        turns = span * abs(float(slow[0].imag)) / (2 * np.pi)
        lags = np.linspace(0, span, int(np.clip(TIMES_PER_TURN * turns + 1, DEFAULT_TIMES, MOST_TIMES)))
    else:
        lags = np.atleast_1d(float_array("times", times))
    if lags.ndim != 1 or not len(lags) or (lags < 0).any():
        raise InputError(f"times must be numbers >= 0 in one row, got shape {lags.shape}")
    if by_simulation:
        value, own, note = simulated_correlations(motion, lags, samples_of(sde, samples, rng), rng)
        return Autocorrelation(
            what="autocorrelation",
            value=value,
            samples=own,
            notes=(note,),
            times=lags,
            names=motion.names,
            units=motion.units,
        )
    question = question_of(sde, covariates, box, cells, samples, rng)

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        L = jumps_of(mesh, b, D, underdamped=motion.underdamped, moments=True).matrix()
        p = stationary(L)
        functions = motion.observed(mesh.centres)
        away = np.concatenate([own - p @ own for own in functions], axis=1)
        first = np.cumsum([0, *(own.shape[1] for own in functions[:-1])])
        together = np.add.reduceat(correlations(L, p, away, lags), first, axis=1)
        return np.asarray(together / np.add.reduceat(p @ away**2, first))

    found = solved(question, solve, moments=True)
    return Autocorrelation(
        what="autocorrelation",
        value=found.value,
        samples=found.samples,
        grid_error=float(np.abs(found.grid_errors * found.value).max()),
        edge=edge_in_long_run(question),
        times=lags,
        names=motion.names,
        units=motion.units,
    )
