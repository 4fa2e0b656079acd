"""Cases of the rules on deliveries."""

from __future__ import annotations

from typing import Final

from grafana.alerts.case import Case, Of, fires, silent

BUCKET: Final = "leveret_delivery_seconds_bucket"

REQUESTS: Final[tuple[Case, ...]] = (
    fires(
        "LeveretFailureRate",
        {
            'leveret_attempts_total{@,kind="ok"}': "0+80x80",
            'leveret_attempts_total{@,kind="http_5xx"}': "0+20x80",
            'leveret_failures_total{@,code="503"}': "0+20x80",
        },
        "15m",
        "20% of all HTTP requests of the last 5 minutes failed.",
    ),
    silent(
        "LeveretFailureRate",
        {
            'leveret_attempts_total{@,kind="ok"}': "0+91x80",
            'leveret_attempts_total{@,kind="http_5xx"}': "0+9x80",
            'leveret_failures_total{@,code="503"}': "0+9x80",
        },
        "15m",
    ),
    silent(
        "LeveretFailureRate",
        {
            'leveret_attempts_total{@,kind="http_5xx"}': "0+0.25x80",
            'leveret_failures_total{@,code="503"}': "0+0.25x80",
        },
        "15m",
        note="when there are few requests",
    ),
    fires(
        "LeveretSlow",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+80x100",
            f'{BUCKET}{{@,le="900.0"}}': "0+100x100",
            f'{BUCKET}{{@,le="+Inf"}}': "0+100x100",
        },
        "20m",
        "5 % of the webhooks delivered in the last 10 minutes, or one that is not delivered yet, took 750 s "
        "since the event.",
    ),
    silent(
        "LeveretSlow",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+96x100",
            f'{BUCKET}{{@,le="900.0"}}': "0+100x100",
            f'{BUCKET}{{@,le="+Inf"}}': "0+100x100",
        },
        "20m",
    ),
    fires(
        "LeveretSlow",
        {"leveret_oldest_delivery_seconds{@}": "0+15x80"},
        "11m",
        "5 % of the webhooks delivered in the last 10 minutes, or one that is not delivered yet, took 660 s "
        "since the event.",
        note="for a stuck delivery",
    ),
    silent(
        "LeveretSlow",
        {"leveret_oldest_delivery_seconds{@}": "299x80"},
        "11m",
        note="for deliveries under 5 minutes",
    ),
    silent(
        "LeveretSlow",
        {"leveret_oldest_delivery_seconds{@}": "0x8 387x4 0x40"},
        *("3m", "5m", "7m", "8m"),
        note="for one late retry",
    ),
    fires(
        "LeveretSlow",
        {"leveret_oldest_delivery_seconds{@}": "0x8 387x4 0x8 567x4 0x8 747x4 0x8"},
        "8m",
        "5 % of the webhooks delivered in the last 10 minutes, or one that is not delivered yet, took 567 s "
        "since the event.",
        note="for a delivery that is late at every retry",
    ),
    fires(
        "LeveretUnusualRetries",
        {
            'leveret_retries_by_kind_total{@,kind="tls"}': "0x72 0+200x10",
            'leveret_retries_by_kind_total{@,kind="http_5xx"}': "0+200x90",
            'leveret_attempts_total{@,kind="ok"}': "0+1000x90",
        },
        "375m",
        "400 retries after tls within 10 minutes: more than 5 times the rate of the 6 hours before.",
        labels={"kind": "tls"},
        long=True,
    ),
    silent(
        "LeveretUnusualRetries",
        {
            'leveret_retries_by_kind_total{@,kind="tls"}': "0x72 0+20x10",
            'leveret_retries_by_kind_total{@,kind="http_5xx"}': "0+200x72 14400+800x10",
            'leveret_attempts_total{@,kind="ok"}': "0+1000x90",
        },
        "375m",
        long=True,
    ),
    silent(
        "LeveretUnusualRetries",
        {
            'leveret_retries_by_kind_total{@,kind="http_5xx"}': "0x72 0+200x10",
            'leveret_attempts_total{@,kind="ok"}': "0+8000x90",
        },
        "375m",
        note="for one flapping endpoint among many",
        long=True,
    ),
)

OBJECTIVE: Final[tuple[Case, ...]] = (
    fires(
        "LeveretSloFastBurn",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+80x60",
            'leveret_deliveries_total{@,verdict="delivered"}': "0+90x60",
            'leveret_deliveries_total{@,verdict="parked"}': "0+10x60",
        },
        "12m",
        "20% of the deliveries of the last hour came later than 5 min or were parked. At this rate a month's "
        "error budget ends within about two days.",
    ),
    silent(
        "LeveretSloFastBurn",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+50x40 2099+99x40",
            'leveret_deliveries_total{@,verdict="delivered"}': "0+90x40 3699+99x40",
            'leveret_deliveries_total{@,verdict="parked"}': "0+10x40 401+1x40",
        },
        "17m",
        note="when the trouble is over",
    ),
    silent(
        "LeveretSloFastBurn",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+0x60",
            'leveret_deliveries_total{@,verdict="parked"}': "0+0.05x60",
        },
        "12m",
        note="when there are few deliveries",
    ),
    fires(
        "LeveretSloSlowBurn",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+92x90",
            'leveret_deliveries_total{@,verdict="delivered"}': "0+97x90",
            'leveret_deliveries_total{@,verdict="parked"}': "0+3x90",
        },
        "400m",
        "8% of the deliveries of the last 6 hours came later than 5 min or were parked. At this rate a "
        "month's error budget ends within five days.",
        long=True,
    ),
    silent(
        "LeveretSloSlowBurn",
        {
            f'{BUCKET}{{@,le="300.0"}}': "0+95x90",
            'leveret_deliveries_total{@,verdict="delivered"}': "0+98x90",
            'leveret_deliveries_total{@,verdict="parked"}': "0+2x90",
        },
        "400m",
        long=True,
    ),
)

