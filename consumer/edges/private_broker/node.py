"""Start, stop, kill and inspect the private broker.

Every start and stop holds one file lock, so two callers never race. ``run.json`` names our processes as soon
as they exist. If a starter is killed before it writes one down, the marker in the environment identifies it.
"""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import os
import socket
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
BOOT_GRACE_S = 3.0  #: a node that is stopped during its boot may never answer
_STARTS = 3  #: attempts, as another program may take a drawn port before the node listens


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Addresses and credentials of a node that is ready."""

    amqp_url: str = field(repr=False)  #: with the password, vhost ``/``
    management_url: str  #: without credentials and without a slash at the end
    prometheus_url: str
    user: str
    password: str = field(repr=False)
    version: str  #: version of the server, such as ``3.10.8``
    node: str
    pid: int
    data_folder: Path  #: the node's files; their size is the broker's disk use
    fresh: bool  #: True when this call started the node, False when it ran already


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """The state of the node, known without waiting for it."""

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
    """The processes of a node that have been started so far."""

    epmd: Identity | None = None
    node: Identity | None = None
    guard: Identity | None = None


class PrivateBroker:
    """The RabbitMQ node of one LEVERET_HOME.

    Args:
        home: LEVERET_HOME; the node's files are in its folder ``broker``.
        server: The installed RabbitMQ; None searches for one.

    Raises:
        ConfigError: this machine has no RabbitMQ server; the text names the remedies.
    """

    def __init__(self, home: Path, *, server: Server | None = None) -> None:
        self.server = server if server is not None else find_server()
        self.layout: Layout = files.lay_out(home, self.server)
        self._home = home.resolve()
        self._guard_pipe: int | None = None  #: our end of the guard's pipe

    def start(self, *, bound: bool = False, timeout_s: float = START_TIMEOUT_S) -> BrokerEndpoint:
        """Start the node, or use the running one. Blocks until it is ready.

        Args:
            bound: True stops the node when this process ends, even by SIGKILL. A node that was running before
                is not bound.
            timeout_s: Longest time for the start.

        Raises:
            BrokerUnavailable: the node did not become ready; the text contains the end of its log.
        """
        with self._locked():
            identity, run = files.load_identity(self.layout), self._load_run()
            if identity is not None and processes.alive(run.node):
                with suppress(BrokerUnavailable):
                    return self._await_ready(identity, run, timeout_s, fresh=False)
            self._sweep(run)
            return self._start_anew(identity, timeout_s, bound=bound)

    def stop(self, *, only: Identity | None = None) -> bool:
        """Stop the node cleanly, with its epmd and helpers; none of its processes runs afterwards.

        Args:
            only: Stop the node only if it is exactly this process.

        Returns:
            Whether a node was running.
        """
        if not self.layout.home.exists():
            # Somebody removed the node's folder: only the marker still identifies its processes.
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
        """Send SIGKILL to the node and wait until it has ended, as in a crash; ``start`` brings it back."""
        run = self._load_run()
        if run.node is not None:
            processes.end(run.node, grace_s=0.0)

    def status(self) -> BrokerStatus:
        """Return the current state, without waiting."""
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

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock; the kernel releases it when its holder ends."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)  # *mode* ignores the parents
        self.layout.home.mkdir(exist_ok=True, mode=0o700)
        with self.layout.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start_anew(self, identity: NodeIdentity | None, timeout_s: float, *, bound: bool) -> BrokerEndpoint:
        """Start every process, on new ports if another program has taken one."""
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
        raise AssertionError("the last attempt returns or raises")

    def _prepare(self, identity: NodeIdentity | None) -> NodeIdentity:
        """Write the node's files, with new ports if one is taken."""
        if identity is None:
            identity = files.new_identity()
        elif not all(files.port_is_free(port) for port in identity.ports.all()):
            identity = files.with_new_ports(identity)
        files.save_identity(self.layout, identity)
        files.write_node_files(self.layout, identity)
        return identity

    def _spawn(self, identity: NodeIdentity) -> _Run:
        """Start epmd and the node, and record each at once."""
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
        """Start the guard, which stops the node when this process ends."""
        if run.node is None:
            return
        self._close_guard_pipe()
        theirs, self._guard_pipe = os.pipe()
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

    def _close_guard_pipe(self) -> None:
        if self._guard_pipe is not None:
            os.close(self._guard_pipe)
            self._guard_pipe = None

    def _sweep(self, run: _Run, *, grace_s: float = STOP_GRACE_S) -> None:
        """End all processes of the node: first its guard, then the node with *grace_s*, then the others."""
        if run.guard is not None and run.guard.pid != os.getpid():
            processes.end(run.guard, grace_s=0.0)
        self._close_guard_pipe()
        if run.node is not None:
            processes.end(run.node, grace_s=grace_s)
        named = [run.epmd] if run.epmd is not None else []
        processes.end_all([*named, *processes.find_marked(self.layout.marker)])
        self.layout.run.unlink(missing_ok=True)

    def _load_run(self) -> _Run:
        """Read which processes were started; an unreadable file counts as empty."""
        try:
            stored = json.loads(self.layout.run.read_text())
            return _Run(**{name: Identity(**who) if who else None for name, who in stored.items()})
        except (OSError, ValueError, TypeError):
            return _Run()

    def _save_run(self, run: _Run) -> None:
        files.write_private(self.layout.run, json.dumps(asdict(run)) + "\n")


def _ready_version(identity: NodeIdentity) -> str | None:
    """Return the server's version once it accepts AMQP connections and our password, else None.

    The AMQP listener is the last one that the server opens. This uses the standard library's client because
    the guard, which lives as long as its owner, imports this module too.
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
