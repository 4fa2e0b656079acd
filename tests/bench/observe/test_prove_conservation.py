"""The proof of conservation: its arithmetic, and the proof in small with one kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.observe import conservation
from bench.observe.account import Outside, Sums, error, seen_outside, summed
from bench.prove import Bench, run_proof
from consumer.edges.private_broker import BrokerEndpoint
from tests.bench.support.seen import answered

BOOKS = Sums(
    owed=110,
    owed_again=10,
    delivered=60,
    parked=20,
    cancelled=5,
    waiting=12,
    waiting_again=3,
    in_flight=3,
    waiting_messages=12,
)
SEEN = Outside(lost=0, repeated=0, delivered=60, parked=20)


def test_books_that_account_for_everything_have_no_error() -> None:
    """Owed, without those that are owed again, is where the books say it is."""
    assert error(BOOKS, SEEN, waiting=12) == 0


@pytest.mark.parametrize(
    ("books", "seen", "waiting", "expected"),
    [
        (BOOKS, SEEN, 11, 1),
        (BOOKS, SEEN, 13, 1),
        (BOOKS, replace(SEEN, lost=2), 12, 2),
        (replace(BOOKS, delivered=61), SEEN, 11, 1),
        (replace(BOOKS, parked=22), SEEN, 10, 2),
    ],
    ids=["lost by the broker", "too many", "lost outside", "no receiver took it", "not parked"],
)
def test_each_difference_is_an_error(books: Sums, seen: Outside, waiting: int, expected: int) -> None:
    """A message that is gone, one too many, and an end that nobody saw."""
    assert error(books, seen, waiting) == expected


def test_a_repeated_delivery_is_no_error_if_it_was_seen() -> None:
    """After a kill the broker may have one copy more than the books know."""
    seen = replace(SEEN, repeated=1, delivered=61)

    assert error(replace(BOOKS, delivered=61), seen, waiting=12) == 0


def test_the_ends_are_counted_by_pair() -> None:
    """A second success of a pair is repeated, and a pair without an end is lost."""
    seen = [answered(1, path="a"), answered(2, path="a"), answered(3, path="b", status=503)]

    found = seen_outside([("e", "a"), ("e", "b"), ("e", "c")], seen, [("e", "b")])

    assert found == Outside(lost=1, repeated=1, delivered=2, parked=1)


def test_books_of_two_workers_are_added() -> None:
    """One stores and the other takes: only the sum shows how many wait."""
    names = {
        "targets_owed_total": 5.0,
        "targets_interrupted_total:lane": 1.0,
        "targets_interrupted_total:waiting": 0.0,
        "targets_ended_total:delivered": 1.0,
        "targets_ended_total:parked": 0.0,
        "targets_ended_total:cancelled": 0.0,
        "targets_waiting": 3.0,
        "targets_in_flight": 0.0,
        "waiting_messages": 3.0,
    }
    other = dict.fromkeys(names, 0.0) | {"targets_waiting": -2.0, "targets_ended_total:delivered": 2.0}

    sums = summed([names, other])

    assert (sums.waiting, sums.delivered, sums.rest(sums.waiting)) == (1, 3, 0)


@pytest.mark.timeout(600)  # two workers start, one of them twice
async def test_conservation_in_small(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> None:
    """A kill under load and a purged rung: no error, and the purge shows as a positive rest."""
    scheme, rest = broker.management_url.split("://")
    url = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(folder=tmp_path / "run", scale=0.016, amqp_url=vhost, management_url=url)

    [figure] = await run_proof(conservation.PROOF, bench)

    assert "conservation_error" not in bench.notes, bench.notes["conservation_error"]
    assert (figure.value, bench.notes["conservation_whole"]) == (0, True), bench.notes
    assert bench.notes["conservation_rest_after"] == (
        bench.notes["conservation_rest"] + bench.notes["conservation_lost_on_purpose"]  # type: ignore[operator]  # numbers
    )
    assert bench.notes["conservation_lost_on_purpose"]