PARKED: Final[tuple[Case, ...]] = (
    fires(
        "LeveretParkedMany",
        {'leveret_queue_messages{@,queue="parked"}': "100 101x30"},
        "5m",
        "101 entries wait for an operator.",
    ),
    silent(
        "LeveretParkedMany",
        {
            'leveret_queue_messages{@,queue="parked"}': "100x40",
            'leveret_queue_messages{@,queue="wait"}': "5000x40",
        },
        "5m",
    ),
    fires(
        "LeveretParkedShare",
        {
            'leveret_deliveries_total{@,verdict="delivered"}': "0+97x100",
            'leveret_deliveries_total{@,verdict="parked"}': "0+3x100",
        },
        "20m",
        "3% of the deliveries that ended in the last 10 minutes were parked.",
    ),
    silent(
        "LeveretParkedShare",
        {
            'leveret_deliveries_total{@,verdict="delivered"}': "0+98x100",
            'leveret_deliveries_total{@,verdict="parked"}': "0+2x100",
            'leveret_deliveries_total{@,verdict="cancelled"}': "0+50x100",
        },
        "20m",
    ),
    silent(
        "LeveretParkedShare",
        {
            'leveret_deliveries_total{@,verdict="delivered"}': "0+2x100",
            'leveret_deliveries_total{@,verdict="parked"}': "0x20 3x80",
        },
        *("12m", "14m"),
        note="when there are few deliveries",
    ),
    fires(
        "LeveretParkedFull",
        {'leveret_queue_messages{@,queue="overflow"}': "0 7x70"},
        "15m",
        "7 messages are in overflow. Nothing is lost; they move to parked as soon as there is room.",
    ),
    silent(
        "LeveretParkedFull",
        {
            'leveret_queue_messages{@,queue="overflow"}': "0 7x70",
            'leveret_queue_messages{@,queue="parked"}': "10000x70",
        },
        "10m",
    ),
)

EVENTS: Final[tuple[Case, ...]] = (
    fires(
        "LeveretLanesGrow",
        {'leveret_queue_messages{@,queue="lane"}': "0+50x100"},
        "20m",
        "4000 fresh messages are in the lanes, and their number has grown for 10 minutes.",
    ),
    silent(
        "LeveretLanesGrow",
        {'leveret_queue_messages{@,queue="lane"}': "0+500x20 10000-100x80"},
        *("6m", "20m"),
        note="while a burst is worked off",
    ),
    fires(
        "LeveretUnmatchedShare",
        {
            'leveret_events_total{@,outcome="matched"}': "0+40x100",
            'leveret_events_total{@,outcome="unmatched"}': "0+60x100",
            'leveret_events_total{@,outcome="bad"}': "0+60x100",
        },
        "22m",
        "60% of the events of the last 15 minutes went to nobody.",
    ),
    silent(
        "LeveretUnmatchedShare",
        {
            'leveret_events_total{@,outcome="matched"}': "0+60x100",
            'leveret_events_total{@,outcome="unmatched"}': "0+40x100",
        },
        "22m",
    ),
    fires(
        "LeveretBalanceBroken",
        {
            "leveret_targets_owed_total{@}": "0+100x80",
            'leveret_targets_ended_total{@,verdict="delivered"}': "0+90x20 1875+90x60",
            'leveret_targets_ended_total{@,verdict="parked"}': "0+5x80",
            "leveret_targets_waiting{@}": "0+5x80",
            "leveret_targets_in_flight{@}": "0x80",
            'leveret_targets_interrupted_total{@,source="lane"}': "0x20 12x60",
            'leveret_targets_interrupted_total{@,source="waiting"}': "0x20 9x60",
        },
        "18m",
        "By the books of w1:8080 3 deliveries of the last hour have neither ended nor wait, nor are they in "
        "flight.",
        of=Of.ONE_WORKER,
    ),
    silent(
        "LeveretBalanceBroken",
        {
            "leveret_targets_owed_total{@}": "0+100x40 _x4 4400+100x40",
            'leveret_targets_ended_total{@,verdict="delivered"}': "0+110x40 _x4 4840+110x40",
            "leveret_targets_waiting{@}": "0-10x40 _x4 -440-10x40",
            "leveret_targets_in_flight{@}": "0x40 _x4 0x40",
        },
        *("10m", "20m"),
        note="when a worker restarts, and while it takes what another one stored",
    ),
    silent(
        "LeveretBalanceBroken",
        {
            "leveret_targets_owed_total{@}": "0+100x30",
            'leveret_targets_ended_total{@,verdict="delivered"}': "0x2 297+100x30",
            "leveret_targets_waiting{@}": "0+0x30",
            "leveret_targets_in_flight{@}": "0+100x2 0x30",
        },
        "140m",
        note="long after a loss",
        long=True,
    ),
)

DELIVERIES: Final = (*REQUESTS, *OBJECTIVE, *PARKED, *EVENTS)
