"""Time of an iteration of Algorithm 1 against the number of rows, for both forms of the normal equations.

One training of fixed length on synthetic rows with 1, 2 and 3 inputs and K = 128, one target; the direct form makes
three iterations, up to a million rows. Results go to benchmarks/results/growth.json; with --plot, only the figure for
the documentation is drawn from them.

    python benchmarks/growth.py [--rows 10000 100000 1000000 10000000] [--plot]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from common import RESULTS, write_results

from itofit import ARFF
from itofit._progress import Progress
from itofit.arff import train
from itofit.regression import Sample, Scaling
from itofit.rows import ArrayRows

K = 128
ITERATIONS = 60
MOST_DIRECT_ROWS = 1_000_000
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "time-against-rows.svg"


def rows_of(n, m):
    rng = np.random.default_rng(0)
    x = rng.random((n, m)) - 0.5
    return x, np.sin(4 * x[:, :1] - 2 * x[:, -1:]) + 0.5 * rng.standard_normal((n, 1))


def measure(x, y, form, n_iterations):
    """Seconds of reading the rows, and the median of an iteration."""
    settings = ARFF(
        n_features=K,
        delta=0.2,
        min_iterations=n_iterations,
        max_iterations=n_iterations,
        normal_equations=form,
        search_rows=len(x),
    )
    scaling = Scaling.of(x.min(axis=0), x.max(axis=0), y.mean(axis=0))
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    sample = Sample(rng, ArrayRows(x, y), settings, scaling, Progress(False), "training")
    read = time.perf_counter() - began
    began = time.perf_counter()
    _, history = train(rng, sample.problem(y.std(axis=0)), sample.settings)
    return read, float(np.median(history.seconds)), time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(json.loads((RESULTS / "growth.json").read_text())["rows"])
        return
    rows = []
    print("inputs       rows      form    read   ms/iteration   training   rows/s read")
    for m in (1, 2, 3):
        for n in arguments.rows:
            x, y = rows_of(n, m)
            for form in ("gridded", "direct"):
                if form == "direct" and n > MOST_DIRECT_ROWS:
                    continue
                repeats = arguments.repeats if form == "gridded" else 1
                runs = [measure(x, y, form, ITERATIONS if form == "gridded" else 3) for _ in range(repeats)]
                read, iteration, training = (float(np.median(values)) for values in zip(*runs, strict=True))
                row = {
                    "inputs": m,
                    "rows": n,
                    "form": form,
                    "read_seconds": read,
                    "iteration_seconds": iteration,
                    "training_seconds": training,
                }
                rows.append(row)
                print(
                    f"{m:>6} {n:>10} {form:>9} {read:>6.2f} s {1e3 * iteration:>10.2f} ms {training:>8.2f} s "
                    f"{n / read / 1e6:>9.1f} M",
                    flush=True,
                )
        flat = [row["iteration_seconds"] for row in rows if row["inputs"] == m and row["form"] == "gridded"]
        print(f"       {m} inputs: slowest over fastest iteration {max(flat) / min(flat):.2f}")
    write_results("growth", rows, features=K)


def plot(rows):
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
    for m, ax in zip((1, 2, 3), axes, strict=True):
        for form, style in (("direct", "s--"), ("gridded", "o-")):
            chosen = [row for row in rows if (row["inputs"], row["form"]) == (m, form)]
            n = [row["rows"] for row in chosen]
            colour = {"direct": "#b3560b", "gridded": "#1b5e9e"}[form]
            milliseconds = [1e3 * row["iteration_seconds"] for row in chosen]
            ax.loglog(n, milliseconds, style, color=colour, markersize=4, label=form)
        ax.set_title(f"{m} input{'s' if m > 1 else ''}", fontsize=10)
        ax.set_xlabel("rows")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("milliseconds per iteration")
    axes[0].legend(frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    print(f"written to {FIGURE}")


if __name__ == "__main__":
    main()
