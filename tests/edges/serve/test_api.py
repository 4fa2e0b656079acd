"""Health and metrics over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from consumer.core.errors import ConfigError
from consumer.core.retry.policy import POLICIES
from consumer.core.retry.policy_text import sender_stats
from consumer.core.tools.alerts.model import Alert
from consumer.core.tools.alerts.rules import GROUPS
from consumer.edges.serve.health_server import HealthServer
from metrics.series import Series

STATS = "/webhook/subscriptions/sender/stats"


class Desk:
    """A health server, and the daemon's part in it."""

    def __init__(self) -> None:
        self.reason: str | None = "the topology is not declared yet"
        self.series = Series(CollectorRegistry())
        self.server = HealthServer(
            self.series.registry, lambda: self.reason, sender_stats=sender_stats(POLICIES["default"], 15.0)
        )
        self.url = ""

    async def ask(self, path: str, method: str = "GET", **more: str) -> httpx2.Response:
        """Make one request."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.request(method, self.url + path, headers=more)


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    """Give a server that listens; stop it after the test."""
    desk = Desk()
    desk.url = f"http://127.0.0.1:{await desk.server.start('127.0.0.1', 0)}"
    yield desk
    await desk.server.stop()


async def test_healthz_says_that_the_process_lives(desk: Desk) -> None:
    """200 whether ready or not (outside contract)."""
    answer = await desk.ask("/healthz")

    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_readyz_follows_the_daemon(desk: Desk) -> None:
    """503 with the reason until it is connected and consuming, then 200, then 503 again (faults 62, 63)."""
    before = await desk.ask("/readyz")
    desk.reason = None
    ready = await desk.ask("/readyz")
    desk.reason = "the broker blocks publishers"
    blocked = await desk.ask("/readyz")

    assert (before.status_code, before.text) == (503, "not ready: the topology is not declared yet\n")
    assert (ready.status_code, ready.text) == (200, "ready\n")
    assert (blocked.status_code, blocked.text) == (503, "not ready: the broker blocks publishers\n")


async def test_metrics_are_what_was_counted(desk: Desk) -> None:
    """In the text format, fresh at each scrape."""
    desk.series.events.labels("matched").inc(7)

    answer = await desk.ask("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    assert families["leveret_events"].samples[0].value == 7


async def test_metrics_speak_openmetrics(desk: Desk) -> None:
    """To a scraper that asks for it."""
    answer = await desk.ask("/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


async def test_the_runbook_is_a_page_with_the_sections_of_the_alerts(desk: Desk) -> None:
    """Each alert leads to a heading of it; the page has neither script nor anything of another host."""
    answer = await desk.ask("/runbook")

    anchors = set(re.findall(r'<h2 id="([^"]+)">', answer.text))
    alerts = [rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)]
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    assert {rule.section for rule in alerts} <= anchors
    assert set(re.findall(r'(?:href|src)="(.)', answer.text)) == {"#"}
    assert "<script" not in answer.text


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/../admin", "/api", "//", "/readyz%00"])
async def test_nothing_else_is_there(desk: Desk, path: str) -> None:
    """404, no listing (fault 76)."""
    assert (await desk.ask(path)).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", STATS])
async def test_nothing_can_be_changed(desk: Desk, path: str, method: str) -> None:
    """405 for every method that is no reading."""
    assert (await desk.ask(path, method)).status_code == 405


async def test_the_senders_numbers_can_be_asked_for(desk: Desk) -> None:
    """S0-6: the policy in force as JSON, in the fields and formats of the document."""
    answer = await desk.ask(STATS)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == sender_stats(POLICIES["default"], 15.0)
    assert answer.json()["delaySequence"] == ["1000ms", "2000ms", "4000ms", "8000ms"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example@localhost", 421),
        ("localhost:1:2", 421),
        ("192.168.0.1", 421),
        ("", 421),
    ],
)
async def test_a_page_for_this_machine_is_not_read_under_another_name(
    desk: Desk, host: str, status: int
) -> None:
    """Fault 76: a foreign page whose name leads to this machine reads nothing; health stays open to all."""
    assert (await desk.ask(STATS, host=host)).status_code == status
    assert (await desk.ask("/healthz", host=host)).status_code == 200


async def test_on_an_open_address_there_are_health_and_metrics_only() -> None:
    """Without tokens a stranger learns nothing more."""
    desk = Desk()
    desk.url = f"http://127.0.0.1:{await desk.server.start('0.0.0.0', 0)}"  # noqa: S104 - that is the point
    try:
        assert [(await desk.ask(path)).status_code for path in ("/healthz", STATS)] == [200, 404]
    finally:
        await desk.server.stop()


async def test_a_taken_port_is_an_error(desk: Desk) -> None:
    """The daemon then names the address and ends."""
    other = Desk()

    with pytest.raises(
        ConfigError, match=r"^listen: .*address already in use; choose another address with LEVERET_L"
    ):
        await other.server.start("127.0.0.1", int(desk.url.rsplit(":", 1)[1]))
    await other.server.stop()
