"""Hidden states that are driven from outside, or that are angles, beside the fit to the same tracks without errors.

*With errors of measurement*, whose standard deviation is half of that of the noise of a step: dx = (−x + 1.5 u) dt +
0.5 dW, h = 0.05, and an angle, dθ = (½ + sin θ + ½ cos 2θ) dt + 0.7 dW, h = 0.02, recorded within one turn; ten tracks
of 2,001 observations. The plain fit has the same tracks without errors. *Positions alone*, h = 0.05, ten tracks of
2,001, without errors and with errors of 0.02: an oscillator, dv = (−x − 0.6 v + 1.5 u) dt + 0.7 dW, and a pendulum that
goes round, dv = (0.4 − sin θ − 0.5 v) dt + 0.9 dW. The plain fit has the true velocities and no errors. Drives are
three waves and jumps, held during a step. "Ignored" is the fit to noisy states that takes errors for motion. Errors
of f are mean squares relative to that of f, at places of the tracks, of states averaged over three fits.

    python benchmarks/hidden_surroundings.py [--seeds 5] [--cases driven ...] [--output FILE] [--results]
"""

import time
from typing import NamedTuple

import numpy as np
import runs
from runs import Column

import itofit

TURN, Z = 2 * np.pi, 1.959964
N, N_TRACKS, SUBSTEPS, PLACES = 2_001, 10, 10, 5_000
FITS = {False: 3, True: 1}
"""With other frequencies, to the same data, of systems of first and of second order."""


class System(NamedTuple):
    """An equation, and how it is observed."""

    text: str
    drift: object  # inputs (n, m) -> (n, 1)
    noise: float
    h: float
    sd: float  # of errors of measurement
    driven: bool = False
    periodic: bool = False
    second_order: bool = False


def pulled(z):
    return -z[:, :1] + 1.5 * z[:, 1:]


def turned(z):
    return 0.5 + np.sin(z) + 0.5 * np.cos(2 * z)


def oscillator(z):
    return -z[:, :1] - 0.6 * z[:, 1:2] + 1.5 * z[:, 2:]


def pendulum(z):
    return 0.4 - np.sin(z[:, :1]) - 0.5 * z[:, 1:]


HALF = 0.5 * np.sqrt(0.05) * 0.5, 0.5 * np.sqrt(0.02) * 0.7
CASES = {
    "driven": System("driven from outside, errors", pulled, 0.5, 0.05, HALF[0], driven=True),
    "driven-0": System("driven from outside, no errors", pulled, 0.5, 0.05, 0.0, driven=True),
    "angle": System("an angle, errors", turned, 0.7, 0.02, HALF[1], periodic=True),
    "angle-0": System("an angle, no errors", turned, 0.7, 0.02, 0.0, periodic=True),
    "oscillator": System(
        "positions of a driven oscillator, errors", oscillator, 0.7, 0.05, 0.02, driven=True, second_order=True
    ),
    "oscillator-0": System(
        "positions of a driven oscillator", oscillator, 0.7, 0.05, 0.0, driven=True, second_order=True
    ),
    "pendulum": System(
        "angles of a pendulum without velocities, errors", pendulum, 0.9, 0.05, 0.02, periodic=True, second_order=True
    ),
    "pendulum-0": System(
        "angles of a pendulum without velocities", pendulum, 0.9, 0.05, 0.0, periodic=True, second_order=True
    ),
}
COLUMNS = [
    Column("force", "relative squared error of f", ".5f"),
    Column("force_clean", "that without errors, with velocities", ".5f"),
    Column("force_ignored", "that if errors are ignored", ".5f"),
    Column("sigma", "relative error of Σ"),
    Column("sigma_clean", "that without errors, with velocities"),
    Column("sigma_ignored", "that if errors are ignored"),
    Column("sd_ratio", "sd over its true value", worst=None),
    Column("sd_error", "relative error of sd"),
    Column("drift_coverage", "share of f within 95 % bands", worst=min),
    Column("sigma_coverage", "the same for Σ", worst=min),
    Column("taken", "share in which errors were found", ".2f", worst=None),
    Column("seconds", "seconds of CPU", ".1f"),
    Column("seconds_clean", "of CPU without errors, with velocities", ".1f"),
]


