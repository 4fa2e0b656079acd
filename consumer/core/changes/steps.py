"""Change one kept subscription: each step is a pure function from what is kept to a :class:`Merge`.

Data flow: kept entries -> find + step -> Merge -> store, in one transaction.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import SecretStr

from consumer.core.changes.merge import Merge, StoredEntry, merge, refuse_clashes
from consumer.core.changes.secret_overlap import ALWAYS, refuse_early_end, replaced_at
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX, SubscriptionEntry
from consumer.core.webhook.signing import parse_secret

NEAR_MAX = 3
"""Most names that are proposed for one that was not found."""


class Address(NamedTuple):
    """Which subscription is meant."""

    text: str | None = None  #: ``tenant/name``, an id, or a name that only one tenant has
    tenant: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Why something was disabled, and when."""

    reason: str
    at: str  #: RFC 3339


def find(kept: Sequence[StoredEntry], address: Address) -> StoredEntry:
    """Return the one entry that is meant.

    Raises:
        ConfigError: there is none, or more than one; names what comes near.
    """
    text, tenant, name = address
    if text is None:
        text = name or "" if tenant is None else f"{tenant}/{name}"
        found = [entry for entry in kept if entry.label == name and tenant in (None, entry.tenant)]
    else:
        found = [entry for entry in kept if text in (entry.id, full_name(entry))] or [
            entry for entry in kept if entry.label == text
        ]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(full_name(entry) for entry in found[:NEAR_MAX])
        raise ConfigError(f"{text!r} is the name of {len(found)} subscriptions; say which: {several}")
    raise ConfigError(f"no subscription {text!r}; {_proposal(kept, text)}")


def full_name(entry: SubscriptionEntry) -> str:
    """Return ``tenant/name``, by which people know a subscription."""
    return f"{entry.tenant}/{entry.label}"


def _proposal(kept: Sequence[StoredEntry], text: str) -> str:
    """Name what comes near: as a whole, by the name alone, or by a part of the name."""
    full = {full_name(entry): entry.label.lower() for entry in kept}
    wanted = text.rpartition("/")[2].lower()
    near = difflib.get_close_matches(text, full, n=NEAR_MAX)
    labels = set(difflib.get_close_matches(wanted, set(full.values()), n=NEAR_MAX))
    near += [name for name, label in full.items() if label in labels or (wanted and wanted in label)]
    chosen = list(dict.fromkeys(near))[:NEAR_MAX]
    return f"did you mean {', '.join(chosen)}?" if chosen else "see `leveret subscriptions list`"


def add(kept: Sequence[StoredEntry], entry: SubscriptionEntry, make_secret: Callable[[], str]) -> Merge:
    """Return *kept* with *entry* beside it; without secrets it gets one.

    Raises:
        ConfigError: its tenant has that name or URL already, or another tenant its secret.
    """
    if any(old.id == entry.id for old in kept):
        remedy = "choose another name, remove that one first, or change it with `subscriptions apply`"
        raise ConfigError(f"{full_name(entry)} is there already; {remedy}")
    merged = merge(kept, [entry], make_secret)
    return replace(merged, unchanged=())


def remove(kept: Sequence[StoredEntry], ids: Collection[str]) -> Merge:
    """Return *kept* without the subscriptions *ids*."""
    return Merge(
        entries=tuple(entry for entry in kept if entry.id not in ids),
        removed=[entry for entry in kept if entry.id in ids],
    )


def only_those(merged: Merge, expected: Sequence[StoredEntry]) -> Merge:
    """Return *merged* if it removes nothing but *expected*: what was counted and agreed to before.

    Raises:
        ConfigError: somebody changed the store meanwhile; names what would go beside.
    """
    ids = {entry.id for entry in expected}
    more = ", ".join(full_name(entry) for entry in merged.removed if entry.id not in ids)
    if more:
        raise ConfigError(f"{more} would be removed too: the store has changed meanwhile; try again")
    return merged


