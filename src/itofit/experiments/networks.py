"""Networks for drift and diffusion that gradients train: the alternative that Algorithm 2 is compared with.

======  ==========  ==========  =========================================================================
symbol  name        shape       meaning
======  ==========  ==========  =========================================================================
u       u           (n, m)      inputs, each scaled to ±½ by the range of the training data
ω       omega       (K, m)      frequencies
a, b    cosine,     (p, K)      amplitudes of cos ω·u and sin ω·u: Re β̂ and −Im β̂ in Re Σ_k β̂_k exp(i ω_k·u)
        sine
L₀      unit        (d, d)      factor of the covariance that the increments have as a whole, lower triangular
f̄       mean        (d,)        mean drift
h̄       h           ()          mean time step
g, T                (n, d, …)   outputs of the two networks: f = f̄ + L₀ g / √h̄ and σ = L₀ T, T lower triangular
======  ==========  ==========  =========================================================================

In these units the Euler-Maruyama loss of a transition, with w = L₀⁻¹ (Δx − h f̄) / √h and ρ = √(h/h̄), is

    −log p = ½ |T⁻¹ (w − ρ g)|² + log det T + log det L₀ + (d/2) log(2π h),

in which only the first two terms depend on the networks. Functions that training needs too take the array module (`xp`)
and the Fourier features as arguments, so that NumPy and JAX evaluate one and the same definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from itofit._blocks import BLOCK_ROWS, map_chunks
from itofit._checks import (
    Float,
    InputError,
    columns,
    float_array,
    one_of,
)
from itofit.data.names import Kind, default_names
from itofit.data.rows import column_range, scaled
from itofit.data.transitions import Transitions
from itofit.matrices.symmetric import Structure, entries
from itofit.model.learned import LearnedSDE
from itofit.model.sde import SDE
from itofit.waves.series import FourierSeries
from itofit.waves.trigonometry import cos_sin

Architecture = Literal["fourier", "relu"]
Array: TypeAlias = Any
"""Of NumPy or of JAX."""
Network: TypeAlias = dict[str, Array]
"""Arrays by name: `bias` (p,) and, of a Fourier layer, `omega`, `cosine` and `sine`; of hidden layers
`weights0`, `bias0`, `weights1`, ... and the output weights `out` (H, p)."""

SMALL = 0.01
"""Amplitudes start uniformly in ± this, and so do all output weights of a diffusion network: it should not dominate
early."""
RIDGE = 1e-10
"""Of the fit that turns a learned covariance into a diffusion network, relative to the mean square of a feature."""
FIT_ROWS = 20_000
"""Training points of that fit, evenly spaced if there are more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """The units in which networks are trained; the module's table has the symbols."""

    box: Float
    mean: Float
    unit: Float
    h: float

    @classmethod
    def of(cls, data: Transitions, structure: Structure) -> Scaling:
        """Range of the inputs, mean drift, and covariance of all increments about it."""
        mean = data.increments.sum(axis=0) / data.h.sum()
        noise = (data.increments - data.h[:, None] * mean) / np.sqrt(data.h)[:, None]
        size = np.sqrt((noise**2).mean(axis=0))
        size[size == 0] = 1.0  # an output that never moves: any unit will do
        unit = np.diag(size)
        if structure == "full" and data.n_outputs > 1:
            correlation = (noise / size).T @ (noise / size) / len(data)
            # Nearly dependent outputs still have a unit each
            unit = size[:, None] * np.linalg.cholesky(correlation + 1e-9 * np.eye(len(size)))
        return cls(box=np.array(column_range(data.inputs)), mean=mean, unit=unit, h=float(data.h.mean()))

    @property
    def shift(self) -> Float:
        """The middle of the inputs' range."""
        return np.asarray(0.5 * self.box.sum(axis=0))

    @property
    def scale(self) -> Float:
        """The inputs' range, or one where that is nothing."""
        width = self.box[1] - self.box[0]
        return np.where(width > 0, width, 1.0)

    @property
    def drift_unit(self) -> Float:
        """L₀ / √h̄, shape (d, d)."""
        return self.unit / np.sqrt(self.h)

    def points(self, x: Float) -> Float:
        """U of shape (n, m) for inputs x."""
        return scaled(x, self.shift, self.scale)

    def rows(self, data: Transitions) -> Float:
        """All that training needs of each transition, [u, w, ρ]: shape (n, m + d + 1)."""
        noise = (data.increments - data.h[:, None] * self.mean) / np.sqrt(data.h)[:, None]
        w = np.linalg.solve(self.unit, noise.T).T
        return np.column_stack([self.points(data.inputs), w, np.sqrt(data.h / self.h)])

    def constant(self, data: Transitions) -> float:
        """The mean over transitions of what does not depend on the networks, log det L₀ + (d/2) log(2π h)."""
        log_det = np.log(np.diagonal(self.unit)).sum()
        return float(log_det + 0.5 * len(self.mean) * np.log(2 * np.pi * data.h).mean())


