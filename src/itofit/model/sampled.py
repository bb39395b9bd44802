"""Equations drawn from the posterior of a learned one, evaluated together.

The error bars of a learned function with p outputs are q functions s_jk for each output j, whose squares add up to its
variance (`itofit.model.training`). So a draw of it is

    f_j + Σ_k z_jk s_jk,    z standard normal,

which is a Fourier series with the same frequencies: n draws are one series with n·p outputs, and cost one product of a
matrix with the features.

Errors of the drift's outputs are correlated as the noises are, since they are regressions of the same steps. With S_j
the values of s_jk at places all over the data's range, S_j = U_j D_j V_jᵀ, the numbers z_j = V_j U_jᵀ g_j of correlated
noise g_j at these places are standard normal for each output, and errors of two outputs at one place have the
correlation of their noises.

The entries of H that Σ is made of (`itofit.matrices.links`) are drawn like the drift, independently of each other and
of the drift. With the identity link a draw H + δ need not be positive definite; there it is the Σ^½ exp(Σ^-½ LδLᵀ Σ^-½)
Σ^½ that is equal to it to first order, so that variances are Gaussian in their logarithm, as `variance_interval` has
them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from itofit._checks import RNG, Float, InputError, count, generator, is_whole, shown
from itofit.data.names import Kind, plural
from itofit.data.units import Units
from itofit.matrices.links import LARGEST_LOG_STEP, LINKS, Shape, Spectrum
from itofit.matrices.symmetric import entries, factors, square_root, symmetric, to_matrices
from itofit.model.finite_step import Scheme
from itofit.model.likelihood import BATCH_ROWS
from itofit.model.measurement import HiddenVelocity, MeasurementNoise
from itofit.model.sde import SDE
from itofit.model.training import DataSummary
from itofit.waves.series import FourierSeries

if TYPE_CHECKING:
    from itofit.model.learned import LearnedSDE

PLACES = 512
"""Where outputs' errors are compared, at least; four times as many as there are functions s_jk otherwise."""


class _Draws(NamedTuple):
    """Draws of one learned equation: series of n·d drifts and of n·p changes of H, output by output of each draw."""

    sde: LearnedSDE
    drift: FourierSeries
    change: FourierSeries

    @property
    def n(self) -> int:
        return self.drift.n_outputs // self.sde.n_outputs

    def drifts(self, x: Float, sigmas: Float | None = None) -> Float:
        """Shape (n_draws, n, d)."""
        values = _apart(self.drift(x), self.n)
        if not self.sde.drift_in_noise_units:
            return values
        sigmas = self.covariances(x) if sigmas is None else sigmas
        roots = np.stack([square_root(own, "symmetric") for own in sigmas])
        return np.asarray(np.einsum("inab,inb->ina", roots, values))

    def covariances(self, x: Float) -> Float:
        """Shape (n_draws, n, d, d)."""
        sde = self.sde
        constant = not (sde.covariance_function.series.omega.any() or self.change.omega.any())
        at = x[:1] if constant else x
        changes = _apart(self.change(at), self.n)
        sigma = sde.covariance(at)
        shape = Shape(sde.structure, sde.n_outputs)
        if sde.link == "identity":
            n, n_points = changes.shape[:2]
            own = np.broadcast_to(sigma, (n, *sigma.shape)).reshape(-1, *sigma.shape[1:])
            drawn = _grown(own, changes.reshape(n * n_points, changes.shape[2]), sde.floor_factor, shape)
            drawn = drawn.reshape(n, *sigma.shape)
        else:
            kept, link = sde.covariance_function.series(at), LINKS[sde.link]
            drawn = np.stack([link.covariance(kept + own, sde.floor_factor, shape, sde.limits)[0] for own in changes])
        return np.repeat(drawn, len(x), axis=1) if constant else drawn


