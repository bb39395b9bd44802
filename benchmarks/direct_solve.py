"""Compare one direct ridge solve with the straightforward one: time as a ratio, peak extra memory of each.

The straightforward solve forms the whole matrix of exponentials, its full Gram product, and calls numpy.linalg.solve.
Both are timed within one run, in turns of a few calls each; the ratio is of the medians. Memory is what is allocated
on top of the data (tracemalloc, which sees NumPy's buffers). Results go to benchmarks/results/direct_solve.json.

    python benchmarks/direct_solve.py [--rows 9000 1000000]
"""

import argparse
import tracemalloc
from functools import partial

import numpy as np
from common import timed, write_results

from itofit.waves.normal_equations import DirectNormalEquations

RIDGE = 2e-3


def straightforward(u, y, omega):
    S = np.exp(1j * (u @ omega.T))
    gram = S.conj().T @ S
    return np.linalg.solve(gram + RIDGE * len(u) * np.eye(len(omega)), S.conj().T @ y)


def peak_megabytes(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[9_000, 1_000_000])
    arguments = parser.parse_args()
    rows = []
    print("        N    K  D  straightforward    direct  ratio   memory: straightforward   direct   difference")
    for n in arguments.rows:
        for K in (64, 128, 256):
            for m in (1, 3):
                rng = np.random.default_rng(0)
                u, y, omega = rng.random((n, m)), rng.normal(size=(n, 1)), 5 * rng.normal(size=(K, m))
                equations = DirectNormalEquations(u, y)
                plain = partial(straightforward, u, y, omega)
                direct = partial(equations.solve, omega, RIDGE)
                expected, found = plain(), direct()
                difference = float(np.abs(found - expected).max() / np.abs(expected).max())
                rounds = 5 if n < 100_000 else 1
                slow, fast = (
                    np.median(times)
                    for times in zip(*[(timed(plain, 3), timed(direct, 3)) for _ in range(rounds)], strict=True)
                )
                row = {
                    "rows": n,
                    "features": K,
                    "inputs": m,
                    "straightforward_seconds": float(slow),
                    "direct_seconds": float(fast),
                    "ratio": float(slow / fast),
                    "straightforward_megabytes": peak_megabytes(plain),
                    "direct_megabytes": peak_megabytes(direct),
                    "relative_difference": difference,
                }
                rows.append(row)
                print(
                    f"{n:>9} {K:>4} {m:>2} {1e3 * slow:>13.1f} ms {1e3 * fast:>6.1f} ms {slow / fast:>6.1f} "
                    f"{row['straightforward_megabytes']:>22.0f} MB {row['direct_megabytes']:>5.1f} MB "
                    f"{difference:>11.1e}",
                    flush=True,
                )
    write_results("direct_solve", rows)


if __name__ == "__main__":
    main()
