"""Several workers between fakes that agree over one control exchange, which may lose their messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import orjson

from consumer.core.endpoint.health import Failing
from consumer.core.subscription.subscription import Subscription
from consumer.flow.endpoints.agreement import Agreement
from tests.support.fakes import Published, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import NAMES, Worker, event_message

URL = "https://shop.example/"


BREAKER = {"failures": 5, "cooldown_s": 30}


HOUR = 3600.0


class Crew:
    """Some workers on one control exchange.

    Attributes:
        lost: Returns True for a message from worker i to worker j (0-based) that is lost.
    """

    def __init__(self, count: int) -> None:
        self.workers = [Worker() for _ in range(count)]
        self.talks = [
            Agreement(w.context, w.subscriptions, w.endpoints, f"w{i}") for i, w in enumerate(self.workers)
        ]
        self.shops: list[Subscription] = []
        self.lost: Callable[[int, int], bool] = lambda _from, _to: False
        self.listening = set(range(count))
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def begin(self, index: int) -> None:
        """Let one worker take part."""
        worker = self.workers[index]
        [shop] = await worker.subscribe_all("shop", breaker=dict(BREAKER))
        self.shops.append(shop)
        worker.publisher.on_confirmed = partial(self._pass_on, index)
        self._tasks[index] = asyncio.create_task(self.talks[index].run())
        self.talks[index].listening()
        await settled()

    async def end(self, index: int) -> None:
        """Kill one worker: it publishes nothing more."""
        task = self._tasks.pop(index)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def end_all(self) -> None:
        """Kill all."""
        for index in list(self._tasks):
            await self.end(index)

    def states(self) -> list[str]:
        """Return the state of the endpoint at each worker."""
        return [w.endpoint(s).state for w, s in zip(self.workers, self.shops, strict=False)]

    def epochs(self) -> set[int]:
        """Return the epochs of the breaker at all workers."""
        return {w.endpoint(s).breaker.epoch for w, s in zip(self.workers, self.shops, strict=False)}

    def sent(self) -> int:
        """Count the requests of all workers."""
        return sum(w.sent("shop") for w in self.workers)

    async def fail(self, index: int) -> None:
        """Let one worker fail until its breaker opens."""
        worker, number = self.workers[index], 0
        while worker.endpoint(self.shops[index]).state == "closed":
            number += 1
            await worker.handle(event_message(message_id=f"fail-{index}-{number}"))

    def _pass_on(self, index: int, published: Published) -> None:
        if published.publication.exchange != NAMES.control:
            return
        message = orjson.loads(published.publication.body)
        for other, talk in enumerate(self.talks):
            if other in self._tasks and not self.lost(index, other):
                talk.receive(message)


@asynccontextmanager
async def crew(count: int = 4, begun: int | None = None) -> AsyncIterator[Crew]:
    """Run *begun* of *count* workers whose endpoint is down."""
    made = Crew(count)
    for worker in made.workers:
        worker.sender.on(URL, Reply(status=503))
    try:
        for index in range(count if begun is None else begun):
            await made.begin(index)
        yield made
    finally:
        await made.end_all()


def share(worker: Worker) -> int:
    """Return how many workers it counts."""
    return int(worker.count("workers"))


async def fail_after(crew: Crew, index: int, hours: float) -> None:
    """Let hours pass on every clock, and one worker fail once."""
    for worker in crew.workers:
        worker.clock.passed_s += hours * HOUR
    worker = crew.workers[index]
    await worker.handle(event_message(message_id=f"hour-{worker.clock.now()}"))
    await settled()


def failings(crew: Crew) -> list[Failing | None]:
    """Return the failures that each worker remembers of the endpoint."""
    return [w.endpoint(s).health.failing for w, s in zip(crew.workers, crew.shops, strict=True)]
