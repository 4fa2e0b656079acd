"""Define the load of the tenants of the simulation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantClass:
    """Tenants that are alike."""

    name: str
    count: int
    events_per_s: float  #: of each
    latency_s: float  #: of their endpoints
    since_s: float = 0.0  #: they begin then


class Arrival(NamedTuple):
    """One event is published."""

    at: float  #: seconds
    tenant: str
    latency_s: float


#: Without the floods 30 % of the capacity of 20 workers with 8 slots; with them 155 %.
CLASSES: Sequence[TenantClass] = (
    TenantClass(name="quiet", count=940, events_per_s=0.2, latency_s=0.1),
    TenantClass(name="busy", count=40, events_per_s=5.0, latency_s=0.1),
    TenantClass(name="slow", count=10, events_per_s=1.0, latency_s=1.0),
    TenantClass(name="flood", count=10, events_per_s=200.0, latency_s=0.1, since_s=10.0),
)


def class_of(tenant: str) -> str:
    """Return the class of a tenant."""
    return tenant.rpartition("-")[0]


def arrivals(classes: Sequence[TenantClass], seconds: float, seed: int) -> Iterator[Arrival]:
    """Yield all events in their order, at random times; the same for the same *seed*."""

    def of(kind: TenantClass, number: int) -> Iterator[Arrival]:
        tenant = f"{kind.name}-{number:03d}"
        dice = random.Random(f"{seed}/{tenant}")
        at = kind.since_s + dice.expovariate(kind.events_per_s)
        while at < seconds:
            yield Arrival(at, tenant, kind.latency_s)
            at += dice.expovariate(kind.events_per_s)

    return merge(*(of(kind, number) for kind in classes for number in range(kind.count)))
