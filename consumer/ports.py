"""Define the ports of the flow in the core's words: protocols, and the values that they pass on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from consumer.core.endpoint.health import Health
from consumer.core.history.records import HistoryRow
from consumer.core.message.records import ParkedRow
from consumer.core.model import Attempt, Event, Outcome, RawMessage, SignedRequest
from consumer.core.store.lineage import Decide, Generation, Lineage
from consumer.core.store.tombstone import Tombstone
from consumer.core.subscription.subscription import Subscription
from topology.check import Finding


@dataclass(slots=True, kw_only=True)
class Publication:
    """One message for the broker to take: persistent, mandatory, confirmed.

    It is never assigned to, and not frozen for its cost: there is one for every deferred delivery.
    """

    exchange: str
    routing_key: str
    body: bytes
    headers: Mapping[str, object] = field(default_factory=dict)
    content_type: str | None = "application/json"  #: None: the message names none
    content_encoding: str | None = None
    message_id: str | None = None  #: None: the broker edge makes a fresh one
    type: str | None = None
    timestamp_s: float | None = None  #: Unix seconds
    app_id: str | None = None
    correlation_id: str | None = None
    mandatory: bool = True  #: False: it may reach no queue, as on ``leveret.control`` and ``leveret.ops``


class Ticket(Protocol):
    """The right to settle one message that the broker gave us; used once."""

    async def ack(self) -> None:
        """Settle: the broker may forget it. On a channel that died: nothing, it will come again."""

    def alive(self) -> bool:
        """Whether the message is still ours to bring to an end; False once the broker gives it out again.

        A message from a queue that was deleted stays ours: no other copy exists.
        """

    async def requeue(self) -> None:
        """Give it back unstarted. On a channel that died: nothing, it comes again by itself."""

    async def reject(self) -> None:
        """Give it back after a failure of ours; each such return counts towards its delivery limit."""


class Source(StrEnum):
    """The kind of queue that a message came from."""

    LANE = "lane"
    INBOX = "inbox"
    DUE = "due"
    STRAY = "stray"
    REPLAY = "replay"
    SPILL = "spill"
    SUSPECT = "suspect"
    OVERFLOW = "overflow"
    EXPIRED = "expired"


@dataclass(slots=True)
class Incoming:
    """A raw message and the ticket to settle it."""

    message: RawMessage
    ticket: Ticket


class Publisher(Protocol):
    """The publishing half of the broker."""

    async def publish(self, publication: Publication) -> None:
        """Return once the broker has confirmed it.

        Raises:
            Unroutable: no queue is bound for the routing key.
            Refused: the broker said nack.
            BrokerUnavailable: no connection now, and nothing was confirmed.
        """

    def pressed(self) -> str | None:
        """Say why no new attempt should start (blocked, slow confirms), or None."""


class Routes(Protocol):
    """Bindings of single tenants in front of the lanes.

    Each method raises ``BrokerUnavailable`` where there is no connection now.
    """

    async def bind(self, tenant: str, queue: str) -> bool:
        """Send the events of *tenant* to *queue* instead of its lane; False without the right to."""

    async def unbind(self, tenant: str, queue: str) -> None:
        """Send the events of *tenant* to its lane again; nothing happens where there is no binding."""

    async def ready(self, queues: Iterable[str]) -> Mapping[str, int]:
        """Return how many messages of each of *queues* are ready."""


class Sender(Protocol):
    """Sends one webhook and returns its outcome; raises only when it is cancelled."""

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request* under its total deadline."""

    async def close(self) -> None:
        """Close every connection."""


