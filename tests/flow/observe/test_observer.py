"""Log lines and metrics: one wide line per attempt, labels from closed sets, no bodies, no secrets."""

from __future__ import annotations

import inspect
import re
from itertools import product
from math import inf, isnan
from typing import Any

import pytest

from consumer.core.endpoint.admission import Hold
from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.message.parked import delivery_id
from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Outcome,
    OutcomeKind,
    ParkReason,
    Retry,
)
from consumer.flow.observe.observer import Attempted, Holdings
from metrics.series import Series
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START
from tests.support.flow.observer import SECRET_BODY, VERDICTS, ObserverDesk
from tests.support.worker import event


@pytest.mark.parametrize("name", VERDICTS)
def test_an_attempt_is_one_wide_line(name: str) -> None:
    """Ids, attempt of how many, kind, status, duration and verdict; a failure its reason and wait (S1-17)."""
    desk = ObserverDesk()

    line = desk.attempted(
        VERDICTS[name], number=2, kind=OutcomeKind.OK if name == "delivered" else OutcomeKind.HTTP_5XX
    )

    assert len(desk.log.lines) == 1
    expected: dict[str, object] = {
        "event_id": "ord-1",
        "subscription_id": "sub_1",
        "subscription": "acme/shop",
        "tenant": "acme",
        "type": "order.created",
        "attempt": 2,
        "max_attempts": 5,
        "kind": "ok" if name == "delivered" else "http_5xx",
        "status": 200 if name == "delivered" else 503,
        "duration_s": 0.25,
        "verdict": name,
    }
    if name != "delivered":
        expected |= {
            "delivery_id": delivery_id("ord-1", "sub_1"),
            "retryable": name == "retry",
            "wait_s": 1.5 if name == "retry" else 0.0,
            "error": "it said no",
        }
    else:
        expected |= {"total_s": 0.25, "delays_s": []}
    assert line == expected
    assert desk.log.lines[0][0] == ("info" if name == "delivered" else "warning")


@pytest.mark.parametrize(("name", "number"), list(product(VERDICTS, (1, 2, 9, 10, 500))))
def test_an_attempt_is_counted_by_number_and_result(name: str, number: int) -> None:
    """Attempts, durations, retries and waits; numbers from 10 on share a label (S1-10)."""
    desk = ObserverDesk()
    label = str(number) if number < 10 else "10+"
    result = "delivered" if name == "delivered" else "failed"

    desk.attempted(VERDICTS[name], number=number)

    assert desk.count("attempts_total", kind="http_5xx") == 1
    assert desk.count("attempts_by_number_total", attempt=label, result=result) == 1
    assert desk.count("attempt_duration_seconds_count", verdict=name) == 1
    assert (desk.count("deliveries_total", verdict="delivered") or 0) == (name == "delivered")
    assert (desk.count("retries_total", attempt=label) or 0) == (name == "retry")
    assert desk.count("retry_wait_seconds_count") == (name == "retry")


def test_every_kind_has_its_series_from_the_start() -> None:
    """A rate over a series that is not there yet misses its first failure."""
    desk = ObserverDesk()

    assert all(desk.count("attempts_total", kind=kind.value) == 0 for kind in OutcomeKind)
    assert all(desk.count("parked_total", reason=reason.value) == 0 for reason in ParkReason)
    for number in (*map(str, range(1, 10)), "10+"):
        assert desk.count("attempts_by_number_total", attempt=number, result="delivered") == 0
        assert desk.count("retries_total", attempt=number) == 0


def test_the_values_that_are_documented_are_those_that_begin_at_zero() -> None:
    """Each closed set that metrics/series.py names is there from the start, and no value beside it."""
    desk = ObserverDesk()
    noted = re.findall(
        r"# (\w+): ([\w |]+\|[\w |]+)\n(?:\s+text = .+\n)?\s+self\.\w+ = self\._(\w+)\(\s*\"(\w+)\"",
        inspect.getsource(Series),
    )
    counters = [(label, values, name) for label, values, kind, name in noted if kind == "counter"]
    assert len(counters) >= 7
    for label, values, name in counters:
        for value in values.split(" | "):
            labels = {label: value}
            if name not in ("attempts_by_number", "subscription_attempts"):  # they have a further label
                assert desk.count(f"{name}_total", **labels) == 0, (name, value)


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (Unroutable("gone"), "unroutable"),
        (Refused("full"), "refused"),
        (BrokerUnavailable("lost"), "unavailable"),
    ],
)
def test_a_failed_publish_is_counted_by_its_kind(error: Exception, label: str) -> None:
    """Reported with its reason and the wait until the next try (faults 64, 65)."""
    desk = ObserverDesk()

    desk.observe.publish_failed(error, "1000.leveret.due.00", 0.2)

    assert desk.count("publish_failures_total", error=label) == 1
    [line] = desk.log.events("publish.failed")
    assert line == {
        "error": label,
        "detail": str(error),
        "routing_key": "1000.leveret.due.00",
        "wait_s": 0.2,
    }


