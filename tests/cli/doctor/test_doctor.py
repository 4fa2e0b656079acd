"""`leveret doctor` on a real broker and a real store: what it prints, and what it leaves unchanged."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from consumer.core.tools.doctor.finding import Check, Level
from consumer.edges.private_broker import BrokerEndpoint
from tests.support.command_line import Run, rows, text
from tests.support.data import ROOT
from tests.support.processes.children import free_port

ENDPOINT = "https://127.0.0.1:{port}/hook?key=hush-token"
HUSHED = ("hush-token", "hush-bearer", "hush-proxy")


@pytest.fixture
def settings(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> Mapping[str, str]:
    """Settings for the test's vhost, whose endpoint is away."""
    return {
        "HOME": str(tmp_path / "home"),
        "AMQP_URL": vhost,
        "AMQP__MANAGEMENT_URL": broker.management_url,
        "TOPOLOGY__LANES": "2",
        "TOPOLOGY__RUNGS_S": "[0.5, 1.0]",
        "EGRESS__ALLOW": '["127.0.0.0/8"]',
        "LISTEN": f"127.0.0.1:{free_port()}",
    }


@pytest.fixture
def stored(run: Run, settings: Mapping[str, str], tmp_path: Path) -> Mapping[str, str]:
    """The same, with a subscription and a declared topology."""
    entry = {
        "tenant": "acme",
        "name": "shop",
        "url": ENDPOINT.format(port=free_port()),
        "events": ["order.*"],
        "auth": {"bearer": "hush-bearer"},
    }
    file = tmp_path / "subscriptions.yaml"
    file.write_text(text(entry))
    assert run("topology", "apply", **settings).exit_code == 0
    assert run("subscriptions", "apply", str(file), **settings).exit_code == 0
    return settings


def test_a_fresh_installation_has_no_fault(run: Run, settings: Mapping[str, str]) -> None:
    """Before the first start there are notes and warnings; nothing is created."""
    result = run("doctor", "--json", **settings)

    assert result.exit_code == 0, result.stdout
    found = {(row["check"], row["level"]) for row in rows(result)}
    assert {("home", "note"), ("store", "note"), ("topology", "warning"), ("login", "ok")} <= found
    assert not Path(settings["HOME"]).exists()


def test_what_the_daemon_does_not_declare_is_a_fault(run: Run, settings: Mapping[str, str]) -> None:
    """With [topology] declare = false nobody else makes the queues."""
    result = run("doctor", "--json", **settings, TOPOLOGY__DECLARE="false")

    assert result.exit_code == 1
    [found] = [row for row in rows(result) if row["check"] == "topology"]
    assert (found["level"], "topology apply" in str(found["remedy"])) == ("fault", True)


def test_one_line_each_with_the_remedy(run: Run, stored: Mapping[str, str]) -> None:
    """Every line has level, check, subject and text, and its remedy behind a semicolon unless it is well."""
    result = run("doctor", **stored)
    *lines, last = result.stdout.splitlines()

    assert result.exit_code == 0, result.stdout
    assert re.fullmatch(r"\d+ warnings?, \d+ notes?, \d+ ok", last)
    assert all(re.match(r"(fault|warning|note|ok) +[a-z]+ +\S.*: ", line) for line in lines)
    assert all("; " in line for line in lines if line.startswith(("fault", "warning")))
    quiet = run("doctor", "--quiet", **stored).stdout.splitlines()
    assert told([line for line in lines if not line.startswith("ok")]) == told(quiet[:-1])


def told(lines: list[str]) -> list[str]:
    """Return the lines without those on numbers that the management API knows only now and then."""
    return [line for line in lines if "is not known yet" not in line]


def test_no_line_contains_a_secret(run: Run, stored: Mapping[str, str], broker: BrokerEndpoint) -> None:
    """Neither passwords of broker, database and proxy, nor tokens of URLs, nor keys."""
    variants: tuple[Mapping[str, str], ...] = (
        {},
        {"AMQP_URL": stored["AMQP_URL"].replace(broker.password, "hush-proxy")},
        {"EGRESS__PROXY": "http://user:hush-proxy@127.0.0.1:1"},
        {"DATABASE_URL": "postgresql://user:hush-proxy@127.0.0.1:1/leveret"},
        {"AMQP_URL": "amqp://user:hush-proxy@nowhere.invalid"},
        {"STORE__KEY": "hush-proxy"},
    )
    key = (Path(stored["HOME"]) / "store.key").read_text().strip()
    for variant in variants:
        for form in ((), ("--json",)):
            result = run("doctor", *form, **{**stored, **variant})
            assert "Traceback" not in result.output
            assert [word for word in (*HUSHED, broker.password, key) if word in result.output] == []


