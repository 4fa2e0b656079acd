"""The alert rules: parsed and tried by Prometheus' own checker, and each leads to the runbook."""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import yaml

from consumer.core.errors import ConfigError
from consumer.core.tools.alerts.model import DELIVERY_BOUNDS_S, THRESHOLDS, Alert, AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_document
from grafana.alerts.__main__ import main
from grafana.alerts.case import RULES as ALL_RULES
from grafana.alerts.files import CASES, write
from grafana.spec import SAMPLE, sample_names
from metrics.series import DELIVERY_S
from tests.support.processes.prometheus import promtool
from tests.support.repository.grafana_files import ALERT_TESTS, ALERTS, alert_rules, untested_alerts
from tests.support.repository.runbook import RUNBOOK, slugs

RULE_TEMPLATES = [rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)]
RULES = {rule["alert"]: rule for rule in alert_rules()}
OTHER_NAMES = AlertOptions(
    job="webhooks",
    rabbitmq_job="mq",
    rabbitmq_cluster="rabbit@ours",
    by=("job", "cluster"),
    labels={"team": "hooks"},
    runbook_url="https://wiki.example/leveret",
)

ASKED = {
    "S1-6 more than 100 parked": ("LeveretParkedMany", "> 100"),
    "S1-6 more than 2 % parked": ("LeveretParkedShare", "> 0.02"),
    "S1-6 more than 50 parked for one tenant": ("LeveretTenantParked", "> 50"),
    "S1-6 broker memory at 80 %": ("LeveretBrokerMemory80", "> 0.8"),
    "S1-6 broker memory at 90 %": ("LeveretBrokerMemory90", "> 0.9"),
    "S1-6 rejected connections": ("LeveretConnectionsRejected", "> 0"),
    "S2-4 failure rate over 10 %": ("LeveretFailureRate", "> 0.1"),
    "S2-4 processing time over 5 min": ("LeveretSlow", "> 300"),
    "S2-4 a stuck delivery over 5 min": (
        "LeveretSlow",
        'leveret_oldest_delivery_seconds{job="leveret"}[3m])) > 300',
    ),
    "S2-7 unusual patterns": ("LeveretUnusualRetries", "> 5 *"),
    "the daemon is away": ("LeveretAway", '(up{job="leveret"}) == 0 or absent(up{job="leveret"})'),
    "the daemon is not ready": ("LeveretNotReady", 'leveret_ready{job="leveret"}) == 0'),
    "much waits": ("LeveretWaitingMuch", "> 0.8"),
    "fault 95 a queue does not give back": (
        "LeveretQueueOverdue",
        'leveret_queue_overdue_messages{job="leveret"}) > 0',
    ),
    "the broker blocks": ("LeveretBlocked", 'leveret_pressed{job="leveret"}) == 1'),
    "fault 68 the store is away": ("LeveretStoreAway", 'leveret_store_up{job="leveret"} == 0'),
    "fault 81 the store is not the right one": ("LeveretStoreDoubted", "leveret_store_trusted"),
    "fault 69 secrets cannot be decrypted": ("LeveretLocked", "leveret_subscriptions_locked"),
}


def tried(folder: Path, *tests: str) -> str:
    """Run promtool on the rules and on the files *tests* in *folder*; return its complaints."""
    checks = [promtool("check", "rules", folder / "alerts.yml")]
    checks += [promtool("test", "rules", folder / name) for name in tests]
    return "".join((done.stdout + done.stderr).decode() for done in checks if done.returncode != 0)


def test_the_files_are_up_to_date() -> None:
    """The rules and their cases are those that the generator makes."""
    assert main(["--check"]) == 0, "run `make alerts`"


def test_promtool_takes_the_rules_and_their_cases() -> None:
    """S1-6, S2-4: every case of the test files fires, or stays silent, as the file requires."""
    assert tried(ALERTS.parent, *(path.name for path in ALERT_TESTS)) == ""


