"""How tenants share a worker: the section ``[fairness]`` of ``leveret.toml``."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator

from consumer.core.fairness.noisy_tenants import TenantLimit
from consumer.core.schema import Section
from consumer.settings.sections import Tenant

Weight = Annotated[float, Field(ge=0.001, le=1_000)]
EventsPerS = Annotated[float | None, Field(gt=0, le=1_000_000)]
Backlog = Annotated[int | None, Field(ge=1, le=2**31 - 1)]


class TenantLimitSettings(Section):
    """Limits of one tenant; above them its events wait in a spill queue. No event is dropped."""

    events_per_s: EventsPerS = None
    """Events a second to this worker; absent: [fairness] events_per_s."""
    backlog: Backlog = None
    """Events waiting in its lane; absent: [fairness] backlog."""


class FairnessSettings(Section):
    """How tenants share a worker."""

    tenant_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share of [sending] concurrency that one tenant may use while others wait; a heavier one gets more."""
    batch: Annotated[int, Field(ge=1, le=1_000)] = 3
    """Jobs of one tenant in a row while another tenant waits. Source: S1-8."""
    noisy_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """A tenant that uses more than this share of [sending] concurrency while others wait is noisy."""
    noisy_after_s: Annotated[float, Field(ge=1, le=3_600)] = 10.0
    """After a tenant was noisy for this long, its events are rerouted to a spill queue."""
    events_per_s: EventsPerS = None
    """Events a second of one tenant to this worker above which the tenant is noisy; absent: no limit."""
    backlog: Backlog = None
    """Waiting events of one tenant above which the tenant is noisy, estimated from its share of the lane's
    events; absent: no limit."""
    limits: dict[Tenant, TenantLimitSettings] = Field(default_factory=dict)
    """Other limits for single tenants."""
    tiers: dict[str, Weight] = Field(default_factory=dict)
    """Weight of each tier; a tenant without one weighs 1. Source: S1-16."""
    tenants: dict[str, str | Weight] = Field(default_factory=dict)
    """Tier or weight of single tenants."""

    @model_validator(mode="after")
    def _check_tiers(self) -> FairnessSettings:
        for tenant, tier in self.tenants.items():
            if isinstance(tier, str) and tier not in self.tiers:
                raise ValueError(
                    f"tenants.{tenant}: there is no tier {tier!r}; add it to tiers or write a weight"
                )
        return self

    @cached_property
    def _limit(self) -> TenantLimit:
        """The limit of tenants without their own; cached, as it is read for each tenant twice a second."""
        return TenantLimit(events_per_s=self.events_per_s, backlog=self.backlog)

    def weight_of(self, tenant: str) -> float:
        """Return the weight of *tenant*'s deliveries against those of others: 1 unless it is set."""
        tier = self.tenants.get(tenant, 1.0)
        return self.tiers[tier] if isinstance(tier, str) else tier

    def limit_of(self, tenant: str) -> TenantLimit:
        """Return the limits of *tenant*; above them its events wait in a spill queue."""
        own = self.limits.get(tenant)
        if own is None:
            return self._limit
        return TenantLimit(
            events_per_s=self.events_per_s if own.events_per_s is None else own.events_per_s,
            backlog=self.backlog if own.backlog is None else own.backlog,
        )
