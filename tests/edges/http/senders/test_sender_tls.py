"""The real sender and TLS: certificates made here, servers on loopback, both event loops."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from consumer.core import schema
from consumer.core.access import Access, TlsPolicy
from consumer.core.endpoint.egress import parse_rule
from consumer.core.errors import ConfigError
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.edges.http import SenderOptions, WebhookSender
from consumer.edges.http.connect.tls import TlsContexts
from consumer.settings import EgressSettings, SendingSettings
from tests.support.loopback import SOON_S, BuildSender
from tests.support.servers.certificates import Authority
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, open_files, says

pytestmark = pytest.mark.timeout(120)

HOST = "hook.example"
LOOPBACK = parse_rule(["127.0.0.0/8"])


async def loopback(host: str, port: int) -> Sequence[str]:
    """Every name is here."""
    return ["127.0.0.1"]


@pytest_asyncio.fixture
async def sender(authority: Authority, build: BuildSender) -> AsyncIterator[WebhookSender]:
    """A sender that trusts the authority and finds every name on loopback."""
    options = SenderOptions(egress=LOOPBACK, ca_file=authority.file, connect_timeout_s=1)
    built = build(options, loopback)
    yield built
    await built.close()


def to(server: RawServer | Strict, policy: TlsPolicy | None = None) -> SignedRequest:
    """Return a request to the server by its name."""
    return SignedRequest(
        url=f"https://{HOST}:{server.port}/hook",
        headers=[("webhook-id", "msg_1")],
        body=b"{}",
        timeout_s=5,
        access=None if policy is None else Access(tls=policy),
    )


async def test_a_good_certificate_is_accepted_and_the_connection_kept(
    sender: WebhookSender, authority: Authority
) -> None:
    """Fault 44: name, dates and chain are right; ten requests share one handshake."""
    async with RawServer(says(ok(body=b"fine")), tls=authority.server(HOST)) as server:
        outcomes = [await sender.send(to(server)) for _ in range(10)]

        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 10
        assert server.connections == 1


@pytest.mark.parametrize("fault", ["self-signed", "wrong host", "expired", "no SAN"])
async def test_a_bad_certificate_is_a_tls_failure(
    sender: WebhookSender, authority: Authority, fault: str
) -> None:
    """Fault 44: the request is not sent, and never over less than TLS; a common name is not a name."""
    contexts = {
        "no SAN": authority.server(HOST, alternative=False),
        "self-signed": authority.server(HOST, signed=False),
        "wrong host": authority.server("other.example"),
        "expired": authority.server(HOST, days=-1),
    }
    async with RawServer(says(ok()), tls=contexts[fault]) as server:
        outcome = await sender.send(to(server))

        assert (outcome.kind, outcome.status) == (OutcomeKind.TLS, None)
        assert "certificate" in outcome.detail.lower()
        assert server.requests == []


async def test_a_full_stop_behind_the_host_is_left_out(sender: WebhookSender, authority: Authority) -> None:
    """Fault 92: ``hook.example.`` is the same host: to TLS, in Host, and to the pool."""
    context, names = authority.server(HOST), []
    context.sni_callback = lambda _connection, name, _context: names.append(name)
    async with RawServer(says(ok()), tls=context) as server:
        for host in (f"{HOST}.", HOST):
            request = to(server)
            outcome = await sender.send(request._replace(url=request.url.replace(HOST, host)))
            assert (outcome.kind, outcome.detail) == (OutcomeKind.OK, "")

        assert (names, server.connections) == ([HOST], 1)
        assert {request.split(b"\r\n")[1] for request in server.requests} == {
            f"Host: {HOST}:{server.port}".encode()
        }


async def test_an_authority_that_we_do_not_trust_is_a_tls_failure(
    authority: Authority, build: BuildSender
) -> None:
    """Fault 44: without the CA file the same server is refused."""
    sender = build(SenderOptions(egress=LOOPBACK), loopback)
    async with RawServer(says(ok()), tls=authority.server(HOST)) as server:
        assert (await sender.send(to(server))).kind is OutcomeKind.TLS
    await sender.close()


async def test_old_tls_is_refused(sender: WebhookSender, authority: Authority) -> None:
    """Fault 44: a server that speaks at most TLS 1.1 is a failure, not a downgrade."""
    context = authority.server(HOST)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with RawServer(says(ok()), tls=context) as server:
        outcome = await sender.send(to(server))

        assert outcome.kind is OutcomeKind.TLS
        assert server.requests == []


async def test_plain_http_where_tls_was_asked_for_is_a_tls_failure(sender: WebhookSender) -> None:
    """Fault 44: the request is never sent in clear."""

    async def talk(call: Call) -> None:
        await call.reader.read(1)
        await call.say(b"HTTP/1.1 400 This is not TLS\r\n\r\n")

    async with RawServer(talk) as server:
        outcome = await sender.send(to(server))

        assert outcome.kind is OutcomeKind.TLS
        assert server.requests == []


async def test_a_handshake_that_stalls_ends_at_the_connect_bound(sender: WebhookSender) -> None:
    """Fault 44: the socket is given back at once, not after the loop's own handshake timeout."""
    async with RawServer(lambda call: call.gone()) as server:
        files = open_files()
        outcome = await sender.send(to(server))
        await eventually(lambda: server.open == 0 and open_files() <= files)

    assert outcome.kind is OutcomeKind.TIMEOUT_CONNECT
    assert outcome.duration_s < SOON_S


