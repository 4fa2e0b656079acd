"""``leveret listen`` as a user meets it: a process that verifies, prints and behaves."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from consumer.edges.private_broker.processes import wait_until
from tests.support.broker.load import secret_of
from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.system.daemon import Daemon
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

SECRET = secret_of("shop")
ORDER = b'{"type":"order.created"}'


class Listener:
    """One ``leveret listen`` with its words in files."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str]) -> None:
        self.out, self.log = folder / "listen.out", folder / "listen.log"
        for file in (self.out, self.log):
            file.write_bytes(b"")
        words = ("listen", "--port", "0", *arguments)
        self.process = leveret.start(*words, log=self.log, out=self.out, env=env, cwd=folder)
        assert wait_until(lambda: "listening on" in self.said() or self.process.poll() is not None, 60)
        found = re.search(r"listening on (\S+)", self.said())
        assert found, self.said()
        self.url = found[1]

    def said(self) -> str:
        """Its stderr so far."""
        return self.log.read_text()

    def lines(self) -> list[str]:
        """Its output so far."""
        return self.out.read_text().splitlines()

    def rows(self) -> list[dict[str, Any]]:
        """Its output so far, with --json."""
        return [json.loads(line) for line in self.lines()]

    def end(self) -> int:
        """Press Ctrl-C; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def post(
        self,
        path: str = "/",
        body: bytes = b'{"type":"order.created"}',
        event_id: str = "evt_1",
        **headers: str,
    ) -> httpx2.Response:
        """Send a webhook, signed by the reference library; *headers* come on top, ``_`` for ``-``."""
        now = datetime.now(tz=UTC)
        sent = {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(SECRET).sign(event_id, now, body.decode("latin-1")),
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.post(self.url + path, content=body, headers=sent, timeout=20, trust_env=False)


Listen = Callable[..., Listener]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """Start ``leveret listen``; a process that still runs at the end is killed."""
    started: list[Listener] = []
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LEVERET_") and k != "WEBHOOK_SECRET"}

    def start(*arguments: str, **env: str) -> Listener:
        started.append(Listener(tmp_path, *arguments, env=clean | env))
        return started[-1]

    yield start
    for listener in started:
        if listener.process.poll() is None:
            listener.process.kill()
            listener.process.wait(10)


def test_it_verifies_and_prints_one_line_for_each(listen: Listen, tmp_path: Path) -> None:
    """SW-05, fault 51: good and bad signatures are distinguished, 401 for the bad; text is escaped."""
    (tmp_path / "secrets").write_text(f"# the old one\n{secret_of('old')}\n\n{SECRET}\n")
    listener = listen("--secret-file", "secrets")

    statuses = [
        listener.post("/hooks").status_code,
        listener.post("/hooks", webhook_signature="v1,AAAA").status_code,
        listener.post("/hooks", body=b'{"type":"a","x":"\x1b[31m"}\n', event_id="evt_2").status_code,
        httpx2.get(listener.url, trust_env=False).status_code,
    ]

    assert listener.end() == 0
    lines = listener.lines()
    assert statuses == [200, 401, 200, 405]
    assert len(lines) == 4
    assert "200  /hooks  order.created  evt_1  attempt 1  signature good" in lines[0]
    assert "401  /hooks" in lines[1]
    assert "signature bad" in lines[1]
    assert r"\x1b[31m" in lines[2]
    assert "\x1b" not in listener.out.read_text()


def test_a_secret_comes_from_the_variable(listen: Listen) -> None:
    """Secrets come from a file or the environment, never from argv."""
    listener = listen("--json", WEBHOOK_SECRET=f"{secret_of('old')} {SECRET}")

    listener.post()
    listener.post(body=b"\xff", event_id="evt_2")

    assert listener.end() == 0
    first, second = listener.rows()
    assert (first["webhook_id"], first["signature"], first["status"]) == ("evt_1", "good", 200)
    assert (second["signature"], second["body"]) == ("bad", r"\xff")  # the helper signs other bytes
    assert SECRET not in listener.out.read_text() + listener.said()


def test_without_a_secret_it_says_that_nothing_is_checked(listen: Listen) -> None:
    """An unchecked request never looks like a verified one."""
    listener = listen("--count", "1")

    listener.post()

    assert listener.process.wait(60) == 0
    assert "signatures are not checked" in listener.said()
    assert "signature unchecked" in listener.lines()[0]


def test_paths_behave_and_options_rule_the_rest(listen: Listen) -> None:
    """Several behaviours on one port; Retry-After and attempts are printed."""
    listener = listen("--json", "--status", "202")

    asked = [
        "/",
        "/dead",
        "/gone",
        "/busy?retry-after=7",
        "/slow?delay=0.01",
        "/flaky?fail-ratio=1",
        "/slow?delay=x",
    ]
    answers = [listener.post(path) for path in asked]
    again = listener.post("/dead")

    assert listener.end() == 0
    assert [a.status_code for a in answers] == [202, 503, 410, 429, 200, 503, 400]
    assert answers[3].headers["retry-after"] == "7"
    assert again.status_code == 503
    rows = listener.rows()
    assert [row["path"] for row in rows[:4]] == ["/", "/dead", "/gone", "/busy"]
    assert rows[3]["retry_after_s"] == 7
    assert rows[4]["took_s"] >= 0.01
    assert "--delay" in rows[6]["problem"]
    assert (rows[7]["attempt"], rows[1]["attempt"]) == (2, 1)


def test_hold_answers_all_at_once_and_reports_callers_that_left(listen: Listen) -> None:
    """Nothing is answered until all are there; a caller that goes away is reported as cut."""
    listener = listen("--json", "--hold", "3")

    with ThreadPoolExecutor(3) as callers:
        first = [callers.submit(listener.post, "/", event_id=f"e{n}") for n in range(2)]
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(f"{listener.url}/hold", content=b"{}", timeout=0.5, trust_env=False)
        assert wait_until(lambda: len(listener.lines()) == 1, 60)
        assert not any(call.done() for call in first)
        last = listener.post("/", event_id="e2")
        statuses = [call.result(60).status_code for call in first]

    assert listener.end() == 0
    assert [*statuses, last.status_code] == [200, 200, 200]
    assert (listener.rows()[0]["path"], listener.rows()[0]["status"]) == ("/hold", None)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--secret-file", "empty"), 1, "empty: contains no secret"),
        (("--secret-file", "wrong"), 1, "wrong:2: "),
        (("--secret-file", "nothing"), 1, "nothing: "),
        (("--fail-ratio", "2"), 1, "--fail-ratio: must be 0 to 1"),
        (("--tenant", "acme"), 2, "--tenant goes with --subscribe"),
        (("--subscribe", "#", "--secret-file", "empty"), 2, "leave --secret-file out"),
        (("--subscribe", "#"), 1, "127.0.0.0/8"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """CLI contract: 1 failed, 2 wrong usage; a secret is never repeated."""
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "wrong").write_text(f"{SECRET}\nwhsec_hush\n")

    done = leveret.run("listen", "--port", "0", *arguments, env=python_env(), cwd=tmp_path)

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "hush" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_names_the_remedy(tmp_path: Path) -> None:
    """Fault 61: it does not start, and names the option to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = leveret.run("listen", "--port", port, env=python_env(), cwd=tmp_path)

    assert done.returncode == 1
    assert f"port {port}: " in done.stderr
    assert done.stderr.splitlines()[-1].endswith("choose another with --port")


async def test_a_guest_subscription_lives_as_long_as_the_listener(
    listen: Listen, shared: Daemon, publisher: EventPublisher
) -> None:
    """--subscribe registers its own endpoint with a secret of its own, and removes it."""
    known = len(await shared.entries())
    listener = listen("--json", "--subscribe", "order.*", "--tenant", "guest", **shared.env)
    await shared.knows(known + 1)

    await publisher.publish("guest", "order.created", b'{"n":1e400}')
    await publisher.publish("guest", "invoice.paid")
    await until(lambda: len(listener.lines()) >= 1, "a webhook")
    code = listener.end()

    [row] = listener.rows()
    assert code == 0
    assert (row["type"], row["signature"], row["status"]) == ("order.created", "good", 200)
    assert '"data":{"n":1e400}' in row["body"]
    names = [row["name"] for row in await shared.listing("subscriptions", "list")]
    assert not [name for name in names if str(name).startswith("listen-")]
