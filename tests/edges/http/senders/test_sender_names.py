"""Name look-ups of the real senders: a name server that rebinds, deceives, fails or is silent; /etc/hosts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.core.access import Access, OAuth2Client
from consumer.core.model import OutcomeKind
from consumer.edges.http import Proxy, SenderOptions
from consumer.edges.http.connect.guard import BlockedAddress, Goal, Guard
from tests.support.loopback import LOOPBACK, SOON_S, BuildSender, MakeSender, in_namespaces, to
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, says

pytestmark = pytest.mark.timeout(120)

HOST = "hook.example"
HERE = "127.0.0.1"
CLOSE = b"Connection: close\r\n"


@pytest.mark.parametrize(("here", "bad"), [(HERE, "192.168.1.1"), ("::1", "fd00::1")])
async def test_a_name_that_moves_to_a_forbidden_address(
    make: MakeSender, dns: NameServer, here: str, bad: str
) -> None:
    """Fault 24: the first answer is good, the second is not (TTL 0): no connection to it."""
    dns.on(HOST, Answer((here,)), Answer((bad,)))
    sender = make()
    async with RawServer(says(ok(headers=CLOSE)), host=here) as server:
        outcomes = [await sender.send(to(server.url(host=HOST))) for _ in range(2)]

        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK, OutcomeKind.BLOCKED]
        assert outcomes[1].detail == f"address {bad} is not public"
        assert server.connections == 1


async def test_a_kept_connection_stays_where_it_was_judged(make: MakeSender, dns: NameServer) -> None:
    """Fault 24: while it is open, the present addresses of the name do not matter."""
    dns.on(HOST, Answer((HERE,)), Answer(("192.168.1.1",)))
    sender = make()
    async with RawServer(says(ok())) as server:
        outcomes = [await sender.send(to(server.url(host=HOST))) for _ in range(3)]

        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 3
        assert (server.connections, dns.asked[HOST]) == (1, 1)


@pytest.mark.parametrize(
    ("addresses", "bad"),
    [
        ((HERE, "10.0.0.1"), "10.0.0.1"),
        ((HERE, "fd00::1"), "fd00::1"),
        (("::1", "169.254.169.254"), "169.254.169.254"),
    ],
)
async def test_any_forbidden_address_forbids_the_name(
    make: MakeSender, dns: NameServer, addresses: tuple[str, ...], bad: str
) -> None:
    """Fault 23: one bad A or AAAA record beside a good one is enough."""
    dns.on(HOST, Answer(addresses))
    async with RawServer(says(ok())) as server:
        outcome = await make().send(to(server.url(host=HOST)))

        assert (outcome.kind, outcome.detail) == (OutcomeKind.BLOCKED, f"address {bad} is not public")
        assert server.connections == 0


async def test_an_alias_leads_to_its_addresses(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: a CNAME is followed, and its target is judged."""
    dns.on("good.example", Answer(alias="target.example"))
    dns.on("bad.example", Answer(alias="inside.example"))
    dns.on("target.example", Answer((HERE,)))
    dns.on("inside.example", Answer(("10.1.2.3",)))
    sender = make()
    async with RawServer(says(ok())) as server:
        kinds = [(await sender.send(to(server.url(host=h)))).kind for h in ("good.example", "bad.example")]

    assert kinds == [OutcomeKind.OK, OutcomeKind.BLOCKED]


@pytest.mark.parametrize(
    ("ttl_s", "bounds", "asked"),
    [
        (60, {}, 1),
        (0, {"resolve_ttl_min_s": 60.0}, 1),
        (86_400, {"resolve_ttl_max_s": 0.0}, 3),
        (0, {}, 3),
    ],
    ids=["by-ttl", "at-least", "at-most", "not-at-all"],
)
async def test_addresses_are_kept_for_their_time(
    make: MakeSender, dns: NameServer, ttl_s: int, bounds: dict[str, float], asked: int
) -> None:
    """For the record's TTL, within both bounds; each connection is judged all the same."""
    name = f"ttl-{ttl_s}-{asked}.example"
    dns.on(name, Answer((HERE,), ttl_s))
    sender = make(**bounds)
    async with RawServer(says(ok(headers=CLOSE))) as server:
        for _ in range(3):
            assert (await sender.send(to(server.url(host=name)))).kind is OutcomeKind.OK

    # c-ares keeps answers for their TTL too; beyond our bound it gives them again without a question
    assert dns.asked[name] == (1 if ttl_s == 86_400 else asked)


