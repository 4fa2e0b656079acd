"""Real clients of six kinds publish to the real daemon, as the documents of each client show.

Each is a small program (:mod:`bench.hostile.client_programs`) that publishes events with text and, where its
language has them, byte-array headers; some of them compressed. A client falls short where one of its events
does not arrive once, as documented, or where its program cannot be built or run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.broker import Broker
from bench.hostile import client_programs as programs
from bench.hostile.client_programs import Program, ProgramError
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import secret_of
from tests.support.processes.children import wait_until
from tests.support.processes.daemon import Daemon
from tests.support.servers.receiver import Receiver

BUILT = Path("build/clients").absolute()
WITHIN_S = 60.0
QUIET_S = 1.0  #: nothing more comes after this
TARGET = "/ok/clients"
SETTINGS = {
    "LEVERET_EVENTS__HEADERS": '["region"]',
    "LEVERET_SOURCES": json.dumps(
        [{"name": "mqtt", "exchange": "amq.topic", "routing_key": "acme.#", "tenant": "routing_key:0"}]
    ),
}

GOALS = (Goal(name="clients_short", text="0", unit="clients", n=6),)


@dataclass(frozen=True, slots=True)
class Client:
    """One client and the events that it publishes, by their form."""

    program: Program
    forms: tuple[str, ...]
    type: str = "order.created"
    more: tuple[tuple[str, str], ...] = (("region", "eu"),)  #: members that its headers become
    keeps_id: bool = True  #: it sets ``message_id``
    data: Mapping[str, object] | None = None  #: by form, where it is not client and form

    def wanted(self) -> Sequence[Mapping[str, object]]:
        """Return the webhooks that have to come, without their timestamps."""
        return [self._wanted(form) for form in self.forms]

    def _wanted(self, form: str) -> Mapping[str, object]:
        name = self.program.name
        data = (self.data or {}).get(form, {"client": name, "form": form})
        event = {"type": self.type, "data": data, **dict(self.more)}
        return event | ({"id": f"{name}_{form}"} if self.keeps_id else {})


TASK = [["celery", "task"], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]

CLIENTS = (
    Client(programs.GO, ("text", "bytes")),
    Client(programs.JAVA, ("text", "bytes")),
    Client(programs.SPRING, ("text", "bytes", "gzip", "deflate")),
    Client(programs.CELERY, ("text", "gzip", "task"), data={"task": TASK}),
    Client(programs.NODE, ("text", "bytes")),
    Client(programs.MQTT, ("text",), type="acme.order.created", more=(), keeps_id=False),
)


async def short(client: Client, receiver: Receiver, arguments: Sequence[str]) -> str:
    """Return the fault of a client; an empty text where all its events came as documented."""
    seen = len(receiver.requests)
    try:
        made = await asyncio.to_thread(client.program.made, BUILT / client.program.folder)
        await asyncio.to_thread(made.publish, *arguments)
    except ProgramError as error:
        return str(error)
    await wait_until(lambda: len(receiver.requests) >= seen + len(client.forms), WITHIN_S)
    await asyncio.sleep(QUIET_S)
    came = [
        shown(request.webhook_id, request.body, keeps_id=client.keeps_id)
        for request in receiver.requests[seen:]
    ]
    return differences(client.wanted(), came)


def shown(webhook_id: str | None, body: bytes, *, keeps_id: bool) -> Mapping[str, object]:
    """Return a webhook as :meth:`Client.wanted` writes it."""
    event: dict[str, object] = json.loads(body)
    del event["timestamp"]
    return event | ({"id": webhook_id} if keeps_id else {})


def differences(wanted: Sequence[Mapping[str, object]], came: Sequence[Mapping[str, object]]) -> str:
    """Name missing and additional webhooks; empty where there are no such ones."""
    text = partial(json.dumps, sort_keys=True)
    left = [text(each) for each in came]
    missing = []
    for each in map(text, wanted):
        if each in left:
            left.remove(each)
        else:
            missing.append(each)
    return "; ".join((*(f"missing {each}" for each in missing), *(f"besides {each}" for each in left)))


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let each client publish, one after the other."""
    clients = CLIENTS[: bench.count(len(CLIENTS))]
    found: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(bench))
        receiver = await stack.enter_async_context(Receiver())
        mqtt_port = await broker.enable_mqtt()
        daemon = await stack.enter_async_context(Daemon(bench.folder, broker.url, SETTINGS))
        await daemon.start()
        entry = {"tenant": "acme", "name": "clients", "url": receiver.url(TARGET), "events": ["#"]}
        await daemon.subscribe([entry | {"secrets": [secret_of("clients")]}])
        login = (str(mqtt_port), broker.endpoint.user, broker.endpoint.password)
        for client in clients:
            arguments = login if client.program is programs.MQTT else (broker.url,)
            fault = await short(client, receiver, arguments)
            bench.say(f"{client.program.name}: {fault or 'as documented'}")
            if fault:
                found[client.program.name] = fault
    bench.note("clients_short_are", found)
    return [Measured(name="clients_short", value=len(found), n=len(clients))]


PROOF = Proof(name="clients", goals=GOALS, prove=prove)
