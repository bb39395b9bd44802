"""The drift and covariance whose finite steps have the moments that were learned.

What transitions tell are the mean rate m and the covariance C of one step (`itofit.finite_step`). Given a drift and a
covariance, the mean of a wave over the step that they make from x is a function of x again, so the mean of the steps of
a drift (1, X) c is (1, X̄) c, with features X̄ that are the means of X. At the places of the data (1, X̄) ≈ (1, X) B for
a matrix B, and the drift whose steps have the mean m = (1, X) c is (1, X) B⁻¹c; the posterior of its amplitudes is that
of m, multiplied by B⁻¹ as well. The covariance moves by what its own steps lack of C, in its own features. Both are
repeated with the new drift and covariance.

Where B⁻¹ would amplify noise it is held back. The correction of an output has at each place a variance v, from the
posterior of the amplitudes of m with its ridges, and over all data the mean square b² besides: the one for which the
squares of corrections are most likely, if they are normal numbers of variance b² + v. Only the share b² / (b² + v), the
trust, is corrected: all of it where the data determine the correction, nothing where it is noise.

All this is about steps whose lengths were set beforehand. Where the path itself decides when it is seen, after every
tenth event for example, Δx hardly changes with h at one place, although it should by f. Then C is left as it is: the
mean is still that of steps of the mean length, by the identity of Wald, but the covariance is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import Float
from itofit.covariance import entries, factors, symmetric
from itofit.evidence import OFF, Basis, solve_penalised, with_intercept
from itofit.finite_step import START_WEIGHT, mean_signal, moments_of_step, trusted
from itofit.links import Spectrum, divided_difference
from itofit.records import StepCorrection
from itofit.refine.covariance import NO_FEATURES
from itofit.refine.drift import Drift, amplitude_ridges
from itofit.refine.noise import Sigma, features_at
from itofit.regression import Scaling
from itofit.rows import scaled
from itofit.spread import posterior_squares
from itofit.transitions import Transitions

MOST_ROUNDS = 4
MOST_CHANGE = 1 / START_WEIGHT
"""Relative change of the drift from which on it is withheld: means over steps are never so much smaller."""
SETTLED = 0.01
"""Share of the correction that may be missing after the last round."""
LEAST_SLOPE = 1e-3
"""Of C in H, relative to the largest at a place: smaller ones would turn rounding into changes of H."""
LEAST_VARIATION = 0.01
"""Standard deviation of h relative to its mean from which on it is asked who chose them."""
MOST_NEIGHBOURS = 20
"""Transitions that start nearby, of which the usual h is the mean."""
SIGNIFICANT = 3.0
"""Standard errors."""
JITTER = 1e-9
"""Ridge of projections, relative to the features' own sizes."""


class Corrected(NamedTuple):
    """Drift and covariance, and how far they were corrected."""

    drift: Drift
    sigma: Sigma
    noise: Float  # (d, R + 1, R + 1): of the amplitudes of m
    record: StepCorrection


def undo_step(data: Transitions, drift: Drift, basis: Basis, sigma: Sigma, scaling: Scaling) -> Corrected:
    """Correct what was learned of one step.

    Parameters
    ----------
    data : Transitions
        Some of those it was learned from, whose steps are followed.
    drift, basis : Drift, Basis
        m and its features.
    sigma : Sigma
        C.
    scaling : Scaling
    """
    places = _Places(data, drift, basis, scaling)
    mean, C = places.values(drift), places.covariance(sigma)
    chosen = lengths_chosen(places.scaled(data.inputs), data.h, data.increments, mean, C)
    f, corrected, trust_of_C, share = drift, sigma, np.zeros(len(C)), 1.0
    with one_blas_thread:
        for rounds in range(1, MOST_ROUNDS + 1):
            step = places.steps(f, corrected)
            f, signal, trust = places.corrected_drift(drift, f, step)
            if not places.relative_change(mean, f) < MOST_CHANGE:  # means over steps say nothing of such waves
                f, signal, trust = drift, 0 * signal, 0 * trust
                break
            if not chosen:
                corrected, trust_of_C = places.corrected_covariance(corrected, C, step)
            if rounds == 1:  # a correction by some share of f and Σ is itself wrong by that share of it
                change_of_C = _in_units(C - places.covariance(corrected), C).reshape(len(C), -1)
                share = max(places.relative_change(mean, f), _size(change_of_C))
            if share**rounds < SETTLED:
                break
    change_of_C = _in_units(C - places.covariance(corrected), C).reshape(len(C), -1)
    record = StepCorrection(
        h=float(places.mean(data.h)),
        signal=signal,
        drift_change=places.relative_change(mean, f),
        covariance_change=_size(change_of_C),
        drift_trust=float(places.mean(trust).mean()),
        covariance_trust=float(trust_of_C.mean()),
        distrusted=float(places.mean((trust.min(axis=1) < 0.5).astype(float))),
        rounds=rounds,
        lengths_chosen=chosen,
    )
    return Corrected(f, corrected, places.noise, record)


