"""Only a valid token with the right scope and tenant gets an answer, and guessing is slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.core.store.tokens import Scope
from tests.support.web import SHOP, Api, every_route, opened_api, problem

OPEN = {"/v1/health", "/v1/openapi.json"}  #: routes that need no token
LIST = "/v1/tenants/acme/subscriptions"


def routes(api: Api) -> list[tuple[str, str]]:
    """Return method and path of every route of the API that needs a token."""
    return [
        (method, path)
        for method, path in every_route(api.app)
        if path.startswith(("/v1/", "/webhook/")) and path not in OPEN
    ]


async def test_every_route_needs_a_token(api: Api) -> None:
    """Without a token, and with one that was never given out, the answer is 401 and says how to get one."""
    invented = f"lvt_{'0' * 12}_{'a' * 52}"

    assert len(routes(api)) >= 7
    async with api.client() as nobody:
        for method, path in routes(api):
            body = problem(await nobody.request(method, path.replace("{tenant}", "acme"), json={}), 401)
            assert "leveret tokens create" in body["remedy"]
    async with api.client(invented) as guessing:
        answer = await guessing.get(LIST)
    assert problem(answer, 401)["field"] == "Authorization"
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_wrong_secret_is_refused(api: Api) -> None:
    """The id of a token is no secret; another secret with it is refused, cached or not."""
    token = await api.token()
    wrong = token[:-1] + ("a" if token[-1] != "a" else "q")

    async with api.client(token) as owner, api.client(wrong) as thief:
        problem(await thief.get(LIST), 401)
        assert (await owner.get(LIST)).status_code == 200
        problem(await thief.get(LIST), 401)


async def test_an_expired_and_a_revoked_token_are_refused(api: Api) -> None:
    """A token ends at its time, also while it is remembered; a revoked one ends within a second."""
    short = await api.token(expires=api.clock.now() + 10)
    revoked = await api.token()

    async with api.client(short) as first, api.client(revoked) as second:
        assert (await first.get(LIST)).status_code == 200
        assert (await second.get(LIST)).status_code == 200
        await api.context.store.records.tokens.revoke(revoked.split("_")[1], "test")
        api.clock.advance(1.1)
        problem(await second.get(LIST), 401)
        api.clock.advance(9)
        problem(await first.get(LIST), 401)


@pytest.mark.parametrize(("scope", "status"), [(Scope.READ, 403), (Scope.OPERATE, 201), (Scope.ADMIN, 201)])
async def test_a_change_needs_the_scope_operate(api: Api, scope: Scope, status: int) -> None:
    """Each scope includes those before it; the refusal names both scopes."""
    async with await api.client_of(scope) as client:
        answer = await client.post(LIST, json=SHOP)

    assert answer.status_code == status
    if status == 403:
        assert "operate" in problem(answer, 403)["detail"]


async def test_a_bound_token_sees_only_its_tenant(api: Api) -> None:
    """Every route with another tenant is 404, whether that tenant exists or not; lists are filtered."""
    async with await api.client_of() as owner:
        await owner.post(LIST, json=SHOP)
        await owner.post("/v1/tenants/rival/subscriptions", json=SHOP)

    async with await api.client_of(Scope.ADMIN, tenant="rival") as rival:
        for method, path in routes(api):
            if "{tenant}" not in path:
                continue
            for tenant in ("acme", "nobody"):
                named = path.replace("{tenant}", tenant).replace("{subscription}", "shop")
                problem(await rival.request(method, named, json=dict(SHOP)), 404)
        listed = (await rival.get("/v1/tenants")).json()

    assert [one["name"] for one in listed["items"]] == ["rival"]


async def test_failed_logins_are_limited_per_address(tmp_path: Path) -> None:
    """After some failures an address gets 429 with Retry-After; a valid token still works."""
    async with opened_api(tmp_path, API__FAILED_LOGINS_PER_MIN="3") as api:
        token, fresh = await api.token(), await api.token()
        async with api.client(token) as owner, api.client("lvt_wrong") as guessing, api.client(fresh) as new:
            assert (await owner.get(LIST)).status_code == 200
            for _ in range(3):
                problem(await guessing.get(LIST), 401)
            answer = await guessing.get(LIST)
            problem(answer, 429)
            assert answer.headers["retry-after"] == "20"
            assert (await owner.get(LIST)).status_code == 200
            assert (await new.get(LIST)).status_code == 200
            api.clock.advance(21)
            problem(await guessing.get(LIST), 401)


async def test_requests_are_limited_per_token(tmp_path: Path) -> None:
    """A token over its rate gets 429; another one is not affected."""
    async with (
        opened_api(tmp_path, API__REQUESTS_PER_S="1", API__BURST="2") as api,
        await api.client_of() as busy,
        await api.client_of() as other,
    ):
        assert [(await busy.get(LIST)).status_code for _ in range(3)] == [200, 200, 429]
        assert (await other.get(LIST)).status_code == 200
        api.clock.advance(1.0)
        assert (await busy.get(LIST)).status_code == 200
