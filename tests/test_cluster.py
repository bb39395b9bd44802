"""Passes on a cluster of processes: the same results to the last bit, whoever dies, comes late or cannot read.

One scheduler and two workers are started for all tests, with small blocks as in this process.
"""

import gc
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import itofit
from itofit._checks import InputError
from itofit.data.large import cluster as passes_on_cluster
from itofit.data.large.cluster import Cluster, ClusterError, on_cluster
from itofit.data.large.parts import PartedTransitions
from itofit.data.passes import add_up

distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

BLOCK = 4096
N = 9 * BLOCK + 1000
CUTS = [0, 5_000, 5_000, 2 * BLOCK + 5, 12_000, 12_001, 30_000, N]
SMALL_BLOCKS = f"import itofit.data.rows as rows; rows.PASS_ROWS = {BLOCK}; import itofit.looking.check"
WITHOUT_ITOFIT = "import sys; sys.modules['itofit'] = None"
SOURCES = str(Path(itofit.__file__).parents[1])
QUIET = ["--no-dashboard", "--host", "127.0.0.1"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("itofit.") and hasattr(module, "PASS_ROWS"):
            monkeypatch.setattr(module, "PASS_ROWS", BLOCK)


class Rows:
    """Some of the rows in a file; who reads them first where there is a trap is killed."""

    def __init__(self, file, first, stop, trap=None):
        self.file, self.first, self.stop, self.trap = file, first, stop, trap
        self.name = f"rows {first} to {stop}"

    def blocks(self):
        if self.trap is not None and _removed(self.trap):
            os.kill(os.getpid(), signal.SIGKILL)
        path = np.load(self.file, mmap_mode="r")[self.first : self.stop + 1]
        if len(path) > 1:
            yield itofit.Transitions.from_trajectories(np.array(path), dt=0.02)


def _removed(path):
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def path_of_a_double_well():
    x, noise = [0.0], 0.1 * np.random.default_rng(0).normal(size=N)
    for z in noise.tolist():
        x.append(x[-1] + 0.02 * (x[-1] - x[-1] ** 3) + z)
    return np.array(x)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    target = tmp_path_factory.mktemp("data") / "path.npy"
    np.save(target, path_of_a_double_well())
    return target


def parted(file, trap=None, kind=Rows):
    parts = [kind(file, a, b, trap) for a, b in pairwise(CUTS)]
    return PartedTransitions(parts, itofit.Transitions.from_pairs([0.0], [0.0], 0.1), np.diff(CUTS).tolist())


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The scheduler's address and its process."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = os.environ | {
        "PYTHONPATH": SOURCES,
        "OMP_NUM_THREADS": "1",
        "DASK_DISTRIBUTED__ADMIN__LOG_LENGTH": "0",
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",  # who replaces the dead imports Dask no more
    }
    started = []

    def start(*arguments):
        with (folder / f"{len(started)}.log").open("w") as log:
            command = [sys.executable, "-m", "dask", *arguments]
            started.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log))
        return started[-1]

    own = start("scheduler", *QUIET, "--port", "0", "--scheduler-file", "scheduler.json")
    own.start_worker = lambda *options: start("worker", *QUIET, "--scheduler-file", "scheduler.json", *options)
    own.start_worker("--nworkers", "2", "--nthreads", "1", "--preload", SMALL_BLOCKS)
    own.folder = folder
    yield own
    for process in reversed(started):
        process.terminate()
    for process in started:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def client(scheduler):
    for _ in range(300):
        if (scheduler.folder / "scheduler.json").exists():
            break
        time.sleep(0.1)
    own = distributed.Client(scheduler_file=str(scheduler.folder / "scheduler.json"), set_as_default=False)
    own.wait_for_workers(2, timeout=60)
    yield own
    own.close(timeout=5)


@cache
def fitted_here(file):
    data = parted(file)
    sde = itofit.fit(data, rng=0)
    return sde, sde.nll(data), itofit.check(sde, data).text()


