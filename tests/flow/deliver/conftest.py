"""The overflow routine of a worker, running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from consumer.flow.deliver.dead_letters import DeadLetters
from tests.support.fakes import MemoryArchive
from tests.support.flow.dead_letters import DeadLetterDesk
from tests.support.worker import Worker


@pytest_asyncio.fixture
async def desk(worker: Worker) -> AsyncIterator[DeadLetterDesk]:
    """Give the routine; end it after the test."""
    archive = MemoryArchive()
    overflow = DeadLetters(worker.context, archive)
    task = asyncio.create_task(overflow.run())
    yield DeadLetterDesk(worker, archive, overflow)
    assert not task.done()
    task.cancel()
