"""The topology on a real broker: it is declared, and messages take the routes of the plan."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import aio_pika
import pytest
from aio_pika.exceptions import PublishError
from aiormq.abc import FieldTable

from tests.support.broker.topology import SMALL, connected, count_until_refused, standing
from topology.declare import ExchangeMissing, declare
from topology.ladder import RUNGS_S
from topology.plan import SourceSpec, TopologySpec, build_plan

NAMES = SMALL.names


async def test_two_prefixes_live_on_one_node(vhost: str) -> None:
    """Two instances with the full ladder start side by side, declare twice without a change, and work."""
    async with (
        standing(vhost, TopologySpec()) as first,
        standing(vhost, TopologySpec(prefix="other")) as second,
    ):
        for live in (first, second):
            names = TopologySpec(prefix=live.plan.prefix).names
            assert await declare(live.plan, live.connection) == ()
            await live.publish(
                names.wait, names.wait_key(0.25, names.due_queue(1)), live.plan.prefix.encode()
            )

        for live in (first, second):
            names = TopologySpec(prefix=live.plan.prefix).names
            [(_, message)] = await live.take([names.due_queue(1)], 1)
            assert message.body == live.plan.prefix.encode()


async def test_two_workers_declare_at_once(vhost: str) -> None:
    """Workers that start together do not get into each other's way."""
    plan = build_plan(SMALL)
    async with connected(vhost) as one, connected(vhost) as two, connected(vhost) as three:
        assert await asyncio.gather(*(declare(plan, each) for each in (one, two, three))) == [(), (), ()]


async def test_every_rung_leads_to_the_wanted_due_queue(vhost: str) -> None:
    """Through each rung to each due queue, replay and spill: it surfaces there, key and body unchanged."""
    ends = [NAMES.due_queue(0), NAMES.due_queue(1), NAMES.replay, NAMES.spill(0)]
    async with standing(vhost, SMALL) as live:
        wanted = {NAMES.wait_key(rung_s, end): end for rung_s in SMALL.rungs_s for end in ends}
        for key in wanted:
            await live.publish(NAMES.wait, key, key.encode())

        taken = await live.take(ends, len(wanted))

    assert {message.routing_key: queue for queue, message in taken} == wanted
    assert all(message.body.decode() == message.routing_key for _, message in taken)


async def test_every_default_rung_is_routable(vhost: str) -> None:
    """A mandatory publish finds a queue for each of the 37 rungs, and none for a rung that is not there."""
    names = TopologySpec().names
    async with standing(vhost, TopologySpec(lanes=1)) as live:
        for rung_s in RUNGS_S:
            await live.publish(names.wait, names.wait_key(rung_s, names.due_queue(0)))
        with pytest.raises(PublishError):
            await live.publish(names.wait, names.wait_key(0.3, names.due_queue(0)))


async def test_a_direct_key_skips_the_ladder(vhost: str) -> None:
    """The due exchange leads into our own queues at once, without the default exchange."""
    async with standing(vhost, SMALL) as live:
        for queue in (NAMES.replay, NAMES.due_queue(1), NAMES.spill(0)):
            await live.publish(NAMES.due, NAMES.direct_key(queue))
            [(where, _)] = await live.take([NAMES.replay, NAMES.due_queue(1), NAMES.spill(0)], 1)
            assert where == queue


async def test_deliveries_for_a_missing_queue_land_in_stray(vhost: str) -> None:
    """Fault 64: a due queue was deleted: messages from a rung are kept in stray, not lost."""
    async with standing(vhost, SMALL) as live:
        for number in range(50):
            await live.publish(NAMES.wait, NAMES.wait_key(0.1, "leveret.due.77"), str(number).encode())

        taken = await live.take([NAMES.stray], 50)

    assert {message.body for _, message in taken} == {str(number).encode() for number in range(50)}


async def test_a_full_parked_queue_refuses(vhost: str) -> None:
    """Fault 64, S1-4: parked nacks when it is full and loses nothing; overflow takes the refused entry."""
    async with standing(vhost, replace(SMALL, parked_max_length=3)) as live:
        accepted = await count_until_refused(live)
        assert 3 <= accepted < 50

        await live.publish(NAMES.dlx, NAMES.refused_key("exhausted"), b"refused")
        taken = await live.take([NAMES.parked, NAMES.overflow], accepted + 1)

    assert sorted(queue for queue, _ in taken) == [NAMES.overflow] + [NAMES.parked] * accepted


