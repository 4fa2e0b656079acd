"""The pages of tokens and of the audit log."""

from __future__ import annotations

import re

from tests.support.visitor import Visitor
from tests.support.web import SHOP, Api


async def test_an_administrator_makes_and_revokes_a_token(api: Api) -> None:
    """The text is shown once; revoking ends it; both are in the audit log with their author."""
    token = await api.token()
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(token)
        await visitor.see("/tokens")
        answer = await visitor.send("/tokens", {"name": "night shift", "scope": "operate", "expires": "90d"})
        [made] = re.findall(r"lvt_\w{12}_\w{52}", answer.text)
        listed = await visitor.see("/tokens")
        revoked = await visitor.sent(f"/tokens/{made.split('_')[1]}/revoke")
        audit = await visitor.see("/audit?action=token")
        async with api.client(made) as program:
            status = (await program.get("/v1/tenants")).status_code
        missing = await visitor.send("/tokens/000000000000/revoke")

    assert answer.status_code == 200
    assert made not in listed
    assert "night shift" in listed
    assert "The token night shift is revoked." in revoked
    assert status == 401
    assert "token.created" in audit
    assert "token.revoked" in audit
    assert f"token:{token.split('_')[1]}" in audit
    assert missing.status_code == 404


async def test_a_wrong_field_is_named(api: Api) -> None:
    """The form comes back with the values as sent."""
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token())
        await visitor.see("/tokens")
        for fields in (
            {"name": "", "scope": "read"},
            {"name": "x", "scope": "root"},
            {"name": "x", "scope": "read", "tenant": "a b"},
            {"name": "x", "scope": "read", "expires": "soon"},
        ):
            answer = await visitor.send("/tokens", fields)
            assert answer.status_code == 422
        assert 'value="soon"' in answer.text
    assert len(await api.context.store.records.tokens.all()) == 1


async def test_the_audit_log_is_filtered_and_paged(api: Api) -> None:
    """Newest first, a hundred lines on a page; a wrong time is named."""
    token = await api.token()
    async with api.client(token) as program, api.client() as client:
        for index in range(101):
            fields = {**SHOP, "name": f"shop{index}", "url": f"https://shop.example/{index}"}
            assert (await program.post("/v1/tenants/acme/subscriptions", json=fields)).status_code == 201
        visitor = Visitor(client)
        await visitor.log_in(token)
        first = await client.get("/audit?tenant=acme")
        following = re.search(r'href="(/audit\?[^"]*cursor=[^"]*)"', first.text)
        assert following is not None
        second = await visitor.see(following[1].replace("&amp;", "&"))
        wrong = await visitor.see("/audit?since=soon", 422)

    assert "acme/shop100" in first.text
    assert "acme/shop0 " in second
    assert "acme/shop50" not in second
    assert "soon" in wrong
