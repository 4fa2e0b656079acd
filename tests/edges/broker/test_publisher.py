"""The promises of every Publisher, tested on the real one with a broker and on the fake of the flow tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from yarl import URL

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.edges.broker.connection.connect import AmqpOptions, KeepAlive, underlay
from consumer.edges.broker.destinations import MOST
from consumer.edges.broker.publisher import ConfirmingPublisher, Naming
from consumer.flow.observe.observer import Observer
from consumer.ports import Publication
from metrics.series import Series
from tests.support.broker.publishers import (
    ADRIFT,
    ENTRY,
    HELLO,
    NAMES,
    ROOM,
    FakeWorld,
    RealWorld,
    Relay,
    World,
)
from tests.support.broker.topology import PATIENCE_S, SMALL, standing
from tests.support.fakes import RecordingLog
from tests.support.system.waiting import until
from topology.declare import declare


def real_publisher(url: str) -> ConfirmingPublisher:
    """A publisher that comes back quickly."""
    options = AmqpOptions(urls=(url,), reconnect_first_s=0.02, reconnect_max_s=0.1)
    observe = Observer(Series(CollectorRegistry()), RecordingLog())
    keep_alive = KeepAlive(options, "publish", observe, lambda: 0.5)
    return ConfirmingPublisher(options, keep_alive, Naming("test", NAMES), lambda: None)


@pytest_asyncio.fixture
async def real(vhost: str) -> AsyncIterator[RealWorld]:
    """Give the real publisher, connected."""
    async with AsyncExitStack() as stack:
        live = await stack.enter_async_context(standing(vhost, replace(SMALL, parked_max_length=ROOM)))
        address = URL(vhost)
        relay = Relay(address.host or "", address.port or 0)
        await relay.mend()
        publisher = real_publisher(str(address.with_port(relay.port)))
        task = asyncio.create_task(publisher.run())
        await asyncio.wait_for(publisher.relieved(), PATIENCE_S)
        yield RealWorld(live, relay, publisher)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await relay.cut()


@pytest.fixture(params=["real", "fake"])
def world(request: pytest.FixtureRequest) -> World:
    """Give each publisher in turn."""
    found: World = FakeWorld() if request.param == "fake" else request.getfixturevalue("real")
    return found


async def test_a_publish_returns_once_it_is_confirmed(world: World) -> None:
    """Body and headers arrive unchanged; nothing presses."""
    await world.publisher.publish(HELLO)

    assert [publication for publication, _ in await world.taken()] == [HELLO]
    assert world.publisher.pressed() is None


async def test_content_type_and_encoding_arrive_as_they_are(world: World) -> None:
    """A missing content type stays missing: bytes are not declared as JSON."""
    packed = replace(HELLO, content_type=None, content_encoding="gzip")
    await world.publisher.publish(packed)

    assert [publication for publication, _ in await world.taken()] == [packed]


async def test_every_publish_has_a_fresh_message_id(world: World) -> None:
    """Returns are matched by it; one that is given is kept."""
    for _ in range(3):
        await world.publisher.publish(HELLO)
    await world.publisher.publish(replace(HELLO, message_id="ord-7"))

    ids = [message_id for _, message_id in await world.taken()]
    assert all(ids)
    assert len(set(ids)) == 4
    assert ids[-1] == "ord-7"


async def test_many_at_once_are_all_confirmed(world: World) -> None:
    """Each call returns with its own confirm."""
    await asyncio.gather(*(world.publisher.publish(HELLO) for _ in range(300)))

    assert len(await world.taken()) == 300


async def test_a_body_is_published_in_pieces(world: World) -> None:
    """Fault 88: large ones arrive unchanged, beside small ones and beside one that comes back."""
    bodies = [bytes([number]) * size for number, size in enumerate((3_000_000, 10, 524_288, 0, 1_048_577))]
    large = [replace(HELLO, body=body) for body in bodies]
    adrift = replace(ADRIFT, body=bytes(2_000_000))

    answers = await asyncio.gather(
        *map(world.publisher.publish, [*large, adrift, *large]), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [*[type(None)] * 5, Unroutable, *[type(None)] * 5]
    assert [publication.body for publication, _ in await world.taken()] == [*bodies, *bodies]


async def test_a_message_that_no_queue_takes_is_unroutable(world: World) -> None:
    """A deleted or unbound queue is an error, not a loss; the next publish works (fault 64)."""
    with pytest.raises(Unroutable, match="no such rung"):
        await world.publisher.publish(ADRIFT)

    await world.publisher.publish(HELLO)


async def test_a_full_queue_refuses(world: World) -> None:
    """A queue at its length limit nacks; the next publish elsewhere works (fault 64)."""

    async def fill() -> int:
        for accepted in range(50):
            try:
                await world.publisher.publish(ENTRY)
            except Refused:
                return accepted
        return 50

    assert ROOM <= await fill() < 50
    await world.publisher.publish(HELLO)
    assert world.publisher.pressed() is None


async def test_errors_do_not_cross_between_publishes(world: World) -> None:
    """Mixed at the same time, each call has its own answer."""
    publications = [HELLO, ADRIFT] * 50

    answers = await asyncio.gather(*map(world.publisher.publish, publications), return_exceptions=True)

    assert [type(answer) for answer in answers] == [type(None), Unroutable] * 50


async def test_equal_ids_do_not_cross_either(world: World) -> None:
    """Messages with the same id, as two tenants' events may have, get an answer each: a returned one is never
    confirmed, and a confirmed one is there (fault 64).
    """
    alike = [replace(one, message_id="17") for one in [ADRIFT, ADRIFT, HELLO] * 20]

    answers = await asyncio.gather(*map(world.publisher.publish, alike), return_exceptions=True)

    assert [type(answer) for answer in answers] == [Unroutable, Unroutable, type(None)] * 20
    assert len(await world.taken()) == 20


async def test_without_a_connection_it_is_unavailable_and_works_again_after(world: World) -> None:
    """Cut off: reports it, starts nothing, raises at once; mended: works without a restart (59, 60)."""
    await world.publisher.publish(HELLO)
    await world.cut()

    assert world.publisher.pressed()
    with pytest.raises(BrokerUnavailable) as caught:
        await asyncio.wait_for(world.publisher.publish(HELLO), 5)
    assert type(caught.value) is BrokerUnavailable

    await world.mend()
    assert world.publisher.pressed() is None
    await world.publisher.publish(HELLO)
    assert len(await world.taken()) == 2


# the real one alone


async def test_only_our_headers_are_on_the_wire(real: RealWorld) -> None:
    """Persistent, our headers, content type and id; nothing that changes a message's way (fault 18)."""
    await real.publisher.publish(HELLO)

    [message] = await real.messages()
    properties: Any = message.properties
    given = {name: getattr(properties, name) for name in properties.attributes()}
    assert given["delivery_mode"] == 2
    assert {name for name, value in given.items() if value} == {
        *("content_type", "headers", "delivery_mode", "message_id"),
    }
    assert set(message.headers) - {"x-delivery-count"} == set(HELLO.headers)


