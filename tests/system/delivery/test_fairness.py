"""A flood in a lane, against a real broker: led around the lane, and back when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractConnection

from consumer.edges.broker.connection.current import CurrentConnection
from consumer.edges.broker.routes import BrokerRoutes
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, deliveries, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until
from topology.declare import declare
from topology.names import Names
from topology.plan import TopologySpec, build_plan

FLOOD = 700
NAMES = Names()
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "1",
    "LEVERET_SENDING__CONCURRENCY": "20",
    "LEVERET_FAIRNESS__NOISY_AFTER_S": "1",
}
AWAY = "/slow/flood?s=0.15"


def bindings(management: httpx2.Client, vhost: str, source: str = NAMES.route) -> list[str]:
    """Return the queues that an exchange leads to; by default those of tenants led around the lanes."""
    name = urlsplit(vhost).path.strip("/")
    found = management.get(f"/api/exchanges/{name}/{source}/bindings/source")
    return [row["destination"] for row in found.raise_for_status().json()]


class Flood:
    """One tenant's events, published until :attr:`over`; about :data:`FLOOD` of them wait at any time."""

    def __init__(self, receiver: Receiver, publisher: EventPublisher, headers: Mapping[str, object]) -> None:
        self.published: list[str] = []
        self.over = asyncio.Event()
        self._receiver, self._publisher, self._headers = receiver, publisher, headers

    async def run(self) -> None:
        """Publish batches."""
        while not self.over.is_set():
            if len(self.published) - len(deliveries(self._receiver, AWAY)) < FLOOD:
                batch = (self._publisher.publish(None, headers=self._headers) for _ in range(100))
                self.published += await asyncio.gather(*batch)
            else:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("tenant", ["flood", bytearray(b"flood")], ids=["text", "bytes"])
async def test_a_flood_in_its_own_lane_is_led_around_it(
    vhost: str, tmp_path: Path, receiver: Receiver, management: httpx2.Client, tenant: str | bytearray
) -> None:
    """Faults 71, 90: the tenant behind it is served long before its end; each event comes once."""
    named = {"tenant": tenant}
    async with running(tmp_path, vhost, SETTINGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, AWAY, "flood", concurrency=100), to(receiver, "/ok/quiet", "quiet"))
        flood = Flood(receiver, publisher, named)
        flooding = asyncio.create_task(flood.run())
        await until(lambda: bindings(management, vhost) == [NAMES.spill(0)], "the flood is rerouted")
        await until(lambda: daemon.metric("leveret_moved_messages_total") > 50, "messages in hand move")

        quiet = await publisher.publish("quiet")
        await all_delivered(receiver, "/ok/quiet", [quiet])
        assert not flooding.done()  # the quiet tenant was served while the flood went on
        flood.over.set()
        await flooding
        late = await publisher.publish(None, headers=named)
        counts = await all_delivered(receiver, AWAY, [*flood.published, late])
        await daemon.logged("tenant.returned", tenant="flood")

        assert set(counts.values()) == {1}
        assert bindings(management, vhost) == []
        assert daemon.count("task.failed") == 0