class DrawnSDEs(Sequence[SDE]):
    """Equations that were drawn, which are evaluated together: what answers with error bars need."""

    @abstractmethod
    def drift(self, x: npt.ArrayLike) -> Float:
        """Drifts at the points x of shape (n, m): an array of shape (n_samples, n, d)."""

    @abstractmethod
    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariances at the points x of shape (n, m): an array of shape (n_samples, n, d, d)."""

    @abstractmethod
    def drift_at_own(self, x: npt.ArrayLike) -> Float:
        """The drift of each equation at points of its own, x of shape (n_samples, n, m): shape (n_samples, n, d)."""


class SampledSDEs(DrawnSDEs):
    """Equations drawn from the posterior of a learned one; `LearnedSDE.sample` makes them.

    A sequence: each element is an SDE, with drift, covariance and simulate. All of them together are evaluated much
    faster than one after the other.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> data = itofit.Transitions.from_pairs(x, 0.9 * x + 0.3 * np.random.default_rng(1).normal(size=2000), h=0.1)
    >>> sampled = itofit.fit(data, rng=0).sample(20, rng=0)
    >>> sampled.drift([0.0, 0.5, 1.0]).shape, sampled.covariance([0.0, 0.5, 1.0]).shape
    ((20, 3, 1), (20, 3, 1, 1))
    >>> sampled[3].simulate(0.0, dt=0.1, n_steps=10, rng=0).shape
    (1, 11, 1)
    """

    def __init__(self, draws: Sequence[_Draws], seed: int | None = None) -> None:
        self._draws = tuple(draws)
        self.seed = seed

    @property
    def sde(self) -> LearnedSDE:
        """What they were drawn for."""
        return self._draws[0].sde

    def __len__(self) -> int:
        return sum(own.n for own in self._draws)

    @overload
    def __getitem__(self, i: int) -> SampledSDE: ...
    @overload
    def __getitem__(self, i: slice) -> list[SampledSDE]: ...
    def __getitem__(self, i: int | slice) -> SampledSDE | list[SampledSDE]:
        """One of the equations, or some of them."""
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not is_whole(i):
            raise InputError(f"choose an equation by its number or some with a slice, got {shown(i)}")
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {plural(len(self), 'equation')}, got number {i}")
        i = range(len(self))[i]
        for own in self._draws:
            if i < own.n:
                d, p = own.sde.n_outputs, own.change.n_outputs // own.n
                return SampledSDE(
                    _Draws(own.sde, _outputs(own.drift, i * d, d), _outputs(own.change, i * p, p)),
                )
            i -= own.n
        raise AssertionError

    def __iter__(self) -> Iterator[SampledSDE]:
        return (self[i] for i in range(len(self)))

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drifts at the points x of shape (n, m): an array of shape (n_samples, n, d)."""
        return np.concatenate([own.drifts(own.sde._points(x)) for own in self._draws])

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariances at the points x of shape (n, m): an array of shape (n_samples, n, d, d)."""
        return np.concatenate([own.covariances(own.sde._points(x)) for own in self._draws])

    def drift_at_own(self, x: npt.ArrayLike) -> Float:
        """The drift of each equation at points of its own, x of shape (n_samples, n, m): shape (n_samples, n, d)."""
        places, parts, first = np.asarray(x, dtype=float), [], 0
        for own in self._draws:
            mine = places[first : first + own.n]
            values = own.drifts(mine.reshape(-1, mine.shape[2])).reshape(own.n, *mine.shape[:2], own.sde.n_outputs)
            parts.append(values[np.arange(own.n), np.arange(own.n)])
            first += own.n
        return np.concatenate(parts)

    def __repr__(self) -> str:
        return f"SampledSDEs({len(self)} equations from the posterior of {self.sde!r})"


class SampledSDE(SDE):
    """One equation of `SampledSDEs`."""

    def __init__(self, draw: _Draws) -> None:
        self._draw = draw
        self.measurement_noise: MeasurementNoise | None = draw.sde.measurement_noise
        self.hidden_velocity: HiddenVelocity | None = draw.sde.hidden_velocity

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d)."""
        return self._draw.drifts(self._points(x))[0]

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ at the points x of shape (n, m): symmetric positive definite matrices of shape (n, d, d)."""
        points = self._points(x)
        parts = [self._draw.covariances(points[i : i + BATCH_ROWS])[0] for i in range(0, len(points), BATCH_ROWS)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_outputs, self.n_outputs))

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and covariance depend on."""
        return self._draw.sde.n_inputs

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return self._draw.sde.n_outputs

    @property
    def kind(self) -> Kind:
        """How the inputs follow from the state that moves."""
        return self._draw.sde.kind

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the inputs are called."""
        return self._draw.sde.input_names

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called."""
        return self._draw.sde.output_names

    @property
    def box(self) -> Float:
        """Smallest and largest value of each input in the data: shape (2, m)."""
        return self._draw.sde.box

    @property
    def n_covariates(self) -> int:
        """How many of the inputs, the last ones, come from outside and do not move."""
        return self._draw.sde.n_covariates

    @property
    def periods(self) -> Float:
        """Where one period of each input begins and ends, both zero if it is not periodic: shape (2, m)."""
        return self._draw.sde.periods

    @property
    def units(self) -> Units:
        """Units of the variables and of time, where they are known."""
        return self._draw.sde.units

    @property
    def data(self) -> DataSummary:
        """What the equation was learned from that this one was drawn for."""
        return self._draw.sde.data

    @property
    def floor_factor(self) -> Float:
        """The Cholesky factor of the mean covariance of these data: shape (d, d)."""
        return self._draw.sde.floor_factor

    @property
    def scheme(self) -> Scheme:
        """The moments of a step that this equation is meant for."""
        return self._draw.sde.scheme

    def __repr__(self) -> str:
        return f"SampledSDE(from the posterior of {self._draw.sde!r})"


