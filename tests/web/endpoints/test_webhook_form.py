"""``/webhook/subscriptions``: the form of S0-4, and the statistics of S0-6."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from consumer.core.store.tokens import Scope
from tests.support.web import SHOP, Api, problem

LIST = "/webhook/subscriptions"
BARE = "0123456789abcdef0123456789abcdef"
ORDERS: dict[str, Any] = {
    "name": "orders",
    "endpointUrl": "https://shop.example/hook?key=secret",
    "events": ["producto.*"],
    "retryConfig": {
        "maxAttempts": 4,
        "baseDelay": 500,
        "multiplier": 3,
        "maxDelay": 20_000,
        "enableJitter": True,
        "jitterFactor": 0.2,
    },
}


async def created(client: httpx2.AsyncClient, **fields: object) -> dict[str, Any]:
    """Create a subscription and return it."""
    answer = await client.post(LIST, json={**ORDERS, **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_documents_form_creates_a_subscription(api: Api) -> None:
    """Field names and milliseconds are those of S0-4; the same subscription has our own form too."""
    async with await api.client_of(Scope.OPERATE, tenant="acme") as client:
        made = await created(client)
        shown = await client.get(f"{LIST}/{made['id']}")
        ours = (await client.get(f"/v1/tenants/acme/subscriptions/{made['id']}")).json()

    assert made["retryConfig"] == ORDERS["retryConfig"]
    assert made["endpointUrl"] == "https://shop.example/hook"
    assert (made["tenant"], made["enabled"], made["timeout"]) == ("acme", True, 15_000)
    assert made["secret"].startswith("whsec_")
    assert "secret" not in shown.json()
    assert ours["delays_s"] == [0.5, 1.5, 4.5]


async def test_raw_bytes_are_a_secret_and_twenty_are_too_few(api: Api) -> None:
    """The remedy of the short one is to leave it out."""
    async with await api.client_of() as client:
        made = await created(client, secret=BARE)
        answer = await client.post(LIST, json={**ORDERS, "name": "short", "secret": "x" * 20})
    [entry] = await api.context.store.entries()

    assert made["secret"] is None
    assert entry.secret_texts() == [BARE]
    assert problem(answer, 422)["field"] == "secret"
    assert "leave the secret out" in answer.text
    assert "x" * 20 not in answer.text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"endpointUrl": "ftp://a.example/"}, "endpointUrl"),
        ({"retryConfig": {"maxAttempts": 0}}, "retryConfig.maxAttempts"),
        ({"retryConfig": {"base_s": 1}}, "retryConfig.base_s"),
        ({"url": "https://a.example/"}, "url"),
        ({"events": []}, "events"),
        ({"tenant": "no such tenant"}, "tenant"),
    ],
)
async def test_faults_are_named_as_the_form_names_them(api: Api, fields: dict[str, Any], field: str) -> None:
    """The answer is 422, and nothing is stored."""
    async with await api.client_of() as client:
        found = problem(await client.post(LIST, json={**ORDERS, **fields}), 422)

    assert found["field"] == field
    assert await api.context.store.entries() == []


async def test_it_is_changed_listed_and_removed(api: Api) -> None:
    """A patch keeps the other fields; null takes the default retry configuration back."""
    async with await api.client_of() as client:
        made = await created(client)
        path = f"{LIST}/{made['id']}"
        calm = await client.patch(path, json={"retryConfig": {"enableJitter": False}})
        problem(await client.patch(path, json={"enabled": False}, headers={"If-Match": '"stale"'}), 412)
        off = (await client.patch(path, json={"enabled": False, "retryConfig": None})).json()
        listed = (await client.get(LIST)).json()["items"]
        gone = await client.delete(path, params={"confirm": "true"})
        problem(await client.get(path), 404)

    assert calm.json()["retryConfig"]["enableJitter"] is False
    assert calm.json()["retryConfig"]["baseDelay"] == 500
    assert off["retryConfig"]["baseDelay"] == 1_000
    assert off["enabled"] is False
    assert listed == [off]
    assert gone.status_code == 204


async def test_a_bound_token_sees_its_tenant_only(api: Api) -> None:
    """Its new subscriptions belong to that tenant; another one is refused."""
    async with await api.client_of() as client:
        foreign = await created(client, tenant="rival")
    async with await api.client_of(Scope.OPERATE, tenant="acme") as client:
        assert (await created(client))["tenant"] == "acme"
        problem(await client.post(LIST, json={**ORDERS, "tenant": "rival"}), 403)
        for method in ("GET", "PATCH", "DELETE"):
            body = {"enabled": False} if method == "PATCH" else None
            problem(await client.request(method, f"{LIST}/{foreign['id']}", json=body), 404)
        listed = (await client.get(LIST)).json()["items"]
        problem(await client.get(LIST, params={"tenant": "rival"}), 404)

    assert [each["tenant"] for each in listed] == ["acme"]


async def test_sender_stats_have_the_documents_fields(api: Api) -> None:
    """Names and formats are those of S0-6; the values are the effective ones."""
    async with await api.client_of(Scope.READ) as client:
        found = (await client.get(f"{LIST}/sender/stats")).json()

    assert found["defaultTimeout"] == 15_000
    assert found["defaultRetryConfig"]["baseDelay"] == 1_000
    assert found["backoffStrategy"]["baseDelay"] == "1000ms"
    assert found["backoffStrategy"]["multiplier"] == "2x"
    assert found["backoffStrategy"]["jitter"] == "±10%"
    assert found["delaySequence"] == ["1000ms", "2000ms", "4000ms", "8000ms"]
    assert found["maxTotalDuration"] == "15000ms"


async def test_policies_have_their_waits(api: Api) -> None:
    """As `leveret policy` computes them; an unknown name gets a suggestion."""
    async with await api.client_of(Scope.READ) as client:
        listed = (await client.get("/v1/policies")).json()["items"]
        one = (await client.get("/v1/policies/conservative")).json()
        found = problem(await client.get("/v1/policies/conservativ"), 404)

    assert [each["name"] for each in listed if each["is_default"]] == ["default"]
    assert one["delays_s"] == [2.0, 6.0, 18.0, 54.0]
    assert one["total_s"] == 80.0
    assert "conservative" in found["remedy"]


async def test_a_new_origin_gets_no_stored_credential(api: Api) -> None:
    """This form has no field for it, so the answer names the other one."""
    async with await api.client_of() as client:
        fields = {**SHOP, "auth": {"bearer": "t0p-secret"}}
        made = (await client.post("/v1/tenants/acme/subscriptions", json=fields)).json()
        path = f"/webhook/subscriptions/{made['id']}"
        same = await client.patch(path, json={"endpointUrl": "https://shop.example/v2"})
        refused = problem(await client.patch(path, json={"endpointUrl": "https://evil.example/"}), 422)

    assert same.status_code == 200
    assert refused["field"] == "auth.bearer"