async def test_a_binding_that_was_left_is_removed(
    vhost: str, tmp_path: Path, receiver: Receiver, management: httpx2.Client
) -> None:
    """A worker that dies leaves nothing that another does not clean up; binding twice is once."""
    async with running(tmp_path, vhost, SETTINGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/left", "left"))
        connection = await aio_pika.connect(vhost)
        async with connection:
            routes = BrokerRoutes(CurrentConnection(connection), NAMES.route, "tenant", may_bind=True)
            assert await routes.bind("left", NAMES.spill(0))
            assert await routes.bind("left", NAMES.spill(0))
            await routes.unbind("never-bound", NAMES.spill(0))

        event = await publisher.publish("left")

        assert await all_delivered(receiver, "/ok/left", [event]) == {event: 1}
        await until(lambda: bindings(management, vhost) == [], "the binding is gone")
        again = await publisher.publish("left")
        assert (await all_delivered(receiver, "/ok/left", [again]))[again] == 1


@pytest.fixture
def reader(vhost: str, management: httpx2.Client) -> Iterator[str]:
    """A user that may only read; gone again after the test."""
    user, name = "reader", urlsplit(vhost).path.strip("/")
    management.put(f"/api/users/{user}", json={"password": user, "tags": ""}).raise_for_status()
    rights = {"configure": "^$", "write": "^$", "read": ".*"}
    management.put(f"/api/permissions/{name}/{user}", json=rights).raise_for_status()
    yield user
    management.delete(f"/api/users/{user}").raise_for_status()


async def test_without_the_right_to_bind_nothing_is_bound(
    vhost: str, management: httpx2.Client, reader: str
) -> None:
    """A refusal is reported, not raised, and the binding is not tried again."""
    admin = await aio_pika.connect(vhost)
    async with admin:
        channel = await admin.channel()
        await channel.declare_exchange(NAMES.route, "headers", durable=True)
        await channel.declare_queue(NAMES.spill(0), durable=True)
        parts = urlsplit(vhost)
        plain = await aio_pika.connect(f"amqp://{reader}:{reader}@{parts.hostname}:{parts.port}{parts.path}")
        async with plain:
            routes = BrokerRoutes(CurrentConnection(plain), NAMES.route, "tenant", may_bind=True)

            assert not await routes.bind("acme", NAMES.spill(0))
            assert not await routes.bind("acme", NAMES.spill(0))
            await routes.unbind("acme", NAMES.spill(0))
            assert await routes.ready([NAMES.spill(0)]) == {NAMES.spill(0): 0}
    assert bindings(management, vhost) == []


BEFORE = TopologySpec(
    lanes=4, due_queues=2, spill_queues=1, rungs_s=(0.05, 0.1, 0.2, 0.4, 0.8, 1.6), dedicated=("former",)
)
AFTER = {
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__LANES_BEFORE": "4",
    "LEVERET_TOPOLOGY__DEDICATED": '["own"]',
    "LEVERET_TOPOLOGY__RETIRED": '["former"]',
}


async def test_lanes_are_taken_away_and_nothing_is_lost(
    vhost: str, tmp_path: Path, receiver: Receiver, management: httpx2.Client
) -> None:
    """Their messages are taken, they get no more; one is a tenant's own."""
    tenants = [*(f"t{number}" for number in range(12)), "own", "former"]
    connection = await aio_pika.connect(vhost)
    async with connection:
        await declare(build_plan(BEFORE), connection)
        async with EventPublisher(vhost) as publisher:
            first = {tenant: await publisher.publish(tenant) for tenant in tenants}
        stood = {name: await ready(connection, name) for name in map(NAMES.lane, range(4))}
        assert await ready(connection, NAMES.dedicated("former")) == 1
    assert stood[NAMES.lane(2)] + stood[NAMES.lane(3)] > 0

    await Daemon(tmp_path, vhost, AFTER).apply(
        *(to(receiver, f"/ok/taken-{tenant}", tenant) for tenant in tenants)
    )
    async with running(tmp_path, vhost, AFTER), EventPublisher(vhost) as publisher:
        second = {tenant: await publisher.publish(tenant) for tenant in tenants}
        third = {
            tenant: await publisher.publish(None, headers={"tenant": bytearray(tenant.encode())})
            for tenant in tenants
        }
        for tenant in tenants:
            events = [first[tenant], second[tenant], third[tenant]]
            found = await all_delivered(receiver, f"/ok/taken-{tenant}", events)
            assert found == dict.fromkeys(events, 1)
        assert sorted(bindings(management, vhost, NAMES.lanes)) == [NAMES.lane(0), NAMES.lane(1)]
        assert bindings(management, vhost) == [NAMES.dedicated("own")]


async def ready(connection: AbstractConnection, queue: str) -> int:
    """Return how many messages of a queue are ready."""
    channel = await connection.channel()
    found = await channel.declare_queue(queue, passive=True)
    await channel.close()
    return found.declaration_result.message_count or 0
