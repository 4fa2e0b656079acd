"""The dashboards' panels: each explains itself, is built only from known series, and repeats no other."""

from __future__ import annotations

import re

import pytest

from grafana.boards import BOARDS
from grafana.markers import MARKERS
from grafana.spec import (
    SAMPLE,
    BoardSpec,
    Kind,
    PanelSpec,
    Query,
    RowSpec,
    all_queries,
    filled,
    sample_names,
)
from tests.support.repository.grafana_files import checked_in_queries
from tests.support.repository.runbook import RUNBOOK, slugs

PANELS = [panel for board in BOARDS for panel in board.panels]


def board_of(panel: PanelSpec) -> BoardSpec:
    """Return a dashboard with one panel."""
    return BoardSpec(name="x", title="x", text="x.", rows=(RowSpec("x", (panel,)),))


def family(sample: str) -> str:
    """Return the name of a series without the ending of a histogram's sample."""
    return re.sub(r"_(bucket|sum|count)$", "", sample)


def test_every_query_reads_known_series_alone() -> None:
    """The dashboards are built from the names in metrics/series.py, and from named ones of others."""
    names = {name for _, promql in checked_in_queries() for name in SAMPLE.findall(promql)}
    generated = [(panel.title, query.promql) for panel, query in all_queries(BOARDS)]

    assert len(names) > 60
    assert names <= sample_names()
    assert sorted(checked_in_queries()) == sorted(generated)


def test_every_series_is_on_the_dashboard() -> None:
    """S1-9, S1-10, S2-3: every series of a worker is shown somewhere."""
    shown = {family(name) for _, promql in checked_in_queries() for name in SAMPLE.findall(promql)}

    assert {family(name) for name in sample_names()} - shown == set()


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("sum(leveret_nonsense{@})", "leveret_nonsense"),
        ("sum(rabbitmq_nonsense{#})", "rabbitmq_nonsense"),
        ("sum(process_nonsense{@})", "process_nonsense"),
        ("sum(leveret_ready)", "without @"),
        ("sum(leveret_ready{@}) / sum(leveret_pressed)", "without @"),
        ('sum(rabbitmq_queues{job="rabbitmq"})', "without #"),
        ("up", "no known series"),
    ],
)
def test_a_query_that_would_stay_empty_is_refused(expr: str, says: str) -> None:
    """A misspelt series or a forgotten selector is found when the dashboards are generated."""
    panel = PanelSpec(title="x", text="x.", queries=(Query(expr),))

    with pytest.raises(ValueError, match=says):
        list(all_queries([board_of(panel)]))


def test_the_marks_read_known_series() -> None:
    """A deploy, an open breaker and a reroute are marked on every graph."""
    queries = tuple(marker.query for marker in MARKERS)

    assert list(all_queries([board_of(PanelSpec(title="x", text="x.", queries=queries))]))
    assert [name for marker in MARKERS for name in sorted(marker.query.samples())] == [
        "leveret_build_info",
        "process_start_time_seconds",
        "leveret_subscription_breaker",
        "leveret_tenant_rerouted",
    ]


def test_every_variable_of_a_query_is_filled_in() -> None:
    """The suite sends Grafana's queries to Prometheus: an unknown variable is an error, not a text."""
    assert filled("rate(x[$__rate_interval])") == "rate(x[20s])"
    with pytest.raises(ValueError, match="unknown variable"):
        filled('sum(x{a="$nonsense"})')
    assert all(filled(query.promql) for _, query in all_queries(BOARDS))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_says_what_it_shows(panel: PanelSpec) -> None:
    """A title, sentences, a legend and a unit for each query, a runbook section that exists."""
    assert len(panel.text.split()) >= 5
    assert panel.text.endswith(".")
    assert panel.unit
    assert not panel.runbook or panel.runbook in slugs(RUNBOOK)
    assert all(query.legend for query in panel.queries)
    assert not panel.sort or panel.sort in {query.legend for query in panel.queries}
    limits = [limit for limit in (panel.warn, panel.bad) if limit is not None]
    own = panel.title in {"Alerts that fire", "In trouble"}  # the list beside them links to the runbook
    assert not limits or panel.runbook or own
    assert panel.unit != "percentunit" or all(0 <= limit <= 1 for limit in limits)


def test_no_panel_repeats_another() -> None:
    """Outside of tables no query is asked twice; no share is shown beside the rest of its whole."""
    queries = [query.expr for panel, query in all_queries(BOARDS) if panel.kind is not Kind.TABLE]
    twice = {expr for expr in queries if queries.count(expr) > 1}
    wholes = [
        query.expr.rpartition(" / ")[2]
        for panel, query in all_queries(BOARDS)
        if " / " in query.expr and panel.kind is not Kind.TABLE and panel.unit == "percentunit"
    ]

    assert twice == set()
    assert len(set(wholes)) == len(wholes)
    assert len({panel.title for panel in PANELS}) == len(PANELS)


def test_gauges_that_all_workers_share_are_not_added_up() -> None:
    """Two workers see the same queues, endpoints and entries; their sum would be wrong."""
    shared = r"(queue_messages|breakers|subscriptions|tenant_parked_entries|subscription_parked_entries)\{"
    for _, promql in checked_in_queries():
        if found := re.search(rf"(\w+)(?: by \([a-z, ]+\))? ?\(leveret_{shared}", promql):
            assert found[1] == "max", promql


def test_the_overview_names_the_causes() -> None:
    """Subscriptions with their cause, tenants, queues and nodes are on the first dashboard by name."""
    overview = BOARDS[0]
    tables = {panel.title: panel.queries[0].expr for panel in overview.panels if panel.kind is Kind.TABLE}

    assert "(subscription, cause)" in tables["Sick subscriptions and their cause"]
    assert "by (tenant)" in tables["Rerouted or starved tenants"]
    assert "rabbitmq_node" in tables["Nodes of the broker"]
    assert [panel.title for panel in overview.panels if panel.kind is Kind.ALERTS] == ["Alerts"]
    assert [row.title for row in overview.rows if not row.collapsed][:2] == [
        "Is it well, and since when?",
        "What is wrong, by name?",
    ]


def test_questions_of_experts_are_in_collapsed_rows() -> None:
    """Grafana asks the queries of a collapsed row only once it is opened."""
    collapsed = {row.title for board in BOARDS for row in board.rows if row.collapsed}

    assert {"Attempts and retries", "Fairness among tenants", "Store, history and tasks"} <= collapsed
    assert all(not board.rows[0].collapsed for board in BOARDS)
