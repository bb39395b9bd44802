"""Learning from tracks that are seen through noise.

1. *Start*: Λ and a constant Σ from products of consecutive residuals of a plain fit, no drift.
2. *Tracks drawn at random* from what that says of the states behind the observations. They look like clean ones, so the
   default pipeline finds frequencies, groups and the link of Σ on them.
3. *Scoring* of all amplitudes and Λ on the innovations of the observations (`itofit.learning.noisy.track_scoring`).
4. Steps 2 and 3 once more from there. Where there are many data, the first round is on a part of them; otherwise the
   better of both is kept, by likelihood less the number of amplitudes.
5. *Whether*: the same features without errors of measurement are scored as well, for the likelihood ratio, and the fit
   as if there were none is compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from itofit._checks import Float
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.learned_parts import LearnedDrift
from itofit.learning.automatic.method import Automatic
from itofit.learning.automatic.products import NoiseModel
from itofit.learning.automatic.sigma import Sigma
from itofit.learning.noisy.fitted import Fitted
from itofit.learning.noisy.noise_test import LagProducts, p_of_gain
from itofit.learning.noisy.noisy_model import NoisyModel
from itofit.learning.noisy.noisy_start import Start
from itofit.learning.noisy.track_draws import drawn_transitions
from itofit.learning.noisy.track_scoring import Tracks, score
from itofit.learning.pipeline import Task, floored_shares, functions_of_one_step, model_of, places_of
from itofit.matrices.links import LINKS
from itofit.matrices.symmetric import entries, symmetric
from itofit.model.finite_step import Scheme
from itofit.model.hidden.sensitivities import error_directions
from itofit.model.hidden.windows import window_lengths
from itofit.model.learned import LearnedSDE
from itofit.model.measurement import MeasurementNoise
from itofit.model.training import SWITCHED_OFF

ROUNDS = 2
"""Of drawn tracks and scoring; the first is nearly always as good as any."""
FIRST_ROWS = 30_000
"""Transitions, about, that the first round scores on."""
ROUNDS_WITHOUT = 6
"""Of scoring without errors of measurement, for the likelihood ratio."""
BEYOND_DOUBT = 100.0
"""Squared standard errors by which Λ differs from zero, from which on no likelihood ratio is needed."""


def fit_through_noise(task: Task, lags: LagProducts, known: Float | None, rounds: int = ROUNDS) -> Fitted:
    """Drift, covariance and errors of measurement from noisy tracks.

    Parameters
    ----------
    task : Task
    lags : LagProducts
        Of its data.
    known : array of shape (d, d), optional
        Λ, if it is known.
    rounds : int
    """
    start = Start.of(lags, known).refined(task.data, task.survey.n_rows)
    step, noise = start.step, start.noise
    lengths = window_lengths(lags.h * start.sigma, noise)
    best: Fitted | None = None
    for number in range(rounds):
        last = number == rounds - 1
        tracks = Tracks(task.data, lags.h, 1.0 if last else min(1.0, FIRST_ROWS / task.survey.n_rows))
        task.bar.show("measurement noise", f"states behind the observations, round {number + 1} of {rounds}")
        seed = int(task.rng.integers(2**63))
        data = drawn_transitions(task.data, task.survey.n_rows, step, noise, lengths, seed)
        fitted = _fitted(task, data, tracks, noise, known=known is not None)
        if best is None or best.scored.sums.n < fitted.scored.sums.n or fitted.evidence > best.evidence:
            best = fitted
        step, noise, lengths = best.model.step, best.model.noise, best.model.window_lengths(lags.h)
    assert best is not None
    return best


def _fitted(task: Task, data: Transitions, tracks: Tracks, noise: Float, *, known: bool) -> Fitted:
    """The default pipeline on drawn tracks, and scoring from there."""
    own = replace(task, data=data, survey=survey(data, task.bar))
    method = Automatic(own, of_states=True)
    drift, covariance = functions_of_one_step(method)
    scheme: Scheme = "corrected" if task.options.corrects_step(task.data.kind) else "euler"

    def shown(number: int, loss: float) -> None:
        task.bar.show("measurement noise", f"scoring, step {number}, loss {loss:.4f}")

    def fitted_with(drift: LearnedDrift) -> Fitted:
        sigma = with_features(covariance.sigma, drift)
        model = NoisyModel.of(method, drift, sigma, noise=noise, n_rows=task.survey.n_rows, scheme=scheme)
        scored = score(tracks, model, len(drift.rows.X), known=known, shown=shown)
        return Fitted.of(method, drift, covariance, scored, known=known)

    return fitted_with(drift).or_simpler(fitted_with)


def with_features(sigma: Sigma, drift: LearnedDrift) -> Sigma:
    """A covariance that may change with the place: a constant one gets the features of the drift, switched off.

    On tracks drawn from a model with constant noise, noise looks more constant than it is.
    """
    if not sigma.constant:
        return sigma
    fit, basis, link = sigma.fit, drift.basis, LINKS["log"]
    shape = fit.shape
    B = np.zeros((len(basis.mean) + 1, shape.n_entries))
    B[0] = link.at_one * np.equal(*entries(shape.structure, shape.d))
    root = np.linalg.cholesky(fit.at(np.empty((1, 0)))[0])
    ridges = np.full((shape.n_entries, len(basis.largest)), SWITCHED_OFF)
    return Sigma(basis, sigma.L @ root, replace(fit, model=NoiseModel(link, shape), B=B, ridges=ridges))


def gain_of_noise(task: Task, fitted: Fitted, plain: LearnedSDE, h: float) -> tuple[float, float]:
    """Log-likelihood above that without errors of measurement, and its p-value.

    Without them are the same features, or what was learned as if there were none: the better of both, and of the second
    less the number of amplitudes that it took more or fewer. Where Λ is many standard errors from zero, half of their
    square is as good as the first.
    """
    d = task.data.n_outputs
    one_step = plain.one_step or plain
    over_plain = fitted.evidence + task.survey.n_rows * one_step.nll(task.data) + plain.n_determined
    gain = min(_gain_over_same_features(task, fitted, h), over_plain)
    return gain, p_of_gain(2 * gain, d)


def _gain_over_same_features(task: Task, fitted: Fitted, h: float) -> float:
    """Log-likelihood above that of the same features without errors of measurement."""
    entries_of_noise = fitted.model.noise[np.tril_indices(len(fitted.model.noise))]
    if fitted.spread.size:
        distance = float(entries_of_noise @ np.linalg.solve(fitted.spread, entries_of_noise))
        if distance > BEYOND_DOUBT:
            return 0.5 * distance
    task.bar.show("measurement noise", "without it, for comparison")
    d = task.data.n_outputs
    without = replace(fitted.model, noise=np.zeros((d, d)))
    other = score(
        Tracks(task.data, h), without, len(fitted.drift.rows.X), known=True, rounds=ROUNDS_WITHOUT, bars=False
    )
    return other.sums.loss - fitted.scored.sums.loss


def model_through_noise(task: Task, fitted: Fitted, gain: float, p: float, *, known: bool) -> LearnedSDE:
    """What was learned, as a model."""
    own, d = fitted.method.task, task.data.n_outputs
    learned = fitted.method.learned(fitted.drift, fitted.covariance)
    learned = learned._replace(searched_on=f"{learned.searched_on}, of tracks drawn from the states behind the noise")
    (share,) = floored_shares(own, learned)
    std = np.zeros((d, d))
    if not known:
        std = np.tensordot(np.sqrt(np.maximum(np.diagonal(fitted.spread), 0.0)), error_directions(d), 1)
    noise = MeasurementNoise(
        covariance=symmetric(fitted.model.noise[None])[0],
        std=std,
        known=known,
        gain=float(gain),
        p=float(p),
        corrected=fitted.model.scheme == "corrected",
    )
    sde = model_of(task, learned, share)
    summary = replace(sde.data, places=places_of(own.survey))  # of states, and not of observations
    return replace(sde, box=fitted.model.box, data=summary, measurement_noise=noise)
