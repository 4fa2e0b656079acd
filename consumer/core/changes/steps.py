"""Change one stored subscription. Each step is a pure function from the stored entries to a :class:`Merge`.

Data flow: stored entries -> find + step -> Merge -> store, in one transaction.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pydantic import SecretStr

from consumer.core.changes.merge import Merge, StoredEntry, merge, refuse_clashes
from consumer.core.changes.secret_overlap import ALWAYS, ends_at, refuse_early_end, replaced_at, still_signing
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX, SubscriptionEntry
from consumer.core.webhook.signing import parse_secret

_ENABLED: Final[Mapping[str, object]] = {
    "enabled": True,
    "disabled_reason": None,
    "disabled_at": None,
    "disabled_itself": None,
}

NEAR_MAX = 3
"""Most names that are suggested for a name that was not found."""


class Address(NamedTuple):
    """The address of one subscription, as an operator gives it."""

    text: str | None = None  #: ``tenant/name``, an id, or a name that only one tenant uses
    tenant: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """The reason and the time of a disabling."""

    reason: str
    at: str  #: RFC 3339


def find(stored: Sequence[StoredEntry], address: Address) -> StoredEntry:
    """Return the one entry that *address* names.

    Raises:
        ConfigError: no entry has that address, or more than one; the text suggests similar names.
    """
    text, tenant, name = address
    if text is None:
        text = name or "" if tenant is None else f"{tenant}/{name}"
        found = [entry for entry in stored if entry.label == name and tenant in (None, entry.tenant)]
    else:
        found = [entry for entry in stored if text in (entry.id, full_name(entry))] or [
            entry for entry in stored if entry.label == text
        ]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(full_name(entry) for entry in found[:NEAR_MAX])
        raise ConfigError(f"{text!r} is the name of {len(found)} subscriptions; choose one of {several}")
    raise ConfigError(f"no subscription {text!r}; {_proposal(stored, text)}")


def full_name(entry: SubscriptionEntry) -> str:
    """Return ``tenant/name``, the name that people use for a subscription."""
    return f"{entry.tenant}/{entry.label}"


def _proposal(stored: Sequence[StoredEntry], text: str) -> str:
    """Suggest similar names: similar as a whole, similar without the tenant, or with *text* as a part."""
    full = {full_name(entry): entry.label.lower() for entry in stored}
    wanted = text.rpartition("/")[2].lower()
    near = difflib.get_close_matches(text, full, n=NEAR_MAX)
    labels = set(difflib.get_close_matches(wanted, set(full.values()), n=NEAR_MAX))
    near += [name for name, label in full.items() if label in labels or (wanted and wanted in label)]
    chosen = list(dict.fromkeys(near))[:NEAR_MAX]
    return f"did you mean {', '.join(chosen)}?" if chosen else "see `leveret subscriptions list`"


def add(stored: Sequence[StoredEntry], entry: SubscriptionEntry, make_secret: Callable[[], str]) -> Merge:
    """Return *stored* and *entry*. An entry without secrets gets a generated one.

    Raises:
        ConfigError: its tenant already has that name or URL, or another tenant has its secret.
    """
    if any(old.id == entry.id for old in stored):
        remedy = "choose another name, remove that one first, or change it with `subscriptions apply`"
        raise ConfigError(f"{full_name(entry)} already exists; {remedy}")
    merged = merge(stored, [entry], make_secret)
    return replace(merged, unchanged=())


def remove(stored: Sequence[StoredEntry], ids: Collection[str]) -> Merge:
    """Return *stored* without the subscriptions *ids*."""
    return Merge(
        entries=tuple(entry for entry in stored if entry.id not in ids),
        removed=[entry for entry in stored if entry.id in ids],
    )


def require_only(merged: Merge, expected: Sequence[StoredEntry]) -> Merge:
    """Return *merged* if it removes only entries of *expected*, which an operator agreed to remove.

    Raises:
        ConfigError: somebody changed the store meanwhile; the text names the further removals.
    """
    ids = {entry.id for entry in expected}
    more = ", ".join(full_name(entry) for entry in merged.removed if entry.id not in ids)
    if more:
        raise ConfigError(f"{more} would be removed too: the store has changed meanwhile; try again")
    return merged


def enable(stored: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *stored* with one subscription enabled, for whatever reason it was disabled."""
    return _update(stored, subscription_id, lambda _: _ENABLED)


