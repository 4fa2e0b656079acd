"""The private broker itself: start, status, stop, kill.

Every start and stop holds one file lock, so two callers never race. ``run.json`` names our processes as soon
as they exist; what a killed starter left unnamed is found by the marker in its environment.
"""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from consumer.core.errors import BrokerUnavailable
from consumer.edges.private_broker import files, processes
from consumer.edges.private_broker.files import Layout, NodeIdentity
from consumer.edges.private_broker.processes import Identity
from consumer.edges.private_broker.server import Server, find_server

START_TIMEOUT_S = 120.0
STOP_GRACE_S = 60.0  #: the node closes its queues cleanly; it takes 2 to 5 s
BOOT_GRACE_S = 3.0  #: a node that is asked to stop while it boots may never answer
_STARTS = 3  #: another program may take a drawn port before the node listens


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """How to talk to a node that is ready."""

    amqp_url: str = field(repr=False)  #: with the password, vhost ``/``
    management_url: str  #: without credentials, no slash at the end
    prometheus_url: str
    user: str
    password: str = field(repr=False)
    version: str  #: of the server, such as ``3.10.8``
    node: str
    pid: int
    data_folder: Path  #: the node's files; its size is the broker's disk
    fresh: bool  #: True when this call started the node, False when it ran already


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """What is known about the node without waiting for it."""

    state: Literal["running", "starting", "stopped"]
    node: str | None = None
    pid: int | None = None
    version: str | None = None
    amqp_url: str | None = field(default=None, repr=False)  #: with the password
    management_url: str | None = None
    prometheus_url: str | None = None
    data_folder: Path
    data_bytes: int


@dataclass(frozen=True, slots=True)
class _Run:
    """The processes of a node, as far as they were started."""

    epmd: Identity | None = None
    node: Identity | None = None
    guard: Identity | None = None


