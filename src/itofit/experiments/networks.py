"""What networks for drift and diffusion compute; trained by gradients, they are what Algorithm 2 is compared with.

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
and the Fourier features as arguments, so that NumPy and JAX evaluate the same definition.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from itofit._checks import Float
from itofit.matrices.symmetric import Structure, entries
from itofit.waves.trigonometry import cos_sin

Architecture = Literal["fourier", "relu"]
Array: TypeAlias = Any
"""An array of NumPy or of JAX."""
Network: TypeAlias = dict[str, Array]
"""Arrays by name: `bias` (p,); `omega`, `cosine` and `sine` of a Fourier layer; `weights0`, `bias0`, `weights1`, ... of
hidden layers, with the output weights `out` (H, p)."""


def numpy_features(omega: Float, u: Float) -> tuple[Float, Float]:
    """The cosines and the sines of ω·u, each of shape (n, K)."""
    both = cos_sin(omega, u).T
    return both[:, : len(omega)], both[:, len(omega) :]


def outputs(
    network: Network, u: Array, *, xp: ModuleType = np, features: Callable[..., tuple[Array, Array]] = numpy_features
) -> Array:
    """The outputs of a network at scaled inputs u of shape (n, m): shape (n, p).

    A Fourier layer adds to the outputs directly. Hidden ReLU layers take its cosines and sines, or the inputs if there
    is no Fourier layer.
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
    """The number of hidden layers of a network, without its Fourier layer."""
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
        Number of inputs.
    structure : {"diagonal", "full"}
    xp : module
        NumPy or jax.numpy.
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
    """T of shape (n, d, d) from the outputs of a diffusion network, which pass through softplus on the diagonal."""
    rows, cols = entries(structure, d)
    T = np.zeros((len(diffusion), d, d))
    T[:, rows, cols] = np.where(rows == cols, np.logaddexp(diffusion, 0.0), diffusion)
    return T


def inverse_softplus(y: Float | float) -> Float:
    """The number whose softplus is y > 0."""
    return np.asarray(y + np.log(-np.expm1(-y)))