def assert_same_model(own, other):
    x = np.linspace(-2, 2, 41)
    np.testing.assert_array_equal(own.drift(x, return_std=True), other.drift(x, return_std=True))
    np.testing.assert_array_equal(own.covariance(x, return_std=True), other.covariance(x, return_std=True))
    assert own.floored_share == other.floored_share
    assert own.data.n_transitions == other.data.n_transitions == N


# Results


def test_a_fit_on_a_cluster_is_that_without_one(client, file):
    expected, loss, text = fitted_here(file)
    data = parted(file)
    sde = itofit.fit(data, rng=0, client=client)
    assert_same_model(sde, expected)
    assert sde.nll(data, client=client) == loss
    assert itofit.check(sde, data, client=client).text() == text
    np.testing.assert_array_equal(sde.nll(data, pointwise=True, client=client), expected.nll(data, pointwise=True))
    assert re.search(r"work +5 passes over the data on 2 workers in .* s on the client", sde.summary())
    assert "work  " not in expected.summary()


@pytest.mark.parametrize("n_threads", [1, 2, 4, 8, 100])
def test_sums_do_not_depend_on_the_number_of_workers(client, file, monkeypatch, n_threads):
    monkeypatch.setattr(Cluster, "n_threads", n_threads)  # by which stretches are cut
    monkeypatch.setattr("itofit.data.large.cluster.SPLIT_EVERY", 2)
    data = parted(file)

    def function(block, number):
        return float(block.inputs.sum() / 3), [number], block.inputs[:3]

    expected = add_up(itofit.Transitions.from_blocks([parted_in_one(file)]), function, most_rows=1000)
    own = add_up(on_cluster(data, client), function, most_rows=1000)
    assert own[:2] == expected[:2]
    np.testing.assert_array_equal(own[2], expected[2])


def parted_in_one(file):
    return itofit.Transitions.from_trajectories(np.load(file), dt=0.02)


def test_workers_find_files_that_are_named_from_here(client, file, tmp_path, monkeypatch):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    del pyarrow
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tracks").mkdir()
    for number, rows in enumerate(np.array_split(np.load(file), 4)):
        pandas.DataFrame({"x": rows}).to_parquet(f"tracks/{number}.parquet")
    with pytest.warns(itofit.DataWarning, match="without times and tracks"):
        data = itofit.read_transitions("tracks", dt=0.02, chunk_rows=3000)
    sde = itofit.fit(data, rng=0, client=client)
    assert_same_model(sde, itofit.fit(data, rng=0))
    assert_same_model(sde, fitted_here(file)[0])


