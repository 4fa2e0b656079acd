"""Merge a subscriptions file into the subscriptions that are kept.

Data flow: kept entries + entries of a file -> merge -> Merge (the next set, and what changed).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from pydantic import Field, SecretStr

from consumer.core.errors import ConfigError
from consumer.core.subscription_file import clashes
from consumer.core.subscription_model import SECRETS_MAX, SubscriptionEntry


class StoredEntry(SubscriptionEntry):
    """An entry as it is kept: always with secrets, and with what the daemon noted."""

    secrets: Annotated[tuple[SecretStr, ...], Field(min_length=1, max_length=SECRETS_MAX)]
    """Secrets, newest first; nothing is ever sent unsigned."""
    disabled_reason: str | None = None
    """Why the daemon disabled it; absent: it did not."""
    disabled_at: str | None = None
    """When it did so, RFC 3339."""

    def document(self) -> dict[str, object]:
        """Return the entry as JSON values, secrets included."""
        dump = self.model_dump(exclude_defaults=True)
        return {"tenant": self.tenant, "name": self.label, **{key: _plain(dump[key]) for key in dump}}


def _plain(value: object) -> object:
    """Return a dumped value as JSON has it, secrets in clear."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The next set of entries, and how it came about."""

    entries: Sequence[StoredEntry]
    added: Sequence[StoredEntry] = ()
    changed: Sequence[StoredEntry] = ()
    unchanged: Sequence[StoredEntry] = ()
    removed: Sequence[StoredEntry] = ()
    generated: Sequence[StoredEntry] = ()  #: those whose secret was made now: to be shown, once
    still_disabled: Sequence[StoredEntry] = ()  #: enabled in the file, but disabled by the daemon before


@dataclass(slots=True)
class _Steps:
    added: list[StoredEntry] = field(default_factory=list)
    changed: list[StoredEntry] = field(default_factory=list)
    unchanged: list[StoredEntry] = field(default_factory=list)
    generated: list[StoredEntry] = field(default_factory=list)
    still_disabled: list[StoredEntry] = field(default_factory=list)


def merge(
    kept: Sequence[StoredEntry],
    wanted: Sequence[SubscriptionEntry],
    make_secret: Callable[[], str],
    *,
    prune: bool = False,
    enable: bool = False,
) -> Merge:
    """Return *kept* with *wanted* in it.

    An entry without secrets keeps those that it had. What the daemon disabled (after a 410, say) stays so
    while its URL is the same, however often the file is applied.

    Args:
        kept: What is there now.
        wanted: The entries of a file.
        make_secret: Returns a new ``whsec_`` secret.
        prune: Remove what *wanted* does not name.
        enable: Enable again what the daemon had disabled.

    Raises:
        ConfigError: an entry of *wanted* cannot stand beside one that stays; one line per clash.
    """
    before = {entry.id: entry for entry in kept}
    after = {} if prune else dict(before)
    steps = _Steps()
    for entry in wanted:
        after[entry.id] = _place(entry, before.get(entry.id), make_secret, steps, enable=enable)
    _refuse_clashes(tuple(after.values()))
    return Merge(
        entries=tuple(after.values()),
        added=steps.added,
        changed=steps.changed,
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
    own = entry.secrets or (old.secrets if old is not None else ())
    notes: dict[str, object] = {"secrets": own or (SecretStr(make_secret()),), "name": entry.label}
    if old is not None and old.disabled_reason is not None and old.url == entry.url and not enable:
        notes |= {"enabled": False, "disabled_reason": old.disabled_reason, "disabled_at": old.disabled_at}
    new = StoredEntry.model_validate({name: getattr(entry, name) for name in entry.model_fields_set} | notes)
    if not own:
        steps.generated.append(new)
    if entry.enabled and new.disabled_reason is not None:
        steps.still_disabled.append(new)
    if old is None:
        steps.added.append(new)
    elif old.document() == new.document():
        steps.unchanged.append(new)
    else:
        steps.changed.append(new)
    return new


def _refuse_clashes(entries: Sequence[StoredEntry]) -> None:
    numbered = dict(enumerate(entries))
    faults = [
        f"{numbered[index].tenant}/{numbered[index].label}: {key}: {fault}"
        for index, key, fault, may_pass in clashes(numbered)
        if not may_pass
    ]
    if faults:
        raise ConfigError("\n".join(faults))
