"""One message to its verdicts: what is sent, what is stored, and that the ack comes last."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.event.decode import DecodeRules
from consumer.core.event.sources import parse_rule
from consumer.core.message.delivery import DeliveryMessage, headers_of, wrap_raw
from consumer.core.model import Attempt, OutcomeKind, ParkReason
from consumer.ports import Source
from tests.support.fakes import START, run_virtually, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import DUE, NAMES, Worker, delivery_message, event, event_message

SHOP = "https://shop.example/"
SLOW = "https://slow.example/"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


async def slow(worker: Worker, **fields: Any) -> str:
    """Subscribe an endpoint that takes 2 s and is known for it; return its subscription's id."""
    subscription = await worker.subscribe("slow", **fields)
    worker.sender.latency_s[SLOW] = 2.0
    await worker.handle(event_message(message_id="slow-0", tenant=subscription.tenant))
    assert worker.endpoint(subscription).latency.is_slow
    worker.journal.clear()
    return subscription.id


def due(*targets: str, **more: Any) -> DeliveryMessage:
    """A delivery message for these targets, to be sent now."""
    fields: dict[str, Any] = {"event": event(), "targets": targets, "not_before": START}
    return DeliveryMessage(**fields | more)


# events


async def test_an_event_is_sent_once_and_acked_after_the_answer(worker: Worker) -> None:
    """One hop when all is well: no publish, one request, then the ack (settle rule)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["sending", "answered", "ack"]
    assert ticket.settles == ["ack"]


async def test_the_request_is_a_standard_webhook(worker: Worker) -> None:
    """Id of the event, whole seconds of the attempt, the same body, its own signature (SW-02..05)."""
    shop = await worker.subscribe("shop", secrets=[SECRET], headers={"x-api-version": "2"})
    worker.sender.on(SHOP, Reply(status=503), Reply())
    await worker.handle(event_message())
    await worker.clock.advance(7)

    await worker.handle(delivery_message(due(shop.id, attempts_made=1)), Source.DUE)

    body = b'{"type":"order.created","timestamp":"2023-11-14T22:13:15Z","data":{"n":1}}'
    assert [request.body for request in worker.sender.sent] == [body, body]
    for request, at in zip(worker.sender.sent, (START, START + 7), strict=True):
        headers = dict(request.headers)
        assert headers["webhook-id"] == "ord-1"
        assert headers["webhook-timestamp"] == str(int(at))
        reference = Webhook(SECRET).sign("ord-1", datetime.fromtimestamp(int(at), UTC), body.decode())
        assert headers["webhook-signature"] == reference
        assert headers["x-api-version"] == "2"
        assert request.timeout_s == shop.timeout_s


async def test_a_failure_is_stored_with_its_attempt_before_the_ack(worker: Worker) -> None:
    """One wait message with attempt 1, on the rung of the first wait; ack last (S0-1, fault 40)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))

    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["sending", "answered", "publishing", "confirmed", "ack"]
    [published] = worker.publisher.confirmed
    [waiting] = worker.waiting()
    assert (published.publication.exchange, published.key) == (NAMES.wait, f"1000.{DUE}")
    assert waiting.targets == (shop.id,)
    assert (waiting.attempts_made, waiting.attempts[0].status) == (1, 503)
    assert (waiting.not_before, waiting.wait_s) == (START + 1, 1.0)
    assert ticket.settles == ["ack"]


async def test_nothing_of_the_producer_leaves_with_a_delivery_message(worker: Worker) -> None:
    """Forged ``leveret-*`` headers are not read and no header but ours is published (fault 18)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    forged = {"leveret-made": 10, "leveret-not-before": 0, "leveret-targets": "sub_other", "CC": ["x"]}

    await worker.handle(event_message(headers={"tenant": "acme", "x-death": [{"queue": "a"}]} | forged))

    [published] = worker.publisher.confirmed
    assert published.headers["leveret-made"] == 1
    assert all(name.startswith("leveret-") for name in published.headers)
    assert published.publication.message_id is None
    assert worker.sent("shop") == 1


async def test_an_event_that_nobody_wants_is_acked_and_counted(worker: Worker) -> None:
    """No subscription: acked, counted as unrouted, not parked (fault 7)."""
    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["ack"]
    assert ticket.settles == ["ack"]
    assert worker.count("events_total", outcome="unrouted") == 1


async def test_no_event_reaches_another_tenant(worker: Worker) -> None:
    """The subscription of acme sees nothing of others, whatever their ids look like (fault 16)."""
    await worker.subscribe("shop")

    for tenant in ("beta", "ac.e", "acme2", "ACME"):
        await worker.handle(event_message(tenant=tenant))

    assert worker.sender.sent == []


async def test_a_bad_event_is_parked_with_its_bytes_before_the_ack(worker: Worker) -> None:
    """Malformed JSON: parked raw, with its reason, and the next message flows (faults 1, 2)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(b'{"n":'))
    await worker.handle(event_message())

    [entry] = worker.parked()
    assert (entry.reason, entry.body) == (ParkReason.MALFORMED, b'{"n":')
    assert worker.journal.words()[:3] == ["publishing", "confirmed", "ack"]
    assert ticket.settles == ["ack"]
    assert worker.sent("shop") == 1