def test_workers_share_one_csv_file_and_rows_in_any_order(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"track": np.repeat(np.arange(30), 1000), "time": np.tile(0.1 * np.arange(1000), 30)})
    table = table.assign(x=rng.normal(size=len(table)).cumsum())
    table.to_csv(tmp_path / "rows.csv", index=False)
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=1500)
    for path in ("rows.csv", "rows.parquet"):
        data = itofit.read_transitions(tmp_path / path, chunk_rows=4000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", itofit.DataWarning)  # that rows were sorted
            whole = itofit.read_transitions(tmp_path / path)
            own = add_up(on_cluster(data, client), sum_of_inputs)
        assert own == add_up(whole, sum_of_inputs)
    assert len(itofit.read_transitions(tmp_path / "rows.csv", chunk_rows=4000).parts) > 4


def test_partitions_that_are_empty_or_have_other_columns(client):
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    table = pandas.DataFrame({"x": np.arange(100.0)})
    pieces = [table[:0], table[:40], table[:0], table[40:], table[:0]]
    frame = dask.from_map(lambda piece: piece, pieces, meta=table[:0])
    data = on_cluster(itofit.Transitions.from_dask(frame, dt=1.0, state="x"), client)
    assert len(data) == add_up(data, lambda block, number: len(block)) == 99
    frame = dask.from_map(lambda piece: piece, [table, table.rename(columns={"x": "y"})], meta=table[:0])
    with pytest.raises(InputError, match=r"partition 1 of 2: state: there is no column 'x'; the columns are 'y'"):
        len(on_cluster(itofit.Transitions.from_dask(frame, dt=1.0, state="x"), client))


@pytest.mark.parametrize("kind", ["persisted", "a step after that", "not persisted"])
def test_partitions_that_workers_hold_stay_there(client, file, kind, monkeypatch):
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(pandas.DataFrame({"x": np.load(file)}), npartitions=5, sort=False)
    if kind != "not persisted":
        frame = client.persist(frame)
    if kind == "a step after that":
        frame = frame.map_partitions(pandas.DataFrame.assign, other=1)
    came, result = [], distributed.Future.result
    monkeypatch.setattr(distributed.Future, "result", lambda own, *rest: came.append(own.key) or result(own, *rest))
    data = itofit.Transitions.from_dask(frame, dt=0.02, state="x")
    assert add_up(on_cluster(data, client), sum_of_inputs) == add_up(parted_in_one(file), sum_of_inputs)
    if kind == "persisted":
        assert_same_model(itofit.fit(data, rng=0, client=client), fitted_here(file)[0])
    assert len(data.parts) == 5
    assert came
    assert all(str(key).endswith("-total") for key in came)


def test_partitions_of_another_cluster_are_refused(client, file):
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        frame = other.persist(dask.from_pandas(pandas.DataFrame({"x": np.load(file)}), npartitions=3, sort=False))
        data = itofit.Transitions.from_dask(frame, dt=0.02, state="x")
        assert add_up(on_cluster(data, client), lambda block, number: len(block)) == N  # another client of the same one
    with pytest.raises(InputError, match="was persisted on another cluster than that of the client, or its own clien"):
        add_up(on_cluster(data, client), lambda block, number: len(block))


def test_the_command_line_fits_on_a_cluster(client, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = np.load(file)
    for number, rows in enumerate(np.array_split(path, 3)):
        np.savetxt(f"{number}.csv", rows, header="x", comments="")
    common = ["0.csv", "1.csv", "2.csv", "--dt", "0.02", "--held-out", "0", "--json"]
    address = ["--scheduler", client.scheduler.address]
    told = run("fit", "-o", "there.npz", *common, *address)
    assert told.exit_code == 0, told.output
    assert_same_model(itofit.load("there.npz"), fitted_here(file)[0])
    assert "5 passes over the data on 2 workers" in itofit.load("there.npz").summary()
    told = run("check", "there.npz", *common[:5], *address, "--json")
    assert told.exit_code == 0, told.output
    told = run("fit", "-o", "there.npz", *common, *address, "--workers", "2")
    assert told.exit_code == 2
    assert "give --scheduler for workers that run, or --workers to start some, not both" in told.output


def test_a_scheduler_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("itofit.cli.machines.CONNECTING", 0.5)
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("t,x\n0,1\n1,2\n")
    told = run("fit", "a.csv", "-o", "a.npz", "--scheduler", "tcp://127.0.0.1:9")
    assert told.exit_code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9; start one with dask scheduler" in told.output
    for address in ("localhost", ""):
        told = run("fit", "a.csv", "-o", "a.npz", "--scheduler", address)
        assert f"--scheduler must be an address such as tcp://127.0.0.1:8786, got {address!r}" in told.output
        assert pytest.importorskip("dask").config.get("scheduler", None) is None  # Dask does not wait for it
    assert not Path("a.npz").exists()


def run(*arguments):
    testing, app = pytest.importorskip("typer.testing"), pytest.importorskip("itofit.cli").app
    return testing.CliRunner().invoke(app, list(arguments))


def test_nothing_of_dask_is_imported_without_a_client():
    code = (
        "import sys, numpy, itofit; x = numpy.random.default_rng(0).normal(size=100);"
        "itofit.fit(itofit.Transitions.from_pairs(x, 0.5 * x[::-1], 0.1), rng=0);"
        "import itofit.data.large.cluster, itofit.cli.machines; assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": SOURCES})


# Faults


def test_a_worker_that_is_killed_in_any_pass_changes_nothing(client, file, tmp_path, monkeypatch):
    expected, loss, text = fitted_here(file)
    trap, passes, add_up_there = tmp_path / "trap", [], Cluster.add_up

    def with_a_trap(self, stretches, function, *rest):
        trap.touch()
        total = add_up_there(self, stretches, function, *rest)
        passes.append((function.__qualname__, trap.exists()))
        return total

    monkeypatch.setattr(Cluster, "add_up", with_a_trap)
    data = parted(file, trap)
    sde = itofit.fit(data, rng=0, client=client)
    assert_same_model(sde, expected)
    assert sde.nll(data, client=client) == loss
    assert itofit.check(sde, data, client=client).text() == text
    kinds = {name.partition(".")[0] for name, _ in passes}
    assert kinds >= {"_Sums", "Plan", "followed_transitions", "floored_shares", "lag_products", "summed", "_stretches"}
    assert not any(left for _, left in passes)  # somebody died in each


def test_a_worker_that_is_killed_in_the_first_look_changes_nothing(client, file, tmp_path):
    trap = tmp_path / "trap"
    trap.touch()
    counted = PartedTransitions(parted(file, trap).parts, parted_in_one(file)[:1])
    assert on_cluster(counted, client).lengths == tuple(np.diff(CUTS))
    assert not trap.exists()


def test_partitions_that_died_with_their_worker_are_made_again(client, file):
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = client.persist(dask.from_pandas(pandas.DataFrame({"x": np.load(file)}), npartitions=4, sort=False))
    data = on_cluster(itofit.Transitions.from_dask(frame, dt=0.02, state="x"), client)
    expected = add_up(data, sum_of_inputs)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert add_up(data, sum_of_inputs) == expected


def sum_of_inputs(block, number):
    return float(block.inputs.sum())


def test_a_part_that_cannot_be_read_is_named(client, file, tmp_path):
    data = parted(file)
    data.parts[3].file = tmp_path / "not there"
    with pytest.raises(InputError, match=r"^rows 8197 to 12000 cannot be read: .* No such file or directory"):
        itofit.fit(data, rng=0, client=client)
    assert_nothing_is_done(client)


def test_data_that_change_between_passes_are_recognised(client, file, tmp_path):
    other = tmp_path / "other.npy"
    np.save(other, np.load(file) + 1.0)
    data = on_cluster(parted(file), client)
    add_up(data, lambda block, number: 0)
    data.parts[4].file = other
    with pytest.raises(InputError, match=r"^rows 12000 to 12001 has other values than in an earlier pass"):
        add_up(data, lambda block, number: 0)
    data.parts[4].stop += 1
    with pytest.raises(InputError, match=r"^rows 12000 to 12001: has 2 transitions or more and had 1 in an earlier"):
        add_up(data, lambda block, number: 0)


def test_an_interrupt_cancels_all_tasks(client, file):
    def interrupt(n_done):
        raise KeyboardInterrupt

    def slow(block, number):
        time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt):
        add_up(on_cluster(parted(file), client), slow, shown=interrupt)
    assert_nothing_is_done(client)


