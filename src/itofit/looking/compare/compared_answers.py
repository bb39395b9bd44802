"""Answers to questions that both conditions are asked, and by how much they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri as normal_quantile

from itofit._checks import InputError, answer_of, shown
from itofit.dynamics.answers import Answer
from itofit.dynamics.outlook import outlook
from itofit.dynamics.passages import PassageTime
from itofit.dynamics.relaxation import RelaxationTimes
from itofit.dynamics.resting import FixedPoints
from itofit.model.learned import LearnedSDE
from itofit.model.sampled import SampledSDEs
from itofit.model.sde import SDE

MOST_SAMPLES = 50
"""Equations of each posterior for which a plain number is computed again, for its standard deviation."""


class Number(NamedTuple):
    """A number and its standard deviation, NaN if that is not known."""

    value: float
    std: float


@dataclass(frozen=True)
class AnswerDifference:
    """An answer for both conditions, and by how much it differs.

    Parameters
    ----------
    name : str
    a, b : float
        The answers.
    difference, std : float
        b − a and its standard deviation.
    interval : tuple of float
        Of the difference, at the comparison's level.
    """

    name: str
    a: float
    b: float
    difference: float
    std: float
    interval: tuple[float, float]

    @classmethod
    def of(cls, name: str, a: object, b: object, level: float) -> AnswerDifference:
        """From two answers of `itofit.dynamics`, or two numbers."""
        (value_a, std_a), (value_b, std_b) = _number(name, a), _number(name, b)
        difference, std = value_b - value_a, float(np.hypot(std_a, std_b))
        width = float(normal_quantile(1 - level / 2)) * std
        return cls(name, value_a, value_b, difference, std, (difference - width, difference + width))

    def text(self, level: float) -> str:
        """The difference with its error and interval, in words."""
        if not np.isfinite(self.std):
            return f"{self.difference:+.4g}"
        low, high = self.interval
        return f"{self.difference:+.4g} ± {self.std:.2g} ({100 * (1 - level):.4g} % interval {low:+.4g} to {high:+.4g})"


def _number(name: str, answer: object) -> Number:
    """An answer and its standard deviation, NaN if it has none."""
    plain = not hasattr(answer, "value")  # numbers of NumPy have a method called std
    value = np.asarray(answer if plain else answer.value)  # type: ignore[attr-defined]
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise InputError(f"the answer {name!r} must be one number, got {shown(getattr(answer, 'value', answer))}")
    std = np.nan if plain else np.asarray(getattr(answer, "std", np.nan)).reshape(())
    return Number(float(value.reshape(())), float(std))


Functions = Mapping[str, Callable[[SDE], object]]


def compared_answers(
    answers: Functions | bool | None,
    pair: tuple[LearnedSDE, LearnedSDE],
    samples: tuple[SampledSDEs, SampledSDEs],
    level: float,
    seed: int,
) -> tuple[AnswerDifference, ...]:
    """Differences of what `itofit.compare` was asked for: own functions, or (True) the usual questions."""
    if answers is True:
        return _usual(pair, level, seed)
    return tuple(
        AnswerDifference.of(
            str(name), _asked(name, own, pair[0], samples[0]), _asked(name, own, pair[1], samples[1]), level
        )
        for name, own in (answers or {}).items()
    )


def check_answers(answers: object) -> None:
    """Raise unless it is what `answers` may be."""
    if answers is None or isinstance(answers, bool):
        return
    if not isinstance(answers, Mapping):
        raise InputError(
            f"answers must be a dictionary of functions by their names, or True for the usual ones, got "
            f"{shown(answers)}"
        )
    for name, own in answers.items():
        if not callable(own):
            raise InputError(f"answers must be functions of a model, got {type(own).__name__} for {name!r}")


def _asked(name: str, function: Callable[[SDE], object], sde: LearnedSDE, drawn: SampledSDEs) -> object:
    """An answer of one condition; of a plain number also for equations of its posterior, for its error."""
    answer = answer_of("answers", function, sde)
    if hasattr(answer, "value"):
        return answer
    value = _number(name, answer).value
    try:
        own = [_number(name, answer_of("answers", function, one)).value for one in drawn[:MOST_SAMPLES]]
    except AttributeError:  # it asks for what a learned equation has and a drawn one has not
        return Number(value, np.nan)
    return Answer(what=name, value=value, samples=np.array(own))


def _usual(pair: tuple[LearnedSDE, LearnedSDE], level: float, seed: int) -> tuple[AnswerDifference, ...]:
    """Differences of the answers of `itofit.dynamics.outlook` that both conditions have."""
    if pair[0].n_covariates:
        held = ", ".join(f"{name!r}: 0.0" for name in pair[0].covariate_names)
        raise InputError(
            "answers: say at which values inputs from outside are held, with functions of your own, as in "
            f"{{'time': lambda sde: dynamics.relaxation_times(sde, n=1, covariates={{{held}}})}}"
        )
    first, second = (outlook(sde, samples=MOST_SAMPLES, rng=seed).answers for sde in pair)
    kinds = [next(own.kinds for own in answers if isinstance(own, FixedPoints)) for answers in (first, second)]
    ours, theirs = (_numbers(answers, same_points=kinds[0] == kinds[1]) for answers in (first, second))
    return tuple(AnswerDifference.of(name, ours[name], theirs[name], level) for name in ours if name in theirs)


def _numbers(answers: Sequence[Answer], *, same_points: bool) -> dict[str, object]:
    """Numbers by their names. Without the `same_points` in both, what is said of points cannot be paired."""
    found: dict[str, object] = {}
    for answer in answers:
        if isinstance(answer, FixedPoints):
            found["number of stable points"] = int(answer.stable.sum())
            if same_points:
                found |= {
                    f"{name} of point {i + 1}, {kind}": Number(value, std)
                    for i, kind in enumerate(answer.kinds)
                    for name, value, std in zip(
                        answer.names, np.asarray(answer.value)[i], np.asarray(answer.std)[i], strict=True
                    )
                }
        elif isinstance(answer, RelaxationTimes):
            found["slowest relaxation time"] = Number(np.asarray(answer.value)[0], np.asarray(answer.std)[0])
        elif isinstance(answer, PassageTime) and answer.way is not None:
            start, end = answer.way
            found[f"time from point {start + 1} to {end + 1}"] = answer
        elif answer.std != 0:  # as is the entropy production of one variable, which is zero
            found[answer.what] = answer
    if not same_points:
        found = {name: own for name, own in found.items() if not name.startswith("time from")}
    return found
