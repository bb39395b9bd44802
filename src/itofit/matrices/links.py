"""From a symmetric matrix of Fourier series to a covariance that is positive definite.

In units of a reference covariance L Lᵀ, the mean of the data, Σ = L C Lᵀ and C = g(H): a symmetric H(x) whose entries
are Fourier series, and a function g of its eigenvalues, the link.

==========  ============  ====================================================================================
link        g(η)          what for
==========  ============  ====================================================================================
identity    η             Σ is linear in the waves, as in the paper; positive definite by limits alone
log         exp(η)        a noise that spans decades
square      η² + ε        a noise whose amplitude σ is smooth and keeps its sign
==========  ============  ====================================================================================

For all of them the eigenvalues of C are kept between two limits, named with the result.

With H = Q diag(η) Qᵀ, a change dH changes C by dC = Q (K ∘ QᵀdH Q) Qᵀ, K_ab = (g(η_a) − g(η_b)) / (η_a − η_b).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.matrices.symmetric import (
    Structure,
    eigenvalues,
    entries,
    kept_within,
    positive_definite,
    symmetric,
    to_matrices,
)

LinkName = Literal["identity", "square", "log"]

EPSILON = 1e-12
"""ε of the square link: C stays positive where H passes through zero."""
LARGEST_EXPONENT = 200.0
"""|η| of the log link is cut there: that is all of double precision."""
LARGEST_LOG_STEP = 3.0
"""By how much log C may change in one step of a fit, a factor of twenty, and by how much a fold's C may differ."""
NEARLY_ALL = 0.98
"""Share of the places at which that holds for a full Σ: a few where its axes jump would stop all others."""
TO_THE_BOUNDARY = 0.9
"""How much of the way to a C of zero one step of a fit with the identity link may go."""
LARGEST_FOLD_FACTOR = 10.0
"""By what factor the C of a fold may differ with the identity link: one step from an unsettled fit may be wild."""


# Which matrices, and their eigenvalues


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
        """Whether the entries of H are decoupled: each is a variance of its own."""
        return self.structure == "diagonal" or self.d == 1


class Spectrum(NamedTuple):
    """H of every cell by its eigenvalues; without Q its entries are decoupled."""

    eta: Float  # (n, d)
    Q: Float | None  # (n, d, d): eigenvectors, in columns

    @classmethod
    def of(cls, H: Float, shape: Shape) -> Spectrum:
        """From the entries of H, shape (n, p)."""
        if shape.separate:
            return cls(H, None)
        constant = bool((H[:1] == H).all())
        own = H[:1] if constant else H
        eta, Q = _eigenvalues_of_two(own) if shape.d == 2 else eigenvalues(to_matrices(own, shape.structure, shape.d))
        return cls(np.repeat(eta, len(H), axis=0), np.repeat(Q, len(H), axis=0)) if constant else cls(eta, Q)

    def diagonal(self, turned: Float) -> Float:
        """The diagonal of what `turned` returns, shape (n, d)."""
        return turned if self.Q is None else np.asarray(np.diagonal(turned, axis1=1, axis2=2))

    def turned(self, S: Float, shape: Shape) -> Float:
        """QᵀSQ for the entries (n, p) of symmetric matrices S: shape (n, d, d), or (n, d) without Q."""
        if self.Q is None:
            return S
        return np.asarray(self.Q.swapaxes(1, 2) @ to_matrices(S, shape.structure, shape.d) @ self.Q)


def _eigenvalues_of_two(H: Float) -> tuple[Float, Float]:
    """Eigenvalues (n, 2), ascending, and eigenvectors of [[a, b], [b, c]], for entries a, b, c of shape (n,)."""
    a, b, c = H.T
    mean, radius, angle = 0.5 * (a + c), np.hypot(0.5 * (a - c), b), 0.5 * np.arctan2(2 * b, a - c)
    cos, sin = np.cos(angle), np.sin(angle)
    Q = np.stack([np.stack([-sin, cos], axis=1), np.stack([cos, sin], axis=1)], axis=1)
    return np.stack([mean - radius, mean + radius], axis=1), Q