async def test_an_event_without_an_id_takes_the_inbox_hop(worker: Worker) -> None:
    """Published once more with a UUIDv7, confirmed, then acked; nothing is sent yet."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(message_id=None))

    [published] = worker.publisher.confirmed
    assert published.publication.exchange == NAMES.events
    assert published.message_id.count("-") == 4
    assert published.headers["tenant"] == "acme"
    assert worker.journal.words() == ["publishing", "confirmed", "ack"]
    assert ticket.settles == ["ack"]


async def test_an_event_whose_expiration_passed_is_not_sent() -> None:
    """It expired while it stood in a lane: parked as expired for each target, no request (fault 19)."""
    worker = Worker()
    await worker.subscribe("shop")
    await worker.subscribe("crm")
    past_ms = int(START * 1000) - 1

    ticket = await worker.handle(event_message(headers={"tenant": "acme", "expires_at_ms": past_ms}))

    assert worker.sender.sent == []
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED] * 2
    assert ticket.settles == ["ack"]


async def test_more_than_a_hundred_targets_are_split_first() -> None:
    """250 targets become three delivery messages, confirmed, before any request (fault 72)."""
    worker = Worker()
    await worker.subscribe_all(*(f"shop{n}" for n in range(250)))

    ticket = await worker.handle(event_message())

    assert worker.sender.sent == []
    assert [len(m.targets) for m in worker.waiting()] == [100, 100, 50]
    assert len({target for m in worker.waiting() for target in m.targets}) == 250
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.due}
    assert worker.journal.words()[-1] == "ack"
    assert ticket.settles == ["ack"]


# the settle rule


async def test_a_sibling_waits_for_no_confirm_and_the_ack_for_all(worker: Worker) -> None:
    """Decision 9: what is held is published beside the requests; the ack follows both, in any order."""
    slow_id = await slow(worker)
    await worker.subscribe("shop")
    worker.publisher.hang()

    first = worker.offer(event_message())
    await settled()

    assert worker.journal.words() == ["sending", "publishing", "answered"]
    assert first.settles == []
    worker.publisher.go_on()
    await worker.intake.idle()
    assert first.settles == ["ack"]
    worker.journal.clear()
    worker.sender.latency_s[SHOP] = 0.9

    await worker.handle(event_message(message_id="ord-2"))

    assert worker.journal.words() == ["sending", "publishing", "confirmed", "answered", "ack"]
    assert [m.targets for m in worker.waiting()] == [(slow_id,)] * 2


async def test_a_slow_sibling_never_holds_an_event(worker: Worker) -> None:
    """S2-6: the event is settled at once; the slow target goes through a due queue and spends no attempt."""
    slow_id = await slow(worker)
    await worker.subscribe("shop")
    began = worker.clock.monotonic()

    await worker.handle(event_message())

    assert worker.clock.monotonic() == began
    [waiting] = worker.waiting()
    assert (waiting.targets, waiting.attempts_made, waiting.attempts) == ((slow_id,), 0, ())
    assert worker.publisher.confirmed[0].publication.exchange == NAMES.due


async def test_a_probe_that_hangs_holds_up_no_siblings(worker: Worker) -> None:
    """Settle rule, fault 53, decision 9: it goes from a delivery message of its own; the event is acked."""
    await worker.subscribe("shop")
    slow_one = await worker.subscribe("slow", breaker={"failures": 1, "cooldown_s": 30})
    worker.sender.on(SLOW, Reply(status=503))
    await worker.handle(event_message(message_id="opens"))
    await worker.clock.advance(40)
    worker.sender.on(SLOW, Reply(hang=True))
    began = worker.clock.monotonic()

    ticket = await worker.handle(event_message(message_id="ord-2"))

    assert ticket.settles == ["ack"]
    assert worker.clock.monotonic() == began
    assert worker.sent("slow") == 1
    owed = worker.waiting()[-1]
    assert (owed.targets, owed.attempts_made) == ((slow_one.id,), 0)
    worker.offer(delivery_message(replace(owed, not_before=worker.clock.now())), Source.DUE)
    await settled()
    assert worker.sent("slow") == 2


async def test_a_slow_endpoint_alone_is_sent_from_its_delivery_message(worker: Worker) -> None:
    """As a delivery message of one target it is sent, however slow: it holds nobody."""
    slow_id = await slow(worker)

    ticket = await worker.handle(delivery_message(due(slow_id, not_before=START)), Source.DUE)

    assert worker.journal.words() == ["sending", "answered", "ack"]
    assert ticket.settles == ["ack"]


async def test_failures_are_published_together_after_the_last_request(worker: Worker) -> None:
    """The first failure waits for the slowest quick sibling; then all are stored at once, then the ack."""
    for name, latency_s in (("a", 0.0), ("b", 0.5), ("c", 0.8), ("d", 0.3)):
        await worker.subscribe(name)
        worker.sender.latency_s[f"https://{name}.example/"] = latency_s
        worker.sender.on(f"https://{name}.example/", Reply(status=200 if name == "c" else 500))

    await worker.handle(event_message())

    publishing = worker.journal.places("publishing")
    assert len(publishing) == 3
    assert max(worker.journal.places("answered")) < min(publishing)
    assert max(publishing) < min(worker.journal.places("confirmed"))
    assert worker.journal.words()[-1] == "ack"


async def test_a_deferred_target_spends_no_attempt(worker: Worker) -> None:
    """A saturated endpoint: its delivery message has no attempt and comes back at the endpoint's pace."""
    shop = await worker.subscribe("shop", concurrency=1)
    worker.sender.latency_s[SHOP] = 0.9
    for n in range(10):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    waiting = worker.waiting()

    assert worker.sender.peaks[SHOP] == 1
    assert len(waiting) + worker.sent("shop") == 10
    assert {m.attempts_made for m in waiting} == {0}
    assert {m.targets for m in waiting} == {(shop.id,)}
    assert len({m.not_before for m in waiting}) == len(waiting)


