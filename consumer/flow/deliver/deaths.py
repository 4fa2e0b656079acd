"""Read the broker's record of a message's last death, and believe no more of it than our topology can make.

Data flow: a message of the overflow queue -> last_death -> Death, or None -> flow.overflow.

RabbitMQ before 4.0 takes a publisher's ``x-death`` for a record of its own and adds to it: an entry for the
same queue and reason keeps the exchange and the keys that the publisher wrote. What carries one enters no
queue of ours that has dead letters, so what died in a queue of events died once.

Source: RabbitMQ "Dead Letter Exchanges", dead-lettered effects on messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from consumer.core.model import RawMessage
from topology.names import Names

_MAX_TEXT = 255  #: of a queue, exchange or key: AMQP's short strings


class Death(NamedTuple):
    """How and where a message died, and as what it had been published."""

    reason: str  #: the broker's word, such as ``expired``
    queue: str
    exchange: str
    routing_key: str


def last_death(raw: RawMessage, names: Names) -> Death | None:
    """Return the newest death in ``x-death``; None where none of our queues can have made the record."""
    deaths = raw.headers.get("x-death")
    newest = deaths[0] if isinstance(deaths, list) and deaths else None
    death = _read(newest) if isinstance(newest, dict) else None
    if death is None or not isinstance(deaths, list):
        return None
    if names.is_internal(death.queue):
        return death
    died_once = len(deaths) == 1 and newest is not None and newest.get("count") == 1
    return death if died_once and _may_come(death, names) else None


def was_moved(death: Death, names: Names) -> bool:
    """Whether a worker put it into a spill queue; what came there by a binding is a producer's."""
    return names.is_spill(death.queue) and death.exchange == names.due


def _read(table: Mapping[str, object]) -> Death | None:
    keys = table.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else None
    if isinstance(key, bytes):  # the publisher's key is no UTF-8; on a lane it is read alike
        key = key.decode("utf-8", "backslashreplace")
    texts = [table.get("reason"), table.get("queue"), table.get("exchange"), key]
    found = [text for text in texts if isinstance(text, str) and len(text) <= _MAX_TEXT]
    return Death(*found) if len(found) == len(texts) else None


def _may_come(death: Death, names: Names) -> bool:
    """Whether a message of that exchange can die in a queue of events."""
    ours = {names.wait, names.dlx, names.control, names.ops, names.expired, names.stray}
    moved = death.exchange == names.due and not names.is_spill(death.queue)
    return names.holds_events(death.queue) and death.exchange not in ours and not moved
