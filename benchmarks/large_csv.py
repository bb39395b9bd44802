"""Learn from a CSV file of a million rows on the command line, at once and in parts.

Writes files of 1,000 tracks with irregular times and gaps (empty cells), of a double well and of a rotating flow in two
dimensions, and runs `itofit fit FILE --time t --state x[,y] --track id -o sde.npz` on each as a user does, in a process
of its own whose peak resident memory is read while it runs: as it is, and with every file counted as large, so that it
is read in parts in each pass. Parts hold out rows where the whole holds out tracks, so a second pair of runs without
held-out data tells whether both learn the same. Results go to benchmarks/results/large_csv.json.

    python benchmarks/large_csv.py [--tracks 1000] [--rows 1000] [--directory DIR]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import write_results

import itofit

H, SUBSTEPS, LOST = 0.02, 4, 0.03
COMMAND = {
    "whole": "from itofit.__main__ import main; main()",
    "parts": "import itofit.files; itofit.files.LARGE_FILE = 0; from itofit.__main__ import main; main()",
    "nothing": "import itofit.cli",
}
"""What the processes run; the last is what importing the program takes."""


def well(x):
    """Drift and noise of a particle in a double well."""
    return x - x**3, (0.4 + 0.2 * x**2)[:, :, None]


def flow(x):
    """Drift and noise of a rotating flow that is stirred more along one direction where its radius is large."""
    turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
    root = np.zeros((len(x), 2, 2))
    root[:, 0, 0] = 0.3 + 0.1 * (x**2).sum(axis=1)
    root[:, 1, 0], root[:, 1, 1] = 0.1, 0.2
    return -x + 2 * turned, root


SYSTEMS = {"double well": (well, ["x"]), "rotating flow": (flow, ["x", "y"])}


def write(path, system, n_tracks, n_rows):
    """Tracks of a system, seen at irregular times, with gaps in their variables."""
    rates, names = SYSTEMS[system]
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n_tracks, len(names)))
    h = H * rng.uniform(0.5, 1.5, (n_rows, n_tracks))
    seen = np.empty((n_tracks, n_rows, len(names)))
    for i in range(n_rows):
        seen[:, i] = x
        dt = (h[i] / SUBSTEPS)[:, None]
        for _ in range(SUBSTEPS):
            drift, root = rates(x)
            x = x + dt * drift + np.sqrt(dt) * (root @ rng.standard_normal((*x.shape, 1)))[:, :, 0]
    seen[rng.random(seen.shape) < LOST] = np.nan
    t = np.concatenate([np.zeros((1, n_tracks)), np.cumsum(h[:-1], axis=0)])
    table = {"id": np.repeat(np.arange(n_tracks), n_rows), "t": t.T.ravel()}
    table |= {name: seen[:, :, j].ravel() for j, name in enumerate(names)}
    pd.DataFrame(table).to_csv(path, index=False, float_format="%.6f")


def run(how, arguments):
    """Run the program; what it says, its seconds, those of its threads together, its peak resident megabytes."""
    began, peak, before = time.perf_counter(), 0, cpu_seconds()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([sys.executable, "-c", COMMAND[how], *arguments], stdout=said)
        while child.poll() is None:
            lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
            peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        if child.returncode:
            raise SystemExit(f"itofit {' '.join(arguments)} failed with {child.returncode}")
        said.seek(0)
        return said.read(), seconds, cpu_seconds() - before, peak / 1e3


def cpu_seconds():
    """What processes that have ended took of all cores, which other programs disturb less."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def observed(path, names):
    """States that were seen, at random: shape (1000, d)."""
    return pd.read_csv(path, usecols=names)[names].dropna().sample(1000, random_state=0).to_numpy()


def apart(functions, others):
    """Root mean square differences of drift and covariance between two pairs of them, relative to the second's size."""
    return [float(np.sqrt(((a - b) ** 2).mean() / (b**2).mean())) for a, b in zip(functions, others, strict=True)]


def learned(file, x):
    """Drift and covariance of a model at some states."""
    sde = itofit.load(file)
    return sde.drift(x), sde.covariance(x)


def true(system, x):
    """Drift and covariance of a system at some states."""
    drift, root = SYSTEMS[system][0](x)
    return drift, root @ root.transpose(0, 2, 1)


def measure(system, directory, n_tracks, n_rows):
    """All runs on one file."""
    path = directory / "tracks.csv"
    write(path, system, n_tracks, n_rows)
    x = observed(path, SYSTEMS[system][1])
    options = [str(path), "--time", "t", "--state", ",".join(SYSTEMS[system][1]), "--track", "id", "--json"]
    rows = []
    for more in ([], ["--held-out", "0"]):
        files = {how: directory / f"{how}.npz" for how in ("whole", "parts")}
        for how, file in files.items():
            said, seconds, cpu, peak = run(how, ["fit", *options, *more, "-o", str(file)])
            told = json.loads(said)
            row = {
                "system": system,
                "read": how,
                "held_out": not more,
                "rows": n_tracks * n_rows,
                "transitions": told["transitions"],
                "file_megabytes": path.stat().st_size / 1e6,
                "seconds": seconds,
                **{f"seconds_{part}": spent for part, spent in told["seconds"].items()},
                "cpu_seconds": cpu,
                "peak_megabytes": peak,
            }
            row["drift_error"], row["covariance_error"] = apart(learned(file, x), true(system, x))
            rows.append(row)
            print(", ".join(f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
        two = (learned(files[how], x) for how in ("parts", "whole"))
        rows[-1]["drift_difference"], rows[-1]["covariance_difference"] = apart(*two)
        print("   parts differ from the whole by", rows[-1]["drift_difference"], rows[-1]["covariance_difference"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tracks", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    _, seconds, cpu, peak = run("nothing", [])
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        for system in SYSTEMS:
            rows += measure(system, Path(directory), arguments.tracks, arguments.rows)
    alone = {"seconds": seconds, "cpu_seconds": cpu, "peak_megabytes": peak}
    write_results("large_csv", rows, load_before=load, importing=alone)


if __name__ == "__main__":
    main()
