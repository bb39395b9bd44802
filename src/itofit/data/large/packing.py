"""What is sent to the workers of a Dask cluster, as bytes; what the cluster holds already is referred to.

A partition of a data frame that was persisted is a future: it stays with the workers, and a task that needs it depends
on it. So in the bytes of a task there is a number in its place, and the partition itself comes from worker to worker:

    packed(thing, client)  →  bytes with numbers, futures          unpacked(bytes, what these are)  →  thing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from threading import local
from typing import Any, NamedTuple, TypeAlias

from itofit._checks import InputError

Client: TypeAlias = Any
"""A distributed.Client."""
Future: TypeAlias = Any
"""A distributed.Future."""


class Packed(NamedTuple):
    """Something to send, and what the cluster holds of it."""

    data: bytes
    held: list[Future]


class Arrived(NamedTuple):
    """What a worker has in place of a future."""

    value: Any


def packed(thing: object, client: Client) -> Packed:
    """Something to send; paths relative to the directory of this process become absolute."""
    cloudpickle = import_module("cloudpickle")  # it comes with Dask
    held: dict[Any, Future] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, each: Any) -> Any:  # noqa: ANN401
            if isinstance(each, Path) and not each.is_absolute():
                return type(each), (str(each.absolute()),)
            if is_future(each):
                held.setdefault(each.key, each)
                return _arrived, (list(held).index(each.key),)
            return super().reducer_override(each)

    target = BytesIO()
    Pickler(target).dump(thing)
    return Packed(target.getvalue(), [_known_to(client, future) for future in held.values()])


def _known_to(client: Client, future: Future) -> Future:
    """A future as one of this client; raise if it is at another cluster."""
    if future.client is client:
        return future
    if future.client.status != "running" or future.client.scheduler.address != client.scheduler.address:
        raise InputError(
            "the frame was persisted on another cluster than that of the client, or its own client is closed: persist "
            "it on this one, or give the frame as it was before persist()"
        )
    return type(future)(future.key, client=client)


def is_future(value: object) -> bool:
    """Whether a value is a future of a Dask cluster; nothing is imported for that."""
    kind = type(value)
    return kind.__name__ == "Future" and kind.__module__ == "distributed.client"


_HERE = local()


def unpacked(data: bytes, held: Sequence[object] = ()) -> Any:  # noqa: ANN401
    """What was sent, with what the cluster held in place of futures."""
    with _arriving(held):
        return import_module("cloudpickle").loads(data)


@contextmanager
def _arriving(held: Sequence[object]) -> Iterator[None]:
    _HERE.held = held
    try:
        yield
    finally:
        del _HERE.held


def _arrived(number: int) -> Arrived:
    return Arrived(_HERE.held[number])
