"""Formulas of equations whose states are hidden: right terms, and how often intervals hold the true coefficients.

Tracks with errors of measurement of some standard deviation, and tracks of positions whose velocities are not observed.
All true terms are far from zero for so many data, so "right" is every true term and no false one, in drift and noise.
"Deviation" is the root mean square of the errors of coefficients in units of their standard errors: one, if these are
right.

    python benchmarks/hidden_formula.py [--seeds 10] [--cases well-5 ...] [--output FILE] [--results]
"""

import time
from typing import NamedTuple

import numpy as np
import runs
from formula import Z, terms_of
from runs import Column

import itofit

SUBSTEPS = 20


class Hidden(NamedTuple):
    """A system with a known formula, and how it is observed."""

    text: str
    moved: object  # state (s, n), time step, rng -> state
    start: object  # rng, n -> state (s, n)
    h: float
    n_tracks: int
    n_steps: int
    sd: float
    truth: dict
    positions: bool = False
    names: tuple = ("x",)

    def data(self, rng):
        """Observations of all tracks."""
        x, seen = self.start(rng, self.n_tracks), np.empty((self.n_tracks, self.n_steps + 1, len(self.names)))
        for i in range(-100, self.n_steps + 1):
            if i >= 0:
                seen[:, i] = x[: len(self.names)].T
            for _ in range(SUBSTEPS):
                x = self.moved(x, self.h / SUBSTEPS, rng)
        seen += self.sd * rng.standard_normal(seen.shape)
        if self.positions:
            return itofit.Transitions.from_positions(list(seen), dt=self.h)
        return itofit.Transitions.from_trajectories(list(seen), dt=self.h, names=self.names)


def well(x, dt, rng):
    middle = x + 0.5 * dt * (x - x**3)
    return x + dt * (middle - middle**3) + np.sqrt(dt * (0.2 + 0.1 * x**2)) * rng.standard_normal(x.shape)


def cycle(x, dt, rng):
    a, b = x
    pull = 1 - a**2 - b**2
    return x + dt * np.array([pull * a - 2 * b, pull * b + 2 * a]) + 0.4 * np.sqrt(dt) * rng.standard_normal(x.shape)


def van_der_pol(state, dt, rng):
    x, v = state
    half = v + 0.5 * dt * (2 * (1 - x**2) * v - x)
    x, v = x + dt * half, v + dt * (2 * (1 - (x + 0.5 * dt * v) ** 2) * half - (x + 0.5 * dt * v))
    return np.array([x, v + np.sqrt(dt) * rng.standard_normal(v.shape)])


def normal(size):
    return lambda rng, n: rng.standard_normal((size, n))


WELL = {("f_x", "x"): 1.0, ("f_x", "x³"): -1.0, ("Σ_x", "1"): 0.2, ("Σ_x", "x²"): 0.1}
POL = {("f_v", "x"): -1.0, ("f_v", "v"): 2.0, ("f_v", "x² v"): -2.0, ("Σ_v", "1"): 1.0}
CYCLE = {("f_x", "x"): 1.0, ("f_x", "x³"): -1.0, ("f_x", "x y²"): -1.0, ("f_x", "y"): -2.0, ("f_y", "y"): 1.0}
CYCLE |= {("f_y", "y³"): -1.0, ("f_y", "x² y"): -1.0, ("f_y", "x"): 2.0, ("Σ_x", "1"): 0.16, ("Σ_y", "1"): 0.16}
SYSTEMS = {
    f"well-{percent}": Hidden(
        f"double well, 100,000 steps, errors of measurement of {percent / 100:g}", well, normal(1), 0.02, 50, 2000,
        percent / 100, WELL,
    )
    for percent in (2, 5)
} | {
    "cycle-5": Hidden(
        "limit cycle, 50,000 steps, errors of 0.05", cycle, normal(2), 0.02, 50, 1000, 0.05, CYCLE, names=("x", "y")
    ),
} | {
    f"pol-{percent}": Hidden(
        f"van der Pol from 20,000 positions, errors of {percent / 100:g}", van_der_pol, normal(2), 0.05, 20, 1000,
        percent / 100, POL, positions=True,
    )
    for percent in (0, 3)
}  # fmt: skip
CASES = {name: system.text for name, system in SYSTEMS.items()}
COLUMNS = [
    Column("right", "all true terms and no false one", ".2f", worst=None),
    Column("n_false", "false terms", ".2f"),
    Column("n_missed", "true terms missed", ".2f"),
    Column("covered", "coefficients within 95 % intervals", ".3f", worst=None),
    Column("deviation", "errors in standard errors", ".2f"),
    Column("sd_covered", "sd of the errors within its interval", ".2f", worst=None),
    Column("worse", "said to be no short formula", ".2f", worst=None),
    Column("seconds", "seconds of the formula", ".1f"),
    Column("fit_seconds", "seconds of the fit", ".1f"),
]


def measure(case, seed):
    """One data set."""
    system = SYSTEMS[case]
    data = system.data(np.random.default_rng([seed, 17]))
    began = time.process_time()
    sde, _ = runs.fitted(data, seed)
    fitted = time.process_time()
    formula = sde.formula(data)
    ended = time.process_time()
    truth, found = system.truth, terms_of(formula)
    both = [key for key in truth if key in found]
    errors = np.array([(found[key][0] - truth[key]) / found[key][1] for key in both])
    noise = formula.measurement_noise
    run = {
        "right": float(found.keys() == truth.keys()),
        "n_false": sum(key not in truth for key in found),
        "n_missed": sum(key not in found for key in truth),
        "covered": float(np.mean(np.abs(errors) < Z)),
        "deviation": float(np.sqrt(np.mean(errors**2))),
        "errors": {" ".join(key): float(error) for key, error in zip(both, errors, strict=True)},
        "false": [" ".join(key) for key in found if key not in truth],
        "missed": [" ".join(key) for key in truth if key not in found],
        "worse": float(not formula.is_short),
        "seconds": ended - fitted,
        "fit_seconds": fitted - began,
    }
    if noise is not None:
        run["sd_covered"] = float(np.mean(np.abs(noise.sd - system.sd) < Z * noise.sd_std))
    return run


if __name__ == "__main__":
    runs.main(__doc__, "hidden_formula", CASES, measure, COLUMNS)
