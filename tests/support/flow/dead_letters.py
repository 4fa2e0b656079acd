"""The overflow routine between fakes, and messages that died in a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consumer.core.message.parked import ParkNote
from consumer.core.model import ParkReason, RawMessage
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.ports import Incoming
from tests.support.fakes import START, FakeTicket, MemoryArchive, settled
from tests.support.worker import NAMES, Worker

NOTE = ParkNote(reason=ParkReason.EXHAUSTED, detail="HTTP 503", at=START, ttl_s=60.0)


@dataclass
class DeadLetterDesk:
    """The overflow routine, running."""

    worker: Worker
    archive: MemoryArchive
    overflow: DeadLetters

    async def take(self, raw: RawMessage, *, expired: bool = False) -> FakeTicket:
        """Hand over one message and let the routine process it."""
        ticket = FakeTicket(self.worker.journal, "overflow")
        self.overflow.offer(Incoming(raw, ticket), expired=expired)
        await settled()
        return ticket


def dead(raw: RawMessage, reason: str, queue: str, **death: Any) -> RawMessage:
    """Return the message as the broker dead-letters it from *queue*; internal ones died on a rung before."""
    newest = {
        "reason": reason,
        "queue": queue,
        "count": 1,
        "exchange": raw.exchange,
        "routing-keys": [raw.routing_key],
    }
    earlier = [{"reason": "expired", "queue": NAMES.rung(1.0)}] if NAMES.is_internal(queue) else []
    raw.headers = {**raw.headers, "x-death": [newest | death, *earlier]}
    raw.exchange, raw.routing_key, raw.queue = NAMES.dlx, "raw", NAMES.overflow
    return raw
