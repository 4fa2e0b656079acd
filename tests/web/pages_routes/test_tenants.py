"""The page of tenants shows how even the last day was, by hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.store.tokens import Scope
from consumer.edges.history.sqlite_history import SqliteHistory
from consumer.web.activity_feed import FEW_ROWS
from consumer.web.services.tenants import fairness_day
from tests.support.visitor import HTML, Visitor
from tests.support.web import SHOP, Api, opened_api

HOUR_S = 3_600
SUMMING = "still being summed up"


async def subscribed(api: Api, tenant: str) -> str:
    """Make a subscription of a tenant and return its id."""
    async with await api.client_of() as client:
        answer = await client.post(f"/v1/tenants/{tenant}/subscriptions", json=dict(SHOP))
    return str(answer.json()["id"])


async def attempted(api: Api, counts: dict[str, list[int]]) -> None:
    """Write attempts: by subscription, how many there were in the last hours, the present one first."""
    rows = [
        HistoryRow(api.clock.at - hour * HOUR_S, "attempt", "ord", "t", "x", target, reason="delivered")
        for target, hours in counts.items()
        for hour, count in enumerate(hours)
        for _ in range(count)
    ]
    history = SqliteHistory(api.context.settings.home, 5.0)
    await history.write(1, HistoryBatch(rows))
    await history.close()


async def test_fairness_over_the_day(api: Api) -> None:
    """Each hour has Jain's index of its tenants, and the share of those that are the busiest of the day."""
    ids = [await subscribed(api, tenant) for tenant in ("a", "b", "c", "d")]
    await attempted(api, {ids[0]: [3, 0, 2], ids[1]: [3, 0, 2], ids[2]: [3, 0, 1], ids[3]: [3], "gone": [9]})

    day = await fairness_day(api.context)

    assert day is not None
    assert list(day.hours[-4:]) == [None, pytest.approx(25 / 27), None, 1.0]
    assert list(day.top_hours[-4:]) == [None, 1.0, None, 0.75]
    assert day.top == ["a", "b", "c"]
    assert day.top_share == pytest.approx(14 / 17)
    assert len(day.hours) == len(day.top_hours) == 24


async def test_the_page_describes_the_charts(api: Api) -> None:
    """A reader of the screen gets the numbers too; without attempts there is no chart."""
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        assert "Last 24 hours" not in await visitor.see("/tenants")

        ids = [await subscribed(api, tenant) for tenant in ("acme", "rival")]
        await attempted(api, {ids[0]: [1, 1], ids[1]: [1, 3]})
        api.clock.advance(5)
        page = (await client.get("/tenants", headers=HTML)).text

    assert 'aria-label="Jain&#39;s index of each of the last 24 hours, at least 0.80"' in page
    assert "of attempts by rival, acme" in page
    assert page.count('class="spark') == 2


async def test_a_history_without_delivered_attempts_shows_no_fairness(tmp_path: Path) -> None:
    """Failures alone are not the work of a tenant."""
    async with opened_api(tmp_path / "home", HISTORY__KEEP="failures") as api:
        assert await fairness_day(api.context) is None


async def test_complete_sums_need_no_note(api: Api) -> None:
    """Not even on the first page that asks for them."""
    [id_] = [await subscribed(api, "acme")]
    await attempted(api, {id_: [1]})
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        assert SUMMING not in await visitor.see("/tenants")
        assert SUMMING not in await visitor.see("/endpoints")


async def test_a_page_without_sums_has_no_note(tmp_path: Path) -> None:
    """Failures alone show no fairness, so nothing is summed up for it."""
    async with opened_api(tmp_path / "home", HISTORY__KEEP="failures") as api, api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        assert SUMMING not in await visitor.see("/tenants")


async def test_a_page_with_unfinished_sums_says_so(api: Api) -> None:
    """Until the store has summed up a long history; pages without sums need no note."""
    await attempted(api, {"sub_1": [FEW_ROWS + 1]})
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        for path in ("/", "/endpoints", "/tenants"):
            assert SUMMING in await visitor.see(path), path
        assert SUMMING not in await visitor.see("/jobs")