async def fail_for_days(worker: Worker, days: int, status: int = 500) -> None:
    """Send an event every six hours to an endpoint that fails."""
    for n in range(4 * days + 1):
        worker.sender.on(SHOP, Reply(status=status))
        await worker.handle(event_message(message_id=f"bad-{worker.clock.now():.0f}"))
        if n < 4 * days:
            await worker.clock.advance(6 * 3600)


async def test_five_days_of_failures_disable(worker: Worker) -> None:
    """SW-41: what failed last is parked `disabled`, new events are unmatched."""
    shop = await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 4)
    assert worker.parked() == []
    await worker.clock.advance(6 * 3600)

    await fail_for_days(worker, 1)

    (entry,) = worker.parked()
    assert entry.reason is ParkReason.DISABLED
    assert "every attempt failed for 5 days" in entry.detail
    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert not known.enabled
    sent, unrouted = worker.sent("shop"), worker.count("events_total", outcome="unrouted")
    await worker.handle(event_message(message_id="later"))
    assert worker.sent("shop") == sent
    assert worker.count("events_total", outcome="unrouted") == unrouted + 1


async def test_one_success_in_five_days_keeps_it(worker: Worker) -> None:
    """SW-41: only nothing but failures disables; so does 0 days never."""
    await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 4)
    worker.sender.on(SHOP, Reply())
    await worker.handle(event_message(message_id="good"))
    await fail_for_days(worker, 4)

    assert worker.parked() == []


async def test_an_endpoint_that_is_enabled_again_begins_anew(worker: Worker) -> None:
    """After an explicit enable the first failure does not disable it again."""
    shop = await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 5)
    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert not known.enabled
    await worker.subscriptions.settle()
    await worker.store.apply(worker._entries, enable=True)
    assert await worker.subscriptions.reload()

    await fail_for_days(worker, 1)

    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert known.enabled


async def test_a_retry_over_the_budget_is_postponed() -> None:
    """S0-10: over the budget of the endpoint, or of all, a retry waits longer; none is dropped."""
    for own, every in ((2, None), (None, 2)):
        worker = Worker(retry_budget=every)
        retry = {"base_s": 1, "jitter": 0} | ({} if own is None else {"budget": own})
        await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
        worker.sender.on(SHOP, *[Reply(status=500)] * 4)
        for n in range(4):
            await worker.handle(event_message(message_id=f"ord-{n}"))

        waits = [message.not_before - START for message in worker.waiting()]

        assert waits == pytest.approx([1, 1, 31, 61])


