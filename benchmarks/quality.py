"""The default against the paper's settings on every experiment: losses, errors and times, paired on the same data.

For each experiment and seed: new data, a tenth of them held out, both fits on the rest. Losses are above that of the
true drift and covariance on the same held-out points. Errors are those of the learned functions at the held-out inputs,
against the true ones, and for the experiments whose transitions have known moments also against those: the mean and
covariance of one step, which is what transitions tell and what the likelihood asks for. Positive definiteness is
checked at 100,000 random points of a box twice as large as the data's. Times are taken apart from the rest, one fit at
a time: the mean over ten seeds of the fastest of three.
Results go to benchmarks/results/quality.json.

    python benchmarks/quality.py [--seeds 20] [--jobs 2] [--experiments 1 2 3a 3b 4a 4b 5 6-events 6-lag 7]
"""

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from common import RESULTS, write_results
from numpy.polynomial import Polynomial
from threadpoolctl import threadpool_limits

import itofit
from itofit.experiments import EXPERIMENTS, epidemic, wave

NAMES = ["1", "2", "3a", "3b", "4a", "4b", "5", "6-events", "6-lag", "7"]
POINTS = 100_000
REPEATS = 10
WANTED_RATIO = 4.0
CUBIC = Polynomial([-1.5, 4, 0, -2])
COORDINATEWISE = {  # drift and variance of each coordinate
    "1": (Polynomial([0, 0.5]), Polynomial([0.01])),
    "2": (Polynomial([0, -1.0]), Polynomial([0.005, 0.05]) ** 2),
    "3a": (CUBIC, Polynomial([0.5, 0.05]) ** 2),
    "3b": (CUBIC, Polynomial([0.5, 0.05]) ** 2),
    "4a": (Polynomial([0, -1.0]), None),
    "4b": (Polynomial([0, -1.0]), None),
}


class Task(NamedTuple):
    """Data of one experiment and seed, and what is true of them."""

    train: itofit.Transitions
    held_out: itofit.Transitions
    paper: dict
    drift: np.ndarray
    covariance: np.ndarray
    truth: np.ndarray  # loss of each held-out point
    seed: int


def task(name, seed):
    data_seed, split_seed, fit_seed = np.random.SeedSequence(seed).generate_state(3)
    if name in EXPERIMENTS:
        source = EXPERIMENTS[name]
        data = source.sample(rng=data_seed)
        paper = {"structure": source.structure, "drift": source.settings, "covariance": source.settings}
    elif name == "7":
        source, data = wave, wave.sample_wave(rng=data_seed)
        paper = {"structure": wave.STRUCTURE, "drift": wave.DRIFT_SETTINGS, "covariance": wave.COVARIANCE_SETTINGS}
    else:
        observation = {"6-events": "events", "6-lag": "fixed-lag"}[name]
        source, data = epidemic, epidemic.sample_epidemic(observation=observation, rng=data_seed)
        paper = {"structure": epidemic.STRUCTURE, "drift": epidemic.SETTINGS, "covariance": epidemic.SETTINGS}
    train, held_out = data.split(0.1, rng=split_seed)
    x = held_out.inputs
    return Task(
        train,
        held_out,
        paper | {"refine": False},
        source.drift(x),
        source.covariance(x),
        source.true_nll(held_out),
        int(fit_seed),
    )


def one_step_moments(name, held_out):
    """Mean rate and covariance / h of one step, exact but for terms beyond the tenth order in h; None if not known.

    With the generator L = f d/dx + ½ Σ d²/dx², E g(x_h) = Σ_k h^k/k! L^k g for polynomials g. Where the noise is
    constant and the drift −x, the covariance of one step is Σ (1 − exp(−2h)) / 2h.
    """
    if name not in COORDINATEWISE:
        return None
    f, variance = COORDINATEWISE[name]
    x, h = held_out.inputs, float(held_out.h[0])

    def expected(g, constant):
        total, term = g, g
        for k in range(1, 11):
            term = (f * term.deriv() + 0.5 * constant * term.deriv(2)) * (h / k)
            total = total + term
        return total

    identity = Polynomial([0, 1])
    if variance is None:
        truth = EXPERIMENTS[name].covariance(x[:1])
        return -(1 - np.exp(-h)) / h * x, np.repeat(truth * (1 - np.exp(-2 * h)) / (2 * h), len(x), axis=0)
    mean, square = expected(identity, variance), expected(identity**2, variance)
    rates, variances = (mean(x) - x) / h, (square(x) - mean(x) ** 2) / h
    return rates, variances[:, :, None] * np.eye(x.shape[1])


def errors(sde, x, moments):
    """Root mean square error of the drift, and of the covariance relative to its root mean square."""
    drift, covariance = moments
    difference = sde.covariance(x) - covariance
    return (
        float(np.sqrt(np.mean((sde.drift(x) - drift) ** 2))),
        float(np.sqrt((difference**2).sum() / (covariance**2).sum())),
    )