class Store(Protocol):
    """Keeps the subscriptions."""

    async def load(self) -> Sequence[Subscription]:
        """Return every subscription, enabled or not; one whose secrets or policy are gone is locked.

        Raises:
            StoreUnavailable: it cannot be read.
            ConfigError: a stored subscription is wrong; the error names it and the field.
        """

    @property
    def lineage(self) -> Lineage:
        """Identity and generations of the state that the last :meth:`load` read."""

    async def tombstone(self, subscription_id: str) -> Tombstone | None:
        """Return when and by whom a subscription was deleted; None without a record of that in the loaded
        store or a later state of it.

        Raises:
            StoreUnavailable: it cannot be read.
        """

    async def changed(self) -> bool:
        """Return whether the store has changed since the last :meth:`load`; cheap.

        Raises:
            StoreUnavailable: it cannot be read.
        """

    async def disable(self, subscription_id: str, reason: str) -> None:
        """Set ``enabled: false`` and remember why. Unknown ids are ignored.

        Raises:
            StoreUnavailable: it cannot be written; it is as it was.
        """

    async def revive(self, subscription_id: str) -> None:
        """Enable a subscription that was disabled since its endpoint took nothing; others are ignored.

        Raises:
            StoreUnavailable: it cannot be written; it is as it was.
        """

    async def close(self) -> None:
        """Close every connection."""


class StoreRecord(Protocol):
    """The broker's memory of the store: one generation, which all workers share."""

    async def settle(self, decide: Decide) -> Generation | None:
        """Pass the record to *decide*, and record the generation that it returns, as one step.

        Returns:
            The generation that is recorded now; None without a record.

        Raises:
            BrokerUnavailable: it cannot be read or written now.
        """


class Recorder(Protocol):
    """Writes the states of endpoints and the parked entries to the store, in the background."""

    def endpoint(self, subscription: Subscription, state: str, *, epoch: int, reason: str = "") -> None:
        """Note the state of an endpoint: closed, open, probing, forced or disabled."""

    def health(self, subscription: Subscription, health: Health, *, anew: bool = False) -> None:
        """Note for how long an endpoint has failed, or that an attempt has succeeded since.

        *anew*: The wall clock was set, so this replaces the written state.
        """

    def hold(self, subscription: Subscription, until: float, *, anew: bool = False) -> None:
        """Note until when (Unix seconds) an endpoint is paused; 0 ends the pause; *anew* as above."""

    def parked(self, row: ParkedRow) -> None:
        """Note a parked entry."""

    def unparked(self, entry_id: str) -> None:
        """Note that an entry is parked no more."""

    async def finish(self) -> None:
        """Write the remaining notes, if the store takes them."""


class ParkedMessages(Protocol):
    """The index of parked entries in the store, as a number."""

    async def count_parked(self) -> int:
        """Return how many messages of the parked queue the index knows.

        Raises:
            StoreUnavailable: the store cannot be read.
        """


class History(Protocol):
    """Keeps steps for operators; nothing raises or blocks: a row without room is dropped and counted."""

    def note(self, row: HistoryRow) -> None:
        """Take *row*."""

    def note_arrival(self, event: Event, matched: int) -> None:
        """Take the arrival of an event that *matched* subscriptions want, at least one."""

    def note_delivery(
        self, event: Event, target: str, attempt: Attempt, answer: bytes | None, answer_type: str
    ) -> None:
        """Take a first attempt that delivered to *target*, with the answer's start and its escaped type."""


class SettledEvents(Protocol):
    """The events that any worker settled lately, by the history."""

    async def knows(self, event: Event) -> bool:
        """Return whether a worker settled an event of the same tenant, type and id within the window.

        Never raises, and returns within a bounded time: False while the history cannot be read.
        """


class Archive(Protocol):
    """Where that goes which leaves the broker undelivered: expired entries, cancelled deliveries."""

    async def append(self, entry: Mapping[str, object]) -> None:
        """Keep *entry* on disk; returns once it is there.

        Raises:
            OSError: the disk did not take it.
        """