async def test_a_budget_never_carries_a_retry_past_its_age(worker: Worker) -> None:
    """S0-10, S1-15: postponed at most until the delivery ends, where it is parked."""
    retry = {"base_s": 1, "jitter": 0, "budget": 1, "max_age_s": 20}
    await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
    worker.sender.on(SHOP, Reply(status=500), Reply(status=500))
    for n in range(2):
        await worker.handle(event_message(message_id=f"ord-{n}"))

    assert [message.not_before - START for message in worker.waiting()] == pytest.approx([1, 20])


async def test_a_decorrelated_wait_looks_at_the_one_before(worker: Worker) -> None:
    """S0-10: an attempt at 0 s and one at 4 s: the next wait is from 1 to 12 s, and after that again less."""
    retry = {"base_s": 1, "jitter_kind": "decorrelated", "max_attempts": 9}
    shop = await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
    worker.sender.on(SHOP, Reply(status=500))
    before = (
        Attempt(1, START - 6, OutcomeKind.HTTP_5XX, 500, 0.0),
        Attempt(2, START - 4, OutcomeKind.HTTP_5XX, 500, 0.0),
    )

    await worker.handle(delivery_message(due(shop.id, attempts=before, attempts_made=2)), Source.DUE)

    (waiting,) = worker.waiting()
    assert waiting.not_before - START == pytest.approx(1 + 0.5 * (12 - 1))


async def test_a_status_has_waits_of_its_own(worker: Worker) -> None:
    """S4-2: 429 waits longer than 500."""
    retry = {"base_s": 1, "jitter": 0, "by_status": {"429": {"base_s": 30}}}
    await worker.subscribe("shop", retry=retry)
    worker.sender.on(SHOP, Reply(status=500), Reply(status=429))
    for n in range(2):
        await worker.handle(event_message(message_id=f"ord-{n}"))

    assert [message.not_before - START for message in worker.waiting()] == pytest.approx([1, 30])


FAULTS = st.sampled_from(
    [None, BrokerUnavailable("lost"), Unroutable("no queue"), Refused("full"), BrokerUnavailable("closed")]
)
STATUSES = st.sampled_from([200, 204, 302, 400, 404, 410, 429, 500, 503])


@settings(max_examples=80)
@given(
    st.lists(st.tuples(STATUSES, st.booleans(), st.integers(0, 8)), min_size=1, max_size=6),
    st.lists(FAULTS, max_size=12),
    st.booleans(),
)
def test_every_message_ends_in_one_settle(
    targets: list[tuple[int, bool, int]], faults: list[Exception | None], fresh: bool
) -> None:
    """Whatever endpoints and broker do: one ack, after every owed publication, and nothing after it."""

    async def main() -> None:
        worker = Worker()
        ids, owed = [], 0
        for number, (status, is_slow, latency) in enumerate(targets):
            name = f"e{number}"
            subscription = await worker.subscribe(name)
            ids.append(subscription.id)
            url = subscription.url
            if is_slow and len(targets) > 1:
                worker.endpoint(subscription).latency.learn(2.0, worker.clock.now(), taken=True)
                owed += 1
            else:
                owed += status >= 300
            worker.sender.on(url, Reply(status=status))
            worker.sender.latency_s[url] = latency / 10
        worker.publisher.faults = list(faults)
        if fresh:
            ticket = await worker.handle(event_message())
        else:
            ticket = await worker.handle(delivery_message(due(*ids)), Source.DUE)
        await worker.clock.advance(60)

        refused = sum(isinstance(fault, Refused) for fault in faults)
        assert ticket.settles == ["ack"]
        assert worker.journal.words()[-1] == "ack"
        assert len(worker.publisher.confirmed) == owed
        assert len(worker.journal.places("publishing")) - owed <= len(faults)
        assert worker.count("publish_failures_total", error="refused") <= refused
        assert worker.bugs() == []
        assert (worker.intake.slots.free, worker.sender.in_flight) == (256, 0)

    run_virtually(main)


async def test_a_broker_that_is_away_keeps_the_source_unacked(worker: Worker) -> None:
    """Nothing is acked while what is owed is not confirmed, however long it takes (faults 59, 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.connected = False
    ticket = worker.offer(event_message())

    await worker.clock.advance(3600)

    assert ticket.settles == []
    assert worker.sent("shop") == 1
    worker.publisher.connected = True
    await worker.intake.idle()
    assert ticket.settles == ["ack"]
    assert worker.sent("shop") == 1


async def test_a_full_parked_queue_sends_the_entry_to_overflow(worker: Worker) -> None:
    """Refused by parked: published as refused, confirmed there, then acked (fault 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=400))
    worker.publisher.full = {"parked."}

    ticket = await worker.handle(event_message())

    assert [p.key for p in worker.publisher.confirmed] == ["refused.permanent"]
    assert ticket.settles == ["ack"]
    assert worker.clock.monotonic() == 0


