"""Each version of the broker, played by a fake: the plan is declared, events flow, nothing is refused."""

from __future__ import annotations

import asyncio

import pytest
from pamqp.commands import Basic, Queue

from consumer.core.errors import TopologyMismatch
from consumer.ports import Publication
from tests.support.broker.behaviour import ALL, V4_0, V4_2, V4_2_6, V4_3_0, V4_3_1, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.topology import PATIENCE_S, SMALL
from tests.support.broker.whole_edge import built, edge_on
from tests.support.servers.raw_server import eventually
from topology.permissions import permissions

NAMES = SMALL.names


@pytest.mark.parametrize("behaviour", ALL, ids=lambda each: each.version)
async def test_events_flow_on_every_version(behaviour: Behaviour) -> None:
    """Topology, windows, confirms and acks; no global QoS and no transient queue is ever asked for."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker, edge_on(broker.url) as started:
        edge, listener, ports = started
        await eventually(lambda: edge.unready() is None)

        await ports.publisher.publish(
            Publication(exchange=NAMES.events, routing_key="a.b", body=b"1" * 300_000)
        )
        _, incoming = await listener.taken.get()
        await incoming.ticket.ack()
        await edge.flush()

        assert len(incoming.message.body) == 300_000
        await eventually(lambda: not any(channel.unacked for channel in broker.channels()))
        assert [text for text in broker.refusals if not text.startswith("404")] == []
        assert not any(isinstance(frame, Basic.Qos) and frame.global_ for frame in broker.seen)


@pytest.mark.parametrize("behaviour", [V4_0, V4_2, V4_3_1, V4_3_7], ids=lambda each: each.version)
async def test_the_printed_rights_are_enough_without_the_configure_right(behaviour: Behaviour) -> None:
    """``run --no-declare``: from 4.3.1 on, to look whether a queue exists needs a right on it."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        async with edge_on(broker.url) as (edge, _, _):
            await eventually(lambda: edge.unready() is None)
        broker.rights = permissions(SMALL, declare=False)
        broker.refusals.clear()
        async with edge_on(broker.url, declare=False) as (edge, listener, ports):
            await eventually(lambda: edge.unready() is None)
            await ports.publisher.publish(Publication(exchange=NAMES.events, routing_key="a.b", body=b"1"))
            _, incoming = await listener.taken.get()
            await incoming.ticket.ack()
            await edge.flush()

        assert broker.refusals == []


@pytest.mark.parametrize("behaviour", [V4_2_6, V4_3_0], ids=lambda each: each.version)
async def test_two_releases_demand_the_configure_right(behaviour: Behaviour) -> None:
    """The daemon ends with an error that names them, instead of trying for ever."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        async with edge_on(broker.url) as (edge, _, _):
            await eventually(lambda: edge.unready() is None)
        broker.rights = permissions(SMALL, declare=False)
        edge, _, _ = built(broker.url, declare=False)
        with pytest.raises(TopologyMismatch, match=r"4\.2\.6 and 4\.3\.0 demand the configure right"):
            await edge.run()


@pytest.mark.parametrize("behaviour", [V4_2, V4_3_7], ids=lambda each: each.version)
async def test_a_cancelled_control_consumer_is_opened_again(behaviour: Behaviour) -> None:
    """Fault 62: a worker whose control queue was deleted hears the others again."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker, edge_on(broker.url) as started:
        edge, listener, _ = started
        await eventually(lambda: edge.unready() is None and listener.listens == 1)
        [control] = [name for name in broker.queues if name.startswith(f"{NAMES.control}.")]

        broker.delete(control)
        await eventually(lambda: listener.listens == 2)

        assert [queue for queue in broker.queues.values() if queue.owner is not None]
        declared = [frame for frame in broker.seen if isinstance(frame, Queue.Declare) and frame.exclusive]
        assert len(declared) == 2
