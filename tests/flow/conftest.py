"""The flow is tested in virtual time: an hour takes no time, and a wait for nothing fails at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.support.fakes import VirtualLoop
from tests.support.flow.books import rest
from tests.support.worker import Worker


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualLoop]]:
    """Run every test here on the virtual loop."""
    return {"virtual": VirtualLoop}


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker between fakes, whose books balance after each test."""
    worker = Worker()
    yield worker
    books = worker.context.books
    assert (books.fault(), books.balance().lost, rest(books.balance())) == (None, 0, 0)
    assert worker.intake.running() or not books.balance().in_flight
