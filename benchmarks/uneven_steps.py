"""Tracks in which 3 % of the steps are 10 to 40 times as long as the others, against the same data without these.

Forty tracks of 80 transitions of a noisy limit cycle. No options are given to either fit. For scale, the data without
the long steps are also learned from with correct_step=True. Errors are root mean squares at all inputs.

    python benchmarks/uneven_steps.py [--seeds 10] [--output FILE] [--against FILE]
"""

import numpy as np
import runs
from runs import Column

import itofit

TRACKS, STEPS = 40, 80
SHARE = 0.03
MEDIAN = 0.05
LONG = 0.3
SUBSTEP = 0.002
NOISE = 0.3
Z = 1.959964
CASES = {"cycle": f"limit cycle, {TRACKS} tracks of {STEPS} transitions"}
COLUMNS = [
    Column("drift_ratio", "drift error / that without long steps"),
    Column("covariance_ratio", "covariance error / that without long steps"),
    Column("all_drift", "drift error, all steps"),
    Column("short_drift", "drift error, without long steps"),
    Column("corrected_drift", "drift error, without long steps, corrected"),
    Column("all_covariance", "relative covariance error, all steps"),
    Column("short_covariance", "relative covariance error, without long steps"),
    Column("corrected_covariance", "the same, corrected"),
    Column("all_coverage", "share of the drift within 95 % bands", worst=min),
    Column("all_seconds", "seconds", ".2f"),
]


def drift(x):
    outward = 1 - (x**2).sum(axis=1, keepdims=True)
    return outward * x + 1.5 * np.stack([-x[:, 1], x[:, 0]], axis=1)


def sample(rng):
    """Transitions of all tracks, which take their steps side by side."""
    shape = (STEPS, TRACKS)
    ordinary, long = MEDIAN * rng.uniform(0.6, 1.4, shape), MEDIAN * rng.uniform(10, 40, shape)
    steps = np.where(rng.random(shape) < SHARE, long, ordinary)
    x = rng.standard_normal((TRACKS, 2))
    path = [x]
    for h in steps:
        n_substeps = int(np.ceil(h.max() / SUBSTEP))
        k = (h / n_substeps)[:, None]
        for _ in range(n_substeps):
            x = x + k * drift(x) + NOISE * np.sqrt(k) * rng.standard_normal(x.shape)
        path.append(x)
    times = np.concatenate([np.zeros((1, TRACKS)), np.cumsum(steps, axis=0)])
    return itofit.Transitions.from_trajectories(list(np.stack(path, axis=1)), times=list(times.T))


def measure(case, seed):
    """Three fits."""
    data = sample(np.random.default_rng([seed, 1040]))
    short = data[data.h < LONG]
    truth, covariance = drift(data.inputs), NOISE**2 * np.eye(2)
    run = {}
    for name, rows, options in (("all", data, {}), ("short", short, {}), ("corrected", short, {"correct_step": True})):
        sde, run[f"{name}_seconds"] = runs.fitted(rows, seed, **options)
        learned, std = sde.drift(data.inputs, return_std=True)
        run[f"{name}_drift"] = runs.root_mean_square(learned - truth)
        run[f"{name}_coverage"] = float(np.mean(np.abs(learned - truth) < Z * std))
        off = sde.covariance(data.inputs) - covariance
        run[f"{name}_covariance"] = float(np.sqrt((off**2).sum(axis=(1, 2)).mean() / (covariance**2).sum()))
    return run | {f"{what}_ratio": run[f"all_{what}"] / run[f"short_{what}"] for what in ("drift", "covariance")}


if __name__ == "__main__":
    runs.main(__doc__, "uneven_steps", CASES, measure, COLUMNS)
