"""The real sender never reaches the services and the addresses of its own machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from consumer.core.model import OutcomeKind
from consumer.edges.http.connect import own_addresses as own
from consumer.edges.operate.sender import make_sender
from consumer.settings import load_settings
from tests.support.loopback import OPTIONS, BuildSender, in_namespaces, to
from tests.support.servers.raw_server import RawServer, ok, says

pytestmark = pytest.mark.timeout(120)


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


async def resolved(host: str, port: int) -> Sequence[str]:
    """``self.example`` has an address of this machine, ``broker.example`` one that is only allowed."""
    return {"self.example": ["127.0.0.2"], "broker.example": ["127.0.0.7"]}[host]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]", "self.example", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("ours", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - an address to judge
async def test_our_own_port_is_never_reached(build: BuildSender, host: str, ours: str) -> None:
    """Fault 27: by every address of this machine, even where that is allowed; other ports are reached."""
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
async def test_our_own_servers_are_never_reached(build: BuildSender, url: str, port: int) -> None:
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
    """Fault 27: a PostgreSQL URL may name several; unreadable parts are passed over."""
    sender = build(OPTIONS, resolved)
    sender.guard.protect_url("postgresql://u:p@broker.example:5439,127.0.0.7,[::1]:5440,:0,x:99999/db")

    asked = ("127.0.0.7:5439", "broker.example:5432", "[::1]:5440", "127.0.0.7:1")
    outcomes = [await sender.send(to(f"http://{place}/")) for place in asked]
    await sender.close()

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.BLOCKED] * 3 + [OutcomeKind.REFUSED]


async def test_our_own_servers_stay_closed_while_their_names_are_not_found(build: BuildSender) -> None:
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
    answers["broker.example"] = ["127.0.0.8"]  # an address of this machine means all of its addresses
    found = await kinds()
    del answers["broker.example"]
    lost_again = await kinds()
    await sender.close()

    assert never_found == [OutcomeKind.BLOCKED, OutcomeKind.BLOCKED, OutcomeKind.REFUSED]
    assert found == lost_again == [OutcomeKind.BLOCKED, OutcomeKind.BLOCKED, OutcomeKind.REFUSED]


async def test_a_name_that_was_lost_does_not_close_its_port_for_others(build: BuildSender) -> None:
    """Fault 27: its known addresses decide, so the same port of another machine is still reached."""
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
async def test_both_senders_are_kept_from_the_servers_of_the_settings(tmp_path: Path, ours: str) -> None:
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
    """Faults 21, 27: a connection to it goes to loopback, for all routes."""
    assert own.is_own(ip_address(text))


@pytest.mark.parametrize("text", ["127.0.0.1", "127.8.8.8", "::1", "8.8.8.8", "2606:4700::1"])
def test_both_ways_of_asking_the_kernel_agree(text: str) -> None:
    """Fault 27: without netlink, the address that the system would send from gives the same result."""
    address = ip_address(text)
    expected = address.is_loopback

    assert own.is_own(address) is expected
    if text != "127.8.8.8":  # the second way knows addresses, not whole networks
        assert own._is_its_own_source(address) is expected
