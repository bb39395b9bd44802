"""Work on the rows of large arrays in blocks, on all cores, with the same result on any number of them.

NumPy's elementary functions use one core, its matrix products all of them. Splitting the rows over threads, each with
products on one core, keeps every core busy in both. The rows are cut into a fixed number of chunks and the chunks'
results are combined in order, so rounding does not depend on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

BLOCK_ROWS = 1024  # a block of 2K = 256 features is 2 MB: it stays in the cache between its uses
MAX_CHUNKS = 8


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """The threads of this process; keyed by its id because a forked child inherits none."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="itofit")


def one_blas_thread() -> AbstractContextManager[object]:
    """Matrix products on one core within this context; the user's setting comes back afterwards."""
    manager: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return manager


def n_threads() -> int:
    """How many threads to use: the cores of this process, or fewer if the user has limited BLAS to fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = [library.num_threads for library in _controller().lib_controllers if library.user_api == "blas"]
    return min([cores, *allowed])


def blocks(rows: slice) -> Iterator[slice]:
    """The blocks of at most `BLOCK_ROWS` rows of a range."""
    for start in range(rows.start, rows.stop, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, rows.stop))


def map_chunks(work: Callable[[slice], T], n_rows: int) -> list[T]:
    """`work` on each chunk of `n_rows` rows, in parallel; the results in the order of the rows."""
    n_blocks = -(-n_rows // BLOCK_ROWS)
    n_chunks = max(1, min(MAX_CHUNKS, n_blocks))
    bounds = [n_rows * i // n_chunks for i in range(n_chunks + 1)]
    chunks = [slice(a, b) for a, b in pairwise(bounds)]
    threads = min(n_threads(), n_chunks)
    with one_blas_thread():
        if threads == 1:
            return [work(chunk) for chunk in chunks]
        return list(_pool(os.getpid(), threads).map(work, chunks))
