"""Endpoints and tenants: the sick in full; one subscription or one tenant by the dashboard's variables."""

from __future__ import annotations

from grafana.boards.attempts import ATTEMPTS
from grafana.boards.culprits import BREAKER_STATES, TROUBLE, subscription_columns, trouble_columns
from grafana.boards.parked import PARKED
from grafana.boards.tenants import FAIRNESS, TENANTS
from grafana.promql import OF_SUBSCRIPTION, most, rate, total
from grafana.spec import BoardSpec, Kind, PanelSpec, Query, RowSpec

DOWN = "one-endpoint-is-down"
NAME = "{{subscription}}"

SUBSCRIPTIONS = RowSpec(
    "Subscriptions in most trouble",
    (
        PanelSpec(
            title="Subscriptions",
            text="The subscriptions in most trouble, chosen anew every 15 s, as tenant/name; one that is "
            "well again stays for some minutes. other: all others, with their highest latency and most "
            "parked entries, and the number of open breakers. trouble: share of the last minutes' work that "
            "failed or was held, and its cause. p95: 95 of 100 requests are faster. parked: without a "
            "further attempt.",
            queries=(
                *trouble_columns(),
                Query(
                    rate("leveret_subscription_attempts_total", OF_SUBSCRIPTION, "subscription"),
                    "requests",
                    "reqps",
                ),
                *subscription_columns(""),
            ),
            kind=Kind.TABLE,
            width=24,
            height=10,
            sort="trouble",
            runbook=DOWN,
        ),
    ),
)

ONE = RowSpec(
    "The chosen subscriptions",
    (
        PanelSpec(
            title="Requests, by result",
            text="Requests of the chosen subscriptions: delivered, or failed and tried again later.",
            queries=(
                Query(
                    rate("leveret_subscription_attempts_total", OF_SUBSCRIPTION, "subscription, result"),
                    f"{NAME} {{{{result}}}}",
                ),
            ),
            unit="reqps",
            runbook=DOWN,
        ),
        PanelSpec(
            title="Latency",
            text="95 of 100 requests of the last minutes took less. Red from the time-out of an attempt (15 "
            "s) on.",
            queries=(
                Query(most("leveret_subscription_latency_seconds", "subscription", OF_SUBSCRIPTION), NAME),
            ),
            unit="s",
            warn=5,
            bad=15,
            runbook="one-endpoint-is-slow",
        ),
        PanelSpec(
            title="Waiting deliveries",
            text="Deliveries of the chosen subscriptions that wait for their next attempt or for their "
            "breaker.",
            queries=(
                Query(
                    total("leveret_subscription_waiting_deliveries", "subscription", OF_SUBSCRIPTION), NAME
                ),
            ),
            runbook=DOWN,
        ),
        PanelSpec(
            title="Parked entries of each",
            text="Deliveries of the chosen subscriptions without a further attempt; `leveret parked replay` "
            "sends them.",
            queries=(
                Query(most("leveret_subscription_parked_entries", "subscription", OF_SUBSCRIPTION), NAME),
            ),
            warn=1,
            bad=50,
            runbook="much-is-parked-for-one-tenant",
        ),
        PanelSpec(
            title="Breakers, over time",
            text="State of each breaker: open while nothing is sent because of failures in a row, probing "
            "while one request is tried.",
            queries=(
                Query(
                    most(
                        "leveret_subscription_breaker",
                        "subscription",
                        f'{OF_SUBSCRIPTION},subscription!="other"',
                    ),
                    NAME,
                ),
            ),
            kind=Kind.TIMELINE,
            warn=1,
            bad=2,
            values=BREAKER_STATES,
            runbook=DOWN,
        ),
        PanelSpec(
            title="Trouble, by cause",
            text="Share of the last minutes' work that failed or was held, with its cause.",
            queries=(Query(f"max by (subscription, cause) ({TROUBLE})", f"{NAME}: {{{{cause}}}}"),),
            unit="percentunit",
            warn=0.05,
            bad=0.5,
            runbook=DOWN,
        ),
    ),
)

ALL = RowSpec(
    "All endpoints",
    (
        PanelSpec(
            title="Breakers",
            text="Endpoints by the state of their breaker, of the worker that knows the most.",
            width=6,
            queries=(Query(most("leveret_breakers", "state"), "{{state}}"),),
            kind=Kind.STACK,
            runbook=DOWN,
        ),
        PanelSpec(
            title="Breakers that opened",
            text="Breakers that opened, per minute. Many at once: check your own network first.",
            width=6,
            queries=(Query(f"60 * {rate('leveret_breaker_openings_total')}", "opened"),),
            unit="cpm",
            runbook=DOWN,
        ),
        PanelSpec(
            title="Deferred",
            text="Deliveries put off without a request, by reason. breaker: it is open. saturated or slow: "
            "the endpoint accepts less than there is to send. paced: at its rate limit. local: this machine "
            "lacks something. locked: its secrets cannot be decrypted. proxy: the egress proxy is away.",
            width=6,
            queries=(Query(rate("leveret_deferrals_total", by="reason"), "{{reason}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook=DOWN,
        ),
        PanelSpec(
            title="Subscriptions in memory",
            text="Subscriptions that the workers know: enabled, disabled (by a user or by Leveret), and "
            "locked ones: their secrets cannot be decrypted, so nothing is sent.",
            width=6,
            queries=(
                Query(most("leveret_subscriptions", "enabled"), "enabled: {{enabled}}"),
                Query(most("leveret_subscriptions_locked"), "locked"),
            ),
            runbook="the-store-is-away-or-damaged",
        ),
    ),
)

ENDPOINTS = BoardSpec(
    name="endpoints",
    title="Leveret: endpoints and tenants",
    text="Which subscriptions and tenants are in trouble and why? Choose one of them above.",
    rows=(SUBSCRIPTIONS, ONE, TENANTS, PARKED, ALL, ATTEMPTS, FAIRNESS),
)
