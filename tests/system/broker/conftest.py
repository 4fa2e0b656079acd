"""A broker that tests may stop, kill and stall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import add_vhost, end, managed, remove_vhost


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    """A node that the tests of this folder may stop, kill and stall."""
    broker = PrivateBroker(tmp_path_factory.mktemp("faulty-broker"))
    try:
        broker.start(bound=True)
        yield broker
    finally:
        end(broker)


@pytest.fixture
def node_url(node: PrivateBroker) -> Iterator[str]:
    """The AMQP URL of an empty vhost on that node, which runs."""
    endpoint = node.start(bound=True)
    with managed(endpoint) as management:
        name = add_vhost(management, endpoint.user)
    yield f"{endpoint.amqp_url}/{name}"
    with managed(node.start(bound=True)) as management:
        remove_vhost(management, name)
