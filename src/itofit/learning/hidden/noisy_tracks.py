"""Learning from tracks that are seen through noise."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import Data, add_up
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.method import Automatic, LearnedDrift, LearnedSigma
from itofit.learning.automatic.products import NoiseModel
from itofit.learning.automatic.sigma import Sigma
from itofit.learning.hidden.noisy_model import NoisyModel
from itofit.learning.hidden.track_draws import drawn_transitions
from itofit.learning.hidden.track_scoring import (
    Scored,
    Tracks,
    evidence,
    noise_ratio,
    score,
    scored_drift,
    scored_noise,
    window_lengths,
)
from itofit.learning.pipeline import Task, functions_of_one_step
from itofit.matrices.links import LINKS
from itofit.matrices.symmetric import entries
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.windows import InOrder, Overlapping, follows
from itofit.model.training import SWITCHED_OFF


class LagSums(NamedTuple):
    """Products of increments, added up."""

    n: float
    own: Float  # (d, d): Σ ΔΔᵀ
    n_pairs: float
    next: Float  # (d, d): Σ ΔΔ₊ᵀ
    duration: float


def lag_sums(data: Data) -> LagSums:
    """Products of increments with themselves and with the next ones."""

    def of_block(block: Overlapping, number: int) -> LagSums:
        rows, first = block.rows, block.n_before
        pairs = np.flatnonzero(follows(rows))
        pairs = pairs[pairs >= first]
        step = rows.increments
        own = step[first:]
        return LagSums(len(own), own.T @ own, len(pairs), step[pairs - 1].T @ step[pairs], float(rows.h[first:].sum()))

    return add_up(InOrder(data, 1), of_block)


class Fitted(NamedTuple):
    """Drift, covariance and Λ that were learned together."""

    method: Automatic
    drift: LearnedDrift
    covariance: LearnedSigma
    scored: Scored
    spread: Float  # (q, q): covariance of the entries of Λ
    evidence: float


def learn_through_noise(task: Task, noise: Float | None, rounds: int = 3, verbose=False) -> Fitted:
    sums = lag_sums(task.data)
    d = task.data.n_outputs
    h = sums.duration / sums.n
    own = sums.own / sums.n
    L = np.linalg.cholesky(own)
    back = np.linalg.inv(L)
    cross = back @ (sums.next / max(sums.n_pairs, 1)) @ back.T
    if noise is None:
        values, vectors = np.linalg.eigh(-0.5 * (cross + cross.T))
        lam = L @ (vectors * np.clip(values, 1e-4, 0.49)) @ vectors.T @ L.T
    else:
        lam = noise
    values, vectors = np.linalg.eigh(back @ (own - 2 * lam) @ back.T)
    sigma = L @ (vectors * np.maximum(values, 0.02)) @ vectors.T @ L.T / h
    box = np.array([task.survey.low, task.survey.high])

    def constant(x):
        return np.zeros((len(x), d)), np.broadcast_to(sigma, (len(x), d, d))

    step = GaussianStep(constant, box, np.diagonal(sigma))
    lengths = window_lengths(h * float(np.linalg.eigvalsh(np.linalg.solve(lam, sigma))[0].real))
    best = None
    seeds = task.rng.integers(2**63, size=rounds)
    tracks = Tracks(task.data, h)
    for r in range(rounds):
        data = drawn_transitions(task.data, task.survey.n_rows, step, lam, lengths, int(seeds[r]))
        fitted = _fitted(task, data, tracks, lam, noise is not None, best)
        if verbose:
            print(
                "round",
                r,
                "evidence",
                fitted.evidence,
                "loss",
                fitted.scored.sums.loss,
                "sd",
                np.sqrt(np.diagonal(fitted.scored.model.noise)),
                fitted.scored.settled,
                fitted.scored.model.sigma.fit.link.name,
                fitted.scored.model.sigma.constant,
            )
        if best is None or fitted.evidence > best.evidence:
            best = fitted
        model = best.scored.model
        step, lam = model.step, model.noise
        lengths = window_lengths(noise_ratio(model, h))
    return best


def _fitted(task: Task, data: Transitions, tracks: Tracks, noise: Float, known: bool, before: Fitted | None) -> Fitted:
    own = replace(task, data=data, survey=survey(data, task.bar))
    method = Automatic(own)
    drift, covariance = functions_of_one_step(method)
    sigma = with_features(covariance.sigma, drift)
    model = NoisyModel(
        basis=drift.basis,
        amplitudes=np.concatenate([drift.drift.intercept[:, None], drift.drift.c.T], axis=1),
        ridges=drift.drift.ridges,
        unit=drift.drift.unit,
        sigma=sigma,
        noise=noise,
        scaling=method.scaling,
        box=np.array([own.survey.low, own.survey.high]),
    )
    n_cells = len(drift.rows.X)
    scored = score(tracks, model, n_cells, known=known)
    learned = scored_drift(scored, n_cells)
    noisy, spread = scored_noise(scored, known=known)
    value = evidence(scored, learned, noisy)
    return Fitted(method, drift._replace(drift=learned), covariance._replace(sigma=noisy.sigma), scored, spread, value)


def with_features(sigma: Sigma, drift: LearnedDrift) -> Sigma:
    """A covariance that may change with the place: a constant one gets the features of the drift, switched off."""
    if not sigma.constant:
        return sigma
    fit, basis, link = sigma.fit, drift.basis, LINKS["log"]
    shape = fit.shape
    B = np.zeros((len(basis.mean) + 1, shape.n_entries))
    B[0] = link.at_one * np.equal(*entries(shape.structure, shape.d))
    C = fit.at(np.empty((1, 0)))[0]
    root = np.linalg.cholesky(C)
    ridges = np.full((shape.n_entries, len(basis.largest)), SWITCHED_OFF)
    new = replace(fit, model=NoiseModel(link, shape), B=B, ridges=ridges)
    return Sigma(basis, sigma.L @ root, new)
