"""Every queue, exchange and routing-key name, derived from one prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from topology.ladder import round_ms, wait_key

PREFIX_PATTERN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Form of a prefix: words joined by single dots, so that a topic key can contain it."""

PREFIX_MAX = 64
"""Longest prefix in characters; the longest name stays far below AMQP's 255 bytes."""

RAW_KEY = "raw"
"""Key on ``dlx`` of a message that the broker itself dead-lettered; it leads to overflow."""

SUSPECT_KEY = "suspect"
"""Key on ``dlx`` of a message that came back too often; it leads to suspect."""

PARKED_PATTERN = "parked.#"
REFUSED_PATTERN = "refused.#"


@dataclass(frozen=True, slots=True)
class Names:
    """All names of one instance. Two instances on one broker differ in their prefix.

    Raises:
        ValueError: the prefix is empty, too long, or has characters that a topic key cannot contain.
    """

    prefix: str = "leveret"

    def __post_init__(self) -> None:
        if len(self.prefix) > PREFIX_MAX or not PREFIX_PATTERN.fullmatch(self.prefix):
            raise ValueError(
                f"topology prefix {self.prefix!r} is not usable: use 1 to {PREFIX_MAX} letters, digits, "
                "'_' or '-', in words joined by single dots"
            )
        if self.prefix == "amq" or self.prefix.startswith("amq."):
            raise ValueError(f"topology prefix {self.prefix!r} is reserved by the broker: choose another")

    # exchanges

    @property
    def events(self) -> str:
        """Topic exchange that publishers use; routing key = event type."""
        return f"{self.prefix}.events"

    @property
    def guard(self) -> str:
        """Headers exchange that routes events with a recorded death around the lanes: see :attr:`died`."""
        return f"{self.prefix}.guard"

    @property
    def route(self) -> str:
        """Headers exchange that sends single tenants to spill or dedicated queues."""
        return f"{self.prefix}.route"

    @property
    def lanes(self) -> str:
        """Exchange that spreads all other events over the lanes."""
        return f"{self.prefix}.lanes"

    @property
    def wait(self) -> str:
        """Topic exchange in front of the rungs; routing key = :func:`topology.ladder.wait_key`."""
        return f"{self.prefix}.wait"

    @property
    def due(self) -> str:
        """Topic exchange behind the rungs; also a direct route to our queues: see :meth:`direct_key`."""
        return f"{self.prefix}.due"

    @property
    def dlx(self) -> str:
        """Topic exchange of all messages whose processing has ended: parked, refused, raw, suspect."""
        return f"{self.prefix}.dlx"

    @property
    def control(self) -> str:
        """Fanout exchange between workers."""
        return f"{self.prefix}.control"

    @property
    def ops(self) -> str:
        """Topic exchange of operational events for any listener."""
        return f"{self.prefix}.ops"

    # queues (expired, stray and store each name an exchange and its only queue)

    def lane(self, index: int) -> str:
        """Queue of fresh events; 0-based."""
        return f"{self.prefix}.lane.{index:02d}"

    @property
    def died(self) -> str:
        """Lane of the events that came with a header ``x-death``; it has no dead letters."""
        return f"{self.prefix}.lane.died"

    def rung(self, ttl_s: float) -> str:
        """Wait queue with the TTL *ttl_s* in seconds, named in milliseconds."""
        return f"{self.prefix}.wait.{round_ms(ttl_s)}"

    def due_queue(self, index: int) -> str:
        """Queue of delivery messages whose wait is over; 0-based."""
        return f"{self.prefix}.due.{index:02d}"

    @property
    def replay(self) -> str:
        """Queue of parked deliveries that an operator replays."""
        return f"{self.prefix}.replay"

    def spill(self, index: int) -> str:
        """Queue of a noisy tenant's events; 0-based."""
        return f"{self.prefix}.spill.{index:02d}"

    def dedicated(self, tenant: str) -> str:
        """Queue of fresh events of only one tenant."""
        return f"{self.prefix}.dedicated.{tenant}"

    @property
    def suspect(self) -> str:
        """Queue of messages that came back so often that they may be killing workers."""
        return f"{self.prefix}.suspect"

    @property
    def overflow(self) -> str:
        """Queue of raw dead letters and of entries that a full parked queue refused."""
        return f"{self.prefix}.overflow"

    @property
    def parked(self) -> str:
        """Queue of parked entries."""
        return f"{self.prefix}.parked"

    @property
    def parked_lock(self) -> str:
        """Exclusive queue that serves as a lock: the command that owns it has the parked entries in hand."""
        return f"{self.parked}.lock"

    def lock_key(self, queue: str) -> str:
        """Key on ``dlx`` that leads to *queue*: a lock, or a command that asks for its holder."""
        return f"lock.{queue}"

    @property
    def expired(self) -> str:
        """Exchange and queue of parked entries whose TTL ran out."""
        return f"{self.prefix}.expired"

    @property
    def stray(self) -> str:
        """Exchange and queue of messages whose due queue does not exist."""
        return f"{self.prefix}.stray"

    @property
    def store(self) -> str:
        """Exchange and queue of one message: the store generation that the workers know."""
        return f"{self.prefix}.store"

    @property
    def store_lock(self) -> str:
        """Exclusive queue that serves as a lock for reading or changing that message."""
        return f"{self.store}.lock"

    def inbox(self, source: str) -> str:
        """Queue of a source whose messages need more than headers, and the headers exchange before it."""
        return f"{self.prefix}.inbox.{source}"

    def inbox_undied(self, source: str) -> str:
        """Fanout exchange between the two, for messages without a recorded death."""
        return f"{self.prefix}.inbox.{source}.undied"

    def inbox_died(self, source: str) -> str:
        """Queue of a source's messages that came with a header ``x-death``; it has no dead letters."""
        return f"{self.prefix}.inbox.{source}.died"

    def is_internal(self, queue: str) -> bool:
        """Return whether *queue* gives workers only messages of ours: delivery messages, moved events."""
        own = (self.replay, self.suspect, self.stray)
        return queue in own or queue.startswith((f"{self.wait}.", f"{self.due}."))

    def is_spill(self, queue: str) -> bool:
        """Return whether *queue* is one of the spill queues."""
        return queue.startswith(f"{self.prefix}.spill.")

    def holds_events(self, queue: str) -> bool:
        """Return whether *queue* contains messages of producers and dead-letters those that die there."""
        families = tuple(f"{self.prefix}.{family}." for family in ("lane", "dedicated", "spill", "inbox"))
        return queue.startswith(families) and not self._is_of_died(queue)

    def _is_of_died(self, queue: str) -> bool:
        in_inbox = queue.startswith(self.inbox("")) and queue.endswith(".died")
        return in_inbox or queue == self.died

    def queue_of(self, exchange: str, key: str) -> str | None:
        """Return the queue behind *key* of one of our exchanges; None for any other exchange."""
        if exchange == self.wait:
            return f"{self.wait}.{key.partition('.')[0]}"
        if exchange == self.due:
            return key.partition(".")[2]
        if exchange != self.dlx:
            return None
        kind = key.partition(".")[0]
        return {"parked": self.parked, SUSPECT_KEY: self.suspect}.get(kind, self.overflow)

    # routing keys

    def wait_key(self, rung_s: float, queue: str) -> str:
        """Key on ``wait``: stay *rung_s* seconds, then move to *queue* (due, replay or spill)."""
        return wait_key(rung_s, queue)

    def direct_key(self, queue: str) -> str:
        """Key on ``due`` that leads directly to *queue* (due, replay or spill), without a rung."""
        return f"0.{queue}"

    def due_pattern(self, queue: str) -> str:
        """Binding of *queue* on ``due`` that accepts messages from every rung."""
        return f"*.{queue}"

    def rung_pattern(self, rung_s: float) -> str:
        """Binding of a rung on ``wait`` that accepts the messages of every due queue."""
        return f"{round_ms(rung_s)}.#"

    def parked_key(self, reason: str) -> str:
        """Key on ``dlx`` of a parked entry, such as ``parked.exhausted``."""
        return f"parked.{reason}"

    def refused_key(self, reason: str) -> str:
        """Key on ``dlx`` of an entry that a full parked queue refused; it leads to overflow."""
        return f"refused.{reason}"
