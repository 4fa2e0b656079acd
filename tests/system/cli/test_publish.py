"""``leveret publish`` as a user meets it, against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aio_pika.abc import AbstractIncomingMessage
from pamqp.common import FieldTable
from typer.testing import CliRunner, Result

from consumer.cli import app
from consumer.edges.store import open_store
from consumer.settings import load_settings
from tests.support.broker.topology import Live, connected
from tests.support.processes.terminal import CTRL_C, Terminal
from tests.support.stores import apply, shop
from topology.declare import declare
from topology.plan import TopologySpec, build_plan

Publish = Callable[..., Result]

SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(0.1,))
LANE = "leveret.lane.00"


@asynccontextmanager
async def live(url: str) -> AsyncIterator[Live]:
    """A channel to a broker with the declared topology."""
    async with connected(url) as connection:
        plan = build_plan(SPEC)
        await declare(plan, connection)
        yield Live(plan, connection, await connection.channel())


def stand(url: str) -> None:
    """Put the topology there."""

    async def declare_it() -> None:
        async with live(url):
            return

    asyncio.run(declare_it())


@pytest.fixture(scope="module")
def lane(module_vhost: str) -> str:
    """The AMQP URL of a vhost with the topology on it, one lane, and no daemon."""

    stand(module_vhost)
    return module_vhost


@pytest.fixture
def publish(lane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Run ``leveret publish`` in an empty folder, with no settings but the broker and the given ones."""
    for name in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, stdin: bytes | None = None, **environ: str) -> Result:
        variables = {"LEVERET_AMQP_URL": lane} | {f"LEVERET_{name}": text for name, text in environ.items()}
        return CliRunner().invoke(app, ["publish", *arguments], env=variables, input=stdin)

    return invoke


def taken(url: str, count: int) -> list[AbstractIncomingMessage]:
    """Take so many events out of the lane; there are no more."""

    async def take() -> list[AbstractIncomingMessage]:
        async with live(url) as broker:
            found = [message for _, message in await broker.take([LANE], count)]
            left = await broker.channel.declare_queue(LANE, passive=True)
            assert left.declaration_result.message_count == 0
            return found

    return asyncio.run(take())


def test_an_event_is_what_the_contract_says(publish: Publish, lane: str) -> None:
    """Outside contract: persistent, type as routing key, tenant, id, time, JSON; the bytes as typed."""
    before = int(time.time())

    done = publish("order.created", '{"a": 1e400, "a":-0}', "--tenant", "acme", "--id", "ord-1")

    [message] = taken(lane, 1)
    assert (done.exit_code, done.stdout) == (0, "ord-1\n")
    assert message.body == b'{"a": 1e400, "a":-0}'
    assert (message.exchange, message.routing_key) == ("leveret.events", "order.created")
    assert message.headers == {"tenant": "acme"}
    assert (message.message_id, message.content_type) == ("ord-1", "application/json")
    assert message.delivery_mode == 2
    assert message.timestamp is not None
    assert before <= message.timestamp.timestamp() <= time.time()


def test_events_that_nobody_wants_are_named(publish: Publish, lane: str, tmp_path: Path) -> None:
    """After the confirm: a note on stderr if the store has no enabled subscription for the type."""
    assert publish("order.created", "1", "--tenant", "acme").stderr == "", "without a store nothing is known"
    home = load_settings({"LEVERET_HOME": str(tmp_path / ".leveret")})
    asyncio.run(
        apply(
            open_store(home),
            shop(events=["order.*"]),
            shop(name="off", url="https://o.example/", enabled=False),
        )
    )

    wanted = publish("order.created", "1", "--tenant", "acme")
    unwanted = publish("invoice.paid", "1", "--tenant", "acme")
    stranger = publish("order.created", "1", "--tenant", "beta", "--count", "2")

    assert wanted.stderr == ""
    [line] = unwanted.stderr.splitlines()
    assert line.startswith("leveret: warning: unmatched: no enabled subscription of acme in ")
    assert "wants invoice.paid" in line
    assert "no enabled subscription of beta" in stranger.stderr
    assert {each.exit_code for each in (wanted, unwanted, stranger)} == {0}
    assert len(taken(lane, 5)) == 5