def lengths_chosen(u: Float, h: Float, increments: Float, drift: Float, sigma: Float) -> bool:
    """Whether paths chose the lengths of their steps: Δx does not grow by f as h does at one place.

    Parameters
    ----------
    u, h, increments : arrays of shapes (n, m), (n,) and (n, d)
        Transitions, their inputs scaled.
    drift, sigma : arrays of shapes (n, d) and (n, d, d)
        m and C there.
    """
    if not h.std() > LEAST_VARIATION * h.mean() or len(h) < MOST_NEIGHBOURS:
        return False
    from scipy.spatial import cKDTree  # noqa: PLC0415  # a quarter of the time to import itofit

    near = cKDTree(u).query(u, k=MOST_NEIGHBOURS)[1]
    usual = h[near[:, 1:]].mean(axis=1)  # not its own
    longer = (h - usual) / usual
    residual = increments - h[:, None] * drift
    unit, white = np.moveaxis(np.linalg.solve(factors(sigma), np.stack([drift, residual], axis=2)), 2, 0)
    size = (unit**2).sum(axis=1)
    told = max(float((longer**2 * usual) @ size), 1e-300)
    slope = longer @ (unit * white).sum(axis=1) / told
    return bool(slope < -0.5 - SIGNIFICANT * np.sqrt(longer**2 @ (h * size)) / told)


class _Steps(NamedTuple):
    """Steps from n places."""

    covariance: Float  # (n, d, d): Cov Δx / h
    change: Float  # (n, R + 1): (1, X̄) − (1, X)
    crosses: Float  # (d, n, R + 1): what each feature as a drift would add to ∫ E (x_t − μ) fᵀ / h, row by row


class _Places:
    """Transitions whose steps are followed, with the features of the drift where they start.

    As in the fits that are corrected, they count for the drift by their lengths, and for the covariance alike.
    """

    def __init__(self, data: Transitions, learned: Drift, basis: Basis, scaling: Scaling) -> None:
        self.x, self.h, self.underdamped = data.inputs, data.h, data.kind == "underdamped"
        self.weight = data.h / data.h.sum()
        self.basis, self.scaling = basis, scaling
        self.noise = posterior_squares(learned.systems, learned.unit)  # (d, R + 1, R + 1)
        self.ones = self.features(self.x)
        self.gram = (self.ones.T * self.weight) @ self.ones
        self.gram[np.diag_indices(len(self.gram))] *= 1 + JITTER

    def mean(self, values: Float) -> Float:
        """Weighted by the lengths of steps."""
        return np.asarray(np.tensordot(self.weight, values, 1))

    def relative_change(self, mean: Float, drift: Drift) -> float:
        """Root mean square over outputs of the size of a drift's difference to values (n, d), relative to theirs."""
        squares = self.mean((self.values(drift) - mean) ** 2) / np.maximum(self.mean(mean**2), 1e-300)
        return float(np.sqrt(squares.mean()))

    def scaled(self, x: Float) -> Float:
        return scaled(x, self.scaling.shift, self.scaling.scale)

    def features(self, x: Float) -> Float:
        """One and X: shape (n, R + 1)."""
        return with_intercept(self.basis.at(self.scaled(x)))

    def values(self, drift: Drift) -> Float:
        """Of a drift: shape (n, d)."""
        return np.asarray(self.ones @ drift.amplitudes.T)

    def covariance(self, sigma: Sigma) -> Float:
        """Of Σ: shape (n, d, d)."""
        return symmetric(sigma.at(self.scaled(self.x)))

    def steps(self, drift: Drift, sigma: Sigma) -> _Steps:
        """Those that a drift and a covariance make."""
        series = self.basis.series(drift.intercept, drift.c, self.scaling.shift, self.scaling.scale)
        step = moments_of_step(
            self.x, self.h, series, lambda x: symmetric(sigma.at(self.scaled(x))), underdamped=self.underdamped
        )
        change = START_WEIGHT * (self.features(step.start) if self.underdamped else self.ones) - self.ones
        crosses = np.zeros((step.away.shape[2], *self.ones.shape))
        share = (1 - START_WEIGHT) / len(step.places)
        for away, place in zip(step.away, step.places, strict=True):
            features = share * self.features(place)
            change += features
            crosses += away.T[:, :, None] * features
        return _Steps(step.covariance, change, crosses)

    def corrected_drift(self, learned: Drift, drift: Drift, step: _Steps) -> tuple[Drift, Float, Float]:
        """The drift of which steps like these make the mean that was learned, b² (d,) and the trust (n, d)."""
        change = step.change
        noise = _variances(change, self.noise)
        signal = mean_signal((change @ drift.amplitudes.T) ** 2, noise, self.weight)
        trust = trusted(signal, noise)
        operators = np.repeat(np.eye(len(self.gram))[None], len(signal), axis=0)
        in_use = amplitude_ridges(learned.ridges, self.basis).reshape(len(signal), -1) < OFF
        for B, own, used in zip(operators, trust.T, map(np.flatnonzero, in_use), strict=True):
            right = (self.ones[:, used].T * (self.weight * own)) @ change[:, used]
            B[np.ix_(used, used)] += np.linalg.solve(self.gram[np.ix_(used, used)], right)
        return learned.solved(operators), signal, trust

    def corrected_covariance(self, sigma: Sigma, C: Float, step: _Steps) -> tuple[Sigma, Float]:
        """The covariance of which steps like these make the C that was learned, and the trust (n,)."""
        grown = _in_units(step.covariance - self.covariance(sigma), C)
        noise = self.noise_of_growth(step, C)
        trust = trusted(mean_signal((grown**2).sum(axis=(1, 2)), noise, np.ones(len(noise))), noise)
        return self.moved(sigma, _without(C, trust[:, None, None] * grown)), trust

    def noise_of_growth(self, step: _Steps, C: Float) -> Float:
        """Variance of what the noise of the drift makes of (∇f) Σ + Σ (∇f)ᵀ, in units of C: shape (n,)."""
        variances = np.diagonal(C, axis1=1, axis2=2)
        noise = np.zeros(len(C))
        for cross, own in zip(step.crosses, variances.T, strict=True):
            noise += 2 * (_variances(cross, self.noise) / (own[:, None] * variances)).sum(axis=1)
        return noise

    def moved(self, sigma: Sigma, wanted: Float) -> Sigma:
        """A covariance moved towards another one at the places, in its own features and to first order."""
        fit = sigma.fit
        rows, cols = entries(fit.shape.structure, fit.shape.d)
        X = with_intercept(features_at(sigma.basis, self.scaled(self.x)))
        H, back = X @ fit.B, np.linalg.inv(sigma.L)
        parts = fit.model.parts(H, np.zeros_like(H))
        difference = symmetric(back @ wanted @ back.T) - fit.at(X[:, 1:])
        change = _change_through_link(parts.spectrum, difference[:, rows, cols], sigma)
        _, weight = fit.model.derivatives(parts._replace(C=np.maximum(parts.C, fit.limits[0])), np.ones(len(H)))
        B = fit.B.copy()
        for j, own in enumerate(weight.T):
            A = (X.T * own) @ X
            off = amplitude_ridges(fit.ridges[j : j + 1], sigma.basis or NO_FEATURES) >= OFF
            ridges = np.where(off, OFF * np.diagonal(A).max(), JITTER * np.diagonal(A))
            B[:, j] += solve_penalised(A, X.T @ (own * change[:, j]), ridges)[0]
        return sigma._replace(fit=fit._replace(B=B))


