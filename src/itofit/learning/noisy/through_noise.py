"""What `fit` does about errors of measurement: nothing, or all again through a filter."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from itofit._checks import DataWarning, Float, InputError, Option, user_level
from itofit.data.covariates import moving
from itofit.data.passes import Data
from itofit.data.periods import is_periodic
from itofit.learning.automatic.few_data import gains_little
from itofit.learning.noisy.fitted import Fitted
from itofit.learning.noisy.noise_test import LEAST_PAIRS, LEAST_SHARE, LEVEL, LagProducts, lag_products
from itofit.learning.noisy.noisy_tracks import fit_through_noise, gain_of_noise, model_through_noise
from itofit.learning.noisy.whole_turns import warn_of_turns
from itofit.learning.pipeline import Task
from itofit.model.learned import LearnedSDE

LARGER_THAN_MOTION = 100.0
"""Λ relative to the noise of a step, from which on `fit` says that there is little to see."""
LEAST_TOLD = 0.05
"""Share of the variance of an observation that the one before it must tell, or `fit` says how little that is."""
CLEAR_GAIN = 2.0
"""Nats that errors must gain for each amplitude beyond constants, if observations are few for these (`gains_little`):
then states behind the observations may be drawn so that they suit any of them."""
SHORT_AND_NOISY = 0.012
"""Share of the variance of observations that is errors, for each step of a track, from which on tracks are too short to
know where they start (`benchmarks/short_noisy_tracks.py`)."""
LEAST_IN_ORDER = 0.01
"""Share of transitions that must follow another one: fewer do so by chance."""
IMPOSSIBLE = 1.05
"""Share of the variance of increments that twice a known Λ may be: more contradicts the data."""


class Decision(NamedTuple):
    """A model that was learned through noise, and what other members of an ensemble need to be learned as well."""

    sde: LearnedSDE
    lags: LagProducts
    known: Float | None


def can_be_noisy(data: Data) -> bool:
    """Whether errors of measurement can be told: of states that move as a whole."""
    return data.kind == "diffusion"


def seen_through_noise(task: Task, plain: LearnedSDE) -> Decision | None:
    """The model without errors of measurement, if there are any; it warns in the name of the caller's caller.

    Parameters
    ----------
    task : Task
    plain : LearnedSDE
        What was learned from its data as if they had no errors.
    """
    asked = task.options.noise_is_known or isinstance(task.options.measurement_noise, str)
    if not asked or not task.options.refine or not can_be_noisy(task.data):
        return None
    known = task.options.known_noise(task.data.n_outputs)
    if known is None and task.survey.n_following + task.survey.n_apart < LEAST_PAIRS:
        return None  # a pass over single transitions would tell nothing
    warn_of_turns(task.data)
    lags = lag_products(task.data, plain)
    if known is None and (lags.p > LEVEL or lags.share < LEAST_SHARE):
        return None
    if known is not None:
        _check_known(known, lags)
    own = replace(task, rng=copy.deepcopy(task.rng))  # other random numbers stay what they are without all this
    try:
        fitted = fit_through_noise(own, lags, known)
        gain, p = gain_of_noise(own, fitted, plain, lags.h)
    except (InputError, np.linalg.LinAlgError) as error:
        if known is not None:
            raise
        warnings.warn(
            "the tracks seem to carry errors of measurement, but these could not be told from the noise of the system "
            f"({error}): they count as noise of the system",
            DataWarning,
            stacklevel=user_level(),
        )
        return None
    n_observed = task.survey.n_rows * task.data.n_outputs
    if known is None and (p > LEVEL or gains_little(gain, fitted.beyond_constants, n_observed, CLEAR_GAIN)):
        return None
    _warn_if_larger_than_motion(fitted, lags)
    _warn_of_short_tracks(task, fitted)
    return Decision(model_through_noise(task, fitted, gain, p, known=known is not None), lags, known)


def member_through_noise(task: Task, decision: Decision) -> LearnedSDE:
    """Another member of an ensemble."""
    fitted = fit_through_noise(task, decision.lags, decision.known, rounds=1)
    noise = decision.sde.measurement_noise
    assert noise is not None
    return model_through_noise(task, fitted, noise.gain, noise.p, known=noise.known)


def with_what_is_told(task: Task, plain: LearnedSDE) -> LearnedSDE:
    """A model that says, with a warning, if consecutive observations of a track hardly tell of each other.

    White noise far larger than the motion looks like a state that returns to the middle within a step, so that
    residuals show no errors of measurement. Either way there is little of a drift to see.
    """
    if not can_be_noisy(task.data) or not task.options.refine or task.survey.n_following < LEAST_PAIRS:
        return plain
    one_step, sample, h = plain.one_step or plain, task.survey.sample, task.survey.h_mean
    own = moving(task.data)
    expected = (sample[:, own] + h * one_step.drift(sample)).var(axis=0)
    noise = h * one_step.covariance(sample).mean(axis=0).diagonal()
    share = np.where(is_periodic(task.data.periods[:, own]), 1.0, expected / (expected + noise))
    little = [f"{name} ({own:.2g})" for name, own in zip(plain.output_names, share, strict=True) if own < LEAST_TOLD]
    if not little:
        return plain
    warnings.warn(
        "consecutive observations hardly tell of each other; of the variance of the next one they tell the share in "
        f"brackets: {', '.join(little)}. Either errors of measurement are far larger than the motion, and drift and "
        "covariance are about them and not about the system, or steps are longer than the system remembers. Average "
        "observations that are near in time, or observe more precisely or more often",
        DataWarning,
        stacklevel=user_level(),
    )
    return replace(plain, data=replace(plain.data, told=float(share.min())))


def _check_known(known: Float, lags: LagProducts) -> None:
    """Raise if the data have no order, or contradict what is known."""
    if lags.n_pairs < LEAST_IN_ORDER * lags.n:
        raise InputError(
            "{option} needs tracks, of which one transition starts where another ended: these are single transitions, "
            "whose errors cannot be told from noise; build them with from_trajectories, or leave it out",
            option=Option("measurement_noise"),
        )
    own = lags.increments[0] / lags.n
    back = np.linalg.inv(np.linalg.cholesky(own))
    largest = 2 * float(np.linalg.eigvalsh(back @ known @ back.T)[-1])
    slack = IMPOSSIBLE + 5 * np.sqrt(2 / lags.n)
    if largest > slack:
        raise InputError(
            "{option} is larger than the motion: twice its variance must be less than that of the increments (standard "
            "deviation {sd}), but is {ratio:.2g} times as large; give the standard deviation of one observation's "
            "error in the unit of the data, or 'auto'",
            option=Option("measurement_noise"),
            sd=", ".join(f"{value:.3g}" for value in np.sqrt(np.diagonal(own))),
            ratio=largest,
        )


def _warn_if_larger_than_motion(fitted: Fitted, lags: LagProducts) -> None:
    """Say so if errors of measurement are far larger than the motion of a step."""
    L = fitted.model.sigma.L
    back = np.linalg.inv(L)
    ratio = float(np.linalg.eigvalsh(back @ fitted.model.noise @ back.T)[-1]) / lags.h
    if ratio > LARGER_THAN_MOTION:
        warnings.warn(
            f"errors of measurement have {ratio:.0f} times the variance of the system's own noise in a step: only what "
            f"lasts about {int(2 * np.sqrt(ratio))} observations can be seen",
            DataWarning,
            stacklevel=user_level(),
        )


def _warn_of_short_tracks(task: Task, fitted: Fitted) -> None:
    """Say so if where tracks start is hardly known, and matters because they are short."""
    known, n_states = task.survey, task.data.n_outputs
    n_steps = known.n_rows / max(1, known.n_rows - known.n_following - known.n_apart)
    variance = known.sample[:, :n_states].var(axis=0)
    moves = (variance > 0) & ~is_periodic(task.data.periods)[:n_states]
    share = float((np.diagonal(fitted.model.noise)[moves] / variance[moves]).max(initial=0.0))
    if share > SHORT_AND_NOISY * n_steps:
        warnings.warn(
            f"tracks have {n_steps:.0f} steps in the mean, and errors of measurement are {np.sqrt(share):.0%} of the "
            "spread of what was observed: of where a track starts one observation is all that is known, so that the "
            "drift comes out too steep. Give longer tracks",
            DataWarning,
            stacklevel=user_level(),
        )
