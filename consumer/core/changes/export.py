"""Write kept subscriptions as a subscriptions file that, applied again, changes nothing.

Data flow: kept entries -> document -> YAML text.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from consumer.core.changes.merge import StoredEntry

_NOTES = ("disabled_reason", "disabled_at", "replaced_at")


def exported(entries: Sequence[StoredEntry], *, secrets: bool) -> dict[str, object]:
    """Return *entries* as the values of a subscriptions file.

    What the daemon noted (why it disabled one) is no field of a file: such a one is ``enabled: false``.

    Args:
        entries: In the order that the file will have.
        secrets: Put the secrets in; without them an apply keeps those that are there, and ``***`` stands for
            each that a table needs.
    """
    rows = []
    for entry in entries:
        values = entry.document() if secrets else entry.masked()
        rows.append({key: value for key, value in values.items() if key not in _NOTES})
    return {"subscriptions": rows}


def as_yaml(document: dict[str, object]) -> str:
    """Return *document* as YAML, keys in their order."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes a value that stands in two places twice: no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Write every value where it stands."""
        return True
