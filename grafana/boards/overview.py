"""The overview: is it well, since when, and which subscription, tenant, queue or node is the cause."""

from __future__ import annotations

from grafana.boards.culprits import ALARMS, NODES, OVERDUE, SICK_TABLE, TENANT_TABLE
from grafana.boards.flow import FLOW, TARGETS, TIMES
from grafana.promql import FIVE_MINUTES, age, most, rate, ratio
from grafana.spec import BoardSpec, Kind, PanelSpec, Query, RowSpec

ALERT = 'alertname=~"Leveret.*"'
PARKED_MESSAGES = most("leveret_queue_messages", more=',queue="parked"')
BLOCKED = "nothing-is-sent-readyz-is-red"

WELL = RowSpec(
    "Is it well, and since when?",
    (
        PanelSpec.number(
            "Alerts that fire",
            "Alerts on Leveret and its broker that fire now. The list below names them.",
            Query(f'count(ALERTS{{{ALERT},alertstate="firing"}}) or vector(0)', "firing"),
            bad=1,
            values={"0": "none"},
        ),
        PanelSpec.number(
            "In trouble",
            "Begin of the oldest alert that fires, or that will if its cause lasts.",
            Query(f"1000 * min(ALERTS_FOR_STATE{{{ALERT}}}) or vector(0)", "since"),
            unit="dateTimeFromNow",
            bad=1,
            values={"0": "no"},
        ),
        PanelSpec.number(
            "Workers ready",
            "Share of the workers that are ready: connected, with all queues, reading and publishing. The "
            "page /readyz of a worker names the missing part.",
            Query("sum(leveret_ready{@}) / count(leveret_ready{@})", "ready"),
            unit="percentunit",
            warn=1.0,
            bad=0.5,
            runbook=BLOCKED,
        ),
        PanelSpec.number(
            "Sick subscriptions",
            "Subscriptions of which a part of the last minute's work failed, was slow or was held back, of "
            "the worker with the most. The table below names the worst 20 of each worker.",
            Query(most("leveret_subscriptions_in_trouble"), "sick"),
            warn=1,
            bad=5,
            values={"0": "none"},
            runbook="one-endpoint-is-down",
        ),
        PanelSpec.number(
            "Requests that succeed",
            "Share of all HTTP requests, retries included, that were answered with 2xx. Under 90 % an alert "
            "fires.",
            ratio(
                rate("leveret_attempts_total", ',kind="ok"', over=FIVE_MINUTES),
                rate("leveret_attempts_total", over=FIVE_MINUTES),
                "succeed",
            ),
            unit="percentunit",
            warn=0.98,
            bad=0.9,
            runbook="many-requests-fail",
        ),
        PanelSpec.number(
            "Oldest waiting",
            "Age of the delivery that waits longest for its next attempt, of those that the running workers "
            "stored. One endpoint that is down for days explains a great age.",
            Query(age("leveret_oldest_waiting_timestamp_seconds"), "age"),
            unit="s",
            warn=3_600,
            bad=86_400,
            runbook="deliveries-take-long",
        ),
        PanelSpec.number(
            "Parked",
            "Deliveries without a further attempt: they wait for an operator, who replays or removes them. "
            "Over 100 an alert fires.",
            Query(
                f"max(leveret_parked_entries{{@}} >= 0) or {PARKED_MESSAGES}",
                "parked",
            ),
            warn=1,
            bad=100,
            runbook="parked-grows",
        ),
        PanelSpec.number(
            "Delivered",
            "Webhooks that endpoints accepted, per second.",
            Query(rate("leveret_deliveries_total", ',verdict="delivered"'), "delivered"),
            unit="reqps",
        ),
    ),
)

WRONG = RowSpec(
    "What is wrong, by name?",
    (
        PanelSpec(
            title="Alerts",
            text="Alerts that fire or soon will, the newest first. Each links to its section of the runbook.",
            queries=(),
            kind=Kind.ALERTS,
            width=7,
            height=9,
        ),
        SICK_TABLE,
        TENANT_TABLE,
        OVERDUE,
        NODES,
    ),
)

PRESSURE = RowSpec(
    "Pressure and broker",
    (
        PanelSpec.number(
            "Back-pressure",
            "Workers that start nothing new because the broker is slow, blocked or away.",
            Query("sum(leveret_pressed{@})", "workers"),
            bad=1,
            values={"0": "none"},
            runbook=BLOCKED,
        ),
        PanelSpec.number(
            "Stuck queues",
            "Queues that confirm no publish. Only deliveries that need one of them wait.",
            Query(most("leveret_stuck_queues"), "queues"),
            bad=1,
            values={"0": "none"},
            runbook="a-queue-confirms-nothing",
        ),
        PanelSpec.number(
            "Broker alarms",
            "Alarms that RabbitMQ raised: memory, disk or handles. While one is raised it blocks all "
            "publishers.",
            Query(f"sum{ALARMS}", "alarms"),
            bad=1,
            values={"0": "none"},
            runbook="the-brokers-memory-or-disk-is-near-its-limit",
        ),
        PanelSpec.number(
            "Room for waiting",
            "Estimated bytes of deliveries that wait, as a share of [limits] waiting_bytes. At 100 % fresh "
            "events stay in their lanes, the queues of events that no worker has read.",
            Query("max(leveret_waiting_bytes{@} / leveret_waiting_limit_bytes{@})", "used"),
            unit="percentunit",
            warn=0.5,
            bad=0.8,
            runbook="too-much-waits",
        ),
        PanelSpec.number(
            "Open breakers",
            "Endpoints that get no requests because several in a row failed.",
            Query(most("leveret_breakers", more=',state="open"'), "open"),
            warn=1,
            values={"0": "none"},
            runbook="one-endpoint-is-down",
        ),
        PanelSpec.number(
            "Longest open",
            "Time since the breaker opened that is open for the longest time, apart from those that were "
            "opened by hand, and those of disabled or paused subscriptions.",
            Query(age("leveret_breaker_oldest_open_timestamp_seconds"), "open for"),
            unit="s",
            warn=3_600,
            bad=86_400,
            values={"0": "none"},
            runbook="one-endpoint-is-down",
        ),
        PanelSpec.number(
            "Disabled by Leveret",
            "Subscriptions that Leveret disabled itself: the endpoint answered 410, or failed for days.",
            Query(most("leveret_subscriptions_disabled"), "disabled"),
            warn=1,
            values={"0": "none"},
            runbook="an-endpoint-was-disabled",
        ),
        PanelSpec.number(
            "In flight",
            "HTTP requests that wait for their answer.",
            Query("sum(leveret_requests_in_flight{@})", "in flight"),
        ),
    ),
)

OVERVIEW = BoardSpec(
    name="overview",
    title="Leveret: overview",
    text="Is the delivery of webhooks well, since when, and which subscription, tenant, queue or node is "
    "the cause?",
    rows=(WELL, WRONG, PRESSURE, TIMES, FLOW, TARGETS),
)