async def test_a_reset_in_the_handshake_is_an_outcome(sender: WebhookSender) -> None:
    """Faults 43, 44: the server hangs up on the hello."""

    async def talk(call: Call) -> None:
        await call.reader.read(1)

    async with RawServer(talk) as server:
        assert (await sender.send(to(server))).kind is OutcomeKind.TLS


async def test_closing_with_idle_tls_connections_is_quick(authority: Authority, build: BuildSender) -> None:
    """Fault 58: a close waits for no server's goodbye, and leaves nothing open."""
    sender = build(SenderOptions(egress=LOOPBACK, ca_file=authority.file), loopback)
    async with RawServer(says(ok()), tls=authority.server(HOST)) as server:
        await asyncio.gather(*(sender.send(to(server)) for _ in range(5)))
        await asyncio.wait_for(sender.close(), SOON_S)
        await eventually(lambda: server.open == 0)
        assert (server.connections, server.open) == (5, 0)


def test_a_ca_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, build: BuildSender) -> None:
    """S2-1: the error names the setting and the file."""
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")
    for path in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=r"ca_file.*\.pem"):
            build(SenderOptions(ca_file=str(path)))


class Strict:
    """A server that refuses a client with a TLS alert, which asyncio's own server does not send."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.seen: list[object] = []  #: subjects of the certificates that it was shown
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Strict:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as tls:
                    self.seen.append(cast(Any, tls.getpeercert())["subject"])
                    tls.recv(65_536)
                    tls.sendall(ok(headers=b"Connection: close\r\n"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_endpoint_may_want_a_certificate(
    sender: WebhookSender, authority: Authority, version: ssl.TLSVersion
) -> None:
    """Fault 44: with its client certificate the endpoint is reached; with none or another it is not.

    In TLS 1.3 the client has ended the handshake before the server refuses it, so the server's last bytes may
    be lost: then it is a reset, or on asyncio's own loop nothing at all.
    """
    own, foreign = authority.pair("leveret"), authority.pair("leveret", signed=False)
    context = authority.server(HOST, clients=True)
    context.maximum_version = version
    refused = (
        {OutcomeKind.TLS}
        if version is ssl.TLSVersion.TLSv1_2
        else {OutcomeKind.TLS, OutcomeKind.RESET, OutcomeKind.TIMEOUT_CONNECT}
    )
    with Strict(context) as server:
        with_own = await sender.send(to(server, TlsPolicy(certificate=own.certificate, key=own.key)))
        without = await sender.send(to(server))
        with_foreign = await sender.send(
            to(server, TlsPolicy(certificate=foreign.certificate, key=foreign.key))
        )

    assert with_own.kind is OutcomeKind.OK
    assert {without.kind, with_foreign.kind} <= refused
    assert server.seen == [((("commonName", "leveret"),),)]


async def test_an_endpoint_may_have_an_authority_of_its_own(
    build: BuildSender, authority: Authority, tmp_path: Path
) -> None:
    """It is trusted for that endpoint only, and instead of the others."""
    other = Authority(tmp_path, "Other CA")
    sender = build(SenderOptions(egress=LOOPBACK, ca_file=authority.file), loopback)
    async with RawServer(says(ok()), tls=other.server(HOST)) as server:
        first = await sender.send(to(server))
        trusted = [await sender.send(to(server, TlsPolicy(ca=other.pem))) for _ in range(3)]
        again = await sender.send(to(server))
        connections = server.connections
    async with RawServer(says(ok()), tls=authority.server(HOST)) as server:
        shared = await sender.send(to(server))
        narrow = await sender.send(to(server, TlsPolicy(ca=other.pem)))
    await sender.close()

    assert [outcome.kind for outcome in trusted] == [OutcomeKind.OK] * 3
    assert (first.kind, again.kind, narrow.kind, shared.kind) == (
        OutcomeKind.TLS,
        OutcomeKind.TLS,
        OutcomeKind.TLS,
        OutcomeKind.OK,
    )
    assert connections == 1  # kept for the three; the others did not survive the handshake


async def test_a_policy_that_openssl_does_not_take_is_an_outcome(sender: WebhookSender) -> None:
    """A subscription that registration should have refused ends as an outcome too."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server, TlsPolicy(certificate="no", key="pem")))

    assert outcome.kind in {OutcomeKind.TLS, OutcomeKind.CLIENT_ERROR}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_are_resumed(
    sender: WebhookSender, authority: Authority, version: ssl.TLSVersion
) -> None:
    """A new connection to a known endpoint does without a whole handshake."""
    context = authority.server(HOST)
    context.minimum_version = context.maximum_version = version
    resumed: list[bool] = []

    async def talk(call: Call) -> None:
        await call.request()
        resumed.append(call.writer.get_extra_info("ssl_object").session_reused)
        await call.say(ok(headers=b"Connection: close\r\n"))

    async with RawServer(talk, tls=context) as server:
        outcomes = [await sender.send(to(server)) for _ in range(3)]

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 3
    assert resumed == [False, True, True]


async def test_nothing_switches_verification_off() -> None:
    """Fault 44: no option, setting or field of a subscription speaks of it, and every context verifies."""
    names = {
        ".".join(path)
        for model in (SendingSettings, EgressSettings, SubscriptionEntry)
        for path, _ in schema.leaves(model)
    }
    names |= {each.name for each in fields(SenderOptions)}
    context = await TlsContexts(None).of(None)

    assert not [name for name in names if re.search("verif|insecure|skip|trust_all|check_host", name)]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
