"""An operator's night, in Chromium on the real daemon: with a mouse, with the keyboard only, without script.

An endpoint breaks; the overview turns red; the operator opens it, reads the endpoint's answer, has it
repaired, resets it, filters the parked entries, resends 200 of them, and watches them leave.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from playwright.async_api import Browser, Page

from bench.broker import Broker
from bench.operate.browser import browser, tab
from bench.operate.hands import Hands, Keyboard, Mouse, reload_until
from bench.prove import Bench, Goal, Measured, Proof
from consumer.web.pages import urls
from tests.support.processes.daemon import Daemon
from tests.support.servers.raw_server import Call, RawServer
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

PARKED = 200
WAYS = ("mouse", "keyboard", "no-script")
ACTION_S = 1.0  #: an operator does one thing a second
RED_S = 20.0  #: an overview must turn red within this time
DONE_S = 60.0
CAUSE = "pool exhausted: db-3 refuses connections"  #: in the answer of the broken endpoint

GOALS = (
    Goal(name="night_steps_failed", text="0", unit="steps", n=3 * 9),
    Goal(name="night_seconds_to_cause", text="≤ 10", unit="s", n=3),
)


@dataclass(slots=True)
class Shop:
    """An endpoint that breaks and is repaired."""

    broken: bool = False
    taken: int = 0  #: webhooks that it accepted

    async def talk(self, call: Call) -> None:
        """Answer each request of a connection."""
        while True:
            await call.request()
            if self.broken:
                body = json.dumps({"error": CAUSE}).encode()
                head = b"HTTP/1.1 503 Unavailable\r\nContent-Type: application/json\r\n"
                await call.say(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            else:
                self.taken += 1
                await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@dataclass(slots=True, kw_only=True)
class Night:
    """One night: a tenant of its own, an endpoint, a browser, and a way to use it."""

    way: str
    page: Page
    hands: Hands
    shop: Shop
    api: ServedApi
    publisher: EventPublisher
    parked: int
    failed: list[str] = field(default_factory=list)
    steps: int = 0
    cause_s: float = 1e6

    @property
    def tenant(self) -> str:
        """The tenant of this night."""
        return f"night-{self.way}"

    async def step(self, name: str, do: Callable[[], Awaitable[None]]) -> None:
        """Do one step; one that fails is counted, and the night goes on."""
        self.steps += 1
        try:
            await do()
        except Exception as error:  # the browser's, or an assertion
            self.failed.append(f"{self.way}: {name}: {str(error).splitlines()[0] if str(error) else error!r}")

    async def live(self) -> None:
        """Go through the night."""
        await self.step("the overview is calm", self._calm)
        await self.step("the endpoint breaks, and the overview turns red", self._break)
        await self.step("the endpoint's answer is on the screen", self._find_cause)
        await self.step("the endpoint is repaired and reset", self._reset)
        await self.step("the endpoint is well again", self._well)
        await self.step("the parked entries are filtered", self._filter)
        await self.step("the dry run counts them", self._dry_run)
        await self.step("a job resends them", self._resend)
        await self.step("all of them have left", self._left)

    async def _calm(self) -> None:
        await self.publisher.publish_many(self.tenant, 5)
        await until(lambda: self.shop.taken == 5)
        await self.page.goto(urls.OVERVIEW)
        assert not await self.page.get_by_text(f"{self.tenant}/shop fails").count(), "it is red already"

    async def _break(self) -> None:
        self.shop.broken = True
        await self.publisher.publish_many(self.tenant, self.parked)
        trouble = self.page.get_by_text(f"{self.tenant}/shop fails")
        if self.way == "no-script":
            await reload_until(self.page, urls.OVERVIEW, lambda: seen(trouble.count()), RED_S)
        else:  # the page reloads itself
            await trouble.first.wait_for(timeout=RED_S * 1000)
        assert await self.page.locator("main .mark.bad").count(), "the overview is not red"

    async def _find_cause(self) -> None:
        """Open the overview, and do one thing a second until the endpoint's own answer is visible."""
        await self.page.goto("about:blank")
        began = time.monotonic()
        await self.page.goto(urls.OVERVIEW)
        await asyncio.sleep(ACTION_S)
        link = self.page.get_by_role("link", name=f"{self.tenant}/shop fails")
        await self.hands.press(link.first)
        answer = self.page.get_by_role("region", name="The endpoint's answer")
        await answer.wait_for()
        assert CAUSE in await answer.inner_text(), "the answer is another one"
        self.cause_s = time.monotonic() - began

    async def _reset(self) -> None:
        self.shop.broken = False
        await asyncio.sleep(ACTION_S)
        await self.hands.press(self.page.get_by_role("button", name="Reset", exact=True))
        await self.page.get_by_role("status").first.wait_for()

    async def _well(self) -> None:
        path = self.page.url
        failing = self.page.locator("h1 .badge.bad")

        async def is_well() -> bool:
            return await failing.count() == 0

        await reload_until(self.page, path, is_well, RED_S)

    async def _filter(self) -> None:
        await self.hands.press(self.page.get_by_role("link", name="Parked", exact=True))
        await self.hands.write(self.page.get_by_label("Tenant", exact=True), self.tenant)
        await self.hands.press(self.page.get_by_role("button", name="Filter"))
        await self.page.get_by_text(f"{self.parked} entries that fit the filter").wait_for()

    async def _dry_run(self) -> None:
        await self.hands.press(self.page.get_by_role("link", name=f"Resend {self.parked}"))
        heading = self.page.get_by_role("heading", name=f"Will be sent: {self.parked} of {self.parked}")
        await heading.wait_for()
        assert self.shop.taken == 5, "the dry run sent something"

    async def _resend(self) -> None:
        await self.hands.press(self.page.get_by_role("button", name=f"Resend {self.parked}", exact=True))
        await self.page.wait_for_url(lambda address: "/jobs/job_" in address)

    async def _left(self) -> None:
        done = self.page.get_by_text(f"{self.parked} of {self.parked} entries")
        await reload_until(self.page, self.page.url, lambda: seen(done.count()), DONE_S)
        await until(lambda: self.shop.taken >= 5 + self.parked)
        await self.page.goto(urls.with_query(urls.PARKED, {"tenant": self.tenant}))
        await self.page.get_by_text("No entry fits this filter.").wait_for()


