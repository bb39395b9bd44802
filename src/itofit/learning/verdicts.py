"""What must be said of data and of a fit: errors before any work, warnings after it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Literal

import numpy as np

from itofit._checks import (
    ConvergenceWarning,
    DataWarning,
    Either,
    Float,
    InputError,
    Message,
    Option,
    Variable,
    user_level,
)
from itofit.data.dependence import dependent_input
from itofit.data.names import HasVariables, has_given_names
from itofit.data.passes import Data
from itofit.data.survey import Survey
from itofit.learning.options import FitOptions
from itofit.model.learned import LearnedSDE
from itofit.model.simulation import LONGEST
from itofit.model.training import Training

LEAST_TRANSITIONS = 20
"""With fewer, nothing can be learned."""
CONSTANT_RATE = 1e-9
"""A rate that varies by less than this share of itself varies by rounding alone: a clock among the variables, say."""
LARGEST_STEP_PENALTY = 3.0
"""mean(h) · mean(1/h), the variance of the drift relative to steps of one length, above which `fit` warns."""
NO_NOISE = 1e-9
"""Share of the variance of rates below which residuals are errors of the fit."""
SINGULAR = 5e-8
"""Share of the variance of an output's noise that the noise of others leaves over, below which it is rounding."""
TAKES_PART = 1e-3
"""Coefficient of another output, in units of standard deviations, above which it is part of a combination."""
LARGEST_FLOORED_SHARE = 0.1
"""Share of the data that needs the floor above which `fit` warns."""
SHORTEST = 1 / LONGEST
"""Steps whose inverse can be squared are longer."""
LARGEST_INPUT, LEAST_SQUARE, LARGEST_SQUARE = 1e300, 1e-140, 1e140
"""Sizes of inputs, and of squares of increments / √h whose own squares and products double precision holds."""


def check_learnable(survey: Survey, data: Data) -> None:
    """Raise before any work if there is nothing to learn from."""
    n_inputs = len(survey.low)
    least = max(LEAST_TRANSITIONS, n_inputs + 1)
    if survey.n_rows < least:
        hint = f" of {n_inputs} inputs; are the arrays transposed?" if survey.n_rows <= n_inputs else ""
        raise InputError(f"at least {least} transitions are needed to learn from, got {survey.n_rows}{hint}")
    for place, (low, high) in enumerate(zip(survey.low, survey.high, strict=True)):
        column = _variable(data, "inputs", place)
        if low == high or np.ptp(survey.sample[:, place]) == 0 < data.periods[:, place].any():
            raise InputError(
                "{column} is constant ({low:g}): nothing can be learned of how drift and covariance "
                "depend on it; {left_out}",
                column=column,
                low=low,
                left_out=Either(python="remove the column", command="leave it out of --state or --covariate"),
            )
        if not max(-low, high) < LARGEST_INPUT:
            raise InputError("{column} is too large for double precision; change its unit", column=column)
    if not SHORTEST < survey.h_min <= survey.h_max < LONGEST:
        raise InputError(
            "{h} must lie between {shortest:g} and {longest:g} to be learned from, got {low:g} to {high:g}; change the "
            "unit of time",
            h=Option("h"),
            shortest=SHORTEST,
            longest=LONGEST,
            low=survey.h_min,
            high=survey.h_max,
        )
    if not survey.moves:
        raise InputError("all increments are zero: nothing moves; were x0 and x1 mixed up?")
    for place, (low, high) in enumerate(zip(survey.rate_low, survey.rate_high, strict=True)):
        column = _variable(data, "increments", place)
        if high - low <= CONSTANT_RATE * max(-low, high):
            raise InputError(
                "{column} moves at a constant rate ({low:g}): it carries no noise to learn; {left_out}",
                column=column,
                low=low,
                left_out=Either(
                    python="remove it from the increments (it may stay in the inputs)",
                    command="leave it out of --state or --covariate",
                ),
            )
        if not LEAST_SQUARE < survey.largest_square[place] < LARGEST_SQUARE:
            raise InputError(
                "{column} is of a size whose fourth power double precision does not hold; change its unit",
                column=column,
            )
    _check_independent(survey, data)


def _check_independent(survey: Survey, data: Data) -> None:
    """Raise if an input follows from others, so that their effects cannot be told apart."""
    found = dependent_input(data, survey)
    if found is None:
        return
    column, *others = (_variable(data, "inputs", place) for place in (found.column, *found.others))
    relation = "a linear combination" if len(others) > 1 else "a copy" if found.copies else "a linear function"
    fields = {f"other_{i}": other for i, other in enumerate(others)}
    listed = " and ".join(f"{{{name}}}" for name in fields)
    raise InputError(
        f"{{column}} is {relation} of {listed} in every row: their effects cannot be told apart; {{left_out}}",
        column=column,
        left_out=Either(
            python="remove one of these columns", command="leave one of them out of --state or --covariate"
        ),
        **fields,
    )


def _variable(data: HasVariables, role: Literal["inputs", "increments"], place: int) -> Variable:
    """A column, with its name if it was given one."""
    names = data.input_names if role == "inputs" else data.output_names
    return Variable(role, place, names[place] if has_given_names(data) else None)


def check_noise(mean: Float, data: Data) -> None:
    """Raise if the mean covariance (d, d) of residuals says that an output has no noise at all."""
    for place, variance in enumerate(np.diagonal(mean)):
        if not variance > 0:
            raise InputError(
                "{column} follows the drift exactly: it carries no noise to learn",
                column=_variable(data, "increments", place),
            )


