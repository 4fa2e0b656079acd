"""Define the page of tenants and fairness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.web.pages.views.parts import Page, Pager, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """One tenant. Rates are those of the last minute."""

    tenant: str
    endpoints: int = 0
    deliveries_per_s: float | None = None
    slots: int = 0  #: requests in flight
    slot_ratio: float = 0.0  #: of all slots of all workers
    waiting: int = 0  #: jobs in the hands of workers, not started
    oldest_s: float | None = None  #: age of the oldest of them
    parked: int = 0
    lane: str = ""
    rerouted_since: float | None = None  #: None: it is not rerouted
    reason: str = ""  #: why it is rerouted


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsPage(Page):
    """The page at ``/tenants``."""

    template: ClassVar[str] = "tenants.html"
    section: ClassVar[str] = "tenants"
    lines: Sequence[TenantLine] = ()  #: rerouted ones first, then the busiest
    total: int = 0
    q: str = ""  #: filter by a part of the name
    fairness: float | None = None  #: Jain's index, from 0 to 1
    fairness_hour: Series = field(default_factory=Series)
    tenant_share: float = 0.0  #: share of the slots that one tenant may use while others wait
    slots: int = 0  #: of all workers
    slots_used: int = 0
    pager: Pager = field(default_factory=Pager)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Tenants"
