"""Options that say which machines make the passes over the data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from itofit._checks import InputError
from itofit.cli.arguments import check_installed
from itofit.data.large.cluster import Client

LEAVES_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What a worker begins with: Ctrl-C goes to all processes of a terminal, and the client ends the others."""
CONNECTING = 10.0
"""Seconds after which a scheduler that does not answer is given up."""


@dataclass(frozen=True)
class Machines:
    """Where passes over the data run: a group of options of every command that makes many."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, whose workers make all passes over the data.", metavar="TCP://HOST:PORT"
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Start so many workers on this machine, which make all passes.")
    ] = None

    def __bool__(self) -> bool:
        return self.scheduler is not None or self.workers is not None

    @contextmanager
    def client(self) -> Iterator[Client | None]:
        """A client that is connected to them; None if none were asked for."""
        if not self:
            yield None
            return
        if self.scheduler is not None and self.workers is not None:
            raise InputError("give --scheduler for workers that run, or --workers to start some, not both")
        check_installed("distributed", "dask", "--workers" if self.scheduler is None else "--scheduler")
        distributed = import_module("distributed")
        if self.scheduler is None:
            with (
                _local_cluster(self.workers or 1) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                yield client
            return
        try:
            connection = distributed.Client(self.scheduler, timeout=CONNECTING, set_as_default=False)
        except (AssertionError, ValueError) as error:  # of Dask, for an empty address and one without a port
            raise InputError(
                f"--scheduler must be an address such as tcp://127.0.0.1:8786, got {self.scheduler!r} "
                f"({_first_line(error)})"
            ) from None
        except (OSError, TimeoutError, RuntimeError) as error:
            raise InputError(
                f"no Dask scheduler answers at {self.scheduler}; start one with dask scheduler, and workers with dask "
                f"worker {self.scheduler} ({_first_line(error)})"
            ) from None
        with connection as client:
            yield client


def _local_cluster(n: int) -> Any:  # noqa: ANN401
    """Workers on this machine, a process with one thread each."""
    return import_module("distributed").LocalCluster(
        n_workers=n,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
        preload=[LEAVES_INTERRUPTS],
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
