"""Requests with OAuth2 tokens: fetched once, kept, renewed after a 401, and never at the secret's expense."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import pytest_asyncio

from consumer.core.access import Access, OAuth2Client, TlsPolicy
from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.core.retry.outcomes import Signal, breaker_signal
from consumer.edges.http import Proxy, SenderOptions, WebhookSender
from tests.support.loopback import LOOPBACK, SOON_S, BuildSender
from tests.support.loopback import OPTIONS as BOUNDS
from tests.support.processes.children import free_port
from tests.support.servers.certificates import Authority
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, says

pytestmark = pytest.mark.timeout(120)

SECRET = "s3cr:t/+"


class Issuer:
    """A token endpoint, and an endpoint that wants its tokens."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.fetches: list[bytes] = []
        self.good: set[str] = set()  #: tokens that the endpoint takes
        self.life_s: object = 3_600
        self.answer: bytes | None = None  #: the answer instead of a token
        self.gate: asyncio.Event | None = None
        self.hangs = False  #: the endpoint never answers
        self.tokens: RawServer
        self.endpoint: RawServer

    async def start(self) -> Issuer:
        """Listen."""
        self.tokens = await self.stack.enter_async_context(RawServer(self._issue))
        self.endpoint = await self.stack.enter_async_context(RawServer(self._take))
        return self

    def client(self, **changed: object) -> OAuth2Client:
        """Return the client that the issuer knows."""
        known = OAuth2Client(
            token_url=self.tokens.url("/token?x=1"), client_id="client one", client_secret=SECRET
        )
        return replace(known, **changed)  # type: ignore[arg-type]  # by name, in a test

    async def send(
        self,
        sender: WebhookSender,
        *,
        timeout_s: float = 5.0,
        tls: TlsPolicy | None = None,
        **changed: object,
    ) -> Outcome:
        """Send one webhook with a token."""
        return await sender.send(
            SignedRequest(
                url=self.endpoint.url(),
                headers=[("webhook-id", "msg_1")],
                body=b"{}",
                timeout_s=timeout_s,
                access=Access(oauth2=self.client(**changed), tls=tls),
            )
        )

    async def _issue(self, call: Call) -> None:
        while True:
            self.fetches.append(await call.request())
            if self.gate is not None:
                await self.gate.wait()
            token = f"token-{len(self.fetches)}"
            self.good.add(token)
            fields = {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}
            await call.say(self.answer if self.answer is not None else ok(body=json.dumps(fields).encode()))

    async def _take(self, call: Call) -> None:
        while True:
            request = await call.request()
            if self.hangs:
                await call.gone()
            token = request.partition(b"authorization: Bearer ")[2].partition(b"\r\n")[0].decode()
            await call.say(ok(status=b"200 OK" if token in self.good else b"401 Unauthorized"))


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An issuer that listens."""
    async with AsyncExitStack() as stack:
        yield await Issuer(stack).start()


async def test_a_token_is_fetched_once_and_kept(sender: WebhookSender, issuer: Issuer) -> None:
    """Ten requests, five of them at once, share one fetch, a proper token request."""
    first = await asyncio.gather(*(issuer.send(sender) for _ in range(5)))
    later = [await issuer.send(sender) for _ in range(5)]

    assert [outcome.kind for outcome in (*first, *later)] == [OutcomeKind.OK] * 10
    [fetch] = issuer.fetches
    head, _, body = fetch.decode().partition("\r\n\r\n")
    basic = base64.b64encode(b"client+one:s3cr%3At%2F%2B").decode()
    assert head.startswith("POST /token?x=1 HTTP/1.1\r\n")
    assert f"\r\nauthorization: Basic {basic}" in head
    assert "user-agent: leveret/" in head
    assert parse_qs(body) == {"grant_type": ["client_credentials"]}
    assert all(
        b"webhook-id: msg_1\r\nauthorization: Bearer token-1\r\n" in r for r in issuer.endpoint.requests
    )


async def test_scope_audience_and_a_secret_in_the_form(sender: WebhookSender, issuer: Issuer) -> None:
    """Parameters that some token endpoints require; each such client has a token of its own."""
    await issuer.send(sender)
    outcome = await issuer.send(sender, scope="a b", audience="https://x", secret_in_body=True)

    head, _, body = issuer.fetches[1].decode().partition("\r\n\r\n")
    assert outcome.kind is OutcomeKind.OK
    assert "authorization" not in head.lower()
    assert parse_qs(body) == {
        "grant_type": ["client_credentials"],
        "scope": ["a b"],
        "audience": ["https://x"],
        "client_id": ["client one"],
        "client_secret": [SECRET],
    }


async def test_a_token_that_was_revoked_is_renewed_once(sender: WebhookSender, issuer: Issuer) -> None:
    """A 401 on a kept token fetches a new one and sends again, within the same attempt."""
    await issuer.send(sender)
    issuer.good.clear()

    renewed = await issuer.send(sender)

    assert (renewed.kind, len(issuer.fetches), len(issuer.endpoint.requests)) == (OutcomeKind.OK, 2, 3)


async def test_an_endpoint_that_always_says_401_is_asked_twice_at_most(
    sender: WebhookSender, issuer: Issuer
) -> None:
    """A fresh token that is refused is the endpoint's answer."""
    await issuer.send(sender)
    issuer.answer = ok(body=b'{"access_token":"unwanted","token_type":"bearer"}')
    issuer.good.clear()

    kept, fresh = await issuer.send(sender), await issuer.send(sender)

    assert [(o.kind, o.status) for o in (kept, fresh)] == [(OutcomeKind.HTTP_4XX, 401)] * 2
    assert len(issuer.endpoint.requests) == 1 + 2 + 1


