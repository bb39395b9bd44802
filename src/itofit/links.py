"""From a symmetric matrix of Fourier series to a covariance that is positive definite.

In units of a reference covariance L Lᵀ, the mean of the data, Σ = L C Lᵀ and C = g(H): a symmetric H(x) whose entries are
Fourier series, and a function g of its eigenvalues.

==========  ============  ====================================================================================
link        g(η)          what for
==========  ============  ====================================================================================
identity    η             Σ is linear in the waves, as in the paper; positive definite by limits alone
square      η² + ε        a noise whose amplitude σ is smooth, also where it vanishes; ε is the floor
log         exp(η)        a noise that spans decades
==========  ============  ====================================================================================

For all of them the eigenvalues of C are kept between two limits, named with the result.

With H = Q diag(η) Qᵀ, a change dH changes C by dC = Q (K ∘ QᵀdH Q) Qᵀ, K_ab = (g(η_a) − g(η_b)) / (η_a − η_b).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from itofit._checks import Float

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
    a, b = eta[:, :, None], eta[:, None, :]
    if link == "identity":
        return np.ones(np.broadcast_shapes(a.shape, b.shape))
    if link == "square":
        return a + b
    half = 0.5 * np.clip(a - b, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    ratio = np.where(np.abs(half) > 1e-4, np.sinh(half) / np.where(half == 0, 1.0, half), 1 + half**2 / 6)
    return np.asarray(np.exp(np.clip(0.5 * (a + b), -LARGEST_EXPONENT, LARGEST_EXPONENT)) * ratio)


def inverse_at_one(link: Link) -> float:
    """η with g(η) = 1."""
    return 0.0 if link == "log" else 1.0
