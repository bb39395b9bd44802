"""The potential of one variable, and the heights of its barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from itofit._checks import RNG, Float, InputError
from itofit.data.units import behind
from itofit.dynamics.answers import Answer, with_error
from itofit.dynamics.drawn import draw_curve
from itofit.dynamics.motion import Box, Held, motion_of, samples_of
from itofit.dynamics.resting import FixedPoints, fixed_points, followed
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Potential(Answer):
    """A potential of one variable: `value` has shape (n,).

    Parameters
    ----------
    x : array of shape (n,)
    name : str
    barriers : Answer
        Heights of barriers, shape (k,): from each minimum over the maximum beside it.
    ways : tuple of k tuples of two floats
        Where the minimum and the maximum of each barrier are.
    """

    x: Float
    name: str
    barriers: Answer
    ways: tuple[tuple[float, float], ...]

    def value_text(self) -> str:
        """In words: its barriers."""
        lines = []
        for i, (low, high) in enumerate(self.ways):
            value = float(np.asarray(self.barriers.value)[i])
            own = Answer(what="", value=value, samples=self.barriers.samples[:, i], scale="log", unit=self.unit)
            places = (f"{self.name} = {place:.4g}{behind(self.units.of(self.name))}" for place in (low, high))
            lines.append(f"barrier from {' over '.join(places)}: {with_error(value, own)}")
        return "\n  " + "\n  ".join(lines or ["no barriers within the range of the data"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The curve with its 95 % band, relative to its minimum."""
        return draw_curve(self.x, self, self.name, ax)


def potential(sde: SDE, *, covariates: Held = None, box: Box = None, samples: int = 50, rng: RNG = None) -> Potential:
    """The potential U = −∫ f dx of one variable, zero at its minimum, with the heights of its barriers.

    Parameters
    ----------
    sde : SDE
        With one variable, of kind "diffusion".
    covariates, box, samples, rng
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> dynamics.potential(sde, box=(-2, 2)).barriers.value.round(4)
    array([0.25, 0.25])
    """
    motion = motion_of(sde, covariates, box)
    if motion.s != 1:
        raise InputError(
            f"a potential needs one variable; the state has {', '.join(motion.names)}: quasi_potential is for more"
        )
    x = np.linspace(motion.box[0, 0], motion.box[1, 0], 1001)
    sampled = samples_of(sde, samples, rng)
    points = fixed_points(sde, covariates=covariates, box=box, samples=0)
    own_points, _ = followed(motion, sampled, np.asarray(points.value))
    f = motion.flow(x[:, None])[:, 0]
    U, own_U = _integral(x, f), np.empty((0, len(x)))
    if sampled is not None:
        own_U = _integral(x, motion.sampled_flow_and_noise(sampled, x[:, None])[0][:, :, 0])
    barriers = _barriers(points, round_again=bool(motion.periodic[0]))
    value = np.array([_height(x, U, np.asarray(points.value)[:, 0], own) for own in barriers])
    heights = [[_height(x, u, p[:, 0], own) for own in barriers] for u, p in zip(own_U, own_points, strict=True)]
    least, unit = int(U.argmin()), motion.units.covariance(motion.names[0], motion.names[0])  # of f times x
    return Potential(
        what="potential U = −∫ f dx",
        value=U - U[least],
        samples=own_U - own_U[:, least : least + 1],
        x=x,
        name=motion.names[0],
        barriers=Answer(
            what="barriers",
            value=value,
            samples=np.array(heights).reshape(len(own_U), len(barriers)),
            scale="log",
            unit=unit,
        ),
        unit=unit,
        units=motion.units,
        ways=tuple(own.ends(np.asarray(points.value)[:, 0], x[-1] - x[0]) for own in barriers),
    )


def _integral(x: Float, f: Float) -> Float:
    """−∫ f dx from the first point on, along the last axis."""
    steps = 0.5 * (f[..., 1:] + f[..., :-1]) * np.diff(x)
    return np.concatenate([np.zeros((*f.shape[:-1], 1)), -np.cumsum(steps, axis=-1)], axis=-1)


class _Barrier(NamedTuple):
    """A stable fixed point and an unstable one beside it."""

    stable: int  # their numbers
    unstable: int
    turns: int  # periods by which the first is moved to be beside the other

    def ends(self, places: Float, period: float) -> tuple[float, float]:
        """Where they are, of all places (k,) of fixed points."""
        return float(places[self.stable] + self.turns * period), float(places[self.unstable])


def _barriers(points: FixedPoints, *, round_again: bool) -> list[_Barrier]:
    """All of them; on a ring the first and the last fixed point are beside each other."""
    stable, n = points.stable, len(points)
    beside = [(i, j) for i in np.flatnonzero(stable).tolist() for j in (i - 1, i + 1)]
    if not round_again or n == 1:
        beside = [(i, j) for i, j in beside if 0 <= j < n]
    return [_Barrier(i, j % n, -(j // n)) for i, j in beside if not stable[j % n]]


def _height(x: Float, U: Float, places: Float, barrier: _Barrier) -> float:
    low = np.interp(places[barrier.stable], x, U) + barrier.turns * (U[-1] - U[0])
    return float(np.interp(places[barrier.unstable], x, U) - low)
