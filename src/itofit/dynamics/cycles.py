"""The limit cycle of a flow, and its period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import RNG, Float, InputError
from itofit.data.periods import nearest_image, wrapped
from itofit.dynamics.answers import Answer, short
from itofit.dynamics.axes import LEARNED, axes_or_new, label_plane
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.dynamics.regions import States, region_of
from itofit.dynamics.resting import slopes
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP = 0.02
"""Of the first search, relative to the fastest of typical rates of change."""
SETTLING, MOST_STEPS = 3000, 40_000
"""Steps before the first look for a cycle, and altogether."""
STEPS_PER_PERIOD = 120
"""Where the period is measured."""
SETTLING_PERIODS, MEASURED_PERIODS = 4, 1
AT_REST = 1e-4
"""Way in a typical time, relative to the box, below which the flow has come to rest."""
RETURNS_WITHIN = 0.05
"""Distance from its start, relative to the size of the cycle, within which a path has returned."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Period(Answer):
    """The period of a limit cycle.

    Parameters
    ----------
    cycle : array of shape (n, s)
        The cycle. Along periodic variables it goes on beyond the end of the period.
    names : tuple of str
    """

    cycle: Float
    names: tuple[str, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """The cycle in the plane of the first two variables."""
        ax = axes_or_new(ax, (5.0, 4.4))
        ax.plot(self.cycle[:, 0], self.cycle[:, 1], color=LEARNED, linewidth=1.8)
        label_plane(ax, self.names, self.units)
        ax.set_title(f"limit cycle, period {short(self)}")
        return ax


def period(
    sde: SDE,
    start: States | None = None,
    *,
    covariates: Held = None,
    box: Box = None,
    samples: int = 50,
    rng: RNG = None,
) -> Period:
    """The period of the limit cycle to which the flow leads, without noise.

    With noise the time of a turn varies, and its mean differs from this period to first order in Σ;
    `relaxation_times` has the frequency of the noisy cycle.

    Parameters
    ----------
    sde : SDE
        With two or more variables.
    start : point, optional
        Where the search begins; by default a quarter of the range from the middle of the data's range.
    covariates, box, samples, rng
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> van_der_pol = KnownSDE(f=lambda x: (1 - x[:, :1] ** 2) * x[:, 1:] - x[:, :1],
    ...                        sigma=lambda x: np.full((len(x), 1, 1), 0.1), n_inputs=2)
    >>> answer = dynamics.period(van_der_pol, box=[[-3, -4], [3, 4]], samples=0)
    >>> print(f"{answer.value:.4f}")
    6.6633
    """
    motion = motion_of(sde, covariates, box)
    if motion.s < 2:
        raise InputError("a limit cycle needs two variables or more; the state has one")
    span = motion.box[1] - motion.box[0]
    first = motion.box.mean(axis=0) + 0.25 * span
    if start is not None:
        region = region_of("start", start, motion, start=True)
        if region.point is None:
            raise InputError(f"start must be a point, got {region.text}")
        first = region.point
    at, rough = _on_cycle(motion, first)
    dt = rough / STEPS_PER_PERIOD
    value, cycle = _measured(_within(motion, motion.flow), at[None], dt, motion)
    if not np.isfinite(value[0]):
        raise _no_cycle("its path does not return to where it was")
    sampled = samples_of(sde, samples, rng)
    own = np.empty(0)
    if sampled is not None:

        def flow(x: Float) -> Float:
            return motion.sampled_flow_at_own(sampled, x[:, None])[:, 0]

        own, _ = _measured(_within(motion, flow), np.repeat(at[None], len(sampled), axis=0), dt, motion)
    notes: tuple[str, ...] = ()
    if len(own) and not np.isfinite(own).all():
        notes = (f"a cycle was found in {np.isfinite(own).mean():.0%} of the samples",)
    return Period(
        what="period of the limit cycle",
        value=float(value[0]),
        samples=own,
        scale="log",
        notes=notes,
        cycle=cycle,
        names=motion.names,
        unit=motion.units.time,
        units=motion.units,
    )


def _within(motion: Motion, flow: Callable[[Float], Float]) -> Callable[[Float], Float]:
    """The flow; outside the box that of its nearest point."""
    low = np.where(motion.periodic, -np.inf, motion.box[0])
    high = np.where(motion.periodic, np.inf, motion.box[1])
    return lambda x: flow(wrapped(np.clip(x, low, high), motion.periods))


def runge_kutta(flow: Callable[[Float], Float], x: Float, dt: float) -> Float:
    """One step of the classical method of fourth order, for points (n, s)."""
    a = flow(x)
    b = flow(x + 0.5 * dt * a)
    c = flow(x + 0.5 * dt * b)
    return np.asarray(x + dt / 6 * (a + 2 * b + 2 * c + flow(x + dt * c)))


def _on_cycle(motion: Motion, start: Float) -> tuple[Float, float]:
    """A point on the cycle, and about its period."""
    flow, span = _within(motion, motion.flow), motion.box[1] - motion.box[0]
    places = motion.box[0] + span * np.random.default_rng(0).random((200, motion.s))
    J = slopes(motion.flow, places, span) * span / span[:, None]
    rate = float(np.median(np.linalg.norm(J, 2, axis=(1, 2))))
    dt = STEP / max(rate, 1e-300)
    path = [start[None]]
    for i in range(MOST_STEPS):
        path.append(runge_kutta(flow, path[-1], dt))
        if i >= SETTLING and i % 1000 == 0:
            recent = np.concatenate(path[-SETTLING:])
            if (np.abs(recent[-1] - recent[-200]) < AT_REST * span).all():
                raise _no_cycle(f"it comes to rest at {motion.place_text(recent[-1])}")
            found = _first_return(recent, dt, motion)
            if found is not None:
                return wrapped(recent[-1:], motion.periods)[0], found
    raise _no_cycle("its path does not return to where it was")


def _first_return(path: Float, dt: float, motion: Motion) -> float | None:
    """The time since a path (n, s) was last where it is at its end."""
    end, flow = path[-1:], _within(motion, motion.flow)
    heights, distances = _seen_from(end, flow(end), path, motion)
    ups = np.flatnonzero((heights[:-1] < 0) & (heights[1:] >= 0))
    near = [i for i in ups if distances[i] < RETURNS_WITHIN * _size(path, motion) and i < len(path) - 10]
    return None if not near else float((len(path) - 1 - near[-1]) * dt)


def _seen_from(at: Float, flow: Float, path: Float, motion: Motion) -> tuple[Float, Float]:
    """How far a path (n, s) is ahead of a place (1, s) in the direction of the flow there, and how far from it.

    Relative to the box, and along periodic variables from the nearest image of the place: two arrays of shape (n,).
    """
    span = motion.box[1] - motion.box[0]
    away = nearest_image(path - at, motion.periods) / span
    return away @ (flow[0] / span), np.abs(away).max(axis=1)


def _size(path: Float, motion: Motion) -> float:
    """The largest extent of a path (n, s), relative to the box; along a periodic variable at most one, however long."""
    extent = np.ptp(path, axis=0) / (motion.box[1] - motion.box[0])
    return float(np.where(motion.periodic, np.minimum(extent, 1.0), extent).max())


def _measured(flow: Callable[[Float], Float], x: Float, dt: float, motion: Motion) -> tuple[Float, Float]:
    """Periods (n,) of the cycles that points (n, s) are near, NaN without, and the cycle of the first."""
    for _ in range(SETTLING_PERIODS * STEPS_PER_PERIOD):
        x = runge_kutta(flow, x, dt)
    path = [x]
    for _ in range(int((MEASURED_PERIODS + 1.5) * STEPS_PER_PERIOD)):
        path.append(runge_kutta(flow, path[-1], dt))
    paths = np.stack(path)  # (times, n, s)
    periods = np.full(len(x), np.nan)
    for k in range(len(x)):
        own = paths[:, k]
        middle = STEPS_PER_PERIOD // 2
        at = own[middle : middle + 1]
        heights, distances = _seen_from(at, flow(np.repeat(at, len(x), axis=0))[k : k + 1], own, motion)
        ups = np.flatnonzero((heights[:-1] < 0) & (heights[1:] >= 0))
        size = _size(own, motion)
        if size < AT_REST:
            continue
        near = ups[distances[ups] < RETURNS_WITHIN * size]
        later = near[near > middle + 10]
        if len(later):
            times = (later + heights[later] / (heights[later] - heights[later + 1]) - middle) * dt
            periods[k] = times[-1] / len(later)
    first = int(np.nan_to_num(periods[0] / dt)) + 2
    return periods, paths[:first, 0]


def _no_cycle(why: str) -> InputError:
    return InputError(f"no limit cycle was found from there: {why}; give another start=, or look at fixed_points")
