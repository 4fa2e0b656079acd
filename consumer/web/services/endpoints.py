"""Show endpoints: state, figures of the last hour, last failure, thresholds.

Data flow: rows of the store + sums of the history -> :class:`EndpointValues` -> routes and pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from consumer.core.changes.view import Seen
from consumer.core.history.activity import Activity, Tally
from consumer.core.history.records import HistoryRow, Query, Step, StoredStep
from consumer.core.text.urls import show_url
from consumer.edges.store.rows.endpoints import EndpointRow
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.services import subscriptions
from consumer.web.services.conditions import FAILING, ORDER, Condition, condition
from consumer.web.services.subscriptions import Target
from consumer.web.shared.etags import etag_of
from consumer.web.shared.problems import Problem

LOOKED_AT: Final = 500  #: rows that are searched for attempts at a time
_LOAD_MAX: Final = 10**9
_UNITS: Final = {
    "failures": "failures in a row",
    "failure_ratio": "ratio",
    "window_s": "s",
    "min_requests": "requests",
    "cooldown_s": "s",
    "cooldown_max_s": "s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFilter:
    """The endpoints that a reader wants; empty: any."""

    q: str = ""  #: a part of name or URL
    tenant: str = ""
    state: str = ""  #: a state of :mod:`.conditions`, or ``failing``


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The last failed attempt of an endpoint."""

    at: float
    code: str  #: a status such as ``503``, or a kind such as ``timeout_total``
    detail: str
    answer: bytes  #: start of the response body, as received
    answer_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointValues:
    """One endpoint. Success, latency and attempts are those of the last hour; None: unknown."""

    subscription_id: str
    tenant: str
    name: str
    url: str  #: without its query, which may contain a token
    events: Sequence[str]
    condition: Condition
    success_ratio: float | None
    p95_s: float | None = None
    attempts: int | None = None
    waiting: int = 0
    parked: int = 0
    failures_in_row: int = 0
    last_error: LastFailure | None = None
    success: Sequence[float | None] = ()  #: ratio of each minute, the oldest first

    @property
    def full_name(self) -> str:
        """Return ``tenant/name``."""
        return f"{self.tenant}/{self.name}"

    @property
    def trouble_key(self) -> str:
        """Return a text by which endpoints are sorted: the most serious trouble first."""
        ratio = 1.0 if self.success_ratio is None else self.success_ratio
        load = _LOAD_MAX - min(self.waiting + self.parked, _LOAD_MAX)
        return f"{ORDER.index(self.condition.state)} {ratio:.6f} {load:010d} {self.full_name}"


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often attempts failed in one way within the last hour."""

    code: str
    count: int
    last_at: float  #: start of the minute with the last one


@dataclass(frozen=True, slots=True)
class ThresholdValue:
    """One setting of a breaker that can be changed at run time."""

    name: str
    unit: str
    value: float | None  #: None: the default holds
    default: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDetails:
    """One endpoint with everything that an operator asks about it."""

    values: EndpointValues
    latency: Sequence[float | None]  #: 95th percentile of each minute in seconds, the oldest first
    errors: Sequence[ErrorCount]  #: the most frequent first
    thresholds: Sequence[ThresholdValue]
    etag: str  #: of the subscription
    history_is_off: bool


async def listed(context: WebContext, chosen: EndpointFilter) -> Sequence[EndpointValues]:
    """Return endpoints by trouble, without p95, series and last error; see :func:`completed`.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    activity = await context.activity.current()
    rows = await context.lookup.endpoints(chosen.tenant or None)
    found = [_brief(context, row, activity) for row in rows if _contains(row, chosen.q)]
    wanted = FAILING if chosen.state == "failing" else (chosen.state,)
    fit = [each for each in found if not chosen.state or each.condition.state in wanted]
    return sorted(fit, key=lambda each: each.trouble_key)


async def completed(context: WebContext, lines: Sequence[EndpointValues]) -> Sequence[EndpointValues]:
    """Return the endpoints of one page with p95, series and last error.

    Raises:
        StoreUnavailable: the history cannot be read.
    """
    activity = await context.activity.current()
    last = [activity.failed(each.subscription_id) for each in lines]
    seqs = tuple(failed.seq for failed in last if failed is not None)
    steps = await context.history.steps(Query(seqs=seqs, limit=len(seqs))) if seqs else ()
    failures = {step.seq: _failure_of(step.row) for step in steps}
    return [
        _complete(context, each, activity, None if failed is None else failures.get(failed.seq))
        for each, failed in zip(lines, last, strict=True)
    ]


