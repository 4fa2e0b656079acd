"""Name servers that are silent, absent, or refuse a connection: the effect on each name."""

from __future__ import annotations

import asyncio
import threading

import pytest

from consumer.core.model import OutcomeKind
from consumer.edges.http import SenderOptions
from tests.support.loopback import LOOPBACK, BuildSender, MakeSender, to
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.raw_server import RawServer, ok, says

pytestmark = pytest.mark.timeout(120)

HOST = "hook.example"
HERE = "127.0.0.1"


async def test_a_silent_name_server_delays_no_other_delivery(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: two hundred look-ups hang; other deliveries go on meanwhile, and no thread is added."""
    dns.on("first.example", Answer((HERE,)))
    sender = make(resolve_timeout_s=60)
    async with RawServer(says(ok())) as server:
        assert (await sender.send(to(server.url(host="first.example")))).kind is OutcomeKind.OK
        threads = threading.active_count()
        for number in range(200):
            dns.on(f"silent{number}.example", Answer(silent=True))
        hung = [
            asyncio.create_task(sender.send(to(f"http://silent{number}.example/", timeout_s=100)))
            for number in range(200)
        ]
        meanwhile = [await sender.send(to(server.url())) for _ in range(50)]

        assert {outcome.kind for outcome in meanwhile} == {OutcomeKind.OK}
        assert threading.active_count() <= threads
        assert not any(task.done() for task in hung)
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)


async def test_each_look_up_of_a_silent_name_server_ends(make: MakeSender, dns: NameServer) -> None:
    """Fault 42: after its time-out, and as a fault of the name, since the server answers another question."""
    sender = make(resolve_timeout_s=1.5)
    for number in range(20):
        dns.on(f"silent{number}.example", Answer(silent=True))

    outcomes = await asyncio.gather(
        *(sender.send(to(f"http://silent{number}.example/", timeout_s=100)) for number in range(20))
    )

    assert {outcome.kind for outcome in outcomes} <= {OutcomeKind.DNS, OutcomeKind.LOCAL}


async def test_a_long_answer_without_tcp_is_the_names_fault(make: MakeSender, dns: NameServer) -> None:
    """Faults 86, 87: an answer too long for UDP from a name server without TCP turns nothing else red."""
    long4 = tuple(f"192.0.{number // 250}.{number % 250 + 1}" for number in range(1_000))
    long6 = tuple(f"2001:db8::{number:x}" for number in range(1, 1_000))
    dns.on(HOST, Answer((*long4, *long6)))
    await dns.refuse_tcp()

    outcome = await make(resolve_timeout_s=3).send(to(f"http://{HOST}/", timeout_s=10))

    assert (outcome.kind, outcome.detail) == (
        OutcomeKind.DNS,
        "the name server refused this look-up's connection",
    )


async def test_name_servers_that_are_away_are_no_endpoints_fault(
    build: BuildSender, dns: NameServer, make: MakeSender
) -> None:
    """Fault 87: silent to all, or no server at all: this machine's fault; silent to one name: that name's."""
    dns.on(HOST, Answer(silent=True))
    sender = make(resolve_timeout_s=1.5)
    of_name = await sender.send(to(f"http://{HOST}/"))
    dns.on("other.example", Answer(silent=True))
    dns.on("", Answer(silent=True))
    silent = await sender.send(to("http://other.example/"))
    nobody = build(SenderOptions(egress=LOOPBACK, name_servers=("127.0.0.1:1",)))
    try:
        away = await nobody.send(to(f"http://{HOST}/"))
    finally:
        await nobody.close()

    assert (of_name.kind, silent.kind, away.kind) == (OutcomeKind.DNS, OutcomeKind.LOCAL, OutcomeKind.LOCAL)
    assert silent.detail == "no name server answers anything"
