"""Compare the books of all workers with the receivers, the parked queue and the broker's queues.

Data flow: ``/metrics`` of each worker -> :class:`Sums`; the receivers' log and the parked entries ->
:class:`Outside`; both -> :func:`error`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from bench.sink import Seen
from tests.support.processes.children import fetch
from tests.support.processes.daemon import Daemon

Pair: TypeAlias = tuple[str, str]
"""An event, and the subscription's name."""

TAKEN = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The books of all workers together."""

    owed: int
    owed_again: int
    delivered: int
    parked: int
    cancelled: int
    waiting: int
    waiting_again: int
    in_flight: int
    waiting_messages: int

    @property
    def ended(self) -> int:
        """Return the targets that ended."""
        return self.delivered + self.parked + self.cancelled

    def rest(self, waiting: int) -> int:
        """Return the targets that were owed and are nowhere, where *waiting* are on the broker."""
        return self.owed - self.owed_again - self.ended - self.in_flight - waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The same run without the books."""

    lost: int  #: pairs that no receiver took and that are not parked
    repeated: int  #: ends beyond the first one of each pair
    delivered: int  #: requests that a receiver took
    parked: int  #: entries in the parked queue


def error(sums: Sums, outside: Outside, waiting: int) -> int:
    """Return by how many targets the books are wrong; 0 if they account for everything.

    A positive rest is a loss. A negative one is a delivery that happened twice: the receivers or the parked
    queue saw each of these. No worker may have noted more ends than there were.
    """
    rest = sums.rest(waiting)
    return (
        outside.lost
        + max(rest, 0)
        + max(-rest - outside.repeated, 0)
        + max(sums.delivered - outside.delivered, 0)
        + max(sums.parked - outside.parked, 0)
    )


def seen_outside(owed: Collection[Pair], seen: Iterable[Seen], parked: Sequence[Pair]) -> Outside:
    """Count the ends that the receivers and the parked queue know."""
    taken = Counter((one.id, one.path) for one in seen if one.status in TAKEN)
    ends = taken + Counter(parked)
    return Outside(
        lost=sum(pair not in ends for pair in owed),
        repeated=sum(count - 1 for count in ends.values()),
        delivered=taken.total(),
        parked=len(parked),
    )


async def sums_of(daemons: Iterable[Daemon]) -> Sums:
    """Read the books of all workers."""
    texts = [await asyncio.to_thread(fetch, f"http://{one.listen}/metrics") for one in daemons]
    return summed([read(text.decode()) for text in texts])


def read(text: str) -> Mapping[str, float]:
    """Return the samples without labels, and those of the books with the value of their label."""
    return {
        ":".join((sample.name.removeprefix("leveret_"), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name.startswith(("leveret_targets_", "leveret_waiting_messages"))
    }


def summed(books: Sequence[Mapping[str, float]]) -> Sums:
    """Add the books of several workers."""

    def of(name: str) -> int:
        return round(sum(each[name] for each in books))

    return Sums(
        owed=of("targets_owed_total"),
        owed_again=of("targets_interrupted_total:lane"),
        delivered=of("targets_ended_total:delivered"),
        parked=of("targets_ended_total:parked"),
        cancelled=of("targets_ended_total:cancelled"),
        waiting=of("targets_waiting"),
        waiting_again=of("targets_interrupted_total:waiting"),
        in_flight=of("targets_in_flight"),
        waiting_messages=of("waiting_messages"),
    )
