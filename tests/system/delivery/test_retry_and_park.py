"""Failures are tried again, never early; exhausted deliveries are parked, shown and replayed."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import aio_pika
import httpx2
import pytest

from consumer.core.message.delivery import wrap_raw
from consumer.core.model import RawMessage
from tests.support.servers.receiver import Receiver
from tests.support.servers.requests import Received
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, deliveries, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

EARLY_S = 0.002  #: a wait counts from the answer's end in the daemon, not in the receiver
SLACK_S = 1.0  #: additional time between the daemon and the receiver on a busy machine
S1_3 = {
    *("id", "delivery_id", "event_id", "subscription_id", "tenant", "type", "reason", "detail", "arrived_at"),
    *("parked_at", "failed_attempts", "last_failure_code", "last_failure_at", "ttl_s", "attempts"),
}


def waits_s(requests: list[Received]) -> list[float]:
    """Return the time from each answer to the next request."""
    return [after.start - before.end for before, after in pairwise(requests)]


async def test_a_failure_is_tried_again_after_the_policys_wait(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """S0-1, fault 40: 503 twice, then taken; no wait is shorter than the policy's, bytes never differ."""
    target = "/retry-after/twice?s=0&times=2"
    policy = {"max_attempts": 5, "base_s": 0.3, "multiplier": 2, "max_s": 10, "jitter": 0}
    await shared.apply(to(receiver, target, "twice", retry=policy))

    event_id = await publisher.publish("twice")

    await all_delivered(receiver, target, [event_id])
    requests = requests_of(receiver, target)
    assert [r.status for r in requests] == [503, 503, 200]
    first, second = waits_s(requests)
    assert first >= 0.3 - EARLY_S
    assert second >= 0.6 - EARLY_S
    assert len({r.body for r in requests}) == 1
    assert len({r.webhook_id for r in requests}) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_never_early_and_holds_the_endpoint(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, status: int
) -> None:
    """Fault 39: after ``Retry-After: 2`` no event goes to that endpoint for 2 s."""
    tenant, target = f"after{status}", f"/retry-after/{status}?s=2&times=1&status={status}"
    await shared.apply(to(receiver, target, tenant))

    first = await publisher.publish(tenant)
    await until(lambda: requests_of(receiver, target) and requests_of(receiver, target)[0].end, "refused")
    behind = await publisher.publish(tenant)

    await all_delivered(receiver, target, [first, behind])
    [refused, *later] = requests_of(receiver, target)
    assert min(r.start for r in later) - refused.end >= 2 - EARLY_S
    assert len(requests_of(receiver, target, behind)) <= 2


@pytest.mark.parametrize("value", ["-5", "nan", "soon", "0", ""])
async def test_a_senseless_retry_after_is_ignored(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, value: str
) -> None:
    """Fault 39: garbage, negative and zero waits leave the policy's own."""
    tenant = f"senseless{value.strip('-')}"
    target = f"/retry-after/{tenant}?s={value}&times=1&status=503"
    await shared.apply(to(receiver, target, tenant))

    event_id = await publisher.publish(tenant)

    await all_delivered(receiver, target, [event_id])
    assert waits_s(requests_of(receiver, target))[0] >= 0.1 - EARLY_S


