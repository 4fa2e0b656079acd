"""What every test can ask for: a real broker, and an empty vhost on it."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import httpx2
import pytest

from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker


def pytest_configure(config: pytest.Config) -> None:
    """End tidily on SIGTERM too, so that the fixtures stop what they started."""
    signal.signal(signal.SIGTERM, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def private_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    """The node that all tests share; do not stop or kill it, ask for ``own_broker`` instead."""
    broker = PrivateBroker(tmp_path_factory.mktemp("shared-broker"))
    broker.start(bound=True)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def broker(private_broker: PrivateBroker) -> BrokerEndpoint:
    """How to reach the node that all tests share."""
    return private_broker.start()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    """A node for one test alone, not started yet; its test may start, kill and stop it (5 to 10 s each)."""
    broker = PrivateBroker(tmp_path / "own-broker")
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def management(broker: BrokerEndpoint) -> Iterator[httpx2.Client]:
    """The shared node's management API, logged in: ``management.get("/api/queues/<vhost>")``."""
    login = (broker.user, broker.password)
    with httpx2.Client(base_url=broker.management_url, auth=login, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def vhost(broker: BrokerEndpoint, management: httpx2.Client) -> Iterator[str]:
    """The AMQP URL of a vhost of its own, gone after the test; the part after the last ``/`` is its name."""
    name = f"test-{secrets.token_hex(4)}"
    management.put(f"/api/vhosts/{name}").raise_for_status()
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    management.put(f"/api/permissions/{name}/{broker.user}", json=rights).raise_for_status()
    yield f"{broker.amqp_url}{name}"
    management.delete(f"/api/vhosts/{name}").raise_for_status()
