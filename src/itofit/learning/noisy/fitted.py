"""Fitted: drift, covariance and errors of measurement that were learned together from what was observed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from itofit._checks import Float
from itofit.learning.automatic.learned_parts import LearnedDrift, LearnedSigma
from itofit.learning.automatic.method import Automatic
from itofit.learning.noisy.noisy_model import NoisyModel
from itofit.learning.noisy.track_scoring import Scored, evidence, scored_drift, scored_noise


class Fitted(NamedTuple):
    """Functions that were found with drawn states, their amplitudes from the observations, and Λ."""

    method: Automatic  # whose task has the drawn states
    drift: LearnedDrift
    covariance: LearnedSigma
    scored: Scored
    spread: Float  # (q, q): covariance of the entries of Λ
    evidence: float

    @classmethod
    def of(
        cls, method: Automatic, drift: LearnedDrift, covariance: LearnedSigma, scored: Scored, *, known: bool
    ) -> Fitted:
        """Amplitudes as they were scored, Λ being known or not, with the error bars that belong to them."""
        learned = scored_drift(scored, len(drift.rows.X))
        noisy, spread = scored_noise(scored, known=known)
        value = evidence(scored, learned, noisy)
        found = drift._replace(drift=learned), covariance._replace(sigma=noisy.sigma)
        return cls(method, *found, scored, spread, value)

    @property
    def model(self) -> NoisyModel:
        """The functions and Λ."""
        return self.scored.model

    @property
    def beyond_constants(self) -> float:
        """How many amplitudes more than constants have the observations determine."""
        drift, noise = self.drift.drift, self.covariance.sigma.fit
        return drift.determined - len(drift.intercept) + noise.determined - noise.shape.n_entries

    def or_simpler(self, fitted_with: Callable[[LearnedDrift], Fitted]) -> Fitted:
        """The same with the simplest candidate of a drift that is as evident, where another one was chosen.

        Drawn states move by finite steps. Where there are many of them, waves may be evident that stand for the length
        of the step, which is part of the filter.

        Parameters
        ----------
        fitted_with : callable
            The fit with another drift.
        """
        simple = self.drift.searched.candidates[0]
        if self.drift.waves is simple:
            return self
        other = fitted_with(self.method.drift_of(simple, self.drift, self.covariance))
        return other if other.evidence >= self.evidence else self
