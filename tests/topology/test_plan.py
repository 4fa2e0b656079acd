"""The plan has exactly the documented arguments, and the same text every time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from topology.plan import Plan, SourceSpec, TopologySpec, build_plan, sized_queues

SPEC = TopologySpec()
INBOX = SourceSpec(name="crm", exchange="crm.events", routing_key="customer.#")
DIRECT = SourceSpec(name="shop", exchange="shop", direct=True)


def queue_arguments(plan: Plan, name: str) -> dict[str, Any]:
    """Return the arguments of one queue in *plan*."""
    return next(dict(queue.arguments) for queue in plan.queues if queue.name == name)


def test_a_rung_gives_back_confirmed() -> None:
    """Each rung has one TTL and at-least-once dead letters to due, without a routing key of its own."""
    assert queue_arguments(build_plan(SPEC), "leveret.wait.1500") == {
        "x-queue-type": "quorum",
        "x-message-ttl": 1500,
        "x-dead-letter-exchange": "leveret.due",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


@pytest.mark.parametrize(
    "name", ["leveret.lane.15", "leveret.due.03", "leveret.replay", "leveret.spill.03", "leveret.inbox.crm"]
)
def test_work_queues_have_the_last_net(name: str) -> None:
    """Lanes, due, replay, spill and inboxes dead-letter raw to overflow after 1,000 returns."""
    assert queue_arguments(build_plan(replace(SPEC, sources=(INBOX,))), name) == {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "leveret.dlx",
        "x-dead-letter-routing-key": "raw",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": 1000,
    }


def test_parked_refuses_and_expires_into_expired() -> None:
    """S1-4: parked has 10,000 entries and 7 days, drops nothing silently, and survives any browsing."""
    assert queue_arguments(build_plan(SPEC), "leveret.parked") == {
        "x-queue-type": "quorum",
        "x-max-length": 10_000,
        "x-message-ttl": 604_800_000,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "leveret.expired",
        "x-dead-letter-strategy": "at-least-once",
        "x-delivery-limit": 1_000_000,
    }


def test_suspect_gives_two_tries_and_leads_to_overflow() -> None:
    """Fault 70: a message that kills workers goes to overflow after two more attempts."""
    plan = build_plan(SPEC)
    suspect = queue_arguments(plan, "leveret.suspect")

    assert suspect["x-delivery-limit"] == 2
    assert (suspect["x-dead-letter-exchange"], suspect["x-dead-letter-routing-key"]) == ("leveret.dlx", "raw")
    assert "binding leveret.dlx -[raw]-> queue leveret.overflow" in plan.lines()


def test_no_dead_letter_target_has_a_limit() -> None:
    """No dead-letter target has a length limit, because a full target would block all dead letters.

    The test follows the bindings from every dead-letter exchange, by the routing key of the dead letters.
    """
    plan = build_plan(replace(SPEC, sources=(INBOX,)))
    keys = {"leveret.dlx": {"raw"}}
    targets = {
        binding.destination
        for queue in plan.queues
        for binding in plan.bindings
        if binding.source == dict(queue.arguments).get("x-dead-letter-exchange")
        and binding.routing_key in keys.get(binding.source, {binding.routing_key})
    }

    assert {"leveret.overflow", "leveret.expired", "leveret.due.00"} <= targets
    for name in {*targets, "leveret.stray"}:
        assert not {"x-max-length", "x-max-length-bytes"} & queue_arguments(plan, name).keys()
    for name in ("leveret.overflow", "leveret.expired", "leveret.stray"):
        assert queue_arguments(plan, name) == {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}


def test_events_route_lanes_are_joined_by_alternate_exchanges() -> None:
    """Events pass guard and route; those without a headers binding go to the lanes, hashed by tenant."""
    lines = build_plan(SPEC).lines()

    assert "exchange leveret.route (headers) alternate-exchange=leveret.lanes" in lines
    assert "exchange leveret.lanes (x-consistent-hash) hash-header=tenant" in lines
    assert "exchange leveret.due (topic) alternate-exchange=leveret.stray" in lines
    assert "exchange leveret.guard (headers) alternate-exchange=leveret.route" in lines
    assert "binding leveret.events -[#]-> exchange leveret.guard" in lines
    assert sum("leveret.lanes -[1]-> queue leveret.lane." in line for line in lines) == 16


def test_the_hash_follows_the_settings() -> None:
    """The lanes hash the message id or another tenant header, as set."""
    by_id = build_plan(replace(SPEC, hash_on="message_id")).lines()
    by_header = build_plan(replace(SPEC, hash_header="x-company")).lines()

    assert "exchange leveret.lanes (x-consistent-hash) hash-property=message_id" in by_id
    assert "exchange leveret.lanes (x-consistent-hash) hash-header=x-company" in by_header


def test_one_lane_needs_no_plugin() -> None:
    """With lanes = 1 and without the plugin, a fanout exchange feeds the only lane."""
    plan = build_plan(replace(SPEC, lanes=1, consistent_hash=False))

    assert not plan.needs_consistent_hash
    assert "exchange leveret.lanes (fanout)" in plan.lines()
    assert "binding leveret.lanes -[(any)]-> queue leveret.lane.00" in plan.lines()
    assert build_plan(SPEC).needs_consistent_hash


def test_classic_queues_get_only_their_own_arguments() -> None:
    """With queue_type = classic, the type is declared and quorum-only arguments are left out."""
    for queue in build_plan(replace(SPEC, queue_type="classic")).queues:
        arguments = dict(queue.arguments)
        assert arguments["x-queue-type"] == "classic"
        assert not {"x-delivery-limit", "x-dead-letter-strategy"} & arguments.keys()
        assert queue.follows <= arguments.keys()


def test_sources_are_bound_straight_or_through_an_inbox() -> None:
    """A source is bound to our exchange if headers suffice, else to an inbox queue."""
    plan = build_plan(replace(SPEC, sources=(INBOX, DIRECT)))

    assert plan.foreign_exchanges == ("crm.events", "shop")
    assert "binding crm.events -[customer.#]-> exchange leveret.inbox.crm" in plan.lines()
    assert "exchange leveret.inbox.crm (headers) alternate-exchange=leveret.inbox.crm.undied" in plan.lines()
    assert "binding leveret.inbox.crm.undied -[(any)]-> queue leveret.inbox.crm" in plan.lines()
    assert "binding shop -[#]-> exchange leveret.events" in plan.lines()
    assert "leveret.inbox.shop" not in {queue.name for queue in plan.queues}
    assert not {"crm.events", "shop"} & {exchange.name for exchange in plan.exchanges}


def test_a_death_on_record_never_enters_a_queue_with_dead_letters() -> None:
    """Fault 89: every entry passes a guard, and the queues behind the guards have no dead letters."""
    plan = build_plan(replace(SPEC, sources=(INBOX, DIRECT)))
    taken = "x-death=(any) x-match=any-with-x"

    for guard, queue in (
        ("leveret.guard", "leveret.lane.died"),
        ("leveret.inbox.crm", "leveret.inbox.crm.died"),
    ):
        assert f"binding {guard} -[(any)]-> queue {queue} {taken}" in plan.lines()
        assert queue_arguments(plan, queue) == {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}
    assert [str(binding) for binding in plan.unbound] == [
        "binding leveret.events -[#]-> exchange leveret.route",
        "binding crm.events -[customer.#]-> queue leveret.inbox.crm",
    ]


def test_the_plan_is_the_same_every_time_and_counts_its_queues() -> None:
    """The plan has 37 rungs, 16 lanes, died, 4 due, 4 spill, replay, five ends, and the store's record."""
    assert build_plan(SPEC) == build_plan(TopologySpec())
    assert str(build_plan(SPEC)) == str(build_plan(TopologySpec()))
    assert len(build_plan(SPEC).queues) == 37 + 17 + 4 + 4 + 1 + 6


