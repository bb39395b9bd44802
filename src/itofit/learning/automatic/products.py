"""Residual products and their likelihood: how a covariance C = g(H) is judged by them.

In units of a reference covariance L Lᵀ a cell of n transitions (`itofit.learning.automatic.cells`) has the residual
products S = Σ L⁻¹ rrᵀ L⁻ᵀ / h, and the negative log-likelihood of C = g(H) (`itofit.matrices.links`) is

    ½ (n log det C + tr C⁻¹S).

Where the noise is not Gaussian, jumps for example, S varies more than by 2C². For the entries of a diagonal Σ with the
identity link its variance is taken to be 2C² + 2κC for each transition, with κ estimated from the data, and the
quasi-likelihood

    ½ (n log (C + κ) + S/κ · log (1 + κ/C))

that belongs to it is minimised: κ = 0 is the Gaussian one, a large κ that of counts. Otherwise the places of weakest
noise, where single jumps say everything, would decide the fit.

Eigenvalues of a full C have an upper limit, C = min(g(η), limit), also while it is fitted. A noise that is nearly
singular in a direction that turns needs an H that changes fast, and waves that cannot follow would overshoot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, Int
from itofit.learning.automatic.principal import with_intercept
from itofit.matrices.links import Link, Shape, Spectrum
from itofit.matrices.symmetric import entries

LARGEST_RATIO = 1000.0
"""Of S and nC, beyond which a cell says no more of tails: C is too small there."""


class Products(NamedTuple):
    """Residual products at cells, and the features there.

    Columns are contiguous in memory, of S and of all that is made of it: NumPy sums few long columns thirty times as
    fast as many short rows.
    """

    ones: Float  # (n, R + 1): one, then the principal features
    S: Float  # (n, p)
    count: Float  # type: ignore[assignment]  # (n,)
    fold: Int  # (n,)

    @classmethod
    def of(cls, X: Float, S: Float, count: Float, fold: Int) -> Products:
        """With features X of shape (n, R)."""
        return cls(with_intercept(X), np.asfortranarray(S), count, fold)

    def at(self, rows: Int) -> Products:
        """Those of some cells."""
        ones, S = (np.take(array.T, rows, axis=1).T for array in (self.ones, self.S))
        return Products(ones, S, self.count[rows], self.fold[rows])

    def with_added(self, added: float, entries: npt.NDArray[np.bool_]) -> Products:
        """Those with a number added to S / n of some entries (p,)."""
        if not added:
            return self
        S = self.S.copy(order="F")
        S[:, entries] += added * self.count[:, None]
        return self._replace(S=S)

    def values(self, B: Float) -> Float:
        """H (n, p) for amplitudes B (R + 1, p)."""
        return np.asarray((B.T @ self.ones.T).T)


class Parts(NamedTuple):
    """H and S of every cell, in the axes of H."""

    spectrum: Spectrum
    C: Float  # (n, d): eigenvalues of C
    turned: Float  # (n, d, d), or (n, d) where the entries are decoupled: S


class NoiseModel(NamedTuple):
    """How C follows from H, and how S varies."""

    link: Link
    shape: Shape
    kappa: float = 0.0
    most: float = np.inf  # upper limit of the eigenvalues of C

    def parts(self, H: Float, S: Float) -> Parts:
        """H (n, p) by its eigenvalues, with S (n, p) in the axes of its eigenvectors."""
        spectrum = Spectrum.of(H, self.shape)
        return Parts(spectrum, np.minimum(self.link.value(spectrum.eta), self.most), spectrum.turned(S, self.shape))

    def nll(self, parts: Parts, count: Float) -> float:
        """The (quasi-)likelihood of all cells; infinite if a C is not positive definite."""
        return float(self.nlls(parts, count).sum())

    def nlls(self, parts: Parts, count: Float) -> Float:
        """The same of each entry where the entries are decoupled: shape (k,), else (1,)."""
        spectrum, C, turned = parts
        own = spectrum.diagonal(turned)
        with np.errstate(invalid="ignore", divide="ignore"):  # a C of zero or less makes a sum that is not a number
            fit = own / C if self.kappa == 0 else own / self.kappa * np.log1p(self.kappa / C)
            nll = 0.5 * (count @ np.log(C + self.kappa) + np.ones(len(C)) @ fit)
        return self.together(np.where(np.isfinite(nll), nll, np.inf))

    def together(self, values: Float) -> Float:
        """Values (p,) summed over entries that are coupled: shape (k,)."""
        return values if self.shape.separate else values.sum(keepdims=True)

    def derivatives(self, parts: Parts, count: Float) -> tuple[Float, Float]:
        """Gradient of the nll in each entry of H, and its expected second derivative: shapes (n, p)."""
        spectrum, C, turned = parts
        if spectrum.Q is None:
            E, inverse = self.link.slope(spectrum.eta), 0.5 / (C * (C + self.kappa))
            return (count[:, None] * C - turned) * E * inverse, count[:, None] * E**2 * inverse
        gradient, changes = self.coupled_derivatives(parts, count)
        return gradient, 0.5 * count[:, None] * np.einsum("nea,nea->ne", changes, changes)

    def coupled_derivatives(self, parts: Parts, count: Float) -> tuple[Float, Float]:
        """Gradient of the nll in each entry of a full H, shape (n, p), and `changes`."""
        _, C, turned = parts
        changes, root = self.changes(parts), 1 / np.sqrt(C)
        inner = count[:, None, None] * np.eye(self.shape.d) - turned * root[:, :, None] * root[:, None, :]
        return 0.5 * (changes @ inner.reshape(len(C), -1, 1))[:, :, 0], changes

    def changes(self, parts: Parts) -> Float:
        """C^(-1/2) ∂C/∂H_e C^(-1/2) in the axes of a full H, for each of its entries e: shape (n, p, d²).

        Half of their products is what each transition is expected to say of pairs of entries.
        """
        spectrum, C, _ = parts
        assert spectrum.Q is not None
        d, Q, root = self.shape.d, spectrum.Q, 1 / np.sqrt(C)
        K = self._divided_difference(spectrum.eta, C) * (root[:, :, None] * root[:, None, :])
        rows, cols = entries(self.shape.structure, d)
        changes = np.empty((len(C), len(rows), d, d))
        for place, (i, j) in enumerate(zip(rows, cols, strict=True)):
            turned = Q[:, i, :, None] * Q[:, j, None, :]
            changes[:, place] = K * (turned if i == j else turned + turned.swapaxes(1, 2))
        return changes.reshape(len(C), len(rows), d * d)

    def _divided_difference(self, eta: Float, C: Float) -> Float:
        """K_ab for eigenvalues η of H and C of C, shape (n, d): also where the upper limit keeps C down."""
        K = self.link.divided_difference(eta)
        kept_down = self.link.value(eta) > C
        changed = kept_down[:, :, None] | kept_down[:, None, :]
        difference = eta[:, :, None] - eta[:, None, :]
        ratio = (C[:, :, None] - C[:, None, :]) / np.where(difference == 0, 1.0, difference)
        return np.where(changed, ratio, K)

    def tails(self, H: Float, S: Float, count: Float) -> float:
        """κ, from the variance 2C² + 2κC of the products of each transition: zero for Gaussian noise.

        What a cell says of it is cut at LARGEST_RATIO of S and nC, so that no place where C is too small decides.
        """
        if not self.shape.separate or not self.link.linear:  # elsewhere the likelihood has no poles on the way
            return 0.0
        C, n = self.link.value(H), count[:, None]
        ratio = np.minimum(S / (n * C), LARGEST_RATIO)
        excess = n * C * (n * (ratio - 1) ** 2 / 2 - 1)
        return max(float(excess.sum() / (n.sum() * C.shape[1])), 0.0)
