"""Force and noise of a second-order system from positions: rounds of drawn states, the default fit, and scoring.

1. A linear force, its noise Σ and errors of measurement Λ: the most likely ones (`linear_force`).
2. States (x, v) drawn at random given all positions of a track. Given the right model they have the law of the system
   itself, so the default fit finds on them which frequencies, ridges and links suit.
3. Their amplitudes and Λ by Fisher scoring on the innovations of the positions, which are all that was observed
   (`itofit.learning.hidden.track_scoring`).
4. 2 and 3 again with states drawn from what was found, as long as the evidence rises.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from itofit._checks import Float
from itofit.data.passes import add_up
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.method import Automatic, LearnedDrift, LearnedSigma
from itofit.learning.hidden.noisy_model import NoisyModel
from itofit.learning.hidden.noisy_tracks import with_features
from itofit.learning.hidden.track_draws import MOST_DRAWN
from itofit.learning.hidden.track_scoring import (
    Scored,
    Tracks,
    evidence,
    score,
    scored_drift,
    scored_noise,
)
from itofit.learning.pipeline import Task, functions_of_one_step
from itofit.learning.second_order.difference_quotients import linear_start, triples
from itofit.learning.second_order.linear_force import best_linear_force
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import Prior, drawn, filtered
from itofit.model.hidden.windows import InOrder, Overlapping, chunks, cut, follows, in_track_order

MOST_ROUNDS = 4
"""Of draws and scoring."""
LEAST_GAIN = 10.0
"""Of the evidence, in nats: the round after one that gained less would hardly gain anything."""
MARGIN = 0.05
"""By which the range of the states is wider than that of drawn ones, relative to it."""


class FromPositions(NamedTuple):
    """Force, covariance and Λ that were learned together."""

    method: Automatic
    task: Task  # of the drawn states that the functions were looked for with
    drift: LearnedDrift
    covariance: LearnedSigma
    scored: Scored
    spread: Float  # (q, q): covariance of the entries of Λ
    evidence: float


def learn_from_positions(task: Task) -> FromPositions:
    """The force and the noises that positions show best."""
    data = _in_memory(task)
    found = triples(data)
    states = np.concatenate([found.x, found.v], axis=1)
    prior = _prior_of(found.v)
    task.bar.show("linear force", "by the likelihood of positions")
    linear = best_linear_force(data, linear_start(data), prior, np.array([states.min(axis=0), states.max(axis=0)]))
    step, noise, lengths = linear.step, linear.noise, linear.lengths
    best: FromPositions | None = None
    for seed in task.rng.integers(2**63, size=MOST_ROUNDS).tolist():
        drawn_states = drawn_states_of(task, step, noise, prior, lengths, seed)
        prior = _prior_of(drawn_states.inputs[:, data.n_outputs :])
        fitted = _fitted(task, drawn_states, noise, prior)
        gain = np.inf if best is None else fitted.evidence - best.evidence
        if gain > 0:
            best = fitted
        assert best is not None
        if gain < LEAST_GAIN:
            break
        model = best.scored.model
        step, noise, lengths = model.step, model.noise, model.window_lengths(linear.h)
    assert best is not None
    return best


def _in_memory(task: Task) -> Transitions:
    """Moves of positions, tracks one after the other; of data that are read in parts, the first part."""
    data = in_track_order(task.data)
    return data if isinstance(data, Transitions) else next(data.blocks())


def _prior_of(velocities: Float) -> Prior:
    """Mean and covariance of velocities."""
    return Prior(velocities.mean(axis=0), np.atleast_2d(np.cov(velocities.T)))


def drawn_states_of(
    task: Task, step: GaussianStep, noise: Float, prior: Prior, lengths: tuple[int, int], seed: int
) -> Transitions:
    """Transitions of states (x, v) that are drawn at random given the positions: of all windows, or of some of many."""
    overlap, kept = lengths
    share = min(1.0, MOST_DRAWN / task.survey.n_rows)
    names = task.data.input_names + task.data.output_names, task.data.output_names
    d = task.data.n_outputs

    def of_block(block: Overlapping, number: int) -> list[Transitions]:
        rng = np.random.default_rng([seed, number])
        rows, parts = block.rows, []
        windows = cut(follows(rows), overlap, kept, block.n_before)
        windows = windows.at(np.flatnonzero(rng.random(len(windows.first)) < share))
        for chunk in chunks(rows, windows):
            states = drawn(filtered(step, chunk, noise, prior), chunk, rng)
            at = chunk.rows[chunk.kept]
            start, end = states[:-1][chunk.kept], states[1:][chunk.kept]
            groups = None if rows.groups is None else rows.groups[at]
            parts.append(Transitions._trusted(start, (end - start)[:, d:], rows.h[at], groups, "underdamped", *names))
        return parts

    return Transitions.concatenate(add_up(InOrder(task.data, overlap), of_block))


def _fitted(task: Task, states: Transitions, noise: Float, prior: Prior) -> FromPositions:
    """Functions found with drawn states, their amplitudes from the positions."""
    own = replace(task, data=states, survey=survey(states, task.bar))
    method = Automatic(own)
    drift, covariance = functions_of_one_step(method)
    d = states.n_outputs
    sigma = with_features(covariance.sigma, drift) if d == 1 else covariance.sigma
    width = MARGIN * (own.survey.high - own.survey.low)
    model = NoisyModel(
        basis=drift.basis,
        amplitudes=np.concatenate([drift.drift.intercept[:, None], drift.drift.c.T], axis=1),
        ridges=drift.drift.ridges,
        unit=drift.drift.unit,
        sigma=sigma,
        noise=noise,
        scaling=method.scaling,
        box=np.array([own.survey.low - width, own.survey.high + width]),
        prior=prior,
    )
    n_cells, h = len(drift.rows.X), own.survey.h_mean

    def shown(number: int, loss: float) -> None:
        task.bar.show("positions", f"round {number + 1}, loss {loss:.4f}")

    scored = score(Tracks(task.data, h), model, n_cells, shown=shown)
    learned = scored_drift(scored, n_cells)
    noisy, spread = scored_noise(scored, known=False)
    return FromPositions(
        method,
        own,
        drift._replace(drift=learned),
        covariance._replace(sigma=noisy.sigma),
        scored,
        spread,
        evidence(scored, learned, noisy),
    )
