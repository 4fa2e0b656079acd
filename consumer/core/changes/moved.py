"""Find the credentials and headers that a new URL of a subscription would take to another origin.

Whoever changes the URL need not know them: only somebody who sends them again may choose their new receiver.
Data flow: stored entry + its next state -> :func:`kept_elsewhere` -> places -> a refusal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from consumer.core.changes.merge import StoredEntry
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.text.printable import MASK
from consumer.core.text.urls import parse_url

SENT: Final = "auth."
"""Start of the places of credentials that a request contains; the key of a certificate is never sent."""


def kept_elsewhere(old: StoredEntry, new: SubscriptionEntry, sent: Collection[str]) -> Sequence[str]:
    """Return the places of the kept values, such as ``auth.bearer`` and ``headers.x-key``.

    Args:
        old: The stored entry.
        new: Its next state, with ``***`` in place of each credential that is kept.
        sent: Names of the headers that were sent again.
    """
    if same_origin(old.url, new.url):
        return ()
    credentials = [
        place for place, text in new.credentials().items() if place.startswith(SENT) and text == MASK
    ]
    again = {name.lower() for name in sent}
    headers = [f"headers.{name}" for name in new.headers if name.lower() not in again]
    return [*credentials, *headers]


def same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port. Source: RFC 6454, 4."""
    parsed, compared = parse_url(one), parse_url(other)
    return (parsed.scheme, parsed.host, parsed.port) == (compared.scheme, compared.host, compared.port)
