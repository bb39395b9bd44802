"""Small and transient data that anyone may have: exceptions, structure of Σ, and losses beside those of constants.

A track of two variables that relaxes from a distant start with noise that grows with the state, with and without
correction for the length of steps; and a few transitions of three variables with constant noise of correlation 0.9.
Losses are per variable, with fresh noise at the training inputs, above those of the best constant drift and covariance.

    python benchmarks/ordinary_data.py [--seeds 20] [--cases transient ...] [--output FILE] [--against FILE]
"""

import warnings

import numpy as np
import runs
from random_equations import HELD_OUT, above_constants
from runs import Column

import itofit

H = 0.1
TRACK = 5_000
CORRELATED_ROWS = {"correlated-30": 30, "correlated-100": 100}
CASES = {
    "transient": "a track that relaxes from a distant start",
    "transient-corrected": "the same with correct_step=True",
    "correlated-30": "three variables with correlation 0.9, 30 transitions",
    "correlated-100": "three variables with correlation 0.9, 100 transitions",
}
COLUMNS = [
    Column("above", "loss above constants', per variable"),
    Column("diagonal", "share with a diagonal Σ"),
    Column("farthest", "farthest drift error, in sd of a step's noise", ".2f"),
    Column("seconds", "seconds", ".2f"),
]


def transient_step(rng, x):
    """From places x (n, 2) to the next."""
    return 0.98 * x + 0.01 * (0.3 + x**2) * rng.standard_normal(x.shape)


def transient(rng):
    """The track, fresh noise at its places, and drift and variances of a step there."""
    path = [np.array([[4.0, -3.0]])]
    for _ in range(TRACK):
        path.append(transient_step(rng, path[-1]))
    x = np.concatenate(path)
    fresh = itofit.Transitions.from_pairs(x[:-1], transient_step(rng, x[:-1]), H)
    return itofit.Transitions.from_trajectories(x, dt=H), fresh, -0.2 * x[:-1], (0.01 * (0.3 + x[:-1] ** 2)) ** 2 / H


def correlated(rng, n):
    """The same of a few transitions of dx = −x dt + dW in three variables with correlation 0.9."""
    x = rng.uniform(-1, 1, (n, 3))
    again = np.resize(x, (HELD_OUT, 3))
    factor = np.linalg.cholesky(0.1 * np.eye(3) + 0.9)

    def stepped(places):
        noise = rng.standard_normal(places.shape) @ factor.T
        return itofit.Transitions.from_pairs(places, places - H * places + np.sqrt(H) * noise, H)

    return stepped(x), stepped(again), -x, np.ones_like(x)


def measure(case, seed):
    """One fit."""
    rng = np.random.default_rng([seed, 5000])
    few = CORRELATED_ROWS.get(case)
    train, fresh, drift, variances = transient(rng) if few is None else correlated(rng, few)
    options = {"correct_step": True} if case == "transient-corrected" else {}
    sde, seconds = runs.fitted(train, seed, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        above, _ = above_constants(sde, train, fresh)
    return {
        "above": above,
        "diagonal": float(sde.structure == "diagonal"),
        "farthest": float(np.abs((sde.drift(train.inputs) - drift) * np.sqrt(H / variances)).max()),
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "ordinary_data", CASES, measure, COLUMNS, seeds=20)
