"""How often checks find known faults, and how often they accuse a right model or call a wrong one good.

A model with known functions is checked on tracks of 100 steps of itself, so that nothing is wrong but a fault that is
built in: as large as what matters (1), three times as large (3, from where on it is bad), or absent. Counted are the
data sets in which the finding that should see it says caution or bad (found), and in which it says good. For deviations
that are estimated, the size of a fault is that of the deviation itself, in units of `itofit.looking.check.thresholds`.
Results go to benchmarks/results/checks.json, the tables of docs/checking.md are made of them.

    python benchmarks/checks.py [--seeds 60] [--sizes 200 2000 20000] [--only variance ...] [--jobs 1]
"""

import argparse
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial

import numpy as np
from common import write_results
from threadpoolctl import threadpool_limits

import itofit
from itofit import ARFF, FourierSeries, Transitions
from itofit.looking.check import thresholds
from itofit.looking.check.deviations import missed_limit
from itofit.looking.check.examined import examine
from itofit.looking.check.memory import markov, whiteness
from itofit.looking.check.residuals import TAIL_SHARE, distribution, over_inputs

H = 0.05
STEPS = 100
TESTED = ("residuals", "place", "whiteness", "markov")
ALL = (*TESTED, "extrapolation", "positive_definiteness", "gain")
"""Findings that a right model should not make; its steps are long by themselves, which is no fault of the model."""
SKIPPED = 20
"""Steps before the first that is kept, so that tracks are stationary."""


# Models with known functions


def series(omega, beta, offset):
    """Offset + Re Σ β exp(i ω·x)."""
    omega = np.atleast_2d(np.asarray(omega, dtype=float))
    beta = np.asarray(beta, dtype=complex).reshape(len(omega), -1)
    m = omega.shape[1]
    return FourierSeries(omega=omega, beta=beta, shift=np.zeros(m), scale=np.ones(m), offset=np.array(offset, float))


@cache
def template(m, d):
    rng = np.random.default_rng(0)
    few = ARFF(n_features=4, ridge=1e-2, delta=0.5, min_iterations=2, max_iterations=3)
    data = Transitions(rng.uniform(-1, 1, (100, m)), 0.1 * rng.normal(size=(100, d)), H)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        return itofit.fit(data, structure="full", drift=few, covariance=few, refine=False, rng=0)


def model(drift, covariance, box, least=1e-9):
    """A model with given functions, as if it had been learned from a million transitions."""
    d = drift.n_outputs
    learned = template(drift.n_inputs, d)
    return replace(
        learned,
        drift_function=replace(learned.drift_function, series=drift),
        covariance_function=replace(learned.covariance_function, series=covariance),
        box=np.array(box, dtype=float),
        limits=np.array([[least], [1e9]]) * np.ones((2, d)),
        floor_factor=np.eye(d),
        data=replace(learned.data, n_transitions=10**6, h_mean=H, h_min=H, h_max=H),
    )


def one(drift=1.5, noise=1.0, offset=0.0, box=2.5):
    """Drift −drift sin(1.2 x) + offset, Σ = noise (0.8 + 0.3 cos 2x)."""
    return model(
        series([[1.2]], [drift * 1j], [offset]), series([[2.0]], [0.3 * noise], [0.8 * noise]), ((-box,), (box,))
    )


def two():
    """Two coupled variables with a full Σ that depends on both."""
    drift = series([[1, 0], [0, 1], [1, 1]], [[1.5j, 0.5], [0.3, 1.2j], [0.2j, 0.1]], [0.0, 0.0])
    covariance = series([[1, 0], [0.5, 1]], [[0.2, 0.1, 0.1], [0.1, 0.1, -0.2]], [0.8, 0.1, 1.0])
    return model(drift, covariance, ((-4, -4), (4, 4)))


