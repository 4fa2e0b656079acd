"""Commands for subscriptions print the same over the API as with the store, and do the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumer.core.store.tokens import Scope
from tests.support.command_line import SHOP, TILL, Run, kept, rows, text
from tests.support.remote import Both, RemoteDesk

OTHER = {**TILL, "tenant": "beta", "name": "other", "url": "https://other.example/"}
READS = [
    ("list",),
    ("list", "--json"),
    ("list", "--tenant", "acme"),
    ("list", "--tenant", "nobody"),
    ("show", "acme/shop", "--json"),
    ("show", "till", "--json"),
    ("show", "--tenant", "acme", "--name", "shop"),
    ("show", "shp"),
    ("export",),
    ("export", "--tenant", "beta", "--json"),
]
CHANGES = [
    ("disable", "acme/shop", "--reason", "they migrate"),
    ("disable", "acme/shop", "--json"),
    ("enable", "acme/till"),
    ("rotate-secret", "acme/shop", "--drop-old", "--json"),
    ("rotate-secret", "acme/shop", "--lost-key"),
    ("rotate-secret", "acme/shop", "--expire-in", "400d"),
    ("remove", "acme/shop"),
    ("remove", "acme/shop", "acme/till", "--yes", "--json"),
    ("remove", "nothing", "--yes"),
    ("add", "not a URL", "--event", "#"),
    ("add", "https://new.example/", "--event", "#", "--policy", "nonsense"),
]
FILES = {
    "as it is": text(SHOP, TILL, OTHER),
    "changed": text({**SHOP, "events": ["#"], "timeout_s": 7}, TILL, OTHER),
    "pruned": text(SHOP),
    "empty": "subscriptions: []",
    "faulty": text({**SHOP, "timeout_s": -1}, {**TILL, "evnts": ["#"]}),
}


@pytest.fixture
def filled(local: Run) -> Run:
    """The local commands, with three subscriptions in the store."""
    assert local("subscriptions", "apply", "-", stdin=text(SHOP, TILL, OTHER)).exit_code == 0
    return local


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_reads_print_the_same(words: tuple[str, ...], filled: Run, both: Both) -> None:
    """A read over the API has the same output, the same errors and the same exit code."""
    mine, theirs = both("subscriptions", *words)

    assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)


@pytest.mark.parametrize("words", CHANGES, ids=" ".join)
def test_changes_print_the_same(words: tuple[str, ...], filled: Run, remote: RemoteDesk) -> None:
    """A change over the API has the output of the local command on the same state, and the same effect."""
    before = text(*kept(filled))
    theirs, after = remote.run("subscriptions", *words), kept(filled)
    filled("subscriptions", "apply", "-", "--prune", "--yes", "--enable", stdin=before)
    mine = filled("subscriptions", *words)

    assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)
    assert kept(filled) == after


@pytest.mark.parametrize(
    "options", [("--dry-run",), ("--dry-run", "--json", "--prune"), ("--prune", "--yes")]
)
@pytest.mark.parametrize("name", FILES)
def test_an_apply_prints_the_same(
    name: str, options: tuple[str, ...], filled: Run, remote: RemoteDesk, tmp_path: Path
) -> None:
    """A plan shows the same changes field by field, and a fault has the same line."""
    file = tmp_path / "shops.yaml"
    file.write_text(FILES[name])
    words = ("subscriptions", "apply", *options, str(file))
    before = text(*kept(filled))

    theirs, after = remote.run(*words), kept(filled)
    filled("subscriptions", "apply", "-", "--prune", "--yes", stdin=before)
    mine = filled(*words)

    assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)
    assert kept(filled) == after


def test_a_prune_asks_over_the_api_too(filled: Run, both: Both, tmp_path: Path) -> None:
    """The broker is away, so that nobody knows what is lost; without a terminal nothing is removed."""
    file = tmp_path / "shops.yaml"
    file.write_text(text(SHOP))

    mine, theirs = both("subscriptions", "apply", "--prune", str(file))

    assert mine.exit_code == theirs.exit_code == 2
    assert len(kept(filled)) == 3


def test_generated_secrets_are_shown_once(filled: Run, remote: RemoteDesk) -> None:
    """The secret that is printed is the one in the store, after an add, an apply and a rotation."""
    added = rows(
        remote.run("subscriptions", "add", "https://a.example/", "--event", "#", "--name", "a", "--json")
    )
    applied = rows(
        remote.run(
            "subscriptions",
            "apply",
            "-",
            "--json",
            stdin=text({**TILL, "name": "b", "url": "https://b.example/"}),
        )
    )
    stored = {entry["name"]: entry["secrets"] for entry in kept(filled)}
    rotated = rows(remote.run("subscriptions", "rotate-secret", "acme/till", "--expire-in", "7d", "--json"))
    after = {entry["name"]: entry["secrets"] for entry in kept(filled)}

    assert added[0]["secret"] == stored["a"][0]
    assert applied[0]["secret"] == stored["b"][0]
    assert rotated[0]["secret"] == after["till"][0] != stored["till"][0]
    assert (rotated[0]["secrets"], len(after["till"])) == (2, 2)


def test_a_bound_token_changes_its_tenant_only(filled: Run, remote: RemoteDesk) -> None:
    """A prune with the token of a customer leaves other tenants as they are, and a file cannot name them."""
    bound = remote.token_file(Scope.OPERATE, "acme")

    foreign = remote.run("subscriptions", "apply", "-", token_file=bound, stdin=text(OTHER))
    pruned = remote.run("subscriptions", "apply", "--prune", "--yes", "-", token_file=bound, stdin=text(SHOP))
    unseen = remote.run("subscriptions", "show", "beta/other", token_file=bound)
    listed = remote.run("subscriptions", "list", "--json", token_file=bound)

    assert "bound to another tenant" in foreign.stderr
    assert pruned.exit_code == 0, pruned.output
    assert [entry["name"] for entry in kept(filled)] == ["shop", "other"]
    assert unseen.exit_code == 1
    assert [json.loads(line)["name"] for line in listed.stdout.splitlines()] == ["shop"]


def test_secrets_are_never_exported(filled: Run, remote: RemoteDesk) -> None:
    """The API has no way to read a secret, and the command says so."""
    refused = remote.run("subscriptions", "export", "--show-secrets")

    assert refused.exit_code == 1
    assert "never returns a secret" in refused.stderr
