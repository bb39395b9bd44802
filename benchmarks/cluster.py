"""Time default fits of Parquet files by threads, and by one and two workers of a Dask cluster on this machine.

Files of tracks of double wells, independent in each variable, are made in a directory that is removed afterwards. Every
way fits in processes of its own, with a scheduler and workers on the loopback interface for a cluster. Noted are the
time of the first look at the files, of the fit and of each of its passes, how long workers or threads waited in these,
ratios of the ways, bytes that are sent with a pass and that its sums have, and the peak memory of client, scheduler and
workers; whether all ways learned the same to the last bit; what an empty pass costs, and each stretch of one; and what
10,000 small files cost. Results go to
benchmarks/results/cluster.json, by the number of rows and variables.

    python benchmarks/cluster.py [--rows 5e7] [--variables 1] [--ways threads 1 2] [--files 0] [--float32]
                                 [--small-files 0] [--overhead] [--directory DIR]

10⁹ transitions of one variable take 8 GB of disk, or 4 with --float32.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import cloudpickle
import distributed
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
from common import RESULTS, write_results

import itofit
from itofit.data import passes
from itofit.data.large.cluster import Cluster, on_cluster

H = 0.02
TRACK_ROWS = 10_001
"""Observations of a track."""
FILE_ROWS = 10_000_000
GROUP_ROWS = 1_000_000
"""Rows of a file and of a row group, about."""


# Data


def write_files(folder, n_rows, n_variables, n_files, dtype):
    """Files with about so many rows altogether, tracks one after the other; how many transitions there are.

    Files hold whole tracks, or if they are small, tracks cross them.
    """
    tracks = max(1, round(n_rows / TRACK_ROWS))
    if n_files <= tracks:
        edges = np.linspace(0, tracks, n_files + 1).astype(int)
        for number, (first, stop) in enumerate(pairwise(edges)):
            write_table(folder, number, columns_of(first, stop, n_variables, dtype))
    else:
        columns = columns_of(0, tracks, n_variables, dtype)
        edges = np.linspace(0, tracks * TRACK_ROWS, n_files + 1).astype(int)
        for number, (first, stop) in enumerate(pairwise(edges)):
            write_table(folder, number, {name: column[first:stop] for name, column in columns.items()})
    return tracks * (TRACK_ROWS - 1)


def columns_of(first, stop, n_variables, dtype):
    """Some of the tracks, by their numbers."""
    rng = np.random.default_rng([0, first])
    x = np.empty((stop - first, TRACK_ROWS, n_variables))
    x[:, 0] = rng.normal(size=x[:, 0].shape)
    for i in range(1, TRACK_ROWS):
        x[:, i] = stepped(x[:, i - 1], rng)
    columns = {"track": np.repeat(np.arange(first, stop, dtype=np.int32), TRACK_ROWS)}
    return columns | {f"x{j + 1}": x[:, :, j].ravel().astype(dtype) for j in range(n_variables)}


def stepped(x, rng):
    return x + H * (x - x**3) + 0.5 * (1 + 0.3 * np.cos(x)) * np.sqrt(H) * rng.standard_normal(x.shape)


def write_table(folder, number, columns):
    options = {"row_group_size": GROUP_ROWS, "compression": "none", "use_dictionary": ["track"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{number:05}.parquet", **options)


# One way, in a process of its own


def fit_once(folder, address):
    """Fit the files in a folder, by the threads of this process or by the workers at an address."""
    client = None if address is None else distributed.Client(address, set_as_default=False)
    if client is not None:
        client.run(warm_up)
    warm_up()
    log, over_stretches = [], passes._over_stretches

    def noted(data, function, *rest):
        began, cpu_before = time.perf_counter(), cpu_seconds(client)
        total = over_stretches(data, function, *rest)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(client) - cpu_before
        name = getattr(function, "__qualname__", repr(function)).partition(".")[0]
        sent, held = len(cloudpickle.dumps(function)), len(cloudpickle.dumps(total))
        log.append({"pass": name, "seconds": seconds, "cpu_seconds": cpu, "bytes_sent": sent, "bytes_of_sums": held})
        return total

    passes._over_stretches = noted
    began = time.perf_counter()
    data = on_cluster(itofit.read_transitions(folder, dt=H, track="track", chunk_rows=262_144), client)
    listed = time.perf_counter()
    n = len(data)
    looked, cpu_before = time.perf_counter(), cpu_seconds(client)
    sde = itofit.fit(data, rng=0, client=client)
    ended = time.perf_counter()
    x = np.linspace(-1.5, 1.5, 50)[:, None] * np.ones(sde.n_inputs)
    values = np.concatenate([sde.drift(x).ravel(), sde.covariance(x).ravel()])
    told = {
        "transitions": n,
        "parts": len(data.parts),
        "listing_seconds": listed - began,
        "look_seconds": looked - listed,
        "fit_seconds": ended - looked,
        "fit_cpu_seconds": cpu_seconds(client) - cpu_before,
        "seconds": ended - began,
        "pass_seconds": sum(own["seconds"] for own in log),
        "passes": log,
        "values": hashlib.sha256(values.tobytes()).hexdigest()[:16],
        "peak_mb": {"client": peak()},
    }
    if client is not None:
        told["peak_mb"]["workers"] = sorted(client.run(peak).values())
        told["peak_mb"]["scheduler"] = client.run_on_scheduler(peak)
    print(json.dumps(told))


def warm_up():
    """Import what a fit imports on its way."""
    return itofit.fit.__name__, pandas.__name__


def cpu_seconds(client):
    """Of all workers, or of this process if there are none."""
    return time.process_time() if client is None else sum(client.run(time.process_time).values())


def peak():
    """Peak memory of this process, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)


# Clusters


