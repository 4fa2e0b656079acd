"""The tickets of a window on a real broker, and their facts about the messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from aiormq.channel import Channel
from prometheus_client import CollectorRegistry

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.broker_ports import BrokerOptions, BrokerPorts
from consumer.edges.broker.connection.connect import AmqpOptions, underlay
from consumer.edges.broker.consume import windows as windows_module
from consumer.edges.broker.consume.prefetch import windows
from consumer.edges.broker.consume.windows import Window, WindowReader
from consumer.edges.broker.edge import BrokerEdge, EdgeOptions
from consumer.flow.observe.observer import Observer
from consumer.ports import Incoming, Publication, Source
from consumer.settings import Settings, load_settings
from consumer.tasks import end
from metrics.series import Series
from tests.support.broker.reading import Listener, reading
from tests.support.broker.topology import PATIENCE_S, SMALL, Live, connected, standing
from tests.support.fakes import RecordingLog
from topology.plan import QueueType, build_plan

LANES = (SMALL.names.lane(0), SMALL.names.lane(1))
SUSPECT = SMALL.names.suspect


async def test_a_deleted_queue_leaves_its_messages_to_us_and_gives_the_others_out_again(vhost: str) -> None:
    """Faults 62, 67: the channel closes; messages of the deleted queue are ours alone, the others not."""
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    reader = WindowReader(
        Window(source=Source.LANE, queues=LANES, prefetch=10),
        Observer(Series(CollectorRegistry()), RecordingLog()),
        lambda _source, incoming: taken.put_nowait(incoming),
        lambda: None,
        lambda: True,
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        for lane in LANES:
            await live.publish("", lane)
        first = {(one := await taken.get()).message.queue: one for _ in LANES}
        assert all(incoming.ticket.alive() for incoming in first.values())

        await live.channel.queue_delete(LANES[0])

        while first[LANES[1]].ticket.alive():  # noqa: ASYNC110  a ticket tells its state by a call only
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert first[LANES[0]].ticket.alive()


@pytest.mark.parametrize(("queue_type", "counts"), [("quorum", [0, 1]), ("classic", [0, 0])])
async def test_a_forged_count_of_returns_is_never_believed(
    vhost: str, queue_type: QueueType, counts: list[int]
) -> None:
    """Fault 89: a quorum queue replaces a producer's ``x-delivery-count``; a classic one leaves it alone."""
    spec = replace(SMALL, queue_type=queue_type)
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    [lane] = [window for window in windows(_settings(queue_type)) if window.source is Source.LANE]
    reader = WindowReader(
        replace(lane, queues=LANES, room_bytes=None),  # to consume anew may return the message once more
        _observer(),
        lambda _source, incoming: taken.put_nowait(incoming),
        lambda: None,
        lambda: True,
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, spec) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        await live.publish(spec.names.events, "a.b", headers={"tenant": "t", "x-delivery-count": 99})
        first = await taken.get()
        await first.ticket.requeue()
        again = await taken.get()
        await again.ticket.ack()
        await reader.flush()
        await end([running])

    assert [first.message.delivery_count, again.message.delivery_count] == counts


