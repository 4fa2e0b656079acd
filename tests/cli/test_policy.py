"""``leveret policy``: the numbers of the documents, for built-in and other policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumer.core.retry.policy import POLICIES
from tests.support.command_line import Run, rows

#: name -> waits and sum in seconds, as the documents have them
DOCUMENTS = {
    "default": ([1, 2, 4, 8], 15),
    "aggressive": ([0.5, 1, 2], 3.5),
    "conservative": ([2, 6, 18, 54], 80),
    "linear": ([5, 5], 10),
    "email-gateway": ([1, 2, 4, 8], 15),
    "production": ([1, 2, 4, 8], 15),
    "transport-only": ([1, 2, 4], 7),
    "adr": ([1, 2, 4, 8], 15),
    "standard-webhooks": ([5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400], 272105),
}


@pytest.mark.parametrize(("name", "delays", "total"), [(n, d, t) for n, (d, t) in DOCUMENTS.items()])
def test_show_has_the_documents_sequence(run: Run, name: str, delays: list[float], total: float) -> None:
    """S0-2, S1-1, S2-1, S3-4, S4-1, SW-34: N attempts have N-1 waits; sums and times add up."""
    [shown] = rows(run("policy", "show", name, "--json"))

    assert shown["delays_s"] == delays
    assert shown["total_s"] == total
    assert shown["max_attempts"] == len(delays) + 1
    assert shown["cumulative_s"] == [sum(delays[:n]) for n in range(len(delays) + 1)]


def test_show_draws_the_time_line(run: Run) -> None:
    """One screen shows the sequence, cumulative times, max_age and a timeline."""
    shown = run("policy", "show", "default").stdout

    assert "default: 5 attempts in 15 s: 1 s x2 up to 1 min, ±10%" in shown
    assert "ends after 24 h" in shown
    [picture] = [line for line in shown.splitlines() if "●" in line]
    assert picture.count("●") == 5
    assert picture.endswith("15 s")
    assert [line.split()[0] for line in shown.splitlines()[-5:]] == ["1", "2", "3", "4", "5"]
    assert "(logarithmic)" in run("policy", "show", "standard-webhooks").stdout


def test_list_has_every_policy_own_ones_too(run: Run, tmp_path: Path) -> None:
    """All policies are listed; the default for subscriptions that name none is marked."""
    (tmp_path / "leveret.toml").write_text(
        '[retry]\npolicy = "night"\n[retry.policies.night]\npolicy = "linear"\nmax_attempts = 60\n'
    )

    listed = {str(row["name"]): row for row in rows(run("policy", "list", "--json"))}

    assert listed.keys() == {*POLICIES, "night"}
    assert [name for name, row in listed.items() if row["is_default"]] == ["night"]
    table = run("policy", "list").stdout
    assert all(name in table for name in listed)
    assert "night *" in table
    assert "… and 10 more" in run("policy", "show", "night").stdout


def test_show_of_an_unknown_policy_names_one_near(run: Run) -> None:
    """Every error names its remedy."""
    failed = run("policy", "show", "standard-webhook")

    assert failed.exit_code == 1
    assert failed.stderr == "leveret: no policy 'standard-webhook'; did you mean standard-webhooks?\n"


def test_json_names_every_field_of_a_policy(run: Run) -> None:
    """S0-6: the effective values, durations in seconds; the output has every field of the policy."""
    from dataclasses import fields

    from consumer.core.retry.policy import RetryPolicy

    [shown] = rows(run("policy", "show", "production", "--json"))

    assert {field.name for field in fields(RetryPolicy)} <= shown.keys()
    assert json.dumps(shown["jitter_in_cap"]) == "true"


def test_a_policy_that_subscriptions_name_cannot_go_from_the_settings(run: Run) -> None:
    """The check of the settings names each subscription that would be locked."""
    night = {"RETRY__POLICIES": '{"night": {"policy": "linear"}}'}
    for name in ("shop", "till"):
        url = f"https://{name}.example/"
        added = run("subscriptions", "add", url, "--event", "#", "--name", name, "--policy", "night", **night)
        assert added.exit_code == 0

    good, bad = run("config", "check", **night), run("config", "check")

    assert good.exit_code == 0
    assert bad.exit_code == 1
    assert [line.partition(" is not one of")[0] for line in bad.stderr.splitlines()] == [
        f"leveret: default/{name}: retry.policy: 'night'" for name in ("shop", "till")
    ]
    assert "put it back, or apply the subscription with another first" in bad.stderr
