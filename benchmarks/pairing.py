"""Measure which amplitudes the Metropolis test should compare with after resampling.

Trains Algorithm 2 with the paper's settings and each of the three pairings on the same data, splits and random
numbers, and writes the paired differences of the validation loss to benchmarks/results/pairing.json.

    python benchmarks/pairing.py [--seeds 10] [--experiments 1 1- 2 3a 4b 5 5-]
"""

import argparse
from typing import get_args

import numpy as np
from common import loss_on_validation, mean_and_error, write_results

from itofit.arff import Pairing

EXPERIMENTS = ["1", "1-", "2", "3a", "4b", "5", "5-"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--experiments", nargs="+", default=EXPERIMENTS)
    arguments = parser.parse_args()
    rows = []
    print("experiment  pairing   excess over truth    minus printed        worst    iterations  seconds")
    for name in arguments.experiments:
        runs = {
            pairing: [loss_on_validation(name, seed, pairing=pairing) for seed in range(arguments.seeds)]
            for pairing in get_args(Pairing)
        }
        printed = np.array([run.excess for run in runs["printed"]])
        for pairing, results in runs.items():
            excess = np.array([run.excess for run in results])
            mean, error = mean_and_error(excess)
            difference, difference_error = mean_and_error(excess - printed)
            row = {
                "experiment": name,
                "pairing": pairing,
                "seeds": arguments.seeds,
                "excess": mean,
                "excess_standard_error": error,
                "minus_printed": difference,
                "minus_printed_standard_error": difference_error,
                "worst_excess": float(excess.max()),
                "iterations": float(np.mean([run.iterations for run in results])),
                "seconds": float(np.mean([run.seconds for run in results])),
            }
            rows.append(row)
            print(
                f"{name:<11} {pairing:<8} {mean:+9.4f} ± {error:.4f}  {difference:+9.4f} ± {difference_error:.4f}  "
                f"{row['worst_excess']:+9.4f}  {row['iterations']:8.0f}  {row['seconds']:8.2f}",
                flush=True,
            )
    write_results("pairing", rows)


if __name__ == "__main__":
    main()
