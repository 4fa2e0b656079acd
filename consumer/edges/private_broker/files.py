"""Write the node's files: its identity, its credentials and its configuration.

Folder ``<LEVERET_HOME>/broker``: ``identity.json`` (0600: name, cookie, password, ports), ``run.json`` (its
processes), ``lock``; and the node's own files, in the same folder or, for a server in a chroot, inside that.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from consumer.core.errors import ConfigError
from consumer.edges.private_broker.server import Server

PLUGINS = ("rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_consistent_hash_exchange")

#: Size of the write-ahead log of all quorum queues. The server's default is 512 MiB.
WAL_MAX_SIZE_BYTES = 64 * 1024 * 1024
#: Entries in one file of a quorum queue's log; a file is deleted when all are settled. The default is 4,096.
SEGMENT_MAX_ENTRIES = 512
#: RabbitMQ 4 truncates the settled start of a quorum queue's log only after this many entries, even if the
#: queue is empty: with its default of 4,096 to 8,192, bodies of 20 kB take 160 MB per queue. rabbitmq.conf
#: cannot set either of the two limits; older versions ignore both. Source: rabbitmq-server 4.0,
#: rabbit_fifo.erl do_checkpoints ({least ms, least entries, most entries}) and rabbit_quorum_queue.erl
#: make_ra_conf.
CHECKPOINT_MIN_ENTRIES = 512
ADVANCED_CONFIG = f"[{{rabbit, [{{quorum_min_checkpoint_interval, {CHECKPOINT_MIN_ENTRIES}}}]}}].\n"
#: The default of RabbitMQ 4; on 3.10 it is 128 MiB.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
#: Free disk space below which the node blocks publishers. The default is 50 MB.
DISK_FREE_LIMIT_BYTES = 200_000_000

#: Lowest port for the node. All are below the kernel's range for outgoing connections: a client that
#: reconnects in that range can be connected to itself, and takes the port of a stopped node.
_FIRST_PORT = 10_240
_LAST_PORT = 32_767


@dataclass(frozen=True, slots=True)
class Ports:
    """One port per listener, all on 127.0.0.1."""

    amqp: int
    distribution: int
    epmd: int
    management: int
    prometheus: int

    def all(self) -> tuple[int, ...]:
        """Return every port."""
        return (self.amqp, self.distribution, self.epmd, self.management, self.prometheus)


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The properties that one node keeps over restarts."""

    node: str
    user: str
    password: str
    cookie: str
    ports: Ports

    @property
    def amqp_url(self) -> str:
        """AMQP URL of the vhost ``/``, with the password.

        It has no slash at the end: with one, RabbitMQ's URI rules name the vhost "", and the broker refuses
        clients that follow them.

        Source: RabbitMQ "URI Specification".
        """
        return f"amqp://{self.user}:{self.password}@127.0.0.1:{self.ports.amqp}"

    @property
    def management_url(self) -> str:
        """URL of the management API, without credentials."""
        return f"http://127.0.0.1:{self.ports.management}"

    @property
    def prometheus_url(self) -> str:
        """URL of the node's own metrics, without the path."""
        return f"http://127.0.0.1:{self.ports.prometheus}"

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"NodeIdentity(node={self.node!r}, user={self.user!r}, ports={self.ports!r})"


@dataclass(frozen=True, slots=True)
class Layout:
    """The two folders of a private broker."""

    home: Path  #: ``<LEVERET_HOME>/broker``
    inside: Path  #: the node's own files, as the server sees them
    outside: Path  #: the same files as we see them

    @property
    def identity(self) -> Path:
        """File with the secrets."""
        return self.home / "identity.json"

    @property
    def run(self) -> Path:
        """File that names the running processes."""
        return self.home / "run.json"

    @property
    def lock(self) -> Path:
        """File that is locked during start and stop."""
        return self.home / "lock"

    @property
    def marker(self) -> str:
        """Environment entry that identifies every process of this node."""
        return f"LEVERET_BROKER_FOLDER={self.home}"


def lay_out(home: Path, server: Server) -> Layout:
    """Return the folders for LEVERET_HOME *home*, without creating them."""
    broker = home.resolve() / "broker"
    if server.chroot is None:
        return Layout(broker, broker, broker)
    inside = Path("/var/lib/leveret") / hashlib.sha256(os.fsencode(broker)).hexdigest()[:16]
    return Layout(broker, inside, server.chroot / inside.relative_to("/"))


