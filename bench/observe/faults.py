"""Faults of the broker and of the machine, each with the line by which `leveret doctor` must name it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import quote

from aiohttp import ClientSession, web
from yarl import URL

from bench.observe.ground import Ground, Settings, silent_port, tls_server
from tests.support.servers.web_app import listening

Make = Callable[[Ground], AbstractAsyncContextManager[Settings]]
"""Puts the fault in, gives the settings to run with, and takes it out again."""

ALARM_S = 60.0
UNMANAGED = " without management API"


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


def _few_rights(**rights: str) -> Make:
    """Use a user with all rights but those that *rights* narrow."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        user, password = f"few-{secrets.token_hex(4)}", secrets.token_hex(8)
        where = f"/api/permissions/{quote(ground.vhost, safe='')}/{user}"
        ground.call("PUT", f"/api/users/{user}", {"password": password, "tags": "monitoring"})
        ground.call("PUT", where, {"configure": ".*", "write": ".*", "read": ".*", **rights})
        url = URL(ground.broker.url).with_user(user).with_password(password)
        try:
            yield ground.settings(AMQP_URL=str(url))
        finally:
            ground.call("DELETE", f"/api/users/{user}")

    return make


def _policy(pattern: str, key: str, value: int, *, operator: bool = False) -> Make:
    """Set a policy, or an operator policy, whose pattern matches names of ours."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        kind = "operator-policies" if operator else "policies"
        path = f"/api/{kind}/{quote(ground.vhost, safe='')}/tidy"
        body = {"pattern": pattern, "definition": {key: value}, "apply-to": "queues"}
        ground.call("PUT", path, body)
        try:
            yield ground.settings()
        finally:
            ground.call("DELETE", path)

    return make


@asynccontextmanager
async def _lost_queue(ground: Ground) -> AsyncIterator[Settings]:
    ground.call("DELETE", f"/api/queues/{quote(ground.vhost, safe='')}/leveret.due.00")
    try:
        yield ground.settings()
    finally:
        await ground.must(ground.settings(), "topology", "apply")


async def _until_alarmed(ground: Ground, alarm: str, *, is_alarmed: bool) -> None:
    """Wait until the management API, which looks every 5 s, reports the alarm or its end."""

    def is_reported() -> bool:
        return ground.call("GET", "/api/nodes")[0][alarm] is is_alarmed

    async with asyncio.timeout(ALARM_S):
        while not await asyncio.to_thread(is_reported):  # noqa: ASYNC110 (asked over HTTP)
            await asyncio.sleep(0.5)


def _alarm(alarm: str, limit: str, raised: str, usual: str, *, managed: bool) -> Make:
    """Raise an alarm by the limit that the node's Erlang function *limit* sets."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        settings = ground.settings()
        if not managed:
            del settings["AMQP__MANAGEMENT_URL"]
        await ground.broker.evaluate(f"{limit}({raised}).")
        try:
            await _until_alarmed(ground, alarm, is_alarmed=True)
            yield settings
        finally:
            await ground.broker.evaluate(f"{limit}({usual}).")
            await _until_alarmed(ground, alarm, is_alarmed=False)

    return make


def _memory_alarm(*, managed: bool) -> Make:
    limit = "vm_memory_monitor:set_vm_memory_high_watermark"
    return _alarm("mem_alarm", limit, "{absolute, 1000000}", "0.4", managed=managed)


def _disk_alarm(*, managed: bool) -> Make:
    limit = "rabbit_disk_monitor:set_disk_free_limit"
    return _alarm("disk_free_alarm", limit, "1000000000000000", "50000000", managed=managed)


@asynccontextmanager
async def _no_plugin(ground: Ground) -> AsyncIterator[Settings]:
    async with ground.broker.without_hash_plugin():
        yield ground.settings()


def _shifted_clock(shift_s: float) -> Make:
    """Put a proxy before the management API whose answers are dated later."""

    @asynccontextmanager
    async def make(ground: Ground) -> AsyncIterator[Settings]:
        target = URL(ground.broker.management.url).with_user(None)

        async def forward(request: web.Request) -> web.Response:
            headers = {"Authorization": request.headers["Authorization"]}
            url = URL(f"{str(target).rstrip('/')}{request.raw_path}", encoded=True)
            async with ClientSession() as session, session.get(url, headers=headers) as answer:
                body = await answer.read()
            made = web.Response(body=body, status=answer.status, content_type="application/json")
            date = parsedate_to_datetime(answer.headers["Date"]) + timedelta(seconds=shift_s)
            made.headers["Date"] = format_datetime(date, usegmt=True)
            return made

        app = web.Application()
        app.router.add_get("/{tail:.*}", forward)
        async with listening(app) as port:
            yield ground.settings(AMQP__MANAGEMENT_URL=f"http://127.0.0.1:{port}")

    return make