class PrivateBroker:
    """The RabbitMQ node of one LEVERET_HOME.

    Args:
        home: LEVERET_HOME; the node lives in its folder ``broker``.
        server: The installed RabbitMQ; None looks for one.

    Raises:
        ConfigError: there is no RabbitMQ server on this machine; the text names the ways on.
    """

    def __init__(self, home: Path, *, server: Server | None = None) -> None:
        self.server = server if server is not None else find_server()
        self.layout: Layout = files.lay_out(home, self.server)
        self._home = home.resolve()
        self._leash: int | None = None  #: our end of the guard's pipe

    def start(self, *, bound: bool = False, timeout_s: float = START_TIMEOUT_S) -> BrokerEndpoint:
        """Start the node, or use the one that runs. Blocks until it is ready.

        Args:
            bound: True stops the node when this process ends, even by kill -9. A node that ran
                before stays as it was.
            timeout_s: How long the node may take.

        Raises:
            BrokerUnavailable: it did not come up; the text holds the end of its log.
        """
        with self._locked():
            identity, run = files.load_identity(self.layout), self._load_run()
            if identity is not None and processes.alive(run.node):
                with suppress(BrokerUnavailable):
                    return self._await_ready(identity, run, timeout_s, fresh=False)
            self._sweep(run)
            return self._start_anew(identity, timeout_s, bound=bound)

    def stop(self, *, only: Identity | None = None) -> bool:
        """Stop the node cleanly, and its epmd and helpers with it; nothing of it runs afterwards.

        Args:
            only: Stop nothing unless this very process is the node.

        Returns:
            Whether a node was running.
        """
        if not self.layout.home.exists():
            # Somebody removed the folder under it: only the marker still tells what was ours.
            processes.end_all(processes.find_marked(self.layout.marker) if only is None else [])
            return False
        with self._locked():
            run = self._load_run()
            if only is not None and only != run.node:
                return False
            was_running = processes.alive(run.node)
            self._sweep(run)
            return was_running

    def kill(self) -> None:
        """SIGKILL the node and wait until it is gone, as a crash would end it; ``start`` brings it back."""
        run = self._load_run()
        if run.node is not None:
            processes.end(run.node, grace_s=0.0)

    def status(self) -> BrokerStatus:
        """Return what is known now; waits for nothing."""
        identity, run = files.load_identity(self.layout), self._load_run()
        size = files.folder_bytes(self.layout.outside)
        if identity is None or run.node is None or not processes.alive(run.node):
            node = identity.node if identity else None
            return BrokerStatus(state="stopped", node=node, data_folder=self.layout.outside, data_bytes=size)
        version = _ready_version(identity)
        return BrokerStatus(
            state="running" if version else "starting",
            node=identity.node,
            pid=run.node.pid,
            version=version,
            amqp_url=identity.amqp_url,
            management_url=identity.management_url,
            prometheus_url=identity.prometheus_url,
            data_folder=self.layout.outside,
            data_bytes=size,
        )

    def ctl(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run the server's own ``rabbitmqctl`` against the node and return what it prints.

        Raises:
            BrokerUnavailable: there is no node, or the command failed; the text is its answer.
        """
        identity = files.load_identity(self.layout)
        if identity is None:
            raise BrokerUnavailable(f"no private broker has been started in {self._home}")
        done = subprocess.run(  # noqa: S603 (argv, no shell)
            self.server.command(self.server.scripts / "rabbitmqctl", "--quiet", *arguments),
            env=files.node_environment(self.layout, identity, self.server),
            cwd=self.layout.outside,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerUnavailable(f"rabbitmqctl {arguments[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock; the kernel frees it when its holder dies."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)  # parents get no mode
        self.layout.home.mkdir(exist_ok=True, mode=0o700)
        with self.layout.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start_anew(self, identity: NodeIdentity | None, timeout_s: float, *, bound: bool) -> BrokerEndpoint:
        """Start every process, on other ports when somebody took one."""
        for left in reversed(range(_STARTS)):
            identity = self._prepare(identity)
            run = self._spawn(identity)
            try:
                endpoint = self._await_ready(identity, run, timeout_s, fresh=True)
            except BrokerUnavailable:
                self._sweep(run, grace_s=BOOT_GRACE_S)
                if left == 0 or all(files.port_is_free(port) for port in identity.ports.all()):
                    raise
                continue
            if bound:
                self._bind(run)
            return endpoint
        raise AssertionError("the last turn returns or raises")

    def _prepare(self, identity: NodeIdentity | None) -> NodeIdentity:
        """Write the node's files, with other ports than before if one is taken."""
        if identity is None:
            identity = files.new_identity()
        elif not all(files.port_is_free(port) for port in identity.ports.all()):
            identity = files.with_new_ports(identity)
        files.save_identity(self.layout, identity)
        files.write_node_files(self.layout, identity)
        return identity

    def _spawn(self, identity: NodeIdentity) -> _Run:
        """Start epmd and the node, each written down at once."""
        env = files.node_environment(self.layout, identity, self.server)
        folder, log = self.layout.outside, self.layout.outside / "log" / "console.log"
        log.unlink(missing_ok=True)
        listen = self.server.command(
            self.server.epmd, "-address", "127.0.0.1", "-port", str(identity.ports.epmd)
        )
        epmd = processes.spawn_detached(listen, env, folder, log)
        self._save_run(_Run(epmd))
        serve = self.server.command(self.server.scripts / "rabbitmq-server")
        run = _Run(epmd, processes.spawn_detached(serve, env, folder, log))
        self._save_run(run)
        return run

    def _await_ready(
        self, identity: NodeIdentity, run: _Run, timeout_s: float, *, fresh: bool
    ) -> BrokerEndpoint:
        """Wait until the node answers on both its ports."""
        version: str | None = None

        def settled() -> bool:
            nonlocal version
            version = _ready_version(identity)
            return version is not None or not processes.alive(run.node)

        processes.wait_until(settled, timeout_s)
        if version is None or run.node is None:
            fault = "is not ready" if processes.alive(run.node) else "ended while it started"
            logs = (self.layout.outside / "log").glob("*.log")
            raise BrokerUnavailable(f"the private broker {fault}; its log ends with:\n{files.tail(logs)}")
        return BrokerEndpoint(
            amqp_url=identity.amqp_url,
            management_url=identity.management_url,
            prometheus_url=identity.prometheus_url,
            user=identity.user,
            password=identity.password,
            version=version,
            node=identity.node,
            pid=run.node.pid,
            data_folder=self.layout.outside,
            fresh=fresh,
        )

    def _bind(self, run: _Run) -> None:
        """Start the guard that stops the node when this process is gone."""
        if run.node is None:
            return
        self._unleash()
        theirs, self._leash = os.pipe()
        chroot = str(self.server.chroot) if self.server.chroot else ""
        argv = [
            sys.executable,
            "-m",
            "consumer.edges.private_broker.guard",
            str(self._home),
            str(run.node.pid),
        ]
        argv += [run.node.started, str(self.server.scripts), str(self.server.epmd), chroot]
        name, _, marked = self.layout.marker.partition("=")
        package_folder = str(Path(__file__).parents[3])
        env = {name: marked, "PATH": os.environ.get("PATH", ""), "PYTHONPATH": package_folder}
        with open(theirs, "rb") as stdin:
            log = self.layout.outside / "log" / "guard.log"
            guard = processes.spawn_detached(argv, env, self.layout.home, log, stdin)
        self._save_run(_Run(run.epmd, run.node, guard))

    def _unleash(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    def _sweep(self, run: _Run, *, grace_s: float = STOP_GRACE_S) -> None:
        """End what is left of the node: its guard first, then the node in its own time, then the rest."""
        if run.guard is not None and run.guard.pid != os.getpid():
            processes.end(run.guard, grace_s=0.0)
        self._unleash()
        if run.node is not None:
            processes.end(run.node, grace_s=grace_s)
        named = [run.epmd] if run.epmd is not None else []
        processes.end_all([*named, *processes.find_marked(self.layout.marker)])
        self.layout.run.unlink(missing_ok=True)

    def _load_run(self) -> _Run:
        """Read which processes were started; a file that cannot be read names none."""
        try:
            stored = json.loads(self.layout.run.read_text())
            return _Run(**{name: Identity(**who) if who else None for name, who in stored.items()})
        except (OSError, ValueError, TypeError):
            return _Run()

    def _save_run(self, run: _Run) -> None:
        files.write_private(self.layout.run, json.dumps(asdict(run)) + "\n")


def _ready_version(identity: NodeIdentity) -> str | None:
    """Return the server's version once it takes AMQP connections and our password, else None.

    The AMQP listener is the last that the server opens. The standard library's client is used because the
    guard, which lives as long as its owner, imports this too.
    """
    token = base64.b64encode(f"{identity.user}:{identity.password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", identity.ports.management, timeout=5.0)
    try:
        with socket.create_connection(("127.0.0.1", identity.ports.amqp), timeout=5.0):
            connection.request("GET", "/api/overview", headers={"authorization": f"Basic {token}"})
        answer = connection.getresponse()
        return str(json.load(answer)["rabbitmq_version"]) if answer.status == 200 else None
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None
    finally:
        connection.close()
