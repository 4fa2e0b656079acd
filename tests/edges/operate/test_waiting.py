"""One pass over real rungs: the chosen messages go, the others stay in place, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection, AbstractQueue

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.delivery import DeliveryMessage, headers_of
from consumer.core.message.parked import delivery_id
from consumer.core.message.waiting import Wanted, kicked, split
from consumer.core.model import Event
from consumer.core.returns.check_headers import check_headers
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.broker.wire.raw_message import raw_message
from consumer.edges.operate.release import release
from consumer.edges.operate.waiting import Unread, Waiting, WaitQueues, browse, cancel, kick
from consumer.edges.process.system import FileArchive, SystemClock
from consumer.ports import Publication
from tests.support.fakes import MemoryArchive
from topology.declare import declare
from topology.names import Names
from topology.plan import TopologySpec, build_plan

SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(2.0, 600.0))
NAMES = Names()
DUE = NAMES.due_queue(0)
LONG, SHORT = NAMES.rung(600.0), NAMES.rung(2.0)
QUEUES = WaitQueues(NAMES, SPEC.ladder)


@dataclass
class Rungs:
    """A broker with a ladder, and helpers of the tests."""

    connection: AbstractConnection

    async def put(
        self,
        event_id: str,
        *targets: str,
        tenant: str = "acme",
        rung_s: float = 600.0,
        ahead_s: float = 0.0,
        check: str | None = None,
    ) -> None:
        """Let one delivery message wait, written by a worker whose clock is ahead of ours."""
        now = time.time()
        event = Event(
            id=event_id,
            tenant=tenant,
            type="order.created",
            timestamp="2026-01-01T00:00:00Z",
            arrived_at=now,
            body=event_id.encode(),
        )
        message = DeliveryMessage(
            event=event,
            targets=targets,
            not_before=now + ahead_s + rung_s,
            wait_s=rung_s,
            served_s=rung_s,
            attempts_made=2,
        )
        mark = {} if check is None else {"leveret-check": check}
        await self._publish(event.body, {**headers_of(message), **mark}, rung_s)

    async def put_check(self, text: str) -> None:
        """Let a message of only a check wait."""
        await self._publish(b"", check_headers(text), 600.0)

    async def put_foreign(self) -> None:
        """Let a message wait that this version cannot read."""
        await self._publish(b"x", {"leveret-v": 99}, 600.0)

    async def _publish(self, body: bytes, headers: Mapping[str, Any], rung_s: float) -> None:
        channel = await open_channel(self.connection, confirms=True)
        key = NAMES.wait_key(rung_s, DUE)
        publication = Publication(exchange=NAMES.wait, routing_key=key, body=body, headers=headers)
        await Confirms(channel).publish(publication, "m")
        await channel.close()

    async def drained(self, queue: str, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Take *count* messages out of a queue, in their order: body and headers."""
        channel = await open_channel(self.connection, confirms=False)
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        await channel.basic_consume(queue, inbox.put, no_ack=True)
        async with asyncio.timeout(20):
            raws = [raw_message(await inbox.get(), queue) for _ in range(count)]
        await channel.close()
        return [(raw.body.decode(), raw.headers) for raw in raws]

    async def count(self, queue: str) -> int:
        """Return how many messages are ready in a queue."""
        channel = await open_channel(self.connection, confirms=False)
        found = (await channel.queue_declare(queue, passive=True)).message_count or 0
        await channel.close()
        return found


@pytest.fixture
async def rungs(vhost: str) -> AsyncIterator[Rungs]:
    """A ladder of two rungs on a vhost of its own."""
    connection = await aio_pika.connect(vhost)
    async with connection:
        await declare(build_plan(SPEC), connection)
        yield Rungs(connection)


def list_files(folder: Path) -> list[Path]:
    """Return the archives in a folder."""
    return list(folder.glob("cancelled-*.jsonl"))


async def ids(found: AsyncIterator[Waiting | Unread]) -> list[str]:
    """Return the event ids that a pass yields."""
    return [one.message.event.id for one in [o async for o in found] if isinstance(one, Waiting)]


