"""Subscriptions over HTTP: the same checks as the command line's, preconditions, audit, no secrets."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from consumer.core.store.audit import AuditFilter
from consumer.core.store.tokens import Scope
from tests.support.web import SHOP, Api, problem

LIST = "/v1/tenants/acme/subscriptions"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def created(client: httpx2.AsyncClient, **fields: object) -> dict[str, Any]:
    """Create a subscription of acme and return it."""
    answer = await client.post(LIST, json={**SHOP, **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_generated_secret_is_shown_once(api: Api) -> None:
    """The answer to the creation contains it; no later answer and no audit line does."""
    async with await api.client_of() as client:
        made = await created(client)
        one = await client.get(f"{LIST}/{made['id']}")
        listed = await client.get(LIST)
    lines = await api.context.store.records.audit.lines(AuditFilter(tenant="acme"), 10)

    assert made["secret"].startswith("whsec_")
    assert made["secret"] not in one.text + listed.text + repr(lines)
    assert [item["name"] for item in listed.json()["items"]] == ["shop"]
    assert one.json()["events"] == ["order.*"]
    [line] = lines
    assert line.change.action == "subscription.added"
    assert line.who.startswith("token:")
    assert line.change.after["url"] == SHOP["url"]


async def test_a_given_secret_is_never_shown(api: Api) -> None:
    """Not even in the answer to the creation."""
    async with await api.client_of() as client:
        made = await client.post(LIST, json={**SHOP, "secrets": [SECRET]})

    assert made.status_code == 201
    assert made.json()["secret"] is None
    assert SECRET not in made.text


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"url": "ftp://a.example/"}, "url", None),
        ({"url": "http://127.0.0.1/"}, "url", "egress.allow"),
        ({"timeout_s": 99}, "timeout_s", None),
        ({"retry": {"policy": "no-such"}}, "retry.policy", None),
        ({"tenant": "rival"}, "tenant", "leave it out"),
        ({"colour": "red"}, "colour", None),
        ({"secrets": ["whsec_c2hvcnQ="]}, "secrets", None),
    ],
)
async def test_a_fault_names_field_and_remedy(
    api: Api, fields: dict[str, Any], field: str, remedy: str | None
) -> None:
    """The answer is 422, and nothing is stored."""
    async with await api.client_of() as client:
        body = problem(await client.post(LIST, json={**SHOP, **fields}), 422)
        listed = await client.get(LIST)

    assert body["field"] == field
    assert remedy is None or remedy in f"{body['detail']} {body['remedy']}"
    assert listed.json()["items"] == []


async def test_conflicts_are_409_and_name_no_other_tenant(api: Api) -> None:
    """The same name, URL or secret: only the own tenant's names are in the answer."""
    async with await api.client_of() as client:
        await created(client, secrets=[SECRET])
        same_name = problem(await client.post(LIST, json={**SHOP, "url": "https://b.example/"}), 409)
        same_url = problem(await client.post(LIST, json={**SHOP, "name": "other"}), 409)
        foreign = await client.post("/v1/tenants/rival/subscriptions", json={**SHOP, "secrets": [SECRET]})

    assert "already exists" in same_name["detail"]
    assert same_url["field"] == "url"
    assert problem(foreign, 409)["field"] == "secrets"
    assert "acme" not in foreign.text


async def test_a_patch_changes_only_its_fields(api: Api) -> None:
    """A merge patch: null removes a field; the secret, the others and a masked credential stay."""
    async with await api.client_of() as client:
        made = await created(client, timeout_s=5, auth={"bearer": "t0p-secret"})
        path = f"{LIST}/{made['name']}"
        changed = await client.patch(path, json={"events": ["#"], "timeout_s": None})
        unchanged = await client.patch(path, json={"events": ["#"]})
    [entry] = await api.context.store.entries()
    lines = await api.context.store.records.audit.lines(AuditFilter(action="subscription.changed"), 10)

    assert changed.json()["events"] == ["#"]
    assert changed.json()["timeout_s"] == 15
    assert unchanged.status_code == 200
    assert entry.secrets[0].get_secret_value() == made["secret"]
    assert entry.credentials() == {"auth.bearer": "t0p-secret"}
    assert [(line.change.before, line.change.after) for line in lines] == [
        ({"events": ["order.*"], "timeout_s": 5.0}, {"events": ["#"]})
    ]


@pytest.mark.parametrize(
    ("kept", "field"),
    [
        ({"auth": {"bearer": "t0p-secret"}}, "auth.bearer"),
        ({"auth": {"basic": {"username": "u", "password": "t0p-secret"}}}, "auth.basic.password"),
        ({"headers": {"x-key": "t0p-secret"}}, "headers.x-key"),
    ],
)
async def test_a_new_origin_gets_no_stored_credential(api: Api, kept: dict[str, Any], field: str) -> None:
    """Whoever changes the URL sends the value again, or removes it; a path of the same origin keeps it."""
    there = "https://shop.example:8443/hook"
    async with await api.client_of() as client:
        await created(client, **kept)
        path = f"{LIST}/shop"
        assert (await client.patch(path, json={"url": "https://shop.example/v2"})).status_code == 200
        for url in (there, "https://evil.example/"):
            refused = problem(await client.patch(path, json={"url": url}), 422)
            assert refused["field"] == field
            assert "send the value again" in refused["remedy"]
        again = await client.patch(path, json={"url": there, **kept})
        gone = await client.patch(path, json={"url": "https://b.example/", next(iter(kept)): None})

    assert (again.status_code, gone.status_code) == (200, 200)


