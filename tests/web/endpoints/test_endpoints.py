"""Endpoints over HTTP: states, figures from the history, thresholds, and pages by trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.message.records import EndpointState
from consumer.core.store.tokens import Scope
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.history.history_store import HistoryReader
from consumer.edges.history.sqlite_history import SqliteHistory
from consumer.web.app import create_app
from tests.support.web import SHOP, Api, opened_api, problem

AT = 1_000_000.0  # of the clock of the API


async def made(client: httpx2.AsyncClient, name: str, tenant: str = "acme", **fields: object) -> str:
    """Create a subscription and return its id."""
    values = {**SHOP, "name": name, "url": f"https://{name}.example/hook", **fields}
    answer = await client.post(f"/v1/tenants/{tenant}/subscriptions", json=values)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def attempt(target: str, seconds_ago: float, event: str, **more: Any) -> HistoryRow:
    """A failed attempt to *target*."""
    row = HistoryRow(AT - seconds_ago, "attempt", event, "acme", "order.created", target, f"dlv_{event}", 1)
    failed: dict[str, Any] = {
        "kind": "http_5xx",
        "status": 503,
        "latency_ms": 250.0,
        "wait_ms": 1000.0,
        "reason": "retry",
    }
    return row._replace(**failed | {"answer": b"\xff<busy>", "answer_type": "text/html"} | more)


def delivered(target: str, seconds_ago: float, event: str) -> HistoryRow:
    """An attempt to *target* that delivered."""
    ok: dict[str, Any] = {
        "kind": "ok",
        "status": 200,
        "wait_ms": None,
        "reason": "delivered",
        "delivery_id": "",
        "answer": None,
    }
    return attempt(target, seconds_ago, event, **ok)


async def write(api: Api, *rows: HistoryRow) -> None:
    """Write rows as a worker does."""
    history = SqliteHistory(api.context.settings.home, 5.0)
    await history.write(1, HistoryBatch(rows))
    await history.close()


async def decide(api: Api, target: str, name: str, state: str) -> None:
    """Write the state of a breaker."""
    endpoint = endpoint_id("acme", f"https://{name}.example/hook")
    await api.context.store.records.decide(
        EndpointState(
            endpoint=endpoint, tenant="acme", subscription_id=target, state=state, epoch=0, since=AT - 60
        )
    )


async def lines(client: httpx2.AsyncClient, **query: str) -> Mapping[str, Any]:
    """The listed endpoints by name."""
    answer = await client.get("/v1/endpoints", params=query)
    assert answer.status_code == 200, answer.text
    return {item["name"]: item for item in answer.json()["items"]}


async def test_the_worst_endpoint_comes_first_with_its_last_answer(api: Api) -> None:
    """States, shares of success, waiting deliveries and the last failure are those of the last hour."""
    async with await api.client_of() as client:
        well, bad, open_ = [await made(client, name) for name in ("well", "bad", "broken")]
        await write(
            api,
            *(delivered(well, 30 + n, f"w{n}") for n in range(20)),
            *(delivered(bad, 90, f"b{n}") for n in range(5)),
            *(attempt(bad, 30, f"b{n}") for n in range(5, 10)),
            attempt(open_, 20, "o1"),
        )
        await decide(api, open_, "broken", "open")
        found = await lines(client)

    assert list(found) == ["broken", "bad", "well"]
    assert [each["state"] for each in found.values()] == ["open", "degraded", "well"]
    assert found["broken"]["since"] == "1970-01-12T13:45:40.000Z"
    assert found["bad"]["success_ratio"] == 0.5
    assert found["bad"]["waiting"] == 5
    assert found["bad"]["failures_in_row"] == 5
    assert found["well"]["p95_s"] == pytest.approx(0.25, rel=0.1)
    assert found["well"]["last_error"] is None
    error = found["broken"]["last_error"]
    assert (error["code"], error["answer"]) == ("503", "\ufffd<busy>")


class Counting:
    """A history that counts the queries for rows."""

    def __init__(self, history: HistoryReader) -> None:
        self.history = history
        self.queries = 0

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Count and pass on."""
        self.queries += 1
        return await self.history.steps(query)

    async def close(self) -> None:
        """Do nothing: the history belongs to the API."""


