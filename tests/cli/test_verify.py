"""``leveret verify``: check a captured webhook whose parts come from files, stdin, variables or the store."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from consumer.core.webhook.signing import Ed25519Key, format_public, parse_secret, sign
from tests.support.builders.subscriptions import secret_of
from tests.support.command_line import Run, rows

BODY = b'{"type":"order.created","data":{"n":1}}'


@pytest.fixture
def captured(tmp_path: Path) -> dict[str, str]:
    """Write a captured request into files, and return its headers."""
    at = int(time.time())
    signature = sign([parse_secret(secret_of("shop"))], "msg_1", at, BODY)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    (tmp_path / "request").write_bytes(f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + BODY)
    (tmp_path / "headers").write_text(json.dumps(headers))
    (tmp_path / "body").write_bytes(BODY)
    (tmp_path / "secret").write_text(secret_of("shop") + "\n")
    (tmp_path / "other").write_text(secret_of("other"))
    return headers


def test_a_whole_request_verifies(run: Run, captured: dict[str, str]) -> None:
    """The matching signature and the age are printed."""
    done = run("verify", "--request", "request", "--secret-file", "other", "--secret-file", "secret")

    lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.output
    assert lines[0].startswith(f"webhook {captured['webhook-id']}, ")
    assert lines[1:] == ["signature 1 (v1) matches secret 2 of 2", "verified"]
    assert "whsec_" not in done.output


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("--headers", "headers", "--body", "body", "--secret-file", "-"), secret_of("shop").encode()),
        (("--headers", "headers", "--secret-file", "secret"), BODY),
        (("--request", "request", "--secret-env", "HOOK_SECRET"), None),
        (("--request", "request", "--subscription", "acme/shop"), None),
    ],
)
def test_each_part_comes_from_anywhere_but_argv(
    run: Run,
    captured: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    stdin: bytes | None,
) -> None:
    """Rules, secrets: a file, stdin, a variable or the store; the body's bytes are unchanged."""
    monkeypatch.setenv("HOOK_SECRET", secret_of("shop"))
    add = (
        "https://a.example/",
        "--event",
        "#",
        "--tenant",
        "acme",
        "--name",
        "shop",
        "--secret-file",
        "secret",
    )
    run("subscriptions", "add", *add)

    done = run("verify", *words, "--json", stdin=stdin)

    [row] = rows(done)
    assert done.exit_code == 0, done.output
    assert (row["ok"], row["fault"], row["event_id"]) == (True, None, "msg_1")
    assert row["matches"] == [{"signature": 1, "version": "v1", "key": 1}]


def test_headers_can_be_options(run: Run, captured: dict[str, str]) -> None:
    """Headers are not secret: they may be on the command line, and override those of a file."""
    options = [word for name, value in captured.items() for word in ("--header", f"{name}: {value}")]

    done = run("verify", *options, "--body", "body", "--secret-file", "secret")
    mended = run(
        *("verify", "--headers", "headers", "--header", "Webhook-Id: msg_2", "--body", "body"),
        *("--secret-file", "secret"),
    )

    assert done.exit_code == 0, done.output
    assert mended.exit_code == 1
    assert mended.stderr.startswith("leveret: does not verify: none of 1 signature(s) matches")


def test_a_fault_is_one_line_and_exit_1(run: Run, captured: dict[str, str], tmp_path: Path) -> None:
    """The exact fault is printed, with --json as a field too."""
    (tmp_path / "body").write_bytes(BODY + b"\n")
    words = ("verify", "--headers", "headers", "--body", "body", "--secret-file", "secret")

    done, told = run(*words), run(*words, "--json")

    [line] = done.stderr.splitlines()
    assert (done.exit_code, told.exit_code) == (1, 1)
    assert "the body ends with a line break that was not signed" in line
    assert rows(told)[0]["ok"] is False


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--request", "request"), 2, ""),
        (("--secret-file", "secret"), 2, ""),
        (("--headers", "headers", "--secret-file", "-"), 2, ""),
        (("--request", "request", "--headers", "headers", "--secret-file", "secret"), 2, ""),
        (("--request", "body", "--secret-file", "secret"), 1, "body: has no blank line"),
        (
            ("--request", "request", "--secret-env", "NO_SUCH"),
            1,
            "the variable NO_SUCH is not set; export it",
        ),
        (("--request", "request", "--secret-file", "headers"), 1, "headers: a secret has 24 to 64 bytes"),
        (("--request", "nowhere", "--secret-file", "secret"), 1, "nowhere: No such file"),
    ],
)
def test_wrong_use_names_its_remedy(
    run: Run, captured: dict[str, str], words: tuple[str, ...], code: int, said: str
) -> None:
    """Outside contract, CLI: 2 for wrong usage, 1 for a fault, in one line."""
    done = run("verify", *words)

    assert done.exit_code == code, done.output
    if code == 1:
        assert done.stderr.startswith(f"leveret: {said}")
        assert len(done.stderr.splitlines()) == 1


def test_a_public_key_in_a_file_verifies(run: Run, captured: dict[str, str], tmp_path: Path) -> None:
    """SW-10: a receiver of ed25519 signatures has only the public half, which a file may contain too."""
    key = Ed25519Key(bytes(range(32)))
    signature = sign([key], "msg_1", int(captured["webhook-timestamp"]), BODY)
    (tmp_path / "headers").write_text(json.dumps(captured | {"webhook-signature": signature}))
    (tmp_path / "public").write_text(format_public(key) + "\n")

    done = run("verify", "--headers", "headers", "--body", "body", "--secret-file", "public")

    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1] == "signature 1 (v1a) matches the secret"


@pytest.mark.usefixtures("captured")
def test_a_locked_subscription_verifies_nothing(run: Run) -> None:
    """Fault 69: the error reports that the secrets cannot be opened, not that the signature is wrong."""
    first, second = ({"STORE__KEY": base64.b64encode(bytes([n]) * 32).decode()} for n in (1, 2))
    run("subscriptions", "add", "https://a.example/", "--name", "shop", "--event", "#", **first)

    done = run("verify", "--request", "request", "--subscription", "default/shop", **second)

    assert done.exit_code == 1
    assert done.stderr.startswith("leveret: default/shop: its secrets are sealed with store key ")
    assert "bring the key back" in done.stderr
