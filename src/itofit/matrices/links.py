"""From a symmetric matrix of Fourier series to a covariance that is positive definite.

In units of a reference covariance L Lᵀ, the mean of the data, Σ = L C Lᵀ and C = g(H): a symmetric H(x) whose entries
are Fourier series, and a function g of its eigenvalues.

==========  ============  ====================================================================================
link        g(η)          what for
==========  ============  ====================================================================================
identity    η             Σ is linear in the waves, as in the paper; positive definite by limits alone
square      η² + ε        a noise whose amplitude σ is smooth and keeps its sign
log         exp(η)        a noise that spans decades
==========  ============  ====================================================================================

For all of them the eigenvalues of C are kept between two limits, named with the result.

With H = Q diag(η) Qᵀ, a change dH changes C by dC = Q (K ∘ QᵀdH Q) Qᵀ, K_ab = (g(η_a) − g(η_b)) / (η_a − η_b).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.matrices.symmetric import LEAST_RATIO, Structure, entries, to_matrices

Link = Literal["identity", "square", "log"]

EPSILON = 1e-12
"""ε of the square link."""
LARGEST_EXPONENT = 200.0
"""|η| is cut there: all of double precision."""


def value(eta: Float, link: Link) -> Float:
    """g(η)."""
    if link == "identity":
        return eta
    if link == "square":
        return eta**2 + EPSILON
    return np.exp(np.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def slope(eta: Float, link: Link) -> Float:
    """g'(η)."""
    if link == "identity":
        return np.ones_like(eta)
    if link == "square":
        return 2 * eta
    return value(eta, link)


def divided_difference(eta: Float, link: Link) -> Float:
    """K_ab for eigenvalues η of shape (n, d): shape (n, d, d)."""
    eta = np.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT) if link == "log" else eta
    a, b = eta[:, :, None], eta[:, None, :]
    if link == "identity":
        return np.ones(np.broadcast_shapes(a.shape, b.shape))
    if link == "square":
        return a + b
    half = 0.5 * (a - b)
    ratio = np.where(np.abs(half) > 1e-4, np.sinh(half) / np.where(half == 0, 1.0, half), 1 + half**2 / 6)
    return np.asarray(np.exp(0.5 * (a + b)) * ratio)


def inverse_at_one(link: Link) -> float:
    """η with g(η) = 1."""
    return 0.0 if link == "log" else 1.0


class Shape(NamedTuple):
    """Which matrices H there are: symmetric of size d, or diagonal."""

    structure: Structure
    d: int

    @property
    def n_entries(self) -> int:
        """Number of free entries of H."""
        return len(entries(self.structure, self.d)[0])

    @property
    def separate(self) -> bool:
        """Whether the entries of H do not know of each other."""
        return self.structure == "diagonal" or self.d == 1


class Spectrum(NamedTuple):
    """H of every cell by its eigenvalues; without Q the entries do not know of each other."""

    eta: Float  # (n, d)
    Q: Float | None  # (n, d, d): eigenvectors, in columns

    @classmethod
    def of(cls, H: Float, shape: Shape) -> Spectrum:
        """From the entries of H, shape (n, p)."""
        if shape.separate:
            return cls(H, None)
        return cls(*np.linalg.eigh(to_matrices(H, shape.structure, shape.d)))

    def diagonal(self, turned: Float) -> Float:
        """The diagonal of what `turned` returns, shape (n, d)."""
        return turned if self.Q is None else np.asarray(np.diagonal(turned, axis1=1, axis2=2))

    def turned(self, S: Float, shape: Shape) -> Float:
        """QᵀSQ for the entries (n, p) of symmetric matrices S: shape (n, d, d), or (n, d) without Q."""
        if self.Q is None:
            return S
        return np.asarray(self.Q.swapaxes(1, 2) @ to_matrices(S, shape.structure, shape.d) @ self.Q)


def covariance_at(H: Float, link: Link, shape: Shape, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
    """C for the entries (n, p) of H, its eigenvalues kept within limits (2, d), and where that changed them.

    Returns
    -------
    C : array of shape (n, d, d)
    changed : array of bool, shape (n,)
    """
    spectrum = Spectrum.of(H, shape)
    free = value(spectrum.eta, link)
    C = np.clip(free, *limits)
    if spectrum.Q is None:
        return to_matrices(C, "diagonal", shape.d), np.any(free != C, axis=1)
    if np.isfinite(limits[0, 0]):
        C = np.maximum(C, LEAST_RATIO * C.max(axis=1, keepdims=True))
    changed = np.any(free != C, axis=1)
    return np.asarray((spectrum.Q * C[:, None, :]) @ spectrum.Q.swapaxes(1, 2)), changed


def derivatives_of_covariance(H: Float, link: Link, shape: Shape) -> Iterator[Float]:
    """∂C/∂H_e for each entry e of H (n, p), without limits: matrices of shape (n, d, d)."""
    rows, cols = entries(shape.structure, shape.d)
    spectrum = Spectrum.of(H, shape)
    for i, j in zip(rows, cols, strict=True):
        change = np.zeros((len(H), shape.d, shape.d))
        if spectrum.Q is None:
            change[:, i, i] = slope(spectrum.eta, link)[:, i]
        else:
            Q = spectrum.Q
            turned = Q[:, i, :, None] * Q[:, j, None, :]
            if i != j:
                turned = turned + turned.swapaxes(1, 2)
            change = Q @ (divided_difference(spectrum.eta, link) * turned) @ Q.swapaxes(1, 2)
        yield change
