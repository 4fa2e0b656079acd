"""Make a replay job: its filter, its rate, its target, and the number of its entries.

Data flow: filter -> count of the index -> :class:`ReplayJob` -> store, audit log -> a worker.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import ConfigError
from consumer.core.message.jobs import JobRow, ReplayJob, job_id
from consumer.core.message.parked_filter import Filter
from consumer.edges.store import SqlStore

ID_BYTES: Final = 16  #: random bytes of a job's id
RATE_LEAST: Final = 0.01  #: entries a second
RATE_MOST: Final = 100_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayHow:
    """How a job replays its entries."""

    rate_per_s: float | None = None  #: entries a second; None is as fast as the broker confirms
    to: str | None = None  #: id of the subscription that gets the deliveries; None: their own


async def make_job(store: SqlStore, chosen: Filter, how: ReplayHow, *, who: str, now: float) -> JobRow:
    """Store a job, and its line in the audit log.

    Args:
        store: Where jobs are.
        chosen: Chooses the entries.
        how: Rate and target.
        who: Author for the audit log.
        now: Unix seconds.

    Raises:
        StoreUnavailable: the store cannot be written.
    """
    records = store.records
    job = ReplayJob(
        id=job_id(os.urandom(ID_BYTES)),
        chosen=chosen,
        created=now,
        rate_per_s=how.rate_per_s,
        to=how.to,
        total=(await records.parked.span(chosen)).entries if records.parked.is_kept else None,
    )
    await records.jobs.add(job, who=who)
    return JobRow(job=job, updated=now)


def target_of(stored: Sequence[StoredEntry], to: str) -> str:
    """Return the id of the subscription that *to* names: its id, ``tenant/name`` or its URL.

    Args:
        stored: The subscriptions among which it is looked for.
        to: The name.

    Raises:
        ConfigError: none or more than one has this id, name or URL.
    """
    found = [entry.id for entry in stored if to in (entry.id, f"{entry.tenant}/{entry.label}", entry.url)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"several subscriptions have this URL: {' '.join(found)}; name one of them")
    raise ConfigError(
        "no subscription has this id, name or URL; add one with `leveret subscriptions add`, as a "
        "webhook is signed with the secret of its subscription"
    )