def test_parked_deliveries_and_bad_events_are_distinguished() -> None:
    """A delivery that ends counts as such; a raw message counts as a bad event."""
    desk = ObserverDesk()

    last = Attempt(number=5, at=START, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.25)
    desk.observe.tenants_known(["acme"])
    ids: dict[str, Any] = {"subscription_id": "sub_1", "tenant": "acme"}
    desk.observe.parked(ParkReason.EXHAUSTED, "HTTP 503", last=last, **ids)
    desk.observe.parked(ParkReason.EXPIRED, "too old", **ids)
    desk.observe.parked(ParkReason.MALFORMED, "no JSON", queue="leveret.lane.00", size_bytes=3)

    assert desk.count("deliveries_total", verdict="parked") == 2
    assert desk.count("events_total", outcome="bad") == 1
    assert desk.count("parked_total", reason="exhausted") == 1
    assert desk.count("parked_total", reason="malformed") == 1
    assert desk.count("parked_by_code_total", code="503") == 1
    assert desk.count("parked_by_code_total", code="none") == 1
    assert desk.count("tenant_parked_total", tenant="acme") == 2
    assert [f.get("last_failure_code") for f in desk.log.events("delivery.parked")] == ["503", "none", None]


def test_entries_that_leave_parked_are_counted_with_their_age() -> None:
    """S1-10: replayed or archived, by its time in the queue; an unknown tenant is other."""
    desk = ObserverDesk()
    desk.observe.tenants_known(["acme"])

    desk.observe.replayed("acme", 700.0)
    desk.observe.replayed("nobody", None)
    desk.observe.entry_expired({"id": "prk_1"}, 604_800.0)

    assert desk.count("tenant_replayed_total", tenant="acme") == 1
    assert desk.count("tenant_replayed_total", tenant="other") == 1
    assert desk.count("parked_age_seconds_bucket", way="replayed", le="3600.0") == 1
    assert desk.count("parked_age_seconds_sum", way="archived") == 604_800


def test_held_deliveries_of_a_worker_are_shown() -> None:
    """S1-6: gauges follow the last look; lines of the log that were dropped are counted elsewhere."""
    desk = ObserverDesk()
    held = Holdings(
        requests=3,
        held_bytes=700,
        by_source={"lane": 5},
        bytes_by_source={"lane": 600},
        lag_s=0.5,
        log_dropped=4,
        ready=True,
    )

    desk.observe.holds(held)
    desk.observe.holds(held._replace(requests=1, log_dropped=6, ready=False))

    assert [desk.count(name) for name in ("requests_in_flight", "held_bytes", "loop_lag_seconds")] == [
        1,
        700,
        0.5,
    ]
    assert desk.count("window_messages", source="lane") == 5
    assert desk.count("window_bytes", source="lane") == 600
    assert desk.count("log_lines_dropped_total") == 6
    assert desk.count("ready") == 0


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (OutcomeKind.HTTP_5XX, 503, "503"),
        (OutcomeKind.HTTP_4XX, 499, "4xx"),
        (OutcomeKind.HTTP_3XX, 399, "3xx"),
        (OutcomeKind.TIMEOUT_TOTAL, None, "timeout_total"),
        (OutcomeKind.PROTOCOL, 200, "protocol"),
    ],
)
def test_failures_are_counted_by_code(kind: OutcomeKind, status: int | None, code: str) -> None:
    """S2-3, S2-7: the distribution of error codes; only known statuses are label values."""
    desk = ObserverDesk()
    outcome = Outcome(kind=kind, status=status, duration_s=0.25)
    attempt = Attempt(number=1, at=START, kind=kind, status=status, duration_s=0.25)

    desk.observe.attempted(Attempted(event(), subscription(), attempt, outcome, Retry(1.0)))

    assert desk.count("failures_total", code=code) == 1


