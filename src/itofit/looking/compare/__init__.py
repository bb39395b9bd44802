"""How two learned equations differ: `compare` asks, a `Comparison` answers.

Differences are those of b from a: of the drift, f_b − f_a, and of each variance as a ratio, Σ_b,ii / Σ_a,ii. Bands are
simultaneous: with the stated probability they hold the true difference of all outputs at all places together. They rest
on the posterior of both models (`LearnedSDE.sample`). Whether there is a difference at all is asked of the data by two
tests (`itofit.looking.compare.condition_test`).
"""

from __future__ import annotations

import numpy as np

from itofit._blocks import one_blas_thread
from itofit._checks import RNG, Float, InputError, count, fraction, generator, gone_through, shown
from itofit.data.names import other_units
from itofit.data.passes import Data
from itofit.data.periods import endless
from itofit.data.transitions import Transitions
from itofit.looking.compare.compared_answers import AnswerDifference, Functions, check_answers, compared_answers
from itofit.looking.compare.comparison import Band, Comparison, Pair
from itofit.looking.compare.condition_test import ConditionTest, Drawn, condition_tests
from itofit.looking.plot.views import checked
from itofit.model.learned import LearnedSDE

__all__ = ["AnswerDifference", "Band", "Comparison", "ConditionTest", "compare"]

N_ALONG, N_PLACES = 201, 400
"""Places at which functions of one input, and of several, are compared."""
CENTRAL = (0.01, 0.99)
"""Quantiles of each data set between which functions of one input are compared."""
FEWEST_SAMPLES = 20


def compare(
    a: LearnedSDE,
    b: LearnedSDE,
    data_a: Data | None = None,
    data_b: Data | None = None,
    *,
    names: tuple[str, str] = ("a", "b"),
    level: float = 0.05,
    samples: int = 200,
    answers: Functions | bool | None = None,
    rng: RNG = 0,
) -> Comparison:
    """Where drift and noise of two conditions differ, by how much, and how surely.

    Parameters
    ----------
    a, b : LearnedSDE
        Learned from each condition, with the same variables.
    data_a, data_b : Transitions, optional
        What they were learned from. Without them there are bands but no tests, and functions are compared all over the
        range that both models have in common, also where data are few.
    names : two of str
        What the conditions are called.
    level : float
        Probability of a difference that is not there: of the two tests together, and of each of the bands.
    samples : int
        Equations that are drawn from the posterior of each model, at least 20.
    answers : dict or bool, optional
        Further numbers to compare, each a function of a model that returns an answer of `itofit.dynamics`, by their
        names: ``{"escape time": lambda sde: dynamics.first_passage_time(sde, -1, 1)}``. If it returns a plain number,
        that is computed for 50 equations of the posterior as well, for its error. True: the answers of
        `itofit.dynamics.outlook` that both conditions have.
    rng : int, Generator or None
        Draws the equations.

    Returns
    -------
    Comparison

    Notes
    -----
    The tests assume that the state was observed without errors; of models with errors of measurement, and of positions
    alone, there are bands only. Both tests see differences that a polynomial of the inputs follows roughly, of
    degree 3 for the drift and 2 for the noise, less where data are few or inputs many.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> rng = np.random.default_rng(0)
    >>> def condition(rate):
    ...     x = np.zeros((100, 101, 1))
    ...     for i in range(100):
    ...         x[:, i + 1] = x[:, i] * (1 - 0.05 * rate) + 0.2 * rng.normal(size=(100, 1))
    ...     return itofit.Transitions.from_trajectories(x, dt=0.05)
    >>> control, treated = condition(1.0), condition(1.5)
    >>> models = itofit.fit(control, rng=0), itofit.fit(treated, rng=0)
    >>> comparison = itofit.compare(*models, control, treated, names=("control", "treated"))
    >>> comparison.drift_differs, comparison.noise_differs
    (True, False)
    """
    _check_models(a, b)
    level, samples = fraction("level", level), count("samples", samples)
    if samples < FEWEST_SAMPLES:
        raise InputError(f"samples must be at least {FEWEST_SAMPLES}, got {samples}: bands need quantiles of them")
    check_answers(answers)
    names = _checked_names(names)
    random, _ = generator(rng)
    rows = checked(a, data_a), checked(b, data_b)
    pair = Pair(a, b, (a.sample(samples, rng=random), b.sample(samples, rng=random)))
    points = _points(a, b, [None if data is None else data.inputs for data in rows], random)
    with one_blas_thread:
        drift, variance_ratio = pair.drift(points, level), pair.variance_ratio(points, level)
        tested, why_not = _tested(pair, data_a, data_b, rows)
    return Comparison(
        a=a,
        b=b,
        names=names,
        level=level,
        points=points,
        drift=drift,
        variance_ratio=variance_ratio,
        drift_test=tested[0] if tested else None,
        noise_test=tested[1] if tested else None,
        why_not_tested=why_not,
        answers=compared_answers(answers, (a, b), pair.samples, level, int(random.integers(2**31))),
        samples=pair.samples,
    )


