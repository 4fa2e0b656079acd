"""Put into words everything that is wrong now: one sentence with its number for each trouble.

Data flow: facts of the store and the workers -> :func:`troubles` -> :class:`OverviewPage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from consumer.web.pages import urls
from consumer.web.pages.filters import ago, clock_time, counted, percent, short_duration
from consumer.web.pages.views.overview import ParkedCounts, Pressure, Rerouted, Trouble
from consumer.web.pages.views.parts import EndpointLine, State, Tone
from consumer.web.pages.words import by_trouble

SHOWN: Final = 3  #: failing endpoints with a sentence of their own; further ones share one
LATE_S: Final = 60.0  #: an unfinished delivery whose event is older than this is a trouble
_FAILING: Final = (State.OPEN, State.FORCED, State.PROBING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """No worker can be asked. The broker may know workers all the same."""

    why: str  #: a sentence
    remedy: str  #: a sentence
    consuming: int | None = None  #: workers that take deliveries, by the broker; None: it cannot be asked
    has_ever_run: bool = True  #: whether a worker has run with this broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts from which troubles are found."""

    now: float
    endpoints: Sequence[EndpointLine] = ()  #: those that are not well; others are ignored
    rerouted: Sequence[Rerouted] = ()
    rerouted_count: int = 0  #: rerouted tenants, where their names are unknown
    parked: ParkedCounts = field(default_factory=ParkedCounts)
    pressure: Pressure | None = None
    workers: int = 1
    broker_is_away: bool = False
    unreached: Unreached | None = None  #: None if a worker answers
    not_ready: Sequence[str] = ()  #: reasons of workers that are not ready
    oldest_due_s: float | None = None


def troubles(facts: Facts) -> Sequence[Trouble]:
    """Return everything that is wrong, the most serious first."""
    found = [*_workers(facts), *_pressure(facts), *_endpoints(facts), *_late(facts), *_parked(facts)]
    found += _rerouted(facts)
    return sorted(found, key=lambda each: each.tone is not Tone.BAD)


def _workers(facts: Facts) -> Iterator[Trouble]:
    if facts.unreached is not None:
        yield worker_trouble(facts.unreached)
    elif facts.workers == 0:
        yield Trouble(
            tone=Tone.BAD,
            headline="No worker is running: nothing is delivered.",
            detail="Events wait in the broker. Start a worker with `leveret run`.",
        )
    for reason in facts.not_ready:
        yield Trouble(tone=Tone.BAD, headline="A worker is not ready.", detail=reason)


def worker_trouble(gone: Unreached) -> Trouble:
    """Return the trouble of a worker that cannot be asked; the broker knows whether any worker delivers."""
    details = f"{gone.why} {gone.remedy}"
    if gone.consuming:
        workers = counted(gone.consuming, "worker takes", "workers take")
        headline = f"{workers} deliveries, and this page cannot read the numbers of any."
        details = f"Fairness, back-pressure and slots are not known. {details}"
        return Trouble(tone=Tone.WARN, headline=headline, detail=details)
    if gone.consuming is None:
        headline = "Neither a worker nor the broker answers: it is not known whether anything is delivered."
    elif not gone.has_ever_run:
        headline = "No worker has run with this broker yet: nothing is delivered."
    else:
        headline = "No worker is running: nothing is delivered, and events wait in the broker."
    return Trouble(tone=Tone.BAD, headline=headline, detail=details)


def _pressure(facts: Facts) -> Iterator[Trouble]:
    if facts.broker_is_away:
        yield Trouble(
            tone=Tone.BAD,
            headline="The broker cannot be reached from here.",
            detail="Without it nothing is published, delivered or resent.",
        )
    if facts.pressure is not None:
        since = facts.pressure.since
        span = "" if since is None else f" for {short_duration(facts.now - since)}"
        yield Trouble(
            tone=Tone.BAD,
            headline=f"The broker holds back: workers have started nothing new{span}.",
            detail=facts.pressure.reason,
        )


def _endpoints(facts: Facts) -> Iterator[Trouble]:
    failing = [line for line in by_trouble(facts.endpoints) if line.condition.state in _FAILING]
    for line in failing[:SHOWN]:
        yield _failing(line, facts.now)
    if (more := len(failing) - SHOWN) > 0:
        yield Trouble(
            tone=Tone.BAD,
            headline=f"{counted(more, 'further endpoint fails', 'further endpoints fail')}.",
            href=urls.with_query(urls.ENDPOINTS, {"state": "failing"}),
            action="Show them",
        )
    degraded = [line for line in facts.endpoints if line.condition.state is State.DEGRADED]
    if degraded:
        worst = by_trouble(degraded)[0]
        yield Trouble(
            tone=Tone.WARN,
            headline=f"{counted(len(degraded), 'endpoint is', 'endpoints are')} degraded.",
            detail=f"{worst.full_name} accepts {percent(worst.success_ratio)} of its webhooks.",
            href=urls.with_query(urls.ENDPOINTS, {"state": "degraded"}),
            action="Show endpoints",
        )


def _failing(line: EndpointLine, now: float) -> Trouble:
    error, since = line.last_error, line.condition.since
    code = "" if error is None else f" with {error.code}"
    start = "" if since is None else f" since {clock_time(since, now)}"
    held = counted(line.waiting, "delivery waits", "deliveries wait")
    parts = [held, f"{line.parked:,} parked" if line.parked else ""]
    last = "" if error is None else f"last answer {ago(error.at, now)}"
    return Trouble(
        tone=Tone.BAD,
        headline=f"{line.full_name} fails{code}{start}.",
        detail=", ".join(filter(None, [*parts, last])) + ".",
        href=urls.endpoint(line.subscription_id),
        action="Open endpoint",
        answer=b"" if error is None else error.answer,
    )


def _late(facts: Facts) -> Iterator[Trouble]:
    if facts.oldest_due_s is not None and facts.oldest_due_s > LATE_S:
        yield Trouble(
            tone=Tone.WARN,
            headline=f"The oldest delivery in a worker's hands is {short_duration(facts.oldest_due_s)} old.",
            detail="Its endpoint fails or is slow, or workers are busy or too few.",
            href=urls.TENANTS,
            action="Show tenants",
        )


def _parked(facts: Facts) -> Iterator[Trouble]:
    parked = facts.parked
    if parked.added_hour > parked.left_hour:
        reason = f", most of them {parked.top_reason}" if parked.top_reason else ""
        yield Trouble(
            tone=Tone.WARN,
            headline=f"The parked queue grows: {parked.added_hour:,} more in the last hour.",
            detail=f"{counted(parked.count, 'entry', 'entries')} in all{reason}.",
            href=urls.PARKED,
            action="Show parked",
        )


def _rerouted(facts: Facts) -> Iterator[Trouble]:
    count, detail = facts.rerouted_count, "Their new events go by a spill queue, so that others do not wait."
    if facts.rerouted:
        first = max(facts.rerouted, key=lambda each: each.waiting)
        waiting = counted(first.waiting, "message waits", "messages wait")
        reason = f"{first.reason}; " if first.reason else ""
        count = len(facts.rerouted)
        detail = f"{first.tenant}, {ago(first.since, facts.now)}: {reason}{waiting}."
    if count:
        yield Trouble(
            tone=Tone.WARN,
            headline=f"{counted(count, 'tenant is', 'tenants are')} rerouted.",
            detail=detail,
            href=urls.TENANTS,
            action="Show tenants",
        )
