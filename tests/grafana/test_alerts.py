"""The alert rules: parsed and tried by Prometheus' own checker, and each leads to the runbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana.spec import SAMPLE, sample_names
from tests.support.data import ROOT
from tests.support.processes.prometheus import promtool
from tests.support.repository.grafana_files import ALERT_TESTS, ALERTS, untested_alerts
from tests.support.repository.runbook import RUNBOOK, slugs

GROUPS: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}

ASKED = {
    "S1-6 more than 100 parked": ("LeveretParkedMany", "> 100"),
    "S1-6 more than 2 % parked": ("LeveretParkedShare", "> 0.02"),
    "S1-6 more than 50 parked for one tenant": ("LeveretTenantParked", "> 50"),
    "S1-6 broker memory at 80 %": ("LeveretBrokerMemory80", "> 0.8"),
    "S1-6 broker memory at 90 %": ("LeveretBrokerMemory90", "> 0.9"),
    "S1-6 rejected connections": ("LeveretConnectionsRejected", "> 0"),
    "S2-4 failure rate over 10 %": ("LeveretFailureRate", "> 0.1"),
    "S2-4 processing time over 5 min": ("LeveretSlow", "> 300"),
    "S2-4 a stuck delivery over 5 min": ("LeveretSlow", "leveret_oldest_delivery_seconds[10m])) > 300"),
    "S2-7 unusual patterns": ("LeveretUnusualRetries", "> 5 *"),
    "the daemon is away": ("LeveretAway", 'up{job="leveret"} == 0'),
    "the daemon is not ready": ("LeveretNotReady", "leveret_ready == 0"),
    "much waits": ("LeveretWaitingMuch", "> 0.8"),
    "fault 95 a queue does not give back": ("LeveretQueueOverdue", "leveret_queue_overdue_messages) > 0"),
    "the broker blocks": ("LeveretBlocked", "leveret_pressed == 1"),
    "fault 68 the store is away": ("LeveretStoreAway", "leveret_store_up == 0"),
    "fault 81 the store is not the right one": ("LeveretStoreDoubted", "leveret_store_trusted == 0"),
    "fault 69 secrets cannot be decrypted": ("LeveretLocked", "leveret_subscriptions_locked > 0"),
}


def test_promtool_takes_the_rules_and_their_cases() -> None:
    """S1-6, S2-4: every case of the test files fires, or stays silent, as the file requires."""
    for done in (promtool("check", "rules", ALERTS), promtool("test", "rules", *ALERT_TESTS)):
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_every_alert_has_a_case_that_fires_and_one_that_is_silent() -> None:
    """`alerts_untested` is 0."""
    assert untested_alerts() == []


def test_an_alert_without_one_of_its_cases_is_found(tmp_path: Path) -> None:
    """A case that is taken out of the file is missed: the count is no constant."""
    document = yaml.safe_load(ALERT_TESTS[0].read_text())
    assert document["tests"][0]["name"] == "LeveretAway fires"
    document["tests"] = document["tests"][1:]
    shortened = tmp_path / "alerts_test.yml"
    shortened.write_text(yaml.safe_dump(document))

    assert untested_alerts(tests=[shortened, *ALERT_TESTS[1:]]) == ["LeveretAway"]


@pytest.mark.parametrize("asked", ASKED)
def test_each_requested_alert_exists(asked: str) -> None:
    """S1-6, S2-4, faults 68, 69: each threshold of the requirement is the rule's."""
    name, threshold = ASKED[asked]

    assert threshold in RULES[name]["expr"]


@pytest.mark.parametrize("name", RULES)
def test_an_alert_says_what_is_wrong_and_where_to_look(name: str) -> None:
    """A severity, a summary, a description, and a section of the runbook that exists."""
    rule = RULES[name]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")

    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].rstrip().endswith(".")
    assert (ROOT / page).read_text() == RUNBOOK
    assert anchor in slugs(RUNBOOK)
    assert name in RUNBOOK


def test_alerts_read_series_that_exist() -> None:
    """Ours by their definition; the broker's are in the suite's live scrape (tests/bench/test_panels.py)."""
    names = {name for rule in RULES.values() for name in SAMPLE.findall(rule["expr"])}

    assert names
    assert names <= sample_names()
