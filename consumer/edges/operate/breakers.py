"""List endpoints whose breaker is not closed, that asked for a rest, or that failed for ten minutes.

Data flow: subscriptions, the workers' latest records, rests, healths of the store -> rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer.core.changes.view import identity
from consumer.core.endpoint.health import Health
from consumer.core.message.parked import rfc3339
from consumer.edges.store import SqlStore


async def breaker_rows(
    store: SqlStore, now: float, tenant: str | None = None
) -> Sequence[Mapping[str, object]]:
    """Return a row for each endpoint on hold, with stable field names.

    Args:
        store: Where the workers keep their records.
        now: Unix seconds.
        tenant: Only its endpoints; None: all.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    entries, states = await store.entries(tenant), await store.endpoint_states()
    holds, healths = await store.records.holds(), await store.records.healths()
    by_endpoint = {state.endpoint: state for state in states}
    rows = []
    for entry in (entry for entry in entries if entry.enabled):
        known = identity(entry)
        endpoint = str(known["endpoint"])
        state, until = by_endpoint.get(endpoint), holds.get(endpoint, 0.0)
        failing = healths.get(endpoint, Health(None)).failing
        is_open = state is not None and state.state not in ("closed", "disabled")
        if is_open or until > now or failing is not None:
            shown = {
                "state": "closed" if state is None else state.state,
                "since": None if state is None else rfc3339(state.since),
                "held_until": rfc3339(until) if until > now else None,
                "failing_since": None if failing is None else rfc3339(failing.first_at),
                "reason": None if state is None else state.reason or None,
            }
            rows.append({**known, **shown})
    return rows
