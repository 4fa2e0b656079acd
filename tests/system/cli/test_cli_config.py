"""The commands ``config`` and ``subscriptions`` as a user meets them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from consumer.cli.config import app as config_app
from consumer.cli.subscriptions import app as subscriptions_app
from consumer.core.text.printable import printable

Run = Callable[..., Result]

SHOP = """subscriptions:
  - tenant: acme
    name: shop
    url: https://hooks.acme.example/orders?token=hush
    events: ["order.*", "invoice.paid"]
    retry: {policy: standard-webhooks}
    headers: {authorization: "Bearer hush"}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, with no settings but the given ones."""
    for name in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    apps = {"config": config_app, "subscriptions": subscriptions_app}

    def invoke(group: str, *arguments: str, stdin: str | None = None, **environ: str) -> Result:
        variables = {f"LEVERET_{name}": value for name, value in environ.items()}
        return CliRunner().invoke(apps[group], list(arguments), env=variables, input=stdin)

    return invoke


def json_lines(result: Result) -> list[dict[str, object]]:
    """Return the printed JSON objects, one per line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_show_names_the_source_of_each_setting(run: Run, tmp_path: Path) -> None:
    """`config show` prints the effective values and their origins."""
    (tmp_path / "leveret.toml").write_text("[sending]\ntimeout_s = 7\n")

    shown = run("config", "show", "--json", LISTEN="127.0.0.1:0", PRESET="low-traffic")

    rows = {row["setting"]: row for row in json_lines(shown)}
    assert shown.exit_code == 0
    assert rows["sending.timeout_s"] == {
        "setting": "sending.timeout_s",
        "value": 7.0,
        "source": "file leveret.toml",
    }
    assert rows["listen"]["source"] == "env LEVERET_LISTEN"
    assert rows["breaker.failures"] == {
        "setting": "breaker.failures",
        "value": 3,
        "source": "preset low-traffic",
    }
    assert rows["sending.concurrency"]["source"] == "default"
    assert "sending.timeout_s" in run("config", "show").stdout


@pytest.mark.parametrize(
    ("name", "url", "shown"),
    [
        ("AMQP_URL", "amqp://user:hush@h:5672/v", "amqp://user:***@h:5672/v"),
        ("AMQP_URL", "amqp://u:hu,sh@a amqps://u:hush@b/?x=hush", "amqp://u:***@a amqps://u:***@b/?***"),
        ("AMQP_URL", "amqp://u:hush@a,amqp://u:hush@b", "amqp://u:***@a amqp://u:***@b"),
        ("DATABASE_URL", "postgresql://u:hu@sh@h/db?password=hush", "postgresql://u:***@h/db?***"),
        ("STORE__KEY", f"{'hush' * 10}hus= {'HUSH' * 10}HUS=", "***"),
    ],
)
def test_show_masks_passwords(run: Run, name: str, url: str, shown: str) -> None:
    """No password is printed; the rest of the URL is."""
    for arguments in (["show"], ["show", "--json"]):
        result = run("config", *arguments, **{name: url})
        assert result.exit_code == 0
        assert "hush" not in result.stdout.lower()
        assert shown in result.stdout


def test_check_ends_with_0_or_1_or_2(run: Run) -> None:
    """Outside contract, CLI: 0 done, 1 failed with a line per problem on stderr, 2 wrong usage."""
    good = run("config", "check")
    bad = run("config", "check", SENDING__TIMEOUT_S="31", LOG__LEVEL="loud")
    wrong = run("config", "check", "--no-such-option")

    assert (good.exit_code, bad.exit_code, wrong.exit_code) == (0, 1, 2)
    assert bad.stdout == ""
    assert bad.stderr.splitlines() == [
        "leveret: sending.timeout_s (env LEVERET_SENDING__TIMEOUT_S): "
        "must be a number from 1 to 30, in seconds, not '31'",
        "leveret: log.level (env LEVERET_LOG__LEVEL): must be one of debug, info, warning, error, not 'loud'",
    ]


def test_check_looks_into_the_url_file(run: Run, tmp_path: Path) -> None:
    """Outside contract, environment: a URL file that is missing or holds no URL is found before the start."""
    missing = run("config", "check", AMQP_URL_FILE="secret")
    (tmp_path / "secret").write_text("http://u:hush@h\n")
    wrong = run("config", "check", AMQP_URL_FILE="secret")
    (tmp_path / "secret").write_text("amqp://u:hush@h\n")
    good = run("config", "check", "--json", AMQP_URL_FILE="secret")

    assert (missing.exit_code, wrong.exit_code, good.exit_code) == (1, 1, 0)
    assert "hush" not in missing.output + wrong.output + good.output
    assert json_lines(good) == [{"ok": True, "file": None, "amqp_urls": 1}]


