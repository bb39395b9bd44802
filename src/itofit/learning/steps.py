"""The drift and covariance whose finite steps have the moments that were learned.

What transitions tell are the mean rate m and the covariance C of one step (`itofit.model.finite_step`). Given a drift
and a covariance, the mean of a wave over the step that they make from x is a function of x again, so the mean of the
steps of a drift (1, X) c is (1, X̄) c, with features X̄ that are the means of X. At the places of the data
(1, X̄) ≈ (1, X) B for a matrix B, and the drift whose steps have the mean m = (1, X) c is (1, X) B⁻¹c; the posterior of
its amplitudes is that of m, multiplied by B⁻¹ as well. The covariance moves by what its own steps lack of C, in its own
features. Both are repeated with the new drift and covariance, as long as that brings their steps nearer to those that
were learned; if data are less likely with the steps where that ends, on the whole or at any transition that is
followed, nothing is corrected.

Where B⁻¹ would amplify noise it is held back. The correction of an output has at each place a variance v, from the
posterior of the amplitudes of m with its ridges, and over all data the mean square b² besides: the one for which the
squares of corrections are most likely, if they are normal numbers of variance b² + v. Only the share b² / (b² + v), the
trust, is corrected: all of it where the data determine the correction, nothing where it is noise. Unless a correction
is asked for, it is made only if the mean trust in it is at least one half, and if the data can show it at all.

All this is about steps whose lengths were set beforehand. Where the path itself decides when it is seen, after every
tenth event for example, Δx hardly changes with h at one place, although it should by f. Then C is left as it is: the
mean is still that of steps of the mean length, by the identity of Wald, but the covariance is not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from itofit._blocks import map_tasks, one_blas_thread
from itofit._checks import Float
from itofit.learning.automatic.drift import Drift
from itofit.learning.automatic.evidence import amplitude_ridges
from itofit.learning.automatic.penalised import solve_penalised
from itofit.learning.automatic.principal import NO_FEATURES, Basis, with_intercept
from itofit.learning.automatic.sigma import Sigma, features_at
from itofit.learning.followed import LEAST_VARIATION, Followed, lengths_chosen
from itofit.learning.spread import Posterior, posterior_squares, spread_series
from itofit.learning.step_matrices import (
    SHARE_OF_RIDGE,
    SHARE_OF_SIGMA_RIDGE,
    change_through_link,
    covariance_at,
    divergences,
    function_variances,
    in_units,
    moments_of,
    spectrum_and_information,
    without_part,
)
from itofit.matrices.symmetric import entries, factors, symmetric
from itofit.model.finite_step import START_WEIGHT, Step, mean_signal, trusted
from itofit.model.likelihood import gaussian_nll
from itofit.model.training import SWITCHED_OFF, StepCorrection, StepOutcome
from itofit.waves.scaling import Scaling

Shares = tuple[tuple[float, float], ...]

MOST_ROUNDS = 6
"""Of corrections; more bring nothing that data could show."""
SHARES = ((1.0, 1.0), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.5, 0.0), (0.0, 0.5), (0.2, 0.2), (0.2, 0.0), (0.0, 0.2))
"""Of the corrections of f and Σ that are tried, until some bring the steps nearer to those that were learned."""
LEAST_ROUND_GAIN = 0.1
"""Of a round, relative to the divergence that is left: less is not worth another."""
UNSEEN = 0.1
"""Divergence in nats, of all transitions together, that they cannot show."""
MOST_LOSS = 0.005
"""Nats per transition and output that a correction may cost in likelihood; if it costs more, nothing is corrected."""
MOST_LOSS_LEFT = 0.01
"""The same as a share of how far steps were from those that were learned before the correction."""
MOST_LOSS_OF_ONE = 10.0
"""Nats that it may cost a single transition, however rare its place."""
LEAST_TRUST = 0.5
"""Mean share of a correction that is trusted, from which on it exceeds its uncertainty."""
LEAST_SHOWN = 0.5
"""Nats that the length of the steps must change the likelihood of all data by: one standard deviation."""
HOPELESS = 1e6
"""What a correction costs that leaves no finite likelihood."""
NUMBERS_AT_ONCE = 1_000_000
"""Of features during steps: with many inputs a transition has many of them."""
JITTER = 1e-9
"""Ridge of projections, relative to the features' own sizes."""


