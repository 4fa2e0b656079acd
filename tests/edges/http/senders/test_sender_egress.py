"""Where the real sender may go, and how it finds names, on both event loops."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from consumer.core.model import OutcomeKind
from consumer.daemon.build import make_sender
from consumer.edges.http import SenderOptions, WebhookSender
from consumer.edges.http.connect import own_addresses as own
from consumer.edges.http.connect.guard import Goal
from consumer.edges.http.parts import Parts
from consumer.settings import load_settings
from tests.support.loopback import LOOPBACK, OPTIONS, SOON_S, BuildSender, in_namespaces, to
from tests.support.processes.children import free_port
from tests.support.servers.raw_server import RawServer, eventually, ok, says

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "10.0.0.1", "[fd00:ec2::254]", "[::ffff:10.0.0.1]", "127.1"]
)
async def test_a_forbidden_literal_is_blocked(sender: WebhookSender, host: str) -> None:
    """Faults 20, 21, 22: no connection is tried."""
    assert (await sender.send(to(f"https://{host}/"))).kind is OutcomeKind.BLOCKED


async def test_loopback_is_blocked_unless_allowed(build: BuildSender) -> None:
    """Fault 21: judged on the address that is dialled; the server sees no connection."""
    sender = build(SenderOptions())
    async with RawServer(says(ok())) as server:
        plain = await sender.send(to(server.url()))
        secure = await sender.send(to(server.url().replace("http:", "https:")))

        assert (plain.kind, secure.kind) == (OutcomeKind.BLOCKED, OutcomeKind.BLOCKED)
        assert server.connections == 0
    await sender.close()


async def test_any_forbidden_address_blocks_a_name(build: BuildSender) -> None:
    """Fault 23: one good address beside a bad one does not help."""

    async def both(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.1"]

    sender = build(OPTIONS, both)
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="hook.example")))

        assert (outcome.kind, outcome.detail) == (OutcomeKind.BLOCKED, "address 10.0.0.1 is not public")
        assert server.connections == 0
    await sender.close()


async def test_a_name_that_moves_is_judged_again(build: BuildSender) -> None:
    """Fault 24: the first answer is allowed, the second is not: no connection to it."""
    answers = [["127.0.0.1"], ["192.168.1.1"]]

    async def moving(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    sender = build(SenderOptions(egress=LOOPBACK), moving)
    async with RawServer(says(ok(headers=b"Connection: close\r\n"))) as server:
        outcomes = [await sender.send(to(server.url(host="hook.example"))) for _ in range(2)]

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK, OutcomeKind.BLOCKED]
    await sender.close()


async def test_names_are_found_without_the_loops_threads(sender: WebhookSender) -> None:
    """Fault 42: ``localhost`` works without an injected resolver, and the loop's own threads stay free."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="localhost")))

        assert outcome.kind is OutcomeKind.OK
    assert not any(thread.name.startswith("asyncio_") for thread in threading.enumerate())


@pytest.mark.parametrize(
    "fault",
    [
        socket.gaierror(socket.EAI_NONAME, "no such name"),
        socket.gaierror(socket.EAI_AGAIN, "server failed"),
        None,
    ],
    ids=["nxdomain", "servfail", "empty"],
)
async def test_a_name_that_is_not_found_is_dns(fault: OSError | None, build: BuildSender) -> None:
    """Fault 42: NXDOMAIN, SERVFAIL, and an answer without addresses."""

    async def failing(host: str, port: int) -> Sequence[str]:
        if fault is not None:
            raise fault
        return []

    sender = build(OPTIONS, failing)
    outcome = await sender.send(to("https://name.invalid/"))
    await sender.close()

    assert (outcome.kind, outcome.status) == (OutcomeKind.DNS, None)


async def test_a_name_server_that_is_silent_is_dns_in_its_own_time(build: BuildSender) -> None:
    """Fault 42: the look-up has a bound of its own, below the connect bound."""

    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    sender = build(SenderOptions(egress=LOOPBACK, resolve_timeout_s=0.2), silent)
    outcome = await sender.send(to("https://hook.example/", timeout_s=10))
    await sender.close()

    assert outcome.kind is OutcomeKind.DNS
    assert outcome.duration_s < SOON_S


