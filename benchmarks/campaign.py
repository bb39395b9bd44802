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
from itertools import pairwise
from pathlib import Path

import fuzz_equations
import fuzz_files
import fuzz_inputs
import fuzz_kills
import runs
from common import RESULTS, write_results
from random_equations import ALLOWED

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
    row["longest_seconds"] = max(run.get("seconds", 0.0) for run in made)
    row["kinds"] = dict(Counter(run.get("kind", "") for run in made).most_common())
    row["faults_by_kind"] = dict(Counter(run.get("kind", "") for run in faults).most_common())
    if part == "equations":
        row |= of_sizes(made)
    if part == "kills":
        row["while_writing"] = sum(run["while_writing"] for run in made)
    return row, faults


def of_sizes(made):
    """Equations by size: how many, how many are worse than constants, and how many of other faults there are."""
    judged = [run for run in made if run.get("above") is not None]
    edges = [0, 130, 1_000, 100_001]
    sizes = [[run for run in judged if low <= run["n"] < high] for low, high in pairwise(edges)]
    return {
        "smallest": min(run["n"] for run in made),
        "largest": max(run["n"] for run in made),
        "sizes": edges[1:-1],
        "by_size": [len(some) for some in sizes],
        "worse_by_size": [sum(not run["above"] <= ALLOWED for run in some) for some in sizes],
        "worst": max(run["above"] for run in judged),
        "other_faults": sum(run["outcome"] == "fault" and "above constants" not in run["text"] for run in made),
    }


def main():
    given = arguments()
    count = given.count or PARTS[given.part][1]
    seeds = range(given.seed, given.seed + count)
    if given.part == "equations" and given.largest is not None:
        seeds = [seed for seed in seeds if fuzz_equations.size(seed) <= given.largest]
    if given.part == "inputs" and (problems := list(fuzz_inputs.unanswered())):
        sys.exit("good arguments are refused:\n" + "\n".join(problems))
    wanted = [(given.part, seed) for seed in seeds]
    kept = runs.kept_runs(measure, wanted, given.output, jobs=given.jobs)
    row, faults = summary(given.part, [kept[key] for key in wanted])
    for run in faults:
        print(f"\nfault {run['case']} {run['seed']}: {run.get('kind', '')}\n    {run['text']}")
    print("\n" + json.dumps({name: value for name, value in row.items() if name != "kinds"}, indent=1))
    if given.results:
        path = RESULTS / "campaign.json"
        before = json.loads(path.read_text())["rows"] if path.exists() else []
        rows = {each["part"]: each for each in [*before, row]}
        write_results("campaign", [rows[part] for part in PARTS if part in rows])
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