async def tenant_of(context: WebContext, subscription_id: str) -> str | None:
    """Return the tenant of a subscription; None if there is no such subscription.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    brief = await context.lookup.subscription(subscription_id)
    return None if brief is None else brief.tenant


async def details(context: WebContext, target: Target) -> EndpointDetails:
    """Return one endpoint.

    Raises:
        Problem: 404.
        StoreUnavailable: the store or the history cannot be read.
    """
    seen = await subscriptions.read(context, target)
    rows = await context.lookup.endpoints(of=seen.entry.id)
    if not rows:  # it was removed meanwhile
        raise Problem(404, "the tenant has no such subscription", field="subscription", remedy="list them")
    now, activity = context.clock.now(), await context.activity.current()
    minutes = activity.minutes(now, seen.entry.id)
    last = activity.last_failures(now, seen.entry.id)
    failures = activity.hour(seen.entry.id).failures
    return EndpointDetails(
        values=(await completed(context, [_brief(context, rows[0], activity)]))[0],
        latency=[None if each is None else each.p95_s for each in minutes],
        errors=[ErrorCount(code, count, last.get(code, now)) for code, count in failures.most_common()],
        thresholds=_thresholds(context, seen),
        etag=etag_of(seen.entry),
        history_is_off=context.settings.history.keep == "off",
    )


async def attempts(
    context: WebContext, subscription_id: str, before: int | None, limit: int
) -> Sequence[StoredStep]:
    """Return the newest attempts to an endpoint, the newest first.

    Args:
        context: History to read.
        subscription_id: Id of the subscription.
        before: Only attempts with a smaller number of their row; None: the newest ones.
        limit: Most attempts.

    Raises:
        StoreUnavailable: the history cannot be read.
    """
    found: list[StoredStep] = []
    while len(found) < limit:
        query = Query(subscription_id=subscription_id, before=before, limit=max(limit, LOOKED_AT))
        steps = (await context.history.steps(query))[::-1]
        found += [step for step in steps if step.row.step == Step.ATTEMPT]
        if len(steps) < query.limit:
            break
        before = steps[-1].seq
    return found[:limit]


async def set_thresholds(caller: Caller, target: Target, values: Mapping[str, float | None]) -> Seen:
    """Change settings of the breaker; they are in force within a second.

    Args:
        caller: Author of the change.
        target: The subscription.
        values: New values by name; None: the default holds again.

    Raises:
        Problem: 404, 412; 422 names the setting.
        StoreUnavailable: the store cannot be written.
    """
    unknown = [name for name in values if name not in _UNITS]
    if unknown:
        raise Problem(422, "is not a setting", field=unknown[0], remedy=f"use {', '.join(_UNITS)}")
    return await subscriptions.patch(caller, target, {"breaker": dict(values)})


def _contains(row: EndpointRow, q: str) -> bool:
    part = q.lower()
    return not part or part in f"{row.tenant}/{row.name}".lower() or part in show_url(row.url).lower()


def _brief(context: WebContext, row: EndpointRow, activity: Activity) -> EndpointValues:
    known = context.settings.history.keep == "all"
    hour = activity.hour(row.id) if known else Tally()
    return EndpointValues(
        subscription_id=row.id,
        tenant=row.tenant,
        name=row.name,
        url=show_url(row.url),
        events=row.events,
        condition=condition(row, hour, context.clock.now()),
        success_ratio=hour.success_ratio,
        attempts=hour.attempts if known else None,
        waiting=activity.waiting(row.id),
        parked=row.parked,
        failures_in_row=activity.failures_in_row(row.id),
    )


def _complete(
    context: WebContext, line: EndpointValues, activity: Activity, last: LastFailure | None
) -> EndpointValues:
    """Return *line* with its last failure and its series."""
    if context.settings.history.keep != "all":
        return replace(line, last_error=last)
    of = line.subscription_id
    minutes = activity.minutes(context.clock.now(), of)
    success = [None if each is None else each.success_ratio for each in minutes]
    return replace(line, last_error=last, success=success, p95_s=activity.hour(of).p95_s)


def _failure_of(row: HistoryRow) -> LastFailure:
    code = row.kind if row.status is None else str(row.status)
    return LastFailure(
        at=row.at, code=code, detail=row.detail, answer=row.answer or b"", answer_type=row.answer_type
    )


def _thresholds(context: WebContext, seen: Seen) -> Sequence[ThresholdValue]:
    fields, default = seen.entry.breaker, context.rules.breaker
    return [
        ThresholdValue(name, unit, getattr(fields, name), getattr(default, name))
        for name, unit in _UNITS.items()
    ]