def write_private(path: Path, text: str) -> None:
    """Replace *path* atomically by a file that only its owner can read."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # otherwise a power cut could leave an empty file in its place
    fresh.replace(path)


def port_is_free(port: int) -> bool:
    """Return whether a listener on 127.0.0.1 could be opened now."""
    with socket.socket() as probe:
        # A connection of a node that has just ended may linger; only a listener occupies a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def draw_port() -> int:
    """Draw a free port at random, so that two callers at the same time rarely draw the same."""
    while True:
        port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT + 1)
        if port_is_free(port):
            return port


def draw_ports() -> Ports:
    """Draw five free ports."""
    drawn: set[int] = set()
    while len(drawn) < 5:
        drawn.add(draw_port())
    return Ports(*drawn)


def load_identity(layout: Layout) -> NodeIdentity | None:
    """Return the identity of this folder's node; None if there has been no node.

    Raises:
        ConfigError: the identity file is damaged.
    """
    try:
        stored = json.loads(layout.identity.read_text(encoding="utf-8"))
        return NodeIdentity(**{**stored, "ports": Ports(**stored["ports"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise ConfigError(
            f"{layout.identity}: is damaged; restore it from a backup, or remove the folder {layout.home}, "
            "with all messages in it, to begin anew"
        ) from None


def ports_in(home: Path) -> tuple[int, ...]:
    """Return the ports of the node in LEVERET_HOME *home*, running or stopped; none without a node."""
    try:
        stored = json.loads((home / "broker" / "identity.json").read_text())
        return Ports(**stored["ports"]).all()
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def save_identity(layout: Layout, identity: NodeIdentity) -> None:
    """Store *identity*, readable only for its owner."""
    write_private(layout.identity, json.dumps(asdict(identity), indent=2) + "\n")


def new_identity() -> NodeIdentity:
    """Return a new node with random name, password and cookie."""
    return NodeIdentity(
        node=f"leveret-{secrets.token_hex(4)}@localhost",
        user="leveret",
        password=secrets.token_hex(24),
        cookie=secrets.token_hex(24),
        ports=draw_ports(),
    )


def with_new_ports(identity: NodeIdentity) -> NodeIdentity:
    """Return the same node on other ports."""
    return replace(identity, ports=draw_ports())


def write_node_files(layout: Layout, identity: NodeIdentity) -> None:
    """Write configuration, plugin list and cookie, and replace those of an older version."""
    for name in ("conf.d", "data", "log"):
        (layout.outside / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    layout.outside.chmod(0o700)
    write_private(layout.outside / ".erlang.cookie", identity.cookie)
    write_private(layout.outside / "rabbitmq.conf", config_text(identity))
    write_private(layout.outside / "advanced.config", ADVANCED_CONFIG)
    write_private(layout.outside / "environment", "")
    write_private(layout.outside / "enabled_plugins", f"[{','.join(PLUGINS)}].\n")


def config_text(identity: NodeIdentity) -> str:
    """Return rabbitmq.conf. The first start creates the user named here, and no guest."""
    ports = identity.ports
    return f"""\
listeners.tcp.private = 127.0.0.1:{ports.amqp}
listeners.ssl = none
management.tcp.ip = 127.0.0.1
management.tcp.port = {ports.management}
prometheus.tcp.ip = 127.0.0.1
prometheus.tcp.port = {ports.prometheus}
default_user = {identity.user}
default_pass = {identity.password}
default_user_tags.administrator = true
max_message_size = {MAX_MESSAGE_BYTES}
disk_free_limit.absolute = {DISK_FREE_LIMIT_BYTES}
raft.wal_max_size_bytes = {WAL_MAX_SIZE_BYTES}
raft.segment_max_entries = {SEGMENT_MAX_ENTRIES}
log.console = false
log.file.level = info
log.file.rotation.size = 10485760
log.file.rotation.count = 3
"""


def node_environment(layout: Layout, identity: NodeIdentity, server: Server) -> dict[str, str]:
    """Return the whole environment of the node, epmd and rabbitmqctl, without the caller's variables.

    Source: RabbitMQ "Configuration", environment variables; epmd(1) for the address.
    """
    inside = layout.inside
    loopback = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"
    checkpoints = f"{{1000,{CHECKPOINT_MIN_ENTRIES},666667}}"  # the outer two are the server's defaults
    lean = f"-eval persistent_term:put(quorum_queue_checkpoint_config,{checkpoints})."
    name, _, marked = layout.marker.partition("=")
    return {
        name: marked,
        "PATH": server.search_path(),
        "HOME": str(inside),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(identity.ports.epmd),
        "ERL_CRASH_DUMP_BYTES": "0",  # a dump would contain message bodies
        "RABBITMQ_NODENAME": identity.node,
        "RABBITMQ_DIST_PORT": str(identity.ports.distribution),
        "RABBITMQ_MNESIA_BASE": str(inside / "data"),
        "RABBITMQ_LOG_BASE": str(inside / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(inside / "enabled_plugins"),
        "RABBITMQ_CONFIG_FILE": str(inside / "rabbitmq.conf"),
        "RABBITMQ_CONFIG_FILES": str(inside / "conf.d"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(inside / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": str(inside / "environment"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{loopback} {lean}",
        "RABBITMQ_CTL_ERL_ARGS": loopback,
        "detached": "true",  # makes the start script become the server instead of waiting beside it
    }


def folder_bytes(folder: Path) -> int:
    """Return the disk space of a folder in bytes; files that vanish meanwhile count as empty."""
    return sum(
        _allocated(os.path.join(parent, name))
        for parent, folders, names in os.walk(folder)
        for name in (*folders, *names)
    )


def _allocated(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


def tail(paths: Iterable[Path], lines: int = 12) -> str:
    """Return the last lines of the files that exist, for an error text."""
    texts = [path.read_text(errors="replace").splitlines()[-lines:] for path in paths if path.exists()]
    return "\n".join(line for text in texts for line in text)
