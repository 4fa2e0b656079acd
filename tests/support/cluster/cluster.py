"""Three nodes as one cluster, and the faults that a proof makes in it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

from tests.support.cluster.network import clear, lay_out
from tests.support.cluster.node import Node, rows

NODES = 3


class Cluster:
    """A cluster of three nodes, started fresh and removed with its networks.

    Args:
        folder: Where its files go.
        handling: ``cluster_partition_handling`` of every node.
    """

    def __init__(self, folder: Path, *, handling: str = "pause_minority") -> None:
        self._folder = folder
        self._handling = handling
        self.nodes: Sequence[Node] = ()

    async def __aenter__(self) -> Cluster:
        places = lay_out(NODES)
        members = [f"rabbit@{place.inner}" for place in places]
        cookie = secrets.token_hex(24)
        self.nodes = [
            Node(self._folder, place, members=members, cookie=cookie, handling=self._handling)
            for place in places
        ]
        try:
            for node in self.nodes:
                node.prepare()
                node.start()
            await asyncio.gather(*(node.wait_ready() for node in self.nodes))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            await node.remove()
        clear([node.place for node in self.nodes])

    @property
    def urls(self) -> str:
        """AMQP URLs of all nodes, as ``LEVERET_AMQP_URL`` lists them."""
        return ",".join(node.url for node in self.nodes)

    @property
    def running(self) -> list[Node]:
        """The nodes whose process runs."""
        return [node for node in self.nodes if node.up]

    def leaders(self) -> dict[str, str]:
        """Return the Erlang name of the node that leads each queue, from the first node that answers."""
        for node in self.running:
            try:
                found = rows(node.management.get("/api/queues?columns=name,leader"))
            except (OSError, ValueError):
                continue
            return {str(row["name"]): str(row.get("leader", "")) for row in found}
        return {}

    def leader(self, queue: str) -> Node:
        """Return the node that leads *queue*."""
        name = self.leaders()[queue]
        return next(node for node in self.nodes if node.name == name)

    async def start(self, *nodes: Node) -> None:
        """Start killed nodes again, at the same time, and wait until they are ready."""
        for node in nodes:
            node.start()
        await asyncio.gather(*(node.wait_ready() for node in nodes))
