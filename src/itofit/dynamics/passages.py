"""From here to there: mean first-passage times, probabilities of exits, rates of escape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import RNG, Float, InputError, one_of
from itofit.dynamics.answers import Answer, Edge, with_error
from itofit.dynamics.axes import escaped
from itofit.dynamics.by_simulation import Passages, simulated_passages
from itofit.dynamics.chain import jumps_of
from itofit.dynamics.drawn import draw_curve, draw_map
from itofit.dynamics.long_run import chain_of, edge_of
from itofit.dynamics.mesh import Mesh, mesh_of
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.dynamics.questions import MOST_VARIABLES, Cells, Method, Question, question_of, solved
from itofit.dynamics.regions import Region, States, check_disjoint, region_of
from itofit.dynamics.solving import passage
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {1: 200, 2: 40}
"""Cells in each direction of the curve or map of passage times from all starts."""


class _Posed(NamedTuple):
    """A question about passages."""

    motion: Motion
    start: Region
    targets: dict[str, Region]

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(self.targets.values())


def _posed(sde: SDE, start: States, targets: dict[str, States], covariates: Held, box: Box) -> _Posed:
    """What was asked, checked."""
    motion = motion_of(sde, covariates, box)
    begin = region_of("start", start, motion, start=True)
    ends = {name: region_of(name, own, motion) for name, own in targets.items()}
    if motion.s <= MOST_VARIABLES:
        probe = mesh_of(motion, {1: 2000, 2: 200, 3: 40}[motion.s]).centres
    else:
        span = motion.box[1] - motion.box[0]
        probe = motion.box[0] + span * np.random.default_rng(0).random((20_000, motion.s))
    for name, own in {"start": begin, **ends}.items():
        a_point = own.level is not None or own.point is not None or own.ends is not None
        if not a_point and not own.inside(probe).any():
            raise InputError(
                f"{name} ({own.text}) holds no states within the range of the data, or is smaller than the cells of "
                f"any "
                "grid: make it larger"
            )
    check_disjoint({"start": begin, **ends}, probe)
    return _Posed(motion, begin, ends)


def _at_start(question: Question, start: Region, mesh: Mesh, b: Float, D: Float, values: Float) -> Float:
    """Values (n, k) on cells, at the start: at a point, or the mean over a set in the long run; shape (k,)."""
    if start.point is not None:
        return mesh.interpolate(values, start.point[None])[0]
    inside = start.inside(mesh.centres)
    if not inside.any():
        raise InputError(f"start ({start.text}) is smaller than the cells of the grid: give a point, or more cells=")
    p = chain_of(question, mesh, b, D)[1][inside]
    weight = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
    return np.asarray(weight @ values[inside])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PassageTime(Answer):
    """A mean first-passage time.

    Parameters
    ----------
    curve : Answer or None
        The time from anywhere, on the cells of `mesh`; for one and two variables.
    mesh : Mesh or None
    names : tuple of str
    way : tuple of two int, or None
        Numbers of the fixed points that it leads from and to, if `outlook` asked for it.
    """

    curve: Answer | None = None
    mesh: Mesh | None = None
    names: tuple[str, ...] = ()
    way: tuple[int, int] | None = None

    def plot(self, ax: Axes | None = None) -> Axes:
        """The time as a function of the start, with its 95 % band; of two variables a map."""
        if self.curve is None or self.mesh is None:
            return super().plot(ax)
        if len(self.names) == 1:
            return draw_curve(self.mesh.axes[0], self.curve, self.names[0], ax)
        return draw_map(self.curve, np.asarray(self.curve.value), self.names, self.mesh, ax)


def first_passage_time(
    sde: SDE,
    start: States,
    target: States,
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
    method: Method = "auto",
) -> PassageTime:
    """How long it takes on average until a state is in a set for the first time.

    Parameters
    ----------
    sde : SDE
    start : float, sequence, dict or callable
        Where it starts: a point; or a set, as below, over which the mean is taken as the state is there in the long
        run.
    target : float, sequence, dict or callable
        What it shall reach. Of one variable a number or an interval ``(low, high)``, None for no end; in general a
        dictionary from names to intervals, ``{"x": (1, None)}``, or a function of points (n, s) that returns an array
        of bool (n,).
    covariates, box, cells, samples, rng, method
        As for `stationary_density`. Paths are reflected at the edge of the box. By simulation there are no cells, and
        times have errors of chance besides, and a small one from steps that pass the edge of the target in between
        unseen.

    Returns
    -------
    PassageTime
        In the unit of the data's h. `curve` is the time from anywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> double_well = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.full((len(x), 1, 1), 0.7))
    >>> time = dynamics.first_passage_time(double_well, start=-1, target=1, box=(-2.5, 2.5))
    >>> print(f"{time.value:.2f}")
    14.64
    """
    one_of("method", method, ("auto", "grid", "simulation"))
    posed = _posed(sde, start, {"target": target}, covariates, box)
    motion, begin, aim = posed.motion, posed.start, posed.targets["target"]
    what = f"mean first-passage time from {begin.text} to {aim.text}"
    if method == "simulation" or (method == "auto" and motion.s > MOST_VARIABLES):
        return _time_by_simulation(posed, what, samples, rng)
    question = question_of(sde, covariates, box, cells, samples, rng)
    shown = mesh_of(motion, SHOWN[motion.s]) if motion.s in SHOWN else None
    seen: list[Edge | None] = []

    def solve(mesh: Mesh, b: Float, D: Float) -> Float:
        jumps = jumps_of(mesh, b, D, underdamped=motion.underdamped, sets=(aim,))
        kept = ~aim.inside(mesh.centres)
        time = passage(jumps.matrix(), jumps.absorbed(0), np.ones((mesh.n, 1)), kept)
        if mesh is question.fine and not seen:
            seen.append(edge_of(mesh, b, chain_of(question, mesh, b, D)[1]))
        here = _at_start(question, begin, mesh, b, D, time)
        everywhere = np.zeros(0) if shown is None else mesh.interpolate(time[:, 0], shown.centres)
        return np.concatenate([here, everywhere])

    value, own, errors = solved(question, solve, "log")
    units: dict[str, Any] = {"unit": motion.units.time, "units": motion.units}
    common: dict[str, Any] = {"scale": "log", "edge": seen[0], "grid_error": float(errors[0])} | units
    curve = None
    if shown is not None:
        curve = Answer(
            what=f"mean first-passage time to {aim.text}",
            value=value[1:].reshape(shown.shape),
            samples=own[:, 1:].reshape(-1, *shown.shape),
            scale="log",
            **units,
        )
    return PassageTime(
        what=what, value=float(value[0]), samples=own[:, 0], curve=curve, mesh=shown, names=motion.names, **common
    )


def _time_by_simulation(posed: _Posed, what: str, samples: int, rng: RNG) -> PassageTime:
    found = _simulated(posed, samples, rng)
    return PassageTime(
        what=what,
        value=found.mean_time,
        samples=found.sampled_times,
        scale="log",
        notes=(found.note,),
        names=posed.motion.names,
        unit=posed.motion.units.time,
        units=posed.motion.units,
    )


def _simulated(posed: _Posed, samples: int, rng: RNG) -> Passages:
    return simulated_passages(posed.motion, posed.start, posed.regions, samples_of(posed.motion.sde, samples, rng), rng)


def escape_rate(
    sde: SDE,
    start: States,
    target: States,
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
    method: Method = "auto",
) -> Answer:
    """How often per time a state that starts in one place arrives in another: one over the mean first-passage time.

    For a well and what lies beyond its barrier that is the rate of Kramers, also where the barrier is low. Parameters
    are those of `first_passage_time`.

    Examples
    --------
    >>> rate = itofit.dynamics.escape_rate(sde, start=-1, target=1)          # doctest: +SKIP
    """
    time = first_passage_time(
        sde, start, target, covariates=covariates, box=box, cells=cells, samples=samples, rng=rng, method=method
    )
    return Answer(
        what=time.what.replace("mean first-passage time", "rate of escape"),
        value=1 / float(np.asarray(time.value)),
        samples=1 / time.samples,
        scale="log",
        grid_error=time.grid_error,
        edge=time.edge,
        notes=time.notes,
        unit=time.units.rate,
        units=time.units,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExitProbabilities(Answer):
    """Probabilities to reach each of several sets first: `value` has shape (n_targets,).

    Parameters
    ----------
    targets : tuple of str
        The sets, in words.
    committor : array of shape (n_targets, cells, ...) or None
        The same probabilities from anywhere.
    mesh : Mesh or None
    """

    targets: tuple[str, ...]
    committor: Float | None = None
    mesh: Mesh | None = None

    def value_text(self) -> str:
        """In words, target by target."""
        parts = [
            Answer(what="", value=float(v), samples=self.samples[:, i], scale="share")
            for i, v in enumerate(np.asarray(self.value))
        ]
        lines = [
            f"{name}: {with_error(float(np.asarray(p.value)), p)}" for name, p in zip(self.targets, parts, strict=True)
        ]
        return "\n  " + "\n  ".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The probabilities with their 95 % intervals."""
        ax = super().plot(ax)
        ax.set_yticks(range(len(self.targets)), [escaped(target) for target in self.targets])
        ax.set_xlim(-0.02, 1.02)
        return ax


