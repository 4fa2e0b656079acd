"""Describe the changes of one command or request to subscriptions, as plain values.

Data flow: Merge, Owed -> :func:`report_of` -> :class:`Report` -> the command line, or JSON of the API, from
which a remote command line makes the same report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.core.changes.diff import FieldChange, differences
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.owed import Owed, removal_lines, removal_total
from consumer.core.changes.steps import full_name
from consumer.core.changes.view import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """The change of one subscription."""

    change: str  #: added, changed, unchanged or removed
    identity: Mapping[
        str, object
    ]  #: the fields that identify it, see :func:`consumer.core.changes.view.identity`
    fields: Sequence[FieldChange] = ()  #: fields that differ, without any secret
    secret: str | None = None  #: its generated secret, to be shown this once
    owed: Mapping[str, int] | None = None  #: of a removal: its waiting and parked deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The changes that were made, or would be made."""

    changes: Sequence[ChangeRow]
    warnings: Sequence[str] = ()
    losses: Sequence[str] = ()  #: a line for each removal that would destroy deliveries
    lost: str = ""  #: the total of these deliveries in words; empty: none
    named: int = 0  #: subscriptions that the files name

    def of(self, change: str) -> Sequence[ChangeRow]:
        """Return the rows of one kind of change."""
        return [row for row in self.changes if row.change == change]

    @property
    def removed_ids(self) -> frozenset[str]:
        """Ids of the removed subscriptions."""
        return frozenset(str(row.identity["id"]) for row in self.of("removed"))


def report_of(merged: Merge, owed: Owed | None = None, *, secrets: bool = True) -> Report:
    """Return the report of *merged*.

    Args:
        merged: The changes.
        owed: Deliveries that the removals would destroy; None: they were not counted.
        secrets: Whether generated secrets are stored, so that somebody must see them.
    """
    generated = {entry.id: entry for entry in merged.generated} if secrets else {}
    rows = []
    for word, entry, fields in _changes(merged):
        fresh = generated.get(entry.id)
        rows.append(
            ChangeRow(
                change=word,
                identity=identity(entry),
                fields=fields,
                secret=None if fresh is None else fresh.secrets[0].get_secret_value(),
                owed=owed.fields(entry.id) if owed is not None and word == "removed" else None,
            )
        )
    return Report(
        changes=rows,
        warnings=[_stays_disabled(entry) for entry in merged.still_disabled],
        losses=() if owed is None else removal_lines(owed, merged.removed, merged.added),
        lost="" if owed is None else removal_total(owed),
    )


def with_counts(report: Report, planned: Report) -> Report:
    """Return *report* with the counts of deliveries that were made before the removal."""
    counts = {row.identity["id"]: row.owed for row in planned.changes}
    rows = [
        replace(row, owed=counts.get(row.identity["id"])) if row.change == "removed" else row
        for row in report.changes
    ]
    return replace(report, changes=rows)


def _changes(merged: Merge) -> Iterator[tuple[str, StoredEntry, Sequence[FieldChange]]]:
    """Yield the change of each entry, and the fields that differ."""
    for entry in merged.added:
        yield "added", entry, differences(None, entry)
    for old, entry in zip(merged.replaced, merged.changed, strict=True):
        yield "changed", entry, differences(old, entry)
    for entry in merged.unchanged:
        yield "unchanged", entry, ()
    for entry in merged.removed:
        yield "removed", entry, ()


def _stays_disabled(entry: StoredEntry) -> str:
    since = f"{entry.disabled_at} ({entry.disabled_reason})"
    return f"{full_name(entry)} stays disabled since {since}; change its url or apply with --enable"
