"""Four daemons on one broker and one store share their knowledge of endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

WORKERS = 4
PATIENT = {"max_attempts": 30, "base_s": 0.1, "multiplier": 1, "max_s": 1, "jitter": 0}


@pytest.fixture
async def four(tmp_path: Path, vhost: str) -> AsyncIterator[list[Daemon]]:
    """Four daemons with one home: one store, one broker, four workers."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running(tmp_path, vhost))
        others = [
            stack.enter_async_context(
                running(tmp_path, vhost, {"LEVERET_HOME": str(first.home)}, f"worker{number}")
            )
            for number in range(1, WORKERS)
        ]
        daemons = [first, *await asyncio.gather(*others)]
        yield daemons


async def test_four_workers_agree_count_and_spare(four: list[Daemon], vhost: str, receiver: Receiver) -> None:
    """All count four; one that opens opens all; one probe closes all; one gone is missed."""
    await until(lambda: [d.metric("leveret_workers") for d in four] == [WORKERS] * WORKERS, "four count four")
    target = "/hold/agree?n=5&status=503"  # of five failures over four workers one has two
    breaker = {"failures": 2, "cooldown_s": 3, "cooldown_max_s": 3}
    entry = to(receiver, target, "agree", retry=dict(PATIENT), breaker=breaker)
    await four[0].apply(entry)
    await asyncio.gather(*(daemon.knows(1) for daemon in four))

    async with EventPublisher(vhost) as publisher:
        ids = await publisher.publish_many("agree", 5)
        lines = await asyncio.gather(
            *(d.logged("breaker.changed", tenant="agree", after="open") for d in four)
        )
        opened = sorted(datetime.fromisoformat(line["timestamp"]).timestamp() for line in lines)
        ids += await publisher.publish_many("agree", 40)
        await all_delivered(receiver, target, ids)

    requests = sorted(requests_of(receiver, target), key=lambda r: r.start)
    answers = [r.status for r in requests]
    assert answers.count(503) == 5
    assert answers.count(200) == len(ids), "an attempt was spent while it was open"
    held = [r.start for r in requests if opened[-1] + 0.2 < r.start < opened[0] + 3 - 0.05]
    assert held == [], "a worker sent while all knew that it is open"
    probes = sum(d.count("breaker.changed", tenant="agree", after="probing") for d in four)
    assert probes >= 1
    await asyncio.gather(*(d.logged("breaker.changed", tenant="agree", after="closed") for d in four))
    assert await four[3].stop() == 0
    await until(lambda: [d.metric("leveret_workers") for d in four[:3]] == [3] * 3, "three count three")
