"""Where the flow rests: fixed points with their stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from itofit._checks import RNG, Complex, Float
from itofit.data.periods import nearest_image, wrapped
from itofit.data.units import behind
from itofit.dynamics.answers import Answer, short
from itofit.dynamics.axes import SECOND, axes_or_new, label_plane
from itofit.dynamics.mesh import mesh_of
from itofit.dynamics.motion import Box, Held, Motion, motion_of, samples_of
from itofit.model.sampled import DrawnSDEs
from itofit.model.sde import SDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STARTS = {1: 2000, 2: 30, 3: 10}
"""Cells in each direction in which the search for fixed points starts; random places with more variables."""
RANDOM_STARTS = 1000
NEWTON_STEPS = 60
LONGEST_STEP = 0.05
"""Of Newton's method, relative to the box."""
DIFFERENCE = 1e-5
"""Of points that slopes are taken from, relative to the box."""
SETTLED = 1e-9
"""A step of Newton's method that ends it, relative to the box."""
SLOW = 1e-6
"""Real part of an eigenvalue, relative to the largest eigenvalue, that counts as zero."""
EVERY_POINT = "the flow vanishes all over a part of the range: every point there rests, and none is listed"
SAME = 1e-4
"""Fixed points nearer to each other, relative to the box, are the same."""


def slopes(flow: object, points: Float, size: Float) -> Float:
    """The Jacobian of a flow at points (..., s), by central differences: shape (..., s, s)."""
    columns = []
    for i in range(points.shape[-1]):
        step = np.zeros(points.shape[-1])
        step[i] = DIFFERENCE * size[i]
        columns.append((flow(points + step) - flow(points - step)) / (2 * step[i]))  # type: ignore[operator]
    return np.stack(columns, axis=-1)


def newton(flow: object, points: Float, size: Float) -> tuple[Float, np.ndarray]:
    """Zeros of a flow near points (..., s), and which are settled (...,)."""
    x, settled = points.copy(), np.zeros(points.shape[:-1], dtype=bool)
    for _ in range(NEWTON_STEPS):
        J = slopes(flow, x, size) * size
        change = -np.linalg.pinv(J) @ flow(x)[..., None]  # type: ignore[operator]
        change = change[..., 0]
        length = np.abs(change).max(axis=-1, keepdims=True)
        x = x + size * change * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
        settled = length[..., 0] < SETTLED
        if settled.all():
            break
    return x, settled


def still_places(motion: Motion) -> np.ndarray:
    """Which places of the grid where a search starts, (n,), have no flow, and neighbours that have none either."""
    mesh = mesh_of(motion, STARTS[motion.s])
    still = (motion.flow(mesh.centres) == 0).all(axis=1).reshape(mesh.shape)
    beside = [np.roll(still, k, axis) for axis in range(motion.s) for k in (-1, 1)]
    return np.asarray(still & np.any(beside, axis=0)).ravel()


def zeros_of(motion: Motion) -> Float:
    """All fixed points within the box that a search finds, sorted: shape (k, s)."""
    size = motion.box[1] - motion.box[0]
    if motion.s in STARTS:
        starts = mesh_of(motion, STARTS[motion.s]).centres
    else:
        starts = motion.box[0] + size * np.random.default_rng(0).random((RANDOM_STARTS, motion.s))
    if motion.s == 1:
        b = motion.flow(starts)[:, 0]
        ahead = np.roll(b, -1) if motion.periodic[0] else np.append(b[1:], b[-1])
        crossing = np.flatnonzero(np.sign(b) * np.sign(ahead) < 0)
        exact = np.flatnonzero((b == 0) & ~still_places(motion))
        starts = np.concatenate([starts[crossing] + 0.5 * size / len(b), starts[exact]])
    elif motion.s in STARTS:
        starts = _low_speed(motion, starts)
    if not len(starts):
        return np.empty((0, motion.s))
    x, settled = newton(motion.flow, starts, size)
    x = wrapped(np.where(np.abs(x) < 1e-12 * size, 0.0, x), motion.periods)
    inside = ((x >= motion.box[0] - SAME * size) & (x <= motion.box[1] + SAME * size)).all(axis=1)
    x = x[settled & inside]
    x = x[np.lexsort(x.T[::-1])]
    kept: list[Float] = []
    for point in x:
        if all(np.abs(nearest_image((point - other)[None], motion.periods) / size).max() > SAME for other in kept):
            kept.append(point)
    return np.array(kept).reshape(-1, motion.s)