async def test_a_name_with_two_hundred_addresses_is_bounded(build: BuildSender) -> None:
    """Fault 42: dead addresses are tried within the connect bound, and no longer."""

    async def many(host: str, port: int) -> Sequence[str]:
        return [f"127.0.0.{number}" for number in range(1, 201)]

    sender = build(SenderOptions(egress=LOOPBACK, connect_timeout_s=1), many)
    outcome = await sender.send(to(f"http://hook.example:{free_port()}/"))
    await sender.close()

    assert outcome.kind in {OutcomeKind.REFUSED, OutcomeKind.TIMEOUT_CONNECT}
    assert outcome.duration_s < SOON_S


async def test_a_fault_that_nobody_foresaw_is_an_outcome(build: BuildSender) -> None:
    """It names its type, and the worker lives."""

    async def broken(host: str, port: int) -> Sequence[str]:
        raise KeyError("surprise")

    sender = build(OPTIONS, broken)
    outcome = await sender.send(to("https://hook.example/"))
    await sender.close()

    assert (outcome.kind, outcome.detail) == (OutcomeKind.CLIENT_ERROR, "KeyError: 'surprise'")


async def resolved(host: str, port: int) -> Sequence[str]:
    """``self.example`` has an address of this machine, ``broker.example`` one that is only allowed."""
    return {"self.example": ["127.0.0.2"], "broker.example": ["127.0.0.7"]}[host]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]", "self.example", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("ours", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - an address to judge
async def test_our_own_port_is_never_reached(build: BuildSender, host: str, ours: str) -> None:
    """Fault 27: by whatever address of this machine, even where that is allowed; other ports are."""
    sender = build(OPTIONS, resolved)
    async with RawServer(says(ok())) as admin, RawServer(says(ok())) as other:
        sender.guard.protect(ours, admin.port)
        own = await sender.send(to(admin.url(host=host)))
        free = await sender.send(to(other.url()))

        assert own.kind is OutcomeKind.BLOCKED
        assert f"port {admin.port} of this machine" in own.detail
        assert (free.kind, admin.connections) == (OutcomeKind.OK, 0)
    await sender.close()


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("amqp://user:secret@broker.example/", 5672),
        ("amqps://user:secret@broker.example/", 5671),
        ("amqp://broker.example:5699/v", 5699),
        ("amqp://broker.example:5699/v", 15672),
        ("amqp://broker.example:5699/v", 15692),
        ("AMQPS://broker.example:5699/v", 5672),
        ("http://broker.example:15699", 15699),
        ("postgresql+asyncpg://user:secret@broker.example/db", 5432),
    ],
)
async def test_what_we_use_is_never_reached(build: BuildSender, url: str, port: int) -> None:
    """Fault 27: broker, management and database, by name or by address, though both are allowed."""
    sender = build(OPTIONS, resolved)
    sender.guard.protect_url(url)

    by_name = await sender.send(to(f"http://broker.example:{port}/"))
    by_address = await sender.send(to(f"http://127.0.0.7:{port}/"))
    elsewhere = await sender.send(to("http://127.0.0.7:1/"))
    await sender.close()

    assert [o.kind for o in (by_name, by_address, elsewhere)] == [
        OutcomeKind.BLOCKED,
        OutcomeKind.BLOCKED,
        OutcomeKind.REFUSED,
    ]
    assert "secret" not in by_name.detail


async def test_several_hosts_of_one_url_are_all_protected(build: BuildSender) -> None:
    """Fault 27: a PostgreSQL URL may name several; what cannot be read of it is passed over."""
    sender = build(OPTIONS, resolved)
    sender.guard.protect_url("postgresql://u:p@broker.example:5439,127.0.0.7,[::1]:5440,:0,x:99999/db")

    asked = ("127.0.0.7:5439", "broker.example:5432", "[::1]:5440", "127.0.0.7:1")
    outcomes = [await sender.send(to(f"http://{place}/")) for place in asked]
    await sender.close()

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.BLOCKED] * 3 + [OutcomeKind.REFUSED]


