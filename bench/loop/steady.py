"""A steady load of events on a cluster, which goes on while nodes are away, and a record of each publish."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import aiormq

from bench.sink import Seen
from tests.support.broker.load import (
    EventSpec,
    NotConfirmedError,
    connect,
    make_events,
    publish_one,
    quiet,
)
from tests.support.cluster.cluster import Cluster

PER_SECOND = 60
TRIES_S = 0.5  #: pause after a publish that was not confirmed
CONFIRM_S = 10.0  #: then the publisher repeats the event, as the contract asks of an application

_FAILURES = (OSError, aiormq.AMQPError, asyncio.InvalidStateError, TimeoutError, NotConfirmedError)


@dataclass(slots=True)
class Published:
    """The publisher's own record."""

    confirmed: dict[str, float] = field(default_factory=dict)  #: event id -> Unix seconds of its confirm
    tries: Counter[str] = field(default_factory=Counter)  #: event id -> publishes; each may arrive


class Steady:
    """An application that publishes to any node that it reaches, and repeats each publish without a confirm.

    Args:
        cluster: Where it publishes.
        prefix: Begins the id of each event.
    """

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._stop = asyncio.Event()
        self._count = 0
        self._open: set[asyncio.Task[None]] = set()
        self._link: tuple[aiormq.abc.AbstractConnection, aiormq.abc.AbstractChannel] | None = None
        self._link_lock = asyncio.Lock()
        self.published = Published()

    async def run(self) -> None:
        """Publish until :meth:`finish`; return when every event is confirmed."""
        quiet()
        began = time.monotonic()
        while not self._stop.is_set():
            while self._count < (time.monotonic() - began) * PER_SECOND:
                event = self._next()
                task = asyncio.create_task(self._publish(event))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
            await asyncio.sleep(1 / PER_SECOND)
        while self._open:
            await asyncio.wait(self._open)
        await self._drop(self._link)

    def finish(self) -> None:
        """Publish no further events."""
        self._stop.set()

    def _next(self) -> EventSpec:
        number = self._count
        self._count += 1
        [event] = make_events(f"{self._prefix}_{number:06d}", 1, size=300)
        return event

    async def _publish(self, event: EventSpec) -> None:
        """Publish one event until it is confirmed."""
        while True:
            link = None
            try:
                link = await self._channel()
                self.published.tries[event.id] += 1
                await asyncio.wait_for(publish_one(link[1], event), CONFIRM_S)
            except _FAILURES:
                # A refusal may last as long as the channel (docs/brokers.md): end the channel.
                await self._drop(link)
                await asyncio.sleep(TRIES_S)
                continue
            self.published.confirmed[event.id] = time.time()
            return

    async def _channel(self) -> tuple[aiormq.abc.AbstractConnection, aiormq.abc.AbstractChannel]:
        """Return the open channel, or open one at the first node that takes it."""
        async with self._link_lock:
            if self._link is not None and not self._link[0].is_closed and not self._link[1].is_closed:
                return self._link
            for node in self._cluster.running:
                with suppress(*_FAILURES):
                    connection = await asyncio.wait_for(connect(node.url), 5)
                    self._link = (connection, await connection.channel(publisher_confirms=True))
                    return self._link
            raise ConnectionError("no node takes a connection")

    async def _drop(
        self, link: tuple[aiormq.abc.AbstractConnection, aiormq.abc.AbstractChannel] | None
    ) -> None:
        """Close a link once."""
        if link is None or link is not self._link:
            return
        self._link = None
        with suppress(Exception):
            await asyncio.wait_for(link[0].close(), 2)


def chains_of(seen: Sequence[Seen]) -> Mapping[tuple[str, str], Sequence[Seen]]:
    """Return the requests of each pair of event and subscription, by time."""
    chains: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.began):
        chains[one.id, one.path].append(one)
    return chains


def overlap_s(start: float, end: float, spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds of *start* to *end* that are within *spans*, which do not overlap."""
    return sum(max(0.0, min(end, last) - max(start, first)) for first, last in spans)
