"""Dask data frames: every partition is a section, computed where it is read.

A section holds the part of the frame's graph that its partition follows from, so that it can be sent to any worker,
and nothing of a partition comes to the client but the ends of its tracks. Partitions that were persisted stay with the
workers that hold them (`large/packing.py`). Only the columns that are needed are asked
for, which readers of Parquet files make use of.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np

from itofit._checks import InputError, Option
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.large.packing import Arrived, is_future
from itofit.data.large.parts import PartedTransitions
from itofit.data.reading.crossing import Section
from itofit.data.reading.track_plan import parted
from itofit.data.step_limits import StepLimits

Graph = dict[Any, Any]


def transitions_of_dask(frame: Any, layout: Layout, limits: StepLimits) -> PartedTransitions:  # noqa: ANN401
    """Transitions from a Dask data frame with a row for each observation."""
    if not (hasattr(frame, "__dask_graph__") and hasattr(frame, "npartitions") and getattr(frame, "ndim", 0) == 2):
        text = "{frame} must be a Dask data frame, got {got}; others go to Transitions.from_dataframe"
        raise InputError(text, frame=Option("frame"), got=type(frame).__name__)
    table = Table({name: np.zeros(0) for name in frame.columns})
    if repeated := [name for name in layout.columns if list(frame.columns).count(name) > 1]:
        raise InputError(f"there are several columns called {repeated[0]!r}; rename them")
    for name, argument in layout.columns.items():
        if name not in table.columns and name == frame.index.name:
            raise table.no_such_column(argument, name, " (it is the index: use frame.reset_index())")
        table.check(argument, name)
    return parted(partitions(frame, list(layout.columns)), layout, limits)


def partitions(frame: Any, columns: list[Hashable]) -> list[Section]:  # noqa: ANN401
    """The partitions of some columns of a frame, as sections."""
    core, optimization = (optional(f"dask.{name}", "a Dask data frame") for name in ("core", "optimization"))
    chosen = frame[columns].optimize()
    graph = dict(chosen.__dask_graph__())
    keys = list(core.flatten(chosen.__dask_keys__()))
    own = (dict(optimization.cull(graph, [key])[0]) for key in keys)
    return [
        DaskPartition(part, key, number, len(keys)) for number, (part, key) in enumerate(zip(own, keys, strict=True))
    ]


class DaskPartition:
    """A partition of a Dask data frame.

    Parameters
    ----------
    graph : dict
        All tasks that it follows from; they may be futures of a cluster that holds them.
    key : object
        Its own key.
    number, n_partitions : int
        Which it is, from 0, of how many.
    """

    def __init__(self, graph: Graph, key: object, number: int, n_partitions: int) -> None:
        self.graph, self.key, self.number, self.n_partitions = graph, key, number, n_partitions

    @property
    def name(self) -> str:
        """Its number."""
        return f"partition {self.number} of {self.n_partitions}"

    @property
    def units(self) -> list[str]:
        """Itself."""
        return [self.name]

    @property
    def sources(self) -> list[str]:
        """All partitions are of one frame."""
        return [""]

    @property
    def dask_frame(self) -> str:
        """What the frame is called here."""
        return "frame"

    def pieces(self) -> list[Section]:
        """Itself."""
        return [self]

    def first_rows(self, layout: Layout, n_rows: int) -> Table | None:
        """Those of the partition, which is computed as a whole."""
        table = self._table()
        return None if n_rows >= table.n_rows else Table(table.frame.iloc[:n_rows], table.place)

    def tables(self, layout: Layout) -> Iterator[tuple[int, Table]]:
        """Its rows in one table."""
        yield 0, self._table()

    def _table(self) -> Table:
        try:
            frame = self._computed()
        except Exception as error:  # whatever may happen in the user's graph
            problem = f"{type(error).__name__}: {error}".strip()
            raise InputError(f"{self.name} cannot be computed: {problem}") from error
        return Table(frame, partial(_row, self.name))

    def _computed(self) -> Any:  # noqa: ANN401
        graph = {key: _here(key, task) for key, task in self.graph.items()}
        return optional("dask", "a Dask data frame").get(graph, self.key)


def _here(key: object, task: Any) -> Any:  # noqa: ANN401
    """A task that can be done here: the data of one that a cluster has done already."""
    if not is_future(task) and not isinstance(task, Arrived):
        return task
    value = task.value if isinstance(task, Arrived) else task.result()
    return optional("dask._task_spec", "a Dask data frame").DataNode(key, value)


def _row(name: str, position: int) -> str:
    return f"row {position} of {name}"
