"""A product's backend creates its customer's subscription over HTTP, and the next event is delivered."""

from __future__ import annotations

import httpx2

from tests.support.servers.receiver import Receiver
from tests.support.system.api import serving
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import QUICK, all_delivered
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

LIST = "/v1/tenants/web/subscriptions"


async def test_a_subscription_made_over_http_gets_the_next_event(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Created, in force within a second, delivered, removed; the process ends tidily and logs no token."""
    before = shared.metric("leveret_subscriptions")
    async with serving(shared) as api:
        token = await api.token("--scope", "operate", "--tenant", "web")
        fields = {"name": "shop", "url": receiver.url("/ok/web"), "events": ["#"], "retry": dict(QUICK)}
        async with api.client(token) as client:
            made = await client.post(LIST, json=fields)
            assert made.status_code == 201, made.text
            await until(lambda: shared.metric("leveret_subscriptions") > before, "the daemon knows it")
            event = await publisher.publish("web")
            await all_delivered(receiver, "/ok/web", [event])
            gone = await client.delete(f"{LIST}/shop", params={"confirm": "true"})
            assert gone.status_code == 204, gone.text
        async with httpx2.AsyncClient(trust_env=False) as stranger:
            assert (await stranger.get(f"{api.url}{LIST}")).status_code == 401
    log = api.log.read_text()

    assert '"api.stopped"' in log
    assert token.split("_")[2] not in log
    assert made.json()["secret"] not in log
