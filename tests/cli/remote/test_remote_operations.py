"""Commands for what is parked, paused or waiting, for traces and jobs print the same over the API."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

import aio_pika
import pytest

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.message.parked import delivery_id
from consumer.core.store.tokens import Scope
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.history.build import open_history
from consumer.settings import load_settings
from tests.support.builders.parked_queue import failed, park_all
from tests.support.command_line import Run, rows, text
from tests.support.remote import Both, RemoteDesk
from topology.declare import declare
from topology.plan import TopologySpec, build_plan

SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(2.0,))
SHOP = {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"]}
TILL = {"tenant": "beta", "name": "till", "url": "https://till.example/", "events": ["#"]}
SHOP_ID, TILL_ID = subscription_id("acme", "shop"), subscription_id("beta", "till")
MANY = 12  #: parked entries
NOW = float(int(time.time()))  # whole milliseconds: the API rounds times to them


async def fill(url: str) -> Sequence[str]:
    """Park an entry for each number, a second after the one before it; return the ids."""
    began = NOW - 1_000
    async with await aio_pika.connect(url) as connection:
        await declare(build_plan(SPEC), connection)
        owners = [("beta", TILL_ID) if n % 4 == 0 else ("acme", SHOP_ID) for n in range(MANY)]
        entries = [(failed(n, *owner, began), began + n) for n, owner in enumerate(owners)]
        return await park_all(connection, SPEC.names, entries)


@pytest.fixture
def parked(local: Run, vhost: str) -> Sequence[str]:
    """The ids of the entries in the parked queue, which the index knows; two subscriptions own them."""
    assert local("subscriptions", "apply", "-", stdin=text(SHOP, TILL)).exit_code == 0
    ids = asyncio.run(fill(vhost))
    assert local("parked", "reindex").exit_code == 0
    return ids


@pytest.fixture
def story(local: Run, remote: RemoteDesk) -> None:
    """The history of one event: an attempt that failed, a parked delivery, and a subscription without one."""
    assert local("subscriptions", "apply", "-", stdin=text(SHOP, TILL)).exit_code == 0
    first = HistoryRow(
        at=NOW - 20, step="received", event_id="ord-1", tenant="acme", type="order.x", number=1
    )
    of_shop = first._replace(
        step="attempt",
        at=NOW - 19.25,
        subscription_id=SHOP_ID,
        delivery_id=delivery_id("ord-1", SHOP_ID),
        status=503,
        kind="http_5xx",
        latency_ms=12.0,
        reason="retry",
        wait_ms=1e7,
        answer=b"\x1b[2Jbusy\r\n\x00\xff",
        detail="no \x1b[1m capacity",
    )
    later = of_shop._replace(
        event_id="ord-2", step="parked", reason="exhausted", answer=None, kind="", status=None
    )

    async def write() -> None:
        history = open_history(load_settings({"LEVERET_HOME": str(remote.context.settings.home)}))
        await history.write(1, HistoryBatch((first, of_shop, later)))
        await history.close()

    asyncio.run(write())


PARKED_READS = [
    ("list",),
    ("list", "--json"),
    ("list", "--limit", "5", "--tenant", "acme"),
    ("list", "--subscription", "beta/till", "--json"),
    ("list", "--subscription", TILL_ID),
    ("list", "--subscription", "beta/tll"),
    ("list", "--tenant", "acm"),
    ("list", "--type", "nothing.*"),
    ("list", "--reason", "malformed"),
    ("list", "--group-by", "tenant", "--group-by", "status"),
    ("list", "--group-by", "subscription", "--json"),
    ("stats",),
    ("stats", "--json"),
    ("show", "prk_0000000000000000"),
    ("replay", "--all", "--tenant", "acme", "--dry-run"),
    ("replay", "prk_0000000000000000", "--dry-run"),
    ("reindex", "--json"),
    ("purge", "--older-than", "1h"),
]


@pytest.mark.parametrize("words", PARKED_READS, ids=" ".join)
def test_parked_entries_are_read_the_same(words: tuple[str, ...], parked: Sequence[str], both: Both) -> None:
    """Lists, groups, counts and errors are equal, though only one side reads store and queue."""
    mine, theirs = both("parked", *words)

    assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)


def test_a_payload_is_shown_exactly(parked: Sequence[str], both: Both) -> None:
    """All fields, every attempt and the bytes are equal."""
    mine, theirs = both("parked", "show", parked[0], "--json")

    assert rows(theirs) == rows(mine)


def test_a_purge_prints_what_went(parked: Sequence[str], local: Run, remote: RemoteDesk) -> None:
    """Only the entries of the filter go, and each is printed and archived."""
    before = rows(local("parked", "list", "--tenant", "beta", "--json"))
    done = remote.run("parked", "purge", "--older-than", "0s", "--tenant", "beta", "--yes", "--json")

    assert [row["id"] for row in rows(done)] == [row["id"] for row in before]
    assert len(rows(local("parked", "list", "--json"))) == MANY - len(before)
    assert list((remote.context.settings.home / "archive").iterdir())


def test_a_job_is_made_steered_and_listed(parked: Sequence[str], both: Both, remote: RemoteDesk) -> None:
    """A job of the API is the job of the local commands."""
    [job] = rows(remote.run("parked", "replay", "--all", "--tenant", "acme", "--rate", "5", "--json"))
    name = str(job["id"])
    assert rows(remote.run("jobs", "pause", name, "--json"))[0]["state"] == "paused"

    for words in (
        ("list",),
        ("list", "--json", "--pending"),
        ("show", name),
        ("pause", name),
        ("show", "job_x"),
    ):
        mine, theirs = both("jobs", *words)
        assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)
    wrong = both("parked", "replay", "--all", "--to", "acme/nobody")
    assert wrong[0].stderr == wrong[1].stderr


def test_nothing_to_replay_is_the_same(parked: Sequence[str], both: Both) -> None:
    """An id that is not parked is named, and makes no job."""
    mine, theirs = both("parked", "replay", "prk_0000000000000000")

    assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)
    assert both("jobs", "list")[1].stdout == "there are no jobs\n"


TRACES = [
    ("ord-1",),
    ("ord-1", "--json"),
    ("ord-1", "--failed", "--subscription", "acme/shop", "--json"),
    ("--failed",),
    ("--tenant", "acme", "--json"),
    ("--subscription", "acme/nobody"),
    ("ord-1", "--subscription", "acme/nobody"),
    ("--delivery", delivery_id("ord-1", SHOP_ID)),
    ("--delivery", "dlv_0000000000000000"),
    ("--tenant", "acme", "--limit", "1"),
]


@pytest.mark.parametrize("words", TRACES, ids=" ".join)
def test_traces_are_the_same(words: tuple[str, ...], story: None, both: Both) -> None:
    """A timeline that is rebuilt from JSON has the same lines."""
    mine, theirs = both("trace", *words)
    printed = [re.sub(r"\(in [^)]*\)", "(in some time)", each.stdout) for each in (mine, theirs)]

    assert printed[1] == printed[0]
    assert (theirs.stderr, theirs.exit_code) == (mine.stderr, mine.exit_code)


def test_an_unknown_event_and_a_look_into_the_rungs_fail(story: None, remote: RemoteDesk) -> None:
    """Each has one line with its remedy."""
    unknown, live = remote.run("trace", "ord-9"), remote.run("trace", "ord-1", "--live")

    assert unknown.stderr.startswith("leveret: nothing is known of ord-9")
    assert live.exit_code == 1
    assert "--live" in live.stderr


def test_breakers_and_pauses_are_the_same(
    parked: Sequence[str], local: Run, remote: RemoteDesk, both: Both
) -> None:
    """A breaker and a pause that were set over the API are those of the local commands, and end the same."""
    opened = remote.run("breaker", "open", "acme/shop")
    assert remote.run("pause", "--tenant", "beta").exit_code == 0
    assert remote.run("pause", "--subscription", "acme/shop", "--json").exit_code == 0

    for words in (
        ("breaker", "list"),
        ("breaker", "list", "--json"),
        ("pause",),
        ("pause", "--json"),
        ("pause", "--tenant", "beta"),
        ("pause", "--tenant", "nobody"),
        ("breaker", "reset", "acme/shp"),
        ("breaker", "reset", "acme/shop", "--json"),
        ("resume", "--all"),
    ):
        mine, theirs = both(*words)
        assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)
    assert "opened acme/shop -> https://shop.example/" in opened.stdout
    assert remote.run("resume", "--tenant", "beta", "--json").exit_code == 0
    assert [row["scope"] for row in rows(local("pause", "--json"))] == ["subscription"]


def test_waiting_deliveries_are_the_same(parked: Sequence[str], both: Both) -> None:
    """Nothing waits, and unknown names are refused."""
    for words in (
        ("list",),
        ("list", "--tenant", "acme", "--json"),
        ("list", "--tenant", "nobody"),
        ("list", "--subscription", "acme/nobody"),
        ("list", "--subscription", "sub_0000000000000000"),
        ("kick", "--all"),
        ("cancel", "--event", "ord-1", "--yes"),
        ("cancel", "--event", "ord-1"),
    ):
        mine, theirs = both("waiting", *words)
        assert (theirs.stdout, theirs.stderr, theirs.exit_code) == (mine.stdout, mine.stderr, mine.exit_code)


def test_a_bound_token_steers_its_tenant_only(parked: Sequence[str], remote: RemoteDesk) -> None:
    """Pauses, breakers, traces and parked entries of another tenant do not exist for it."""
    bound = remote.token_file(Scope.OPERATE, "acme")
    remote.run("pause", "--all")
    remote.run("breaker", "open", "beta/till")

    assert remote.run("pause", token_file=bound).stdout == "nothing is paused\n"
    assert remote.run("breaker", "list", token_file=bound).stdout == "every breaker is closed\n"
    for words in (
        ("pause", "--all"),
        ("pause", "--tenant", "beta"),
        ("pause", "--subscription", "beta/till"),
        ("resume", "--all"),
        ("breaker", "reset", "beta/till"),
        ("waiting", "kick", "--tenant", "beta"),
        ("waiting", "list", "--subscription", "beta/till"),
        ("parked", "list", "--tenant", "beta"),
        ("trace", "--tenant", "beta"),
    ):
        assert remote.run(*words, token_file=bound).exit_code == 1, words
    assert len(rows(remote.run("parked", "list", "--json", token_file=bound))) == MANY - MANY // 4