async def seen(count: Awaitable[int]) -> bool:
    """Return whether there is anything."""
    return await count > 0


async def until(condition: Callable[[], bool], wait_s: float = DONE_S) -> None:
    """Wait until *condition* holds.

    Raises:
        TimeoutError: it does not within *wait_s*.
    """
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.05)


async def subscribe(api: ServedApi, token: str, tenant: str, url: str, parked: int) -> None:
    """Give *tenant* an endpoint: failed deliveries are parked at once, and the last opens the breaker."""
    fields = {
        "name": "shop",
        "url": url,
        "events": ["#"],
        "retry": {"max_attempts": 1},
        "breaker": {"failures": parked, "failure_ratio": 0, "cooldown_s": 600},
    }
    async with api.client(token) as client:
        made = await client.post(f"/v1/tenants/{tenant}/subscriptions", json=fields)
        assert made.status_code == 201, made.text


async def one_night(
    started: Browser, api: ServedApi, publisher: EventPublisher, way: str, parked: int
) -> Night:
    """Live one night and return it."""
    shop = Shop()
    token = await api.token("--scope", "admin")
    async with RawServer(shop.talk) as endpoint:
        await subscribe(api, token, f"night-{way}", endpoint.url("/hooks"), parked)
        await asyncio.sleep(1.5)  # the worker reads the subscription within a second
        async with tab(started, api.url, token, script=way != "no-script") as page:
            night = Night(
                way=way,
                page=page,
                hands=Keyboard(page) if way == "keyboard" else Mouse(),
                shop=shop,
                api=api,
                publisher=publisher,
                parked=parked,
            )
            await night.live()
    return night


async def prove(bench: Bench) -> Sequence[Measured]:
    """Live a night each way."""
    parked, nights = bench.count(PARKED, 5), []
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url) as daemon:
        await daemon.start()
        async with serving(daemon) as api, EventPublisher(broker.url) as publisher, browser() as started:
            for way in WAYS:
                nights.append(await one_night(started, api, publisher, way, parked))
    failed = [each for night in nights for each in night.failed]
    bench.note("night_failed", failed)
    bench.note("night_cause_s", {night.way: round(night.cause_s, 2) for night in nights})
    worst = max(night.cause_s for night in nights)
    return [
        Measured(name="night_steps_failed", value=len(failed), n=sum(night.steps for night in nights)),
        Measured(name="night_seconds_to_cause", value=round(worst, 2), n=len(nights)),
    ]


PROOF = Proof("operate_night", GOALS, prove)
