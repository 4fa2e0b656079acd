"""``leveret subscriptions`` as a user meets it, on a store of its own."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.retry.policy import POLICIES
from consumer.core.webhook.signing import parse_secret
from tests.cli.conftest import Run, rows
from tests.core.subscriptions import AUTH, TLS, secret_of

SHOP = {
    "tenant": "acme",
    "name": "shop",
    "url": "https://hooks.acme.example/orders?token=hush",
    "events": ["order.*"],
    "headers": {"authorization": "Bearer hush"},
}
TILL = {"tenant": "acme", "name": "till", "url": "https://till.acme.example/", "events": ["#"]}


def text(*entries: Mapping[str, object]) -> str:
    """Return a subscriptions file."""
    return yaml.safe_dump({"subscriptions": [dict(entry) for entry in entries]})


def kept(run: Run) -> list[dict[str, Any]]:
    """Return everything that is kept, secrets included."""
    document = json.loads(run("subscriptions", "export", "--show-secrets", "--json").stdout)
    entries: list[dict[str, Any]] = document["subscriptions"]
    return entries


def error(result: Result) -> str:
    """Return the one line on stderr of a command that failed."""
    assert result.exit_code == 1, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith("leveret: ")
    return line.removeprefix("leveret: ")


# apply


def test_a_folder_is_applied_as_one_file(run: Run, tmp_path: Path) -> None:
    """Every YAML and JSON file below it, hidden ones left out, whatever their order."""
    inner = tmp_path / "subs" / "acme"
    inner.mkdir(parents=True)
    (inner / "shop.yaml").write_text(text(SHOP))
    (inner / "till.json").write_text(json.dumps({"subscriptions": [TILL]}))
    (inner / "README.md").write_text("no subscriptions")
    (tmp_path / "subs" / "..data").mkdir()
    (tmp_path / "subs" / "..data" / "shop.yaml").write_text(text(SHOP))

    first = run("subscriptions", "apply", "subs", "--prune")
    again = run("subscriptions", "apply", "subs", "subs/acme/shop.yaml", "--prune")

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "2 added, 0 changed, 0 unchanged, 0 removed" in first.stdout
    assert again.stdout == "0 added, 0 changed, 2 unchanged, 0 removed\n"


def test_mistakes_of_all_files_are_told_at_once(run: Run, tmp_path: Path) -> None:
    """Each with its file and line, those between files too; nothing is stored."""
    folder = tmp_path / "subs"
    folder.mkdir()
    (folder / "a.yaml").write_text(text(SHOP))
    (folder / "b.yaml").write_text(
        "subscriptions:\n- url: https://hooks.acme.example/orders?token=hush\n"
        "  tenant: acme\n  name: other\n  events: ['#']\n"
    )
    (folder / "c.yaml").write_text("subscriptions: [}")
    (folder / "d.yaml").write_text("subscriptions:\n- url: ftp://x/\n  events: ['#']\n")

    failed = run("subscriptions", "apply", "subs")

    places = [line.split(" ")[1] for line in failed.stderr.splitlines()]
    assert failed.exit_code == 1
    assert places == ["subs/b.yaml:2:", "subs/c.yaml:1:", "subs/d.yaml:2:"]
    assert "tenant acme already has this URL, as 'shop'" in failed.stderr
    assert kept(run) == []


def test_an_empty_folder_is_no_reason_to_prune(run: Run, tmp_path: Path) -> None:
    """Rules, errors: a wrong path does not remove every subscription."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    (tmp_path / "empty").mkdir()

    failed = run("subscriptions", "apply", "empty", "--prune")

    assert "empty: holds no .yaml, .yml, .json file" in error(failed)
    assert len(kept(run)) == 1


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_files_that_name_nothing_prune_only_when_told_so(run: Run, words: tuple[str, ...]) -> None:
    """Rules, errors: an empty list removes everything only with --yes; where nothing is, nothing is asked."""
    empty, prune = "subscriptions: []\n", ("subscriptions", "apply", "-", "--prune", *words)
    assert run(*prune, stdin=empty).exit_code == 0
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL))

    refused = run(*prune, stdin=empty)
    bare = [run(*prune, "--yes", stdin=stdin) for stdin in ("", "subscriptions:\n")]
    shown = run(*prune, "--dry-run", stdin=empty)

    assert refused.exit_code == 2
    assert "the files name no subscription, and --prune would remove all 2" in flat(refused.stderr)
    assert "take --yes" in flat(refused.stderr)
    assert ["must begin with `subscriptions:` and a list" in error(one) for one in bare] == [True, True]
    assert (shown.exit_code, len(kept(run))) == (0, 2)
    assert run(*prune, "--yes", stdin=empty).exit_code == 0
    assert kept(run) == []


