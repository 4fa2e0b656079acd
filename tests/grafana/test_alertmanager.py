"""A real alert travels from a real Prometheus through a real Alertmanager to a receiver."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
import yaml
from prometheus_client import CollectorRegistry

from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_text
from consumer.edges.serve.health_server import HealthServer
from metrics.series import Series
from tests.support.processes.alertmanager import EXAMPLE, RECEIVER, Alertmanager
from tests.support.processes.children import free_port
from tests.support.processes.prometheus import Prometheus
from tests.support.repository.compose import SERVICES
from tests.support.repository.grafana_files import alert_names
from tests.support.servers.alert_inbox import AlertInbox, named

QUICK = AlertOptions(time_factor=1 / 180)  #: 3 minutes become a second


@pytest_asyncio.fixture
async def inbox() -> AsyncIterator[AlertInbox]:
    """Give a receiver that listens; stop it after the test."""
    async with AlertInbox() as inbox:
        yield inbox


def inhibited(name: str) -> Callable[[list[dict[str, Any]]], bool]:
    """Return a test for the alert *name* among those of Alertmanager that are inhibited."""
    return lambda alerts: any(
        alert["labels"]["alertname"] == name and alert["status"]["inhibitedBy"] for alert in alerts
    )


async def test_an_alert_reaches_the_pager_and_its_end_too(tmp_path: Path, inbox: AlertInbox) -> None:
    """No worker answers: the pager hears of it with the address of the remedy, and of its end.

    The warning on the single worker is inhibited, as it follows from that. The warning on the broker is not.
    """
    worker, broker = free_port(), free_port()
    series = Series(CollectorRegistry())
    series.ready.set(1)
    health = HealthServer(series.registry, lambda: None)
    async with Alertmanager(tmp_path, inbox.address) as alertmanager:
        targets = {"leveret": f"127.0.0.1:{worker}", "rabbitmq": f"127.0.0.1:{broker}"}
        targets["alertmanager"] = alertmanager.address
        async with Prometheus(tmp_path, targets, rules_text(GROUPS, QUICK)):
            away = await inbox.until("pager", named("LeveretAway"))
            await alertmanager.until(inhibited("LeveretWorkerAway"))
            await inbox.until("chat", named("LeveretBrokerAway"))
            before = inbox.alerts("chat")
            await health.start("127.0.0.1", worker)
            await inbox.until("pager", named("LeveretAway", "resolved"))
            await health.stop()

    assert away["labels"]["service"] == "leveret"
    assert away["annotations"]["runbook_url"] == f"{QUICK.runbook_url}#the-daemon-does-not-answer"
    assert {alert["labels"]["alertname"] for alert in before} == {"LeveretBrokerAway"}


def test_amtool_takes_the_example_and_routes_by_severity() -> None:
    """Alertmanager's own checker accepts the file; critical alerts go to the pager, others to the chat."""

    def amtool(*arguments: str) -> str:
        done = subprocess.run(["amtool", *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    checked = amtool("check-config", str(EXAMPLE))
    routes = ("config", "routes", "test", f"--config.file={EXAMPLE}", "service=leveret")

    assert "SUCCESS" in checked
    assert amtool(*routes, "severity=critical").strip() == "pager"
    assert amtool(*routes, "severity=warning").strip() == "chat"


def test_the_inhibitions_name_alerts_that_exist() -> None:
    """An alert that is renamed does not leave a rule without effect behind."""
    rules = yaml.safe_load(EXAMPLE.read_text())["inhibit_rules"]
    texts = [text for rule in rules for matchers in rule.values() for text in matchers]
    words = {word for text in texts for word in re.findall(r"Leveret\w+", text)}

    assert words - set(alert_names()) == {"LeveretBroker"}  # the begin of several


def test_compose_delivers_its_messages_to_a_service() -> None:
    """The example's receivers are the port on which the service alert-log listens, in the same network."""
    listener = SERVICES["alert-log"]
    port = listener["command"][listener["command"].index("--port") + 1]

    assert EXAMPLE.read_text().count(f"http://{RECEIVER}/") == 2
    assert f"127.0.0.1:{port}" == RECEIVER
    assert listener["network_mode"] == "service:alertmanager"