async def test_before_the_first_connection_it_is_unavailable(vhost: str) -> None:
    """A daemon that starts before its broker has an error of ours, not a crash."""
    publisher = real_publisher(vhost)

    assert publisher.pressed() == "not connected yet"
    with pytest.raises(BrokerUnavailable):
        await publisher.publish(HELLO)


async def test_publishes_in_flight_at_a_broken_connection_are_unavailable(real: RealWorld) -> None:
    """Every unconfirmed publish raises an error of ours: none hangs, none seems confirmed (fault 65)."""
    started: list[Awaitable[None]] = [
        asyncio.ensure_future(real.publisher.publish(HELLO)) for _ in range(200)
    ]
    await asyncio.sleep(0)
    await real.cut()

    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*started, return_exceptions=True)

    failed = [answer for answer in answers if answer is not None]
    assert failed
    assert all(type(answer) is BrokerUnavailable for answer in failed)
    confirmed = len(answers) - len(failed)
    assert len(await real.messages()) >= confirmed


async def test_a_block_that_ends_with_the_connection_holds_nothing(real: RealWorld) -> None:
    """Fault 96: publishes that wait for a spare channel meanwhile fail, and the next ones open theirs."""
    connection = real.real._connection
    assert connection is not None
    underlay(connection).connected.clear()
    started = [asyncio.ensure_future(real.publisher.publish(HELLO)) for _ in range(2 * MOST)]
    await asyncio.wait(started, timeout=0.2)
    assert not all(one.done() for one in started)
    await real.cut()
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*started, return_exceptions=True)
    assert {type(answer) for answer in answers} <= {BrokerUnavailable, type(None)}
    assert BrokerUnavailable in map(type, answers)

    await real.mend()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(real.publisher.publish(HELLO) for _ in range(4 * MOST)))


