"""Passes on a Dask cluster.

A pass is one graph. Its leaves are stretches of blocks, each read and added up by a worker on one thread; their sums,
kilobytes to a few megabytes, are joined by eights, in the order of the blocks:

    function ─┬─ stretch 0 ─┐
              ├─ stretch 1 ─┼─ join ─┐
              ├─ ...        ┘        ├─ join ── the client
              └─ stretch n ─── join ─┘

The function and what it holds are one node, which travels from worker to worker. Everything can be made again, so a
worker that dies costs what it had done. Sums are those of `large/tree_sums.py`: the same to the last bit on any
number of workers, and without a cluster. Of this module nothing is imported without a client.
"""

from __future__ import annotations

import platform
import time
import uuid
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, NamedTuple, TypeVar

from itofit._blocks import one_thread
from itofit._checks import Either, InputError, Option
from itofit._version import __version__
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.packing import Client, Future, packed, unpacked
from itofit.data.large.parts import PartedTransitions
from itofit.data.passes import Data, Done, Shown, Stretched, sums_of_stretch

__all__ = ["Client", "Cluster", "ClusterError", "Pass", "checked_client", "on_cluster"]

D = TypeVar("D", bound=Data)
S = TypeVar("S")
T = TypeVar("T")

SPLIT_EVERY = 8
"""Partial sums that are joined at once: the tree of a pass over 50,000 stretches is six levels deep."""
TASKS_PER_THREAD = 16
"""Of work on many small items, which are put together in bundles."""
PAUSE = 0.1
"""Seconds between two looks at a pass."""
PATIENCE = 60.0
"""Seconds without any worker after which it is given up."""


class ClusterError(RuntimeError):
    """A cluster cannot do its work; the message says what to do."""


class Software(NamedTuple):
    """What must be the same everywhere for a function to be sent."""

    itofit: str
    python: str

    @classmethod
    def here(cls) -> Software:
        """That of this process."""
        return cls(__version__, ".".join(platform.python_version_tuple()[:2]))

    def __str__(self) -> str:
        return f"itofit {self.itofit} on Python {self.python}"