def warn_of_uneven_steps(survey: Survey) -> None:
    """Warn, in the name of the caller's caller, if short steps drown the drift of an unweighted fit."""
    penalty = survey.h_mean * survey.inverse_h_mean
    if penalty > LARGEST_STEP_PENALTY:
        warnings.warn(
            f"the time steps are very uneven ({survey.h_min:.3g} to {survey.h_max:.3g}): the shortest make the drift "
            f"about {np.sqrt(penalty):.1f} times less accurate than it could be; leave them out, as in "
            "data[data.h > ...]",
            DataWarning,
            stacklevel=user_level(),
        )


def warn_of_alternating_tracks(survey: Survey, data: Data, options: FitOptions) -> None:
    """Warn, in the name of the caller's caller, if rows of tracks are apart and cannot be brought together."""
    hidden = data.kind == "positions" or (options.refine and options.measurement_noise is not False)
    if hidden and not data.in_memory and survey.n_apart > survey.n_following:
        warnings.warn(
            "the rows of tracks alternate in data that are not in memory, so that hardly any stands beside the next of "
            "its track: what is hidden in tracks, such as errors of measurement, cannot be told. Write the rows of "
            "each track together, or read the data whole",
            DataWarning,
            stacklevel=user_level(),
        )


def warn_if_unsettled(training: Training, label: str) -> None:
    """Warn, in the name of the caller's caller, if a training ended at its maximal number of iterations."""
    if training.stopped == "max_iterations":
        judge = "evidence" if training.by_evidence else "validation error"
        warnings.warn(
            f"{label} ended at max_iterations = {training.n_iterations} before its {judge} settled; "
            "allow more iterations",
            ConvergenceWarning,
            stacklevel=user_level(),
        )


def warn_of_failures(sde: LearnedSDE, survey: Survey, options: FitOptions) -> None:
    """Warn, in the name of the caller's caller, of what a look at the summary would tell."""
    for text in (*_failures(sde, survey), *_failures_of_steps(sde, options)):
        warnings.warn(text, DataWarning, stacklevel=user_level())


def _failures(sde: LearnedSDE, survey: Survey) -> Iterator[str]:
    noise = np.diagonal(sde.floor_factor @ sde.floor_factor.T) / survey.h_mean
    for place, share in enumerate(noise / survey.rate_std**2):
        if share < NO_NOISE:
            yield Message(
                "{column} follows the drift up to {share:.1g} of its variance: the data carry no "
                "noise that could be told from errors of the fit, and the covariance of that column means nothing",
                column=_variable(sde, "increments", place),
                share=share,
            )
    yield from _singular_noise(sde)
    training = sde.drift_function.training
    if training.by_evidence:
        return
    if training.best_iteration == 0:
        yield (
            "the drift that was learned is a constant: on the held-out rows no dependence on the inputs was better. "
            "If you expect one, try another seed, more data, or drift=itofit.ARFF(validation_fraction=0.3)"
        )
    if sde.floored_share > LARGEST_FLOORED_SHARE:
        yield (
            f"the learned covariance needed its floor at {sde.floored_share:.0%} of the data and means little there; "
            "is the noise far weaker in places, or absent?"
        )


def _singular_noise(sde: LearnedSDE) -> Iterator[str]:
    """Outputs whose noise is a linear combination of that of outputs before them."""
    L = sde.floor_factor / np.linalg.norm(sde.floor_factor, axis=1)[:, None]
    independent = [place for place in range(len(L)) if L[place, place] ** 2 >= SINGULAR]
    for place in sorted({*range(len(L))} - {*independent}):
        before = [other for other in independent if other < place]
        weights = np.linalg.lstsq(L[before].T, L[place])[0]
        others = {
            f"other_{i}": _variable(sde, "increments", other)
            for i, other in enumerate(np.array(before)[np.abs(weights) > TAKES_PART].tolist())
        }
        listed = " and ".join(f"{{{name}}}" for name in others)
        yield Message(
            f"the noise of {{column}} follows from that of {listed} in every row: the covariance is singular, and its "
            "smallest eigenvalues are limits and no result; learn from independent columns",
            column=_variable(sde, "increments", place),
            **others,
        )


def _failures_of_steps(sde: LearnedSDE, options: FitOptions) -> Iterator[str]:
    """What the length of the steps did to what was asked for."""
    left_out, correction = sde.data.left_out, sde.step_correction
    if left_out is not None and options.max_h == "auto":
        n_all = left_out.n + sde.data.n_transitions
        yield Message(
            "{n:,} of {n_all:,} transitions took longer than {max_h:.3g}, up to {longest:.3g}, in which the drift "
            "changes too much to learn from them: they were left out. {all_kept} keeps them",
            n=left_out.n,
            n_all=n_all,
            max_h=left_out.max_h,
            longest=left_out.longest,
            all_kept=Either(python="max_h=None", command="--keep-long-steps"),
        )
    if correction is None or options.correct_step == "auto":
        return
    if correction.outcome == "too long":
        yield (
            "The steps are too long to be corrected for: no drift and covariance were found whose steps have the mean "
            "and covariance that were learned, so these are returned; observe at shorter steps"
        )
    if correction.lengths_chosen:
        yield (
            "Increments do not grow with the length of the step at one place, as if the paths had chosen when to be "
            "seen (after every tenth event, say): the covariance was left as it is for one step"
        )
