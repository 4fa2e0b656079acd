"""One worker of the flow between fakes, and a small broker that brings its messages back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from prometheus_client import CollectorRegistry

from consumer.core.event.decode import DecodeRules
from consumer.core.history.records import Keep
from consumer.core.message.delivery import DeliveryMessage, headers_of, read_delivery
from consumer.core.message.parked import ParkedEntry, read_entry
from consumer.core.model import Event, RawMessage
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.subscription import Subscription, subscription_id
from consumer.flow.base.context import Bounds, Context
from consumer.flow.base.history_notes import HistoryNotes
from consumer.flow.base.no_tracer import NoTracer
from consumer.flow.base.outbox import Outbox
from consumer.flow.deliver.router import Router
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Observer
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.store.trust import Trust
from consumer.ports import Incoming, Publication, Source
from metrics.series import Series
from tests.support.fakes import (
    START,
    FakePublisher,
    FakeTicket,
    Journal,
    ManualClock,
    MemoryArchive,
    PacedSender,
    Published,
    RecordingLog,
    settled,
)
from tests.support.fakes_store import MemoryHistory, MemoryRecord, MemoryRecorder, MemoryStore
from topology.ladder import Ladder
from topology.names import Names

SHOP = "https://shop.example/"
SLOW = "https://slow.example/"

NAMES = Names()
DUE = NAMES.due_queue(0)
ONE = Publication(exchange="x", routing_key="k", body=b"1")


def event_message(body: bytes = b'{"n":1}', **more: Any) -> RawMessage:
    """A plain event of tenant acme; *more* replaces fields."""
    fields: dict[str, Any] = {
        "body": body,
        "headers": {"tenant": more.pop("tenant", "acme")},
        "exchange": NAMES.events,
        "routing_key": "order.created",
        "content_type": "application/json",
        "message_id": "ord-1",
        "timestamp_s": START - 5,
        "queue": NAMES.lane(0),
    }
    return RawMessage(**fields | more)


def event(**more: Any) -> Event:
    """A decoded event of tenant acme."""
    fields: dict[str, Any] = {
        "id": "ord-1",
        "tenant": "acme",
        "type": "order.created",
        "timestamp": "2023-11-14T22:13:15Z",
        "arrived_at": START,
        "body": b'{"n":1}',
    }
    return Event(**fields | more)


def delivery_message(message: DeliveryMessage, **more: Any) -> RawMessage:
    """A delivery message as a due queue gives it out."""
    fields: dict[str, Any] = {
        "body": message.event.body,
        "headers": headers_of(message),
        "exchange": NAMES.due,
        "routing_key": NAMES.direct_key(DUE),
        "content_type": message.event.content_type,
        "message_id": "m-1",
        "queue": DUE,
    }
    return RawMessage(**fields | more)


class Worker:
    """Everything between the broker edge and the HTTP edge, with both replaced."""

    def __init__(self, **bounds: Any) -> None:
        self.journal = Journal()
        self.clock = ManualClock()
        self.log = RecordingLog()
        self.series = Series(CollectorRegistry())
        self.observe = Observer(self.series, self.log)
        self.publisher = FakePublisher(self.journal)
        self.sender = PacedSender(self.journal)
        self.store = MemoryStore()
        self.record = MemoryRecorder()
        self.history: MemoryHistory = bounds.pop("history", None) or MemoryHistory()
        self.archive = MemoryArchive()
        self.samples = 0.5  #: the result of each random draw
        decode = bounds.pop("decode", DecodeRules())
        rate = bounds.pop("rate", None)
        self.context = Context(
            publisher=self.publisher,
            sender=self.sender,
            clock=self.clock,
            observe=self.observe,
            sample=lambda: self.samples,
            random_bytes=bytes,
            names=NAMES,
            ladder=bounds.pop("ladder", Ladder()),
            due_queues=1,
            decode=decode,
            archive=self.archive,
            record=self.record,
            notes=HistoryNotes(self.history, self.clock.now, keep=bounds.pop("keep", Keep.ALL)),
            settled=bounds.pop("settled", None),
            rate=rate,
            tracer=bounds.pop("tracer", NoTracer()),
            bounds=Bounds(**bounds),
        )
        self.endpoints = Endpoints(self.context)
        self.known = MemoryRecord()  #: the record of the store that the broker keeps
        self.trust = Trust(self.observe, self.known)
        self.subscriptions = Subscriptions(
            self.store, self.observe, self.record, self.trust, self.endpoints.forgive
        )
        self.router = Router(self.context, self.subscriptions, self.endpoints)
        self.intake = self.router.intake
        self.outbox = Outbox(self.context)
        self.tickets: list[FakeTicket] = []
        self._entries: list[SubscriptionEntry] = []
        self._numbers = count(1)

    async def subscribe(self, name: str, **fields: Any) -> Subscription:
        """Add a subscription of tenant acme to ``https://<name>.example/`` for all events."""
        return (await self.subscribe_all(name, **fields))[0]

    async def subscribe_all(self, *names: str, **fields: Any) -> list[Subscription]:
        """Add subscriptions that differ in name and URL."""
        for name in names:
            values = {"tenant": "acme", "name": name, "url": f"https://{name}.example/", "events": ["#"]}
            self._entries.append(SubscriptionEntry.model_validate(values | fields))
        await self.store.apply(self._entries, prune=True)
        assert await self.subscriptions.reload()
        tenant = self._entries[-1].tenant
        found = [self.subscriptions.get(subscription_id(tenant, name)) for name in names]
        return [each for each in found if each is not None]

    async def unsubscribe(self, name: str) -> None:
        """Delete a subscription."""
        self._entries = [entry for entry in self._entries if entry.name != name]
        await self.store.apply(self._entries, prune=True)
        assert await self.subscriptions.reload()

    async def move(self, name: str, url: str, *, loaded: bool, **fields: Any) -> None:
        """Give a subscription another URL; the worker knows it, or only the store does."""
        changed = [entry for entry in self._entries if entry.name == name]
        values = changed[0].model_dump(exclude_unset=True) | {"url": url} | fields
        self._entries = [entry for entry in self._entries if entry.name != name]
        self._entries.append(SubscriptionEntry.model_validate(values))
        await self.store.apply(self._entries, prune=True)
        if loaded:
            assert await self.subscriptions.reload()

    def endpoint(self, subscription: Subscription) -> Endpoint:
        """Return the running state of an endpoint."""
        return self.endpoints.of(subscription)

    def offer(self, message: RawMessage, source: Source = Source.LANE) -> FakeTicket:
        """Hand a message over as the broker edge does."""
        ticket = FakeTicket(self.journal, f"{source.value}-{next(self._numbers)}")
        self.tickets.append(ticket)
        self.intake.offer(source, Incoming(message, ticket))
        return ticket

    async def handle(self, message: RawMessage, source: Source = Source.LANE) -> FakeTicket:
        """Hand a message over and wait until no job runs."""
        ticket = self.offer(message, source)
        await self.intake.idle()
        return ticket

    def waiting(self) -> list[DeliveryMessage]:
        """Return the delivery messages that were published, in order."""
        exchanges = (NAMES.wait, NAMES.due)
        taken = [p for p in self.publisher.confirmed if p.publication.exchange in exchanges]
        return [read_delivery(published.raw()) for published in taken]

    def parked(self) -> list[ParkedEntry]:
        """Return the parked entries, in their order."""
        return [read_entry(published.raw()) for published in self.publisher.to("parked.")]

    def sent(self, name: str) -> int:
        """Count the requests to the endpoint of a subscription's name."""
        return len(self.sender.sent_to(f"https://{name}.example/"))

    def count(self, series: str, **labels: str) -> float:
        """Read a metric."""
        return self.series.registry.get_sample_value(f"leveret_{series}", labels) or 0.0

    def bugs(self) -> list[dict[str, object]]:
        """Return the unexpected errors."""
        return self.log.events("task.failed")


