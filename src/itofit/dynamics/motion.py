"""How a state moves: the flow and the noise of an equation, with what comes from outside held at given values.

======  ==========  ===========  ==================================================================================
symbol  name        shape        meaning
======  ==========  ===========  ==================================================================================
x       points      (n, s)       states; of a second-order system positions before velocities, s = 2d
b       b           (n, s)       flow: dx = b dt + noise; of a second-order system (v, f)
D       D           (n, s, s)    half the covariance of the noise; of a second-order system zero but for velocities
======  ==========  ===========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, Option, count, float_array, shown
from itofit.data.names import did_you_mean, plural
from itofit.data.periods import is_periodic, wrapped
from itofit.data.units import Units, behind
from itofit.model.sampled import DrawnSDEs
from itofit.model.sde import SDE

Held: TypeAlias = Mapping[str, float] | Sequence[float] | float | None
"""Values of covariates: by name, in their order, or one number if there is one covariate."""
Box: TypeAlias = Mapping[str, tuple[float, float]] | npt.ArrayLike | None
"""Ranges of the state: by name, or an array of shape (2, s)."""
WHOLE = 1e-6
"""Of a period: a range that differs from it by less is one whole period."""


@dataclass(frozen=True, eq=False)
class Motion:
    """The state of an equation within a box.

    Parameters
    ----------
    sde : SDE
    box : array of shape (2, s)
        Edges of the range, which are walls; those of one whole period of a variable are the same place.
    held : array of shape (k,)
        Values of the covariates.
    """

    sde: SDE
    box: Float
    held: Float

    @property
    def names(self) -> tuple[str, ...]:
        """What the variables of the state are called."""
        return self.sde.state_names

    @property
    def units(self) -> Units:
        """Units of the variables and of time."""
        return self.sde.units

    @property
    def s(self) -> int:
        """Number of variables of the state."""
        return self.box.shape[1]

    @property
    def underdamped(self) -> bool:
        """Whether the state is positions and velocities."""
        return self.sde.kind == "underdamped"

    @property
    def periods(self) -> Float:
        """Where one period of each variable begins and ends, both zero if it has none or has walls: shape (2, s)."""
        length = _lengths(self.sde, self.s)
        whole = (length > 0) & (np.abs(self.box[1] - self.box[0] - length) <= WHOLE * length)
        return np.where(whole, self.box, 0.0)

    @property
    def images(self) -> Float:
        """One period of each variable, walls or not, from the lower end of the box on; zeros without one: (2, s)."""
        length = _lengths(self.sde, self.s)
        behind_walls = np.stack([self.box[0], self.box[0] + length])
        return np.where(self.periodic, self.periods, np.where(length > 0, behind_walls, 0.0))

    @property
    def periodic(self) -> npt.NDArray[np.bool_]:
        """Which variables go round, as they have a period and no walls: shape (s,)."""
        return is_periodic(self.periods)

    def inputs(self, points: Float) -> Float:
        """States (n, s) with the covariates beside them: shape (n, m)."""
        points = wrapped(points, self.sde.periods[:, : self.s])  # the box may reach beyond the period they are known in
        return np.concatenate([points, np.broadcast_to(self.held, (len(points), len(self.held)))], axis=1)

    def flow(self, points: Float) -> Float:
        """B at points (n, s): shape (n, s)."""
        return self._whole_flow(points, self.sde.drift(self.inputs(points)))

    def flow_and_noise(self, points: Float) -> tuple[Float, Float]:
        """B (n, s) and D (n, s, s) at points (n, s)."""
        x = self.inputs(points)
        return self._whole_flow(points, self.sde.drift(x)), self._whole_noise(self.sde.covariance(x))

    def sampled_flow_and_noise(self, sampled: DrawnSDEs, points: Float) -> tuple[Float, Float]:
        """The same of several equations: shapes (n_samples, n, s) and (n_samples, n, s, s)."""
        x = self.inputs(points)
        return self._whole_flow(points, sampled.drift(x)), self._whole_noise(sampled.covariance(x))

    def sampled_flow_at_own(self, sampled: DrawnSDEs, points: Float) -> Float:
        """The flow of each of several equations at points of its own (n_samples, n, s)."""
        held = np.broadcast_to(self.held, (*points.shape[:2], len(self.held)))
        return self._whole_flow(points, sampled.drift_at_own(np.concatenate([points, held], axis=2)))

    def _whole_flow(self, points: Float, f: Float) -> Float:
        if not self.underdamped:
            return f
        velocity = np.broadcast_to(points[..., self.s // 2 :], f.shape)
        return np.concatenate([velocity, f], axis=-1)

    def _whole_noise(self, Sigma: Float) -> Float:
        if not self.underdamped:
            return 0.5 * Sigma
        d = self.s // 2
        D = np.zeros((*Sigma.shape[:-2], self.s, self.s))
        D[..., d:, d:] = 0.5 * Sigma
        return D

    def observed(self, points: Float) -> list[Float]:
        """Functions (n, k) of the state whose correlations are those of each variable: itself, or cosine and sine."""
        functions = []
        for i, wraps in enumerate(self.periodic):
            if wraps:
                low, high = self.periods[:, i]
                angle = 2 * np.pi * (points[:, i] - low) / (high - low)
                functions.append(np.stack([np.cos(angle), np.sin(angle)], axis=1))
            else:
                functions.append(points[:, i : i + 1])
        return functions

    def place_text(self, point: Float) -> str:
        """A state in words."""
        return ", ".join(
            f"{name} = {value:.4g}{behind(self.units.of(name))}" for name, value in zip(self.names, point, strict=True)
        )


def motion_of(sde: SDE, covariates: Held = None, box: Box = None) -> Motion:
    """The motion of an equation, for arguments as a user gives them."""
    if not isinstance(sde, SDE):
        raise InputError(f"sde must be an equation, such as itofit.fit returns, got {type(sde).__name__}")
    if sde.kind == "general":
        raise InputError(
            "this model is of kind 'general': its inputs do not follow from the state that moves, so it has no "
            "dynamics "
            "of its own; build the data with from_pairs, from_trajectories or from_underdamped"
        )
    held = _held(covariates, sde.covariate_names)
    s = len(sde.state_names)
    own_length = _lengths(sde, s)
    own = np.where(own_length > 0, sde.periods[:, :s], sde.box[:, :s])
    edges = _with_given(own, box, sde.state_names)
    if not np.isfinite(edges).all():
        name = sde.state_names[int(np.flatnonzero(~np.isfinite(edges).all(axis=0))[0])]
        raise InputError(
            "the functions of this equation are given everywhere, so the range of {name} must be given as well: "
            "box={{{name!r}: (low, high)}}, wide enough that the state hardly ever reaches its edges",
            name=name,
        )
    if (long := edges[1] - edges[0] > (1 + WHOLE) * np.where(own_length > 0, own_length, np.inf)).any():
        i = int(np.flatnonzero(long)[0])
        raise InputError(
            f"box: the range of {sde.state_names[i]} must not be longer than its period, {own_length[i]:.6g}, got "
            f"{edges[0, i]:.6g} to {edges[1, i]:.6g}; give one period, or less than one for walls that reflect paths"
        )
    return Motion(sde, edges, held)


def _lengths(sde: SDE, s: int) -> Float:
    """Of the periods of the state, zero without one: shape (s,)."""
    return np.asarray(sde.periods[1, :s] - sde.periods[0, :s])


def _held(covariates: Held, names: tuple[str, ...]) -> Float:
    if not names:
        if covariates is not None:
            text = "{covariates} were given, but nothing drives this equation from outside: leave them out"
            raise InputError(text, covariates=Option("covariates"))
        return np.zeros(0)
    example = "{" + ", ".join(f"{name!r}: 0.0" for name in names) + "}"
    if covariates is None:
        raise InputError(
            "this equation is driven by {names}: say at which values, as in covariates={example}",
            names=", ".join(names),
            example=example,
        )
    if isinstance(covariates, Mapping):
        if unknown := [name for name in covariates if name not in names]:
            raise InputError(
                f"covariates: there is none called {unknown[0]!r}{did_you_mean(unknown[0], names)}; expected {example}"
            )
        if missing := [name for name in names if name not in covariates]:
            raise InputError(f"covariates: {missing[0]!r} is missing; expected {example}")
        covariates = [covariates[name] for name in names]
    values = np.atleast_1d(float_array("covariates", covariates))
    if values.shape != (len(names),):
        raise InputError(f"covariates must be one number for each of {', '.join(names)}, got shape {values.shape}")
    return values


def _with_given(own: Float, box: Box, names: tuple[str, ...]) -> Float:
    if box is None:
        return own
    if isinstance(box, Mapping):
        edges = own.copy()
        for name, ends in box.items():
            if name not in names:
                raise InputError(
                    f"box: there is no variable {name!r}{did_you_mean(name, names)}; the state is {', '.join(names)}"
                )
            edges[:, names.index(name)] = _ends(name, ends)
        return edges
    given = float_array("box", box)
    if given.shape == (2,) and len(names) == 1:
        given = given[:, None]
    if given.shape != (2, len(names)) or not (given[1] > given[0]).all():
        raise InputError(
            f"box must have shape (2, {len(names)}), the lower ends of {', '.join(names)} above the upper ends, or be "
            f"a "
            f"dictionary such as {{{names[0]!r}: (-1, 1)}}, got {shown(box)}"
        )
    return given


def _ends(name: str, ends: Any) -> tuple[float, float]:  # noqa: ANN401
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError, OverflowError):
        low, high = 0.0, 0.0
    if not (high > low and np.isfinite([low, high]).all()):
        raise InputError(f"box: the range of {name} must be two numbers, the smaller one first, got {shown(ends)}")
    return low, high


def samples_of(sde: SDE, samples: int, rng: RNG) -> DrawnSDEs | None:
    """Equations from the posterior, or None if there is none to draw from or none are wanted."""
    n = count("samples", samples, least=0)
    if n == 1:
        raise InputError(f"samples must be 0 or at least 2, for a spread, got {plural(n, 'sample')}")
    if not n or not getattr(sde, "has_error_bars", False) or not hasattr(sde, "sample"):
        return None
    drawn = sde.sample(n, rng)
    return drawn if isinstance(drawn, DrawnSDEs) else None
