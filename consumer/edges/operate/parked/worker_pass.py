"""Take the parked entries in hand for a replay job. Implements :class:`consumer.parked_ports.ParkedPass`.

Data flow: leveret.parked -> entries of the job -> send: leveret.due or leveret.events, confirmed -> ack.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import replace

from consumer.core.message.jobs import ReplayJob
from consumer.core.message.parked import ParkedEntry
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    close_quietly,
    connect,
)
from consumer.edges.broker.look import completed
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.operate.parked.lock import Turn, parked_look
from consumer.edges.operate.parked.queue import (
    Found,
    Skipped,
    entries_of,
    fitting,
    moved,
    opened,
    publication,
)
from consumer.parked_ports import HeldEntry
from consumer.ports import Publication
from topology.names import Names

_NOT_COMPARED = "the filter of the job cannot be compared with it"


class BrokerParkedPass:
    """Reaches the parked queue over a connection of its own, which ends with the pass."""

    def __init__(self, options: AmqpOptions, names: Names) -> None:
        self._options = options
        self._names = names

    async def entries(
        self, job: ReplayJob, subscriptions: Mapping[str, str]
    ) -> AsyncGenerator[HeldEntry | None, None]:
        """Yield the entries of *job*; see :meth:`consumer.parked_ports.ParkedPass.entries`."""
        names, turn = self._names, Turn(command=f"leveret run, job {job.id}")
        connection = await connect(self._options, "jobs")
        try:
            writing = Confirms(await opened(connection))
            async with parked_look(connection, names, turn) as look:
                async for found in entries_of(look):
                    if not isinstance(found, Found):
                        continue
                    is_wanted = job.may_want(found.entry)
                    if is_wanted is None:
                        yield _held(found, Skipped(found.entry.id, _NOT_COMPARED), writing)
                    elif is_wanted:
                        again = _addressed(found.entry, job, names, subscriptions)
                        yield _held(found, fitting(again, found.entry, writing), writing)
                yield None
        finally:
            with suppress(*CONNECTION_ERRORS):
                await close_quietly(connection)


def _held(found: Found, again: Publication | Skipped, writing: Confirms) -> HeldEntry:
    async def send() -> None:
        if not isinstance(again, Skipped) and await completed(moved(found, again, writing)):
            raise asyncio.CancelledError

    return HeldEntry(found.entry, again.reason if isinstance(again, Skipped) else None, send)


def _addressed(
    entry: ParkedEntry, job: ReplayJob, names: Names, subscriptions: Mapping[str, str]
) -> Publication | Skipped:
    """Return the publication for *entry*, redirected if the job asks for it."""
    if job.to is None:
        return publication(entry, names, subscriptions)
    if entry.delivery is None:
        return Skipped(entry.id, "a message that never became an event has no delivery to redirect")
    if subscriptions.get(job.to) != entry.delivery.event.tenant:
        return Skipped(entry.id, f"its tenant has no subscription {job.to}")
    redirected = replace(entry, delivery=replace(entry.delivery, targets=(job.to,)))
    return publication(redirected, names, subscriptions)
