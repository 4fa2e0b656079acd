"""The proof of the panels sees a panel without a legend or a unit, and a series that nobody exposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.observe import panels
from tests.support.repository.grafana_files import checked_in_panels

SCRAPE = b"""# HELP leveret_ready 1 while /readyz is green.
# TYPE leveret_ready gauge
leveret_ready 1.0
# TYPE leveret_publish_failures_total counter
# TYPE leveret_confirm_seconds histogram
leveret_confirm_seconds_bucket{le="0.001"} 0.0
"""


def test_a_series_without_a_value_is_known_by_its_description() -> None:
    """A counter that never counted is exposed too; a histogram has three names."""
    assert panels.exposed([SCRAPE]) == {
        "leveret_ready",
        "leveret_publish_failures_total",
        "leveret_confirm_seconds_bucket",
        "leveret_confirm_seconds_sum",
        "leveret_confirm_seconds_count",
    }


def test_all_names_of_the_dashboards_are_asked_for() -> None:
    """Those of panels, variables and marks; names of labels and recorded alerts are no series."""
    names = panels.asked()

    assert {
        "leveret_ready",
        "leveret_confirm_seconds_bucket",
        "process_open_fds",
        "rabbitmq_identity_info",
        "leveret_subscription_breaker",
    } <= names
    assert not {"rabbitmq_node", "leveret"} & names


def test_the_checked_in_panels_lack_nothing() -> None:
    """Each has a legend and a unit."""
    assert panels.without_legend_or_unit() == []


def _no_unit(panel: dict[str, Any]) -> None:
    del panel["fieldConfig"]["defaults"]["unit"]


def _no_name(panel: dict[str, Any]) -> None:
    panel["targets"][0]["legendFormat"] = ""


def _hidden(panel: dict[str, Any]) -> None:
    panel["options"]["legend"]["showLegend"] = False


def _no_max(panel: dict[str, Any]) -> None:
    panel["options"]["legend"]["calcs"] = ["lastNotNull"]


@pytest.mark.parametrize("spoil", [_no_unit, _no_name, _hidden, _no_max])
def test_a_panel_that_lacks_something_is_found(spoil: Callable[[dict[str, Any]], None]) -> None:
    """A unit, the name of a line, the legend itself, or one of its columns."""
    [panel] = [panel for panel in checked_in_panels() if panel["title"] == "Events"]
    assert not any(panels._lacks(panel))

    spoil(panel)

    assert any(panels._lacks(panel))
