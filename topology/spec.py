"""The settings that determine the topology, checked and in the topology's own terms.

Data flow: settings -> TopologySpec -> topology.plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from topology.ladder import RUNGS_S, Ladder, round_ms
from topology.names import Names

QueueType: TypeAlias = Literal["quorum", "classic"]

QUEUE_COUNT_MAX = 100
"""Most lanes, due or spill queues; their names have two digits."""

_SOURCE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TENANT = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """An exchange of the user whose messages are events.

    Attributes:
        name: Part of the inbox queue's name; letters, digits, ``_`` and ``-``.
        exchange: The user's exchange; it must exist.
        routing_key: Binding pattern on it.
        direct: True: bound directly to our events exchange; False: bound through an inbox queue, because its
            events need more than their headers.
    """

    name: str
    exchange: str
    routing_key: str = "#"
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec:
    """The settings that determine the topology. Times are in seconds.

    Raises:
        ValueError: a field is out of its bounds; the text names the field and the accepted values.
    """

    prefix: str = "leveret"
    queue_type: QueueType = "quorum"
    lanes: int = 16  #: 1 to 100; must be 1 without the consistent-hash plugin
    due_queues: int = 4  #: 1 to 100
    spill_queues: int = 4  #: 0 to 100
    lanes_before: int = 0  #: former number of lanes: those above *lanes* get no more events and are emptied
    dedicated: tuple[str, ...] = ()  #: tenants with a lane of their own
    retired: tuple[str, ...] = ()  #: tenants that had a lane, which gets no more events and is emptied
    rungs_s: tuple[float, ...] = RUNGS_S  #: ascending, whole milliseconds, at least one
    hold_s: float = 1.0  #: see :class:`topology.ladder.Ladder`
    hold_ratio: float = 0.02  #: see :class:`topology.ladder.Ladder`
    hold_max_s: float = 10.0  #: see :class:`topology.ladder.Ladder`
    parked_max_length: int = 10_000  #: entries, at least 1
    parked_ttl_s: float = 7 * 86_400.0  #: at least 0.001
    delivery_limit: int = 1_000  #: last resort of lanes, due, replay, spill and inboxes; at least 1
    browse_limit: int = 1_000_000  #: for queues whose messages are inspected and returned: each look counts
    suspect_limit: int = 2  #: attempts for a suspect message before it goes to overflow
    hash_on: Literal["tenant", "message_id"] = "tenant"
    hash_header: str = "tenant"  #: the header that names the tenant, if hash_on is tenant
    consistent_hash: bool = True  #: False: no plugin, and a fanout exchange before the only lane
    sources: tuple[SourceSpec, ...] = ()

    def __post_init__(self) -> None:
        Names(self.prefix)
        if self.queue_type not in ("quorum", "classic"):
            raise ValueError(f"queue_type must be 'quorum' or 'classic', got {self.queue_type!r}")
        for field, least in (("lanes", 1), ("due_queues", 1), ("spill_queues", 0), ("lanes_before", 0)):
            _within(field, getattr(self, field), least, QUEUE_COUNT_MAX)
        for field in ("parked_max_length", "delivery_limit", "browse_limit", "suspect_limit"):
            _within(field, getattr(self, field), 1, 2**31 - 1)
        if not self.consistent_hash and self.lanes != 1:
            raise ValueError(f"without the consistent-hash plugin lanes must be 1, got {self.lanes}")
        if round_ms(self.parked_ttl_s) < 1:
            raise ValueError(f"parked_ttl_s must be at least 0.001, got {self.parked_ttl_s}")
        _check_dedicated((*self.dedicated, *self.retired))
        _check_rungs(self.rungs_s)
        _check_sources(self.sources)

    @property
    def names(self) -> Names:
        """The names under this prefix."""
        return Names(self.prefix)

    @property
    def ladder(self) -> Ladder:
        """The rungs, and the limits of a wait in the worker."""
        return Ladder(
            rungs_s=self.rungs_s,
            hold_s=self.hold_s,
            hold_ratio=self.hold_ratio,
            hold_max_s=self.hold_max_s,
        )


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{field} must be {least} to {most}, got {value}")


def _check_dedicated(tenants: tuple[str, ...]) -> None:
    for tenant in tenants:
        if not _TENANT.fullmatch(tenant):
            raise ValueError(
                f"dedicated tenant {tenant!r} must be 1 to 128 letters, digits, '_', '.', ':', '@' or '-'"
            )
        if tenants.count(tenant) > 1:
            raise ValueError(f"tenant {tenant!r} is listed twice in dedicated and retired: list it once")


def _check_rungs(rungs_s: tuple[float, ...]) -> None:
    milliseconds = [round_ms(rung_s) for rung_s in rungs_s]
    if not milliseconds or milliseconds[0] < 1:
        raise ValueError(f"rungs_s must contain at least one rung of 0.001 s or more, got {rungs_s}")
    if any(upper <= lower for lower, upper in pairwise(milliseconds)):
        raise ValueError(f"rungs_s must ascend in steps of a millisecond or more, got {rungs_s}")
    if any(abs(ms - rung_s * 1000) > 1e-6 for ms, rung_s in zip(milliseconds, rungs_s, strict=True)):
        raise ValueError(f"rungs_s must be whole milliseconds, got {rungs_s}")


def _check_sources(sources: tuple[SourceSpec, ...]) -> None:
    names = [source.name for source in sources]
    for name in names:
        if not _SOURCE_NAME.fullmatch(name):
            raise ValueError(f"source name {name!r} must be 1 to 64 letters, digits, '_' or '-'")
        if names.count(name) > 1:
            raise ValueError(f"source name {name!r} is used twice: names must differ")
    for source in sources:
        if not source.exchange:
            raise ValueError(f"source {source.name!r} names no exchange: the default one cannot be bound")
