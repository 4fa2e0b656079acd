"""Acks in few frames: in any order of settling, the broker gets every tag once."""

from __future__ import annotations

from typing import cast

from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame
from pamqp.commands import Basic
from prometheus_client import CollectorRegistry

from consumer.edges.broker.consume.acks import MOST_SENT, Acks
from consumer.flow.observe.observer import Observer
from metrics.series import Series


class StrictBroker:
    """Keeps the unsettled tags as RabbitMQ does: an unknown tag closes the channel."""

    def __init__(self, tags: int) -> None:
        self.outstanding = set(range(1, tags + 1))
        self.is_closed = False
        self.runs = 0  #: acks with ``multiple``
        self.number = 1
        self.write_queue = self

    async def basic_ack(self, tag: int, *, multiple: bool = False, wait: bool = True) -> None:
        """Take an ack."""
        assert tag in self.outstanding, f"unknown delivery tag {tag}"
        self.outstanding.discard(tag)
        if multiple:
            self.runs += 1
            self.outstanding -= {t for t in self.outstanding if t < tag}

    async def put(self, written: ChannelFrame) -> None:
        """Take frames as they go on the wire."""
        rest = written.payload
        while rest:
            length, number, ack = frame.unmarshal(rest)
            assert number == self.number
            assert isinstance(ack, Basic.Ack)
            await self.basic_ack(ack.delivery_tag, multiple=ack.multiple)
            rest = rest[length:]

    async def basic_nack(self, tag: int, *, requeue: bool = True, wait: bool = True) -> None:
        """Take a nack."""
        assert tag in self.outstanding, f"unknown delivery tag {tag}"
        self.outstanding.discard(tag)


async def settled_in(
    order: list[int], flush_after: set[int], requeued: set[int], most_sent: int = MOST_SENT
) -> StrictBroker:
    """Settle the tags in an order, flush after some steps and at the end; return the broker."""
    broker = StrictBroker(len(order))
    acks = Acks(cast(Channel, broker), Observer(Series(CollectorRegistry())), most_sent=most_sent)
    settled: set[int] = set()
    for step, tag in enumerate(order):
        settled.add(tag)
        if tag in requeued:
            await acks.requeue(tag)
        else:
            acks.ack(tag)
        if step in flush_after:
            await acks.flush()
            assert broker.outstanding == set(order) - settled
        assert len(acks._sent) <= most_sent
    await acks.flush()
    return broker


@given(st.permutations(range(1, 13)), st.sets(st.integers(0, 11)), st.sets(st.integers(1, 12)))
async def test_every_tag_is_settled_once_in_any_order(
    order: list[int], flush_after: set[int], requeued: set[int]
) -> None:
    """Faults 61, 67: no order of acks, nacks and flushes names a tag twice or settles one that is in hand."""
    broker = await settled_in(order, flush_after, requeued)

    assert not broker.outstanding


@given(
    st.permutations(range(1, 13)), st.sets(st.integers(0, 11)), st.sets(st.integers(1, 12)), st.integers(0, 4)
)
async def test_a_gap_that_stays_costs_no_memory(
    order: list[int], flush_after: set[int], requeued: set[int], most_sent: int
) -> None:
    """Fault 61: past a bound the run is given up, each tag is sent by itself, and still only once."""
    broker = await settled_in(order, flush_after, requeued, most_sent)

    assert not broker.outstanding


async def test_after_a_long_gap_no_ack_takes_others_along() -> None:
    """Fault 61: forgotten tags cannot be distinguished, so ``multiple`` is never used again."""
    broker = StrictBroker(120_000)
    acks = Acks(cast(Channel, broker), Observer(Series(CollectorRegistry())))
    for tag in range(2, 60_002):
        acks.ack(tag)
    await acks.flush()
    assert len(acks._sent) == 0
    runs = broker.runs

    for tag in (1, *range(60_002, 60_100)):
        acks.ack(tag)
    await acks.flush()

    assert broker.runs == runs
    assert broker.outstanding == set(range(60_100, 120_001))
