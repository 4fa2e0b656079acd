"""The proofs' own arithmetic, their receiver, and one proof in small against a real daemon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from bench.core import timing
from bench.core.kills import LAG_S, WINDOW_S, explained
from bench.core.ledger import Books, Parked
from bench.core.timing import distance_to_uniform
from bench.loss import hang
from bench.prove import Bench, Figure, Goal, Measured, chosen, judge, of_other_brokers, run_proof, write
from bench.prove_core import PROOFS
from bench.sink import Seen, Sink, flaky_attempts
from tests.support.broker.load import secret_of
from tests.support.servers.requests import flaky_fails

ISSUE_TABLE = {
    "ledger_unaccounted": ("0", 2_000),
    "ledger_wrong_attempts": ("0", 2_000),
    "ledger_bad_signatures": ("0", 2_000),
    "dead_breaker_requests": ("≤ 30", 2_000),
    "kill_worker_lost": ("0", 70),
    "kill_worker_unexplained": ("0", 70),
    "restarts_parked": ("0", 50),
    "restarts_lost": ("0", 50),
    "restarts_most_sent": ("≤ 8", 50),
    "kill_broker_lost": ("0", 3),
    "term_duplicates": ("0", 5),
    "retry_early": ("0", 500),
    "retry_late_share": ("≤ 0.05", 500),
    "retry_spread_ks": ("≤ 0.15", 500),
    "throughput_ratio_f1": ("≥ 0.70", 20_000),
    "throughput_ratio_f20": ("≥ 0.80", 20_000),
    "slow_sibling_ratio": ("≥ 0.8", 5_000),
    "idle_queues_disk_mb": ("≤ 2048", 50_000),
}


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure that is promised is measured, against its goal and over no fewer cases."""
    assert {g.name: (g.text, g.n) for proof in PROOFS for g in proof.goals} == ISSUE_TABLE


@pytest.mark.parametrize(
    ("text", "good", "bad"), [("0", 0.0, 1.0), ("≤ 30", 30.0, 31.0), ("≥ 0.70", 0.7, 0.69)]
)
def test_a_goal_tells_good_from_bad(text: str, good: float, bad: float) -> None:
    """A figure that misses its goal by the smallest step is not ok."""
    goal = Goal(name="x", text=text, unit="", n=2)

    assert judge(goal, Measured(name="x", value=good, n=2), 0.0).ok
    assert not judge(goal, Measured(name="x", value=bad, n=2), 0.0).ok


@pytest.mark.parametrize(
    "measured",
    [
        None,
        Measured(name="x", value=0, n=1),
        Measured(name="x", value=0, n=2, valid=False),
        Measured(name="x", value=float("nan"), n=2),
    ],
)
def test_a_short_broken_or_invalid_figure_is_not_ok(measured: Measured | None) -> None:
    """Nothing measured, too few cases, or a broken condition never passes."""
    assert not judge(Goal(name="x", text="0", unit="", n=2), measured, 0.0).ok


def test_an_unknown_proof_is_wrong_usage() -> None:
    """`--only` takes a proof or one of its figures and refuses anything else with exit code 2."""
    assert [proof.name for proof in chosen(PROOFS, ["retry_early", "ledger"])] == ["ledger", "timing"]
    with pytest.raises(SystemExit) as refused:
        chosen(PROOFS, ["nonsense"])
    assert refused.value.code == 2


def test_distance_tells_spread_waits_from_bunched_ones() -> None:
    """Even waits are near 0, waits all in the middle at one half, a spread half as wide at a quarter."""
    even = [0.9 + 0.2 * (n + 0.5) / 500 for n in range(500)]

    assert distance_to_uniform(even, 0.9, 1.1) < 0.01
    assert distance_to_uniform([1.0] * 500, 0.9, 1.1) == pytest.approx(0.5)
    assert distance_to_uniform([1 + (wait - 1) / 2 for wait in even], 0.9, 1.1) == pytest.approx(
        0.25, abs=0.01
    )


def test_a_kill_explains_only_what_was_in_its_window() -> None:
    """Fault 57: an event that was settled before the window is not excused by a later kill."""
    kill = 100.0

    assert explained([kill - WINDOW_S - 0.01], [], [kill]) == 0
    assert explained([kill + LAG_S + 0.01], [], [kill]) == 0
    assert explained([kill - 0.1], [], [kill]) == 1
    assert explained([kill - 0.1, kill - 0.1], [kill - 0.1, kill - 0.1], [kill, kill + 50]) == 2


def seen(path: str, status: int, *, began: float = 1.0, event: str = "e") -> Seen:
    """Return one logged request."""
    return Seen(
        path=path, id=event, attempt=1, status=status, began=began, ended=began, digest="", verified=True
    )


def books(*requests: Seen, parked: dict[str, list[Parked]] | None = None, gone_at: float = 5.0) -> Books:
    """Return books with these requests and parked entries of the event ``e``."""
    by_pair: dict[tuple[str, str], list[Seen]] = {}
    for one in requests:
        by_pair.setdefault((one.id, one.path), []).append(one)
    return Books(by_pair, {("e", name): list_ for name, list_ in (parked or {}).items()}, gone_at, True)


