"""The breaker of one endpoint, seen from outside: it spares that endpoint, and only that one."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.processes.children import stop
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, deliveries, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

MANY = {"max_attempts": 30, "base_s": 0.1, "multiplier": 1, "max_s": 1, "jitter": 0}


async def test_opens_after_five_probes_and_closes(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Faults 40, 55: five failures open it; while open nothing is sent and no attempt is spent.

    After the cooldown one probe goes; its success closes the breaker, and all is delivered.
    """
    target = "/hold/five?n=5&status=503"
    breaker = {"failures": 5, "cooldown_s": 1}
    await shared.apply(to(receiver, target, "five", retry=dict(MANY), breaker=breaker))

    ids = await publisher.publish_many("five", 5)
    await shared.logged("breaker.changed", tenant="five", after="open")
    opened = max(r.end for r in requests_of(receiver, target))
    ids += await publisher.publish_many("five", 5)

    await all_delivered(receiver, target, ids)
    requests = requests_of(receiver, target)
    later = sorted(r.start for r in requests[5:])
    assert later[0] - opened >= 1 - 0.01
    assert len(requests) == 5 + 10, "an attempt was spent while it was open"
    await shared.logged("breaker.changed", tenant="five", after="closed")
    assert set(deliveries(receiver, target).values()) == {1}


