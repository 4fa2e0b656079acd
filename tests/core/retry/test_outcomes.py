"""The one table that gives each answer its meaning."""

from __future__ import annotations

import pytest

from consumer.core.errors import ConfigError
from consumer.core.model import Outcome, OutcomeKind
from consumer.core.retry.outcomes import (
    Signal,
    StatusRule,
    breaker_signal,
    classification_table,
    kind_table,
    parse_status_rules,
    rule_for,
)


def answered(status: int) -> Outcome:
    """Return the outcome of an answer with this status."""
    return Outcome(kind=OutcomeKind.HTTP_4XX, status=status, duration_s=0.1)


@pytest.mark.parametrize("status", [0, 99, 101, *range(300, 600), 600, 999])
def test_every_status_has_a_meaning(status: int) -> None:
    """S1-7: no number that a stranger's server sends is without a rule."""
    assert rule_for(answered(status), {}) in StatusRule


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_every_kind_without_a_status_is_retried(kind: OutcomeKind) -> None:
    """S1-7: no answer is never taken for success or for a permanent error."""
    assert rule_for(Outcome(kind=kind, duration_s=0.1), {}) is StatusRule.RETRY


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (200, False),
        (204, False),
        (302, False),
        (400, False),
        (401, False),
        (404, False),
        (408, True),
        (410, False),
        (422, False),
        (425, True),
        (429, False),
        (500, True),
        (501, False),
        (502, True),
        (503, True),
        (504, True),
        (599, True),
        (101, True),
    ],
)
def test_which_answers_count_for_the_breaker(status: int, counts: bool) -> None:
    """S3-1, faults 37-40: an ailing server counts; a refusal or a throttle is a sign of life."""
    assert (breaker_signal(answered(status)) is Signal.FAILING) is counts
    assert breaker_signal(answered(status)) is (Signal.FAILING if counts else Signal.ALIVE)


@pytest.mark.parametrize(
    "kind",
    [
        OutcomeKind.TIMEOUT_CONNECT,
        OutcomeKind.TIMEOUT_TOTAL,
        OutcomeKind.DNS,
        OutcomeKind.REFUSED,
        OutcomeKind.RESET,
        OutcomeKind.TLS,
        OutcomeKind.PROTOCOL,
    ],
)
def test_an_unreachable_endpoint_counts(kind: OutcomeKind) -> None:
    """S3-1, fault 53: the breaker opens on time-outs and broken connections."""
    assert breaker_signal(Outcome(kind=kind, duration_s=0.1)) is Signal.FAILING


@pytest.mark.parametrize(
    "kind", [OutcomeKind.BLOCKED, OutcomeKind.PROXY, OutcomeKind.LOCAL, OutcomeKind.CLIENT_ERROR]
)
def test_faults_of_our_side_do_not_count_against_the_endpoint(kind: OutcomeKind) -> None:
    """S3-1: our guard, proxy or client neither opens nor closes a breaker."""
    assert breaker_signal(Outcome(kind=kind, duration_s=0.1)) is Signal.UNKNOWN
    assert breaker_signal(Outcome(kind=kind, duration_s=0.1)) is not Signal.FAILING


def test_table_shows_every_row_once() -> None:
    """S1-7: the printed table is complete: every status and kind is in exactly one row, with a reason."""
    rows = classification_table()
    entries = [entry for what, *_ in rows for entry in what.split(", ")]

    assert len(entries) == len(set(entries))
    assert {kind.value for kind in OutcomeKind} <= set(entries)
    assert {"400", "410", "429", "other 3xx", "other 4xx", "other 5xx", "other status"} <= set(entries)
    assert all(why for *_, why in rows)
    by_entry = {entry: rule for what, rule, *_ in rows for entry in what.split(", ")}
    for entry, rule in by_entry.items():
        if entry.isdigit():
            assert rule_for(answered(int(entry)), {}) is rule


def test_reads_status_rules() -> None:
    """Outside contract: ``on_status`` takes statuses and classes."""
    assert parse_status_rules({"404": "park", "410": "disable", "5XX": "retry", "418": "drop"}) == {
        "404": StatusRule.PARK,
        "410": StatusRule.DISABLE,
        "5xx": StatusRule.RETRY,
        "418": StatusRule.DROP,
    }


@pytest.mark.parametrize("key", ["200", "2xx", "299", "600", "abc", "", "4x", "40", "4044", "٤٠٤"])
def test_refuses_statuses_that_are_no_failures(key: str) -> None:
    """Outside contract: a rule on an outcome that cannot fail is an error that names it."""
    with pytest.raises(ConfigError, match=f"^'{key}' is not a status"):
        parse_status_rules({key: "park"})


def test_refuses_unknown_rules() -> None:
    """Outside contract: the error names the key and the allowed values."""
    with pytest.raises(ConfigError, match=r"^404: 'ignore' is not one of retry, park, disable, drop"):
        parse_status_rules({"404": "ignore"})


def test_the_table_of_kinds_is_whole() -> None:
    """Every kind once, with its effect on the breaker; a fault of our own side is deferred."""
    rows = {kind: (do, counts) for kind, _, do, counts in kind_table()}

    assert list(rows) == [kind.value for kind in OutcomeKind]
    assert [kind for kind, (do, _) in rows.items() if do == "put off"] == ["proxy", "local"]
    for kind in OutcomeKind:
        outcome = Outcome(kind=kind, duration_s=0.1)
        if rows[kind.value][0] == "retry" and not kind.value.startswith("http_"):
            assert rows[kind.value][1] == ("yes" if breaker_signal(outcome) is Signal.FAILING else "no")


def test_the_table_of_kinds_is_right_for_every_status() -> None:
    """Each row is true of its status, or of all statuses that it does not name."""
    rows = {kind: told for kind, _, *told in kind_table()}

    for status in range(300, 600):
        does, counts = (said(text, status) for text in rows[f"http_{status // 100}xx"])
        outcome = answered(status)

        assert (status, does) == (status, rule_for(outcome, {}).value)
        assert (status, counts) == (status, "yes" if breaker_signal(outcome) is Signal.FAILING else "no")


def said(text: str, status: int) -> str:
    """Return the rule that a cell such as ``retry; park: 400, 413`` gives for a status."""
    usual, *others = text.split("; ")
    named = {
        number: what
        for what, _, numbers in (o.partition(": ") for o in others)
        for number in numbers.split(", ")
    }
    return named.get(str(status), usual)
