"""Driven systems and angles: what covariates and periods recover, beside least squares on the very terms of the drift.

Tracks are simulated in ten substeps of each observed step, in which covariates are held. Errors are root mean squares
over places of another track, relative to the drift. "Without" is the same fit without the covariate, or with the
increments of the angle but without its period. Of a treatment that is given or not, either is also fitted alone. A
learned equation is then simulated with a drive that it has not seen, and the mean of its paths compared with that of
the truth's, with the same noise.

    python benchmarks/driven.py [--seeds 10] [--cases linear angle ...] [--results]
"""

from typing import NamedTuple

import numpy as np
import runs
from runs import Column

import itofit
from itofit.model.known import KnownSDE

TURN, Z = 2 * np.pi, 1.96
SUBSTEPS, PATHS = 10, 400


class Case(NamedTuple):
    """An equation, its drive and its observation."""

    text: str
    drift: object  # inputs (n, m) -> (n, 1)
    terms: object  # inputs (n, m) -> (n, terms): those that the drift is made of
    noise: float
    h: float
    drive: object = None  # rng, times (T,) -> (T, 1)
    new_drive: object = None  # times (T,) -> (T, 1)
    periodic: dict | None = None
    underdamped: bool = False
    n: int = 20_000
    n_tracks: int = 10

    @property
    def equation(self):
        """As an object that can be simulated."""
        k = self.drive is not None
        sigma = np.full((1, 1, 1), self.noise)
        return KnownSDE(
            f=self.drift,
            sigma=lambda x: np.broadcast_to(sigma, (len(x), 1, 1)),
            n_inputs=1 + self.underdamped + k,
            n_covariates=int(k),
        )

    def tracks(self, rng):
        """States (n_tracks, T, s), which are not wrapped, and covariates (n_tracks, T, k) or None."""
        T = self.n // self.n_tracks + 1
        starts = (
            rng.uniform(0, TURN, (self.n_tracks, 1 + self.underdamped))
            if self.periodic
            else np.zeros((self.n_tracks, 1))
        )
        drive = held = None
        if self.drive is not None:
            starts = np.zeros((self.n_tracks, 1))
            times = self.h * (np.arange(T) + T * np.arange(self.n_tracks)[:, None])
            drive = np.stack([self.drive(rng, own) for own in times])
            held = np.repeat(drive[:, :-1], SUBSTEPS, axis=1)
        paths = self.equation.simulate(
            starts, self.h / SUBSTEPS, (T - 1) * SUBSTEPS, covariates=held, rng=rng, progress=False
        )
        return paths[:, ::SUBSTEPS], drive