async def test_closing_starts_slowly(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """A closed breaker lets waiting deliveries through at a pace, and is soon at full speed again.

    It starts slowly.
    """
    target = "/hold/slow-start?n=1&status=503"
    breaker = {"failures": 1, "cooldown_s": 0.5}
    await shared.apply(to(receiver, target, "slowly", retry=dict(MANY), breaker=breaker))

    first = await publisher.publish("slowly")
    await shared.logged("breaker.changed", tenant="slowly", after="open")
    ids = await publisher.publish_many("slowly", 8)

    await all_delivered(receiver, target, [first, *ids])
    starts = sorted(r.start for r in requests_of(receiver, target)[1:])
    gaps = [after - before for before, after in pairwise(starts)]
    assert max(gaps[:3]) >= 0.4
    for _ in range(5):
        again = await publisher.publish_many("slowly", 8)
        await all_delivered(receiver, target, again)
        if {line["event_id"] for line in shared.lines("delivery.deferred")}.isdisjoint(again):
            break
    else:
        pytest.fail("it is still slow")


async def test_no_breaker(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """``failures: 0``: every attempt is made, however many fail."""
    target = "/status/500/unbroken"
    await shared.apply(to(receiver, target, "unbroken", breaker=dict(BREAKER_OFF)))

    await publisher.publish_many("unbroken", 5)

    entries = await shared.parked(5, tenant="unbroken")
    assert {(e["reason"], e["failed_attempts"]) for e in entries} == {("exhausted", 3)}
    assert len(requests_of(receiver, target)) == 15
    assert shared.count("breaker.changed", tenant="unbroken") == 0


async def test_an_operator_resets_it(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """S3-3: `leveret breaker reset` closes it in every worker, long before its cooldown is over."""
    target = "/hold/mended?n=2&status=503"
    breaker = {"failures": 2, "cooldown_s": 600}
    await shared.apply(to(receiver, target, "mended", retry=dict(MANY), breaker=breaker))
    await publisher.publish_many("mended", 2)
    await shared.logged("breaker.changed", tenant="mended", after="open")

    (entry,) = [each for each in await shared.entries() if each.tenant == "mended"]
    await shared.cli("breaker", "reset", entry.id)

    await shared.logged("breaker.changed", tenant="mended", after="closed")
    new = await publisher.publish("mended")
    assert (await all_delivered(receiver, target, [new]))[new] == 1, "what is new is sent at once"


async def test_a_reset_releases_waiting_deliveries(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 83: with a cooldown of ten minutes, held and failed deliveries are sent at once."""
    target = "/hold/released?n=2&status=503"
    breaker = {"failures": 2, "cooldown_s": 600}
    await shared.apply(to(receiver, target, "released", retry=dict(MANY), breaker=breaker))
    failed = await publisher.publish_many("released", 2)
    await shared.logged("breaker.changed", tenant="released", after="open")
    held = await publisher.publish_many("released", 5)
    await until(lambda: len(put_off(shared, held)) == 5, "they wait")

    (entry,) = [each for each in await shared.entries() if each.tenant == "released"]
    [row] = objects(await command(shared, "breaker", "reset", entry.id, "--json"))

    # Rungs are short here: deliveries that the worker has freed and sent before the look do not count.
    assert 0 <= int(str(row["released"])) <= len(failed) + len(held)
    await all_delivered(receiver, target, [*failed, *held])


def put_off(daemon: Daemon, ids: list[str]) -> set[object]:
    """Return those of *ids* that were put off."""
    return {line["event_id"] for line in daemon.lines("delivery.deferred")} & set(ids)


async def test_held_deliveries_outlive_the_only_worker(
    tmp_path: Path, vhost: str, receiver: Receiver
) -> None:
    """Fault 39, S3-3, decision 16: the only worker stops and starts again.

    A ``Retry-After`` that it met holds; `leveret breaker open` without a worker reports that, and holds.
    """
    kept, busy = "/ok/kept", "/retry-after/busy?s=600&times=1&status=429"
    daemon = Daemon(tmp_path, vhost)
    await daemon.apply(to(receiver, kept, "kept"), to(receiver, busy, "busy"))
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            await publisher.publish("busy")
            await until(lambda: len(requests_of(receiver, busy)) == 1, "it was asked to wait")
            await daemon.logged("delivery.attempted", tenant="busy")
            await daemon.stop()
            done = await command(daemon, "breaker", "open", f"kept/{kept}", "--json")
            assert [row["heard"] for row in objects(done)] == [False]
            assert "no worker listens" in done.stderr

            await daemon.start()
            held = await publisher.publish("kept")
            await publisher.publish("busy")
            deferrals = partial(daemon.metric, "leveret_deferrals_total")
            await until(lambda: deferrals(reason="breaker") == 1, "it is open by hand")
            await until(lambda: deferrals(reason="paced") == 1, "it is asked to wait")
            done = await command(daemon, "breaker", "reset", f"kept/{kept}", "--json")
            assert [row["heard"] for row in objects(done)] == [True]
            assert done.stderr == ""
            sent = await publisher.publish("kept")
            await all_delivered(receiver, kept, [held, sent])
        assert len(requests_of(receiver, busy)) == 1
    finally:
        await stop(daemon.process, 10)


async def test_age_ends_deliveries_that_a_breaker_holds(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 55: a dead endpoint costs few requests, and ``max_age_s`` still ends its waiting deliveries."""
    target = "/status/503/dead"
    policy = MANY | {"max_age_s": 2}
    breaker = {"failures": 2, "cooldown_s": 60}
    await shared.apply(to(receiver, target, "dead", retry=policy, breaker=breaker))

    await publisher.publish_many("dead", 2)
    await shared.logged("breaker.changed", tenant="dead", after="open")
    await publisher.publish_many("dead", 20)

    entries = await shared.parked(22, tenant="dead")
    assert {e["reason"] for e in entries} == {"expired"}
    assert len(requests_of(receiver, target)) <= 4


async def test_a_hanging_endpoint_holds_up_nobody(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 53: one endpoint hangs for its whole deadline; siblings and other tenants do not feel it."""
    hanging = to(receiver, "/hang", "stuck", timeout_s=12, retry=dict(MANY), breaker={"failures": 5})
    await shared.apply(
        hanging, to(receiver, "/ok/beside", "stuck"), to(receiver, "/ok/elsewhere", "elsewhere")
    )

    stuck = await publisher.publish_many("stuck", 100)
    other = await publisher.publish_many("elsewhere", 100)

    await all_delivered(receiver, "/ok/beside", stuck)
    await all_delivered(receiver, "/ok/elsewhere", other)
    beside = [r.start for target in ("/ok/beside", "/ok/elsewhere") for r in requests_of(receiver, target)]
    await shared.logged("breaker.changed", tenant="stuck", after="open")
    await until(lambda: shared.metric("leveret_requests_in_flight") == 0, "nothing in flight")
    hung = requests_of(receiver, "/hang")
    await until(lambda: all(r.end for r in hung), "the receiver saw each end")
    assert max(beside) < min(r.end for r in hung), "somebody waited for a request that hung"
    assert len(hung) <= 16 + 5, "more than its concurrency and the threshold"
    await shared.apply(hanging | {"enabled": False})


async def test_a_flapping_endpoint_gets_all(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 54: an endpoint that fails every second request is neither shut out nor given up."""
    target = "/flaky/half?share=0.5"
    breaker = {"failures": 3, "cooldown_s": 0.1}
    await shared.apply(to(receiver, target, "half", retry=dict(MANY), breaker=breaker))

    ids = await publisher.publish_many("half", 10)

    found = await all_delivered(receiver, target, ids)
    await until(lambda: shared.metric("leveret_requests_in_flight") == 0, "nothing in flight")
    assert set(found.values()) == {1}
    assert shared.count("delivery.parked", tenant="half") == 0


async def test_requests_of_the_endpoint_do_not_open_it(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Faults 37, 39: 404 and 429 do not count against the endpoint's health."""
    await shared.apply(
        to(receiver, "/status/404/well", "well", breaker={"failures": 1}, retry=dict(QUICK)),
        to(receiver, "/status/429/well", "well", breaker={"failures": 1}, retry=dict(QUICK)),
    )

    await publisher.publish_many("well", 1)  # each 429 pauses its endpoint, for twice as long as the last

    await shared.parked(2, tenant="well")
    assert shared.count("breaker.changed", tenant="well") == 0