async def test_many_requests_at_once_are_one_question(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: fifty requests to a new name look it up once; one that gives up disturbs no other."""
    dns.on(HOST, Answer((HERE,), 5))
    sender = make()
    async with RawServer(says(ok())) as server:
        sends = [asyncio.create_task(sender.send(to(server.url(host=HOST)))) for _ in range(50)]
        await asyncio.sleep(0)
        sends[0].cancel()
        outcomes = await asyncio.gather(*sends[1:])

    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.OK}
    assert dns.asked[HOST] == 1


@pytest.mark.parametrize(
    "answer",
    [Answer(code="NXDOMAIN"), Answer(code="SERVFAIL"), Answer(code="REFUSED"), Answer()],
    ids=["nxdomain", "servfail", "refused", "no-address"],
)
async def test_a_name_that_is_not_found_is_dns(make: MakeSender, dns: NameServer, answer: Answer) -> None:
    """Fault 42: every answer of the name server without an address; a failure is kept for a moment."""
    dns.on(HOST, answer)
    sender = make(resolve_ttl_min_s=30.0)

    first = await sender.send(to(f"https://{HOST}/"))
    asked = dns.asked[HOST]
    second = await sender.send(to(f"https://{HOST}/"))

    assert (first.kind, first.status, first.detail) == (OutcomeKind.DNS, None, second.detail)
    assert dns.asked[HOST] == asked


async def test_a_name_with_as_many_addresses_as_are_judged(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: they come over TCP, all are judged, and dead ones cost no more than the connect bound."""
    dns.on(HOST, Answer(tuple(f"127.0.1.{number}" for number in range(1, 33))))
    dns.on("bad.example", Answer((*(f"127.0.1.{number}" for number in range(1, 32)), "10.0.0.1")))
    sender = make(connect_timeout_s=1.0)

    dead = await sender.send(to(f"http://{HOST}:1/"))
    bad = await make().send(to("http://bad.example:1/"))

    assert dead.kind in {OutcomeKind.REFUSED, OutcomeKind.TIMEOUT_CONNECT}
    assert dead.duration_s < SOON_S
    assert bad.kind is OutcomeKind.BLOCKED


@pytest.mark.parametrize("count", [33, 200, 1_000])
async def test_a_name_with_more_addresses_is_a_dns_failure(
    make: MakeSender, dns: NameServer, count: int
) -> None:
    """Faults 42, 86: none of them is judged or dialled, and the reason is given; both families count."""
    v4 = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(count // 2)]
    v6 = [f"::1:{number:x}" for number in range(count - count // 2)]
    dns.on(HOST, Answer((*v4, *v6)))
    async with RawServer(says(ok())) as server:
        outcome = await make().send(to(server.url(host=HOST)))

        assert outcome.kind is OutcomeKind.DNS
        assert outcome.detail == f"the name has {count} addresses; at most 32 are taken"
        assert server.connections == 0


async def test_an_answer_is_judged_once() -> None:
    """Fault 86: as long as the look-up keeps its answer; another one, or another port, is judged anew."""
    answer = [tuple(f"127.0.1.{number}" for number in range(1, 33))]

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return answer[0]

    guard = Guard(LOOPBACK, resolve, 1.0)
    goal = Goal(HOST, 9, tls=False)

    async def cost_s() -> float:
        began = time.thread_time()
        assert await guard.addresses(goal) is answer[0]
        return time.thread_time() - began

    first = await cost_s()
    again = min([await cost_s() for _ in range(5)])
    assert again < first / 5

    answer[0] = (*answer[0][:-1], "10.0.0.1")
    for _ in range(2):
        with pytest.raises(BlockedAddress, match=r"10\.0\.0\.1 is not public"):
            await guard.addresses(goal)
    with pytest.raises(BlockedAddress, match="not public"):
        await guard.addresses(goal._replace(port=10))


async def test_closing_ends_look_ups(build: BuildSender, dns: NameServer) -> None:
    """Fault 58: a close waits for no name server; the request ends as an outcome."""
    dns.on(HOST, Answer(silent=True))
    sender = build(SenderOptions(egress=LOOPBACK, name_servers=(dns.address,)))
    send = asyncio.create_task(sender.send(to(f"https://{HOST}/", timeout_s=10)))
    await eventually(lambda: dns.asked[HOST] > 0)

    await asyncio.wait_for(sender.close(), SOON_S)

    assert (await asyncio.wait_for(send, SOON_S)).kind in {OutcomeKind.DNS, OutcomeKind.CLIENT_ERROR}


PROBE = """
import asyncio
from consumer.edges.http.connect.resolver import Lookup

async def main():
    lookup = Lookup(1.0, 1.0, 60.0, ["127.0.0.1:1"])
    print(*await lookup("only-in-hosts.example", 80))
    await lookup.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("text", ["203.0.113.7 only-in-hosts.example", "2001:db8::7 x only-in-hosts.example"])
def test_the_hosts_file_is_respected(tmp_path: Path, text: str) -> None:
    """A name of /etc/hosts is found there, without any name server."""
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{text}\n")
    script = f'mount --bind {hosts} /etc/hosts && exec "$0" -c "$1"'

    done = subprocess.run(
        [*in_namespaces("--mount"), "sh", "-c", script, sys.executable, PROBE],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == (text.split(maxsplit=1)[0], "")


async def test_a_name_is_absolute(make: MakeSender, dns: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 92: with a search domain and ``ndots:5`` no name below that domain is looked up instead."""
    monkeypatch.setenv("LOCALDOMAIN", "cluster.local")  # as "search" and "options" in /etc/resolv.conf
    monkeypatch.setenv("RES_OPTIONS", "ndots:5")
    for name in (HOST, "receiver", "token.example", "proxy.example"):
        dns.on(name, Answer((HERE,)))
        dns.on(f"{name}.cluster.local", Answer(("127.0.0.66",)))
    dns.on("service.cluster.local", Answer((HERE,)))
    sender = make()
    async with RawServer(says(ok(headers=CLOSE))) as server:
        for host in (HOST, f"{HOST}.", "receiver"):
            assert (await sender.send(to(server.url(host=host)))).kind is OutcomeKind.OK
        missing = await sender.send(to(server.url(host="service")))

    assert (missing.kind, "write the name in full" in missing.detail) == (OutcomeKind.DNS, True)
    assert not [name for name in dns.asked if name.endswith("cluster.local")]


async def test_token_endpoint_and_proxy_are_absolute_too(
    build: BuildSender, dns: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 92: every connection of the daemon on a webhook's behalf."""
    monkeypatch.setenv("LOCALDOMAIN", "cluster.local")
    monkeypatch.setenv("RES_OPTIONS", "ndots:5")
    options = SenderOptions(egress=LOOPBACK, name_servers=(dns.address,))
    client = OAuth2Client(token_url="https://token.example/", client_id="a", client_secret="b")
    request = to(f"https://{HOST}/")
    for asked, sender, wanted in (
        ("token.example", build(options), request._replace(access=Access(oauth2=client))),
        (
            "proxy.example",
            build(replace(options, proxy=Proxy(scheme="http", host="proxy.example", port=1))),
            request,
        ),
    ):
        dns.on(HOST, Answer((HERE,)))
        await sender.send(wanted)
        await sender.close()
        assert dns.asked[asked] == 1

    assert not [name for name in dns.asked if name.endswith("cluster.local")]


async def test_our_servers_are_found_as_their_own_clients_find_them(
    make: MakeSender, dns: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 92: where only the search domain leads to the broker, its port is judged by that."""
    monkeypatch.setenv("LOCALDOMAIN", "cluster.local")
    monkeypatch.setenv("RES_OPTIONS", "ndots:5")
    dns.on("rabbitmq.cluster.local", Answer(("192.0.2.1",)))
    dns.on(HOST, Answer((HERE,)))
    sender = make()
    async with RawServer(says(ok())) as server:
        sender.guard.protect("rabbitmq", server.port)

        assert (await sender.send(to(server.url(host=HOST)))).kind is OutcomeKind.OK
    assert dns.asked["rabbitmq.cluster.local"] == 1


async def test_a_slow_answer_counts_against_the_deadline(make: MakeSender, dns: NameServer) -> None:
    """The total deadline is around the look-up too."""
    dns.on(HOST, Answer(silent=True))

    outcome = await make(resolve_timeout_s=5.0).send(to(f"https://{HOST}/", timeout_s=0.3))

    assert outcome.kind is OutcomeKind.TIMEOUT_CONNECT
    assert outcome.duration_s < SOON_S


async def test_nothing_is_asked_for_an_address(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: a literal needs no name server."""
    gone = asyncio.Event()

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())
        gone.set()

    async with RawServer(talk) as server:
        assert (await make().send(to(server.url()))).kind is OutcomeKind.OK
    assert not dns.asked
