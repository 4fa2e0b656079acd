"""Filter parked entries, and count them by shared fields.

Data flow: entries -> Filter -> entry_as_dict -> list, replay, export, purge; grouped -> counts (S1-13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from consumer.core.message.parked import ParkedEntry, entry_as_dict, rfc3339
from consumer.core.message.records import ParkedRow

_FIRST_S, _LAST_S = -62_135_596_800.0, 253_402_300_799.0
"""Begin of the year 1 and end of the year 9999, in Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The wanted entries; a field that is None fits every entry."""

    ids: frozenset[str] | None = None
    tenant: str | None = None
    type: str | None = None  #: an AMQP topic pattern
    reason: str | None = None
    subscription: str | None = None  #: its id
    since: float | None = None  #: Unix seconds; parked then or later
    until: float | None = None  #: Unix seconds; parked before then

    def __call__(self, entry: ParkedEntry) -> bool:
        """Return whether *entry* is chosen."""
        shown = entry_as_dict(entry)
        targets = () if entry.delivery is None else entry.delivery.targets
        return self._is_meant(entry.id, entry.parked_at, targets) and self._has(shown)

    def takes_row(self, row: ParkedRow) -> bool:
        """Return whether the entry of *row* is chosen."""
        if not self._is_meant(row.id, row.parked_at, row.subscription_ids):
            return False
        return self._has({"tenant": row.tenant, "reason": row.reason, "type": row.type})

    def _is_meant(self, entry_id: str, parked_at: float, targets: Sequence[str]) -> bool:
        if self.ids is not None and entry_id not in self.ids:
            return False
        if self.since is not None and parked_at < self.since:
            return False
        if self.until is not None and parked_at >= self.until:
            return False
        return self.subscription is None or self.subscription in targets

    def _has(self, shown: Mapping[str, object]) -> bool:
        pairs = (("tenant", self.tenant), ("reason", self.reason))
        return all(wanted is None or shown[key] == wanted for key, wanted in pairs) and (
            self.type is None or fits(self.type, str(shown["type"] or ""))
        )


def filter_as_dict(chosen: Filter) -> dict[str, object]:
    """Show the conditions of a filter that are set, with stable names and times in RFC 3339.

    A job of an older release may have a time outside of the calendar, which is cut to the calendar's end.
    """
    shown: dict[str, object] = {name: value for name, value in asdict(chosen).items() if value is not None}
    if chosen.ids is not None:
        shown["ids"] = sorted(chosen.ids)
    for name, at in (("since", chosen.since), ("until", chosen.until)):
        if at is not None:
            shown[name] = rfc3339(min(max(at, _FIRST_S), _LAST_S))
    return shown


class GroupBy(StrEnum):
    """A field by which entries are counted."""

    TENANT = "tenant"
    REASON = "reason"
    STATUS = "status"
    TYPE = "type"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedGroup:
    """Entries that share the values of some fields."""

    values: Mapping[str, str | None]  #: by the names of :class:`GroupBy`
    count: int
    oldest: float  #: Unix seconds when the first of them was parked
    newest: float


_FIELDS: Mapping[GroupBy, str] = {
    GroupBy.TENANT: "tenant",
    GroupBy.REASON: "reason",
    GroupBy.STATUS: "last_failure_code",
    GroupBy.TYPE: "type",
    GroupBy.SUBSCRIPTION: "subscription_id",
}


def grouped(rows: Iterable[Mapping[str, object]], keys: Sequence[GroupBy]) -> Sequence[Mapping[str, object]]:
    """Count *rows* of :func:`consumer.core.message.parked.entry_as_dict` by *keys*, the largest group first.

    Source: S1-13 (group the dead letters by code and by tenant).
    """
    groups: dict[tuple[object, ...], dict[str, object]] = {}
    for row in rows:
        values = tuple(None if row[_FIELDS[key]] is None else str(row[_FIELDS[key]]) for key in keys)
        at = str(row["parked_at"])
        group = groups.setdefault(
            values,
            {
                **{k.value: v for k, v in zip(keys, values, strict=True)},
                "count": 0,
                "oldest": at,
                "newest": at,
            },
        )
        group["count"] = int(str(group["count"])) + 1
        group["oldest"] = min(str(group["oldest"]), at)
        group["newest"] = max(str(group["newest"]), at)
    return sorted(groups.values(), key=lambda group: (-int(str(group["count"])), str(group)))


def fits(pattern: str, kind: str) -> bool:
    """Return whether an event type fits an AMQP topic pattern, with any number of ``#``."""
    parts = pattern.split(".")
    places = _skip_any(parts, {0})
    for word in kind.split(".") if kind else ():
        stepped = {place + 1 for place in places if place < len(parts) and parts[place] in ("*", word)}
        stepped |= {place for place in places if place < len(parts) and parts[place] == "#"}
        places = _skip_any(parts, stepped)
    return len(parts) in places


def _skip_any(parts: Sequence[str], places: set[int]) -> set[int]:
    """Add the places behind each ``#``, which also matches zero words."""
    reached = set(places)
    for place, part in enumerate(parts):
        if part == "#" and place in reached:
            reached.add(place + 1)
    return reached
