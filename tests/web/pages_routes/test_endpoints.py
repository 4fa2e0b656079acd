"""The pages of endpoints: the table, one endpoint, its thresholds, and who may press its buttons."""

from __future__ import annotations

import re

from consumer.core.store.tokens import Scope
from tests.support.visitor import Visitor
from tests.support.web import SHOP, Api

LIST = "/v1/tenants/acme/subscriptions"
THRESHOLDS = ("failures", "failure_ratio", "window_s", "min_requests", "cooldown_s", "cooldown_max_s")


async def shop(api: Api, **more: object) -> str:
    """Make a subscription and return its id."""
    async with await api.client_of() as program:
        made = await program.post(LIST, json={**SHOP, **more})
    assert made.status_code == 201, made.text
    found: str = made.json()["id"]
    return found


def version(text: str) -> str:
    """Return the version in the form for thresholds."""
    found = re.search(r'name="version" value="([^"]*)"', text)
    assert found is not None
    return found[1].replace("&#34;", '"')


async def test_the_table_is_filtered_and_paged(api: Api) -> None:
    """Fifty lines on a page; a filter by name, tenant or state."""
    for index in range(51):
        await shop(api, name=f"shop{index:02}", url=f"https://shop.example/{index}")
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        first = await visitor.see("/endpoints?q=&tenant=acme&state=")
        raw = await client.get("/endpoints?tenant=acme", headers={"Accept": "text/html"})
        following = re.search(r'href="(/endpoints\?[^"]*cursor=[^"]*)"', raw.text)
        assert following is not None
        second = await visitor.see(following[1].replace("&amp;", "&"))
        one = await visitor.see("/endpoints?q=shop.example/7&state=well")
        none = await visitor.see("/endpoints?state=failing")
        wrong = await visitor.see("/endpoints?cursor=x", 422)

    assert "51 endpoints" in first
    assert "acme/shop49" in first
    assert "acme/shop50" not in first
    assert "acme/shop50" in second
    assert "1 endpoint," in one
    assert "No endpoint fits" in none
    assert "cursor" in wrong


async def test_thresholds_are_changed_at_run_time(api: Api) -> None:
    """A changed field holds, an empty one takes the default; a foreign change is not overwritten."""
    of = await shop(api)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.OPERATE))
        page = await client.get(f"/endpoints/{of}")
        visitor.read(page)
        empty = dict.fromkeys(THRESHOLDS, "")
        old = {**empty, "version": version(page.text)}
        saved = await visitor.sent(
            f"/endpoints/{of}/thresholds", {**old, "failures": "7", "cooldown_s": "2.5"}
        )
        stale = await visitor.send(f"/endpoints/{of}/thresholds", {**old, "failures": "9"})
        current = {**empty, "version": version((await client.get(f"/endpoints/{of}")).text)}
        words = await visitor.send(f"/endpoints/{of}/thresholds", {**current, "window_s": "soon"})
        bounds = await visitor.send(f"/endpoints/{of}/thresholds", {**current, "failure_ratio": "7"})
    async with await api.client_of() as program:
        stored = (await program.get(f"{LIST}/shop")).json()

    assert "in force within a second" in saved
    assert (stored["breaker_failures"], stored["breaker_cooldown_s"]) == (7, 2.5)
    assert stale.status_code == 412
    assert "changed this subscription meanwhile" in stale.text
    assert words.status_code == 422
    assert 'value="soon"' in words.text
    assert "is not a number" in words.text
    assert bounds.status_code == 422
    assert 'value="7"' in bounds.text
    assert bounds.text.count('aria-invalid="true"') == 1


async def test_a_reader_sees_no_button_and_can_press_none(api: Api) -> None:
    """The page has no form but the search, the thresholds are disabled, and each POST is 403."""
    of = await shop(api)
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(await api.token(Scope.READ))
        page = await client.get(f"/endpoints/{of}")
        for step in ("reset", "pause", "resume", "kick", "test", "thresholds"):
            assert f'/{step}"' not in page.text or step == "thresholds"
            assert (await visitor.send(f"/endpoints/{of}/{step}")).status_code == 403

    assert '<fieldset class="body stack" disabled>' in page.text


async def test_an_endpoint_is_paused(api: Api) -> None:
    """The page says so, and the audit log names the token."""
    of, token = await shop(api), await api.token()
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(token)
        await visitor.see(f"/endpoints/{of}")
        paused = await visitor.sent(f"/endpoints/{of}/pause")
        again = await visitor.sent(f"/endpoints/{of}/pause")
        once = await visitor.see(f"/endpoints/{of}")
        missing = await visitor.see("/endpoints/sub_0123456789abcdef", 404)
        audit = await visitor.see("/audit")

    assert "Paused: deliveries wait" in paused
    assert "Resume" in paused
    assert "It was paused before." in again
    assert "It was paused before." not in once
    assert "there is no such endpoint" in missing
    assert f"token:{token.split('_')[1]}" in audit
