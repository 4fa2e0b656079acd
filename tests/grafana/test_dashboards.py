"""The dashboards' files: generated, whole, linked, and fit to be imported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from grafana import generate
from grafana.boards import BOARDS
from grafana.drawing import DETAILS
from grafana.export import RUNBOOK_INPUT, SOURCE_INPUT
from grafana.spec import SAMPLE
from tests.support.repository.grafana_files import (
    DASHBOARDS,
    EXPORTS,
    checked_in_panels,
    panels_of,
    read_board,
)

VARIABLES = ["datasource", "job", "instance", "tenant", "subscription", "rabbitmq", "runbook"]
LISTS = ("job", "instance", "tenant", "subscription", "rabbitmq")


def of_type(kind: str) -> list[dict[str, Any]]:
    """Return the panels of a kind on all dashboards."""
    return [panel for panel in checked_in_panels() if panel["type"] == kind]


def test_the_checked_in_files_are_the_generated_ones() -> None:
    """The JSON is generated, and is current; no other file is among them."""
    files = dict(generate.files())

    for path, text in files.items():
        assert path.read_text() == text, f"run `make dashboard`: {path.name}"
    assert set(files) == {*DASHBOARDS, *EXPORTS}
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_fill_their_rows_and_never_overlap(path: Path) -> None:
    """Each place of the grid is taken once; each id is given once; collapsed rows contain their panels."""
    board = read_board(path)
    taken: set[tuple[int, int]] = set()
    for panel in [*(row for row in board["panels"] if row["type"] == "row"), *panels_of(board)]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in (*board["panels"], *panels_of(board))]
    assert len({*ids}) == len(board["panels"]) + sum(len(row.get("panels", ())) for row in board["panels"])
    [spec] = [spec for spec in BOARDS if spec.name == path.stem]
    rows = [(p["title"], bool(p.get("panels"))) for p in board["panels"] if p["type"] == "row"]
    assert rows == [(row.title, row.collapsed) for row in spec.rows]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_variables_choose_the_data(path: Path) -> None:
    """Any Prometheus, workers, tenants, subscriptions and broker; the runbook's address is in one place."""
    board = read_board(path)
    variables = {v["name"]: v for v in board["templating"]["list"]}

    assert list(variables) == VARIABLES
    assert variables["datasource"]["query"] == "prometheus"
    for name in LISTS:
        assert variables[name]["includeAll"]
        assert variables[name]["allValue"] == ".*"
        assert variables[name]["multi"]
    asked = {SAMPLE.findall(variables[name]["query"]["query"])[0] for name in LISTS[:-1]}
    assert asked == {"leveret_ready", "leveret_tenant_jobs_total", "leveret_subscription_trouble"}
    assert variables["rabbitmq"]["current"]["value"] == "rabbitmq"  # not the other brokers of a Prometheus
    for panel in panels_of(board):
        assert {t["datasource"]["uid"] for t in panel.get("targets", ())} <= {"${datasource}"}
        assert all(link["url"].startswith("${runbook}#") for link in panel.get("links", ()))
        used = {name for t in panel.get("targets", ()) for name in re.findall(r"\$([a-z]+)", t["expr"])}
        assert used <= {*LISTS}, panel["title"]


def test_graphs_have_legends_as_tables_with_last_and_max() -> None:
    """Every line of every graph has a name beside its last and greatest value; every state has a name."""
    graphs = of_type("timeseries")

    assert len(graphs) > 30
    for panel in graphs:
        legend = panel["options"]["legend"]
        assert legend["showLegend"], panel["title"]
        assert legend["displayMode"] == "table"
        assert legend["calcs"] == ["lastNotNull", "max"]
    for panel in (*graphs, *of_type("state-timeline")):
        assert panel["options"]["legend"]["showLegend"]
        assert all(target["legendFormat"] for target in panel["targets"])


def test_every_value_has_a_unit() -> None:
    """Of a table, each column: they differ."""
    for panel in checked_in_panels():
        if panel["type"] != "alertlist":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    for panel in of_type("table"):
        columns = {
            override["matcher"]["options"]: {p["id"] for p in override["properties"]}
            for override in panel["fieldConfig"]["overrides"]
        }
        for target in panel["targets"]:
            assert {"displayName", "unit"} <= columns[f"Value #{target['refId']}"], panel["title"]


def test_thresholds_turn_round_where_small_values_are_bad() -> None:
    """Red under 90 % of requests that succeed; red from 100 parked entries on."""
    found = {p["title"]: p["fieldConfig"]["defaults"].get("thresholds") for p in of_type("stat")}

    def steps(title: str) -> list[tuple[float | None, str]]:
        return [(step["value"], step["color"]) for step in found[title]["steps"]]

    assert steps("Requests that succeed") == [(None, "red"), (0.9, "yellow"), (0.98, "green")]
    assert steps("Parked") == [(None, "green"), (1, "yellow"), (100, "red")]
    assert steps("Back-pressure") == [(None, "green"), (1, "red")]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_dashboards_link_to_each_other_and_to_the_runbook(path: Path) -> None:
    """By their tag, with the time and the choices; names in tables lead to the details."""
    board = read_board(path)
    boards, runbook = board["links"]

    assert boards["type"] == "dashboards"
    assert set(boards["tags"]) <= set(board["tags"])
    assert boards["keepTime"]
    assert boards["includeVars"]
    assert runbook["url"] == "${runbook}"
    assert DETAILS.startswith("/d/leveret-endpoints?")
    assert {read_board(other)["uid"] for other in DASHBOARDS} == {spec.uid for spec in BOARDS}
    assert [mark["name"] for mark in board["annotations"]["list"]] == [
        "Starts of workers",
        "Open breakers",
        "Reroutes",
    ]


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_an_import_asks_for_the_data_source_and_the_runbook(path: Path) -> None:
    """The answers replace each ``${NAME}``, as Grafana does it; the result is our dashboard with them."""
    export = read_board(path)
    answers = {SOURCE_INPUT: "my-prometheus", RUNBOOK_INPUT: "https://wiki.example/runbook"}
    inputs = {each["name"]: each for each in export["__inputs"]}
    text = json.dumps(export)
    for name, answer in answers.items():
        text = text.replace(f"${{{name}}}", answer)
    imported = json.loads(text)
    variables = {v["name"]: v for v in imported["templating"]["list"]}

    assert set(inputs) == set(answers)
    assert inputs[SOURCE_INPUT] | {"label": "", "description": ""} == {
        "name": SOURCE_INPUT,
        "label": "",
        "description": "",
        "type": "datasource",
        "pluginId": "prometheus",
        "pluginName": "Prometheus",
    }
    assert inputs[RUNBOOK_INPUT]["type"] == "constant"
    assert not re.search(r"\$\{[A-Z]", text)
    assert variables["datasource"]["current"]["value"] == answers[SOURCE_INPUT]
    assert variables["runbook"]["query"] == variables["runbook"]["current"]["value"] == answers[RUNBOOK_INPUT]
    own = read_board(generate.DASHBOARDS / path.name)
    assert imported["panels"] == own["panels"]
    assert imported["annotations"] == own["annotations"]
    needed = {each["id"] for each in export["__requires"] if each["type"] == "panel"}
    assert needed == {panel["type"] for panel in panels_of(own)}
