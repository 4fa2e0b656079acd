"""The number of waiting messages is bounded, with an alert before and relief after."""

from __future__ import annotations

import pytest

from consumer.flow.base.context import FIRST_WEIGHT_BYTES, HEADERS_BYTES, BacklogLimit, Weight
from consumer.flow.take.backlog import Backlog
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker, event_message

LIMIT = 1_000_000


def backlog(worker: Worker) -> tuple[Backlog, list[bool]]:
    """A limit of 1 MB over messages of 1 kB, and its reports."""
    made = Backlog(BacklogLimit(limit_bytes=LIMIT), Weight(mean_bytes=1_000.0), worker.observe)
    said: list[bool] = []
    made.changes.add(lambda: said.append(made.full))
    return made, said


@pytest.mark.parametrize(
    ("waits", "full", "warnings"),
    [
        ([799], [], 0),
        ([800, 900], [], 1),
        ([1_000], [True], 1),
        ([1_000, 960, 1_100], [True], 1),
        ([1_000, 949, 999], [True, False], 1),
        ([1_000, 100, 1_000], [True, False, True], 2),
    ],
)
async def test_the_limit_holds_fresh_events_and_warns_before(
    worker: Worker, waits: list[int], full: list[bool], warnings: int
) -> None:
    """Alert at 80 %, lanes left alone at 100 %, and taken up again under 95 %."""
    made, said = backlog(worker)

    for count in waits:
        made.queues_sized({"wait": count - 10, "due": 10, "lane": 5_000, "parked": 9_000}, START)
        made.queues_sized({}, START)  # the queues could not be looked at

    assert said == full
    assert len(worker.log.events("waiting.high")) == warnings
    assert worker.count("waiting_bytes") == waits[-1] * 1_000
    assert worker.count("waiting_limit_bytes") == LIMIT


async def test_the_mean_follows_deferred_deliveries(worker: Worker) -> None:
    """A worker counts the bytes that it publishes to the ladder, headers included."""
    assert worker.context.weight.mean_bytes == FIRST_WEIGHT_BYTES
    await worker.subscribe("shop")
    worker.sender.on("https://shop.example/", Reply(status=503))

    await worker.handle(event_message(body=b'"' + b"x" * 9_998 + b'"'))

    assert worker.context.weight.mean_bytes == 10_000 + HEADERS_BYTES


async def test_a_dead_endpoint_fills_only_its_tenants_part(worker: Worker) -> None:
    """Its new failures are parked once it has more waiting than is free; other tenants wait on."""
    breaker: dict[str, object] = {"failures": 0}
    dead = await worker.subscribe("dead", breaker=breaker, retry={"base_s": 600.0, "jitter": 0})
    other = await worker.subscribe("other", tenant="other", breaker=breaker)
    worker.sender.on(dead.url, Reply(status=503))
    worker.sender.on(other.url, Reply(status=503))
    limit = worker.context.backlog
    limit.limit_bytes = 20 * 1_000.0
    for number in range(60):
        await worker.handle(event_message(b'"' + b"x" * 298 + b'"', message_id=f"e-{number}"))

    waiting, parked = len(worker.waiting()), worker.publisher.to("parked.backlog")
    assert (waiting, len(parked)) == (11, 49)  # half of the limit, and the one that was over it
    await worker.handle(event_message(message_id="o-1", tenant="other"))
    assert len(worker.publisher.to("parked.")) == 49
    await worker.unsubscribe("other")
    await worker.handle(event_message(message_id="alone"))
    assert len(worker.publisher.to("parked.")) == 49
