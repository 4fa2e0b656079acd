"""The content of messages from producers, and the rights that the daemon needs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2
import pytest
from yarl import URL

from consumer.edges.private_broker import BrokerEndpoint
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until
from topology.permissions import Permissions, permissions
from topology.plan import TopologySpec

FORGED = {
    "leveret-v": 1,
    "leveret-event": "forged",
    "leveret-tenant": "victim",
    "leveret-targets": "sub_of_somebody",
    "leveret-made": 10,
    "leveret-attempts": "9,1,ok,200,1",
    "leveret-not-before": 1,
    "leveret-wait": 0,
    "leveret-arrived": 1,
    "leveret-raw": "{}",
    "leveret-reason": "exhausted",
    "x-death": [{"reason": "rejected", "queue": "leveret.suspect", "count": 99}],
    "x-delivery-count": 99,
}


async def test_forged_headers_and_properties(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, broker: BrokerEndpoint
) -> None:
    """Fault 18: forged ``leveret-*`` headers, CC, BCC, user id, expiration, priority, reply-to, x-death.

    The event is retried and delivered once per subscription, no copy leaves us, and no channel closes.
    """
    target = "/retry-after/forged?s=0&times=1"
    await shared.apply(
        to(receiver, target, "forger"), to(receiver, "/ok/copy", "forger"), to(receiver, "/ok/v", "victim")
    )
    copies = ["invoice.copy", "parked.exhausted", "leveret.parked", "50.leveret.due.00"]

    event_id = await publisher.publish(
        "forger",
        headers={**FORGED, "CC": copies, "BCC": copies},
        user_id=broker.user,
        expiration=60,
        priority=9,
        reply_to="amq.rabbitmq.reply-to.x",
        app_id="shop",
    )
    behind = await publisher.publish("forger")

    await all_delivered(receiver, target, [event_id, behind])
    await all_delivered(receiver, "/ok/copy", [event_id, behind])
    await until(lambda: shared.metric("leveret_requests_in_flight") == 0, "nothing in flight")
    assert [r.status for r in requests_of(receiver, target, event_id)] == [503, 200]
    assert len(requests_of(receiver, "/ok/copy", event_id)) == 1
    assert not requests_of(receiver, "/ok/v")
    assert shared.count("delivery.parked") == 0
    assert shared.count("publish.failed") == 0
    await until(lambda: shared.unready() == "", "/readyz is green")

    def attempts() -> list[str]:
        lines = [line for line in shared.lines("delivery.attempted") if line["event_id"] == event_id]
        return sorted(str(line["attempt"]) for line in lines)

    await until(lambda: len(attempts()) >= 3, "three attempts are logged")
    assert attempts() == ["1", "1", "2"]


@dataclass(frozen=True, slots=True)
class Limited:
    """A user of the broker with few rights."""

    management: httpx2.Client
    name: str
    password: str

    def grant(self, amqp_url: str, rights: Permissions) -> None:
        """Give it *rights* on the vhost of *amqp_url*, in place of those it had."""
        vhost = amqp_url.rpartition("/")[2]
        answer = self.management.put(f"/api/permissions/{vhost}/{self.name}", json=asdict(rights))
        answer.raise_for_status()

    def url(self, amqp_url: str) -> str:
        """Return *amqp_url* with this user's login."""
        return str(URL(amqp_url).with_user(self.name).with_password(self.password))


@pytest.fixture
def limited(management: httpx2.Client) -> Iterator[Limited]:
    """A user without any right yet."""
    user = Limited(management, f"user-{secrets.token_hex(4)}", secrets.token_hex(8))
    login = {"password": user.password, "tags": ""}
    management.put(f"/api/users/{user.name}", json=login).raise_for_status()
    yield user
    management.delete(f"/api/users/{user.name}").raise_for_status()


@pytest.mark.parametrize("declare", [True, False])
async def test_the_documented_rights_are_enough(
    vhost: str, tmp_path: Path, receiver: Receiver, limited: Limited, declare: bool
) -> None:
    """``run`` works with the rights we print, ``--no-declare`` with read and write alone."""
    if not declare:
        async with running(tmp_path, vhost, name="declares"):
            pass
    spec = TopologySpec(lanes=2, due_queues=2, spill_queues=1, rungs_s=(0.05, 0.1, 0.2, 0.4, 0.8, 1.6))
    rights = permissions(spec, declare=declare)
    limited.grant(vhost, rights)
    settings = {} if declare else {"LEVERET_TOPOLOGY__DECLARE": "false"}

    async with running(tmp_path, limited.url(vhost), settings) as daemon:
        target = "/retry-after/limited?s=0&times=1"
        await daemon.apply(to(receiver, target, "limited"), to(receiver, "/status/400/limited", "limited"))
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("limited")

        await all_delivered(receiver, target, [event_id])
        await until(lambda: daemon.count("delivery.parked"), "parked")
        assert daemon.count("control.lost") == 0
        await until(lambda: daemon.unready() == "", "/readyz is green")


async def test_secrets_stay_out_of_the_log(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, broker: BrokerEndpoint
) -> None:
    """Neither the broker's password, nor a signing secret, nor a body is ever logged."""
    entry = to(receiver, "/status/400/quiet", "quiet")
    await shared.apply(entry)
    await publisher.publish("quiet", body=b'{"card":"4111-1111"}')
    await until(lambda: shared.count("delivery.parked", tenant="quiet"), "parked")

    log = shared.log.read_text()

    assert broker.password not in log
    assert str(entry["secrets"])[2:-2] not in log
    assert "4111-1111" not in log


async def test_a_webhook_never_reaches_the_daemon_itself_nor_its_broker(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, broker: BrokerEndpoint
) -> None:
    """Fault 27: loopback is allowed here; the ports of health and AMQP are not, under any name."""
    started = next(shared.lines("daemon.started"))
    urls = [
        f"http://{name}:{port}/"
        for name in ("127.0.0.1", "localhost")
        for port in (started["port"], URL(broker.amqp_url).port)
    ]
    await shared.apply(
        *(
            {"tenant": "self", "name": url[7:-1], "url": url, "events": ["#"], "retry": {"max_attempts": 1}}
            for url in urls
        ),
        to(receiver, "/ok/self", "self"),
    )

    event_id = await publisher.publish("self")

    await all_delivered(receiver, "/ok/self", [event_id])

    def tried() -> list[tuple[str, str]]:
        own = [line for line in shared.lines("delivery.attempted") if line["tenant"] == "self"]
        return sorted((str(line["kind"]), str(line.get("error", ""))) for line in own)

    await until(lambda: len(tried()) == 5, "all were tried")
    assert [kind for kind, _ in tried()] == ["blocked"] * 4 + ["ok"]
    assert all("belongs to Leveret" in error for kind, error in tried() if kind == "blocked")