async def test_a_cut_while_channels_open_is_unavailable(real: RealWorld) -> None:
    """The library cancels calls on a connection that closes; no publish ends cancelled for it."""
    for turns in range(16):
        started = [asyncio.ensure_future(real.publisher.publish(HELLO)) for _ in range(4 * MOST)]
        for _ in range(turns):
            await asyncio.sleep(0)
        connection = real.real._connection
        assert connection is not None
        underlay(connection)._reader_task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*started, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {BrokerUnavailable, type(None)}
        await asyncio.wait_for(real.real.relieved(), PATIENCE_S)
        await until(lambda: real.real._connection not in (None, connection))  # noqa: B023 (as above)


async def test_a_missing_exchange_closes_one_channel_and_heals(real: RealWorld) -> None:
    """The broker closes the channel (404): unavailable, and the next publishes work again (fault 61)."""
    with pytest.raises(BrokerUnavailable):
        await real.publisher.publish(replace(HELLO, exchange="no such exchange"))

    async with asyncio.timeout(PATIENCE_S):
        while not await real.messages():
            with suppress(BrokerUnavailable):
                await real.publisher.publish(HELLO)
            await real.real.relieved()


@pytest.mark.parametrize("exchange", [NAMES.ops, NAMES.control])
async def test_optional_messages_never_close_the_publishing_channel(real: RealWorld, exchange: str) -> None:
    """Without `leveret.ops` its channel alone closes, with a pause; it heals by itself."""
    told: list[str | None] = []
    real.real.pressure.add(told.append)
    missing = replace(HELLO, exchange=exchange, mandatory=False)
    await real.live.channel.exchange_delete(exchange)

    for _ in range(20):
        with pytest.raises(BrokerUnavailable):
            await real.publisher.publish(missing)
        await real.publisher.publish(HELLO)

    assert (told, len(await real.messages())) == ([], 20)
    assert real.real.exchange_channels.suspects(exchange)
    await declare(real.live.plan, real.live.connection)
    real.real.exchange_channels.look_again()
    await real.publisher.publish(missing)
    assert not real.real.exchange_channels.suspects(exchange)


async def refused(real: RealWorld, publication: Publication) -> BrokerUnavailable:
    """Return why a publication is not taken."""
    with pytest.raises(BrokerUnavailable) as raised:
        await real.publisher.publish(publication)
    return raised.value


async def test_an_exchange_that_is_missing_closes_the_channel_once(real: RealWorld) -> None:
    """Its messages wait, and a channel of its own tries it until it is back."""
    told: list[str | None] = []
    real.real.pressure.add(told.append)
    adrift = replace(HELLO, exchange="gone", mandatory=True)
    for _ in range(20):
        with pytest.raises(BrokerUnavailable):
            await real.publisher.publish(adrift)
        await asyncio.wait_for(real.real.relieved(), PATIENCE_S)
        await real.publisher.publish(HELLO)

    assert [reason is None for reason in told] == [False, True]
    gone = await real.live.channel.declare_exchange("gone", durable=False)
    real.real.exchange_channels.look_again()
    assert type(await refused(real, adrift)) is Unroutable  # it is there, with no queue
    assert not real.real.exchange_channels.suspects(gone.name)


async def test_pressure_is_reported_when_it_begins_and_ends(real: RealWorld) -> None:
    """Once each, with the reason: the intake stops and starts by it (fault 63)."""
    told: list[str | None] = []
    real.real.pressure.add(told.append)

    await real.cut()
    await real.mend()

    assert [reason is None for reason in told] == [False, True]


async def test_a_cancelled_publish_lets_the_next_with_its_id_go_on(real: RealWorld) -> None:
    """Neither hangs, and a publish that was cut off while it waited for its turn delays no other (65)."""
    alike = replace(HELLO, message_id="17")
    tasks = [asyncio.create_task(real.publisher.publish(alike)) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()

    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*tasks, return_exceptions=True)

    kinds = [type(answer) for answer in answers]
    assert kinds == [type(None), asyncio.CancelledError, asyncio.CancelledError, type(None)]


async def test_a_cancelled_publish_is_cancelled(real: RealWorld) -> None:
    """Our own cancellation passes; it is not taken for a lost channel."""
    task = asyncio.create_task(real.publisher.publish(HELLO))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await real.publisher.publish(HELLO)
