"""An operator's night in Chromium: the overview turns red, the endpoint is reset, its events are resent."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from consumer.core.subscription.subscription import subscription_id
from docs.page_preview.browser import SCHEMES, browser
from docs.page_preview.judge import KEEP_STILL, faults, missing, overflow, violations
from tests.support.servers.switch import Switch
from tests.support.system.api import ServedApi, serving
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import secret
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import PATIENCE_S, shown, until

ANSWER: Final = b'{"error":"database_unavailable"}'
RELOAD_MS: Final = 300  #: a person reloads no faster
ONCE: Final[Mapping[str, object]] = {"max_attempts": 1}


@pytest.fixture
async def endpoint() -> AsyncIterator[Switch]:
    """An endpoint that is broken."""
    async with Switch(status=503, body=ANSWER) as switch:
        yield switch


@pytest.fixture
async def api(shared: Daemon) -> AsyncIterator[ServedApi]:
    """`leveret serve` beside the daemon."""
    async with serving(shared) as served:
        yield served


def opened(started: Browser, *, scripts: bool) -> Page:
    """Return a tab at 1280 px."""
    context = started.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=scripts)
    context.set_default_timeout(PATIENCE_S * 1_000)
    context.add_init_script(KEEP_STILL)
    return context.new_page()


def log_in(page: Page, api: ServedApi, token: str) -> None:
    """Log in; the first page follows."""
    page.goto(api.url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def reload_until(page: Page, text: str) -> None:
    """Reload the page until its main part contains *text*, as a person without a script does."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in " ".join(page.locator("main").inner_text().split()):
        assert time.monotonic() < deadline, f"{text} is not on the page: {page.locator('main').inner_text()}"
        page.wait_for_timeout(RELOAD_MS)
        page.reload()


def night(api: ServedApi, token: str, endpoint: Switch, *, scripts: bool) -> Iterator[tuple[str, Page]]:
    """Walk from the red overview to the finished job, as an operator does; yield each page."""
    with browser() as started:
        page = opened(started, scripts=scripts)
        log_in(page, api, token)
        reload_until(page, "fails with 503")
        yield "overview", page
        page.get_by_role("link", name=re.compile("Open endpoint")).first.click()
        expect(page.get_by_role("region", name="The endpoint's answer")).to_contain_text(
            "database_unavailable"
        )
        yield "endpoint", page
        endpoint.status = 200
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_role("status")).to_contain_text("The breaker is closed.")
        page.get_by_role("link", name="Show them").click()
        expect(page.get_by_role("heading", name="Parked", exact=True)).to_be_visible()
        yield "parked", page
        page.get_by_role("table").last.get_by_role("link", name="prk_").first.click()
        expect(page.get_by_role("region", name="Payload").last).to_contain_text('{"n":1}')
        yield "entry", page
        page.go_back()
        page.get_by_role("link", name="Resend").first.click()
        yield "resend", page
        page.get_by_role("button", name="Resend").click()
        reload_until(page, "Replay done")
        yield "job", page


async def broken(shared: Daemon, publisher: EventPublisher, endpoint: Switch, tenant: str) -> list[str]:
    """Let five events fail for good, so that the breaker opens; return their ids."""
    await shared.apply(
        {
            "tenant": tenant,
            "name": "orders",
            "url": endpoint.url,
            "events": ["#"],
            "secrets": [secret(tenant, "orders")],
            "retry": dict(ONCE),
            "breaker": {"failures": 5, "cooldown_s": 300},
        }
    )
    ids = [await publisher.publish(tenant) for _ in range(5)]
    await until(lambda: shared.count("delivery.parked", tenant=tenant) >= 5, "five events are parked")
    return ids


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_operator_repairs_an_endpoint(
    shared: Daemon, publisher: EventPublisher, endpoint: Switch, api: ServedApi, scripts: bool
) -> None:
    """From the red overview to the resent events, with a script and without, on pages without a fault."""
    assert not missing(), "run `make browser-install`"
    ids = await broken(shared, publisher, endpoint, "scripted" if scripts else "plain")
    token = await api.token("--scope", "operate")

    def walk() -> None:
        for name, page in night(api, token, endpoint, scripts=scripts):
            if scripts:
                assert (name, violations(page)) == (name, [])

    await asyncio.to_thread(walk)
    await until(lambda: set(ids) <= set(endpoint.taken), "the endpoint has every event")


def judged(started: Browser, api: ServedApi, token: str, paths: Sequence[str]) -> list[str]:
    """Return every fault of the pages at *paths*: of accessibility, of the policy, and of the width."""
    context = started.new_context(viewport={"width": 400, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_S * 1_000)
    page = context.new_page()
    reports = faults(page)
    log_in(page, api, token)
    found: list[str] = []
    for path in paths:
        answer = page.goto(api.url + path)
        assert answer is not None
        if answer.status != (404 if path == "/nothing" else 200):
            found.append(f"{path}: {answer.status}")
        if "/login" in page.url:
            found.append(f"{path}: nobody is logged in")
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found += [f"{path} {scheme}: {each}" for each in violations(page)]
        found += [f"{path}: {overflow(page)} px too wide"] if overflow(page) else []
    context.close()
    missing_page = "the server responded with a status of 404"
    return found + [each for each in reports if missing_page not in each]


async def entries(client: httpx2.AsyncClient, tenant: str) -> list[dict[str, Any]]:
    """Return the tenant's parked entries, which the daemon writes to the store a moment after the log."""
    return list((await client.get("/v1/parked", params={"tenant": tenant})).json()["items"])


async def test_every_page_is_accessible(
    shared: Daemon, publisher: EventPublisher, endpoint: Switch, api: ServedApi
) -> None:
    """axe-core finds nothing serious on any real page at 400 px, and no page breaks its policy."""
    tenant = "judged"
    [event, *_] = await broken(shared, publisher, endpoint, tenant)
    of = subscription_id(tenant, "orders")
    admin = await api.token("--scope", "admin")
    customer = await api.token("--scope", "operate", "--tenant", tenant)
    async with api.client(admin) as client:
        parked, *_ = await shown(partial(entries, client, tenant), lambda _: True)
        job = (await client.get("/v1/jobs")).json()["items"]
    paths = (
        *(
            "/",
            "/endpoints",
            f"/endpoints/{of}",
            "/parked",
            f"/parked/{parked['id']}",
            "/parked/resend",
            "/jobs",
        ),
        *(f"/jobs/{each['id']}" for each in job[:1]),
        *(f"/events/{event}", "/search?q=o", "/tenants", "/tokens", "/audit", "/nothing"),
    )
    own = ("/my", f"/my/endpoints/{of}", f"/my/events/{event}", "/search?q=nothing")

    def judge() -> list[str]:
        with browser() as started:
            return [
                each
                for token, pages in ((admin, paths), (customer, own))
                for each in judged(started, api, token, pages)
            ]

    assert await asyncio.to_thread(judge) == []