class BrokerListener(Protocol):
    """The flow, as the consuming half of the broker calls it; each call returns at once."""

    def deliver(self, source: Source, incoming: Incoming) -> None:
        """Take a message."""

    def reopened(self) -> None:
        """A channel was lost: the messages that came by it are dead."""

    def relieved(self) -> None:
        """The broker takes publishes again: new attempts may start."""

    def connected(self) -> None:
        """The topology is declared, and the record of the store can be read."""

    def listening(self) -> None:
        """From now on this worker hears every control message."""

    def control(self, body: bytes) -> None:
        """Take a control message."""


class StepReports(Protocol):
    """Takes the steps of a worker's life; each has the static name of its log event, ``noun.verbed``."""

    def said(self, event: str, **fields: object) -> None:
        """Report a step that is as it should be."""

    def warned(self, event: str, **fields: object) -> None:
        """Report what an operator should look at."""

    def faulted(self, event: str, next_try_s: float, **fields: str) -> None:
        """Report a fault of a step that is tried again after *next_try_s*; equal faults share a line."""


class BrokerReports(StepReports, Protocol):
    """Takes what happens between this worker and the broker."""

    def broker_connected(self, connection: str, *, again: bool, suppressed: int) -> None:
        """A connection is open; *again*: not for the first time; *suppressed*: refusals without a line."""

    def broker_unreachable(
        self, connection: str, detail: str, next_try_s: float, *, suppressed: int | None
    ) -> None:
        """No broker took it; *suppressed*: equal refusals without a line; None: neither gets this one."""

    def topology_checked(self, findings: Sequence[Finding]) -> None:
        """The broker was compared with the plan."""

    def topology_mismatched(self, error: Exception) -> None:
        """The broker holds something else under a name of ours; the worker ends."""

    def publish_confirmed(self, waited_s: float) -> None:
        """The broker confirmed a publish after *waited_s*."""

    def publish_failed(self, error: Exception, routing_key: str, wait_s: float) -> None:
        """A publish was not confirmed; it is tried again after *wait_s*."""

    def pressed(self, reason: str | None) -> None:
        """Back-pressure began (a reason) or ended (None)."""

    def queues_stuck(self, queues: Collection[str]) -> None:
        """These queues, and no others, confirm no publish now; called whenever that changes."""

    def settles_lost(self, count: int) -> None:
        """So many settlements met a dead channel: their messages come again."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""


class QueueDepths(Protocol):
    """Takes how many messages our queues hold."""

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """The queues were looked at.

        Args:
            totals: Ready messages by kind of queue; empty where the queues could not be looked at.
            now: Unix seconds.
        """


class StoreReports(Protocol):
    """Takes what happens to the store."""

    def store_failed(self, step: str, error: Exception) -> None:
        """The store could not be read or written (*step*), or its content is wrong."""

    def store_worked(self, step: str) -> None:
        """The store could be read or written (*step*), perhaps again."""

    def records_dropped(self, count: int) -> None:
        """So many lines of the index of parked entries were given up."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""


class HistoryReports(Protocol):
    """Takes what happens to the history."""

    def history_dropped(self, reason: str, count: int) -> None:
        """So many rows are not recorded: full | refused | stopped."""

    def history_failed(self, error: Exception) -> None:
        """The history cannot be written; its rows wait."""

    def history_worked(self) -> None:
        """The history was written, perhaps again."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""


class LookupReports(Protocol):
    """Takes what happens to the look-ups of repeated events in the history."""

    def lookups_missed(self, count: int) -> None:
        """So many events were sent without a look-up: the history could not be read in time."""

    def lookups_failed(self, error: Exception) -> None:
        """The history cannot be read; events are sent without a look-up."""

    def lookups_worked(self) -> None:
        """The history can be read, perhaps again."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""


class Clock(Protocol):
    """Time, injected so that tests own it."""

    def now(self) -> float:
        """Unix seconds."""

    def monotonic(self) -> float:
        """Seconds that never step back."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run *callback* after *delay_s*; return the function that calls it off."""
