"""The networks before training: drawn at random, or made from a learned equation.

The table in `itofit.experiments.networks` has the symbols.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.experiments.network_units import NetworkUnits
from itofit.experiments.networks import Architecture, Network, inverse_softplus
from itofit.matrices.symmetric import Structure, entries
from itofit.model.learned import LearnedSDE
from itofit.waves.series import FourierSeries
from itofit.waves.trigonometry import cos_sin

SMALL = 0.01
"""Amplitudes start uniformly in ± this, and so do all output weights of a diffusion network, which would otherwise
dominate early."""
RIDGE = 1e-10
"""Ridge of the fit that turns a learned covariance into a diffusion network, relative to the mean square of a
feature."""
FIT_ROWS = 20_000
"""Largest number of training points of that fit; if there are more, evenly spaced ones are used."""


# At random


def random_networks(
    rng: np.random.Generator,
    m: int,
    d: int,
    structure: Structure,
    *,
    n_features: int,
    hidden: tuple[int, ...],
    architecture: Architecture,
    spread: float,
) -> dict[str, Network]:
    """The networks `drift` and `diffusion` with random weights; the diffusion starts as that of constant noise.

    Parameters
    ----------
    rng : Generator
    m, d : int
        Numbers of inputs and outputs.
    structure : {"diagonal", "full"}
    n_features : int
        K, of each of the two Fourier layers.
    hidden : tuple of int
        Sizes of the hidden ReLU layers.
    architecture : {"fourier", "relu"}
    spread : float
        Standard deviation of the frequencies.
    """
    bias = unit_bias(structure, d)
    if architecture == "relu":
        return {
            "drift": new_network(rng, None, m, np.zeros(d), hidden, None),
            "diffusion": new_network(rng, None, m, bias, hidden, SMALL),
        }
    omega = new_frequencies(rng, 2 * n_features, m, spread).reshape(2, -1, m)
    return {
        "drift": new_network(rng, omega[0], m, np.zeros(d), hidden, SMALL),
        "diffusion": new_network(rng, omega[1], m, bias, hidden, SMALL),
    }


def new_frequencies(rng: np.random.Generator, K: int, m: int, spread: float) -> Float:
    """Frequencies for inputs in ±½, normal with standard deviation `spread`.

    Why each experiment has a spread of its own: validation losses above the truth's, with the paper's settings
    otherwise (one to three data sets each, 6 to 60 epochs). Spread 1 is best for the smooth functions of 3b and 5
    (0.015 and 0.011; spread 2: 0.040 and 0.014; 5: 0.070 and 0.024; 0.5 and 0.25 train too slowly), but poor for 6 and
    7 (0.248 and 0.022; spread 5: 0.091 and 0.006; spread 10 on 7: 0.002). Student's distribution with two degrees of
    freedom lies between for all, and costs 4a and 4b some tenths. Inputs scaled to [0, 1], ±1 and unit variance were
    not better than ±½. Drift amplitudes in Glorot's bounds instead of ±0.01 make little difference. The unit L₀ of a
    full covariance, against units of each output alone, takes 0.05 to 0.18 off the loss of 4b.
    """
    return np.asarray(spread * rng.standard_normal((K, m)))


def new_network(
    rng: np.random.Generator, omega: Float | None, m: int, bias: Float, hidden: tuple[int, ...], bound: float | None
) -> Network:
    """A network of m inputs and as many outputs as `bias` has.

    Output weights are uniform in ± bound, or in Glorot's bounds if that is None. Hidden layers on top of a Fourier
    layer (frequencies omega of shape (K, m)) start with output weights of zero, so that they add nothing yet.
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
    """Hidden ReLU layers on top of `width` values, with He's normal weights."""
    layers: Network = {}
    for i, size in enumerate(hidden):
        layers[f"weights{i}"] = rng.standard_normal((width, size)) * np.sqrt(2 / max(width, 1))
        layers[f"bias{i}"] = np.zeros(size)
        width = size
    return layers


def unit_bias(structure: Structure, d: int) -> Float:
    """The outputs of a diffusion network for which T is the identity: shape (number of entries,)."""
    rows, cols = entries(structure, d)
    return np.where(rows == cols, inverse_softplus(1.0), 0.0)


# From a learned equation


def learned_networks(
    rng: np.random.Generator,
    sde: LearnedSDE,
    units: NetworkUnits,
    structure: Structure,
    x: Float,
    hidden: tuple[int, ...],
) -> dict[str, Network]:
    """The networks `drift` and `diffusion` that compute what a learned equation does.

    Parameters
    ----------
    rng : Generator
        Draws the weights of hidden layers.
    sde : LearnedSDE
        Its drift is a series.
    units : NetworkUnits
    structure : {"diagonal", "full"}
    x : array of shape (n, m)
        The points at which the diffusion is fitted.
    hidden : tuple of int
        Sizes of hidden ReLU layers on top of the Fourier layers; they add nothing yet.
    """
    networks = {
        "drift": series_network(sde.drift_function.series, units),
        "diffusion": covariance_network(sde, units, structure, x),
    }
    for network in networks.values() if hidden else ():
        network.update(hidden_layers(rng, 2 * len(network["omega"]), hidden))
        network["out"] = np.zeros((hidden[-1], len(network["bias"])))
    return networks


def series_network(series: FourierSeries, units: NetworkUnits) -> Network:
    """A Fourier layer that equals a learned drift up to rounding."""
    omega, beta = in_network_units(series, units)
    inverse = np.linalg.inv(units.drift_unit)
    beta = inverse @ beta.T
    return {"bias": inverse @ (series.offset - units.mean), "omega": omega, "cosine": beta.real, "sine": -beta.imag}


def in_network_units(series: FourierSeries, units: NetworkUnits) -> tuple[Float, npt.NDArray[np.complex128]]:
    """Frequencies (K, m) and amplitudes (K, p) of a series as a function of the scaled inputs u."""
    omega = series.omega * (units.scale / series.scale)
    phase = series.omega @ ((units.shift - series.shift) / series.scale)
    return omega, series.beta * np.exp(1j * phase)[:, None]


def covariance_network(sde: LearnedSDE, units: NetworkUnits, structure: Structure, x: Float) -> Network:
    """A Fourier layer with the frequencies of a learned covariance, whose T fits the Cholesky factor of Σ at x.

    Least squares with a tiny ridge, for the outputs of the network that would give T = L₀⁻¹ L, where L Lᵀ = Σ.
    """
    omega, _ = in_network_units(sde.covariance_function.series, units)
    x = x[:: -(-len(x) // FIT_ROWS)]
    rows, cols = entries(structure, sde.n_outputs)
    T = np.linalg.solve(units.unit, np.linalg.cholesky(sde.covariance(x)))[:, rows, cols]
    wanted = np.where(rows == cols, inverse_softplus(np.where(rows == cols, T, 1.0)), T)
    A = cos_sin(omega, units.points(x)).T
    A_mean, wanted_mean = A.mean(axis=0), wanted.mean(axis=0)
    ridge = np.sqrt(RIDGE * len(x)) * np.eye(A.shape[1])
    left = np.vstack([A - A_mean, ridge])
    right = np.vstack([wanted - wanted_mean, np.zeros((A.shape[1], len(rows)))])
    amplitudes = np.linalg.lstsq(left, right, rcond=None)[0]
    cosine, sine = amplitudes[: len(omega)].T, amplitudes[len(omega) :].T
    return {"bias": wanted_mean - A_mean @ amplitudes, "omega": omega, "cosine": cosine, "sine": sine}
