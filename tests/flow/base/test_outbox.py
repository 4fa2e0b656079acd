"""Publishing until it is confirmed, and to the right place."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp.encode import short_string

from consumer.core.books import Books
from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.message.delivery import DeliveryMessage, read_delivery
from consumer.core.message.parked import read_entry
from consumer.core.model import ParkReason, RawMessage
from consumer.flow.base.open_targets import OpenTargets
from consumer.flow.base.outbox import FIRST_PAUSE_S, LONGEST_PAUSE_S, Outbox, together
from tests.support.builders.strategies import MESSAGES
from tests.support.fakes import START, run_virtually
from tests.support.worker import DUE, NAMES, ONE, LoopBack, Worker, event, event_message


def owed(**more: object) -> DeliveryMessage:
    """A delivery message of one target."""
    fields: dict[str, object] = {"event": event(), "targets": ("sub_1",)}
    return DeliveryMessage(**fields | more)  # type: ignore[arg-type]  # the tests' own values


async def test_it_returns_when_it_is_confirmed(worker: Worker) -> None:
    """Not before."""
    worker.publisher.hang()
    task = asyncio.create_task(worker.outbox.confirmed(ONE))
    await worker.clock.advance(1000)
    assert not task.done()

    worker.publisher.go_on()
    await task

    assert len(worker.publisher.confirmed) == 1


@pytest.mark.parametrize("error", [BrokerUnavailable("lost"), Unroutable("none"), Refused("full")])
async def test_a_failed_publish_is_tried_until_it_works(worker: Worker, error: Exception) -> None:
    """Returned, refused or unconfirmed: again after a pause that grows to 5 s; counted (faults 64, 65)."""
    worker.publisher.faults = [error] * 20

    await worker.outbox.confirmed(ONE)

    tries = [step.at for step in worker.journal if step.what == "publishing"]
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert len(tries) == 21
    assert pauses[0] == pytest.approx(FIRST_PAUSE_S)
    assert all(later > earlier - 1e-6 for earlier, later in pairwise(pauses))
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE_S)
    failures = sum(
        worker.count("publish_failures_total", error=label)
        for label in ("unavailable", "unroutable", "refused")
    )
    assert failures == 20


async def test_it_can_give_up_between_tries(worker: Worker) -> None:
    """Once the source is lost it publishes no more, and raises that nothing was confirmed (fault 64)."""
    worker.publisher.faults = [Refused("full")] * 5
    looks = iter([False, False, True])

    with pytest.raises(Refused):
        await worker.outbox.confirmed(ONE, of=OpenTargets(Books(), lambda: next(looks)))

    assert worker.journal.words() == ["publishing"] * 3
    assert worker.publisher.confirmed == []


async def test_pauses_are_jittered(worker: Worker) -> None:
    """Half to one and a half times, by chance: workers do not come back together."""
    spans = []
    for sample in (0.0, 0.999):
        worker.samples = sample
        worker.publisher.faults = [BrokerUnavailable("lost")]
        began = worker.clock.monotonic()
        await worker.outbox.confirmed(ONE)
        spans.append(worker.clock.monotonic() - began)

    assert spans == pytest.approx([FIRST_PAUSE_S * 0.5, FIRST_PAUSE_S * 1.5], rel=0.01)


async def test_an_unexpected_error_passes(worker: Worker) -> None:
    """A bug is not retried for ever."""
    worker.publisher.faults = [RuntimeError("a bug")]

    with pytest.raises(RuntimeError):
        await worker.outbox.confirmed(ONE)


async def test_several_are_published_together(worker: Worker) -> None:
    """All are on their way before the first is confirmed; it returns after the last."""
    worker.publisher.confirm_s = 0.5

    await together([worker.outbox.confirmed(ONE) for _ in range(3)])

    assert worker.journal.words() == ["publishing"] * 3 + ["confirmed"] * 3
    assert worker.clock.monotonic() == 0.5
    await together([])


@pytest.mark.parametrize(
    ("wait_s", "rung_ms"), [(-3, 250), (0, 250), (0.3, 250), (0.5, 500), (7, 6000), (1e6, 86_400_000)]
)
async def test_a_wait_begins_on_the_rung_at_or_below_it(worker: Worker, wait_s: float, rung_ms: int) -> None:
    """At least the shortest one, so that the failure is stored; never one that is longer than the wait."""
    publication = worker.outbox.waiting(owed(not_before=START + wait_s, wait_s=wait_s), START)

    assert (publication.exchange, publication.routing_key) == (NAMES.wait, f"{rung_ms}.{DUE}")


@settings(max_examples=60)
@given(st.floats(0, 40_000), st.booleans(), st.floats(0, 0.4), st.floats(0, 1))
def test_a_wait_over_the_ladder_is_never_early_and_never_long(
    wait_s: float, exact: bool, lag_s: float, sample: float
) -> None:
    """Over all rungs and the last second in the worker: sent at its time, in few hops (retry_early)."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker, lag_s=lag_s)
        shop = await worker.subscribe("shop", retry={"max_age_s": 86_400.0})
        message = owed(targets=(shop.id,), not_before=START + wait_s, wait_s=wait_s, exact=exact)
        await worker.outbox.confirmed(worker.outbox.waiting(message, START))
        await loop_back.run_dry(look_s=1 + wait_s / 20)

        [(_, at)] = worker.sender.started
        due = read_delivery(worker.publisher.confirmed[0].raw()).not_before - START
        assert at >= due - 1e-6
        assert at <= max(due, 0.25) + 0.01 + 2 * lag_s
        assert len(worker.publisher.confirmed) <= 9
        assert {m.attempts_made for _, m in loop_back.deliveries} == {0}

    run_virtually(main)


