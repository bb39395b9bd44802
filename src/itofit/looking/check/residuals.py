"""Whether residuals are standard normals, and the same everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, chdtrc

from itofit._checks import Float, Int, Message, Option
from itofit.looking.check import thresholds
from itofit.looking.check.deviations import (
    TINY,
    Deviation,
    advice_or_need,
    clearest,
    family_p,
    missed_limit,
    missed_size,
    root_above_noise,
    sentences,
    significant_and_large,
    two_sided,
    two_sided_chi2,
    verdict_of,
    what_is_open,
    why_good,
    with_p,
)
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding
from itofit.looking.check.margins import Margin, of_bins, of_estimate, of_share, of_square
from itofit.looking.check.phrases import compared, drift_share, fixed, of_a_step, percent, percents, two_digits

TAIL_SHARE = two_sided(thresholds.TAIL)  # 6.3e-5
"""Share of standard normals in the tail."""
BIN_ROWS = 50
"""Rows in a bin at least, so that their mean is about normal and their variance known to a fifth."""
HEAVY_TAILS = 0.01
"""Level of the test of the kurtosis from which on the variance is not judged as that of normal residuals."""
MOST_BINS, MOST_CELLS = 10, 32
"""Bins of one input, and cells of all together, at most: with more of them, tests would lose power."""


def distribution(rows: ExaminedRows, level: float) -> Finding:
    """Whether the residuals of each output have mean zero, variance one, and are normal."""
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    for j, (z, drift) in enumerate(zip(rows.z.T, rows.drift_size, strict=True)):
        numbers = _moments_and_tests(z, float(drift))
        deviations += _deviations(numbers, len(z), float(drift), rows.outputs[j])
        values |= {f"{name}_{j}": value for name, value in numbers.items()}
    d = rows.z.shape[1]
    verdict = verdict_of(deviations, level)
    mean, variance, kurtosis = (_extreme(values, name, d) for name in ("mean", "variance", "kurtosis"))
    worst = significant_and_large(deviations, level)
    if worst:
        text = "If the model were right, residuals would be standard normals. " + sentences(worst)
    elif verdict == "good":
        text = "Residuals are standard normals, or deviate by too little to matter."
    else:
        text = f"Residuals may be standard normals: nothing was found. {what_is_open(deviations)}"
    return Finding(
        name="residuals",
        title="residuals",
        values={"p": family_p(deviations), "n": float(len(rows.z))} | values,
        numbers=f"mean {fixed(mean, 3, '+')}, variance {fixed(variance)}, kurt. {fixed(kurtosis, 2, '+')}",
        verdict=verdict,
        text=text,
        **advice_or_need(deviations, level, _ADVICE),
    )


_ADVICE = {
    "mean": "The drift is off on these data: learn from more data, or from data of the same kind as these.",
    "variance": "The noise is over- or underestimated: learn from more data, or from data of the same kind as these.",
    "skewness": "Skewed steps come from noise that changes within a step, or from jumps: observe at shorter steps, or "
    "transform the variable (such as to its logarithm) so that its noise is even.",
    "kurtosis": "Look at the largest steps first. If they are real (jumps, bursts, switching), a diffusion is not the "
    "right model: it has the mean and covariance of a step, but not its rare events. If they are errors (of tracking, "
    "of measurement), remove them and learn again.",
    "light tails": "Steps are bounded, discrete or a mixture: check the resolution of the data, or observe at longer "
    "steps.",
    "place mean": Message(
        "The drift misses something: give more data where it is wrong, or another variable that it depends on; one "
        "that drives the system from outside as {covariates}.",
        covariates=Option("covariates", keyword=True),
    ),
    "drift scale": "The drift is too weak or too strong as a whole: learn from more data, over a longer time.",
    "place variance": Message(
        "The noise is wrong somewhere: give more data there, or another variable that it depends on; one that drives "
        "the system from outside as {covariates}.",
        covariates=Option("covariates", keyword=True),
    ),
}
_ADVICE["tail"] = _ADVICE["kurtosis"]
_TERMS_ARE_MISSING = Message(
    "The formula is too short: find it with a higher {degree} or other {terms}, or use the learned functions instead. "
    "If their check says the same, a variable is missing; one that drives the system from outside is given as "
    "{covariates}.",
    degree=Option("degree"),
    terms=Option("terms"),
    covariates=Option("covariates", keyword=True),
)
_ADVICE_ON_FORMULA = _ADVICE | {"place mean": _TERMS_ARE_MISSING, "place variance": _TERMS_ARE_MISSING}


def _moments_and_tests(z: Float, drift: float) -> dict[str, float]:
    """Moments of the residuals of one output, their standard errors, and p-values of what they should be.

    The p-value of the variance is that of χ², exact for normal residuals. Heavy tails alone would reject it, so where
    the kurtosis shows them the larger p-value of the variance's own error counts, which comes from the fourth moment.
    Those of skewness and kurtosis are D'Agostino's and Anscombe's, good from 20 rows on. Standard errors are those of
    normal residuals, or larger if the residuals say so.
    """
    from scipy.stats import kurtosistest, skewtest  # noqa: PLC0415  (it takes most of a second to import)

    n, mean = len(z), float(z.mean())
    second, third, fourth = (float(np.mean((z - mean) ** k)) for k in (2, 3, 4))
    varies = second > 1e-12 * mean**2 + 1e-200  # or else there is no shape to speak of
    mean_error = float(np.sqrt(max(second, TINY) / n))
    variance_error = float(np.sqrt(max(fourth - second**2, 2 * second**2, TINY) / n))
    skewness, kurtosis = (third / second**1.5, fourth / second**2 - 3) if varies else (0.0, 0.0)
    skewness_error, kurtosis_error = _errors_of_shape((z - mean) / np.sqrt(second)) if varies else (np.inf, np.inf)
    p_kurtosis = float(kurtosistest(z).pvalue) if varies else 1.0
    p_variance = two_sided_chi2(n * second, n - 1)
    if kurtosis > 0 and p_kurtosis < HEAVY_TAILS:
        p_variance = max(p_variance, two_sided(abs(second - 1) / variance_error))
    n_tail = int((np.abs(z) > thresholds.TAIL).sum())
    return {
        "mean": mean,
        "mean_error": mean_error,
        "mean_per_drift": mean / drift if drift > 0 else np.nan,
        "variance": second,
        "variance_error": variance_error,
        "skewness": skewness,
        "skewness_error": skewness_error,
        "kurtosis": kurtosis,
        "kurtosis_error": kurtosis_error,
        "n_tail": float(n_tail),
        "tail_ratio": n_tail / n / TAIL_SHARE,
        "p_mean": two_sided(abs(mean) / mean_error),
        "p_variance": p_variance,
        "p_skewness": float(skewtest(z).pvalue) if varies else 1.0,
        "p_kurtosis": p_kurtosis,
        "p_tail": float(bdtrc(n_tail - 1, n, TAIL_SHARE) if n_tail else 1.0),
    }


def _errors_of_shape(u: Float) -> tuple[float, float]:
    """Standard errors of skewness and kurtosis of residuals with mean zero and variance one: a normal's at least.

    From their influence functions u³ − 3u − κ₃(3u² − 1)/2 and u⁴ − 4κ₃u − κ₄(2u² − 1), κ being third and fourth moment:
    for a normal u, Hermite polynomials of variance 6 and 24.
    """
    third, fourth = float(np.mean(u**3)), float(np.mean(u**4))
    of_skewness = u**3 - 3 * u - third * (1.5 * u**2 - 0.5)
    of_kurtosis = u**4 - 4 * third * u - fourth * (2 * u**2 - 1)
    variances = max(6.0, float(np.mean(of_skewness**2))), max(24.0, float(np.mean(of_kurtosis**2)))
    return float(np.sqrt(variances[0] / len(u))), float(np.sqrt(variances[1] / len(u)))


def _deviations(v: dict[str, float], n: int, drift: float, name: str) -> list[Deviation]:
    """Deviations of one output's residuals from standard normals."""
    mean, skewness, kurtosis = v["mean"], v["skewness"], v["kurtosis"]
    size = {
        "mean": missed_size(abs(mean), drift),
        "variance": abs(v["variance"] - 1) / thresholds.VARIANCE,
        "skewness": abs(skewness) / thresholds.SKEWNESS,
        "kurtosis": abs(kurtosis) / thresholds.KURTOSIS,
        "tail": v["tail_ratio"] / thresholds.TAIL_RATIO,
    }
    text = {
        "mean": f"{name} moves by {mean:+.3f} standard deviations of a step more than the drift says, "
        f"{drift_share(abs(mean), drift)}",
        "variance": f"the noise of {name} has a variance {compared(v['variance'], 'what')} the model says",
        "skewness": f"residuals of {name} are skewed ({skewness:+.2f}, normal is 0 ± {np.sqrt(6 / n):.2f})",
        "kurtosis": f"residuals of {name} have {'heavy' if kurtosis > 0 else 'light'} tails (excess kurtosis "
        f"{kurtosis:+.2f}, normal is 0 ± {np.sqrt(24 / n):.2f})",
        "tail": f"{v['n_tail']:.0f} residuals of {name} are beyond {thresholds.TAIL:g} standard deviations, where "
        f"{n * TAIL_SHARE:.1f} are expected: heavy tails or outliers",
    }
    name_of = {what: what for what in size} | ({"kurtosis": "light tails"} if kurtosis < 0 else {})
    margin = _margins(v, n, drift, name)
    return [Deviation(name_of[what], v[f"p_{what}"], size[what], text[what], (margin[what],)) for what in size]