# What the networks compute, for NumPy and JAX alike


def numpy_features(omega: Float, u: Float) -> tuple[Float, Float]:
    """The cosines and the sines of ω·u, each of shape (n, K)."""
    both = cos_sin(omega, u).T
    return both[:, : len(omega)], both[:, len(omega) :]


def outputs(
    network: Network, u: Array, *, xp: ModuleType = np, features: Callable[..., tuple[Array, Array]] = numpy_features
) -> Array:
    """Values of a network at u (n, m): shape (n, p).

    A Fourier layer adds to the output directly; hidden ReLU layers stand on top of it, or on the inputs without one.
    """
    y, z = network["bias"], u
    if "omega" in network:
        c, s = features(network["omega"], u)
        # One product for each output: XLA is slow where a matrix of few columns is multiplied
        y = y + xp.stack([c @ a + s @ b for a, b in zip(network["cosine"], network["sine"], strict=True)], axis=1)
        z = xp.concatenate([c, s], axis=1) if "out" in network else None
    if "out" not in network:
        return y
    for i in range(n_hidden(network)):
        z = xp.maximum(z @ network[f"weights{i}"] + network[f"bias{i}"], 0.0)
    return y + z @ network["out"]


def n_hidden(network: Network) -> int:
    """How many hidden layers a network has, its Fourier layer not counted."""
    return sum(name.startswith("weights") for name in network)


def row_losses(
    drift: Array, diffusion: Array, rows: Array, m: int, structure: Structure, *, xp: ModuleType = np
) -> Array:
    """½ |T⁻¹ (w − ρ g)|² + log det T for each row [u, w, ρ], by forward substitution: shape (n,).

    Parameters
    ----------
    drift, diffusion : arrays of shape (n, d) and (n, number of entries)
        Outputs of the two networks.
    rows : array of shape (n, m + d + 1)
    m : int
    structure : {"diagonal", "full"}
    xp : module
    """
    d = drift.shape[1]
    residual = rows[:, m : m + d] - rows[:, m + d :] * drift
    if structure == "diagonal":
        T = xp.logaddexp(diffusion, 0.0)
        return (0.5 * (residual / T) ** 2 + xp.log(T)).sum(axis=1)
    white: list[Array] = []
    loss, k = 0.0, 0
    for i in range(d):
        z = residual[:, i]
        for j in range(i):
            z = z - diffusion[:, k + j] * white[j]
        T_ii = xp.logaddexp(diffusion[:, k + i], 0.0)
        white.append(z / T_ii)
        loss = loss + 0.5 * white[i] ** 2 + xp.log(T_ii)
        k += i + 1
    return loss


def triangular(diffusion: Float, structure: Structure, d: int) -> Float:
    """T of shape (n, d, d) from the outputs of a diffusion network: softplus on the diagonal."""
    rows, cols = entries(structure, d)
    T = np.zeros((len(diffusion), d, d))
    T[:, rows, cols] = np.where(rows == cols, np.logaddexp(diffusion, 0.0), diffusion)
    return T


def inverse_softplus(y: Float | float) -> Float:
    """The number whose softplus is y > 0."""
    return np.asarray(y + np.log(-np.expm1(-y)))


# How they start


def new_frequencies(rng: np.random.Generator, K: int, m: int, spread: float) -> Float:
    """Frequencies for inputs in ±½, normal with standard deviation `spread`.

    What was tried, by validation losses with the paper's settings as their excess over that of the truth (one to three
    data sets each, 6 to 60 epochs). Spread 1 is best for the smooth functions of 3b and 5 (0.015 and 0.011; spread 2:
    0.040 and 0.014; 5: 0.070 and 0.024; 0.5 and 0.25 train too slowly), but poor for 6 and 7 (0.248 and 0.022; spread
    5: 0.091 and 0.006; spread 10 on 7: 0.002). Student's distribution with two degrees of freedom lies between for all,
    and costs 4a and 4b some tenths. Inputs scaled to [0, 1], ±1 and unit variance were not better than ±½. Drift
    amplitudes in Glorot's bounds instead of ±0.01 make little difference. The unit L₀ of a full covariance, against
    units of each output alone, takes 0.05 to 0.18 off the loss of 4b.
    """
    return np.asarray(spread * rng.standard_normal((K, m)))


