"""What can be said of the model itself at the data: steps, coverage, positive definiteness, and what it gains."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from itofit._checks import Float, Int
from itofit.data.transitions import Transitions
from itofit.looking.check.findings import Finding, Verdict, fixed, graded, multiple, not_available, percent, worst_of
from itofit.looking.check.sample import Sample
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import gaussian_nll
from itofit.model.training import AutomaticSettings

FEW_ROWS = 20_000
"""Rows of what costs more than residuals."""
BOX_POINTS = 4096
"""Random points of the box, and at most as many of the data, whose neighbours are counted."""
BIAS_LEFT = 1 / 24
"""Of (h ‖∇f‖)² that a correction for the length of steps may leave of a drift, as the errors of `finite_step` do."""
WRONG_BY = 0.025, 0.15
"""Relative errors of the drift from which on caution is advised, and from which on it is bad."""
OTHER_UNIT = 10.0
"""Mean steps that are so many times longer or shorter than those learned from are asked for their unit."""
NEAR = 0.1
"""Points are near if they differ by less than this part of the range, in root mean square over the inputs."""
LEAST_NEAR = 5
FOLDS, MOST_CLUSTERS, LEAST_GROUPS = 5, 50, 10


def units(sde: LearnedSDE, sample: Sample) -> Finding | None:
    """Whether steps are so much longer or shorter than those learned from that units of time seem to differ."""
    h, learned = float(sample.data.h.mean()), sde.data.h_mean
    ratio = h / learned
    if 1 / OTHER_UNIT < ratio < OTHER_UNIT:
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


def discretisation(sde: LearnedSDE, sample: Sample, rng: np.random.Generator) -> Finding:
    """Whether steps are short against the time in which drift and noise change.

    For a linear drift f = −θ x the mean of a step h is (e^{−θh} − 1) x = h f (1 − θh/2 + …): learned from it, the drift
    is too small by h‖∇f‖/2. Norms are in units of each variable's spread. For an underdamped system the rates are
    ‖∂f/∂v‖ and ‖∂f/∂x‖^½.
    """
    name, title = "discretisation", "length of the step"
    if sde.drift_in_noise_units:
        reason = "The drift is a product of two learned functions, whose derivatives are not available."
        return not_available(name, title, reason)
    if sde.kind == "general":
        reason = "For inputs of kind 'general' it is not known how they move, and so how far in a step."
        return not_available(name, title, reason)
    data = sample.data[_some(len(sample.z), rng)]
    ratio = data.h * _rates(sde, data.inputs)
    high, top = float(np.quantile(ratio, 0.95)), float(ratio.max())
    change = _covariance_change(sde, data)
    corrected = sde.step_correction is not None
    bias = BIAS_LEFT * high**2 if corrected else high / 2
    verdict = worst_of([graded(bias, *WRONG_BY), graded(change, 0.3, np.inf)])
    made = "corrected for that, it may still be" if corrected else "so that the learned drift is"
    text = (
        f"In one step the drift changes by up to {percent(high, of='itself')} (95 % of the data; at most "
        f"{percent(top)}), {made} wrong by about {percent(bias)}; the noise covariance typically changes by "
        f"{percent(change, 0)}."
    )
    advice = "Observe at shorter steps, and until then take what depends on fast changes with care."
    if not corrected:
        advice = "Learn it with correct_step=True, or take drift and noise as those of steps of this length: " + (
            "simulate with dt = h."
        )
    return Finding(
        name=name,
        title=title,
        values={"h_gradient_95": high, "h_gradient_max": top, "drift_bias": bias, "covariance_change": change},
        numbers=f"h |grad f| {fixed(high)}, bias of drift {percent(bias)}",
        verdict=verdict,
        text=text,
        advice="" if verdict == "good" else advice,
    )


def _some(n: int, rng: np.random.Generator) -> Int:
    """At most FEW_ROWS of n rows, in order."""
    return np.arange(n) if n <= FEW_ROWS else np.sort(rng.choice(n, FEW_ROWS, replace=False))


def _rates(sde: LearnedSDE, x: Float) -> Float:
    """How fast the drift makes the state change, at each point: shape (n,)."""
    d = sde.n_outputs
    spread = np.maximum(x.std(axis=0), 1e-300)
    J = sde.drift_jacobian(x)
    by_velocity = np.linalg.norm(J[:, :, -d:] * spread[-d:] / spread[-d:, None], 2, axis=(1, 2))
    if sde.kind == "diffusion":  # the state is what moves
        return by_velocity
    by_position = np.linalg.norm(J[:, :, :d] * spread[:d] / spread[:d, None], 2, axis=(1, 2))
    return np.maximum(by_velocity, np.sqrt(by_position))


def _covariance_change(sde: LearnedSDE, data: Transitions) -> float:
    """Median over the data of ‖σ⁻¹ Σ' σ⁻ᵀ − I‖, Σ' where the step ended."""
    d = sde.n_outputs
    end = data.inputs.copy()
    end[:, -d:] += data.increments
    if sde.kind == "underdamped":
        end[:, :d] += data.h[:, None] * end[:, d:]
    inverse = np.linalg.inv(sde.diffusion(data.inputs))
    ratio = inverse @ sde.covariance(np.clip(end, sde.box[0], sde.box[1])) @ inverse.swapaxes(1, 2)
    return float(np.median(np.linalg.norm(ratio - np.eye(d), 2, axis=(1, 2))))


def extrapolation(sde: LearnedSDE, sample: Sample, rng: np.random.Generator) -> Finding:
    """How much of the data lies outside the range of the training data, or alone, and how much of it has none."""
    low, high = sde.box
    x = sample.data.inputs
    outside = float(np.mean(((x < low) | (x > high)).any(axis=1)))
    u = (x[_some(len(x), rng)] - low) / (high - low)
    m = u.shape[1]
    near = NEAR * np.sqrt(m)
    tree = cKDTree(u)
    asked = rng.permutation(len(u))[:BOX_POINTS]
    neighbour = [LEAST_NEAR + 1]  # a point is near itself
    alone = float(np.mean(~np.isfinite(tree.query(u[asked], k=neighbour, distance_upper_bound=near)[0])))
    nearest = tree.query(rng.random((BOX_POINTS, m)), distance_upper_bound=near)[0]
    covered = float(np.mean(np.isfinite(nearest)))
    verdict = worst_of([graded(outside, 0.01, 0.1), graded(alone, 0.05, np.inf), graded(1 - covered, 0.5, np.inf)])
    text = (
        f"{outside:.1%} of the data are outside the range that the model was learned in, {alone:.1%} have fewer than "
        f"{LEAST_NEAR} others near them, and {covered:.0%} of that range has data near (within a tenth of it)."
    )
    return Finding(
        name="extrapolation",
        title="extrapolation",
        values={"outside": outside, "alone": alone, "covered": covered},
        numbers=f"{outside:.1%} outside, {covered:.0%} of the box covered",
        verdict=verdict,
        text=text,
        advice="" if verdict == "good" else "Drift and noise are known near the data alone: plot and trust them there, "
        "watch where simulated paths go, and learn from data that cover what you want to know.",
    )  # fmt: skip


def positive_definiteness(sde: LearnedSDE, sample: Sample, rng: np.random.Generator) -> Finding:
    """Where the covariance needed its limits."""
    low, high = sde.box
    box = low + (high - low) * rng.random((BOX_POINTS, sde.n_inputs))
    x = sample.data.inputs
    limited, limited_box = float(sde.floored(x).mean()), float(sde.floored(box).mean())
    raw = sde.covariance(x[_some(len(x), rng)], raw=True)
    scale = np.sqrt(np.abs(np.diagonal(raw, axis1=1, axis2=2))) + 1e-300
    raw = raw / (scale[:, :, None] * scale[:, None, :])
    negative = float(np.mean(np.linalg.eigvalsh(raw)[:, 0] <= 0))
    verdict = worst_of([graded(limited, 0.01, 0.1), graded(limited_box, 0.25, np.inf)])
    text = (
        f"The learned covariance had to be kept within its limits at {limited:.1%} of the data and {limited_box:.1%} "
        f"of their range; at {negative:.1%} of the data it was not positive definite before."
    )
    return Finding(
        name="positive_definiteness",
        title="positive definiteness",
        values={"limited": limited, "limited_box": limited_box, "negative": negative},
        numbers=f"limited at {limited:.1%} of data, {limited_box:.1%} of box",
        verdict=verdict,
        text=text,
        advice="" if verdict == "good" else "Where limits were needed the noise is a guess (sde.floored says where): "
        "learn with fit(..., link='square') or from more data there.",
    )  # fmt: skip


def gain(sde: LearnedSDE, sample: Sample, rng: np.random.Generator) -> Finding:
    """Whether the model predicts steps better than constant drift and noise would.

    The constant model is fitted to four fifths of the data at a time and judged on the rest; the SDE as it is. The
    standard error is that of means over trajectories, or with few of those, over pieces of neighbouring rows.

    On the data that it was learned from, p fitted numbers flatter the mean log-likelihood by about p / n: by half of it
    above the truth, which is as far above new data. The model is better only if its gain is clearly above that.
    """
    name, title = "gain", "gain over constants"
    data = sample.data
    clusters = _clusters(sample)
    fold = rng.permutation(np.arange(clusters.max() + 1) % FOLDS)[clusters]
    try:
        constant = _constant_nll(data.increments, data.h, fold)
    except np.linalg.LinAlgError:
        reason = "Constant coefficients cannot be fitted: some outputs do not move, or only together."
        return not_available(name, title, reason)
    difference = constant - sde.nll(data, pointwise=True)
    mean = float(difference.mean())
    sums = np.bincount(clusters, difference - mean)
    error = float(np.sqrt(np.sum(sums**2) * len(sums) / (len(sums) - 1)) / len(difference))
    flattery = _fitted_numbers(sde) / sample.n_all if _learned_from(sde, sample) else 0.0
    verdict: Verdict = "good" if mean - flattery > 2 * error else "caution" if mean > -2 * error else "bad"
    words = {"good": "better than", "caution": "not clearly better than", "bad": "worse than"}[verdict]
    hint, advice = "", _GAIN_ADVICE[verdict]
    if flattery:
        hint = f" These are the data it was learned from, which flatter it by up to about {flattery:.4f}."
        advice += " Check it on data that were held out of training." if advice else ""
    return Finding(
        name=name,
        title=title,
        values={
            "gain": mean,
            "gain_error": error,
            "flattery": flattery,
            "nll": float(constant.mean()) - mean,
            "nll_constant": float(constant.mean()),
        },
        numbers=f"{mean:+.4f} +- {error:.4f} nats per transition",
        verdict=verdict,
        text=f"The model is {words} constant drift and noise: its log-likelihood per transition differs by "
        f"{mean:+.4f} ± {error:.4f}.{hint}",
        advice=advice,
    )


_GAIN_ADVICE = {
    "good": "",
    "caution": "Drift and noise hardly depend on the inputs, or the model has not caught how: observe for longer, over "
    "a wider range.",
    "bad": "Do not use the model on data like these: learn from data of the same kind, or from more.",
}


def _learned_from(sde: LearnedSDE, sample: Sample) -> bool:
    """Whether the data are those that the model was learned from: as many, as long steps, and the same range."""
    x, h = sample.data.inputs, sample.data.h
    if sample.n_all != sde.data.n_transitions or len(x) < sample.n_all:  # so many flatter nothing
        return False
    same_range = np.allclose([x.min(axis=0), x.max(axis=0)], sde.box, rtol=1e-12, atol=0)
    return bool(same_range and np.isclose(h.mean(), sde.data.h_mean, rtol=1e-6, atol=0))


def _fitted_numbers(sde: LearnedSDE) -> float:
    """How many numbers of drift and covariance the data determine; for the paper's algorithms, how many there are."""
    drift, covariance = (sde.drift_series, sde.drift_settings), (sde.covariance_series, sde.covariance_settings)
    return sum(
        settings.determined if isinstance(settings, AutomaticSettings) else len(series.offset) + 2.0 * series.beta.size
        for series, settings in (drift, covariance)
    )