def revive(stored: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *stored* with one subscription enabled, unless it was disabled for another reason meanwhile."""
    return _update(stored, subscription_id, lambda entry: _ENABLED if entry.gone else {})


def disable(stored: Sequence[StoredEntry], subscription_id: str, note: Note) -> Merge:
    """Return *stored* with one subscription disabled. If it already was, its first note stays."""
    disabled = {"enabled": False, "disabled_reason": note.reason, "disabled_at": note.at}
    notes: Mapping[str, object] = {**disabled, "disabled_itself": False}

    def changes(entry: StoredEntry) -> Mapping[str, object]:
        return notes if entry.enabled or entry.disabled_reason is None else {}

    return _update(stored, subscription_id, changes)


def rotate(
    stored: Sequence[StoredEntry],
    subscription_id: str,
    secret: str,
    *,
    lost_key: bool = False,
    now: float = ALWAYS,
) -> Merge:
    """Return *stored* with a new secret in front of the secrets of one subscription.

    The old secrets still sign beside it, so that receivers can change over. If there are more than
    :data:`consumer.core.subscription.entry.SECRETS_MAX`, the oldest is dropped once its grace is over.

    Args:
        stored: The stored entries.
        subscription_id: The subscription to change.
        secret: The new secret.
        lost_key: Give up the secrets that cannot be decrypted, so that only the new one remains.
        now: Unix seconds; absent: the grace of every replaced secret is over.

    Raises:
        ConfigError: the secret is unusable, already in use here, or another tenant's; the grace of the oldest
            secret has not ended; or the old secrets cannot be decrypted and *lost_key* is not given; or
            credentials would be lost with them.

    Source: Standard Webhooks 1.0.0, "Zero downtime secret rotation" (SW-32).
    """
    key = parse_secret(secret)

    def changes(entry: StoredEntry) -> dict[str, object]:
        _refuse_locked(entry, lost_key=lost_key)
        if key in entry.signing_keys():
            raise ConfigError(f"{full_name(entry)} already has that secret; give a new one")
        before, times = entry.secret_texts(), entry.replaced_at
        signing = before if now == ALWAYS else still_signing(before, entry.ends_at, now)
        after = [secret, *signing]
        try:
            refuse_early_end(before, times, after, now)
        except ConfigError as error:
            raise ConfigError(f"{full_name(entry)}: {error}") from None
        fresh = after[:SECRETS_MAX]
        return {
            "secrets": tuple(map(SecretStr, fresh)),
            "replaced_at": replaced_at(before, times, fresh, now),
            "ends_at": ends_at(before, entry.ends_at, fresh),
            "locked": None,
        }

    merged = _update(stored, subscription_id, changes)
    refuse_clashes(merged.entries)
    return replace(merged, generated=merged.changed)


def limit_overlap(rotated: Merge, end: int) -> Merge:
    """Return *rotated* with *end* (Unix seconds) as the last moment at which the secret replaced now signs.

    Each older secret keeps the end that was promised for it, or none.
    """

    def limited(entry: StoredEntry) -> StoredEntry:
        if len(entry.secrets) < 2:
            return entry
        older = entry.ends_at[2:] or (0,) * (len(entry.secrets) - 2)
        return entry.model_copy(update={"ends_at": (0, end, *older)})

    fresh = {entry.id: limited(entry) for entry in rotated.changed}
    changed = tuple(fresh.values())
    entries = tuple(fresh.get(entry.id, entry) for entry in rotated.entries)
    return replace(rotated, entries=entries, changed=changed, generated=changed)


def drop_old(stored: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *stored* with only the newest secret of one subscription: the overlap is over.

    Raises:
        ConfigError: the secrets cannot be decrypted.
    """

    def changes(entry: StoredEntry) -> dict[str, object]:
        _refuse_locked(entry)
        return {"secrets": entry.secrets[:1], "replaced_at": (), "ends_at": ()}

    return _update(stored, subscription_id, changes)


def _refuse_locked(entry: StoredEntry, *, lost_key: bool = False) -> None:
    """Raise if a change of the signing secrets would silently lose encrypted ones."""
    name, credentials = full_name(entry), ", ".join(entry.credentials())
    if entry.locked is None:
        if lost_key:
            raise ConfigError(f"{name}: its secrets can be decrypted; leave --lost-key out")
    elif not lost_key:
        raise ConfigError(f"{name}: {locked_text(entry)}")
    elif credentials:
        raise ConfigError(f"{name}: {credentials} would be lost with the old secrets; {_repair(entry)}")


def locked_text(entry: StoredEntry) -> str:
    """Return why *entry* is locked, and the remedy."""
    return f"{entry.locked}; bring the key back, or if it is lost for good: {_repair(entry)}"


def _repair(entry: StoredEntry) -> str:
    """Return the command that unlocks *entry* without its key."""
    places = ["secrets", *entry.credentials()]
    if len(places) == 1:
        return f"rotate-secret --lost-key {full_name(entry)}"
    return f"apply it with new {', '.join(places)}"


def _update(
    stored: Sequence[StoredEntry],
    subscription_id: str,
    changes: Callable[[StoredEntry], Mapping[str, object]],
) -> Merge:
    """Return *stored* with *changes* made to one entry; an entry that stays equal counts as unchanged."""
    entries = list(stored)
    for index, old in enumerate(stored):
        if old.id != subscription_id:
            continue
        new = old.model_copy(update=dict(changes(old)))
        if new.document() == old.document():
            return Merge(entries=stored, unchanged=[old])
        entries[index] = new
        return Merge(entries=tuple(entries), changed=[new], replaced=[old])
    return Merge(entries=stored)
