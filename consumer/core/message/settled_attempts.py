"""Remember which attempts of deliveries are settled, so that a copy of a delivery message makes no request.

Data flow: delivery message -> :meth:`SettledAttempts.begin` -> its request, its successor confirmed ->
:meth:`SettledAttempts.end`. A copy of the message is then ``DONE``: it is acked and counted.

A publish without a confirm is made again. While a queue has no quorum both are unconfirmed, and both are
valid once it returns. Without this memory each copy would start a chain of attempts of its own.

An attempt is settled once the broker has confirmed everything that follows from it: the next delivery
message, or the parked entry. So a copy that is dropped owes nothing. The time at which a worker took the
event belongs to the key: a replay, or the same id published twice, is another delivery.

The newest attempts are remembered, and those of a delivery in doubt for :data:`DOUBTED_S`: this worker has
made a publish of it again. Other workers and a worker after a restart do not have this memory.

Source: fault 95; decision 41.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

from consumer.core.event.seen_events import Seen
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.text.milliseconds import ceil_ms

SETTLED_MAX: Final = 50_000
"""Deliveries that are remembered; then the oldest is forgotten. Some 250 bytes each."""

DOUBTED_MAX: Final = 50_000
"""Deliveries in doubt that are remembered beside them."""

DOUBTED_S: Final = 86_400.0
"""Seconds for which a delivery in doubt is remembered: longer than an outage that nobody repairs."""

Key: TypeAlias = tuple[str, str, int, int]
"""Event, subscription, the milliseconds at which a worker took the event, and the hash of its bytes."""


class SettledAttempts:
    """The memory of one worker; times are monotonic seconds."""

    def __init__(self, most: int = SETTLED_MAX, most_doubted: int = DOUBTED_MAX) -> None:
        """Remember nothing.

        Args:
            most: Deliveries that are remembered.
            most_doubted: Deliveries in doubt that are remembered beside them.
        """
        self._most = most
        self._most_doubted = most_doubted
        self._running: set[tuple[Key, int]] = set()
        self._settled: dict[Key, int] = {}  #: attempts that are settled; the oldest change first
        self._doubted: dict[Key, tuple[int, float]] = {}  #: the same, and since when it is in doubt

    def __len__(self) -> int:
        """Return how many deliveries are remembered."""
        return len(self._settled) + len(self._doubted)

    def begin(self, message: DeliveryMessage, target: str) -> Seen:
        """Return the state of the next attempt of a delivery; a new one is running from now on."""
        key, made = key_of(message, target), message.attempts_made
        settled = self._doubted[key][0] if key in self._doubted else self._settled.get(key, 0)
        if made < settled:
            return Seen.DONE
        if (key, made) in self._running:
            return Seen.RUNNING
        self._running.add((key, made))
        return Seen.NEW

    def end(self, message: DeliveryMessage, targets: Iterable[str], settled: Iterable[str]) -> None:
        """Take in the end of running attempts of *targets*; those of *settled* are settled."""
        made = message.attempts_made
        for target in targets:
            self._running.discard((key_of(message, target), made))
        for target in settled:
            self._settle(key_of(message, target), made + 1)

    def doubt(self, message: DeliveryMessage, now: float) -> None:
        """Note that a publish of *message* is made again, although the broker may have taken it."""
        for target in message.targets:
            key = key_of(message, target)
            if key not in self._doubted:
                self._doubted[key] = (self._settled.pop(key, 0), now)
        for key, (_, since) in list(islice(self._doubted.items(), 2)):  # two for each: the number falls
            if now - since >= DOUBTED_S or len(self._doubted) > self._most_doubted:
                del self._doubted[key]

    def _settle(self, key: Key, number: int) -> None:
        doubted = self._doubted.get(key)
        if doubted is not None:
            self._doubted[key] = (max(number, doubted[0]), doubted[1])
            return
        self._settled[key] = max(number, self._settled.pop(key, 0))
        if len(self._settled) > self._most:
            del self._settled[next(iter(self._settled))]


def key_of(message: DeliveryMessage, target: str) -> Key:
    """Return the key of one delivery."""
    event = message.event
    return event.id, target, ceil_ms(event.arrived_at), hash(event.body)