async def test_a_full_rung_is_waited_for(worker: Worker) -> None:
    """Rungs that say nack: the source stays unacked and it is tried again (fault 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.full = {"1000.", "750.", "500.", "250."}
    ticket = worker.offer(event_message())
    await worker.clock.advance(30)
    tries = len(worker.journal.places("publishing"))

    worker.publisher.full = set()
    await worker.intake.idle()

    assert 5 <= tries <= 15
    assert ticket.settles == ["ack"]


async def test_the_rung_fits_the_wait_that_is_left(worker: Worker) -> None:
    """The rung is chosen when the publish has its turn: what had to wait for it is not late for that."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.full = {"1000."}
    ticket = worker.offer(event_message())

    await worker.clock.advance(30)

    assert [p.key.split(".")[0] for p in worker.publisher.confirmed] == ["750"]
    assert ticket.settles == ["ack"]


async def test_a_bug_gives_the_message_back(worker: Worker) -> None:
    """An error nobody expected: given back once, said so, and no slot is lost."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["requeue"]
    assert len(worker.bugs()) == 1
    assert worker.intake.slots.free == 256


async def test_a_bug_while_parking_gives_the_message_back(worker: Worker) -> None:
    """Also where parking itself breaks: no path leaves a message unsettled."""
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message(b"{"))

    assert ticket.settles == ["requeue"]
    assert len(worker.bugs()) == 1


async def test_a_bug_before_the_requests_gives_the_slots_back(worker: Worker) -> None:
    """Slots that were taken at admission are free again when storing the held targets breaks."""
    await slow(worker)
    shop = await worker.subscribe("shop")
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["requeue"]
    assert worker.endpoint(shop).slots.in_flight == 0


# delivery messages


async def test_an_exhausted_delivery_is_parked_with_every_attempt(worker: Worker) -> None:
    """The fifth failure parks it with all five attempts and the reason (S1-2, S1-3)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    before = tuple(
        Attempt(number=n, at=START, kind=OutcomeKind.HTTP_5XX, status=500, duration_s=0.1)
        for n in range(1, 5)
    )

    ticket = await worker.handle(delivery_message(due(shop.id, attempts=before, attempts_made=4)), Source.DUE)

    [entry] = worker.parked()
    assert entry.reason is ParkReason.EXHAUSTED
    assert entry.delivery is not None
    assert [a.number for a in entry.delivery.attempts] == [1, 2, 3, 4, 5]
    assert entry.delivery.attempts[-1].status == 503
    assert entry.ttl_s == worker.context.bounds.parked_ttl_s
    assert ticket.settles == ["ack"]


