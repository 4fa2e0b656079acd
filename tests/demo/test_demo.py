"""The demo on private brokers: it accounts for every delivery, fails if one is lost, and ends cleanly."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aio_pika
import pytest

from consumer.edges.broker.look import look_into
from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker
from consumer.edges.private_broker.processes import Identity, find_marked, wait_until
from demo import cast
from demo.stage import MARK, WORDS_MAX, Stage
from tests.support.data import ROOT
from tests.support.processes.terminal import CTRL_C, Terminal

SECONDS = 2  #: of events
PATIENCE_S = cast.LONGEST_S + 8  #: of the robbed one; the honest one has its minute
STARTED_S = 90.0
STOLEN = 2
PUBLISHED_BY_S = 5  #: a line is printed then, and all events are published


def demo(home: Path, *arguments: str) -> list[str]:
    """Return the command line of a demo that plays in *home*."""
    return [sys.executable, "-m", "demo", "--home", str(home), *arguments]


def left_over(home: Path) -> list[Identity]:
    """Return every process that still belongs to a demo in *home*."""
    marks = (f"LEVERET_HOME={home}", f"LEVERET_BROKER_FOLDER={home / 'broker'}")
    return [process for mark in marks for process in find_marked(mark)]


class Play:
    """A bounded demo without a terminal, with its output in a file."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.home, self.out = folder / name, folder / f"{name}.out"
        argv = demo(self.home, "--seconds", str(SECONDS), *arguments)
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=os.environ | {"FORCE_COLOR": "1"},  # colours or not, a pipe is no terminal
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    @property
    def text(self) -> str:
        """The output of the demo."""
        return self.out.read_text()

    def unaccounted(self) -> tuple[int, int]:
        """Return the two numbers of its last word: unaccounted, of all."""
        found = re.search(r"^unaccounted: (\d+) of (\d+) deliveries$", self.text, flags=re.MULTILINE)
        assert found, self.text
        return int(found[1]), int(found[2])


def take_one(home: Path, *queues: str) -> bool:
    """Take one delivery out of one of these queues of a demo's broker; return whether there was one."""

    async def look(url: str) -> bool:
        async with await aio_pika.connect(url) as connection:
            for name in queues:
                async with look_into(connection, name) as looked:
                    async for held in looked.messages():
                        await held.ack()
                        return True
            return False

    url = PrivateBroker(home).status().amqp_url
    assert url is not None
    return asyncio.run(look(url))


def rob(play: Play) -> None:
    """Once all events are published, take out a waiting delivery, and later one that the log calls parked."""
    rungs = re.findall(r"[\d.]+", cast.SETTINGS.partition("rungs_s = [")[2].partition("]")[0])
    waiting = [f"leveret.wait.{round(float(rung) * 1000)}" for rung in rungs]
    assert wait_until(lambda: f"{PUBLISHED_BY_S} s: " in play.text, STARTED_S), play.text
    assert wait_until(lambda: take_one(play.home, *waiting), 5.0), "nothing waited"
    assert wait_until(lambda: take_one(play.home, "leveret.parked"), PATIENCE_S), "nothing was parked"


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Play, Play]]:
    """Two demos side by side, as each takes half a minute: one is left alone, the other loses deliveries."""
    folder = tmp_path_factory.mktemp("demo")
    both = Play(folder, "honest"), Play(folder, "robbed", "--patience", str(PATIENCE_S))
    try:
        rob(both[1])
        yield both
    finally:
        for play in both:
            if play.process.poll() is None:
                play.process.terminate()
                play.process.wait(120)


def test_a_lost_delivery_is_found_and_fails(plays: tuple[Play, Play]) -> None:
    """Deliveries that vanish from the broker behind Leveret's back are named, and the exit code is 1.

    A delivery that the log calls parked but the parked queue lacks is unaccounted for too.
    """
    _, robbed = plays

    code = robbed.process.wait(120)

    missing, pairs = robbed.unaccounted()
    named = re.findall(r"^UNACCOUNTED: event demo-\d+ for endpoint \w+$", robbed.text, flags=re.MULTILINE)
    assert code == 1
    assert missing == len(named) == STOLEN
    assert pairs == 2 * SECONDS * 20
    assert left_over(robbed.home) == []


def test_everything_is_accounted_for(plays: tuple[Play, Play]) -> None:
    """Without a terminal it ends by itself, prints the table, exits 0 and leaves no process or file."""
    honest, _ = plays

    code = honest.process.wait(120)

    assert code == 0, honest.text
    assert honest.unaccounted() == (0, 2 * SECONDS * 20)
    for endpoint in cast.ENDPOINTS:
        assert re.search(rf"^{endpoint.name} +{re.escape(endpoint.does)} ", honest.text, flags=re.M)
    assert left_over(honest.home) == []
    assert not honest.home.exists()


def test_a_terminal_has_a_live_view_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    """The picture is redrawn; Ctrl-C ends every process that it started; exit 0."""
    home = tmp_path / "demo"
    terminal = Terminal(demo(home), dict(os.environ), ROOT)
    try:
        terminal.until(r"healthy +200 at once +[1-9]", STARTED_S)
        first = terminal.until(r"now: .+\S")[0]
        terminal.until(r"healthy +200 at once +[1-9]\d+")  # a later frame: two digits
        running = left_over(home)
        terminal.press(CTRL_C)
        code = terminal.wait()
    finally:
        terminal.close()

    assert code == 0, terminal.text[-2000:]
    assert first
    assert "Ctrl-C ends it" in terminal.text
    assert "events by tenant: acme " in terminal.text
    assert len(running) >= 4  # the node, epmd, endpoints, daemon
    assert left_over(home) == []
    assert not home.exists()


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    """The state folder is emptied, so only an empty one or a demo's is accepted."""
    (tmp_path / "precious").write_text("x")

    refused = subprocess.run(
        demo(tmp_path, "--seconds", "1"), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert refused.returncode == 1
    assert "name another one with --home" in refused.stderr
    assert (tmp_path / "precious").read_text() == "x"
    assert not (tmp_path / MARK).exists()


def test_a_part_that_ends_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    """The folder with the logs is removed at the end, so the error contains the end of the log."""
    log = tmp_path / "run.log"
    log.write_text("x" * WORDS_MAX + "no room left\n")
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    runs = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    stage = Stage(
        home=tmp_path,
        broker=BrokerEndpoint(
            amqp_url="",
            management_url="",
            prometheus_url="",
            user="",
            password="",
            version="",
            node="",
            pid=0,
            data_folder=tmp_path,
            fresh=True,
        ),
        health_url="",
        requests=tmp_path / "listen.jsonl",
        daemon_log=log,
        subscription_ids={},
        daemon=runs,
        listener=runs,
    )
    try:
        ended.wait(60)
        assert stage.ended() is None
        told = replace(stage, daemon=ended).ended() or ""
    finally:
        runs.communicate(timeout=60)

    assert told.startswith("the daemon ended with 3; its log ends with: xx")
    assert told.endswith("xx" + "no room left")
    assert len(told) < WORDS_MAX + 50
