"""One table of forgeries: messages of a publisher whose only right is to write to ``leveret.events``.

Each kind is one message. The proof and the system tests publish it and look for anything that it changed
outside of its own delivery.

Source: RabbitMQ "Dead Letter Exchanges" (``x-death``), "Sender-selected Distribution" (``CC``, ``BCC``),
"Quorum Queues" (``x-delivery-count``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pamqp.commands import Basic

from consumer.core.message.delivery import DeliveryMessage, headers_of, wrap_raw
from consumer.core.model import Event, RawMessage
from consumer.core.subscription.subscription import subscription_id
from tests.support.broker.load import connect
from topology.names import Names

HOSTILE: Final = "hostile"  #: the publisher's own tenant
VICTIM: Final = "innocent"
OPERATORS: Final = "leveret"
NAMES: Final = Names()
LANE: Final = NAMES.lane(0)  #: of everybody, where there is one lane
KEY: Final = "forged.event"
SOURCES: Final = (
    {"name": "shop", "exchange": "shop", "tenant": "body:/tenant", "type": "header:kind"},
    {"name": "keyed", "exchange": "keyed", "tenant": "routing_key:0", "type": "routing_key:1"},
    {"name": "plain", "exchange": "plain", "tenant": "header:tenant"},
)
"""The ``[[sources]]`` that the table needs; the last one is bound directly."""

_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """One kind."""

    name: str  #: letters, digits and ``-``
    headers: Mapping[str, Any] = field(default_factory=dict)  #: beside the tenant's
    properties: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b'{"forged":true}'
    key: str = KEY
    exchange: str = NAMES.events
    tenant: object = HOSTILE  #: None: no header names it
    named: bool = True  #: it has a ``message_id``

    def message(self, message_id: str, expiration_ms: int | None = None) -> Basic.Properties:
        """Return its properties, headers among them."""
        headers: dict[str, Any] = {} if self.tenant is None else {"tenant": self.tenant}
        own: dict[str, Any] = {"content_type": "application/json", "delivery_mode": 2}
        if self.named:
            own["message_id"] = message_id
        if expiration_ms is not None:
            own["expiration"] = str(expiration_ms)
        return Basic.Properties(headers=headers | dict(self.headers), **(own | dict(self.properties)))


def _death(**changes: Any) -> dict[str, Any]:
    """Return an entry of ``x-death`` that names our overflow queue; None takes a field away."""
    entry = {
        "queue": NAMES.overflow,
        "reason": "expired",
        "count": 1,
        "exchange": NAMES.dlx,
        "routing-keys": ["raw"],
        "time": _AT,
    }
    return {name: value for name, value in (entry | changes).items() if value is not None}


def _lane_death(**changes: Any) -> dict[str, Any]:
    """Return an entry for the lane itself: the broker increases its count and keeps the other fields."""
    return _death(**({"queue": LANE, "exchange": NAMES.events, "routing-keys": [KEY]} | changes))


def _our_deaths() -> list[dict[str, Any]]:
    ours = (NAMES.overflow, NAMES.parked, NAMES.suspect, NAMES.expired, NAMES.stray, NAMES.died, LANE)
    return [_death(queue=queue) for queue in ours]


DEATHS: Final[Mapping[str, Any]] = {
    "names-overflow": [_death()],
    "names-overflow-by-limit": [_death(reason="delivery_limit")],
    "names-overflow-by-length": [_death(reason="maxlen")],
    "names-overflow-late": [_death(reason="rejected", queue="elsewhere"), _death()],
    "names-all-of-ours": _our_deaths(),
    "names-the-lane": [_lane_death()],
    "exchange-of-ours": [_lane_death(**{"exchange": NAMES.due, "routing-keys": [f"0.{NAMES.replay}"]})],
    "key-of-another": [_lane_death(**{"routing-keys": ["victims.event"]})],
    "exchange-of-another": [_lane_death(exchange="shop")],
    "spill-of-ours": [_death(queue=NAMES.spill(0), exchange=NAMES.due)],
    "due-of-ours": [_death(queue=NAMES.due_queue(0), exchange=NAMES.wait)],
    "texts": ["overflow"],
    "integers": [1, 2],
    "arrays": [[1]],
    "voids": [None],
    "table-and-text": [_death(queue="elsewhere"), "text"],
    "nothing": [],
    "empty-table": [{}],
    "no-queue": [_death(queue=None)],
    "no-reason": [_death(reason=None)],
    "queue-a-number": [_death(queue=5)],
    "reason-a-number": [_death(reason=5)],
    "count-a-text": [_lane_death(count="x")],
    "count-missing": [_lane_death(count=None)],
    "count-huge": [_lane_death(count=2**63 - 1)],
    "count-below-0": [_lane_death(count=-5)],
    "twice": [_lane_death(), _lane_death()],
    "keys-a-text": [_lane_death(**{"routing-keys": KEY})],
    "time-a-text": [_lane_death(time="yesterday")],
    "a-text": "forged",
    "a-number": 5,
    "a-table": _death(),
    "a-void": None,
    "bytes": bytearray(b"forged"),
}
"""Values of the header ``x-death``."""

_CLOUDEVENT: Final = {"id": "1", "source": "/forged", "specversion": "1.0", "type": "breaker.opened"}


def _with_prefix(prefix: str, **more: str) -> dict[str, str]:
    return {prefix + name: text for name, text in (_CLOUDEVENT | more).items()}


def _operators() -> Sequence[Forgery]:
    """Return events that name the tenant of operational events, wherever a tenant is read from."""
    told: dict[str, Any] = {"key": "breaker.opened", "tenant": None}
    structured = {"content_type": "application/cloudevents+json"}
    in_attribute = json.dumps(_CLOUDEVENT | {"tenant": OPERATORS, "data": {}}).encode()
    in_extension = json.dumps(_CLOUDEVENT | {"tenantid": OPERATORS, "data": {}}).encode()
    genuine = {"message_id": "ops_" + "0" * 32, "message_type": "endpoint.disabled"}
    in_body = json.dumps({"tenant": OPERATORS}).encode()
    return (
        Forgery(name="operators-header", **told | {"tenant": OPERATORS}),
        Forgery(name="operators-bytes", **told | {"tenant": bytearray(OPERATORS.encode())}),
        Forgery(name="operators-id", properties=genuine, **told | {"tenant": OPERATORS}),
        Forgery(name="operators-without-id", named=False, **told | {"tenant": OPERATORS}),
        Forgery(name="operators-died", headers={"x-death": [_death()]}, **told | {"tenant": OPERATORS}),
        Forgery(name="operators-case", **told | {"tenant": OPERATORS.title()}),
        Forgery(name="operators-space", **told | {"tenant": f" {OPERATORS}\u00a0"}),
        Forgery(name="operators-wide", **told | {"tenant": "\uff4c\uff45\uff56\uff45\uff52\uff45\uff54"}),
        Forgery(
            name="operators-ce-underscore", headers=_with_prefix("cloudEvents_", tenant=OPERATORS), **told
        ),
        Forgery(name="operators-ce-colon", headers=_with_prefix("cloudEvents:", tenantid=OPERATORS), **told),
        Forgery(name="operators-ce-dash", headers=_with_prefix("ce-", tenant=OPERATORS), **told),
        Forgery(name="operators-ce-structured", body=in_attribute, properties=structured, **told),
        Forgery(name="operators-ce-extension", body=in_extension, properties=structured, **told),
        Forgery(
            name="operators-source-body",
            exchange="shop",
            body=in_body,
            headers={"kind": "breaker.opened"},
            tenant=None,
        ),
        Forgery(name="operators-source-key", exchange="keyed", key=f"{OPERATORS}.breaker", tenant=None),
        Forgery(name="operators-source-direct", exchange="plain", **told | {"tenant": OPERATORS}),
    )


def _own_headers() -> Sequence[Forgery]:
    """Return events that carry the headers of Leveret's own messages, aimed at the victim."""
    event = Event(
        id="forged",
        tenant=VICTIM,
        type=KEY,
        timestamp="2026-01-01T00:00:00Z",
        arrived_at=_AT.timestamp(),
        body=b"{}",
    )
    owed = headers_of(DeliveryMessage(event=event, targets=(subscription_id(VICTIM, VICTIM),)))
    wrapped = wrap_raw(
        RawMessage(body=b"{}", headers={"tenant": VICTIM}, exchange=NAMES.events, routing_key=KEY)
    )
    parked = {"leveret-entry": "prk_0", "leveret-reason": "expired", "leveret-detail": "x", "leveret-ttl": 1}
    spilled = {"x-death": [_death(queue=NAMES.spill(0), exchange=NAMES.due)]}
    return (
        Forgery(name="own-delivery", headers=owed),
        Forgery(name="own-wrapped", headers=wrapped),
        Forgery(name="own-parked", headers=owed | parked | {"leveret-parked-at": 1}),
        Forgery(name="own-delivery-died", headers=owed | {"x-death": [_death(queue=NAMES.due_queue(0))]}),
        Forgery(name="own-wrapped-spilled", headers=wrapped | spilled),
    )


