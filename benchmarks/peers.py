"""itofit beside other packages, on the same tracks of ten problems (`peer_problems.py`).

Errors are root mean squares over states of the track, relative to the true drift and covariance; coverage is the share
of 95 % intervals that hold the truth at these states. Each run is a process of its own with one thread
(`peer_worker.py`), other packages in environments that are made on first use (`peer_environments.py`); seconds are CPU
seconds of learning and evaluating without imports, memory is the peak of the process. Packages that ask for a degree of
polynomials are told 3 for the drift and 2 for Σ, which contain the truth of all problems but "crooked" and "eddies".

    python benchmarks/peers.py --output FILE [--problems ...] [--rows 10000 ...] [--tools ...] [--seeds 3] [--results]

Runs that are in FILE are not made again. benchmarks/results/peers.jsonl keeps some, to be gone on with. A package that
took more than a fifth of the limit is not run on ten times as many observations. `--results` writes all runs of FILE to
benchmarks/results/peers.json.
"""

import argparse
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import peer_environments
import runs
from common import write_results
from peer_problems import PROBLEMS
from runs import Column


class Tool(NamedTuple):
    """A package, the method of `peer_worker.py` that calls it, and what else than the others it is told."""

    label: str
    method: str
    told: dict[str, int] = {}  # noqa: RUF012
    optional: bool = False  # runs if it is named


TOOLS = {
    "itofit": Tool("itofit", "itofit"),
    "formula": Tool("itofit, formula", "formula"),
    "sfi": Tool("StochasticForceInference", "sfi"),
    "pydaddy": Tool("PyDaddy", "pydaddy"),
    "pysindy": Tool("pysindy", "pysindy"),
    "kramersmoyal": Tool("kramersmoyal", "kramersmoyal"),
    "adam": Tool("Adam networks", "adam"),
    "sfi-5": Tool("StochasticForceInference, degrees 5 and 4", "sfi", {"degree": 5, "noise_degree": 4}, optional=True),
}
CANNOT = {("pydaddy", "lorenz"): "at most two variables"}
CANNOT |= {(tool, "positions"): "needs velocities" for tool in ("pydaddy", "pysindy", "kramersmoyal", "adam")}
OURS = ("itofit", "formula")
CURVES = ("crooked", 10**5, 0)
"""The run whose functions are kept, at N_CURVE places along the range of its track."""
N_CURVE = 120
Z = 1.959964
COLUMNS = [
    Column("drift", "relative error of the drift", ".4f"),
    Column("sigma", "relative error of Σ", ".4f"),
    Column("drift_coverage", "share of the drift within 95 % bands", ".3f", worst=min),
    Column("sigma_coverage", "the same for Σ", ".3f", worst=min),
    Column("seconds", "CPU seconds", ".1f"),
    Column("megabytes", "peak memory, MB", ".0f"),
    Column("stopped", "share stopped at the limit", ".2f", worst=None),
]


@lru_cache(maxsize=1)
def observed(name, rows, seed):
    """The track of a problem, for all tools in a row."""
    return PROBLEMS[name].observed(rows, seed)


def case_of(name, rows, tool):
    return f"{name} {rows} {tool}"


def parts_of(case):
    name, rows, tool = case.split()
    return name, int(rows), tool


def measure(directory, limit, case, seed):
    """One run of one tool."""
    name, rows, tool = parts_of(case)
    problem = PROBLEMS[name]
    track, places = observed(name, rows, seed)
    curve = (name, rows, seed) == CURVES
    asked = np.concatenate([places, np.linspace(track.min(), track.max(), N_CURVE)[:, None]]) if curve else places
    told = {"errors": problem.error > 0, "spread": problem.spread, "seed": seed, "limit": limit} | TOOLS[tool].told
    try:
        found = peer_environments.run(TOOLS[tool].method, [track], problem.h, asked, directory=directory, **told)
    except peer_environments.StoppedError:
        return {"stopped": 1.0, "limit": limit}
    run = {key: found[key] for key in ("seconds", "megabytes", "megabytes_before")} | {"stopped": 0.0, "limit": limit}
    n = len(places)
    for key, what, truth in zip(("drift", "sigma"), ("drift", "covariance"), problem.truth(places), strict=True):
        if what in found:
            run[key] = runs.relative_error(found[what][:n], truth)
        if f"{what}_std" in found:
            run[f"{key}_coverage"] = float(np.mean(np.abs(found[what][:n] - truth) <= Z * found[f"{what}_std"][:n]))
        if curve and what in found:
            run[f"{key}_curve"] = np.round(found[what][n:].ravel(), 5).tolist()
    return run | ({"places": np.round(asked[n:].ravel(), 5).tolist()} if curve else {})


