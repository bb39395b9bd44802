"""Random equations with few transitions: what someone could know who is told nearly everything.

The data are those of `random_equations.py` with at most 400 transitions. Known are the terms of the drift and the law
from which their coefficients are drawn, the mean and covariance of every step of the true equation, and how these means
change with the coefficients; only the coefficients themselves have to be learned. The best drift is then the mean of
their posterior; and the best prediction is Gaussian about it with the posterior's variance added to the noise. Losses
are per variable and above those of constants, as there: with fresh noise at the training inputs, and for new data
within their range. How often this is worse than constants is how often anything is that learns from the same data and
knows less.

    python benchmarks/attainable.py [--seeds 1000] [--jobs 2] [--output FILE]
"""

from typing import NamedTuple

import numpy as np
import random_equations
import runs
from random_equations import ALLOWED, SUBSTEPS
from runs import Column

from itofit.model.likelihood import gaussian_nll

MOST_ROWS = 400
PATHS = 500
"""Of the true equation from every place, for the moments of its steps."""
HELD_OUT = 1_000
CASES = {"any": "random equations with at most 400 transitions"}
COLUMNS = [
    Column("worse_at_training", f"posterior mean more than {ALLOWED} above constants at the training inputs"),
    Column("worse_within", f"posterior mean more than {ALLOWED} above constants within the range"),
    Column("predicted_worse_at_training", "best prediction so at the training inputs"),
    Column("predicted_worse_within", "best prediction so within the range"),
    Column("truth_worse_at_training", "the true equation itself so at the training inputs"),
    Column("truth_worse_within", "the true equation itself so within the range"),
    Column("at_training", "loss above constants' at the training inputs", worst=max),
    Column("within", "loss above constants' within the range", worst=max),
]


class Coefficients(NamedTuple):
    """The coefficients of a drift: each multiplies a vector field."""

    fields: list  # of functions of places (n, d) that return arrays (n, d)
    true: np.ndarray
    mean: np.ndarray  # of the law they are drawn from
    deviation: np.ndarray


def coefficients(equation):
    """Those of a random equation, with the law by which `random_equations.Equation` draws them."""
    d, rows = equation.d, []
    pairs = [(j, k) for j in range(d) for k in range(j + 1)]

    def add(i, function, true, mean, deviation):
        rows.append((_along(i, d, function), true, mean, deviation))

    def linear():
        for i in range(d):
            add(i, lambda x, i=i: x[:, i], equation.linear[i, i], -0.85, 1.3 / np.sqrt(12))
            for j in range(i):
                both = _turning(i, j, d)  # the rest of the matrix is antisymmetric
                rows.append((both, equation.linear[i, j], 0.0, 0.35 * np.sqrt(2)))

    def cubic():
        for i in range(d):
            add(i, lambda x, i=i: -(x[:, i] ** 3), equation.cubic[i], 0.55, 0.9 / np.sqrt(12))

    def products():
        for i, j, k in ((i, *pair) for i in range(d) for pair in pairs):
            both = equation.quadratic[i, j, k] + (equation.quadratic[i, k, j] if j != k else 0.0)
            bounded = lambda x, j=j, k=k: np.tanh(x[:, j]) * np.tanh(x[:, k])  # noqa: E731
            add(i, bounded, both, 0.0, 0.2 * np.sqrt(2 if j != k else 1))

    def waves():
        for k, (wave, phase) in enumerate(zip(equation.waves, equation.phases, strict=True)):
            for i in range(d):
                sine = lambda x, wave=wave, phase=phase: np.sin(x @ wave + phase)  # noqa: E731
                add(i, sine, equation.amplitudes[k, i], 0.0, 1.0)

    parts = {"linear": [linear], "polynomial": [linear, cubic, products], "trigonometric": [waves],
             "mixed": [waves, cubic]}  # fmt: skip
    for part in parts[equation.drift_kind]:
        part()
    fields, *numbers = zip(*rows, strict=True)
    return Coefficients(list(fields), *(np.array(each) for each in numbers))


def _along(i, d, function):
    """The vector field that has a function as its component i."""
    return lambda x: function(x)[:, None] * np.eye(d)[i]


def _turning(i, j, d):
    """The linear vector field that turns in the plane of two variables."""
    return lambda x: x[:, [j]] * np.eye(d)[i] - x[:, [i]] * np.eye(d)[j]


