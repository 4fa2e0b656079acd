"""Messages whose header tables are costly to read leave other tenants alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hostile.header_tables import HEADER_TABLES
from tests.support.hostile.messages import Raw, entry, long_text, send
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, deliveries, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

FLOOD = 30


async def parked_unread(daemon: Daemon, count: int) -> None:
    """Wait until so many messages are parked for the cost of their headers."""
    entries = await daemon.parked(count, reason="malformed")
    assert all("its headers cannot be read: ValueError: the headers " in str(e["detail"]) for e in entries)


@pytest.mark.parametrize("kind", HEADER_TABLES)
async def test_a_flood_of_costly_headers_reaches_nobody_else(
    vhost: str, tmp_path: Path, receiver: Receiver, kind: str
) -> None:
    """Faults 85, 12: 30 such frames are parked unread; another tenant's events arrive once; no reconnect."""
    hostile = [Raw(id=f"{kind}-{number}", table=HEADER_TABLES[kind]) for number in range(FLOOD)]
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/innocent", "innocent"))
        before = await publisher.publish_many("innocent", 20)
        await send(vhost, hostile, 0.0)
        behind = await publisher.publish_many("innocent", 20)

        found = await all_delivered(receiver, "/ok/innocent", [*before, *behind])
        await parked_unread(daemon, FLOOD)
        await until(daemon.ready, "readiness is green")
        assert set(found.values()) == {1}
        assert set(deliveries(receiver, "/ok/innocent").values()) == {1}
        assert daemon.count("broker.lost") == 0
        assert daemon.metric("leveret_broker_reconnects_total", connection="consume") == 0


OURS = ("due.00", "replay", "stray", "spill.00", "suspect", "overflow", "lane.00")


async def test_our_own_queues_are_read_as_carefully(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 85: such a message of a user who may write to our own queues is parked, too."""
    table = HEADER_TABLES["voids"]
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/innocent", "innocent"))
        for queue in OURS:
            await send(
                vhost,
                [Raw(id=queue, table=table, exchange="", type=f"leveret.{queue}", body=queue.encode())],
                0,
            )
        await parked_unread(daemon, len(OURS))
        for queue in ("parked", "expired"):
            await send(vhost, [Raw(id=queue, table=table, exchange="", type=f"leveret.{queue}")], 0)

        sent = await publisher.publish_many("innocent", 5)
        assert set((await all_delivered(receiver, "/ok/innocent", sent)).values()) == {1}
        await until(
            lambda: daemon.count("parked.expired") or daemon.count("entry.expired"), "it was archived"
        )
        await until(daemon.ready, "readiness is green")
        assert daemon.count("task.failed") == 0


async def test_large_headers_of_few_values_are_no_fault(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 12: 120 kB in one header, and a table of depth 200, are ignored; the event is delivered."""
    nested = b""
    for _ in range(200):
        nested = entry("t", b"F", long_text(nested))
    tables = {"long": entry("long", b"S", long_text(b"x" * 120_000)), "nested": nested}
    async with running(tmp_path, vhost) as daemon:
        await daemon.apply(to(receiver, "/ok/large", "large"))
        await send(vhost, [Raw(id=name, table=table, tenant="large") for name, table in tables.items()], 0)

        assert set((await all_delivered(receiver, "/ok/large", [*tables])).values()) == {1}
