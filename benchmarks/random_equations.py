"""Random equations: whether the default ever fails, or loses to constant coefficients.

Each seed is an equation of one to four variables with a linear, polynomial or trigonometric drift, noise that is
constant or varies over up to three decades, diagonal or full, in units over six decades; seen in 30 to 20,000
transitions as pairs, one track or many, at even or very uneven steps. No options are given. Losses are per variable and
above those of the best constant drift and covariance of the same data: with fresh noise at the training inputs and
steps themselves, and for new data of the same law at places within the range of the training inputs; as they are, and
with error bars counted (`nll(predictive=True)`). Steps that a fit left out as too long are left out of all. Drift,
covariance, their errors, intervals, steps and paths must be finite, and covariances positive definite, in a box twice
as large as the data's.

    python benchmarks/random_equations.py [--seeds 1000] [--jobs 2] [--output FILE] [--against FILE]

Most of the time goes into few large equations, so runs of the present code are kept in
benchmarks/results/random_equations.jsonl; `--output` that file goes on, and after a change of fits it is begun again.
"""

import warnings
from typing import NamedTuple

import numpy as np
import runs
from runs import Column

import itofit
from itofit.model.likelihood import gaussian_nll

SUBSTEPS = 10
HELD_OUT = 4_000
NEW_TRACKS = 40
LEAST_HELD_OUT = 50
POINTS = 5_000
ALLOWED = 0.02
CASES = {"any": "random equations"}
COLUMNS = [
    Column("worse_at_training", f"more than {ALLOWED} above constants at the training inputs"),
    Column("worse_within", f"more than {ALLOWED} above constants within the range"),
    Column("predictive_worse_at_training", "the same of the predictive loss at the training inputs"),
    Column("predictive_worse_within", "the same of the predictive loss within the range"),
    Column("errors_found", "errors of measurement found, though there are none"),
    Column("overflows", "variance_interval overflows"),
    Column("faulty", "other values not finite, or not positive definite"),
    Column("at_training", "loss above constants' at the training inputs", worst=max),
    Column("within", "loss above constants' within the range", worst=max),
    Column("seconds", "seconds", ".2f"),
]


class Equation:
    """An equation in units of order one, drawn from a generator.

    Parameters
    ----------
    rng : Generator
    d : int
        Variables.
    """

    def __init__(self, rng, d):
        self.d = d
        self.drift_kind = str(rng.choice(["linear", "polynomial", "trigonometric", "mixed"]))
        self.noise_kind = str(rng.choice(["constant", "exponential", "sine", "quadratic", "decades"]))
        self.full = bool(d > 1 and rng.random() < 0.5)
        turning = 0.7 * rng.standard_normal((d, d))
        self.linear = 0.5 * (turning - turning.T) - np.diag(rng.uniform(0.2, 1.5, d))
        self.cubic = rng.uniform(0.1, 1.0, d)
        self.quadratic = 0.2 * rng.standard_normal((d, d, d))
        n_waves = int(rng.integers(1, 5))
        self.waves = rng.uniform(0.5, 3.0) * rng.standard_normal((n_waves, d))
        self.phases = rng.uniform(0, 2 * np.pi, n_waves)
        self.amplitudes = rng.standard_normal((n_waves, d))
        self.strength = 10 ** rng.uniform(-2, 0.3) * (10 ** rng.uniform(-1.5, 0, d) if rng.random() < 0.4 else 1.0)
        self.noise_waves = rng.uniform(0.3, 1.5) * rng.standard_normal((d, d))
        self.noise_phases = rng.uniform(0, 2 * np.pi, d)
        self.variation, self.decades = rng.uniform(0.1, 0.9), rng.uniform(1, 3)
        self.mixing = rng.uniform(0.2, 2) * np.tril(rng.standard_normal((d, d)), -1)
        self.turning = rng.uniform(0, 2)

    def drift(self, x):
        """At places x (n, d)."""
        if self.drift_kind == "linear":
            return x @ self.linear.T
        if self.drift_kind == "polynomial":
            bounded = np.tanh(x)
            products = np.einsum("ijk,nj,nk->ni", self.quadratic, bounded, bounded)
            return x @ self.linear.T + 1.5 * x - self.cubic * x * x * x + products
        waves = np.sin(x @ self.waves.T + self.phases) @ self.amplitudes
        if self.drift_kind == "trigonometric":
            return waves - 0.3 * x
        return waves + x - self.cubic * x * x * x

    def noise(self, x):
        """Factor σ (n, d, d) at places x (n, d)."""
        angle = x @ self.noise_waves.T + self.noise_phases
        sizes = {
            "constant": lambda: np.ones_like(x),
            "exponential": lambda: np.exp(self.variation * np.tanh(angle)),
            "sine": lambda: 1 + self.variation * np.sin(angle),
            "quadratic": lambda: 0.3 + self.variation * np.minimum(x**2, 9),
            "decades": lambda: 10 ** (0.5 * self.decades * (np.sin(angle) - 1)),
        }
        size = self.strength * sizes[self.noise_kind]()
        if not self.full:
            return size[:, :, None] * np.eye(self.d)
        return (np.eye(self.d) + self.mixing * (1 + self.turning * np.sin(angle))[:, :, None]) * size[:, None, :]

    def advanced(self, rng, x, h):
        """Places after steps h (n,), in substeps short enough for the noise and bounded where the drift is steep."""
        k = (h / SUBSTEPS)[:, None]
        for _ in range(SUBSTEPS):
            f = self.drift(x)
            kick = (self.noise(x) @ rng.standard_normal((*x.shape, 1)))[:, :, 0]
            x = x + k * f / (1 + k * np.abs(f)) + np.sqrt(k) * kick
        return x