async def test_an_entry_goes_to_parked_by_its_reason(worker: Worker) -> None:
    """With note, bytes and attempts; counted by reason (S1-2, S1-10)."""
    await worker.outbox.park_delivery(owed(attempts_made=3), ParkReason.EXHAUSTED, "HTTP 503")

    [published] = worker.publisher.confirmed
    entry = read_entry(published.raw())
    assert (published.publication.exchange, published.key) == (NAMES.dlx, "parked.exhausted")
    assert (entry.reason, entry.detail, entry.parked_at) == (ParkReason.EXHAUSTED, "HTTP 503", START)
    assert worker.count("parked_total", reason="exhausted") == 1
    assert worker.count("deliveries_total", verdict="parked") == 1


async def test_a_refused_entry_takes_the_other_way_at_once(worker: Worker) -> None:
    """No pause between parked and overflow; the entry is the same (fault 64)."""
    worker.publisher.full = {"parked."}

    await worker.outbox.park_delivery(owed(), ParkReason.EXPIRED, "too old")

    [published] = worker.publisher.confirmed
    assert published.key == "refused.expired"
    assert read_entry(published.raw()).detail == "too old"
    assert worker.clock.monotonic() == 0


async def test_a_patient_outbox_waits_for_room(worker: Worker) -> None:
    """A message out of overflow never goes back to it."""
    worker.publisher.full = {"parked."}
    patient = Outbox(worker.context, patient=True)
    task = asyncio.create_task(patient.park_raw(event_message(), ParkReason.POISON, "it kills workers"))
    await worker.clock.advance(600)
    assert not task.done()

    worker.publisher.full = set()
    await task

    assert [published.key for published in worker.publisher.confirmed] == ["parked.poison"]


@settings(max_examples=60)
@given(MESSAGES)
def test_the_properties_of_an_entry_fit_every_message(raw: RawMessage) -> None:
    """Content types of any length and characters are cut to the limits of AMQP."""

    async def main() -> None:
        worker = Worker()
        long = replace(raw, content_type=(raw.content_type or "é") * 90)
        await worker.outbox.park_raw(long, ParkReason.MALFORMED, "no JSON")
        await worker.outbox.confirmed(worker.outbox.due_now(owed(event=event(content_type="é" * 300))))
        for published in worker.publisher.confirmed:
            text = published.publication.content_type
            assert text is not None
            assert short_string(text)

    run_virtually(main)