async def test_gone_disables_and_parks_what_surfaces(worker: Worker) -> None:
    """410: disabled in memory and store; what waits is parked on arrival, new events unrouted (fault 38)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=410))

    await worker.handle(event_message())
    await worker.handle(delivery_message(due(shop.id, event=event(id="ord-2"))), Source.DUE)
    await worker.handle(event_message(message_id="ord-3"))

    assert worker.sent("shop") == 1
    assert [entry.reason for entry in worker.parked()] == [ParkReason.DISABLED] * 2
    await worker.subscriptions.settle()
    assert not (await worker.store.entries())[0].enabled
    assert worker.count("events_total", outcome="unrouted") == 1


async def test_what_is_too_old_is_parked_as_expired(worker: Worker) -> None:
    """``max_age_s`` ends a delivery on arrival, without a request (S1-15, fault 55)."""
    shop = await worker.subscribe("shop", retry={"max_age_s": 30})

    await worker.handle(delivery_message(due(shop.id, event=event(arrived_at=START - 30))), Source.DUE)

    assert worker.sender.sent == []
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED]


async def test_a_deleted_subscription_drops_what_surfaces(worker: Worker) -> None:
    """Dropped as cancelled, counted, no request; its siblings are sent (fault 31)."""
    shop, crm = await worker.subscribe("shop"), await worker.subscribe("crm")
    await worker.unsubscribe("crm")

    ticket = await worker.handle(delivery_message(due(shop.id, crm.id)), Source.DUE)

    assert (worker.sent("shop"), worker.sent("crm")) == (1, 0)
    assert worker.count("deliveries_total", verdict="cancelled") == 1
    assert ticket.settles == ["ack"]


async def test_a_changed_url_is_used_by_what_waits(worker: Worker) -> None:
    """A retry goes to the new URL of its subscription (fault 32)."""
    shop = await worker.subscribe("shop")
    await worker.unsubscribe("shop")
    await worker.subscribe("shop", url="https://new.example/")

    await worker.handle(delivery_message(due(shop.id)), Source.DUE)

    assert [request.url for request in worker.sender.sent] == ["https://new.example/"]


async def test_an_early_delivery_takes_a_further_rung(worker: Worker) -> None:
    """Back with 5 s of 20 left, it takes the largest rung below; nothing is sent, no attempt spent."""
    shop = await worker.subscribe("shop")
    early = due(shop.id, not_before=START + 5, wait_s=20.0, attempts_made=1)

    ticket = await worker.handle(delivery_message(early), Source.DUE)

    assert [p.key for p in worker.publisher.confirmed] == [f"4000.{DUE}"]
    assert worker.waiting() == [replace(early, served_s=4.0)]
    assert ticket.settles == ["ack"]
    assert worker.sender.sent == []


@pytest.mark.parametrize(
    ("rest_s", "wait_s", "exact", "held"),
    [
        (1.0, 20.0, False, True),
        (1.1, 20.0, False, False),
        (1.1, 55.0, False, True),
        (1.2, 55.0, False, False),
        (1.1, 55.0, True, False),
        (0.9, 55.0, True, True),
        (11.0, 3600.0, False, False),
    ],
)
async def test_only_the_last_second_or_two_percent_is_held(
    worker: Worker, rest_s: float, wait_s: float, exact: bool, held: bool
) -> None:
    """A rest of 1 s or 2 % is waited out here, a ``Retry-After`` to within 1 s; more takes a rung."""
    shop = await worker.subscribe("shop")
    early = due(shop.id, not_before=START + rest_s, wait_s=wait_s, exact=exact)

    ticket = await worker.handle(delivery_message(early), Source.DUE)

    assert (ticket.settles == []) is held
    assert worker.intake.unstarted() == held
    if held:
        await worker.clock.advance(rest_s + 0.001)
        await worker.intake.idle()
        [(_, at)] = worker.sender.started
        assert rest_s - 1e-6 <= at <= rest_s + 0.001
    assert ticket.settles == ["ack"]


async def test_a_reserved_moment_is_kept(worker: Worker) -> None:
    """Held here until its endpoint's clock said; what came meanwhile stands behind it, not before."""
    shop = await worker.subscribe("shop", rate_per_s=2, burst=1)
    for n in range(3):
        worker.offer(delivery_message(due(shop.id, event=event(id=f"ord-{n}"))), Source.DUE)
    await settled()
    await worker.clock.advance(0.4)
    for n in range(20):
        worker.offer(event_message(message_id=f"fresh-{n}"))
    await worker.clock.advance(0.61)

    ids = [dict(request.headers)["webhook-id"] for request in worker.sender.sent]
    assert ids == ["ord-0", "ord-1", "ord-2"]
    assert all(message.reserved for message in worker.waiting())


async def test_held_messages_are_bounded() -> None:
    """Past the bound the rest of a wait takes a rung instead of memory."""
    worker = Worker(due_hold=3)
    shop = await worker.subscribe("shop")
    for n in range(5):
        early = due(shop.id, event=event(id=f"ord-{n}"), not_before=START + 0.5, wait_s=1.0)
        await worker.handle(delivery_message(early), Source.DUE)

    assert worker.intake.unstarted() == 3
    assert [p.key for p in worker.publisher.confirmed] == [f"500.{DUE}"] * 2
    assert [ticket.settles for ticket in worker.tickets] == [[], [], [], ["ack"], ["ack"]]


async def test_an_unknown_version_goes_back_to_the_ladder(worker: Worker) -> None:
    """A newer worker's message waits 30 s for a newer worker, unchanged (rolling upgrades)."""
    shop = await worker.subscribe("shop")
    raw = delivery_message(due(shop.id))
    raw.headers = {**raw.headers, "leveret-v": 2, "leveret-new": "x", "x-delivery-count": 1}

    ticket = await worker.handle(raw, Source.DUE)

    [published] = worker.publisher.confirmed
    assert published.key == f"30000.{DUE}"
    assert published.headers == {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}
    assert published.publication.body == raw.body
    assert ticket.settles == ["ack"]