# The links


class Link(ABC):
    """How C follows from H, and what follows from that for fitting and for keeping H."""

    name: LinkName
    symbol: str
    """What the entries of H are those of, in texts."""
    meaning: str
    """What it means for Σ, in words."""
    at_one: float
    """η with g(η) = 1."""
    linear = False
    """Whether C is linear in H, and so may leave the positive definite matrices."""
    steady = False
    """Whether a transition tells as much of a decoupled entry of H, whatever that is."""

    @abstractmethod
    def value(self, eta: Float) -> Float:
        """g(η)."""

    @abstractmethod
    def slope(self, eta: Float) -> Float:
        """g'(η)."""

    @abstractmethod
    def divided_difference(self, eta: Float) -> Float:
        """K_ab for eigenvalues η of shape (n, d): shape (n, d, d)."""

    # Fitting

    def largest_share(self, H: Float, change: Float, shape: Shape, most: float = np.inf) -> Float:
        """The part of a change of H (n, p) that is not too much for C: one number for each decoupled entry, or one.

        Eigenvalues of a full C are cut at `most`.
        """
        return np.ones(shape.n_entries if shape.separate else 1)

    def near(self, values: Float, H: Float, shape: Shape) -> Float:
        """Values of H (n, p) that were extrapolated from H, kept so near to it that they mean something."""
        return values

    @abstractmethod
    def spread_with(self, ratio: Float, added: Float, typical: Float) -> tuple[Float, Float]:
        """The factor by which standard deviations of H grow, and what is added to them, when C itself changes.

        Parameters
        ----------
        ratio : array of shape (p,)
            By how much C grows.
        added : array of shape (p,)
            What is added to standard deviations of C, relative to its size.
        typical : array of shape (p,)
            That size.
        """

    # Keeping: what a model's series holds

    def kept(self, B: Float, L: Float, shape: Shape) -> Float:
        """Amplitudes (R + 1, p) of the functions that a model keeps, from those of H."""
        return B

    def covariance(self, kept: Float, L: Float, shape: Shape, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
        """Σ (n, d, d) from the kept functions (n, p), eigenvalues within limits (2, d), and where that changed it."""
        C, changed = covariance_at(kept, self, shape, limits)
        return symmetric(L @ C @ L.T), changed

    def below(self, eta: Float, most: Float | float) -> Float:
        """Eigenvalues η of H (n, d), moved to where g(η) is at its upper limit (d,) if it is beyond."""
        return eta

    def derivatives(self, kept: Float, L: Float, shape: Shape, most: Float | float = np.inf) -> Iterator[Float]:
        """∂Σ/∂H_e for each entry e of H, at the kept functions (n, p): matrices of shape (n, d, d).

        Where C is beyond its upper limit (d,), that of C at the limit.
        """
        for change in derivatives_of_covariance(kept, self, shape, most):
            yield L @ change @ L.T


class Identity(Link):
    """C = H. A model keeps the entries of Σ = L H Lᵀ themselves."""

    name: LinkName = "identity"
    symbol = "Σ"
    meaning = "the entries of Σ are sums of waves"
    at_one = 1.0
    linear = True

    def value(self, eta: Float) -> Float:
        """η."""
        return eta

    def slope(self, eta: Float) -> Float:
        """One."""
        return np.ones_like(eta)

    def divided_difference(self, eta: Float) -> Float:
        """Ones."""
        return np.ones((*eta.shape, eta.shape[1]))

    def largest_share(self, H: Float, change: Float, shape: Shape, most: float = np.inf) -> Float:
        """Most of the way to where a variance would vanish, of those that have not."""
        if not shape.separate:
            return super().largest_share(H, change, shape)
        fall = np.where(H > 0, -change / np.where(H > 0, H, 1.0), 0.0)
        return np.minimum(1.0, TO_THE_BOUNDARY / np.maximum(fall.max(axis=0), TO_THE_BOUNDARY))

    def near(self, values: Float, H: Float, shape: Shape) -> Float:
        """Variances within a factor of each other."""
        return np.clip(values, H / LARGEST_FOLD_FACTOR, LARGEST_FOLD_FACTOR * H) if shape.separate else values

    def spread_with(self, ratio: Float, added: Float, typical: Float) -> tuple[Float, Float]:
        """Standard deviations of H are those of C."""
        return ratio, added * typical

    def kept(self, B: Float, L: Float, shape: Shape) -> Float:
        """Entries of L H Lᵀ."""
        rows, cols = entries(shape.structure, shape.d)
        return np.asarray((L @ to_matrices(B, shape.structure, shape.d) @ L.T)[:, rows, cols])

    def covariance(self, kept: Float, L: Float, shape: Shape, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
        """The matrices themselves, to the last bit where they are within their limits."""
        if np.isinf(limits[0, 0]):
            return to_matrices(kept, shape.structure, shape.d), np.zeros(len(kept), dtype=bool)
        return positive_definite(kept, shape.structure, L, limits)

    def derivatives(self, kept: Float, L: Float, shape: Shape, most: Float | float = np.inf) -> Iterator[Float]:
        """They do not depend on H."""
        return super().derivatives(np.zeros_like(kept), L, shape)


class Square(Link):
    """C = H² + ε."""

    name: LinkName = "square"
    symbol = "√Σ"
    meaning = "Σ is the square of a matrix of sums of waves, in units of its mean"
    at_one = 1.0

    def value(self, eta: Float) -> Float:
        """η² + ε."""
        return np.asarray(eta**2 + EPSILON)

    def slope(self, eta: Float) -> Float:
        """2η."""
        return 2 * eta

    def divided_difference(self, eta: Float) -> Float:
        """η_a + η_b."""
        return np.asarray(eta[:, :, None] + eta[:, None, :])

    def below(self, eta: Float, most: Float | float) -> Float:
        """At most the root of the limit, of either sign."""
        root = np.sqrt(most)
        return np.clip(eta, -root, root)

    def spread_with(self, ratio: Float, added: Float, typical: Float) -> tuple[Float, Float]:
        """Relative standard deviations of H are half of those of C."""
        return np.sqrt(ratio), 0.5 * added * np.sqrt(typical)


class Log(Link):
    """C = exp H."""

    name: LinkName = "log"
    symbol = "log Σ"
    meaning = "Σ is the exponential of a matrix of sums of waves, in units of its mean"
    at_one = 0.0
    steady = True

    def value(self, eta: Float) -> Float:
        """Exp η."""
        return np.exp(np.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT))

    def slope(self, eta: Float) -> Float:
        """Exp η."""
        return self.value(eta)

    def divided_difference(self, eta: Float) -> Float:
        """Exp of the mean times sinh of half the difference over it."""
        eta = np.clip(eta, -LARGEST_EXPONENT, LARGEST_EXPONENT)
        a, b = eta[:, :, None], eta[:, None, :]
        half = 0.5 * (a - b)
        ratio = np.where(np.abs(half) > 1e-4, np.sinh(half) / np.where(half == 0, 1.0, half), 1 + half**2 / 6)
        return np.asarray(np.exp(0.5 * (a + b)) * ratio)

    def largest_share(self, H: Float, change: Float, shape: Shape, most: float = np.inf) -> Float:
        """As much as changes C by no more than a factor, of a full Σ at nearly all places."""
        if not shape.separate and most < np.inf:
            change = _change_below(np.log(most), H, change, shape)
        largest = np.quantile(np.abs(change).max(axis=1), 1.0 if shape.separate else NEARLY_ALL)
        share = min(1.0, LARGEST_LOG_STEP / max(float(largest), 1e-300))
        return share * super().largest_share(H, change, shape)

    def near(self, values: Float, H: Float, shape: Shape) -> Float:
        """Logarithms that differ by no more than a step."""
        return np.clip(values, H - LARGEST_LOG_STEP, H + LARGEST_LOG_STEP)

    def below(self, eta: Float, most: Float | float) -> Float:
        """At most the logarithm of the limit."""
        return np.minimum(eta, np.log(most))

    def spread_with(self, ratio: Float, added: Float, typical: Float) -> tuple[Float, Float]:
        """Standard deviations of H are the relative ones of C."""
        return np.ones(len(ratio)), added


def _change_below(most: float, H: Float, change: Float, shape: Shape) -> Float:
    """By how much a full H changes if its eigenvalues are cut at `most`, for a change of H itself: shapes (n, p).

    H may grow as it likes beyond, and has to where waves turn its axes fast.
    """
    spectrum = Spectrum.of(H, shape)
    high = np.flatnonzero(spectrum.eta.max(axis=1) > most)
    if not len(high) or spectrum.Q is None:
        return change
    free, Q = spectrum.eta[high], spectrum.Q[high]
    cut = np.minimum(free, most)
    difference = free[:, :, None] - free[:, None, :]
    same = (free <= most)[:, :, None] & (free <= most)[:, None, :]
    K = np.where(same, 1.0, (cut[:, :, None] - cut[:, None, :]) / np.where(difference == 0, 1.0, difference))
    rows, cols = entries(shape.structure, shape.d)
    felt = change.copy()
    turned = Q.swapaxes(1, 2) @ to_matrices(change[high], shape.structure, shape.d) @ Q
    felt[high] = (Q @ (K * turned) @ Q.swapaxes(1, 2))[:, rows, cols]
    return felt


IDENTITY = Identity()
LINKS: dict[LinkName, Link] = {link.name: link for link in (IDENTITY, Log(), Square())}
"""All links, the simplest first: one is left for a later one only if that is significantly better."""


# C


def covariance_at(H: Float, link: Link, shape: Shape, limits: Float) -> tuple[Float, npt.NDArray[np.bool_]]:
    """C for the entries (n, p) of H, its eigenvalues kept within limits (2, d), and where that changed them.

    Returns
    -------
    C : array of shape (n, d, d)
    changed : array of bool, shape (n,)
    """
    spectrum = Spectrum.of(H, shape)
    free = link.value(spectrum.eta)
    if spectrum.Q is None:
        C = np.clip(free, *limits)
        return to_matrices(C, "diagonal", shape.d), np.any(free != C, axis=1)
    C = kept_within(free, limits) if np.isfinite(limits[0, 0]) else free
    changed = np.any(free != C, axis=1)
    return np.asarray((spectrum.Q * C[:, None, :]) @ spectrum.Q.swapaxes(1, 2)), changed


def derivatives_of_covariance(H: Float, link: Link, shape: Shape, most: Float | float = np.inf) -> Iterator[Float]:
    """∂C/∂H_e for each entry e of H (n, p), or of H below an upper limit (d,) of C: matrices of shape (n, d, d)."""
    rows, cols = entries(shape.structure, shape.d)
    spectrum = Spectrum.of(H, shape)
    eta = link.below(spectrum.eta, most)
    for i, j in zip(rows, cols, strict=True):
        change = np.zeros((len(H), shape.d, shape.d))
        if spectrum.Q is None:
            change[:, i, i] = link.slope(eta)[:, i]
        else:
            Q = spectrum.Q
            turned = Q[:, i, :, None] * Q[:, j, None, :]
            if i != j:
                turned = turned + turned.swapaxes(1, 2)
            change = Q @ (link.divided_difference(eta) * turned) @ Q.swapaxes(1, 2)
        yield change
