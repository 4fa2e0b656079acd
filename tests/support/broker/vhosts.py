"""Virtual hosts on a test's broker, and the end of such a broker."""

from __future__ import annotations

import asyncio
import secrets
import shutil

import httpx2

from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker
from tests.support.processes.rabbitmqctl import rabbitmqctl


def end(broker: PrivateBroker) -> None:
    """End a node and remove its data, also from inside a chroot; its logs stay.

    The node is killed: its data is of no more use, and a clean stop takes 3 to 6 s.
    """
    broker.kill()
    broker.stop()
    shutil.rmtree(broker.layout.outside / "data", ignore_errors=True)


def managed(node: BrokerEndpoint) -> httpx2.Client:
    """Return the node's management API, logged in: ``get("/api/queues/<vhost>")``."""
    login = (node.user, node.password)
    return httpx2.Client(base_url=node.management_url, auth=login, timeout=60, trust_env=False)


def add_vhost(management: httpx2.Client, user: str) -> str:
    """Make an empty vhost on which *user* has every right; return its name.

    ``rabbitmqctl`` would take some seconds: each call starts an Erlang machine.
    """
    name = f"test-{secrets.token_hex(4)}"
    management.put(f"/api/vhosts/{name}").raise_for_status()
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    management.put(f"/api/permissions/{name}/{user}", json=rights).raise_for_status()
    return name


def remove_vhost(management: httpx2.Client, name: str) -> None:
    """Remove a vhost with all that is in it."""
    management.delete(f"/api/vhosts/{name}").raise_for_status()


async def ctl(node: PrivateBroker, *arguments: str) -> str:
    """Run ``rabbitmqctl`` in a thread, so that endpoints on the event loop go on answering."""
    return await asyncio.to_thread(rabbitmqctl, node, *arguments)
