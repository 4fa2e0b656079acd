"""An endpoint that hangs against one that answers 503: how long the backlog takes, in virtual time.

The real flow runs (Deliverer, FanOut, Endpoints, Outbox) on a loop whose time jumps; only the broker, the
endpoint and the store are replaced. The endpoint is well for a while, then hangs (each request ends by its
time-out) or answers 503 at once, then is well from the first request on that comes after the outage's end.
Its clock begins there: at which moment of a cooldown the endpoint is mended is chance, and the same for both.
``hang_simulated_ratio`` is the longest ratio of the two times from that request to the last delivery.

A parked delivery makes the figure invalid, and so does one that never comes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context

from prometheus_client import CollectorRegistry

from bench.core.silent_log import SilentLog
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.event.decode import DecodeRules
from consumer.core.model import Outcome, OutcomeKind, RawMessage, SignedRequest
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.flow.base.context import Bounds, Context
from consumer.flow.base.history_notes import HistoryNotes
from consumer.flow.deliver.router import Router
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Observer
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.store.trust import Trust
from consumer.ports import Incoming, Publication, Source
from metrics.series import Series
from tests.support.fakes import ManualClock, MemoryArchive, VirtualLoop
from tests.support.fakes_store import MemoryRecord, MemoryRecorder, MemoryStore
from topology.ladder import Ladder
from topology.names import Names

NAMES = Names()
ANSWER_S = 0.01  #: of the endpoint when it is well, and of its 503
TIMEOUT_S = 15.0
WELL_S = 20.0  #: before the outage
LAG_S = 0.003  #: of a rung
LONGEST_S = 86_400.0  #: a delivery that has not come by then counts as this late

GOALS = (Goal(name="hang_simulated_ratio", text="≤ 1.5", unit="ratio", n=6),)


@dataclass(frozen=True, slots=True)
class Case:
    """One outage."""

    per_s: float  #: events
    down_s: float
    concurrency: int

    def __str__(self) -> str:
        """Name it for the notes."""
        return f"{self.per_s:g}_per_s_{self.down_s / 60:g}_min_{self.concurrency}_slots"


CASES = tuple(
    Case(per_s, minutes * 60.0, concurrency)
    for per_s, concurrency in ((3.0, 1), (5.0, 2), (20.0, 16))
    for minutes in (10, 60)
)


@dataclass(frozen=True, slots=True)
class Drained:
    """How one outage ended."""

    seconds: float  #: from the first request after the outage to the last delivery
    looks: int  #: delivery messages that came back, all together
    parked: int
    missing: int  #: neither delivered nor parked


class _Ticket:
    """A message of the simulated broker, which never loses one."""

    def __init__(self, again: Callable[[], None]) -> None:
        self._again = again

    def alive(self) -> bool:
        """Whether it is still ours."""
        return True

    async def ack(self) -> None:
        """Settle it."""

    async def requeue(self) -> None:
        """Let it come again."""
        self._again()

    async def reject(self) -> None:
        """Let it come again."""
        self._again()


@dataclass(slots=True)
class _Endpoint:
    """The receiver. Implements ``ports.Sender``."""

    down_at: float  #: loop time, seconds; and below
    up_at: float
    hangs: bool
    mended_at: float = 0.0  #: the first request that came after the outage; 0: none yet
    last_at: float = 0.0  #: the last delivery
    taken: set[str] = field(default_factory=set)

    async def send(self, request: SignedRequest) -> Outcome:
        """Answer as it feels."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self.down_at <= began < self.up_at:
            await asyncio.sleep(request.timeout_s if self.hangs else ANSWER_S)
            if self.hangs:
                return Outcome(kind=OutcomeKind.TIMEOUT_TOTAL, duration_s=request.timeout_s)
            return Outcome(kind=OutcomeKind.HTTP_5XX, status=503, duration_s=ANSWER_S)
        if began >= self.up_at:
            self.mended_at = self.mended_at or began
        await asyncio.sleep(ANSWER_S)
        self.taken.add(dict(request.headers)["webhook-id"])
        self.last_at = loop.time()
        return Outcome(kind=OutcomeKind.OK, status=200, duration_s=ANSWER_S)

    async def close(self) -> None:
        """Nothing is open."""


