"""SIGTERM: started requests end or are stored, other messages go back, and nothing comes twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from consumer.edges.private_broker import PrivateBroker
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import BREAKER_OFF, all_delivered, deliveries, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

GRACE = "LEVERET_SENDING__DRAIN_GRACE_S"


async def test_requests_end_and_nothing_comes_twice(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 58: with 60 requests in flight and 340 events behind them: exit 0, then each exactly once."""
    target = "/slow/drain?s=0.4"
    daemon = Daemon(tmp_path, vhost, {"LEVERET_SENDING__CONCURRENCY": "60"})
    await daemon.apply(to(receiver, target, "drain", concurrency=60))
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            ids = await publisher.publish_many("drain", 400)
            await receiver.arrived(60)

            assert await daemon.stop() == 0

            assert all(r.status == 200 for r in receiver.requests), "a request was cut within the grace"
            assert len(receiver.requests) < 400
            await daemon.start()
            found = await all_delivered(receiver, target, ids)
            assert await daemon.stop() == 0
    finally:
        await daemon.__aexit__()
    assert set(found.values()) == {1}
    assert set(deliveries(receiver, target).values()) == {1}


async def test_requests_cut_at_the_end_of_the_grace_arrive_later(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 58: a request that outlives the grace becomes a delivery message and is sent after the restart.

    No attempt was spent on it.
    """
    hanging, fine = to(receiver, "/hang", "cut"), to(receiver, "/ok/cut", "cut")
    daemon = Daemon(tmp_path, vhost, {GRACE: "0.3"})
    await daemon.apply(hanging, fine)
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            ids = await publisher.publish_many("cut", 5)
        await until(lambda: len(requests_of(receiver, "/hang")) == 5, "five hang")
        await all_delivered(receiver, "/ok/cut", ids)

        assert await daemon.stop() == 0
        [cut] = daemon.lines("drain.cut")
        assert cut["requests"] == 5
        await daemon.apply(hanging | {"url": receiver.url("/ok/came-back")})
        await daemon.start()

        await all_delivered(receiver, "/ok/came-back", ids)
        assert {line["attempt"] for line in daemon.lines("delivery.attempted")} == {1}
        assert set(deliveries(receiver, "/ok/cut").values()) == {1}
    finally:
        await daemon.__aexit__()


@contextmanager
def taken(listen: str) -> Iterator[None]:
    """Listen at a HOST:PORT, unless another program does already."""
    host, _, port = listen.rpartition(":")
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(socket.create_server((host, int(port))))
        yield


async def test_a_second_signal_forces(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 58: the second SIGTERM ends it at once; the event comes again after a restart."""
    entry = to(receiver, "/hang", "forced")
    daemon = Daemon(tmp_path, vhost, {GRACE: "60"})
    await daemon.apply(entry)
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("forced")
        await until(lambda: requests_of(receiver, "/hang"), "it hangs")
        daemon.terminate()
        await until(lambda: "draining" in daemon.unready(), "/readyz says that it drains")
        daemon.terminate()

        assert await daemon.wait_exit(30) == 1  # of the 60 s that it may drain
        await daemon.apply(entry | {"url": receiver.url("/ok/after-force")})
        with taken(daemon.listen):  # as it may be on a busy machine: it then listens elsewhere
            await daemon.start()
        await all_delivered(receiver, "/ok/after-force", [event_id])
    finally:
        await daemon.__aexit__()


async def test_it_drains_without_a_broker(
    own_broker: PrivateBroker, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 58, 59: with the broker gone SIGTERM still ends it; its messages come again."""
    url = own_broker.start(bound=True).amqp_url
    async with running(tmp_path, url, {GRACE: "0.5"}) as daemon:
        await daemon.apply(to(receiver, "/slow/alone?s=1&status=503", "alone"))
        async with EventPublisher(url) as publisher:
            await publisher.publish("alone")
        await receiver.arrived(1)
        own_broker.kill()
        await daemon.logged("broker.lost")

        assert await daemon.stop() == 0


async def test_a_second_signal_parks_nothing_twice(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """An entry that is being parked when it ends at once is acked first, and not parked again."""
    target = "/slow/twice?s=1&status=503"
    settings = {GRACE: "60", "LEVERET_SENDING__CONCURRENCY": "200"}
    once = {"max_attempts": 1}
    daemon = Daemon(tmp_path, vhost, settings)
    await daemon.apply(
        to(receiver, target, "twice", concurrency=200, retry=once, breaker=BREAKER_OFF),
        to(receiver, "/hang", "hanging", timeout_s=30),  # the drain lasts beyond the second signal
    )
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            await publisher.publish("hanging")
            ids = await publisher.publish_many("twice", 120)
            await receiver.arrived(121)
            daemon.terminate()
            await daemon.logged("drain.began")  # two signals at once would be one
            await until(lambda: sum(receiver.answered(target).values()) >= 20, "answers come")
            daemon.terminate()
            assert await daemon.wait_exit(30) == 1
            await daemon.start()
            rows = await daemon.parked(120)
        await daemon.kill()
    finally:
        await daemon.__aexit__()
    assert {row["event_id"] for row in rows} == set(ids)
    assert len(rows) == 120
