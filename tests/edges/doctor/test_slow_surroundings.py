"""Surroundings that accept a connection and then answer slowly or never: each look ends, and names them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pamqp import frame
from pamqp.commands import Channel, Connection

from consumer.core.tools.doctor.finding import Check, Finding, Level
from consumer.edges.doctor.broker import Bounds, BrokerLook
from consumer.edges.doctor.in_time import in_time
from consumer.edges.doctor.machine import look_at_daemon
from consumer.edges.doctor.network import NetworkLook
from consumer.edges.doctor.store import StoreLook
from consumer.settings import Settings, load_settings
from tests.support.broker.behaviour import V4_0, V4_2_6, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.servers.raw_server import Call, LoopbackServer, RawServer

CHANNEL_OPEN = frame.marshal(Channel.Open(), 1)
BLOCKED = frame.marshal(Connection.Blocked("low on memory"), 0)
PUBLISH = bytes([0, 60, 0, 40])
"""Class and method of a basic.publish. Source: AMQP 0-9-1, 1.8."""

SHORT = Bounds(amqp_s=2.0, http_s=0.5)


class Freezing(LoopbackServer):
    """A relay to a broker that passes on nothing more after a certain method of the client."""

    def __init__(self, amqp_url: str, method: bytes, last: bytes = b"") -> None:
        """Bind to a broker; *last* is sent to the client as the relay freezes."""
        super().__init__()
        self._last = last
        self._parts = urlsplit(amqp_url)
        self._method = method

    @property
    def url(self) -> str:
        """The broker's URL by way of the relay."""
        parts = self._parts
        return f"amqp://{parts.username}:{parts.password}@127.0.0.1:{self.port}{parts.path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass both directions on until the method comes; then stay silent."""
        far_reader, far_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        back = asyncio.create_task(_pump(far_reader, writer))
        try:
            while self._method not in (data := await reader.read(65_536)):
                if not data:
                    return
                far_writer.write(data)
            back.cancel()
            writer.write(self._last)
            while await reader.read(65_536):
                pass
        finally:
            back.cancel()
            far_writer.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)


