"""Decide whether a store is the one that the messages on the broker were made with.

    store: identity, generation number, mark, and the marks of earlier generations --+
    broker: the generation that was recorded there last                              +-> judge -> None | Doubt

Each new store gets a random identity, which its copies share. Each change gives it the next number and a
random mark. A store that contains the recorded generation therefore knows all subscriptions that the record's
writer knew. A store without it may lack subscriptions for which deliveries wait.

Source: fault 81.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

REMEDY = "bring the right store back (LEVERET_HOME, LEVERET_DATABASE_URL), or run `leveret store adopt`"

_NAME = re.compile(r"[0-9A-Za-z_-]{0,64}")
_NUMBER_MAX = 2**62


class Generation(NamedTuple):
    """One state of one store."""

    store: str  #: identity, which copies share
    number: int  #: changes so far
    mark: str  #: random after every change, so that copies which change separately differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The history of a store, as far as the decision needs it."""

    generation: Generation
    marks: Mapping[int, str] = field(default_factory=dict)  #: of this generation and some earlier ones
    subscriptions: int = 0

    def contains(self, other: Generation) -> bool:
        """Return whether *other* is this generation or, as far as the marks show, an ancestor of it."""
        own = self.generation
        if other.store != own.store or other.number > own.number:
            return False
        return self.marks.get(other.number, other.mark) == other.mark


class Doubt(StrEnum):
    """The reason why a store is not accepted as the right one; a closed set."""

    EMPTY = "empty"
    FOREIGN = "foreign"
    OLDER = "older"
    DIVERGED = "diverged"

    @property
    def text(self) -> str:
        """The reason for ``/readyz``, with the remedy."""
        return f"{_TEXTS[self]}; {REMEDY}"


_TEXTS: Mapping[Doubt, str] = {
    Doubt.EMPTY: "the store contains no subscription, but the broker has messages of others",
    Doubt.FOREIGN: "the broker's messages were made with another store",
    Doubt.OLDER: "the store is older than the one that the broker's messages were made with",
    Doubt.DIVERGED: "the store is a copy that was changed separately from the one of the broker's messages",
}


def judge(own: Lineage, record: Generation | None, messages: int = 0) -> Doubt | None:
    """Return why *own* is not the right store; None if it is.

    Args:
        own: The store that was read.
        record: The generation recorded on the broker; None if nothing was recorded yet.
        messages: Events and deliveries on the broker; they count only without a record.
    """
    generation = own.generation
    if record is None:
        return Doubt.EMPTY if not own.subscriptions and messages else None
    if record.store != generation.store:
        if record.number == 0:  # that store never contained a subscription
            return None
        return Doubt.FOREIGN if own.subscriptions else Doubt.EMPTY
    if generation.number < record.number:
        return Doubt.OLDER
    return None if own.contains(record) else Doubt.DIVERGED


def must_record(own: Generation, record: Generation | None) -> bool:
    """Return whether the right store's generation must replace *record*."""
    if record is None:
        return True
    return own.number > (record.number if own.store == record.store else 0)


Decide = Callable[[Generation | None, int], Generation | None]
"""From the record and the number of messages on the broker to the new record; None leaves it unchanged."""


def encode(generation: Generation) -> bytes:
    """Write a generation as JSON."""
    return orjson.dumps(generation._asdict())


def decode(body: bytes) -> Generation | None:
    """Read the text that :func:`encode` wrote; None for any other text."""
    try:
        return read(orjson.loads(body))
    except ValueError:
        return None


def read(value: Any) -> Generation | None:
    """Read a generation from JSON values; None for any other value."""
    fields = [value.get(name) for name in Generation._fields] if isinstance(value, dict) else value
    match fields:
        case [str(store), int(number), str(mark)] if _is_valid(store, number, mark):
            return Generation(store, number, mark)
    return None


def _is_valid(store: str, number: int, mark: str) -> bool:
    names = store and _NAME.fullmatch(store) and _NAME.fullmatch(mark)
    return bool(names) and 0 <= number <= _NUMBER_MAX and not isinstance(number, bool)