def _check_models(a: LearnedSDE, b: LearnedSDE) -> None:
    for name, sde in (("a", a), ("b", b)):
        if not isinstance(sde, LearnedSDE):
            raise InputError(f"{name} must be a LearnedSDE, as itofit.fit returns it, got {type(sde).__name__}")
    for what in ("input_names", "output_names", "kind"):
        ours, theirs = getattr(a, what), getattr(b, what)
        if ours != theirs:
            raise InputError(
                f"both models must be of the same variables: {what.replace('_', ' ')} of a: {ours}, of b: {theirs}"
            )
    if not np.array_equal(a.periods, b.periods):
        raise InputError("both models must have the same periods")
    if problem := other_units(b.units, a.units):
        raise InputError(f"{problem} in the first model: both must be learned in the same units")
    low, high = np.maximum(a.box[0], b.box[0]), np.minimum(a.box[1], b.box[1])
    if apart := [name for name, one, other in zip(a.input_names, low, high, strict=True) if one > other]:
        raise InputError(
            f"the data of the two models have no range in common along {', '.join(apart)}: nothing can be compared "
            "without leaving the data of one of them"
        )


def _checked_names(names: object) -> tuple[str, str]:
    given = None if isinstance(names, str) else gone_through(names)
    if given is None or len(given) != 2:
        raise InputError(f"names must be two, such as ('control', 'treated'), got {shown(names)}")
    return str(given[0]), str(given[1])


def _points(a: LearnedSDE, b: LearnedSDE, inputs: list[Float | None], rng: np.random.Generator) -> Float:
    """Places (n, m) within the range of both: along one input, or where data are."""
    low, high = np.maximum(a.box[0], b.box[0]), np.minimum(a.box[1], b.box[1])
    if a.n_inputs == 1:
        for own in inputs:
            if own is not None:
                ends = np.quantile(own, CENTRAL, axis=0)
                low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        if low > high:
            raise InputError(
                "the data of the two conditions are at different places: their central ranges do not overlap"
            )
        return np.linspace(low, high, N_ALONG)
    given = [own for own in inputs if own is not None]
    if not given:
        return low + (high - low) * rng.random((N_PLACES, a.n_inputs))
    low, high = endless(np.array([low, high]), a.periods)
    places = []
    for own in given:
        both = own[((own >= low) & (own <= high)).all(axis=1)]
        if not len(both):
            raise InputError("no place of one condition's data is within the range of the other's")
        places.append(rng.choice(both, min(len(both), N_PLACES // len(given)), replace=False))
    return np.concatenate(places)


def _tested(
    pair: Pair, data_a: Data | None, data_b: Data | None, rows: tuple[Transitions | None, Transitions | None]
) -> tuple[tuple[ConditionTest, ConditionTest] | None, str]:
    """Tests of drift and noise; or None, and why there are none."""
    if data_a is None or data_b is None or rows[0] is None or rows[1] is None:
        return None, "give the data of both conditions to test for a difference"
    if any(sde.measurement_noise is not None or sde.hidden_velocity is not None for sde in (pair.a, pair.b)):
        return None, "states were not observed exactly, so bands alone tell"
    drawn = Drawn(pair.samples[0], rows[0]), Drawn(pair.samples[1], rows[1])
    found = condition_tests(pair.a, pair.b, data_a, data_b, drawn)
    return found, "" if found else "too few transitions"