def _low_speed(motion: Motion, starts: Float) -> Float:
    """The starts around which a component of the flow changes its sign, each: others hold no zero nearby."""
    shape = mesh_of(motion, STARTS[motion.s]).shape
    b = motion.flow(starts).reshape(*shape, motion.s)
    may = np.ones(shape, dtype=bool)
    for i in range(motion.s):
        high, low = b[..., i], b[..., i]
        for axis in range(motion.s):
            shifted = [np.roll(high, k, axis) for k in (-1, 0, 1)], [np.roll(low, k, axis) for k in (-1, 0, 1)]
            high, low = np.maximum.reduce(shifted[0]), np.minimum.reduce(shifted[1])
        may &= (high >= 0) & (low <= 0)
    return starts[may.ravel() & ~still_places(motion)]


def kind_of(eigenvalues: Complex) -> str:
    """Whether a fixed point is stable, from the eigenvalues (s,) of the flow's slopes there."""
    largest = np.abs(eigenvalues).max()
    real = np.where(np.abs(eigenvalues.real) > SLOW * largest, eigenvalues.real, 0.0)
    turns = bool((np.abs(eigenvalues.imag) > SLOW * largest).any())
    if (real == 0).any():  # slopes do not tell
        return "centre" if turns and not real.any() else "marginal"
    if len(eigenvalues) == 1:
        return "stable" if real[0] < 0 else "unstable"
    if (real < 0).all():
        return "stable focus" if turns else "stable node"
    if (real > 0).all():
        return "unstable focus" if turns else "unstable node"
    return "saddle"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FixedPoints(Answer):
    """Fixed points: `value` has shape (k, s).

    Parameters
    ----------
    names : tuple of str
    eigenvalues : complex array of shape (k, s)
        Of the flow's slopes, the largest real part first.
    eigenvalue_samples : complex array of shape (n_samples, k, s)
    kinds : tuple of k str
        "stable", "unstable" for one variable; "stable node", "stable focus", "saddle", ... for more. Around a
        "centre" the flow turns and neither comes nearer nor goes away; of a "marginal" one slopes do not tell.
    found_in : array of shape (k,)
        Share of the samples that have this fixed point; NaN without samples.
    """

    names: tuple[str, ...]
    eigenvalues: Complex
    eigenvalue_samples: Complex
    kinds: tuple[str, ...]
    found_in: Float

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def stable(self) -> np.ndarray:
        """Which are stable: shape (k,)."""
        return np.array([kind.startswith("stable") for kind in self.kinds], dtype=bool)

    def value_text(self) -> str:
        """Line by line."""
        if not len(self):
            return "none within the range of the data"
        lines = []
        for i, kind in enumerate(self.kinds):
            parts = [f"{name} = {short(self._coordinate(i, j))}" for j, name in enumerate(self.names)]
            rates = ", ".join(_complex_text(value) for value in self.eigenvalues[i] if not _is_second(value))
            rates += behind(self.units.rate)
            shared = "" if not np.isfinite(self.found_in[i]) else f"; in {self.found_in[i]:.0%} of the samples"
            lines.append(f"{', '.join(parts)}: {kind} (eigenvalues {rates}){shared}")
        return "\n  " + "\n  ".join(lines)

    def _coordinate(self, i: int, j: int) -> Answer:
        """Variable j of fixed point i."""
        value, unit = float(np.asarray(self.value)[i, j]), self.units.of(self.names[j])
        return Answer(what="", value=value, samples=self.samples[:, i, j], unit=unit)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Filled where stable, open where not, crosses for saddles, with 95 % intervals; of the first two variables."""
        ax = axes_or_new(ax)
        x = np.asarray(self.value)
        low, high = (np.asarray(end) for end in self.interval())
        for i, kind in enumerate(self.kinds):
            y, errors = (x[i, 1], (low[i, 1], high[i, 1])) if len(self.names) > 1 else (0.0, (np.nan, np.nan))
            marker = "X" if kind == "saddle" else "o"
            face = "black" if kind.startswith("stable") else "white"
            ax.plot(x[i, 0], y, marker, color="black", markerfacecolor=face, markersize=8, zorder=5, label=kind)
            if np.isfinite(low[i, 0]):
                ax.plot([low[i, 0], high[i, 0]], [y, y], color=SECOND, linewidth=2, zorder=4)
            if np.isfinite(errors[0]):
                ax.plot([x[i, 0]] * 2, errors, color=SECOND, linewidth=2, zorder=4)
        label_plane(ax, self.names, self.units)
        if len(self.names) == 1:
            ax.set_yticks([])
        handles, labels = ax.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        if once:
            ax.legend(once.values(), once.keys(), frameon=False, fontsize="small")
        return ax


def _complex_text(value: complex) -> str:
    """A real number, or both of a conjugate pair."""
    if not _turns(value):
        return f"{value.real:.3g}"
    return f"{value.real:.3g} ± {abs(value.imag):.3g}i"


def _turns(value: complex) -> bool:
    return abs(value.imag) > 1e-6 * abs(value)


def _is_second(value: complex) -> bool:
    """Whether it is the second of a conjugate pair, which the first tells."""
    return _turns(value) and value.imag < 0


def fixed_points(
    sde: SDE, *, covariates: Held = None, box: Box = None, samples: int = 50, rng: RNG = None
) -> FixedPoints:
    """Where the flow is zero, and whether it leads there.

    Of one variable all within the range are found, of more those to which Newton's method leads from a grid of places
    (or from 1000 random ones with more than three variables). In samples each is looked for near where the value has
    it.

    Parameters
    ----------
    sde : SDE
        Of any number of variables. Of second-order systems velocities are zero at fixed points.
    covariates, box, samples, rng
        As for `stationary_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit import dynamics
    >>> from itofit.model.known import KnownSDE
    >>> sde = KnownSDE(f=lambda x: x - x**3, sigma=lambda x: np.ones((len(x), 1, 1)))
    >>> print(dynamics.fixed_points(sde, box=(-2, 2), samples=0))
    fixed points:
      x = -1: stable (eigenvalues -2)
      x = 0: unstable (eigenvalues 1)
      x = 1: stable (eigenvalues -2)
      no error bars: the equation has no posterior to draw from, or samples=0
    """
    motion = motion_of(sde, covariates, box)
    sampled = samples_of(sde, samples, rng)
    x = zeros_of(motion)
    size = motion.box[1] - motion.box[0]
    eigenvalues = _sorted_eigenvalues(slopes(motion.flow, x, size)) if len(x) else np.empty((0, motion.s), complex)
    own, own_eigenvalues = followed(motion, sampled, x)
    found = np.isfinite(own[:, :, 0]).mean(axis=0) if len(own) else np.full(len(x), np.nan)
    return FixedPoints(
        what="fixed points",
        value=x,
        samples=own,
        names=motion.names,
        eigenvalues=eigenvalues,
        eigenvalue_samples=own_eigenvalues,
        kinds=tuple(kind_of(values) for values in eigenvalues),
        found_in=found,
        notes=(EVERY_POINT,) if motion.s in STARTS and still_places(motion).any() else (),
        units=motion.units,
    )


def _sorted_eigenvalues(J: Float) -> Complex:
    values = np.linalg.eigvals(J).astype(complex)
    order = np.lexsort((-values.imag, -values.real), axis=-1)
    return np.take_along_axis(values, order, axis=-1)


def followed(motion: Motion, sampled: DrawnSDEs | None, x: Float) -> tuple[Float, Complex]:
    """Fixed points of samples (n_samples, k, s) near given ones (k, s), NaN where there are none, and eigenvalues."""
    if sampled is None or not len(x):
        n = 0 if sampled is None else len(sampled)
        return np.empty((n, *x.shape)), np.empty((n, *x.shape), complex)
    size = motion.box[1] - motion.box[0]

    def flow(points: Float) -> Float:
        return motion.sampled_flow_at_own(sampled, points)

    starts = np.broadcast_to(x, (len(sampled), *x.shape)).copy()
    own, settled = newton(flow, starts, size)
    if motion.underdamped:
        own[:, :, motion.s // 2 :] = 0.0  # velocities, which Newton's method has but for rounding
    away = np.abs((own - x) / size).max(axis=2)
    apart = np.abs((x[:, None] - x) / size).max(axis=2)
    nearest = np.where(np.eye(len(x), dtype=bool), 1.0, apart).min(axis=1)
    is_same = settled & (away < 0.7 * nearest)
    eigenvalues = _sorted_eigenvalues(slopes(flow, np.where(is_same[:, :, None], own, x), size))
    return np.where(is_same[:, :, None], own, np.nan), np.where(is_same[:, :, None], eigenvalues, np.nan)
