"""Whether residuals are independent in time, and the next step is a matter of the present state alone.

All tests rest on one property of a right model: given the past, a residual has mean zero. So for any number w of
the past, Σ w z / √Σ w² z² is standard normal for many rows, whatever the variance and the tails of z are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from itofit._checks import Float, Int
from itofit.looking.check.findings import (
    Deviation,
    Finding,
    clearest,
    counting,
    drift_share,
    family_p,
    in_noise_or_drift,
    not_available,
    root_above_noise,
    sentences,
    shown_with_p,
    two_sided,
    verdict_of,
)
from itofit.looking.check.sample import Sample

LAGS = 10
PAST = 10
"""Steps whose residuals are summed to see slow memory."""
LEAST_PAIRS = 20
MATTERS = 0.05
"""A correlation that matters: one of −0.05 between steps means that a tenth of Σ is errors of measurement."""


# Whiteness


def whiteness(sample: Sample, level: float) -> Finding:
    """Correlations of residuals within trajectories: a Ljung-Box test, and one of the first lag alone.

    What functions of the state explain of the residuals is taken away before: that is for `over_inputs` to find.
    """
    name, title = "whiteness", "whiteness in time"
    if reason := _too_few(sample):
        return not_available(name, title, reason)
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    correlations: list[Float] = []
    for j, z in enumerate(_beside_the_state(sample).T):
        r, found, numbers = _white(z, sample.run, j, sample.outputs[j])
        deviations += found
        correlations.append(r)
        values |= numbers | {f"measurement_variance_{j}": _measurement_variance(sample, j)}
    worst = counting(deviations, level)
    text, advice = "Residuals of one step say nothing of those of the next, as far as the data can tell.", ""
    shown = clearest(deviations if worst else deviations[::2], level)
    if worst:
        j = deviations.index(shown) // 2
        if (first := deviations[2 * j]) in worst:  # which says more of the cause than all lags together
            shown = first
        text, advice = _cause(sample, j, correlations[j], values[f"measurement_variance_{j}"], shown.found)
    return Finding(
        name=name,
        title=title,
        values={"p": family_p(deviations)} | values,
        numbers=shown_with_p(shown, deviations, level),
        verdict=verdict_of(deviations, level),
        text=text,
        advice=advice,
    )


def _white(z: Float, run: Int, j: int, name: str) -> tuple[Float, list[Deviation], dict[str, float]]:
    """Correlations of one output at each lag, their deviations from zero, and all numbers."""
    r, t, n = _correlations(z, run)
    q = float(np.sum(t**2))
    p_all, p_first = float(chdtrc(len(t), q)), two_sided(t[0])
    total = root_above_noise(float(np.sum(r**2)), float(np.sum(1 / n)))
    found = f"residuals of {name} are correlated in time ("
    deviations = [
        Deviation("first", p_first, abs(r[0]) / MATTERS, f"{found}{r[0]:+.3f} from one step to the next)",
                  f"correlation of steps {r[0]:+.3f}"),
        Deviation("all", p_all, total / MATTERS, f"{found}{total:.3f} over {len(r)} steps together)",
                  f"correlation over {len(r)} steps {total:.3f}"),
    ]  # fmt: skip
    values = {f"correlation_{j}_lag_{k}": float(value) for k, value in enumerate(r, start=1)}
    values |= {f"ljung_box_{j}": q, f"p_ljung_box_{j}": p_all, f"p_lag_1_{j}": p_first, f"total_correlation_{j}": total}
    return r, deviations, values


def _too_few(sample: Sample) -> str:
    """Why nothing can be said of time, if so."""
    if sample.why_no_time:
        return sample.why_no_time
    n_pairs = int(np.sum(np.diff(sample.run) == 0))
    if n_pairs < LEAST_PAIRS:
        return f"Only {n_pairs} transitions follow another in time; {LEAST_PAIRS} are needed."
    if not (sample.z.std(axis=0) > 1e-9 * np.abs(sample.z).max(axis=0)).all():
        return "Residuals do not vary in time."
    return ""


def _beside_the_state(sample: Sample) -> Float:
    """Residuals in time order without what functions of the state explain of them, shape (n, d)."""
    z = sample.z[sample.order]
    return _without(_functions_of(_ranks(sample.data.inputs[sample.order])), z)


def _pairs(run: Int, lag: int) -> Int:
    """First members, as positions in time order, of the pairs `lag` steps apart in one unbroken piece."""
    return np.flatnonzero(run[lag:] == run[:-lag])


def _correlations(z: Float, run: Int) -> tuple[Float, Float, Float]:
    """Correlation at each lag, pooled over all pieces; its value as a standard normal; and the number of pairs."""
    r, t, n = [], [], []
    for lag in range(1, LAGS + 1):
        i = _pairs(run, lag) if lag < len(run) else np.empty(0, dtype=np.intp)
        if len(i) < LEAST_PAIRS:
            break
        a, b = z[i], z[i + lag]
        product = a * b
        r.append(product.sum() / np.sqrt(np.sum(a**2) * np.sum(b**2)))
        t.append(product.sum() / np.sqrt(max(float(np.sum(product**2)), 1e-300)))
        n.append(len(i))
    return np.array(r), np.array(t), np.array(n, dtype=float)


def _measurement_variance(sample: Sample, j: int) -> float:
    """Variance of errors of measurement of output j, in its own unit squared, if they are the cause.

    An error adds to one increment what it takes from the next: their covariance is minus its variance.
    """
    i = _pairs(sample.run, 1)
    r = sample.r[:, j] - sample.r[:, j].mean()
    return max(0.0, -float(np.mean(r[sample.order[i]] * r[sample.order[i + 1]])))


def _cause(sample: Sample, j: int, r: Float, noise: float, found: str) -> tuple[str, str]:
    """What correlations of this form are a sign of, and what to do."""
    found = found[:1].upper() + found[1:]
    velocity = ", velocities computed as differences of positions," if sample.data.kind == "underdamped" else ""
    if r[0] < 0 and abs(r[0]) >= 0.5 * np.abs(r).max():
        share = min(1.0, -2 * float(r[0]))
        return (
            f"{found}. Negative correlation is the sign of measurement noise: errors of variance about {noise:.2g} "
            f"(standard deviation {np.sqrt(noise):.2g}) would explain it, and make {share:.0%} of the learned noise.",
            f"Measurement noise counts as noise of the system. Measure more accurately, or "
            f"keep every k-th observation: the share falls about as 1/k.{_VELOCITY if velocity else ''}",
        )
    if r[0] > 0:
        return (
            f"{found}. Positive correlation is the sign of memory: coloured noise, smoothed data{velocity} or a hidden "
            "variable.",
            "Observe at longer steps than the memory lasts (keep every k-th observation), undo smoothing, or add the "
            f"hidden variable (such as a velocity) to the inputs.{_VELOCITY if velocity else ''}",
        )
    lag = int(np.argmax(np.abs(r))) + 1
    return (
        f"{found[: found.index(' (')]}, most between steps {lag} apart ({r[lag - 1]:+.3f}): there is memory, or a "
        "rhythm in the system or its observation.",
        "Look at the autocorrelation of the residuals; add the variable that carries the memory (such as a phase) to "
        "the inputs.",
    )


_VELOCITY = " Velocities should be measured, not computed from positions."


# Markov property


class Past(NamedTuple):
    """Pairs of consecutive steps, with what the state explains taken away."""

    z: Float  # (n, d) the later residual
    size: Float  # (n, d) |z| of it, the past taken away
    past: Float  # (n, q) numbers of the past, in columns
    size_before: Float  # (n, 1) mean |z| of the earlier residual over the outputs


def markov(sample: Sample, level: float) -> Finding:
    """Whether the past helps to predict the next step, given the present state.

    Three tests for each output. *Mean*: z is regressed on the residuals before it, their products with the state and
    their sum over 10 steps, after functions of the state were taken away from both; a score test with White's
    covariance, χ². *Noise*: the same for |z| on that of the step before. *Two steps*: the variance of two steps
    together against the sum of theirs.
    """
    name, title = "markov", "Markov property"
    if reason := _too_few(sample):
        return not_available(name, title, reason)
    beside = _beside_the_state(sample)
    past = _past(sample, beside)
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    for j, drift in enumerate(sample.drift_size):
        found, numbers = _memory(past, j, _two_steps(sample, beside[:, j]), float(drift), sample.outputs[j])
        deviations += found
        values |= {f"{what}_{j}": number for what, number in numbers.items()}
    worst = counting(deviations, level)
    text = (
        "The past of a trajectory does not help to predict its next step, as far as the data can tell and it matters."
    )
    if worst:
        text = "The state is not all that matters for the next step. " + sentences(worst)
    return Finding(
        name=name,
        title=title,
        values={"p": family_p(deviations)} | values,
        numbers=shown_with_p(clearest(deviations, level), deviations, level),
        verdict=verdict_of(deviations, level),
        text=text,
        advice=" ".join(dict.fromkeys(_ADVICE[deviation.name] for deviation in worst)),
    )


def _memory(
    past: Past, j: int, two_steps: tuple[float, float], drift: float, name: str
) -> tuple[list[Deviation], dict[str, float]]:
    """Deviations of one output from a process without memory, and their numbers."""
    p, predicted = _score(past.z[:, j], past.past)
    p_noise, clustering = _score(past.size[:, j], past.size_before)
    clustering /= float(past.size[:, j].std())
    ratio, error = two_steps
    p_two = two_sided(abs(ratio - 1) / error)
    deviations = [
        Deviation("mean", p, in_noise_or_drift(predicted, drift),
                  f"earlier steps predict {predicted:.3f} standard deviations of the next step of {name}, "
                  f"{drift_share(predicted, drift)}", f"past predicts {predicted:.3f} of a step"),
        Deviation("noise", p_noise, clustering / MATTERS,
                  f"the size of a step of {name} goes with that of the one before (correlation {clustering:.2f})",
                  f"correlation of sizes {clustering:.3f}"),
        Deviation("two steps", p_two, abs(ratio - 1) / MATTERS,
                  f"two steps of {name} together have {ratio:.2f} of the variance that single ones imply",
                  f"two steps/one {ratio:.3f}"),
    ]  # fmt: skip
    numbers = {"predicted": predicted, "p_mean": p, "clustering": clustering, "p_noise": p_noise}
    return deviations, numbers | {"variance_ratio": ratio, "variance_ratio_error": error, "p_two_steps": p_two}


_ADVICE = {
    "mean": "A variable is missing: add what carries the memory (a velocity, a force, a delayed value) to the inputs; "
    "if whiteness points to measurement noise, deal with that first.",
    "noise": "The strength of the noise has a memory of its own: add a variable that follows it to the inputs, or "
    "treat regimes apart.",
    "two steps": "Learn again from every second observation: drift and noise that then change depend on the step.",
}


def _past(sample: Sample, z: Float) -> Past:
    """Regressors and regressands of the tests."""
    i = _pairs(sample.run, 1)
    before, after = z[i], z[i + 1]
    state = _ranks(sample.data.inputs[sample.order[i + 1]])
    n, d = before.shape
    columns = [before]
    if n >= 100 * d * (2 + state.shape[1]):  # few numbers of the past where there are few rows
        columns += [before * u[:, None] for u in state.T]
        columns.append(_recent_sums(z, sample.run)[i + 1])
    B = _functions_of(state)
    W = np.hstack(columns)
    after, W = _without(B, after), _without(B, W)
    # sizes of what remains, as correlated steps have correlated sizes
    size = np.abs(_without(W, after))
    size_before = np.abs(before).mean(axis=1, keepdims=True)
    return Past(after, _without(B, size), W, _without(B, size_before))


def _without(B: Float, y: Float) -> Float:
    """Columns of y without their regression on those of B, which may be linearly dependent."""
    return np.asarray(y - B @ np.linalg.lstsq(B.T @ B, B.T @ y, rcond=1e-10)[0])


def _ranks(x: Float) -> Float:
    """Each column by its ranks, from −1 to 1."""
    from scipy.stats import rankdata  # noqa: PLC0415  (it takes most of a second to import)

    return np.asarray(2 * (rankdata(x, axis=0) - 0.5) / len(x) - 1)


def _functions_of(state: Float) -> Float:
    """Polynomials of each variable, and products of two, as many as the rows bear: shape (n, b)."""
    n, m = state.shape
    degree = int(np.clip(n // (100 * m), 1, 6))
    columns = [np.ones(n)] + [
        np.polynomial.legendre.Legendre.basis(k)(u) for u in state.T for k in range(1, degree + 1)
    ]
    if m * m * 100 <= n:
        columns += [state[:, a] * state[:, b] for a in range(m) for b in range(a)]
    return np.column_stack(columns)


def _recent_sums(z: Float, run: Int) -> Float:
    """Sum of the last PAST residuals before each row, within its piece: shape (n, d)."""
    total = np.concatenate([np.zeros((1, z.shape[1])), np.cumsum(z, axis=0)])
    row = np.arange(len(z))
    first = np.maximum(np.searchsorted(run, run), row - PAST)
    return total[row] - total[first]


def _score(e: Float, W: Float) -> tuple[float, float]:
    """White's score test of e on W: its p-value, and the root mean square that W predicts of e, above chance."""
    score = W.T @ e
    weighted = W * e[:, None]
    coefficients = np.linalg.lstsq(weighted.T @ weighted, score, rcond=1e-10)[0]
    q = W.shape[1]
    p = float(chdtrc(q, score @ coefficients))
    predicted = float(score @ np.linalg.lstsq(W.T @ W, score, rcond=1e-10)[0]) / len(e)
    return p, root_above_noise(predicted, q * float(np.mean(e**2)) / len(e))


def _two_steps(sample: Sample, z: Float) -> tuple[float, float]:
    """Variance of two steps together relative to the sum of theirs, and its standard error if steps are independent."""
    i = _pairs(sample.run, 1)
    moved = np.sqrt(sample.data.h[sample.order]) * z
    a, b = moved[i], moved[i + 1]
    total = float(np.sum(a**2 + b**2))
    return 1 + 2 * float(np.sum(a * b)) / total, 2 * float(np.sqrt(np.sum((a * b) ** 2))) / total
