"""The customer's view: one tenant, its secrets once, and nothing of anybody else."""

from __future__ import annotations

import re

from consumer.core.store.tokens import Scope
from tests.support.visitor import HTML, Visitor
from tests.support.web import SHOP, Api


async def shop(api: Api, tenant: str) -> str:
    """Make a subscription of *tenant* and return its id."""
    async with await api.client_of() as program:
        made = await program.post(f"/v1/tenants/{tenant}/subscriptions", json=dict(SHOP))
    assert made.status_code == 201, made.text
    found: str = made.json()["id"]
    return found


async def test_a_customer_sees_only_the_own_tenant(api: Api) -> None:
    """The first page leads to the own endpoints; another tenant's endpoint is 404 for every form."""
    own, foreign = await shop(api, "acme"), await shop(api, "rival")
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE, tenant="acme"), "/")
        home = await client.get("/", headers=HTML)
        page = await visitor.see("/my")
        one = await visitor.see(f"/my/endpoints/{own}")
        await visitor.see(f"/my/endpoints/{foreign}", 404)
        for step in ("test", "rotate", "resend"):
            assert (await visitor.send(f"/my/endpoints/{foreign}/{step}")).status_code == 404
        await visitor.see("/my/events/evt_1", 404)
        search = await client.get("/search?q=rival", headers=HTML)
        found = await client.get("/search?q=shop", headers=HTML)

    assert home.headers["location"] == "/my"
    assert "Endpoints of acme" in page
    assert "rival" not in page
    assert "No attempt is on record." in one
    assert "0 results" in visitor.read(search)
    assert found.headers["location"] == f"/my/endpoints/{own}"


async def test_a_customer_rotates_a_secret_and_sees_it_once(api: Api) -> None:
    """The new secret is in the answer to the form, and in no later page; the old one stays for its grace."""
    of = await shop(api, "acme")
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE, tenant="acme"), "/my")
        await visitor.see(f"/my/endpoints/{of}")
        made = await visitor.send(f"/my/endpoints/{of}/rotate", {"grace": "12h"})
        [secret] = re.findall(r"whsec_[\w+/=]+", made.text)
        later = await visitor.see(f"/my/endpoints/{of}")
        refused = await visitor.send(f"/my/endpoints/{of}/rotate", {"grace": "soon"})
        [entry] = await api.context.store.entries("acme")

    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    assert entry.secret_texts()[0] == secret
    assert secret not in later
    assert secret[-4:] in later
    assert later.count("…") >= 2
    assert "in 12 h" in later
    assert refused.status_code == 422
    assert "The secret is as it was" in refused.text


async def test_a_reading_customer_changes_nothing(api: Api) -> None:
    """There is no button, and each form is 403."""
    of = await shop(api, "acme")
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ, tenant="acme"), "/my")
        page = await client.get(f"/my/endpoints/{of}", headers=HTML)
        for path in (
            *(f"/my/endpoints/{of}/{step}" for step in ("test", "rotate", "resend")),
            "/my/parked/resend",
        ):
            assert (await visitor.send(path)).status_code == 403
            assert path not in page.text


async def test_an_operator_has_no_customers_view(api: Api) -> None:
    """A token without a tenant gets 404 there."""
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token())
        await visitor.see("/my", 404)
