"""``leveret subscriptions add | remove | disable | rotate-secret | list`` as a user sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consumer.core.webhook.signing import parse_secret
from tests.support.builders.subscriptions import secret_of
from tests.support.command_line import SHOP, TILL, Run, error, kept, rows, text


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
    """Rules, secrets: neither must be on the command line, and a given secret is not shown."""
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
def test_add_names_the_fault(run: Run, words: tuple[str, ...], told: str) -> None:
    """Rules, errors: one line with field and remedy; nothing is stored."""
    assert told in error(run("subscriptions", "add", *words))
    assert kept(run) == []


def test_a_miss_names_near_ones_and_removes_nothing(run: Run) -> None:
    """If one of several names is wrong, nothing is removed."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, TILL))

    failed = run("subscriptions", "remove", "acme/till", "acme/shpo")

    assert error(failed) == "no subscription 'acme/shpo'; did you mean acme/shop?"
    assert len(kept(run)) == 2


def test_a_subscription_is_named_in_one_way(run: Run) -> None:
    """Outside contract, CLI: wrong usage exits with 2."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))

    assert run("subscriptions", "show", "--tenant", "acme", "--name", "shop").exit_code == 0
    assert run("subscriptions", "show").exit_code == 2
    assert run("subscriptions", "show", "acme/shop", "--name", "shop").exit_code == 2


def test_disable_outlives_an_apply_and_enable_ends_it(run: Run) -> None:
    """A disable by hand has a reason, and the next apply reports that it persists."""
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


def test_rotation_shows_the_new_secret_once_and_keeps_the_old(run: Run) -> None:
    """SW-32: both sign during the overlap; --drop-old ends it and adds none."""
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "secrets": [secret_of("old")]}))

    rotated = run("subscriptions", "rotate-secret", "acme/shop")
    [overlap] = kept(run)
    [shown] = rows(run("subscriptions", "show", "acme/shop", "--json"))
    dropped = run("subscriptions", "rotate-secret", "acme/shop", "--drop-old")
    [after] = kept(run)

    new = rotated.stdout.splitlines()[-1].removeprefix("new secret, shown this once: ")
    assert overlap["secrets"] == [new, secret_of("old")]
    assert after["secrets"] == [new]
    assert secret_of("old") not in rotated.output
    assert "the replaced ones stop to sign by 20" in rotated.stdout
    assert re.search(r"older: of unknown age, replaced . s ago, ends 20\d\d-", str(shown["secret_ages"]))
    assert shown["send_trace"] is False
    assert new not in dropped.output
    assert "1 secret signs" in dropped.stdout


def test_an_ed25519_key_is_rotated_to_one_of_its_kind(run: Run) -> None:
    """SW-10, SW-31: receivers that verify v1a go on verifying; the private half is not shown."""
    private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "secrets": [private]}))

    rotated = run("subscriptions", "rotate-secret", "acme/shop")
    [row] = rows(run("subscriptions", "rotate-secret", "acme/shop", "--json"))

    assert "public key for its receivers: whpk_" in rotated.stdout
    assert "whsk_" not in rotated.output + str(row)
    assert str(row["public_key"]).startswith("whpk_")
    assert [str(secret)[:5] for secret in kept(run)[0]["secrets"]] == ["whsk_"] * 3


def test_a_given_secret_comes_from_a_file(run: Run, tmp_path: Path) -> None:
    """Rules, secrets: never from the command line; a file with more than the secret is refused."""
    run("subscriptions", "apply", "-", stdin=text(SHOP))
    (tmp_path / "two").write_text("a\nb\n")

    given = run(
        "subscriptions", "rotate-secret", "acme/shop", "--secret-file", "-", stdin=secret_of("mine") + "\n"
    )
    refused = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "two")
    wrong = run("subscriptions", "rotate-secret", "acme/shop", "--secret-file", "two", "--drop-old")
    long = run("subscriptions", "rotate-secret", "acme/shop", "--expire-in", "400d")

    assert secret_of("mine") not in given.output
    assert kept(run)[0]["secrets"][0] == secret_of("mine")
    assert error(refused) == "two: holds 2 lines; write only the secret into it, on one line"
    assert wrong.exit_code == 2
    assert "is over 366 days" in error(long)


def test_a_policy_that_is_gone_is_reported_with_its_subscription(run: Run, tmp_path: Path) -> None:
    """Rules, errors: a missing policy is reported with its subscription; export and remove still work."""
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "retry": {"policy": "night"}}))
    (tmp_path / "leveret.toml").write_text("")

    for words in (("list",), ("show", "acme/shop"), ("test", "acme/shop")):
        assert error(run("subscriptions", *words)).startswith(
            "acme/shop: retry.policy: 'night' is not one of "
        )
    assert run("subscriptions", "remove", "acme/shop").exit_code == 0


def test_a_list_goes_on_past_one_whose_policy_is_gone(run: Run, tmp_path: Path) -> None:
    """All are shown, the faulty one with its fault and without waits; exit 1 names it."""
    (tmp_path / "leveret.toml").write_text('[retry.policies.night]\npolicy = "linear"\n')
    run("subscriptions", "apply", "-", stdin=text({**SHOP, "retry": {"policy": "night"}}, TILL))
    (tmp_path / "leveret.toml").write_text("")

    listed = run("subscriptions", "list", "--json")
    table = run("subscriptions", "list")
    shown = run("subscriptions", "show", "acme/shop", "--json")

    shop, till = rows(listed)
    assert [shop[name] for name in ("name", "retry", "max_attempts", "timeout_s")] == ["shop", None, None, 15]
    assert str(shop["fault"]).startswith("retry.policy: 'night' is not one of ")
    assert (till["name"], till["retry"], till["fault"]) == ("till", "default", None)
    assert [row.split()[1] for row in table.stdout.splitlines()] == ["name", "shop", "till"]
    assert [error(one) for one in (listed, table, shown)] == [f"acme/shop: {shop['fault']}"] * 3
    assert rows(shown)[0]["delays_s"] is None
    assert run("subscriptions", "list", "--tenant", "globex").exit_code == 0


@pytest.mark.parametrize("scope", [("--all",), ("--tenant", "acme"), ("--subscription", "acme/shop")])
def test_a_pause_is_shown(run: Run, scope: tuple[str, ...]) -> None:
    """List and show report the pause that holds a subscription; others are not shown as paused."""
    run("subscriptions", "apply", "-", stdin=text(SHOP, {**TILL, "tenant": "globex"}))
    assert [row["paused"] for row in rows(run("subscriptions", "list", "--json"))] == [False, False]

    run("pause", *scope)

    listed = rows(run("subscriptions", "list", "--json"))
    assert [row["paused"] for row in listed] == [True, scope == ("--all",)]
    assert rows(run("subscriptions", "show", "acme/shop", "--json"))[0]["paused"] is True
    assert "paused" in run("subscriptions", "list").stdout.splitlines()[0].split()


def test_an_eleventh_secret_is_refused_with_the_time_at_which_the_oldest_ends(run: Run) -> None:
    """Otherwise the receivers of the oldest secret would reject every webhook."""
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
