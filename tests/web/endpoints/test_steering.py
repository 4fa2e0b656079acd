"""Subscriptions are steered over HTTP: state, pauses, secrets; each deed is in the audit log."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from consumer.core.store.audit import AuditFilter
from consumer.core.store.tokens import Scope
from tests.support.web import SHOP, Api, problem

LIST = "/v1/tenants/acme/subscriptions"
SHOP_PATH = f"{LIST}/shop"
BARE = "0123456789abcdef0123456789abcdef"


async def created(client: httpx2.AsyncClient, **fields: object) -> dict[str, Any]:
    """Create a subscription of acme and return it."""
    answer = await client.post(LIST, json={**SHOP, **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def actions(api: Api) -> list[str]:
    """The actions of the audit log, the newest first."""
    lines = await api.context.store.records.audit.lines(AuditFilter(), 20)
    return [line.change.action for line in lines if line.change.action != "token.created"]


async def test_a_subscription_is_disabled_with_a_reason_and_enabled(api: Api) -> None:
    """The note stays until it is enabled; both are changes in the audit log."""
    async with await api.client_of(Scope.OPERATE) as client:
        await created(client)
        off = (await client.post(f"{SHOP_PATH}/disable", json={"reason": "they migrate"})).json()
        again = (await client.post(f"{SHOP_PATH}/disable")).json()
        on = (await client.post(f"{SHOP_PATH}/enable")).json()

    assert (off["enabled"], off["disabled_reason"]) == (False, "they migrate")
    assert off["disabled_at"] == "1970-01-12T13:46:40Z"
    assert again["disabled_reason"] == "they migrate"
    assert (on["enabled"], on["disabled_reason"]) == (True, None)
    assert await actions(api) == ["subscription.changed", "subscription.changed", "subscription.added"]


async def test_a_stale_etag_changes_nothing(api: Api) -> None:
    """Each deed on a subscription or its endpoint takes If-Match."""
    async with await api.client_of() as client:
        shop = await created(client)
        for deed in ("reset", "open", "kick"):
            path = f"/v1/endpoints/{shop['id']}/{deed}"
            problem(await client.post(path, headers={"If-Match": '"stale"'}), 412)
        for deed in ("enable", "disable", "rotate", "pause", "resume", "test"):
            problem(await client.post(f"{SHOP_PATH}/{deed}", headers={"If-Match": '"stale"'}), 412)
        etag = (await client.get(SHOP_PATH)).headers["ETag"]
        done = await client.post(f"{SHOP_PATH}/disable", headers={"If-Match": etag})

    assert done.status_code == 200
    assert done.headers["ETag"] != etag


async def test_a_pause_is_set_once(api: Api) -> None:
    """The second one changes nothing, and has no line in the audit log."""
    async with await api.client_of() as client:
        await created(client)
        first = (await client.post(f"{SHOP_PATH}/pause")).json()
        second = (await client.post(f"{SHOP_PATH}/pause")).json()
        shown = (await client.get(SHOP_PATH)).json()

    assert first == {"paused": True, "changed": True}
    assert second == {"paused": True, "changed": False}
    assert shown["paused"] is True
    assert await actions(api) == ["pause.set", "subscription.added"]


async def test_a_resume_without_a_pause_is_refused(api: Api) -> None:
    """It names the other pauses that may hold."""
    async with await api.client_of() as client:
        await created(client)
        found = problem(await client.post(f"{SHOP_PATH}/resume"), 409)

    assert "tenant" in found["remedy"]


async def test_a_new_secret_is_shown_once_and_the_old_one_signs_on(api: Api) -> None:
    """The replaced secret ends after the wanted time."""
    async with await api.client_of() as client:
        first = await created(client)
        done = await client.post(f"{SHOP_PATH}/rotate", json={"expire_in": "7d"})
        shown = await client.get(SHOP_PATH)
    found = done.json()
    [entry] = await api.context.store.entries("acme")

    assert found["secret"].startswith("whsec_")
    assert found["secret"] != first["secret"]
    assert found["public_key"] is None
    assert found["secrets"] == 2
    assert entry.secret_texts() == [found["secret"], first["secret"]]
    assert entry.ends_at == (0, 1_000_000 + 7 * 86_400)
    assert found["secret"] not in shown.text
    lines = await api.context.store.records.audit.lines(AuditFilter(), 20)
    assert found["secret"] not in repr(lines)


@pytest.mark.parametrize(
    ("options", "status", "field"),
    [
        ({"secret": "short"}, 422, None),
        ({"expire_in": "soon"}, 422, "expire_in"),
        ({"expire_in": "400d"}, 422, "expire_in"),
        ({"colour": "red"}, 422, "colour"),
    ],
)
async def test_an_unusable_rotation_is_refused(
    api: Api, options: dict[str, str], status: int, field: str | None
) -> None:
    """The secrets stay as they are."""
    async with await api.client_of() as client:
        first = await created(client)
        found = problem(await client.post(f"{SHOP_PATH}/rotate", json=options), status)
    [entry] = await api.context.store.entries("acme")

    assert found["field"] == field
    assert entry.secret_texts() == [first["secret"]]


async def test_the_same_secret_twice_is_a_conflict(api: Api) -> None:
    """And so is one of another tenant, without that tenant's name."""
    async with await api.client_of() as client:
        await created(client, secrets=[BARE])
        problem(await client.post(f"{SHOP_PATH}/rotate", json={"secret": BARE}), 409)
        other = {**SHOP, "url": "https://other.example/hook", "secrets": ["f" * 32]}
        await client.post("/v1/tenants/rival/subscriptions", json=other)
        found = await client.post(f"{SHOP_PATH}/rotate", json={"secret": "f" * 32})

    problem(found, 409)
    assert "rival" not in found.text
    assert "f" * 32 not in found.text


