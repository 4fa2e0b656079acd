"""Define a job that replays parked entries: its entries, its rate, its state.

Data flow: `leveret parked replay --job`, or the settings -> :class:`ReplayJob` -> store -> the leading worker
works it off -> :class:`JobCounts`. Decision 36.

    running <-> paused;  running | paused -> cancelled -> running;  running -> done
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from consumer.core.message.parked import ParkedEntry, rfc3339
from consumer.core.message.parked_filter import Filter, filter_as_dict
from consumer.core.model import ParkReason

RETRYABLE: Final = frozenset({ParkReason.EXHAUSTED, ParkReason.EXPIRED})
"""Reasons for which a later attempt may succeed without an operator: the endpoint was away for too long."""

BATCH_S: Final = 0.5  #: time after which a pause or a cancel takes effect, at most, at the rate of the job
BATCH_MAX: Final = 100  #: entries that are noted together before they are sent


class JobState(StrEnum):
    """The state of a job."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"  #: as paused, and not listed as pending; may be resumed too
    DONE = "done"
    UNREADABLE = "unreadable"  #: how a damaged row is shown, or one of another release; no row has this state


class Steer(StrEnum):
    """What an operator does to a job."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


STEERS: Final[Mapping[Steer, tuple[frozenset[JobState], JobState]]] = {
    Steer.PAUSE: (frozenset({JobState.RUNNING}), JobState.PAUSED),
    Steer.RESUME: (frozenset({JobState.PAUSED, JobState.CANCELLED}), JobState.RUNNING),
    Steer.CANCEL: (frozenset({JobState.RUNNING, JobState.PAUSED}), JobState.CANCELLED),
}
"""For each step of an operator: the states from which it is possible, and the state after it."""


class Origin(StrEnum):
    """Who or what made a job."""

    OPERATOR = "operator"
    AUTOMATIC = "automatic"  #: [parked] auto_replay
    SCHEDULE = "schedule"  #: [parked] scheduled_replay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """One job; it never changes but for its state."""

    id: str  #: ``job_`` and 12 hex digits
    chosen: Filter
    created: float  #: Unix seconds; entries that were parked later belong to no pass of this job
    state: JobState = JobState.RUNNING
    rate_per_s: float | None = None  #: entries a second; None is as fast as the broker confirms
    to: str | None = None  #: id of the subscription that gets the deliveries instead of their own
    origin: Origin = Origin.OPERATOR
    reasons: frozenset[str] = frozenset()  #: only entries with one of these reasons; empty: any reason
    replays_below: int | None = None  #: only entries that were replayed fewer times than this
    closed_only: bool = False  #: only deliveries whose breaker is closed
    total: int | None = None  #: entries that it was made for, by the index of the store; None: not counted

    def wants(self, entry: ParkedEntry) -> bool:
        """Return whether *entry* belongs to the job; of the breaker this decides nothing."""
        replays = 0 if entry.delivery is None else entry.delivery.replays
        return (
            entry.parked_at < self.created
            and (not self.reasons or entry.reason.value in self.reasons)
            and (self.replays_below is None or (entry.delivery is not None and replays < self.replays_below))
            and self.chosen(entry)
        )

    def may_want(self, entry: ParkedEntry) -> bool | None:
        """Return :meth:`wants`; None where the two cannot be compared: that stops no job."""
        try:
            return self.wants(entry)
        except Exception:
            return None

    @property
    def batch(self) -> int:
        """How many entries are noted and sent together."""
        if self.rate_per_s is None:
            return BATCH_MAX
        return max(1, min(BATCH_MAX, int(self.rate_per_s * BATCH_S)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """The progress of a job."""

    replayed: int = 0  #: different entries that were confirmed into a queue and have left the parked queue
    refused: int = 0  #: entries that stay parked, as of the last complete pass
    detail: str = ""  #: why the last entry was refused, or the reason for the job's wait


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as the store has it."""

    job: ReplayJob
    counts: JobCounts = field(default_factory=JobCounts)
    updated: float = 0.0  #: Unix seconds
    holder: str = ""  #: the worker that works it off, or did last


def job_id(random: bytes) -> str:
    """Name a job by *random* bytes."""
    return "job_" + hashlib.sha256(random).hexdigest()[:12]


