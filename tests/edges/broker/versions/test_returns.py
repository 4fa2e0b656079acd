"""Which returns count: all of them up to 4.2; from 4.3 on ``basic.reject`` and lost channels alone."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.edges.broker.wire.raw_message import Returns, raw_message
from tests.support.broker.behaviour import V4_2, V4_3_0, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.fake_queues import FakeQueue
from tests.support.broker.reading import delivered, reading
from tests.support.broker.topology import PATIENCE_S

COUNTS = st.one_of(st.none(), st.integers(-5, 500), st.text(max_size=3))


@pytest.mark.parametrize(
    ("behaviour", "counts"), [(V4_2, [0, 1, 2]), (V4_3_0, [0, 0, 0]), (V4_3_7, [0, 0, 0])], ids=str
)
async def test_a_message_that_was_given_back_unstarted_is_no_suspect(
    behaviour: Behaviour, counts: list[int]
) -> None:
    """Where the broker makes the difference, back-pressure and stops count nothing."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        broker.queues["lane"] = FakeQueue("lane")
        broker.put("lane")
        async with reading(broker.url, ["lane"]) as read:
            for count in counts:
                incoming = await read.taken.get()
                assert incoming.message.delivery_count == count
                await incoming.ticket.requeue()


@pytest.mark.parametrize("behaviour", [V4_2, V4_3_0, V4_3_7], ids=lambda each: each.version)
async def test_a_failure_of_ours_counts_on_every_version(behaviour: Behaviour) -> None:
    """Fault 70: a message whose handling fails again and again reaches the limit of its queue."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        queue = broker.queues["suspect"] = FakeQueue("suspect", {"x-delivery-limit": 2})
        broker.put("suspect")
        async with reading(broker.url, ["suspect"]) as read:
            for count in range(3):
                incoming = await read.taken.get()
                assert incoming.message.delivery_count == count
                await incoming.ticket.reject()
            await read.reader.flush()

        assert len(queue.dead) == 1


@pytest.mark.parametrize("behaviour", [V4_2, V4_3_0, V4_3_7], ids=lambda each: each.version)
async def test_a_forged_count_is_never_believed(behaviour: Behaviour) -> None:
    """Fault 89: on 4.3 the broker leaves a producer's header in place until a delivery has failed."""
    forged = {"x-delivery-count": 99, "x-acquired-count": 99}
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        broker.queues["lane"] = FakeQueue("lane")
        broker.put("lane", headers=forged)
        async with reading(broker.url, ["lane"]) as read:
            for count in range(3):
                incoming = await read.taken.get()
                assert incoming.message.delivery_count <= count
                await incoming.ticket.requeue()


@given(COUNTS, COUNTS, st.sampled_from(Returns), st.booleans())
def test_the_count_is_bounded_by_the_brokers_own(
    count: object, acquired: object, counted: Returns, redelivered: bool
) -> None:
    """Whatever the headers contain: no error, and never more than the returns that the broker saw."""
    headers = {"x-delivery-count": count, "x-acquired-count": acquired}
    message = delivered({key: value for key, value in headers.items() if value is not None}, redelivered)

    found = raw_message(message, "lane", counted).delivery_count

    assert found in (0, count, acquired)
    if not redelivered or counted is Returns.NONE or not isinstance(count, int):
        assert found == 0
    elif counted is Returns.FAILED and isinstance(acquired, int):
        assert found == min(count, acquired)