def test_diff_names_the_changes() -> None:
    """A diff has the removed and added lines, and is empty for equal plans."""
    before, after = build_plan(SPEC), build_plan(replace(SPEC, parked_max_length=5, due_queues=5))

    diff = before.diff(after)

    assert before.diff(build_plan(SPEC)) == ()
    assert any(line.startswith("- queue leveret.parked") and "x-max-length=10000" in line for line in diff)
    assert any(line.startswith("+ queue leveret.parked") and "x-max-length=5 " in line for line in diff)
    assert any(line.startswith("+ queue leveret.due.04") for line in diff)
    assert len(diff) == 4


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"lanes": 0}, "lanes"),
        ({"lanes": 101}, "lanes"),
        ({"consistent_hash": False}, "lanes must be 1"),
        ({"due_queues": 0}, "due_queues"),
        ({"spill_queues": -1}, "spill_queues"),
        ({"lanes_before": 101}, "lanes_before"),
        ({"dedicated": ("a b",)}, "dedicated tenant"),
        ({"dedicated": ("a",), "retired": ("a",)}, "is listed twice"),
        ({"rungs_s": ()}, "rungs_s"),
        ({"rungs_s": (0.0, 1.0)}, "rungs_s"),
        ({"rungs_s": (2.0, 1.0)}, "ascend"),
        ({"rungs_s": (1.0, 1.0)}, "ascend"),
        ({"rungs_s": (0.0015,)}, "whole milliseconds"),
        ({"parked_ttl_s": 0.0}, "parked_ttl_s"),
        ({"parked_max_length": 0}, "parked_max_length"),
        ({"delivery_limit": -1}, "delivery_limit"),
        ({"queue_type": "stream"}, "queue_type"),
        ({"prefix": "a b"}, "prefix"),
        ({"sources": (replace(INBOX, name="a.b"),)}, "source name"),
        ({"sources": (INBOX, INBOX)}, "used twice"),
        ({"sources": (replace(INBOX, exchange=""),)}, "no exchange"),
    ],
)
def test_a_wrong_spec_is_an_error_that_names_the_field(changes: dict[str, Any], named: str) -> None:
    """Every bound is checked; a delivery limit of -1 is refused, as 3.10 would drop at the first return."""
    with pytest.raises(ValueError, match=named):
        replace(SPEC, **changes)