def test_data_comes_from_argument_file_or_stdin(publish: Publish, lane: str, tmp_path: Path) -> None:
    """Three forms of input, byte for byte; without an id each event gets one of its own."""
    (tmp_path / "data.bin").write_bytes(b"\x00\xff")

    runs = [
        publish("a", "1"),
        publish("a", "--file", "data.bin", "--content-type", "application/octet-stream"),
        publish("a", stdin=b' {"n":1}\n'),
        publish("a", "-", stdin=b"2"),
    ]

    messages = taken(lane, 4)
    assert [run.exit_code for run in runs] == [0] * 4
    assert [m.body for m in messages] == [b"1", b"\x00\xff", b' {"n":1}\n', b"2"]
    assert [run.stdout.strip() for run in runs] == [m.message_id for m in messages]
    assert len({m.message_id for m in messages}) == 4


def test_cloudevents_by_flag(publish: Publish, lane: str) -> None:
    """Structured and binary; --json names the id that receivers will see."""
    structured = publish("a.b", '{"n":1.0}', "--cloudevents", "structured", "--id", "x.1", "--json")
    binary = publish("a.b", '{"n":1.0}', "--cloudevents", "binary", "--id", "x.1", "--source", "/s")

    first, second = taken(lane, 2)
    row = json.loads(structured.stdout)
    assert (row["id"], row["webhook_id"][:4], row["type"], row["tenant"]) == ("x.1", "msg_", "a.b", "default")
    assert first.content_type == "application/cloudevents+json"
    assert first.body.endswith(b'"data":{"n":1.0}}')
    assert second.body == b'{"n":1.0}'
    assert binary.exit_code == 0
    assert {k: second.headers[f"cloudEvents_{k}"] for k in ("id", "source", "type", "specversion")} == {
        "id": "x.1",
        "source": "/s",
        "type": "a.b",
        "specversion": "1.0",
    }


def test_many_at_a_rate_are_numbered_and_never_faster(publish: Publish, lane: str) -> None:
    """--count with {n}; the last of 20 events at 50 a second leaves after 19 intervals."""
    began = time.monotonic()

    done = publish("a", '{"n":{n}}', "--count", "20", "--rate", "50", "--id", "e{n}")

    took_s = time.monotonic() - began
    messages = taken(lane, 20)
    assert done.exit_code == 0
    assert took_s >= 19 / 50
    assert [m.body for m in messages] == [b'{"n":%d}' % n for n in range(1, 21)]
    assert sorted(done.stdout.split()) == sorted(f"e{n}" for n in range(1, 21))
    assert "20 confirmed in " in done.stderr


def test_a_type_that_receivers_see_changed_is_reported(publish: Publish, lane: str) -> None:
    """SW-21: `a-b` becomes `a_b`; the command reports that when it publishes."""
    done = publish("a-b", "1")

    taken(lane, 1)
    assert done.exit_code == 0
    assert "receivers see the type a_b" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", '{"n":1,}'), ["line 1, column 7"]),
        (("a", '"' + "x" * 300_000 + '"'), ["300002 bytes", "at most 262144", "max_event_bytes"]),
        (("a", "1", "--tenant", "a b"), ["--tenant"]),
        (("a", "--file", "nothing.json"), ["nothing.json", "check that the file exists"]),
        (("a",), ["empty", "--file"]),
    ],
    ids=["no JSON", "too large", "tenant", "no file", "no data"],
)
def test_a_failed_publish_is_one_line(publish: Publish, arguments: tuple[str, ...], words: list[str]) -> None:
    """Every error names its remedy; nothing is published; exit 1."""
    failed = publish(*arguments, stdin=b"")

    [line] = failed.stderr.splitlines()
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert line.startswith("leveret: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "1", "--file", "x"), "not both"),
        (("a", "1", "--rate", "5"), "--rate needs --count"),
        (("a", "1", "--count", "2", "--id", "x"), "needs {n}"),
        (("a", "1", "--count", "0"), "--count"),
        (("a", "1", "--cloudevents", "batch"), "--cloudevents"),
    ],
)
def test_wrong_usage_is_exit_2(publish: Publish, arguments: tuple[str, ...], words: str) -> None:
    """CLI contract: 2 is wrong usage."""
    failed = publish(*arguments)

    assert failed.exit_code == 2
    assert words in " ".join(failed.stderr.replace("│", " ").split())