@pytest.mark.parametrize(
    ("queue", "exchange", "key"),
    [
        (NAMES.due_queue(0), NAMES.due, NAMES.direct_key(NAMES.due_queue(0))),
        (NAMES.suspect, NAMES.dlx, "suspect"),
    ],
)
async def test_a_message_that_returns_too_often_ends_in_overflow(
    vhost: str, queue: str, exchange: str, key: str
) -> None:
    """Fault 70: over its delivery limit a message goes to overflow, with its place of death on record."""
    async with standing(vhost, replace(SMALL, delivery_limit=2)) as live:
        await live.publish(exchange, key, b"poison")
        await live.return_until_gone(queue, times=3)

        [(_, message)] = await live.take([NAMES.overflow], 1)

    assert message.body == b"poison"
    assert message.headers["x-first-death-queue"] == queue
    assert message.headers["x-first-death-reason"] == "delivery_limit"


async def test_parked_entries_expire_into_expired(vhost: str) -> None:
    """S1-4: an entry whose TTL ran out moves to expired; it does not vanish."""
    async with standing(vhost, replace(SMALL, parked_ttl_s=0.2)) as live:
        await live.publish(NAMES.dlx, NAMES.parked_key("permanent"), b"old")
        [(_, message)] = await live.take([NAMES.expired], 1)

    assert message.body == b"old"


async def test_tenants_are_spread_over_the_lanes(vhost: str) -> None:
    """events -> route -> lanes: a tenant has one lane, 200 tenants reach all 8, no header is one lane."""
    spec = replace(SMALL, lanes=8)
    lanes = [NAMES.lane(index) for index in range(8)]
    async with standing(vhost, spec) as live:
        for number in range(200):
            for _ in range(2):
                await live.publish(NAMES.events, "order.created", headers={"tenant": f"t{number}"})
        for number in range(20):
            await live.publish(NAMES.events, f"order.n{number}")
        taken = await live.take(lanes, 420)

    where: dict[str, set[str]] = {}
    for queue, message in taken:
        where.setdefault(str(message.headers.get("tenant")), set()).add(queue)
    assert all(len(queues) == 1 for queues in where.values())
    assert set().union(*where.values()) == set(lanes)


async def test_message_ids_are_spread_when_the_hash_is_on_them(vhost: str) -> None:
    """[events] hash_on = message_id spreads a single tenant's events."""
    lanes = [NAMES.lane(index) for index in range(4)]
    async with standing(vhost, replace(SMALL, lanes=4, hash_on="message_id")) as live:
        events = await live.channel.get_exchange(NAMES.events, ensure=False)
        for number in range(100):
            message = aio_pika.Message(b"{}", message_id=f"m{number}", headers={"tenant": "one"})
            await events.publish(message, "order.created", mandatory=True)
        taken = await live.take(lanes, 100)

    assert {queue for queue, _ in taken} == set(lanes)


@pytest.mark.parametrize("header", ["tenant", "x-tenant"])
async def test_a_lane_of_ones_own_takes_ones_events_and_no_others(vhost: str, header: str) -> None:
    """For every name of the header, and whether a number is published as text or as a number."""
    lanes = [NAMES.dedicated("42"), NAMES.lane(0), NAMES.lane(1)]
    tenants = ("42", 42, "43", 43, None)
    async with standing(vhost, replace(SMALL, hash_header=header, dedicated=("42",))) as live:
        events = await live.channel.get_exchange(NAMES.events, ensure=False)
        for tenant in tenants:
            headers: FieldTable = {} if tenant is None else {header: tenant}
            await events.publish(
                aio_pika.Message(repr(tenant).encode(), headers=headers), "a", mandatory=True
            )
        taken = await live.take(lanes, len(tenants))

    own = sorted(message.body for queue, message in taken if queue == lanes[0])
    assert own == [b"'42'", b"42"]
    assert len({message.body for _, message in taken}) == len(tenants)


async def test_queues_beyond_the_present_count_are_reported(vhost: str) -> None:
    """Fewer lanes, due or spill queues by mistake: no worker takes messages from the others."""
    async with standing(vhost, replace(SMALL, lanes=3, due_queues=4, spill_queues=2)) as live:
        await live.publish(NAMES.due, NAMES.direct_key(NAMES.due_queue(2)))
        warnings = await declare(build_plan(SMALL), live.connection)
        mended = await declare(build_plan(replace(SMALL, lanes_before=3)), live.connection)

    assert [line.partition(";")[0] for line in warnings] == [
        f"queue {NAMES.lane(2)} is no longer in the plan and contains 0 messages",
        f"queue {NAMES.due_queue(2)} is no longer in the plan and contains 1 messages",
        f"queue {NAMES.spill(1)} is no longer in the plan and contains 0 messages",
    ]
    assert "lanes_before" in warnings[0]
    assert mended == warnings[1:]


