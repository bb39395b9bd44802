"""What the default costs: CPU time of one thread, against Algorithm 2 and against another checkout, in turn.

Of each case and seed, every fit is made several times, one after the other in processes that wait for their turn, and
the fastest counts: on a machine with other work the times of one run are not comparable, ratios of such ones are. The
experiments' ratio is that to Algorithm 2 with the paper's settings. Results go to benchmarks/results/cost.json.

    python benchmarks/cost.py [--cases 1 2 ... d10] [--seeds 5] [--repeats 3] [--against CHECKOUT]
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import hard_cases
import numpy as np
import quality
from common import write_results

import itofit

EXPERIMENTS = [name for name in quality.NAMES if name != "7"]
SMALL = {"ou30": 30, "ou100": 100, "ou300": 300, "ou1000": 1_000}
"""Tracks of an Ornstein-Uhlenbeck process, by number of transitions."""
OTHERS = ["d6", "d10", "rotating", "bump", "full3", "full4", *SMALL]


def coupled_noise(rng, d, n=3_000, h=0.02):
    """One track of d variables with a full Σ whose size depends on the first of them."""
    mixing = np.tril(0.1 * rng.standard_normal((d, d)))
    x = np.zeros((n + 1, d))
    for k in range(n):
        sigma = 0.4 * np.eye(d) + (1 + 0.8 * np.tanh(x[k, 0])) * mixing
        drift = -x[k] + 0.3 * np.sin(np.roll(x[k], 1))
        x[k + 1] = x[k] + h * drift + np.sqrt(h) * sigma @ rng.standard_normal(d)
    return itofit.Transitions.from_trajectories(x, dt=h)


def relaxing(rng, n):
    """One track of an Ornstein-Uhlenbeck process."""
    x = np.zeros(n + 1)
    for k in range(n):
        x[k + 1] = 0.9 * x[k] + 0.3 * rng.standard_normal()
    return itofit.Transitions.from_trajectories(x, dt=0.1)


def data_of(name, seed):
    """Transitions, a seed for the fit, and the options of Algorithm 2, if there are any of the paper's."""
    if name in EXPERIMENTS:
        given = quality.task(name, seed)
        return given.train, given.seed, given.paper
    rng = np.random.default_rng([seed, 7])
    if name in hard_cases.CASES:
        return hard_cases.CASES[name].sample(rng, hard_cases.CASES[name].n), seed, None
    if name in SMALL:
        return relaxing(rng, SMALL[name]), seed, None
    return coupled_noise(rng, int(name.removeprefix("full"))), seed, None


def work():
    """Make the fits that are asked for, line by line, and say what they took."""
    warnings.simplefilter("ignore")
    last = None
    for line in sys.stdin:
        name, seed, which = json.loads(line)
        if last is None or last[0] != (name, seed):
            last = (name, seed), data_of(name, seed)
        data, fit_seed, paper = last[1]
        began = time.process_time()
        itofit.fit(data, rng=fit_seed, **(paper if which == "paper" else {}))
        print(json.dumps(time.process_time() - began), flush=True)


class Worker:
    """A process that fits with the code of one checkout, on one thread."""

    def __init__(self, checkout):
        here = Path(__file__).parent
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        source = {"PYTHONPATH": str(Path(checkout).resolve() / "src")}
        command = [sys.executable, str(here / "cost.py"), "--work"]
        self.process = subprocess.Popen(
            command, env=os.environ | one | source, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, *what):
        """CPU time of one fit."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Let it end."""
        self.process.stdin.close()
        self.process.wait()


def fastest(workers, name, seed, repeats):
    """The fastest CPU time of each fit of one data set."""
    fits = {"default": (workers[0], "default")}
    if name in EXPERIMENTS:
        fits["paper"] = (workers[0], "paper")
    if len(workers) > 1:
        fits["before"] = (workers[1], "default")
    times = {which: [] for which in fits}
    for _ in range(repeats):
        for which, (worker, options) in fits.items():
            times[which].append(worker.seconds(name, seed, options))
    return {which: min(own) for which, own in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[*EXPERIMENTS, *OTHERS], choices=[*EXPERIMENTS, *OTHERS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", help="another checkout, whose default is timed in turn")
    parser.add_argument("--no-results", action="store_true", help="print only")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    checkouts = [Path(__file__).parents[1], *([arguments.against] if arguments.against else [])]
    workers, rows = [Worker(checkout) for checkout in checkouts], []
    for worker in workers:
        worker.seconds("1", 0, "default")  # the first fit imports
    for name in arguments.cases:
        runs = [fastest(workers, name, seed, arguments.repeats) for seed in range(arguments.seeds)]
        row = {"case": name, "seeds": arguments.seeds}
        row |= {f"{which}_seconds": float(np.mean([run[which] for run in runs])) for which in runs[0]}
        for which in ("paper", "before"):
            if which in runs[0]:
                row[f"ratio_to_{which}"] = row["default_seconds"] / row[f"{which}_seconds"]
                if which == "paper" and "before" in runs[0]:
                    row["ratio_to_paper_before"] = row["before_seconds"] / row["paper_seconds"]
        rows.append(row)
        print("  ".join(f"{key} {value:.3f}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
        sys.stdout.flush()
    for worker in workers:
        worker.close()
    if not arguments.no_results:
        write_results("cost", rows)


if __name__ == "__main__":
    main()
