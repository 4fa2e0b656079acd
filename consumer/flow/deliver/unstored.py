"""Keep the results of requests that could not be stored, until the broker gives their message out again.

Data flow: FanOut gives a message up, as its channel closed -> :meth:`Unstored.keep` -> the same message comes
again -> :meth:`Unstored.take` -> the results are stored without a second request.

A result is kept by the delivery message, or by the event for a message of a producer. It is used once, and
only for a message that the broker marks as given out before: the same id published twice is sent twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from consumer.core.message.delivery import DeliveryMessage
from consumer.flow.deliver.attempt import Result
from consumer.ports import Source

KEPT_MAX = 10_000  #: messages whose results are kept; then the oldest are forgotten, and it is sent again
FROM_DELIVERY = frozenset({Source.DUE, Source.STRAY, Source.REPLAY, Source.SUSPECT})

_Key: TypeAlias = tuple[object, ...]


class Kept(NamedTuple):
    """The results of one message."""

    arrived_at: float  #: of its event, Unix seconds: copies of what was published for it name this time
    results: Mapping[str, Result]  #: by subscription


class Unstored:
    """The results of one worker."""

    def __init__(self) -> None:
        """Begin without results."""
        self._kept: dict[_Key, Kept] = {}

    def keep(self, source: Source, message: DeliveryMessage, results: Sequence[Result]) -> None:
        """Keep the results of a message that the broker will give out again."""
        made = {result.subscription.id: result for result in results if result.attempt is not None}
        if not made:
            return
        self._kept[_key(source, message)] = Kept(message.event.arrived_at, made)
        if len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    def take(self, source: Source, message: DeliveryMessage, *, redelivered: bool) -> Kept | None:
        """Return the results of a message that came again, and forget them; None without results."""
        if not self._kept or not redelivered:
            return None
        return self._kept.pop(_key(source, message), None)


def _key(source: Source, message: DeliveryMessage) -> _Key:
    event = message.event
    if source in FROM_DELIVERY:
        return message.targets, event.id, event.arrived_at, message.attempts_made
    return event.tenant, event.type, event.id, hash(event.body)