def test_apply_is_idempotent_and_shows_a_generated_secret_once(run: Run, tmp_path: Path) -> None:
    """Outside contract, subscriptions file: a generated secret is shown once; again is no change."""
    (tmp_path / "shop.yaml").write_text(SHOP)

    first = run("subscriptions", "apply", "shop.yaml")
    written = (tmp_path / ".leveret" / "leveret.db").stat()
    second = run("subscriptions", "apply", "shop.yaml")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "secret of acme/shop, shown this once: whsec_" in first.stdout
    assert "1 added, 0 changed, 0 unchanged, 0 removed" in first.stdout
    assert second.stdout == "0 added, 0 changed, 1 unchanged, 0 removed\n"
    after = (tmp_path / ".leveret" / "leveret.db").stat()
    assert (after.st_ino, after.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_list_has_stable_fields_and_no_secret(run: Run, tmp_path: Path) -> None:
    """Outside contract, CLI: one object per line; URLs without query; secrets and header values never."""
    run("subscriptions", "apply", "-", stdin=SHOP)

    listed = run("subscriptions", "list", "--json")
    table = run("subscriptions", "list")

    (row,) = json_lines(listed)
    assert row == {
        "id": "sub_015283ee3ad87156",
        "endpoint": "3a073f79c3bd320d",
        "tenant": "acme",
        "name": "shop",
        "url": "https://hooks.acme.example/orders",
        "events": ["order.*", "invoice.paid"],
        "enabled": True,
        "paused": False,
        "fault": None,
        "locked": None,
        "disabled_reason": None,
        "disabled_at": None,
        "secrets": 1,
        "retry": "standard-webhooks",
        "max_attempts": 10,
        "concurrency": 16,
        "timeout_s": 15.0,
        "breaker_failures": 5,
        "breaker_cooldown_s": 30.0,
        "headers": ["authorization"],
    }
    assert "hush" not in listed.output + table.output
    assert "whsec_" not in listed.output + table.output
    assert "https://hooks.acme.example/orders" in table.stdout


def test_a_bad_file_changes_nothing_and_names_every_line(run: Run, tmp_path: Path) -> None:
    """All faults at once, each with line and field; fault 26: nothing is stored."""
    (tmp_path / "bad.yaml").write_text(SHOP.replace("order.*", "order..x").replace("https:", "ftp:"))

    result = run("subscriptions", "apply", "bad.yaml")

    lines = result.stderr.splitlines()
    assert result.exit_code == 1
    assert [line.split(" ")[1] for line in lines] == ["bad.yaml:4:", "bad.yaml:5:"]
    assert "hush" not in result.output
    assert not (tmp_path / ".leveret").exists()


def test_a_file_that_is_not_there_is_one_line(run: Run) -> None:
    """Outside contract, CLI: errors on stderr in one line with a remedy."""
    result = run("subscriptions", "apply", "nowhere.yaml")

    assert result.exit_code == 1
    assert result.stderr == (
        "leveret: nowhere.yaml: No such file or directory; "
        "check that the file exists and that you may read and write it\n"
    )


def test_local_http_needs_an_allowed_network(run: Run) -> None:
    """Outside contract, environment: http:// is accepted for LEVERET_EGRESS__ALLOW, elsewhere refused."""
    local = 'subscriptions: [{url: "http://127.0.0.1:9000/x", events: ["#"]}]'

    refused = run("subscriptions", "apply", "-", stdin=local)
    taken = run("subscriptions", "apply", "-", "--json", stdin=local, EGRESS__ALLOW='["127.0.0.0/8"]')

    assert refused.exit_code == 1
    assert "egress.allow" in refused.stderr
    assert taken.exit_code == 0
    assert [(row["change"], str(row["secret"])[:6]) for row in json_lines(taken)] == [("added", "whsec_")]


def test_nothing_printed_can_drive_a_terminal() -> None:
    """Fault 51: escapes, line breaks and the like are written out."""
    assert printable("a\x1b]0;x\x07b\r\n\u2028c é") == r"a\x1b]0;x\x07b\r\n\u2028c é"