def assert_nothing_is_done(client):
    """Neither running nor kept, once the tasks that run are at their end, and what tests before persisted is let go."""
    gc.collect()
    for _ in range(100):
        left = client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks)))
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def test_functions_do_not_hold_the_data_or_the_client(client, file):
    data = on_cluster(parted(file), client)
    with pytest.raises(TypeError, match="cannot be sent to its own workers: the function of a pass holds its data"):
        add_up(data, lambda block, number: len(data))


def test_a_worker_that_comes_late_takes_part_and_one_without_itofit_is_named(client, scheduler, file):
    def worker(block, number):
        time.sleep(0.1)
        return [distributed.get_worker().address]

    before, names = set(client.nthreads()), []
    late = scheduler.start_worker("--no-nanny", "--nthreads", "1", "--preload", SMALL_BLOCKS, "--name", "late")
    for _ in range(100):
        names = add_up(on_cluster(parted(file), client), worker)
        if set(names) - before:
            break
    assert set(names) - before
    assert len(names) == 10
    stop(late, client, 2)
    bare = scheduler.start_worker("--no-nanny", "--nthreads", "1", "--preload", WITHOUT_ITOFIT)
    client.wait_for_workers(3, timeout=60)
    with pytest.raises(
        ClusterError, match=r"No module named .itofit.*: install there what is installed here, with pip inst"
    ):
        itofit.fit(parted(file), rng=0, client=client)
    stop(bare, client, 2)


