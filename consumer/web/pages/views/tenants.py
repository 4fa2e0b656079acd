"""Define the page of tenants and fairness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.web.pages.views.overview import Trouble
from consumer.web.pages.views.parts import Page, Pager, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """One tenant. Numbers of a worker are None where the tenant has no series of its own there."""

    tenant: str
    endpoints: int = 0
    deliveries_per_s: float | None = None
    share: float | None = None  #: part of all deliveries that were started, 0 to 1
    in_flight: int | None = None  #: deliveries in flight: the slots that it has
    waiting: int | None = None  #: messages in the worker's hands, not started
    rounds_waited: int | None = None  #: rounds since it was last served, or began to wait
    parked: int = 0
    is_rerouted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessDay:
    """How evenly the attempts of the last 24 hours were shared, by hour."""

    index: float | None = None  #: Jain's index of the whole day, from 0 to 1
    hours: Series = field(default_factory=Series)  #: Jain's index
    top: Sequence[str] = ()  #: the tenants with most attempts
    top_share: float | None = None  #: part of all attempts that were theirs, 0 to 1
    top_hours: Series = field(default_factory=Series)

    @property
    def least(self) -> float | None:
        """Return the index of the least even hour."""
        return min((each for each in self.hours.values if each is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsPage(Page):
    """The page at ``/tenants``."""

    template: ClassVar[str] = "tenants.html"
    section: ClassVar[str] = "tenants"
    lines: Sequence[TenantLine] = ()  #: the busiest first
    total: int = 0
    q: str = ""  #: filter by a part of the name
    fairness: float | None = None  #: Jain's index of the last minute, from 0 to 1
    fairness_tenants: int | None = None  #: tenants that it covers
    slots: int | None = None  #: of all workers
    slots_used: int | None = None
    borrowable: int | None = None  #: deliveries that one tenant may have in flight while no other waits
    rerouted: int | None = None  #: tenants whose events go by a spill queue
    in_lanes: int | None = None  #: events in the lanes, ready in the broker
    in_spill: int | None = None  #: events in the spill queues, ready in the broker
    day: FairnessDay | None = None  #: None: the history does not contain every attempt
    trouble: Trouble | None = None  #: why nothing is known of the worker
    pager: Pager = field(default_factory=Pager)

    @property
    def has_sums(self) -> bool:
        """Return whether it shows the fairness of the day."""
        return self.day is not None

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Tenants"
