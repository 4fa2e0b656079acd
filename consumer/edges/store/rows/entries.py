"""Convert an entry into a row of the store and back.

Data flow: StoredEntry -> :func:`to_row` (secrets sealed) -> table -> :class:`SubscriptionRow` ->
:func:`to_entry`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import ValidationError
from sqlalchemy import Row

from consumer.core import schema
from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import ConfigError
from consumer.core.store.sealing import NONCE_BYTES, KeyRing, Locked, Owner, Sealed
from consumer.core.subscription.policy import drop_ineffective
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import MASK
from consumer.edges.store.tables import SUBSCRIPTIONS

_SEALED_FIELDS = "sealed_fields"  #: key of the paths of sealed secrets other than signing secrets
_COLUMNS = ("tenant", "name", "url", "enabled", "disabled_reason", "disabled_at", "disabled_itself")


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One row of the subscriptions."""

    id: str
    tenant: str
    name: str
    url: str
    entry: str
    enabled: bool
    disabled_reason: str | None
    disabled_at: str | None
    sealed: Sealed
    version: int
    disabled_itself: bool | None = None  #: None: the store is of an earlier release, or it is enabled

    @classmethod
    def of(cls, row: Row[Any]) -> SubscriptionRow:
        """Convert a row of the database."""
        return cls.of_values(dict(row._mapping))

    @classmethod
    def of_values(cls, columns: Mapping[str, Any]) -> SubscriptionRow:
        """Convert the values of a row by their columns; those of a later release are left out."""
        values = {name: value for name, value in columns.items() if name in SUBSCRIPTIONS.c}
        for name in ("enabled", "disabled_itself"):  # SQLite has numbers
            values[name] = None if values.get(name) is None else bool(values[name])
        sealed = Sealed(values.pop("key_id"), bytes(values.pop("secrets")))
        return cls(sealed=sealed, **values)

    @property
    def owner(self) -> Owner:
        """Return the owner of the secrets."""
        return Owner(self.tenant, self.id)


def to_row(entry: StoredEntry, before: SubscriptionRow | None, ring: KeyRing) -> dict[str, object]:
    """Return the row of *entry*; locked secrets stay sealed as they are.

    Args:
        entry: The entry to store.
        before: The stored row with its id.
        ring: Keys of which the first one seals.

    Raises:
        ConfigError: the ring has no key.
        ValueError: a locked entry has other secrets than its row, which only a wrong step can cause.
    """
    rest = {name: value for name, value in entry.record().items() if name not in _COLUMNS}
    if entry.locked is None:
        credentials = entry.credentials()
        places = list(credentials)
        secrets = [*(secret.get_secret_value() for secret in entry.secrets), *credentials.values()]
        sealed = ring.seal(secrets, Owner(entry.tenant, entry.id), os.urandom(NONCE_BYTES))
    else:
        places, sealed = _as_before(entry, before)
    if places:
        rest[_SEALED_FIELDS] = places
    return {
        "id": entry.id,
        "tenant": entry.tenant,
        "name": entry.label,
        "url": entry.url,
        "entry": orjson.dumps(rest).decode(),
        "enabled": entry.enabled,
        "disabled_reason": entry.disabled_reason,
        "disabled_at": entry.disabled_at,
        "key_id": sealed.key_id,
        "secrets": sealed.text,
        "version": 1 if before is None else before.version + 1,
        "disabled_itself": entry.disabled_itself,
    }


def _as_before(entry: StoredEntry, before: SubscriptionRow | None) -> tuple[list[str], Sealed]:
    """Return the paths and the sealed text of a locked entry's secrets, unchanged.

    Raises:
        ValueError: the row does not have the same secrets as the entry.
    """
    places: list[str] = [] if before is None else orjson.loads(before.entry).get(_SEALED_FIELDS, [])
    if before is None or set(places) != set(entry.credentials()):
        raise ValueError(f"{entry.tenant}/{entry.label}: its secrets differ from the sealed ones")
    return places, before.sealed


def to_entry(row: SubscriptionRow, ring: KeyRing, where: str) -> StoredEntry:
    """Return the entry of a row; it is locked if its secrets cannot be opened.

    Raises:
        ConfigError: the row is damaged; one line per fault.
    """
    values: dict[str, object] = {name: getattr(row, name) for name in _COLUMNS}
    try:
        rest = orjson.loads(row.entry)
        places: list[str] = rest.pop(_SEALED_FIELDS, [])
        if "retry" in rest:
            rest["retry"] = drop_ineffective(rest["retry"])
        try:
            opened = ring.open(row.sealed, row.owner)
        except Locked as error:
            values["locked"], opened = str(error), (MASK,) * len(places)
        signing = len(opened) - len(places)
        values["secrets"] = opened[:signing]
        for place, secret in zip(places, opened[signing:], strict=True):
            schema.set_at(rest, place, secret)
        return StoredEntry.model_validate({**rest, **values})
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError("\n".join(_faults(error, row, where))) from None


def to_subscription(
    row: SubscriptionRow, ring: KeyRing, rules: SubscriptionRules, where: str
) -> Subscription:
    """Return the subscription of a row.

    It is locked if its secrets cannot be opened or its retry policy is missing, which leaves the others
    working.

    Raises:
        ConfigError: the row is damaged; one line per fault.
    """
    entry = to_entry(row, ring, where)
    try:
        return entry.build(rules)
    except ConfigError as error:
        bare = entry.model_copy(update={"retry": None}).build(rules)
        fault = f"{error}; add the policy to the settings again, or apply the subscription with another"
        return replace(bare, locked=bare.locked or fault)


def resealed(row: SubscriptionRow, ring: KeyRing) -> dict[str, object] | None:
    """Return the parameters that seal a row's secrets with the first key; None if no key opens them."""
    try:
        secrets = ring.open(row.sealed, row.owner)
    except Locked:
        return None
    sealed = ring.seal(secrets, row.owner, os.urandom(NONCE_BYTES))
    return {"of": row.id, "key": sealed.key_id, "sealed": sealed.text}


def _faults(error: Exception, row: SubscriptionRow, where: str) -> list[str]:
    prefix = f"{where}: {row.tenant}/{row.name}"
    if not isinstance(error, ValidationError):
        return [f"{prefix}: is damaged; restore the store from a backup, or remove it and apply it again"]
    overview = "the subscriptions file in the docs"
    faults = [
        (detail["loc"], schema.describe_fault(StoredEntry, detail, overview)) for detail in error.errors()
    ]
    return [f"{prefix}: {schema.dotted(tuple(place))}: {fault}" for place, fault in faults]
