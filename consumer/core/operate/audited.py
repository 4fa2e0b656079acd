"""Make the lines of the audit log for changes of parked entries, waiting deliveries and replay jobs.

Data flow: filter or job, number of entries -> :class:`Change` -> the audit log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from consumer.core.message.jobs import JobRow, Steer
from consumer.core.message.parked_filter import Filter, filter_as_dict
from consumer.core.message.waiting import Wanted
from consumer.core.store.audit import Change

IDS_MAX: Final = 100  #: ids that a line names
STEERED: Final[Mapping[Steer, str]] = {
    Steer.PAUSE: "paused",
    Steer.RESUME: "resumed",
    Steer.CANCEL: "cancelled",
}


def parked_change(done: str, chosen: Filter, entries: int) -> Change | None:
    """Return the line of a command that took entries out of the parked queue; None if it took none.

    Args:
        done: ``replayed`` or ``purged``.
        chosen: Its filter.
        entries: Number of entries that left the queue.
    """
    deed = parked_deed(done, chosen)
    return replace(deed, after={**deed.after, "entries": entries}) if entries else None


def parked_deed(done: str, chosen: Filter) -> Change:
    """Return the line of a command that is about to take entries out of the parked queue."""
    return Change(
        action=f"parked.{done}",
        target=_one_of(chosen) or "parked entries",
        tenant=chosen.tenant,
        after={"filter": _shown(chosen)},
    )


def waiting_change(done: str, wanted: Wanted, deliveries: int) -> Change:
    """Return the line of a command that took deliveries off the ladder.

    Args:
        done: ``kicked`` or ``cancelled``.
        wanted: Its filter.
        deliveries: Number of deliveries that left the ladder.
    """
    deed = waiting_deed(done, wanted)
    return replace(deed, after={**deed.after, "deliveries": deliveries})


def waiting_deed(done: str, wanted: Wanted) -> Change:
    """Return the line of a command that is about to take deliveries off the ladder."""
    conditions = {"tenant": wanted.tenant, "subscription": wanted.subscription, "event": wanted.event}
    return Change(
        action=f"waiting.{done}",
        target=wanted.event or wanted.subscription or wanted.tenant or "waiting deliveries",
        tenant=wanted.tenant,
        after={"filter": {name: value for name, value in conditions.items() if value is not None}},
    )


def job_made(row: JobRow) -> Change:
    """Return the line of a new job."""
    job = row.job
    fields = {"filter": _shown(job.chosen), "rate_per_s": job.rate_per_s, "to": job.to, "total": job.total}
    return Change(action="job.made", target=job.id, tenant=job.chosen.tenant, after=fields)


def job_steered(row: JobRow, step: Steer) -> Change:
    """Return the line of a job that was paused, resumed or cancelled."""
    return Change(action=f"job.{STEERED[step]}", target=row.job.id, tenant=row.job.chosen.tenant)


def _shown(chosen: Filter) -> Mapping[str, object]:
    shown = filter_as_dict(chosen)
    if chosen.ids is not None:
        shown["ids"] = sorted(chosen.ids)[:IDS_MAX]
    return shown


def _one_of(chosen: Filter) -> str | None:
    return next(iter(chosen.ids)) if chosen.ids is not None and len(chosen.ids) == 1 else None