async def test_a_stranger_on_a_due_queue_is_parked(worker: Worker) -> None:
    """Somebody published to our queue: parked raw as malformed, never sent."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(queue=DUE), Source.DUE)

    assert [entry.reason for entry in worker.parked()] == [ParkReason.MALFORMED]
    assert ticket.settles == ["ack"]
    assert worker.sender.sent == []


# suspect


@pytest.mark.parametrize(("delivery_count", "moved"), [(4, False), (5, True), (900, True)])
async def test_a_message_that_came_back_often_is_moved_unread(
    worker: Worker, delivery_count: int, moved: bool
) -> None:
    """From a delivery count of 5 on it goes to suspect, confirmed, then acked (fault 70)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(delivery_count=delivery_count))

    assert [p.key for p in worker.publisher.confirmed] == (["suspect"] if moved else [])
    assert worker.sent("shop") == (0 if moved else 1)
    assert ticket.settles == ["ack"]


async def test_a_suspect_event_is_sent_as_it_would_have_been(worker: Worker) -> None:
    """Innocents are only slower: the moved event is unwrapped and delivered with its own id (fault 70)."""
    await worker.subscribe("shop")
    await worker.handle(event_message(delivery_count=5))
    [moved] = worker.publisher.confirmed

    ticket = await worker.handle(moved.raw(queue=NAMES.suspect, delivery_count=1), Source.SUSPECT)

    assert dict(worker.sender.sent[0].headers)["webhook-id"] == "ord-1"
    assert ticket.settles == ["ack"]


async def test_a_suspect_delivery_message_keeps_its_attempts(worker: Worker) -> None:
    """Our own messages move with our own headers and go on where they were."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    owed = due(shop.id, attempts_made=2)
    await worker.handle(delivery_message(owed, delivery_count=5), Source.DUE)
    [moved] = worker.publisher.confirmed
    assert moved.headers == headers_of(owed)

    await worker.handle(moved.raw(queue=NAMES.suspect), Source.SUSPECT)

    assert [m.attempts_made for m in worker.waiting()] == [3]


async def test_a_bad_event_is_parked_unwrapped_from_suspect(worker: Worker) -> None:
    """An operator sees what its producer published, not our wrapper."""
    raw = event_message(b"{")
    wrapped = event_message(b"{", headers=wrap_raw(raw), routing_key="suspect", queue=NAMES.suspect)

    ticket = await worker.handle(wrapped, Source.SUSPECT)

    [entry] = worker.parked()
    assert entry.raw is not None
    assert (entry.raw.routing_key, entry.raw.headers) == ("order.created", {"tenant": "acme"})
    assert ticket.settles == ["ack"]


async def test_a_suspect_of_an_inbox_keeps_its_tenant() -> None:
    """By its source's rule, never the default tenant's (fault 16)."""
    rule = parse_rule({"tenant": "body:/company"})
    inbox = NAMES.inbox("erp")
    worker = Worker(decode=DecodeRules(inboxes={inbox: rule}))
    raw = event_message(b'{"company":"beta"}', headers={}, queue=inbox, delivery_count=5)
    await worker.handle(raw, Source.INBOX)
    [moved] = worker.publisher.confirmed

    await worker.handle(moved.raw(queue=NAMES.suspect), Source.SUSPECT)

    assert worker.publisher.confirmed[1].headers["tenant"] == "beta"


# the end of the grace


@pytest.mark.parametrize("names", [("shop",), ("shop", "crm", "erp")])
async def test_a_cut_request_becomes_a_delivery_message(worker: Worker, names: tuple[str, ...]) -> None:
    """At the end of the grace: published to a due queue, no attempt spent, confirmed, acked (fault 58)."""
    for name in names:
        await worker.subscribe(name)
        worker.sender.on(f"https://{name}.example/", Reply(hang=True))
    ticket = worker.offer(event_message())
    await worker.sender.arrived(len(names))

    worker.intake.pause()
    assert worker.router.cut() == len(names)
    await worker.intake.idle()

    assert ticket.settles == ["ack"]
    assert len(worker.waiting()) == len(names)
    assert {(m.attempts_made, m.attempts, m.not_before) for m in worker.waiting()} == {(0, (), START)}
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.due}
    assert worker.journal.words()[-1] == "ack"
    assert worker.bugs() == []


async def test_a_cut_keeps_what_was_answered(worker: Worker) -> None:
    """Of two targets one was delivered: only the other one is stored."""
    await worker.subscribe("shop")
    crm = await worker.subscribe("crm")
    worker.sender.on("https://crm.example/", Reply(hang=True))
    worker.offer(event_message())
    await worker.sender.arrived(2)
    await settled()

    worker.router.cut()
    await worker.intake.idle()

    assert [m.targets for m in worker.waiting()] == [(crm.id,)]


async def test_what_waits_for_a_slot_is_cut_too() -> None:
    """Targets behind a full worker never reach the wire after the cut, and end as delivery messages."""
    worker = Worker(concurrency=1)
    for name in ("a", "b", "c"):
        await worker.subscribe(name)
        worker.sender.on(f"https://{name}.example/", Reply(hang=True))
    ticket = worker.offer(event_message())
    await worker.sender.arrived(1)

    worker.router.cut()
    await worker.intake.idle()

    assert len(worker.sender.sent) == 1
    assert len(worker.waiting()) == 3
    assert ticket.settles == ["ack"]


async def test_during_the_drain_nothing_is_held(worker: Worker) -> None:
    """A rest of a wait goes to a rung instead: what is in hand empties."""
    shop = await worker.subscribe("shop")
    gate = asyncio.Event()
    worker.publisher.hang()
    early = due(shop.id, not_before=START + 0.5, wait_s=1.0)
    ticket = worker.offer(delivery_message(early), Source.DUE)
    worker.intake.pause()
    worker.publisher.go_on()
    gate.set()

    await worker.intake.idle()

    assert [p.key for p in worker.publisher.confirmed] == [f"500.{DUE}"]
    assert ticket.settles == ["ack"]


@settings(max_examples=40)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=25),
    st.none() | st.integers(0, 30),
)
def test_slots_are_never_exceeded_nor_lost(
    capacity: int, jobs: list[tuple[int, int]], cut_after: int | None
) -> None:
    """Neither the worker's nor an endpoint's bound, with waiters and cuts; all are free at the end."""

    async def main() -> None:
        worker = Worker(concurrency=capacity, quick_wait_s=5.0)
        subscriptions = [
            await worker.subscribe(f"e{n}", concurrency=n + 1, events=[f"t{n}"]) for n in range(3)
        ]
        for number, (target, latency) in enumerate(jobs):
            worker.sender.latency_s[subscriptions[target].url] = latency / 10
            worker.offer(event_message(message_id=f"ord-{number}", routing_key=f"t{target}"))
        if cut_after is not None:
            await asyncio.sleep(cut_after / 10)
            worker.router.cut()
        await worker.intake.idle()

        assert worker.sender.peak_in_flight <= capacity
        for n, subscription in enumerate(subscriptions):
            assert worker.sender.peaks.get(subscription.url, 0) <= n + 1
            assert worker.endpoint(subscription).slots.in_flight == 0
        assert worker.intake.slots.free == capacity
        assert [ticket.settles for ticket in worker.tickets] == [["ack"]] * len(jobs)
        assert worker.bugs() == []

    run_virtually(main)


async def test_nobody_waits_behind_a_wait_for_an_endpoint() -> None:
    """A job that waits for its endpoint's slot holds no global slot and keeps no other from starting."""
    worker = Worker(concurrency=2)
    await worker.subscribe("busy", concurrency=1, events=["busy"])
    await worker.subscribe("idle", events=["idle"])
    worker.sender.on("https://busy.example/", Reply(hang=True))
    worker.offer(event_message(routing_key="busy", message_id="first"))
    await worker.sender.arrived(1)
    worker.offer(event_message(routing_key="busy", message_id="waits"))
    worker.offer(event_message(routing_key="idle", message_id="other"))

    await settled()

    assert worker.sent("idle") == 1
    assert worker.intake.slots.free == 1