async def test_retry_after_as_a_date(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """Fault 39: an HTTP date is waited for."""
    at = int(time.time()) + 3
    target = f"/retry-after/date?s={quote(formatdate(at, usegmt=True), safe=',:')}&times=1"
    await shared.apply(to(receiver, target, "date"))

    await publisher.publish("date")

    await until(lambda: len(receiver.requests) == 2, "two requests")
    assert receiver.requests[1].start >= at


async def test_permanent_failures_are_parked_at_once(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 37, S1-7: 400, 413, 415 and 422 are parked ``permanent`` after one attempt, 404 is retried."""
    statuses = (400, 413, 415, 422, 404)
    await shared.apply(*(to(receiver, f"/status/{status}/never", "never") for status in statuses))

    await publisher.publish("never")

    entries = await shared.parked(5, tenant="never")
    found = {(e["last_failure_code"], e["reason"], e["failed_attempts"]) for e in entries}
    assert found == {(str(s), "permanent", 1) for s in statuses[:-1]} | {("404", "exhausted", 3)}


async def test_status_rules_of_a_subscription(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 37: ``on_status`` changes the meaning of a status or of a class of them."""
    await shared.apply(
        to(receiver, "/status/404/rules", "rules", on_status={"404": "park"}),
        to(receiver, "/status/502/rules", "rules", on_status={"5xx": "drop", "503": "retry"}),
        to(receiver, "/status/400/rules", "rules", on_status={"400": "retry"}),
    )

    await publisher.publish("rules")

    entries = await shared.parked(2, tenant="rules")
    found = {(e["last_failure_code"], e["reason"], e["failed_attempts"]) for e in entries}
    assert found == {("404", "permanent", 1), ("400", "exhausted", 3)}
    assert len(requests_of(receiver, "/status/502/rules")) == 1
    assert shared.count("delivery.cancelled") >= 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, status: int
) -> None:
    """Fault 36: a redirect is a failure, the second URL is never visited, ``Location`` is on record."""
    tenant, there = f"moved{status}", receiver.url(f"/ok/there{status}")
    await shared.apply(to(receiver, f"/redirect?to={quote(there)}&status={status}", tenant))

    event_id = await publisher.publish(tenant)

    [entry] = await shared.parked(1, event_id=event_id)
    assert entry["last_failure_code"] == str(status)
    assert there in entry["detail"]
    assert not requests_of(receiver, f"/ok/there{status}")
    assert {r.method for r in receiver.requests} == {"POST"}


async def test_gone_disables_the_subscription(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """SW-37, fault 38: 410 disables; waiting deliveries are parked ``disabled``, new events unmatched."""
    target = "/gone/away?after=0"
    await shared.apply(to(receiver, target, "gone"), to(receiver, "/ok/stays", "gone"))

    first = await publisher.publish("gone")
    await shared.logged("endpoint.disabled", tenant="gone")
    second = await publisher.publish("gone")

    [entry] = await shared.parked(1, event_id=first)
    assert entry["reason"] == "disabled"
    await all_delivered(receiver, "/ok/stays", [first, second])
    assert [r.webhook_id for r in requests_of(receiver, target)] == [first]
    [stored] = await shown(shared.entries, lambda e: e.label == target and not e.enabled)
    assert "410" in str(stored.disabled_reason)


async def test_exhausted_parked_listed_shown_replayed(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """S1-3, S3-5, SW-46: parked with every field and attempt; ``list``, ``show``, ``replay`` work on it.

    The replay has the original data and id, starts at attempt 1 and leaves the parked queue.
    """
    target = "/retry-after/dlq?s=0&times=3"
    await shared.apply(to(receiver, target, "dlq"))
    event_id = await publisher.publish("dlq", body=b'{"keep":"\\u00e9 me"}')
    await shared.parked(1, tenant="dlq")

    [row] = [r for r in await shared.listing("parked", "list") if r["tenant"] == "dlq"]
    shown = json.loads(await shared.cli("parked", "show", str(row["id"])))
    await shared.cli("parked", "replay", str(row["id"]))

    assert row.keys() >= S1_3
    assert (row["reason"], row["failed_attempts"], row["last_failure_code"]) == ("exhausted", 3, "503")
    assert [a["number"] for a in shown["attempts"]] == [1, 2, 3]
    assert shown["data"] == '{"keep":"\\u00e9 me"}'
    await all_delivered(receiver, target, [event_id])
    assert len({r.body for r in requests_of(receiver, target)}) == 1
    assert not [r for r in await shared.listing("parked", "list") if r["tenant"] == "dlq"]


async def test_age_ends_a_delivery(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """S1-15: past ``max_age_s`` nothing is sent, the delivery is parked ``expired``."""
    policy = {**QUICK, "max_attempts": 100, "base_s": 0.2, "max_age_s": 1}
    target = "/status/503/aged"
    await shared.apply(to(receiver, target, "aged", retry=policy, breaker=dict(BREAKER_OFF)))

    event_id = await publisher.publish("aged")

    [entry] = await shared.parked(1, event_id=event_id)
    assert entry["reason"] == "expired"
    requests = requests_of(receiver, target)
    assert 2 <= len(requests) <= 6
    assert requests[-1].start - requests[0].start <= 1 + SLACK_S


async def test_deleted_and_disabled_while_deliveries_wait(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 31: waiting deliveries of a deleted subscription are dropped, of a disabled one parked."""
    policy = {**QUICK, "base_s": 10.0, "max_s": 10.0}  # far longer than the change takes on a busy machine
    one = to(receiver, "/status/503/deleted", "cut", retry=policy)
    two = to(receiver, "/status/503/disabled", "cut", retry=policy)
    three = to(receiver, "/ok/kept", "cut")
    others = [e.document() for e in await shared.entries() if e.tenant != "cut" and e.enabled]
    await shared.apply(one, two, three)
    event_id = await publisher.publish("cut")
    await until(lambda: len(receiver.requests) == 3, "three first attempts")

    await shared.apply(two | {"enabled": False}, three, *others, prune=True)

    [entry] = await shared.parked(1, tenant="cut")
    assert (entry["reason"], entry["failed_attempts"]) == ("disabled", 1)
    await shared.logged("delivery.cancelled", event_id=event_id)
    assert len(receiver.requests) == 3


async def test_a_changed_url_is_used_by_the_next_attempt(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 32: a waiting retry goes to the URL that is valid then."""
    policy = {**QUICK, "base_s": 10.0, "max_s": 10.0}  # far longer than the change takes on a busy machine
    entry = to(receiver, "/status/503/before", "moving", retry=policy)
    await shared.apply(entry)
    event_id = await publisher.publish("moving")
    await until(lambda: requests_of(receiver, "/status/503/before"), "first attempt")

    await shared.apply(entry | {"url": receiver.url("/ok/after")})

    await all_delivered(receiver, "/ok/after", [event_id])
    assert len(requests_of(receiver, "/status/503/before")) == 1
    assert deliveries(receiver, "/ok/after") == {event_id: 1}


async def test_an_event_whose_spill_queue_is_unbound_goes_its_way(
    shared: Daemon,
    publisher: EventPublisher,
    receiver: Receiver,
    management: httpx2.Client,
    module_vhost: str,
) -> None:
    """Faults 16, 64: it lands in stray and is delivered from there; the binding is back without a restart."""
    names, target = shared.names, "/ok/stray"
    await shared.apply(to(receiver, target, "stray"))
    spill = await publisher.channel.get_queue(names.spill(0), ensure=False)
    key = names.direct_key(names.spill(0))
    raw = RawMessage(
        body=b"1", headers={"tenant": "stray"}, exchange=names.events, routing_key="a.b", message_id="stray-1"
    )
    headers: dict[str, Any] = {**wrap_raw(raw), "leveret-tenant": "stray"}
    moved = aio_pika.Message(b"1", headers=headers, delivery_mode=2)
    due = await publisher.channel.get_exchange(names.due, ensure=False)
    await spill.unbind(names.due, names.due_pattern(names.spill(0)))

    await due.publish(moved, key, mandatory=True)

    await all_delivered(receiver, target, ["stray-1"])
    await shared.logged("topology.repairing")
    vhost = module_vhost.rpartition("/")[2]
    path = f"/api/bindings/{vhost}/e/{names.due}/q/{names.spill(0)}"
    await until(lambda: management.get(path).raise_for_status().json(), "bound again")
    assert shared.count("delivery.parked", queue=names.stray) == 0
