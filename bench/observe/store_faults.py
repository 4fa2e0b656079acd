"""Faults of the store, the network and the subscriptions, each with the line that must name it."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from bench.observe.faults import Fault, Make, set_to
from bench.observe.ground import DAYS, Ground, Settings, silent_port, tls_server
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Step
from consumer.edges.history.build import open_history
from consumer.settings import load_settings
from tests.support.processes.children import free_port
from tests.support.servers.certificates import Authority
from tests.support.servers.name_server import NameServer

NAME = "hooks.acme.example"
OTHER_KEY = "B" * 42 + "E="
SEEN_AGO_S = 7_200.0


def in_copy(change: Callable[[Path], object], **settings: str) -> Make:
    """Return a fault that changes a copy of the home."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        home = ground.copy_home()
        await asyncio.to_thread(change, home)
        yield ground.settings(HOME=str(home), **settings)

    return make


def subscribed(*changes: Mapping[str, Any], made_with: Settings | None = None, **settings: str) -> Make:
    """Return a fault of stored subscriptions: each of *changes* to the one that is well is stored."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        home = str(ground.copy_home())
        entries = [ground.shop(**change) for change in changes]
        await ground.subscribe(ground.settings(HOME=home, **(made_with or {})), *entries)
        yield ground.settings(HOME=home, **settings)

    return make


def _damage(home: Path) -> None:
    (home / "leveret.db-wal").unlink(missing_ok=True)
    (home / "leveret.db").write_bytes(b"no database at all" * 400)


def _lose(home: Path) -> None:
    for path in home.glob("leveret.db*"):
        path.unlink()


def _rejuvenate(home: Path) -> None:
    _execute(home, "UPDATE leveret_schema SET version_num = '9999'")


def _disable(home: Path) -> None:
    _execute(home, "UPDATE leveret_subscriptions SET enabled = 0, disabled_reason = 'it is gone'")


def _execute(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "leveret.db")) as database, database:
        database.execute(statement)


def _spoil_secrets(home: Path) -> None:
    _execute(home, "UPDATE leveret_subscriptions SET secrets = zeroblob(length(secrets))")


def _remove_key(home: Path) -> None:
    (home / "store.key").unlink()


def _swap_key(home: Path) -> None:
    (home / "store.key").write_text(f"{OTHER_KEY}\n")


@asynccontextmanager
async def _stranger(ground: Ground) -> AsyncIterator[Settings]:
    """Use another store, which never saw the broker's messages."""
    home = ground.folder / "stranger"
    home.mkdir(mode=0o700)
    settings = ground.settings(HOME=str(home))
    await ground.subscribe(settings, ground.shop())
    yield settings


