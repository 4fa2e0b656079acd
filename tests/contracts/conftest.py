"""Edges that must work on every event loop are tested on both that we know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from bench.postgres import Postgres
from consumer.edges.http import AiohttpSender
from tests.contracts.loopback import OPTIONS
from tests.contracts.stores import Place

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Run the sender's tests on asyncio's own loop and on uvloop, which the daemon uses."""
    if item.path.name.startswith("test_sender"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def sender() -> AsyncIterator[AiohttpSender]:
    """A real sender that may go to loopback."""
    built = AiohttpSender(OPTIONS)
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
