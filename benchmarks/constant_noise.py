"""Noise that is constant or varies a little, seen at long steps: whether Σ is found constant where it is.

Tracks are simulated with ten steps of Heun between observations. The standard deviation of the first variable is
1 + e tanh x times as large as on average, with e of 0 to 0.2. The divergence is that of the learned Σ from the true
one, as a Kullback-Leibler divergence in nats at places of the data, times the number of transitions.

    python benchmarks/constant_noise.py [--seeds 8] [--cases van-der-pol-0-3000 ...] [--output FILE] [--against FILE]
"""

from typing import NamedTuple

import numpy as np
import runs
from runs import Column

import itofit

TRACKS = 100
SUBSTEPS = 10
PLACES = 1_500
Z = 1.959964
VARIATIONS = (0.0, 0.05, 0.1, 0.2)
SIZES = (3_000, 20_000)


class System(NamedTuple):
    """An equation with independent noises, and the steps at which it is seen."""

    text: str
    h: float
    drift: object  # (n, d) -> (n, d)
    noise: tuple[float, ...]  # standard deviations, on average
    felt: object  # (n, d) -> (n,): what the first of them depends on

    def deviations(self, x, variation):
        """Standard deviations (n, d) of the noises at places x (n, d)."""
        factors = np.ones_like(x)
        factors[:, 0] += variation * np.tanh(self.felt(x))
        return factors * self.noise

    def tracks(self, rng, n_steps, variation):
        """Observations (TRACKS, n_steps + 1, d)."""
        dt, x = self.h / SUBSTEPS, 0.7 * rng.normal(size=(TRACKS, len(self.noise)))
        observed = [x]
        for _ in range(n_steps):
            for _ in range(SUBSTEPS):
                kick = np.sqrt(dt) * self.deviations(x, variation) * rng.normal(size=x.shape)
                f = self.drift(x)
                x = x + 0.5 * dt * (f + self.drift(x + dt * f + kick)) + kick
            observed.append(x)
        return np.stack(observed, axis=1)


SYSTEMS = {
    "well": System("double well, h = 0.05", 0.05, lambda x: 2 * (x - x**3), (0.6,), lambda x: x[:, 0]),
    "van-der-pol": System(
        "van der Pol, h = 0.05",
        0.05,
        lambda x: np.stack([x[:, 1], 2 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1),
        (0.4, 0.6),
        lambda x: x[:, 1],
    ),
    "turning": System(
        "two variables that turn, h = 0.1",
        0.1,
        lambda x: np.stack([3 * x[:, 1] - x[:, 0], -x[:, 1] - 2 * x[:, 0]], axis=1),
        (0.5, 1.0),
        lambda x: 2 * x[:, 0],
    ),
    "three": System(
        "three coupled variables, h = 0.08",
        0.08,
        lambda x: np.stack(
            [x[:, 1] - x[:, 0] ** 3, -x[:, 0] - x[:, 1] + 0.5 * x[:, 2], -2 * x[:, 2] + x[:, 0] * x[:, 1]], axis=1
        ),
        (0.5, 0.5, 0.5),
        lambda x: x[:, 0],
    ),
}
CASES = {
    f"{name}-{variation:g}-{n}": f"{system.text}, σ varies by {variation:.0%}, {n:,} transitions"
    for name, system in SYSTEMS.items()
    for variation in VARIATIONS
    for n in SIZES
}
COLUMNS = [
    Column("constant", "share found constant", ".2f"),
    Column("divergence", "divergence of Σ, nats", ".2f"),
    Column("coverage", "coverage of 95 % bands of variances", ".2f", worst=min),
    Column("seconds", "seconds", ".2f"),
]


def measure(case, seed):
    """One data set."""
    name, variation, n = case.rsplit("-", 2)
    system, variation = SYSTEMS[name], float(variation)
    tracks = system.tracks(np.random.default_rng([seed, 83]), int(n) // TRACKS, variation)
    data = itofit.Transitions.from_trajectories(list(tracks), dt=system.h)
    sde, seconds = runs.fitted(data, seed)
    x = data.inputs[np.random.default_rng(seed).choice(len(data), PLACES)]
    truth = system.deviations(x, variation) ** 2
    learned, std = sde.covariance(x, return_std=True)
    i = np.arange(truth.shape[1])
    away = np.linalg.inv(learned)[:, i, i] * truth
    log_ratios = np.linalg.slogdet(learned)[1] - np.log(truth).sum(axis=1)
    return {
        "constant": float(not sde.covariance_function.training.n_features),
        "divergence": float(0.5 * len(data) * np.mean((away - 1).sum(axis=1) + log_ratios)),
        "coverage": float(np.mean(np.abs(learned[:, i, i] - truth) < Z * std[:, i, i])),
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "constant_noise", CASES, measure, COLUMNS, seeds=8)