def flat(shown: str) -> str:
    """Return what a box on stderr says, as one line."""
    return " ".join(shown.replace("│", " ").split())


def test_dry_run_tells_all_and_changes_nothing(run: Run) -> None:
    """Field by field, never a secret, and the store is as it was."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL))
    before = kept(run)
    new = {**TILL, "name": "new", "url": "https://new.example/"}
    changed = {**SHOP, "timeout_s": 3, "headers": {"authorization": "hush2"}, "secrets": [secret_of("hush")]}

    shown = run("subscriptions", "apply", "-", "--prune", "--dry-run", stdin=text(changed, new))
    objects = rows(
        run("subscriptions", "apply", "-", "--prune", "--dry-run", "--json", stdin=text(changed, new))
    )

    assert shown.stdout.splitlines() == [
        "+ acme/new -> https://new.example/",
        "    url: https://new.example/",
        "    events: #",
        "    secrets: 1 x ***",
        "~ acme/shop -> https://hooks.acme.example/orders",
        "    secrets: 1 x *** -> 1 x ***",
        "    timeout_s: - -> 3",
        "    headers.authorization: *** -> ***",
        "- acme/till -> https://till.acme.example/",
        "1 added, 1 changed, 0 unchanged, 1 removed; dry run: nothing was written",
    ]
    assert [(o["change"], o["name"], o["dry_run"]) for o in objects] == [
        ("added", "new", True),
        ("changed", "shop", True),
        ("removed", "till", True),
    ]
    assert "whsec_" not in shown.output + str(objects)
    assert "hush" not in shown.output + str(objects)
    assert kept(run) == before


def test_dry_run_on_an_empty_home_makes_nothing(run: Run, tmp_path: Path) -> None:
    """Looking leaves no trace."""
    shown = run("subscriptions", "apply", "-", "--dry-run", stdin=text(SHOP))

    assert shown.exit_code == 0
    assert list(tmp_path.iterdir()) == []


# add, remove


def test_add_list_show_remove(run: Run) -> None:
    """One subscription from the command line, its secret shown once."""
    added = run(
        *("subscriptions", "add", "https://a.example/x?k=hush", "--tenant", "acme", "--name", "shop"),
        *("--event", "order.*", "--event", "invoice.paid", "--policy", "linear", "--timeout-s", "3"),
    )

    secret = added.stdout.splitlines()[-1].removeprefix("secret, shown this once: ")
    parse_secret(secret)
    [shown] = rows(run("subscriptions", "show", "acme/shop", "--json"))
    assert (shown["retry"], shown["timeout_s"], shown["events"]) == (
        "linear",
        3.0,
        ["order.*", "invoice.paid"],
    )
    assert (shown["delays_s"], shown["signed_with"]) == ([5.0, 5.0], ["v1 (HMAC-SHA256)"])
    for view in (run("subscriptions", "show", "shop"), run("subscriptions", "list")):
        assert secret not in view.output
        assert "hush" not in view.output
    removed = run("subscriptions", "remove", str(shown["id"]))
    assert removed.stdout == "removed acme/shop -> https://a.example/x\n"
    assert kept(run) == []


def test_add_takes_a_secret_and_a_url_from_elsewhere(run: Run, tmp_path: Path) -> None:
    """Rules, secrets: neither has to stand on the command line, and what was given is not shown."""
    (tmp_path / "secret").write_text(secret_of("own") + "\n")

    added = run(
        *("subscriptions", "add", "-", "--event", "#", "--secret-file", "secret"),
        stdin="https://a.example/?k=hush\n",
    )
    both = run("subscriptions", "add", "-", "--event", "#", "--secret-file", "-", stdin="x")

    [entry] = kept(run)
    assert added.exit_code == 0
    assert secret_of("own") not in added.output
    assert (entry["url"], entry["secrets"]) == ("https://a.example/?k=hush", [secret_of("own")])
    assert both.exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("http://a.example/", "--event", "#"), "url: "),
        (("https://a.example/", "--event", "a..b"), "events: 'a..b' is not an event pattern"),
        (
            ("https://a.example/", "--event", "#", "--policy", "defalt"),
            "retry.policy: 'defalt' is not one of",
        ),
        (
            ("https://a.example/", "--event", "#", "--timeout-s", "31"),
            "timeout_s: must be a number from 1 to 30",
        ),
        (("https://a.example/", "--event", "#", "--secret-file", "no"), "no: No such file"),
    ],
)
def test_add_names_what_is_wrong(run: Run, words: tuple[str, ...], told: str) -> None:
    """Rules, errors: one line with field and remedy; nothing is stored."""
    assert told in error(run("subscriptions", "add", *words))
    assert kept(run) == []


def test_a_miss_names_near_ones_and_removes_nothing(run: Run) -> None:
    """Of several names one is wrong: nothing is removed."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL))

    failed = run("subscriptions", "remove", "acme/till", "acme/shpo")

    assert error(failed) == "no subscription 'acme/shpo'; did you mean acme/shop?"
    assert len(kept(run)) == 2