async def test_a_binding_on_route_bypasses_the_lanes(vhost: str) -> None:
    """A noisy tenant's binding on route takes its events, and its only; unbinding gives them back."""
    noisy: FieldTable = {"x-match": "all", "tenant": "noisy"}
    queues = [NAMES.spill(0), NAMES.lane(0), NAMES.lane(1)]
    async with standing(vhost, SMALL) as live:
        spill = await live.channel.get_queue(NAMES.spill(0), ensure=False)
        await spill.bind(NAMES.route, "", arguments=noisy)
        await live.publish(NAMES.events, "a", b"1", {"tenant": "noisy"})
        await live.publish(NAMES.events, "a", b"2", {"tenant": "calm"})
        bypassed = {message.body: queue for queue, message in await live.take(queues, 2)}
        await spill.unbind(NAMES.route, "", arguments=noisy)
        await live.publish(NAMES.events, "a", b"3", {"tenant": "noisy"})
        [(back, _)] = await live.take(queues, 1)

    assert bypassed[b"1"] == NAMES.spill(0)
    assert bypassed[b"2"] != NAMES.spill(0)
    assert back != NAMES.spill(0)


@pytest.mark.parametrize(
    "spec",
    [replace(SMALL, lanes=1, consistent_hash=False), replace(SMALL, queue_type="classic")],
    ids=["one lane", "classic"],
)
async def test_the_other_modes_work(vhost: str, spec: TopologySpec) -> None:
    """lanes = 1 without the plugin, and classic queues: an event arrives, a retry comes back."""
    async with standing(vhost, spec) as live:
        await live.publish(NAMES.events, "order.created", headers={"tenant": "acme"})
        await live.publish(NAMES.wait, NAMES.wait_key(0.1, NAMES.due_queue(0)))
        lanes = [NAMES.lane(index) for index in range(spec.lanes)]
        taken = await live.take([*lanes, NAMES.due_queue(0)], 2)

    assert {message.routing_key for _, message in taken} == {"order.created", "100.leveret.due.00"}


async def test_sources_reach_us_straight_or_by_inbox(vhost: str) -> None:
    """[[sources]]: a user's exchange is bound as planned; one that does not exist is a clear error."""
    inbox = SourceSpec(name="crm", exchange="crm", routing_key="customer.#")
    direct = SourceSpec(name="shop", exchange="shop", direct=True)
    spec = replace(SMALL, sources=(inbox, direct))
    async with connected(vhost) as connection:
        with pytest.raises(ExchangeMissing, match=r"exchange crm does not exist, but \[\[sources\]\]"):
            await declare(build_plan(spec), connection)
        channel = await connection.channel()
        for name in ("crm", "shop"):
            await channel.declare_exchange(name, "topic", durable=True)

    async with standing(vhost, spec) as live:
        await live.publish("crm", "customer.new", b"crm")
        await live.publish("shop", "order.paid", b"shop", {"tenant": "acme"})
        taken = await live.take([NAMES.inbox("crm"), NAMES.lane(0), NAMES.lane(1)], 2)

    where = {message.body: (queue, message.exchange) for queue, message in taken}
    assert where[b"crm"] == (NAMES.inbox("crm"), "crm")
    assert where[b"shop"][0] in (NAMES.lane(0), NAMES.lane(1))
    assert where[b"shop"][1] == "shop"


async def test_an_event_with_a_recorded_death_takes_its_own_lane(vhost: str) -> None:
    """Fault 89: one copy, in a queue without dead letters; also where an earlier release bound the routes."""
    inbox = SourceSpec(name="crm", exchange="crm")
    spec = replace(SMALL, sources=(inbox,))
    async with connected(vhost) as connection:
        channel = await connection.channel()
        crm = await channel.declare_exchange("crm", "topic", durable=True)
        await declare(build_plan(replace(SMALL, sources=())), connection)
        route = await channel.get_exchange(NAMES.route, ensure=False)
        await route.bind(NAMES.events, "#")
        queue = await channel.declare_queue(
            NAMES.inbox("crm"),
            durable=True,
            arguments=dict(
                next(q for q in build_plan(spec).queues if q.name == NAMES.inbox("crm")).arguments
            ),
        )
        await queue.bind(crm, "#")

    async with standing(vhost, spec) as live:
        died: dict[str, Any] = {"tenant": "acme", "x-death": ["no table"]}
        for exchange in (NAMES.events, "crm"):
            for headers in (died, {"tenant": "acme"}):
                await live.publish(exchange, "a.b", exchange.encode(), headers)
        lanes = [NAMES.lane(0), NAMES.lane(1), NAMES.died]
        taken = await live.take([*lanes, NAMES.inbox("crm"), NAMES.inbox_died("crm")], 4)
        left = [(await live.channel.declare_queue(q, passive=True)).declaration_result for q in lanes]

    found = Counter(queue for queue, message in taken if "x-death" in message.headers)
    assert found == {NAMES.died: 1, NAMES.inbox_died("crm"): 1}
    assert Counter(queue for queue, _ in taken)[NAMES.inbox("crm")] == 1
    assert [result.message_count for result in left] == [0, 0, 0]
