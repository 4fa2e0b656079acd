"""Listings of parked entries come from the store's index: exact, in order, and without touching an entry."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import aio_pika
import pytest

from consumer.core.subscription.subscription import subscription_id
from consumer.edges.operate.parked.lock import Turn, holding
from tests.support.builders.parked_queue import failed, park_all
from tests.support.command_line import Run, error, rows, text
from topology.declare import declare
from topology.plan import TopologySpec, build_plan

SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(2.0,))
SETTINGS = {
    "TOPOLOGY__LANES": "1",
    "TOPOLOGY__DUE_QUEUES": "1",
    "TOPOLOGY__SPILL_QUEUES": "0",
    "TOPOLOGY__RUNGS_S": "[2]",
}
SHOP = {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"]}
TILL = {"tenant": "beta", "name": "till", "url": "https://till.example/", "events": ["#"]}
SHOP_ID, TILL_ID = subscription_id("acme", "shop"), subscription_id("beta", "till")
MANY = 40  #: entries
NAMES = SPEC.names


async def fill(url: str, numbers: Sequence[int], began: float) -> list[str]:
    """Park an entry for each number, a second after the one before it; return the ids by number."""
    async with await aio_pika.connect(url) as connection:
        await declare(build_plan(SPEC), connection)
        one = [
            (failed(n, *(("beta", TILL_ID) if n % 4 == 0 else ("acme", SHOP_ID)), began), n) for n in numbers
        ]
        return await park_all(connection, NAMES, [(message, began + n) for message, n in one])


@pytest.fixture
def desk(run: Run, vhost: str) -> Run:
    """The command line, with two subscriptions, and a parked queue whose entries are out of order."""

    def invoke(*words: str, stdin: str | bytes | None = None, **settings: str) -> Any:
        return run(*words, stdin=stdin, **{"AMQP_URL": vhost, **SETTINGS, **settings})

    assert invoke("subscriptions", "apply", "-", stdin=text(SHOP, TILL)).exit_code == 0
    numbers = list(range(MANY))
    random.Random(7).shuffle(numbers)
    asyncio.run(fill(vhost, numbers, time.time() - 1_000))
    return invoke


@pytest.fixture
def indexed(desk: Run) -> Run:
    """The same, with the index of these entries."""
    assert desk("parked", "reindex").exit_code == 0
    return desk


@contextmanager
def other_command(url: str) -> Iterator[None]:
    """Have the parked entries in hand, as another command does."""
    began, ends = Event(), Event()

    async def hold() -> None:
        turn = Turn(command="leveret x")
        async with await aio_pika.connect(url) as connection, holding(connection, NAMES, turn):
            began.set()
            while not ends.is_set():  # noqa: ASYNC110 (another thread sets it)
                await asyncio.sleep(0.01)

    holder = Thread(target=asyncio.run, args=(hold(),))
    holder.start()
    try:
        assert began.wait(60)
        yield
    finally:
        ends.set()
        holder.join()


def test_an_index_with_a_gap_is_reported_and_rebuilt(desk: Run) -> None:
    """S1-13: an empty index never means "nothing is parked"; one pass over the queue rebuilds it."""
    refused = desk("parked", "list")
    [rebuilt] = rows(desk("parked", "reindex", "--json"))
    again = desk("parked", "reindex", "--json")
    listed = desk("parked", "list", "--json")

    assert error(refused) == (
        f"the index has 0 parked messages, the queue has {MANY}; run `leveret parked reindex`"
    )
    assert {"entries": MANY, "added": MANY, "removed": 0, "repeated_messages": 0}.items() <= rebuilt.items()
    assert rows(again)[0]["added"] == 0
    assert (len(rows(listed)), listed.stderr) == (MANY, "")


def test_a_listing_is_in_order_and_complete(indexed: Run) -> None:
    """S1-13: by time of parking, with the fields that the entry itself shows."""
    listed = rows(indexed("parked", "list", "--json"))
    first = indexed("parked", "list", "--limit", "1").stdout.splitlines()
    [shown] = rows(indexed("parked", "show", str(listed[3]["id"])))

    assert [row["event_id"] for row in listed] == [f"e{number:05}" for number in range(MANY)]
    assert listed[3].items() <= shown.items()
    assert shown["data"] == '{"number":3}'
    assert len(first) == 2
    assert first[0].split() == [
        *("id", "parked", "at", "tenant", "type", "reason", "failed", "attempts"),
        *("last", "failure", "code", "detail"),
    ]


def test_filters_and_groups_are_those_of_the_index(indexed: Run) -> None:
    """S1-13: by tenant, type, subscription; counted."""
    of_beta = rows(indexed("parked", "list", "--tenant", "beta", "--json"))
    by_name = rows(indexed("parked", "list", "--subscription", "beta/till", "--json"))
    by_id = rows(indexed("parked", "list", "--subscription", TILL_ID, "--json"))
    paid = rows(indexed("parked", "list", "--type", "*.paid", "--json"))
    groups = rows(indexed("parked", "list", "--group-by", "tenant", "--group-by", "status", "--json"))
    [stats] = rows(indexed("parked", "stats", "--json"))

    assert len(of_beta) == MANY // 4
    assert of_beta == by_name == by_id
    assert len(paid) == MANY // 2
    assert [(row["tenant"], row["status"], row["count"]) for row in groups] == [
        ("acme", "503", MANY * 3 // 4),
        ("beta", "503", MANY // 4),
    ]
    assert (stats["entries"], stats["tenants"], stats["in_queue"]) == (MANY, 2, MANY)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--tenant", "acmee"), "no tenant 'acmee'; did you mean acme?"),
        (("list", "--subscription", "acme/shp"), "no subscription 'acme/shp'; did you mean acme/shop"),
        (
            ("list", "--type", "order.payed"),
            "no entry of a type 'order.payed' is parked; did you mean order.paid",
        ),
        (("export", "--tenant", "acmee"), "no tenant 'acmee'; did you mean acme?"),
        (("replay", "--all", "--subscription", "shp"), "no subscription 'shp'; did you mean acme/shop"),
        (("purge", "--older-than", "0s", "--yes", "--tenant", "bet"), "no tenant 'bet'; did you mean beta?"),
    ],
)
def test_an_unknown_name_is_an_error_with_near_ones(indexed: Run, words: Sequence[str], said: str) -> None:
    """S1-13: never "nothing is parked"."""
    assert error(indexed("parked", *words)).startswith(said)


def test_an_unknown_entry_is_an_error_with_near_ones(indexed: Run) -> None:
    """S1-5: a mistyped id."""
    [row, *_] = rows(indexed("parked", "list", "--json"))
    wrong = str(row["id"])[:-1] + "_"

    assert f"did you mean {row['id']}" in error(indexed("parked", "show", wrong))


def test_only_show_export_replay_and_purge_wait_for_the_lock(indexed: Run, vhost: str) -> None:
    """S1-5: a listing goes on beside a command that has the entries in hand; the others name it."""
    [row, *_] = rows(indexed("parked", "list", "--json"))
    with other_command(vhost):
        for words in (("list",), ("stats",), ("list", "--group-by", "tenant")):
            assert indexed("parked", *words).exit_code == 0
        for reading in (("show", str(row["id"])), ("export",), ("reindex",)):
            assert "is in use by `leveret x` on " in error(indexed("parked", *reading))
        for taking in (("replay", "--all"), ("purge", "--older-than", "0s", "--yes")):
            refused = indexed("parked", *taking, "--json")
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert "is in use by `leveret x` on " in refused.stderr
    assert len(rows(indexed("parked", "export"))) == MANY


def test_purged_entries_leave_the_index(indexed: Run) -> None:
    """S1-4: a row whose entry left without a command goes with a reindex."""
    purged = rows(indexed("parked", "purge", "--older-than", "0s", "--tenant", "beta", "--yes", "--json"))

    left = indexed("parked", "list", "--json")

    assert len(purged) == MANY // 4
    assert {row["tenant"] for row in rows(left)} == {"acme"}
    assert left.stderr == ""
    assert (
        indexed("parked", "list", "--tenant", "beta").stdout == "nothing is parked that passes the filters\n"
    )


def test_without_a_broker_the_index_is_shown_with_a_warning(indexed: Run) -> None:
    """Fault 61: and without a row the broker's error is all there is."""
    shown = indexed("parked", "list", "--json", AMQP_URL="amqp://leveret:hush@127.0.0.1:1/")

    assert (shown.exit_code, len(rows(shown))) == (0, MANY)
    assert shown.stderr.startswith("leveret: warning: no broker answered")
    assert "hush" not in shown.stderr


def test_an_index_that_is_off_is_reported(indexed: Run) -> None:
    """Interfaces: with the other way to read the queue."""
    assert "use `leveret parked export`" in error(indexed("parked", "list", STORE__PARKED_INDEX_MAX="0"))


@pytest.mark.parametrize("name", ["acme/shop", SHOP_ID, "shop"])
def test_waiting_takes_the_names_too(desk: Run, name: str) -> None:
    """Interfaces: one address of a subscription for all commands."""
    assert desk("waiting", "list", "--subscription", name).stdout == "nothing waits\n"


@pytest.mark.parametrize(
    "words", [("--subscription", "acme/shp"), ("--subscription", "sub_0"), ("--tenant", "acm")]
)
def test_waiting_refuses_unknown_names(desk: Run, words: Sequence[str]) -> None:
    """Interfaces: never "nothing waits"."""
    assert error(desk("waiting", "list", *words)).startswith("no ")
