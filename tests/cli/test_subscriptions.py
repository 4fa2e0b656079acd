"""``leveret subscriptions`` as a user sees it, on its own store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.retry.policy import POLICIES
from tests.support.builders.subscriptions import secret_of
from tests.support.command_line import SHOP, TILL, Run, error, flat, kept, rows, text

# apply


def test_a_folder_is_applied_as_one_file(run: Run, tmp_path: Path) -> None:
    """A folder means every YAML and JSON file below it, except hidden ones, in any order."""
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


def test_mistakes_of_all_files_are_reported_at_once(run: Run, tmp_path: Path) -> None:
    """Each mistake has its file and line, also those between files; nothing is stored."""
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
    """Rules, errors: an empty list removes everything only with --yes; an empty store asks nothing."""
    empty, prune = "subscriptions: []\n", ("subscriptions", "apply", "-", "--prune", *words)
    assert run(*prune, stdin=empty).exit_code == 0
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL))

    refused = run(*prune, stdin=empty)
    bare = [run(*prune, "--yes", stdin=stdin) for stdin in ("", "subscriptions:\n")]
    shown = run(*prune, "--dry-run", stdin=empty)

    assert refused.exit_code == 2
    assert "the files name no subscription, and --prune would remove all 2" in flat(refused.stderr)
    assert "give --yes" in flat(refused.stderr)
    assert ["must begin with `subscriptions:` and a list" in error(one) for one in bare] == [True, True]
    assert (shown.exit_code, len(kept(run))) == (0, 2)
    assert run(*prune, "--yes", stdin=empty).exit_code == 0
    assert kept(run) == []


def test_dry_run_prints_all_and_changes_nothing(run: Run) -> None:
    """A dry run shows each field but never a secret, and leaves the store unchanged."""
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
    """A dry run creates no file."""
    shown = run("subscriptions", "apply", "-", "--dry-run", stdin=text(SHOP))

    assert shown.exit_code == 0
    assert list(tmp_path.iterdir()) == []


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
    """Editors validate files with it; policies of the settings are valid in it."""
    assert json.loads(run("subscriptions", "schema").stdout) == subscriptions_schema(POLICIES)
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')

    assert '"night"' in run("subscriptions", "schema").stdout


# bad input


SHORT = (
    "a secret has 24 to 64 bytes, this one has 4 as written; "
    "leave the secret out, and Leveret generates one and shows it once"
)


def test_missing_input_from_stdin_or_a_file_is_reported(run: Run, tmp_path: Path) -> None:
    """Rules, errors: bytes outside UTF-8 and an empty file are one line each; no secret is generated."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "short").write_text("hush\n")
    before = kept(run)

    url = run("subscriptions", "add", "-", "--event", "#", stdin=b"https://\xff.example/")
    none = run("subscriptions", "add", "-", "--event", "#", stdin="")
    empty = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "empty")
    short = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "short")
    added = run("subscriptions", "add", TILL["url"], "--event", "#", "--secret-file", "-", stdin="hush")

    assert error(url) == "stdin: is not UTF-8 text; write only the URL into it"
    assert error(none) == "stdin: holds 0 lines; write only the URL into it, on one line"
    assert error(empty) == "empty: holds 0 lines; write only the secret into it, on one line"
    assert error(short) == f"short: {SHORT}"
    assert error(added) == f"stdin: {SHORT}"
    assert kept(run) == before
