"""Edges that must work on every event loop are tested on both that we know."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from consumer.edges.http import WebhookSender
from tests.support.loopback import OPTIONS, SENDERS, BuildSender
from tests.support.processes.postgres import Postgres
from tests.support.stores import Place

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Run the sender's tests on asyncio's own loop and on uvloop, which the daemon uses."""
    if item.path.name.startswith("test_sender"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what nobody runs: the daemon has uvloop, so the second sender is tested on that alone."""
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
async def sql_place(tmp_path: Path) -> AsyncIterator[Place]:
    """A home without a store; SQLite unless the test gives it a URL."""
    place = Place(tmp_path / "home")
    yield place
    await place.close()


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, sql_place: Place, postgres: Postgres) -> Place:
    """A home and an empty database of each kind in turn."""
    sql_place.url = await postgres.database() if request.param == "postgres" else ""
    return sql_place