def random_drive(rng, times):
    """Three waves of random phase, and jumps."""
    phase = rng.uniform(0, TURN, 3)
    waves = np.sin(np.outer(times, [0.3, 1.1, 2.3]) + phase).sum(axis=1) / 2
    return (waves + np.repeat(rng.normal(size=len(times) // 100 + 1), 100)[: len(times)] / 2)[:, None]


def treatment(rng, times):
    """On and off, for stretches of 200 observations."""
    return np.repeat(rng.integers(0, 2, len(times) // 200 + 1), 200)[: len(times), None].astype(float)


def harmonics(x, n):
    return [each(k * x) for k in range(1, n + 1) for each in (np.sin, np.cos)]


def of_season(t):
    return 2 * np.sin(TURN * t) + np.cos(2 * TURN * t)


CASES = {
    "linear": Case(
        "dx = (−x + 1.5 u) dt + 0.5 dW",
        lambda z: -z[:, :1] + 1.5 * z[:, 1:],
        lambda z: np.column_stack([np.ones(len(z)), z]),
        0.5,
        0.05,
        random_drive,
        lambda t: np.where(np.sin(t) > 0, 1.0, -0.5)[:, None],
    ),
    "treatment": Case(
        "−x without and x − x³ with a treatment (u = 0, 1)",
        lambda z: np.where(z[:, 1:] > 0.5, z[:, :1] - z[:, :1] ** 3, -z[:, :1]),
        lambda z: np.column_stack([z[:, 0] ** k * side for k in (0, 1, 3) for side in (z[:, 1] > 0.5, z[:, 1] < 0.5)]),
        0.5,
        0.02,
        treatment,
        lambda t: (np.sin(t) > 0).astype(float)[:, None],
    ),
    "season": Case(
        "−x + 2 sin 2πt + cos 4πt, time with period 1",
        lambda z: -z[:, :1] + of_season(z[:, 1:]),
        lambda z: np.column_stack([np.ones(len(z)), z[:, 0], *harmonics(TURN * z[:, 1], 2)]),
        0.5,
        0.01,
        lambda rng, times: times[:, None],
        lambda t: t[:, None] + 0.3,
        {"u": 1.0},
    ),
    "angle": Case(
        "an angle, sin θ + 0.5 cos 2θ",
        lambda z: np.sin(z) + 0.5 * np.cos(2 * z),
        lambda z: np.column_stack([np.ones(len(z)), *harmonics(z[:, 0], 2)]),
        0.7,
        0.02,
        periodic={"x": TURN},
    ),
    "pendulum": Case(
        "a pendulum, −sin θ − 0.5 (1 + 0.5 cos θ) v",
        lambda z: -np.sin(z[:, :1]) - 0.5 * (1 + 0.5 * np.cos(z[:, :1])) * z[:, 1:],
        lambda z: np.column_stack(
            [np.ones(len(z)), *harmonics(z[:, 0], 1), z[:, 1], *(z[:, 1] * own for own in harmonics(z[:, 0], 1))]
        ),
        0.9,
        0.02,
        periodic={"x": TURN},
        underdamped=True,
    ),
}
COLUMNS = [
    Column("drift_error", "relative drift error"),
    Column("right_terms_error", "of least squares on the right terms"),
    Column("without_error", "without the covariate or period"),
    Column("apart_error", "of a fit for each value of u"),
    Column("coverage", "share of the drift within 95 % bands", worst=min),
    Column("covariance_error", "relative error of Σ"),
    Column("jump", "jump of the drift at the cut, relative", ".1e"),
    Column("jump_without", "without the period"),
    Column("simulated", "mean of simulated paths, relative error"),
    Column("slope_x", "slope in x", worst=None),
    Column("slope_u", "slope in u", worst=None),
    Column("slopes_within", "share of slopes within 95 %", worst=None),
    Column("seconds", "seconds", ".2f"),
]


def transitions(case, paths, drive, periodic):
    """Data from tracks; without the period they have the true increments and wrapped inputs."""
    u = None if drive is None else np.concatenate(list(drive[:, :-1]))
    start, end = np.concatenate(list(paths[:, :-1])), np.concatenate(list(paths[:, 1:]))
    groups = np.repeat(np.arange(len(paths)), paths.shape[1] - 1)
    if case.underdamped:
        inputs, increments, kind = np.column_stack([end[:, 0], start[:, 1]]), end[:, 1:] - start[:, 1:], "underdamped"
    else:
        inputs, increments, kind = start, end - start, "diffusion"
    if case.periodic is not None and u is None:
        inputs = np.column_stack([np.mod(inputs[:, 0], TURN), inputs[:, 1:]])
    elif case.periodic is not None:
        u = np.mod(u, 1.0)
    return itofit.Transitions(inputs, increments, case.h, groups, kind, covariates=u, periodic=periodic)


def measure(name, seed):
    """One set of tracks."""
    case = CASES[name]
    rng = np.random.default_rng([seed, 15])
    paths, drive = case.tracks(rng)
    data = transitions(case, paths, drive, case.periodic)
    places = transitions(case, *case.tracks(rng), case.periodic).inputs[::10]
    truth = case.drift(places)
    sde, seconds = runs.fitted(data, seed)
    drift, std = sde.drift(places, return_std=True)
    c = np.linalg.lstsq(case.terms(data.inputs), data.rates, rcond=None)[0]
    if case.periodic is None:
        other, at = transitions(case, paths, None, None), places[:, :1]
    else:
        other, at = transitions(case, paths, drive, None), places
    blind = runs.fitted(other, seed)[0]
    found = {
        "drift_error": runs.relative_error(drift, truth),
        "right_terms_error": runs.relative_error(case.terms(places) @ c, truth),
        "without_error": runs.relative_error(blind.drift(at), truth),
        "coverage": float(np.mean(np.abs(drift - truth) < Z * std)),
        "covariance_error": runs.relative_error(sde.covariance(places), np.full((len(places), 1, 1), case.noise**2)),
        "seconds": seconds,
    }
    if case.periodic is not None:
        size = runs.root_mean_square(truth)
        found |= {"jump": jump(sde, sde, places) / size, "jump_without": jump(blind, sde, places) / size}
    if case.drive is not None:
        found["simulated"] = simulated_error(case, sde, seed)
    if name == "treatment":
        found["apart_error"] = runs.relative_error(fitted_apart(data, places, seed), truth)
    return found | (slopes(sde) if name == "linear" else {})


def fitted_apart(data, places, seed):
    """Drifts at places that were learned from the rows of each value of the covariate alone."""
    drift = np.empty((len(places), 1))
    for value in (0.0, 1.0):
        own, rows = places[:, 1] == value, data[data.inputs[:, 1] == value]
        alone = itofit.Transitions(rows.inputs[:, :1], rows.increments, rows.h, rows.groups)
        drift[own] = runs.fitted(alone, seed)[0].drift(places[own, :1])
    return drift


def jump(learned, sde, places):
    """The largest difference of a learned drift at the two ends of the period that another knows."""
    i = int(np.flatnonzero(sde.periods[1])[0])
    ends = [places[:200].copy() for _ in range(2)]
    for end, at in zip(ends, sde.periods[:, i], strict=True):
        end[:, i] = at
    return float(np.abs(learned.drift(ends[0]) - learned.drift(ends[1])).max())


def simulated_error(case, sde, seed):
    """Mean of paths with a new drive, against that of the truth with the same noise."""
    steps = 300
    drive = case.new_drive(case.h * np.arange(steps))
    starts = np.full(PATHS, 0.5)
    settings = {"covariates": drive, "scheme": "euler", "outside": "extrapolate", "progress": False}
    means = [each.simulate(starts, case.h, steps, rng=seed, **settings).mean(axis=0) for each in (sde, case.equation)]
    return runs.relative_error(*means)


def slopes(sde):
    """Slopes of a linear drift in the middle of the range, and how many of them have the truth within 1.96 errors."""
    middle = sde.box.mean(axis=0)[None]
    slope = sde.drift_jacobian(middle)[0, 0]
    error = np.sqrt((sde.drift_function.spread.jacobian(middle)[0] ** 2).sum(axis=0))
    within = np.abs(slope - [-1.0, 1.5]) < Z * error
    return {"slope_x": slope[0], "slope_u": slope[1], "errors": error.tolist(), "slopes_within": float(within.mean())}


if __name__ == "__main__":
    runs.main(__doc__, "driven", {name: case.text for name, case in CASES.items()}, measure, COLUMNS)
