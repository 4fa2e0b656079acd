"""Merge a subscriptions file into the subscriptions that are kept.

Data flow: kept entries + entries of a file -> merge -> Merge (the next set, and what changed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from consumer.core.changes.file import clashes
from consumer.core.changes.secret_overlap import ALWAYS, refuse_early_end, replaced_at
from consumer.core.endpoint.health import says_gone
from consumer.core.errors import ConfigError
from consumer.core.subscription.access_entry import BESIDE, TlsFields
from consumer.core.subscription.entry import SECRETS_MAX, SubscriptionEntry, SubscriptionRules, json_values
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import MASK


class StoredEntry(SubscriptionEntry):
    """An entry as it is kept: always with secrets, and with what the daemon noted."""

    secrets: Annotated[tuple[SecretStr, ...], Field(max_length=SECRETS_MAX)] = ()
    """Secrets, newest first; nothing is ever sent unsigned. None at all where they are locked."""
    disabled_reason: str | None = None
    """Why the daemon or an operator disabled it; absent: they did not, though a file may have."""
    disabled_at: str | None = None
    """When they did so, RFC 3339."""
    replaced_at: tuple[int, ...] = ()
    """When each secret was replaced, Unix seconds; 0 for the newest, and where it is unknown."""

    locked: Annotated[str | None, Field(exclude=True)] = None
    """Why its secrets cannot be decrypted; they stay sealed until all are given anew. Fault 69.

    It then has no secrets to sign with, and a mask in the place of each other one.
    """

    @model_validator(mode="after")
    def _check_signable(self) -> StoredEntry:
        if not self.secrets and self.locked is None:
            raise ValueError("secrets: is empty; an entry that is kept has one at least")
        return self

    def build(self, rules: SubscriptionRules) -> Subscription:
        """Return the subscription; one that is locked has no key, no credential, and says why.

        Raises:
            ConfigError: the retry policy is unknown or cannot be changed in this way.
        """
        changes: dict[str, object] = {} if self.locked is None else {"auth": None, "tls": TlsFields()}
        if self.retry is not None:
            changes["retry"] = self.retry.relieved(rules.policies, rules.retry)
        shown = self.model_copy(update=changes) if changes else self
        return replace(SubscriptionEntry.build(shown, rules), locked=self.locked, gone=self.gone)

    @property
    def gone(self) -> bool:
        """Whether the daemon disabled it since its endpoint took nothing for days."""
        return not self.enabled and says_gone(self.disabled_reason)

    def document(self) -> dict[str, object]:
        """Return the entry as JSON values, secrets included."""
        dump = json_values(self.model_dump(exclude_defaults=True), secrets=True)
        return {"tenant": self.tenant, "name": self.label, **dump}

    def secret_texts(self) -> Sequence[str]:
        """Return the secrets that sign in clear, newest first."""
        return [secret.get_secret_value() for secret in self.secrets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The next set of entries, and how it came about."""

    entries: Sequence[StoredEntry]
    added: Sequence[StoredEntry] = ()
    changed: Sequence[StoredEntry] = ()
    replaced: Sequence[StoredEntry] = ()  #: what each of *changed* was before, in the same order
    unchanged: Sequence[StoredEntry] = ()
    removed: Sequence[StoredEntry] = ()
    generated: Sequence[StoredEntry] = ()  #: those whose secret was made now: to be shown, once
    still_disabled: Sequence[StoredEntry] = ()  #: enabled in the file, but disabled since by another


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
    kept: Sequence[StoredEntry],
    wanted: Sequence[SubscriptionEntry],
    make_secret: Callable[[], str],
    *,
    prune: bool = False,
    enable: bool = False,
) -> Merge:
    """Return *kept* with *wanted* in it.

    An entry without secrets keeps those that it had, and where it says ``***`` the secret that is kept there.
    What is sealed and cannot be opened stays whole until all of it is given anew.

    What the daemon disabled (after a 410, say), or an operator by hand, stays so while its URL is the same,
    however often the file is applied.

    Args:
        kept: What is there now.
        wanted: The entries of a file.
        make_secret: Returns a new ``whsec_`` secret.
        prune: Remove what *wanted* does not name.
        enable: Enable again what was disabled by the daemon or by hand.

    Raises:
        ConfigError: an entry of *wanted* cannot stand beside one that stays, or has no secret where it says
            ``***``, or would part what is sealed; one line per fault.
    """
    before = {entry.id: entry for entry in kept}
    after = {} if prune else dict(before)
    steps = _Steps()
    for entry in wanted:
        after[entry.id] = _place(entry, before.get(entry.id), make_secret, steps, enable=enable)
    if steps.faults:
        raise ConfigError("\n".join(steps.faults))
    refuse_clashes(tuple(after.values()))
    return Merge(
        entries=tuple(after.values()),
        added=steps.added,
        changed=steps.changed,
        replaced=steps.replaced,
        unchanged=steps.unchanged,
        removed=[entry for entry in kept if entry.id not in after],
        generated=steps.generated,
        still_disabled=steps.still_disabled,
    )


