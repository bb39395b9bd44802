"""How often error bars cover the truth: pointwise 95 % bands of drift and variances on experiments 1 to 5.

For each experiment and seed: new data, a tenth of them held out, a fit to the rest, and at the held-out inputs the
share of values within the bands: for the mean and covariance of one observed step, which is what transitions tell, for
the true functions, and for the true functions with bands of the fit that was corrected for the length of steps. Errors
divided by standard deviations are root mean squares. Widths are root mean squares of
standard deviations over those of errors, of variances relative to the true ones: one if bands are as wide as they
should be on average. Standard errors are over data sets.
Results go to benchmarks/results/coverage.json.

    python benchmarks/coverage.py [--seeds 60] [--jobs 2] [--ensemble 8] [--experiments 1 1- 2 3a 3b 4a 4b 5]
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from common import mean_and_error, write_results
from quality import fitted, one_step_moments, task
from threadpoolctl import threadpool_limits

NAMES = ["1", "2", "3a", "3b", "4a", "4b", "5"]
Z = 1.959964


def covered(sde, x, drift, covariance):
    """Shares of values within the bands, and errors in standard deviations."""
    f, f_std = sde.drift(x, return_std=True)
    sigma, std = sde.covariance(x, return_std=True)
    low, high = sde.variance_interval(x)
    own, found, spread = (np.diagonal(a, axis1=1, axis2=2) for a in (covariance, sigma, std))
    return {
        "drift": float(np.mean(np.abs(f - drift) < Z * f_std)),
        "variances": float(np.mean((low < own) & (own < high))),
        "drift_error": float(np.sqrt(np.mean(((f - drift) / f_std) ** 2))),
        "variances_error": float(np.sqrt(np.mean(((found - own) / spread) ** 2))),
        "squares": {  # of standard deviations and of errors
            "drift": [float(np.mean(a**2)) for a in (f_std, f - drift)],
            "variances": [float(np.mean(a**2)) for a in (spread / own, found / own - 1)],
        },
    }


def run(ensemble, name, seed):
    with threadpool_limits(1):
        given = task(name, seed)
        corrected = fitted(given, {"correct_step": True})
        sde = corrected.one_step if ensemble is None else fitted(given, {"ensemble": ensemble})
        x, truth = given.held_out.inputs, (given.drift, given.covariance)
        result = {"experiment": name, "seed": seed, "true": covered(sde, x, *truth)}
        result["corrected"] = covered(corrected, x, *truth)
        one_step = one_step_moments(name, given.held_out)
        if one_step is not None:
            result["one_step"] = covered(sde, x, *one_step)
        return result


def summary(name, runs):
    row = {"experiment": name, "seeds": len(runs)}
    for reference in ("true", "one_step", "corrected"):
        for what in ("drift", "variances", "drift_error", "variances_error"):
            values = [r[reference][what] for r in runs if reference in r]
            mean, error = mean_and_error(values) if values else (None, None)
            row |= {f"{reference}_{what}": mean, f"{reference}_{what}_se": error}
        for what in ("drift", "variances"):
            squares = [r[reference]["squares"][what] for r in runs if reference in r]
            std, error = np.sqrt(np.mean(squares, axis=0)) if squares else (0, 0)
            row[f"{reference}_{what}_width"] = float(std / error) if squares else None
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ensemble", type=int)
    parser.add_argument("--experiments", nargs="+", default=NAMES)
    args = parser.parse_args()
    rows, everything = [], []
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in args.experiments:
            runs = list(pool.map(partial(run, args.ensemble, name), range(args.seeds)))
            everything += runs
            rows.append(summary(name, runs))
            print({key: round(v, 3) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    write_results("coverage", rows, ensemble=args.ensemble, runs=everything)
