"""The dashboard: generated, built only from our series, and whole."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

from grafana import generate, rows_care, rows_delivery, rows_tenants
from grafana.panels import ROWS
from grafana.spec import SAMPLE, Kind, PanelSpec, Query, RowSpec, all_queries, filled, sample_names
from metrics.series import Series
from tests.support.repository.grafana_files import checked_in_queries
from tests.support.repository.runbook import RUNBOOK, slugs

PANELS = [panel for row in ROWS for panel in row.panels]
LATER = (  # a further dashboard is to show them
    *("leveret_subscription_", "leveret_subscriptions_in_trouble", "leveret_subscriptions_disabled"),
    *(
        "leveret_oldest_waiting",
        "leveret_oldest_parked",
        "leveret_parked_entries",
        "leveret_breaker_oldest",
        "leveret_window_bytes",
    ),
    *("leveret_build", "leveret_certificate_", "leveret_secret_"),
)
BOARD: dict[str, Any] = json.loads(generate.OUTPUT.read_text())


def test_the_checked_in_dashboard_is_the_generated_one() -> None:
    """The JSON is generated, and is current."""
    assert generate.OUTPUT.read_text() == generate.dashboard_json(), "run `make dashboard`"
    assert generate.main(["--check"]) == 0


def test_every_query_reads_our_series_alone() -> None:
    """The dashboard is built only from the names in metrics/series.py."""
    names = {name for _, promql in checked_in_queries() for name in SAMPLE.findall(promql)}

    assert len(names) > 35
    assert names <= sample_names()
    assert checked_in_queries() == [(panel.title, query.promql) for panel, query in all_queries(ROWS)]


def test_every_series_is_on_the_dashboard() -> None:
    """S1-9, S1-10, S2-3: every series of a worker is shown somewhere."""
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", n) for _, q in checked_in_queries() for n in SAMPLE.findall(q)
    }
    counted = {re.sub(r"_(bucket|sum|count)$", "", name) for name in sample_names()}

    assert {name for name in counted - shown if not name.startswith(LATER)} == set()


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("sum(leveret_nonsense{@})", "leveret_nonsense"),
        ("sum(leveret_ready)", "without @"),
        ("sum(leveret_ready{@}) / sum(leveret_pressed)", "without @"),
        ("up", "no series of ours"),
    ],
)
def test_a_query_that_would_stay_empty_is_refused(expr: str, says: str) -> None:
    """A misspelt series or a forgotten selector is found when the dashboard is generated."""
    panel = PanelSpec(title="x", text="x.", queries=(Query(expr),))

    with pytest.raises(ValueError, match=says):
        list(all_queries((RowSpec("x", (panel,)),)))


def test_every_variable_of_a_query_is_filled_in() -> None:
    """The suite sends Grafana's queries to Prometheus: an unknown variable is an error, not a text."""
    assert filled("rate(x[$__rate_interval])") == "rate(x[20s])"
    with pytest.raises(ValueError, match="unknown variable"):
        filled('sum(x{a="$nonsense"})')


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_says_what_it_shows(panel: PanelSpec) -> None:
    """A title, a sentence, a legend for each of several lines, a runbook section that exists."""
    assert panel.text.endswith(".")
    assert not panel.runbook or panel.runbook in slugs(RUNBOOK)
    assert panel.kind is Kind.STAT or all(query.legend for query in panel.queries)
    assert (panel.warn is None and panel.bad is None) or panel.runbook or panel.title == "Event loop"
    ratio = panel.unit == "percentunit"
    limits = [limit for limit in (panel.warn, panel.bad) if limit is not None]
    assert not ratio or all(0 <= limit <= 1 for limit in limits)


def test_panels_fill_their_rows_and_never_overlap() -> None:
    """Each place of the grid is taken once; each id is given once."""
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert [p["title"] for p in BOARD["panels"] if p["type"] == "row"] == [row.title for row in ROWS]


def test_the_variables_choose_data_source_job_and_instance() -> None:
    """Any Prometheus and any set of workers can be looked at; the runbook's address is in one place."""
    variables = {v["name"]: v for v in BOARD["templating"]["list"]}

    assert list(variables) == ["datasource", "job", "instance", "runbook"]
    assert variables["datasource"]["query"] == "prometheus"
    for name in ("job", "instance"):
        assert variables[name]["includeAll"]
        assert variables[name]["allValue"] == ".*"
        assert SAMPLE.findall(variables[name]["query"]["query"]) == ["leveret_ready"]
    for panel in BOARD["panels"]:
        if panel["type"] != "row":
            assert {t["datasource"]["uid"] for t in panel["targets"]} == {"${datasource}"}
            assert all(link["url"].startswith("${runbook}#") for link in panel.get("links", ()))


def test_thresholds_turn_round_where_small_values_are_bad() -> None:
    """Red under 90 % of requests that succeed; red from 100 parked entries on."""
    found = {
        p["title"]: p["fieldConfig"]["defaults"].get("thresholds") for p in BOARD["panels"] if "targets" in p
    }

    def steps(title: str) -> list[tuple[float | None, str]]:
        return [(step["value"], step["color"]) for step in found[title]["steps"]]

    assert steps("Requests that succeed") == [(None, "red"), (0.9, "yellow"), (0.98, "green")]
    assert steps("Parked") == [(None, "green"), (1, "yellow"), (100, "red")]
    assert steps("Back-pressure") == [(None, "green"), (1, "red")]


def test_gauges_that_all_workers_share_are_not_added_up() -> None:
    """Two workers see the same queues and endpoints; their sum would be wrong."""
    for _, promql in checked_in_queries():
        if re.search(r"leveret_(queue_messages|breakers|subscriptions)\{", promql):
            assert promql.startswith("max"), promql


def test_the_source_names_no_series_by_hand_outside_of_queries() -> None:
    """Each series of the file exists: also those in helper calls, which the generator puts together."""
    names = {
        n
        for module in (rows_delivery, rows_care, rows_tenants)
        for n in SAMPLE.findall(inspect.getsource(module))
    }
    bare = {name.removeprefix("leveret_") for name in names}
    known = set(re.findall(r'"([a-z_]+)"', inspect.getsource(Series)))

    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in bare} <= known