async def test_a_message_that_the_flow_cannot_take_comes_again(vhost: str) -> None:
    """A bug of ours rejects one message: the connection, and the messages behind it, go on."""
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    failures = [ValueError("a bug")]

    def take(_source: Source, incoming: Incoming) -> None:
        if failures and incoming.message.body == b"1":
            raise failures.pop()
        taken.put_nowait(incoming)

    reader = WindowReader(
        Window(source=Source.LANE, queues=LANES, prefetch=10), _observer(), take, lambda: None, lambda: True
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        for body in (b"1", b"2"):
            await live.publish("", LANES[0], body)
        both = [await taken.get() for _ in range(2)]
        for incoming in both:
            await incoming.ticket.ack()
        await reader.flush()
        assert not underlay(connection).is_closed
        await end([running])

    assert failures == []
    assert sorted(one.message.body for one in both) == [b"1", b"2"]
    assert {one.message.body: one.message.redelivered for one in both} == {b"1": True, b"2": False}


def _settings(queue_type: str) -> Settings:
    return load_settings({"LEVERET_TOPOLOGY__QUEUE_TYPE": queue_type})


def _observer() -> Observer:
    return Observer(Series(CollectorRegistry()), RecordingLog())


async def standing_in(live: Live, queue: str) -> tuple[int, int]:
    """Return how many messages of a queue are ready, and how many consumers it has."""
    found = (await live.channel.declare_queue(queue, passive=True)).declaration_result
    return found.message_count or 0, found.consumer_count or 0


async def left_off(live: Live, queue: str) -> None:
    """Return once a queue has no consumer; one that still has a message of it counts."""
    while (await standing_in(live, queue))[1]:  # noqa: ASYNC110  the broker tells when asked
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("call", ["queue_declare", "basic_qos", "basic_consume"])
async def test_a_call_without_an_answer_costs_the_channel_alone(
    vhost: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Fault 60: the window is opened anew, on the same connection."""
    answered, call_s = getattr(Channel, call), windows_module.CALL_S

    async def silent(channel: Channel, *given: object, **named: object) -> object:
        monkeypatch.setattr(Channel, call, answered)
        monkeypatch.setattr(windows_module, "CALL_S", 0.1)  # of this call alone
        try:
            return await asyncio.Event().wait()
        finally:
            monkeypatch.setattr(windows_module, "CALL_S", call_s)

    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live:
        await live.publish("", LANES[0])
        monkeypatch.setattr(Channel, call, silent)
        async with reading(vhost, LANES) as window:
            await (await window.taken.get()).ticket.ack()
            assert not underlay(window.connection).is_closed

    [failed] = window.log.events("window.failed")
    assert failed["detail"] == "the broker does not answer"


async def test_the_last_wish_is_done_and_a_window_of_one_has_one(vhost: str) -> None:
    """Fault 70: a window that stops and starts at once consumes; no message comes beside one in hand."""
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    wanted = asyncio.Event()
    reader = WindowReader(
        Window(source=Source.SUSPECT, queues=(SUSPECT,), prefetch=1),
        Observer(Series(CollectorRegistry()), RecordingLog()),
        lambda _source, incoming: taken.put_nowait(incoming),
        lambda: None,
        wanted.is_set,
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        for body in (b"1", b"2", b"3"):
            await live.publish("", SUSPECT, body)
        assert await standing_in(live, SUSPECT) == (3, 0)

        wanted.set()
        await reader.follow()
        first = await taken.get()
        wanted.clear()
        leaving = asyncio.create_task(reader.follow())
        await asyncio.sleep(0)
        wanted.set()
        await asyncio.gather(leaving, reader.follow())
        ready, _ = await standing_in(live, SUSPECT)
        said = [reader.consuming]
        await first.ticket.ack()
        second = await taken.get()
        await second.ticket.ack()
        third = await taken.get()
        wanted.clear()
        await reader.follow()
        await third.ticket.ack()
        await left_off(live, SUSPECT)
        await live.publish("", SUSPECT, b"4")
        assert await standing_in(live, SUSPECT) == (1, 0)
        said.append(reader.consuming)
        await end([running])

    assert [one.message.body for one in (first, second, third)] == [b"1", b"2", b"3"]
    assert (ready, said) == (2, [True, False])
    assert taken.empty()


async def test_a_message_whose_hand_over_breaks_comes_again(vhost: str) -> None:
    """Fault 98: it is given back as a failed one, and a window of one message goes on."""
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    bugs, log = [RuntimeError("a bug")], RecordingLog()

    def take(_source: Source, incoming: Incoming) -> None:
        if bugs:
            raise bugs.pop()
        taken.put_nowait(incoming)

    reader = WindowReader(
        Window(source=Source.SUSPECT, queues=(SUSPECT,), prefetch=1),
        Observer(Series(CollectorRegistry()), log),
        take,
        lambda: None,
        lambda: True,
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        await live.publish("", SUSPECT, b"1")

        again = await taken.get()
        assert (again.message.body, again.message.redelivered) == (b"1", True)
        assert len(log.events("task.failed")) == 1
        await again.ticket.ack()
        await end([running])


async def test_suspect_rests_while_nothing_is_started(vhost: str) -> None:
    """Faults 63, 70: under back-pressure none is taken that a stop would give back; fresh events are."""
    windows = (
        Window(source=Source.LANE, queues=LANES, prefetch=10),
        Window(source=Source.SUSPECT, queues=(SUSPECT,), prefetch=1),
    )
    never_s = 10 * PATIENCE_S  # until the publishing channel is opened anew
    amqp = AmqpOptions(urls=(vhost,), reconnect_first_s=never_s, reconnect_max_s=never_s)
    listener, observe = Listener(), _observer()
    ports = BrokerPorts(BrokerOptions(amqp=amqp, plan=build_plan(SMALL), instance="test"), observe)
    edge = BrokerEdge(EdgeOptions(windows=windows, control=None), ports, listener, observe)
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live:
        running = asyncio.create_task(edge.run())
        while edge.unready() is not None:  # noqa: ASYNC110  the edge tells its state by a call only
            await asyncio.sleep(0.01)
        assert (await standing_in(live, SUSPECT), listener.reliefs) == ((0, 1), 1)

        with pytest.raises(BrokerUnavailable):
            await ports.publisher.publish(Publication(exchange="none", routing_key="", body=b""))
        await left_off(live, SUSPECT)
        await live.publish("", SUSPECT)
        await live.publish("", LANES[0])
        source, _ = await listener.taken.get()
        resting = await standing_in(live, SUSPECT)
        told = edge.unready()
        await end([running])

    assert (source, listener.taken.empty(), resting) == (Source.LANE, True, (1, 0))
    assert told is not None
    assert "publishing channel" in told
