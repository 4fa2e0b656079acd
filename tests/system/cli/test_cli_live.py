"""The commands that look at the running daemon, at endpoints and at the parked queue."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.support.processes import leveret
from tests.support.processes.children import free_port, python_env, stop, wait_exit
from tests.support.processes.terminal import on_terminal
from tests.support.servers.raw_server import Call, RawServer
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of, secret, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

DEAD = "amqp://leveret:hush@127.0.0.1:1/"
EVIL = "\x1b]0;owned\x07\x1b[2J"


# status


async def test_status_counts_the_daemons_work(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Rates over the time between two looks, success, breakers, subscriptions, ready."""
    target = "/ok/busy"
    await shared.apply(to(receiver, target, "busy"))
    looking = asyncio.create_task(command(shared, "status", "--json", "--interval-s", "1"))
    ids: list[str] = []
    while not looking.done():
        ids.append(await publisher.publish("busy"))
        await asyncio.sleep(0.02)

    [now] = objects(looking.result())

    await all_delivered(receiver, target, ids)
    assert (now["ready"], now["reasons"], now["at"]) == (True, [], shared.listen)
    assert now["events_per_s"] > 1
    assert now["deliveries_per_s"] > 1
    assert now["success_ratio"] == 1.0
    assert now["subscriptions"] >= 1
    assert now["breakers"]["closed"] >= 1
    assert {"lane", "due", "wait"} <= now["waiting"].keys()


async def test_status_on_a_terminal_and_watched(shared: Daemon, tmp_path: Path) -> None:
    """A table; --watch prints again and again until Ctrl-C, which is no failure."""
    shown = await on_terminal(["status", "--interval-s", "0.2"], shared.env)

    assert shown.code == 0
    assert f"leveret at {shared.listen}: " in shown.text
    assert "subscriptions" in shown.text
    out, log = tmp_path / "watch.out", tmp_path / "watch.log"
    words = ("status", "--watch", "--json", "--interval-s", "0.1")
    watching = leveret.start(*words, log=log, out=out, env=shared.env)
    try:
        await until(lambda: out.read_bytes().count(b"\n") >= 3, "it prints again and again")
        watching.send_signal(signal.SIGINT)
        assert await wait_exit(watching, 60) == 0
    finally:
        await stop(watching)
    assert [json.loads(line)["ready"] for line in out.read_text().splitlines()][:3] == [True] * 3


async def test_status_says_why_it_is_not_ready(tmp_path: Path) -> None:
    """Fault 63: the reason of /readyz, and exit 1."""
    daemon = Daemon(tmp_path, DEAD)
    daemon.spawn()
    try:
        await daemon.logged("daemon.started")
        done = await command(daemon, "status", "--interval-s", "0.1", "--json")
    finally:
        await daemon.stop()

    now = json.loads(done.stdout)
    assert done.returncode == 1
    assert now["ready"] is False
    assert now["reasons"]
    assert "not ready" not in now["reasons"][0]
    assert "hush" not in done.stdout + done.stderr


async def test_status_of_nobody_names_the_remedy(shared: Daemon, receiver: Receiver) -> None:
    """Daemon away, somebody else's port, no port: one line, a remedy, exit 1."""
    away = await command(shared, "status", "--at", f"127.0.0.1:{free_port()}")
    other = await command(shared, "status", "--at", receiver.url("/").split("/")[2])
    odd = await command(shared, "status", "--at", "127.0.0.1:no")

    for done in (away, other, odd):
        [line] = done.stderr.splitlines()
        assert done.returncode == 1
        assert "--at HOST:PORT" in line
    assert "start it with `leveret run`" in away.stderr


# subscriptions test


