"""Whether a model predicts steps better than constant drift and noise."""

from __future__ import annotations

import numpy as np

from itofit._checks import Float, Int
from itofit.data.periods import is_periodic
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding, Verdict, about, not_available
from itofit.looking.check.thresholds import GAIN_ERRORS, LEAST_GAIN
from itofit.model.learned import LearnedSDE
from itofit.model.likelihood import gaussian_nll

FOLDS = 5
"""Parts of the data, each judged with constants fitted to the others."""
LEAST_GROUPS = 10
"""Trajectories needed to take the standard error from the spread of their means."""
MOST_CLUSTERS = 50
"""Pieces of neighbouring rows that take their place where there are fewer: enough for an error, and long."""
SURE = 1.64
"""Standard errors between a gain that is seen in 95 % of data sets, and the least that is called one."""


def gain(sde: LearnedSDE, rows: ExaminedRows, rng: np.random.Generator) -> Finding:
    """Whether the model predicts steps better than constant drift and noise would.

    The constant model is fitted to four fifths of the data at a time and judged on the rest; the SDE as it is. The
    standard error is that of means over trajectories, or with few of those, over pieces of neighbouring rows.

    On the data that it was learned from, p fitted numbers flatter the mean log-likelihood by about p / n: by half of it
    above the truth, which is as far above new data. The model is better only if its gain is clearly above that.

    A model that is neither clearly better nor worse is no better if a gain that matters would have been seen. Otherwise
    the data cannot tell.
    """
    name, title = "gain", "gain over constants"
    data = rows.observed
    clusters = _clusters(rows)
    fold = rng.permutation(np.arange(clusters.max() + 1) % FOLDS)[clusters]
    try:
        constant = _constant_nll(data.increments, data.h, fold)
    except np.linalg.LinAlgError:
        reason = "Constant coefficients cannot be fitted: some outputs do not move, or only together."
        return not_available(name, title, reason)
    difference = constant - (sde.nll(data, pointwise=True) if rows.loss is None else rows.loss)
    mean = float(difference.mean())
    sums = np.bincount(clusters, difference - mean)
    error = float(np.sqrt(np.sum(sums**2) * len(sums) / (len(sums) - 1)) / len(difference))
    flattery = _n_fitted(sde) / rows.n_all if _learned_from(sde, rows) else 0.0
    least = LEAST_GAIN * sde.n_outputs
    verdict = _verdict(mean, flattery, GAIN_ERRORS * error, least)
    remark, advice, enough = "", _GAIN_ADVICE[verdict], None
    if verdict == "cannot tell":
        seen = max(mean - flattery, least)
        enough = max(2.0, ((GAIN_ERRORS + SURE) * error / seen) ** 2) * len(difference)
        advice = f"About {about(enough)} transitions would show a gain of {seen:.4f}."
    if flattery:
        remark = f" These are the data it was learned from, which flatter it by up to about {flattery:.4f}."
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
        text=f"The model is {_WORDS[verdict]} constant drift and noise: its log-likelihood per transition differs by "
        f"{mean:+.4f} ± {error:.4f}.{remark}",
        advice=advice,
        enough=enough,
    )


def _verdict(mean: float, flattery: float, clear: float, least: float) -> Verdict:
    """The verdict on a gain that differs from the true one by less than `clear`."""
    if mean - flattery > clear:
        return "good"
    if mean < -clear:
        return "bad"
    return "caution" if mean - flattery + clear < least else "cannot tell"


_WORDS: dict[Verdict, str] = {
    "good": "better than",
    "cannot tell": "not clearly better or worse than",
    "caution": "no better than",
    "bad": "worse than",
}
_GAIN_ADVICE: dict[Verdict, str] = {
    "good": "",
    "cannot tell": "",
    "caution": "Drift and noise hardly depend on the inputs, or the model has not caught how: observe for longer, over "
    "a wider range.",
    "bad": "Do not use the model on data like these: learn from data of the same kind, or from more.",
}


def _n_fitted(sde: LearnedSDE) -> float:
    """How many numbers of drift and covariance the data determine; for the paper's algorithms, how many there are."""
    return sde.n_determined


def _learned_from(sde: LearnedSDE, rows: ExaminedRows) -> bool:
    """Whether the data are those that the model was learned from: as many, as long steps, and the same range."""
    x, h = rows.observed.inputs, rows.observed.h
    if rows.n_all != sde.data.n_transitions or len(x) < rows.n_all:  # so many flatter nothing
        return False
    if rows.through_noise:  # whose range is that of the states
        return bool(np.isclose(h.mean(), sde.data.h_mean, rtol=1e-12, atol=0))
    own = ~is_periodic(sde.periods)  # of others the range is a period, whatever the data
    same_range = np.allclose([x.min(axis=0)[own], x.max(axis=0)[own]], sde.box[:, own], rtol=1e-12, atol=0)
    return bool(same_range and np.isclose(h.mean(), sde.data.h_mean, rtol=1e-6, atol=0))


def _clusters(rows: ExaminedRows) -> Int:
    """Rows that may depend on each other: trajectories if there are several, else neighbours in time."""
    n, groups = len(rows.z), rows.data.groups
    if groups is not None:
        labels = np.unique(groups, return_inverse=True)[1]
        if labels.max() + 1 >= LEAST_GROUPS:
            return np.asarray(labels)
    n_clusters = min(MOST_CLUSTERS, n // 2)
    clusters = np.empty(n, dtype=np.intp)
    clusters[rows.order] = np.arange(n) * n_clusters // n
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