def fitted(given, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        warnings.simplefilter("ignore", itofit.DataWarning)
        return itofit.fit(given.train, rng=given.seed, **options)


def share_positive_definite(sde, seed):
    """Of random points in a box twice as large as the data's."""
    middle, half = sde.box.mean(axis=0), np.ptp(sde.box, axis=0) / 2
    x = middle + 2 * half * np.random.default_rng(seed).uniform(-1, 1, (POINTS, sde.n_inputs))
    sigma = sde.covariance(x)
    unit = np.sqrt(np.diagonal(sigma, axis1=1, axis2=2))
    smallest = np.linalg.eigvalsh(sigma / (unit[:, :, None] * unit[:, None, :]))[:, 0]
    return float(np.mean(np.isfinite(smallest) & (smallest > 0)))


def run(name, seed):
    """Everything but times, of one experiment and seed."""
    with threadpool_limits(1):
        given = task(name, seed)
        x, truth = given.held_out.inputs, float(given.truth.mean())
        one_step = one_step_moments(name, given.held_out)
        result = {"experiment": name, "seed": seed, "truth": truth}
        if one_step is not None:
            nll = itofit.likelihood.gaussian_nll(given.held_out.increments, given.held_out.h, *one_step)
            result["one_step_truth"] = float(nll.mean())
        for which, options in (("default", {}), ("paper", given.paper)):
            sde = fitted(given, options)
            result[f"{which}_loss"] = sde.nll(given.held_out)
            result[f"{which}_drift_error"], result[f"{which}_covariance_error"] = errors(
                sde, x, (given.drift, given.covariance)
            )
            if one_step is not None:
                found = errors(sde.one_step or sde, x, one_step)
                result[f"{which}_one_step_drift_error"], result[f"{which}_one_step_covariance_error"] = found
            result[f"{which}_positive_definite"] = share_positive_definite(sde, seed)
            result[f"{which}_chosen"] = f"{sde.structure}, {sde.link}"
        return result


def seconds(name):
    """Mean seconds of both fits on the data of the first seeds, in turn."""
    times = {"default": [], "paper": []}
    for seed in range(REPEATS):
        given = task(name, seed)
        for which, options in (("default", {}), ("paper", given.paper)):
            again = []
            for _ in range(3):
                began = time.perf_counter()
                fitted(given, options)
                again.append(time.perf_counter() - began)
            times[which].append(min(again))
    return {which: float(np.mean(values)) for which, values in times.items()}


def summary(name, runs, times):
    """One row of the table."""

    def mean(field):
        values = [r[field] for r in runs if field in r]
        return float(np.mean(values)) if values else None

    n = len(runs)
    excess = np.array([r["default_loss"] - r["truth"] for r in runs])
    difference = np.array([r["default_loss"] - r["paper_loss"] for r in runs])
    row = {
        "experiment": name,
        "seeds": n,
        "default_excess": float(excess.mean()),
        "paper_excess": mean("paper_loss") - mean("truth"),
        "difference": float(difference.mean()),
        "difference_95": float(1.96 * difference.std(ddof=1) / np.sqrt(n)) if n > 1 else None,
        "worst_above_mean": float(excess.max() - excess.mean()),
        "default_seconds": times["default"],
        "paper_seconds": times["paper"],
        "ratio": times["default"] / times["paper"],
        "positive_definite": min(r["default_positive_definite"] for r in runs),
        "chosen": {
            c: [r["default_chosen"] for r in runs].count(c) for c in sorted({r["default_chosen"] for r in runs})
        },
    }
    if "one_step_truth" in runs[0]:
        above = np.array([r["default_loss"] - r["one_step_truth"] for r in runs])
        row |= {
            "excess_over_one_step": float(above.mean()),
            "worst_above_mean_over_one_step": float(above.max() - above.mean()),
        }
    for which in ("default", "paper"):
        for field in ("drift_error", "covariance_error", "one_step_drift_error", "one_step_covariance_error"):
            row[f"{which}_{field}"] = mean(f"{which}_{field}")
    return row


def measure_times_again():
    """Replace the times in the file of results."""
    found = json.loads((RESULTS / "quality.json").read_text())
    for row in found["rows"]:
        times = seconds(row["experiment"])
        row |= {"default_seconds": times["default"], "paper_seconds": times["paper"]}
        row["ratio"] = times["default"] / times["paper"]
        print(f"{row['experiment']:<10} {times['default']:.3f} / {times['paper']:.3f} = {row['ratio']:.1f}", flush=True)
    write_results("quality", found["rows"], runs=found["runs"])


def with_earlier(rows, runs):
    """New rows and runs, with those of the experiments that were not run again, in the order of the paper."""
    path = RESULTS / "quality.json"
    found = json.loads(path.read_text()) if path.exists() else {"rows": [], "runs": []}
    new = {row["experiment"] for row in rows}

    def together(own, earlier):
        kept = [each for each in earlier if each["experiment"] not in new]
        return sorted(kept + own, key=lambda each: NAMES.index(each["experiment"]))

    return together(rows, found["rows"]), together(runs, found["runs"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--experiments", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--times-only", action="store_true", help="measure the times of earlier results again")
    arguments = parser.parse_args()
    if arguments.times_only:
        measure_times_again()
        return
    all_runs, rows = [], []
    print(
        "experiment  above truth: default, paper   default − paper ± 95 %   worst−mean   drift   covariance   seconds"
    )
    for name in arguments.experiments:
        if arguments.jobs > 1:
            with ProcessPoolExecutor(arguments.jobs) as pool:
                runs = list(pool.map(partial(run, name), range(arguments.seeds)))
        else:
            runs = [run(name, seed) for seed in range(arguments.seeds)]
        row = summary(name, runs, seconds(name))
        all_runs += runs
        rows.append(row)
        print(
            f"{name:<10} {row['default_excess']:>+10.4f} {row['paper_excess']:>+10.4f}   {row['difference']:>+9.4f} ± "
            f"{row['difference_95'] or 0:.4f} {row['worst_above_mean']:>10.4f}   "
            f"{row['default_drift_error']:.4f} {row['paper_drift_error']:.4f}   "
            f"{row['default_covariance_error']:.4f} {row['paper_covariance_error']:.4f}   "
            f"{row['default_seconds']:.3f} / {row['paper_seconds']:.3f} = {row['ratio']:.1f}  "
            f"PD {row['positive_definite']:.5f} {row['chosen']}",
            flush=True,
        )
    rows, all_runs = with_earlier(rows, all_runs)
    write_results("quality", rows, runs=all_runs)


if __name__ == "__main__":
    main()