def test_a_subscription_is_named_in_one_way(run: Run) -> None:
    """Outside contract, CLI: wrong usage is 2."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))

    assert run("subscriptions", "show", "--tenant", "acme", "--name", "shop").exit_code == 0
    assert run("subscriptions", "show").exit_code == 2
    assert run("subscriptions", "show", "acme/shop", "--name", "shop").exit_code == 2


# enable, disable


def test_disable_outlives_an_apply_and_enable_ends_it(run: Run) -> None:
    """By hand, with a reason; the next apply says that it stays so."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))

    off = run("subscriptions", "disable", "acme/shop", "--reason", "moving")
    applied = run("subscriptions", "apply", "-", stdin=text(SHOP))
    [row] = rows(run("subscriptions", "list", "--json"))
    on = rows(run("subscriptions", "enable", "acme/shop", "--json"))
    again = rows(run("subscriptions", "enable", "acme/shop", "--json"))

    assert off.stdout.startswith("disabled acme/shop")
    assert (row["enabled"], row["disabled_reason"]) == (False, "moving")
    assert "acme/shop stays disabled since" in applied.stderr
    assert [one["change"] for one in on + again] == ["enabled", "unchanged"]
    assert rows(run("subscriptions", "list", "--json"))[0]["enabled"] is True


# rotate-secret


def test_rotation_shows_the_new_secret_once_and_keeps_the_old(run: Run) -> None:
    """SW-32: both sign during the overlap; --drop-old ends it and makes none."""
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "secrets": [secret_of("old")]}))

    rotated = run("subscriptions", "rotate-secret", "acme/shop")
    [overlap] = kept(run)
    dropped = run("subscriptions", "rotate-secret", "acme/shop", "--drop-old")
    [after] = kept(run)

    new = rotated.stdout.splitlines()[-1].removeprefix("new secret, shown this once: ")
    assert overlap["secrets"] == [new, secret_of("old")]
    assert after["secrets"] == [new]
    assert secret_of("old") not in rotated.output
    assert new not in dropped.output
    assert "1 secret signs" in dropped.stdout


