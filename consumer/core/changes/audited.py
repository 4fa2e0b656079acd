"""Describe a merge for the audit log: one change per subscription, without any secret.

Data flow: Merge -> differences, field by field -> :class:`Change` -> the store, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumer.core.changes.diff import differences
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import full_name
from consumer.core.store.audit import Change


def changes_of(merged: Merge) -> Sequence[Change]:
    """Return the changes of *merged*; unchanged entries have none."""
    before = {old.id: old for old in merged.replaced}
    return [
        *(_change("subscription.added", entry, None, entry) for entry in merged.added),
        *(_change("subscription.changed", new, before.get(new.id), new) for new in merged.changed),
        *(_change("subscription.removed", entry, entry, None) for entry in merged.removed),
    ]


def _change(action: str, entry: StoredEntry, old: StoredEntry | None, new: StoredEntry | None) -> Change:
    fields = differences(old, new)
    return Change(
        action=action,
        target=full_name(entry),
        tenant=entry.tenant,
        before={each.field: each.old for each in fields if each.old is not None},
        after={each.field: each.new for each in fields if each.new is not None},
    )
