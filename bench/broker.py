"""The proofs' broker: a private node per proof, started fresh and removed with its folder.

A proof in small may run on a vhost of a node that its test shares with others (``Bench.amqp_url``).
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.prove import Bench
from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker, files
from consumer.edges.private_broker.files import PLUGINS, draw_port
from tests.support.broker.load import Management
from tests.support.processes.rabbitmqctl import rabbitmqctl

_STAYS = "[{persistent, true}]"  #: an application that is loaded later keeps such a setting


class Broker:
    """A private RabbitMQ node; ``LEVERET_RABBITMQ_CHROOT`` or ``_HOME`` choose another server."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._home = bench.folder / "broker-home"
        self._node = PrivateBroker(self._home)
        self.endpoint: BrokerEndpoint

    async def __aenter__(self) -> Broker:
        if self._bench.amqp_url:
            return self
        await self.start()
        self._bench.notes["rabbitmq"] = self.endpoint.version
        if not self.endpoint.version.startswith(self._bench.broker_version):
            await self.__aexit__()
            raise SystemExit(
                f"the server is RabbitMQ {self.endpoint.version}, not {self._bench.broker_version}"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._bench.amqp_url:
            return
        await asyncio.to_thread(self._node.kill)  # a clean stop takes seconds, and its data is removed
        await asyncio.to_thread(self._node.stop)
        shutil.rmtree(self._home, ignore_errors=True)

    async def start(self) -> None:
        """Start the node, or start it again after :meth:`kill` or :meth:`stop`; its ports and data stay."""
        self.endpoint = await asyncio.to_thread(lambda: self._node.start(bound=True))

    async def stop(self) -> None:
        """Stop the node cleanly."""
        await asyncio.to_thread(self._node.stop)

    async def kill(self) -> None:
        """SIGKILL the node."""
        await asyncio.to_thread(self._node.kill)

    async def enable_mqtt(self) -> int:
        """Enable the MQTT plugin while the node runs; return the port on loopback that it listens at."""
        port, layout = draw_port(), self._node.layout
        plugins = ",".join((*PLUGINS, "rabbitmq_mqtt"))
        (layout.outside / "enabled_plugins").write_text(f"[{plugins}].\n")
        listener = f'application:set_env(rabbitmq_mqtt, tcp_listeners, [{{"127.0.0.1", {port}}}], {_STAYS})'
        ensure = f'{{ok, _, _}} = rabbit_plugins:ensure("{layout.inside / "enabled_plugins"}")'
        await asyncio.to_thread(rabbitmqctl, self._node, "eval", f"{listener}, {ensure}, ok.")
        return port

    @asynccontextmanager
    async def without_hash_plugin(self) -> AsyncIterator[None]:
        """Disable the consistent-hash plugin while the node runs, and enable it again."""
        try:
            await self._enable([name for name in PLUGINS if "consistent_hash" not in name])
            yield
        finally:
            await self._enable(PLUGINS)

    async def _enable(self, plugins: Sequence[str]) -> None:
        layout = self._node.layout
        (layout.outside / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        ensure = f'{{ok, _, _}} = rabbit_plugins:ensure("{layout.inside / "enabled_plugins"}"), ok.'
        await asyncio.to_thread(rabbitmqctl, self._node, "eval", ensure)

    def write_rabbitmqctl(self, folder: Path) -> None:
        """Write a program ``rabbitmqctl`` for this node into *folder*, as a user of the node has it."""
        node = self._node
        identity = files.load_identity(node.layout)
        assert identity is not None, "the broker was never started"
        settings = files.node_environment(node.layout, identity, node.server)
        names = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
        command = shlex.join(node.server.command(node.server.scripts / "rabbitmqctl"))
        program = folder / "rabbitmqctl"
        where = shlex.quote(str(node.layout.outside))
        program.write_text(f'#!/bin/sh\ncd {where} && exec env {" ".join(names)} {command} "$@"\n')
        program.chmod(0o755)

    async def evaluate(self, expression: str) -> str:
        """Evaluate an Erlang expression on the node; return its value as text."""
        return (await asyncio.to_thread(rabbitmqctl, self._node, "eval", expression)).strip()

    @property
    def url(self) -> str:
        """AMQP URL with the password."""
        return self._bench.amqp_url or self.endpoint.amqp_url

    @property
    def management(self) -> Management:
        """The management API, with user and password; of a shared node only that of its vhost."""
        if self._bench.amqp_url:
            return Management(self._bench.management_url, self._bench.amqp_url.rpartition("/")[2])
        scheme, rest = self.endpoint.management_url.split("://")
        return Management(f"{scheme}://{self.endpoint.user}:{self.endpoint.password}@{rest}")

    def disk_mb(self) -> float:
        """Return the disk that the node's data takes, in MiB, as ``du`` counts blocks."""
        done = subprocess.run(
            ["du", "-s", "--block-size=1K", str(self.endpoint.data_folder)],
            capture_output=True,
            text=True,
            check=False,  # a file may vanish while it counts: the sum is still printed
        )
        return int(done.stdout.split()[0]) / 1024