def test_a_dedicated_lane_is_a_binding_around_the_others() -> None:
    """A dedicated tenant has its own queue, and no spill queue may copy its events."""
    plan = build_plan(replace(SPEC, dedicated=("acme",), hash_header="x-tenant", spill_queues=2))
    route = "binding leveret.route -[(any)]-> queue"

    assert f"{route} leveret.dedicated.acme x-match=all-with-x x-tenant=acme" in plan.lines()
    assert queue_arguments(plan, "leveret.dedicated.acme") == queue_arguments(plan, "leveret.lane.00")
    assert [str(binding) for binding in plan.unbound[1:]] == [
        f"{route} leveret.spill.{n:02d} x-match=all-with-x x-tenant=acme" for n in range(2)
    ]


def test_a_tenant_whose_name_is_a_number_has_two_bindings() -> None:
    """A headers exchange compares types, and publishers send such a name as text or as a number."""
    plan = build_plan(replace(SPEC, dedicated=("42", "042", "-0"), spill_queues=0))
    found = [binding for binding in plan.bindings if ".dedicated." in binding.destination]

    assert [dict(binding.arguments)["tenant"] for binding in found] == ["42", 42, "042", "-0"]


def test_lanes_that_are_to_go_are_kept_and_get_nothing_more() -> None:
    """lanes_before and retired keep the queues until they are empty, and remove their bindings."""
    plan = build_plan(replace(SPEC, lanes=2, lanes_before=4, retired=("acme",)))
    lines = plan.lines()

    assert {"leveret.lane.03", "leveret.dedicated.acme"} <= {queue.name for queue in plan.queues}
    assert not any("leveret.lane.03" in line and line.startswith("binding") for line in lines)
    assert [line for line in lines if line.startswith("no ")][1:] == [
        "no binding leveret.lanes -[1]-> queue leveret.lane.02",
        "no binding leveret.lanes -[1]-> queue leveret.lane.03",
        "no binding leveret.route -[(any)]-> queue leveret.dedicated.acme tenant=acme x-match=all",
    ]


def test_emptied_queues_are_still_counted() -> None:
    """The gauge of the lanes counts all waiting fresh events, including those of removed lanes."""
    spec = replace(SPEC, lanes=1, lanes_before=2, dedicated=("a",), retired=("b",))

    counted = [name for name, label in sized_queues(spec) if label == "lane"]

    names = spec.names
    assert counted == [*map(names.lane, range(2)), *map(names.dedicated, "ab"), names.died]
