"""Two conditions compared: false alarms on pairs of data sets of one equation, and power against known changes.

Double wells dx = c (x − x³) dt + σ(x) dW with σ = 0.5 or 0.4 + 0.2 x², and a limit cycle of two variables, 100 tracks
each. `compare` is asked at level 0.05, as it is by default: "found" is the share of pairs in which a difference was
found, of the drift, of the noise, of either by the tests, and by each of the bands.

    python benchmarks/conditions.py [--seeds 200] [--cases one-well ...] [--output FILE] [--results]
"""

import time

import numpy as np
import runs
from runs import Column

import itofit

N_TRACKS, H, SUBSTEPS = 100, 0.05, 20
NOISES = {"constant": lambda x: 0.5 + 0 * x, "varying": lambda x: 0.4 + 0.2 * x**2}
CASES = {
    "one-well": "one double well, 20,000 transitions each",
    "one-well-few": "one double well, 1,000 transitions each",
    "one-well-varying": "one double well, varying noise, 20,000 transitions each",
    "one-well-other-steps": "one double well, steps of 0.05 and 0.1",
    "one-cycle": "one limit cycle, 20,000 transitions each",
    "drift-5": "drift 5 % larger, 100,000 transitions each",
    "drift-10": "drift 10 % larger, 100,000 transitions each",
    "drift-20": "drift 20 % larger, 100,000 transitions each",
    "variance-5": "variance 5 % larger, 20,000 transitions each",
    "cycle-faster": "limit cycle that turns 10 % faster, 20,000 transitions each",
}
COLUMNS = [
    Column("drift", "differences of the drift", ".3f", worst=None),
    Column("noise", "of the noise", ".3f", worst=None),
    Column("either", "of either", ".3f", worst=None),
    Column("drift_band", "by the band of the drift", ".3f", worst=None),
    Column("noise_band", "by the band of the noise", ".3f", worst=None),
    Column("seconds", "seconds", ".2f"),
]


def tracks(rng, n_rows, drift, noise, start, h=H):
    """Tracks as transitions, by small Euler steps."""
    x = start.copy()
    seen = np.empty((n_rows // N_TRACKS + 1, *x.shape))
    for i in range(-100, len(seen)):
        if i >= 0:
            seen[i] = x
        for _ in range(SUBSTEPS):
            x = x + h / SUBSTEPS * drift(x) + np.sqrt(h / SUBSTEPS) * noise(x) * rng.standard_normal(x.shape)
    return itofit.Transitions.from_trajectories(list(seen.swapaxes(0, 1)), dt=h)


def well(rng, n_rows, strength=1.0, noise="constant", more_noise=1.0, h=H):
    root = NOISES[noise]
    start = rng.choice([-1.0, 1.0], (N_TRACKS, 1))
    return tracks(rng, n_rows, lambda x: strength * (x - x**3), lambda x: more_noise * root(x), start, h)


def cycle(rng, n_rows, turns=2.0):
    def drift(x):
        return (1 - (x**2).sum(axis=1, keepdims=True)) * x + turns * np.stack([-x[:, 1], x[:, 0]], axis=1)

    return tracks(rng, n_rows, drift, lambda x: 0.4, np.tile([1.0, 0.0], (N_TRACKS, 1)))


def pair(case, rng):
    """Two data sets."""
    if case == "one-well-other-steps":
        return well(rng, 20_000), well(rng, 20_000, h=2 * H)
    if case in ("one-cycle", "cycle-faster"):
        return cycle(rng, 20_000), cycle(rng, 20_000, 2.2 if case == "cycle-faster" else 2.0)
    if case.startswith("drift"):
        return well(rng, 100_000), well(rng, 100_000, 1 + int(case.split("-")[1]) / 100)
    n = 1_000 if case == "one-well-few" else 20_000
    noise = "varying" if case == "one-well-varying" else "constant"
    more = np.sqrt(1.05) if case == "variance-5" else 1.0
    return well(rng, n, noise=noise), well(rng, n, noise=noise, more_noise=more)


def measure(case, seed):
    data = pair(case, np.random.default_rng([seed, 17]))
    models = [runs.fitted(own, seed)[0] for own in data]
    began = time.process_time()
    comparison = itofit.compare(*models, *data, rng=seed)
    seconds = time.process_time() - began
    return {
        "drift": float(comparison.drift_differs),
        "noise": float(comparison.noise_differs),
        "either": float(comparison.differs),
        "drift_band": float(comparison.drift.excludes(0.0).any()),
        "noise_band": float(comparison.variance_ratio.excludes(1.0).any()),
        "tested": float(
            comparison.drift_test is not None
        ),  # not if errors of measurement were found, which are not there
        "seconds": seconds,
    }


if __name__ == "__main__":
    runs.main(__doc__, "conditions", CASES, measure, COLUMNS, seeds=200)
