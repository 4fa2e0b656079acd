"""Pauses by an operator: of everything, of a tenant, or of a subscription.

Data flow: ``leveret pause`` -> store -> :func:`paused` at each load -> Subscription.paused -> flow.endpoints.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """The extent of a pause."""

    ALL = "all"
    TENANT = "tenant"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One pause. Each pause is lifted separately."""

    scope: Scope
    name: str = ""  #: the tenant, or the id of the subscription; empty for all
    since: float = 0.0  #: Unix seconds

    @property
    def key(self) -> tuple[str, str]:
        """The pair that identifies the pause."""
        return self.scope.value, self.name


def paused(pauses: Collection[tuple[str, str]], tenant: str, subscription_id: str) -> bool:
    """Return whether one of the pauses, given by their keys, applies to a subscription."""
    if not pauses:
        return False
    return not {
        (Scope.ALL.value, ""),
        (Scope.TENANT.value, tenant),
        (Scope.SUBSCRIPTION.value, subscription_id),
    }.isdisjoint(pauses)