async def test_last_failures_of_a_page_cost_one_query(api: Api) -> None:
    """A list in which every endpoint fails reads as much as one with a single failure."""
    history = Counting(api.context.history)
    context = replace(api.context, history=history)
    counted = Api(create_app(context), context, api.clock, api.log)
    async with await counted.client_of() as client:
        targets = [await made(client, f"down{n}") for n in range(5)]
        await write(api, *(attempt(target, 20, f"e{n}") for n, target in enumerate(targets)))
        found = await lines(client)

    assert [each["last_error"]["code"] for each in found.values()] == ["503"] * 5
    assert history.queries == 1


async def test_endpoints_are_filtered_and_paged(api: Api) -> None:
    """By state, by tenant, by a part of name or URL; pages have no gaps."""
    async with await api.client_of() as client:
        for name in ("a", "b", "c"):
            await made(client, name)
        target = await made(client, "broken")
        await made(client, "other", "rival")
        await decide(api, target, "broken", "forced")
        await client.post("/v1/tenants/acme/subscriptions/c/pause")
        assert list(await lines(client, state="failing")) == ["broken"]
        assert list(await lines(client, state="paused")) == ["c"]
        assert list(await lines(client, tenant="rival")) == ["other"]
        assert list(await lines(client, q="ROKE")) == ["broken"]
        names, cursor = [], ""
        while True:
            page = (await client.get("/v1/endpoints", params={"limit": "2"} | cursor_of(cursor))).json()
            names += [item["name"] for item in page["items"]]
            if (cursor := page["next"]) is None:
                break
        problem(await client.get("/v1/endpoints", params={"state": "sad"}), 422)

    assert names == ["broken", "c", "a", "b", "other"]


def cursor_of(text: str) -> dict[str, str]:
    """The parameter of a page."""
    return {"cursor": text} if text else {}


async def test_one_endpoint_has_series_errors_and_attempts(api: Api) -> None:
    """The attempts are the newest first, in pages."""
    async with await api.client_of() as client:
        target = await made(client, "bad")
        steps = [
            attempt(target, 60 - n, f"e{n}", status=None if n == 2 else 503, kind="dns") for n in range(4)
        ]
        await write(api, *steps, steps[0]._replace(step="deferred", reason="breaker", at=AT))
        shown = (await client.get(f"/v1/endpoints/{target}")).json()
        first = (await client.get(f"/v1/endpoints/{target}/attempts", params={"limit": 3})).json()
        rest = (
            await client.get(f"/v1/endpoints/{target}/attempts", params={"limit": 3, "cursor": first["next"]})
        ).json()

    assert len(shown["success"]) == len(shown["latency_p95_s"]) == 60
    assert {each["code"]: each["count"] for each in shown["errors"]} == {"503": 3, "dns": 1}
    assert [each["event_id"] for each in first["items"]] == ["e3", "e2", "e1"]
    assert first["items"][0]["verdict"] == "retry"
    assert first["items"][0]["duration_s"] == 0.25
    assert [each["event_id"] for each in rest["items"]] == ["e0"]
    assert rest["next"] is None


async def test_thresholds_are_changed_at_run_time_by_their_reader(api: Api) -> None:
    """With If-Match; null takes the default back (S3-2)."""
    async with await api.client_of(Scope.OPERATE) as client:
        target = await made(client, "shop")
        path = f"/v1/endpoints/{target}/thresholds"
        before = await client.get(f"/v1/endpoints/{target}")
        stale = {"If-Match": before.headers["ETag"]}
        changed = await client.patch(path, json={"failures": 9, "cooldown_s": 2.5}, headers=stale)
        problem(await client.patch(path, json={"failures": 3}, headers=stale), 412)
        back = await client.patch(path, json={"failures": None})
        refused = problem(await client.patch(path, json={"cooldown_s": 0}), 422)
        problem(await client.patch(path, json={"colour": 1}), 422)

    assert values(changed)["failures"] == 9
    assert values(changed)["cooldown_s"] == 2.5
    assert values(back)["failures"] is None
    assert values(back)["cooldown_s"] == 2.5
    assert refused["field"] == "cooldown_s"


