"""Force and noise of a second-order system from positions: rounds of drawn states, the default fit, and scoring.

1. A linear force, its noise Σ and errors of measurement Λ: the most likely ones (`linear_force`).
2. States (x, v) drawn at random given all positions of a track. Given the right model they have the law of the system
   itself, so the default fit finds on them which frequencies, ridges and links suit.
3. Their amplitudes and Λ by Fisher scoring on the innovations of the positions, which are all that was observed
   (`itofit.learning.noisy.track_scoring`).
4. 2 and 3 again with states drawn from what was found, as long as the evidence rises.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from itofit._checks import Float
from itofit.data.following import follows
from itofit.data.names import with_velocities
from itofit.data.passes import add_up
from itofit.data.periods import wrapped
from itofit.data.survey import survey
from itofit.data.transitions import Transitions
from itofit.learning.automatic.learned_parts import LearnedDrift
from itofit.learning.automatic.method import Automatic
from itofit.learning.noisy.fitted import Fitted
from itofit.learning.noisy.noisy_model import NoisyModel
from itofit.learning.noisy.noisy_tracks import with_features
from itofit.learning.noisy.track_draws import MOST_DRAWN
from itofit.learning.noisy.track_scoring import Tracks, score
from itofit.learning.pipeline import Task, functions_of_one_step
from itofit.learning.second_order.difference_quotients import linear_start, triples
from itofit.learning.second_order.linear_force import LinearForce, best_linear_force, parts_of_step
from itofit.model.finite_step import rates_of_change
from itofit.model.hidden.gaussian_step import GaussianStep
from itofit.model.hidden.tracking import Prior, drawn, filtered
from itofit.model.hidden.windows import InOrder, Overlapping, chunks, cut

MOST_ROUNDS = 4
"""Of draws and scoring."""
LEAST_GAIN = 10.0
"""Of the evidence, in nats: the round after one that gained less would hardly gain anything."""
ROUNDS_WITHOUT = 4
"""Of scoring without errors of measurement, to tell whether there are any."""
PLACES = 2000
"""States, about, at which it is asked how fast the force changes."""
MARGIN = 0.05
"""By which the range of the states is wider than that of drawn ones, relative to it."""


def linear_force_of(data: Transitions, known: Float | None) -> LinearForce:
    """The linear force that moves of positions show best, Λ being known or not."""
    found = triples(data)
    states = found.states
    box = np.array([states.min(axis=0), states.max(axis=0)])
    return best_linear_force(data, linear_start(data), prior_of(found.v), box, known)


def learn_from_positions(task: Task, linear: LinearForce, known: Float | None, rounds: int = MOST_ROUNDS) -> Fitted:
    """The force and the noises that positions show best.

    Parameters
    ----------
    task : Task
        Of positions.
    linear : LinearForce
        To start with.
    known : array of shape (d, d), optional
        Λ, if it is known.
    rounds : int
    """
    d, prior = task.data.n_outputs, linear.prior
    step, noise, lengths = linear.step, linear.noise, linear.lengths
    best: Fitted | None = None
    for seed in task.rng.integers(2**63, size=rounds).tolist():
        drawn_states = drawn_states_of(task, step, noise, prior, lengths, seed)
        prior = prior_of(drawn_states.inputs[:, d : 2 * d])
        fitted = _fitted(task, drawn_states, noise, prior, known=known is not None)
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


def prior_of(velocities: Float) -> Prior:
    """Mean and covariance of velocities."""
    return Prior(velocities.mean(axis=0), np.atleast_2d(np.cov(velocities.T)))


def drawn_states_of(
    task: Task, step: GaussianStep, noise: Float, prior: Prior, lengths: tuple[int, int], seed: int
) -> Transitions:
    """Transitions of states (x, v) that are drawn at random given the positions: of all windows, or of some of many."""
    overlap, kept = lengths
    share = min(1.0, MOST_DRAWN / task.survey.n_rows)
    own, d = with_velocities(task.data), task.data.n_outputs
    variables = own.kind, own.input_names, own.output_names, own.n_covariates, own.periods

    def of_block(block: Overlapping, number: int) -> list[Transitions]:
        rng = np.random.default_rng([seed, number])
        rows, parts = block.rows, []
        windows = cut(follows(rows), overlap, kept, block.n_before)
        windows = windows.at(np.flatnonzero(rng.random(len(windows.first)) < share))
        for chunk in chunks(rows, windows):
            states = drawn(filtered(step, chunk, noise, prior), chunk, rng)
            at = chunk.rows[chunk.kept]
            start, end = states[:-1][chunk.kept], states[1:][chunk.kept]
            moved = np.ascontiguousarray((end - start)[:, d:])
            groups = None if rows.groups is None else rows.groups[at]
            inputs = wrapped(np.concatenate([start, chunk.u[chunk.kept]], axis=1), own.periods)
            parts.append(Transitions._trusted(inputs, moved, rows.h[at], groups, *variables))
        return parts

    return Transitions.concatenate(add_up(InOrder(task.data, overlap), of_block))


def _fitted(task: Task, states: Transitions, noise: Float, prior: Prior, *, known: bool) -> Fitted:
    """Functions found with drawn states, their amplitudes from the positions."""
    own = replace(task, data=states, survey=survey(states, task.bar))
    method = Automatic(own, of_states=True)
    drift, covariance = functions_of_one_step(method)
    tracks, d = Tracks(task.data, own.survey.h_mean), states.n_outputs
    some = states.inputs[:: -(-len(states) // PLACES)]

    def shown(number: int, loss: float) -> None:
        task.bar.show("positions", f"round {number + 1}, loss {loss:.4f}")

    def fitted_with(drift: LearnedDrift) -> Fitted:
        sigma = with_features(covariance.sigma, drift) if d == 1 else covariance.sigma
        series = drift.basis.series(drift.drift.intercept, drift.drift.c, method.scaling)
        rates = rates_of_change(series.jacobian(some), some.std(axis=0), underdamped=True)
        model = NoisyModel.of(
            method,
            drift,
            sigma,
            noise=noise,
            n_rows=task.survey.n_rows,
            margin=MARGIN,
            prior=prior,
            substeps=parts_of_step(own.survey.h_median * float(np.quantile(rates, 0.95))),
        )
        scored = score(tracks, model, len(drift.rows.X), known=known, shown=shown)
        return Fitted.of(method, drift, covariance, scored, known=known)

    return fitted_with(drift).or_simpler(fitted_with)


def without_errors(task: Task, fitted: Fitted) -> tuple[Fitted, float]:
    """The same functions with amplitudes for positions without errors of measurement, and what those gain in nats."""
    model, d = fitted.scored.model, task.data.n_outputs
    task.bar.show("positions", "without errors of measurement, for comparison")
    without = replace(model, noise=np.zeros((d, d)))
    tracks = Tracks(task.data, fitted.method.task.survey.h_mean)
    scored = score(tracks, without, len(fitted.drift.rows.X), known=True, rounds=ROUNDS_WITHOUT)
    same = Fitted.of(fitted.method, fitted.drift, fitted.covariance, scored, known=True)
    return same, scored.sums.loss - fitted.scored.sums.loss
