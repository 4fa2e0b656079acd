"""Sample pages of all other kinds: overview, timeline, tenants, access and the customer's view."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from consumer.core.history.records import HistoryRow, Step
from consumer.core.history.trace import EventKey, Evidence, ParkedNow, trace
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.web.pages import urls
from consumer.web.pages.troubles import Facts, troubles
from consumer.web.pages.views.access import AuditLine, AuditPage, Change, TokenLine, TokensPage
from consumer.web.pages.views.customer import CustomerEndpointPage, CustomerPage, SecretLine
from consumer.web.pages.views.events import EventPage, Found, SearchPage
from consumer.web.pages.views.overview import Hour, OverviewPage, ParkedCounts, Rerouted
from consumer.web.pages.views.parts import Condition, Pager, Series, Shell, State
from consumer.web.pages.views.tenants import FairnessDay, TenantLine, TenantsPage
from docs.page_preview.endpoints import ANSWER, EVENT, FAILING, LINES, NOW, attempts, wave
from docs.page_preview.parked import LINES as PARKED

_DAY: Final = 86_400.0
_COUNTS: Final = ParkedCounts(count=249, added_hour=212, left_hour=3, top_reason="exhausted")
_REROUTED: Final = Rerouted(
    tenant="globex", since=NOW - 340, reason="it held 78 % of the slots of its lane", waiting=12_400
)


def overview_page(shell: Shell) -> OverviewPage:
    """Return the overview of a bad night."""
    sick = [line for line in LINES if line.condition.state is not State.WELL]
    found = troubles(Facts(now=NOW, endpoints=sick, rerouted=[_REROUTED], parked=_COUNTS, workers=4))
    return OverviewPage(
        shell=replace(shell, refresh_s=5),
        troubles=found,
        hour=Hour(
            success=wave(0.993, 0.003, 0.09, top=1.0),
            latency=wave(0.18, 0.03, -0.9),
            deliveries=wave(420, 22, 60),
            parked=wave(40, 0.2, -209),
            success_ratio=0.9312,
            p95_s=1.08,
            deliveries_per_s=362.4,
            waiting=3_802,
        ),
        worst=sick,
        endpoints=214,
        parked=_COUNTS,
        workers=4,
    )


def calm_page(shell: Shell) -> OverviewPage:
    """Return the overview of a good night."""
    return OverviewPage(
        shell=shell,
        hour=Hour(
            success=wave(0.9985, 0.0006, top=1.0),
            latency=wave(0.11, 0.01),
            deliveries=wave(420, 22),
            parked=wave(31, 0),
            success_ratio=0.9991,
            p95_s=0.112,
            deliveries_per_s=418.0,
            waiting=12,
        ),
        endpoints=214,
        parked=ParkedCounts(count=31),
        workers=4,
    )


def event_page(shell: Shell) -> EventPage:
    """Return the timeline of an event with four deliveries."""
    key = EventKey(EVENT, "acme", "order.paid")
    at, target, shop = NOW - 6_401, FAILING.subscription_id, "sub_0123456789abcdef"
    base = HistoryRow(at=at, step=Step.RECEIVED, event_id=EVENT, tenant="acme", type="order.paid", number=2)
    tried = base._replace(step=Step.ATTEMPT, subscription_id=target, kind="http_5xx", status=503)
    failed = tried._replace(reason="retry", answer=ANSWER, answer_type="application/json", latency_ms=4_180.0)
    rows = [
        base,
        base._replace(
            at=at + 0.01, step=Step.ATTEMPT, subscription_id=shop, number=1, kind="ok", status=204,
            latency_ms=71.0, reason="delivered",
        ),
        failed._replace(at=at + 0.01, number=1, wait_ms=30_000.0),
        tried._replace(
            at=at + 36, number=2, kind="timeout_total", status=None, latency_ms=15_000.0, reason="retry",
            wait_ms=120_000.0, detail="no answer within 15 s",
        ),
        base._replace(
            at=at + 172, step=Step.DEFERRED, subscription_id=target, reason="breaker_open", wait_ms=60_000.0
        ),
        failed._replace(at=at + 234, number=3, reason="park", wait_ms=None),
        base._replace(
            at=at + 238.5, step=Step.PARKED, subscription_id=target, number=3, reason="exhausted",
            detail="3 attempts failed",
        ),
    ]  # fmt: skip
    briefs = [
        SubscriptionBrief(id=target, tenant="acme", name="orders", events=("order.#",)),
        SubscriptionBrief(id=shop, tenant="acme", name="shop", events=("#",)),
        SubscriptionBrief(id="sub_3", tenant="acme", name="refunds", events=("refund.*",)),
        SubscriptionBrief(
            id="sub_4", tenant="acme", name="old", events=("#",), enabled=False, disabled_reason="by hand"
        ),
    ]
    parked = ParkedNow(
        PARKED[2].id, target, "exhausted", "3 attempts failed", 3, at + 238.5, at + 238.5 + 7 * _DAY
    )
    return EventPage(
        shell=shell, trace=trace(key, Evidence(rows=rows, parked=[parked], subscriptions=briefs), NOW)
    )


def search_page(shell: Shell) -> SearchPage:
    """Return a search with several results."""
    return SearchPage(
        shell=replace(shell, search="acme"),
        found=(
            Found(kind="tenant", label="acme", detail="3 endpoints", href=urls.TENANTS),
            Found(
                kind="endpoint",
                label="acme/orders",
                detail=FAILING.url,
                href=urls.endpoint(FAILING.subscription_id),
            ),
        ),
    )


def tenants_page(shell: Shell) -> TenantsPage:
    """Return the page of tenants."""
    names = ("globex", "acme", "stark", "wayne", "initech", "umbrella", "tyrell", "cyberdyne", "hooli")
    lines = tuple(
        TenantLine(
            tenant=name,
            endpoints=9 - index,
            deliveries_per_s=140.0 / (index + 1),
            share=(0.36, 0.18, 0.12, 0.09, 0.07, 0.06, 0.05, 0.04, 0.03)[index],
            in_flight=(64, 41, 30, 22, 17, 12, 8, 6, 3)[index],
            is_rerouted=index == 0,
            waiting=0 if index > 3 else 1_800 // (index + 1),
            rounds_waited=0 if index > 3 else index,
            parked=249 if index == 1 else 0,
        )
        for index, name in enumerate(names)
    )
    return TenantsPage(
        shell=shell,
        lines=lines,
        total=61,
        fairness=0.94,
        fairness_tenants=9,
        slots=256,
        slots_used=203,
        borrowable=192,
        rerouted=1,
        in_lanes=4_120,
        in_spill=12_400,
        day=FairnessDay(
            index=0.83,
            hours=Series(values=[0.9 - 0.3 * (hour % 7 == 5) for hour in range(24)], low=0.0, high=1.0),
            top=names[:3],
            top_share=0.66,
            top_hours=Series(values=[0.6 + 0.2 * (hour % 7 == 5) for hour in range(24)], low=0.0, high=1.0),
        ),
        pager=Pager(next="?after=9"),
    )


def tokens_page(shell: Shell) -> TokensPage:
    """Return the page of tokens, right after one was made."""
    return TokensPage(
        shell=shell,
        made="lvt_8k2m1p_" + "sample" * 7,
        lines=(
            TokenLine(
                id="tok_8k2m1p", name="shop backend", scope="operate", created=NOW - 2,
                expires=NOW + 90 * _DAY,
            ),
            TokenLine(
                id="tok_51cc09", name="night shift", scope="admin", created=NOW - 40 * _DAY,
                last_used=NOW - 1, is_own=True,
            ),
            TokenLine(
                id="tok_d20f77", name="portal of acme", scope="operate", tenant="acme",
                created=NOW - 12 * _DAY, last_used=NOW - 640, expires=NOW + 353 * _DAY,
            ),
            TokenLine(
                id="tok_aa0914", name="grafana", scope="read", created=NOW - 200 * _DAY,
                last_used=NOW - 90 * _DAY, revoked=NOW - 80 * _DAY,
            ),
        ),
    )  # fmt: skip


def audit_page(shell: Shell) -> AuditPage:
    """Return the audit log."""
    page, name = urls.endpoint(FAILING.subscription_id), FAILING.full_name
    return AuditPage(
        shell=shell,
        lines=(
            AuditLine(
                id="1", at=NOW - 6, who="token:night shift", action="job.created",
                target="job_5b1e0c9fa273", href=urls.job("job_5b1e0c9fa273"),
                changes=(
                    Change(name="filter", after="tenant acme, since 2h"),
                    Change(name="rate_per_s", after="20"),
                ),
            ),
            AuditLine(
                id="2", at=NOW - 90, who="token:night shift", action="subscription.patched", target=name,
                href=page, tenant="acme",
                changes=(Change(name="breaker.cooldown_s", before="30", after="60"),),
            ),
            AuditLine(
                id="3", at=NOW - 131, who="token:night shift", action="endpoint.reset", target=name,
                href=page, tenant="acme",
            ),
            AuditLine(
                id="4", at=NOW - 7_300, who="cli:root", action="endpoint.paused", target="acme/warehouse",
                tenant="acme", changes=(Change(name="reason", after="move of the data centre"),),
            ),
        ),
        pager=Pager(next="?after=4"),
    )  # fmt: skip


def customer_shell(shell: Shell) -> Shell:
    """Return the frame for a customer's token."""
    return replace(shell, user="portal of acme", scope="operate", tenant="acme")


def customer_page(shell: Shell) -> CustomerPage:
    """Return the first page of the customer's view."""
    own = [line for line in LINES if line.tenant == "acme"]
    return CustomerPage(
        shell=customer_shell(shell), lines=own, delivered_day=48_211, success_ratio=0.971, parked=212
    )


def customer_endpoint_page(shell: Shell) -> CustomerEndpointPage:
    """Return an endpoint in the customer's view."""
    return CustomerEndpointPage(
        shell=customer_shell(shell),
        line=replace(FAILING, condition=Condition(state=State.OPEN, since=NOW - 668, until=NOW + 51)),
        events=("order.#", "refund.created"),
        attempts=attempts("acme", FAILING.subscription_id),
        older="?before=4711",
        secrets=(
            SecretLine(hint="x9Qk", kind="v1", created=NOW - 3_600),
            SecretLine(hint="77bA", kind="v1", created=NOW - 190 * _DAY, expires=NOW + 82_800),
        ),
        parked=PARKED[:3],
    )