async def test_a_test_event_is_refused_at_an_address_of_our_own(api: Api) -> None:
    """The address guard of the daemon holds here too; the answer explains it."""
    async with await api.client_of() as client:
        await created(client, url="https://localhost/hook")
        done = await client.post(f"{SHOP_PATH}/test")

    assert done.status_code == 200, done.text
    found = done.json()
    assert (found["ok"], found["status"], found["code"]) == (False, None, "blocked")
    assert "egress.allow" in found["advice"]
    assert '"leveret.test"' in found["body"]
    assert await actions(api) == ["subscription.tested", "subscription.added"]


@pytest.mark.parametrize("deed", ["enable", "disable", "pause", "resume", "rotate", "test"])
async def test_reading_is_not_enough_and_strangers_see_nothing(api: Api, deed: str) -> None:
    """A read token gets 403; a token of another tenant, and an unknown name, get 404."""
    async with await api.client_of() as client:
        await created(client)
        problem(await client.post(f"{LIST}/no-such/{deed}"), 404)
    async with await api.client_of(Scope.READ) as client:
        problem(await client.post(f"{SHOP_PATH}/{deed}"), 403)
    async with await api.client_of(Scope.ADMIN, tenant="rival") as client:
        problem(await client.post(f"{SHOP_PATH}/{deed}"), 404)


@pytest.mark.parametrize(
    ("deed", "action"),
    [("reset", "endpoint.reset"), ("open", "endpoint.opened"), ("kick", "waiting.kicked")],
)
async def test_a_deed_that_fails_has_a_line(api: Api, deed: str, action: str) -> None:
    """The line is written before the broker is asked, so that a fault in between leaves a trace."""
    async with await api.client_of() as client:
        shop = await created(client)
        problem(await client.post(f"/v1/endpoints/{shop['id']}/{deed}"), 503)
    [line] = await api.context.store.records.audit.lines(AuditFilter(action=action), 10)

    assert (line.change.target, line.change.tenant) == ("acme/shop", "acme")
    assert line.change.after == {"outcome": "failed"}
