"""What each part of the default gains: one part changed at a time, paired on the same data.

The data and held-out points are those of `quality.py`. Losses and drift errors are relative to the default's. The last
two rows are Algorithm 2 with the paper's settings, without and with its additional drift step. Results go to
benchmarks/results/refinements.json.

    python benchmarks/refinements.py [--seeds 10] [--jobs 2] [--experiments 1 2 3a ...]
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from common import mean_and_error, write_results
from quality import NAMES, errors, fitted, task
from threadpoolctl import threadpool_limits

CHANGES = {
    "default": {},
    "weight_drift=False": {"weight_drift": False},
    "cross_fit=False": {"cross_fit": False},
    "link='identity'": {"link": "identity"},
    "link='log'": {"link": "log"},
    "link='square'": {"link": "square"},
    "structure='full'": {"structure": "full"},
    "structure='diagonal'": {"structure": "diagonal"},
}


def run(name, seed):
    """Loss and drift error of each variant."""
    with threadpool_limits(1):
        given = task(name, seed)
        variants = CHANGES | {
            "Algorithm 2": given.paper,
            "Algorithm 2, drift again": given.paper | {"weight_drift": True},
        }
        result = {}
        for variant, options in variants.items():
            sde = fitted(given, options)
            drift_error, covariance_error = errors(sde, given.held_out.inputs, (given.drift, given.covariance))
            result[variant] = (sde.nll(given.held_out), drift_error, covariance_error)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--experiments", nargs="+", default=NAMES[:-1], choices=NAMES)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.experiments:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            runs = list(pool.map(partial(run, name), range(arguments.seeds)))
        for variant in runs[0]:
            values, default = (np.array([r[which] for r in runs]) for which in (variant, "default"))
            difference, error = mean_and_error(values[:, 0] - default[:, 0])
            row = {
                "experiment": name,
                "variant": variant,
                "seeds": arguments.seeds,
                "difference": difference,
                "difference_standard_error": error,
                "worst_difference": float((values[:, 0] - default[:, 0]).max()),
                "drift_error_ratio": float(values[:, 1].mean() / default[:, 1].mean()),
                "covariance_error_ratio": float(values[:, 2].mean() / default[:, 2].mean()),
            }
            rows.append(row)
            print(
                f"{name:<9} {variant:<26} loss {difference:+.4f} ± {error:.4f} (worst {row['worst_difference']:+.4f})  "
                f"drift error × {row['drift_error_ratio']:.2f}, covariance error × {row['covariance_error_ratio']:.2f}",
                flush=True,
            )
    write_results("refinements", rows)


if __name__ == "__main__":
    main()
