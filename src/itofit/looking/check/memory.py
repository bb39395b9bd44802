"""Whether residuals are independent in time, and the next step depends on the present state alone.

All tests rest on one property of a right model: given the past, a residual has mean zero. So for any number w of
the past, Σ w z / √Σ w² z² is standard normal for many rows, whatever the variance and the tails of z are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from itofit._checks import Either, Float, Int, Message, Option
from itofit.looking.check.deviations import (
    TINY,
    Advice,
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
    verdict_of,
    what_is_open,
    with_p,
)
from itofit.looking.check.examined import ExaminedRows
from itofit.looking.check.findings import Finding, not_available
from itofit.looking.check.margins import of_estimate, of_square
from itofit.looking.check.phrases import capitalised, drift_share, of_a_step, percents, two_digits
from itofit.looking.check.thresholds import CORRELATION

LAGS = 10
"""Lags at which correlations are tested: memory of a few steps, whatever its form."""
PAST = 10
"""Steps whose residuals are summed to see slow memory."""
LEAST_PAIRS = 20
"""Pairs of steps needed for a test: sums over fewer are not yet normal."""
REGRESSOR_ROWS = 100
"""Rows for each number that is fitted in a regression, so that tests after it keep their level."""
DEPENDENT = 1e-10
"""Relative size below which singular values of normal equations count as zero, as regressors may be dependent."""
CONSTANT = 1e-9
"""Residuals that vary by less than this part of the largest are constant but for rounding."""
CLEAR_FIRST = 0.5
"""Share of the largest correlation that the first must reach for its sign to name the cause."""


# Whiteness


def whiteness(rows: ExaminedRows, level: float) -> Finding:
    """Correlations of residuals within trajectories: a Ljung-Box test, and one of the first lag alone.

    Residuals are regressed on functions of the state before: what these explain is for `over_inputs` to find.
    """
    name, title = "whiteness", "whiteness in time"
    if reason := _why_unavailable(rows):
        return not_available(name, title, reason)
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    correlations: list[Float] = []
    for j, z in enumerate(_unexplained_by_state(rows).T):
        r, tests, numbers = _correlation_tests(z, rows.run, j, rows.outputs[j])
        deviations += tests
        correlations.append(r)
        values |= numbers | {f"measurement_variance_{j}": _measurement_variance(rows, j)}
    worst = significant_and_large(deviations, level)
    verdict, need = verdict_of(deviations, level), advice_or_need(deviations, level, {"first": "", "all": ""})
    text = "Residuals of one step say nothing of those of the next, up to what does not matter."
    if verdict == "cannot tell":
        text = f"No correlation of the residuals in time was found. {what_is_open(deviations)}"
    shown = clearest(deviations if worst else deviations[::2], level)
    if worst:
        j = deviations.index(shown) // 2
        if (first := deviations[2 * j]) in worst:  # which says more of the cause than all lags together
            shown = first
        text, need["advice"] = _likely_cause(rows, correlations[j], values[f"measurement_variance_{j}"], shown.text)
    return Finding(
        name=name,
        title=title,
        values={"p": family_p(deviations)} | values,
        numbers=with_p(shown, deviations, level),
        verdict=verdict,
        text=text,
        **need,
    )


def _correlation_tests(z: Float, run: Int, j: int, name: str) -> tuple[Float, list[Deviation], dict[str, float]]:
    """Correlations of one output at each lag, their deviations from zero, and all numbers."""
    r, t, n = _correlations(z, run)
    error = float(np.sqrt(1 / n[0])) if t[0] == 0 else max(abs(float(r[0] / t[0])), float(np.sqrt(1 / n[0])))
    q = float(np.sum(t**2))
    p_all, p_first = float(chdtrc(len(t), q)), two_sided(t[0])
    total = root_above_noise(float(np.sum(r**2)), float(np.sum(1 / n)))
    correlated = f"residuals of {name} are correlated in time"
    over_all = f"the correlation of {name} over {len(r)} steps together"
    deviations = [
        Deviation(
            "first",
            p_first,
            abs(r[0]) / CORRELATION,
            f"{correlated} ({r[0]:+.3f} from one step to the next)",
            (of_estimate(f"the correlation of steps of {name}", r[0], error, CORRELATION, n[0], form=two_digits),),
            f"correlation of steps {r[0]:+.3f}",
        ),
        Deviation(
            "all",
            p_all,
            total / CORRELATION,
            f"{correlated} ({total:.3f} over {len(r)} steps together)",
            (of_square(over_all, q, len(t), CORRELATION, len(n) / float(np.sum(1 / n)), form=two_digits),),
            f"correlation over {len(r)} steps {total:.3f}",
        ),
    ]
    values = {f"correlation_{j}_lag_{k}": float(value) for k, value in enumerate(r, start=1)}
    values |= {f"ljung_box_{j}": q, f"p_ljung_box_{j}": p_all, f"p_lag_1_{j}": p_first, f"total_correlation_{j}": total}
    return r, deviations, values


def _why_unavailable(rows: ExaminedRows) -> str:
    """Why nothing can be said about time; empty if something can."""
    if rows.why_no_time:
        return rows.why_no_time
    n_pairs = int(np.sum(np.diff(rows.run) == 0))
    if n_pairs < LEAST_PAIRS:
        return f"Only {n_pairs} transitions follow another in time; {LEAST_PAIRS} are needed."
    if not (rows.z.std(axis=0) > CONSTANT * np.abs(rows.z).max(axis=0)).all():
        return "Residuals do not vary in time."
    return ""


def _unexplained_by_state(rows: ExaminedRows) -> Float:
    """Residuals in time order, after regression on functions of the state, shape (n, d)."""
    z = rows.z[rows.order]
    return _after_regression(_polynomials(_ranks(rows.data.inputs[rows.order])), z)


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
        t.append(product.sum() / np.sqrt(max(float(np.sum(product**2)), TINY)))
        n.append(len(i))
    return np.array(r), np.array(t), np.array(n, dtype=float)


def _measurement_variance(rows: ExaminedRows, j: int) -> float:
    """Variance of errors of measurement of output j, in its own unit squared, if they are the cause.

    An error adds to one increment what it takes from the next: their covariance is minus its variance.
    """
    i = _pairs(rows.run, 1)
    r = rows.r[:, j] - rows.r[:, j].mean()
    return max(0.0, -float(np.mean(r[rows.order[i]] * r[rows.order[i + 1]])))


def _likely_cause(rows: ExaminedRows, r: Float, noise: float, correlated: str) -> tuple[str, str]:
    """What correlations r (L,) of this form are a sign of, and what to do.

    `noise` is the variance of errors of measurement that would explain them, `correlated` says what they are.
    """
    correlated = capitalised(correlated)
    computed = rows.data.kind == "underdamped" and not rows.through_noise
    velocity = ", velocities computed as differences of positions," if computed else ""
    if r[0] < 0 and abs(r[0]) >= CLEAR_FIRST * np.abs(r).max():
        share = min(1.0, -2 * float(r[0]))
        return (
            f"{correlated}. Negative correlation is the sign of measurement noise: errors of variance about "
            f"{noise:.2g} (standard deviation {np.sqrt(noise):.2g}) would explain it, and make {share:.0%} of the "
            "learned noise.",
            _noise_advice(rows, _VELOCITY if velocity else ""),
        )
    if r[0] > 0:
        return (
            f"{correlated}. Positive correlation is the sign of memory: coloured noise, smoothed data{velocity} or a "
            "hidden variable.",
            Message(
                "Observe at longer steps than the memory lasts (keep every k-th observation), undo smoothing, or add "
                "the hidden variable (such as a velocity) to the inputs; what drives the system from outside is given "
                "as {covariates}.{velocity}",
                covariates=Option("covariates", keyword=True),
                velocity=_VELOCITY if velocity else "",
            ),
        )
    lag = int(np.argmax(np.abs(r))) + 1
    return (
        f"{correlated[: correlated.index(' (')]}, most between steps {lag} apart ({r[lag - 1]:+.3f}): there is memory, "
        "or a rhythm in the system or its observation.",
        Message(
            "Look at the autocorrelation of the residuals; add the variable that carries the memory, such as the phase "
            "of a rhythm: as {covariates}, with its period as {periodic}.",
            covariates=Option("covariates", keyword=True),
            periodic=Option("periodic", keyword=True),
        ),
    )


def _noise_advice(rows: ExaminedRows, more: str) -> str:
    """What to do about errors of measurement."""
    if rows.data.kind == "diffusion" and not rows.through_noise:  # else noise stays in it
        return Message(
            "Measurement noise counts as noise of the system here. Learn from the tracks with {option}, "
            "which separates the two.",
            option=Option("measurement_noise", "auto"),
        )
    return Message(
        "Measurement noise counts as noise of the system. Measure more accurately, or keep every k-th observation: the "
        "share falls about as 1/k.{more}",
        more=more,
    )


FROM_POSITIONS = Either(python="Transitions.from_positions", command="--second-order")
_VELOCITY = Message(
    " Velocities should be measured, not computed from positions; without them, learn from positions alone ({how}).",
    how=FROM_POSITIONS,
)


# Markov property


class Past(NamedTuple):
    """Pairs of consecutive steps, all after regression on functions of the state."""

    z: Float  # (n, d) the later residual
    size: Float  # (n, d) |z| of it, after regression on the past
    past: Float  # (n, q) numbers of the past, in columns
    size_before: Float  # (n, 1) mean |z| of the earlier residual over the outputs


def markov(rows: ExaminedRows, level: float) -> Finding:
    """Whether the past helps to predict the next step, given the present state.

    Three tests for each output. *Mean*: z is regressed on the residuals before it, their products with the state and
    their sum over 10 steps, after regression of both on functions of the state; a score test with White's
    covariance, χ². *Noise*: the same for |z| on that of the step before. *Two steps*: the variance of two steps
    together against the sum of theirs.
    """
    name, title = "markov", "Markov property"
    if reason := _why_unavailable(rows):
        return not_available(name, title, reason)
    z = _unexplained_by_state(rows)
    past = _past(rows, z)
    deviations: list[Deviation] = []
    values: dict[str, float] = {}
    for j, drift in enumerate(rows.drift_size):
        tests, numbers = _memory_tests(past, j, _two_steps(rows, z[:, j]), float(drift), rows.outputs[j])
        deviations += tests
        values |= {f"{what}_{j}": number for what, number in numbers.items()}
    worst = significant_and_large(deviations, level)
    verdict = verdict_of(deviations, level)
    text = "The past of a trajectory does not help to predict its next step, up to what does not matter."
    if verdict == "cannot tell":
        text = f"No memory was found. {what_is_open(deviations)}"
    if worst:
        text = "The state is not all that matters for the next step. " + sentences(worst)
    return Finding(
        name=name,
        title=title,
        values={"p": family_p(deviations)} | values,
        numbers=with_p(clearest(deviations, level), deviations, level),
        verdict=verdict,
        text=text,
        **advice_or_need(deviations, level, _ADVICE),
    )


def _memory_tests(
    past: Past, j: int, two_steps: tuple[float, float], drift: float, name: str
) -> tuple[list[Deviation], dict[str, float]]:
    """Deviations of one output from a process without memory, and their numbers."""
    n, q = past.past.shape
    p, predicted, score = _score_test(past.z[:, j], past.past)
    p_noise, clustering, score_of_noise = _score_test(past.size[:, j], past.size_before)
    clustering /= float(past.size[:, j].std())
    ratio, error = two_steps
    p_two = two_sided(abs(ratio - 1) / error)
    deviations = [
        Deviation(
            "mean",
            p,
            missed_size(predicted, drift),
            f"earlier steps predict {predicted:.3f} standard deviations of the next step of {name}, "
            f"{drift_share(predicted, drift)}",
            (
                of_square(
                    f"what earlier steps predict of {name}",
                    score,
                    q,
                    missed_limit(drift),
                    n / float(np.mean(past.z[:, j] ** 2)),
                    form=of_a_step,
                ),
            ),
            f"past predicts {predicted:.3f} of a step",
        ),
        Deviation(
            "noise",
            p_noise,
            clustering / CORRELATION,
            f"the size of a step of {name} goes with that of the one before (correlation {clustering:.2f})",
            (
                of_square(
                    f"the correlation of the sizes of steps of {name}",
                    score_of_noise,
                    1,
                    CORRELATION,
                    n,
                    form=two_digits,
                ),
            ),
            f"correlation of sizes {clustering:.3f}",
        ),
        Deviation(
            "two steps",
            p_two,
            abs(ratio - 1) / CORRELATION,
            f"two steps of {name} together have {ratio:.2f} of the variance that single ones imply",
            (of_estimate(f"the variance of two steps of {name}", ratio - 1, error, CORRELATION, n, form=percents),),
            f"two steps/one {ratio:.3f}",
        ),
    ]
    numbers = {"predicted": predicted, "p_mean": p, "clustering": clustering, "p_noise": p_noise}
    return deviations, numbers | {"variance_ratio": ratio, "variance_ratio_error": error, "p_two_steps": p_two}


_NOISE_FIRST = Message(
    "If whiteness points to errors of measurement, deal with these first ({option}).",
    option=Option("measurement_noise", "auto"),
)
_ADVICE: Advice = {
    "mean": (
        Message(
            "A variable is missing: add what carries the memory. A force from outside is given as {covariates}; a "
            "velocity need not be observed ({positions}).",
            covariates=Option("covariates", keyword=True),
            positions=FROM_POSITIONS,
        ),
        _NOISE_FIRST,
    ),
    "noise": Message(
        "The strength of the noise has a memory of its own: add a variable that follows it to the inputs, from outside "
        "as {covariates}, or treat regimes apart.",
        covariates=Option("covariates", keyword=True),
    ),
    "two steps": (
        "Learn again from every second observation: drift and noise that then change depend on the step.",
        _NOISE_FIRST,
    ),
}


def _past(rows: ExaminedRows, z: Float) -> Past:
    """The pairs of consecutive steps, as the tests need them."""
    i = _pairs(rows.run, 1)
    before, after = z[i], z[i + 1]
    state = _ranks(rows.data.inputs[rows.order[i + 1]])
    n, d = before.shape
    columns = [before]
    if n >= REGRESSOR_ROWS * d * (2 + state.shape[1]):  # few numbers of the past where there are few rows
        columns += [before * u[:, None] for u in state.T]
        columns.append(_recent_sums(z, rows.run)[i + 1])
    B = _polynomials(state)
    W = np.hstack(columns)
    after, W = _after_regression(B, after), _after_regression(B, W)
    # sizes of what remains, as correlated steps have correlated sizes
    size = np.abs(_after_regression(W, after))
    size_before = np.abs(before).mean(axis=1, keepdims=True)
    return Past(after, _after_regression(B, size), W, _after_regression(B, size_before))


def _after_regression(B: Float, y: Float) -> Float:
    """Columns of y less their regression on those of B, which may be linearly dependent."""
    return np.asarray(y - B @ np.linalg.lstsq(B.T @ B, B.T @ y, rcond=DEPENDENT)[0])


def _ranks(x: Float) -> Float:
    """The ranks of each column, scaled to run from −1 to 1."""
    from scipy.stats import rankdata  # noqa: PLC0415  (it takes most of a second to import)

    return np.asarray(2 * (rankdata(x, axis=0) - 0.5) / len(x) - 1)


def _polynomials(state: Float) -> Float:
    """Polynomials of each variable and products of two, as many as there are rows for: shape (n, b)."""
    n, m = state.shape
    degree = int(np.clip(n // (REGRESSOR_ROWS * m), 1, 6))
    columns = [np.ones(n)] + [
        np.polynomial.legendre.Legendre.basis(k)(u) for u in state.T for k in range(1, degree + 1)
    ]
    if m * m * REGRESSOR_ROWS <= n:
        columns += [state[:, a] * state[:, b] for a in range(m) for b in range(a)]
    return np.column_stack(columns)


def _recent_sums(z: Float, run: Int) -> Float:
    """Sum of the last PAST residuals before each row, within its piece: shape (n, d)."""
    total = np.concatenate([np.zeros((1, z.shape[1])), np.cumsum(z, axis=0)])
    row = np.arange(len(z))
    first = np.maximum(np.searchsorted(run, run), row - PAST)
    return total[row] - total[first]


def _score_test(e: Float, W: Float) -> tuple[float, float, float]:
    """White's score test of e on W: its p-value, the root mean square that W predicts of e above chance, and its χ²."""
    score = W.T @ e
    weighted = W * e[:, None]
    coefficients = np.linalg.lstsq(weighted.T @ weighted, score, rcond=DEPENDENT)[0]
    q = W.shape[1]
    statistic = float(score @ coefficients)
    predicted = float(score @ np.linalg.lstsq(W.T @ W, score, rcond=DEPENDENT)[0]) / len(e)
    return float(chdtrc(q, statistic)), root_above_noise(predicted, q * float(np.mean(e**2)) / len(e)), statistic


def _two_steps(rows: ExaminedRows, z: Float) -> tuple[float, float]:
    """Variance of two steps together relative to the sum of theirs, and its standard error if steps are independent."""
    i = _pairs(rows.run, 1)
    moved = np.sqrt(rows.data.h[rows.order]) * z
    a, b = moved[i], moved[i + 1]
    total = float(np.sum(a**2 + b**2))
    return 1 + 2 * float(np.sum(a * b)) / total, 2 * float(np.sqrt(np.sum((a * b) ** 2))) / total