class Observation:
    """How an equation is seen: forms of data, steps and units, drawn from a generator."""

    def __init__(self, rng, d):
        self.n = int(np.exp(rng.uniform(np.log(30), np.log(20_000))))
        self.form = str(rng.choice(["pairs", "track", "tracks"]))
        self.steps_kind = str(rng.choice(["even", "mild", "wild"], p=[0.4, 0.3, 0.3]))
        self.h = 10 ** rng.uniform(-3, -0.3)
        self.length = 10 ** rng.uniform(-3, 3, d)
        self.time = 10 ** rng.uniform(-2, 2)
        self.uniform = bool(rng.random() < 0.5)
        self.track_steps = int(rng.integers(3, 60))

    def steps(self, rng, n):
        """Lengths of n steps."""
        if self.steps_kind == "even":
            return np.full(n, self.h)
        return self.h * (rng.uniform(0.5, 1.5, n) if self.steps_kind == "mild" else np.exp(rng.standard_normal(n)))

    def seen(self, rng, equation, n):
        """About n transitions in the user's units."""
        if self.form == "pairs":
            shape = (n, equation.d)
            x0 = rng.uniform(-2, 2, shape) if self.uniform else rng.standard_normal(shape)
            return self.from_places(rng, equation, x0, self.steps(rng, n))
        n_steps = n if self.form == "track" else min(self.track_steps, n // 2)
        return self.tracks(rng, equation, rng.standard_normal((n // n_steps, equation.d)), n_steps)

    def tracks(self, rng, equation, x, n_steps):
        """A track of n_steps transitions from each place x (n, d), in units of the equation."""
        path, times = [x], [np.zeros(len(x))]
        for _ in range(n_steps):
            h = self.steps(rng, len(x))
            x = equation.advanced(rng, x, h)
            path.append(x)
            times.append(times[-1] + h)
        paths, clocks = self.length * np.stack(path, axis=1), self.time * np.stack(times, axis=1)
        return itofit.Transitions.from_trajectories(list(paths), times=list(clocks))

    def from_places(self, rng, equation, x, h):
        """One transition from each place x (n, d), in units of the equation."""
        x1 = equation.advanced(rng, x, h)
        return itofit.Transitions.from_pairs(x * self.length, x1 * self.length, h * self.time)

    def again(self, rng, equation, data):
        """Fresh noise at the inputs and steps of data, each as often as is needed for a good mean."""
        rows = np.resize(np.arange(len(data)), max(HELD_OUT, len(data)))
        return self.from_places(rng, equation, data.inputs[rows] / self.length, data.h[rows] / self.time)

    def elsewhere(self, rng, equation, data):
        """New data of the same law; one track goes on from many of its places, as new ones may start far from it."""
        if self.form != "track":
            return self.seen(rng, equation, HELD_OUT)
        places = data.inputs[rng.integers(len(data), size=NEW_TRACKS)] / self.length
        return self.tracks(rng, equation, places, HELD_OUT // NEW_TRACKS)


class Problem(NamedTuple):
    """An equation with its data."""

    equation: Equation
    observation: Observation
    train: itofit.Transitions
    fresh: itofit.Transitions  # new noise at the training inputs
    held_out: itofit.Transitions | None  # new data, within the range of the training inputs; None if too few are


def problem(seed):
    """The same for the same seed, always."""
    drawn, training, fresh, held_out = (np.random.default_rng(s) for s in np.random.SeedSequence([seed, 399]).spawn(4))
    d = int(drawn.integers(1, 5))
    equation, observation = Equation(drawn, d), Observation(drawn, d)
    train = observation.seen(training, equation, observation.n)
    other = observation.elsewhere(held_out, equation, train)
    within = ((other.inputs >= train.inputs.min(axis=0)) & (other.inputs <= train.inputs.max(axis=0))).all(axis=1)
    new = other[within] if within.sum() >= LEAST_HELD_OUT else None
    return Problem(equation, observation, train, observation.again(fresh, equation, train), new)


def constants(data):
    """The constant drift (d,) and covariance (d, d) of largest likelihood."""
    drift = data.increments.sum(axis=0) / data.h.sum()
    residuals = (data.increments - drift * data.h[:, None]) / np.sqrt(data.h)[:, None]
    return drift, residuals.T @ residuals / len(data)


def without_long_steps(sde, *sets):
    """Data without steps that are too long for the dynamics, as the fit says."""
    left_out = getattr(sde.data, "left_out", None)
    return sets if left_out is None else tuple(data[data.h <= left_out.max_h] for data in sets)


def above_constants(sde, train, data, **options):
    """Mean loss per variable above that of constants, and its standard error; options are those of `nll`."""
    if data is None:
        return None, None
    train, data = without_long_steps(sde, train, data)
    drift, covariance = constants(train)
    other = gaussian_nll(
        data.increments, data.h, np.tile(drift, (len(data), 1)), np.tile(covariance, (len(data), 1, 1))
    )
    difference = (sde.nll(data, pointwise=True, **options) - other) / len(drift)
    return float(difference.mean()), float(difference.std() / np.sqrt(len(data)))


def faults(sde, train, rng):
    """What is not finite or positive definite in a box twice as large as the data's, and whether intervals overflow."""
    low, high = train.inputs.min(axis=0), train.inputs.max(axis=0)
    x = (low + high) / 2 + (high - low) * rng.uniform(-1, 1, (POINTS, len(low)))
    drift, drift_std = sde.drift(x, return_std=True)
    covariance, covariance_std = sde.covariance(x, return_std=True)
    mean, step_covariance = sde.step_moments(x[:1000], float(train.h.mean()))
    s = sde.n_inputs - sde.n_covariates
    held = {"covariates": train.inputs[0, s:]} if sde.n_covariates else {}
    path = sde.simulate(train.inputs[:20, :s], dt=float(train.h.mean()), n_steps=200, rng=0, **held)
    arrays = {"drift": drift, "drift_std": drift_std, "covariance": covariance, "covariance_std": covariance_std,
              "jacobian": sde.drift_jacobian(x[:500]), "diffusion": sde.diffusion(x), "step mean": mean,
              "step covariance": step_covariance, "path": path}  # fmt: skip
    found = [f"{name} not finite" for name, array in arrays.items() if not np.isfinite(array).all()]
    both = ("covariance", "step covariance")
    found += [f"{name} not positive definite" for name in both if not positive_definite(arrays[name])]
    overflows = not all(np.isfinite(end).all() for end in sde.variance_interval(x))
    return found, overflows


def positive_definite(matrices):
    """Whether all are, in units of their own diagonals."""
    unit = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    scaled = matrices / (unit[:, :, None] * unit[:, None, :])
    return bool(np.isfinite(scaled).all() and np.linalg.eigvalsh(scaled)[:, 0].min() > 0)


def measure(case, seed):
    """One equation."""
    given = problem(seed)
    equation, observation = given.equation, given.observation
    sde, seconds = runs.fitted(given.train, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_training, at_training_se = above_constants(sde, given.train, given.fresh)
        within, within_se = above_constants(sde, given.train, given.held_out)
        seen_through = sde.measurement_noise is not None  # a false alarm: there is no predictive loss of such models
        predictive = [
            None if seen_through else above_constants(sde, given.train, data, predictive=True)[0]
            for data in (given.fresh, given.held_out)
        ]
        found, overflows = faults(sde, given.train, np.random.default_rng(seed))
    return {
        "at_training": at_training,
        "at_training_se": at_training_se,
        "within": within,
        "within_se": within_se,
        "worse_at_training": int(not at_training <= ALLOWED),
        "worse_within": int(within is not None and not within <= ALLOWED),
        "predictive_at_training": predictive[0],
        "predictive_within": predictive[1],
        "predictive_worse_at_training": int(predictive[0] is not None and not predictive[0] <= ALLOWED),
        "predictive_worse_within": int(predictive[1] is not None and not predictive[1] <= ALLOWED),
        "errors_found": int(seen_through),
        "overflows": int(overflows),
        "faulty": int(bool(found)),
        "faults": found,
        "seconds": seconds,
        "d": equation.d,
        "n": len(given.train),
        "h": observation.h,
        "drift": equation.drift_kind,
        "noise": equation.noise_kind + (", full" if equation.full else ""),
        "seen": f"{observation.form}, {observation.steps_kind}",
        "chosen": f"{sde.structure}, {sde.link}",
    }


def summary(made):
    """Print how many runs fail in which way, and their seeds."""
    print(f"\n{len(made)} equations")
    failed = [run["seed"] for run in made if "exception" in run]
    print(f"    exceptions: {len(failed)} {sorted(failed)}")
    for column in COLUMNS[:7]:
        seeds = sorted(run["seed"] for run in made if run.get(column.name))
        print(f"    {column.text}: {len(seeds)} {seeds}")


if __name__ == "__main__":
    summary(runs.main(__doc__, "random_equations", CASES, measure, COLUMNS, seeds=1000))