@asynccontextmanager
async def _silent_broker(ground: Ground) -> AsyncIterator[Settings]:
    with silent_port() as port:
        yield ground.settings(AMQP_URL=f"amqp://user:password@127.0.0.1:{port}", AMQP__CONNECT_TIMEOUT_S="1")


@asynccontextmanager
async def _foreign_listener(ground: Ground) -> AsyncIterator[Settings]:
    async with tls_server(ground.authority.server("127.0.0.1")) as port:
        yield ground.settings(LISTEN=f"127.0.0.1:{port}")


@asynccontextmanager
async def _open_home(ground: Ground) -> AsyncIterator[Settings]:
    home = ground.copy_home()
    home.chmod(0o755)
    yield ground.settings(HOME=str(home))


RIGHTS: Mapping[str, Mapping[str, str]] = {
    "write to leveret.wait": {"write": r"^leveret\.(?!wait$)"},
    "write to leveret.lane.00": {"write": r"^leveret\.(?!lane\.00$)"},
    "write to leveret.*": {"write": "^$"},
    "read leveret.parked": {"read": r"^leveret\.(?!parked$)"},
    "read leveret.guard": {"read": r"^leveret\.(?!guard$)"},
    "read leveret.*": {"read": "^$"},
    "configure leveret.suspect": {"configure": r"^leveret\.(?!suspect$)"},
    "configure leveret.*": {"configure": "^$"},
}
"""Missing rights, each by the words that name it."""

POLICIES: Mapping[str, Make] = {
    "policy tidy sets max-length 10": _policy("overflow$", "max-length", 10),
    "policy tidy sets max-length-bytes 10": _policy(".*", "max-length-bytes", 10),
    "policy tidy sets message-ttl 60000": _policy(r"^leveret\.", "message-ttl", 60_000),
    "policy tidy sets expires 1800000": _policy("lane", "expires", 1_800_000, operator=True),
}
"""Foreign policies, each by the words that name it."""

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
    Fault(name="silent broker", check="login", words="did not answer within 1 s", make=_silent_broker),
    *(
        Fault(name=f"may not {words}", check="rights", words=words, make=_few_rights(**rights))
        for words, rights in RIGHTS.items()
    ),
    *(
        Fault(name=words, check="policies", words=words, make=make, alone=True)
        for words, make in POLICIES.items()
    ),
    Fault(name="lost queue", check="topology", words="queue leveret.due.00", make=_lost_queue, alone=True),
    Fault(
        name="other queue type",
        check="topology",
        words="x-queue-type",
        make=set_to(TOPOLOGY__QUEUE_TYPE="classic"),
    ),
    *(
        Fault(name=f"{name}{where}", check="alarms", words=words, make=make, own_broker=True)
        for name, where, words, make in (
            ("memory alarm", "", "memory alarm is raised", _memory_alarm(managed=True)),
            ("disk alarm", "", "disk alarm is raised", _disk_alarm(managed=True)),
            ("memory alarm", UNMANAGED, "blocks connections that publish", _memory_alarm(managed=False)),
            ("disk alarm", UNMANAGED, "blocks connections that publish", _disk_alarm(managed=False)),
        )
    ),
    Fault(
        name="plugin off",
        check="plugin",
        words="consistent_hash_exchange: is not enabled",
        make=_no_plugin,
        own_broker=True,
    ),
    *(
        Fault(
            name=f"{count} handles",
            check="handles",
            words=f"may open {count} files",
            make=set_to(),
            wrap=("sh", "-c", f'ulimit -n {count} && exec "$0" "$@"'),
        )
        for count in (64, 200)
    ),
    *(
        Fault(
            name=f"clock {-shift_s:+.0f} s off",
            check="clock",
            words=f"{word} the clock of the broker",
            make=_shifted_clock(shift_s),
        )
        for shift_s, word in ((600.0, "behind"), (60.0, "behind"), (-60.0, "ahead of"))
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
