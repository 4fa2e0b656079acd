"""More bytes than the worker has memory for: it reads no more than it can hold, and loses nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker.load import publish
from tests.support.hostile.healthy_hosts import Hosts, addresses
from tests.support.hostile.large_events import Load, events
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, deliveries, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

MIB = 1024 * 1024
MEMORY = {"LEVERET_LIMITS__MEMORY_BYTES": str(16 * MIB), "LEVERET_EVENTS__MAX_EVENT_BYTES": str(5 * MIB)}
BUDGET = 8 * MIB
LARGE = Load(name="4MB", count=10, size_bytes=4_000_000)


async def test_the_bytes_in_hand_stay_within_the_memory(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 88: 10 events of 4 MB at slow endpoints, 16 MiB: two in hand; another tenant's arrive once."""
    target = "/slow/large?s=0.5"
    async with running(tmp_path, vhost, MEMORY) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, target, "t00"), to(receiver, "/ok/innocent", "innocent"))
        large = [event for event in events(LARGE, 640, "large") if event.tenant == "t00"]
        await publish(vhost, large)
        sent = await publisher.publish_many("innocent", 20)
        held: list[float] = []

        def is_done() -> bool:
            held.append(daemon.metric("leveret_held_bytes"))
            return len(receiver.requests) >= len(large) + len(sent)

        await until(is_done, "all were sent")
        found = await all_delivered(receiver, target, [event.id for event in large])
        assert set(found.values()) == {1}
        assert set((await all_delivered(receiver, "/ok/innocent", sent)).values()) == {1}
        await until(lambda: daemon.metric("leveret_held_bytes") == 0, "nothing is in hand")
        assert LARGE.size_bytes < max(held) <= BUDGET
        assert daemon.count("broker.lost") == daemon.count("window.closed") == 0
        assert await daemon.stop() == 0


async def test_a_drain_does_not_wait_for_memory(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Faults 88, 58: while messages wait for room a SIGTERM ends tidily; then each is delivered once."""
    target = "/slow/large?s=1"
    daemon = Daemon(tmp_path, vhost, MEMORY)
    await daemon.apply(to(receiver, target, "t00"))
    large = [event for event in events(LARGE, 640, "large") if event.tenant == "t00"]
    try:
        await daemon.start()
        await publish(vhost, large)
        await receiver.arrived(1)
        assert await daemon.stop() == 0
        assert len(receiver.requests) < len(large)

        await daemon.start()
        found = await all_delivered(receiver, target, [event.id for event in large])
        assert await daemon.stop() == 0
    finally:
        await daemon.__aexit__()
    assert set(found.values()) == {1}
    assert set(deliveries(receiver, target).values()) == {1}


async def test_hosts_of_one_tenant_leave_handles_to_another(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 87: 64 open files and 60 healthy hosts: no attempt of anybody is spent, and all arrive."""
    daemon = Daemon(tmp_path, vhost)
    daemon.limit_handles(64)
    hosts = Hosts(60)
    try:
        async with hosts.serving(), EventPublisher(vhost) as publisher:
            await daemon.apply(
                to(receiver, "/ok/innocent", "innocent"),
                *(
                    {**to(receiver, "/", "hostile"), "name": f"at-{number}", "url": hosts.url(address)}
                    for number, address in enumerate(addresses(60))
                ),
            )
            await daemon.start()
            many = await publisher.publish_many("hostile", 2)
            sent = await publisher.publish_many("innocent", 20)
            assert set((await all_delivered(receiver, "/ok/innocent", sent)).values()) == {1}
            await until(lambda: hosts.answered >= 60 * len(many), "every host got every event")
            counted = {kind: daemon.metric("leveret_attempts_total", kind=kind) for kind in ("ok", "local")}
            assert daemon.metric("leveret_attempts_total") == sum(counted.values())
            assert daemon.count("delivery.parked") == 0
    finally:
        await daemon.__aexit__()