class _Broker:
    """Rungs and queues in virtual time. Implements ``ports.Publisher``."""

    def __init__(self) -> None:
        self.looks = self.parked = self._numbers = 0
        self.offer: Callable[[Source, Incoming], None]

    def pressed(self) -> str | None:
        """Take everything."""
        return None

    async def publish(self, publication: Publication) -> None:
        """Confirm, and give it out again when its rung is over."""
        key, loop = publication.routing_key, asyncio.get_running_loop()
        if publication.exchange == NAMES.wait:
            self.looks += 1
            delay_s = int(key.partition(".")[0]) / 1000 + LAG_S
            loop.call_later(delay_s, self.give_out, publication, Source.DUE)
        elif publication.exchange == NAMES.due:
            self.looks += 1
            loop.call_soon(self.give_out, publication, Source.DUE)
        else:
            self.parked += 1

    def give_out(self, publication: Publication, source: Source) -> None:
        """Hand one message to the worker."""
        self._numbers += 1
        raw = RawMessage(
            body=publication.body,
            headers=dict(publication.headers),
            exchange=publication.exchange,
            routing_key=publication.routing_key,
            content_type=publication.content_type,
            message_id=publication.message_id or f"m{self._numbers}",
            queue=NAMES.lane(0) if source is Source.LANE else NAMES.due_queue(0),
        )
        ticket = _Ticket(lambda: self.give_out(publication, source))
        self.offer(source, Incoming(raw, ticket))


def _context(broker: _Broker, endpoint: _Endpoint, dice: random.Random) -> Context:
    return Context(
        publisher=broker,
        sender=endpoint,
        clock=ManualClock(),
        observe=Observer(Series(CollectorRegistry()), SilentLog()),
        sample=dice.random,
        random_bytes=os.urandom,
        names=NAMES,
        ladder=Ladder(),
        archive=MemoryArchive(),
        due_queues=1,
        decode=DecodeRules(),
        bounds=Bounds(),
        record=MemoryRecorder(),
        notes=HistoryNotes(None, float),
    )


async def drain(case: Case, *, hangs: bool) -> Drained:
    """Run one outage on the running virtual loop, until nothing waits any more."""
    endpoint = _Endpoint(WELL_S, WELL_S + case.down_s, hangs)
    broker = _Broker()
    context = _context(broker, endpoint, random.Random(7))
    store = MemoryStore()
    endpoints = Endpoints(context)
    trust = Trust(context.observe, MemoryRecord())
    subscriptions = Subscriptions(store, context.observe, context.record, trust, endpoints.forgive)
    router = Router(context, subscriptions, endpoints)
    broker.offer = router.intake.offer
    shop = {
        "tenant": "acme",
        "name": "shop",
        "url": "https://shop.example/",
        "events": ["#"],
        "concurrency": case.concurrency,
        "timeout_s": TIMEOUT_S,
    }
    await store.apply([SubscriptionEntry.model_validate(shop)], prune=True)
    assert await subscriptions.reload()
    count = round((WELL_S + case.down_s) * case.per_s)
    for number in range(count):
        event = Publication(
            exchange=NAMES.events,
            routing_key="order.created",
            body=b"{}",
            headers={"tenant": "acme"},
            content_type="application/json",
            message_id=f"e{number}",
        )
        broker.give_out(event, Source.LANE)
        await asyncio.sleep(1 / case.per_s)
    loop = asyncio.get_running_loop()
    while len(endpoint.taken) + broker.parked < count and loop.time() < LONGEST_S:  # noqa: ASYNC110 - no time
        await asyncio.sleep(1)
    seconds = (endpoint.last_at if len(endpoint.taken) == count else LONGEST_S) - endpoint.mended_at
    return Drained(seconds, broker.looks, broker.parked, count - len(endpoint.taken) - broker.parked)


def simulated(case: Case, *, hangs: bool) -> Drained:
    """Run one outage on a virtual loop of its own."""

    async def start() -> Drained:
        return await drain(case, hangs=hangs)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(start())


def compare(case: Case) -> tuple[Drained, Drained]:
    """Return how an outage by time-outs ended, and one by 503."""
    return simulated(case, hangs=True), simulated(case, hangs=False)


def _run(run: tuple[Case, bool]) -> Drained:
    """Run one outage in a process of its own."""
    case, hangs = run
    return simulated(case, hangs=hangs)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run each case twice, side by side in processes of their own: no time is measured that passes."""
    cases = CASES[: bench.count(len(CASES))]
    runs = [(case, hangs) for case in reversed(cases) for hangs in (True, False)]
    with get_context("spawn").Pool() as pool:  # its exit ends them in every case
        ending = pool.map_async(_run, runs, chunksize=1)
        while not ending.ready():  # noqa: ASYNC110 - a pool has no event
            await asyncio.sleep(0.5)
        found = dict(zip(runs, ending.get(), strict=True))
    for case in cases:
        bench.note(f"hang_simulated_{case}", [found[case, True], found[case, False]])
    ratio = max(found[case, True].seconds / found[case, False].seconds for case in cases)
    whole = not any(drained.parked or drained.missing for drained in found.values())
    return [Measured(name="hang_simulated_ratio", value=round(ratio, 3), n=len(cases), valid=whole)]


PROOF = Proof("hang_simulated", GOALS, prove)
