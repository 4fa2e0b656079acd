"""Complete names on the command line: subscriptions, ids, tenants and policies. It never prints or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from consumer.settings import load_settings

if TYPE_CHECKING:
    from consumer.core.changes.merge import StoredEntry


def subscription_names(incomplete: str) -> list[str]:
    """Return the full names that begin with *incomplete*."""
    return [name for name in _entries() if name.startswith(incomplete)]


def tenant_names(incomplete: str) -> list[str]:
    """Return the tenants that begin with *incomplete*."""
    return sorted({entry.tenant for entry in _entries().values() if entry.tenant.startswith(incomplete)})


def subscription_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that begin with *incomplete*, each with the full name as its help."""
    return [(entry.id, name) for name, entry in _entries().items() if entry.id.startswith(incomplete)]


def policy_names(incomplete: str) -> list[str]:
    """Return the retry policies that begin with *incomplete*, built in or set."""
    try:
        names = load_settings().subscription_rules().policies
    except Exception:  # the user is still typing; the command itself reports a broken setting
        return []
    return [name for name in names if name.startswith(incomplete)]


def _entries() -> Mapping[str, StoredEntry]:
    """Return the stored subscriptions by their full names."""
    # every command imports this module, and few need the store
    from consumer.core.changes.steps import full_name  # noqa: PLC0415 (0.15 s of CPU time)
    from consumer.edges.store import opened_store  # noqa: PLC0415 (0.3 s of CPU time)

    async def read() -> Sequence[StoredEntry]:
        async with opened_store(load_settings()) as store:
            return await store.entries()

    try:
        return {full_name(entry): entry for entry in asyncio.run(read())}
    except Exception:  # the user is still typing; the command itself reports a broken store
        return {}
