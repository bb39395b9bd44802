"""Work on the rows of large arrays in chunks, on all cores, with the same result on any number of them.

NumPy's elementary functions use one core, its matrix products all of them. Splitting the rows over threads, each with
products on one core, keeps every core busy in both. The rows are cut into chunks whose number does not depend on the
threads, and the chunks' results are combined in order, so rounding does not depend on the threads either.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice, pairwise
from threading import Lock, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")

BLOCK_ROWS = 1024  # a block of 2K = 256 features is 2 MB: it stays in the cache between its uses
CHUNK_ROWS = 2048  # fewer are not worth a thread
MAX_CHUNKS = 8  # for machines of up to eight cores; more chunks of one block would be short
RESULT_BYTES = 150_000_000  # of all chunks together
LEAST_TASK = 4_000_000  # multiplications, a third of a millisecond or so; less is not worth a thread


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(process: int, n_threads: int, level: str = "chunks") -> ThreadPoolExecutor:
    """The threads of this process; keyed by its id because a forked child inherits none.

    Work on a block waits for that on its chunks, so each level has threads of its own.
    """
    return ThreadPoolExecutor(n_threads, thread_name_prefix="itofit")


def _blas_limits() -> list[int]:
    """How many threads each BLAS library may use; what the machine has if there is none."""
    limits = [library.num_threads for library in _controller().lib_controllers if library.user_api == "blas"]
    return limits or [os.cpu_count() or 1]


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.7 and later ignore all threads but the first that did."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class _OneBlasThread:
    """A context that may be entered again, also by other threads: the first sets the limit, the last lifts it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.depth = 0
        self.allowed = 1  # what BLAS might use before the first entered
        self.limiter: Any = None  # none where BLAS is on one core anyway

    def __enter__(self) -> None:
        with self.lock:
            if self.depth == 0:
                limits = _blas_limits()
                self.allowed = min(limits)
                if max(limits) > 1:
                    _take_control()
                    self.limiter = _controller().limit(limits=1, user_api="blas")
            self.depth += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0 and self.limiter is not None:
                _take_control()
                self.limiter.restore_original_limits()
                _take_control()
                self.limiter = None

    def after_fork(self) -> None:
        """Forget, in a child, the threads of the parent that were inside."""
        self.lock = Lock()
        self.depth = 0
        if self.limiter is not None:
            self.limiter.restore_original_limits()
            self.limiter = None


one_blas_thread = _OneBlasThread()
"""Matrix products on one core within this context; the user's setting comes back afterwards."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)


_here = local()


@contextmanager
def one_thread() -> Iterator[None]:
    """All work on the thread that calls it within this context, with matrix products on one core.

    For work that is one of many pieces already, as on a cluster, whose workers have a thread for each core.
    """
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        with one_blas_thread:
            yield
    finally:
        _here.alone = before


def n_threads() -> int:
    """How many threads to use: the cores of this process, or fewer if the user has limited BLAS to fewer."""
    if getattr(_here, "alone", False):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, one_blas_thread.allowed if one_blas_thread.depth else min(_blas_limits()))


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Blocks of BLOCK_ROWS rows: what is made of the features of each stays in the cache until it is used."""
    return (slice(start, start + BLOCK_ROWS) for start in range(0, n_rows, BLOCK_ROWS))


def map_chunks(
    work: Callable[[slice], T],
    n_rows: int,
    result_bytes: int = 1,
    chunk_rows: int = CHUNK_ROWS,
    level: str = "chunks",
) -> list[T]:
    """`work` on each chunk of `n_rows` rows, in parallel; the results in the order of the rows.

    The number of chunks depends on `n_rows` and on the size of one result alone, which bounds the memory of all.
    Work that may be part of a chunk itself needs threads of another level.
    """
    n_chunks = max(1, min(MAX_CHUNKS, n_rows // chunk_rows, RESULT_BYTES // result_bytes))
    chunks = [slice(a, b) for a, b in pairwise(n_rows * i // n_chunks for i in range(n_chunks + 1))]
    threads = min(n_threads(), n_chunks) if n_chunks > 1 else 1
    with one_blas_thread:
        if threads == 1:
            return [work(chunk) for chunk in chunks]
        return list(_pool(os.getpid(), threads, level).map(work, chunks))


def map_tasks(work: Callable[[int], T], tasks: Sequence[int], multiplications: int) -> list[T]:
    """`work` on each of a few independent tasks, in parallel if each takes enough multiplications to be worth it."""
    threads = min(n_threads(), len(tasks)) if multiplications >= LEAST_TASK else 1
    with one_blas_thread:
        if threads <= 1:
            return [work(task) for task in tasks]
        return list(_pool(os.getpid(), threads).map(work, tasks))


def map_in_order(work: Callable[[S], T], items: Iterable[S], *, threads: bool) -> Iterator[T]:
    """`work` on each item, on several threads if they may be used; the results in order, few items ahead of them."""
    n = n_threads() if threads else 1
    if n == 1:
        yield from map(work, items)
        return
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) < 2:  # not worth a thread
        yield from map(work, first)
        return
    waiting: deque[Future[T]] = deque()
    pool = _pool(os.getpid(), n, "blocks")
    with one_blas_thread:
        for item in chain(first, rest):
            waiting.append(pool.submit(work, item))
            if len(waiting) > n:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
