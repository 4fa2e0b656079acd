"""A home and a database for the tests of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.processes.postgres import Postgres
from tests.support.stores import Place


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
