"""Take entries out of the parked queue, and out of its index: for replay and purge.

Data flow: connection of its own -> pass -> each result at once to the caller; entries that left the queue
leave the index too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aio_pika.abc import AbstractConnection

from consumer.core.errors import LeveretError
from consumer.core.message.parked import ParkedEntry
from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.store import SqlStore
from topology.names import Names

FORGET_AT_ONCE: Final = 500  #: entries after which the index is brought up to date, in case of a kill -9

_T = TypeVar("_T")
Pass = Callable[[AbstractConnection, Names], AsyncGenerator[_T, None]]
"""Opens a pass over the parked queue, such as :func:`consumer.edges.operate.parked.purge`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedPlace:
    """Where the parked entries are, and their index."""

    options: AmqpOptions
    names: Names
    store: SqlStore


async def drain(place: ParkedPlace, step: Pass[_T], take: Callable[[_T], None]) -> None:
    """Run *step* over a connection of its own, and pass each result to *take* at once.

    So the finished part is known if the broker fails midway.

    Raises:
        BrokerUnavailable: from *step*.
        OSError: from *step*.
    """
    gone: dict[str, float] = {}
    connection = await connect(place.options, "parked")
    try:
        async with aclosing(step(connection, place.names)) as done:
            async for one in done:
                take(one)
                if isinstance(one, ParkedEntry):
                    gone[one.id] = one.parked_at
                if len(gone) >= FORGET_AT_ONCE:
                    await _forget(place.store, gone)
                    gone.clear()
    finally:
        await close_quietly(connection)
        await _forget(place.store, gone)


async def _forget(store: SqlStore, gone: Mapping[str, float]) -> None:
    """Remove *gone* from the index of parked entries; if the store is away, this happens later."""
    with suppress(LeveretError):
        await store.forget_parked(gone)
