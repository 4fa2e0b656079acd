"""Judge the store: its schema, its keys, its agreement with the broker's messages.

Data flow: schema numbers, key uses, locked entries, a doubt -> findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consumer.core.store.lineage import REMEDY, Doubt
from consumer.core.tools.doctor.finding import Check, Finding, fault, names, warning, well


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """One key of the store."""

    id: str
    is_at_hand: bool
    subscriptions: int  #: number of subscriptions whose secrets it seals


def schema_findings(where: str, found: str | None, known: str) -> Iterator[Finding]:
    """Yield a finding if the store's schema is not the one of this release.

    Args:
        where: Place of the store.
        found: Number of its schema; None before a store exists.
        known: Number of the newest schema that this release knows.
    """
    if found is None or found == known:
        return
    if found > known:
        text = f"has schema {found} of a newer release, and this one knows {known}: it cannot be written"
        yield fault(Check.STORE, where, text, "upgrade this leveret, or restore a backup of before")
    else:
        text = f"has schema {found}, and this release has {known}"
        yield warning(Check.STORE, where, text, "the next start migrates it; make a backup before")


def doubt_findings(where: str, doubt: Doubt | None) -> Iterator[Finding]:
    """Yield a fault if the store is not the one that the broker's messages were made with."""
    if doubt is not None:
        yield fault(Check.STORE, where, doubt.text.removesuffix(f"; {REMEDY}"), REMEDY)


def key_findings(keys: Sequence[KeyState], locked: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Yield findings about keys and about secrets that none of them opens.

    Args:
        keys: Keys at hand, and missing ones that seal secrets.
        locked: Name and reason of each subscription whose secrets cannot be opened.
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in locked:
        by_reason.setdefault(reason, []).append(name)
    remedy = (
        "bring back the key (LEVERET_STORE__KEY, LEVERET_STORE__KEY_FILE) or a backup, or give new secrets"
    )
    for reason, owners in by_reason.items():
        yield fault(Check.KEYS, names(owners), reason, remedy)
    if not by_reason:
        at_hand = [key for key in keys if key.is_at_hand]
        sealed = sum(key.subscriptions for key in keys)
        text = f"{len(at_hand)} at hand; they open the secrets of all {sealed} subscriptions"
        yield well(Check.KEYS, "keys of the store", text)
        for key in at_hand[1:]:
            if not key.subscriptions:
                unused = "seals no secret any more"
                yield warning(
                    Check.KEYS, f"key {key.id}", unused, "remove it from the settings or the key file"
                )
