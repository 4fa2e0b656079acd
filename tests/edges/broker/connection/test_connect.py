"""Keeping a connection: which connections count as reconnected."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractConnection
from prometheus_client import CollectorRegistry
from yarl import URL

from consumer.core.errors import BrokerUnavailable, ConfigError, TopologyMismatch
from consumer.core.repeats import AGAIN_S
from consumer.edges.broker.connection.connect import (
    SILENT,
    AmqpOptions,
    KeepAlive,
    close_quietly,
    connect,
    open_channel,
)
from consumer.edges.broker.connection.refusals import Refusals
from consumer.flow.observe.observer import Observer
from consumer.settings.root import split_amqp_urls
from metrics.series import Series
from tests.support.fakes import RecordingLog


class Line:
    """A connection that can only be closed."""

    async def close(self) -> None:
        """Close it."""


async def test_only_connections_that_were_made_again_are_counted() -> None:
    """Neither the first one nor a failed try (fault 60)."""
    series = Series(CollectorRegistry())
    answers = iter([False, True, False, False, True, True])
    ended = asyncio.Event()

    async def opening(options: AmqpOptions, name: str) -> AbstractConnection:
        works = next(answers, None)
        if works is None:
            ended.set()
        if not works:
            raise BrokerUnavailable("no broker answered")
        return cast(AbstractConnection, Line())

    async def session(connection: AbstractConnection) -> None:
        raise BrokerUnavailable("lost")

    options = AmqpOptions(urls=(), reconnect_first_s=0.001, reconnect_max_s=0.001)
    keep_alive = KeepAlive(options, "publish", Observer(series, RecordingLog()), lambda: 0.5, opening)
    running = asyncio.create_task(keep_alive.run(session))
    await ended.wait()
    running.cancel()

    assert series.registry.get_sample_value("leveret_reconnects_total", {"connection": "publish"}) == 2


async def test_a_fault_that_no_new_connection_mends_ends_it() -> None:
    """A topology that differs, or a bug, comes through at once instead of being tried again."""

    async def opening(options: AmqpOptions, name: str) -> AbstractConnection:
        return cast(AbstractConnection, Line())

    async def session(connection: AbstractConnection) -> None:
        raise TopologyMismatch("leveret.wait.200: x-message-ttl is 201")

    options = AmqpOptions(urls=(), reconnect_first_s=0.001, reconnect_max_s=0.001)
    observe = Observer(Series(CollectorRegistry()), RecordingLog())
    keep_alive = KeepAlive(options, "consume", observe, lambda: 0.5, opening)

    with pytest.raises(TopologyMismatch, match="201"):
        await asyncio.wait_for(keep_alive.run(session), 10)


async def test_arrived_frames_are_read_at_once(vhost: str) -> None:
    """Fault 71: the library stops reading after ten frames, and the scheduler cannot choose from the rest."""
    async with await aio_pika.connect(vhost) as connection:
        channel = await open_channel(connection, confirms=False)

        assert channel.frames.maxsize == 0
        assert (await channel.queue_declare("one", exclusive=True)).message_count == 0


@pytest.fixture
def guest(management: httpx2.Client) -> Iterator[str]:
    """A user without any right; its password is ``old``."""
    name = f"guest-{secrets.token_hex(4)}"
    management.put(f"/api/users/{name}", json={"password": "old", "tags": ""}).raise_for_status()
    yield name
    management.delete(f"/api/users/{name}").raise_for_status()


async def refusal(url: URL) -> str:
    """Return why the broker refuses a connection."""
    with pytest.raises(BrokerUnavailable) as refused:
        await connect(AmqpOptions(urls=(str(url),)), "test")
    return str(refused.value)


async def test_a_refusal_is_in_the_brokers_own_words(
    vhost: str, guest: str, management: httpx2.Client
) -> None:
    """Fault 61: vhost missing, forbidden, limit reached, wrong password; never an object of the library."""
    url = URL(vhost)
    name = url.path[1:]
    said = {
        "missing": await refusal(url.with_path("/missing")),
        "forbidden": await refusal(url.with_user(guest).with_password("old")),
        "password": await refusal(url.with_user(guest).with_password("wrong")),
    }
    limit = f"/api/vhost-limits/{name}/max-connections"
    management.put(limit, json={"value": 0}).raise_for_status()
    said["limit"] = await refusal(url)

    assert "530 NOT_ALLOWED - vhost missing not found" in said["missing"]
    assert f"530 NOT_ALLOWED - access to vhost '{name}' refused for user '{guest}'" in said["forbidden"]
    assert "ACCESS_REFUSED - Login was refused" in said["password"]
    assert "connection limit (0) is reached" in said["limit"]
    assert not [text for text in said.values() if "object at" in text or "wrong@" in text]


async def test_a_rotated_password_is_found_at_the_next_connection(
    vhost: str, guest: str, management: httpx2.Client, tmp_path: Path
) -> None:
    """Fault 94: the file is read at each connection; while it cannot be read, that is the reason."""
    name = URL(vhost).path[1:]
    rights = {"configure": "", "write": "", "read": ""}
    management.put(f"/api/permissions/{name}/{guest}", json=rights).raise_for_status()
    file = tmp_path / "amqp-url"

    def read() -> tuple[str, ...]:
        try:
            return split_amqp_urls(file.read_text())
        except OSError as error:
            raise ConfigError(f"amqp_url_file: {error.strerror}") from None

    def write(password: str) -> None:
        file.write_text(str(URL(vhost).with_user(guest).with_password(password)))

    write("old")
    options = AmqpOptions(urls=read(), read_urls=read)
    await close_quietly(await connect(options, "test"))
    changed = {"password": "new", "tags": ""}
    management.put(f"/api/users/{guest}", json=changed).raise_for_status()
    with pytest.raises(BrokerUnavailable, match="ACCESS_REFUSED"):
        await connect(options, "test")
    write("new")
    await close_quietly(await connect(options, "test"))
    file.unlink()
    with pytest.raises(BrokerUnavailable, match="amqp_url_file: No such file"):
        await connect(options, "test")


def test_a_refusal_is_reported_once_a_minute() -> None:
    """Both connections of a worker meet it again and again, and the next line contains the number.

    Another reason, or one after success, is new.
    """
    log, now, series = RecordingLog(), [0.0], Series(CollectorRegistry())
    refusals = Refusals(Observer(series, log), lambda: now[0])

    for connection in ("consume", "publish") * 5:
        refusals.refused(connection, "no vhost", 0.25)
    refusals.refused("publish", "no user", 0.5)
    now[0] += AGAIN_S
    refusals.refused("publish", "no vhost", 30.0)
    refusals.refused("consume", "no vhost", 30.0)
    assert refusals.connected() == 1, "the line of the connection contains it"
    refusals.refused("publish", "no vhost", 1.0)

    shown = [(line["detail"], line["next_try_s"], line.get("suppressed")) for _, _, line in log.lines]
    assert shown == [
        ("no vhost", 0.25, None),
        ("no user", 0.5, None),
        ("no vhost", 30.0, 9),
        ("no vhost", 1.0, None),
    ]
    failures = series.registry.get_sample_value
    assert failures("leveret_connect_failures_total", {"connection": "consume"}) == 6
    assert failures("leveret_connect_failures_total", {"connection": "publish"}) == 8


@pytest.mark.parametrize(
    ("diagnosed", "told"),
    [("node a may open 1024 files", "TimeoutError; node a may open 1024 files"), (None, f"; {SILENT}")],
)
async def test_a_broker_that_takes_a_connection_and_says_nothing_is_diagnosed(
    diagnosed: str | None, told: str
) -> None:
    """Not "is it up": it is, and its management API may know why it is silent."""

    async def diagnose() -> str | None:
        return diagnosed

    with socket.create_server(("127.0.0.1", 0)) as silent:  # as a node is at its open-file limit
        url = f"amqp://u:hush@127.0.0.1:{silent.getsockname()[1]}/"
        options = AmqpOptions(urls=(url,), connect_timeout_s=0.5, diagnose=diagnose)
        with pytest.raises(BrokerUnavailable) as raised:
            await connect(options, "test")

    assert str(raised.value).endswith(told)
    assert "hush" not in str(raised.value)


async def test_a_broker_that_is_away_is_asked_nothing() -> None:
    """Fault 61: a refused connection is no file limit."""
    options = AmqpOptions(urls=("amqp://u:hush@127.0.0.1:1/",), connect_timeout_s=0.2)

    with pytest.raises(BrokerUnavailable, match="is it up, and is LEVERET_AMQP_URL right"):
        await connect(options, "test")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "nowhere.invalid"])
def test_a_failed_connection_leaves_nothing_to_the_garbage_collector(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The library closes it in a task, which never runs if the collector comes at the end of the loop."""
    caplog.set_level(logging.CRITICAL, "aiormq.connection")  # a captured record would keep the connection

    async def refused() -> None:
        with pytest.raises(BrokerUnavailable):
            await connect(AmqpOptions(urls=(f"amqp://u:hush@{host}/",)), "test")

    gc.disable()
    try:
        with asyncio.Runner() as runner:
            runner.run(refused())
            gc.collect()
            left = asyncio.all_tasks(runner.get_loop())
    finally:
        gc.enable()

    assert left == set()