def enable(kept: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *kept* with one subscription enabled, whatever had disabled it."""
    notes = {"enabled": True, "disabled_reason": None, "disabled_at": None}
    return _update(kept, subscription_id, lambda _: notes)


def revive(kept: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *kept* with one subscription enabled, unless somebody disabled it for another reason since."""
    notes = {"enabled": True, "disabled_reason": None, "disabled_at": None}
    return _update(kept, subscription_id, lambda entry: notes if entry.gone else {})


def disable(kept: Sequence[StoredEntry], subscription_id: str, note: Note) -> Merge:
    """Return *kept* with one subscription disabled; one that is so already keeps its first note."""
    notes = {"enabled": False, "disabled_reason": note.reason, "disabled_at": note.at}

    def changes(entry: StoredEntry) -> dict[str, object]:
        return notes if entry.enabled or entry.disabled_reason is None else {}

    return _update(kept, subscription_id, changes)


def rotate(
    kept: Sequence[StoredEntry],
    subscription_id: str,
    secret: str,
    *,
    lost_key: bool = False,
    now: float = ALWAYS,
) -> Merge:
    """Return *kept* with a new secret in front of those that one subscription has.

    The old ones go on signing beside it, so that receivers can change over. Over
    :data:`consumer.core.subscription.entry.SECRETS_MAX` the oldest goes, once its grace is over.

    Args:
        kept: What is there now.
        subscription_id: Of which.
        secret: The new one.
        lost_key: The sealed secrets cannot be opened and are given up: the new one stands alone.
        now: Unix seconds; absent: the grace of every replaced secret is over.

    Raises:
        ConfigError: the secret is unusable, one that it has already, or another tenant's; or one too many
            while the grace of the oldest lasts; or what is sealed cannot be opened, and is not given up or
            holds more than what signs.

    Source: Standard Webhooks 1.0.0, "Zero downtime secret rotation" (SW-32).
    """
    key = parse_secret(secret)

    def changes(entry: StoredEntry) -> dict[str, object]:
        _refuse_locked(entry, lost_key=lost_key)
        if key in entry.signing_keys():
            raise ConfigError(f"{full_name(entry)} has that secret already; give a new one")
        before, times = entry.secret_texts(), entry.replaced_at
        after = [secret, *before]
        try:
            refuse_early_end(before, times, after, now)
        except ConfigError as error:
            raise ConfigError(f"{full_name(entry)}: {error}") from None
        fresh = after[:SECRETS_MAX]
        return {
            "secrets": tuple(map(SecretStr, fresh)),
            "replaced_at": replaced_at(before, times, fresh, now),
            "locked": None,
        }

    merged = _update(kept, subscription_id, changes)
    refuse_clashes(merged.entries)
    return replace(merged, generated=merged.changed)


def drop_old(kept: Sequence[StoredEntry], subscription_id: str) -> Merge:
    """Return *kept* with the newest secret alone of one subscription: the overlap is over.

    Raises:
        ConfigError: what is sealed cannot be opened.
    """

    def changes(entry: StoredEntry) -> dict[str, object]:
        _refuse_locked(entry)
        return {"secrets": entry.secrets[:1], "replaced_at": ()}

    return _update(kept, subscription_id, changes)


def _refuse_locked(entry: StoredEntry, *, lost_key: bool = False) -> None:
    """Raise where a change of the secrets that sign would lose what is sealed without a word."""
    name, beside = full_name(entry), ", ".join(entry.credentials())
    if entry.locked is None:
        if lost_key:
            raise ConfigError(f"{name}: its secrets can be opened; leave --lost-key out")
    elif not lost_key:
        raise ConfigError(f"{name}: {locked_text(entry)}")
    elif beside:
        raise ConfigError(f"{name}: {beside}: sealed beside the secrets and lost with them; {_repair(entry)}")


def locked_text(entry: StoredEntry) -> str:
    """Say why *entry* is locked, and what to do."""
    return f"{entry.locked}; bring the key back, or if it is lost for good: {_repair(entry)}"


def _repair(entry: StoredEntry) -> str:
    """Say what unlocks *entry* without its key."""
    places = ["secrets", *entry.credentials()]
    if len(places) == 1:
        return f"rotate-secret --lost-key {full_name(entry)}"
    return f"apply it with new {', '.join(places)}"


def _update(
    kept: Sequence[StoredEntry],
    subscription_id: str,
    changes: Callable[[StoredEntry], Mapping[str, object]],
) -> Merge:
    """Return *kept* with *changes* made to one entry; what comes out equal counts as unchanged."""
    entries = list(kept)
    for index, old in enumerate(kept):
        if old.id != subscription_id:
            continue
        new = old.model_copy(update=dict(changes(old)))
        if new.document() == old.document():
            return Merge(entries=kept, unchanged=[old])
        entries[index] = new
        return Merge(entries=tuple(entries), changed=[new], replaced=[old])
    return Merge(entries=kept)