def test_the_rules_work_under_other_names(tmp_path: Path) -> None:
    """Other job names, a further label, a RabbitMQ job of several clusters: the same alerts fire.

    A foreign RabbitMQ raises none.
    """
    write(tmp_path, OTHER_NAMES, [case for case in CASES if case.text or "foreign" in case.note])

    assert tried(tmp_path, "alerts_test.yml", "alerts_long_test.yml") == ""
    assert 'job="leveret"' not in (tmp_path / "alerts.yml").read_text()
    assert 'job="rabbitmq"' not in (tmp_path / "alerts.yml").read_text()


def test_every_alert_has_a_case_that_fires_and_one_that_is_silent() -> None:
    """`alerts_untested` is 0: of every rule that the generator makes."""
    assert untested_alerts(list(ALL_RULES)) == []


def test_an_alert_without_one_of_its_cases_is_found(tmp_path: Path) -> None:
    """A case that is taken out of the file is missed: the count is no constant."""
    document = yaml.safe_load(ALERT_TESTS[0].read_text())
    assert document["tests"][0]["name"] == "LeveretAway fires"
    document["tests"] = document["tests"][1:]
    shortened = tmp_path / "alerts_test.yml"
    shortened.write_text(yaml.safe_dump(document))

    assert untested_alerts(list(ALL_RULES), [shortened, *ALERT_TESTS[1:]]) == ["LeveretAway"]


@pytest.mark.parametrize("asked", ASKED)
def test_each_requested_alert_exists(asked: str) -> None:
    """S1-6, S2-4, faults 68, 69: each threshold of the requirement is the rule's."""
    name, threshold = ASKED[asked]

    assert threshold in " ".join(RULES[name]["expr"].split())


@pytest.mark.parametrize("name", RULES)
def test_an_alert_says_what_is_wrong_and_where_to_look(name: str) -> None:
    """A severity, a summary, a description, and the address of a section of the runbook that exists."""
    rule = RULES[name]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")

    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert re.search(r"\.(\{\{ end \}\}|\))?$", rule["annotations"]["description"])
    assert page == "http://127.0.0.1:8080/runbook"
    assert anchor in slugs(RUNBOOK)
    assert name in RUNBOOK