def test_an_ed25519_key_is_rotated_to_one_of_its_kind(run: Run) -> None:
    """SW-10, SW-31: receivers that verify v1a go on doing so; the private half is not shown."""
    private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "secrets": [private]}))

    rotated = run("subscriptions", "rotate-secret", "acme/shop")
    [row] = rows(run("subscriptions", "rotate-secret", "acme/shop", "--json"))

    assert "public key for its receivers: whpk_" in rotated.stdout
    assert "whsk_" not in rotated.output + str(row)
    assert str(row["public_key"]).startswith("whpk_")
    assert [str(secret)[:5] for secret in kept(run)[0]["secrets"]] == ["whsk_"] * 3


def test_a_given_secret_comes_from_a_file(run: Run, tmp_path: Path) -> None:
    """Rules, secrets: never from the command line; a file that holds more than it is refused."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    (tmp_path / "two").write_text("a\nb\n")

    given = run(
        "subscriptions", "rotate-secret", "acme/shop", "--secret-file", "-", stdin=secret_of("mine") + "\n"
    )
    refused = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "two")
    wrong = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "two", "--drop-old")

    assert secret_of("mine") not in given.output
    assert kept(run)[0]["secrets"][0] == secret_of("mine")
    assert error(refused) == "two: holds 2 lines; write the secret alone into it, on one line"
    assert wrong.exit_code == 2


# export, schema


def test_an_export_is_taken_back_with_no_change(run: Run, tmp_path: Path) -> None:
    """Without secrets into the same store, with them into an empty one."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL, {**TILL, "tenant": "globex"}))
    bare = run("subscriptions", "export").stdout
    full = run("subscriptions", "export", "--show-secrets").stdout
    one = run("subscriptions", "export", "--tenant", "globex").stdout

    assert "whsec_" not in bare
    assert run("subscriptions", "apply", "-", "--prune", stdin=bare).stdout.startswith(
        "0 added, 0 changed, 3"
    )
    assert [entry["tenant"] for entry in yaml.safe_load(one)["subscriptions"]] == ["globex"]
    before = kept(run)
    moved = run("subscriptions", "apply", "-", "--json", stdin=full, HOME=str(tmp_path / "other"))
    assert [row["change"] for row in rows(moved)] == ["added"] * 3
    assert not any("secret" in row for row in rows(moved))
    exported = run("subscriptions", "export", "--show-secrets", "--json", HOME=str(tmp_path / "other"))
    assert json.loads(exported.stdout)["subscriptions"] == before


def test_schema_knows_the_policies_of_the_settings(run: Run, tmp_path: Path) -> None:
    """What editors check by; own policies are valid in it."""
    assert json.loads(run("subscriptions", "schema").stdout) == subscriptions_schema(POLICIES)
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')

    assert '"night"' in run("subscriptions", "schema").stdout


# credentials

GUARDED = {**SHOP, "headers": {}, "auth": AUTH["oauth2"], "tls": TLS["pair"]}
KEYS = [base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)]


def test_show_names_account_and_certificate_and_no_secret(run: Run) -> None:
    """What auth and tls hold, for people and as JSON, never the secret."""
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


def test_a_dry_run_tells_that_a_credential_changes(run: Run) -> None:
    """Only the client secret and the query of the token URL are others; neither is shown."""
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
    """The same store changes nothing; an empty one names each field, or takes it all."""
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
    """Fault 69: each command leaves what is sealed or says what to do; --lost-key gives it up."""
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


# bad input


SHORT = (
    "a secret has 24 to 64 bytes, this one has 4 as written; "
    "leave the secret out, and Leveret generates one and shows it once"
)


