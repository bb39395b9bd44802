"""Processes that do not outlive the one that started them, however that one ends."""

from __future__ import annotations

import multiprocessing
import os
from threading import Thread
from typing import Any


def end_with_parent() -> None:
    """Let this process end as soon as the process that started it has, also if that was killed.

    A process that is killed cannot end its children. So each of them waits for its end, in a thread of its own. It is
    what pools and managers call first in their processes.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:  # noqa: ANN401
    parent.join()
    os._exit(1)
