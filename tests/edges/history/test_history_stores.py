"""The history on SQLite and PostgreSQL: the same rows, queries and retention."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, Step, is_failure, parted
from consumer.core.model import Attempt, OutcomeKind
from consumer.edges.history.history_store import HistoryStore, Limits
from consumer.edges.history.postgres_history import BY_AGE
from consumer.edges.history.sqlite_history import FILE_NAME
from consumer.edges.history.sqlite_inserts import ROWS_AT_ONCE
from consumer.edges.history.statements import FUTURE_S
from tests.support.stores import Place, take_back
from tests.support.worker import event

NOW = 1_767_225_600.0
KEEP = Limits(max_age_s=86_400, max_rows=1_000_000)


def row(number: int, **more: Any) -> HistoryRow:
    """A row with every field; a higher number is later."""
    fields: dict[str, Any] = {
        "at": NOW + number,
        "step": Step.ATTEMPT.value,
        "event_id": f"ord-{number}",
        "tenant": "acme",
        "type": "order.created",
        "subscription_id": "sub_1",
        "delivery_id": f"dlv_{number}",
        "number": 2,
        "kind": "http_5xx",
        "status": 503,
        "latency_ms": 12.5,
        "wait_ms": 1500.0,
        "reason": "retry",
        "detail": "the body broke off",
        "answer": b"\x00\xff<h1>busy</h1>",
        "answer_type": "text/html",
    }
    return HistoryRow(**fields | more)


def some() -> Sequence[HistoryRow]:
    """Rows of two tenants and two subscriptions, with each kind of step."""
    return [
        row(0, step="received", subscription_id="", delivery_id="", status=None, answer=None, reason=""),
        row(0),
        row(0, reason="delivered", delivery_id="", kind="ok", status=200),
        row(1, tenant="beta", subscription_id="sub_2"),
        row(2, step="parked", reason="exhausted", latency_ms=None, wait_ms=None),
        row(3, step="deferred", reason="breaker"),
        row(4, tenant="beta", step="unmatched", subscription_id="", delivery_id="", reason=""),
    ]


async def rows(history: HistoryStore, **query: Any) -> Sequence[HistoryRow]:
    """Return the rows of a query."""
    return [step.row for step in await history.steps(Query(**query))]


async def trimmed(history: HistoryStore, limits: Limits, now: float) -> None:
    """Delete everything beyond *limits*."""
    while await history.trim(limits, now):
        pass


async def test_a_row_comes_back_as_it_was_written(place: Place) -> None:
    """Every field, with bytes that are not text, through another connection."""
    await place.open_history().write(1, HistoryBatch(some()))

    assert await rows(place.open_history()) == some()


@pytest.mark.parametrize("used", [False, True])
async def test_a_history_that_does_not_exist_has_no_rows(place: Place, used: bool) -> None:
    """Reading and deleting create nothing; neither does a store beside it."""
    if used:
        await place.open().changed()
    history = place.open_history()

    assert await rows(history) == []
    assert not await history.trim(KEEP, NOW)
    assert not (place.home / FILE_NAME).exists()


@pytest.mark.parametrize(
    "query",
    [
        {"event_id": "ord-0"},
        {"delivery_id": "dlv_1"},
        {"subscription_id": "sub_2"},
        {"tenant": "beta"},
        {"tenant": "acme", "failed_only": True},
        {"failed_only": True},
        {"since": NOW + 2},
        {"since": NOW + 1, "tenant": "beta"},
        {"event_id": "ord-9"},
    ],
)
async def test_a_query_finds_the_rows_that_meet_all_conditions(place: Place, query: dict[str, Any]) -> None:
    """Each condition alone and together, in the order of writing."""
    history = place.open_history()
    await history.write(1, HistoryBatch(some()))

    assert await rows(history, **query) == [each for each in some() if _meets(each, query)]


def _meets(found: HistoryRow, query: dict[str, Any]) -> bool:
    fields = {key: value for key, value in query.items() if key not in ("failed_only", "since")}
    same = all(getattr(found, key) == value for key, value in fields.items())
    return same and found.at >= query.get("since", 0) and (is_failure(found) or "failed_only" not in query)


async def test_a_limit_keeps_the_newest_rows_and_a_cursor_leads_on(place: Place) -> None:
    """Without a cursor the last rows; after one, the rows that follow; before one, the rows that precede."""
    history = place.open_history()
    await history.write(1, HistoryBatch([row(n) for n in range(10)]))

    newest = await history.steps(Query(limit=3))
    earlier = await history.steps(Query(limit=3, before=newest[0].seq))
    later = await history.steps(Query(limit=2, after=earlier[0].seq))

    assert [step.row.at - NOW for step in newest] == [7, 8, 9]
    assert [step.row.at - NOW for step in earlier] == [4, 5, 6]
    assert [step.row.at - NOW for step in later] == [5, 6]


async def test_rows_are_found_by_their_numbers_without_their_long_fields(place: Place) -> None:
    """A light query leaves details and answers out."""
    history = place.open_history()
    await history.write(1, HistoryBatch(some()))
    steps = await history.steps(Query())
    wanted = (steps[1].seq, steps[5].seq, 10_000)

    assert await history.steps(Query(seqs=wanted)) == [steps[1], steps[5]]
    [light, _] = await history.steps(Query(seqs=wanted, light=True))
    assert light.row == steps[1].row._replace(detail="", answer=None)


async def test_a_batch_that_is_there_is_not_written_again(place: Place) -> None:
    """The writer tries a batch again when it did not hear of its end."""
    history = place.open_history()
    await history.write(1, HistoryBatch([row(1)]))
    await history.write(1, HistoryBatch([row(1)]))
    await history.write(2, HistoryBatch([row(2)]))

    assert await rows(history) == [row(1), row(2)]


async def test_several_writers_share_a_history(place: Place) -> None:
    """Their batches have the same numbers, and each is there."""
    await place.open_history().write(1, HistoryBatch([row(1)]))
    await place.open_history().write(1, HistoryBatch([row(2)]))

    assert await rows(place.open_history()) == [row(1), row(2)]


@pytest.mark.parametrize(
    ("place", "bad"),
    [("sqlite", "\ud800"), ("postgres", "\ud800"), ("postgres", "\x00")],
    indirect=["place"],
)
async def test_a_batch_that_the_store_can_never_take_is_refused_whole(place: Place, bad: str) -> None:
    """It would be tried for ever. SQLite takes a NUL, PostgreSQL takes none in a text."""
    history = place.open_history()

    with pytest.raises(ValueError, match=r"history\.db|postgresql"):
        await history.write(1, HistoryBatch([row(1), row(2, detail=bad)]))
    await history.write(2, HistoryBatch([row(3)]))

    assert await rows(history) == [row(3)]


async def test_arrival_and_first_attempt_are_one_row_that_is_read_as_two(place: Place) -> None:
    """Decision 52: the columns that its short form lacks have the same values in both stores."""
    taken = replace(event(id="ord-1"), arrived_at=NOW)
    attempt = Attempt(1, NOW + 0.25, OutcomeKind.OK, 200, 0.5)
    history, batch = place.open_history(), HistoryBatch([row(1)])
    batch.add_arrival(taken, 1)
    batch.add_delivery(taken, "sub_1", attempt, b"\xff\0", "text/plain")
    batch.add_delivery(taken, "sub_1", attempt._replace(status=204), None, "")

    await history.write(1, batch)

    found = await rows(history)
    assert found == list(batch)
    ids = taken.id, taken.tenant, taken.type
    assert list(parted(found)) == [
        row(1),
        HistoryRow(NOW, "received", *ids, number=1),
        HistoryRow(
            *(attempt.at, "attempt", *ids, "sub_1", "", 1, "ok", 200, 500.0, None, "delivered", ""),
            *(b"\xff\0", "text/plain"),
        ),
        HistoryRow(attempt.at, "attempt", *ids, "sub_1", "", 1, "ok", 204, 500.0, None, "delivered"),
    ]


async def test_a_batch_of_several_statements_is_written_or_refused_whole(place: Place) -> None:
    """One transaction holds more rows than one statement takes."""
    history, several = place.open_history(), [row(n) for n in range(ROWS_AT_ONCE + 1)]
    with pytest.raises(ValueError, match=r"history\.db|postgresql"):
        await history.write(1, HistoryBatch([*several, row(9_999, detail="half a character: \ud800")]))
    assert await rows(history) == []

    await history.write(2, HistoryBatch(several))

    assert await rows(history, limit=10_000) == several


async def test_rows_are_deleted_by_age(place: Place) -> None:
    """All rows older than the bound, however many, and no other; so are those from the future."""
    history = place.open_history()
    await history.write(1, HistoryBatch([row(0, at=NOW + 1e6), *(row(n) for n in range(3_000))]))
    await history.write(2, HistoryBatch([row(5_000)]))

    await trimmed(history, Limits(max_age_s=100, max_rows=1_000_000), NOW + 2_600)

    kept = [found.at - NOW for found in await rows(history, limit=10_000)]
    assert kept == [*range(2_500, 3_000), 5_000]
    assert FUTURE_S < 1e6 - 2_600


async def test_rows_are_deleted_by_number(place: Place) -> None:
    """The newest ones stay."""
    history = place.open_history()
    for batch in range(5):
        await history.write(batch + 1, HistoryBatch([row(batch * 1_000 + n) for n in range(1_000)]))

    await trimmed(history, Limits(max_age_s=86_400, max_rows=700), NOW + 5_000)

    assert [found.at - NOW for found in await rows(history, limit=10_000)] == [*range(4_300, 5_000)]


async def test_one_call_deletes_few_rows(place: Place) -> None:
    """Writes come between, so that none waits for long."""
    history = place.open_history()
    for batch in range(5):
        await history.write(batch + 1, HistoryBatch([row(batch * 1_000 + n) for n in range(1_000)]))

    assert await history.trim(Limits(max_age_s=1, max_rows=1_000), NOW + 86_400)

    assert len(await rows(history, limit=10_000)) >= 3_000


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_deletion_reads_only_its_own_part_of_the_table(place: Place) -> None:
    """Rows that were deleted before, and that no VACUUM has removed, do not make it slower."""
    history = place.open_history()
    await history.write(1, HistoryBatch([row(n) for n in range(3_000)]))
    connection = await asyncpg.connect(place.url)
    await connection.execute("ANALYZE leveret_history")
    explain = f"EXPLAIN {BY_AGE.replace('$1', '2000').replace('$2', '3000')}"
    plan = await connection.fetch(explain.replace("$3", str(NOW)).replace("$4", str(2 * NOW)))
    await connection.close()

    assert "Index Cond: ((seq >= 2000) AND (seq < 3000))" in "\n".join(line[0] for line in plan)


async def test_a_cursor_stays_valid_after_everything_was_deleted(place: Place) -> None:
    """A number is never given twice, so a follower misses no row."""
    history = place.open_history()
    await history.write(1, HistoryBatch([row(1)]))
    [last] = await history.steps(Query())
    await trimmed(history, Limits(max_age_s=1, max_rows=1_000), NOW + 1_000)
    await history.write(2, HistoryBatch([row(2)]))

    assert [step.row for step in await history.steps(Query(after=last.seq))] == [row(2)]


async def test_the_file_is_the_owners(sql_place: Place) -> None:
    """Answers may contain personal data."""
    await sql_place.open_history().write(1, HistoryBatch([row(1)]))

    assert stat.S_IMODE((sql_place.home / FILE_NAME).stat().st_mode) == 0o600


async def test_a_file_that_was_removed_is_made_anew(sql_place: Place) -> None:
    """No row goes into a file without a name."""
    history = sql_place.open_history()
    await history.write(1, HistoryBatch([row(1)]))
    for path in sql_place.home.glob(f"{FILE_NAME}*"):
        path.unlink()
    await history.write(2, HistoryBatch([row(2)]))

    assert await rows(sql_place.open_history()) == [row(2)]


async def test_a_damaged_file_is_reported_and_a_new_one_is_used(sql_place: Place) -> None:
    """The operator moves it away; the same process goes on."""
    file = sql_place.home / FILE_NAME
    file.parent.mkdir()
    file.write_bytes(b"no database at all" * 100)
    history = sql_place.open_history()

    with pytest.raises(StoreUnavailable, match="not a database"):
        await history.write(1, HistoryBatch([row(1)]))
    file.unlink()
    await history.write(1, HistoryBatch([row(1)]))

    assert await rows(history) == [row(1)]


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_tables_that_are_gone_are_made_again(place: Place) -> None:
    """A database that was made anew under a running worker takes rows after one refusal.

    With SQLite each batch looks at the file first: the test of a removed file shows that.
    """
    history = place.open_history()
    await history.write(1, HistoryBatch([row(1)]))
    await take_back(place, "0005")

    with pytest.raises(StoreUnavailable):
        await history.write(2, HistoryBatch([row(2)]))
    await history.write(2, HistoryBatch([row(2)]))

    assert await rows(history) == [row(2)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    late_s=st.lists(st.floats(0, 3_000), min_size=1, max_size=200),
    since_s=st.floats(-100, 5_000),
)
async def test_a_search_by_time_misses_no_row(sql_place: Place, late_s: list[float], since_s: float) -> None:
    """Rows are written up to an hour after their time, in any order within that."""
    history = sql_place.open_history()
    noted = [row(n, at=NOW + n * 20 - late) for n, late in enumerate(late_s)]
    (sql_place.home / FILE_NAME).unlink(missing_ok=True)
    await history.write(1, HistoryBatch(noted))

    found = await rows(history, since=NOW + since_s)

    assert found == [each for each in noted if each.at >= NOW + since_s]
