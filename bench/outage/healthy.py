"""Nine healthy endpoints beside which something is wrong, and how soon their webhooks come.

Data flow: :func:`standing` -> subscriptions of the nine, and of a leg -> :meth:`Stand.leg` -> latencies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.broker import Broker
from bench.outage.steady import all_latencies_ms, publish_steadily
from bench.prove import Bench
from bench.sink import Sink
from tests.support.broker.load import EventSpec
from tests.support.processes.daemon import Daemon, subscription

HEALTHY = [f"well{n}" for n in range(9)]


@dataclass(frozen=True, slots=True)
class Stand:
    """A daemon that delivers to the nine."""

    broker_url: str
    sink: Sink
    daemon: Daemon
    subscriptions: Sequence[Mapping[str, object]]  #: of the nine, each for ``leg.<its name>``

    async def leg(self, events: Sequence[EventSpec], per_s: float, wanted: int) -> list[float]:
        """Publish *events*; return the latencies of *wanted* webhooks to the nine, milliseconds, ascending.

        Fewer when they did not all come. Deliveries that still wait afterwards are cancelled.
        """
        handed = await publish_steadily(self.broker_url, events, per_s)
        found = await all_latencies_ms(self.sink, handed, HEALTHY, wanted)
        await self.daemon.cli("waiting", "cancel", "--tenant", "t00", "--yes")
        return found


@asynccontextmanager
async def standing(bench: Bench, others: Mapping[str, str]) -> AsyncIterator[Stand]:
    """Run a broker, a daemon that knows the nine, and endpoints: the nine, and *others* with their paths."""
    targets = {name: f"/ok/{name}" for name in HEALTHY} | dict(others)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, targets) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        healthy = [subscription(name, sink.url(name), events=[f"leg.{name}"]) for name in HEALTHY]
        await daemon.subscribe(healthy)
        await daemon.start()
        yield Stand(broker.url, sink, daemon, healthy)
