"""Tracks with errors of measurement: errors of drift, noise and Λ beside the plain fit to the same tracks without them.

*Double wells* f = x − x³ with Σ = 0.25 or (0.4 + 0.2 x²)², h = 0.01, ten tracks of 10,001 observations. *A noisy limit
cycle* of two variables with a full Σ that depends on the place, a full Λ, irregular times and 5 % of the observations
missing; errors are a tenth of what noise does in one relaxation time. *False alarms*: double wells without errors, ten
tracks of 2,001 observations, at h = 0.01 and at a tenth and three tenths of the relaxation time (use --seeds 100).
Errors are weighted by where the states are; ratios are of mean squared errors, averaged over seeds on both sides, and
for double wells over three fits with random frequencies of their own, as these make more of a difference than errors of
0.01 do: docs/measurement-noise.md says why.

    python benchmarks/measurement_noise.py [--seeds 10] [--cases constant-0.05 ...] [--output FILE] [--results]
"""

import time

import numpy as np
import runs
from runs import Column

import itofit

WELLS = {"constant": lambda x: 0.5 + 0 * x, "varying": lambda x: 0.4 + 0.2 * x**2}
SDS = (0.0, 0.01, 0.02, 0.05, 0.15)
RELAXATION = 0.5
"""Time, at the bottom of a well: 1/|f'|."""
FITS = 3
"""With other frequencies, to the same data."""
PLACES = 5_000
Z = 1.959964
CASES = {
    f"{name}-{sd:g}": f"double well, {name} noise, errors of standard deviation {sd:g}" for name in WELLS for sd in SDS
}
CASES["cycle"] = "limit cycle, two variables, full Σ and Λ, irregular times, gaps"
ALARMS = {f"alarms-{share:g}": share * RELAXATION for share in (0.02, 0.1, 0.3)}
CASES |= {case: f"double well without errors, h = {h:g}" for case, h in ALARMS.items()}
COLUMNS = [
    Column("squared", "mean squared drift error", ".2e"),
    Column("clean", "of the plain fit without errors", ".2e"),
    Column("sigma", "relative error of Σ", ".4f"),
    Column("clean_sigma", "of the plain fit", ".4f"),
    Column("sd_ratio", "sd over its true value", ".4f", worst=None),
    Column("sd_error", "relative error of sd", ".4f"),
    Column("drift_coverage", "share of the drift within 95 % bands", ".3f", worst=min),
    Column("sigma_coverage", "the same for Σ", ".3f", worst=min),
    Column("taken", "share in which errors were found", ".2f", worst=None),
    Column("seconds", "seconds", ".1f"),
    Column("clean_seconds", "of the plain fit", ".2f"),
]


def paths_of(drift, noise, start, rng, n, h, substeps=10, burn_in=200):
    """Paths (n, n_paths, d) by small Euler steps; h is a number, or times between observations (n − 1, n_paths)."""
    x = start.copy()
    path = np.empty((n, *x.shape))
    lengths = np.broadcast_to(h, (n - 1, len(x)))
    for i in range(-burn_in, n):
        if i >= 0:
            path[i] = x
        dt = lengths[max(i, 0) % (n - 1)][:, None] / substeps
        for _ in range(substeps):
            x = x + dt * drift(x) + np.sqrt(dt) * noise(x, rng.standard_normal(x.shape))
    return path


def judged(sde, places, f, sigma):
    """Errors and coverage at some places."""
    drift, drift_std = sde.drift(places, return_std=True)
    covariance, covariance_std = sde.covariance(places, return_std=True)
    relative = np.linalg.norm(covariance - sigma, axis=(1, 2)) / np.linalg.norm(sigma, axis=(1, 2))
    return {
        "squared": float(np.mean((drift - f) ** 2)),
        "sigma": runs.root_mean_square(relative),
        "drift_coverage": float(np.mean(np.abs(drift - f) < Z * drift_std)),
        "sigma_coverage": float(np.mean(np.abs(covariance - sigma) < Z * covariance_std)),
    }


def compared(clean, noisy, places, f, sigma, noise, seeds):
    """Fits to tracks with errors beside plain fits to the same without them, averaged over seeds of fits."""
    each = [_compared_once(clean, noisy, places, f, sigma, noise, seed) for seed in seeds]
    return {name: float(np.mean([run[name] for run in each if name in run])) for name in each[0]}


