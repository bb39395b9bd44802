"""Measure how often a short proposal step misses a function with more than one period across the data.

y = sin(4 x_1) cos(2 x_m) + noise on [-1, 1]^m, 2,000 points, K = 64, everything but δ at its default. What is lost is
how far R² on new points stays below what the noise allows. Results go to benchmarks/results/short_steps.json.

    python benchmarks/short_steps.py [--seeds 8]
"""

import argparse
import warnings

import numpy as np
from common import write_results

import itofit

ROWS, NOISE = 2000, 0.1


def sample(m, rng):
    x = rng.uniform(-1, 1, (ROWS, m))
    return x, np.sin(4 * x[:, 0]) * np.cos(2 * x[:, -1]) + NOISE * rng.normal(size=ROWS)


def shortfall(m, delta, seed):
    rng = np.random.default_rng(seed)
    model = itofit.ARFFRegressor(64, delta=delta, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", itofit.ConvergenceWarning)
        model.fit(*sample(m, rng))
    x, y = sample(m, rng)
    return 1 - NOISE**2 / y.var() - model.score(x, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    rows = []
    print("inputs  delta   median   worst")
    for m in (1, 2, 3):
        for delta in (0.1, 0.2, 0.3, 0.5):
            lost = [shortfall(m, delta, seed) for seed in range(arguments.seeds)]
            rows.append({"inputs": m, "delta": delta, "median": float(np.median(lost)), "worst": float(np.max(lost))})
            print(f"{m:<7} {delta:<6} {np.median(lost):+7.3f} {np.max(lost):+7.3f}", flush=True)
    write_results("short_steps", rows, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
