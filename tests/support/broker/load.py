"""Publish events as the application of a user would, and count messages in queues from outside.

The publisher keeps each event, with its ``message_id``, until the broker has confirmed it, and repeats
unconfirmed ones after a lost connection, as the outside contract requires of an application.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import time
import urllib.parse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiormq
import pamqp.commands

from tests.support.processes.children import fetch

EXCHANGE = "leveret.events"
BATCH = 400  #: publishes that wait for their confirms together


class NotConfirmedError(Exception):
    """The broker did not take an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpec:
    """One event to publish."""

    id: str
    tenant: str
    type: str
    body: bytes


def make_events(
    prefix: str, count: int, *, tenants: int = 1, size: int = 1000, kind: str = "order.created"
) -> list[EventSpec]:
    """Return *count* events of type *kind* with bodies of about *size* bytes, round robin over *tenants*."""
    filler = "x" * max(0, size - 60)
    return [
        EventSpec(
            id=f"{prefix}_{index:06d}",
            tenant=f"t{index % tenants:02d}",
            type=kind,
            body=json.dumps({"number": index, "note": filler}, separators=(",", ":")).encode(),
        )
        for index in range(count)
    ]


def secret_of(name: str) -> str:
    """Return the ``whsec_`` secret of a proof's subscription, fixed by its name."""
    return "whsec_" + base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()


async def connect(url: str) -> aiormq.abc.AbstractConnection:
    """Open one plain AMQP connection."""
    connection = aiormq.Connection(url)
    await asyncio.wait_for(connection.connect(), 10)
    return connection


async def publish(url: str, events: Sequence[EventSpec], exchange: str = EXCHANGE) -> None:
    """Publish *events* and return when all are confirmed, however often the broker goes away."""
    left = list(events)
    while left:
        try:
            connection = await connect(url)
        except (OSError, aiormq.AMQPError, TimeoutError):
            await asyncio.sleep(0.5)
            continue
        try:
            channel = await connection.channel(publisher_confirms=True)
            while left:
                batch = left[:BATCH]
                results = await asyncio.gather(
                    *(publish_one(channel, event, exchange) for event in batch), return_exceptions=True
                )
                failed = [e for e, result in zip(batch, results, strict=True) if result is not None]
                left = failed + left[BATCH:]
                if failed:
                    break
        except (OSError, aiormq.AMQPError, asyncio.InvalidStateError):
            pass
        finally:
            with suppress(Exception):
                await asyncio.wait_for(connection.close(), 2)


async def publish_one(
    channel: aiormq.abc.AbstractChannel, event: EventSpec, exchange: str = EXCHANGE
) -> None:
    """Publish one event and return when it is confirmed.

    Raises:
        NotConfirmedError: the broker refused it.
    """
    confirmed = await channel.basic_publish(
        event.body,
        exchange=exchange,
        routing_key=event.type,
        mandatory=True,
        timeout=30,
        properties=pamqp.commands.Basic.Properties(
            headers={"tenant": event.tenant},
            message_id=event.id,
            content_type="application/json",
            delivery_mode=2,
        ),
    )
    if not isinstance(confirmed, pamqp.commands.Basic.Ack):
        raise NotConfirmedError(f"{event.id}: the broker said {confirmed}")


@dataclass(frozen=True, slots=True)
class Management:
    """The management API of the proof's broker."""

    url: str  #: with user and password
    vhost: str = ""  #: only its queues; empty: those of all

    def get(self, path: str) -> object:
        """Return the decoded answer to GET *path*."""
        parts = urllib.parse.urlsplit(self.url)
        credentials = f"{parts.username}:{parts.password}".encode()
        headers = {"authorization": "Basic " + base64.b64encode(credentials).decode()}
        return json.loads(fetch(f"{parts.scheme}://{parts.hostname}:{parts.port}{path}", headers))

    def messages(self) -> dict[str, int]:
        """Return messages per queue, ready and unsettled, as the broker last counted them (every 5 s)."""
        rows = self.get(f"/api/queues{self.vhost and '/' + self.vhost}?columns=name,messages")
        assert isinstance(rows, list)
        return {row["name"]: int(row.get("messages", 0)) for row in rows}

    def queue_names(self) -> list[str]:
        """Return the names of all queues."""
        return sorted(self.messages())


async def wait_empty(management: Management, *, keep: Sequence[str] = (), timeout_s: float) -> bool:
    """Wait until two counts 6 s apart find every queue but *keep* empty; return False at the time-out.

    The record of the store, one message, does not count.
    """
    deadline = time.monotonic() + timeout_s
    empty = 0
    while time.monotonic() < deadline:
        with suppress(OSError):
            counts = await asyncio.to_thread(management.messages)
            spared = {*keep, *(name for name in counts if name.endswith(".store"))}
            waiting = sum(count for name, count in counts.items() if name not in spared)
            empty = empty + 1 if waiting == 0 else 0
            if empty >= 2:
                return True
        await asyncio.sleep(6)  # the broker counts every 5 s
    return False


async def ready_counts(url: str, names: Sequence[str]) -> dict[str, int]:
    """Return how many messages are ready in each queue, exact and at once (unsettled ones not counted)."""
    connection = await connect(url)
    channel = await connection.channel()
    found = {}
    for name in names:
        declared = await channel.queue_declare(name, passive=True)
        found[name] = int(declared.message_count or 0)
    await connection.close()
    return found


async def purge(url: str, names: Sequence[str]) -> None:
    """Empty the queues *names*."""
    connection = await connect(url)
    channel = await connection.channel()
    for name in names:
        await channel.queue_purge(name)
    await connection.close()


def quiet() -> None:
    """Hide the warnings of the AMQP client about a broker that the proof itself killed."""
    for name in ("aiormq", "aiormq.connection", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