async def test_what_we_use_stays_closed_while_its_name_is_not_found(build: BuildSender) -> None:
    """Fault 27: where it was last is still refused; where it never was found, its port is, everywhere."""
    answers: dict[str, Sequence[str]] = {"hook.example": ["127.0.0.8"]}

    async def moving(host: str, port: int) -> Sequence[str]:
        if host not in answers:
            raise socket.gaierror(socket.EAI_AGAIN, "the name server failed")
        return answers[host]

    sender = build(OPTIONS, moving)
    sender.guard.protect_url("amqp://broker.example:5699/")

    async def kinds() -> list[OutcomeKind]:
        urls = ("http://127.0.0.7:5699/", "http://hook.example:5699/", "http://hook.example:1/")
        return [(await sender.send(to(url))).kind for url in urls]

    never_found = await kinds()
    answers["broker.example"] = ["127.0.0.8"]  # an address of this machine stands for all of its addresses
    found = await kinds()
    del answers["broker.example"]
    lost_again = await kinds()
    await sender.close()

    assert never_found == [OutcomeKind.BLOCKED, OutcomeKind.BLOCKED, OutcomeKind.REFUSED]
    assert found == lost_again == [OutcomeKind.BLOCKED, OutcomeKind.BLOCKED, OutcomeKind.REFUSED]


async def test_a_name_that_was_lost_does_not_close_its_port_for_others(build: BuildSender) -> None:
    """Fault 27: what is known of it decides, so the same port of another machine is still reached."""
    lost = False

    async def resolve(host: str, port: int) -> Sequence[str]:
        if lost:
            raise socket.gaierror(socket.EAI_AGAIN, "the name server failed")
        return ["10.255.255.1"]

    sender = build(OPTIONS, resolve)
    async with RawServer(says(ok(headers=b"Connection: close\r\n"))) as server:
        sender.guard.protect_url(f"http://manage.example:{server.port}/")
        before = await sender.send(to(server.url()))
        lost = True
        after = await sender.send(to(server.url()))

        assert (before.kind, after.kind) == (OutcomeKind.OK, OutcomeKind.OK)
    await sender.close()


@pytest.mark.parametrize("ours", ["listen", "amqp", "management", "database", "database-file", "private"])
async def test_whoever_sends_is_kept_from_what_the_settings_name(tmp_path: Path, ours: str) -> None:
    """Fault 27: ``subscriptions test`` builds its sender so too, and has no daemon that names its ports."""
    async with RawServer(says(ok())) as server:
        place = f"127.0.0.1:{server.port}"
        (tmp_path / "broker").mkdir()
        names = ("amqp", "distribution", "epmd", "management", "prometheus")
        identity = {"ports": dict.fromkeys(names, server.port if ours == "private" else 1)}
        (tmp_path / "broker" / "identity.json").write_text(json.dumps(identity))
        (tmp_path / "url").write_text(f"postgresql://u:p@{place}/db")
        variable, value = {
            "listen": ("LISTEN", place),
            "amqp": ("AMQP_URL", f"amqp://u:p@{place}/"),
            "management": ("AMQP__MANAGEMENT_URL", f"http://{place}"),
            "database": ("DATABASE_URL", f"postgresql://u:p@{place}/db"),
            "database-file": ("DATABASE_URL_FILE", str(tmp_path / "url")),
            "private": ("LISTEN", "127.0.0.1:0"),
        }[ours]
        settings = load_settings(
            {
                "LEVERET_HOME": str(tmp_path),
                "LEVERET_EGRESS__ALLOW": '["127.0.0.0/8"]',
                f"LEVERET_{variable}": value,
            }
        )
        sender = make_sender(settings)
        outcome = await sender.send(to(server.url()))
        await sender.close()

        assert (outcome.kind, server.connections) == (OutcomeKind.BLOCKED, 0)


OWN_ADDRESS = """
import asyncio, fcntl, socket, struct
from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender

PUBLIC = "93.184.216.34"

def give_address():  # to the loopback interface, and switch that on
    with socket.socket() as s:
        where = struct.pack("16sH2x4s8x", b"lo:1", socket.AF_INET, socket.inet_aton(PUBLIC))
        fcntl.ioctl(s, 0x8916, where)
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x8 | 0x40))

async def main():
    give_address()
    seen = []
    server = await asyncio.start_server(lambda r, w: (seen.append(1), w.close()), PUBLIC, 0)
    port = server.sockets[0].getsockname()[1]
    url = f"https://{PUBLIC}:{port}/"
    for client in ("aiohttp", "httpx"):
        for allow in ([], [PUBLIC + "/32"]):
            sender = WebhookSender(client, SenderOptions(egress=parse_rule(allow)))
            outcome = await sender.send(SignedRequest(url, [], b"{}", 5.0))
            await sender.close()
            print(outcome.kind.value, len(seen), outcome.detail if not allow else "")
    server.close()

asyncio.run(main())
"""


