"""Only a browser that is logged in sees pages, and only its own forms change something."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from consumer.core.store.tokens import Scope
from consumer.web.pages.render import static_mark
from tests.support.visitor import HTML, Visitor
from tests.support.web import Api, every_route, opened_api, problem

OPEN = {"/login", "/runbook", "/static/{name}"}  #: pages that need no session
API = ("/v1/", "/webhook/")


def page_routes(api: Api) -> list[tuple[str, str]]:
    """Return method and path of every page that needs a session."""
    return [
        (method, path)
        for method, path in every_route(api.app)
        if not path.startswith(API) and path not in OPEN
    ]


async def test_every_page_needs_a_session(api: Api) -> None:
    """A person is led to the login, and back to the page afterwards; a program gets a problem."""
    assert len(page_routes(api)) >= 5
    async with api.client() as nobody:
        for method, path in page_routes(api):
            answer = await nobody.request(method, path, headers=HTML)
            assert answer.status_code == 303, (method, path)
            assert answer.headers["location"].partition("?")[0] == "/login"
            problem(await nobody.request(method, path), 401)
        wanted = await nobody.get("/tokens?x=1", headers=HTML)
    assert wanted.headers["location"] == "/login?next=%2Ftokens%3Fx%3D1"


async def test_a_token_logs_in_and_out(api: Api) -> None:
    """The cookie is opaque, and no script reads it; after the logout it is worth nothing."""
    token = await api.token()
    async with api.client() as client:
        visitor = Visitor(client)
        answer = await visitor.log_in(token, "/audit")
        cookie = answer.headers["set-cookie"]
        old = dict(client.cookies)
        text = await visitor.see("/audit")
        out = await visitor.send("/logout")
        client.cookies.update(old)
        again = await client.get("/audit", headers=HTML)

    assert answer.headers["location"] == "/audit"
    assert "test admin" in text
    assert cookie.startswith("leveret-session=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert token.split("_")[2] not in str(answer.headers)
    assert out.headers["location"] == "/login"
    assert again.headers["location"].startswith("/login")


async def test_behind_tls_the_cookie_is_bound_to_host_and_https(tmp_path: Path) -> None:
    """Its name begins with __Host-, and it is Secure."""
    async with opened_api(tmp_path, API__BEHIND_PROXY="true") as api:
        token = await api.token()
        async with api.client(None, **{"X-Forwarded-Proto": "https"}) as client:
            client.base_url = "https://localhost"
            answer = await Visitor(client).log_in(token)

    cookie = answer.headers.get_list("set-cookie")[0]
    assert cookie.startswith("__Host-leveret-session=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie


async def test_a_proxy_that_names_no_protocol_ends_tls(tmp_path: Path) -> None:
    """The cookie is Secure; only a proxy that says http gets another one."""
    async with opened_api(tmp_path, API__BEHIND_PROXY="true") as api, api.client() as client:
        silent = await client.get("/login", headers=HTML)
        plain = await client.get("/login", headers={**HTML, "X-Forwarded-Proto": "http"})

    assert "Secure" in silent.headers["set-cookie"]
    assert "Secure" not in plain.headers["set-cookie"]


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null"])
async def test_an_origin_that_is_no_address_is_another_site(api: Api, origin: str) -> None:
    """It is refused, and no fault of Leveret."""
    async with api.client() as client:
        answer = await client.post("/login", data={"token": "x"}, headers={**HTML, "Origin": origin})

    assert answer.status_code == 403


async def test_only_the_form_of_our_pages_is_read(api: Api) -> None:
    """A client may choose the character set of multipart, and 1 MB of Punycode takes minutes."""
    head = b'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\n'
    kind = "multipart/form-data; boundary=x; charset=punycode"
    async with api.client() as client:
        body = head + b"a" * 100 + b"\r\n--x--\r\n"
        refused = await client.post("/login", content=body, headers={**HTML, "Content-Type": kind})
        long = "&".join(f"a{number}=1" for number in range(60))
        form = {**HTML, "Content-Type": "application/x-www-form-urlencoded"}
        fields = await client.post("/login", content=long, headers=form)

    assert (refused.status_code, fields.status_code) == (415, 400)


async def test_the_session_ends_with_its_token(api: Api) -> None:
    """A revoked token and an expired one end every session at once, without a second of grace."""
    short, revoked = await api.token(expires=api.clock.now() + 10), await api.token()
    async with api.client() as one, api.client() as other:
        first, second = Visitor(one), Visitor(other)
        await first.log_in(short)
        await second.log_in(revoked)
        await api.context.store.records.tokens.revoke(revoked.split("_")[1], "test")
        assert "Log in" in await second.see("/login")
        await first.see("/audit")
        api.clock.advance(10)
        await first.see("/audit", 303)


async def test_the_session_ends_by_time(api: Api) -> None:
    """Without a request it ends after half an hour, and in any case after twelve hours."""
    token = await api.token()
    async with api.client() as client:
        visitor = Visitor(client)
        await visitor.log_in(token)
        for _ in range(24):
            api.clock.advance(1_799)
            await visitor.see("/audit")
        api.clock.advance(24)
        await visitor.see("/audit", 303)
        await visitor.log_in(token)
        api.clock.advance(1_800)
        await visitor.see("/audit", 303)


async def test_a_restart_and_another_process_keep_logins(tmp_path: Path) -> None:
    """Both know session and forms of the other; a logout holds in both."""
    async with opened_api(tmp_path) as api, opened_api(tmp_path) as other:
        token = await api.token()
        async with api.client() as client, other.client() as later:
            before, after = Visitor(client), Visitor(later)
            await before.see("/login")
            later.cookies = client.cookies
            after.csrf = before.csrf
            assert (await after.send("/login", {"token": token})).status_code == 303
            client.cookies = later.cookies
            assert "test admin" in await before.see("/audit")
            after.csrf = before.csrf
            old = dict(later.cookies)
            assert (await after.send("/logout")).headers["location"] == "/login"
            client.cookies.update(old)
            await before.see("/audit", 303)


async def test_a_store_that_cannot_be_written_admits_a_person(api: Api) -> None:
    """On call at night, with a full disk: the pages are shown, until this process ends."""
    token = await api.token()
    store = sqlite3.connect(api.context.settings.home / "leveret.db")
    with closing(store):
        store.execute(
            "CREATE TRIGGER full BEFORE INSERT ON leveret_sessions BEGIN SELECT RAISE(FAIL, 'x'); END"
        )
        store.commit()
        async with api.client() as client:
            visitor = Visitor(client)
            assert (await visitor.log_in(token)).status_code == 303
            for _ in range(3):
                api.clock.advance(1_700)
                await visitor.see("/audit")
            await visitor.send("/logout")
            await visitor.see("/audit", 303)


async def test_failed_logins_are_counted_by_address(tmp_path: Path) -> None:
    """The page says why; too many failures are 429 with Retry-After; a valid token works nevertheless."""
    async with opened_api(tmp_path, API__FAILED_LOGINS_PER_MIN="2") as api:
        token = await api.token()
        async with api.client() as client:
            visitor = Visitor(client)
            failed = [await visitor.log_in("lvt_wrong") for _ in range(2)]
            refused = await visitor.log_in("lvt_wrong")
            right = await visitor.log_in(token)

    assert [answer.status_code for answer in failed] == [401, 401]
    assert "not valid" in failed[0].text
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert right.status_code == 303
    assert "Try again" in refused.text or "try again" in refused.text


@pytest.mark.parametrize(
    "target", ["//evil.example", "/\\evil.example", "https://evil.example/", "x", "/a\tb"]
)
async def test_the_login_leads_to_no_other_site(api: Api, target: str) -> None:
    """The page to return to must be a path of ours."""
    token = await api.token()
    async with api.client() as client:
        answer = await Visitor(client).log_in(token, target)
        again = await client.get("/login", params={"next": target}, headers=HTML)

    assert answer.headers["location"] == "/"
    assert again.headers["location"] == "/"


async def test_another_site_can_send_no_form(api: Api) -> None:
    """Not without the hidden field, not with that of another session, and not from another origin."""
    token = await api.token()
    async with api.client() as client, api.client() as foreign:
        visitor, other = Visitor(client), Visitor(foreign)
        await visitor.log_in(token)
        await other.log_in(token)
        fields = {"name": "stolen", "scope": "admin"}
        without = await client.post("/tokens", data=fields, headers=HTML)
        swapped = await visitor.send("/tokens", fields | {"csrf": other.csrf})
        crossed = await visitor.send("/tokens", fields, Origin="http://evil.example")
        opaque = await visitor.send("/tokens", fields, Origin="null")
        sited = await visitor.send("/tokens", fields, **{"Sec-Fetch-Site": "cross-site"})
        right = await visitor.send("/tokens", fields, Origin="http://localhost")

    refused = [without, swapped, crossed, opaque, sited]
    assert [answer.status_code for answer in refused] == [403] * 5
    assert right.status_code == 200
    assert len(await api.context.store.records.tokens.all()) == 2


async def test_another_site_cannot_log_a_browser_in(api: Api) -> None:
    """The login form belongs to the browser that it was sent to, and the origin counts too."""
    token = await api.token()
    async with api.client() as client, api.client() as victim:
        attacker, browser = Visitor(client), Visitor(victim)
        await attacker.see("/login")
        fields = {"token": token, "csrf": attacker.csrf}
        bare = await victim.post("/login", data=fields, headers=HTML)
        await browser.see("/login")
        lent = await browser.send("/login", fields)
        crossed = await browser.send("/login", {"token": token}, Origin="http://evil.example")

    assert [bare.status_code, lent.status_code, crossed.status_code] == [403, 403, 403]
    assert "leveret-session" not in str([bare.headers, lent.headers, crossed.headers])


async def test_scopes_bound_the_pages(api: Api) -> None:
    """A reader sees neither tokens nor audit; a token with a tenant sees none of the operators' pages."""
    reading, bound = await api.token(Scope.READ), await api.token(Scope.ADMIN, tenant="acme")
    async with api.client() as one, api.client() as other:
        reader, customer = Visitor(one), Visitor(other)
        await reader.log_in(reading)
        await customer.log_in(bound)
        assert "scope admin" in await reader.see("/audit", 403)
        for method, path in page_routes(api):
            if path.startswith(("/my", "/logout", "/search")) or path == "/":
                continue
            answer = await other.request(method, path, data={"csrf": customer.csrf}, headers=HTML)
            assert answer.status_code == 404, (method, path)


async def test_pages_have_a_strict_policy(api: Api) -> None:
    """Only our own script and stylesheet; nothing is stored; the icon and the stylesheet are kept."""
    async with api.client() as client:
        page = await client.get("/login", headers=HTML)
        style = await client.get(f"/static/leveret.css?v={static_mark('leveret.css')}")
        old = await client.get("/static/leveret.css", params={"v": "1"})
        bare = await client.get("/static/leveret.css")
        problem(await client.get("/static/..%2Frender.py"), 404)

    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert style.headers["content-type"].startswith("text/css")
    assert "immutable" in style.headers["cache-control"]
    assert old.headers["cache-control"] == bare.headers["cache-control"] == "no-cache"


async def test_a_person_gets_pages_of_errors(api: Api) -> None:
    """Each error of a page is a page, and each error of the API is a problem document."""
    async with api.client() as client:
        missing = await client.get("/nothing", headers=HTML)
        hostile = await client.get("/login", headers={**HTML, "Host": "evil.example"})
        large = await client.post("/login", content=b"x" * 2_000_000, headers=HTML)
        problem(await client.get("/v1/nothing", headers=HTML), 404)

    for answer, status in ((missing, 404), (hostile, 421), (large, 413)):
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["x-request-id"] in answer.text