def too_slow(kept, name, rows, tool, limit):
    """Whether runs with fewer observations, ten times or more, say that this one would be stopped."""
    fewer = [case_of(name, size, tool) for size in PROBLEMS[name].rows if size < rows]
    smaller = [run for (case, _), run in kept.items() if case in fewer]
    return any(run.get("stopped") or run.get("seconds", 0.0) > limit / 5 for run in smaller)


def beside_ours(kept, name, size, made):
    """Mean errors of itofit and of its formula on the data sets of some runs of another tool."""
    means = {}
    for tool in OURS:
        own = [kept.get((case_of(name, size, tool), run["seed"]), {}) for run in made if "drift" in run]
        for key in ("drift", "sigma"):
            if own and all(key in run for run in own):
                means[f"{tool}_{key}"] = float(np.mean([run[key] for run in own]))
    return means


def all_rows(kept, limit):
    """Means over seeds for each case of the kept runs, in the order of problems, sizes and tools."""
    rows = []
    for name, problem in PROBLEMS.items():
        for size in problem.rows:
            for tool, (label, *_) in TOOLS.items():
                case = case_of(name, size, tool)
                made = [run for (one, _), run in kept.items() if one == case]
                row = {"problem": name, "rows": size, "tool": tool, "label": label}
                if (tool, name) in CANNOT:
                    row |= {"text": problem.text, "cannot": CANNOT[tool, name]}
                elif made:
                    row |= runs.summary(case, problem.text, made, COLUMNS, {}) | {"limit": limit}
                    row |= beside_ours(kept, name, size, made)
                elif too_slow(kept, name, size, tool, limit):
                    row |= {"text": problem.text, "too_slow": True}
                else:
                    continue
                rows.append(row)
    return rows


def curves(kept):
    """Learned functions of one run by each tool, with the truth."""
    name, rows, seed = CURVES
    found = {tool: kept.get((case_of(name, rows, tool), seed), {}) for tool in TOOLS}
    places = next((run["places"] for run in found.values() if "places" in run), None)
    if places is None:
        return None
    f, sigma = PROBLEMS[name].truth(np.array(places)[:, None])
    states = observed(name, rows, seed)[0]
    kept_curves = {
        tool: {key: run[f"{key}_curve"] for key in ("drift", "sigma") if f"{key}_curve" in run}
        for tool, run in found.items()
    }
    true = {"drift": np.round(f.ravel(), 5).tolist(), "sigma": np.round(sigma.ravel(), 5).tolist()}
    middle = np.quantile(states, [0.005, 0.995]).round(4).tolist()
    return {"problem": name, "rows": rows, "places": places, "middle": middle, "tools": {"truth": true} | kept_curves}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name, tool in TOOLS.items() if not tool.optional]
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--rows", nargs="+", type=int, default=sorted({n for p in PROBLEMS.values() for n in p.rows}))
    parser.add_argument("--tools", nargs="+", default=usual, choices=list(TOOLS), metavar="TOOL")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=int, default=600, help="most CPU seconds of a run")
    parser.add_argument("--environments", type=Path, default=peer_environments.DIRECTORY, help="where they are made")
    parser.add_argument("--output", type=Path, required=True, help="file of runs to append to")
    parser.add_argument("--results", action="store_true", help="write all runs of the file to benchmarks/results")
    given = parser.parse_args()
    one = partial(measure, given.environments, given.limit)
    kept = runs.read_runs(given.output)
    for seed in range(given.first, given.first + given.seeds):
        for rows in sorted(given.rows):
            wanted = [
                (case_of(name, rows, tool), seed)
                for name in given.problems
                for tool in given.tools
                if rows in PROBLEMS[name].rows
                and (tool, name) not in CANNOT
                and not too_slow(kept, name, rows, tool, given.limit)
            ]
            kept = runs.kept_runs(one, wanted, given.output, jobs=given.jobs)
    if given.results:
        write_results(
            "peers",
            all_rows(kept, given.limit),
            curves=curves(kept),
            versions=dict(peer_environments.PACKAGES.values()),
        )


if __name__ == "__main__":
    main()
