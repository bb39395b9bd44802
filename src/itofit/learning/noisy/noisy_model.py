"""NoisyModel: drift, covariance and errors of measurement while they are learned from noisy tracks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from itofit._checks import Float
from itofit.data.periods import endless, is_periodic
from itofit.learning.automatic.evidence import amplitude_ridges, amplitudes_in_use
from itofit.learning.automatic.learned_parts import LearnedDrift
from itofit.learning.automatic.method import Automatic
from itofit.learning.automatic.principal import NO_FEATURES, Basis, with_intercept
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.matrices.links import covariance_at, derivatives_of_covariance
from itofit.matrices.symmetric import symmetric
from itofit.model.finite_step import Scheme
from itofit.model.hidden.gaussian_step import Functions, GaussianStep, tabulated
from itofit.model.hidden.tracking import NO_PRIOR, Prior
from itofit.model.hidden.windows import second_order_window_lengths, window_lengths
from itofit.model.training import SWITCHED_OFF
from itofit.waves.scaling import Scaling

NO_WAVE = 1e-7
"""Amplitude of a wave, relative to the size of the drift, below which it is one of a group that is switched off."""
PLACES = 512
"""States at which a step of scoring must not be too much for Σ."""
MANY = 1_000
"""Amplitudes of Σ, from which on it costs less to leave out what is switched off, and to pass once more in the end."""
NO_AMPLITUDE = 1e-8
"""Of the features of H: below, Σ is constant but for rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyModel:
    """An equation and the errors with which it is seen.

    Parameters
    ----------
    basis : Basis
        Of the drift.
    amplitudes : array of shape (d, R + 1)
        Of the drift, intercepts first.
    ridges : array of shape (d, G)
        Of the drift's groups, for outputs in their units.
    unit : array of shape (d,)
        Those units.
    sigma : Sigma
    noise : array of shape (d, d)
        Λ.
    scaling : Scaling
        Of the inputs.
    places : array of shape (n, m)
        Some of the states.
    box : array of shape (2, m)
        Outside, functions are those of the nearest point in it. Of periodic inputs it is one period.
    periods : array of shape (2, m)
        Where one period of each input begins and ends, both zero if it is not periodic.
    n_covariates : int
        How many of the inputs, the last ones, come from outside.
    n_rows : int
        Steps that a filter will make with it.
    scheme : {"corrected", "euler"}
        The moments of its steps.
    prior : Prior
        Of velocities, where the system is of second order and positions alone are observed.
    substeps : int
        Parts that a step is made of.
    """

    basis: Basis
    amplitudes: Float
    ridges: Float
    unit: Float
    sigma: Sigma
    noise: Float
    scaling: Scaling
    places: Float
    box: Float
    periods: Float
    n_covariates: int
    n_rows: int
    scheme: Scheme = "corrected"
    prior: Prior = NO_PRIOR
    substeps: int = 1

    @classmethod
    def of(
        cls,
        method: Automatic,
        drift: LearnedDrift,
        sigma: Sigma,
        *,
        noise: Float,
        n_rows: int,
        margin: float = 0.0,
        scheme: Scheme = "corrected",
        prior: Prior = NO_PRIOR,
        substeps: int = 1,
    ) -> NoisyModel:
        """The model that a method has learned, in the range of its data, on each side wider by a share of its length.

        Parameters
        ----------
        method, drift : Automatic, LearnedDrift
        sigma : Sigma
            Of the covariance, which may change with the place (`with_features`).
        noise, n_rows, scheme, prior, substeps
            As above.
        margin : float
        """
        survey, data = method.task.survey, method.task.data
        hidden = ~is_periodic(data.periods)  # covariates are known, and within their range
        hidden[data.n_inputs - data.n_covariates :] = False
        width = np.where(hidden, margin * (survey.high - survey.low), 0.0)
        return cls(
            basis=drift.basis,
            amplitudes=drift.drift.posterior.amplitudes,
            ridges=drift.drift.ridges,
            unit=drift.drift.unit,
            sigma=sigma,
            noise=noise,
            scaling=method.scaling,
            places=survey.sample[:PLACES],
            box=np.array([survey.low - width, survey.high + width]),
            periods=data.periods,
            n_covariates=data.n_covariates,
            n_rows=n_rows,
            scheme=scheme,
            prior=prior,
            substeps=substeps,
        )

    @property
    def second_order(self) -> bool:
        """Whether the state is (x, v), of which x is observed."""
        return len(self.prior.mean) > 0

    @property
    def step(self) -> GaussianStep:
        """One step of its state."""
        typical = np.diagonal(self.sigma.L @ self.sigma.L.T)
        return GaussianStep(
            self._functions,
            self._range,
            typical,
            second_order=self.second_order,
            scheme=self.scheme,
            substeps=self.substeps,
        )

    @property
    def _range(self) -> Float:
        return endless(self.box, self.periods)

    @cached_property
    def _functions(self) -> Functions:
        """Drift and covariance, by a table where there is one input."""
        series = self.basis.series(self.amplitudes[:, 0], self.amplitudes[:, 1:].T, self.scaling)
        size = np.sqrt((self.amplitudes[:, 1:] ** 2).sum(axis=1))  # as features have unit variance
        used = (np.abs(series.beta) > NO_WAVE * size).any(axis=1)
        if used.any():
            series = replace(series, omega=series.omega[used], beta=series.beta[used])

        off = float(np.abs(self.sigma.fit.B[1:]).max(initial=0.0)) < NO_AMPLITUDE
        constant = symmetric(self.sigma.at(self.scaling.points(self.box[:1]))) if off else None

        def exact(x: Float) -> tuple[Float, Float]:
            if constant is not None:
                return series(x), np.broadcast_to(constant, (len(x), *constant.shape[1:]))
            return series(x), symmetric(self.sigma.at(self.scaling.points(x)))

        return tabulated(exact, self.box, self.n_rows, self.periods, self.n_covariates)

    def window_lengths(self, h: float) -> tuple[int, int]:
        """Overlap and kept steps of windows for steps of about this length."""
        mean = self.sigma.L @ self.sigma.L.T
        if self.second_order:
            return second_order_window_lengths(mean, self.noise, h)
        return window_lengths(h * mean, self.noise)

    def drift_features(self, x: Float) -> Float:
        """One and the features of the drift at points (n, m) or the nearest in the box: shape (n, R + 1)."""
        return with_intercept(self.basis.at(self._scaled(x)))

    def noise_features(self, x: Float) -> tuple[Float, Float]:
        """The same of Σ, and ∂Σ/∂H_e: shapes (n, R + 1) and (n, p, d, d)."""
        fit, L = self.sigma.fit, self.sigma.L
        X = with_intercept(features_at(self.sigma.basis, self._scaled(x)))
        changes = np.stack(list(derivatives_of_covariance(X @ fit.B, fit.link, fit.shape)), axis=1)
        return X, np.asarray(L @ changes @ L.T)

    def _scaled(self, x: Float) -> Float:
        return self.scaling.points(np.clip(x, *self._range))

    # Ridges

    @property
    def drift_penalties(self) -> Float:
        """Ridge of each amplitude of the drift, in its own unit: shape (d (R + 1),)."""
        P = amplitude_ridges(self.ridges, self.basis)
        return P / np.repeat(self.unit, len(P) // len(self.unit)) ** 2

    @property
    def noise_penalties(self) -> Float:
        """Ridge of each amplitude of Σ, entry by entry: shape (p (R + 1),)."""
        basis = self.sigma.basis or NO_FEATURES
        return amplitude_ridges(self.sigma.fit.ridges, basis)

    @property
    def noise_in_use(self) -> npt.NDArray[np.bool_] | None:
        """Which amplitudes of Σ are not switched off, or not zero yet: shape (p, R + 1); None where all are few."""
        fit = self.sigma.fit
        if fit.B.size < MANY:
            return None
        return amplitudes_in_use(fit.ridges, self.sigma.basis or NO_FEATURES) | (np.abs(fit.B.T) > NO_AMPLITUDE)

    @property
    def penalty(self) -> float:
        """−log of the prior density.

        Half the sum of squared amplitudes, each times its ridge; those that are switched off are zero. And that of Σ.
        """
        total = 0.0
        pairs = ((self.drift_penalties, self.amplitudes.ravel()), (self.noise_penalties, self.sigma.fit.B.T.ravel()))
        for P, c in pairs:
            total += 0.5 * float((np.where(P < 0.1 * SWITCHED_OFF, P, 0.0) * c**2).sum())
        return total - self._power * float(np.linalg.slogdet(self._middle)[1])

    @property
    def _power(self) -> float:
        """Of det Σ, that its prior density grows with.

        Few observations hardly tell noise of the system from errors of measurement, and in some direction errors alone
        are often the likeliest. With this power, the Σ of largest density is the mean of what it may be: so it is for
        the covariance of normal numbers, with the prior of Jeffreys.
        """
        return 0.5 * (len(self.noise) + 1)

    @property
    def _middle(self) -> Float:
        """Σ where all features are zero, in its own units: shape (d, d)."""
        fit = self.sigma.fit
        return np.asarray(covariance_at(fit.B[:1], fit.link, fit.shape, fit.limits)[0][0])

    @property
    def away_from_singular(self) -> tuple[Float, Float]:
        """Information (p, p) and score (p,) of the intercepts of H from the prior of det Σ."""
        fit = self.sigma.fit
        changes = np.concatenate(list(derivatives_of_covariance(fit.B[:1], fit.link, fit.shape)))
        relative = np.linalg.solve(self._middle, changes)
        information = np.einsum("eij,fji->ef", relative, relative)
        return self._power * information, self._power * np.trace(relative, axis1=1, axis2=2)

    def between(self, other: NoisyModel, share: float) -> NoisyModel:
        """A model on the way to another one with the same features, with the ridges of that one."""
        fit, new = self.sigma.fit, other.sigma.fit
        B = fit.B + share * (new.B - fit.B)
        return replace(
            other,
            amplitudes=self.amplitudes + share * (other.amplitudes - self.amplitudes),
            sigma=other.sigma._replace(fit=replace(new, B=B)),
            noise=self.noise + share * (other.noise - self.noise),
        )
