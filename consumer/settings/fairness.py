"""How tenants share a worker: the section ``[fairness]`` of ``leveret.toml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from consumer.core.schema import Section

Weight = Annotated[float, Field(gt=0, le=1_000)]


class FairnessSettings(Section):
    """How tenants share a worker."""

    tenant_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Part of [sending] concurrency that one tenant may hold while others wait; a heavier one has more."""
    noisy_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """A tenant that holds more than this part of [sending] concurrency while others wait is noisy."""
    noisy_after_s: Annotated[float, Field(ge=1, le=3_600)] = 10.0
    """After being noisy for this long a tenant's events go to a spill queue, around the lanes."""
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

    def weight_of(self, tenant: str) -> float:
        """Return what a delivery of *tenant* weighs against those of others: 1 unless something is set."""
        tier = self.tenants.get(tenant, 1.0)
        return self.tiers[tier] if isinstance(tier, str) else tier
