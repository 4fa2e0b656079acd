"""The text of the metrics: valid, escaped, and of bounded size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as LibraryHistogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from consumer.core.endpoint.trouble_book import EndpointNow
from consumer.core.fairness.queue import Standing
from consumer.core.model import Outcome, OutcomeKind, ParkReason
from consumer.flow.observe.observer import Observer
from metrics.histogram import Histogram
from metrics.series import MAX_OTHERS, MAX_SUBSCRIPTIONS, MAX_TENANTS, Series, attempt_label, code_label
from metrics.server import exposition
from tests.support.fakes import RecordingLog

MOST_SERIES = 1_700  #: of one worker, see decision 46
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scraped(series: Series, accept: str = "text/plain") -> str:
    """Return the answer to a scrape."""
    return exposition(series.registry, accept)[1].decode()


def test_a_scrape_has_the_format_that_it_asks_for() -> None:
    """Prometheus' text by default, OpenMetrics on request."""
    series = Series(CollectorRegistry())

    assert exposition(series.registry, "")[0].startswith("text/plain")
    assert exposition(series.registry, OPENMETRICS)[0].startswith("application/openmetrics-text")
    assert scraped(series, OPENMETRICS).endswith("# EOF\n")


@settings(max_examples=60)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_tenant_is_escaped_in_a_label(tenants: list[str]) -> None:
    """Quotes, line breaks and backslashes survive in both formats (faults 8, 78)."""
    series = Series(CollectorRegistry())
    for tenant in tenants:
        series.tenant_jobs.labels(series.tenant_label(tenant)).inc()

    parse: Any  # the library's parsers are not typed
    for parse, accept in ((parse_text, "text/plain"), (parse_openmetrics, OPENMETRICS)):
        families = parse(scraped(series, accept))
        [family] = [f for f in families if f.name in ("leveret_tenant_jobs", "leveret_tenant_jobs_total")]
        found = {s.labels["tenant"] for s in family.samples if s.name == "leveret_tenant_jobs_total"}
        assert found == set(tenants)


