"""Whether a model applies to the data: unit of time, length of the step, range, and limits of its covariance."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from itofit._checks import Either, Float, Int, Message, Option
from itofit.data.covariates import moving
from itofit.data.names import plural
from itofit.data.transitions import Transitions
from itofit.looking.check import thresholds
from itofit.looking.check.deviations import TINY, or_open
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding, Verdict, about, graded, not_available, worst_of
from itofit.looking.check.margins import Z, of_share, rows_enough
from itofit.looking.check.phrases import fixed, multiple, percent
from itofit.model.finite_step import rates_of_change
from itofit.model.learned import LearnedSDE

COSTLY_ROWS = 20_000
"""Rows at most for what costs more than residuals: derivatives, eigenvalues, neighbours."""
RANGE_POINTS = 4096
"""Random points of the range, and at most as many of the data, whose neighbours are counted: shares to within 1 %."""
NEAR = 0.1
"""Points are near if they differ by less than this part of the range, in root mean square over the inputs."""
AT_ONE_PLACE = 1e-9
"""Of the range: the spread up to which points count as one."""
LEAST_NEAR = 5
"""A row with fewer others near it counts as alone."""


def units(sde: LearnedSDE, rows: ExaminedRows) -> Finding | None:
    """Whether steps are so much longer or shorter than those learned from that units of time seem to differ."""
    h, learned = float(rows.data.h.mean()), sde.data.h_mean
    ratio = h / learned
    if 1 / thresholds.OTHER_UNIT < ratio < thresholds.OTHER_UNIT:
        return None
    times = f"{multiple(ratio)} times" if ratio > 1 else f"1/{multiple(1 / ratio)} of"
    return Finding(
        name="units",
        title="unit of time",
        values={"h_mean": h, "h_mean_learned": learned, "h_ratio": ratio},
        numbers=f"h is {times} that learned from",
        verdict="bad",
        text=f"The steps of these data are {times} those the model was learned from ({h:.3g} and {learned:.3g} in the "
        "mean): are the units of time the same?",
        advice="If they are not, give times in the unit of the training data: all that follows is then meaningless. If "
        "they are, learn from steps of this length.",
    )


def discretisation(sde: LearnedSDE, rows: ExaminedRows, rng: np.random.Generator, n_longer: int) -> Finding:
    """Whether steps are short against the time in which drift and noise change; n_longer were not judged.

    For a linear drift f = −θ x the mean of a step h is (e^{−θh} − 1) x = h f (1 − θh/2 + …): learned from it, the drift
    is too small by h‖∇f‖/2. Steps count by their lengths, as they do for the drift. Norms are in units of each
    variable's spread. For an underdamped system the rates are ‖∂f/∂v‖ and ‖∂f/∂x‖^½.
    """
    name, title = "discretisation", "length of the step"
    if sde.drift_in_noise_units:
        reason = "The drift is a product of two learned functions, whose derivatives are not available."
        return not_available(name, title, reason)
    if sde.kind == "general":
        reason = "For inputs of kind 'general' it is not known how they move, and so how far in a step."
        return not_available(name, title, reason)
    data = rows.data[_few_rows(len(rows.z), rng)]
    ratio = data.h * _rates(sde, data.inputs)
    high, top = _quantile(ratio, 0.95, weight=data.h), float(ratio.max())
    change = _covariance_change(sde, data)
    corrected = sde.scheme == "corrected"
    bias, possible = (_bias(rate, corrected) for rate in (high, high + Z * _rate_error(sde, data)))
    in_steps = _gain_of_one_step(sde, data)
    known: Verdict = "good" if possible < thresholds.DRIFT_BIAS[0] else "cannot tell"
    grades = graded(bias, *thresholds.DRIFT_BIAS), graded(change, *thresholds.COVARIANCE_CHANGE)
    verdict = worst_of([*grades, "caution" if in_steps else "good", known])
    enough = _enough_to_know(sde, data, corrected) if verdict == "cannot tell" else None
    consequence = "corrected for that, it may still be" if corrected else "so that the learned drift is"
    text = (
        f"In one step the drift changes by up to {percent(high, of='itself')} (95 % of the data; at most "
        f"{percent(top)}), {consequence} wrong by about {percent(bias)}; the noise covariance typically changes by "
        f"{percent(change, 0)}."
    )
    if in_steps:
        text += f" Steps that are not corrected for their length predict the data better, by {in_steps:.4f} nats."
    if n_longer:
        text += f" {plural(n_longer, 'transition')} longer than those learned from were not judged."
    advice = "" if verdict == "good" else _MOVES_IN_STEPS if in_steps else _advice(sde, data.h, ratio / data.h)
    if verdict == "cannot tell":
        text += f" But from so few data a drift that makes it {percent(possible)} could have been missed."
        advice = _advice_to_learn(enough)
    return Finding(
        name=name,
        title=title,
        values={
            "h_gradient_95": high,
            "h_gradient_max": top,
            "drift_bias": bias,
            "drift_bias_possible": possible,
            "covariance_change": change,
            "gain_of_one_step": in_steps,
            "n_longer": float(n_longer),
        },
        numbers=f"h |grad f| {fixed(high)}, bias of drift {percent(bias)}",
        verdict=verdict,
        text=text,
        advice=advice,
        enough=enough,
    )


def _bias(rate: float, corrected: bool) -> float:
    """Relative error of the drift by the length of steps, in which it changes by this part of itself."""
    return thresholds.BIAS_LEFT * rate**2 if corrected else rate / 2


def _rate_error(sde: LearnedSDE, data: Transitions) -> float:
    """Standard error of h ‖∇f‖ as far as a linear drift goes: h σ / (s √T), T the time learned from, s the spread.

    That is the error of the slope of a regression. It tells how fast a drift may be that was learned as a constant.
    """
    h, spread = float(data.h.mean()), _spread(sde, data.inputs)[moving(sde)]
    variance = np.diagonal(sde.covariance(data.inputs), axis1=1, axis2=2).mean(axis=0)
    time = sde.data.n_transitions * sde.data.h_mean
    return float(h * np.max(np.sqrt(variance / time) / spread) * np.sqrt(sde.n_inputs))


def _enough_to_know(sde: LearnedSDE, data: Transitions, corrected: bool) -> float | None:
    """Transitions to learn from, so that a constant drift would be known to change slowly enough, if any are."""
    limit, n = thresholds.DRIFT_BIAS[0], sde.data.n_transitions
    rate = float(np.sqrt(limit / thresholds.BIAS_LEFT)) if corrected else 2 * limit
    enough = rows_enough(n, _rate_error(sde, data), rate)
    return max(enough, 2.0 * n) if np.isfinite(enough) else None


def _advice_to_learn(enough: float | None) -> str:
    """What to do if the drift was learned from too few data to know how fast it changes."""
    if enough is None:
        return "Learn it from more data, over a wider range."
    return f"Learn it from about {about(enough)} transitions, if the drift is as slow as it seems."


def _quantile(values: Float, level: float, weight: Float) -> float:
    """The value up to which values (n,) have a share of all weight (n,)."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(below, level * below[-1])]])


