"""The record of the store on a real broker: one message, for all readers and over restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import aio_pika
import pytest
import pytest_asyncio

from consumer.core.errors import BrokerUnavailable
from consumer.core.store.lineage import Generation
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.connection.current import CurrentConnection
from consumer.edges.broker.store_record import LOOKS_MAX, BrokerStoreRecord
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication
from topology.declare import declare
from topology.names import Names
from topology.plan import TopologySpec, build_plan

NAMES = Names()
A, B = Generation("a", 1, "1"), Generation("b", 2, "2")


def keep(_record: Generation | None, _messages: int) -> None:
    """Record nothing."""


class Workers:
    """Records over connections of their own, as several workers have them."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def another(self, on_missing: Callable[[], None] | None = lambda: None) -> BrokerStoreRecord:
        """Return the record as one more worker sees it; without *on_missing* that one declares nothing."""
        connection = await self._stack.enter_async_context(await aio_pika.connect(self._url))
        confirms = Confirms(await open_channel(connection, confirms=True))

        async def publish(publication: Publication) -> None:
            await confirms.publish(publication, uuid.uuid4().hex)

        return BrokerStoreRecord(CurrentConnection(connection), NAMES, [NAMES.lane(0)], publish, on_missing)

    async def count(self) -> int:
        """Return how many messages are ready in the record's queue."""
        connection = await aio_pika.connect(self._url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(NAMES.store, passive=True)
            return int(queue.declaration_result.message_count or 0)


@pytest_asyncio.fixture(params=["quorum", "classic"])
async def workers(request: pytest.FixtureRequest, vhost: str) -> AsyncIterator[Workers]:
    """A vhost with a small topology."""
    spec = TopologySpec(queue_type=request.param, lanes=1, due_queues=1, spill_queues=0, rungs_s=(1.0,))
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await aio_pika.connect(vhost))
        await declare(build_plan(spec), connection)
        yield Workers(vhost, stack)


async def test_nothing_is_recorded_at_first(workers: Workers) -> None:
    """The number of messages on the broker comes with it: an empty store may not pass beside them."""
    record = await workers.another()
    seen: list[tuple[Generation | None, int]] = []

    assert await record.settle(lambda found, count: seen.append((found, count))) is None
    assert seen == [(None, 0)]


async def test_the_newest_is_seen_by_all(workers: Workers) -> None:
    """Fault 81: written by one, read by another, replaced, and never two."""
    one, two = await workers.another(), await workers.another()

    assert await one.settle(lambda _record, _count: A) == A
    assert await two.settle(keep) == A
    assert await two.settle(lambda record, _count: B if record == A else None) == B
    assert [await each.settle(keep) for each in (one, two, await workers.another())] == [B, B, B]
    assert await workers.count() == 1


async def test_workers_take_turns(workers: Workers) -> None:
    """Fault 81: of two that begin together on an empty record one adopts, and the other sees it."""
    crew = [await workers.another() for _ in range(4)]

    found = await asyncio.gather(
        *(
            each.settle(lambda record, _count, n=n: Generation(f"s{n}", 1, "1") if record is None else None)  # type: ignore[misc]  # the number is bound early
            for n, each in enumerate(crew)
        )
    )

    assert len(set(found)) == 1
    assert await workers.count() == 1


async def test_a_hundred_looks_change_nothing(workers: Workers) -> None:
    """It is consumed and given back each time; a message that was looked at often is published anew."""
    record = await workers.another()
    await record.settle(lambda _record, _count: A)

    for _ in range(100):
        assert await record.settle(keep) == A

    assert await workers.count() == 1
    assert TopologySpec().browse_limit > LOOKS_MAX


async def test_a_worker_without_rights_to_declare_reads_and_writes(workers: Workers) -> None:
    """`run --no-declare`: without turns, and with the same message."""
    bare, other = await workers.another(None), await workers.another()

    assert await bare.settle(lambda _record, _count: A) == A
    assert await other.settle(keep) == A
    assert await bare.settle(keep) == A


@pytest.mark.parametrize("may_declare", [True, False])
async def test_a_record_that_somebody_else_holds_is_no_empty_one(
    workers: Workers, *, may_declare: bool
) -> None:
    """Fault 81: a stranger's consumer has it; a worker with another store may not take its place."""
    record = await workers.another((lambda: None) if may_declare else None)
    await record.settle(lambda _record, _count: A)
    connection = await aio_pika.connect(workers._url)
    async with connection:
        queue = await (await connection.channel()).get_queue(NAMES.store)
        held: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        tag = await queue.consume(held.put)
        message = await held.get()

        with pytest.raises(BrokerUnavailable, match="another consumer"):
            await record.settle(lambda _record, _count: B)
        await queue.cancel(tag)
        await message.nack(requeue=True)

    assert await record.settle(keep) == A


async def test_without_the_queue(workers: Workers) -> None:
    """A worker that may declare asks for it; one that may not goes on without, and logs nothing else."""
    connection = await aio_pika.connect(workers._url)
    async with connection:
        await (await connection.channel()).queue_delete(NAMES.store)
    asked: list[bool] = []
    record, bare = await workers.another(lambda: asked.append(True)), await workers.another(None)

    with pytest.raises(BrokerUnavailable, match=NAMES.store):
        await record.settle(keep)
    assert asked == [True]
    assert await bare.settle(lambda _record, _count: A) is None


async def test_without_a_connection() -> None:
    """The answer is unknown."""

    async def publish(_publication: Publication) -> None:
        raise AssertionError("nothing is recorded")

    record = BrokerStoreRecord(CurrentConnection(), NAMES, [], publish, None)

    with pytest.raises(BrokerUnavailable, match="no connection"):
        await record.settle(keep)
