"""Write stored subscriptions as a subscriptions file; to apply that file again changes nothing.

Data flow: stored entries -> document -> YAML text.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.secret_overlap import still_signing

_NOTES = ("disabled_reason", "disabled_at", "replaced_at", "ends_at")


def export_document(entries: Sequence[StoredEntry], *, secrets: bool, now: float = 0.0) -> dict[str, object]:
    """Return *entries* as the values of a subscriptions file.

    A file has no field for the daemon's notes, such as the reason why it disabled a subscription. Such a
    subscription is written as ``enabled: false``.

    Args:
        entries: The entries, in the order of the file.
        secrets: Include the secrets. Without them, an apply keeps the stored secrets, and ``***`` marks each
            secret that a table requires.
        now: Unix seconds; signing secrets that ended by then are left out.
    """
    rows = []
    for entry in entries:
        values = entry.document() if secrets else entry.masked()
        if secrets and entry.ends_at:
            values["secrets"] = still_signing(entry.secret_texts(), entry.ends_at, now)
        rows.append({key: value for key, value in values.items() if key not in _NOTES})
    return {"subscriptions": rows}


def as_yaml(document: dict[str, object]) -> str:
    """Return *document* as YAML and keep the order of its keys."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice in full both times, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Write every value in full."""
        return True
