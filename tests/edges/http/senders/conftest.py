"""The tests of the senders run on both event loops that a program may use: that of asyncio, and uvloop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import pytest_asyncio
import uvloop

from consumer.edges.http import SenderOptions, WebhookSender
from tests.support.loopback import LOOPBACK, OPTIONS, SENDERS, BuildSender, MakeSender
from tests.support.servers.name_server import NameServer

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Run each test here on the event loop of asyncio and on uvloop, which the daemon uses."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Test the second sender on uvloop alone: only the daemon uses it, and the daemon has uvloop."""
    left_out = [item for item in items if re.search(r"\[asyncio-(.*-)?httpx\b", item.name)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(params=list(SENDERS))
def build(request: pytest.FixtureRequest) -> BuildSender:
    """Makes a sender: on aiohttp, and on httpx2."""
    return SENDERS[request.param]


@pytest_asyncio.fixture
async def sender(build: BuildSender) -> AsyncIterator[WebhookSender]:
    """A real sender that may go to loopback."""
    built = build(OPTIONS)
    yield built
    await built.close()


@pytest_asyncio.fixture
async def dns() -> AsyncIterator[NameServer]:
    """A name server that knows nothing yet."""
    async with NameServer() as server:
        yield server


@pytest_asyncio.fixture
async def make(build: BuildSender, dns: NameServer) -> AsyncIterator[MakeSender]:
    """Makes senders that ask the name server, with these options beside."""
    made: list[WebhookSender] = []

    def make_one(**options: float) -> WebhookSender:
        values: dict[str, float] = {"resolve_ttl_min_s": 0.0, "resolve_timeout_s": 2.0, **options}
        sender = build(SenderOptions(egress=LOOPBACK, name_servers=(dns.address,), **values))  # type: ignore[arg-type]  # numbers only
        made.append(sender)
        return sender

    yield make_one
    for sender in made:
        await sender.close()
