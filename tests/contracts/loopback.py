"""What the tests of the real sender share: a rule that allows loopback, a request, one exchange."""

from __future__ import annotations

from consumer.core.egress import parse_rule
from consumer.core.model import Outcome, SignedRequest
from consumer.edges.http import AiohttpSender, SenderOptions
from tests.raw_server import RawServer, Talk

LOOPBACK = parse_rule(["127.0.0.0/8", "::1/128"])
OPTIONS = SenderOptions(max_response_bytes=1_000, egress=LOOPBACK)


def to(url: str, *, timeout_s: float = 5.0, body: bytes = b"{}") -> SignedRequest:
    """Return a request with one header."""
    return SignedRequest(url=url, headers=[("webhook-id", "msg_1")], body=body, timeout_s=timeout_s)


async def outcome_of(sender: AiohttpSender, talk: Talk, *, timeout_s: float = 5.0) -> Outcome:
    """Send one request to a server that talks so."""
    async with RawServer(talk) as server:
        return await sender.send(to(server.url(), timeout_s=timeout_s))
