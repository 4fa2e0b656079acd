"""Events, deliveries and attempts over HTTP: the same facts as `leveret trace`, filtered and in pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.message.parked import delivery_id
from consumer.core.store.tokens import Scope
from consumer.edges.history.build import open_history
from consumer.edges.inquire.listings import ROWS_MAX
from tests.support.builders.rows import SHOP, delivered, step
from tests.support.web import SHOP as FIELDS
from tests.support.web import Api, problem


async def record(api: Api, *rows: HistoryRow) -> None:
    """Write rows of the history, as a worker does."""
    history = open_history(api.context.settings)
    await history.write(1, HistoryBatch(rows))
    await history.close()


async def story(api: Api) -> None:
    """Acme's shop: one delivered, one waiting, one parked, one replayed and delivered; beta has an event."""
    now = api.clock.now()
    async with await api.client_of() as client:
        await client.post("/v1/tenants/acme/subscriptions", json=FIELDS)
        await client.post("/v1/tenants/beta/subscriptions", json=FIELDS)
    await record(
        api,
        delivered("ord-1", now - 500),
        step("ord-2", now - 400, number=1),
        step("ord-3", now - 300, number=1),
        step("ord-3", now - 290, number=2, reason="park", wait_ms=None),
        step("ord-3", now - 289, "parked", reason="exhausted", number=2),
        step("ord-4", now - 200, "parked", reason="exhausted", number=1),
        step("ord-4", now - 150, "replayed"),
        delivered("ord-4", now - 140, delivery_id=delivery_id("ord-4", SHOP)),
        step("ord-2", now - 10, number=2, wait_ms=60_000.0),
        step("ord-1", now - 5, tenant="beta", type="bill.due", subscription_id="sub_00000000000000ff"),
    )


async def every(client: httpx2.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """Return the items of every page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await client.get(path, params={"limit": 2, **query})
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        query["cursor"] = answer.json()["next"]
        if query["cursor"] is None:
            return found


async def test_an_event_has_the_trace_of_each_tenant(api: Api) -> None:
    """Two tenants may share an id; a bound token sees its own; an unknown id is 404 with a remedy."""
    await story(api)
    async with await api.client_of(Scope.READ) as client:
        both = (await client.get("/v1/events/ord-1")).json()["items"]
        one = (await client.get("/v1/events/ord-3")).json()["items"]
        problem(await client.get("/v1/events/ord-3", params={"tenant": "beta"}), 404)
        assert problem(await client.get("/v1/events/ord/none"), 404)["remedy"]
    async with await api.client_of(Scope.READ, "beta") as beta:
        own = (await beta.get("/v1/events/ord-1")).json()["items"]
        problem(await beta.get("/v1/events/ord-3"), 404)
        problem(await beta.get("/v1/events/ord-1", params={"tenant": "acme"}), 404)

    assert [trace["tenant"] for trace in both] == ["acme", "beta"]
    assert [trace["tenant"] for trace in own] == ["beta"]
    [delivery] = one[0]["deliveries"]
    assert (delivery["status"], delivery["subscription"], delivery["attempts"]) == ("parked", "acme/shop", 2)
    assert [each["step"] for each in delivery["steps"]] == ["attempt", "attempt", "parked"]
    assert delivery["steps"][0]["answer"] == "busy"


async def test_deliveries_are_listed_once_with_their_status(api: Api) -> None:
    """The one with the newest step first; each filter holds; pages lead through all of them."""
    await story(api)
    async with await api.client_of(Scope.READ) as client:

        async def found(**query: Any) -> list[tuple[str, str]]:
            return [
                (one["event_id"], one["status"]) for one in await every(client, "/v1/deliveries", **query)
            ]

        acme = [("ord-2", "waiting"), ("ord-4", "delivered"), ("ord-3", "parked"), ("ord-1", "delivered")]
        assert await found(tenant="acme") == acme
        assert (await found())[1:] == acme
        assert await found(tenant="acme", status="parked") == [("ord-3", "parked")]
        assert await found(status="delivered") == [acme[1], acme[3]]
        assert await found(tenant="acme", status="waiting") == [acme[0]]
        assert await found(tenant="acme", failed=True) == [acme[0], acme[1], acme[2]]
        assert await found(subscription="acme/shop", until="250s") == [
            ("ord-3", "parked"),
            ("ord-2", "waiting"),
            ("ord-1", "delivered"),
        ]
        assert await found(type="bill.*") == [("ord-1", "delivering")]
        assert await found(since="20s", type="order.#") == [acme[0]]
        assert await found(tenant="nobody") == []
        problem(await client.get("/v1/deliveries", params={"status": "lost"}), 422)


async def test_one_delivery_is_shown_by_its_id(api: Api) -> None:
    """With its steps; one of another tenant is 404, and an unknown one names the remedy."""
    await story(api)
    path = f"/v1/deliveries/{delivery_id('ord-4', SHOP)}"
    async with await api.client_of(Scope.READ) as client, await api.client_of(Scope.READ, "beta") as beta:
        one = (await client.get(path)).json()
        problem(await beta.get(path), 404)
        assert "event" in problem(await client.get("/v1/deliveries/dlv_0"), 404)["remedy"]

    assert [each["step"] for each in one["steps"]] == ["parked", "replayed", "attempt"]
    assert one["status"] == "delivered"


async def test_attempts_are_listed_newest_first(api: Api) -> None:
    """By subscription, result and time; a bound token sees its own, whatever it asks for."""
    await story(api)
    async with await api.client_of(Scope.READ) as client, await api.client_of(Scope.READ, "beta") as beta:

        async def found(by: httpx2.AsyncClient, **query: Any) -> list[tuple[str, int]]:
            rows = await every(by, "/v1/attempts", **query)
            return [(one["event_id"], one["number"]) for one in rows]

        shop = [("ord-2", 2), ("ord-4", 1), ("ord-3", 2), ("ord-3", 1), ("ord-2", 1), ("ord-1", 1)]
        assert await found(client, subscription="acme/shop") == shop
        assert await found(client, tenant="acme", code="200") == [shop[1], shop[5]]
        assert await found(client, tenant="acme", failed=True) == [shop[0], *shop[2:5]]
        assert await found(beta, subscription="acme/shop") == []
        problem(await beta.get("/v1/attempts", params={"tenant": "acme"}), 404)
        problem(await client.get("/v1/attempts", params={"cursor": "WyJ4IiwieSJd"}), 422)


async def test_a_rare_filter_costs_a_bounded_page(api: Api) -> None:
    """A page reads so many rows at most; it may be empty, and its cursor leads to the rest."""
    now = api.clock.now()
    rare = delivered("rare", now - 1_000, type="bill.due")
    await record(api, rare, *(delivered(f"ord-{n}", now - 900) for n in range(ROWS_MAX + 10)))
    async with await api.client_of(Scope.READ) as client:
        first = (await client.get("/v1/attempts", params={"type": "bill.due"})).json()
        rows = await every(client, "/v1/attempts", type="bill.due")
        deliveries = await every(client, "/v1/deliveries", type="bill.due")

    assert first["items"] == []
    assert first["next"] is not None
    assert [one["event_id"] for one in rows] == ["rare"]
    assert [one["event_id"] for one in deliveries] == ["rare"]


async def test_without_a_history_the_lists_are_empty(api: Api, tmp_path: Path) -> None:
    """A fresh installation has nothing to show, and no fault."""
    async with await api.client_of(Scope.READ) as client:
        for path in ("/v1/attempts", "/v1/deliveries"):
            assert (await client.get(path)).json() == {"items": [], "next": None}
