"""Count the entries that a replay would send, and those that would stay parked, by the index alone.

Data flow: groups by tenant, subscription and reason, known subscriptions -> :func:`dry_run` -> DryRun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.message.parked_filter import GroupBy, ParkedGroup

KEYS: Final = (GroupBy.TENANT, GroupBy.SUBSCRIPTION, GroupBy.REASON)
"""The fields of the groups that :func:`dry_run` takes."""

GONE: Final = "the subscription no longer exists"
RAW: Final = "a message that never became an event has no delivery to redirect"
FOREIGN: Final = "the tenant does not own the subscription that is to get it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The entries of a filter, by the result of their replay."""

    sends: Sequence[ParkedGroup]  #: the largest first
    stays: Mapping[str, int]  #: entries that would stay, by the reason in words

    @property
    def total(self) -> int:
        """Return the number of all entries of the filter."""
        return sum(group.count for group in self.sends) + sum(self.stays.values())


def dry_run(groups: Sequence[ParkedGroup], tenants: Mapping[str, str], to: str | None = None) -> DryRun:
    """Return the result of a replay.

    Args:
        groups: All entries by :data:`KEYS`.
        tenants: Tenant of each subscription that exists, by its id.
        to: Id of the subscription that gets the deliveries instead of their own.
    """
    sends: list[ParkedGroup] = []
    stays: Counter[str] = Counter()
    for group in groups:
        refusal = _refusal(group, tenants, to)
        if refusal is None:
            sends.append(group)
        else:
            stays[refusal] += group.count
    return DryRun(sends=sends, stays=dict(stays.most_common()))


def _refusal(group: ParkedGroup, tenants: Mapping[str, str], to: str | None) -> str | None:
    targets = (group.values[GroupBy.SUBSCRIPTION.value] or "").split()
    if to is not None:
        if not targets:
            return RAW
        return None if tenants.get(to) == group.values[GroupBy.TENANT.value] else FOREIGN
    return None if all(target in tenants for target in targets) else GONE
