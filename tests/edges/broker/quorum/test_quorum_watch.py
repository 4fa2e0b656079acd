"""Fault 98: queues are asked for a confirm while nothing is published, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from consumer.core.errors import BrokerUnavailable
from consumer.core.returns.check_headers import check_of, is_only_check
from consumer.edges.broker.connection.quorum_watch import ASKED, LOOK_S, QUIET_S, QuorumWatch
from consumer.ports import Publication
from consumer.tasks import end
from tests.support.broker.topology import SMALL

SLOW_S = 5.0
LOST_S = 60.0
NAMES = SMALL.names


@dataclass
class Queues:
    """Four due queues, of which some confirm nothing; a publish is given up after a minute."""

    silent: set[str] = field(default_factory=set)
    published: list[Publication] = field(default_factory=list)
    confirmed_at: float = 0.0
    consumed: bool = True

    def __post_init__(self) -> None:
        self.names = [NAMES.due_queue(index) for index in range(4)]
        self.watch = QuorumWatch(NAMES, self.publish, lambda: self.confirmed_at)

    async def publish(self, publication: Publication) -> None:
        """Confirm once the queue does."""
        self.published.append(publication)
        loop = asyncio.get_running_loop()
        given_up_at = loop.time() + LOST_S
        while publication.routing_key.partition(".")[2] in self.silent:
            if loop.time() >= given_up_at:
                raise BrokerUnavailable("not confirmed")
            await asyncio.sleep(0.1)
        self.confirmed_at = loop.time()

    def is_lost(self) -> bool:
        """Return the judgement now."""
        return self.watch.is_lost(asyncio.get_running_loop().time(), SLOW_S)


@asynccontextmanager
async def watched() -> AsyncIterator[Queues]:
    """Watch the quorum of four queues."""
    queues = Queues(confirmed_at=asyncio.get_running_loop().time())
    running = asyncio.create_task(queues.watch.run(queues.names, lambda: queues.consumed))
    try:
        yield queues
    finally:
        await end([running])


async def test_a_quiet_worker_asks_now_and_then() -> None:
    """Each queue in turn gets a message that is only a check, without a number to report."""
    async with watched() as queues:
        await asyncio.sleep(QUIET_S - LOOK_S)
        assert queues.published == []
        await asyncio.sleep(60)

        assert not queues.is_lost()
        assert len(queues.published) <= ASKED * 60 / QUIET_S
        assert {one.routing_key for one in queues.published} == {NAMES.wait_key(0, q) for q in queues.names}
        assert all(is_only_check(one.headers) and check_of(one.headers) is None for one in queues.published)
        assert {(one.exchange, one.mandatory) for one in queues.published} == {(NAMES.due, True)}


async def test_a_busy_worker_asks_nothing() -> None:
    """Its own publishes prove the quorum."""
    async with watched() as queues:
        for _ in range(100):
            queues.confirmed_at = asyncio.get_running_loop().time()
            await asyncio.sleep(QUIET_S / 2)

        assert queues.published == []


async def test_nothing_is_put_into_queues_that_this_worker_does_not_consume() -> None:
    """The checks would gather there."""
    async with watched() as queues:
        queues.consumed = False
        await asyncio.sleep(600)

        assert queues.published == []


@pytest.mark.parametrize("away_s", [20.0, 200.0])
async def test_a_lost_quorum_is_seen_until_it_is_back(away_s: float) -> None:
    """Also when questions are given up meanwhile, and when the consumption ended because of the loss."""
    async with watched() as queues:
        queues.silent.update(queues.names)
        await asyncio.sleep(QUIET_S + 2 * LOOK_S + SLOW_S)
        queues.consumed = False
        for _ in range(int(away_s)):
            assert queues.is_lost()
            await asyncio.sleep(1)

        queues.silent.clear()
        await asyncio.sleep(2 * LOOK_S)
        assert not queues.is_lost()
        asked = len(queues.published)
        await asyncio.sleep(60)
        assert len(queues.published) == asked


async def test_single_stuck_queues_are_no_lost_quorum() -> None:
    """One confirm is enough."""
    async with watched() as queues:
        queues.silent.update(queues.names[:2])
        for _ in range(200):
            await asyncio.sleep(1)
            assert not queues.is_lost()


async def test_a_new_connection_begins_without_a_doubt() -> None:
    """It may lead to a node that has a quorum; queues are asked again at once."""
    async with watched() as queues:
        queues.silent.update(queues.names)
        await asyncio.sleep(QUIET_S + 2 * LOOK_S + SLOW_S)
        assert queues.is_lost()

        queues.watch.forget()

        assert not queues.is_lost()