@pytest.mark.parametrize("life", [0, -5, "soon", None, 1e300, 0.05])
async def test_a_token_ends_when_it_says(sender: WebhookSender, issuer: Issuer, life: object) -> None:
    """It is fetched anew when its time is nearly over; nonsense is not believed."""
    issuer.life_s = life
    await issuer.send(sender)
    if life == 0.05:
        await asyncio.sleep(0.06)  # its life, on the real clock

    assert (await issuer.send(sender)).kind is OutcomeKind.OK
    assert len(issuer.fetches) == (2 if life == 0.05 else 1)


@pytest.mark.parametrize(
    ("answer", "kind", "detail"),
    [
        (
            ok(status=b"401 No", body=b'{"error":"invalid_client"}'),
            OutcomeKind.CLIENT_ERROR,
            "401 invalid_client",
        ),
        (ok(status=b"500 Oops", body=b"<html>\x1b[31m"), OutcomeKind.CLIENT_ERROR, "answered 500"),
        (
            ok(status=b"302 Found", headers=b"Location: http://127.0.0.1/\r\n"),
            OutcomeKind.CLIENT_ERROR,
            "answered 302",
        ),
        (ok(body=b"{}"), OutcomeKind.CLIENT_ERROR, "no usable access_token"),
        (ok(body=b"[]"), OutcomeKind.CLIENT_ERROR, "no usable access_token"),
        (ok(body=b'{"access_token":"a\\r\\nX: b"}'), OutcomeKind.CLIENT_ERROR, "no usable access_token"),
        (ok(body=b'{"access_token":7}'), OutcomeKind.CLIENT_ERROR, "no usable access_token"),
        (ok(body=b'{"access_token":"a","token_type":"mac"}'), OutcomeKind.CLIENT_ERROR, "not a Bearer token"),
        (ok(body=b"x" * 100_000), OutcomeKind.CLIENT_ERROR, "too_large: the answer is too large"),
        (b"SSH-2.0-OpenSSH\r\n", OutcomeKind.CLIENT_ERROR, "protocol: "),
    ],
)
async def test_a_token_endpoint_that_gives_none(
    sender: WebhookSender, issuer: Issuer, answer: bytes, kind: OutcomeKind, detail: str
) -> None:
    """Nothing is sent, the outcome contains the reason, and the token endpoint is not asked again at once."""
    issuer.answer = answer

    outcomes = [await issuer.send(sender) for _ in range(3)]

    assert {outcome.kind for outcome in outcomes} == {kind}
    assert detail in outcomes[0].detail
    assert outcomes[0].detail.isprintable()
    assert not any(SECRET in outcome.detail for outcome in outcomes)
    assert (len(issuer.fetches), issuer.endpoint.requests) == (1, [])


