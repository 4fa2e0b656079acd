"""Define what every part of the flow shares: the ports, the names, the bounds of one worker."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf

from consumer.core.books import Books
from consumer.core.event.decode import DecodeRules
from consumer.core.fairness.accounts import equal
from consumer.core.fairness.noisy_tenants import TenantLimit
from consumer.core.fairness.waiting_shares import WaitingShares, has_too_much
from consumer.core.message.settled_attempts import SettledAttempts
from consumer.flow.base.history_notes import HistoryNotes
from consumer.flow.base.local_faults import LocalFaults
from consumer.flow.base.no_tracer import NoTracer
from consumer.flow.base.publish_gate import PublishGate
from consumer.flow.base.rate import Rate
from consumer.flow.base.turns import Turns
from consumer.flow.observe.observer import Observer
from consumer.ports import Archive, Clock, Publisher, Recorder, Sender, SettledEvents
from consumer.tracing_ports import Tracer
from topology.ladder import Ladder
from topology.names import Names

FIRST_WEIGHT_BYTES = 2_048.0  #: assumed of a delivery message before the first one
HEADERS_BYTES = 700  #: headers and properties of one with a few attempts
MEAN_OVER = 50  #: messages that the moving average looks at
UNCONFIRMED = 64  #: publishes under way at once; more would only wait in the connection's buffer
NO_LIMIT = TenantLimit()


def unlimited(_tenant: str) -> TenantLimit:
    """Return the limit of every tenant where none is configured."""
    return NO_LIMIT


@dataclass(slots=True)
class Weight:
    """The mean size of the delivery messages that were published lately."""

    mean_bytes: float = FIRST_WEIGHT_BYTES
    _count: int = 0

    def add(self, body_bytes: int) -> None:
        """Take the size of one that was published."""
        self._count += 1
        self.mean_bytes += (body_bytes + HEADERS_BYTES - self.mean_bytes) / min(self._count, MEAN_OVER)


@dataclass(slots=True)
class BacklogLimit:
    """The bound of each tenant's part of the waiting deliveries."""

    shares: WaitingShares = field(default_factory=WaitingShares)
    limit_bytes: float = inf
    waiting_bytes: float = 0.0  #: of all workers, by the last look at the queues

    def measured(self, waiting_bytes: float) -> None:
        """Take the estimate of a look at the queues."""
        self.waiting_bytes = waiting_bytes

    def refuses(self, tenant: str, tenants: int, now: float) -> bool:
        """Return whether *tenant* has more waiting than is free.

        Args:
            tenant: Its name.
            tenants: Number of tenants with subscriptions; one alone harms nobody.
            now: Monotonic seconds.
        """
        self.shares.advance(now)
        waiting = max(self.waiting_bytes, self.shares.total_bytes)
        if 2 * waiting <= self.limit_bytes or tenants <= 1:
            return False
        return has_too_much(self.shares.ratio(tenant), waiting, self.limit_bytes)


@dataclass(slots=True)
class Avoided:
    """The queues that give nothing back now, so that new waits do not take them."""

    rungs_s: frozenset[float] = frozenset()  #: TTLs in seconds
    due_queues: frozenset[str] = frozenset()  #: names

    def set_queues(self, queues: Collection[str], names: Names, ladder: Ladder) -> None:
        """Avoid the rungs and due queues among *queues*, and no others."""
        rungs_s = frozenset(rung_s for rung_s in ladder.rungs_s if names.rung(rung_s) in queues)
        self.set(rungs_s, frozenset(queue for queue in queues if queue.startswith(f"{names.due}.")))

    def set(self, rungs_s: frozenset[float], due_queues: frozenset[str]) -> None:
        """Avoid these rungs and due queues, and no others."""
        self.rungs_s, self.due_queues = rungs_s, due_queues

    def __or__(self, other: Avoided) -> Avoided:
        """Return the queues of both."""
        if not (other.rungs_s or other.due_queues):
            return self
        return Avoided(self.rungs_s | other.rungs_s, self.due_queues | other.due_queues)

    def due_queue(self, number: int, names: Names, count: int) -> str:
        """Return one of *count* due queues for any whole *number*, if possible one that is consumed."""
        wanted = names.due_queue(number % count)
        if wanted not in self.due_queues:
            return wanted
        others = (names.due_queue((number + step) % count) for step in range(1, count))
        return next((queue for queue in others if queue not in self.due_queues), wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one worker; each comes from a setting."""

    concurrency: int = 256  #: HTTP requests in flight, all endpoints together
    quick_latency_s: float = 1.0  #: recent p90 under which a target is sent straight from the event
    quick_wait_s: float = 0.25  #: longest expected wait for a slot that is waited out in the worker
    max_targets_per_message: int = 100  #: an event with more targets is split first
    due_hold: int = 500  #: delivery messages whose last second is waited out in the worker, at most
    suspect_after: int = 5  #: ``x-delivery-count`` from which a message is moved unread
    retry_budget: int | None = None  #: retries a minute, all endpoints together; None is no limit
    spill_queues: int = 4
    lane_window: int = 512  #: messages in hand of one lane, at most
    in_hand_s: float = 60.0  #: a message that was not started for longer goes to the end of a queue
    noisy_share: float = 0.1  #: of *concurrency*: a tenant that holds more while others wait is noisy
    noisy_after_s: float = 10.0  #: after so long the events of a noisy tenant are rerouted
    tenant_share: float = 0.25  #: of *concurrency* that one tenant may hold while others wait
    batch: int = 3  #: jobs of one tenant in a row while another tenant waits
    weight_of: Callable[[str], float] = equal  #: the weight of a tenant's deliveries against those of others
    limit_of: Callable[[str], TenantLimit] = unlimited  #: how many events a tenant may send
    dedicated: frozenset[str] = frozenset()  #: tenants with a lane of their own: these are never rerouted
    dedupe_window_s: float = 0.0  #: an event that was acked within this time is not sent again; 0: it is
    user_agent: str = "leveret/0"
    parked_ttl_s: float = 7 * 86400.0
    unknown_age_s: float = 86400.0  #: a delivery of an unknown subscription is parked at this age


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The ports and constants that every part of the flow shares."""

    publisher: Publisher
    sender: Sender
    clock: Clock
    observe: Observer
    sample: Callable[[], float]  #: uniform in [0, 1): the only chance in the flow
    random_bytes: Callable[[int], bytes]
    names: Names
    ladder: Ladder
    due_queues: int
    decode: DecodeRules
    archive: Archive  #: of cancelled deliveries
    record: Recorder
    notes: HistoryNotes
    settled: SettledEvents | None = None  #: of all workers; None: each worker knows only its own
    tracer: Tracer = field(default_factory=NoTracer)
    bounds: Bounds = field(default_factory=Bounds)
    books: Books = field(default_factory=Books)
    turns: Turns = field(default_factory=lambda: Turns(UNCONFIRMED))
    gate: PublishGate = field(default_factory=PublishGate)  #: shut before a forced end
    weight: Weight = field(default_factory=Weight)
    attempts: SettledAttempts = field(default_factory=SettledAttempts)  #: of this worker
    local_faults: LocalFaults = field(default_factory=LocalFaults)
    backlog: BacklogLimit = field(default_factory=BacklogLimit)  #: :class:`Backlog` keeps it up to date
    rate: Rate | None = None  #: of all requests of this worker; None is no limit
    avoided: Avoided = field(default_factory=Avoided)  #: set by :mod:`consumer.flow.returns`
    stuck: Avoided = field(default_factory=Avoided)  #: they confirm no publish; set by the publisher