def stop(process, client, n_left):
    process.terminate()
    process.wait()
    while len(client.nthreads()) > n_left:
        time.sleep(0.05)


# What is wrong


def test_workers_of_another_version_are_refused(client, file, monkeypatch):
    monkeypatch.setattr(passes_on_cluster, "__version__", "99.0")
    with pytest.raises(
        ClusterError, match=r"^the worker at tcp://.* has itofit .*, and this process has itofit 99.0 on"
    ):
        itofit.fit(parted(file), rng=0, client=client)


def test_data_that_workers_cannot_read_are_refused(client, file):
    blocked = itofit.Transitions.from_blocks([parted_in_one(file)])
    with pytest.raises(InputError, match=r"^client: workers cannot read these data, .* \(Transitions.from_dask\)"):
        itofit.fit(blocked, rng=0, client=client)


def test_data_in_memory_stay_there_and_the_summary_says_so(client, file):
    data = parted_in_one(file)
    sde = itofit.fit(data, rng=0, client=client)
    assert_same_model(sde, fitted_here(file)[0])
    assert re.search(r"work +all of it on the client, in whose memory the data are, in [0-9.]+ s\n", sde.summary())
    assert itofit.check(sde, data, client=client).text() == fitted_here(file)[2]


def test_a_cluster_without_workers_is_told(client, file, monkeypatch):
    monkeypatch.setattr(passes_on_cluster, "PATIENCE", 0.3)
    monkeypatch.setattr(Cluster, "_threads", lambda self: {})
    with pytest.raises(ClusterError, match=r"the cluster has had no worker for .* client.wait_for_workers\(1\)"):
        itofit.fit(parted(file), rng=0, client=client)


@pytest.mark.parametrize("client", ["tcp://127.0.0.1:8786", 5, itofit])
def test_what_is_not_a_client_is_refused(client):
    with pytest.raises(InputError, match=r"client must be a dask.distributed.Client, as Client\('tcp"):
        itofit.fit(itofit.Transitions.from_pairs(np.zeros(50), np.ones(50), 0.1), client=client)


def test_a_closed_client_is_refused(client, file):
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    other.close()
    with pytest.raises(InputError, match="client is closed: connect a new one to the scheduler"):
        itofit.fit(parted(file), client=other)


# Last, since nobody can work after it


def test_a_scheduler_that_goes_away_is_an_error_soon(client, scheduler, file):
    def leaves(n_done):
        scheduler.kill()

    def slow(block, number):
        time.sleep(0.5)

    began = time.monotonic()
    with pytest.raises(ClusterError, match="the connection to the Dask scheduler is lost, and with it the pass"):
        add_up(on_cluster(parted(file), client), slow, shown=leaves)
    assert time.monotonic() - began < 60
    with pytest.raises((ClusterError, InputError), match="connect"):
        itofit.fit(parted(file), client=client)
