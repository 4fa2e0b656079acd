"""Two special answers: a failure of our own proxy, and an endpoint's wish to be left alone."""

from __future__ import annotations

import pytest

from consumer.core.access import OAuth2Client, TlsPolicy
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import Attempt, Control, OutcomeKind, ParkReason
from consumer.core.retry.policy import POLICIES
from consumer.flow.base.local_faults import RED_S
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.servers.certificates import Authority
from tests.support.worker import NAMES, Worker, delivery_message, event, event_message

SHOP = "https://shop.example/"
LAST = POLICIES["default"].max_attempts - 1  #: attempts made before the last one


def due(target: str, *, made: int) -> DeliveryMessage:
    """A delivery message with so many attempts behind it."""
    attempts = tuple(Attempt(n + 1, START - 60, OutcomeKind.RESET, None, 0.1) for n in range(made))
    return DeliveryMessage(
        event=event(), targets=(target,), attempts=attempts, attempts_made=made, not_before=START
    )


@pytest.mark.parametrize("kind", [OutcomeKind.PROXY, OutcomeKind.LOCAL])
async def test_a_fault_of_our_own_side_spends_no_attempt(worker: Worker, kind: OutcomeKind) -> None:
    """Fault 87: it waits some seconds and is sent again; even the last attempt is not used up."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(fault=kind))

    ticket = await worker.handle(delivery_message(due(shop.id, made=LAST)), Source.DUE)

    [waiting] = worker.waiting()
    assert (waiting.attempts_made, len(waiting.attempts)) == (LAST, LAST)
    assert waiting.not_before == START + 10.0
    assert worker.publisher.confirmed[0].publication.exchange == NAMES.wait
    assert (worker.parked(), ticket.settles) == ([], ["ack"])
    assert worker.count("deferrals_total", reason=kind.value) == 1
    assert worker.count("attempts_total", kind=kind.value) == 1
    assert worker.count("attempts_by_number_total", attempt="1", result="failed") == 0
    assert worker.endpoint(shop).state == "closed"


async def test_this_machines_fault_turns_readiness_red_for_a_while(worker: Worker) -> None:
    """Fault 87: an operator sees it, and that it is over; a proxy's fault is another matter."""
    await worker.subscribe("shop")
    faults = worker.context.local_faults
    worker.sender.on(SHOP, Reply(fault=OutcomeKind.PROXY))
    await worker.handle(event_message(message_id="ord-1"))
    assert faults.unready(worker.clock.monotonic()) is None

    worker.sender.on(SHOP, Reply(fault=OutcomeKind.LOCAL))
    await worker.handle(event_message(message_id="ord-2"))

    assert str(faults.unready(worker.clock.monotonic())).startswith("this machine cannot send")
    await worker.clock.advance(RED_S)
    assert faults.unready(worker.clock.monotonic()) is None


@pytest.mark.parametrize("kind", [OutcomeKind.PROXY, OutcomeKind.LOCAL])
async def test_our_own_fault_leaves_the_breaker_closed(worker: Worker, kind: OutcomeKind) -> None:
    """Fault 87: it shows nothing about the endpoint, however long it lasts."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(fault=kind))

    for number in range(20):
        await worker.handle(event_message(message_id=f"ord-{number}"))

    assert worker.endpoint(shop).state == "closed"
    assert len(worker.waiting()) == 20


async def test_a_failure_that_asks_for_silence_disables(worker: Worker) -> None:
    """Fault 52: ``disable`` with a failure: parked, and nothing more is sent to the endpoint."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503, control=Control.DISABLE))

    await worker.handle(event_message())
    await worker.handle(event_message(message_id="ord-2"))

    [entry] = worker.parked()
    assert (entry.reason, entry.detail) == (ParkReason.DISABLED, "webhook-delivery: disable; HTTP 503")
    assert worker.sent("shop") == 1
    assert worker.log.events("endpoint.disabled")


async def test_a_success_that_asks_for_silence_disables(worker: Worker) -> None:
    """Fault 52: that webhook is delivered and not parked; the next one is not sent."""
    await worker.subscribe("shop")
    await worker.subscribe("crm")
    worker.sender.on(SHOP, Reply(control=Control.DISABLE))

    ticket = await worker.handle(event_message())
    await worker.handle(event_message(message_id="ord-2"))

    assert (worker.sent("shop"), worker.sent("crm")) == (1, 2)
    assert worker.parked() == []
    assert worker.count("deliveries_total", verdict="delivered") == 3
    assert [note["reason"] for note in worker.log.events("endpoint.disabled")] == [
        "webhook-delivery: disable"
    ]
    assert ticket.settles == ["ack"]


async def test_a_webhook_that_is_unwanted_is_parked_at_once(worker: Worker) -> None:
    """Fault 52: ``abort-message`` ends the retries of that one; with a success it means nothing."""
    await worker.subscribe("shop")
    worker.sender.on(
        SHOP,
        Reply(status=503, control=Control.ABORT_MESSAGE),
        Reply(control=Control.ABORT_MESSAGE),
    )

    await worker.handle(event_message())
    await worker.handle(event_message(message_id="ord-2"))

    [entry] = worker.parked()
    assert (entry.reason, entry.detail) == (ParkReason.PERMANENT, "webhook-delivery: abort-message; HTTP 503")
    assert worker.waiting() == []
    assert worker.sent("shop") == 2


async def test_client_settings_of_a_subscription_reach_the_sender(
    worker: Worker, authority: Authority
) -> None:
    """TLS and OAuth2 travel with the request, Basic and Bearer as a header."""
    pair = authority.pair("leveret")
    oauth2 = {"token_url": "https://id.example/t", "client_id": "a", "client_secret": "b", "scope": "c d"}
    tls = {"ca": authority.pem, "certificate": pair.certificate, "key": pair.key}
    await worker.subscribe("shop", auth={"oauth2": oauth2}, tls=tls)
    await worker.subscribe("crm", auth={"basic": {"username": "u", "password": "p"}}, headers={"x-a": "1"})
    await worker.subscribe("erp", auth={"bearer": "abc.def"})

    await worker.handle(event_message())

    shop, crm, erp = (worker.sender.sent_to(f"https://{name}.example/")[0] for name in ("shop", "crm", "erp"))
    assert shop.access is not None
    assert shop.access.tls == TlsPolicy(ca=authority.pem, certificate=pair.certificate, key=pair.key)
    assert shop.access.oauth2 == OAuth2Client(
        token_url="https://id.example/t", client_id="a", client_secret="b", scope="c d"
    )
    assert "authorization" not in dict(shop.headers)
    assert (crm.access, erp.access) == (None, None)
    assert dict(crm.headers)["authorization"] == "Basic dTpw"
    assert dict(crm.headers)["x-a"] == "1"
    assert dict(erp.headers)["authorization"] == "Bearer abc.def"
