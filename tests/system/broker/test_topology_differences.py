"""A broker whose queues and exchanges differ from the plan: each difference is used as found, or reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.support.broker.topology import SMALL, connected, count_until_refused, standing
from topology.declare import PluginMissing, TopologyConflict, TopologyError, declare
from topology.plan import Plan, build_plan
from topology.probe import probe

NAMES = SMALL.names


def with_arguments(plan: Plan, queue: str, **changes: Any) -> Plan:
    """Return *plan* with arguments of one queue changed; ``None`` removes one. ``_`` means ``-``."""
    queues = []
    for part in plan.queues:
        if part.name == queue:
            renamed = {name.replace("_", "-"): value for name, value in changes.items()}
            merged = {**dict(part.arguments), **renamed}
            kept = tuple(sorted((name, value) for name, value in merged.items() if value is not None))
            queues.append(replace(part, arguments=kept))
        else:
            queues.append(part)
    return replace(plan, queues=tuple(queues))


async def test_limits_that_follow_settings_are_used_as_found(vhost: str) -> None:
    """An existing queue with another length, TTL or delivery limit is used, with one warning for each."""
    changed = replace(
        SMALL, parked_max_length=7, parked_ttl_s=60.0, browse_limit=2_000_000, delivery_limit=50
    )
    async with standing(vhost, SMALL) as live:
        warnings = await declare(build_plan(changed), live.connection)
        again = await declare(build_plan(changed), live.connection)
        assert await declare(live.plan, live.connection) == ()

    assert again == warnings
    parked = [line for line in warnings if line.startswith("queue leveret.parked:")]
    assert [line.partition(";")[0] for line in sorted(parked)] == [
        "queue leveret.parked: x-delivery-limit is 1000000 on the broker, 2000000 in the plan",
        "queue leveret.parked: x-max-length is 10000 on the broker, 7 in the plan",
        "queue leveret.parked: x-message-ttl is 604800000 on the broker, 60000 in the plan",
    ]
    assert any(line.startswith("queue leveret.lane.00: x-delivery-limit is 1000 ") for line in warnings)


async def test_a_limit_that_is_missing_on_the_broker_is_used_as_found(vhost: str) -> None:
    """A parked queue without any length limit (made by hand) is used with a warning too."""
    plan = build_plan(SMALL)
    async with connected(vhost) as connection:
        await declare(with_arguments(plan, NAMES.parked, x_max_length=None), connection)
        warnings = await declare(plan, connection)

    assert [line.partition(";")[0] for line in warnings] == [
        "queue leveret.parked: x-max-length is none on the broker, 10000 in the plan"
    ]


@pytest.mark.parametrize(
    ("queue", "changes", "words"),
    [
        (NAMES.rung(0.1), {"x_message_ttl": 999}, "x-message-ttl is 999 on the broker, 100 in"),
        (NAMES.lane(0), {"x_overflow": None, "x_dead_letter_strategy": None}, "is none on the broker"),
        (NAMES.due_queue(0), {"x_dead_letter_exchange": "y"}, "x-dead-letter-exchange is y on the broker"),
        (NAMES.overflow, {"x_max_length": 5}, "x-max-length is 5 on the broker, none in the plan"),
        (
            NAMES.parked,
            {"x_max_length": 5, "x_message_ttl": 9, "x_dead_letter_exchange": "y"},
            "x-dead-letter-exchange is y on the broker, leveret.expired in the plan",
        ),
    ],
)
async def test_any_other_difference_is_an_error_that_names_it(
    vhost: str, queue: str, changes: dict[str, Any], words: str
) -> None:
    """Fault 61: queue, argument, expected and found, at once; also behind a difference that is used."""
    plan = build_plan(SMALL)
    async with connected(vhost) as connection:
        await declare(with_arguments(plan, queue, **changes), connection)

        with pytest.raises(TopologyConflict) as caught:
            await declare(plan, connection)

    assert str(caught.value).startswith(f"queue {queue}: ")
    assert words in str(caught.value)


async def test_another_queue_type_is_an_error(vhost: str) -> None:
    """Fault 61: a topology of classic queues is not silently used as quorum."""
    async with standing(vhost, replace(SMALL, queue_type="classic")) as live:
        with pytest.raises(TopologyConflict, match=r"queue leveret\.overflow"):
            await declare(build_plan(SMALL), live.connection)


async def test_another_exchange_is_an_error(vhost: str) -> None:
    """Fault 61: an exchange of another type, or without its alternate exchange, is named."""
    async with connected(vhost) as connection:
        channel = await connection.channel()
        await channel.declare_exchange(NAMES.due, "topic", durable=True)
        with pytest.raises(TopologyConflict, match=r"exchange leveret\.due: alternate-exchange is none"):
            await declare(build_plan(SMALL), connection)
        await channel.exchange_delete(NAMES.due)
        await channel.declare_exchange(NAMES.wait, "fanout", durable=True)
        with pytest.raises(TopologyConflict, match=r"exchange leveret\.wait: type is fanout on the broker"):
            await declare(build_plan(SMALL), connection)


async def test_a_missing_plugin_is_a_clear_error(vhost: str) -> None:
    """An exchange type that the node does not know: the error names the plugin and the way without it."""
    plan = build_plan(SMALL)
    exchanges = tuple(
        replace(part, type="x-unknown") if part.name == NAMES.lanes else part for part in plan.exchanges
    )
    async with connected(vhost) as connection:
        with pytest.raises(PluginMissing, match=r"rabbitmq_consistent_hash_exchange.*lanes = 1"):
            await declare(replace(plan, exchanges=exchanges), connection)


async def test_a_queue_held_by_another_connection_is_a_clear_error(vhost: str) -> None:
    """An exclusive queue under one of our names is named, not waited for."""
    async with connected(vhost) as other, connected(vhost) as connection:
        await (await other.channel()).declare_queue(NAMES.overflow, exclusive=True)
        with pytest.raises(TopologyError, match=r"queue leveret\.overflow"):
            await declare(build_plan(SMALL), connection)


async def test_a_deleted_queue_is_made_again(vhost: str) -> None:
    """Faults 62, 64: declaring again repairs a deleted queue and its bindings without touching the rest."""
    async with standing(vhost, SMALL) as live:
        await live.channel.queue_delete(NAMES.rung(0.1))
        [finding] = await probe(live.plan, live.connection)
        assert (finding.subject, finding.text) == ("queue leveret.wait.100", "does not exist")

        assert await declare(live.plan, live.connection) == ()
        await live.publish(NAMES.wait, NAMES.wait_key(0.1, NAMES.due_queue(0)))
        await live.take([NAMES.due_queue(0)], 1)


async def test_a_policy_beats_our_arguments(vhost: str, management: httpx2.Client) -> None:
    """The warning of the check is true on this server: a broad policy makes a lane lose events by TTL, and
    a full parked drop its oldest entries instead of refusing.
    """
    name = vhost.rpartition("/")[2]
    definition = {"overflow": "drop-head", "message-ttl": 300}
    policy = {"pattern": ".*", "definition": definition, "apply-to": "queues"}
    management.put(f"/api/policies/{name}/broad", json=policy).raise_for_status()
    async with standing(vhost, replace(SMALL, parked_max_length=3)) as live:
        assert await count_until_refused(live) == 50

        await live.publish(NAMES.events, "a", b"event", {"tenant": "acme"})
        [(_, message)] = await live.take([NAMES.overflow], 1)

    assert message.headers["x-first-death-reason"] == "expired"
