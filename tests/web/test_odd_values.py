"""NUL and numbers beyond 64 bits are faults of the request on both databases, never faults of Leveret."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from consumer.core.subscription.subscription import subscription_id
from consumer.web.shared.cursors import PageRequest
from tests.support.processes.postgres import Postgres
from tests.support.visitor import Visitor
from tests.support.web import SHOP, Api, opened_api, problem

HUGE = (2**63, -(2**64), 10**30)
BAD = "a\0b"
JSON = {"Content-Type": "application/json"}
LISTS = ("/v1/jobs", "/v1/parked", "/v1/deliveries", "/v1/attempts", "/v1/endpoints/{shop}/attempts")
PAGES = ("/endpoints", "/parked", "/parked/resend", "/audit", "/search", "/tenants")


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> AsyncIterator[Api]:
    """An API on each database in turn, with one subscription of acme."""
    url = {"DATABASE_URL": await postgres.database()} if request.param == "postgres" else {}
    quick = {"API__BURST": "100000", "API__REQUESTS_PER_S": "10000"}
    async with opened_api(tmp_path / "home", **quick, **url) as made:
        async with await made.client_of() as client:
            assert (await client.post("/v1/tenants/acme/subscriptions", json=SHOP)).status_code == 201
        yield made


def operations(api: Api) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give method, path and description of every operation."""
    for path, methods in api.app.openapi()["paths"].items():
        for method, described in methods.items():
            yield method.upper(), path, described


def filled(path: str, **values: str) -> str:
    """Return a path with *values*, or values that are there, in place of its parameters."""
    known = {"tenant": "acme", "subscription": subscription_id("acme", "shop")} | {
        name: quote(one) for name, one in values.items()
    }
    return "/".join(
        known.get(part[1:-1].partition(":")[0], "x") if part.startswith("{") else part
        for part in path.split("/")
    )


async def test_nul_in_a_parameter_is_named(api: Api) -> None:
    """Each text in a path or query, of each operation."""
    seen = 0
    async with await api.client_of() as client:
        for method, path, described in operations(api):
            for each in described.get("parameters", []):
                if each["in"] == "header":
                    continue
                place = {each["name"]: BAD}
                url = filled(path, **place) if each["in"] == "path" else filled(path)
                query = place if each["in"] == "query" else {}
                found = problem(await client.request(method, url, params=query), 422)
                assert found["field"] == each["name"], (method, path, found)
                seen += 1
    assert seen > 50


async def test_nul_in_a_body_is_named(api: Api) -> None:
    """Deep in a body, too; only the data of an event may contain it."""
    async with await api.client_of() as client:
        for method, path, described in operations(api):
            if "requestBody" in described:
                body = {"a": [{"b": BAD}]}
                found = problem(await client.request(method, filled(path), json=body), 422)
                assert found["field"] == "a[0].b", (method, path, found)
        event = {"type": "order.created", "data": {"text": BAD}}
        assert (await client.post("/v1/tenants/acme/events", json=event)).status_code == 503
        deep = b"[" * 500 + b'"\\u0000"' + b"]" * 500  # a reader may refuse more while coverage is measured
        answer = await client.post("/v1/tenants/acme/subscriptions", content=deep, headers=JSON)
    assert answer.status_code == 422


async def test_a_number_beyond_64_bits_is_named(api: Api) -> None:
    """Each number in a query, of each operation."""
    seen = 0
    async with await api.client_of() as client:
        for method, path, described in operations(api):
            for each in described.get("parameters", []):
                if "integer" not in str(each["schema"]):
                    continue
                for number in HUGE:
                    answer = await client.request(method, filled(path), params={each["name"]: number})
                    faults = problem(answer, 422)["errors"]
                    assert each["name"] in [fault["field"] for fault in faults]
                    seen += 1
    assert seen > 10


@pytest.mark.parametrize("after", [*map(str, HUGE), BAD, "nan x", "inf x", f"1.0 {BAD}"])
async def test_a_forged_cursor_is_named(api: Api, after: str) -> None:
    """It is not signed: whoever changes it gets 422, or an ordinary page."""
    async with await api.client_of() as client:
        listed = (await client.get("/v1/tenants/acme/subscriptions")).json()
        for path in LISTS:
            url = path.format(shop=listed["items"][0]["id"])
            cursor = PageRequest(list=repr((url, [])), size=1).cursor(after)
            assert problem(await client.get(url, params={"cursor": cursor}), 422)["field"] == "cursor"


async def test_pages_name_it_too(api: Api) -> None:
    """Query and form of a page; the answer is 422."""
    token = await api.token()
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(token)
        [entry] = await api.context.store.entries()
        for number in HUGE:
            problem(await client.get(f"/endpoints/{entry.id}", params={"before": number}), 422)
        for path in PAGES:
            for name in ("q", "tenant", "since", "cursor", "subscription", "before", "next"):
                problem(await client.get(path, params={name: BAD}), 422)
        await visitor.see("/tokens")
        body = {"csrf": visitor.csrf, "name": BAD, "scope": "read"}
        found = problem(await client.post("/tokens", data=body), 422)
    assert found["field"] == "name"