def steps(rng, equation, fields, x, h):
    """Means (n, d) and covariances (n, d, d) of steps by length, and how means change with coefficients (n, P, d)."""
    n, d = x.shape
    path, k = np.repeat(x, PATHS, axis=0), np.repeat(h / SUBSTEPS, PATHS)
    changes = np.zeros((n, len(fields), d))
    for _ in range(SUBSTEPS):
        for p, field in enumerate(fields):
            changes[:, p] += field(path).reshape(n, PATHS, d).mean(axis=1) / SUBSTEPS
        f = equation.drift(path)
        kick = (equation.noise(path) @ rng.standard_normal((len(path), d, 1)))[:, :, 0]
        path = path + k[:, None] * f / (1 + k[:, None] * np.abs(f)) + np.sqrt(k)[:, None] * kick
    moves = path.reshape(n, PATHS, d) - x[:, None]
    mean = moves.mean(axis=1)
    away = moves - mean[:, None]
    return mean / h[:, None], away.swapaxes(1, 2) @ away / (PATHS - 1) / h[:, None, None], changes


def in_units_of_the_equation(given, data):
    """Places, moves and lengths of some transitions."""
    observation = given.observation
    return data.inputs / observation.length, data.increments / observation.length, data.h / observation.time


def measure(case, seed):
    """One equation; nothing but its size if it has more transitions."""
    given = random_equations.problem(seed)
    n = len(given.train)
    if n > MOST_ROWS:
        return {"n": n}
    equation, rng = given.equation, np.random.default_rng([seed, 400])
    known = coefficients(equation)
    x, moves, h = in_units_of_the_equation(given, given.train)
    drift = sum(own * field(x) for own, field in zip(known.true, known.fields, strict=True))
    rest = {"linear": 0.0, "polynomial": 1.5, "trigonometric": -0.3, "mixed": 1.0}[equation.drift_kind] * x
    assert np.allclose(drift + rest, equation.drift(x)), "the coefficients are not those of the equation"
    mean, covariance, changes = steps(rng, equation, known.fields, x, h)
    precise = np.linalg.inv(covariance)
    left = np.einsum("n,npi,nij,nqj->pq", h, changes, precise, changes, optimize=True)
    right = np.einsum("npi,nij,nj->p", changes, precise, moves - h[:, None] * mean)
    prior = np.diag(1 / known.deviation**2)
    posterior = np.linalg.inv(left + prior)
    error = posterior @ (right + prior @ (known.mean - known.true))
    constant = random_equations.constants(given.train)

    def above_constants(data, mean, covariance, rows):
        """Mean loss per variable above that of constants, of steps of these moments."""
        _, dx, step = in_units_of_the_equation(given, data)
        unit = given.observation.length
        f = constant[0] / unit * given.observation.time
        sigma = constant[1] / np.outer(unit, unit) * given.observation.time
        other = gaussian_nll(dx, step, np.tile(f, (len(dx), 1)), np.tile(sigma, (len(dx), 1, 1)))
        return float((gaussian_nll(dx, step, mean[rows], covariance[rows]) - other).mean()) / equation.d

    def compared(which, data, mean, covariance, changes, h, rows):
        """Losses of the posterior's mean, of the best prediction and of the true equation."""
        learned = mean + np.einsum("npi,p->ni", changes, error)
        unknown = h[:, None, None] * np.einsum("npi,pq,nqj->nij", changes, posterior, changes, optimize=True)
        losses = {
            which: above_constants(data, learned, covariance, rows),
            f"predicted_{which}": above_constants(data, learned, covariance + unknown, rows),
            f"truth_{which}": above_constants(data, mean, covariance, rows),
        }
        worse = {name.replace(which, f"worse_{which}"): int(loss > ALLOWED) for name, loss in losses.items()}
        return losses | worse

    run = {"n": n, "d": equation.d, "drift": equation.drift_kind, "coefficients": len(error)}
    rows = np.resize(np.arange(n), len(given.fresh))
    run |= compared("at_training", given.fresh, mean, covariance, changes, h, rows)
    if given.held_out is not None:
        new = given.held_out[np.sort(rng.permutation(len(given.held_out))[:HELD_OUT])]
        x, _, h = in_units_of_the_equation(given, new)
        mean, covariance, changes = steps(rng, equation, known.fields, x, h)
        run |= compared("within", new, mean, covariance, changes, h, np.arange(len(new)))
    return run


def summary(made):
    """Print how many are worse than constants, and their seeds."""
    few = [run for run in made if "at_training" in run]
    print(f"\n{len(few)} of {len(made)} equations have at most {MOST_ROWS} transitions")
    for column in COLUMNS[:6]:
        seeds = sorted(run["seed"] for run in few if run.get(column.name))
        print(f"    {column.text}: {len(seeds)} {seeds}")


if __name__ == "__main__":
    summary(runs.main(__doc__, "attainable", CASES, measure, COLUMNS, seeds=1000))