def _clusters(sample: Sample) -> Int:
    """Rows that may depend on each other: trajectories if there are several, else neighbours in time."""
    n, groups = len(sample.z), sample.data.groups
    if groups is not None:
        labels = np.unique(groups, return_inverse=True)[1]
        if labels.max() + 1 >= LEAST_GROUPS:
            return np.asarray(labels)
    n_clusters = min(MOST_CLUSTERS, n // 2)
    clusters = np.empty(n, dtype=np.intp)
    clusters[sample.order] = np.arange(n) * n_clusters // n
    return clusters


def _constant_nll(increments: Float, h: Float, fold: Int) -> Float:
    """Loss of each transition under constant coefficients fitted to the other folds, shape (n,)."""
    values = np.empty(len(h))
    for k in range(FOLDS):
        out = fold == k
        dx, t = increments[~out], h[~out, None]
        f = dx.sum(axis=0) / t.sum()
        r = (dx - t * f) / np.sqrt(t)
        n, C = int(out.sum()), r.T @ r / len(r)
        if not (np.diagonal(C) > 0).all():
            raise np.linalg.LinAlgError("an output does not move")
        sigma = np.broadcast_to(C, (n, len(f), len(f)))
        values[out] = gaussian_nll(increments[out], h[out], np.broadcast_to(f, (n, len(f))), sigma)
    return values
