"""Faults of the broker and of the machine, each with the line by which `leveret doctor` must name it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import quote

from aiohttp import ClientSession, web
from yarl import URL

from bench.observe.ground import Ground, Settings, tls_server
from tests.support.processes.children import free_port

Make = Callable[[Ground], AbstractAsyncContextManager[Settings]]
"""Puts the fault in, gives the settings to run with, and takes it out again."""

SHIFT_S = 600.0
ALARM_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and the line that names it."""

    name: str
    check: str
    words: str  #: text of the line
    make: Make
    level: str = "fault"
    alone: bool = False  #: it changes the virtual host, so no other fault is put in meanwhile
    own_broker: bool = False  #: it changes the whole node, which no test may share; such a fault is alone
    wrap: Sequence[str] = ()  #: begins the command


def set_to(**changes: str) -> Make:
    """Return a fault that is only a setting."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        yield ground.settings(**changes)

    return make


@asynccontextmanager
async def _wrong_password(ground: Ground) -> AsyncIterator[Settings]:
    yield ground.settings(AMQP_URL=str(URL(ground.broker.url).with_password("wrong")))


@asynccontextmanager
async def _no_vhost(ground: Ground) -> AsyncIterator[Settings]:
    yield ground.settings(AMQP_URL=str(URL(ground.broker.url).with_path("/nowhere")))


@asynccontextmanager
async def _unknown_authority(ground: Ground) -> AsyncIterator[Settings]:
    async with tls_server(ground.authority.server("127.0.0.1")) as port:
        yield ground.settings(AMQP_URL=f"amqps://user:password@127.0.0.1:{port}")


@asynccontextmanager
async def _few_rights(ground: Ground) -> AsyncIterator[Settings]:
    """Use a user who may not write to the exchange before the rungs."""
    user, password = f"few-{secrets.token_hex(4)}", secrets.token_hex(8)
    where = f"/api/permissions/{quote(ground.vhost, safe='')}/{user}"
    ground.call("PUT", f"/api/users/{user}", {"password": password, "tags": ""})
    ground.call("PUT", where, {"configure": ".*", "write": r"^leveret\.(?!wait$)", "read": ".*"})
    url = URL(ground.broker.url).with_user(user).with_password(password)
    try:
        yield ground.settings(AMQP_URL=str(url))
    finally:
        ground.call("DELETE", f"/api/users/{user}")


@asynccontextmanager
async def _policy(ground: Ground) -> AsyncIterator[Settings]:
    path = f"/api/policies/{quote(ground.vhost, safe='')}/tidy"
    body = {"pattern": "overflow$", "definition": {"max-length": 10}, "apply-to": "queues"}
    ground.call("PUT", path, body)
    try:
        yield ground.settings()
    finally:
        ground.call("DELETE", path)


@asynccontextmanager
async def _lost_queue(ground: Ground) -> AsyncIterator[Settings]:
    ground.call("DELETE", f"/api/queues/{quote(ground.vhost, safe='')}/leveret.due.00")
    try:
        yield ground.settings()
    finally:
        await ground.must(ground.settings(), "topology", "apply")


async def _until_alarmed(ground: Ground, *, is_alarmed: bool) -> None:
    """Wait until the management API, which looks every 5 s, reports the alarm or its end."""

    def is_reported() -> bool:
        return ground.call("GET", "/api/nodes")[0]["mem_alarm"] is is_alarmed

    async with asyncio.timeout(ALARM_S):
        while not await asyncio.to_thread(is_reported):  # noqa: ASYNC110 (asked over HTTP)
            await asyncio.sleep(0.5)


def _alarm(*, managed: bool) -> Make:
    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        settings = ground.settings()
        if not managed:
            del settings["AMQP__MANAGEMENT_URL"]
        await ground.broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1000000}).")
        try:
            await _until_alarmed(ground, is_alarmed=True)
            yield settings
        finally:
            await ground.broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4).")
            await _until_alarmed(ground, is_alarmed=False)

    return make


@asynccontextmanager
async def _no_plugin(ground: Ground) -> AsyncIterator[Settings]:
    async with ground.broker.without_hash_plugin():
        yield ground.settings()


@asynccontextmanager
async def _shifted_clock(ground: Ground) -> AsyncIterator[Settings]:
    """Put a proxy before the management API whose answers are dated ten minutes later."""
    target = URL(ground.broker.management.url).with_user(None)

    async def forward(request: web.Request) -> web.Response:
        headers = {"Authorization": request.headers["Authorization"]}
        url = URL(f"{str(target).rstrip('/')}{request.raw_path}", encoded=True)
        async with ClientSession() as session, session.get(url, headers=headers) as answer:
            body = await answer.read()
        made = web.Response(body=body, status=answer.status, content_type="application/json")
        made.headers["Date"] = _later(answer.headers["Date"])
        return made

    app, port = web.Application(), free_port()
    app.router.add_get("/{tail:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield ground.settings(AMQP__MANAGEMENT_URL=f"http://127.0.0.1:{port}")
    finally:
        await runner.cleanup()


def _later(date: str) -> str:
    return format_datetime(parsedate_to_datetime(date) + timedelta(seconds=SHIFT_S), usegmt=True)


@asynccontextmanager
async def _foreign_listener(ground: Ground) -> AsyncIterator[Settings]:
    async with tls_server(ground.authority.server("127.0.0.1")) as port:
        yield ground.settings(LISTEN=f"127.0.0.1:{port}")


@asynccontextmanager
async def _open_home(ground: Ground) -> AsyncIterator[Settings]:
    home = ground.copy_home()
    home.chmod(0o755)
    yield ground.settings(HOME=str(home))


FAULTS: Sequence[Fault] = (
    Fault(name="wrong password", check="login", words="ACCESS_REFUSED", make=_wrong_password),
    Fault(name="missing vhost", check="login", words="nowhere", make=_no_vhost),
    Fault(
        name="broker away",
        check="login",
        words="Connect call failed",
        make=set_to(AMQP_URL="amqp://user:password@127.0.0.1:1"),
    ),
    Fault(
        name="unknown authority of the broker",
        check="login",
        words="certificate verify failed",
        make=_unknown_authority,
    ),
    Fault(name="missing right", check="rights", words="write to leveret.wait", make=_few_rights),
    Fault(name="biting policy", check="policies", words="policy tidy", make=_policy, alone=True),
    Fault(name="lost queue", check="topology", words="queue leveret.due.00", make=_lost_queue, alone=True),
    Fault(
        name="other queue type",
        check="topology",
        words="x-queue-type",
        make=set_to(TOPOLOGY__QUEUE_TYPE="classic"),
    ),
    Fault(
        name="memory alarm",
        check="alarms",
        words="memory alarm is raised",
        make=_alarm(managed=True),
        own_broker=True,
    ),
    Fault(
        name="alarm without management API",
        check="alarms",
        words="blocks connections that publish",
        make=_alarm(managed=False),
        own_broker=True,
    ),
    Fault(
        name="plugin off",
        check="plugin",
        words="consistent_hash_exchange: is not enabled",
        make=_no_plugin,
        own_broker=True,
    ),
    Fault(
        name="few handles",
        check="handles",
        words="may open 200 files",
        make=set_to(),
        wrap=("sh", "-c", 'ulimit -n 200 && exec "$0" "$@"'),
    ),
    Fault(
        name="clock ten minutes behind",
        check="clock",
        words="behind the clock of the broker",
        make=_shifted_clock,
    ),
    Fault(name="listen port taken", check="daemon", words="127.0.0.1", make=_foreign_listener),
    Fault(
        name="home open to others",
        check="home",
        words="other users of this machine may read it",
        make=_open_home,
        level="warning",
    ),
    Fault(
        name="wrong setting",
        check="settings",
        words="sending.concurrency",
        make=set_to(SENDING__CONCURRENCY="none"),
    ),
)