def new_network(
    rng: np.random.Generator, omega: Float | None, m: int, bias: Float, hidden: tuple[int, ...], bound: float | None
) -> Network:
    """A network of m inputs whose output weights are uniform in ± bound; None: in the bounds of Glorot.

    With a Fourier layer of frequencies omega, the output weights of hidden layers start at zero: they add nothing yet.
    """
    network: Network = {"bias": bias}
    width, p = m, len(bias)
    if omega is not None:
        K, network["omega"] = len(omega), omega
        network["cosine"], network["sine"] = _uniform(rng, 2 * K, p, bound).reshape(2, K, p).swapaxes(1, 2)
        width = 2 * K
    network |= hidden_layers(rng, width, hidden)
    if hidden:
        last = hidden[-1]
        network["out"] = _uniform(rng, last, p, bound) if omega is None else np.zeros((last, p))
    return network


def _uniform(rng: np.random.Generator, n_in: int, n_out: int, bound: float | None) -> Float:
    b = np.sqrt(6 / (n_in + n_out)) if bound is None else bound
    return rng.uniform(-b, b, (n_in, n_out))


def hidden_layers(rng: np.random.Generator, width: int, hidden: tuple[int, ...]) -> Network:
    """Layers of ReLU on top of `width` values, with normal weights as He has them."""
    layers: Network = {}
    for i, size in enumerate(hidden):
        layers[f"weights{i}"] = rng.standard_normal((width, size)) * np.sqrt(2 / max(width, 1))
        layers[f"bias{i}"] = np.zeros(size)
        width = size
    return layers


def unit_bias(structure: Structure, d: int) -> Float:
    """Outputs of a diffusion network for which T is the identity."""
    rows, cols = entries(structure, d)
    return np.where(rows == cols, inverse_softplus(1.0), 0.0)


def series_network(series: FourierSeries, scaling: Scaling) -> Network:
    """A Fourier layer equal to a learned drift, up to rounding."""
    omega, beta = in_units_of(series, scaling)
    inverse = np.linalg.inv(scaling.drift_unit)
    beta = inverse @ beta.T
    return {"bias": inverse @ (series.offset - scaling.mean), "omega": omega, "cosine": beta.real, "sine": -beta.imag}


def in_units_of(series: FourierSeries, scaling: Scaling) -> tuple[Float, npt.NDArray[np.complex128]]:
    """Frequencies and amplitudes of a series for inputs scaled as here."""
    omega = series.omega * (scaling.scale / series.scale)
    phase = series.omega @ ((scaling.shift - series.shift) / series.scale)
    return omega, series.beta * np.exp(1j * phase)[:, None]


