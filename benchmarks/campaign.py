"""A campaign of fuzzing: random inputs, equations, damaged files and kills, none of which may break a promise.

Each part has a number of trials, and each trial follows from its seed alone:

    python benchmarks/campaign.py PART [--count 1000] [--seed 0] [--jobs 1] [--output FILE] [--results]

=========  ======  ==================================================================================================
part       trials  what is tried
=========  ======  ==================================================================================================
inputs     10,000  calls of every public entrance and command with one to three bad or strange arguments
equations   1,000  random equations, learned by default, judged, saved, loaded, checked and simulated
models      1,000  files of models and formulas with bytes, members, arrays or metadata damaged
tables        500  CSV, Parquet and NPZ files with cells, columns, rows or bytes damaged
kills         100  SIGKILL while a model, a formula, a page or a table is written
=========  ======  ==================================================================================================

What counts as a fault is said in `fuzz_rules.py`, and for each part in its module. A campaign that was interrupted
goes on with `--output FILE`, which holds the trials that are done. `--largest N` leaves out equations of more than N
transitions. The exit code is 1 if there were faults.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import fuzz_equations
import fuzz_files
import fuzz_inputs
import fuzz_kills
import numpy as np
import runs
from common import write_results

PARTS = {
    "inputs": (fuzz_inputs.trial, 10_000),
    "equations": (fuzz_equations.trial, 1_000),
    "models": (fuzz_files.model_trial, 1_000),
    "tables": (fuzz_files.table_trial, 500),
    "kills": (fuzz_kills.trial, 100),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--count", type=int, help="trials; all of the table if left out")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="file of trials to append to")
    parser.add_argument("--largest", type=int, help="transitions of an equation, at most")
    parser.add_argument("--results", action="store_true", help="write the counts to benchmarks/results")
    return parser.parse_args()


def measure(part, seed):
    """One trial."""
    return PARTS[part][0](seed)


def summary(part, made):
    """Counts of how the trials of a part ended, by kind, and what the faults are."""
    made = [run if "exception" not in run else {**run, "outcome": "fault", "text": run["exception"]} for run in made]
    faults = [run for run in made if run["outcome"] == "fault"]
    row = {"part": part, "trials": len(made)}
    row |= {f"{outcome}s": sum(run["outcome"] == outcome for run in made) for outcome in ("answer", "refusal", "fault")}
    row["kinds"] = dict(Counter(run.get("kind", "") for run in made).most_common())
    row["seconds_longest"] = max(run.get("seconds", np.nan) for run in made)
    row["faults_by_kind"] = dict(Counter(run.get("kind", "") for run in faults).most_common())
    return row, faults


def main():
    given = arguments()
    count = given.count or PARTS[given.part][1]
    seeds = range(given.seed, given.seed + count)
    if given.part == "equations" and given.largest is not None:
        seeds = [seed for seed in seeds if fuzz_equations.size(seed) <= given.largest]
    wanted = [(given.part, seed) for seed in seeds]
    kept = runs.make(measure, wanted, jobs=given.jobs, output=given.output)
    row, faults = summary(given.part, [kept[key] for key in wanted])
    for run in faults:
        print(f"\nfault {run['case']} {run['seed']}: {run.get('kind', '')}\n    {run['text']}")
    print("\n" + json.dumps({name: value for name, value in row.items() if name != "kinds"}, indent=1))
    if given.results:
        write_results(f"campaign_{given.part}", [row])
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
