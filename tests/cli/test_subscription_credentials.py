"""``leveret subscriptions`` never shows a credential, and keeps them all."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.builders.subscriptions import AUTH, TLS
from tests.support.command_line import SHOP, TILL, Run, error, kept, rows, text

GUARDED = {**SHOP, "headers": {}, "auth": AUTH["oauth2"], "tls": TLS["pair"]}


KEYS = [base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)]


def test_show_names_account_and_certificate_and_no_secret(run: Run) -> None:
    """The fields of auth and tls are shown for people and as JSON, but never the secret."""
    run("subscriptions", "apply", "-", stdin=text(GUARDED, {**TILL, "auth": AUTH["basic"]}))

    [row] = rows(run("subscriptions", "show", "acme/shop", "--json"))
    [till] = rows(run("subscriptions", "show", "acme/till", "--json"))
    plain = run("subscriptions", "show", "acme/shop").stdout

    assert row["auth"] == {
        "kind": "oauth2",
        "token_url": "https://id.example/t",
        "client_id": "app",
        "client_secret": "***",
        "client_auth": "post",
        "scope": "a b",
    }
    assert (till["auth"], till["tls"]) == ({"kind": "basic", "username": "zoë", "password": "***"}, None)
    tls: Any = row["tls"]
    [certificate] = tls["certificate"]
    assert certificate["subject"] == "CN=leveret"
    assert len(certificate["sha256"]) == 64
    assert tls["key"] == "***"
    assert "subject=CN=leveret" in plain
    for shown in (plain, str(row), str(till)):
        assert not [word for word in ("sesame", "PRIVATE KEY", "hush") if word in shown]


def test_a_dry_run_reports_a_changed_credential(run: Run) -> None:
    """Only the client secret and the query of the token URL differ; neither is shown."""
    run("subscriptions", "apply", "-", stdin=text(GUARDED))
    oauth2: Any = AUTH["oauth2"]["oauth2"]
    other = {"oauth2": oauth2 | {"client_secret": "hush2", "token_url": "https://id.example/t?k=2"}}

    shown = run("subscriptions", "apply", "-", "--dry-run", stdin=text({**GUARDED, "auth": other}))

    assert shown.stdout.splitlines()[:3] == [
        "~ acme/shop -> https://hooks.acme.example/orders",
        "    auth.oauth2.client_secret: *** -> ***",
        "    auth.oauth2.token_url: https://id.example/t?*** -> https://id.example/t?***",
    ]


def test_an_export_of_credentials_is_taken_back_or_asks_for_them(run: Run, tmp_path: Path) -> None:
    """The same store does not change; an empty one needs each secret field, and then accepts the file."""
    run("subscriptions", "apply", "-", stdin=text(GUARDED, {**TILL, "auth": AUTH["bearer"]}))
    bare = run("subscriptions", "export").stdout
    full = run("subscriptions", "export", "--show-secrets").stdout
    before = kept(run)

    same = run("subscriptions", "apply", "-", "--prune", stdin=bare)
    refused = run("subscriptions", "apply", "-", stdin=bare, HOME=str(tmp_path / "other"))
    moved = run("subscriptions", "apply", "-", stdin=full, HOME=str(tmp_path / "other"))

    assert "sesame" not in bare
    assert "PRIVATE KEY" not in bare
    assert same.stdout == "0 added, 0 changed, 2 unchanged, 0 removed\n"
    remedy = "*** keeps the stored secret, but none is stored; write the secret itself"
    assert refused.exit_code == 1
    assert refused.stderr.splitlines() == [
        f"leveret: acme/shop: auth.oauth2.client_secret: {remedy}",
        f"leveret: acme/shop: tls.key: {remedy}",
        f"leveret: acme/till: auth.bearer: {remedy}",
    ]
    assert moved.exit_code == 0
    again = run("subscriptions", "export", "--show-secrets", "--json", HOME=str(tmp_path / "other"))
    assert json.loads(again.stdout)["subscriptions"] == before == kept(run)


def test_a_locked_subscription_loses_nothing_by_command(run: Run) -> None:
    """Fault 69: each command keeps the sealed secrets or names the remedy; --lost-key drops them."""
    first, second = ({"STORE__KEY": key} for key in KEYS)
    run("subscriptions", "apply", "-", stdin=text(GUARDED, TILL), **first)
    full = run("subscriptions", "export", "--show-secrets", **first).stdout

    told = [
        error(run("subscriptions", *words, **second))
        for words in (
            ("rotate-secret", "acme/shop"),
            ("rotate-secret", "acme/shop", "--drop-old"),
            ("test", "acme/shop"),
            ("rotate-secret", "acme/shop", "--lost-key"),
            ("rotate-secret", "acme/till"),
        )
    ]
    exported = run("subscriptions", "export", "--show-secrets", **second)
    twice = run("subscriptions", "rotate-secret", "acme/till", "--lost-key", "--drop-old", **second)

    sealed = [*told[:3], told[4]]
    assert all("sealed with store key" in line and "bring the key back" in line for line in sealed)
    assert all("apply it with new secrets, auth.oauth2.client_secret, tls.key" in line for line in told[:4])
    assert "rotate-secret --lost-key acme/till" in told[4]
    assert (exported.exit_code, len(exported.stderr.splitlines()), twice.exit_code) == (1, 2, 2)
    assert run("subscriptions", "export", "--show-secrets", **first).stdout == full

    given_up = run("subscriptions", "rotate-secret", "acme/till", "--lost-key", "--json", **second)
    both = run("subscriptions", "export", "--show-secrets", "--json", STORE__KEY=" ".join(KEYS))
    [shop, till] = json.loads(both.stdout)["subscriptions"]
    assert till["secrets"] == [rows(given_up)[0]["secret"]]
    assert shop == yaml.safe_load(full)["subscriptions"][0]