def covariance_network(sde: LearnedSDE, scaling: Scaling, structure: Structure, x: Float) -> Network:
    """A Fourier layer with the frequencies of a learned covariance, whose T fits its Cholesky factor at points x."""
    omega, _ = in_units_of(sde.covariance_series, scaling)
    x = x[:: -(-len(x) // FIT_ROWS)]
    rows, cols = entries(structure, sde.n_outputs)
    T = np.linalg.solve(scaling.unit, np.linalg.cholesky(sde.covariance(x)))[:, rows, cols]
    wanted = np.where(rows == cols, inverse_softplus(np.where(rows == cols, T, 1.0)), T)
    A = cos_sin(omega, scaling.points(x)).T
    middle, centre = A.mean(axis=0), wanted.mean(axis=0)
    ridge = np.sqrt(RIDGE * len(x)) * np.eye(A.shape[1])
    sides = np.vstack([A - middle, ridge]), np.vstack([wanted - centre, np.zeros((A.shape[1], len(rows)))])
    amplitudes = np.linalg.lstsq(*sides, rcond=None)[0]
    cosine, sine = amplitudes[: len(omega)].T, amplitudes[len(omega) :].T
    return {"bias": centre - middle @ amplitudes, "omega": omega, "cosine": cosine, "sine": sine}


# The result


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkSDE(SDE):
    """dx = f(x) dt + σ(x) dW with two networks for f and σ. Arrays of float64 in and out; JAX is not needed.

    Parameters
    ----------
    drift_network, diffusion_network : dict of arrays
        See `Network`.
    scaling : Scaling
    structure : {"diagonal", "full"}
        Of σ.
    kind : {"diffusion", "underdamped", "general"}
        How the inputs follow from the moving state.
    """

    drift_network: Network
    diffusion_network: Network
    scaling: Scaling
    structure: Structure
    kind: Kind

    @property
    def n_inputs(self) -> int:
        """m, the number of variables that drift and diffusion depend on."""
        return self.scaling.box.shape[1]

    @property
    def n_outputs(self) -> int:
        """d, the number of variables that move."""
        return len(self.scaling.mean)

    @property
    def n_parameters(self) -> int:
        """How many numbers training found."""
        return sum(array.size for network in (self.drift_network, self.diffusion_network) for array in network.values())

    def drift(self, x: npt.ArrayLike) -> Float:
        """Drift f at the points x of shape (n, m): an array of shape (n, d)."""
        return np.asarray(self.scaling.mean + self._at(self.drift_network, x) @ self.scaling.drift_unit.T)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The default names."""
        return default_names(self.n_inputs, self.n_outputs, self.kind)[0]

    @property
    def output_names(self) -> tuple[str, ...]:
        """The default names."""
        return default_names(self.n_inputs, self.n_outputs, self.kind)[1]

    @property
    def box(self) -> Float:
        """Smallest and largest value of each input in the training data: shape (2, m)."""
        return self.scaling.box

    def _root(self, x: Float) -> Float:
        """Diffusion σ: lower triangular matrices of shape (n, d, d)."""
        T = triangular(self._at(self.diffusion_network, x), self.structure, self.n_outputs)
        return np.asarray(self.scaling.unit @ T)

    def covariance(self, x: npt.ArrayLike) -> Float:
        """Covariance Σ = σσᵀ at the points x of shape (n, m): shape (n, d, d)."""
        sigma = self._root(columns("x", x, n_columns=self.n_inputs))
        return np.asarray(sigma @ sigma.swapaxes(1, 2))

    def _at(self, network: Network, x: npt.ArrayLike) -> Float:
        """Outputs of a network at x, on all cores and in blocks whose features stay in the cache."""
        u = self.scaling.points(columns("x", x, n_columns=self.n_inputs))
        out = np.empty((len(u), len(network["bias"])))

        def fill(chunk: slice) -> None:
            for start in range(chunk.start, chunk.stop, BLOCK_ROWS):
                block = slice(start, min(start + BLOCK_ROWS, chunk.stop))
                out[block] = outputs(network, u[block])

        map_chunks(fill, len(u))
        return out

    # Files

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as plain arrays by name, which `numpy.savez` can write and `from_arrays` reads."""
        own = {
            "structure": np.array(self.structure),
            "kind": np.array(self.kind),
            **{f"scaling.{name}": np.asarray(getattr(self.scaling, name)) for name in _SCALING},
        }
        for part in _NETWORKS:
            own |= {f"{part}.{name}": array for name, array in getattr(self, f"{part}_network").items()}
        return own

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> NetworkSDE:
        """What `arrays` gave; other names in the mapping, such as those of a whole `.npz` file, are ignored."""
        missing = {"structure", "kind", *(f"scaling.{name}" for name in _SCALING)} - set(arrays)
        missing |= {f"{part}.bias" for part in _NETWORKS} - set(arrays)
        if missing:
            raise InputError(f"arrays lacks {', '.join(sorted(missing))}; pass what NetworkSDE.arrays returned")
        structure, kind = str(arrays["structure"]), str(arrays["kind"])
        one_of("structure", structure, get_args(Structure))
        one_of("kind", kind, get_args(Kind))
        found = {name: float_array(name, arrays[f"scaling.{name}"]) for name in _SCALING}
        networks = {
            f"{part}_network": {
                key.removeprefix(f"{part}."): float_array(key, arrays[key])
                for key in arrays
                if key.startswith(f"{part}.")
            }
            for part in _NETWORKS
        }
        scaling = Scaling(box=found["box"], mean=found["mean"], unit=found["unit"], h=float(found["h"]))
        return cls(**networks, scaling=scaling, structure=structure, kind=kind)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"NetworkSDE({self.n_inputs} inputs, {self.n_outputs} outputs, {self.n_parameters} parameters)"


_SCALING = ("box", "mean", "unit", "h")
_NETWORKS = ("drift", "diffusion")


def check_dimensions(name: str, data: object, m: int, d: int) -> None:
    """Raise unless `data` are transitions of m inputs and d outputs."""
    if not isinstance(data, Transitions):
        raise InputError(f"{name} must be Transitions in memory, got {type(data).__name__}")
    if (data.n_inputs, data.n_outputs) != (m, d):
        raise InputError(
            f"{name} must have {m} inputs and {d} outputs like the rest, got {data.n_inputs} and {data.n_outputs}"
        )