class Workers:
    """A scheduler and so many workers, processes of one thread each."""

    def __init__(self, n, folder):
        self.folder, self.started = Path(folder), []
        self.environment = os.environ | {"OMP_NUM_THREADS": "1"}
        quiet = ["--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", f"{n}.json"]
        self._start("scheduler", *quiet, "--port", "0")
        for _ in range(n):
            self._start("worker", *quiet, "--nthreads", "1", "--no-nanny")
        self.n, self.file = n, self.folder / f"{n}.json"

    def _start(self, *arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        with (self.folder / "cluster.log").open("a") as log:
            self.started.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
            )

    def __enter__(self):
        while not self.file.exists():
            time.sleep(0.1)
        self.address = json.loads(self.file.read_text())["address"]
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(self.n, timeout=120)
        return self

    def __exit__(self, *error):
        for process in reversed(self.started):
            process.terminate()
            process.wait()


def in_own_process(folder, address, n_threads):
    environment = os.environ | {"OMP_NUM_THREADS": str(n_threads)}
    command = [sys.executable, __file__, "--fit", str(folder), *(["--address", address] if address else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def timed(way, folder, scratch):
    if way == "threads":
        return in_own_process(folder, None, os.cpu_count())
    with Workers(int(way), scratch) as workers:
        return in_own_process(folder, workers.address, 1)


class Nothing:
    """A stretch without a row that is worth anything."""

    block_rows = 1

    def __init__(self, first):
        self.first = first

    def blocks(self, marks):
        """One block."""
        yield np.zeros(1)


def overhead(scratch, n_workers):
    """Seconds of a pass over stretches without rows, by their number, and what a line through them says."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    seconds, cpu = {}, {}
    with Workers(n_workers, scratch) as workers, distributed.Client(workers.address) as client:
        cluster = Cluster(client)
        for n in (1, 1, 10, 100, 1000, 5000):
            began, before = time.perf_counter(), cpu_of_all(client)
            cluster.add_up([Nothing(i) for i in range(n)], one, None, lambda n_done: None)
            seconds[n], after = time.perf_counter() - began, cpu_of_all(client)
            cpu[n] = {who: after[who] - before[who] for who in after}
        peak_mb = client.run_on_scheduler(peak)
    most = max(seconds)
    told = {
        "workers": n_workers,
        "seconds": seconds,
        "per_pass": seconds[1],
        "per_stretch": (seconds[most] - seconds[1]) / most,
        "cpu_per_stretch": {who: own / most for who, own in cpu[most].items()},
        "scheduler_mb": peak_mb,
    }
    print(told, flush=True)
    return told


def cpu_of_all(client):
    """Seconds of computing so far, by who computed."""
    return {
        "client": time.process_time(),
        "workers": cpu_seconds(client),
        "scheduler": client.run_on_scheduler(time.process_time),
    }


def one(block, number):
    return 1


# All of it


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=5e7)
    parser.add_argument("--variables", type=int, default=1)
    parser.add_argument("--ways", nargs="*", default=["threads", "1", "2"])
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--small-files", type=int, default=0)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--directory")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit_once(options.fit, options.address)
        return
    scratch = Path(tempfile.mkdtemp(dir=options.directory))
    name = f"{options.rows:.0e} rows, {options.variables} variables".replace("+", "")
    before = RESULTS / "cluster.json"
    results = json.loads(before.read_text())["rows"] if before.exists() else {}
    try:
        if options.ways:
            n_files = options.files or max(1, round(options.rows / FILE_ROWS))
            results[name] = compared(scratch, options, n_files)
        if options.small_files:
            results[f"{options.small_files} small files"] = compared(scratch, options, options.small_files, small=True)
        if options.overhead:
            results["overhead"] = [overhead(scratch, n) for n in (1, 2)]
    finally:
        shutil.rmtree(scratch)
    write_results("cluster", results)


def compared(scratch, options, n_files, small=False):
    """The figures of all ways for the same files."""
    folder = scratch / "files"
    folder.mkdir()
    dtype = np.float32 if options.float32 else np.float64
    n_rows = 1000 * n_files if small else int(options.rows)
    n = write_files(folder, n_rows, options.variables, n_files, dtype)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{n:,} transitions, {n_files} files, {size / 1e9:.2f} GB", flush=True)
    own = {"transitions": n, "files": n_files, "gigabytes": size / 1e9, "ways": {}}
    for way in options.ways:
        told = own["ways"][way] = timed(way, folder, scratch)
        assert told["transitions"] == n, (told["transitions"], n)
        peaks, n_workers = told["peak_mb"], os.cpu_count() if way == "threads" else int(way)
        for each in told["passes"]:
            each["waiting_seconds"] = each["seconds"] - each["cpu_seconds"] / n_workers
        print(
            f"{way:>8}: look {told['look_seconds']:7.1f} s, fit {told['fit_seconds']:7.1f} s "
            f"({len(told['passes'])} passes {told['pass_seconds']:.1f} s, CPU {told['fit_cpu_seconds']:.1f} s, "
            f"each waited {sum(each['waiting_seconds'] for each in told['passes']):.1f} s), peak MB {peaks}",
            flush=True,
        )
    for part in ("seconds", "fit_seconds", "look_seconds"):
        for one, other in (("1", "2"), ("2", "threads")):
            if {one, other} <= set(own["ways"]):
                ratio = own["ways"][one][part] / own["ways"][other][part]
                own[f"{part}_{one}_against_{other}"] = ratio
                print(f"{part}, {one} against {other}: {ratio:.2f}", flush=True)
    own["same_to_the_last_bit"] = len({told["values"] for told in own["ways"].values()}) == 1
    print("same to the last bit:", own["same_to_the_last_bit"], flush=True)
    shutil.rmtree(folder)
    return own


if __name__ == "__main__":
    main()
