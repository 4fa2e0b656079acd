"""What every test can ask for: a real broker, and an empty vhost on it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType

import httpx2
import pytest

from bench.postgres import Postgres
from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker
from tests.certificates import Authority

SERVER_VERSION = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the Makefile asks of a run."""
    group = parser.getgroup("leveret")
    group.addoption("--no-skips", action="store_true", help="a skipped test fails the run")
    group.addoption("--broker-version", default="", help="what the RabbitMQ server's version begins with")


def pytest_configure(config: pytest.Config) -> None:
    """End tidily on SIGTERM too, so that the fixtures stop what they started."""
    signal.signal(signal.SIGTERM, _interrupted)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which server the tests ran on."""
    terminalreporter.write_line(f"RabbitMQ server: {config.stash.get(SERVER_VERSION, 'not used')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left tests out, where the run demands them all."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def end(broker: PrivateBroker) -> None:
    """Stop a node and remove its data, which in a chroot no one else would; its logs stay."""
    broker.stop()
    shutil.rmtree(broker.layout.outside / "data", ignore_errors=True)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority that all tests share."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def private_broker(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[PrivateBroker]:
    """The node that all tests share; do not stop or kill it, ask for ``own_broker`` instead."""
    broker = PrivateBroker(tmp_path_factory.mktemp("shared-broker"))
    try:
        version = broker.start(bound=True).version
        pytestconfig.stash[SERVER_VERSION] = version
        wanted = pytestconfig.getoption("--broker-version")
        assert version.startswith(wanted), f"the server is {version}, not {wanted}"
        yield broker
    finally:
        end(broker)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL that all tests share; do not stop it, ask for ``own_postgres`` instead."""
    node = Postgres()
    node.create()
    try:
        asyncio.run(node.start())
        yield node
    finally:
        asyncio.run(node.remove())


@pytest.fixture
async def own_postgres() -> AsyncIterator[Postgres]:
    """A PostgreSQL for one test alone, started; its test may stop and start it (under 1 s each)."""
    node = Postgres()
    node.create()
    try:
        await node.start()
        yield node
    finally:
        await node.remove()


@pytest.fixture(scope="session")
def broker(private_broker: PrivateBroker) -> BrokerEndpoint:
    """How to reach the node that all tests share."""
    return private_broker.start()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    """A node for one test alone, not started yet; its test may start, kill and stop it (5 to 10 s each)."""
    broker = PrivateBroker(tmp_path / "own-broker")
    yield broker
    end(broker)


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
