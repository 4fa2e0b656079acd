"""``leveret tokens`` and ``leveret audit``."""

from __future__ import annotations

import json

from consumer.core.store.tokens import parse_token
from tests.support.command_line import Run


def test_a_token_is_printed_once(run: Run) -> None:
    """Only its text is on stdout, so that a script can take it; no list contains it."""
    made = run("tokens", "create", "shop", "--scope", "operate", "--tenant", "acme", "--expires-in", "90d")
    listed = run("tokens", "list", "--json")
    row = json.loads(listed.stdout)

    assert made.exit_code == 0, made.stderr
    presented = parse_token(made.stdout.strip())
    assert presented is not None
    assert (row["id"], row["scope"], row["tenant"], row["state"]) == (
        presented.id,
        "operate",
        "acme",
        "valid",
    )
    assert presented.secret not in listed.stdout


def test_a_revoked_token_stays_in_the_list(run: Run) -> None:
    """A second revocation, and an unknown id, are errors."""
    token = json.loads(run("tokens", "create", "shop", "--json").stdout)

    assert run("tokens", "revoke", token["id"]).exit_code == 0
    assert json.loads(run("tokens", "list", "--json").stdout)["state"] == "revoked"
    assert "before" in run("tokens", "revoke", token["id"]).stderr
    assert "no token" in run("tokens", "revoke", "0" * 12).stderr


def test_names_are_checked(run: Run) -> None:
    """A name that could control a terminal, and a tenant that cannot exist, are refused."""
    assert run("tokens", "create", "\x1b[31m").exit_code == 1
    assert run("tokens", "create", "x", "--tenant", "a b").exit_code == 1


def test_the_command_line_writes_the_audit_log(run: Run) -> None:
    """Each change has the user of the operating system as its author."""
    run("subscriptions", "add", "https://a.example/", "--event", "#", "--tenant", "acme", "--name", "shop")
    run("subscriptions", "disable", "acme/shop", "--reason", "they migrate")
    run("pause", "--tenant", "acme")

    found = run("audit", "--json", "--tenant", "acme")
    rows = [json.loads(line) for line in found.stdout.splitlines()]

    assert [row["action"] for row in rows] == ["pause.set", "subscription.changed", "subscription.added"]
    assert all(row["who"].startswith("cli:") for row in rows)
    assert rows[1]["after"]["disabled_reason"] == "they migrate"
    assert "whsec" not in found.stdout
    assert run("audit", "--action", "token", "--since", "1h").stdout == "nothing was changed\n"
