"""Nonlinear systems of three to five variables: the default against a cubic polynomial regression with terms by BIC.

One track of 20,000 Euler steps of each; errors of the drift and the share of it within 95 % bands are measured along
another track of the same law. The steps are single Euler steps, so that both methods look for the same function.

    python benchmarks/nonlinear_systems.py [--seeds 10] [--cases lorenz ...] [--output FILE] [--against FILE]
"""

from typing import NamedTuple

import numpy as np
import runs
from polynomials import PolynomialDrift
from runs import Column

import itofit

N = 20_000
BURN_IN = 2_000
PLACES = 5_000
Z = 1.959964


class System(NamedTuple):
    """An equation with noise along the axes, and where tracks of it start."""

    text: str
    drift: object  # (n, d) -> (n, d)
    noise: object  # (n, d) -> (n, d), standard deviations
    start: tuple
    h: float

    def tracks(self, rng, n_steps):
        """Two tracks of the same law (n_steps + 1, 2, d), after a while."""
        x = np.tile(np.array(self.start, dtype=float), (2, 1))
        path = np.empty((n_steps + 1, *x.shape))
        for i in range(-BURN_IN, n_steps + 1):
            if i >= 0:
                path[i] = x
            x = x + self.h * self.drift(x) + np.sqrt(self.h) * self.noise(x) * rng.standard_normal(x.shape)
        return path


def lorenz(x):
    a, b, c = x.T
    return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], axis=1)


def neurons(x):
    """A pair of FitzHugh-Nagumo units whose voltages are coupled."""
    v, w = x[:, :2], x[:, 2:]
    return np.concatenate([v - v**3 / 3 - w + 0.5 + 0.2 * (v[:, ::-1] - v), 0.3 * (v + 0.7 - 0.8 * w)], axis=1)


def food_chain(x):
    """Plants, grazers and their predators, each of whom eats its fill at most, with some that come from outside."""
    plants, grazers, predators = x.T
    grazed, caught = 3 * plants * grazers / (1 + 2 * plants), 2 * grazers * predators / (1 + grazers)
    growth = [plants * (1 - plants) - grazed, grazed - 0.4 * grazers - caught, caught - 0.5 * predators]
    return 0.01 + np.stack(growth, axis=1)


def ring(x):
    return -x + 0.8 * np.sin(2 * np.roll(x, 1, axis=1)) * np.cos(x)


def bistable_ring(x):
    return x - x**3 + 0.3 * np.sin(2 * np.roll(x, 1, axis=1))


def constant(*values):
    return lambda x: np.broadcast_to(values, x.shape)


SYSTEMS = {
    "lorenz": System("noisy Lorenz 63, three variables", lorenz, constant(2.0, 2.0, 2.0), (1, 1, 25), 0.005),
    "neurons": System(
        "a pair of FitzHugh-Nagumo units, four variables", neurons, constant(0.2, 0.2, 0.1, 0.1), (0, 0.5, 0, 0), 0.05
    ),
    "chain": System(
        "a predator-prey chain of three species", food_chain, lambda x: 0.15 * np.abs(x), (0.5, 0.3, 0.1), 0.05
    ),
    "ring": System(
        "a ring of five coupled variables", ring, lambda x: 0.4 + 0.1 * np.cos(x), (0.5, -0.5, 0, 0, 0.5), 0.02
    ),
    "bistable": System("a ring of five bistable units", bistable_ring, constant(*5 * [0.7]), (1, -1, 1, -1, 1), 0.02),
}
COLUMNS = [
    Column("drift_error", "relative drift error"),
    Column("polynomial_error", "of the polynomial regression"),
    Column("ratio", "ratio of the two"),
    Column("coverage", "share of the drift within 95 % bands", worst=min),
    Column("seconds", "seconds", ".1f"),
]


def measure(case, seed):
    """One track of a system."""
    system = SYSTEMS[case]
    paths = system.tracks(np.random.default_rng([seed, 63]), N)
    data = itofit.Transitions.from_trajectories(paths[:, 0], dt=system.h)
    places = paths[:: N // PLACES, 1]
    truth = system.drift(places)
    sde, seconds = runs.fitted(data, seed, correct_step=False)
    drift, std = sde.drift(places, return_std=True)
    polynomial = PolynomialDrift(data.inputs, data.rates)
    scale = truth.std(axis=0)
    error, other = (runs.root_mean_square((found - truth) / scale) for found in (drift, polynomial(places)))
    return {
        "drift_error": error,
        "polynomial_error": other,
        "ratio": error / other,
        "coverage": float(np.mean(np.abs(drift - truth) < Z * std)),
        "seconds": seconds,
        "terms": [len(terms) for terms in polynomial.terms],
    }


if __name__ == "__main__":
    cases = {name: system.text for name, system in SYSTEMS.items()}
    runs.main(__doc__, "nonlinear_systems", cases, measure, COLUMNS)
