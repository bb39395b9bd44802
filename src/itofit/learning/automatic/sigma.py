"""A learned covariance Σ = L C Lᵀ with the features that C depends on."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.learning.automatic.covariance import CovarianceFit
from itofit.learning.automatic.principal import NO_FEATURES, Basis
from itofit.matrices.links import covariance_at
from itofit.matrices.symmetric import reference_factor, symmetric, to_matrices
from itofit.waves.scaling import Scaling
from itofit.waves.series import FourierSeries

MOST_KNOWN = 2
"""Sets of features that are kept."""


def features_at(basis: Basis | None, u: Float) -> Float:
    """X at scaled points, shape (n, R); without a basis there are none."""
    return np.empty((len(u), 0)) if basis is None else basis.at(u)


class KnownFeatures:
    """Features at the cells of the data, which are asked for again and again."""

    def __init__(self) -> None:
        self.known: deque[tuple[Basis, Float, Float]] = deque(maxlen=MOST_KNOWN)

    def __call__(self, basis: Basis | None, u: Float) -> Float:
        """The same as `features_at`."""
        for own, places, X in self.known:
            if own is basis and places is u:
                return X
        X = features_at(basis, u)
        if basis is not None:
            self.known.append((basis, u, X))
        return X


class Sigma(NamedTuple):
    """A learned covariance L C Lᵀ."""

    basis: Basis | None  # None: it is constant
    L: Float
    fit: CovarianceFit
    simplest: CovarianceFit | None = None  # with the same features and the simplest of the links, if it was fitted too

    @property
    def constant(self) -> bool:
        """Whether it is the same everywhere."""
        return self.basis is None

    @property
    def loss(self) -> float:
        """The nll per transition on folds that it was not fitted to."""
        return self.fit.cv_nll + float(np.log(np.diagonal(self.L)).sum())

    def with_mean(self, value: Float) -> Sigma:
        """L C Lᵀ with L of another mean covariance (d, d): the same relative to it."""
        separate = self.fit.shape.separate
        return self._replace(L=np.diag(np.sqrt(np.diagonal(value))) if separate else reference_factor(value))

    def at(self, u: Float) -> Float:
        """Σ at scaled points, shape (n, d, d)."""
        sums = np.zeros((len(u), self.fit.shape.n_entries)) if self.basis is None else self.basis.sums(u, self.fit.c)
        return self._in_units(self.fit.intercept + sums)

    def of_features(self, X: Float) -> Float:
        """Σ for features X (n, R), shape (n, d, d)."""
        return self._in_units(self.fit.intercept + X @ self.fit.c)

    def _in_units(self, H: Float) -> Float:
        """Σ for the entries (n, p) of H: shape (n, d, d)."""
        fit, d = self.fit, len(self.L)
        if fit.shape.separate:  # L is diagonal, too
            unit = np.diagonal(self.L)
            return to_matrices(unit * np.clip(fit.link.value(H), *fit.limits) * unit, "diagonal", d)
        return np.asarray(self.L @ covariance_at(H, fit.link, fit.shape, fit.limits)[0] @ self.L.T)

    def precision(self, X: Float) -> Float:
        """Σ⁻¹ for features X (n, R); one for all if it is constant."""
        C = self.fit.at(X[:1] if self.constant else X)
        if self.fit.shape.separate:
            unit, own = np.diagonal(self.L), np.diagonal(C, axis1=1, axis2=2)
            return to_matrices(1 / (unit**2 * own), "diagonal", len(unit))
        back = np.linalg.inv(self.L)
        return symmetric(back.T @ np.linalg.inv(C) @ back)

    def features(self, scaling: Scaling) -> Basis:
        """Its basis; if it is constant, one with a frequency of zero and no features."""
        return self.basis or NO_FEATURES._replace(omega=np.zeros((1, len(scaling.shift))), transform=np.zeros((2, 0)))

    def series(self, scaling: Scaling) -> FourierSeries:
        """The functions that a model keeps: H, or what its link keeps instead."""
        B = self.fit.link.kept(self.fit.B, self.L, self.fit.shape)
        return self.features(scaling).series(B[0], B[1:], scaling)
