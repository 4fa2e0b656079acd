"""The real senders through an egress proxy (CONNECT, SOCKS5) that works, deceives, fails or is missing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from consumer.core.model import Outcome, OutcomeKind
from consumer.edges.http import Proxy, SenderOptions, WebhookSender
from tests.support.loopback import LOOPBACK, SOON_S, BuildSender, to
from tests.support.processes.children import free_port
from tests.support.servers.certificates import Authority
from tests.support.servers.proxy_server import ProxyServer
from tests.support.servers.raw_server import RawServer, eventually, ok, open_files, says

pytestmark = pytest.mark.timeout(120)

HOST = "hook.example"
SCHEMES = pytest.mark.parametrize("scheme", ["http", "socks5"])


async def here(host: str, port: int) -> Sequence[str]:
    """Every name is here."""
    return ["127.0.0.1"]


@contextmanager
def full() -> Iterator[int]:
    """Give a port of loopback on which no connection is taken any more: its SYNs go unanswered."""
    with socket.socket() as listener, ExitStack() as fillers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # more than a backlog of 0 holds
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def by_way_of(
    build: BuildSender,
    proxy: ProxyServer,
    scheme: str,
    *,
    names: bool = False,
    login: str = "",
    ca: str | None = None,
) -> WebhookSender:
    """Return a sender behind *proxy*."""
    user, _, password = login.partition(":")
    way = Proxy(
        scheme=scheme,
        host="127.0.0.1",
        port=proxy.port,
        user=user or None,
        password=password or None,
        names=names,
    )
    return build(SenderOptions(egress=LOOPBACK, proxy=way, connect_timeout_s=1.0, ca_file=ca), here)


@SCHEMES
@pytest.mark.parametrize("names", [False, True])
async def test_everything_goes_through_the_proxy(
    build: BuildSender, authority: Authority, scheme: str, names: bool
) -> None:
    """SW-44: http and https are tunnelled, connections kept; the proxy sees only the necessary."""
    hosts = {HOST: "127.0.0.1"}
    async with (
        ProxyServer(hosts=hosts) as proxy,
        RawServer(says(ok())) as plain,
        RawServer(says(ok()), tls=authority.server(HOST)) as secure,
    ):
        sender = by_way_of(build, proxy, scheme, names=names, ca=authority.file)
        urls = [plain.url(host=HOST), secure.url(host=HOST)] * 3
        outcomes = [await sender.send(to(url)) for url in urls]
        await sender.close()

        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 6
        target = HOST if names else "127.0.0.1"
        assert proxy.asked == [(target, plain.port), (target, secure.port)]
        assert (plain.connections, secure.connections, proxy.tunnels) == (1, 1, 2)
        assert f"Host: {HOST}:".encode() in plain.requests[0]


@SCHEMES
@pytest.mark.parametrize("login", ["user:p:ss w", "", "user:wrong"])
async def test_a_login_is_shown(build: BuildSender, scheme: str, login: str) -> None:
    """The login reaches the proxy; with a wrong one it is the proxy that fails."""
    async with ProxyServer(login=("user", "p:ss w")) as proxy, RawServer(says(ok())) as server:
        sender = by_way_of(build, proxy, scheme, login=login)
        outcome = await sender.send(to(server.url()))
        await sender.close()

        assert outcome.kind is (OutcomeKind.OK if login == "user:p:ss w" else OutcomeKind.PROXY)
        assert "p:ss" not in outcome.detail
        assert server.connections == (1 if outcome.kind is OutcomeKind.OK else 0)


@pytest.mark.parametrize(
    ("says_what", "kind"),
    [
        (b"HTTP/1.1 403 Forbidden by rule\r\n\r\n", OutcomeKind.BLOCKED),
        (b"HTTP/1.1 500 Oops\r\n\r\n", OutcomeKind.PROXY),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", OutcomeKind.REFUSED),
        (b"HTTP/1.1 503 Unavailable\r\n\r\n", OutcomeKind.REFUSED),
        (b"HTTP/1.1 504 Timeout\r\n\r\n", OutcomeKind.TIMEOUT_CONNECT),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1/\r\n\r\n", OutcomeKind.PROXY),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", OutcomeKind.PROXY),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, OutcomeKind.PROXY),
        (b"SSH-2.0-OpenSSH\r\n\r\n", OutcomeKind.PROXY),
        (b"\x1b]0;owned\x07\r\n\r\n", OutcomeKind.PROXY),
        (b"HTTP/1.1 abc\r\n\r\n", OutcomeKind.PROXY),
        (b"", OutcomeKind.PROXY),
    ],
)
async def test_reports_of_an_http_proxy(build: BuildSender, says_what: bytes, kind: OutcomeKind) -> None:
    """Its own failures are ``proxy``; its reports about the endpoint are the endpoint's."""
    async with ProxyServer(says=says_what) as proxy:
        files = open_files()
        sender = by_way_of(build, proxy, "http")
        outcome = await sender.send(to("https://hook.example/"))
        await sender.close()
        await eventually(lambda: open_files() <= files)

        assert (outcome.kind, outcome.status, len(proxy.asked)) == (kind, None, 1)
        assert outcome.detail.isprintable()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (1, OutcomeKind.PROXY),
        (2, OutcomeKind.BLOCKED),
        (3, OutcomeKind.REFUSED),
        (4, OutcomeKind.REFUSED),
        (5, OutcomeKind.REFUSED),
        (6, OutcomeKind.TIMEOUT_CONNECT),
        (7, OutcomeKind.PROXY),
        (8, OutcomeKind.PROXY),
        (99, OutcomeKind.PROXY),
    ],
)
async def test_reports_of_a_socks_proxy(build: BuildSender, reply: int, kind: OutcomeKind) -> None:
    """The same by RFC 1928's codes."""
    async with ProxyServer(reply=reply) as proxy:
        sender = by_way_of(build, proxy, "socks5")
        outcome = await sender.send(to("https://hook.example/"))
        await sender.close()

        assert (outcome.kind, outcome.status) == (kind, None)