async def test_a_look_changes_nothing(rungs: Rungs) -> None:
    """The list is filtered, and all messages are in their order afterwards, with running TTLs."""
    for number in range(300):
        await rungs.put(f"e{number}", "sub_a" if number % 3 else "sub_b")
    await rungs.put("soon", "sub_a", rung_s=2.0)
    await rungs.put("other", "sub_c", tenant="other")

    of_b = await ids(browse(rungs.connection, QUEUES, Wanted(subscription="sub_b")))
    of_other = await ids(browse(rungs.connection, QUEUES, Wanted(tenant="other")))
    of_one = await ids(browse(rungs.connection, QUEUES, Wanted(event="e7")))

    assert of_b == [f"e{number}" for number in range(0, 300, 3)]
    assert (of_other, of_one) == (["other"], ["e7"])
    assert [body for body, _ in await rungs.drained(DUE, 1)] == ["soon"]
    left = [body for body, _ in await rungs.drained(LONG, 301)]
    assert left == [*(f"e{number}" for number in range(300)), "other"]


async def test_kick_takes_matching_deliveries_in_one_pass(rungs: Rungs) -> None:
    """Matching deliveries are due at once with their attempts; the rest goes back in order."""
    for number in range(60):
        await rungs.put(f"e{number}", "sub_a" if number % 2 else "sub_b")

    kicked = await ids(kick(rungs.connection, QUEUES, Wanted(subscription="sub_b")))

    due = await rungs.drained(DUE, 30)
    assert [body for body, _ in due] == kicked == [f"e{number}" for number in range(0, 60, 2)]
    assert max(headers["leveret-not-before"] for _, headers in due) <= time.time() * 1000 + 1
    assert {headers["leveret-made"] for _, headers in due} == {2}
    assert [body for body, _ in await rungs.drained(LONG, 30)] == [f"e{n}" for n in range(1, 60, 2)]


async def test_the_other_targets_of_a_message_wait_on(rungs: Rungs) -> None:
    """A message for two targets is parted: one goes, the other waits; neither is lost."""
    await rungs.put("both", "sub_a", "sub_b")

    await ids(kick(rungs.connection, QUEUES, Wanted(subscription="sub_b")))

    [(_, due)] = await rungs.drained(DUE, 1)
    [(_, left)] = await rungs.drained(SHORT, 1) if await rungs.count(SHORT) else await rungs.drained(LONG, 1)
    assert (due["leveret-targets"], left["leveret-targets"]) == ("sub_b", "sub_a")


async def test_the_other_targets_wait_no_longer_where_clocks_differ(rungs: Rungs) -> None:
    """Fault 82: a clock that is a day ahead wrote it: a kept delivery waits at most its own wait again."""
    await rungs.put("both", "sub_a", "sub_b", rung_s=600.0, ahead_s=86_400.0)

    await ids(kick(rungs.connection, QUEUES, Wanted(subscription="sub_b")))

    [(_, left)] = await rungs.drained(LONG, 1)
    assert (left["leveret-targets"], left["leveret-served"]) == ("sub_a", 600_000)


async def test_cancel_archives_before_it_takes_out(rungs: Rungs, tmp_path: Path) -> None:
    """A cancelled delivery is on disk, body included, and gone from the rung."""
    await rungs.put("keep", "sub_a")
    await rungs.put("drop", "sub_b")
    archive = FileArchive(tmp_path, SystemClock(), "cancelled")

    gone = await ids(cancel(rungs.connection, QUEUES, Wanted(event="drop"), archive))

    text = "".join(file.read_text() for file in list_files(tmp_path))
    assert gone == ["drop"]
    assert delivery_id("drop", "sub_b") in text
    assert "ZHJvcA==" in text  # its body
    assert [body for body, _ in await rungs.drained(LONG, 1)] == ["keep"]
    assert await rungs.count(LONG) == 0


async def listening(rungs: Rungs) -> AbstractQueue:
    """Return a queue that gets the reports to the workers."""
    channel = await rungs.connection.channel()
    ear = await channel.declare_queue(exclusive=True)
    await ear.bind(NAMES.control)
    return ear


