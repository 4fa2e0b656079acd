"""Whether any page runs a script of a stranger: 200 hostile strings in every text that the pages show.

Each string is the name of a subscription and of a token, part of its URL, its endpoint's answer and that
answer's type, and the id, type, payload and headers of an event that is parked. Chromium visits every page on
which it appears, and sends it as a search and as a filter. Counted are calls of a script, reports of the
policy, dialogs, and elements that only unescaped text makes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

import httpx2
from playwright.async_api import Browser, Page

from bench.broker import Broker
from bench.operate.browser import Faults, browser, tab
from bench.operate.ground import TENANT, UNLIMITED
from bench.operate.hostile_words import COUNT, ELEMENT, hostile_words
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.store.tokens import Scope
from consumer.edges.store import opened_store
from consumer.settings import load_settings
from consumer.web.pages import urls
from tests.support.processes.daemon import NO_BREAKER, Daemon
from tests.support.servers.raw_server import Call, RawServer
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

PATIENCE_S = 60.0
MADE = f"() => document.querySelectorAll('{ELEMENT}, [onerror], [onload], [onfocus], [ontoggle]').length"
"""Counts the elements that only unescaped text makes."""

GOALS = (Goal(name="xss_executed", text="0", unit="events", n=COUNT),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The ids of what has the strings, in their order."""

    subscriptions: Sequence[str]
    parked: Sequence[str]
    events: Sequence[str]
    words: Sequence[str]


async def answer_hostile(call: Call) -> None:
    """Answer each request with the string in its path, as a page and as part of a header."""
    while True:
        request = await call.request()
        path = request.split(b" ", 2)[1].decode()
        word = unquote(path.rpartition("/")[2]).encode()
        kind = b"text/html; x=" + json.dumps(word.decode()).encode("ascii", "replace")
        head = b"HTTP/1.1 400 Bad\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(word))
        await call.say(head + word)


async def plant(api: ServedApi, publisher: EventPublisher, port: int, words: Sequence[str]) -> Planted:
    """Bring each string into every text of the product; return once all events are parked."""
    admin = await api.token("--scope", "admin")
    async with api.client(admin) as client:
        ids = [await _subscribe(client, port, number, word) for number, word in enumerate(words)]
    async with opened_store(load_settings(environ=api.daemon.env)) as store:
        for word in words:
            await store.records.tokens.create(word, Scope.READ, tenant=None, expires=None, who=word)
    await asyncio.sleep(1.5)  # the worker reads the subscriptions within a second
    for number, word in enumerate(words):
        body = json.dumps({"note": word}, ensure_ascii=False).encode()
        await publisher.publish(
            TENANT, f"evil.{number}", body, word, headers={"x-evil": word, word[:60]: "x"}
        )
        await publisher.publish(TENANT, word, body, f"typed-{number}")
    parked = await _parked(api, len(words))
    return Planted(subscriptions=ids, parked=parked, events=words, words=words)


async def _subscribe(client: httpx2.AsyncClient, port: int, number: int, word: str) -> str:
    fields = {
        "name": word,
        "url": f"http://127.0.0.1:{port}/{quote(word, safe='')}",
        "events": [f"evil.{number}"],
        "retry": {"max_attempts": 1},
        "breaker": NO_BREAKER,
    }
    answer = await client.post(f"/v1/tenants/{TENANT}/subscriptions", json=fields)
    if answer.status_code != 201:
        raise RuntimeError(f"{word}: {answer.text}")
    return str(answer.json()["id"])


async def _parked(api: ServedApi, wanted: int) -> Sequence[str]:
    """Wait until *wanted* entries are parked and return the ids of all."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        rows = (await api.daemon.cli("parked", "list", "--json", "--limit", "1000")).splitlines()
        if len(rows) >= wanted:
            return [json.loads(row)["id"] for row in rows]
        await asyncio.sleep(0.5)
    raise TimeoutError(f"fewer than {wanted} entries were parked within {PATIENCE_S:g} s")


def operator_paths(planted: Planted) -> list[str]:
    """Return every page of an operator that shows one of the strings, and each form that takes one."""
    searches = (urls.SEARCH, "q"), (urls.ENDPOINTS, "q"), (urls.TENANTS, "q"), (urls.PARKED, "type")
    return [
        *(urls.OVERVIEW, urls.JOBS, urls.TENANTS),
        *(urls.endpoint(one) for one in planted.subscriptions),
        *(urls.entry(one) for one in planted.parked),
        *(urls.event(one, TENANT) for one in planted.events),
        *(urls.with_query(path, {name: word}) for word in planted.words for path, name in searches),
        *(urls.with_query(urls.PARKED, {"group": group}) for group in ("type", "subscription", "reason")),
    ]


def customer_paths(planted: Planted) -> list[str]:
    """Return every page of a customer that shows one of the strings."""
    return [
        *(urls.own_endpoint(one) for one in planted.subscriptions),
        *(urls.own_event(one) for one in planted.events),
        *(urls.with_query(urls.SEARCH, {"q": word}) for word in planted.words),
    ]


LISTS = (urls.ENDPOINTS, urls.PARKED, urls.TOKENS, urls.AUDIT)
"""Lists of an operator that are followed to their last page; a customer's is :data:`urls.CUSTOMER`."""


async def visit(page: Page, paths: Sequence[str], lists: Sequence[str]) -> tuple[int, list[str]]:
    """Visit *paths* and each page of *lists*; return the number of pages, and all that happened on them."""
    faults, visited, made = Faults(), 0, list[str]()
    await faults.watch(page)

    async def look(path: str) -> None:
        nonlocal visited
        visited += 1
        answer = await page.goto(path)
        if answer is not None and answer.status >= 500:
            made.append(f"{path}: {answer.status}")
        if count := await page.evaluate(MADE):
            made.append(f"{path}: {count} elements were made")

    for path in paths:
        await look(path)
    for path in lists:
        following: str | None = path
        while following:
            await look(following)
            link = page.locator("nav.pager a[rel=next]")
            following = await link.get_attribute("href") if await link.count() else None
    expected = "Failed to load resource"  # what Chromium reports of an answer 404 or 422
    return visited, [*made, *(fault for fault in faults.found if not fault.startswith(expected))]


async def look_around(bench: Bench, api: ServedApi, planted: Planted, started: Browser) -> list[str]:
    """Visit every page as an operator and as a customer; return all that happened."""
    admin = await api.token("--scope", "admin")
    mine = await api.token("--scope", "operate", "--tenant", TENANT)
    views = {
        "operator": (admin, operator_paths(planted), LISTS),
        "customer": (mine, customer_paths(planted), (urls.CUSTOMER,)),
    }
    found: list[str] = []
    for view, (token, paths, lists) in views.items():
        async with tab(started, api.url, token) as page:
            visited, faults = await visit(page, paths, lists)
        bench.note(f"xss_pages_{view}", visited)
        found += faults
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Plant the strings, and visit every page that shows them."""
    words = hostile_words(bench.count(COUNT, 5))
    async with (
        Broker(bench) as broker,
        RawServer(answer_hostile) as endpoint,
        Daemon(bench.folder, broker.url, UNLIMITED) as daemon,
    ):
        await daemon.start()
        async with serving(daemon) as api, EventPublisher(broker.url) as publisher, browser() as started:
            planted = await plant(api, publisher, endpoint.port, words)
            found = await look_around(bench, api, planted, started)
    bench.note("xss_found", found[:50])
    return [Measured(name="xss_executed", value=len(found), n=len(words))]


PROOF = Proof("operate_scripts", GOALS, prove)