async def test_a_file_takes_no_stored_credential_to_a_new_origin(api: Api) -> None:
    """As a patch does not; the mask of a file keeps a credential for its own origin only."""
    masked = {**SHOP, "tenant": "acme", "auth": {"bearer": "***"}}
    async with await api.client_of() as client:
        await created(client, auth={"bearer": "t0p-secret"})
        answers = []
        for url in ("https://shop.example/v2", "https://evil.example/"):
            text = json.dumps({"subscriptions": [{**masked, "url": url}]})
            body = {"files": [{"name": "shop.yaml", "text": text}]}
            answers.append(await client.post("/v1/subscriptions/apply", json=body))

    assert answers[0].status_code == 200, answers[0].text
    assert problem(answers[1], 422)["field"] == "auth.bearer"


async def test_name_and_tenant_are_fixed(api: Api) -> None:
    """They make the id."""
    async with await api.client_of() as client:
        await created(client)
        for name in ("name", "tenant"):
            assert problem(await client.patch(f"{LIST}/shop", json={name: "x"}), 422)["field"] == name


async def test_a_disabled_subscription_is_enabled_only_on_purpose(api: Api) -> None:
    """As with `subscriptions apply`: another change leaves it disabled, `enabled: true` enables it."""
    async with await api.client_of() as client:
        made = await created(client)
        await api.context.store.disable(made["id"], "HTTP 410")
        other = await client.patch(f"{LIST}/shop", json={"timeout_s": 9})
        wanted = await client.patch(f"{LIST}/shop", json={"enabled": True})

    assert (other.json()["enabled"], other.json()["disabled_reason"]) == (False, "HTTP 410")
    assert (wanted.json()["enabled"], wanted.json()["disabled_reason"]) == (True, None)


async def test_a_lost_update_is_refused(api: Api) -> None:
    """The ETag changes with every change, of a password too; If-Match with an old one is 412."""
    async with await api.client_of() as client:
        made = await created(client, auth={"bearer": "one"})
        path = f"{LIST}/{made['id']}"
        first = (await client.get(path)).headers["etag"]
        assert (await client.get(path, headers={"If-None-Match": first})).status_code == 304
        patched = await client.patch(path, json={"auth": {"bearer": "two"}}, headers={"If-Match": first})
        assert patched.status_code == 200
        second = patched.headers["etag"]
        late = await client.patch(path, json={"timeout_s": 9}, headers={"If-Match": first})
        late_delete = await client.delete(path, headers={"If-Match": first})
        assert (await client.get(path)).headers["etag"] == second

    assert first != second
    assert problem(late, 412)["field"] == "If-Match"
    problem(late_delete, 412)


async def test_a_removal_asks_first_if_deliveries_may_be_lost(api: Api) -> None:
    """A store without a broker and without states owes nothing; the removal is in the audit log."""
    async with await api.client_of() as client:
        await created(client)
        gone = await client.delete(f"{LIST}/shop")
        again = await client.delete(f"{LIST}/shop")
    [line] = await api.context.store.records.audit.lines(AuditFilter(action="subscription.removed"), 10)

    assert gone.status_code == 204
    assert problem(again, 404)["field"] == "subscription"
    assert line.change.target == "acme/shop"


async def test_pages_follow_each_other(api: Api) -> None:
    """Each item is on one page; a cursor is valid only for its own list."""
    async with await api.client_of() as client:
        for number in range(5):
            await created(client, name=f"n{number}", url=f"https://n{number}.example/")
        names, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
            query: dict[str, Any] = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
            page = (await client.get(LIST, params=query)).json()
            names += [item["name"] for item in page["items"]]
            cursor, pages = page["next"], pages + 1
        first = (await client.get(LIST, params={"limit": 1})).json()["next"]
        elsewhere = await client.get("/v1/tenants", params={"cursor": first})
        forged = await client.get(LIST, params={"cursor": "bm90IG91cnM"})
        too_many = await client.get(LIST, params={"limit": 501})

    assert (names, pages) == ([f"n{number}" for number in range(5)], 3)
    for answer in (elsewhere, forged):
        assert problem(answer, 422)["field"] == "cursor"
    assert problem(too_many, 422)["field"] == "limit"


async def test_tenants_exist_while_they_have_subscriptions(api: Api) -> None:
    """The list has names and counts."""
    async with await api.client_of(Scope.OPERATE) as client:
        await created(client)
        listed = (await client.get("/v1/tenants")).json()
        one = (await client.get("/v1/tenants/acme")).json()
        unknown = await client.get("/v1/tenants/nobody")

    assert listed == {"items": [{"name": "acme", "subscriptions": 1}], "next": None}
    assert one == {"name": "acme", "subscriptions": 1}
    problem(unknown, 404)
