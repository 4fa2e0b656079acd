"""Rates and counts from two pages of metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.tools.daemon_status import MetricsPage, Sample, status


def look(at_s: float, **values: float) -> MetricsPage:
    """Return a page; ``name__label=value`` has one label."""
    labels = {
        "events": "outcome",
        "deliveries": "verdict",
        "attempts": "kind",
        "queue_messages": "queue",
        "breakers": "state",
        "subscriptions": "enabled",
        "window_messages": "source",
    }
    samples = []
    for key, value in values.items():
        name, _, label = key.partition("__")
        full = f"leveret_{name}" + ("_total" if name in ("events", "deliveries", "attempts") else "")
        samples.append(Sample(full, {labels[name]: label} if name in labels else {}, value))
    return MetricsPage(at_s, tuple(samples))


def test_rates_are_over_the_time_between() -> None:
    """Rates cover the time between the two pages; counts come from the second."""
    before = look(
        10.0,
        events__matched=5,
        events__unmatched=1,
        deliveries__delivered=10,
        attempts__ok=10,
        attempts__reset=0,
    )
    after = look(
        12.0,
        events__matched=15,
        events__bad=1,
        events__unmatched=2,
        deliveries__delivered=28,
        deliveries__parked=2,
        attempts__ok=28,
        attempts__reset=2,
        requests_in_flight=4,
        queue_messages__wait=7,
        queue_messages__due=1,
        queue_messages__parked=3,
        breakers__open=1,
        breakers__closed=5,
        subscriptions__true=6,
        subscriptions__false=2,
        window_messages__lane=9,
    )

    now = status(before, after)

    assert (now.unmatched_per_s, now.unmatched) == (0.5, 2)
    assert (now.interval_s, now.events_per_s, now.deliveries_per_s, now.attempts_per_s) == (
        2.0,
        6.0,
        10.0,
        10.0,
    )
    assert now.success_ratio == 0.9
    assert (now.in_flight, now.parked, now.subscriptions, now.subscriptions_disabled) == (4, 3, 6, 2)
    assert now.waiting == {"wait": 7, "due": 1}
    assert now.breakers == {"open": 1, "closed": 5}
    assert now.windows == {"lane": 9}


def test_the_worst_subscription_comes_first() -> None:
    """Those that recovered are left out; the names are those of the label."""
    shares = {("acme/shop", "dns"): 0.5, ("beta/x", "tls"): 1.0, ("acme/well", "slow"): 0.0}
    samples = tuple(
        Sample("leveret_subscription_trouble", {"subscription": name, "cause": cause}, share)
        for (name, cause), share in shares.items()
    )

    now = status(look(0), MetricsPage(1.0, samples))

    assert now.troubles == [("beta/x", "tls", 1.0), ("acme/shop", "dns", 0.5)]


def test_a_quiet_daemon_has_no_success_ratio() -> None:
    """Without attempts the success ratio is None instead of 0."""
    assert status(look(0, attempts__ok=5), look(1, attempts__ok=5)).success_ratio is None
    assert status(look(0), look(1)).events_per_s == 0


def test_a_restart_between_the_looks_is_no_negative_rate() -> None:
    """A counter that restarted counts from 0."""
    now = status(look(0, events__matched=1000, attempts__ok=9), look(1, events__matched=3, attempts__ok=2))

    assert (now.events_per_s, now.success_ratio) == (3.0, 1.0)


def test_time_must_pass() -> None:
    """A second page that is not later raises ValueError."""
    with pytest.raises(ValueError, match="must be later"):
        status(look(1), look(1))


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0.01, 100))
def test_rates_are_never_negative(before: float, after: float, seconds: float) -> None:
    """No history of the counters gives a negative rate."""
    now = status(look(0, events__matched=before), look(seconds, events__matched=after))

    assert now.events_per_s >= 0
