"""Train on ten inputs, a hundred thousand transitions and 256 features: time, memory, and what a subset search costs.

A ring of ten coupled rotors, dx_i = (sin(x_{i+1}) − x_i) dt + 0.3 dW_i, x in [-2, 2]^10. Each value of `search_rows` is
trained on the same data; drift error is the root mean square against the truth, relative to the drift's own. Results
go to benchmarks/results/many_inputs.json.

    python benchmarks/many_inputs.py [--rows 100000] [--seeds 3]
"""

import argparse
import time
import tracemalloc

import numpy as np
from common import mean_and_error, write_results

import itofit

D, K, H = 10, 256, 0.01


def drift(x):
    return np.sin(np.roll(x, -1, axis=1)) - x


def sample(n, rng):
    x0 = rng.uniform(-2, 2, (n, D))
    x = x0
    for _ in range(10):
        x = x + H / 10 * drift(x) + 0.3 * np.sqrt(H / 10) * rng.normal(size=(n, D))
    return itofit.Transitions.from_pairs(x0, x, H)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search-rows", type=int, nargs="+", default=[10 * K, 50 * K, 100 * K, 10**9])
    arguments = parser.parse_args()
    rows = []
    print("search rows  relative drift error      seconds  peak extra memory")
    for search in arguments.search_rows:
        errors, seconds, peaks = [], [], []
        for seed in range(arguments.seeds):
            data = sample(arguments.rows, np.random.default_rng(seed))
            settings = itofit.ARFF(n_features=K, search_rows=search)
            tracemalloc.start()
            began = time.perf_counter()
            sde = itofit.fit(
                data,
                structure="diagonal",
                drift=settings,
                covariance=settings,
                refine=False,
                rng=seed,
                progress=seed == 0 or None,
            )
            seconds.append(time.perf_counter() - began)
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
            x = np.random.default_rng(99).uniform(-2, 2, (5000, D))
            errors.append(np.sqrt(np.mean((sde.drift(x) - drift(x)) ** 2) / np.mean(drift(x) ** 2)))
        mean, error = mean_and_error(errors) if len(errors) > 1 else (errors[0], float("nan"))
        rows.append(
            {
                "transitions": arguments.rows,
                "inputs": D,
                "features": K,
                "search_rows": min(search, arguments.rows),
                "seeds": arguments.seeds,
                "relative_drift_error": mean,
                "relative_drift_error_standard_error": error,
                "seconds": float(np.mean(seconds)),
                "peak_extra_megabytes": float(np.max(peaks)),
            }
        )
        print(
            f"{min(search, arguments.rows):>11} {mean:>13.4f} ± {error:.4f} {np.mean(seconds):>12.1f} "
            f"{max(peaks):>15.0f} MB",
            flush=True,
        )
    write_results("many_inputs", rows)


if __name__ == "__main__":
    main()
