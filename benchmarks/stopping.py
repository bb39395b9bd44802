"""Count trainings that a reading of the paper's stagnation rule ends too early.

The drift of experiment 5 first gets worse and then much better, which is the hard case for such a rule. Each training
runs for 80 iterations without it; the rules are then applied to the recorded errors. A rule fails where the best
network before it stops has a validation error more than 0.03 above that of the true drift. Every rule uses the moving
average of five errors and the paper's minimum of 20 iterations:

    lowest       five iterations without a new lowest average, from iteration 21 on
    consecutive  five consecutive iterations without a decrease of the average, from iteration 21 on
    after        the same, counting only iterations after the minimum, so from iteration 25 on

Results go to benchmarks/results/stopping.json.

    python benchmarks/stopping.py [--seeds 20]
"""

import argparse
from dataclasses import replace
from typing import get_args

import numpy as np
from common import write_results

from itofit._progress import Progress
from itofit.data.rows import ArrayRows
from itofit.experiments import EXPERIMENTS
from itofit.learning.paper.regression import Rows, TrainingSet, fit_series
from itofit.waves.parameters import Pairing
from itofit.waves.scaling import Scaling

MINIMUM, ITERATIONS, MARGIN = 20, 80, 0.03


def lowest(averages):
    return averages[-5:].min() >= averages[:-5].min()


def consecutive(averages):
    return (np.diff(averages[-6:]) >= 0).all()


RULES = {
    "lowest": (lowest, MINIMUM + 1),
    "consecutive": (consecutive, MINIMUM + 1),
    "after": (consecutive, MINIMUM + 5),
}


def best_at_stop(errors, rule, first):
    averages = np.convolve(errors, np.full(5, 0.2), mode="valid")
    for i in range(first, len(errors) + 1):
        if rule(averages[: i - 4]):
            return errors[:i].min()
    return errors.min()


def drift_errors(experiment, pairing, seed):
    """Validation error after each iteration, above that of the true drift, in units of the targets' variance."""
    rng = np.random.default_rng(seed)
    data = experiment.sample(9000, rng=rng, fine_steps=50)
    settings = replace(experiment.settings, pairing=pairing, min_iterations=ITERATIONS, max_iterations=ITERATIONS)
    x, y = data.inputs, data.rates
    rows = Rows(
        data=ArrayRows(x, y),
        points_and_targets=lambda block: (block.x, block.y),
        scaling=Scaling.of(x.min(axis=0), x.max(axis=0), y.mean(axis=0)),
        n_rows=len(x),
        n_outputs=y.shape[1],
        progress=Progress(False),
        label="drift",
    )
    learned = fit_series(rng, TrainingSet(rng, rows, settings), y.std(axis=0))
    truth = np.mean((y - experiment.drift(data.inputs)) ** 2) / y.var()
    return learned.training.score[1:] - truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    rows = []
    print("experiment  pairing   " + "  ".join(f"{rule:>11}" for rule in RULES) + f"   failures of {arguments.seeds}")
    for name in ("5", "5-"):
        for pairing in get_args(Pairing):
            errors = [drift_errors(EXPERIMENTS[name], pairing, seed) for seed in range(arguments.seeds)]
            failures = {
                label: int(sum(best_at_stop(e, *rule) > MARGIN for e in errors)) for label, rule in RULES.items()
            }
            rows.append({"experiment": name, "pairing": pairing, "seeds": arguments.seeds, **failures})
            print(f"{name:<11} {pairing:<8}  " + "  ".join(f"{n:>11}" for n in failures.values()), flush=True)
    write_results("stopping", rows)


if __name__ == "__main__":
    main()
