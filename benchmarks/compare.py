"""Compare values of one setting of Algorithm 1 on the paper's experiments, paired.

Every value is trained with on the same data, splits and random numbers, everything else as in the paper. The table
shows the validation loss above that of the truth, and the difference from the first value with its standard error.
Results go to benchmarks/results/FIELD.json.

    python benchmarks/compare.py pairing printed reindex solve
    python benchmarks/compare.py delta 0.1 0.3 --seeds 5
"""

import argparse
import json

import numpy as np
from common import NAMES, loss_on_validation, mean_and_error, write_results


def parsed(text):
    """A number where it is one, else the word itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field")
    parser.add_argument("values", nargs="+", type=parsed)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--experiments", nargs="+", default=NAMES)
    arguments = parser.parse_args()
    rows = []
    print(f"experiment  {arguments.field:<10} excess over truth   minus the first      worst  iterations  seconds")
    for name in arguments.experiments:
        first = None
        for value in arguments.values:
            runs = [loss_on_validation(name, seed, **{arguments.field: value}) for seed in range(arguments.seeds)]
            excess = np.array([run.excess for run in runs])
            first = excess if first is None else first
            mean, error = mean_and_error(excess)
            difference, difference_error = mean_and_error(excess - first)
            row = {
                "experiment": name,
                arguments.field: value,
                "seeds": arguments.seeds,
                "excess": mean,
                "excess_standard_error": error,
                "minus_first": difference,
                "minus_first_standard_error": difference_error,
                "worst_excess": float(excess.max()),
                "iterations": float(np.mean([run.iterations for run in runs])),
                "seconds": float(np.mean([run.seconds for run in runs])),
            }
            rows.append(row)
            print(
                f"{name:<11} {value!s:<10} {mean:+8.4f} ± {error:.4f}   {difference:+8.4f} ± {difference_error:.4f}  "
                f"{row['worst_excess']:+8.4f}  {row['iterations']:10.0f}  {row['seconds']:7.2f}",
                flush=True,
            )
    write_results(arguments.field, rows)


if __name__ == "__main__":
    main()
