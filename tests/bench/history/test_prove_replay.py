"""The proofs of replays: their arithmetic, and each of them in small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.history import parked_history, parked_jobs
from bench.history.parked_history import ATTEMPTS, WAIT_S, is_whole
from bench.history.parked_jobs import Account
from bench.prove import Bench
from bench.sink import Seen
from consumer.core.message.parked import rfc3339
from tests.bench.support.seen import answered

AT = 1_767_225_600.0


def _seen(began: float) -> Seen:
    return answered(began, path="dead", status=503)


def _entry(replays: int, **more: Any) -> dict[str, Any]:
    attempts = [
        {
            "replay": run,
            "number": number,
            "at": rfc3339(AT + 10 * run + number),
            "status": 503,
            "duration_s": 0.01,
            "wait_s": None if number == ATTEMPTS else WAIT_S,
        }
        for run in range(replays + 1)
        for number in range(1, ATTEMPTS + 1)
    ]
    fields = {"replays": replays, "arrived_at": rfc3339(AT), "failed_attempts": len(attempts)}
    return {**fields, "attempts": attempts, **more}


def test_an_entry_is_whole_only_with_every_attempt_its_arrival_and_its_replays() -> None:
    """`parked_history_lost` finds each of the three losses."""
    requests = [
        _seen(AT + 10 * run + number + 0.004) for run in range(2) for number in range(1, ATTEMPTS + 1)
    ]
    whole = _entry(1)

    assert is_whole(whole, requests, rfc3339(AT), 1)
    assert not is_whole(whole, requests, rfc3339(AT + 1), 1)
    assert not is_whole(whole, requests[1:], rfc3339(AT), 1)
    assert not is_whole(whole, requests, rfc3339(AT), 2)
    assert not is_whole({**whole, "attempts": whole["attempts"][ATTEMPTS:]}, requests, rfc3339(AT), 1)


def test_an_entry_is_in_one_place() -> None:
    """`parked_unaccounted`: lost, in two places, or sent although nobody asked for it."""
    account = Account({"t00": ["a", "b", "c"], "t02": ["d", "e", "f"]}, frozenset({"t00"}))
    account.parked.update(["b", "d", "e", "e"])
    account.received.update(["a", "a", "b", "f"])

    assert account.unaccounted() == ["b", "c", "e", "f"]


async def test_three_failed_replays_lose_no_attempt(tmp_path: Path, vhost: str) -> None:
    """S1-5: the proof in small."""
    [found] = await parked_history.prove(Bench(folder=tmp_path, scale=0.04, amqp_url=vhost))

    assert (found.value, found.n) == (0, 20)


async def test_a_job_that_is_killed_cancelled_and_resumed_accounts_for_every_entry(
    tmp_path: Path, vhost: str
) -> None:
    """S1-5: the proof in small."""
    bench = Bench(folder=tmp_path, scale=0.02, amqp_url=vhost)  # 20 s: a busy machine cancels it in time

    assert await parked_jobs.unaccounted(bench) == 0, bench.notes
