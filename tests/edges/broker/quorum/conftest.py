"""Questions and their answers are tested in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.fakes import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualLoop]]:
    """Run every test here on the virtual loop."""
    return {"virtual": VirtualLoop}
