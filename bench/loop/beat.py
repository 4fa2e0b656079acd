"""The CPU of a beat of one worker with 10,000 open breakers, and that of another worker which takes it.

Each breaker opened a moment ago, so that all of them are both open and changed lately. The workers are
between fakes: a beat is collected, encoded and passed to the publisher. The figure is the most costly beat.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import orjson

from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.endpoint.agreement import BEAT_S
from consumer.core.endpoint.breaker import Open
from consumer.flow.endpoints.agreement import Agreement
from tests.support.builders.endpoints import subscription
from tests.support.worker import NAMES, Worker

OPEN = 10_000
BEATS = 120  #: more than one round of all breakers
REST_S = 3_600.0

GOALS = (Goal(name="beat_ms", text="≤ 10", unit="ms", n=10),)


def _talk(name: str, count: int, opened: int) -> tuple[Worker, Agreement]:
    """Return a worker that has met *count* endpoints, *opened* of them with an open breaker."""
    worker = Worker()
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, name)
    now = worker.clock.now()
    for number in range(count):
        shop = replace(subscription(), id=f"sub_{number:016x}", url=f"https://shop{number}.example/hooks")
        worker.subscriptions._all[shop.id] = shop
        endpoint = worker.endpoints.of(shop)
        if number < opened:
            endpoint.admission.adopt(Open(now + REST_S, epoch=1), now)
            worker.endpoints.announcements.changed(endpoint)
    return worker, talk


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure beats, one by one."""
    count = bench.count(OPEN, 500)
    worker, talk = _talk("w1", count, opened=count)
    _, other = _talk("w2", count, opened=0)
    gc.collect()
    gc.freeze()
    worker.endpoints.announcements.take_due()
    sent_ms, taken_ms, rows = [], [], set[str]()
    for _ in range(bench.count(BEATS, 10)):
        worker.clock.passed_s += BEAT_S
        began = time.process_time()
        await talk.beat()
        sent_ms.append(1e3 * (time.process_time() - began))
        await asyncio.sleep(0)
        for published in worker.publisher.confirmed:
            assert published.publication.exchange == NAMES.control
            body = orjson.loads(published.publication.body)
            began = time.process_time()
            other.receive(body)
            taken_ms.append(1e3 * (time.process_time() - began))
            rows.update(row[0] for row in body["news"])
        worker.publisher.confirmed.clear()
    bench.note("beat_median_ms", round(median(sent_ms), 2))
    bench.note("beat_taken_ms", round(max(taken_ms), 2))
    bench.note("beat_repeated", len(rows))
    return [Measured(name="beat_ms", value=round(max(sent_ms), 2), n=len(sent_ms), valid=len(rows) == count)]


PROOF = Proof("beat", GOALS, prove)
