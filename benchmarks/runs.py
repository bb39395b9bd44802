"""Runs of cases over seeds: their command line, a file that keeps them, a table, and the comparison of two checkouts.

A run is a dictionary of its case, its seed and what was measured; it follows from its case, its seed and the itofit
that Python imports. `--output FILE` appends each run to FILE as a line of JSON once it is done, and does not make it
again if the file holds it already. `--against FILE` compares with runs of another checkout, paired by case and seed:

    PYTHONPATH=before/src python benchmarks/NAME.py --output before.jsonl
    python benchmarks/NAME.py --against before.jsonl
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import write_results
from threadpoolctl import threadpool_limits

import itofit


class Column(NamedTuple):
    """A number that every run measures."""

    name: str
    text: str
    digits: str = ".3f"
    worst: Callable | None = max  # which of the runs' values is the worst


def fitted(data, seed, **options):
    """The learned SDE and the seconds it took, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        sde = itofit.fit(data, rng=seed, **options)
        return sde, time.perf_counter() - began


def root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values))))


def relative_error(found, truth):
    """Root mean square of the error over that of the truth."""
    return root_mean_square(found - truth) / root_mean_square(truth)


def main(doc, name, cases, measure, columns, *, seeds=10, fresh=False):
    """Command line of a benchmark: make the runs that are asked for, and print their table.

    Parameters
    ----------
    doc : str
        Its first line describes the benchmark.
    name : str
        Of the file of results.
    cases : dict
        Names and texts of all cases.
    measure : callable
        Takes the name of a case and a seed, and returns a dictionary of numbers; a function of a module.
    columns : list of Column
        What the table shows.
    seeds : int
        How many, unless the command line says so.
    fresh : bool
        A process of its own for each run, so that peaks of memory are the run's.
    """
    given = _arguments(doc, cases, seeds)
    wanted = [(case, seed) for case in given.cases for seed in range(given.first, given.first + given.seeds)]
    kept = kept_runs(measure, wanted, given.output, jobs=given.jobs, fresh=fresh)
    before = read_runs(given.against) if given.against else {}
    rows = [summary(case, cases[case], [kept[key] for key in wanted if key[0] == case], columns, before)
            for case in given.cases]  # fmt: skip
    for row in rows:
        _print(row, columns)
    if given.results:
        write_results(name, rows)
    return [kept[key] for key in wanted]


def kept_runs(measure, wanted, output, *, jobs=1, fresh=False):
    """All runs of a file, by case and seed, after those that are wanted and were not in it were made and appended."""
    kept = read_runs(output) if output else {}
    todo = [key for key in wanted if key not in kept]
    for run in _made(partial(_safely, measure), todo, jobs, fresh):
        kept[run["case"], run["seed"]] = run
        if output:
            with output.open("a") as file:
                file.write(json.dumps(run) + "\n")
    return kept


def read_runs(path):
    """The runs in a file, by case and seed; none if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    runs = [json.loads(line) for line in lines]
    return {(run["case"], run["seed"]): run for run in runs}


def _arguments(doc, cases, seeds):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", nargs="+", default=list(cases), choices=list(cases), metavar="CASE")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="file of runs to append to")
    parser.add_argument("--against", type=Path, help="file of another checkout's runs to compare with")
    parser.add_argument("--results", action="store_true", help="write the table to benchmarks/results")
    return parser.parse_args()


def _made(measure, todo, jobs, fresh):
    """Runs, as they are done."""
    if jobs == 1 and not fresh:
        yield from (measure(case, seed) for case, seed in todo)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1 if fresh else None) as pool:
        for future in as_completed([pool.submit(measure, case, seed) for case, seed in todo]):
            yield future.result()


def _safely(measure, case, seed):
    """A run; an exception is what was measured, too."""
    run = {"case": case, "seed": seed}
    try:
        with threadpool_limits(int(os.environ.get("OMP_NUM_THREADS", "1"))):
            run |= measure(case, seed)
    except Exception as exception:
        run["exception"] = f"{type(exception).__name__}: {exception}"
    print(" ".join(f"{key} {_short(value)}" for key, value in run.items()), flush=True)
    return run


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def summary(case, text, runs, columns, before):
    """Means and worst values of a case, and what they were before for the same seeds."""
    good = [run for run in runs if "exception" not in run]
    row = {"case": case, "text": text, "runs": len(runs), "exceptions": len(runs) - len(good)}
    for column in columns:
        values = [run[column.name] for run in good if run.get(column.name) is not None]
        if not values:
            continue
        row[column.name] = float(np.mean(values))
        if column.worst is not None:
            row[f"{column.name}_worst"] = float(column.worst(values))
        pairs = [(run[column.name], before[case, run["seed"]][column.name]) for run in good
                 if before.get((case, run["seed"]), {}).get(column.name) is not None]  # fmt: skip
        if pairs:
            now, old = np.array(pairs, dtype=float).T
            row[f"{column.name}_before"] = float(old.mean())
            row[f"{column.name}_change"] = float((now - old).mean())
            if len(pairs) > 1:
                row[f"{column.name}_change_se"] = float((now - old).std(ddof=1) / np.sqrt(len(pairs)))
    return row


def _print(row, columns):
    """A case: one line for each number."""
    print(f"\n{row['case']}: {row['text']} ({row['runs']} runs, {row['exceptions']} exceptions)")
    for column in columns:
        if column.name not in row:
            continue
        mean, worst = row[column.name], row.get(f"{column.name}_worst")
        line = f"    {column.text:<44} {mean:>10{column.digits}}"
        line += f"   worst {worst:>10{column.digits}}" if worst is not None else ""
        if f"{column.name}_before" in row:
            change, error = row[f"{column.name}_change"], row.get(f"{column.name}_change_se", np.nan)
            line += f"   before {row[f'{column.name}_before']:>10{column.digits}}, change {change:+.3g} ± {error:.2g}"
        print(line, flush=True)
