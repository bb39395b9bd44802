"""Run the same fit in one process and in two at once, to see whether they fight over the cores.

Each process makes its data, waits for the other, and times its own fits. On two cores, two processes at once should
take about as long as the two one after the other, or less: a ratio of about 2 where one alone keeps both cores busy.
Results go to benchmarks/results/two_processes.json.

    python benchmarks/two_processes.py
"""

import argparse
import multiprocessing
import time
import warnings

import numpy as np
from common import write_results

import itofit

FORMS = {"gridded, 2 inputs": (200_000, 2, None), "direct, 5 inputs": (20_000, 5, "direct")}
REPEATS = 3


def fits(n, m, form, ready, results):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, m))
    data = itofit.Transitions.from_pairs(x, x - 0.1 * x + 0.1 * rng.standard_normal((n, m)), 0.1)
    settings = itofit.ARFF(n_features=128, min_iterations=40, max_iterations=40, normal_equations=form)
    warnings.simplefilter("ignore")
    seconds = []
    for _ in range(1 + REPEATS):
        ready.wait()
        began = time.perf_counter()
        itofit.fit(data, structure="diagonal", drift=settings, covariance=settings, refine=False, rng=0)
        seconds.append(time.perf_counter() - began)
    results.put(float(np.median(seconds[1:])))


def measure(n_processes, *problem):
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(n_processes), context.Queue()
    workers = [context.Process(target=fits, args=(*problem, ready, results)) for _ in range(n_processes)]
    for worker in workers:
        worker.start()
    seconds = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return max(seconds)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = []
    for name, problem in FORMS.items():
        alone, together = measure(1, *problem), measure(2, *problem)
        rows.append({"problem": name, "alone_seconds": alone, "together_seconds": together, "ratio": together / alone})
        print(f"{name:<20} alone {alone:.2f} s, two at once {together:.2f} s each, ratio {together / alone:.2f}")
    write_results("two_processes", rows)


if __name__ == "__main__":
    main()