async def test_cancel_reports_to_the_books_of_the_workers(rungs: Rungs) -> None:
    """One target of a message that stays for its other target, and one message as a whole."""
    ear = await listening(rungs)
    await rungs.put("part", "sub_a", "sub_b")
    await rungs.put("whole", "sub_a")

    await ids(cancel(rungs.connection, QUEUES, Wanted(subscription="sub_a"), MemoryArchive()))

    report = await ear.get(timeout=5)
    assert report is not None
    assert json.loads(report.body) == {
        "kind": "cancelled",
        "targets": 2,
        "messages": 1,
        "of": {"sub_a": 2},
        "whole": True,
        "tenant": None,
        "subscription": "sub_a",
    }


@pytest.mark.parametrize(
    ("wanted", "of", "whole"),
    [
        (Wanted(subscription="sub_a"), {"sub_a": 2}, True),
        (Wanted(), {"sub_a": 2, "sub_b": 1}, True),
        (Wanted(event="part"), {"sub_a": 1, "sub_b": 1}, False),
    ],
)
async def test_kick_reports_how_many_deliveries_left(
    rungs: Rungs, wanted: Wanted, of: Mapping[str, int], whole: bool
) -> None:
    """Each worker counts them as waiting no longer, and no others: those of one event are a part."""
    ear = await listening(rungs)
    await rungs.put("part", "sub_a", "sub_b")
    await rungs.put("whole", "sub_a")

    await ids(kick(rungs.connection, QUEUES, wanted))

    report = await ear.get(timeout=5)
    assert report is not None
    names = {"tenant": None, "subscription": wanted.subscription} if whole else {}
    assert json.loads(report.body) == {"kind": "kicked", "of": of, "whole": whole, **names}


async def test_a_kick_that_found_nothing_reports_that_nothing_waits(rungs: Rungs) -> None:
    """The deliveries may have left their rungs just before; the workers still count them as waiting."""
    ear = await listening(rungs)

    assert await ids(kick(rungs.connection, QUEUES, Wanted(subscription="sub_a"))) == []

    report = await ear.get(timeout=5)
    assert report is not None
    said = {"kind": "kicked", "of": {}, "whole": True, "tenant": None, "subscription": "sub_a"}
    assert json.loads(report.body) == said


async def test_a_kick_that_ends_early_reports_a_part(rungs: Rungs) -> None:
    """An operator interrupts it: those that were kicked are reported, and that others stayed."""
    ear = await listening(rungs)
    for name in ("one", "two", "three"):
        await rungs.put(name, "sub_a")

    async with aclosing(kick(rungs.connection, QUEUES, Wanted(subscription="sub_a"))) as kicked:
        await anext(kicked)

    report = await ear.get(timeout=5)
    assert report is not None
    assert json.loads(report.body) == {"kind": "kicked", "of": {"sub_a": 1}, "whole": False}


async def test_a_release_reports_its_beginning_too(rungs: Rungs) -> None:
    """A delivery that waits again before its end is not counted among those that left."""
    ear = await listening(rungs)
    await rungs.put("e1", "sub_a")

    released = await release(rungs.connection, SPEC, Wanted(subscription="sub_a"))

    begun, ended = await ear.get(timeout=5), await ear.get(timeout=5)
    assert released.count == 1
    assert begun is not None
    assert ended is not None
    assert [json.loads(each.body) for each in (begun, ended)] == [
        {"kind": "free", "tenant": None, "subscription": "sub_a"},
        {"kind": "kicked", "of": {"sub_a": 1}, "whole": True, "tenant": None, "subscription": "sub_a"},
    ]


def test_a_kick_ends_a_hold_by_hand() -> None:
    """From then on the delivery may be late; a hold that ended before ended then."""
    event = Event(id="e", tenant="acme", type="a", timestamp="t", arrived_at=10.0, body=b"")
    held = DeliveryMessage(event=event, targets=("sub_a",), by_hand_until=80.0)

    assert [kicked(held, now).owed_since for now in (50.0, 90.0)] == [50.0, 80.0]


