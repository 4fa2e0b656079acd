"""A remote command line works over a running ``leveret serve``; the examples of docs work too."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.data import ROOT
from tests.support.processes import leveret
from tests.support.processes.children import python_env, stop
from tests.support.servers.receiver import Receiver
from tests.support.system.api import ServedApi, serving
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import QUICK, all_delivered
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

LISTENS = "http://127.0.0.1:8090"
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Stranger:
    """Another machine: it has the URL and a token, and no setting of store and broker."""

    api: ServedApi
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The variables of a remote command line."""
        return {
            **python_env(),
            "LEVERET_HOME": str(self.folder / "home"),
            "LEVERET_SERVER": self.api.url,
            "LEVERET_API": self.api.url,
            "LEVERET_TOKEN_FILE": str(self.folder / "token"),
        }

    async def leveret(self, *words: str) -> Done:
        """Run a command over the API."""
        return await asyncio.to_thread(leveret.run, *words, env=self.env, cwd=self.folder)

    async def program(self, *argv: str) -> Done:
        """Run a program with these variables."""

        def run() -> Done:
            return subprocess.run(
                argv, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60, check=False
            )

        return await asyncio.to_thread(run)


@pytest.fixture
async def stranger(shared: Daemon, tmp_path: Path) -> AsyncIterator[Stranger]:
    """A machine that reaches the API of a daemon."""
    async with serving(shared) as api:
        file = tmp_path / "token"
        file.touch(mode=0o600)
        file.write_text(f"{await api.token('--scope', 'operate')}\n")
        yield Stranger(api, tmp_path)


async def test_a_file_is_applied_over_the_api_and_its_events_arrive(
    shared: Daemon, stranger: Stranger, publisher: EventPublisher, receiver: Receiver, tmp_path: Path
) -> None:
    """Applied, delivered, traced, removed; each command prints the output of the local one."""
    file = tmp_path / "shops.yaml"
    entry = {"tenant": "far", "name": "shop", "url": receiver.url("/ok/far"), "events": ["#"]}
    file.write_text(str({"subscriptions": [{**entry, "retry": dict(QUICK)}]}))
    before = shared.metric("leveret_subscriptions")
    applied = await stranger.leveret("subscriptions", "apply", "--json", str(file))
    assert [row["change"] for row in objects(applied)] == ["added"]
    await until(lambda: shared.metric("leveret_subscriptions") > before, "the daemon knows it")
    event = await publisher.publish("far")
    await all_delivered(receiver, "/ok/far", [event])

    for words in (
        ("subscriptions", "list", "--tenant", "far"),
        ("subscriptions", "show", "far/shop", "--json"),
        ("subscriptions", "apply", "--dry-run", str(file)),
        ("breaker", "list", "--json"),
        ("waiting", "list", "--tenant", "far"),
        ("parked", "list", "--tenant", "far"),
        ("jobs", "list"),
        ("pause", "--json"),
        ("subscriptions", "show", "far/shp"),
        ("parked", "show", "prk_0123456789abcdef"),
    ):
        mine, theirs = await command(shared, *words), await stranger.leveret(*words)
        assert (theirs.stdout, theirs.stderr, theirs.returncode) == (
            mine.stdout,
            mine.stderr,
            mine.returncode,
        )
    tested = objects(await stranger.leveret("subscriptions", "test", "far/shop", "--json"))[0]
    reset = objects(await stranger.leveret("breaker", "reset", "far/shop", "--json"))[0]
    traced = objects(await stranger.leveret("trace", event, "--json"))[0]
    removed = await stranger.leveret("subscriptions", "remove", "far/shop", "--yes")

    assert (tested["ok"], reset["heard"]) == (True, True)
    assert traced["deliveries"][0]["status"] == "delivered"
    assert removed.returncode == 0
    assert (await stranger.leveret("run")).returncode == 2


async def test_parked_entries_are_sent_again_over_the_api(
    shared: Daemon, stranger: Stranger, publisher: EventPublisher, receiver: Receiver, tmp_path: Path
) -> None:
    """The watched file mends the endpoint; the replay prints each entry once a worker has sent it."""
    file, log = tmp_path / "shops.yaml", tmp_path / "watch.log"

    def write(path: str) -> None:
        entry = {"tenant": "again", "name": "shop", "url": receiver.url(path), "events": ["#"]}
        file.write_text(str({"subscriptions": [entry]}))

    async def parked() -> list[str]:
        listed = await stranger.leveret("parked", "list", "--tenant", "again", "--json")
        return [str(row["event_id"]) for row in objects(listed)] if listed.returncode == 0 else []

    write("/status/400/again")
    before = shared.metric("leveret_subscriptions")
    watching = leveret.start("subscriptions", "apply", "--watch", str(file), log=log, env=stranger.env)
    try:
        await until(lambda: shared.metric("leveret_subscriptions") > before, "the daemon knows it")
        events = [await publisher.publish("again") for _ in range(2)]
        await shown(parked, lambda event: event in events)
        write("/ok/again")
        await until(lambda: "changed again/shop" in log.read_text(), "the file is applied again")
        watching.send_signal(signal.SIGINT)
        await until(lambda: watching.poll() is not None, "the watch ends")
    finally:
        await stop(watching)
    replayed = objects(await stranger.leveret("parked", "replay", "--all", "--tenant", "again", "--json"))
    await all_delivered(receiver, "/ok/again", events)

    assert watching.returncode == 0
    assert {row["event_id"] for row in replayed} == set(events)
    assert await parked() == []


def curls() -> list[str]:
    """Return each curl command of docs/api.md."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    return [block for block in blocks if block.startswith("curl ")]


async def test_the_examples_of_the_docs_work(stranger: Stranger) -> None:
    """Each curl command gets an answer that is no problem, and the Python example prints a secret."""
    commands = [each.replace(LISTENS, stranger.api.url) for each in curls()]
    answers = [await stranger.program("sh", "-c", f"{each.rstrip()} --fail-with-body") for each in commands]
    example = await stranger.program(sys.executable, str(ROOT / "docs/examples/api.py"))

    assert len(commands) >= 4
    for each, answer in zip(commands, answers, strict=True):
        assert answer.returncode == 0, (each, answer.stdout, answer.stderr)
        assert '"urn:leveret:problem' not in answer.stdout
    assert example.stdout.startswith("whsec_"), example.stderr