def test_what_stdin_or_a_file_should_hold_is_told(run: Run, tmp_path: Path) -> None:
    """Rules, errors: bytes that are no text and an empty file are one line; no secret is made instead."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "short").write_text("hush\n")
    before = kept(run)

    url = run("subscriptions", "add", "-", "--event", "#", stdin=b"https://\xff.example/")
    none = run("subscriptions", "add", "-", "--event", "#", stdin="")
    empty = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "empty")
    short = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "short")
    added = run("subscriptions", "add", TILL["url"], "--event", "#", "--secret-file", "-", stdin="hush")

    assert error(url) == "stdin: is not UTF-8 text; write the URL alone into it"
    assert error(none) == "stdin: holds 0 lines; write the URL alone into it, on one line"
    assert error(empty) == "empty: holds 0 lines; write the secret alone into it, on one line"
    assert error(short) == f"short: {SHORT}"
    assert error(added) == f"stdin: {SHORT}"
    assert kept(run) == before


def test_a_policy_that_is_gone_is_told_with_its_subscription(run: Run, tmp_path: Path) -> None:
    """Rules, errors: a policy taken out of the settings names who wants it; export and remove go on."""
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "retry": {"policy": "night"}}))
    (tmp_path / "leveret.toml").write_text("")

    for words in (("list",), ("show", "acme/shop"), ("test", "acme/shop")):
        assert error(run("subscriptions", *words)).startswith(
            "acme/shop: retry.policy: 'night' is not one of "
        )
    assert run("subscriptions", "remove", "acme/shop").exit_code == 0


def test_a_list_goes_on_past_one_whose_policy_is_gone(run: Run, tmp_path: Path) -> None:
    """Each is shown, the one at fault with its fault and without waits; exit 1 names it."""
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "retry": {"policy": "night"}}, TILL))
    (tmp_path / "leveret.toml").write_text("")

    listed = run("subscriptions", "list", "--json")
    table = run("subscriptions", "list")
    shown = run("subscriptions", "show", "acme/shop", "--json")

    shop, till = rows(listed)
    assert [shop[name] for name in ("name", "retry", "max_attempts", "timeout_s")] == ["shop", None, None, 15]
    assert str(shop["fault"]).startswith("retry.policy: 'night' is not one of")
    assert (till["name"], till["retry"], till["fault"]) == ("till", "default", None)
    assert [row.split()[1] for row in table.stdout.splitlines()] == ["name", "shop", "till"]
    assert [error(one) for one in (listed, table, shown)] == [f"acme/shop: {shop['fault']}"] * 3
    assert rows(shown)[0]["delays_s"] is None
    assert run("subscriptions", "list", "--tenant", "globex").exit_code == 0


@pytest.mark.parametrize("scope", [("--all",), ("--tenant", "acme"), ("--subscription", "acme/shop")])
def test_a_pause_is_shown(run: Run, scope: tuple[str, ...]) -> None:
    """Whichever pause holds it, list and show say so; one that is not held does not."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, {**TILL, "tenant": "globex"}))
    assert [row["paused"] for row in rows(run("subscriptions", "list", "--json"))] == [False, False]

    run("pause", *scope)

    listed = rows(run("subscriptions", "list", "--json"))
    assert [row["paused"] for row in listed] == [True, scope == ("--all",)]
    assert rows(run("subscriptions", "show", "acme/shop", "--json"))[0]["paused"] is True
    assert "paused" in run("subscriptions", "list").stdout.splitlines()[0].split()


def test_an_eleventh_secret_is_refused_with_the_time_at_which_the_oldest_ends(run: Run) -> None:
    """The receivers of the oldest would reject every webhook; nothing is exported of it."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    for _ in range(9):
        assert run("subscriptions", "rotate-secret", "acme/shop").exit_code == 0
    [before] = kept(run)

    told = error(run("subscriptions", "rotate-secret", "acme/shop"))
    newer = [secret_of("new"), *before["secrets"][:-1]]
    by_file = error(run("subscriptions", "apply", "-", stdin=text({**SHOP, "secrets": newer})))

    assert re.search(
        r"acme/shop: secrets: 10 sign already, .* ends at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told
    )
    assert "10 sign already" in by_file
    assert kept(run) == [before]
    assert "replaced_at" not in before
    assert run("subscriptions", "rotate-secret", "acme/shop", "--drop-old").exit_code == 0
    assert run("subscriptions", "rotate-secret", "acme/shop").exit_code == 0
