"""Noisy tracks and positions alone beside StochasticForceInference (SFI), on the same data.

*Double well* f = x − x³, σ = 0.5: one track of 100,000 observations at h = 0.01, with errors of measurement. *Van der
Pol* with μ = 2, σ = 1: 20 tracks of 1,000 positions at h = 0.05, velocities not observed. Errors are mean squares of
f, relative to that of f, at states of the tracks. itofit is told nothing. SFI is told of the errors, and polynomials
of degree 3, which contain the truth, or of degree 5; its parametric estimator, which its documentation recommends for
noisy data, gives all terms, and PASTIS, its criterion, then drops some. Each run is a process of its own with one
thread; seconds are CPU seconds of learning f and Σ and evaluating both, without imports.

    python benchmarks/against_sfi.py --output FILE [--systems well-0.02 ...] [--tools ...] [--seeds 10] [--results]

Runs that are in FILE are not made again. `--results` writes the means to benchmarks/results/against_sfi.json.
"""

import argparse
from functools import lru_cache
from pathlib import Path

import numpy as np
import peer_environments
import runs
from common import write_results
from second_order_systems import tracks, van_der_pol

WELL_H, WELL_ROWS, SUBSTEPS = 0.01, 100_000, 10
VDP_H = 0.05
SYSTEMS = {f"well-{sd}": f"double well, 100,000 observations, errors of {sd}" for sd in (0.02, 0.06)}
SYSTEMS |= {f"vdp-{sd}": f"van der Pol, 20 tracks of 1,000 positions, errors of {sd}" for sd in (0.0, 0.01, 0.03)}
TOOLS = {
    "itofit": ("itofit", {}),
    "formula": ("formula", {}),
    "sfi-3": ("sfi", {"degree": 3}),
    "sfi-5": ("sfi", {"degree": 5}),
}
"""Methods of `peer_worker.py`, and what they are told."""


def double_well(rng):
    """States (1, n, 1) of one track."""
    dt = WELL_H / SUBSTEPS
    kicks = 0.5 * np.sqrt(dt) * rng.standard_normal((WELL_ROWS, SUBSTEPS))
    x, states = 0.5, np.empty(WELL_ROWS)
    for i, row in enumerate(kicks.tolist()):
        for kick in row:
            x += dt * (x - x**3) + kick
        states[i] = x
    return states[None, :, None]


@lru_cache(maxsize=1)
def observed(system, seed):
    """Observed tracks (n_tracks, n, 1), the step, and true states with their drift to judge at."""
    name, sd = system.split("-")
    rng = np.random.default_rng([seed, 91])
    if name == "well":
        states, h = double_well(rng), WELL_H
        places = states.reshape(-1, 1)[::20]
        truth = places - places**3
    else:
        states, h = tracks(rng, van_der_pol(2.0), 20, 1_000, VDP_H), VDP_H
        places = states.reshape(-1, 2)[::5]
        truth = van_der_pol(2.0).force(places[:, :1], places[:, 1:])
    return states[:, :, :1] + float(sd) * rng.standard_normal((*states.shape[:2], 1)), h, places, truth


def measure(case, seed):
    """One run of one tool."""
    system, tool = case.split()
    seen, h, places, truth = observed(system, seed)
    method, told = TOOLS[tool]
    found = peer_environments.run(method, list(seen), h, places, errors=True, seed=seed, **told)
    run = {"seconds": found["seconds"]}
    for key, drift in (("error", "drift"), ("all_terms", "drift_all_terms")):
        if drift in found:
            run[key] = float(np.mean((found[drift] - truth) ** 2) / np.mean(truth**2))
    return run


def row_of(system, kept, seeds):
    """Mean errors and seconds of each tool, and those of itofit on the same data sets."""
    row = {"system": system, "text": SYSTEMS[system]}
    for tool in TOOLS:
        made = {seed: kept.get((f"{system} {tool}", seed), {}) for seed in seeds}
        made = {seed: run for seed, run in made.items() if "error" in run}
        row[f"{tool}_seeds"] = len(made)
        for key in ("error", "all_terms", "seconds"):
            values = [run[key] for run in made.values() if key in run]
            if values:
                row[f"{tool}_{key}"] = float(np.mean(values))
        own = [kept.get((f"{system} itofit", seed), {}).get("error") for seed in made]
        if own and None not in own:
            row[f"{tool}_beside"] = float(np.mean(own))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS), metavar="TOOL")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--output", type=Path, required=True, help="file of runs to append to")
    parser.add_argument("--results", action="store_true", help="write all runs of the file to benchmarks/results")
    given = parser.parse_args()
    seeds = range(given.seeds)
    wanted = [(f"{system} {tool}", seed) for seed in seeds for system in given.systems for tool in given.tools]
    kept = runs.kept_runs(measure, wanted, given.output)
    rows = [row_of(system, kept, seeds) for system in SYSTEMS]
    for row in rows:
        print(" ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
    if given.results:
        write_results("against_sfi", rows)


if __name__ == "__main__":
    main()
