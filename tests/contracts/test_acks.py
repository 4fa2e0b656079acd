"""Acks in few frames: whatever the order of settling, the broker knows every tag once."""

from __future__ import annotations

from typing import cast

from aiormq.channel import Channel
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from consumer.edges.broker.acks import Acks
from consumer.flow.observe import Observer
from metrics.series import Series


class StrictBroker:
    """Keeps what is outstanding as RabbitMQ does: a tag that it does not know closes the channel."""

    def __init__(self, tags: int) -> None:
        self.outstanding = set(range(1, tags + 1))
        self.is_closed = False

    async def basic_ack(self, tag: int, *, multiple: bool = False, wait: bool = True) -> None:
        """Take an ack."""
        assert tag in self.outstanding, f"unknown delivery tag {tag}"
        self.outstanding -= {t for t in self.outstanding if t == tag or (multiple and t < tag)}

    async def basic_nack(self, tag: int, *, requeue: bool = True, wait: bool = True) -> None:
        """Take a nack."""
        assert tag in self.outstanding, f"unknown delivery tag {tag}"
        self.outstanding.discard(tag)


@given(st.permutations(range(1, 13)), st.sets(st.integers(0, 11)), st.sets(st.integers(1, 12)))
async def test_every_tag_is_settled_once_in_any_order(
    order: list[int], flush_after: set[int], requeued: set[int]
) -> None:
    """FAULTS 61, 67: no order of acks, nacks and flushes names a tag twice or settles one that is in hand."""
    broker = StrictBroker(len(order))
    acks = Acks(cast(Channel, broker), Observer(Series(CollectorRegistry())))
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

    await acks.flush()

    assert not broker.outstanding
