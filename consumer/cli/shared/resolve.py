"""Turn names on the command line into ids and tenants that exist; an unknown name is an error with near ones.

Data flow: text of an option -> stored subscriptions, and names that parked entries have -> id or tenant.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from consumer.core.errors import ConfigError

if TYPE_CHECKING:
    from consumer.core.changes.merge import StoredEntry

NEAR_MAX = 3  #: names that an error proposes, at most


def subscription_id(stored: Sequence[StoredEntry], text: str, others: Collection[str] = ()) -> str:
    """Return the id of the subscription that *text* names: ``tenant/name``, an id, or a name alone.

    Args:
        stored: Subscriptions of the store.
        text: The text of the option.
        others: Ids of subscriptions that are no longer stored, such as those of parked entries.

    Raises:
        ConfigError: no subscription has that name, or several have it; the text proposes near ones.
    """
    if text in others:
        return text
    from consumer.core.changes.steps import Address, find  # noqa: PLC0415 (0.15 s of CPU time: models of entries)

    return find(stored, Address(text=text)).id


def is_id(text: str) -> bool:
    """Return whether *text* is the id of a subscription, stored or not."""
    return text.startswith("sub_")


def tenant(stored: Sequence[StoredEntry], text: str, others: Collection[str] = ()) -> str:
    """Return *text* if it is a tenant of *stored* or one of *others*, or if no tenant is known at all.

    Raises:
        ConfigError: it is not; the text proposes near ones.
    """
    known = {entry.tenant for entry in stored} | set(others)
    if not known or text in known:
        return text
    raise ConfigError(f"no tenant {text!r}; {near(text, known)}")


def near(text: str, known: Iterable[str]) -> str:
    """Return a proposal of names near to *text*; without a near one, of the first ones."""
    names = sorted(set(known))
    close = difflib.get_close_matches(text, names, n=NEAR_MAX, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = ", ..." if len(names) > NEAR_MAX else ""
    return f"there are {', '.join(names[:NEAR_MAX])}{more}" if names else "there are none"
