"""``leveret alerts``: the rules with the names of one installation, also for users without the repository."""

from __future__ import annotations

import pytest
import yaml
from typer.testing import CliRunner, Result

from consumer.cli import app
from tests.support.processes.prometheus import promtool
from tests.support.repository.grafana_files import ALERTS


def alerts(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["alerts", *arguments])


def test_the_defaults_are_the_checked_in_rules() -> None:
    """Without options it prints the rules of grafana/alerts.yml."""
    done = alerts()

    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout) == yaml.safe_load(ALERTS.read_text())


def test_every_option_has_its_effect() -> None:
    """Names, labels, address and thresholds are in the rules, and promtool accepts them."""
    names = ("--job", "hooks", "--rabbitmq-job", "mq", "--rabbitmq-cluster", "ours", "--by", "job, region")
    more = ("--label", "team=a", "--label", "tier=b", "--runbook-url", "https://wiki.example/l")
    limits = ("--threshold", "parked=500", "--without", "LeveretSlow", "--time-factor", "0.5")

    done = alerts(*names, *more, *limits)

    checked = promtool("check", "rules", "/dev/stdin", text=done.stdout.encode())
    groups = yaml.safe_load(done.stdout)["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
    assert done.exit_code == checked.returncode == 0
    assert "LeveretSlow" not in rules
    many = rules["LeveretParkedMany"]
    assert many["expr"] == 'max by (job, region) (leveret_queue_messages{job="hooks",queue="parked"}) > 500'
    assert many["for"] == "30s"
    assert many["labels"] == {"severity": "warning", "team": "a", "tier": "b"}
    assert many["annotations"]["summary"] == "More than 500 entries are parked."
    assert many["annotations"]["runbook_url"] == "https://wiki.example/l#parked-grows"
    assert 'rabbitmq_cluster="ours"' in rules["LeveretBrokerDisk"]["expr"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threshold", "parked"), "NAME=VALUE"),
        (("--threshold", "parked=many"), "number"),
        (("--threshold", "gone=1"), "the names are failure_share"),
        (("--label", "team"), "NAME=VALUE"),
        (("--runbook-url", "docs/runbook.md"), "https://"),
        (("--without", "LeveretGone"), "no such alert"),
    ],
    ids=str,
)
def test_a_wrong_option_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    """It names the option and the remedy; no half of a file is printed."""
    done = alerts(*arguments)

    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