async def trickle(call: Call) -> None:
    """Answer with a head that has no end."""
    await call.say(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.say(b"x: y\r\n")
        await asyncio.sleep(0.05)


def settings(home: Path, **values: str) -> Settings:
    """Return settings; keywords are variables without their prefix."""
    few = {"TOPOLOGY__LANES": "2", "TOPOLOGY__RUNGS_S": "[0.5, 1.0]", "HOME": str(home)}
    return load_settings({f"LEVERET_{name}": value for name, value in (few | values).items()})


def faults(look: BrokerLook) -> list[tuple[Check, str]]:
    """Return check and text of the faults."""
    return [(each.check, each.text) for each in look.findings if each.level is Level.FAULT]


async def test_a_slow_broker_is_not_taken_for_a_blocked_one(tmp_path: Path, vhost: str) -> None:
    """A broker that answers nothing any more, before any publish, has no alarm."""
    look = BrokerLook(bounds=SHORT)
    async with Freezing(vhost, CHANNEL_OPEN) as frozen:
        await look.take(settings(tmp_path, AMQP_URL=frozen.url))

    assert faults(look) == [(Check.LOGIN, "the broker did not answer a question within 2 s")]
    assert not look.is_alarmed


async def test_a_broker_that_is_silent_after_a_publish_is_not_taken_for_a_blocked_one(
    tmp_path: Path, vhost: str
) -> None:
    """It may be overloaded, as the machine of the doctor may be: without a report there is no alarm."""
    look = BrokerLook(bounds=Bounds(right_s=1.0))
    async with Freezing(vhost, PUBLISH) as frozen:
        await look.take(settings(tmp_path, AMQP_URL=frozen.url))

    assert faults(look) == [(Check.LOGIN, "the broker did not answer a question within 1 s")]
    assert not look.is_alarmed


async def test_a_broker_that_reports_that_it_reads_no_more_is_blocked(tmp_path: Path, vhost: str) -> None:
    """Under an alarm RabbitMQ reads no more from a connection that publishes; nothing else is tried then."""
    look = BrokerLook(bounds=Bounds(right_s=1.0))
    async with Freezing(vhost, PUBLISH, BLOCKED) as frozen:
        await look.take(settings(tmp_path, AMQP_URL=frozen.url))

    assert [check for check, _ in faults(look)] == [Check.ALARMS]
    assert look.is_alarmed


async def test_a_management_api_that_never_ends_its_answer(tmp_path: Path, vhost: str) -> None:
    """It costs its bound only, and the questions over AMQP follow."""
    look = BrokerLook(bounds=Bounds(http_s=0.5))
    async with RawServer(trickle) as server:
        await look.take(settings(tmp_path, AMQP_URL=vhost, AMQP__MANAGEMENT_URL=server.url("")))

    [found] = [each for each in look.findings if each.subject == "the management API"]
    assert (found.level, "did not answer within 0.5 s" in found.text) == (Level.WARNING, True)
    assert any(each.check is Check.RIGHTS and each.level is Level.OK for each in look.findings)


async def test_a_listener_that_never_ends_its_answer(tmp_path: Path) -> None:
    """Another program at the daemon's address is named as such."""
    async with RawServer(trickle) as server:
        [found] = await look_at_daemon(settings(tmp_path, LISTEN=f"127.0.0.1:{server.port}"), 0.5)

    assert (found.level, "did not answer within 0.5 s" in found.text) == (Level.FAULT, True)


async def test_a_postgresql_that_never_answers(tmp_path: Path) -> None:
    """The store's own bound applies."""
    look = StoreLook()
    async with RawServer(Call.gone) as server:
        url = f"postgresql://user:hush@127.0.0.1:{server.port}/leveret"
        await look.take(settings(tmp_path, DATABASE_URL=url, STORE__BUSY_TIMEOUT_S="0.5"))

    [found] = look.findings
    assert (found.check, found.level, found.text) == (Check.STORE, Level.FAULT, "did not answer within 0.5 s")


async def test_name_servers_of_the_settings_are_needed(tmp_path: Path) -> None:
    """The next endpoint has a name, even if the present ones are addresses."""
    look = NetworkLook()
    async with RawServer(Call.gone) as server:
        chosen = settings(tmp_path, SENDING__DNS_SERVERS=f'["127.0.0.1:{server.port}"]')
        await look.take(chosen, [], 10)

    assert [each.level for each in look.findings if each.check is Check.DNS] == [Level.FAULT]


@pytest.mark.parametrize(
    ("behaviour", "declares", "expected"),
    [
        (V4_0, "true", Level.OK),
        (V4_2_6, "true", Level.WARNING),
        (V4_2_6, "false", Level.FAULT),
        (V4_3_7, "false", Level.WARNING),
    ],
)
async def test_the_version_is_that_of_the_server(
    tmp_path: Path, behaviour: Behaviour, declares: str, expected: Level
) -> None:
    """It comes from the connection itself, so it is known without the management API."""
    look = BrokerLook(bounds=SHORT)
    async with FakeBroker(behaviour) as server:
        await look.take(settings(tmp_path, AMQP_URL=server.url, TOPOLOGY__DECLARE=declares))

    [found] = [each for each in look.findings if each.check is Check.VERSION]
    assert (found.subject, found.level) == (f"RabbitMQ {behaviour.version}", expected)


async def test_a_look_that_ends_adds_nothing() -> None:
    """Its results are kept by itself."""

    async def ends() -> None: ...

    assert await in_time(ends(), Check.STORE, "the store", 5.0) == ()


async def test_a_look_that_hangs_is_a_fault() -> None:
    """It is cancelled, and can close its connections."""
    closed = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    [found] = await in_time(hangs(), Check.STORE, "the store", 0.01)
    assert (found.check, found.level, found.subject) == (Check.STORE, Level.FAULT, "the store")
    assert closed.is_set()


async def test_a_refusal_of_the_system_is_a_fault() -> None:
    """Such as a folder that this user may not list."""

    async def refused() -> None:
        raise PermissionError(13, "Permission denied", "/etc/ssl/private")

    [found] = await in_time(refused(), Check.TLS, "the network", 5.0)
    assert (found.level, "/etc/ssl/private" in found.text) == (Level.FAULT, True)


async def test_the_error_of_a_look_is_raised() -> None:
    """A bug is not a fault of the surroundings."""

    async def breaks() -> Finding:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_time(breaks(), Check.STORE, "the store", 5.0)