def test_a_public_address_of_this_machine_is_its_own() -> None:
    """Fault 27: connections to oneself by a public address are refused, unless that address is allowed."""
    done = subprocess.run(
        [*in_namespaces("--net"), sys.executable, "-c", OWN_ADDRESS],
        capture_output=True,
        text=True,
        check=False,
    )

    blocked = "blocked {} address 93.184.216.34 is this machine's own"
    assert done.stderr == ""
    assert done.stdout.splitlines() == [blocked.format(0), "tls 1 ", blocked.format(1), "tls 2 "]


ANYCAST = """
import fcntl, socket, struct, time
from ipaddress import ip_address
from consumer.edges.http.connect.own_addresses import is_own

NEAR, ANY = "2a0a:1::5", "2a0a:1::"

index = socket.if_nametoindex("lo")
with open("/proc/sys/net/ipv6/conf/lo/forwarding", "w") as forwarding:  # a router has one per prefix
    forwarding.write("1")
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x8 | 0x40))
    fcntl.ioctl(s, 0x8916, socket.inet_pton(socket.AF_INET6, NEAR) + struct.pack("=II", 64, index))
give_up = time.monotonic() + 10
while not is_own(ip_address(NEAR)) and time.monotonic() < give_up:  # the kernel adds the address in its time
    time.sleep(0.01)
print(*(is_own(ip_address(text)) for text in (NEAR, ANY, "2a0a:1::6")))
"""


def test_an_anycast_address_of_this_machine_is_its_own() -> None:
    """Fault 27: a router answers for one address per prefix that no interface of it shows."""
    done = subprocess.run(
        [*in_namespaces("--net"), sys.executable, "-c", ANYCAST],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stderr, done.stdout.split()) == ("", ["True", "True", "False"])


@pytest.mark.parametrize("text", ["0.0.0.0", "::"])  # noqa: S104 - an address to judge
def test_the_unspecified_address_is_this_machine(text: str) -> None:
    """Faults 21, 27: a connection to it goes to loopback, whatever routes there are."""
    assert own.is_own(ip_address(text))


@pytest.mark.parametrize("text", ["127.0.0.1", "127.8.8.8", "::1", "8.8.8.8", "2606:4700::1"])
def test_both_ways_of_asking_the_kernel_agree(text: str) -> None:
    """Fault 27: without netlink, the address that the system would send from tells the same."""
    address = ip_address(text)
    expected = address.is_loopback

    assert own.is_own(address) is expected
    if text != "127.8.8.8":  # the second way knows addresses, not whole networks
        assert own._is_its_own_source(address) is expected


async def test_connections_do_not_wait_to_send(build: BuildSender) -> None:
    """Small writes leave at once (TCP_NODELAY)."""
    parts = Parts(OPTIONS)
    async with RawServer(says(ok())) as server:
        transport, _ = await parts.dialer.open(
            Goal("127.0.0.1", server.port, tls=False), None, asyncio.Protocol
        )
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()
    await parts.close()


async def test_idle_connections_are_closed(build: BuildSender) -> None:
    """After ``keepalive_s``, without any further request."""
    sender = build(replace(OPTIONS, keepalive_s=0.2))
    async with RawServer(says(ok())) as server:
        assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK
        await eventually(lambda: server.open == 0)
    await sender.close()


async def test_a_machine_without_sockets_says_so(sender: WebhookSender) -> None:
    """Out of file descriptors is our own fault: ``client_error``, and it passes."""
    request = to("http://127.0.0.1:1/")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # the next descriptor that would be given out
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        starved = await sender.send(request)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (starved.kind, (await sender.send(request)).kind) == (OutcomeKind.LOCAL, OutcomeKind.REFUSED)