def test_the_time_between_attempts_is_measured() -> None:
    """S2-3: from the end of the one to the start of the next; a first attempt has none before it."""
    desk = ObserverDesk()
    outcome = Outcome(kind=OutcomeKind.OK, status=200, duration_s=0.25)
    first = Attempt(number=1, at=START, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.5)
    second = Attempt(number=2, at=START + 2.5, kind=OutcomeKind.OK, status=200, duration_s=0.25)
    desk.observe.attempted(Attempted(event(), subscription(), first, outcome, Retry(2.0)))

    desk.observe.attempted(Attempted(event(), subscription(), second, outcome, Delivered(), [first]))

    assert desk.count("attempt_gap_seconds_count") == 1
    assert desk.count("attempt_gap_seconds_sum") == 2.0
    line = desk.log.events("delivery.attempted")[-1]
    assert (line["delays_s"], line["attempt"]) == ([2.0], 2)


def test_the_start_of_a_delivery_names_its_strategy() -> None:
    """S0-9: a line at the start of a chain of attempts, with the policy and the most attempts."""
    desk = ObserverDesk()

    desk.observe.started(event(), subscription())

    [(level, _, line)] = desk.log.lines
    assert level == "debug"
    assert (line["strategy"], line["max_attempts"]) == ("default", 5)


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        (OutcomeKind.HTTP_5XX, 503, "HTTP 503: the server failed or is overloaded"),
        (OutcomeKind.HTTP_4XX, 429, "HTTP 429: throttled: the endpoint's pace slows, its health is fine"),
        (OutcomeKind.REFUSED, None, "the connection was refused"),
    ],
)
def test_every_failure_has_a_reason_in_words(kind: OutcomeKind, status: int | None, error: str) -> None:
    """S1-17: errorReason is there for statuses too; S2-7: retries are counted by kind of error."""
    desk = ObserverDesk()
    outcome = Outcome(kind=kind, status=status, duration_s=0.25)
    attempt = Attempt(number=1, at=START, kind=kind, status=status, duration_s=0.25)

    desk.observe.attempted(Attempted(event(), subscription(), attempt, outcome, Retry(1.0)))

    assert desk.log.events("delivery.attempted")[-1]["error"] == error
    assert desk.count("retries_by_kind_total", kind=kind.value) == 1


def test_a_stuck_delivery_is_seen_before_it_is_delivered() -> None:
    """S2-4: over 5 minutes in flight, or failing again and again, shows; later it is gone."""
    desk = ObserverDesk()
    outcome = Outcome(kind=OutcomeKind.HTTP_5XX, status=503, duration_s=1.0)
    attempt = Attempt(number=1, at=START, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=1.0)

    def shown(in_flight_at: float, now: float) -> float | None:
        desk.observe.owed(in_flight_at, now)
        return desk.count("oldest_delivery_seconds")

    assert shown(inf, START) == 0
    assert shown(START - 301, START) == 301
    desk.observe.attempted(Attempted(event(), subscription(), attempt, outcome, Retry(1.0)))
    assert shown(inf, event().arrived_at + 400) == 400
    ages = [shown(inf, event().arrived_at + 400 + s) for s in range(1, 90)]
    assert ages[30] == 431
    assert ages[-1] == 0
    desk.observe.deferred(event(), subscription(), Hold(Defer(START + 60), "paused", by_hand=True))
    desk.observe.deferred(event(), subscription(), Hold(Defer(START + 60), "paced"), START + 600)
    assert shown(inf, event().arrived_at + 600) == 0
    desk.observe.deferred(event(), subscription(), Hold(Defer(START + 60), "paced"))
    assert shown(inf, event().arrived_at + 600) == 600


def test_a_delivery_is_timed_from_the_events_arrival() -> None:
    """S2-4: processing time is that of the delivery, waits and all; failed deliveries are not in it."""
    desk = ObserverDesk()
    outcome = Outcome(kind=OutcomeKind.OK, status=200, duration_s=1.0)
    for at, verdict in ((START, Retry(1.0)), (START + 400, Delivered())):
        attempt = Attempt(number=1, at=at, kind=OutcomeKind.OK, status=200, duration_s=1.0)
        desk.observe.attempted(Attempted(event(), subscription(), attempt, outcome, verdict))

    assert desk.count("delivery_seconds_count") == 1
    assert desk.count("delivery_seconds_sum") == 401
    assert desk.count("delivery_seconds_bucket", le="300.0") == 0