def _margins(v: dict[str, float], n: int, drift: float, name: str) -> dict[str, Margin]:
    """How large the deviations of one output's residuals may be."""
    mean, variance, skewness, kurtosis = (
        of_estimate(f"the {what} of {name}", v[key] - normal, v[f"{key}_error"], limit, n, form=form)
        for what, key, normal, limit, form in (
            ("mean motion", "mean", 0, missed_limit(drift), of_a_step),
            ("variance", "variance", 1, thresholds.VARIANCE, percents),
            ("skewness", "skewness", 0, thresholds.SKEWNESS, two_digits),
            ("kurtosis", "kurtosis", 0, thresholds.KURTOSIS, two_digits),
        )
    )
    limit = thresholds.TAIL_RATIO * TAIL_SHARE
    tail = of_share(f"the share of rare large steps of {name}", int(v["n_tail"]), n, limit, form="{:.2%}".format)
    return {"mean": mean, "variance": variance, "skewness": skewness, "kurtosis": kurtosis, "tail": tail}


def _extreme(values: dict[str, float], name: str, d: int) -> float:
    """The value of the output that is furthest from what it should be."""
    normal = 1.0 if name == "variance" else 0.0
    return max((values[f"{name}_{j}"] for j in range(d)), key=lambda value: abs(value - normal))