async def test_a_token_endpoint_that_is_silent_costs_the_deadline(
    sender: WebhookSender, issuer: Issuer
) -> None:
    """The fetch is within the total deadline, and goes on for those with more time."""
    issuer.gate = asyncio.Event()

    late = await issuer.send(sender, timeout_s=0.3)
    patient = asyncio.create_task(issuer.send(sender))
    issuer.gate.set()

    assert (late.kind, (await patient).kind) == (OutcomeKind.CLIENT_ERROR, OutcomeKind.OK)
    assert 0.2 < late.duration_s < SOON_S
    assert len(issuer.fetches) == 1


async def test_the_guard_holds_for_token_endpoints(build: BuildSender, issuer: Issuer) -> None:
    """Fault 20: a subscription cannot make us ask an inside address for a token."""
    sender = build(BOUNDS)
    inside = [await issuer.send(sender, token_url=url) for url in ("https://169.254.169.254/t", "ftp://x/")]
    await sender.close()

    assert [outcome.kind for outcome in inside] == [OutcomeKind.BLOCKED] * 2
    assert issuer.endpoint.requests == []


async def test_closing_ends_a_fetch(build: BuildSender, issuer: Issuer) -> None:
    """Fault 58: a request that waits for a token ends as an outcome."""
    issuer.gate = asyncio.Event()
    sender = build(BOUNDS)
    send = asyncio.create_task(issuer.send(sender))
    while not issuer.fetches:  # noqa: ASYNC110 - another connection's talk notes it
        await asyncio.sleep(0.001)

    await asyncio.wait_for(sender.close(), SOON_S)

    assert (await asyncio.wait_for(send, SOON_S)).kind is OutcomeKind.CLIENT_ERROR


async def test_a_token_endpoint_sets_no_cookies(sender: WebhookSender, issuer: Issuer) -> None:
    """Fault 16: cookies for one tenant's client never come back with another's."""
    issuer.answer = ok(
        headers=b"Set-Cookie: session=of-one-tenant; Path=/\r\n",
        body=b'{"access_token":"a","token_type":"bearer"}',
    )

    for client_id in ("one", "two"):
        await issuer.send(sender, client_id=client_id)

    assert len(issuer.fetches) == 2
    assert not any(b"cookie" in fetch.lower() for fetch in issuer.fetches)


async def test_no_connection_to_a_token_endpoint_is_left(sender: WebhookSender, issuer: Issuer) -> None:
    """A fetch ends with its connection, good or bad, and nothing is left to sweep."""
    good = await issuer.send(sender)
    issuer.answer = ok(body=b"x" * 100_000)
    bad = await issuer.send(sender, client_id="other")
    await eventually(lambda: issuer.tokens.open == 0)

    assert (good.kind, bad.kind, issuer.tokens.connections) == (OutcomeKind.OK, OutcomeKind.CLIENT_ERROR, 2)


