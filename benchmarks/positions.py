"""Positions alone against the fit with the true velocities, on the same tracks.

Van der Pol (σ = 1, h = 0.05, 20,000 positions with errors of standard deviation 0, 0.01, 0.03, 0.1), a pendulum whose
friction depends on the angle, two-dimensional motion in a trap, and 200 short tracks of 100 positions; van der Pol with
100,000 positions, and with 10,000 at steps of 0.2. Errors of f are
mean squares relative to that of f, at the true states of the track; those of Σ are relative root mean squares. The
fit with true velocities is `Transitions.from_underdamped` with the default options, its correction of steps included.

    python benchmarks/positions.py [--seeds 10] [--cases vdp-0 ...] [--output FILE] [--against FILE] [--results]
"""

import numpy as np
import runs
from runs import Column
from second_order_systems import PENDULUM, TRAP, tracks, van_der_pol

import itofit

H, LONG = 0.05, 0.2
N = 20_000
SYSTEMS = {
    "vdp-0": (van_der_pol(1.0), 1, N, 0.0, H, "van der Pol, positions"),
    "vdp-0.01": (van_der_pol(1.0), 1, N, 0.01, H, "van der Pol, errors of 0.01"),
    "vdp-0.03": (van_der_pol(1.0), 1, N, 0.03, H, "van der Pol, errors of 0.03"),
    "vdp-0.1": (van_der_pol(1.0), 1, N, 0.1, H, "van der Pol, errors of 0.1"),
    "pendulum": (PENDULUM, 1, N, 0.0, H, "a pendulum whose friction depends on the angle"),
    "trap": (TRAP, 1, N, 0.0, H, "two-dimensional motion in a trap"),
    "short": (van_der_pol(1.0), 200, 100, 0.0, H, "van der Pol, 200 tracks of 100 positions"),
    "many": (van_der_pol(1.0), 1, 100_000, 0.01, H, "van der Pol, 100,000 positions, errors of 0.01"),
    "long": (van_der_pol(1.0), 1, 10_000, 0.01, LONG, "van der Pol, 10,000 positions, steps of 0.2, errors of 0.01"),
}
CASES = {name: text for name, (*_, text) in SYSTEMS.items()}
COLUMNS = [
    Column("force", "relative squared error of f", ".5f"),
    Column("force_known", "that with true velocities", ".5f"),
    Column("ratio", "ratio of the two", ".2f"),
    Column("sigma", "relative error of Σ"),
    Column("sigma_known", "that with true velocities"),
    Column("sd", "estimated sd of errors", ".4f", None),
    Column("coverage", "share of f within 95 % bands", worst=min),
    Column("seconds", "seconds", ".1f"),
    Column("seconds_known", "seconds with true velocities", ".1f"),
]


def underdamped(states, h):
    """Transitions with true velocities from states (n_tracks, n_rows, 2d) at steps h."""
    d = states.shape[2] // 2
    before, after = states[:, :-1], states[:, 1:]
    groups = np.repeat(np.arange(len(states)), states.shape[1] - 1)
    parts = [part.reshape(-1, d) for part in (before[..., :d], before[..., d:], after[..., :d], after[..., d:])]
    return itofit.Transitions.from_underdamped(*parts, h, groups)


def errors_of(sde, system, places):
    """Relative mean squared error of f, relative error of Σ, and the share of f within 95 % bands."""
    d = places.shape[1] // 2
    truth = system.force(places[:, :d], places[:, d:])
    f, std = sde.drift(places, return_std=True)
    sigma, true_sigma = sde.covariance(places), system.sigma @ system.sigma.T
    covered = float(np.mean(np.abs(f - truth) < 1.96 * std))
    off = np.sqrt(np.mean(np.sum((sigma - true_sigma) ** 2, axis=(1, 2)))) / np.linalg.norm(true_sigma)
    return float(np.mean((f - truth) ** 2) / np.mean(truth**2)), float(off), covered


def measure(case, seed):
    """One case with one seed."""
    system, n_tracks, n_rows, sd, h, _ = SYSTEMS[case]
    rng = np.random.default_rng([seed, 73])
    states = tracks(rng, system, n_tracks, n_rows, h)
    d = states.shape[2] // 2
    seen = states[..., :d] + sd * rng.standard_normal(states[..., :d].shape)
    places = states.reshape(-1, 2 * d)[::7]
    known, seconds_known = runs.fitted(underdamped(states, h), seed)
    sde, seconds = runs.fitted(itofit.Transitions.from_positions(list(seen), dt=h), seed)
    force, sigma, coverage = errors_of(sde, system, places)
    force_known, sigma_known, _ = errors_of(known, system, places)
    noise = sde.measurement_noise
    return {
        "force": force,
        "force_known": force_known,
        "ratio": force / force_known,
        "sigma": sigma,
        "sigma_known": sigma_known,
        "sd": 0.0 if noise is None else float(np.sqrt(np.trace(noise.covariance) / d)),
        "coverage": coverage,
        "seconds": seconds,
        "seconds_known": seconds_known,
    }


if __name__ == "__main__":
    runs.main(__doc__, "positions", CASES, measure, COLUMNS)
