"""Say field by field what a change does to a subscription, and never a secret.

Data flow: Merge -> differences of an old and a new entry -> FieldChange per field -> the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from consumer.core.subscription_set import StoredEntry
from consumer.core.urls import show_url

MASK: Final = "***"
"""Stands for what may not be shown."""

_IDENTITY: Final = frozenset({"tenant", "name"})
_ORDER: Final = {name: place for place, name in enumerate(StoredEntry.model_fields)}


class FieldChange(NamedTuple):
    """One field that differs; None where the entry does not say it."""

    field: str  #: dotted, such as ``retry.policy``
    old: object
    new: object


def differences(old: StoredEntry | None, new: StoredEntry | None) -> Sequence[FieldChange]:
    """Return what differs, sorted as the fields of the file are; None is an entry that is not there.

    Values of headers and the query of a URL may hold a credential: that they differ is told, not how.
    Of secrets only their number is told, and whether they were replaced.
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
    flat = {".".join(path): value for path, value in _leaves(entry.record()) if path[0] not in _IDENTITY}
    flat["secrets"] = tuple(secret.get_secret_value() for secret in entry.secrets)
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
        return f"{len(value)} x {MASK}" if isinstance(value, tuple) else MASK
    if field.startswith("headers."):
        return MASK
    if field == "url":
        text = str(value)
        return show_url(text) + (f"?{MASK}" if "?" in text else "")
    return value
