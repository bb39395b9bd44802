"""What `fit` does with positions of a second-order system: checks, the fit, whether there are errors, and the model."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from itofit._checks import DataWarning, Either, Float, InputError, Message, Option, user_level
from itofit.data.following import follows
from itofit.data.periods import is_periodic
from itofit.data.transitions import Transitions
from itofit.learning.long_steps import LONGEST, USUAL, shortened
from itofit.learning.noisy.fitted import Fitted
from itofit.learning.noisy.noise_test import LEVEL, p_of_gain
from itofit.learning.noisy.whole_turns import warn_of_turns
from itofit.learning.options import FitOptions
from itofit.learning.pipeline import Task, floored_shares, model_of
from itofit.learning.second_order.difference_quotients import LEAST_TRIPLES, triples
from itofit.learning.second_order.hidden_velocity import learn_from_positions, linear_force_of, without_errors
from itofit.learning.second_order.linear_force import LinearForce
from itofit.learning.second_order.order import persistence
from itofit.matrices.symmetric import symmetric
from itofit.model.hidden.sensitivities import error_directions
from itofit.model.hidden.windows import in_track_order
from itofit.model.learned import LearnedSDE
from itofit.model.measurement import HiddenVelocity, MeasurementNoise

NO_NOISE = 1e-9
"""Share of the variance of differences of velocities below which what a force leaves over is rounding."""
LARGER_THAN_MOTION = 0.5
"""Share of the variance of a position that errors of measurement make, from which on it is said."""
OPPOSED, SURE = -0.2, 4.0
"""Correlation of consecutive second differences below which errors of measurement are said to be there, and by how many
standard errors it must be negative: it is −2/3 with errors alone and ¼ without any, less if friction within a step is
strong, but above −0.13 as long as a quarter of the velocity is left after it."""
OBVIOUS = 10.0
"""Standard errors of Λ from which on nobody asks whether there are errors of measurement."""


def check_options_of_positions(options: FitOptions) -> None:
    """Raise if options ask for what cannot be done with positions alone."""
    if not options.refine:
        raise InputError("refine=False needs velocities: Algorithm 2 has no filter that could find them")
    if options.correct_step is False:
        raise InputError(
            "{option} does not exist for positions alone: velocities follow from them by the moments of finite steps",
            option=Option("correct_step", False),
        )


def learned_from_positions(task: Task) -> LearnedSDE:
    """One equation; it warns in the name of the caller's caller's caller."""
    known = _known_noise(task)
    positions = _in_memory(task)
    _check_tracks(positions)
    warn_of_turns(positions)
    first = _warn_of_first_order(positions)
    if not first and known is not None and not known.any():
        _warn_of_errors(positions)
    task, linear = _without_long_steps(task, positions, known)
    fitted = learn_from_positions(task, linear, known)
    noise = None
    if known is None:
        fitted, noise = _errors_of(task, fitted)
    elif known.any():
        d = len(known)
        noise = MeasurementNoise(covariance=known, std=np.zeros((d, d)), known=True, gain=0.0, p=0.0, corrected=True)
    sde = _model(task, fitted, noise)
    _warn_of_large_errors(sde, positions)
    return sde


def _known_noise(task: Task) -> Float | None:
    """Λ, if it is known: zero if there is none."""
    d = task.data.n_outputs
    return np.zeros((d, d)) if task.options.measurement_noise is False else task.options.known_noise(d)


def _in_memory(task: Task) -> Transitions:
    """Moves of positions, tracks one after the other; of data that are read in parts, the first part."""
    data = in_track_order(task.data)
    return data if isinstance(data, Transitions) else next(iter(data.blocks()))


def _check_tracks(positions: Transitions) -> None:
    """Raise unless there are enough positions in a row, with noise."""
    d = positions.n_outputs
    least = LEAST_TRIPLES * (1 + 2 * d)
    found = triples(positions)
    if len(found.before) < least:
        raise InputError(
            "positions alone need tracks: at least {least} times three positions in a row, got {n}; {advice}",
            least=least,
            n=len(found.before),
            advice=Either(
                python="give whole tracks, and hold out whole tracks with split(by='groups')",
                command="give longer tracks",
            ),
        )
    step = positions.increments / positions.h[:, None]
    for j, name in enumerate(positions.input_names[:d]):
        if found.D[:, j].var() <= NO_NOISE * step[:, j].var() * float(np.mean(found.h)) ** 2:
            raise InputError(f"{name} moves without any noise that could be learned: its velocity hardly changes")


def _warn_of_first_order(positions: Transitions) -> bool:
    """Warn if the system does not keep its velocity from step to step; whether it does not."""
    shown = persistence(positions)
    first = shown.order == "first"
    if first:
        warnings.warn(
            Message(
                "these positions look like those of a first-order system: {share:.0%} ± {error:.0%} of the motion "
                "keeps its velocity from step to step. Either there is no inertia, and {first} is what suits, or steps "
                "are so long that velocities are forgotten within one",
                share=max(shown.share, 0.0),
                error=shown.error,
                first=Either(python="Transitions.from_trajectories", command="the same without --second-order"),
            ),
            DataWarning,
            stacklevel=user_level(),
        )
    return first


def _warn_of_errors(positions: Transitions) -> None:
    """Warn if positions that are said to be exact are not: second differences follow each other with opposite signs."""
    velocity, one_track = positions.increments / positions.h[:, None], follows(positions)
    change = np.diff(velocity, axis=0)  # from one move to the next, where that is of the same track
    pairs = np.flatnonzero(one_track[1:-1] & one_track[2:])
    products = change[pairs] * change[pairs + 1]
    mean, error = products.mean(axis=0), products.std(axis=0) / np.sqrt(max(len(pairs), 1))
    correlation = mean / np.maximum((change[pairs] ** 2).mean(axis=0), 1e-300)
    names = positions.input_names[: positions.n_outputs]
    for name, own, sure in zip(names, correlation, mean < -SURE * error, strict=True):
        if own < OPPOSED and sure:
            warnings.warn(
                Message(
                    "{name} shows errors of measurement although {none} says that there are none: its second "
                    "differences follow each other with opposite signs (correlation {own:.2f}, where exact positions "
                    "have 0.25). They are taken for noise of the velocity, which makes Σ and friction far too large; "
                    "use {auto}",
                    name=name,
                    none=Option("measurement_noise", False),
                    own=own,
                    auto=Option("measurement_noise", "auto"),
                ),
                DataWarning,
                stacklevel=user_level(),
            )


def _warn_of_large_errors(sde: LearnedSDE, positions: Transitions) -> None:
    """Warn if errors of measurement are about as large as all of the motion."""
    if sde.measurement_noise is None:
        return
    d = positions.n_outputs
    share = sde.measurement_noise.sd**2 / positions.inputs[:, :d].var(axis=0)
    on_line = ~is_periodic(positions.periods[:, :d])  # of angles, errors of that size were told before
    for name, own, line in zip(positions.input_names[:d], share, on_line, strict=True):
        if line and own > LARGER_THAN_MOTION:
            warnings.warn(
                f"errors of measurement are {own:.0%} of the variance of {name}: little of its motion can be seen, and "
                "less of the force",
                DataWarning,
                stacklevel=user_level(),
            )


def _without_long_steps(task: Task, positions: Transitions, known: Float | None) -> tuple[Task, LinearForce]:
    """The task without steps over which a linear force cannot be followed, and that force."""
    usual = USUAL * task.survey.h_median
    uneven = task.options.max_h == "auto" and task.survey.h_max > usual
    task.bar.show("linear force", "by the likelihood of positions")
    linear = linear_force_of(positions[positions.h <= usual] if uneven else positions, known)
    if uneven and linear.rate * task.survey.h_max > LONGEST:
        task = shortened(task, max(usual, LONGEST / linear.rate))
    return task, linear


def _errors_of(task: Task, fitted: Fitted) -> tuple[Fitted, MeasurementNoise | None]:
    """Whether there are errors of measurement, by a likelihood ratio, and the fit with or without them."""
    d, noise = task.data.n_outputs, fitted.scored.model.noise
    entries = noise[np.tril_indices(d)]
    gain = 0.5 * float(entries @ np.linalg.solve(fitted.spread, entries))  # to second order, if it is large
    if 2 * gain < OBVIOUS**2:
        without, gain = without_errors(task, fitted)
        if p_of_gain(2 * gain, d) > LEVEL:
            return without, None
    p = p_of_gain(2 * gain, d)
    std = np.tensordot(np.sqrt(np.maximum(np.diagonal(fitted.spread), 0.0)), error_directions(d), 1)
    found = MeasurementNoise(
        covariance=symmetric(noise[None])[0], std=std, known=False, gain=float(gain), p=p, corrected=True
    )
    return fitted, found


def _model(task: Task, fitted: Fitted, noise: MeasurementNoise | None) -> LearnedSDE:
    """What was learned, as a model."""
    own, model = fitted.method.task, fitted.scored.model
    learned = fitted.method.learned(fitted.drift, fitted.covariance)
    learned = learned._replace(searched_on=f"{learned.searched_on}, with velocities drawn from what positions say")
    (share,) = floored_shares(own, learned)
    sde = model_of(replace(own, left_out=task.left_out), learned, share)
    hidden = HiddenVelocity(mean=model.prior.mean, covariance=model.prior.covariance, substeps=model.substeps)
    summary = replace(sde.data, n_transitions=task.survey.n_rows)
    return replace(sde, box=model.box, data=summary, measurement_noise=noise, hidden_velocity=hidden)