@pytest.mark.parametrize("way", ["refused", "dns", "tls", "silent", "500", "guard"])
async def test_no_fault_of_a_token_endpoint_is_the_endpoints(
    build: BuildSender, issuer: Issuer, way: str
) -> None:
    """S3-1: no request reached the endpoint, so its breaker learns nothing; the outcome names the fault."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    urls = {
        "refused": f"http://127.0.0.1:{free_port()}/",
        "dns": "https://nobody.invalid/",
        "tls": issuer.tokens.url().replace("http:", "https:"),
        "guard": "https://10.0.0.1/",
    }
    issuer.gate = asyncio.Event()
    if way != "silent":
        issuer.gate.set()
    issuer.answer = ok(status=b"500 Oops")
    sender = build(BOUNDS, resolve)
    token_url = urls.get(way, issuer.tokens.url())
    timeout_s = 0.3 if way in ("silent", "tls") else 5.0  # those two only end with the deadline
    outcome = await issuer.send(sender, timeout_s=timeout_s, token_url=token_url)
    await sender.close()

    assert outcome.kind is (OutcomeKind.BLOCKED if way == "guard" else OutcomeKind.CLIENT_ERROR)
    assert outcome.detail.startswith("token endpoint: ")
    assert breaker_signal(outcome) is Signal.UNKNOWN
    assert issuer.endpoint.connections == 0


async def test_words_of_a_token_endpoint_are_kept_short_and_secret(
    sender: WebhookSender, issuer: Issuer
) -> None:
    """Fault 51: an error text of 60 kB is not kept, and one that repeats our secret is not shown."""
    issuer.answer = ok(status=b"400 Bad", body=json.dumps({"error": "x" * 60_000}).encode())
    long = await issuer.send(sender, client_id="long")
    issuer.answer = ok(status=b"400 Bad", body=b'{"error":"echo-of-hunter2"}')
    echo = await issuer.send(sender, client_secret="hunter2")
    issuer.answer = ok(status=b"400 Bad", body=b'{"error":"invalid_scope"}')
    plain = await issuer.send(sender, client_id="plain")

    assert [outcome.detail for outcome in (long, echo, plain)] == [
        "token endpoint: it answered 400",
        "token endpoint: it answered 400",
        "token endpoint: it answered 400 invalid_scope",
    ]


async def test_an_endpoints_authorities_hold_for_its_token_endpoint(
    build: BuildSender, issuer: Issuer, authority: Authority, tmp_path: Path
) -> None:
    """Beside the system's, for that endpoint only; its client certificate is shown too."""
    other, own = Authority(tmp_path, "Other CA"), authority.pair("leveret")
    sender = build(SenderOptions(egress=LOOPBACK, ca_file=other.file))
    token = ok(body=b'{"access_token":"a","token_type":"bearer"}')
    issuer.good.add("a")
    policy = TlsPolicy(ca=authority.pem, certificate=own.certificate, key=own.key)
    async with (
        RawServer(says(token), tls=authority.server("127.0.0.1", clients=True)) as private,
        RawServer(says(token), tls=other.server("127.0.0.1")) as public,
    ):
        outcomes = [
            await issuer.send(sender, tls=tls, token_url=server.url(), client_id=str(number))
            for number, (server, tls) in enumerate(
                ((private, policy), (public, policy), (public, None), (private, None))
            )
        ]
    await sender.close()

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 3 + [OutcomeKind.CLIENT_ERROR]
    assert outcomes[3].detail.startswith("token endpoint: tls: ")


@pytest.mark.parametrize("timeout_s", [0.2, 5.0])
async def test_a_missing_egress_proxy_is_reported_as_such(
    build: BuildSender, issuer: Issuer, timeout_s: float
) -> None:
    """Not reached for a token either, whichever bound ends it: ``proxy``, no attempt."""

    async def nowhere(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    way = Proxy(scheme="http", host="proxy.example", port=3128)
    sender = build(SenderOptions(egress=LOOPBACK, proxy=way, connect_timeout_s=0.5), nowhere)
    outcome = await issuer.send(sender, timeout_s=timeout_s)
    await sender.close()

    assert outcome.kind is OutcomeKind.PROXY


async def test_a_slow_token_endpoint_is_not_the_endpoints_time_out(
    sender: WebhookSender, issuer: Issuer
) -> None:
    """S3-1: the rest of the deadline after it may be too short for any endpoint."""
    issuer.gate = asyncio.Event()
    send = asyncio.create_task(issuer.send(sender, timeout_s=1.0))
    await asyncio.sleep(0.6)  # most of the deadline, on the real clock
    issuer.hangs = True
    issuer.gate.set()
    slow = await send
    alone = await issuer.send(sender, timeout_s=0.3)

    assert (slow.kind, breaker_signal(slow)) == (OutcomeKind.CLIENT_ERROR, Signal.UNKNOWN)
    assert slow.detail.startswith("token endpoint: it took 0.")
    assert (alone.kind, breaker_signal(alone)) == (OutcomeKind.TIMEOUT_TOTAL, Signal.FAILING)