class Cluster:
    """Adds up on the workers of a Dask client.

    Parameters
    ----------
    client : distributed.Client
        Connected. Its workers have the same version of itofit, and read the same files by the same names.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.n_passes = self.n_workers = 0  # what was done so far, and by how many at most
        self.seconds = 0.0
        self._check_workers()

    def __reduce__(self) -> Any:  # noqa: ANN401
        raise TypeError("a cluster cannot be sent to its own workers: the function of a pass holds its data")

    @property
    def n_threads(self) -> int:
        """Threads of all workers."""
        threads = self._threads()
        self.n_workers = max(self.n_workers, len(threads))
        return max(1, sum(threads.values()))

    def add_up(
        self, stretches: Sequence[Stretched], function: Callable[[Any, int], T], most_rows: int | None, shown: Shown
    ) -> Done:
        """The sums over all stretches, in one graph."""
        own = Pass(function, most_rows, f"itofit-{uuid.uuid4().hex[:12]}")
        began = time.monotonic()
        total: Done = self._told(own.graph(stretches, self.client), own.name, shown)
        shown(total.n_rows)
        self.n_passes, self.seconds = self.n_passes + 1, self.seconds + time.monotonic() - began
        return total

    def run(self, function: Callable[[S], T], items: Sequence[S], shown: Shown = lambda n_done: None) -> list[T]:
        """The result of a function for each item, in order."""
        items = list(items)
        if not items:
            return []
        name = f"itofit-{uuid.uuid4().hex[:12]}"
        size = max(1, len(items) // (TASKS_PER_THREAD * self.n_threads))
        bundles = [items[i : i + size] for i in range(0, len(items), size)]
        graph: dict[Any, Any] = {(name, "function"): packed(function, self.client).data}
        for i, bundle in enumerate(bundles):
            own = packed(bundle, self.client)
            graph[name + "-bundle", i] = (do_bundle, (name, "function"), *own, name, i, Software.here())
        results: list[T] = self._told(graph | tree(name + "-bundle", len(bundles), join_lists, name), name, shown)
        return results

    def _told(self, graph: dict[Any, Any], name: str, shown: Shown) -> Any:  # noqa: ANN401
        """The total of a graph of some name; meanwhile it is shown how much is done."""
        done: dict[int, int] = {}

        def told(event: tuple[float, tuple[int, int]]) -> None:
            number, n = event[1]
            done[number] = n  # it may be done twice

        self.client.subscribe_topic(name, told)
        try:
            return self._result(graph, name + TOTAL, lambda: shown(sum(list(done.values()))))
        finally:
            self.client.unsubscribe_topic(name)

    def _result(self, graph: dict[Any, Any], key: str, look: Callable[[], None]) -> Any:  # noqa: ANN401
        """What a graph has at a key; its tasks are cancelled if that is interrupted."""
        import dask  # noqa: PLC0415  (an extra)

        self._wait_for_workers()
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):  # many stretches, no data
            future: Future = self.client.get(graph, key, sync=False)
        finished = Event()
        future.add_done_callback(lambda future: finished.set())
        try:
            alive = time.monotonic()
            while not finished.wait(PAUSE):
                look()
                if time.monotonic() - alive > PATIENCE / 2:
                    self._wait_for_workers()
                    alive = time.monotonic()
            return self._outcome(future)
        except BaseException:
            future.cancel()
            raise
        finally:
            future.release()  # what an error that somebody keeps refers to

    def _outcome(self, future: Future) -> Any:  # noqa: ANN401
        from distributed import KilledWorker  # noqa: PLC0415  (an extra)
        from distributed.client import FutureCancelledError  # noqa: PLC0415

        try:
            return future.result()
        except FutureCancelledError as error:
            raise ClusterError(f"{LOST} ({error.msg or error.reason})") from None
        except KilledWorker as error:
            raise ClusterError(
                f"several workers died at the same piece of the data, the last one at {error.last_worker.address}: "
                "they may have too little memory for it (about 1 GB a thread is enough), or their logs say why"
            ) from None
        except ModuleNotFoundError as error:
            raise _cannot_work("a worker", error) from None

    # Workers

    def _threads(self) -> dict[str, int]:
        """Threads of each worker."""
        if self.client.status != "running":
            raise ClusterError(LOST)
        try:
            threads: dict[str, int] = self.client.nthreads()
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"{LOST} ({error})") from None
        return threads

    def _wait_for_workers(self) -> None:
        """Wait until there is a worker; raise if there is none for long."""
        began = time.monotonic()
        while not self._threads():
            if time.monotonic() - began > PATIENCE:
                raise ClusterError(
                    f"the cluster has had no worker for {PATIENCE:.0f} seconds: start some, and wait for them with "
                    "client.wait_for_workers(1) if that takes longer"
                )
            time.sleep(PAUSE)

    def _check_workers(self) -> None:
        """Raise unless all workers have the same version of itofit as this process."""
        self._wait_for_workers()
        own = Software.here()
        found: dict[str, Any] = self.client.run(Software.here, on_error="return")
        for address, software in found.items():
            if isinstance(software, BaseException):
                raise _cannot_work(f"the worker at {address}", software) from None
            if software != own:
                raise _other_software(f"the worker at {address}", software, own)


TOTAL = "-total"
"""The end of the key of a graph's result."""
LOST = (
    "the connection to the Dask scheduler is lost, and with it the pass that it was at: see whether it still runs, "
    "connect to it or to another one with a new Client, and start again"
)


class Pass(NamedTuple):
    """A pass that is to be sent."""

    function: Callable[[Any, int], Any]
    most_rows: int | None
    name: str

    def graph(self, stretches: Sequence[Stretched], client: Client) -> dict[Any, Any]:
        """Its tasks."""
        software, function = Software.here(), (self.name, "function")
        graph: dict[Any, Any] = {function: packed((self.function, self.most_rows), client).data}
        for i, stretch in enumerate(stretches):
            graph[self.name + "-stretch", i] = (do_stretch, function, *packed(stretch, client), self.name, software)
        return graph | tree(self.name + "-stretch", len(stretches), join_done, self.name)


