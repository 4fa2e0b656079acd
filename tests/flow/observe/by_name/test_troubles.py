"""The series of the subscriptions in most trouble: named, bounded, and complete with the rest."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from consumer.core.endpoint.admission import Hold
from consumer.core.endpoint.most_troubled import KEPT_S
from consumer.core.endpoint.trouble import SLICE_S
from consumer.core.endpoint.trouble_book import TRACKED_MAX, EndpointNow
from consumer.core.model import Attempt, Defer, Delivered, Outcome, OutcomeKind, Retry
from consumer.flow.observe.observer import Attempted, Observer
from metrics.series import OTHER, Series
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START, RecordingLog
from tests.support.worker import event


class Desk:
    """An observer, and the endpoints of a worker as the test counts them."""

    def __init__(self, places: int = 2) -> None:
        self.series = Series(CollectorRegistry())
        self.observe = Observer(self.series, RecordingLog(), places)
        self.troubles = self.observe.troubles
        self.now = START
        self.known: dict[str, EndpointNow] = {}
        self.set_aside: set[str] = set()
        self.look()

    def count(self, name: str, **labels: str) -> float | None:
        """Read a metric of subscriptions."""
        return self.series.registry.get_sample_value(f"leveret_subscription_{name}", labels)

    def attempts(self, label: str) -> tuple[float | None, float | None]:
        """Read how many attempts were delivered and failed."""
        delivered, failed = (
            self.count("attempts_total", subscription=label, result=result)
            for result in ("delivered", "failed")
        )
        return delivered, failed

    def trouble(self) -> dict[str, tuple[str, float]]:
        """Read cause and share by label."""
        [family] = self.series.subscription_trouble.collect()
        return {s.labels["subscription"]: (s.labels["cause"], s.value) for s in family.samples}

    def attempt(
        self, name: str, kind: OutcomeKind = OutcomeKind.OK, times: int = 1, wait_s: float = 30.0
    ) -> None:
        """End attempts of a subscription with the id *name*."""
        known = self.known.get(name) or EndpointNow("acme", name)
        ok = kind is OutcomeKind.OK
        self.known[name] = known._replace(
            successes=known.successes + times * ok, failures=known.failures + times * (not ok)
        )
        outcome = Outcome(kind=kind, status=200 if ok else None, duration_s=0.1)
        verdict: Any = Delivered() if ok else Retry(wait_s)
        done = Attempt(number=1, at=self.now - 0.1, kind=kind, status=outcome.status, duration_s=0.1)
        for _ in range(times):
            one = Attempted(event(), subscription(id=name, name=name), done, outcome, verdict)
            self.observe.attempted(one)

    def look(self, passed_s: float = 0.0) -> None:
        """Bring the series up to date, *passed_s* later."""
        self.now += passed_s
        self.troubles.look(
            {each: self.known[each] for each in self.troubles.wanted(self.now) if each in self.known},
            self.now,
            self.set_aside.__contains__,
        )

    def choose(self) -> None:
        """Let newcomers begin, and then the next choice come."""
        self.look(1.0)
        self.look(SLICE_S)


def test_a_failing_subscription_is_named_with_its_cause() -> None:
    """The next choice names it; its counters begin at 0, and all labels together count every attempt."""
    desk = Desk()
    desk.attempt("well", times=90)
    desk.attempt("shop", OutcomeKind.DNS, times=10)
    desk.choose()

    assert desk.trouble() == {"acme/shop": ("dns", 1.0)}
    assert desk.attempts("acme/shop") == (0, 0)
    assert desk.attempts(OTHER) == (90, 10)
    desk.attempt("shop", OutcomeKind.DNS, times=3)
    desk.attempt("shop")
    desk.attempt("well", times=5)
    desk.look(1.0)

    assert desk.attempts("acme/shop") == (1, 3)
    assert desk.attempts(OTHER) == (95, 10)
    assert desk.count("waiting_deliveries", subscription="acme/shop") == 13
    assert desk.count("waiting_deliveries", subscription=OTHER) == 0
    assert desk.series.registry.get_sample_value("leveret_subscriptions_in_trouble") == 1


def test_one_that_recovered_shows_0_for_some_minutes_and_leaves() -> None:
    """Graphs and alerts end with a value; a further trouble begins its counters at 0."""
    desk = Desk()
    desk.attempt("shop", OutcomeKind.TLS, wait_s=1.0)
    desk.choose()
    desk.look(60.0)
    for _ in range(4):
        desk.look(SLICE_S)
    assert desk.trouble() == {"acme/shop": ("tls", 0.0)}

    for _ in range(int(KEPT_S / SLICE_S) - 5):
        desk.look(SLICE_S)
    assert desk.trouble() == {"acme/shop": ("tls", 0.0)}
    for _ in range(6):
        desk.look(SLICE_S)
    assert desk.trouble() == {}
    assert desk.attempts("acme/shop") == (None, None)

    desk.attempt("shop", OutcomeKind.DNS)
    desk.choose()
    assert desk.trouble() == {"acme/shop": ("dns", 1.0)}
    assert desk.attempts("acme/shop") == (0, 0)


def test_the_cause_changes_with_the_failures() -> None:
    """One series of trouble for each subscription, whatever its causes were."""
    desk = Desk()
    desk.attempt("shop", OutcomeKind.DNS)
    desk.choose()
    desk.attempt("shop", OutcomeKind.REFUSED, times=9)
    desk.look(SLICE_S)

    assert desk.trouble() == {"acme/shop": ("refused", 1.0)}


def test_fifty_thousand_endpoints_that_fail_add_no_series() -> None:
    """Fault 78: the places are bounded, and so is the memory of the book."""
    desk = Desk(places=20)
    for number in range(50_000):
        name = f"s{number}"
        desk.known[name] = EndpointNow(f"t{number % 30_000}", name, failures=1)
        desk.troubles.failed(name, Outcome(OutcomeKind.DNS, 0.1))
        desk.observe.deferred(event(), subscription(id=name), Hold(Defer(START + 60), "breaker"))
    desk.choose()

    samples = [s for f in desk.series.registry.collect() for s in f.samples if "subscription" in s.labels]
    assert len(samples) == 21 * 6 + 20
    assert len(desk.troubles.wanted(desk.now + SLICE_S)) <= TRACKED_MAX
    assert desk.count("waiting_deliveries", subscription=OTHER) is not None


def test_parked_entries_and_disabled_subscriptions_are_trouble() -> None:
    """They need no attempt; the number of disabled ones is shown, and ``other`` has the most of any other."""
    desk = Desk(places=2)
    desk.known |= {name: EndpointNow("acme", name) for name in ("off", "full", "some")}
    desk.troubles.book.parked({"full": 80, "some": 2})
    desk.troubles.book.disabled(["off"])
    desk.look(SLICE_S)

    assert desk.trouble() == {"acme/off": ("disabled", 1.0), "acme/full": ("parked", 1.0)}
    desk.look(1.0)
    assert desk.count("parked_entries", subscription="acme/full") == 80
    assert desk.count("parked_entries", subscription=OTHER) == 2
    assert desk.series.registry.get_sample_value("leveret_subscriptions_disabled") == 1
    desk.observe.endpoint_disabled(subscription(id="some"), "HTTP 410")
    desk.troubles.book.disabled(["some"])
    desk.look(1.0)
    assert desk.series.registry.get_sample_value("leveret_subscriptions_disabled") == 1


def test_one_that_an_operator_disabled_is_in_no_trouble() -> None:
    """Its breaker stays open, as nothing is sent any more, and deliveries wait to be parked."""
    desk = Desk()
    desk.attempt("shop", OutcomeKind.RESET, times=5, wait_s=600.0)
    desk.known["shop"] = desk.known["shop"]._replace(state="open")
    desk.choose()
    assert desk.trouble() == {"acme/shop": ("reset", 1.0)}

    desk.known["shop"] = desk.known["shop"]._replace(is_enabled=False)
    desk.look(SLICE_S)
    assert desk.trouble() == {"acme/shop": ("reset", 0.0)}

    desk.troubles.book.parked({"shop": 5})
    desk.look(SLICE_S)
    assert desk.trouble() == {"acme/shop": ("parked", 1.0)}


def test_a_breaker_shows_its_state_and_frees_what_waited() -> None:
    """Fault 55: since when the oldest one is open, how many others are, and how many deliveries wait.

    The one that opened first need not be the first that this worker met.
    """
    desk, shop, other = Desk(), subscription(id="shop"), subscription(id="other")
    desk.attempt("shop", OutcomeKind.RESET, times=5, wait_s=600.0)
    desk.observe.endpoint_met(other, "open", START + 9)
    desk.observe.breaker_changed(shop, "closed", "open", START)
    desk.known["shop"] = desk.known["shop"]._replace(state="open", p95_s=2.5)
    desk.choose()
    desk.look(1.0)

    def oldest() -> float | None:
        return desk.series.registry.get_sample_value("leveret_breaker_oldest_open_timestamp_seconds")

    assert desk.count("breaker", subscription="acme/shop") == 2
    assert desk.count("latency_seconds", subscription="acme/shop") == 2.5
    assert desk.count("breaker", subscription=OTHER) == 1
    assert oldest() == START
    assert desk.series.registry.get_sample_value("leveret_oldest_waiting_timestamp_seconds") == START

    desk.observe.breaker_changed(shop, "open", "probing", START + 20)
    assert desk.troubles.ajar["shop"] == START
    desk.observe.breaker_changed(shop, "probing", "closed", START + 21)
    desk.known["shop"] = desk.known["shop"]._replace(state="closed")
    desk.look(SLICE_S)
    assert oldest() == START + 9
    desk.set_aside.add("other")
    desk.look(SLICE_S)
    assert oldest() == 0
    desk.set_aside.clear()
    desk.look(SLICE_S)
    assert oldest() == START + 9
    assert desk.count("breaker", subscription="acme/shop") == 0
    assert desk.count("waiting_deliveries", subscription="acme/shop") == 0
    assert desk.count("waiting_deliveries", subscription=OTHER) == 0
    desk.observe.endpoint_left(other, "open")
    desk.look(SLICE_S)
    assert oldest() == 0


def test_a_removed_subscription_leaves_at_once() -> None:
    """Its series end with it."""
    desk = Desk()
    desk.attempt("shop", OutcomeKind.DNS)
    desk.choose()
    del desk.known["shop"]
    desk.look(1.0)

    assert desk.trouble() == {}
    assert desk.attempts("acme/shop") == (None, None)
