"""Read the broker's record of a message's last death, and accept only what Leveret's topology can produce.

Data flow: a message of the overflow queue -> last_death -> Death, or None -> flow.deliver.dead_letters.

RabbitMQ before 4.0 takes a publisher's ``x-death`` for a record of its own and adds to it: an entry for the
same queue and reason keeps the exchange and the keys that the publisher wrote. A message with an ``x-death``
enters no queue that has dead letters, so a message that died in a queue of events died once.

Source: RabbitMQ "Dead Letter Exchanges", dead-lettered effects on messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from consumer.core.model import RawMessage
from topology.names import Names

_MAX_TEXT = 255  #: characters of a queue, exchange or key: the length of AMQP's short strings


class Death(NamedTuple):
    """How and where a message died, and how it had been published."""

    reason: str  #: the broker's word, such as ``expired``
    queue: str
    exchange: str
    routing_key: str


def last_death(raw: RawMessage, names: Names) -> Death | None:
    """Return the newest death in ``x-death``; None where no queue of Leveret can have made the record."""
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
    """Return whether a worker moved the message to a spill queue; others came there by a binding."""
    return names.is_spill(death.queue) and death.exchange == names.due


def _read(table: Mapping[str, object]) -> Death | None:
    keys = table.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else None
    if isinstance(key, bytes):  # the publisher's key is not valid UTF-8; on a lane it is read alike
        key = key.decode("utf-8", "backslashreplace")
    texts = [table.get("reason"), table.get("queue"), table.get("exchange"), key]
    found = [text for text in texts if isinstance(text, str) and len(text) <= _MAX_TEXT]
    return Death(*found) if len(found) == len(texts) else None


def _may_come(death: Death, names: Names) -> bool:
    """Return whether a message of that exchange can die in a queue of events."""
    ours = {names.wait, names.dlx, names.control, names.ops, names.expired, names.stray}
    moved = death.exchange == names.due and not names.is_spill(death.queue)
    return names.holds_events(death.queue) and death.exchange not in ours and not moved
