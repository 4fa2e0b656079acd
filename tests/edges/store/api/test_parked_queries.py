"""Pages, counts and groups of the index are those that the filter itself chooses, on both databases."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from consumer.core.message.parked_filter import Filter, GroupBy, grouped
from consumer.core.message.records import ParkedRow, row_as_cells
from consumer.edges.store.rows.parked_queries import ParkedQueries, Place
from consumer.edges.store.rows.records import Batch
from tests.support.builders.rows import parked_line
from tests.support.stores import Place as Where

NOW = 1_767_225_600.0
FILTERS: dict[str, Filter] = {
    "all": Filter(),
    "tenant": Filter(tenant="acme"),
    "reason": Filter(reason="exhausted"),
    "subscription": Filter(subscription="sub_1"),
    "a part of an id": Filter(subscription="sub_"),
    "a wildcard of SQL": Filter(subscription="sub%"),
    "time": Filter(since=NOW + 10, until=NOW + 30),
    "type": Filter(type="order.*"),
    "any type": Filter(type="#"),
    "no type": Filter(type="never"),
    "ids": Filter(ids=frozenset({"prk_0000000000000003", "prk_x"})),
    "several": Filter(tenant="beta", type="order.#", reason="expired", since=NOW + 5),
}


def lines() -> list[ParkedRow]:
    """Rows whose fields differ; some share a time, and one has expired."""
    chance = random.Random(11)
    found = []
    for number in range(60):
        fields: dict[str, Any] = {
            "tenant": chance.choice(["acme", "beta", None]),
            "reason": chance.choice(["exhausted", "expired"]),
            "type": chance.choice(["order.paid", "order.created.eu", "bill", None]),
            "code": chance.choice(["503", "dns", None]),
            "subscription_ids": chance.choice([("sub_1",), ("sub_2",), ("sub_1", "sub_2"), ()]),
        }
        found.append(parked_line(number, NOW + number // 2, **fields))
    return [*found, replace(parked_line(99, NOW + 1), expires_at=1.0)]


async def queries(place: Where) -> ParkedQueries:
    """Return queries of a store with these rows."""
    records = place.open().records
    rows = lines()
    await records.write(Batch(parked={row.id: row for row in rows[:-1]}))
    return records.parked


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filter_chooses_the_same_rows_in_sql(place: Where, name: str) -> None:
    """S1-13: the list in pages, the count and the groups agree with the filter of one entry."""
    chosen, parked = FILTERS[name], await queries(place)
    wanted = [row for row in lines()[:-1] if chosen.takes_row(row)]
    wanted.sort(key=lambda row: (row.parked_at, row.id), reverse=True)

    found: list[ParkedRow] = []
    after: Place | None = None
    while page := await parked.page(chosen, 7, after):
        found += page
        after = Place(page[-1].parked_at, page[-1].id)
    span = await parked.span(chosen)
    groups = await parked.groups(chosen, [GroupBy.TENANT, GroupBy.STATUS])

    assert [row.id for row in found] == [row.id for row in wanted]
    assert span.entries == len(wanted)
    assert (span.oldest, span.newest) == (
        (wanted[-1].parked_at, wanted[0].parked_at) if wanted else (None, None)
    )
    keys = [GroupBy.TENANT, GroupBy.STATUS]
    counted = grouped(map(row_as_cells, wanted), keys)
    known = {(group["tenant"], group["status"]): group["count"] for group in counted}
    assert {(g.values["tenant"], g.values["status"]): g.count for g in groups} == known
    assert [g.count for g in groups] == [group["count"] for group in counted]


async def test_a_store_that_does_not_exist_has_no_entries(place: Where) -> None:
    """A list before the first start is empty, and makes nothing."""
    parked = place.open().records.parked

    assert await parked.page(Filter(), 10) == ()
    assert (await parked.span(Filter(type="#"))).entries == 0
    assert await parked.groups(Filter(), [GroupBy.REASON]) == ()
    assert await parked.one("prk_x") is None