@pytest.mark.parametrize("section", sorted({rule.section for rule in RULE_TEMPLATES}))
def test_a_section_of_the_runbook_has_commands(section: str) -> None:
    """An operator at night finds a command to type: of leveret, of the broker, or of the system."""
    parts = re.split(r"^## (.+)$", RUNBOOK, flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    [text] = [text for heading, text in texts.items() if slugs(f"# {heading}") == {section}]
    commands = ("leveret", "systemctl", "rabbitmqctl", "rabbitmq-queues", "rabbitmq-diagnostics", "curl")

    assert re.search(rf"(^|`)({'|'.join(commands)}) [a-z-]+", text, flags=re.MULTILINE)


def test_alerts_read_series_that_exist() -> None:
    """Ours by their definition; the broker's are in the suite's live scrape (tests/bench/test_panels.py)."""
    names = {name for rule in RULES.values() for name in SAMPLE.findall(rule["expr"])}

    assert names
    assert names <= sample_names()


def test_every_selector_names_a_job() -> None:
    """No rule reads series of another program, or of another installation, by chance."""
    for group in GROUPS:
        for rule in group.rules:
            named = re.findall(r"\b(?:leveret_\w+|rabbitmq_\w+|up)\b(\{[@%])?", rule.expr)
            assert named == [] or set(named) <= {"{@", "{%"}, rule.name


def test_a_critical_alert_waits_longer_than_a_restart() -> None:
    """A worker or a node that restarts within two minutes calls nobody at night."""
    restarting = {"up", "leveret_ready", "leveret_pressed", "leveret_stuck_queues"}
    for rule in RULE_TEMPLATES:
        if rule.severity == "critical" and restarting & set(re.findall(r"\w+", rule.expr)):
            assert rule.hold in ("3m", "5m"), rule.name


def test_the_objective_reads_a_bucket_that_exists() -> None:
    """The limit in seconds is the upper bound of a bucket; the error lists the bounds."""
    assert DELIVERY_BOUNDS_S == DELIVERY_S
    assert THRESHOLDS["delivery_s"].default in DELIVERY_S
    with pytest.raises(ConfigError, match=r"delivery_s.* 300, 900, 3600"):
        AlertOptions(thresholds={"delivery_s": 600})


def test_a_threshold_is_read_and_changes_the_rule() -> None:
    """Each threshold has an effect on a rule."""
    before = rules_document(GROUPS, AlertOptions())

    for name in THRESHOLDS:
        value = 900 if name == "delivery_s" else 12345.5
        assert rules_document(GROUPS, AlertOptions(thresholds={name: value})) != before, name


def test_alerts_can_be_left_out() -> None:
    """By name, or those on the broker all together."""
    document = rules_document(GROUPS, AlertOptions(rabbitmq_job="", without=frozenset({"LeveretSlow"})))
    text = yaml.safe_dump(document)

    assert "LeveretSlow\n" not in text
    assert "LeveretSlow" in ALERTS.read_text()
    assert "rabbitmq" not in text


def test_a_job_may_be_a_regular_expression() -> None:
    """`--job 'leveret.*'` selects all of them."""
    text = yaml.safe_dump(rules_document(GROUPS, AlertOptions(job="leveret.*")))

    assert 'leveret_ready{job=~"leveret.*"}' in text


def test_durations_can_be_shortened_for_a_trial() -> None:
    """Ranges, offsets and waits shrink alike; a second is the least.

    The day in which a broker that is away has named its cluster stays.
    """
    groups = rules_document(GROUPS, AlertOptions(time_factor=0.01, rabbitmq_cluster="ours"))["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}

    assert rules["LeveretBalanceBroken"]["for"] == "6s"
    assert rules["LeveretParkedMany"]["for"] == "1s"
    assert "[216s] offset 6s" in rules["LeveretUnusualRetries"]["expr"]
    assert "[1d]" in rules["LeveretBrokerAway"]["expr"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"job": ""}, "--job"),
        ({"job": 'a"b'}, "--job"),
        ({"by": ()}, "--by"),
        ({"by": ("a-b",)}, "a-b"),
        ({"labels": {"a b": "c"}}, "a b"),
        ({"labels": {"a": "c\n"}}, "--label a"),
        ({"runbook_url": "docs/runbook.md"}, "--runbook-url"),
        ({"thresholds": {"gone": 1.0}}, "--threshold gone"),
        ({"thresholds": {"parked": nan}}, "--threshold parked"),
        ({"thresholds": {"disabled": inf}}, "--threshold disabled"),
        ({"thresholds": {"delivery_s": nan}}, "--threshold delivery_s"),
        ({"time_factor": 0.0}, "--time-factor"),
        ({"time_factor": nan}, "--time-factor"),
        ({"time_factor": inf}, "--time-factor"),
    ],
    ids=str,
)
def test_an_option_that_is_not_usable_is_refused(wrong: dict[str, Any], named: str) -> None:
    """With a sentence that names it, before any rule is written."""
    with pytest.raises(ConfigError, match=named):
        AlertOptions(**wrong)


def test_an_alert_that_does_not_exist_cannot_be_left_out() -> None:
    """A misspelt name is not ignored."""
    with pytest.raises(ConfigError, match="LeveretGone"):
        rules_document(GROUPS, AlertOptions(without=frozenset({"LeveretGone"})))


def test_each_case_is_of_a_rule() -> None:
    """No case is left behind by a rule that was removed."""
    assert {case.alert for case in CASES} == set(RULES)