def tree(leaves: str, n: int, join: Callable[[list[Any]], Any], name: str) -> dict[Any, Any]:
    """Tasks that join n others, called (leaves, 0), (leaves, 1), ..., by eights and in order: the last is the total."""
    graph: dict[Any, Any] = {}
    level, below = 0, [(leaves, i) for i in range(n)]
    while len(below) > SPLIT_EVERY:
        level += 1
        own = [(f"{name}-join-{level}", i) for i in range(-(-n // SPLIT_EVERY**level))]
        for i, key in enumerate(own):
            graph[key] = (join, below[i * SPLIT_EVERY : (i + 1) * SPLIT_EVERY])
        below = own
    graph[name + TOTAL] = (join, below)
    return graph


# What workers do


def do_stretch(work: bytes, stretch: bytes, held: list[Any], topic: str, software: Software) -> Done:
    """Add up a stretch, and tell whoever listens."""
    from distributed import get_worker  # noqa: PLC0415  (an extra)

    _check_software(software)
    function, most_rows = unpacked(work)
    own: Stretched = unpacked(stretch, held)
    with one_thread():
        done = sums_of_stretch(own, function, most_rows)
    get_worker().log_event(topic, (own.first, done.n_rows))
    return done


def do_bundle(work: bytes, bundle: bytes, held: list[Any], topic: str, number: int, software: Software) -> list[Any]:
    """The result of a function for each of some items."""
    from distributed import get_worker  # noqa: PLC0415  (an extra)

    _check_software(software)
    function = unpacked(work)
    with one_thread():
        results = [function(item) for item in unpacked(bundle, held)]
    get_worker().log_event(topic, (number, len(results)))
    return results


def join_done(parts: list[Done]) -> Done:
    """Sums over stretches that follow each other."""
    total, *rest = parts
    with one_thread():
        for part in rest:
            total = total.plus(part)
    return total


def join_lists(parts: list[list[Any]]) -> list[Any]:
    """Lists one after the other."""
    return [item for part in parts for item in part]


def _check_software(expected: Software) -> None:
    """Raise unless this process, a worker that may have come late, has the software of the client."""
    if (own := Software.here()) != expected:
        raise _other_software("a worker", own, expected)


def _other_software(who: str, software: Software, own: Software) -> ClusterError:
    return ClusterError(f"{who} has {software}, and this process has {own}: both must have the same versions")


def _cannot_work(who: str, error: BaseException) -> ClusterError:
    """The error for a worker that fails at the first question, most likely since it has no itofit."""
    if "No module named" not in str(error):
        return ClusterError(f"{who} cannot work: {error}")
    return ClusterError(
        f"{who} lacks a package ({error}): install there what is installed here, with pip install "
        f'"itofit[dask,data]=={__version__}" or client.register_plugin(distributed.PipInstall([...])), and start again'
    )


# Data


def on_cluster(data: D, client: object) -> D:
    """The same data, passes over which run on the workers of a Dask client; data in memory stay where they are.

    Parameters
    ----------
    data : Data
    client : distributed.Client or None
        None: passes run where they would run without one.
    """
    if client is None:
        return data
    connected = checked_client(client)
    if isinstance(data, PartedTransitions):
        return data.on(Cluster(connected))  # type: ignore[return-value]
    if isinstance(data, BlockedTransitions):
        raise InputError(
            "{client}: workers cannot read these data, which come block by block from one source; {advice}",
            client=Option("client"),
            advice=Either(
                python="they can read Parquet and CSV files and directories of these (read_transitions), Dask data "
                "frames (Transitions.from_dask), and parts of your own (itofit.data.large.parts.PartedTransitions)",
                command="they can read Parquet and CSV files and directories of these",
            ),
        )
    return data


def checked_client(client: Any) -> Client:  # noqa: ANN401
    """A Dask client that is connected."""
    kind = type(client)
    if not any(f"{base.__module__}.{base.__name__}" == "distributed.client.Client" for base in kind.__mro__):
        raise InputError(
            "{client} must be a dask.distributed.Client, as Client('tcp://scheduler:8786'), got {got}",
            client=Option("client"),
            got=f"{client!r}" if isinstance(client, str) else kind.__name__,
        )
    if client.asynchronous:
        text = "{client} is asynchronous, and fit is not: make one without asynchronous=True"
        raise InputError(text, client=Option("client"))
    if client.status != "running":
        text = "{client} is {status}: connect a new one to the scheduler"
        raise InputError(
            text, client=Option("client"), status="closed" if client.status == "closed" else "not connected"
        )
    return client
