"""Write the dashboards: ``python -m grafana.generate``; ``--check`` only compares them with the files.

Data flow: boards/*.py -> drawing.py -> dashboards/*.json, which compose's Grafana reads from its folder, and
export/*.json, which another Grafana imports: it asks for the data source and the runbook's address.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from grafana.boards import BOARDS
from grafana.drawing import SOURCE, link, panel
from grafana.export import exported
from grafana.markers import MARKERS
from grafana.spec import BoardSpec, all_queries

HERE = Path(__file__).parent
DASHBOARDS, EXPORTS = HERE / "dashboards", HERE / "export"
RUNBOOK = "/public/leveret/runbook.html"
"""Where Grafana of docker-compose.yml serves the runbook; users change this constant there."""
TAG = "leveret"
"""Each dashboard links to all others with this tag."""

EVERYTHING = model.VariableOption(text="All", value="$__all", selected=True)


def board_json(board: BoardSpec) -> str:
    """Return a dashboard as Grafana reads it.

    Raises:
        ValueError: A panel reads a series that nobody exposes.
    """
    list(all_queries([board]))
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags([TAG])
        .refresh("10s")
        .time("now-30m", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables(list(_variables()))
        .annotations([marker.build_for(SOURCE) for marker in MARKERS])
        .link(_links_to_boards())
        .link(link("Runbook", "${runbook}"))
    )
    ids = count(1)
    for row in board.rows:
        head = dashboard.Row(row.title).id(next(ids))
        panels = [panel(spec).id(next(ids)) for spec in row.panels]
        if row.collapsed:
            for each in panels:
                head.with_panel(each)
        built.with_row(head)
        if not row.collapsed:
            for each in panels:
                built.with_panel(each)
    made = json.loads(json.dumps(built.build(), cls=JSONEncoder))
    for each in (*made["links"], *made["annotations"]["list"]):
        del each["placement"]  # the builder hides them in a menu of newer versions of Grafana
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def _variables() -> Iterator[
    dashboard.DatasourceVariable | dashboard.QueryVariable | dashboard.ConstantVariable
]:
    """Yield the choices above each dashboard."""
    source = model.VariableOption(text="Prometheus", value="prometheus", selected=True)
    yield dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus").current(source)
    ours = 'job=~"$job",instance=~"$instance"'
    yield _labels("job", "leveret_ready", "job", "Job")
    yield _labels("instance", 'leveret_ready{job=~"$job"}', "instance", "Instance")
    yield _labels("tenant", f"leveret_tenant_jobs_total{{{ours}}}", "tenant", "Tenant")
    of_tenant = f'leveret_subscription_trouble{{{ours},subscription=~"$tenant(/.*)?"}}'
    yield _labels("subscription", of_tenant, "subscription", "Subscription")
    rabbitmq = model.VariableOption(text="rabbitmq", value="rabbitmq", selected=True)
    yield _labels("rabbitmq", "rabbitmq_identity_info", "job", "RabbitMQ job").current(rabbitmq)
    yield dashboard.ConstantVariable("runbook").label("Runbook").value(RUNBOOK)


def _labels(name: str, series: str, label: str, title: str) -> dashboard.QueryVariable:
    """Return a choice of the values of *label* of some series."""
    return (
        dashboard.QueryVariable(name)
        .label(title)
        .datasource(SOURCE)
        .query({"query": f"label_values({series}, {label})", "refId": name})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(EVERYTHING)
    )


def _links_to_boards() -> dashboard.DashboardLink:
    """Return links to all dashboards with our tag, which keep the time and the choices."""
    links = dashboard.DashboardLink("Leveret").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return links.keep_time(True).include_vars(True).as_dropdown(False)


def files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file with its text."""
    for board in BOARDS:
        text = board_json(board)
        yield DASHBOARDS / f"{board.name}.json", text
        yield EXPORTS / f"{board.name}.json", exported(text)


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with ``--check`` return 1 if one is stale."""
    if "--check" in arguments:
        return int(any(not path.exists() or path.read_text() != text for path, text in files()))
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
