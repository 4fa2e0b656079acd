"""Merge a subscriptions file into the stored subscriptions.

Data flow: stored entries + entries of a file -> merge -> Merge (the next set, and the changes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from consumer.core.changes.file import clashes
from consumer.core.changes.secret_overlap import ALWAYS, ends_at, refuse_early_end, replaced_at
from consumer.core.endpoint.health import is_own_reason, says_gone
from consumer.core.errors import ConfigError
from consumer.core.subscription.access_entry import ACCOUNT_FIELDS, TlsFields
from consumer.core.subscription.entry import SECRETS_MAX, SubscriptionEntry, json_values
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import MASK


class StoredEntry(SubscriptionEntry):
    """An entry as stored: always with secrets, and with the daemon's notes."""

    secrets: Annotated[tuple[SecretStr, ...], Field(max_length=SECRETS_MAX)] = ()
    """Secrets, newest first, at least one because every webhook is signed; empty only if they are locked."""
    disabled_reason: str | None = None
    """Why the daemon or an operator disabled it; absent: neither did, though a file may have."""
    disabled_at: str | None = None
    """When the daemon or an operator disabled it, RFC 3339."""
    disabled_itself: Annotated[bool | None, Field(exclude=True)] = None
    """Whether the daemon disabled it; absent: it is enabled, or an earlier release stored it."""
    replaced_at: tuple[int, ...] = ()
    """When each secret was replaced, Unix seconds; 0 for the newest, and if the time is unknown."""
    ends_at: tuple[int, ...] = ()
    """When each secret stops to sign, Unix seconds; 0 for the newest, and for one without an end."""

    locked: Annotated[str | None, Field(exclude=True)] = None
    """Why its secrets cannot be decrypted; they stay encrypted until all are replaced. Fault 69.

    A locked entry has no signing secrets, and a mask in place of each credential.
    """

    @model_validator(mode="after")
    def _check_signable(self) -> StoredEntry:
        if not self.secrets and self.locked is None:
            raise ValueError("secrets: is empty; a stored entry has at least one")
        return self

    def build(self, rules: SubscriptionRules) -> Subscription:
        """Return the subscription. A locked one has no key and no credential, and carries the reason.

        Raises:
            ConfigError: the retry policy is unknown, or a field has no effect on it.
        """
        changes: dict[str, object] = {} if self.locked is None else {"auth": None, "tls": TlsFields()}
        if self.retry is not None:
            changes["retry"] = self.retry.drop_ineffective(rules.policies, rules.retry)
        shown = self.model_copy(update=changes) if changes else self
        built = SubscriptionEntry.build(shown, rules)
        key_ends = self.ends_at if built.keys else ()
        itself = self.is_disabled_itself
        return replace(built, locked=self.locked, gone=self.gone, disabled_itself=itself, key_ends=key_ends)

    @property
    def is_disabled_itself(self) -> bool:
        """Whether the daemon disabled it; in a store of before, the form of the reason shows it."""
        known = self.disabled_itself
        return not self.enabled and (is_own_reason(self.disabled_reason) if known is None else known)

    @property
    def gone(self) -> bool:
        """Whether the daemon disabled it after days without a success at its endpoint."""
        return self.is_disabled_itself and says_gone(self.disabled_reason)

    def document(self) -> dict[str, object]:
        """Return the entry as JSON values, including secrets."""
        dump = json_values(self.model_dump(exclude_defaults=True), secrets=True)
        return {"tenant": self.tenant, "name": self.label, **dump}

    def secret_texts(self) -> Sequence[str]:
        """Return the signing secrets in clear, newest first."""
        return [secret.get_secret_value() for secret in self.secrets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The next set of entries, and the changes that lead to it."""

    entries: Sequence[StoredEntry]
    added: Sequence[StoredEntry] = ()
    changed: Sequence[StoredEntry] = ()
    replaced: Sequence[StoredEntry] = ()  #: the former entry of each of *changed*, in the same order
    unchanged: Sequence[StoredEntry] = ()
    removed: Sequence[StoredEntry] = ()
    generated: Sequence[StoredEntry] = ()  #: entries with a new generated secret, to be shown once
    still_disabled: Sequence[StoredEntry] = ()  #: enabled in the file, but disabled by the daemon or by hand


@dataclass(slots=True)
class _Steps:
    added: list[StoredEntry] = field(default_factory=list)
    changed: list[StoredEntry] = field(default_factory=list)
    replaced: list[StoredEntry] = field(default_factory=list)
    unchanged: list[StoredEntry] = field(default_factory=list)
    generated: list[StoredEntry] = field(default_factory=list)
    still_disabled: list[StoredEntry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def merge(
    stored: Sequence[StoredEntry],
    wanted: Sequence[SubscriptionEntry],
    make_secret: Callable[[], str],
    *,
    prune: bool = False,
    enable: bool = False,
) -> Merge:
    """Return *stored* with the entries of *wanted* added or updated.

    An entry without secrets keeps its stored secrets, and ``***`` keeps the stored credential at that place.
    Secrets that cannot be decrypted stay unchanged until all of them are replaced.

    An entry that the daemon (for example after a 410) or an operator disabled stays disabled while its URL is
    the same, even if the file is applied again.

    Args:
        stored: The stored entries.
        wanted: The entries of a file.
        make_secret: Returns a new ``whsec_`` secret.
        prune: Remove the entries that *wanted* does not name.
        enable: Enable the entries of *wanted* that the daemon or an operator disabled.

    Raises:
        ConfigError: one line per fault. An entry of *wanted* conflicts with another, has ``***`` without a
            stored secret, or replaces only some of the secrets that cannot be decrypted.
    """
    before = {entry.id: entry for entry in stored}
    after = {} if prune else dict(before)
    steps = _Steps()
    for entry in wanted:
        after[entry.id] = _merge_entry(entry, before.get(entry.id), make_secret, steps, enable=enable)
    if steps.faults:
        raise ConfigError("\n".join(steps.faults))
    refuse_clashes(tuple(after.values()))
    return Merge(
        entries=tuple(after.values()),
        added=steps.added,
        changed=steps.changed,
        replaced=steps.replaced,
        unchanged=steps.unchanged,
        removed=[entry for entry in stored if entry.id not in after],
        generated=steps.generated,
        still_disabled=steps.still_disabled,
    )


def _merge_entry(
    entry: SubscriptionEntry,
    old: StoredEntry | None,
    make_secret: Callable[[], str],
    steps: _Steps,
    *,
    enable: bool,
) -> StoredEntry:
    entry = _fill_masks(entry, old, steps.faults)
    existing = entry.secrets or (old.secrets if old is not None else ())
    locked = old.locked if old is not None and not existing else None
    generated = not existing and locked is None
    secrets = (SecretStr(make_secret()),) if generated else existing
    notes: dict[str, object] = {"name": entry.label, "secrets": secrets, "locked": locked}
    if old is not None:
        texts = [secret.get_secret_value() for secret in existing]
        known = replaced_at(old.secret_texts(), old.replaced_at, texts, ALWAYS)
        notes["replaced_at"] = known if existing else old.replaced_at
        ends = ends_at(old.secret_texts(), old.ends_at, texts)
        notes["ends_at"] = ends if existing else old.ends_at
    if old is not None and old.disabled_reason is not None and old.url == entry.url and not enable:
        notes |= {"enabled": False, "disabled_reason": old.disabled_reason, "disabled_at": old.disabled_at}
        notes["disabled_itself"] = old.disabled_itself
    new = StoredEntry.model_validate({name: getattr(entry, name) for name in entry.model_fields_set} | notes)
    if generated:
        steps.generated.append(new)
    if entry.enabled and new.disabled_reason is not None:
        steps.still_disabled.append(new)
    if old is None:
        steps.added.append(new)
    elif old.document() == new.document():
        steps.unchanged.append(new)
    else:
        steps.changed.append(new)
        steps.replaced.append(old)
    return new


def date_secrets(merged: Merge, now: float) -> Merge:
    """Return *merged* with the times at which its secrets were replaced.

    Args:
        merged: The changes of a file.
        now: Unix seconds.

    Raises:
        ConfigError: a new secret displaces a secret whose grace has not ended; one line per fault.
    """
    fresh: dict[str, StoredEntry] = {}
    faults = []
    for old, new in zip(merged.replaced, merged.changed, strict=True):
        before, after = old.secret_texts(), new.secret_texts()
        try:
            refuse_early_end(before, old.replaced_at, after, now)
        except ConfigError as error:
            faults.append(f"{old.tenant}/{old.label}: {error}")
        times = replaced_at(before, old.replaced_at, after, now) if after else old.replaced_at
        fresh[new.id] = new.model_copy(update={"replaced_at": times})
    if faults:
        raise ConfigError("\n".join(faults))
    return replace(
        merged,
        entries=[fresh.get(entry.id, entry) for entry in merged.entries],
        changed=[fresh[entry.id] for entry in merged.changed],
        generated=[fresh.get(entry.id, entry) for entry in merged.generated],
        still_disabled=[fresh.get(entry.id, entry) for entry in merged.still_disabled],
    )


def _fill_masks(entry: SubscriptionEntry, old: StoredEntry | None, faults: list[str]) -> SubscriptionEntry:
    """Return *entry* with the stored secret for each mask, and add each impossible mask to *faults*."""
    stored = {} if old is None else old.credentials()
    places = [place for place, secret in entry.credentials().items() if secret == MASK]
    found = dict(_locked_faults(entry, old)) if old is not None and old.locked is not None else {}
    for place in places:
        if old is None or place not in stored:
            found[place] = "*** keeps the stored secret, but none is stored; write the secret itself"
        elif old.account_of(place) != entry.account_of(place):
            account = " and ".join(ACCOUNT_FIELDS[place])
            found[place] = f"the stored secret belongs to another {account}; write the secret itself"
    faults += [f"{entry.tenant}/{entry.label}: {place}: {fault}" for place, fault in found.items()]
    return entry if found else entry.with_secrets({place: stored[place] for place in places})


def _locked_faults(entry: SubscriptionEntry, old: StoredEntry) -> Iterator[tuple[str, str]]:
    """Yield each place where *entry* keeps or replaces only some of the encrypted secrets of *old*."""
    given = entry.credentials()
    masked = {place for place, secret in given.items() if secret == MASK}
    if entry.secrets:
        for place in sorted(masked):
            yield place, f"cannot be kept: {old.locked}; bring the key back, or write the secret itself"
        return
    stored = old.credentials().keys()
    for place in sorted({*given, *stored} - (masked & stored)):
        keep = " leave it as ***," if place in stored else ""
        yield place, f"cannot be changed: {old.locked}; bring the key back,{keep} or give new `secrets` too"


def refuse_clashes(entries: Sequence[StoredEntry]) -> None:
    """Check that no entries conflict.

    Raises:
        ConfigError: some do; one line per conflict.
    """
    numbered = dict(enumerate(entries))
    faults = [
        f"{numbered[index].tenant}/{numbered[index].label}: {key}: {fault}"
        for index, key, fault, may_pass in clashes(numbered)
        if not may_pass
    ]
    if faults:
        raise ConfigError("\n".join(faults))