def test_a_recorded_trace_is_the_exemplar_of_its_bucket() -> None:
    """Only the newest one of each bucket, and only in OpenMetrics: the text format has no exemplars."""
    series = Series(CollectorRegistry())
    child = series.attempt_duration.labels("delivered")
    for value, trace_id in ((0.02, "a" * 32), (0.021, "b" * 32), (0.3, None), (99.0, "c" * 32)):
        child.observe(value, trace_id)

    parse: Any = parse_openmetrics  # the library's parsers are not typed
    [family] = [
        f for f in parse(scraped(series, OPENMETRICS)) if f.name == "leveret_attempt_duration_seconds"
    ]
    found = {
        sample.labels["le"]: (sample.exemplar.labels["trace_id"], sample.exemplar.value)
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert found == {"0.025": ("b" * 32, 0.021), "+Inf": ("c" * 32, 99.0)}
    assert "trace_id" not in scraped(series)


def test_an_injected_line_stays_inside_its_label() -> None:
    """A tenant cannot forge a series (fault 78)."""
    series = Series(CollectorRegistry())
    series.tenant_jobs.labels('a"} 1\nleveret_pressed 99\n#').inc()

    assert "\nleveret_pressed 99" not in scraped(series)
    assert series.registry.get_sample_value("leveret_pressed") == 0


def test_names_and_help_follow_the_rules_of_promtool() -> None:
    """Only counters end in _total, units are base units, and every series has a help text."""
    series = Series(CollectorRegistry())

    for family in series.registry.collect():
        assert family.name.startswith("leveret_")
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        assert not any(unit in family.name for unit in ("_ms", "_milli", "_minutes", "_kb", "_mb"))
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


def test_the_number_of_series_is_bounded() -> None:
    """Even with 50,000 tenants the number of series stays bounded (fault 78)."""
    series = Series(CollectorRegistry())
    observe = Observer(series, RecordingLog())
    observe.tenants_known(f"t{number}" for number in range(50_000))
    observe.tenants_wait({f"x{number}": Standing(1, 1, 0) for number in range(50_000)}, 0.0)
    for reason in ParkReason:
        series.parked.labels(reason.value)
    for kind in OutcomeKind:
        series.attempts.labels(kind.value)
    for number in range(1, 1001):
        for result in ("delivered", "failed"):
            series.attempts_by_number.labels(attempt_label(number), result)
        series.retries.labels(attempt_label(number))
    for status in range(100, 600):
        for kind in OutcomeKind:
            series.failures.labels(code_label(kind.value, status))
            series.parked_by_code.labels(code_label(kind.value, status))
    for way in ("replayed", "archived", "purged"):
        series.parked_age.labels(way)

    observe.troubles.look({}, 0.0, frozenset().__contains__)
    observe.began("1.0", "3.11")
    for number in range(50_000):
        observe.troubles.failed(f"s{number}", Outcome(OutcomeKind.DNS, 0.1))
    for now in (1.0, 20.0):
        wanted = observe.troubles.wanted(now)
        observe.troubles.look(
            {each: EndpointNow(f"t{each}", each) for each in wanted}, now, frozenset().__contains__
        )

    samples = sum(len(family.samples) for family in series.registry.collect())

    assert len(series.subscription_trouble._metrics) == MAX_SUBSCRIPTIONS
    assert samples < MOST_SERIES


@pytest.mark.parametrize(("number", "label"), [(1, "1"), (9, "9"), (10, "10+"), (11, "10+"), (1000, "10+")])
def test_attempts_from_ten_on_share_a_label(number: int, label: str) -> None:
    """Attempts from 10 on share a label, so that the set is closed."""
    assert attempt_label(number) == label


def test_the_first_hundred_tenants_keep_their_label() -> None:
    """The first hundred tenants keep their label while no other tenant is busier."""
    series = Series(CollectorRegistry())
    first = [series.tenant_label(f"t{n}") for n in range(MAX_TENANTS)]

    assert first == [f"t{n}" for n in range(MAX_TENANTS)]
    assert series.tenant_label("one more") == "other"
    assert series.tenant_label("t0") == "t0"


def test_the_settings_say_how_many_tenants_have_a_label() -> None:
    """With `[metrics] tenants` = 0 all tenants share a label; the count of others is bounded (fault 78)."""
    none, two = Series(CollectorRegistry(), 0), Series(CollectorRegistry(), 2)

    assert none.tenant_label("a") == "other"
    assert [two.tenant_label(t) for t in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]
    for number in range(MAX_OTHERS + 5):
        two.tenant_label(f"t{number}")

    assert two.registry.get_sample_value("leveret_tenants", {"series": "own"}) == 2
    assert two.registry.get_sample_value("leveret_tenants", {"series": "other"}) == MAX_OTHERS


@given(st.lists(st.floats(0, 100, allow_nan=False) | st.sampled_from([0.1, 1.0, 10.0]), max_size=50))
def test_our_histogram_counts_as_the_librarys_does(values: list[float]) -> None:
    """Buckets, count and sum equal those of the library in both formats."""
    registry, reference = CollectorRegistry(), CollectorRegistry()
    ours = Histogram("leveret_wait_seconds", "Waits.", (0.1, 1, 10), ("way",))
    registry.register(ours)
    theirs = LibraryHistogram(
        "leveret_wait_seconds", "Waits.", ("way",), buckets=(0.1, 1, 10), registry=reference
    )
    for value in values:
        ours.labels("x").observe(value)
        theirs.labels("x").observe(value)

    for accept in ("text/plain", OPENMETRICS):
        assert exposition(registry, accept) == exposition(reference, accept)


def test_our_histogram_is_known_by_its_name() -> None:
    """A second series of one name is refused, and so is a label too many."""
    registry = CollectorRegistry()
    histogram = Histogram("leveret_wait_seconds", "Waits.", (1,))
    registry.register(histogram)

    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(Histogram("leveret_wait_seconds", "Waits.", (1,)))
    with pytest.raises(ValueError, match="labels"):
        histogram.labels("x")


def test_two_registries_count_apart() -> None:
    """Nothing is global: each test and each daemon counts from zero."""
    one, two = Series(CollectorRegistry()), Series(CollectorRegistry())

    one.pressed.set(1)

    assert two.registry.get_sample_value("leveret_pressed") == 0