def _place(
    entry: SubscriptionEntry,
    old: StoredEntry | None,
    make_secret: Callable[[], str],
    steps: _Steps,
    *,
    enable: bool,
) -> StoredEntry:
    entry = _with_kept(entry, old, steps.faults)
    own = entry.secrets or (old.secrets if old is not None else ())
    locked = old.locked if old is not None and not own else None
    generated = not own and locked is None
    secrets = (SecretStr(make_secret()),) if generated else own
    notes: dict[str, object] = {"name": entry.label, "secrets": secrets, "locked": locked}
    if old is not None:
        texts = [secret.get_secret_value() for secret in own]
        known = replaced_at(old.secret_texts(), old.replaced_at, texts, ALWAYS)
        notes["replaced_at"] = known if own else old.replaced_at
    if old is not None and old.disabled_reason is not None and old.url == entry.url and not enable:
        notes |= {"enabled": False, "disabled_reason": old.disabled_reason, "disabled_at": old.disabled_at}
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


def dated(merged: Merge, now: float) -> Merge:
    """Return *merged* with the moments at which its secrets were replaced.

    Args:
        merged: What a file changes.
        now: Unix seconds.

    Raises:
        ConfigError: it gives up a secret within its grace for a new one; one line per fault.
    """
    fresh: dict[str, StoredEntry] = {}
    faults = []
    for old, new in zip(merged.replaced, merged.changed, strict=True):
        before, after = old.secret_texts(), new.secret_texts()
        try:
            refuse_early_end(before, old.replaced_at, after, now)
        except ConfigError as error:
            faults.append(f"{old.tenant}/{old.label}: {error}")
        moments = replaced_at(before, old.replaced_at, after, now) if after else old.replaced_at
        fresh[new.id] = new.model_copy(update={"replaced_at": moments})
    if faults:
        raise ConfigError("\n".join(faults))
    return replace(
        merged,
        entries=[fresh.get(entry.id, entry) for entry in merged.entries],
        changed=[fresh[entry.id] for entry in merged.changed],
        generated=[fresh.get(entry.id, entry) for entry in merged.generated],
        still_disabled=[fresh.get(entry.id, entry) for entry in merged.still_disabled],
    )


def _with_kept(entry: SubscriptionEntry, old: StoredEntry | None, faults: list[str]) -> SubscriptionEntry:
    """Return *entry* with the kept secret for each mask; what cannot be is noted in *faults*."""
    kept = {} if old is None else old.credentials()
    places = [place for place, secret in entry.credentials().items() if secret == MASK]
    found = dict(_parted(entry, old)) if old is not None and old.locked is not None else {}
    for place in places:
        if old is None or place not in kept:
            found[place] = "*** stands for the secret that is kept, and none is; write the secret itself"
        elif old.beside(place) != entry.beside(place):
            whose = " and ".join(BESIDE[place])
            found[place] = f"the kept secret belongs to another {whose}; write the secret itself"
    faults += [f"{entry.tenant}/{entry.label}: {place}: {fault}" for place, fault in found.items()]
    return entry if found else entry.filled({place: kept[place] for place in places})


def _parted(entry: SubscriptionEntry, old: StoredEntry) -> Iterator[tuple[str, str]]:
    """Yield the places where *entry* would part what is sealed of *old*, or mix it with something new."""
    given = entry.credentials()
    masked = {place for place, secret in given.items() if secret == MASK}
    if entry.secrets:
        for place in sorted(masked):
            yield place, f"cannot be kept: {old.locked}; bring the key back, or write the secret itself"
        return
    kept = old.credentials().keys()
    for place in sorted({*given, *kept} - (masked & kept)):
        keep = " leave it as ***," if place in kept else ""
        yield place, f"cannot be changed: {old.locked}; bring the key back,{keep} or give `secrets` anew too"


def refuse_clashes(entries: Sequence[StoredEntry]) -> None:
    """Check that *entries* can stand beside each other.

    Raises:
        ConfigError: they cannot; one line per clash.
    """
    numbered = dict(enumerate(entries))
    faults = [
        f"{numbered[index].tenant}/{numbered[index].label}: {key}: {fault}"
        for index, key, fault, may_pass in clashes(numbered)
        if not may_pass
    ]
    if faults:
        raise ConfigError("\n".join(faults))
