"""One daemon for all tests of a module, an application that publishes, and endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from consumer.edges.private_broker import BrokerEndpoint
from tests.support.broker.vhosts import add_vhost, remove_vhost
from tests.support.processes.children import stop
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.publisher import EventPublisher


@pytest.fixture(scope="module")
def module_vhost(broker: BrokerEndpoint, management: httpx2.Client) -> Iterator[str]:
    """The AMQP URL of a vhost that the tests of one module share."""
    name = add_vhost(management, broker.user)
    yield f"{broker.amqp_url}/{name}"
    remove_vhost(management, name)


@pytest.fixture(scope="module")
def shared(module_vhost: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that runs for all tests of a module; each test takes tenants of its own."""
    daemon = Daemon(tmp_path_factory.mktemp("shared"), module_vhost)
    try:
        asyncio.run(daemon.start())
        yield daemon
    finally:
        asyncio.run(stop(daemon.process, 10))


@pytest.fixture(autouse=True)
def _shared_lives(request: pytest.FixtureRequest) -> Iterator[None]:
    """Name the test in which the shared daemon ended, with its exit code: the next tests fail by it too."""
    yield
    if "shared" in request.fixturenames:
        daemon: Daemon = request.getfixturevalue("shared")
        code = daemon.process and daemon.process.poll()
        assert code is None, f"the shared daemon has ended with {code}: {daemon.tail()}"


@pytest.fixture
async def publisher(shared: Daemon, module_vhost: str) -> AsyncIterator[EventPublisher]:
    """An application that publishes to the shared daemon's broker."""
    async with EventPublisher(module_vhost) as publishing:
        yield publishing


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Endpoints that remember their requests."""
    async with Receiver() as listening:
        yield listening
