"""Every kind of answer in the table has its documented outcome, and the next request its own answer."""

from __future__ import annotations

import asyncio

import pytest

from consumer.core.model import SignedRequest
from consumer.edges.http import WebhookSender
from tests.support.loopback import SOON_S
from tests.support.servers.answers import KINDS, AnswerServer, Kind

pytestmark = pytest.mark.timeout(120)


def to(server: AnswerServer, name: str) -> SignedRequest:
    """Return a request with this webhook-id."""
    return SignedRequest(url=server.url, headers=[("webhook-id", name)], body=b"{}", timeout_s=5)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_an_answer_has_its_outcome_and_the_next_request_its_own(
    sender: WebhookSender, kind: Kind
) -> None:
    """Faults 34, 49, 91: a response is judged by its head, with anything behind it; nothing is sent twice."""
    async with AnswerServer(kind) as server:
        first = await sender.send(to(server, "first"))
        await server.said.wait()
        await asyncio.sleep(0.01)  # the bytes were read, or still wait in the kernel: both have to work
        following = [await sender.send(to(server, name)) for name in ("second", "third")]

    assert (first.kind.value, first.status) == (kind.outcome, kind.status)
    assert first.duration_s < SOON_S
    assert [(each.status, each.body) for each in following] == [(200, b"second"), (200, b"third")]
    assert server.seen == {"first": 1, "second": 1, "third": 1}
