"""The metrics' text: valid, escaped, and of bounded size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from consumer.core.model import Kind, ParkReason
from consumer.flow.observe import Observer
from metrics.series import MAX_TENANTS, Series, attempt_label
from metrics.server import exposition
from tests.fakes import RecordingLog

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scraped(series: Series, accept: str = "text/plain") -> str:
    """Return what a scrape answers."""
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
    """Quotes, line breaks and backslashes come back as they were, in both formats (FAULTS 8, 78)."""
    series = Series(CollectorRegistry())
    for tenant in tenants:
        series.tenant_jobs.labels(series.tenant_label(tenant)).inc()

    parse: Any  # the library's parsers are not typed
    for parse, accept in ((parse_text, "text/plain"), (parse_openmetrics, OPENMETRICS)):
        families = parse(scraped(series, accept))
        [family] = [f for f in families if f.name in ("leveret_tenant_jobs", "leveret_tenant_jobs_total")]
        found = {s.labels["tenant"] for s in family.samples if s.name == "leveret_tenant_jobs_total"}
        assert found == set(tenants)


def test_an_injected_line_stays_inside_its_label() -> None:
    """A tenant cannot forge a series (FAULTS 78)."""
    series = Series(CollectorRegistry())
    series.tenant_jobs.labels('a"} 1\nleveret_pressed 99\n#').inc()

    assert "\nleveret_pressed 99" not in scraped(series)
    assert series.registry.get_sample_value("leveret_pressed") == 0


def test_names_and_help_follow_the_rules_of_promtool() -> None:
    """Counters end in _total, no other does; units are base units; every series is explained."""
    series = Series(CollectorRegistry())

    for family in series.registry.collect():
        assert family.name.startswith("leveret_")
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        assert not any(unit in family.name for unit in ("_ms", "_milli", "_minutes", "_kb", "_mb"))
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


def test_the_number_of_series_is_bounded() -> None:
    """Every label at every value it can have: some hundred series, with 50,000 tenants too (FAULTS 78)."""
    series = Series(CollectorRegistry())
    Observer(series, RecordingLog())
    for number in range(50_000):
        series.tenant_jobs.labels(series.tenant_label(f"t{number}")).inc()
    for reason in ParkReason:
        series.parked.labels(reason.value)
    for kind in Kind:
        series.attempts.labels(kind.value)
    for number in range(1, 1001):
        for result in ("delivered", "failed"):
            series.attempts_by_number.labels(attempt_label(number), result)
        series.retries.labels(attempt_label(number))

    samples = sum(len(family.samples) for family in series.registry.collect())

    assert samples < 600


@pytest.mark.parametrize(("number", "label"), [(1, "1"), (9, "9"), (10, "10+"), (11, "10+"), (1000, "10+")])
def test_attempts_from_ten_on_share_a_label(number: int, label: str) -> None:
    """A closed set."""
    assert attempt_label(number) == label


def test_the_first_hundred_tenants_keep_their_label() -> None:
    """The set only fills; it never changes a tenant's label."""
    series = Series(CollectorRegistry())
    first = [series.tenant_label(f"t{n}") for n in range(MAX_TENANTS)]

    assert first == [f"t{n}" for n in range(MAX_TENANTS)]
    assert series.tenant_label("one more") == "other"
    assert series.tenant_label("t0") == "t0"


def test_two_registries_count_apart() -> None:
    """Nothing is global: each test and each daemon counts from zero."""
    one, two = Series(CollectorRegistry()), Series(CollectorRegistry())

    one.pressed.set(1)

    assert two.registry.get_sample_value("leveret_pressed") == 0