def exit_probabilities(
    sde: SDE,
    start: States,
    targets: Sequence[States] | Mapping[str, States],
    *,
    covariates: Held = None,
    box: Box = None,
    cells: Cells = None,
    samples: int = 50,
    rng: RNG = None,
    method: Method = "auto",
) -> ExitProbabilities:
    """The probabilities with which a state reaches each of several sets first: the committors between them.

    Parameters
    ----------
    sde, start
        As for `first_passage_time`.
    targets : sequence, or dict from names to sets
        Two or more sets that do not overlap, each as for `first_passage_time`; ``(-1, 1)`` are two numbers of one
        variable.
    covariates, box, cells, samples, rng, method
        As for `first_passage_time`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> walk = KnownSDE(f=lambda x: 0 * x, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> odds = dynamics.exit_probabilities(walk, start=0.5, targets=(0, 2), box=(-1, 3))
    >>> print(odds.value.round(3))
    [0.75 0.25]
    """
    one_of("method", method, ("auto", "grid", "simulation"))
    named = _named(targets)
    posed = _posed(sde, start, named, covariates, box)
    motion, regions = posed.motion, posed.regions
    texts = tuple(own.text for own in regions) if not isinstance(targets, Mapping) else tuple(named)
    what = f"probabilities to arrive first, from {posed.start.text}, at"
    if method == "simulation" or (method == "auto" and motion.s > MOST_VARIABLES):
        found = _simulated(posed, samples, rng)
        own = found.sampled_shares
        return ExitProbabilities(
            what=what, value=found.shares, samples=own, scale="share", notes=(found.note,), targets=texts
        )
    question = question_of(sde, covariates, box, cells, samples, rng)

    def committors(mesh: Mesh, b: Float, D: Float) -> Float:
        jumps = jumps_of(mesh, b, D, underdamped=motion.underdamped, sets=regions)
        inside = np.stack([own.inside(mesh.centres) for own in regions])
        sources = np.stack([jumps.absorbed(i) for i in range(len(regions))], axis=1)
        return passage(jumps.matrix(), sources.sum(axis=1), sources, np.asarray(~inside.any(axis=0))) + inside.T

    found_on_grid = solved(
        question,
        lambda mesh, b, D: _at_start(question, posed.start, mesh, b, D, committors(mesh, b, D)),
        "share",
    )
    fine = question.fine
    b, D = motion.flow_and_noise(fine.centres)
    field = committors(fine, b, D).T.reshape(-1, *fine.shape)
    return ExitProbabilities(
        what=what,
        value=found_on_grid.value,
        samples=found_on_grid.samples,
        scale="share",
        grid_error=float(np.abs(found_on_grid.grid_errors * found_on_grid.value).max()),
        edge=edge_of(fine, b, chain_of(question, fine, b, D)[1]),
        targets=texts,
        committor=field,
        mesh=fine,
    )


def _named(targets: Any) -> dict[str, States]:  # noqa: ANN401
    if isinstance(targets, Mapping):
        named = dict(targets)
    elif isinstance(targets, Sequence | np.ndarray) and not isinstance(targets, str):
        named = {f"target {i + 1}": own for i, own in enumerate(targets)}
    else:
        raise InputError(f"targets must be two or more sets, in a list or by name, got {targets!r}")
    if len(named) < 2:
        raise InputError(f"targets must be two or more sets, got {len(named)}: one alone is reached first in any case")
    return named
