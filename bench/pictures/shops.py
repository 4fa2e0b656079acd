"""The customers of the pictures, and the faults of their endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.servers.raw_server import Call

FULL: Final = {
    "error": "database_unavailable",
    "message": "FATAL: remaining connection slots are reserved for superusers",
    "request_id": "req_7f3a91c2",
}
ONE_ATTEMPT: Final = {"max_attempts": 1}
BROKEN_FOR_S: Final = 11 * 60.0  #: the endpoint that fails has failed for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """One endpoint of a tenant."""

    tenant: str
    name: str
    latency_s: float = 0.08  #: typical
    per_min: int = 6  #: attempts in the hour before the picture
    fails: float = 0.0  #: part of its attempts
    broken: bool = False  #: it fails in the last minutes, and during the picture
    answer: int = 200
    body: Mapping[str, str] = field(default_factory=dict)
    headers: str = ""
    events: Sequence[str] = ("order.*",)
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The name of its server."""
        return f"hooks.{self.tenant}.example"


SHOPS: Final = (
    Shop(
        tenant="acme",
        name="orders",
        broken=True,
        answer=503,
        body=FULL,
        per_min=9,
        fields={"retry": ONE_ATTEMPT, "breaker": {"failures": 24, "cooldown_s": 240}},
    ),
    Shop(tenant="acme", name="shop", latency_s=0.06),
    Shop(tenant="acme", name="warehouse", per_min=3),
    Shop(
        tenant="globex",
        name="billing",
        fails=0.18,
        answer=500,
        body={"error": "internal", "trace": "b41f09"},
        latency_s=0.7,
        events=("invoice.*",),
        fields={"retry": ONE_ATTEMPT, "breaker": {"failures": 0, "failure_ratio": 0}},
    ),
    Shop(tenant="initech", name="crm", latency_s=0.31),
    Shop(
        tenant="umbrella",
        name="lab",
        answer=429,
        body={"error": "too many requests"},
        headers="Retry-After: 360\r\n",
        broken=True,
        per_min=2,
    ),
    Shop(tenant="hooli", name="legacy", per_min=1),
    Shop(tenant="stark", name="erp", latency_s=0.12, per_min=12),
    Shop(tenant="wayne", name="ledger", latency_s=0.05, per_min=8, events=("invoice.*",)),
    Shop(tenant="tyrell", name="fulfilment", latency_s=0.2),
    Shop(tenant="cyberdyne", name="audit-trail", latency_s=0.06, per_min=4),
)
PAYLOADS: Final[Mapping[str, Mapping[str, object]]] = {
    "order.created": {"order_id": "ord_48213", "total": "129.90", "currency": "EUR", "items": 3},
    "order.paid": {"order_id": "ord_48177", "paid_with": "card", "total": "64.00"},
    "invoice.sent": {"invoice_id": "inv_2093", "due": "2026-07-01", "total": "1840.00"},
}


def subscription(shop: Shop, port: int) -> dict[str, Any]:
    """Return the fields of the subscription of *shop*, whose server has *port*."""
    url = f"http://{shop.host}:{port}/leveret/{shop.name}"
    return {"tenant": shop.tenant, "name": shop.name, "url": url, "events": [*shop.events], **shop.fields}


async def answer(call: Call) -> None:
    """Answer the requests of a connection as the endpoint in their path does."""
    turn = 0
    while True:
        request = await call.request()
        turn += 1
        name = request.split(b" ", 2)[1].decode().rpartition("/")[2]
        shop = next(each for each in SHOPS if each.name == name)
        await asyncio.sleep(shop.latency_s)
        fails = shop.broken or (shop.fails and turn % round(1 / shop.fails) == 0)
        await call.say(_response(shop, shop.answer if fails else 200))


def _response(shop: Shop, status: int) -> bytes:
    body = b"" if status == 200 else json.dumps(shop.body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{'' if status == 200 else shop.headers}\r\n".encode() + body