@dataclass(frozen=True)
class _Uncertain:
    """A learned function with p outputs, and the values of its q functions s_jk at some places."""

    series: FourierSeries
    spread: FourierSeries

    def drawn(self, z: Float) -> FourierSeries:
        """The series of n draws, for numbers z (n, p, q)."""
        n, p, q = z.shape
        whole = FourierSeries(
            omega=self.spread.omega,
            beta=np.einsum("kjq,njq->knj", self.spread.beta.reshape(-1, p, q), z).reshape(-1, n * p),
            shift=self.spread.shift,
            scale=self.spread.scale,
            offset=np.einsum("jq,njq->nj", self.spread.offset.reshape(p, q), z).reshape(-1),
        )
        return _sum(self.series, whole, n)


def sampled(sde: LearnedSDE, n: int, rng: RNG) -> SampledSDEs:
    """`n` equations from the posterior of a learned one, in turns from it and the members of its ensemble.

    Of a bootstrap they are the fits to data sets that were drawn.
    """
    n = count("n", n)
    random, seed = generator(rng)
    members = (sde, *sde.members)
    if not all(member.has_error_bars for member in members):
        raise InputError(
            "this model carries no error bars, so nothing can be drawn: they belong to what fit learns by default, "
            "with refine=True"
        )
    if sde.bootstrapped:
        chosen = np.bincount(random.permutation(n) % len(sde.members), minlength=len(sde.members))
        return SampledSDEs([_copies(own, k) for own, k in zip(sde.members, chosen.tolist(), strict=True) if k], seed)
    shares = [len(range(k, n, len(members))) for k in range(len(members))]
    return SampledSDEs([_draws(own, k, random) for own, k in zip(members, shares, strict=True) if k], seed)


