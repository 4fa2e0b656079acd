"""Fixtures for every test: a real broker, and an empty vhost on it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType

import httpx2
import pytest
from hypothesis import HealthCheck, settings

from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker
from tests.support.broker.vhosts import add_vhost, end, managed, remove_vhost
from tests.support.processes import leveret
from tests.support.processes.fork_server import ForkServer
from tests.support.processes.postgres import Postgres
from tests.support.servers.certificates import Authority

SERVER_VERSION = pytest.StashKey[str]()

# No limit by the clock, which a busy machine breaks, and the same examples each time: only a changed program
# changes the result. ``pytest --hypothesis-profile=explore`` looks further, with other examples each time.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("suite"), derandomize=False, max_examples=1_000)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the Makefile sets."""
    group = parser.getgroup("leveret")
    group.addoption("--no-skips", action="store_true", help="a skipped test fails the run")
    group.addoption("--broker-version", default="", help="required start of the RabbitMQ server's version")


def pytest_configure(config: pytest.Config) -> None:
    """End tidily on SIGTERM too, so that the fixtures stop their processes.

    A background run may ignore SIGINT. Its processes would inherit that, and never end by SIGINT.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    leveret.fork_server = ForkServer()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the fork server."""
    if leveret.fork_server is not None:
        leveret.fork_server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the server that the tests ran on."""
    terminalreporter.write_line(f"RabbitMQ server: {config.stash.get(SERVER_VERSION, 'not used')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left tests out, where the run demands them all."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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
    """The shared node's management API, logged in."""
    with managed(broker) as client:
        yield client


@pytest.fixture
def vhost(broker: BrokerEndpoint, management: httpx2.Client) -> Iterator[str]:
    """The AMQP URL of a vhost of its own, gone after the test; the part after the last ``/`` is its name."""
    name = add_vhost(management, broker.user)
    yield f"{broker.amqp_url}/{name}"
    remove_vhost(management, name)