@asynccontextmanager
async def _silent_name_server(ground: Ground) -> AsyncIterator[Settings]:
    home = str(ground.copy_home())
    await ground.subscribe(ground.settings(HOME=home), ground.shop(url=f"https://{NAME}/"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield ground.settings(HOME=home, SENDING__DNS_SERVERS=f'["127.0.0.1:{silent.getsockname()[1]}"]')


@asynccontextmanager
async def _needless_name_server(ground: Ground) -> AsyncIterator[Settings]:
    """Name a silent server while every endpoint is an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield ground.settings(SENDING__DNS_SERVERS=f'["127.0.0.1:{silent.getsockname()[1]}"]')


@asynccontextmanager
async def _silent_proxy(ground: Ground) -> AsyncIterator[Settings]:
    with silent_port() as port:
        yield ground.settings(EGRESS__PROXY=f"http://127.0.0.1:{port}", SENDING__CONNECT_TIMEOUT_S="1")


@asynccontextmanager
async def _silent_postgres(ground: Ground) -> AsyncIterator[Settings]:
    with silent_port() as port:
        url = f"postgresql://user:password@127.0.0.1:{port}/leveret"
        yield ground.settings(DATABASE_URL=url, STORE__BUSY_TIMEOUT_S="1")


@asynccontextmanager
async def _hanging_file(ground: Ground) -> AsyncIterator[Settings]:
    """Name a file that hangs when it is read, as on a dead network drive."""
    pipe = ground.folder / "pipe.pem"
    os.mkfifo(pipe)
    yield ground.settings(SENDING__CA_FILE=str(pipe))


@asynccontextmanager
async def _partly_expired_bundle(ground: Ground) -> AsyncIterator[Settings]:
    """Verify an endpoint by an authority that has ended, in a bundle with one that has not."""
    ended = Authority(ground.folder, "Ended CA", days=-1)
    bundle = ground.folder / "bundle.pem"
    bundle.write_text(f"{ended.pem}{ground.authority.pem}")
    home = str(ground.copy_home())
    async with tls_server(ended.server("127.0.0.1", days=DAYS)) as port:
        await ground.subscribe(ground.settings(HOME=home), ground.shop(url=f"https://127.0.0.1:{port}/"))
        yield ground.settings(HOME=home, SENDING__CA_FILE=str(bundle))


@asynccontextmanager
async def _no_such_name(ground: Ground) -> AsyncIterator[Settings]:
    home = str(ground.copy_home())
    await ground.subscribe(ground.settings(HOME=home), ground.shop(url=f"https://{NAME}/"))
    async with NameServer() as server:
        yield ground.settings(HOME=home, SENDING__DNS_SERVERS=f'["{server.address}"]')


@asynccontextmanager
async def _expired_endpoint(ground: Ground) -> AsyncIterator[Settings]:
    home = str(ground.copy_home())
    async with tls_server(ground.authority.server("127.0.0.1", days=-1)) as port:
        await ground.subscribe(ground.settings(HOME=home), ground.shop(url=f"https://127.0.0.1:{port}/"))
        yield ground.settings(HOME=home)


@asynccontextmanager
async def _refused_endpoint(ground: Ground) -> AsyncIterator[Settings]:
    home = str(ground.copy_home())
    await ground.subscribe(ground.settings(HOME=home), ground.shop(url=f"https://127.0.0.1:{free_port()}/"))
    yield ground.settings(HOME=home)


@asynccontextmanager
async def _expired_authority(ground: Ground) -> AsyncIterator[Settings]:
    file = ground.folder / "old.pem"
    file.write_text(ground.authority.pair("old", days=-1).certificate)
    yield ground.settings(AMQP__CA_FILE=str(file))


def _seen(*types: str, tenant: str = "acme") -> Make:
    """Return a fault of a subscription beside events that came two hours ago."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        settings = ground.settings(HOME=str(ground.copy_home()))
        await ground.subscribe(settings, ground.shop(tenant=tenant))
        history = open_history(load_settings({f"LEVERET_{name}": v for name, v in settings.items()}))
        at = time.time() - SEEN_AGO_S
        rows = [
            HistoryRow(at=at, step=Step.UNMATCHED.value, event_id=f"evt_{n}", tenant="acme", type=each)
            for n, each in enumerate(types)
        ]
        await history.write(1, HistoryBatch(rows))
        await history.close()
        yield settings

    return make


FAULTS: Sequence[Fault] = (
    Fault(name="damaged store", check="store", words="SQLite", make=in_copy(_damage)),
    Fault(name="lost store", check="store", words="has gone or is empty", make=in_copy(_lose)),
    Fault(name="newer schema", check="store", words="of a newer release", make=in_copy(_rejuvenate)),
    Fault(
        name="PostgreSQL away",
        check="store",
        words="cannot be reached",
        make=set_to(DATABASE_URL="postgresql://user:password@127.0.0.1:1/leveret"),
    ),
    Fault(name="stranger's store", check="store", words="made with another store", make=_stranger),
    Fault(name="silent PostgreSQL", check="store", words="did not answer within", make=_silent_postgres),
    Fault(name="spoiled secrets", check="keys", words="secrets are damaged", make=in_copy(_spoil_secrets)),
    Fault(name="missing key", check="keys", words="store's key is missing", make=in_copy(_remove_key)),
    Fault(name="lost key", check="keys", words="sealed with store key", make=in_copy(_swap_key)),
    Fault(
        name="silent name server", check="dns", words="did not answer within 3 s", make=_silent_name_server
    ),
    Fault(
        name="silent name server without need",
        check="dns",
        words="did not answer within 3 s",
        make=_needless_name_server,
    ),
    Fault(name="unknown name", check="dns", words="does not exist", make=_no_such_name, level="warning"),
    Fault(name="forbidden address", check="egress", words="is not public", make=set_to(EGRESS__ALLOW="[]")),
    Fault(
        name="proxy away",
        check="egress",
        words="the proxy 127.0.0.1:1",
        make=set_to(EGRESS__PROXY="http://user:password@127.0.0.1:1"),
    ),
    Fault(
        name="proxy away without endpoints",
        check="egress",
        words="the proxy 127.0.0.1:1",
        make=subscribed(EGRESS__PROXY="http://user:password@127.0.0.1:1"),
    ),
    Fault(name="silent proxy", check="egress", words="did not answer within", make=_silent_proxy),
    Fault(name="hanging file", check="egress", words="was not examined to the end", make=_hanging_file),
    Fault(
        name="bundle with an ended authority",
        check="tls",
        words="CN=Ended CA: ended at",
        make=_partly_expired_bundle,
    ),
    Fault(
        name="unknown authority",
        check="tls",
        words="no trusted authority",
        make=set_to(SENDING__CA_FILE=""),
    ),
    Fault(
        name="missing authority file",
        check="tls",
        words="cannot be read",
        make=set_to(SENDING__CA_FILE="/nowhere/ca.pem"),
    ),
    Fault(name="ended authority", check="tls", words="ended at", make=_expired_authority),
    Fault(
        name="ended certificate of an endpoint",
        check="tls",
        words="has expired",
        make=_expired_endpoint,
        level="warning",
    ),
    Fault(
        name="endpoint away",
        check="endpoints",
        words="Connect call failed",
        make=_refused_endpoint,
        level="warning",
    ),
    Fault(
        name="lost retry policy",
        check="subscriptions",
        words="gentle",
        make=subscribed(
            {"retry": {"policy": "gentle"}},
            made_with={"RETRY__POLICIES": '{"gentle": {"max_attempts": 3}}'},
        ),
    ),
    Fault(
        name="operators' subscription without operational types",
        check="subscriptions",
        words="matches no type of operational event",
        make=subscribed({"tenant": "leveret"}),
        level="warning",
    ),
    Fault(
        name="tenant without events",
        check="subscriptions",
        words="events came for acme",
        make=_seen("order.created", tenant="Acme"),
        level="warning",
    ),
    Fault(
        name="pattern without events",
        check="subscriptions",
        words="matches none of the types",
        make=_seen("orders.created", "orders.paid"),
        level="warning",
    ),
    Fault(
        name="disabled subscription",
        check="subscriptions",
        words="is disabled",
        make=in_copy(_disable),
        level="warning",
    ),
)