def test_sizes_that_cannot_be_read_are_not_shown() -> None:
    """No figure is better than an old one."""
    desk = ObserverDesk()
    desk.observe.queues_sized({"parked": 3, "wait": 0}, START)
    assert desk.count("queue_messages", queue="parked") == 3

    desk.observe.queues_sized({}, START + 10)

    assert desk.count("queue_messages", queue="parked") is None


def test_no_parked_entry_is_older_than_the_last_time_without_any() -> None:
    """S1-10: the age of parked entries has a bound; a failed look changes no gauge."""
    desk = ObserverDesk()
    seen = []
    for at, totals in enumerate(({"parked": 0}, {"parked": 0}, {"parked": 3}, {})):
        desk.observe.queues_sized(totals, START + at)
        seen.append(desk.count("parked_empty_timestamp_seconds"))

    assert seen == [START, START + 1, START + 1, START + 1]


def test_pressure_is_a_gauge_and_a_line() -> None:
    """When it began, why, and when it ended (fault 63); a daemon begins pressed, not being connected."""
    desk = ObserverDesk()
    assert desk.count("pressed") == 1

    desk.observe.pressed(None)
    between = desk.count("pressed")
    desk.observe.pressed("blocked")

    assert (between, desk.count("pressed")) == (0, 1)
    assert [event for _, event, _ in desk.log.lines] == ["pressure.ended", "pressure.began"]


def test_event_names_are_static_and_no_line_holds_a_body() -> None:
    """``noun.verbed`` everywhere; the body of an event or a response is never logged."""
    desk = ObserverDesk()
    shop, order = subscription(), event(body=SECRET_BODY)
    for verdict in VERDICTS.values():
        desk.attempted(verdict)
    desk.observe.unmatched.event(order, 0.0)
    desk.observe.event_readdressed("ord-1", "leveret.inbox.erp")
    desk.observe.message_suspected("leveret.lane.00", 5)
    desk.observe.cancelled(order, "sub_1", "subscription deleted")
    desk.observe.breaker_changed(shop, "closed", "open", START)
    desk.observe.endpoint_disabled(shop, "HTTP 410")
    desk.observe.entry_expired({"id": "prk_1", "reason": "exhausted", "body_base64": "eA=="}, 9.0)
    desk.observe.broker_unreachable("publish", "refused", 0.5, suppressed=0)
    desk.observe.reloaded(1, 0, 0)
    desk.observe.reload_failed(OSError("no"))
    desk.observe.task_failed("job", RuntimeError("a bug"))

    for _, name, fields in desk.log.lines:
        noun, _, verbed = name.partition(".")
        assert noun.isalpha()
        assert verbed.replace("_", "").isalpha()
        assert "4111" not in repr(fields)
        assert "body" not in repr(sorted(fields))
        assert repr(shop.keys[0]) not in repr(fields)


def test_the_soonest_end_of_a_replaced_secret_is_shown() -> None:
    """It gives way to the next one when its time is over, and to 0 after the last."""
    desk = ObserverDesk()
    desk.observe.secrets_end([int(START) + 90, int(START) + 30])

    shown = []
    for passed_s in (0, 29, 30, 90):
        desk.observe.secrets_checked(START + passed_s)
        shown.append(desk.count("secret_expiry_timestamp_seconds"))

    assert shown == [START + 30, START + 30, START + 90, 0]


def test_our_own_certificates_have_an_end() -> None:
    """A file that cannot be read is a warning, and has no series."""
    desk = ObserverDesk()

    desk.observe.certificates_read({"api": START}, {"broker_client": "no such file"})

    assert desk.count("certificate_expiry_timestamp_seconds", certificate="api") == START
    assert desk.count("certificate_expiry_timestamp_seconds", certificate="broker_client") is None
    assert desk.log.events("certificate.unreadable")[0]["certificate"] == "broker_client"


def test_parked_entries_are_unknown_before_the_first_look() -> None:
    """NaN until then; 0 as a time means that there is no entry."""
    desk = ObserverDesk()
    assert isnan(desk.count("parked_entries") or 0)

    desk.observe.parked_counted(0, None)

    assert desk.count("parked_entries") == desk.count("oldest_parked_timestamp_seconds") == 0
    desk.observe.parked_counted(2, START)
    assert desk.count("oldest_parked_timestamp_seconds") == START