@dataclass
class LoopBack:
    """Brings the messages of a worker back, as the ladder would: a small broker in virtual time.

    Attributes:
        lag_s: How much later than its TTL a message comes back.
        deliveries: Every delivery message on its way, as (number of requests made before, message).
    """

    worker: Worker
    lag_s: float = 0.0
    deliveries: list[tuple[int, DeliveryMessage]] = field(default_factory=list)
    under_way: int = 0
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.worker.publisher.on_confirmed = self._taken

    async def run_dry(self, look_s: float = 0.25) -> None:
        """Return once nothing waits, runs or is held any more; looks every *look_s* seconds."""
        loop = asyncio.get_running_loop()
        while self.under_way or self.worker.intake.running() or self.worker.intake.unstarted():
            passed = asyncio.Event()
            loop.call_later(look_s, passed.set)
            await passed.wait()
            assert len(self.deliveries) < 20_000, "delivery messages go round for ever"
        await settled()

    def _taken(self, published: Published) -> None:
        exchange, key = published.publication.exchange, published.key
        if exchange == NAMES.wait:
            self._later(int(key.partition(".")[0]) / 1000 + self.lag_s, published, Source.DUE)
        elif exchange == NAMES.due:
            self._later(0.0, published, Source.REPLAY if key.endswith(".replay") else Source.DUE)
        elif key == "suspect":
            self._later(0.0, published, Source.SUSPECT)
        elif exchange == NAMES.events:
            self._later(0.0, published, Source.LANE)

    def _later(self, delay_s: float, published: Published, source: Source) -> None:
        loop = asyncio.get_running_loop()
        self.under_way += 1
        if source is Source.DUE:
            self.deliveries.append((len(self.worker.sender.sent), read_delivery(published.raw())))

        def surface() -> None:
            self.under_way -= 1
            queue = {Source.DUE: DUE, Source.SUSPECT: NAMES.suspect}.get(source, NAMES.lane(0))
            self.worker.offer(published.raw(queue=queue), source)

        loop.call_later(delay_s, surface)


async def slow(worker: Worker, **fields: Any) -> str:
    """Subscribe an endpoint that takes 2 s and is known for it; return its subscription's id."""
    subscription = await worker.subscribe("slow", **fields)
    worker.sender.latency_s[SLOW] = 2.0
    await worker.handle(event_message(message_id="slow-0", tenant=subscription.tenant))
    assert worker.endpoint(subscription).latency.is_slow
    worker.journal.clear()
    return subscription.id


def due(*targets: str, **more: Any) -> DeliveryMessage:
    """A delivery message for these targets, to be sent now."""
    fields: dict[str, Any] = {"event": event(), "targets": targets, "not_before": START}
    return DeliveryMessage(**fields | more)
