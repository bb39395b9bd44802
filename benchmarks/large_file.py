"""Learn from a trajectory in memory, and from a larger one in a memory-mapped file.

Writes trajectories of an Ornstein-Uhlenbeck process with a varying noise to files, block by block, then learns from
each in a process of its own whose peak resident memory is measured: from a tenth of the rows in memory, from all of
them in the file. Results go to benchmarks/results/large_file.json.

    python benchmarks/large_file.py [--rows 100000000] [--directory DIR]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import write_results

import itofit

H = 0.01


def write(path, n):
    """N + 1 observations of dx = −2x dt + (0.5 + 0.2 tanh x) dW from many walkers, laid end to end with gaps."""
    rng = np.random.default_rng(0)
    n_walkers = 10_000
    n_times = -(-(n + n_walkers) // n_walkers)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_walkers * (n_times + 1), 1))
    out = file.reshape(n_walkers, n_times + 1)
    x = rng.normal(0, 0.25, n_walkers)
    block = 1000
    for start in range(0, n_times, block):
        piece = np.empty((n_walkers, min(block, n_times - start)))
        for i in range(piece.shape[1]):
            piece[:, i] = x
            x = x - 2 * x * H + (0.5 + 0.2 * np.tanh(x)) * np.sqrt(H) * rng.standard_normal(n_walkers)
        out[:, start : start + piece.shape[1]] = piece
    out[:, n_times] = np.nan
    file.flush()


def peak_megabytes():
    """Peak resident memory of this program; getrusage would count what its parent held before starting it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("peak memory is read from /proc, which this system does not have")


def learn(path, where):
    """Learn from the file; print figures as JSON."""
    before = peak_megabytes()
    if where == "memory":
        data = itofit.Transitions.from_trajectories(np.load(path), dt=H)
    else:
        data = itofit.Transitions.from_blocks(np.load(path, mmap_mode="r"), "trajectory", h=H)
    began = time.perf_counter()
    sde = itofit.fit(data, refine=False, rng=0)
    seconds = time.perf_counter() - began
    x = np.linspace(-0.6, 0.6, 25)
    print(
        json.dumps(
            {
                "where": where,
                "rows": len(data),
                "file_megabytes": Path(path).stat().st_size / 1e6,
                "seconds": seconds,
                "iteration_seconds": float(
                    sde.drift_function.training.seconds.sum() + sde.covariance_function.training.seconds.sum()
                ),
                "iterations": sde.drift_function.training.n_iterations + sde.covariance_function.training.n_iterations,
                "megabytes_before": before,
                "peak_megabytes": peak_megabytes(),
                "drift_error": float(np.abs(sde.drift(x)[:, 0] + 2 * x).max()),
                "diffusion_error": float(np.abs(sde.diffusion(x)[:, 0, 0] - 0.5 - 0.2 * np.tanh(x)).max()),
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--learn", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.learn:
        learn(*arguments.learn)
        return
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        for where, n in (("memory", arguments.rows // 10), ("file", arguments.rows)):
            path = Path(directory) / "trajectory.npy"
            write(path, n)
            command = [sys.executable, __file__, "--learn", str(path), where]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rows.append(row)
            for name, value in row.items():
                print(f"{name:>20} {value:,.4g}" if isinstance(value, float) else f"{name:>20} {value}")
    write_results("large_file", rows)


if __name__ == "__main__":
    main()