def drive(rng, h):
    """Three waves of random phase, and jumps: (N, N_TRACKS, 1)."""
    phase, times = rng.uniform(0, TURN, (3, N_TRACKS)), h * np.arange(N)[:, None]
    waves = sum(np.sin(rate * times + own) for rate, own in zip((0.3, 1.1, 2.3), phase, strict=True)) / 2
    return (waves + np.repeat(rng.normal(size=(N // 100 + 1, N_TRACKS)), 100, axis=0)[:N] / 2)[:, :, None]


def tracks(system, rng):
    """States (N_TRACKS, N, s), not wrapped, and covariates (N_TRACKS, N, k)."""
    u = drive(rng, system.h) if system.driven else np.empty((N, N_TRACKS, 0))
    state = rng.normal(size=(N_TRACKS, 1 + system.second_order))
    path, dt = [], system.h / SUBSTEPS
    for now in u:
        path.append(state)
        for _ in range(SUBSTEPS):
            kick = np.sqrt(dt) * system.noise * rng.standard_normal((N_TRACKS, 1))
            moved = state[:, -1:] + dt * system.drift(np.concatenate([state, now], axis=1)) + kick
            if system.second_order:
                place = state[:, :1] + 0.5 * dt * (state[:, 1:] + moved)
                moved = np.concatenate([place, moved], axis=1)
            state = moved
    return np.array(path).swapaxes(0, 1), u.swapaxes(0, 1)


def options_of(system, u):
    return ({"covariates": list(u)} if system.driven else {}) | ({"periodic": {"x": TURN}} if system.periodic else {})


def with_velocities(system, paths, u):
    """Transitions of true states."""
    before, after = (part.reshape(-1, 2) for part in (paths[:, :-1], paths[:, 1:]))
    columns = before[:, 0], before[:, 1], after[:, 0], after[:, 1]
    options = options_of(system, u)
    if system.driven:
        options["covariates"] = u[:, :-1].reshape(-1, 1)
    return itofit.Transitions.from_underdamped(*columns, system.h, np.repeat(np.arange(N_TRACKS), N - 1), **options)


def judged(system, sde, places):
    truth, sigma = system.drift(places), system.noise**2
    f, std = sde.drift(places, return_std=True)
    covariance, covariance_std = (part.ravel() for part in sde.covariance(places, return_std=True))
    return {
        "force": float(np.mean((f - truth) ** 2) / np.mean(truth**2)),
        "sigma": runs.root_mean_square(covariance / sigma - 1),
        "drift_coverage": float(np.mean(np.abs(f - truth) < Z * std)),
        "sigma_coverage": float(np.mean(np.abs(covariance - sigma) < Z * covariance_std)),
    }


def measure(case, seed):
    """One set of tracks, some fits."""
    system = CASES[case]
    rng = np.random.default_rng([seed, 19])
    paths, u = tracks(system, rng)
    positions = paths[:, :, :1]
    seen = positions + system.sd * rng.standard_normal(positions.shape)
    make = itofit.Transitions.from_positions if system.second_order else itofit.Transitions.from_trajectories
    data = make(list(seen), dt=system.h, **options_of(system, u))
    clean = (
        with_velocities(system, paths, u)
        if system.second_order
        else make(list(positions), dt=system.h, **options_of(system, u))
    )
    places = np.concatenate([paths, u], axis=2).reshape(-1, clean.n_inputs)
    places = places[rng.choice(len(places), PLACES, replace=False)]
    n_fits = FITS[system.second_order]
    each = [_fits(system, data, clean, places, n_fits * seed + k) for k in range(n_fits)]
    return {name: float(np.mean([run[name] for run in each if name in run])) for name in set().union(*each)}


def _fits(system, data, clean, places, seed):
    began = time.process_time()
    sde, _ = runs.fitted(data, seed)
    middle = time.process_time()
    best, _ = runs.fitted(clean, seed, measurement_noise=False)
    ended = time.process_time()
    base = judged(system, best, places)
    noise = sde.measurement_noise
    run = judged(system, sde, places) | {
        "force_clean": base["force"],
        "sigma_clean": base["sigma"],
        "taken": float(noise is not None),
        "seconds": middle - began,
        "seconds_clean": ended - middle,
    }
    if system.sd and not system.second_order:
        ignored = judged(system, runs.fitted(data, seed, measurement_noise=False)[0], places)
        run |= {"force_ignored": ignored["force"], "sigma_ignored": ignored["sigma"]}
    if system.sd and noise is not None:
        ratio = float(noise.sd[0]) / system.sd
        run |= {"sd_ratio": ratio, "sd_error": abs(ratio - 1)}
    return run


if __name__ == "__main__":
    runs.main(__doc__, "hidden_surroundings", {name: system.text for name, system in CASES.items()}, measure, COLUMNS)