@SCHEMES
async def test_a_proxy_that_is_not_there(build: BuildSender, scheme: str) -> None:
    """Refused, or its name unknown: ``proxy``, which spends no attempt."""
    port = free_port()

    async def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    kinds: list[Outcome] = []
    for host in ("127.0.0.1", "proxy.example"):
        options = SenderOptions(egress=LOOPBACK, proxy=Proxy(scheme=scheme, host=host, port=port))
        sender = build(options, unknown)
        kinds.append(await sender.send(to("https://127.0.0.1/")))
        await sender.close()

    assert [outcome.kind for outcome in kinds] == [OutcomeKind.PROXY] * 2


async def test_a_proxy_that_is_not_reached_in_time(build: BuildSender) -> None:
    """``proxy``, whichever of connect bound, own bound and deadline ends the attempt."""

    async def nowhere(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def one(way: Proxy, connect_s: float, resolve_s: float, timeout_s: float) -> Outcome:
        options = SenderOptions(
            egress=LOOPBACK, proxy=way, connect_timeout_s=connect_s, resolve_timeout_s=resolve_s
        )
        sender = build(options, nowhere)
        outcome = await sender.send(to("http://127.0.0.1/", timeout_s=timeout_s))
        await sender.close()
        return outcome

    bounds = ((0.3, 4.0, 5.0), (5.0, 4.0, 0.3), (5.0, 0.3, 5.0), (0.3, 0.3, 0.3))
    with full() as port:
        ways = [
            Proxy(scheme=scheme, host=host, port=port)
            for scheme in ("http", "socks5")
            for host in ("proxy.example", "127.0.0.1")
        ]
        outcomes = await asyncio.gather(*(one(way, *each) for way in ways for each in bounds))

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.PROXY] * len(ways) * len(bounds)
    assert max(outcome.duration_s for outcome in outcomes) < 2


