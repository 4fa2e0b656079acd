"""Complete names on the command line: subscriptions, ids, tenants and policies. It never prints or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import full_name
from consumer.settings import load_settings


def subscription_names(incomplete: str) -> list[str]:
    """Return the full names that begin with *incomplete*."""
    return [name for name in map(full_name, _entries()) if name.startswith(incomplete)]


def tenant_names(incomplete: str) -> list[str]:
    """Return the tenants that begin with *incomplete*."""
    return sorted({entry.tenant for entry in _entries() if entry.tenant.startswith(incomplete)})


def subscription_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that begin with *incomplete*, each with the full name as its help."""
    return [(entry.id, full_name(entry)) for entry in _entries() if entry.id.startswith(incomplete)]


def policy_names(incomplete: str) -> list[str]:
    """Return the retry policies that begin with *incomplete*, built in or set."""
    try:
        names = load_settings().subscription_rules().policies
    except Exception:  # the user is still typing; the command itself reports a broken setting
        return []
    return [name for name in names if name.startswith(incomplete)]


def _entries() -> Sequence[StoredEntry]:
    from consumer.edges.store import opened_store  # noqa: PLC0415 (every command imports this, few the store)

    async def read() -> Sequence[StoredEntry]:
        async with opened_store(load_settings()) as store:
            return await store.entries()

    try:
        return asyncio.run(read())
    except Exception:  # the user is still typing; the command itself reports a broken store
        return ()
