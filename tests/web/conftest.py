"""The API for each test, on a store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.web import Api, opened_api


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """An API with the default settings."""
    async with opened_api(tmp_path / "home") as opened:
        yield opened
