"""Describe field by field how a change affects a subscription, without any secret.

Data flow: Merge -> differences of an old and a new entry -> FieldChange per field -> the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from consumer.core.changes.merge import StoredEntry
from consumer.core.schema import set_at
from consumer.core.subscription.access_text import certificates_text
from consumer.core.subscription.entry import CREDENTIALS
from consumer.core.text.printable import MASK
from consumer.core.text.urls import show_url

_HIDDEN: Final = frozenset({"tenant", "name", "replaced_at", "ends_at"})
"""Fields that are equal in both entries, or follow from the secrets."""
_ORDER: Final = {name: place for place, name in enumerate(StoredEntry.model_fields)}
_SECRETS: Final = frozenset(".".join(path) for path in CREDENTIALS)
_LOCKED: Final = "locked"


class FieldChange(NamedTuple):
    """One field that differs; a value is None if that entry does not set the field."""

    field: str  #: dotted, such as ``retry.policy``
    old: object
    new: object


def differences(old: StoredEntry | None, new: StoredEntry | None) -> Sequence[FieldChange]:
    """Return the fields that differ, in the order of a file's fields; None is a missing entry.

    For passwords, tokens, keys, header values and URL queries, the result shows only that they differ. For
    signing secrets it shows their number, and for certificates their subjects and fingerprints.
    """
    before, after = _flat(old), _flat(new)
    return [
        FieldChange(field, _shown(field, before.get(field)), _shown(field, after.get(field)))
        for field in sorted({*before, *after}, key=_place)
        if before.get(field) != after.get(field)
    ]


def _place(field: str) -> tuple[int, str]:
    return _ORDER[field.partition(".")[0]], field


def _flat(entry: StoredEntry | None) -> dict[str, object]:
    if entry is None:
        return {}
    values = entry.record()
    for place, secret in entry.credentials().items():
        set_at(values, place, secret)
    flat = {".".join(path): value for path, value in _leaves(values) if path[0] not in _HIDDEN}
    secrets = tuple(secret.get_secret_value() for secret in entry.secrets)
    flat["secrets"] = secrets if entry.locked is None else _LOCKED
    return flat


def _leaves(
    values: Mapping[str, object], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _shown(field: str, value: object) -> object:
    if value is None:
        return None
    if field == "secrets":
        return f"{len(value)} x {MASK}" if isinstance(value, tuple) else value
    if field.startswith("headers.") or field in _SECRETS:
        return MASK
    if field in ("tls.ca", "tls.certificate"):
        return certificates_text(str(value))
    if isinstance(value, str) and "://" in value:
        return show_url(value) + (f"?{MASK}" if "?" in value else "")
    return value
