"""Read Parquet files as transitions, and as pyarrow alone reads them.

Writes a file of 1,000 row groups without tracks, one with tracks as whole numbers and one with tracks as texts, and
10,000 small files, and reads each in turn: the columns that are needed by pyarrow alone, one row group or file after
the other; the same as tables of the reader; and as a whole pass that makes transitions and counts them, on all cores.
The CPU time of this process is measured, and the time that passes, which other work on the machine lengthens; the
least of some repeats counts. Results go to benchmarks/results/reading.json.

    python benchmarks/reading.py [--rows 20000000] [--files 10000] [--repeats 5] [--directory DIR]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import write_results

import itofit
from itofit.data.passes import add_up
from itofit.data.reading.files import SECTION_ROWS

GROUPS = 1000
TRACK_ROWS = 1000


def table(rng, first, n, tracks):
    """Rows of tracks of 1,000 observations each, sorted."""
    row = first + np.arange(n)
    columns = {"time": 0.01 * row, "x": 0.01 * np.cumsum(rng.normal(size=n)), "other": rng.normal(size=n)}
    if tracks:
        track = row // TRACK_ROWS
        columns["track"] = track if tracks == "whole numbers" else np.char.add("cell-", track.astype(str))
    return pa.table(columns)


def write_file(path, n_rows, tracks):
    rng, n = np.random.default_rng(0), n_rows // GROUPS
    with pq.ParquetWriter(path, table(rng, 0, 1, tracks).schema) as writer:
        for group in range(GROUPS):
            writer.write_table(table(rng, group * n, n, tracks))


def write_files(folder, n_files, n_rows):
    rng, n = np.random.default_rng(0), n_rows // n_files
    folder.mkdir()
    for i in range(n_files):
        pq.write_table(table(rng, i * n, n, "whole numbers"), folder / f"part-{i}.parquet")


def by_pyarrow(path, columns):
    """All row groups, one after the other."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with pq.ParquetFile(file) as opened:
            for group in range(opened.num_row_groups):
                opened.read_row_group(group, columns=columns)


def as_tables(data):
    """The tables of all sections, one after the other."""
    for part in data.parts:
        for _ in part.reading.section.tables(part.reading.layout):
            pass


def seconds(function, *arguments):
    """CPU time of this process, and time that passed."""
    cpu, wall = time.process_time(), time.perf_counter()
    function(*arguments)
    return np.array([time.process_time() - cpu, time.perf_counter() - wall])


def measure(name, path, tracks, repeats):
    columns = ["time", "x", *(["track"] if tracks else [])]
    opening, looking = np.inf, np.inf
    least = dict.fromkeys(("pyarrow", "tables", "transitions"), np.full(2, np.inf))
    for _ in range(repeats):
        began = time.perf_counter()
        data = itofit.read_transitions(path, time="time", state="x", chunk_rows=SECTION_ROWS)
        opening = min(opening, time.perf_counter() - began)
        looking = min(looking, seconds(len, data)[1])
        steps = {
            "pyarrow": (by_pyarrow, path, columns),
            "tables": (as_tables, data),
            "transitions": (add_up, data, lambda block, number: len(block)),
        }
        for step, (function, *arguments) in steps.items():
            least[step] = np.minimum(least[step], seconds(function, *arguments))
    n = len(data)
    row = {
        "data": name,
        "transitions": n,
        "parts": len(data.parts),
        "opening_seconds": opening,
        "look_seconds": looking,
    }
    for step, (cpu, wall) in least.items():
        row |= {f"{step}_cpu_ns_per_row": 1e9 * cpu / n, f"{step}_wall_ns_per_row": 1e9 * wall / n}
    row["tables_speed_of_pyarrow"] = float(least["pyarrow"][0] / least["tables"][0])
    row["transitions_speed_of_pyarrow_wall"] = float(least["pyarrow"][1] / least["transitions"][1])
    for key, value in row.items():
        print(f"{key:>36} {value:,.4g}" if isinstance(value, float) else f"{key:>36} {value}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        for tracks in (None, "whole numbers", "texts"):
            path = Path(directory) / "rows.parquet"
            write_file(path, arguments.rows, tracks)
            name = f"{GROUPS:,} row groups, " + ("one track" if tracks is None else f"tracks as {tracks}")
            results.append(measure(name, path, tracks, arguments.repeats))
            path.unlink()
        folder = Path(directory) / "files"
        write_files(folder, arguments.files, 100 * arguments.files)
        results.append(measure(f"{arguments.files:,} files of 100 rows", folder, "whole numbers", arguments.repeats))
    write_results("reading", results)


if __name__ == "__main__":
    main()