def _gain_of_one_step(sde: LearnedSDE, data: Transitions) -> float:
    """By how much steps without correction predict better, in nats per transition; zero if that is not significant.

    Steps of one length cannot tell: both describe them.
    """
    if sde.one_step is None or sde.scheme == "euler" or data.h.std() < thresholds.LEAST_VARIATION * data.h.mean():
        return 0.0
    difference = sde.nll(data, pointwise=True) - sde.one_step.nll(data, pointwise=True)
    mean, error = float(difference.mean()), float(difference.std() / np.sqrt(len(difference)))
    least = max(thresholds.GAIN_ERRORS * error, thresholds.GAIN_OF_ONE_STEP * sde.n_outputs)
    return mean if mean > least else 0.0


def _advice(sde: LearnedSDE, h: Float, rates: Float) -> str:
    """What to do about steps that are long against rates of change: leave out some, correct, or observe more often."""
    typical, longest = float(np.median(h)), float(h.max())
    length = max(typical, thresholds.SHORT / max(float(np.quantile(rates, 0.95)), TINY))
    if longest > thresholds.UNEVEN * typical and longest > length:
        max_h = Option("max_h", float(f"{length:.2g}"))
        return Message("Leave out the longest steps, with {max_h} for example, or observe more often.", max_h=max_h)
    tried = sde.step_correction is not None or sde.scheme == "corrected"
    return _SHORTER_STEPS if tried else _CORRECTED_STEPS