def _size(vectors: Float) -> float:
    """Root mean square of the lengths of vectors (n, k)."""
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def _in_units(matrices: Float, sigma: Float) -> Float:
    """L⁻¹ M L⁻ᵀ with L Lᵀ = Σ: shape (n, d, d)."""
    back = np.linalg.inv(factors(sigma))
    return symmetric(back @ matrices @ back.swapaxes(1, 2))


def _variances(features: Float, squares: Float) -> Float:
    """Of functions of features (n, R + 1), for amplitudes with mean squares (d, R + 1, R + 1): shape (n, d)."""
    return np.stack([((features @ own) * features).sum(axis=1) for own in squares], axis=1)


def _without(C: Float, part: Float) -> Float:
    """C less a part of it, in its own units, that leaves something of it: shape (n, d, d).

    Each eigenvalue e of the part leaves 1 − e, and for e > ½, ¼/e.
    """
    values, vectors = np.linalg.eigh(part)
    left = np.where(values <= 0.5, 1 - values, 0.25 / np.maximum(values, 0.5))
    axes = factors(C) @ vectors
    return symmetric((axes * left[:, None, :]) @ axes.swapaxes(1, 2))


def _change_through_link(spectrum: Spectrum, change: Float, sigma: Sigma) -> Float:
    """The change of H, to first order, that changes C by given entries, both of shape (n, p)."""
    link, shape = sigma.fit.link, sigma.fit.shape
    slopes = divided_difference(spectrum.eta, link)
    turned = spectrum.turned(change, shape)
    if spectrum.Q is None:
        slopes = np.diagonal(slopes, axis1=1, axis2=2)
    least = LEAST_SLOPE * np.abs(slopes).max(axis=tuple(range(1, slopes.ndim)), keepdims=True)
    dH = turned * slopes / np.maximum(slopes**2, least**2)
    if spectrum.Q is None:
        return np.asarray(dH)
    rows, cols = entries(shape.structure, shape.d)
    return np.asarray((spectrum.Q @ dH @ spectrum.Q.swapaxes(1, 2))[:, rows, cols])