class Corrected(NamedTuple):
    """Drift and covariance, and how far they were corrected."""

    drift: Posterior
    sigma: Sigma
    spread_ratio: Float  # (p,): by how much standard deviations of the entries of H are larger than for C
    spread_added: Float  # (p,): and what the noise of the drift adds to them
    shown: float  # nats by which the length of the steps changes the likelihood of all data
    record: StepCorrection


def undo_step(
    followed: Followed, n_rows: int, drift: Drift, basis: Basis, sigma: Sigma, scaling: Scaling, *, always: bool
) -> Corrected:
    """Correct what was learned of one step.

    Parameters
    ----------
    followed : Followed
        Some of the transitions it was learned from.
    n_rows : int
        How many it was learned from.
    drift, basis : Drift, Basis
        m and its features.
    sigma : Sigma
        C.
    scaling : Scaling
    always : bool
        Also where the correction is smaller than its uncertainty, or too small for the data to show it.
    """
    places = _Places(followed, drift, basis, sigma, scaling, 0.0 if always else LEAST_TRUST)
    with one_blas_thread:
        first = places.start()
        change = places.corrected(first)
        shown = n_rows * first.loss
        outcome: StepOutcome = "corrected" if always else _worth_it(shown, change)
        state, n_rounds = _improved(places, first, change, n_rows) if outcome == "corrected" else (first, 0)
        excess = float(places.count @ places.excess(state.step.mean, state.step.covariance))
    if outcome == "corrected" and not places.accepts(state, excess, first):
        outcome = "too long" if shown >= LEAST_SHOWN else "too small"
    state = state if outcome == "corrected" else first
    record = places.record(state, change, n_rounds, excess, outcome)
    return Corrected(state.drift, state.sigma, *places.spread_of_covariance(state), shown, record)


def _worth_it(shown: float, change: _Change) -> StepOutcome:
    """Whether a correction that changes the likelihood of all data by so many nats is to be made."""
    if shown < LEAST_SHOWN:
        return "too small"
    return "corrected" if change.trust.any() or change.covariance_trust.any() else "uncertain"


def _improved(places: _Places, state: _State, change: _Change, n_rows: int) -> tuple[_State, int]:
    """The drift and covariance to which rounds of corrections lead, and the number of rounds."""
    n_rounds = 0
    while n_rounds < MOST_ROUNDS:
        n_rounds += 1
        better = places.nearer(state, change)
        if better is None:
            break
        gained, state = state.loss - better.loss, better
        if state.loss < UNSEEN / n_rows or gained < LEAST_ROUND_GAIN * state.loss:
            break
        change = places.corrected(state)
    return state, n_rounds


class _State(NamedTuple):
    """A drift, a covariance, and the steps that they make from n places."""

    drift: Posterior
    sigma: Sigma
    noise: Float  # (d, R + 1, R + 1): of the drift's amplitudes
    step: Step
    loss: float  # how far their moments are from m and C, as a divergence in nats per transition
    worst: float  # the same at the transition that suffers most from it
    made: Float  # (2,): shares of the corrections of drift and covariance that were made


class _FeaturesOfStep(NamedTuple):
    """What the features of the drift are during a step."""

    change: Float  # (n, R + 1): (1, X̄) − (1, X)
    crosses: Float  # (d, n, R + 1): what each feature as a drift would add to ∫ E (x_t − μ) fᵀ / h, row by row


