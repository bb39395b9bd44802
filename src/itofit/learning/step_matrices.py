"""Moments of steps, and how they compare: divergences, matrices in units of others, and changes through a link."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmm

from itofit._checks import Float
from itofit.data.passes import Data
from itofit.data.transitions import Transitions
from itofit.learning.automatic.covariance import CovarianceFit
from itofit.learning.automatic.principal import Basis
from itofit.learning.automatic.sigma import Sigma
from itofit.learning.spread import Posterior
from itofit.matrices.links import Spectrum
from itofit.matrices.small_matrices import inverse_of_root
from itofit.matrices.symmetric import entries, factors, symmetric
from itofit.model.finite_step import Step, moments_of_step
from itofit.waves.scaling import Scaling

SHARE_OF_RIDGE, SHARE_OF_SIGMA_RIDGE = 0.001, 0.1
"""Of the ridges of drift and covariance, with which their corrections are projected on the features.

So these stay smooth between rare places, and are hardly shrunk where there are data.
"""
LEAST_SLOPE = 1e-3
"""Of C in H, relative to the largest at a place: smaller ones would turn rounding into changes of H."""


def moments_of(
    x: Float, h: Float, drift: Posterior, basis: Basis, sigma: Sigma, *, scaling: Scaling, data: Data | Transitions
) -> Step:
    """The steps of length h (n,) that a drift and a covariance make from inputs x (n, m) like those of some data."""
    series = basis.series(drift.amplitudes[:, 0], drift.amplitudes[:, 1:].T, scaling)
    return moments_of_step(
        x,
        h,
        series,
        lambda places: covariance_at(places, sigma, scaling),
        underdamped=data.kind == "underdamped",
        n_held=data.n_covariates,
    )


def covariance_at(x: Float, sigma: Sigma, scaling: Scaling) -> Float:
    """A covariance at inputs x (n, m), symmetric to the last bit: shape (n, d, d)."""
    values = sigma.at(scaling.points(x))
    return values if sigma.fit.shape.separate else symmetric(values)


def divergences(away: Float, grown: Float, h: Float) -> Float:
    """Kullback-Leibler divergences (n,) of steps whose means and covariances differ by (n, d, 1) and (n, d, d) of C."""
    ratio, axes = np.linalg.eigh(np.eye(grown.shape[1]) + grown)
    ratio = np.maximum(ratio, 1e-12)
    turned = (axes.swapaxes(1, 2) @ away)[:, :, 0]
    return np.asarray(0.5 * (h[:, None] * turned**2 / ratio + 1 / ratio - 1 + np.log(ratio)).sum(axis=1))


def in_units(matrices: Float, sigma: Float) -> Float:
    """L⁻¹ M L⁻ᵀ with L Lᵀ = Σ: shape (n, d, d)."""
    back = inverse_of_root(factors(sigma))
    return symmetric(back @ matrices @ back.swapaxes(1, 2))


def function_variances(features: Float, squares: Float) -> Float:
    """Of functions of features (n, R + 1), for amplitudes with mean squares (d, R + 1, R + 1): shape (n, d)."""
    variances = np.empty((len(features), len(squares)))
    for j, own in enumerate(squares):
        used = np.flatnonzero(np.diagonal(own))  # of what was switched off they are zero
        part, inner = np.take(features, used, axis=1), own[np.ix_(used, used)]
        try:
            root = np.linalg.cholesky(inner)
        except np.linalg.LinAlgError:  # singular up to rounding
            variances[:, j] = np.einsum("na,na->n", part @ inner, part)
            continue
        turned = dtrmm(1.0, root, part.T, trans_a=1, lower=1, overwrite_b=1)  # half the work of part @ inner
        variances[:, j] = np.einsum("an,an->n", turned, turned)
    return variances


def without_part(C: Float, part: Float) -> Float:
    """C less a part of it, in its own units, that leaves something of it: shape (n, d, d).

    Each eigenvalue e of the part leaves 1 − e, and for e > ½, ¼/e.
    """
    values, vectors = np.linalg.eigh(part)
    left = np.where(values <= 0.5, 1 - values, 0.25 / np.maximum(values, 0.5))
    axes = factors(C) @ vectors
    return symmetric((axes * left[:, None, :]) @ axes.swapaxes(1, 2))


def spectrum_and_information(fit: CovarianceFit, H: Float, count: Float) -> tuple[Spectrum, Float]:
    """The spectrum of H (n, p), and what (n, p) transitions tell of each entry, of which there are count (n,) each."""
    parts = fit.model.parts(H, np.zeros_like(H))
    C = np.maximum(parts.C, fit.limits[0] if fit.shape.separate else fit.limits[0, 0])
    _, information = fit.model.derivatives(parts._replace(C=C), count)
    return parts.spectrum, information


def change_through_link(spectrum: Spectrum, change: Float, sigma: Sigma) -> Float:
    """The change of H, to first order, that changes C by given entries, both of shape (n, p)."""
    link, shape = sigma.fit.link, sigma.fit.shape
    slopes = link.divided_difference(spectrum.eta)
    turned = spectrum.turned(change, shape)
    if spectrum.Q is None:
        slopes = np.diagonal(slopes, axis1=1, axis2=2)
    least = LEAST_SLOPE * np.abs(slopes).max(axis=tuple(range(1, slopes.ndim)), keepdims=True)
    dH = turned * slopes / np.maximum(slopes**2, least**2)
    if spectrum.Q is None:
        return np.asarray(dH)
    rows, cols = entries(shape.structure, shape.d)
    return np.asarray((spectrum.Q @ dH @ spectrum.Q.swapaxes(1, 2))[:, rows, cols])
