"""Notice a lost quorum while nothing is published: ask some queues for a confirm.

Data flow: no confirm for :data:`QUIET_S` -> a message of only a check into some due queues -> its confirm, or
none -> :meth:`QuorumWatch.is_lost` -> back-pressure, and with it readiness.

Only a write proves a quorum: a leader without followers still answers a passive declaration. The consumers of
due queues ack messages of only a check, so nothing is delivered and nothing remains. The check has no number,
so no worker reports it.

Source: RabbitMQ "Quorum Queues" (an operation is confirmed once a majority of members has written it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import Final

from consumer.core.errors import BrokerUnavailable
from consumer.core.returns.check_headers import unnumbered_check_headers
from consumer.ports import Publication
from consumer.tasks import end
from topology.names import Names

QUIET_S: Final = 5.0  #: time without a confirm after which some queues are asked
LOOK_S: Final = 1.0
ASKED: Final = 3  #: queues that are asked together; one that is stuck for itself proves nothing


class QuorumWatch:
    """Asks for confirms, and judges by them and by those of all other publishes."""

    def __init__(
        self,
        names: Names,
        publish: Callable[[Publication], Awaitable[None]],
        confirmed_at: Callable[[], float],
    ) -> None:
        """Begin without a doubt.

        Args:
            names: Of our exchanges and queues.
            publish: Publishes a message and returns after its confirm.
            confirmed_at: Returns the loop time of the last confirm of any publish to a queue.
        """
        self._names = names
        self._publish = publish
        self._confirmed_at = confirmed_at
        self._asked_at: float | None = None  #: loop time of the first question since the last confirm

    async def run(self, due_queues: Sequence[str], is_consumed: Callable[[], bool]) -> None:
        """Ask whenever nothing was confirmed for a while, until cancelled.

        Args:
            due_queues: Names of the queues to ask, in turn.
            is_consumed: Returns whether this worker takes the messages of due queues now. Otherwise they
                would gather there, so only a doubt that began earlier is pursued.
        """
        loop, queues, asked = asyncio.get_running_loop(), cycle(due_queues), dict[str, asyncio.Task[None]]()
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if self._doubts() or (is_consumed() and loop.time() - self._confirmed_at() >= QUIET_S):
                    self._ask(loop.time(), islice(queues, min(ASKED, len(due_queues))), asked)
        finally:
            await end(list(asked.values()))

    def is_lost(self, now: float, limit_s: float) -> bool:
        """Return whether the queues were asked over *limit_s* ago, and none has confirmed anything since.

        Args:
            now: Loop time.
            limit_s: Seconds that a confirm may take.
        """
        return self._asked_at is not None and self._doubts() and now - self._asked_at > limit_s

    def forget(self) -> None:
        """Forget the questions, as their connection is gone."""
        self._asked_at = None

    def _doubts(self) -> bool:
        return self._asked_at is not None and self._confirmed_at() < self._asked_at

    def _ask(self, now: float, queues: Iterable[str], asked: dict[str, asyncio.Task[None]]) -> None:
        """Begin to publish to some queues, unless they were *asked* and have not answered yet."""
        if not self._doubts():
            self._asked_at = now
        for queue in queues:
            if queue not in asked or asked[queue].done():
                asked[queue] = asyncio.create_task(self._ask_one(queue), name="quorum question")

    async def _ask_one(self, queue: str) -> None:
        check = Publication(
            exchange=self._names.due,
            routing_key=self._names.wait_key(0, queue),
            body=b"",
            headers=unnumbered_check_headers(),
        )
        with suppress(BrokerUnavailable):  # without a confirm, for whatever reason
            await self._publish(check)