# Over the inputs


class Bins(NamedTuple):
    """A partition of the rows by their inputs."""

    key: str  # for numbers by name
    names: tuple[str, ...]  # of what the rows are described by
    labels: Int  # (n,)
    x: Float  # (n, m) what the rows are described by
    most: int  # bins that there would be with more rows

    def describe(self, label: int) -> str:
        """Where the rows of a bin are, in words."""
        rows = self.x[self.labels == label]
        low, high = rows.min(axis=0), rows.max(axis=0)
        if len(low) == 1:
            return f"{self.names[0]} is {low[0]:.3g} to {high[0]:.3g}"
        middle = zip(self.names, np.median(rows, axis=0), strict=True)
        return f"the inputs are around ({', '.join(f'{name} = {value:.3g}' for name, value in middle)})"


def over_inputs(rows: ExaminedRows, level: float) -> Finding:
    """Lack of fit: whether mean and variance of the residuals depend on the place.

    Each input is cut into up to 10 bins of equally many rows, and with several inputs all of them together into up to
    32 cells. Means of z in the bins are compared with each other by their own errors, those of z² by the error
    they have in common; both sums of squares are χ² with one degree of freedom less than there are bins. And z is
    regressed on the drift itself: does a part of it come on top, or is it too much?
    """
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    for bins in _partitions(rows.data.inputs, rows.inputs):
        for j, (z, drift) in enumerate(zip(rows.z.T, rows.drift_size, strict=True)):
            tests, numbers = _lack_of_fit(z - z.mean(), bins, float(drift), rows.outputs[j])
            deviations += tests
            values |= {f"{what}_{bins.key}_output_{j}": value for what, value in numbers.items()}
    for j, (z, g) in enumerate(zip(rows.z.T, rows.g.T, strict=True)):
        deviation, slope = _drift_scale(z, g, rows.outputs[j])
        deviations.append(deviation)
        values |= {f"drift_short_output_{j}": slope, f"p_drift_short_output_{j}": deviation.p}
    worst = significant_and_large(deviations, level)
    verdict = verdict_of(deviations, level)
    if worst:
        text = "The model is wrong in some places more than in others. " + sentences(worst)
    elif verdict == "good":
        text = "Mean and variance of the residuals are the same everywhere, up to what does not matter. "
        text += why_good(deviations, level)
    else:
        text = "Mean and variance of the residuals may be the same everywhere. "
        text += f"{why_good(deviations, level)} {what_is_open(deviations)}"
    return Finding(
        name="place",
        title="residuals over inputs",
        values={"p": family_p(deviations)} | values,
        numbers=with_p(clearest(deviations, level), deviations, level),
        verdict=verdict,
        text=text,
        **advice_or_need(deviations, level, _ADVICE_ON_FORMULA if rows.of_formula else _ADVICE),
    )