class _Change(NamedTuple):
    """Where a round would take drift and covariance, and how far it is trusted."""

    drift: Posterior
    noise: Float  # (d, R + 1, R + 1): of its amplitudes
    sigma: Sigma
    signal: Float  # (d,): b² of the drift's correction
    trust: Float  # (n, d): in the drift's correction
    covariance_trust: Float  # (n,): in that of the covariance


class _Places:
    """Transitions whose steps are followed, with the features of the drift where they start.

    As in the fits that are corrected, they count for the drift by their lengths, and for the covariance alike.
    """

    def __init__(
        self, followed: Followed, drift: Drift, basis: Basis, sigma: Sigma, scaling: Scaling, least_trust: float
    ) -> None:
        data = followed.data
        self.x, self.increments, self.h = data.inputs, data.increments, data.h
        self.count = followed.count / followed.count.sum()
        self.least_trust = least_trust
        self.last: tuple[Step, _FeaturesOfStep] | None = None
        self.underdamped = data.kind == "underdamped"
        self.moments = partial(moments_of, scaling=scaling, data=data)
        self.weight = self.count * data.h / (self.count @ data.h)
        self.basis, self.scaling, self.learned, self.learned_sigma = basis, scaling, drift, sigma
        self.noise = posterior_squares(drift.systems, drift.unit)
        self.ones = self.features(self.x)
        self.gram = (self.ones.T * self.weight) @ self.ones
        self.gram[np.diag_indices(len(self.gram))] *= 1 + JITTER
        self.ridges = _ridges_for_weights(drift, basis)
        groups = basis.groups[(drift.ridges < SWITCHED_OFF).any(axis=0)]
        self.in_use = np.flatnonzero([True, *np.isin(basis.group, groups)]), basis.of_groups(groups)
        self.m, self.C = self.values(drift.posterior), self.covariance(sigma)
        self.chosen = lengths_chosen(scaling.points(self.x), data.h, data.increments, self.m, self.C, self.count)

    def start(self) -> _State:
        """The steps that m and C themselves would make as drift and covariance."""
        return self.followed(self.learned.posterior, self.learned_sigma, self.noise, np.zeros(2))

    def mean(self, values: Float) -> Float:
        """Weighted by the lengths of steps."""
        return np.asarray(np.tensordot(self.weight, values, 1))

    def features(self, x: Float) -> Float:
        """One and X: shape (n, R + 1)."""
        return with_intercept(self.basis.at(self.scaling.points(x)))

    def values(self, drift: Posterior) -> Float:
        """Values of a drift at the places: shape (n, d)."""
        return np.asarray(self.ones @ drift.amplitudes.T)

    def covariance(self, sigma: Sigma) -> Float:
        """A covariance at the places: shape (n, d, d)."""
        return covariance_at(self.x, sigma, self.scaling)

    def followed(self, drift: Posterior, sigma: Sigma, noise: Float, made: Float) -> _State:
        """The steps that a drift and a covariance make, of whose corrections some shares (2,) were made."""
        step = self.moments(self.x, self.h, drift, self.basis, sigma)
        return _State(drift, sigma, noise, step, *self.distances(step.mean, step.covariance), made)

    def during(self, step: Step) -> _FeaturesOfStep:
        """The features during a step; the last ones are kept, as most steps are tried in vain."""
        if self.last is None or self.last[0] is not step:
            used, basis = self.in_use  # what was switched off is zero, whatever its features are
            means = START_WEIGHT * (self.features(step.start) if self.underdamped else self.ones)[:, used]
            crosses = np.zeros((step.away.shape[2], *self.ones.shape))
            (n_places, n, m), R = step.places.shape, len(used)
            at_once = max(1, NUMBERS_AT_ONCE // (n_places * R))
            for rows in (slice(start, start + at_once) for start in range(0, n, at_once)):
                places = np.moveaxis(step.places[:, rows], 0, 1).reshape(-1, m)
                features = with_intercept(basis.at(self.scaling.points(places)))
                features = (1 - START_WEIGHT) / n_places * features.reshape(-1, n_places, R)
                means[rows] += features.sum(axis=1)
                away = np.moveaxis(step.away[:, rows], (0, 1), (2, 0))  # (rows, d, places)
                crosses[:, rows, used] = np.moveaxis(away @ features, 1, 0)
            change = np.zeros_like(self.ones)
            change[:, used] = means - self.ones[:, used]
            self.last = step, _FeaturesOfStep(change, crosses)
        return self.last[1]

    def distances(self, mean: Float, covariance: Float) -> tuple[float, float]:
        """How far steps are from those with m and C: in the mean, and at the transition that suffers most.

        The first is the mean Kullback-Leibler divergence; if C stays, of the means alone. A transition suffers if its
        steps are far from those that were learned, and it is itself less likely.
        """
        away = np.asarray(np.linalg.solve(factors(self.C), (mean - self.m)[:, :, None]), dtype=np.float64)
        grown = np.zeros_like(self.C) if self.chosen else in_units(covariance - self.C, self.C)
        apart = mean_apart = divergences(away, grown, self.h)
        if self.h.std() > LEAST_VARIATION * self.h.mean():  # m and C are means over steps of all lengths at a place
            smooth = self.smoothed(away, self.weight), self.smoothed(grown, self.count)
            mean_apart = divergences(*smooth, self.h)
        return float(self.count @ mean_apart), float(np.minimum(apart, self.excess(mean, covariance)).max())

    def accepts(self, state: _State, excess: float, first: _State) -> bool:
        """Whether the data are as likely with the steps of corrected functions as with m and C: on the whole and each.

        There must be a correction at all.
        """
        most = max(MOST_LOSS * self.m.shape[1], MOST_LOSS_LEFT * first.loss)
        return state is not first and excess < most and state.worst < MOST_LOSS_OF_ONE

    def excess(self, mean: Float, covariance: Float) -> Float:
        """Loss of each transition with steps of these moments, above that with m and C: shape (n,)."""
        losses = (gaussian_nll(self.increments, self.h, *own) for own in ((mean, covariance), (self.m, self.C)))
        return np.nan_to_num(np.subtract(*losses), nan=HOPELESS, posinf=HOPELESS)

    def smoothed(self, values: Float, weight: Float) -> Float:
        """Values (n, ...) as functions of the features."""
        left, flat = (self.ones.T * weight) @ self.ones, values.reshape(len(values), -1)
        left[np.diag_indices(len(left))] *= 1 + JITTER
        smooth = self.ones @ np.linalg.solve(left, (self.ones.T * weight) @ flat)
        return np.asarray(smooth, dtype=np.float64).reshape(values.shape)

    def nearer(self, state: _State, change: _Change) -> _State | None:
        """Steps of the changed drift and covariance, or of some on the way to them, that are nearer to m and C.

        The first that gain enough; if none does, those that gain most, and none at all if no steps are nearer.
        """
        start, fit = state.drift.amplitudes, change.sigma.fit
        enough = 1 / (1 + LEAST_ROUND_GAIN) if state.loss > MOST_LOSS else 1.0
        nearest = state
        changes = (change.drift.amplitudes != start).any(), (fit.B != state.sigma.fit.B).any()
        for of_drift, of_sigma in _different(SHARES, *changes):
            f = Posterior(start + of_drift * (change.drift.amplitudes - start), change.drift.squares)
            B = state.sigma.fit.B + of_sigma * (fit.B - state.sigma.fit.B)
            made = state.made + (1 - state.made) * [of_drift, of_sigma]
            trial = self.followed(f, change.sigma._replace(fit=replace(fit, B=B)), change.noise, made)
            if trial.loss < nearest.loss and trial.worst < max(state.worst, MOST_LOSS_OF_ONE):
                nearest = trial
                if trial.loss < enough * state.loss:
                    break
        return None if nearest is state else nearest

    def corrected(self, state: _State) -> _Change:
        """The drift and the covariance of which steps like these make m and C."""
        drift, noise, trust, signal = self._corrected_drift(state)
        if self.chosen:
            return _Change(drift, noise, state.sigma, signal, trust, np.zeros(len(self.h)))
        sigma, covariance_trust = self._corrected_covariance(state)
        return _Change(drift, noise, sigma, signal, trust, covariance_trust)

    def _corrected_drift(self, state: _State) -> tuple[Posterior, Float, Float, Float]:
        """The drift of which steps like these make the mean m, its noise, the trust (n, d) and b² (d,)."""
        change = self.during(state.step).change
        variances = function_variances(change, state.noise)
        squares = (change @ state.drift.amplitudes.T) ** 2
        signal = mean_signal(squares, variances, self.weight)
        trust = trusted(signal, variances, squares)
        believed = self.mean(trust) >= self.least_trust
        signal, trust = believed * signal, believed * trust
        operators = np.repeat(np.eye(len(self.gram))[None], len(signal), axis=0)
        in_use = np.isfinite(self.ridges)
        for B, own, ridge, used in zip(operators, trust.T, self.ridges, map(np.flatnonzero, in_use), strict=True):
            left = self.gram[np.ix_(used, used)] + SHARE_OF_RIDGE * np.diag(ridge[used])
            right = (self.ones[:, used].T * (self.weight * own)) @ change[:, used]
            B[np.ix_(used, used)] += np.linalg.solve(left, right)
        back = np.asarray(np.linalg.inv(operators), dtype=np.float64)
        return self.learned.posterior.turned(back), back @ self.noise @ back.swapaxes(1, 2), trust, signal

    def _corrected_covariance(self, state: _State) -> tuple[Sigma, Float]:
        """The covariance of which steps like these make C, and the trust (n,) in it."""
        grown = in_units(state.step.covariance - self.covariance(state.sigma), self.C)
        noise, squares = self.noise_of_growth(state).sum(axis=(1, 2)), (grown**2).sum(axis=(1, 2))
        trust = trusted(mean_signal(squares, noise, self.count), noise, squares)
        if self.count @ trust < self.least_trust:
            return state.sigma, np.zeros_like(trust)
        return self.moved(state.sigma, without_part(self.C, trust[:, None, None] * grown)), trust

    def noise_of_growth(self, state: _State) -> Float:
        """Variances of what the noise of the drift makes of (∇f) Σ + Σ (∇f)ᵀ, in units of C: shape (n, d, d)."""
        unit = np.sqrt(np.diagonal(self.C, axis1=1, axis2=2))
        crosses = self.during(state.step).crosses
        work = crosses[0].size * crosses.shape[-1]
        columns = map_tasks(lambda j: function_variances(crosses[j], state.noise), range(len(crosses)), work)
        one_way = np.stack(columns, axis=1)
        both = one_way + one_way.swapaxes(1, 2)
        own = np.arange(unit.shape[1])
        both[:, own, own] *= 2  # an entry of the diagonal is twice the same
        return np.asarray(both / (unit[:, :, None] * unit[:, None, :]) ** 2)

    def spread_of_covariance(self, state: _State) -> tuple[Float, Float]:
        """The factor by which standard deviations of the entries of H grow, and what to add to them: shapes (p,)."""
        fit = state.sigma.fit
        rows, cols = entries(fit.shape.structure, fit.shape.d)
        if state.sigma is self.learned_sigma:  # C itself
            return np.ones(len(rows)), np.zeros(len(rows))
        sigma = self.covariance(state.sigma)
        grown = np.sqrt(np.diagonal(sigma, axis1=1, axis2=2) / np.diagonal(self.C, axis1=1, axis2=2))
        added = np.sqrt(np.tensordot(self.count, self.noise_of_growth(state), 1))[rows, cols]
        grown = self.count @ grown
        ratio = grown[rows] * grown[cols]
        size = np.sqrt(
            np.diagonal(fit.at(features_at(state.sigma.basis, self.scaling.points(self.x))), axis1=1, axis2=2)
        )
        typical = self.count @ (size[:, rows] * size[:, cols])  # of the entries of C in units of its mean
        return fit.link.spread_with(ratio, added, typical)

    def record(
        self, state: _State, change: _Change, rounds: int, excess: float, outcome: StepOutcome
    ) -> StepCorrection:
        """How far it was corrected."""
        difference = self.mean((self.values(state.drift) - self.m) ** 2) / np.maximum(self.mean(self.m**2), 1e-300)
        change_of_C = in_units(self.C - self.covariance(state.sigma), self.C)
        of_drift, of_sigma = state.made
        corrected = outcome == "corrected"
        return StepCorrection(
            h=float(self.mean(self.h)),
            signal=corrected * change.signal,
            drift_change=float(np.sqrt(difference.mean())),
            covariance_change=float(np.sqrt(self.count @ (change_of_C**2).sum(axis=(1, 2)))),
            drift_trust=float(of_drift * self.mean(change.trust).mean()),
            covariance_trust=float(of_sigma * (self.count @ change.covariance_trust)),
            distrusted=float(self.mean((corrected * change.trust.min(axis=1) < 0.5).astype(float))),
            excess=excess,
            rounds=rounds,
            lengths_chosen=self.chosen,
            outcome=outcome,
            spread=spread_series(self.basis, state.noise, self.scaling),
        )

    def moved(self, sigma: Sigma, wanted: Float) -> Sigma:
        """A covariance moved towards another one at the places, in its own features and to first order.

        Ridges keep it near C where the places say little.
        """
        fit, learned = sigma.fit, self.learned_sigma.fit
        rows, cols = entries(fit.shape.structure, fit.shape.d)
        X = with_intercept(features_at(sigma.basis, self.scaling.points(self.x)))
        H, back = X @ fit.B, np.linalg.inv(sigma.L)
        spectrum, weight = spectrum_and_information(fit, H, len(H) * self.count)
        difference = symmetric(back @ wanted @ back.T) - fit.at(X[:, 1:])
        change = H - X @ learned.B + change_through_link(spectrum, difference[:, rows, cols], sigma)
        B = learned.B.copy()
        for j, (own, system) in enumerate(zip(weight.T, fit.systems, strict=True)):
            A = (X.T * own) @ X
            ridges = amplitude_ridges(fit.ridges[j : j + 1], sigma.basis or NO_FEATURES)
            few = SHARE_OF_SIGMA_RIDGE * ridges * A[0, 0] / system.A[0, 0] + JITTER * np.diagonal(A)
            P = np.where(ridges >= SWITCHED_OFF, SWITCHED_OFF * np.diagonal(A).max(), few)
            B[:, j] += solve_penalised(A, X.T @ (own * change[:, j]), P)[0]
        return sigma._replace(fit=replace(fit, B=B))


def _different(shares: Shares, drift: bool, sigma: bool) -> Shares:
    """Those pairs that differ in what they do, where drift or covariance do not change."""
    first: dict[tuple[float, float], tuple[float, float]] = {(0.0, 0.0): (0.0, 0.0)}
    for pair in shares:
        first.setdefault((drift * pair[0], sigma * pair[1]), pair)
    return tuple(first.values())[1:]


def _ridges_for_weights(drift: Drift, basis: Basis) -> Float:
    """The ridges of a drift's amplitudes (d, R + 1), for weights that add up to one; infinite if switched off."""
    d = len(drift.unit)
    total = np.concatenate([np.diagonal(system.A) for system in drift.systems]).reshape(d, -1)[:, :1]
    ridges = amplitude_ridges(drift.ridges, basis).reshape(d, -1)
    return np.where(ridges < SWITCHED_OFF, ridges / total, np.inf)