async def test_a_breaker_that_opens_stops_those_in_line() -> None:
    """What waited for a slot when the breaker opened is deferred, not sent (fault 55)."""
    worker = Worker(quick_wait_s=10.0)
    await worker.subscribe("shop", concurrency=1, breaker={"failures": 2})
    worker.sender.on(SHOP, Reply(fault=OutcomeKind.REFUSED))
    worker.sender.latency_s[SHOP] = 0.01
    for n in range(20):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    assert worker.sent("shop") == 2
    assert [m.attempts_made for m in worker.waiting()].count(0) == 18
    assert min(m.not_before for m in worker.waiting() if not m.attempts_made) >= START + 30
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.wait}
    assert [ticket.settles for ticket in worker.tickets] == [["ack"]] * 20


async def test_a_retry_after_stops_those_in_line() -> None:
    """All of an endpoint's deliveries wait, those behind a slot too; nothing is sent earlier (fault 39)."""
    worker = Worker(quick_wait_s=10.0)
    await worker.subscribe("shop", concurrency=1)
    worker.sender.on(SHOP, Reply(status=429, retry_after="60"), Reply())
    worker.sender.latency_s[SHOP] = 0.01
    for n in range(10):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    assert worker.sent("shop") == 1
    assert min(m.not_before for m in worker.waiting()) >= START + 60
    assert sorted(m.attempts_made for m in worker.waiting()) == [0] * 9 + [1]