def values(answer: httpx2.Response) -> dict[str, float | None]:
    """The values of the settings in an answer."""
    assert answer.status_code == 200, answer.text
    return {each["name"]: each["value"] for each in answer.json()["thresholds"]}


async def test_new_rows_are_counted_once(api: Api) -> None:
    """A later look adds the rows that were written meanwhile, and no row twice."""
    async with await api.client_of() as client:
        target = await made(client, "shop")
        await write(api, *(attempt(target, 30, f"e{n}") for n in range(3)))
        assert (await lines(client))["shop"]["attempts"] == 3
        await write(api, attempt(target, 20, "e9"))
        assert (await lines(client))["shop"]["attempts"] == 3, "sums of this age are fresh enough"
        api.clock.advance(3.0)
        assert (await lines(client))["shop"]["attempts"] == 4
        api.clock.advance(3_700.0)
        found = (await lines(client))["shop"]

    assert found["attempts"] == 0
    assert found["waiting"] == 4


async def test_without_a_whole_history_shares_are_unknown(tmp_path: Any) -> None:
    """`keep = "failures"` has failures only, so that a share of successes would be wrong."""
    async with (
        opened_api(tmp_path / "home", HISTORY__KEEP="failures") as api,
        await api.client_of() as client,
    ):
        target = await made(client, "shop")
        await write(api, *(attempt(target, 30, f"e{n}") for n in range(20)))
        found = (await lines(client))["shop"]
        hour = (await client.get("/v1/endpoints/hour")).json()

    assert found["state"] == "well"
    assert found["success_ratio"] is None
    assert found["last_error"]["code"] == "503"
    assert hour["success_ratio"] is None


async def test_the_hour_is_summed_up_for_a_tenant_and_for_all(api: Api) -> None:
    """A bound token gets its own tenant's sums."""
    async with await api.client_of() as client:
        mine, other = await made(client, "shop"), await made(client, "other", "rival")
        parked = attempt(mine, 30, "p1", step="parked", reason="exhausted", latency_ms=None)
        await write(api, delivered(mine, 60, "a"), attempt(mine, 30, "b"), delivered(other, 60, "c"), parked)
        everything = (await client.get("/v1/endpoints/hour")).json()
    async with await api.client_of(tenant="acme") as client:
        own = (await client.get("/v1/endpoints/hour")).json()
        problem(await client.get("/v1/endpoints/hour", params={"tenant": "rival"}), 404)

    assert (everything["attempts"], everything["endpoints"]) == (3, 2)
    assert (own["attempts"], own["endpoints"], own["waiting"]) == (2, 1, 1)
    assert own["success_ratio"] == 0.5
    assert own["parked_added"] == 1
    assert len(own["deliveries_per_s"]) == 60
    assert own["deliveries_per_s"][-2] == pytest.approx(1 / 60, abs=1e-3)


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST"])
async def test_strangers_see_no_endpoint(api: Api, method: str) -> None:
    """A token of another tenant gets 404 as for an id that does not exist, and lists nothing of it."""
    async with await api.client_of() as client:
        target = await made(client, "shop")
    paths = {"GET": ("", "/attempts"), "PATCH": ("/thresholds",), "POST": ("/reset", "/open", "/kick")}
    async with await api.client_of(Scope.ADMIN, tenant="rival") as client:
        for of in (target, "sub_0000000000000000"):
            for path in paths[method]:
                body = {"failures": 1} if method == "PATCH" else None
                problem(await client.request(method, f"/v1/endpoints/{of}{path}", json=body), 404)
        assert await lines(client) == {}
        problem(await client.get("/v1/endpoints", params={"tenant": "acme"}), 404)


async def test_without_a_broker_a_reset_changes_nothing(api: Api) -> None:
    """503, and the audit log has no line of it."""
    async with await api.client_of() as client:
        target = await made(client, "shop")
        for deed in ("reset", "open", "kick"):
            problem(await client.post(f"/v1/endpoints/{target}/{deed}"), 503)

    assert await api.context.store.endpoint_states() == []
