"""Describe the deliveries that the removal of subscriptions would cancel.

Data flow: counts of edges.operate -> :class:`Owed` -> the question or refusal of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Deliveries that a removal would cancel or make impossible to replay."""

    waiting: Mapping[str, int] = field(default_factory=dict)  #: subscription id -> waiting deliveries
    parked: Mapping[str, int] = field(default_factory=dict)  #: subscription id -> parked entries
    uncounted: Sequence[str] = ()  #: each place that could not be counted, and why

    def __bool__(self) -> bool:
        """Return whether a removal may destroy anything."""
        return bool(any(self.waiting.values()) or any(self.parked.values()) or self.uncounted)

    def fields(self, subscription_id: str) -> Mapping[str, int]:
        """Return the two counts of one subscription, by stable field names."""
        return {
            "waiting": self.waiting.get(subscription_id, 0),
            "parked": self.parked.get(subscription_id, 0),
        }


def removal_lines(
    owed: Owed, removed: Iterable[StoredEntry], added: Iterable[StoredEntry] = ()
) -> Sequence[str]:
    """Return one line per subscription that its removal would affect, then one per place not counted.

    Args:
        owed: The counts.
        removed: The subscriptions to be removed.
        added: The subscriptions that the same change adds. One with the same URL counts as a rename.
    """
    by_url = {entry.url: full_name(entry) for entry in added}
    affected = []
    for entry in removed:
        waiting, parked = owed.waiting.get(entry.id, 0), owed.parked.get(entry.id, 0)
        if not waiting and not parked:
            continue
        renamed = f", renamed to {by_url[entry.url]}" if entry.url in by_url else ""
        lost = (
            f"{_count(waiting, 'waiting delivery', 'waiting deliveries')} would be cancelled, "
            f"{_count(parked, 'parked delivery', 'parked deliveries')} could not be replayed"
        )
        affected.append(f"{full_name(entry)}{renamed}: {lost}")
    return [*affected, *(f"not counted: {fault}" for fault in owed.uncounted)]


def removal_total(owed: Owed) -> str:
    """Return the total of what a removal would destroy, as a short phrase."""
    counts = [
        _count(number, f"{word} delivery", f"{word} deliveries")
        for word, by_id in (("waiting", owed.waiting), ("parked", owed.parked))
        if (number := sum(by_id.values()))
    ]
    if owed.uncounted:
        counts.append("deliveries that could not be counted")
    return " and ".join(counts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