def _others() -> Sequence[Forgery]:
    deaths = ("queue", "reason", "exchange")
    first = {f"x-first-death-{what}": NAMES.overflow for what in deaths}
    last = {f"x-last-death-{what}": NAMES.overflow for what in deaths}
    copies = ["raw", "parked.exhausted", f"0.{NAMES.replay}", f"1000.{NAMES.due_queue(0)}"]
    return (
        Forgery(name="first-death", headers=first),
        Forgery(name="first-death-numbers", headers=dict.fromkeys(first, 5)),
        Forgery(name="last-death", headers=last),
        Forgery(name="delivery-count", headers={"x-delivery-count": 1_000_000}),
        Forgery(name="delivery-count-text", headers={"x-delivery-count": "many"}),
        Forgery(name="acquired-count", headers={"x-acquired-count": 1_000_000}),
        Forgery(name="annotations", headers={"x-opt-deaths": 1, "x-opt-delivery-count": 9, "deaths": [{}]}),
        Forgery(name="cc", headers={"CC": copies}),
        Forgery(name="bcc", headers={"BCC": copies}),
        Forgery(name="arguments", headers={"x-match": "any", "x-message-ttl": 1, "x-expires": 1}),
        Forgery(name="reply-to", properties={"reply_to": NAMES.parked, "priority": 255}),
        Forgery(name="type-of-ours", properties={"message_type": "parked.exhausted"}),
        Forgery(name="same-id", properties={"message_id": alive_id("same-id")}),
        Forgery(
            name="source-died",
            exchange="shop",
            body=json.dumps({"tenant": HOSTILE}).encode(),
            headers={"kind": KEY, "x-death": [_death()]},
        ),
        Forgery(name="source-died-integers", exchange="keyed", key=f"{HOSTILE}.x", headers={"x-death": [1]}),
    )


