"""A RabbitMQ of somebody else in the same Prometheus, with real troubles that do not concern Leveret.

Its queue grows without a consumer, its memory alarm is on, and one of its nodes does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from bench.broker import Broker
from bench.observe.quiet.watch import FOREIGN, Tower
from bench.prove import Bench
from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_document
from tests.support.broker.load import EventSpec, connect, publish
from tests.support.processes.children import free_port

QUEUE = "foreign.jobs"
BACKLOG = 5_000
MEMORY_BYTES = 60_000_000  #: a limit that each node exceeds
PILE = "backlog"
FOREIGN_TROUBLES = frozenset(("LeveretBrokerAway", "LeveretBrokerMemory80", "LeveretBrokerMemory90", PILE))
"""Its backlog, and the rules that would be true if they read its job."""


@asynccontextmanager
async def foreign(bench: Bench, tower: Tower) -> AsyncIterator[None]:
    """Run it while the block runs."""
    folder = bench.folder / FOREIGN
    folder.mkdir()
    async with Broker(replace(bench, folder=folder)) as broker:
        await _pile_up(broker.url)
        limit = f"vm_memory_monitor:set_vm_memory_high_watermark({{absolute, {MEMORY_BYTES}}})."
        await broker.evaluate(limit)
        tower.aim(FOREIGN, (urlsplit(broker.endpoint.prometheus_url).netloc, f"127.0.0.1:{free_port()}"))
        yield


async def _pile_up(url: str) -> None:
    connection = await connect(url)
    channel = await connection.channel()
    await channel.queue_declare(QUEUE, durable=True)
    await connection.close()
    jobs = [EventSpec(id=f"job_{n}", tenant="-", type=QUEUE, body=b"x" * 100) for n in range(BACKLOG)]
    await publish(url, jobs, exchange="")


async def troubles_of_foreign(tower: Tower) -> frozenset[str]:
    """Return the names of the broker's rules that would be true now if they read the foreign job.

    :data:`PILE` is among them if Prometheus sees the whole backlog.
    """
    document = rules_document(GROUPS, AlertOptions(rabbitmq_job=FOREIGN))
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    queries = {rule["alert"]: rule["expr"] for rule in rules if f'job="{FOREIGN}"' in rule["expr"]}
    queries[PILE] = f'sum(rabbitmq_queue_messages_ready{{job="{FOREIGN}"}}) >= {BACKLOG}'
    return frozenset([name for name, expr in queries.items() if await asyncio.to_thread(tower.values, expr)])
