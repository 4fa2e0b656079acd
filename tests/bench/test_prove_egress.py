"""The proofs of sending: their promises, and their arithmetic."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest

from bench.egress import corpus, escapes, leaks, rows
from bench.prove_egress import PROOFS

ISSUE_TABLE = {
    "sender_ratio_c20": ("≥ 0.85", 20_000),
    "sender_ratio_c200": ("≥ 0.85", 20_000),
    "leak_open_files": ("≤ 2", 100_000),
    "leak_tasks": ("≤ 2", 100_000),
    "leak_bytes_per_request": ("≤ 49.999", 80_000),
    "fault_rows_untested": ("0", 28),
    "guard_escapes": ("0", 2_000),
    "deadline_overrun_s": ("≤ 0.5", 400),
}


def test_the_proofs_of_sending_have_the_promised_names_goals_and_counts() -> None:
    """Every figure of its table is measured, against its goal and over no fewer cases."""
    assert {g.name: (g.text, g.n) for proof in PROOFS for g in proof.goals} == ISSUE_TABLE


def test_the_corpus_is_wide() -> None:
    """Every refused range is asked for, in every spelling, well over 2,000 cases."""
    every = list(corpus.cases())
    networks: list[IPv4Network | IPv6Network] = [
        *map(IPv4Network, corpus.REFUSED_V4),
        *map(IPv6Network, corpus.REFUSED_V6),
    ]

    assert len(every) * len(corpus.schemes()) > escapes.CASES
    for network in networks:
        assert any(ip_address(case.address) in network for case in every), network
    assert {"url", *corpus.WAYS} == {case.way for case in every}
    assert {case.address for case in every} >= set(corpus.OWN)
    assert {case.address for case in corpus.own_port_cases()} == set(corpus.HERE)
    assert {case.way for case in corpus.control_cases()} == {case.way for case in every} - {"redirect"}


def found(**changed: object) -> dict[str, object]:
    """Return what a run finds in which every way was seen to be open once, with *changed*."""
    return {"controls": dict.fromkeys(escapes.CONTROLLED, (5, 10)), "good": 1, "redirects": 1} | changed


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({}, []),
        ({"good": 0}, ["good addresses"]),
        ({"redirects": 0}, ["redirects"]),
        ({"controls": dict.fromkeys(escapes.CONTROLLED, (5, 10)) | {"token": (4, 10)}}, ["token"]),
        ({"controls": dict.fromkeys(escapes.CONTROLLED[1:], (5, 10))}, ["url"]),
    ],
)
def test_a_way_in_which_nothing_could_arrive_makes_the_figure_invalid(
    changed: dict[str, object], missing: list[str]
) -> None:
    """No escapes count only where the same listener was reached with the guard open."""
    assert escapes.unseen(found(**changed)) == missing


def test_leaks_are_only_looked_for_where_every_receiver_did_its_part() -> None:
    """A run against receivers that were gone would leak nothing."""
    assert leaks.is_mixed({"ok": 745, "reset": 250, "timeout_total": 5})
    assert not leaks.is_mixed({"ok": 1_000})
    assert not leaks.is_mixed({"refused": 1_000})


def test_a_leak_on_purpose_misses_every_goal() -> None:
    """What the leaking process keeps is over each limit, at the least scale too."""
    rss = [(n, 1_000_000 + n * leaks.LEAKED_BYTES) for n in range(400, 2_000, 10)]
    kept = (2_000 - 400) // leaks.LEAKED_EVERY
    figures = leaks.measured([leaks.Findings(files=[9, 9 + kept], tasks=[1, 1 + kept], rss=rss)], 2_000)

    assert not any(goal.met(each.value) for goal, each in zip(leaks.GOALS, figures, strict=True))


def test_the_slope_is_the_least_squares_one() -> None:
    """A line gives its own slope, noise around a level none to speak of."""
    assert leaks.slope([(x, 3 + 2.5 * x) for x in range(10)]) == pytest.approx(2.5)
    assert leaks.slope([(0, 1), (1, 0), (2, 0), (3, 1)]) == pytest.approx(0.0)


def test_rows_are_read_as_they_are_written() -> None:
    """A list and a range of rows name each; other ids none. Every row counts, no test of a proof does."""
    assert list(rows.named("faults 20, 22-24 and 27: x. S1-7, fault 54.")) == [20, 22, 23, 24, 27, 54]
    assert rows.listed() == list(rows.ROWS)
    assert set(rows.ROWS) <= rows.tested()