def paths(sde, n, rng, noise=None, h=H):
    """Tracks (n / STEPS, STEPS + 1, d) by Euler steps; noise(x, e) makes the standardised noise of a step from e."""
    x = 0.5 * rng.normal(size=(n // STEPS, sde.n_outputs))
    kept = []
    for step in range(SKIPPED + STEPS + 1):
        if step >= SKIPPED:
            kept.append(x)
        e = rng.normal(size=x.shape)
        e = e if noise is None else noise(x, e)
        x = x + h * sde.drift(x) + np.sqrt(h) * np.einsum("nij,nj->ni", sde.diffusion(x), e)
    return np.stack(kept, axis=1)


def tracks(x, h=H, **options):
    return Transitions.from_trajectories(list(x), dt=h, **options)


@cache
def drift_limit():
    """What matters of the drift of the model of one variable, in standard deviations of a step."""
    sde, data = one(), tracks(paths(one(), 200_000, np.random.default_rng(1)))
    g = np.sqrt(H) * sde.drift(data.inputs) / sde.diffusion(data.inputs)[:, :, 0]
    return missed_limit(float(np.sqrt(np.mean(g**2))))


@cache
def deciles():
    """Of the places of that model."""
    x = paths(one(), 200_000, np.random.default_rng(1))
    return np.quantile(x, np.arange(1, 10) / 10)


# Faults: data with one, of a size in units of what matters, and the model that is checked on them


def right(n, rng, size):
    return one(), tracks(paths(one(), n, rng))


def right_two(n, rng, size):
    return two(), tracks(paths(two(), n, rng))


def mean(n, rng, size):
    shift = size * drift_limit()
    return one(), tracks(paths(one(), n, rng, lambda x, e: e + shift))


def variance(n, rng, size):
    root = np.sqrt(1 + size * thresholds.VARIANCE)
    return one(), tracks(paths(one(), n, rng, lambda x, e: root * e))


def skewness(n, rng, size):
    shape = (2 / (size * thresholds.SKEWNESS)) ** 2
    return one(), tracks(paths(one(), n, rng, lambda x, e: (rng.gamma(shape, size=e.shape) - shape) / np.sqrt(shape)))


def kurtosis(n, rng, size):
    nu = 4 + 6 / (size * thresholds.KURTOSIS)
    return one(), tracks(paths(one(), n, rng, lambda x, e: rng.standard_t(nu, size=e.shape) / np.sqrt(nu / (nu - 2))))


def rare_steps(n, rng, size):
    share = (size * thresholds.TAIL_RATIO - 1) * TAIL_SHARE

    def noise(x, e):
        return np.where(rng.random(e.shape) < share, 4.5 * np.sign(e), e)

    return one(), tracks(paths(one(), n, rng, noise))


def drift_wave(n, rng, size):
    depth = 1.15 * np.sqrt(2) * size * drift_limit()  # bins and the mean take a part of it
    return one(), tracks(paths(one(), n, rng, lambda x, e: e + depth * np.cos(5 * x)))


def drift_scale(n, rng, size):
    return one(), tracks(paths(one(drift=1.5 * (1 + size * thresholds.MISSED_DRIFT)), n, rng))


def variance_in_a_tenth(n, rng, size):
    low, high = deciles()[6:8]
    more = (
        size * thresholds.VARIANCE_IN_BIN * 1.2
    )  # relative to the mean, of which it is a part, and over bins that are not quite it
    return one(), tracks(paths(one(), n, rng, lambda x, e: e * np.where((low < x) & (x < high), np.sqrt(1 + more), 1)))


def measurement_noise(n, rng, size):
    r = 1.12 * size * thresholds.CORRELATION  # a part of it goes with the state
    x = paths(one(), n, rng)
    s = np.sqrt(H * np.mean(one().covariance(x[:, 0])) * r / (1 - 2 * r))  # r = s² / (h Σ + 2 s²)
    total = one(noise=1 / (1 - 2 * r))  # as it would be learned: errors count as noise
    return total, tracks(x + s * rng.normal(size=x.shape))


def correlated_noise(n, rng, size):
    r, last = 1.12 * size * thresholds.CORRELATION, []  # the same

    def noise(x, e):
        last.append(e if not last else r * last[-1] + np.sqrt(1 - r**2) * e)
        return last[-1]

    return one(), tracks(paths(one(), n, rng, noise))


def strength_with_memory(n, rng, size):
    c = {1: 0.2, 3: 0.4}[size]  # correlations 0.05 and 0.15 of |z| from one step to the next
    a, q = np.exp(-1 / 20), []

    def noise(x, e):
        fresh = rng.normal(size=e.shape)
        q.append(fresh if not q else a * q[-1] + np.sqrt(1 - a**2) * fresh)
        return e * np.exp(c * q[-1] - c**2)

    return one(), tracks(paths(one(), n, rng, noise))


def hidden_force(n, rng, size):
    a, q = np.exp(-1 / 10), []
    depth = {1: 0.276, 3: 0.41}[size]  # of which the past predicts about what matters, and three times as much

    def noise(x, e):
        fresh = rng.normal(size=e.shape)
        q.append(fresh if not q else a * q[-1] + np.sqrt(1 - a**2) * fresh)
        return e + depth * q[-1]

    return one(), tracks(paths(one(), n, rng, noise))


def long_steps(n, rng, size):
    bias = thresholds.DRIFT_BIAS[0] if size == 1 else thresholds.DRIFT_BIAS[1]
    h = 1.25 * 2 * bias / 1.8  # |f'| is 1.8 at most
    sde = one()
    return replace(sde, data=replace(sde.data, h_mean=h)), tracks(paths(sde, n, rng, h=h), h)


def out_of_range(n, rng, size):
    share = {1: 0.02, 3: 0.2}[size]
    x = paths(one(), 200_000, np.random.default_rng(1))
    return one(box=float(np.quantile(np.abs(x), 1 - share))), tracks(paths(one(), n, rng))


def at_its_limits(n, rng, size):
    share = {1: 0.02, 3: 0.2}[size]
    x = paths(one(), 200_000, np.random.default_rng(1))
    least = float(np.quantile(one().covariance(x.reshape(-1, 1)), share))
    sde = one()
    return replace(sde, limits=np.array([[least], [1e9]])), tracks(paths(sde, n, rng))


def worse_than_constants(n, rng, size):
    return one(drift={1: -0.5, 3: -3.0}[size]), tracks(paths(one(), n, rng))


def other_unit(n, rng, size):
    data = tracks(paths(one(), n, rng))
    return one(), Transitions(data.inputs, data.increments, {1: 20, 3: 1000}[size] * data.h, data.groups)


def cut_angle(n, rng, size):
    x = paths(one(drift=0.0), n, rng)
    return one(box=4), tracks(np.mod(2 * x, 2 * np.pi))


def copied_column(n, rng, size):
    x = paths(two(), n, rng)[:, :, :1]
    return two(), tracks(np.concatenate([x, x + {1: 0.01, 3: 0.0}[size] * rng.normal(size=x.shape)], axis=2))


def inertia(n, rng, size):
    share = {1: 0.3, 3: 0.8}[size]
    x, v, kept = 0.5 * rng.normal(size=(n // STEPS, 1)), rng.normal(size=(n // STEPS, 1)), []
    for _ in range(STEPS + 1):
        kept.append(x)
        v = 0.97 * v + np.sqrt(1 - 0.97**2) * rng.normal(size=v.shape)
        x = x + np.sqrt(H) * (np.sqrt(share) * v + np.sqrt(1 - share) * rng.normal(size=v.shape)) - H * x
    return one(box=6), tracks(np.stack(kept, axis=1))


FAULTS = {
    "mean": ("residuals", mean),
    "variance": ("residuals", variance),
    "skewness": ("residuals", skewness),
    "kurtosis": ("residuals", kurtosis),
    "rare large steps": ("residuals", rare_steps),
    "a wave of the drift is missing": ("place", drift_wave),
    "drift too weak as a whole": ("place", drift_scale),
    "variance in a tenth of the range": ("place", variance_in_a_tenth),
    "errors of measurement": ("whiteness", measurement_noise),
    "correlated noise": ("whiteness", correlated_noise),
    "a hidden force": ("markov", hidden_force),
    "strength of noise with memory": ("markov", strength_with_memory),
    "steps too long": ("discretisation", long_steps),
    "data out of range": ("extrapolation", out_of_range),
    "Σ at its limits": ("positive_definiteness", at_its_limits),
    "worse than constants": ("gain", worse_than_constants),
    "another unit of time": ("units", other_unit),
    "an angle cut at a turn": ("angle", cut_angle),
    "a column twice": ("columns", copied_column),
    "inertia": ("order", inertia),
}
RIGHT = {"one variable": right, "two variables": right_two}
ONLY_IF_SO = ("units", "angle", "columns", "order")


def one_finding(name, sde, data):
    """What a check finds under this name, without its other findings; a check itself where there is no short way."""
    if name not in SHORT_WAYS:
        return next((finding for finding in itofit.check(sde, data) if finding.name == name), None)
    return SHORT_WAYS[name](examine(sde, data, np.random.default_rng(0)), 0.01)


SHORT_WAYS = {"residuals": distribution, "place": over_inputs, "whiteness": whiteness, "markov": markov}


def verdicts(data_of, n, size, seeds, finding=None):
    """How often each finding, or one of them, had each verdict."""
    counts = {}
    for seed in range(seeds):
        sde, data = data_of(n, np.random.default_rng([seed, n, size]), size)
        findings = itofit.check(sde, data) if finding is None else [one_finding(finding, sde, data)]
        for each in findings:
            if each is not None:
                counts.setdefault(each.name, Counter())[each.verdict] += 1
    return counts


def row_of(name, finding, n, size, seeds, counts):
    found = counts.get(finding, Counter())
    return {
        "fault": name,
        "finding": finding,
        "n": n,
        "size": size,
        "seeds": seeds,
        "found": found["caution"] + found["bad"],
        "bad": found["bad"],
        "good": found["good"],
        "cannot_tell": found["cannot tell"],
    }


def rows_of(seeds, task):
    """The rows of a fault of one size, or of a right model, in data of one size."""
    name, n, size = task
    with threadpool_limits(1):
        if size:
            finding, data_of = FAULTS[name]
            return [row_of(name, finding, n, size, seeds, verdicts(data_of, n, size, seeds, finding))]
        counts = verdicts(RIGHT[name], n, 0, 3 * seeds)
        return [row_of(name, finding, n, 0, 3 * seeds, counts) for finding in (*ALL, *ONLY_IF_SO)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 2000, 20000])
    parser.add_argument("--only", nargs="+", help="names of faults; nothing is written")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    tasks = [(name, n, size) for n in arguments.sizes for name in FAULTS for size in (1, 3)]
    tasks += [(name, n, 0) for n in arguments.sizes for name in RIGHT]
    tasks = [task for task in tasks if not arguments.only or task[0] in arguments.only]
    rows = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(partial(rows_of, arguments.seeds), tasks):
            rows += found
            for row in found:
                print(*row.values(), flush=True)
    if not arguments.only:
        write_results("checks", rows)


if __name__ == "__main__":
    main()
