"""Judge whether a store is the one that the broker's messages were made with. Pure.

    store: identity, generation number, mark, and the marks of earlier generations --+
    broker: the generation that was recorded there last                              +-> judge -> None | Doubt

A store is made with an identity of its own, which its copies share. Each change gives it the next number and
a random mark. So a store that contains the recorded generation knows all that the record's writer knew; one
that does not may lack subscriptions for which deliveries wait.

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
    number: int  #: of changes so far
    mark: str  #: another one after every change, also where two copies change apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """A store as far as it matters here."""

    generation: Generation
    marks: Mapping[int, str] = field(default_factory=dict)  #: of this generation and of some before it
    subscriptions: int = 0

    def contains(self, other: Generation) -> bool:
        """Say whether *other* is this generation or one that this one was made from, as far as is known."""
        own = self.generation
        if other.store != own.store or other.number > own.number:
            return False
        return self.marks.get(other.number, other.mark) == other.mark


class Doubt(StrEnum):
    """Why a store is not taken for the right one; a closed set."""

    EMPTY = "empty"
    FOREIGN = "foreign"
    OLDER = "older"
    DIVERGED = "diverged"

    @property
    def text(self) -> str:
        """The reason for ``/readyz``, with the remedy."""
        return f"{_TEXTS[self]}; {REMEDY}"


_TEXTS: Mapping[Doubt, str] = {
    Doubt.EMPTY: "the store holds no subscription, and the broker holds messages of others",
    Doubt.FOREIGN: "the store is another one than the broker's messages were made with",
    Doubt.OLDER: "the store is older than the one that the broker's messages were made with",
    Doubt.DIVERGED: "the store was changed apart from the one that the broker's messages were made with",
}


def judge(own: Lineage, record: Generation | None, messages: int = 0) -> Doubt | None:
    """Return why *own* is not the right store; None: it is.

    Args:
        own: The store that was read.
        record: What the broker's side says; None: nothing was recorded yet.
        messages: Events and deliveries that the broker holds; they matter only without a record.
    """
    generation = own.generation
    if record is None:
        return Doubt.EMPTY if not own.subscriptions and messages else None
    if record.store != generation.store:
        if record.number == 0:  # that store never held a subscription
            return None
        return Doubt.FOREIGN if own.subscriptions else Doubt.EMPTY
    if generation.number < record.number:
        return Doubt.OLDER
    return None if own.contains(record) else Doubt.DIVERGED


def is_news(own: Generation, record: Generation | None) -> bool:
    """Say whether the right store's generation is to be recorded in the place of *record*."""
    if record is None:
        return True
    return own.number > (record.number if own.store == record.store else 0)


Decide = Callable[[Generation | None, int], Generation | None]
"""From the record and the number of messages on the broker to what is to be recorded; None: nothing."""


def encode(generation: Generation) -> bytes:
    """Write a generation as JSON."""
    return orjson.dumps(generation._asdict())


def decode(body: bytes) -> Generation | None:
    """Read what :func:`encode` wrote; None for anything else."""
    try:
        return read(orjson.loads(body))
    except ValueError:
        return None


def read(value: Any) -> Generation | None:
    """Read a generation out of JSON values; None for anything else."""
    fields = [value.get(name) for name in Generation._fields] if isinstance(value, dict) else value
    match fields:
        case [str(store), int(number), str(mark)] if _is_sound(store, number, mark):
            return Generation(store, number, mark)
    return None


def _is_sound(store: str, number: int, mark: str) -> bool:
    names = store and _NAME.fullmatch(store) and _NAME.fullmatch(mark)
    return bool(names) and 0 <= number <= _NUMBER_MAX and not isinstance(number, bool)