def alive_id(name: str) -> str:
    """Return the id of the victim's own event that the proof publishes beside the kind *name*."""
    return f"alive-{name}"


FORGERIES: Final[Sequence[Forgery]] = (
    *(Forgery(name=f"death-{name}", headers={"x-death": value}) for name, value in DEATHS.items()),
    *_operators(),
    *_own_headers(),
    *_others(),
)
"""Every kind."""


FEW = 3  #: copies of a forgery without a death


async def publish(
    url: str, forgeries: Iterable[Forgery], copies: int, expiration_ms: int | None = None
) -> None:
    """Publish *copies* of each forgery, confirmed; at most :data:`FEW` of one without a death."""
    messages = []
    for forgery in forgeries:
        for number in range(copies if "x-death" in forgery.headers else min(copies, FEW)):
            message_id = f"forged-{forgery.name}-{expiration_ms or 0}-{number}"
            properties = forgery.message(message_id, expiration_ms)
            messages.append((forgery.exchange, forgery.key, forgery.body, properties))
    await publish_messages(url, messages)


async def publish_messages(url: str, messages: Sequence[tuple[str, str, bytes, Basic.Properties]]) -> None:
    connection = await connect(url)
    try:
        channel = await connection.channel(publisher_confirms=True)
        for first in range(0, len(messages), 200):
            sent = (
                channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties)
                for exchange, key, body, properties in messages[first : first + 200]
            )
            await asyncio.wait_for(asyncio.gather(*sent), 30)
    finally:
        with suppress(Exception):
            await asyncio.wait_for(connection.close(), 5)