def test_the_ledger_finds_a_pair_that_ended_nowhere_or_wrongly() -> None:
    """A pair neither delivered nor parked, parked twice, or for another reason, is not accounted for."""
    exhausted = Parked("exhausted", 5)

    assert books(seen("healthy", 200)).ended("e", "healthy")
    assert books(parked={"dead": [exhausted]}).ended("e", "dead")
    assert not books(seen("healthy", 503)).ended("e", "healthy")
    assert not books(parked={"dead": [exhausted, exhausted]}).ended("e", "dead")
    assert not books(parked={"dead": [Parked("expired", 5)]}).ended("e", "dead")
    assert not books(seen("flaky", 200), parked={"flaky": [exhausted]}).ended("e", "flaky")


def test_the_ledger_takes_unmatched_only_after_the_410() -> None:
    """An event that was sent out before the endpoint was gone may not be missing there."""
    assert books(seen("healthy", 200, began=6.0)).ended("e", "gone")
    assert not books(seen("healthy", 200, began=4.0)).ended("e", "gone")
    assert not books(seen("healthy", 200, began=6.0), seen("gone", 503, began=6.0)).ended("e", "gone")
    assert not books().ended("e", "gone")


def test_attempts_of_a_flaky_pair_are_computed_and_compared() -> None:
    """The computed number is the first attempt that the receiver's rule takes; another number is wrong."""
    number, taken = flaky_attempts("e", 0.3, 5)
    right = books(*[seen("flaky", 503)] * (number - 1), seen("flaky", 200))
    expected = right.expected_attempts("e", "flaky")

    assert taken
    assert not flaky_fails("e", number, 0.3)
    assert expected == number
    assert right.attempts_right("e", "flaky", number)
    assert not right.attempts_right("e", "flaky", number + 1)
    assert not books(parked={"dead": [Parked("exhausted", 4)]}).attempts_right("e", "dead", 5)


def webhook(name: str, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook, signed by the reference library."""
    now = datetime.now(tz=UTC)
    return {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret_of(name)).sign("evt_1", now, body.decode()),
    }


async def test_the_sink_reads_what_the_receiver_logged_and_verifies_it(tmp_path: Path) -> None:
    """SW-05: a good signature is verified by the reference verifier, one over other bytes is not."""
    async with Sink(tmp_path, {"a": "/ok/a", "b": "/status/503/b"}, bodies=True) as sink:
        headers = webhook("a", b"{}")
        with httpx2.Client(trust_env=False) as client:
            asked = [("a", b"{}"), ("a", b"{ }"), ("b", b"{}")]
            statuses = [client.post(sink.url(n), content=b, headers=headers).status_code for n, b in asked]
        assert await sink.until_answered(3, 5)
        requests = sink.read()

    assert statuses == [200, 200, 503]
    assert [(one.path, one.attempt, one.verified) for one in requests] == [
        ("a", 1, True),
        ("a", 2, False),
        ("b", 1, False),
    ]
    assert requests[0].digest != requests[1].digest


async def test_the_timing_proof_in_small(tmp_path: Path, vhost: str) -> None:
    """A daemon on a vhost of its own retries never early; so few deliveries leave the figure short."""
    bench = Bench(folder=tmp_path / "run", scale=0.08, amqp_url=vhost)

    figures = {figure.name: figure for figure in await run_proof(timing.PROOF, bench)}

    early = figures["retry_early"]
    assert isinstance(early, Figure)
    assert (early.value, early.n, early.ok) == (0, 40, False)
    assert figures["retry_spread_ks"].value is not None
    assert bench.notes["retry_before_logged_due"] is False


def test_the_figures_of_two_brokers_share_one_file(tmp_path: Path) -> None:
    """A run with a suffix keeps the other broker's figures and replaces its own; one without begins anew."""
    goal = Goal(name="x", text="0", unit="", n=1)
    path = tmp_path / "figures.json"
    first = judge(goal, Measured(name="x", value=0, n=1), 0.0)
    write(path, [first, replace(first, name="x_4")])

    assert [figure.name for figure in of_other_brokers(path, "_4")] == ["x"]
    assert not of_other_brokers(path, "")


async def test_the_proof_of_hanging_in_small(tmp_path: Path, vhost: str) -> None:
    """Fault 83: four endpoints, ill for two seconds, take all that waited; so few are short."""
    bench = Bench(folder=tmp_path / "run", scale=0.03, amqp_url=vhost)

    figures = {figure.name: figure for figure in await run_proof(hang.PROOF, bench)}

    assert {(figure.n, figure.ok) for figure in figures.values()} == {(40, False), (160, False)}
    assert figures["hang_parked"].value == 0
    assert 0 < (figures["hang_drained_s"].value or 0) < 1e6
