"""Replay on a real broker: events are sent again, and entries that only resemble events stay."""

from __future__ import annotations

from typing import Any

import aio_pika
import pytest

from consumer.core.message.delivery import DeliveryMessage, headers_of
from consumer.core.message.parked import ParkNote, raw_entry_headers
from consumer.core.model import Event, ParkReason, RawMessage
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import Skipped, replay
from tests.support.broker.topology import SMALL, standing

NAMES = SMALL.names
TURN = Turn(command="test")
NOTE = ParkNote(reason=ParkReason.MALFORMED, detail="cannot be read", at=1.0, ttl_s=60.0)
OWED = DeliveryMessage(
    event=Event(id="e1", tenant="acme", type="a.b", timestamp="t", arrived_at=0.0, body=b""),
    targets=("sub_1",),
)


def raw(body: bytes, exchange: str, key: str, queue: str) -> RawMessage:
    """A message that was parked unread, with the headers of a delivery message of acme."""
    headers = headers_of(OWED)
    return RawMessage(body=body, headers=headers, exchange=exchange, routing_key=key, queue=queue)


@pytest.mark.parametrize(("tenant", "queue"), [("acme", NAMES.lane(0)), ("beta", NAMES.overflow)])
async def test_a_message_of_our_own_queues_is_never_replayed_as_an_event(
    vhost: str, tenant: str, queue: str
) -> None:
    """Fault 16, S1-5: it would reach the default tenant; it stays with the way out, the events go."""
    own = [
        raw(b"stray", NAMES.due, NAMES.direct_key(NAMES.spill(1)), NAMES.stray),
        raw(b"due", "", NAMES.due_queue(1), NAMES.due_queue(1)),
        raw(b"rung", NAMES.wait, "50.x", NAMES.rung(0.05)),
        raw(b"suspect", NAMES.dlx, "suspect", NAMES.suspect),
        raw(b"garbled", NAMES.dlx, "raw", NAMES.overflow),
        raw(b"moved", NAMES.due, NAMES.direct_key(NAMES.spill(0)), NAMES.spill(0)),
    ]
    event = RawMessage(
        body=b"event", headers={"tenant": tenant}, exchange=NAMES.events, routing_key="a.b", queue=queue
    )
    async with standing(vhost, SMALL) as live:
        dlx = await live.channel.get_exchange(NAMES.dlx, ensure=False)
        for each in (*own, event):
            headers: Any = raw_entry_headers(each, NOTE)
            message = aio_pika.Message(each.body, headers=headers, delivery_mode=2)
            await dlx.publish(message, NAMES.parked_key("malformed"), mandatory=True)

        found = [one async for one in replay(live.connection, NAMES, TURN, lambda _entry: True, ())]

        lanes = [NAMES.lane(index) for index in range(SMALL.lanes)]
        [(_, sent)] = await live.take(lanes, 1)
        left = await live.take([NAMES.parked], len(own))
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert len(skipped) == len(own)
    assert all(
        one.reason.endswith("a queue of Leveret's own, and cannot be read; publish its event again")
        for one in skipped
    )
    assert (sent.body, sent.headers["tenant"]) == (b"event", tenant)
    assert sorted(message.body for _, message in left) == sorted(each.body for each in own)
