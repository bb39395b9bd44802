"""In the long run: the stationary density, potentials, the probability current and the production of entropy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from itofit._checks import RNG, ExtrapolationWarning, Float, InputError, one_of
from itofit.data.periods import nearest_image
from itofit.data.units import Units, behind
from itofit.dynamics.answers import Answer, Edge
from itofit.dynamics.by_simulation import density_by_simulation
from itofit.dynamics.chain import Jumps, jumps_of
from itofit.dynamics.drawn import draw_current, draw_curve, draw_map
from itofit.dynamics.mesh import Mesh
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.dynamics.questions import MOST_VARIABLES, Cells, Method, Question, question_of, solved, solved_field
from itofit.dynamics.solving import stationary
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDGE_SHARE = 0.025
"""Of the range at each end: what counts as its edge."""
HELD_BY_WALLS, HARDLY_LESS = 0.5, 0.9
"""Density at an end of the range, relative to the largest and to that a tenth of the range further in.

From these on walls hold the state there, and not its own forces.
"""
OPPOSITE_UNSEEN = 0.01
"""Share of the time in states whose opposite velocity is outside the range that entropy production tells of."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OnGrid(Answer):
    """A function of the state, on the cells of a grid.

    Parameters
    ----------
    mesh : Mesh
        The grid: ``value`` has its shape, perhaps with an axis for components behind.
    names : tuple of str
        The variables.
    """

    mesh: Mesh
    names: tuple[str, ...]

    @property
    def axes(self) -> list[Float]:
        """Centres of the cells along each variable."""
        return self.mesh.axes

    def at(self, points: Float) -> Float:
        """The value at points (n, s), interpolated."""
        values = np.asarray(self.value).reshape(self.mesh.n, -1)
        found = self.mesh.interpolate(values, np.asarray(points, dtype=float).reshape(-1, len(self.names)))
        return found[:, 0] if found.shape[1] == 1 else found

    def value_text(self) -> str:
        """In words: where it is."""
        sides = " × ".join(map(str, self.mesh.shape))
        ranges = ", ".join(
            f"{name} from {a:.4g} to {b:.4g}{behind(self.units.of(name))}"
            for name, a, b in zip(self.names, *self.mesh.box, strict=True)
        )
        return f"on {sides} cells, {ranges}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """A curve with its 95 % band, or a map of two variables."""
        if len(self.names) == 1:
            return draw_curve(self.axes[0], self, self.names[0], ax)
        return draw_map(self, np.asarray(self.value), self.names, self.mesh, ax)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Density(OnGrid):
    """A stationary density."""

    def marginal(self, name: str) -> tuple[Float, Float]:
        """Centres of cells along one variable, and the density of it alone: two arrays of the same length."""
        i = _place(name, self.names)
        others = tuple(k for k in range(len(self.names)) if k != i)
        width = self.mesh.volume / self.mesh.size[i]
        return self.axes[i], np.asarray(self.value).sum(axis=others) * width

    @property
    def mean(self) -> Float:
        """Of each variable, shape (s,); of a periodic one the circular mean, which an even density has nowhere."""
        mesh, p = self.mesh, np.asarray(self.value).ravel() * self.mesh.volume
        period, wraps = mesh.box[1] - mesh.box[0], np.asarray(mesh.periodic)
        turn = p @ np.exp(2j * np.pi * (mesh.centres - mesh.box[0]) / period)
        circular = mesh.box[0] + period * np.mod(np.angle(turn) / (2 * np.pi), 1.0)
        return np.where(wraps, circular, p @ mesh.centres)

    @property
    def covariance(self) -> Float:
        """Of the variables, shape (s, s): moments of differences to the mean; if periodic, to the nearest image."""
        mesh = self.mesh
        away = nearest_image(mesh.centres - self.mean, np.where(mesh.periodic, mesh.box, 0.0))
        return np.asarray((away.T * np.asarray(self.value).ravel()) @ away * self.mesh.volume)


def _place(name: str, names: tuple[str, ...]) -> int:
    if name not in names:
        raise InputError(f"there is no variable {name!r}; the state is {', '.join(names)}")
    return names.index(name)


def chain_of(question: Question, mesh: Mesh, b: Float, D: Float) -> tuple[Jumps, Float]:
    """The Markov chain on a grid, and its stationary probabilities (n,)."""
    jumps = jumps_of(mesh, b, D, underdamped=question.motion.underdamped)
    return jumps, stationary(jumps.matrix())


def edge_of(mesh: Mesh, b: Float, p: Float) -> Edge | None:
    """How much the edge matters, for a flow b (n, s) and probabilities p (n,)."""
    if all(mesh.periodic):
        return None
    layer, flux, escapes = mesh.edge_layer(EDGE_SHARE), 0.0, False
    for i, wraps in enumerate(mesh.periodic):
        if not wraps:
            first, last = mesh.places[:, i] == 0, mesh.places[:, i] == mesh.shape[i] - 1
            outwards = np.where(first, np.maximum(-b[:, i], 0), 0) + np.where(last, np.maximum(b[:, i], 0), 0)
            flux += float(p @ outwards) / mesh.size[i]
            marginal = np.bincount(mesh.places[:, i], p, mesh.shape[i]).astype(float)
            escapes |= any(_held_by_wall(own) for own in (marginal, marginal[::-1]))
    return Edge(float(p[layer].sum()), flux, escapes)


def edge_in_long_run(question: Question) -> Edge | None:
    """How much the edge matters to an answer that is not computed from the stationary density; warns if it escapes."""
    mesh = question.fine
    b, D = question.motion.flow_and_noise(mesh.centres)
    edge = edge_of(mesh, b, chain_of(question, mesh, b, D)[1])
    warn_if_escapes(edge, stacklevel=4)
    return edge


def _held_by_wall(marginal: Float) -> bool:
    """Whether probabilities (k,) of cells along a variable hardly fall towards its first."""
    depth, further = max(1, round(EDGE_SHARE * len(marginal))), max(2, round(0.1 * len(marginal)))
    at = max(marginal[0], marginal[:depth].mean())  # the very end counts where the density rises steeply towards it
    return bool(at > HELD_BY_WALLS * marginal.max() and at > HARDLY_LESS * marginal[further])


def warn_if_escapes(edge: Edge | None, stacklevel: int = 3) -> None:
    """Say that walls hold the state, to who called the function that calls this one."""
    if edge is not None and edge.escapes:
        text = f"this system escapes from the range of the data: {edge}. Answers are those of a box with walls there"
        warnings.warn(text, ExtrapolationWarning, stacklevel=stacklevel)


def stationary_density(
    sde: SDE,
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
    method: Method = "auto",
) -> Density:
    """How often the state is where, in the long run.

    Parameters
    ----------
    sde : SDE
        With up to three variables; second-order systems have positions and velocities.
    covariates : dict, sequence or float, optional
        At which values inputs from outside are held, if there are any.
    box : dict or array of shape (2, s), optional
        Ranges of the state, by default those of the data. Paths are reflected there; `edge` of the answer says how much
        that matters. An equation that is known everywhere needs them.
    cells : int or tuple of int, optional
        Of the grid in each direction; by default 1000, 100 and 24 with one, two and three variables. By simulation of
        the grid on which the first two variables are counted, by default 40.
    samples : int
        Equations from the posterior for error bars; 0 for none.
    rng : int, Generator or None
    method : {"auto", "grid", "simulation"}
        By a grid, or by simulation: more than three variables need that, and the answer is then the density of the
        first two.

    Returns
    -------
    Density
        `value` has the shape of the grid, `axes` are the centres of its cells, `marginal(name)` is the density of one
        variable, `mean` and `covariance` are its moments.

    Warns
    -----
    ExtrapolationWarning
        If walls at the edge of the data hold the state, and not its own forces: then there is no stationary density.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: -x, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> density = dynamics.stationary_density(sde, box=(-5, 5))
    >>> print(f"{density.covariance[0, 0]:.3f}")                       # that of a Gaussian, σ²/2
    0.500
    """
    one_of("method", method, ("auto", "grid", "simulation"))
    motion = motion_of(sde, covariates, box)
    if method == "simulation" or (method == "auto" and motion.s > MOST_VARIABLES):
        return _density_by_simulation(motion, cells, samples, rng)
    question = question_of(sde, covariates, box, cells, samples, rng)

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        return chain_of(question, mesh, b, D)[1] / mesh.volume

    field = solved_field(question, solve, "log")
    mesh = question.fine
    field = field._replace(value=field.value / (field.value.sum() * mesh.volume))
    edge = edge_of(mesh, motion.flow(mesh.centres), field.value * mesh.volume)
    warn_if_escapes(edge)
    totals = field.samples.sum(axis=1, keepdims=True) * mesh.volume
    return Density(
        what="stationary density",
        value=field.value.reshape(mesh.shape),
        samples=(field.samples / np.where(totals > 0, totals, 1.0)).reshape(-1, *mesh.shape),
        scale="log",
        grid_error=field.grid_error,
        edge=edge,
        mesh=mesh,
        names=motion.names,
        **_density_units(motion.units, motion.names),
    )


def _density_units(units: Units, names: tuple[str, ...]) -> dict[str, Any]:
    """The unit of a density of some variables, and theirs."""
    return {"unit": units.product(dict.fromkeys(names, -1)), "units": units}


def _density_by_simulation(motion: Motion, cells: Cells, samples: int, rng: RNG) -> Density:
    found = density_by_simulation(motion, samples_of(motion.sde, samples, rng), rng, cells)
    names = motion.names[: len(found.mesh.shape)]
    return Density(
        what="stationary density",
        value=found.value,
        samples=found.samples,
        scale="linear",
        notes=found.notes,
        mesh=found.mesh,
        names=names,
        **_density_units(motion.units, names),
    )


def quasi_potential(
    sde: SDE, *, covariates: Held = None, box: Box = None, cells: Cells = None, samples: int = 50, rng: RNG = None
) -> OnGrid:
    """Minus the logarithm of the stationary density, zero at its minimum: a landscape also where there is no potential.

    Differences of it are logarithms of how much more often the state is in one place than in another. Parameters are
    those of `stationary_density`.

    Examples
    --------
    >>> landscape = itofit.dynamics.quasi_potential(sde)                     # doctest: +SKIP
    >>> ax = landscape.plot()                                                # doctest: +SKIP
    """
    density = stationary_density(
        sde, covariates=covariates, box=box, cells=cells, samples=samples, rng=rng, method="grid"
    )

    def landscape(p: Float) -> Float:
        axes = tuple(range(-len(density.mesh.shape), 0))
        values = -np.log(np.maximum(p, 1e-300))
        return np.asarray(values - values.min(axis=axes, keepdims=True))

    return OnGrid(
        what="quasi-potential −log ρ",
        value=landscape(np.asarray(density.value)),
        samples=landscape(density.samples) if len(density.samples) else density.samples,
        grid_error=density.grid_error,
        edge=density.edge,
        mesh=density.mesh,
        names=density.names,
        units=density.units,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Current(OnGrid):
    """A probability current: `value` has shape (cells, ..., s)."""

    density: Float

    def plot(self, ax: Axes | None = None) -> Axes:
        """Arrows on the stationary density, of two variables; a curve of one."""
        if len(self.names) > 1:
            return draw_current(self, self.density, self.names, self.mesh, ax)
        flat = replace(self, value=np.asarray(self.value)[..., 0], samples=self.samples[..., 0])
        return draw_curve(self.axes[0], flat, self.names[0], ax)


def probability_current(
    sde: SDE, *, covariates: Held = None, box: Box = None, cells: Cells = None, samples: int = 50, rng: RNG = None
) -> Current:
    """The current J = bρ − ∇·(Dρ) of the stationary density: zero everywhere if and only if there is detailed balance.

    Parameters are those of `stationary_density`; `value` has an axis of length s for the components behind those of the
    grid.

    Examples
    --------
    >>> current = itofit.dynamics.probability_current(sde)                   # doctest: +SKIP
    """
    question = question_of(sde, covariates, box, cells, samples, rng)
    mesh, s = question.fine, question.motion.s

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        jumps, p = chain_of(question, mesh, b, D)
        return np.concatenate([jumps.currents(p, mesh.size), p[:, None]], axis=1) / mesh.volume

    field = solved_field(question, solve)
    rho = field.value[:, s]
    edge = edge_of(mesh, question.motion.flow(mesh.centres), rho * mesh.volume)
    warn_if_escapes(edge)
    return Current(
        what="probability current",
        value=field.value[:, :s].reshape(*mesh.shape, s),
        samples=field.samples[:, :, :s].reshape(-1, *mesh.shape, s),
        grid_error=field.grid_error,
        edge=edge,
        mesh=mesh,
        names=question.motion.names,
        units=question.motion.units,
        unit=question.motion.units.rate if s == 1 else "",
        density=rho.reshape(mesh.shape),
    )


def entropy_production(
    sde: SDE, *, covariates: Held = None, box: Box = None, cells: Cells = None, samples: int = 50, rng: RNG = None
) -> Answer:
    """The rate at which entropy is produced in the stationary state, ∫ Jᵀ D⁻¹ J / ρ dx, in nats per time.

    It is zero in detailed balance, and larger the better one can tell a film of the process from the same film run
    backwards. Of a second-order system, whose velocities turn round in that film, it is the irreversible current that
    counts, with the part of the force that is odd in the velocity as friction: the range of velocities is made as wide
    to both sides of rest, and a note says how often opposite velocities were not observed. It is a square, so where
    it is zero its samples are not; intervals reach down to zero there.

    Parameters are those of `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> turning = np.array([[-1.0, 2.0], [-2.0, -1.0]])
    >>> sde = KnownSDE(f=lambda x: x @ turning.T, sigma=lambda x: np.broadcast_to(np.eye(2), (len(x), 2, 2)),
    ...                n_inputs=2, n_outputs=2)
    >>> rate = dynamics.entropy_production(sde, box=[[-4, -4], [4, 4]])
    >>> print(f"{rate.value:.2f}")                                     # 2 ω² / γ with ω = 2, γ = 1
    8.00
    """
    seen_range = motion_of(sde, covariates, box).box
    question = question_of(sde, covariates, box, cells, samples, rng)
    if question.motion.underdamped:
        question = question_of(sde, covariates, _with_opposite_velocities(seen_range), cells, samples, rng)
    unit = f"nats/{sde.units.time}" if sde.units.time else ""
    if question.motion.s == 1 and not question.motion.periodic[0]:
        note = "one variable that is not periodic is always in detailed balance"
        return Answer(
            what="entropy production",
            value=0.0,
            samples=np.zeros(question.n_samples),
            edge=edge_in_long_run(question),
            notes=(note,),
            unit=unit,
        )
    seen: list[Edge | None] = []
    notes: list[str] = []

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        jumps, p = chain_of(question, mesh, b, D)
        if mesh is question.fine and not seen:
            seen.append(edge_of(mesh, b, p))
            if question.motion.underdamped:
                notes.extend(_on_opposite_velocities(mesh, p, seen_range))
        known = p > 1e-14 * p.max()
        if question.motion.underdamped:
            force = _irreversible_force(mesh, b, D, p)
            return np.asarray(p[known] @ (force[known] ** 2 / D[known, 1, 1]))
        J = jumps.currents(p, mesh.size)[known]
        away = np.linalg.solve(D[known], J[:, :, None])[:, :, 0]
        return np.asarray((np.einsum("ni,ni->n", J, away) / p[known]).sum())

    found = solved(question, solve, "square")
    warn_if_escapes(seen[0])
    return Answer(
        what="entropy production",
        value=float(found.value),
        samples=found.samples,
        scale="square",
        grid_error=found.grid_error,
        edge=seen[0],
        notes=tuple(notes),
        unit=unit,
    )


def _with_opposite_velocities(box: Float) -> Float:
    """The range (2, 2) of a position and its velocity, as wide to both sides of rest."""
    fastest = np.abs(box[:, 1]).max()
    return np.stack([box[:, 0], [-fastest, fastest]], axis=1)


def _on_opposite_velocities(mesh: Mesh, p: Float, box: Float) -> list[str]:
    """What to know if states are common whose opposite velocity is outside the range (2, 2) of the data."""
    back = -mesh.centres[:, 1]
    share = float(p[(back < box[0, 1]) | (back > box[1, 1])].sum())
    if share <= OPPOSITE_UNSEEN:
        return []
    return [f"for {share:.0%} of the time the opposite velocity is outside the range: the force there is a guess"]


def _irreversible_force(mesh: Mesh, b: Float, D: Float, p: Float) -> Float:
    """J_irr / ρ of the velocity: the odd part of the force minus D ∂ log(Dρ)/∂v; shape (n,)."""
    back = mesh.centres * [1.0, -1.0]
    odd = 0.5 * (b[:, 1] - mesh.interpolate(b[:, 1], back))
    log_u = np.log(np.maximum(D[:, 1, 1] * p, 1e-300)).reshape(mesh.shape)
    slope = np.gradient(log_u, mesh.size[1], axis=1).ravel()
    return np.asarray(odd - D[:, 1, 1] * slope)