_MOVES_IN_STEPS = Message(
    "If the data are not of a process in continuous time but of one in steps, such as a simulation by Euler steps or "
    "generations of a population, learn with {correct_step}.",
    correct_step=Option("correct_step", False),
)
_SHORTER_STEPS = "Observe at shorter steps, and until then take what depends on fast changes with care."
_CORRECTED_STEPS = Message(
    "Learn it with {correct_step}, or take drift and noise as those of steps of this length: simulate with {dt}.",
    correct_step=Option("correct_step", True),
    dt=Either("dt = h", "--dt of that length"),
)


def _few_rows(n: int, rng: np.random.Generator) -> Int:
    """At most COSTLY_ROWS of n rows, in order."""
    return np.arange(n) if n <= COSTLY_ROWS else np.sort(rng.choice(n, COSTLY_ROWS, replace=False))


def _rates(sde: LearnedSDE, x: Float) -> Float:
    """How fast the drift makes the state change, at each point: shape (n,)."""
    return rates_of_change(sde.drift_jacobian(x), _spread(sde, x), underdamped=sde.kind == "underdamped")


def _spread(sde: LearnedSDE, x: Float) -> Float:
    """Standard deviation of each input, shape (m,); where all points are at one place, of points all over the range."""
    spread, everywhere = x.std(axis=0), (sde.box[1] - sde.box[0]) / np.sqrt(12)
    return np.where(spread > AT_ONE_PLACE * everywhere, spread, everywhere)


def _covariance_change(sde: LearnedSDE, data: Transitions) -> float:
    """Median over the data of ‖σ⁻¹ Σ' σ⁻ᵀ − I‖, Σ' where the step ended."""
    d = sde.n_outputs
    end = data.inputs.copy()
    end[:, moving(sde)] += data.increments
    if sde.kind == "underdamped":
        end[:, :d] += data.h[:, None] * end[:, moving(sde)]
    inverse = np.linalg.inv(sde.diffusion(data.inputs))
    ratio = inverse @ sde.covariance(np.clip(end, *sde._range)) @ inverse.swapaxes(1, 2)
    return float(np.median(np.linalg.norm(ratio - np.eye(d), 2, axis=(1, 2))))