async def test_a_disk_that_is_full_cancels_nothing(rungs: Rungs) -> None:
    """Fault 68: a delivery that is not on disk waits on."""
    await rungs.put("first", "sub_a")
    await rungs.put("second", "sub_a")
    archive = MemoryArchive(failures=[OSError(28, "No space left on device")])

    with pytest.raises(OSError, match="No space"):
        await ids(cancel(rungs.connection, QUEUES, Wanted(tenant="acme"), archive))

    assert [body for body, _ in await rungs.drained(LONG, 2)] == ["first", "second"]


async def test_unconfirmed_deliveries_wait_on(rungs: Rungs) -> None:
    """Confirm before ack: where the way to the due queue is gone, the delivery stays where it is."""
    await rungs.put("e1", "sub_a")
    channel = await open_channel(rungs.connection, confirms=False)
    await channel.queue_delete(DUE)
    for name in (NAMES.due, NAMES.stray):
        await channel.exchange_delete(name)
    await channel.close()

    with pytest.raises(BrokerUnavailable, match="e1 waits on"):
        await ids(kick(rungs.connection, QUEUES, Wanted(tenant="acme")))

    assert [body for body, _ in await rungs.drained(LONG, 1)] == ["e1"]


async def test_unreadable_messages_are_passed_by(rungs: Rungs) -> None:
    """A newer worker's message stays where it is and is reported."""
    await rungs.put_foreign()
    await rungs.put("e1", "sub_a")

    found = [one async for one in kick(rungs.connection, QUEUES, Wanted())]

    assert [one.count for one in found if isinstance(one, Unread)] == [1]
    assert [body for body, _ in await rungs.drained(DUE, 1)] == ["e1"]
    assert [body for body, _ in await rungs.drained(LONG, 1)] == ["x"]


def test_deliveries_are_parted_by_what_is_wanted() -> None:
    """Tenant, event and subscription must all fit; targets that do not are left."""
    event = Event(id="e", tenant="acme", type="a", timestamp="t", arrived_at=0.0, body=b"")
    message = DeliveryMessage(event=event, targets=("sub_a", "sub_b"))
    assert split(message, Wanted()) == (message, None)
    assert split(message, Wanted(tenant="other")) == (None, message)
    assert split(message, Wanted(event="f")) == (None, message)
    assert split(message, Wanted(subscription="sub_c")) == (None, message)
    one = replace(message, targets=("sub_a",))
    assert split(message, Wanted(subscription="sub_a")) == (one, replace(message, targets=("sub_b",)))
    assert split(one, Wanted(tenant="acme", event="e", subscription="sub_a")) == (one, None)


async def test_checks_are_never_lost(rungs: Rungs) -> None:
    """A message of only a check is not shown; a check on a delivery goes on to the due queue, or stays."""
    await rungs.put_check("w1.1")
    for number, targets in enumerate((("sub_a",), ("sub_a", "sub_b"), ("sub_c",), ("sub_d",))):
        await rungs.put(f"e{number}", *targets, check=f"w1.{number + 2}", ahead_s=60)

    assert len(await ids(browse(rungs.connection, QUEUES, Wanted()))) == 4
    shown = [one async for one in browse(rungs.connection, QUEUES, Wanted())]
    assert all(isinstance(one, Waiting) for one in shown)
    assert await ids(kick(rungs.connection, QUEUES, Wanted(subscription="sub_a"))) == ["e0", "e1"]
    archive = MemoryArchive()
    cancelled = await ids(cancel(rungs.connection, QUEUES, Wanted(subscription="sub_c"), archive))

    assert cancelled == ["e2"]
    due = [(body, headers.get("leveret-check")) for body, headers in await rungs.drained(DUE, 3)]
    assert due == [("e0", "w1.2"), ("e1", None), ("", "w1.4")]
    left = [(body, headers.get("leveret-check")) for body, headers in await rungs.drained(LONG, 3)]
    assert sorted(left) == [("", "w1.1"), ("e1", "w1.3"), ("e3", "w1.5")]
