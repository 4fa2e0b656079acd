"""Publishing over HTTP: faults name their field, and no event is promised without a broker."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable
from consumer.core.store.audit import AuditFilter, AuditLine
from consumer.core.store.tokens import Scope
from consumer.web.app import create_app
from consumer.web.broker_link import BrokerLink
from consumer.web.services.publish import data_of
from consumer.web.shared.turns import Turns
from tests.support.web import Api, opened_api, problem

EVENTS = "/v1/tenants/acme/events"
CREATED: dict[str, Any] = {"type": "order.created", "data": {"id": "ord_1"}}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": ".."}, "type"),
        ({"type": ""}, "type"),
        ({"id": "a\nb"}, "id"),
        ({"tenant": "acme"}, "tenant"),
    ],
)
async def test_a_fault_names_its_field(api: Api, fields: dict[str, Any], field: str) -> None:
    """The answer is 422."""
    async with await api.client_of() as client:
        found = problem(await client.post(EVENTS, json={**CREATED, **fields}), 422)

    assert found["field"] == field


async def test_data_is_required_and_limited(api: Api) -> None:
    """Null is data; a missing member is a fault, and so is an event that Leveret would park."""
    async with await api.client_of() as client:
        missing = problem(await client.post(EVENTS, json={"type": "a"}), 422)
        long = await client.post(EVENTS, json={"type": "a", "data": "x" * 262_200})

    assert missing["field"] == "data"
    assert problem(long, 413)["field"] in ("data", None)


async def test_without_a_broker_nothing_is_accepted(api: Api) -> None:
    """503, also for a repetition: the key is not taken for a confirmed one."""
    async with await api.client_of() as client:
        for _ in range(2):
            answer = await client.post(EVENTS, json=CREATED, headers={"Idempotency-Key": "k-1"})
            assert problem(answer, 503)
            assert answer.headers["Retry-After"]
        other = {**CREATED, "data": 1}
        found = problem(await client.post(EVENTS, json=other, headers={"Idempotency-Key": "k-1"}), 422)
        long = {"Idempotency-Key": "k" * 201}
        problem(await client.post(EVENTS, json=CREATED, headers=long), 422)

    assert found["field"] == "Idempotency-Key"


def refuse_audit(home: Path) -> None:
    """Make the store refuse every further line of the audit log."""
    with closing(sqlite3.connect(home / "leveret.db")) as store:
        store.execute("CREATE TRIGGER full BEFORE INSERT ON leveret_audit BEGIN SELECT RAISE(FAIL, 'x'); END")
        store.commit()


class Meeting(BrokerLink):
    """A broker that is away, where two requests at the same time meet."""

    inside = 0
    is_met = False

    async def connection(self) -> AbstractConnection:
        """Wait for another request for a moment."""
        self.inside += 1
        self.is_met = self.is_met or self.inside > 1
        await asyncio.sleep(0.5)
        self.inside -= 1
        raise BrokerUnavailable("away")


async def test_requests_with_one_key_take_turns(tmp_path: Path) -> None:
    """A repetition waits for the request in flight, so that it learns of the confirm."""
    async with opened_api(tmp_path / "home") as opened:
        broker = Meeting(opened.context.settings)
        context = replace(opened.context, broker=broker)
        api = Api(create_app(context), context, opened.clock, opened.log)
        async with await api.client_of() as client:
            sent = (client.post(EVENTS, json=CREATED, headers={"Idempotency-Key": "k"}) for _ in range(2))
            answers = await asyncio.gather(*sent)

    assert [answer.status_code for answer in answers] == [503, 503]
    assert not broker.is_met


async def test_processes_with_one_key_take_turns(tmp_path: Path) -> None:
    """Two of them share a store: the second one waits until the first one has given the key back."""
    async with opened_api(tmp_path / "home") as one, opened_api(tmp_path / "home") as two:
        broker = Meeting(one.context.settings)
        token, answers = await one.token(), []
        async with AsyncExitStack() as stack:
            for opened in (one, two):
                context = replace(opened.context, broker=broker)
                api = Api(create_app(context), context, opened.clock, opened.log)
                client = await stack.enter_async_context(api.client(token))
                answers.append(client.post(EVENTS, json=CREATED, headers={"Idempotency-Key": "k"}))
            found = await asyncio.gather(*answers)

    assert [answer.status_code for answer in found] == [503, 503]
    assert not broker.is_met


async def test_publishing_has_a_line_in_the_audit_log_without_the_payload(api: Api) -> None:
    """It is written before the event leaves, and has the outcome afterwards."""
    lines = api.context.store.records.audit.lines
    before: list[AuditLine] = []

    class Watching(BrokerLink):
        async def connection(self) -> AbstractConnection:
            before.extend(await lines(AuditFilter(action="event"), 10))
            raise BrokerUnavailable("away")

    context = replace(api.context, broker=Watching(api.context.settings))
    watched = Api(create_app(context), context, api.clock, api.log)
    async with await watched.client_of(Scope.OPERATE) as client:
        problem(await client.post(EVENTS, json={**CREATED, "id": "e-1"}), 503)
    after = await lines(AuditFilter(action="event"), 10)

    shown = [
        (line.change.target, line.change.tenant, line.change.after["outcome"])
        for line in before + list(after)
    ]
    assert shown == [("e-1", "acme", "started"), ("e-1", "acme", "failed")]
    assert after[0].change.after["type"] == "order.created"
    assert "ord_1" not in repr(after)


async def test_without_a_line_in_the_audit_log_nothing_is_published(api: Api) -> None:
    """A deed that nobody could trace is refused before it is done."""
    asked: list[str] = []

    class Watching(BrokerLink):
        async def connection(self) -> AbstractConnection:
            asked.append("connection")
            raise BrokerUnavailable("away")

    context = replace(api.context, broker=Watching(api.context.settings))
    watched = Api(create_app(context), context, api.clock, api.log)
    async with await watched.client_of(Scope.OPERATE) as client:
        refuse_audit(api.context.settings.home)
        problem(await client.post(EVENTS, json=CREATED), 503)

    assert asked == []


async def test_other_keys_do_not_wait() -> None:
    """A key is forgotten with its last request."""
    turns = Turns()
    async with turns.of("a"), turns.of("b"), asyncio.timeout(10):
        waiting = asyncio.create_task(turns.of("a").__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
    async with turns.of("a"):
        pass


async def test_reading_is_not_enough(api: Api) -> None:
    """A read token gets 403, a stranger 404."""
    async with await api.client_of(Scope.READ) as client:
        problem(await client.post(EVENTS, json=CREATED), 403)
    async with await api.client_of(tenant="rival") as client:
        problem(await client.post(EVENTS, json=CREATED), 404)


def test_the_bytes_of_the_data_stay_as_they_are() -> None:
    """A number beyond 64 bits, its spelling and the blanks inside are kept."""
    body = b'{ "data" : {"n": 12345678901234567890123.10 ,"a":1e2},"type":"x"}'

    assert data_of(body) == b'{"n": 12345678901234567890123.10 ,"a":1e2}'