def test_hostile_text_is_printable(run: Run, stored: Mapping[str, str]) -> None:
    """A reason from an endpoint cannot control the terminal."""
    with closing(sqlite3.connect(Path(stored["HOME"]) / "leveret.db")) as database, database:
        hostile = "\x1b[2J\u202egone\r\n\x07"
        database.execute("UPDATE leveret_subscriptions SET enabled = 0, disabled_reason = ?", (hostile,))

    for form in ((), ("--json",)):
        lines = run("doctor", *form, **stored).stdout.splitlines()
        assert any("is disabled: \\" in line for line in lines)
        assert all(line.isprintable() for line in lines)


def test_faults_of_the_settings_are_lines_too(run: Run) -> None:
    """The same form, the same exit code; no other check is possible then."""
    result = run("doctor", "--json", SENDING__CONCURRENCY="many", LISTEN="nowhere")

    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, len(found)) == (1, 2)
    assert all(
        (row["check"], row["level"], bool(row["remedy"])) == ("settings", "fault", True) for row in found
    )


def test_one_of_two_brokers_away_is_a_warning(run: Run, stored: Mapping[str, str]) -> None:
    """Leveret tries the URLs in turn, so one that answers is enough."""
    both = f"amqp://user:password@127.0.0.1:1 {stored['AMQP_URL']}"
    result = run("doctor", "--json", **{**stored, "AMQP_URL": both, "AMQP__MANAGEMENT_URL": ""})

    login = [row["level"] for row in rows(result) if row["check"] == "login"]
    assert (result.exit_code, login) == (0, ["warning", "ok"])


def test_the_doctor_changes_nothing(run: Run, stored: Mapping[str, str], management: httpx2.Client) -> None:
    """Queues, bindings, messages and the store's file are the same afterwards."""
    vhost = urlsplit(stored["AMQP_URL"]).path[1:]

    def state() -> object:
        queues = management.get(f"/api/queues/{vhost}?disable_stats=true&enable_queue_totals=true").json()
        messages = {queue["name"]: queue.get("messages", 0) for queue in queues}
        exchanges = [each["name"] for each in management.get(f"/api/exchanges/{vhost}").json()]
        bindings = len(management.get(f"/api/bindings/{vhost}").json())
        with closing(sqlite3.connect(Path(stored["HOME"]) / "leveret.db")) as database:
            dump = list(database.iterdump())
        return messages, exchanges, bindings, dump

    before = state()
    assert run("doctor", **stored).exit_code == 0
    assert run("doctor", **{**stored, "AMQP__MANAGEMENT_URL": ""}).exit_code == 0
    assert state() == before


def test_without_endpoints_none_is_tried(run: Run, stored: Mapping[str, str]) -> None:
    """--endpoints 0 opens no connection to a customer's server, and a note counts them."""
    result = run("doctor", "--json", "--endpoints", "0", **stored)

    [found] = [row for row in rows(result) if row["check"] == "endpoints"]
    assert (found["level"], found["text"]) == ("note", "1 of 1 endpoints were not tried")


def test_a_private_broker_that_is_not_started_is_a_warning(run: Run) -> None:
    """The daemon starts it, so a first run of the doctor has no fault; nothing is started by the doctor."""
    result = run("doctor", "--json", LISTEN=f"127.0.0.1:{free_port()}")

    [login] = [row for row in rows(result) if row["check"] == "login"]
    assert (result.exit_code, login["level"]) == (0, "warning"), result.stdout
    assert "leveret run" in str(login["remedy"])
    assert not Path(".leveret").exists()


def test_every_check_is_documented() -> None:
    """An operator finds each check that a line can name, in the order of the lines."""
    page = (ROOT / "docs" / "operate.md").read_text().partition("## Doctor")[2].partition("\n## ")[0]

    documented = [
        name for name in re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE) if name not in set(Level)
    ]
    assert documented == [check.value for check in Check]