def _partitions(x: Float, names: tuple[str, ...]) -> list[Bins]:
    """Bins of each input that is not constant, and cells of all inputs together."""
    n, m = x.shape
    n_bins = int(np.clip(n // BIN_ROWS, 2, MOST_BINS))
    partitions = []
    for i, column in enumerate(x.T):
        edges = np.unique(np.quantile(column, np.arange(1, n_bins) / n_bins))
        labels = np.unique(np.searchsorted(edges, column, side="right"), return_inverse=True)[1]
        if labels.max() > 0:
            partitions.append(Bins(f"input_{i}", (names[i],), labels, column[:, None], MOST_BINS))
    if m > 1 and n >= 4 * BIN_ROWS:
        labels = np.zeros(n, dtype=np.intp)
        for halving in range(int(np.log2(min(n // BIN_ROWS, MOST_CELLS)))):
            labels = 2 * labels + _upper_half(x[:, halving % m], labels)
        partitions.append(Bins("all_inputs", names, np.unique(labels, return_inverse=True)[1], x, MOST_CELLS))
    return partitions


def _upper_half(column: Float, labels: Int) -> Int:
    """1 for the rows of each cell that are above its median, else 0."""
    order = np.lexsort((column, labels))
    sizes = np.bincount(labels)
    first = np.cumsum(sizes) - sizes
    upper = np.zeros(len(column), dtype=np.intp)
    inside = labels[order]
    upper[order] = np.arange(len(column)) - first[inside] >= sizes[inside] / 2
    return upper


def _lack_of_fit(z: Float, bins: Bins, drift: float, name: str) -> tuple[list[Deviation], dict[str, float]]:
    """Tests of mean and variance of centred residuals over bins."""
    n, n_b = len(z), np.bincount(bins.labels).astype(float)
    square = z**2
    average = max(float(square.mean()), TINY)
    mean = np.bincount(bins.labels, z) / n_b
    variance = np.bincount(bins.labels, square) / n_b
    weight = n_b / np.maximum(variance, TINY)
    mean_off = mean - np.sum(weight * mean) / weight.sum()
    variance_off = variance / average - 1
    kappa = max(square.var() / average**2, TINY)
    dof = len(n_b) - 1
    q = float(np.sum(weight * mean_off**2))
    p_mean = float(chdtrc(dof, q))
    p_variance = float(chdtrc(dof, np.sum(n_b * variance_off**2) / kappa))
    misfit = root_above_noise(float(np.sum(n_b * mean_off**2) / n), dof * average / n)
    a, b = int(np.argmax(np.abs(mean_off) * np.sqrt(weight))), int(np.argmax(np.abs(variance_off) * np.sqrt(n_b)))
    worst = float(variance_off[b])
    where = f"the range of {' and '.join(bins.names)}"
    deviations = [
        Deviation(
            "place mean",
            p_mean,
            max(missed_size(misfit, drift), abs(mean_off[a]) / thresholds.MISSED_IN_BIN),
            f"the drift of {name} misses {misfit:.3f} standard deviations of a step ({drift_share(misfit, drift)}), "
            f"most where {bins.describe(a)}",
            (
                of_square(
                    f"the drift of {name} over {where}",
                    q,
                    dof,
                    missed_limit(drift),
                    n / average,
                    most=bins.most - 1,
                    form=of_a_step,
                ),
                of_bins(
                    f"the drift of {name} in some part of {where}",
                    mean_off,
                    np.sqrt(np.maximum(variance, average) / n_b),
                    thresholds.MISSED_IN_BIN,
                    n,
                    most=bins.most,
                    form=of_a_step,
                ),
            ),
            f"drift misses {misfit:.3f} of a step",
        ),
        Deviation(
            "place variance",
            p_variance,
            abs(worst) / thresholds.VARIANCE_IN_BIN,
            f"where {bins.describe(b)}, the noise of {name} has a variance {compared(1 + worst, 'that')} elsewhere, "
            "relative to the model",
            (
                of_bins(
                    f"the variance of {name} in some part of {where}",
                    variance_off,
                    np.sqrt(max(kappa, 2.0) / n_b),
                    thresholds.VARIANCE_IN_BIN,
                    n,
                    most=bins.most,
                    form=percents,
                ),
            ),
            f"variance off {'+' if worst > 0 else '-'}{percent(abs(worst), 0)}",
        ),
    ]
    return deviations, {"p_mean": p_mean, "misfit": misfit, "p_variance": p_variance, "variance_off": worst}


def _drift_scale(z: Float, g: Float, name: str) -> tuple[Deviation, float]:
    """Whether the drift is too small or too large as a whole: the slope of z over g."""
    product, squares = z * g, float(np.sum(g**2))
    slope = float(product.sum() / max(squares, TINY))
    root = np.sqrt(max(float(np.sum(product**2)), TINY))
    limit = max(thresholds.MISSED_DRIFT, thresholds.LEAST_MISSED / np.sqrt(max(squares / len(g), TINY)))
    error = root / max(squares, TINY)
    margin = of_estimate(f"the drift of {name} as a whole", slope, error, limit, len(z), form=percents)
    small = "small" if slope > 0 else "large"
    text = f"the drift of {name} is too {small}: {1 + slope:.2f} of it fits"
    short = f"{1 + slope:.2f} of the drift fits"
    p = two_sided(abs(product.sum()) / root)
    return Deviation("drift scale", p, abs(slope) / limit, text, (margin,) if squares > 0 else (), short), slope
