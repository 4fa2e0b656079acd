"""Set the stage of the previews: a worker, customers, endpoints that fail, a tenant that floods, Prometheus.

The customers and their endpoints are those of the pictures of the pages (bench/pictures/shops.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from bench.broker import Broker
from bench.pictures.shops import PAYLOADS, SHOPS, Shop, answer, subscription
from bench.prove import Bench
from tests.support.processes.daemon import Daemon
from tests.support.processes.prometheus import Prometheus
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.raw_server import RawServer
from tests.support.system.publisher import EventPublisher

ROUND_S: Final = 0.25  #: one event for each endpoint so often
NOISY: Final = "stark"
FLOOD: Final = 60  #: events of the noisy tenant in a round
QUIET_S: Final = 100.0  #: the flood begins after this time
GONE: Final = "cyberdyne"
"""The name of this tenant's server is gone."""

SETTINGS: Final = {
    "LEVERET_SENDING__CONCURRENCY": "12",  # so few that a flood is felt
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "1",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_FAIRNESS__EVENTS_PER_S": "60",
}


@asynccontextmanager
async def watched(bench: Bench, seconds: float) -> AsyncIterator[Prometheus]:
    """Run everything for *seconds* and then until the pictures are taken."""
    async with Broker(bench) as broker, RawServer(answer) as endpoints, NameServer() as names:
        for shop in SHOPS:
            if shop.tenant != GONE:
                names.on(f"{shop.host}.", Answer(("127.0.0.1",), ttl_s=300))
                names.on(shop.host, Answer(("127.0.0.1",), ttl_s=300))
        settings = SETTINGS | {"LEVERET_SENDING__DNS_SERVERS": json.dumps([names.address])}
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            await daemon.start()
            targets = {"leveret": daemon.listen, "rabbitmq": urlsplit(broker.endpoint.prometheus_url).netloc}
            async with (
                Prometheus(bench.folder, targets) as prometheus,
                EventPublisher(broker.url) as publisher,
            ):
                await prometheus.until("leveret_ready == 1")
                await daemon.subscribe([subscription(shop, endpoints.port) for shop in SHOPS])
                busy = asyncio.create_task(_publish_on(publisher))
                try:
                    await asyncio.wait([busy], timeout=seconds)
                    yield prometheus
                finally:
                    busy.cancel()


async def _publish_on(publisher: EventPublisher) -> None:
    """Publish events of every tenant until cancelled; after a while one of them floods."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        for shop in SHOPS:
            flooding = shop.tenant == NOISY and loop.time() - began > QUIET_S
            await _publish(publisher, shop, FLOOD if flooding else 1)
        await asyncio.sleep(ROUND_S)


async def _publish(publisher: EventPublisher, shop: Shop, count: int) -> None:
    start = shop.events[0].partition(".")[0]
    kind = next(each for each in PAYLOADS if each.startswith(start))
    body = json.dumps(PAYLOADS[kind]).encode()
    for _ in range(count):
        await publisher.publish(shop.tenant, kind, body)