async def test_a_test_webhook_is_as_every_other(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """The real sender, signed with the subscription's secrets, the same headers."""
    target = "/ok/trial"
    await shared.apply(to(receiver, target, "trial", headers={"x-own": "1"}))
    event_id = await publisher.publish("trial")
    await all_delivered(receiver, target, [event_id])

    [done] = objects(await command(shared, "subscriptions", "test", f"trial/{target}", "--json"))

    [real] = requests_of(receiver, target, event_id)
    [trial] = requests_of(receiver, target, str(done["event_id"]))
    headers = {name: trial.headers[name] for name in trial.headers if name.startswith("webhook-")}
    Webhook(secret("trial", target)).verify(trial.body, headers)
    assert json.loads(trial.body)["type"] == "leveret.test"
    assert trial.headers.keys() == real.headers.keys()
    assert (done["ok"], done["status"], done["signature"]) == (True, 200, headers["webhook-signature"])
    assert secret("trial", target) not in json.dumps(done)


async def test_a_test_webhook_that_fails_says_what_it_means(shared: Daemon, receiver: Receiver) -> None:
    """Outcome, the verdict that a delivery would get, exit 1; nothing is disabled by it."""
    target = "/status/410/trial"
    await shared.apply(to(receiver, target, "trial2"))

    done = await command(shared, "subscriptions", "test", f"trial2/{target}")

    [line] = done.stderr.splitlines()
    assert done.returncode == 1
    assert "outcome: HTTP 410" in done.stdout
    assert (
        "HTTP 410 (gone for good: the endpoint asks us to stop): a delivery would disable the endpoint"
        in line
    )
    [row] = [r for r in await shared.listing("subscriptions", "list") if r["tenant"] == "trial2"]
    assert row["enabled"]


async def test_the_address_guard_holds_for_a_test(shared: Daemon, receiver: Receiver) -> None:
    """Fault 20: a test reaches no address that a delivery would not."""
    target = "/ok/guarded"
    await shared.apply(to(receiver, target, "guarded"))
    strict = {**shared.env, "LEVERET_EGRESS__ALLOW": "[]", "LEVERET_EGRESS__ALLOW_HTTP": "true"}

    done = await asyncio.to_thread(leveret.run, "subscriptions", "test", f"guarded/{target}", env=strict)

    assert done.returncode == 1
    assert "egress.allow" in done.stderr
    assert requests_of(receiver, target) == []


async def test_an_endpoints_answer_cannot_drive_the_terminal(shared: Daemon) -> None:
    """Fault 51: a stranger's answer is escaped in the output."""

    async def talk(call: Call) -> None:
        await call.request()
        body = EVIL.encode() + b"hello"
        await call.say(b"HTTP/1.1 500 x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with RawServer(talk) as server:
        entry = {"tenant": "evil", "name": "evil", "url": server.url(), "events": ["#"]}
        await shared.apply(entry)
        shown = await on_terminal(["subscriptions", "test", "evil/evil"], shared.env)

    assert shown.code == 1
    assert r"\x1b]0;owned\x07\x1b[2Jhello" in shown.text
    assert EVIL not in shown.text


# parked


async def test_parked_is_filtered_counted_exported_and_purged(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """S1-4, S1-13: group by code and by tenant, export, purge into an archive: nothing is lost."""
    for tenant, target in (("heap", "/status/400/heap"), ("heap2", "/status/422/heap")):
        await shared.apply(to(receiver, target, tenant))
    body = b'{"keep":"me"}'
    ids = {await publisher.publish("heap", "order.created", body) for _ in range(3)}
    ids |= {await publisher.publish("heap2", "invoice.paid", body)}
    await shared.parked(3, tenant="heap")
    await shared.parked(1, tenant="heap2")

    groups = objects(
        await command(
            shared,
            "parked",
            "list",
            "--group-by",
            "tenant",
            "--group-by",
            "status",
            "--since",
            "1h",
            "--json",
        )
    )
    lines = objects(await command(shared, "parked", "export", "--tenant", "heap"))

    counts = {(row["tenant"], row["status"]): row["count"] for row in groups}
    assert (counts["heap", "400"], counts["heap2", "422"]) == (3, 1)
    assert [base64.b64decode(line["body_base64"]) for line in lines] == [body] * 3

    purged = objects(
        await command(shared, "parked", "purge", "--older-than", "0s", "--tenant", "heap", "--yes", "--json")
    )
    left = await shared.parked(1, tenant="heap2")

    assert len([row for row in purged if row["tenant"] == "heap"]) == 3
    assert [row["tenant"] for row in left if row["event_id"] in ids] == ["heap2"]
    [archive] = (shared.home / "archive").glob("purged-*.jsonl")
    kept = [json.loads(line) for line in archive.read_text().splitlines()]
    assert {row["event_id"] for row in kept if row["tenant"] == "heap"} <= ids
    assert base64.b64decode(kept[-1]["body_base64"]) == body


async def test_parked_on_a_terminal_is_for_people(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """S1-5, fault 51: payload and attempts laid out and escaped; purge asks, and no means no."""
    await shared.apply(to(receiver, "/status/503/desk", "desk"))
    await publisher.publish("desk", body=json.dumps({"note": "a\u009b2J"}, ensure_ascii=False).encode())
    [row] = await shared.parked(1, tenant="desk")

    shown = await on_terminal(["parked", "show", str(row["id"])], shared.env)
    kept = await on_terminal(
        ["parked", "purge", "--older-than", "0s", "--tenant", "desk"], shared.env, {"Purge 1 parked": "n\n"}
    )
    asked = await on_terminal(
        ["parked", "purge", "--older-than", "0s", "--tenant", "desk"], shared.env, {"Purge 1 parked": "y\n"}
    )

    assert shown.code == 0
    table = [line.split() for line in shown.text.splitlines() if " http_5xx " in line]
    assert [(replay, number) for replay, number, *_ in table] == [("0", "1"), ("0", "2"), ("0", "3")]
    assert '"note": "a\\x9b2J"' in shown.text
    assert (kept.code, asked.code) == (1, 0)
    assert "nothing was purged" in kept.text
    assert "1 purged" in asked.text


async def test_a_purge_that_cannot_archive_takes_nothing(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, tmp_path: Path
) -> None:
    """S1-4, fault 68: an entry that is not on disk stays parked."""
    await shared.apply(to(receiver, "/status/400/full", "full"))
    await publisher.publish("full")
    await shared.parked(1, tenant="full")
    (tmp_path / "archive").write_text("a file where the folder should be")
    words = ("parked", "purge", "--older-than", "0s", "--tenant", "full", "--yes")

    done = await asyncio.to_thread(leveret.run, *words, env={**shared.env, "LEVERET_HOME": str(tmp_path)})

    assert done.returncode == 1
    assert "stay parked" in done.stderr
    assert len(await shared.parked(1, tenant="full")) == 1


# a change reaches the daemon


async def test_changes_by_the_command_line_reach_the_daemon(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Add, disable, enable, rotate-secret and remove act on the running daemon."""
    target = "/ok/steered"
    url = receiver.url(target)

    async def steer(*words: str) -> list[dict[str, Any]]:
        return objects(await command(shared, "subscriptions", *words, "--json"))

    [added] = await steer("add", url, "--tenant", "steer", "--event", "#")
    name = f"steer/{added['name']}"

    async def arrives() -> int:
        """Publish until one arrives; return the number of its signatures."""
        while True:
            event_id = await publisher.publish("steer")
            for _ in range(10):
                found = requests_of(receiver, target, event_id)
                if found:
                    return len(found[0].headers["webhook-signature"].split(" "))
                await asyncio.sleep(0.05)

    async def is_passed_by() -> None:
        """Publish until an event is unmatched."""
        before = shared.metric("leveret_events_total", outcome="unmatched")
        while shared.metric("leveret_events_total", outcome="unmatched") == before:
            await publisher.publish("steer")
            await asyncio.sleep(0.05)

    assert await arrives() == 1
    await steer("rotate-secret", name)
    while await arrives() != 2:
        continue
    await steer("disable", name)
    await is_passed_by()
    await steer("enable", name)
    await arrives()
    await steer("remove", name)
    await is_passed_by()


@pytest.mark.parametrize("words", [("parked", "list"), ("parked", "purge", "--older-than", "1d", "--yes")])
async def test_parked_without_a_broker_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    """Fault 61: the remedy is named, the password is not."""
    env = python_env() | {"LEVERET_AMQP_URL": DEAD, "LEVERET_HOME": str(tmp_path)}

    done = await asyncio.to_thread(leveret.run, *words, env=env)

    [line] = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.endswith("is LEVERET_AMQP_URL right?")
    assert "hush" not in line
