"""Time of an iteration of Algorithm 1 against the number of rows, for both forms of the normal equations.

Synthetic rows with 1, 2 and 3 inputs and one target, K = 128. For each number of inputs one training of 60 iterations
is made on the fewest rows, and its frequencies are kept; then every number of rows answers what those iterations ask:
two ridge solves and one validation error each. So the iterations are the same, and only the rows differ. The direct
form answers three of them, up to a million rows. An iteration's time is the median over the training, and the least of
several repeats. Results go to benchmarks/results/growth.json; with --plot, only the figure for the documentation is
drawn from them.

    python benchmarks/growth.py [--rows 10000 100000 1000000 10000000] [--plot]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.linalg
from common import RESULTS, timed, write_results

from itofit import ARFF
from itofit._blocks import one_blas_thread
from itofit._progress import Progress
from itofit.data.rows import ArrayRows, column_range
from itofit.learning.paper.arff import train
from itofit.learning.paper.regression import Rows, TrainingSet
from itofit.waves.scaling import Scaling

K = 128
ITERATIONS = 60
MOST_DIRECT_ROWS = 1_000_000
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "time-against-rows.svg"


def rows_of(n, m):
    rng = np.random.default_rng(0)
    x = rng.random((n, m)) - 0.5
    return x, np.sin(4 * x[:, :1] - 2 * x[:, -1:]) + 0.5 * rng.standard_normal((n, 1))


class Recorder:
    """Normal equations that keep the frequencies they were asked for."""

    def __init__(self, equations):
        self.equations = equations
        self.n_inputs, self.n_outputs = equations.n_inputs, equations.n_outputs
        self.asked = []

    def solve(self, omega, ridge):
        """Pass the question on."""
        self.asked.append(omega)
        return self.equations.solve(omega, ridge)


def training_set(x, y, form):
    arff = ARFF(
        n_features=K,
        delta=0.2,
        min_iterations=ITERATIONS,
        max_iterations=ITERATIONS,
        normal_equations=form,
        search_rows=len(x),
    )
    rows = Rows(
        data=ArrayRows(x, y),
        points_and_targets=lambda block: (block.x, block.y),
        scaling=Scaling.of(*column_range(x), y.mean(axis=0)),
        n_rows=len(x),
        n_outputs=y.shape[1],
        progress=Progress(False),
        label="training",
    )
    return TrainingSet(np.random.default_rng(0), rows, arff)


def recorded(x, y):
    """The frequencies that a training solved for: the start, then two for each iteration."""
    rows = training_set(x, y, "gridded")
    problem = rows.problem(y.std(axis=0))
    recorder = Recorder(problem.train)
    train(np.random.default_rng(1), problem._replace(train=recorder), rows.settings)
    return recorder.asked[1:]


def measure(x, y, form, asked, repeats):
    """Seconds to read the rows, and of an iteration."""
    began = time.perf_counter()
    rows = training_set(x, y, form)
    read = time.perf_counter() - began
    problem, ridge = rows.problem(y.std(axis=0)), rows.settings.ridge
    iterations = list(zip(asked[::2], asked[1::2], strict=True))
    if form == "direct":
        iterations = iterations[:3]
    medians = []
    for _ in range(repeats):
        seconds = []
        for proposal, omega in iterations:
            with one_blas_thread:
                began = time.perf_counter()
                problem.train.solve(proposal, ridge)
                problem.validation.mse(omega, problem.train.solve(omega, ridge))
                seconds.append(time.perf_counter() - began)
        medians.append(np.median(seconds))
    return read, float(min(medians))


def cholesky_seconds():
    """Of one factorisation of a complex K × K matrix and its solution, on one core."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((K, K)) + 1j * rng.standard_normal((K, K))
    matrix = matrix @ matrix.conj().T + np.eye(K)
    with one_blas_thread:
        return min(timed(lambda: scipy.linalg.lapack.zposv(matrix, matrix[:, :1], lower=1), 50))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(json.loads((RESULTS / "growth.json").read_text())["rows"])
        return
    rows = []
    print("inputs       rows      form    read   ms/iteration   rows/s read")
    for m in (1, 2, 3):
        asked = recorded(*rows_of(min(arguments.rows), m))
        for n in arguments.rows:
            x, y = rows_of(n, m)
            for form in ("gridded", "direct"):
                if form == "direct" and n > MOST_DIRECT_ROWS:
                    continue
                read, iteration = measure(x, y, form, asked, arguments.repeats if form == "gridded" else 2)
                rows.append(
                    {"inputs": m, "rows": n, "form": form, "read_seconds": read, "iteration_seconds": iteration}
                )
                print(
                    f"{m:>6} {n:>10} {form:>9} {read:>6.2f} s {1e3 * iteration:>10.2f} ms {n / read / 1e6:>9.1f} M",
                    flush=True,
                )
        flat = [row["iteration_seconds"] for row in rows if row["inputs"] == m and row["form"] == "gridded"]
        print(f"       {m} inputs: slowest over fastest iteration {max(flat) / min(flat):.2f}")
    write_results("growth", rows, features=K, cholesky_seconds=cholesky_seconds())


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
        ax.yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel("milliseconds per iteration")
    axes[0].legend(frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    print(f"written to {FIGURE}")


if __name__ == "__main__":
    main()