def extrapolation(sde: LearnedSDE, rows: ExaminedRows, rng: np.random.Generator) -> Finding:
    """How much of the data lies outside the range of the training data, or alone; how much of that range has data."""
    low, high = sde.box
    x = rows.data.inputs
    is_outside = ((x < low) | (x > high)).any(axis=1)
    outside = float(is_outside.mean())
    u = (x[_few_rows(len(x), rng)] - low) / (high - low)
    m = u.shape[1]
    near = NEAR * np.sqrt(m)
    tree = cKDTree(u)
    some = rng.permutation(len(u))[:RANGE_POINTS]
    nearest_others = tree.query(u[some], k=[LEAST_NEAR + 1], distance_upper_bound=near)[
        0
    ]  # the first is the row itself
    is_alone = ~np.isfinite(nearest_others)
    alone = float(is_alone.mean())
    nearest = tree.query(_anywhere(sde, u, rng), distance_upper_bound=near)[0]
    covered = float(np.mean(np.isfinite(nearest)))
    grades = graded(outside, *thresholds.OUTSIDE), graded(alone, *thresholds.ALONE)
    margins = (
        of_share("the share of data outside", int(is_outside.sum()), len(x), thresholds.OUTSIDE[0], form=percent),
        of_share("the share of data alone", int(is_alone.sum()), len(some), thresholds.ALONE[0], form=percent),
    )
    verdict = worst_of([*grades, graded(1 - covered, *thresholds.UNCOVERED)])
    text = (
        f"{outside:.1%} of the data are outside the range that the model was learned in, {alone:.1%} have fewer than "
        f"{LEAST_NEAR} others near them, and {covered:.0%} of that range has data near (within a tenth of it)."
    )
    finding = Finding(
        name="extrapolation",
        title="extrapolation",
        values={"outside": outside, "alone": alone, "covered": covered},
        numbers=f"{outside:.1%} outside, {covered:.0%} of the range covered",
        verdict=verdict,
        text=text,
        advice="" if verdict == "good" else _NEAR_THE_DATA,
    )
    return or_open(finding, margins)


def _anywhere(sde: LearnedSDE, u: Float, rng: np.random.Generator) -> Float:
    """Random points of the range, scaled to 0 … 1 as the data u (n, m) are; covariates are those of random rows.

    What comes from outside need not have values between those that it has: a treatment is given or not.
    """
    points, s = rng.random((RANGE_POINTS, sde.n_inputs)), len(sde.state_names)
    if sde.n_covariates:
        points[:, s:] = u[rng.integers(len(u), size=RANGE_POINTS), s:]
    return points


_NEAR_THE_DATA = (
    "Drift and noise are known near the data alone: plot and trust them there, watch where simulated paths go, and "
    "learn from data that cover what you want to know."
)


def positive_definiteness(sde: LearnedSDE, rows: ExaminedRows, rng: np.random.Generator) -> Finding:
    """How often the covariance had to be kept within its limits."""
    low, high = sde.box
    x = rows.data.inputs
    box = low + (high - low) * _anywhere(sde, (x - low) / (high - low), rng)
    is_limited = sde.floored(x)
    limited, limited_box = float(is_limited.mean()), float(sde.floored(box).mean())
    raw = sde.covariance(x[_few_rows(len(x), rng)], raw=True)
    scale = np.sqrt(np.abs(np.diagonal(raw, axis1=1, axis2=2))) + TINY
    raw = raw / (scale[:, :, None] * scale[:, None, :])
    negative = float(np.mean(np.linalg.eigvalsh(raw)[:, 0] <= 0))
    share = "the share of data at which it is"
    margin = of_share(share, int(is_limited.sum()), len(x), thresholds.LIMITED[0], form=percent)
    grades = graded(limited, *thresholds.LIMITED), graded(limited_box, *thresholds.LIMITED_IN_RANGE)
    verdict = worst_of(grades)
    text = (
        f"The learned covariance had to be kept within its limits at {limited:.1%} of the data and {limited_box:.1%} "
        f"of their range; at {negative:.1%} of the data it was not positive definite before."
    )
    finding = Finding(
        name="positive_definiteness",
        title="positive definiteness",
        values={"limited": limited, "limited_box": limited_box, "negative": negative},
        numbers=f"limited at {limited:.1%} of data, {limited_box:.1%} of range",
        verdict=verdict,
        text=text,
        advice="" if verdict == "good" else _OTHER_LINK,
    )
    return or_open(finding, (margin,))


_OTHER_LINK = Message(
    "Where limits were needed the noise is a guess{where}: learn with {link} or from more data there.",
    where=Either(" (sde.floored says where)", ""),
    link=Option("link", "square", of="fit"),
)