def write_spec(job: ReplayJob) -> str:
    """Write everything of a job but id, state, creation and total as JSON; :func:`read_spec` reads it."""
    chosen = asdict(job.chosen)
    chosen["ids"] = None if job.chosen.ids is None else sorted(job.chosen.ids)
    spec = {
        "chosen": chosen,
        "rate_per_s": job.rate_per_s,
        "to": job.to,
        "origin": job.origin.value,
        "reasons": sorted(job.reasons),
        "replays_below": job.replays_below,
        "closed_only": job.closed_only,
    }
    return orjson.dumps(spec).decode()


def read_spec(text: str) -> Mapping[str, Any]:
    """Read the fields of :class:`ReplayJob` that :func:`write_spec` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is something else.
    """
    spec = orjson.loads(text)
    chosen = dict(spec["chosen"])
    numbers = (chosen.get("since"), chosen.get("until"), spec.get("rate_per_s"), spec.get("replays_below"))
    texts = (*(chosen.get(name) for name in ("tenant", "type", "reason", "subscription")), spec.get("to"))
    if not all(isinstance(number, float | int | None) for number in numbers):
        raise TypeError("a number of the job is not a number")
    if not all(isinstance(text, str | None) for text in texts):
        raise TypeError("a text of the job is not a text")
    if spec.get("rate_per_s") is not None and spec["rate_per_s"] <= 0:
        raise ValueError("its rate is not above 0")
    chosen["ids"] = None if chosen["ids"] is None else frozenset(chosen["ids"])
    return {
        **spec,
        "chosen": Filter(**chosen),
        "origin": Origin(spec["origin"]),
        "reasons": frozenset(spec["reasons"]),
    }


def job_as_dict(row: JobRow) -> Mapping[str, object]:
    """Show a job with stable field names, times in RFC 3339."""
    job, counts = row.job, row.counts
    chosen = filter_as_dict(job.chosen)
    if job.reasons:
        chosen["reasons"] = sorted(job.reasons)
    return {
        "id": job.id,
        "state": job.state.value,
        "origin": job.origin.value,
        "filter": chosen,
        "rate_per_s": job.rate_per_s,
        "to": job.to,
        "total": job.total,
        "replayed": counts.replayed,
        "refused": counts.refused,
        "detail": counts.detail or None,
        "created_at": rfc3339(job.created),
        "updated_at": rfc3339(row.updated),
        "worker": row.holder or None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReplay:
    """Which jobs a worker makes by itself; each *every_s* None makes none."""

    cooldown_s: float | None = None  #: an entry is parked for so long before its automatic replay
    scheduled_s: float | None = None  #: time between two scheduled passes
    max_replays: int = 3  #: an entry that was replayed so often stays for an operator
    rate_per_s: float = 10.0
    is_dry: bool = False  #: nothing is sent, so only jobs of operators are worked off, and none is made

    @property
    def origins(self) -> frozenset[Origin]:
        """The origins of the jobs that are worked off."""
        return frozenset({Origin.OPERATOR}) if self.is_dry else frozenset(Origin)


@dataclass(frozen=True, slots=True)
class LastMade:
    """The jobs of one origin."""

    at: float  #: Unix seconds at which the last one was made
    is_pending: bool  #: one of them is running or paused


def due_jobs(
    rules: AutoReplay, last: Mapping[Origin, LastMade], now: float, make_id: Callable[[], str]
) -> tuple[ReplayJob, ...]:
    """Return the jobs to make now; of each origin at most one is pending.

    Args:
        rules: The settings.
        last: The jobs so far, by origin.
        now: Unix seconds.
        make_id: Makes a fresh id.
    """

    def is_due(origin: Origin, every_s: float) -> bool:
        made = last.get(origin)
        return made is None or not (made.is_pending or 0 <= now - made.at < every_s)

    waits = {Origin.AUTOMATIC: rules.cooldown_s, Origin.SCHEDULE: rules.scheduled_s}
    return tuple(
        ReplayJob(
            id=make_id(),
            chosen=Filter(until=now - every_s if origin is Origin.AUTOMATIC else None),
            created=now,
            rate_per_s=rules.rate_per_s,
            origin=origin,
            reasons=frozenset(reason.value for reason in RETRYABLE),
            replays_below=rules.max_replays,
            closed_only=True,
        )
        for origin, every_s in waits.items()
        if every_s is not None and origin in rules.origins and is_due(origin, every_s)
    )