def _compared_once(clean, noisy, places, f, sigma, noise, seed):
    began = time.process_time()
    plain, _ = runs.fitted(clean, seed, measurement_noise=False)
    middle = time.process_time()
    sde, _ = runs.fitted(noisy, seed)
    ended = time.process_time()
    base, found = judged(plain, places, f, sigma), judged(sde, places, f, sigma)
    taken = sde.measurement_noise is not None
    run = found | {
        "clean": base["squared"],
        "clean_sigma": base["sigma"],
        "clean_drift_coverage": base["drift_coverage"],
        "clean_sigma_coverage": base["sigma_coverage"],
        "taken": float(taken),
        "seconds": ended - middle,
        "clean_seconds": middle - began,
    }
    if taken and noise.any():
        ratio = sde.measurement_noise.sd / np.sqrt(np.diagonal(noise))
        run |= {"sd_ratio": float(ratio.mean()), "sd_error": float(np.abs(ratio - 1).max())}
    return run


def double_well(name, sd, seed):
    rng, h = np.random.default_rng([seed, 15]), 0.01
    g = WELLS[name]
    start = rng.choice([-1.0, 1.0], (10, 1))
    paths = paths_of(lambda x: x - x**3, lambda x, z: g(x) * z, start, rng, 10_001, h).swapaxes(0, 1)
    noisy = paths + sd * rng.standard_normal(paths.shape)
    places = rng.choice(paths.reshape(-1, 1), PLACES)
    clean, data = (itofit.Transitions.from_trajectories(list(each), dt=h) for each in (paths, noisy))
    truth = places - places**3, (g(places) ** 2)[:, :, None]
    return compared(clean, data, places, *truth, np.array([[sd**2]]), [FITS * seed + k for k in range(FITS)])


def cycle_drift(x):
    a, b = x.T
    rest = 1 - a**2 - b**2
    return np.stack([rest * a - 2 * b, rest * b + 2 * a], axis=1)


def cycle_root(x):
    """σ, lower triangular: it depends on the place, and its variables are correlated."""
    a, b = x.T
    root = np.zeros((len(x), 2, 2))
    root[:, 0, 0], root[:, 1, 0], root[:, 1, 1] = 0.35 + 0.1 * a, 0.15, 0.3 - 0.08 * b
    return root


def limit_cycle(seed):
    """The radius relaxes at the rate 2, so noise of 0.35 does about 0.25 in one relaxation time."""
    rng = np.random.default_rng([seed, 16])
    n, n_tracks, sd = 5_001, 20, 0.025
    h = rng.uniform(0.01, 0.03, (n - 1, n_tracks))
    start = np.stack([np.ones(n_tracks), np.zeros(n_tracks)], axis=1)
    paths = paths_of(cycle_drift, lambda x, z: (cycle_root(x) @ z[:, :, None])[:, :, 0], start, rng, n, h)
    paths = paths.swapaxes(0, 1)
    times = np.concatenate([np.zeros((n_tracks, 1)), np.cumsum(h.T, axis=1)], axis=1)
    noise = sd**2 * np.array([[1.0, 0.4], [0.4, 0.8]])
    noisy = paths + rng.standard_normal(paths.shape) @ np.linalg.cholesky(noise).T
    missing = rng.random(paths.shape[:2]) < 0.05
    places = rng.choice(paths.reshape(-1, 2), PLACES)
    tracks = [np.where(missing[:, :, None], np.nan, each) for each in (paths, noisy)]
    clean, data = (itofit.Transitions.from_trajectories(list(each), times=list(times)) for each in tracks)
    root = cycle_root(places)
    return compared(clean, data, places, cycle_drift(places), root @ root.swapaxes(1, 2), noise, [seed])


def false_alarm(h, seed):
    """Whether errors are found where there are none."""
    rng = np.random.default_rng([seed, 17])
    name = list(WELLS)[seed % 2]
    start = rng.choice([-1.0, 1.0], (10, 1))
    substeps = max(5, round(h / 0.004))
    paths = paths_of(lambda x: x - x**3, lambda x, z: WELLS[name](x) * z, start, rng, 2_001, h, substeps, 50)
    data = itofit.Transitions.from_trajectories(list(paths.swapaxes(0, 1)), dt=h)
    sde, _ = runs.fitted(data, seed)
    return {"taken": float(sde.measurement_noise is not None)}


def measure(case, seed):
    """One data set."""
    if case in ALARMS:
        return false_alarm(ALARMS[case], seed)
    if case == "cycle":
        return limit_cycle(seed)
    name, sd = case.split("-")
    return double_well(name, float(sd), seed)


if __name__ == "__main__":
    done = runs.main(__doc__, "measurement_noise", CASES, measure, COLUMNS)
    for case in CASES:
        own = [run for run in done if run["case"] == case and "clean" in run]
        if own:
            ratio = np.mean([run["squared"] for run in own]) / np.mean([run["clean"] for run in own])
            print(f"{case}: mean squared drift error {ratio:.2f} times that without errors")