def _draws(sde: LearnedSDE, n: int, rng: np.random.Generator) -> _Draws:
    f, H = sde.drift_function, sde.covariance_function
    assert f.spread is not None
    assert H.spread is not None
    p = H.series.n_outputs
    drift = _Uncertain(f.series, f.spread).drawn(_correlated(sde, f.spread, n, rng))
    zero = replace(H.series, beta=np.zeros_like(H.series.beta), offset=np.zeros_like(H.series.offset))
    change = _Uncertain(zero, H.spread).drawn(rng.standard_normal((n, p, H.spread.n_outputs // p)))
    return _Draws(sde, drift, change)


def _copies(sde: LearnedSDE, n: int) -> _Draws:
    """An equation as it is, n times."""
    f, H = sde.drift_function, sde.covariance_function
    zero = replace(H.series, beta=np.zeros_like(H.series.beta), offset=np.zeros_like(H.series.offset))
    times = [replace(own, beta=np.tile(own.beta, n), offset=np.tile(own.offset, n)) for own in (f.series, zero)]
    return _Draws(sde, *times)


def _correlated(sde: LearnedSDE, spread: FourierSeries, n: int, rng: np.random.Generator) -> Float:
    """Standard normal numbers (n, d, q) for which errors of the outputs are correlated as the noises."""
    d = sde.n_outputs
    q = spread.n_outputs // d
    if d == 1:
        return rng.standard_normal((n, 1, q))
    mean = sde.floor_factor @ sde.floor_factor.T
    size = np.sqrt(np.diagonal(mean))
    root = np.linalg.cholesky(mean / np.outer(size, size))
    places = max(PLACES, 4 * q)
    at = sde.box[0] + (sde.box[1] - sde.box[0]) * np.random.default_rng(0).random((places, sde.n_inputs))
    noise = np.einsum("ab,inb->ina", root, rng.standard_normal((n, places, d)))
    values = spread(at).reshape(places, d, q)
    z = np.empty((n, d, q))
    for j in range(d):
        U, _, Vt = np.linalg.svd(values[:, j], full_matrices=False)
        z[:, j] = noise[:, :, j] @ U @ Vt
    return z


def _grown(sigma: Float, change: Float, L: Float, shape: Shape) -> Float:
    """Σ^½ exp(Σ^-½ LδLᵀ Σ^-½) Σ^½ for matrices Σ (n, d, d) and the entries (n, p) of δ, within a factor of twenty."""
    root = factors(sigma)  # any root of Σ gives the same result
    back = np.linalg.solve(root, np.broadcast_to(L, root.shape))
    relative = symmetric(back @ to_matrices(change, shape.structure, shape.d) @ back.mT)
    rows, cols = entries("full", shape.d)
    eta, Q = Spectrum.of(relative[:, rows, cols], Shape("full", shape.d))
    axes = root if Q is None else root @ Q
    return symmetric((axes * np.exp(np.clip(eta, -LARGEST_LOG_STEP, LARGEST_LOG_STEP))[:, None, :]) @ axes.mT)


def _apart(values: Float, n: int) -> Float:
    """Values (rows, n·p) of n draws as (n, rows, p)."""
    return values.reshape(len(values), n, values.shape[1] // n).swapaxes(0, 1)


def _outputs(series: FourierSeries, first: int, n: int) -> FourierSeries:
    """Some of the outputs of a series alone."""
    own = slice(first, first + n)
    return replace(series, beta=series.beta[:, own], offset=series.offset[own])


def _sum(series: FourierSeries, others: FourierSeries, n: int) -> FourierSeries:
    """A series with p outputs, n times, plus others with n·p of them."""
    beta, offset = np.tile(series.beta, n), np.tile(series.offset, n)
    if np.array_equal(series.omega, others.omega) and np.array_equal(series.scale, others.scale):
        return replace(others, beta=beta + others.beta, offset=offset + others.offset)
    omega = np.concatenate([series.omega * (others.scale / series.scale), others.omega])
    turn = np.exp(1j * (series.omega @ ((others.shift - series.shift) / series.scale)))
    both = np.concatenate([beta * turn[:, None], others.beta])
    return replace(others, omega=omega, beta=both, offset=offset + others.offset)