def test_no_queue_and_no_exchange_name_the_remedy(publish: Publish, vhost: str) -> None:
    """Unroutable is an error of ours, never silence; so is a broker without the topology."""

    async def only_the_exchange() -> None:
        async with connected(vhost) as connection:
            channel = await connection.channel()
            await channel.declare_exchange("leveret.events", "topic", durable=True)

    missing = publish("a", "1", AMQP_URL=vhost)
    asyncio.run(only_the_exchange())
    unroutable = publish("a", "1", "--count", "3", AMQP_URL=vhost)

    assert missing.exit_code == unroutable.exit_code == 1
    assert "no exchange leveret.events; start `leveret run`" in missing.stderr
    assert "no queue for a; start `leveret run`" in unroutable.stderr
    assert "(0 of 3 events were confirmed)" in unroutable.stderr
    assert len(missing.stderr.splitlines()) == len(unroutable.stderr.splitlines()) == 1


def test_a_full_lane_is_reported_with_the_taken_events(publish: Publish, vhost: str) -> None:
    """Fault 64: a broker that nacks is an error that contains the number of confirmed events."""

    async def a_lane_for_two() -> None:
        async with connected(vhost) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange("leveret.events", "topic", durable=True)
            full: FieldTable = {"x-max-length": 2, "x-overflow": "reject-publish"}
            queue = await channel.declare_queue(LANE, durable=True, arguments=full)
            await queue.bind(exchange, "#")

    asyncio.run(a_lane_for_two())

    failed = publish("a", "1", "--count", "3", "--rate", "100", AMQP_URL=vhost)

    assert failed.exit_code == 1
    assert "refused" in failed.stderr
    assert "(2 of 3 events were confirmed)" in failed.stderr
    assert len(failed.stdout.split()) == 2


def test_no_broker_names_the_remedy_and_no_password(publish: Publish) -> None:
    """No broker answers, or none is set and none runs: one line, without the password."""
    dead = publish("a", "1", AMQP_URL="amqp://u:hush@127.0.0.1:1/")
    none = publish("a", "1", AMQP_URL="")

    assert dead.exit_code == none.exit_code == 1
    assert "no broker answered: amqp://u:***@127.0.0.1:1/" in dead.stderr
    assert "hush" not in dead.stderr
    assert "run `leveret broker start`, or set LEVERET_AMQP_URL" in none.stderr


def test_a_terminal_sees_progress_and_ctrl_c_says_how_far_it_came(vhost: str, tmp_path: Path) -> None:
    """A bar on a terminal; interrupted, it prints how many the broker has, and exits 130."""
    stand(vhost)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LEVERET_")} | {"LEVERET_AMQP_URL": vhost}
    command = [sys.executable, "-m", "consumer", "publish", "a", "{n}", "--count", "100000", "--rate", "100"]
    terminal = Terminal(command, env, tmp_path)
    try:
        terminal.until(r"publishing .* [1-9]\d*/100000")
        terminal.press(CTRL_C)

        assert terminal.wait(20) == 130
        assert re.search(r"stopped: [1-9]\d* of 100000 confirmed", terminal.text)
    finally:
        terminal.close()
