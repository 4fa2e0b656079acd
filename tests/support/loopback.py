"""The tests of the real sender share these: a rule that allows loopback, a request, one exchange."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import pytest

from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import Outcome, SignedRequest
from consumer.edges.http import Resolve, SenderOptions, WebhookSender
from tests.support.servers.raw_server import RawServer, Talk


class BuildSender(Protocol):
    """Makes a sender of one of the two clients."""

    def __call__(self, options: SenderOptions, resolve: Resolve | None = None) -> WebhookSender:
        """Return it; the test closes it."""


#: Both senders, by the name of their client in the settings.
MakeSender = Callable[..., WebhookSender]
"""Makes a sender with some options, given by name."""

SENDERS: Mapping[str, BuildSender] = {
    "aiohttp": partial(WebhookSender, "aiohttp"),
    "httpx": partial(WebhookSender, "httpx"),
}

LOOPBACK = parse_rule(["127.0.0.0/8", "::1/128"])
OPTIONS = SenderOptions(max_response_bytes=1_000, egress=LOOPBACK)

#: A short time-out ends a request within this time, also on a busy machine; the deadline would take 5 s.
SOON_S = 4.0


def to(url: str, *, timeout_s: float = 5.0, body: bytes = b"{}") -> SignedRequest:
    """Return a request with one header."""
    return SignedRequest(url=url, headers=[("webhook-id", "msg_1")], body=body, timeout_s=timeout_s)


async def outcome_of(sender: WebhookSender, talk: Talk, *, timeout_s: float = 5.0) -> Outcome:
    """Send one request to a server that talks so."""
    async with RawServer(talk) as server:
        return await sender.send(to(server.url(), timeout_s=timeout_s))


def in_namespaces(*kinds: str) -> list[str]:
    """Return the prefix of a command that gets its own namespaces, such as ``--net``, or skip the test."""
    begin = ["unshare", "--user", "--map-root-user", *kinds]
    if shutil.which("unshare") is None or subprocess.run([*begin, "true"], check=False).returncode != 0:
        pytest.skip("this system lets nobody but root have namespaces (unshare --user)")
    return begin