async def test_a_proxy_that_answered_once_is_not_blamed_for_the_rest(build: BuildSender) -> None:
    """After it has refused one address, time that runs out is the endpoint's."""
    looked_up = 0

    async def resolve(host: str, port: int) -> Sequence[str]:
        nonlocal looked_up
        if host == HOST:
            return ["127.0.0.9", "127.0.0.1"]
        looked_up += 1
        if looked_up > 1:
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    async with ProxyServer(says=b"HTTP/1.1 502 No\r\n\r\n") as proxy:
        way = Proxy(scheme="http", host="proxy.example", port=proxy.port)
        sender = build(SenderOptions(egress=LOOPBACK, proxy=way, connect_timeout_s=0.3), resolve)
        outcome = await sender.send(to(f"https://{HOST}/"))
        await sender.close()

    assert (outcome.kind, looked_up) == (OutcomeKind.TIMEOUT_CONNECT, 2)


@SCHEMES
async def test_a_proxy_that_is_silent_ends_at_the_connect_bound(build: BuildSender, scheme: str) -> None:
    """Fault 43: it may be the endpoint that does not answer the proxy, so the endpoint's time is up."""
    async with RawServer(lambda call: call.gone()) as proxy:
        files = open_files()
        way = Proxy(scheme=scheme, host="127.0.0.1", port=proxy.port)
        sender = build(SenderOptions(egress=LOOPBACK, proxy=way, connect_timeout_s=0.3))
        outcome = await sender.send(to("https://127.0.0.1/"))
        await eventually(lambda: proxy.open == 0 and open_files() <= files)
        await sender.close()

    assert outcome.kind is OutcomeKind.TIMEOUT_CONNECT
    assert outcome.duration_s < SOON_S


@SCHEMES
@pytest.mark.parametrize("names", [False, True])
async def test_forbidden_addresses_are_not_asked_of_the_proxy(
    build: BuildSender, scheme: str, names: bool
) -> None:
    """Faults 20-24: a literal never; nor a name that is bad here, unless the proxy judges names."""

    async def inside(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.1"]

    async with ProxyServer() as proxy:
        way = Proxy(scheme=scheme, host="127.0.0.1", port=proxy.port, names=names)
        sender = build(SenderOptions(egress=LOOPBACK, proxy=way), inside)
        literal = await sender.send(to("https://169.254.169.254/latest"))
        name = await sender.send(to("https://rebind.invalid/"))
        await sender.close()

        assert literal.kind is OutcomeKind.BLOCKED
        assert name.kind is (OutcomeKind.REFUSED if names else OutcomeKind.BLOCKED)
        assert proxy.asked == ([("rebind.invalid", 443)] if names else [])


async def test_the_next_address_is_tried(build: BuildSender) -> None:
    """A name with a dead address is reached by its other one."""

    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.9", "127.0.0.1"]

    async with ProxyServer() as proxy, RawServer(says(ok())) as server:
        way = Proxy(scheme="http", host="127.0.0.1", port=proxy.port)
        sender = build(SenderOptions(egress=LOOPBACK, proxy=way), two)
        outcome = await sender.send(to(server.url(host=HOST)))
        await sender.close()

        assert outcome.kind is OutcomeKind.OK
        assert [host for host, _ in proxy.asked] == ["127.0.0.9", "127.0.0.1"]


async def test_cancelling_while_the_proxy_thinks_leaves_nothing(build: BuildSender) -> None:
    """Fault 58: the connection to the proxy is closed with the attempt."""
    async with RawServer(lambda call: call.gone()) as proxy:
        files = open_files()
        sender = build(
            SenderOptions(egress=LOOPBACK, proxy=Proxy(scheme="http", host="127.0.0.1", port=proxy.port))
        )
        send = asyncio.create_task(sender.send(to("https://127.0.0.1/")))
        await eventually(lambda: proxy.open == 1)
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        await eventually(lambda: proxy.open == 0 and open_files() <= files)
        await sender.close()

        assert proxy.connections == 1
