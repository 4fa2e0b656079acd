"""One node of the cluster: its files, its processes, and its own commands."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from consumer.core.errors import BrokerUnavailable
from consumer.edges.private_broker import files, find_server
from consumer.edges.private_broker.files import NodeIdentity, Ports
from tests.support.broker.load import Management
from tests.support.cluster.network import Place
from tests.support.processes.children import spawn, stop

AMQP, MANAGEMENT, PROMETHEUS, DISTRIBUTION, EPMD = 5672, 15672, 15692, 25672, 4369
START_S = 600.0  #: a busy machine takes minutes to read the logs of all queues again
COMMAND_S = 90.0
TICK_S = 20  #: a node that is cut off is noticed within 1.25 times this

#: The cure of 3.10.
FREE = Path(__file__).parents[3] / "deploy/rabbitmq/free-dead-letters.sh"

#: One scheduler that never spins: three nodes share the machine with the worker and its endpoints.
SMALL = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


class Node:
    """One RabbitMQ server.

    Args:
        folder: Where its files go.
        place: Its network.
        members: Erlang names of all nodes.
        cookie: The secret that all nodes share.
        handling: ``cluster_partition_handling``.
    """

    def __init__(
        self, folder: Path, place: Place, *, members: Sequence[str], cookie: str, handling: str
    ) -> None:
        self.place = place
        self.name = f"rabbit@{place.inner}"
        self._server = find_server()
        self._layout = files.lay_out(folder / place.namespace, self._server)
        self._identity = NodeIdentity(
            node=self.name,
            user="leveret",
            password="leveret",
            cookie=cookie,
            ports=Ports(AMQP, DISTRIBUTION, EPMD, MANAGEMENT, PROMETHEUS),
        )
        self._members = members
        self._handling = handling
        self._epmd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """AMQP URL of the vhost ``/``, with the password."""
        return f"amqp://leveret:leveret@{self.place.address}:{AMQP}"

    @property
    def management(self) -> Management:
        """The node's management API."""
        return Management(f"http://leveret:leveret@{self.place.address}:{MANAGEMENT}")

    @property
    def up(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def logs(self) -> Path:
        """Folder of its logs."""
        return self._layout.outside / "log"

    def prepare(self) -> None:
        """Write the node's files."""
        self._layout.home.mkdir(parents=True)
        self._layout.outside.mkdir(parents=True, exist_ok=True)
        files.write_node_files(self._layout, self._identity)
        text = files.config_text(self._identity).replace("127.0.0.1", "0.0.0.0")  # noqa: S104 (its own network)
        peers = "".join(
            f"cluster_formation.classic_config.nodes.{number} = {name}\n"
            for number, name in enumerate(self._members, 1)
        )
        text += f"cluster_formation.peer_discovery_backend = classic_config\n{peers}"
        text += f"cluster_partition_handling = {self._handling}\nnet_ticktime = {TICK_S}\n"
        files.write_private(self._layout.outside / "rabbitmq.conf", text)

    def start(self) -> None:
        """Start its processes and return at once; call it on the main thread, with which they end."""
        env, log = self._environment(), self._layout.outside / "log" / "console.log"
        if self._epmd is None:
            listen = self._server.command(self._server.epmd, "-port", str(EPMD))
            self._epmd = spawn(self.place.enter(listen), log=log, env=env)
        run = self._server.command(self._server.scripts / "rabbitmq-server")
        self._process = spawn(self.place.enter(run), log=log, env=env, cwd=self._layout.outside)

    async def wait_ready(self) -> None:
        """Wait until it answers and has its AMQP listener.

        Raises:
            BrokerUnavailable: it ended, or does not answer in time.
        """
        deadline = time.monotonic() + START_S
        while not await asyncio.to_thread(self.answers):
            if not self.up or time.monotonic() > deadline:
                raise BrokerUnavailable(f"{self.name} does not start:\n{files.tail(self.logs.glob('*.log'))}")
            await asyncio.sleep(0.2)

    def answers(self) -> bool:
        """Return whether its management API answers and its AMQP listener is open."""
        try:
            found = self.management.get("/api/health/checks/port-listener/5672")
        except (OSError, ValueError):
            return False
        return isinstance(found, dict) and found.get("status") == "ok"

    async def kill(self) -> None:
        """SIGKILL it."""
        assert self._process is not None
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def remove(self) -> None:
        """End all its processes and remove its data."""
        if self.up:
            await self.kill()
        await stop(self._epmd)
        shutil.rmtree(self._layout.outside / "data", ignore_errors=True)
        if self._server.chroot:
            shutil.rmtree(self._layout.outside, ignore_errors=True)

    async def ctl(self, *arguments: str, program: str = "rabbitmqctl") -> str:
        """Run one of the server's commands in the node's network; return its output.

        Raises:
            BrokerUnavailable: the command failed; the text is its answer.
        """
        return await asyncio.to_thread(self._ctl, program, *arguments)

    async def evaluate(self, expression: str) -> str:
        """Evaluate an Erlang expression on the node; return its value as text."""
        return (await self.ctl("eval", expression)).strip()

    async def free_dead_letters(self) -> str:
        """Run ``deploy/rabbitmq/free-dead-letters.sh`` for this node; return its output."""
        argv = self.place.enter(self._server.command(self._server.scripts / "rabbitmqctl", "--longnames"))
        env = {**self._environment(), "RABBITMQCTL": " ".join(argv)}

        def run() -> str:
            done = subprocess.run(
                ["sh", str(FREE)], env=env, capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
            return done.stdout if done.returncode == 0 else f"failed: {done.stderr or done.stdout}"

        return await asyncio.to_thread(run)

    def version(self) -> str:
        """Return the server's version."""
        found = self.management.get("/api/overview")
        assert isinstance(found, dict)
        return str(found["rabbitmq_version"])

    def _ctl(self, program: str, *arguments: str) -> str:
        argv = self._server.command(self._server.scripts / program, "--quiet", "--longnames", *arguments)
        done = subprocess.run(
            self.place.enter(argv),
            env=self._environment(),
            cwd=self._layout.outside,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerUnavailable(f"{program} {arguments[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """Return the private broker's environment, for a node that others reach."""
        env = files.node_environment(self._layout, self._identity, self._server)
        env.pop("ERL_EPMD_ADDRESS")
        lean = env["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"].partition("-eval")[2]
        return env | {
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{SMALL} -start_epmd false -eval{lean}",
            "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false",
        }


def rows(found: object) -> list[dict[str, object]]:
    """Return a listing of the management API, checked to be one."""
    assert isinstance(found, list), json.dumps(found)[:200]
    return found
