"""One endpoint of many fails: /metrics and the status name it, and no other."""

from __future__ import annotations

from pathlib import Path

from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_text
from tests.support.processes.alertmanager import Alertmanager
from tests.support.processes.children import fetch
from tests.support.processes.prometheus import Prometheus
from tests.support.servers.alert_inbox import AlertInbox, named
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import QUICK, all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

MANY = 20


async def test_the_failing_endpoint_is_named_with_its_cause(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """The next choice names it; its entry and its breaker are its own, and the healthy ones stay unnamed."""
    well = [to(receiver, f"/status/200/{n}", f"well-{n}") for n in range(MANY)]
    sick = to(receiver, "/status/503/sick", "sick", name="shop", retry={**QUICK, "max_attempts": 2})
    await shared.apply(*well, sick)
    await publisher.publish("sick")
    for number in range(MANY):
        ids = await publisher.publish_many(f"well-{number}", 2)
        await all_delivered(receiver, f"/status/200/{number}", ids)

    def named() -> float:
        return shared.metric("leveret_subscription_trouble", subscription="sick/shop", cause="http_5xx")

    await until(lambda: named() == 1, "the failing endpoint has a name", 60)
    await publisher.publish("sick")

    def shop(series: str, **labels: str) -> float:
        return shared.metric(f"leveret_subscription_{series}", subscription="sick/shop", **labels)

    await until(lambda: shop("attempts_total", result="failed") >= 2, "its attempts are counted")
    await until(lambda: shop("parked_entries") == 2, "its entries are counted", 60)
    delivered = shared.metric("leveret_subscription_attempts_total", subscription="other", result="delivered")
    assert delivered >= MANY
    assert 'subscription="well-' not in fetch(f"http://{shared.listen}/metrics").decode()
    assert shared.metric("process_open_fds") > 0
    assert shared.metric("leveret_build_info") == 1
    [now] = objects(await command(shared, "status", "--json"))
    assert now["troubles"] == [{"subscription": "sick/shop", "cause": "http_5xx", "share": 1.0}]


async def test_an_endpoint_that_fails_reaches_the_operators_chat_by_name(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, tmp_path: Path
) -> None:
    """The alert names subscription and cause. The commands of its section in the runbook end the alert."""
    sick = to(receiver, "/status/503/ill", "ill", name="till", breaker={"failures": 5, "cooldown_s": 600})
    await shared.apply(sick)
    async with AlertInbox() as inbox, Alertmanager(tmp_path, inbox.address) as alertmanager:
        targets = {"leveret": shared.listen, "alertmanager": alertmanager.address}
        rules = rules_text(GROUPS, AlertOptions(time_factor=1 / 60, rabbitmq_job=""))
        async with Prometheus(tmp_path, targets, rules):
            await publisher.publish_many("ill", 20)
            alert = await inbox.until("chat", named("LeveretEndpointTrouble"))
            await command(shared, "subscriptions", "disable", "ill/till")
            await command(shared, "breaker", "reset", "ill/till")
            await inbox.until("chat", named("LeveretEndpointTrouble", "resolved"), timeout_s=150)

    assert alert["labels"]["subscription"] == "ill/till"
    assert alert["annotations"]["description"].endswith(" The cause is http_5xx.")
