"""The private broker: on loopback only, alone in its folder, and gone without a trace."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import aio_pika
import httpx2
import pytest
from typer.testing import CliRunner

from consumer.cli.broker import app
from consumer.core.errors import BrokerUnavailable
from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker, files, processes
from consumer.edges.private_broker.processes import Identity
from tests.support.data import ROOT
from tests.support.processes.rabbitmqctl import rabbitmqctl


def members(broker: PrivateBroker) -> list[str]:
    """Return the program name of every process of the node."""
    names = [told_of(who, "comm").decode().strip() for who in processes.find_marked(broker.layout.marker)]
    return sorted(filter(None, names))


def held_by(path: Path) -> bytes:
    """Return the content of a file; empty when it has gone since it was found."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def told_of(who: Identity, file: str) -> bytes:
    """Return a file of the process's folder in /proc; nothing when the process ended since it was found."""
    return held_by(Path("/proc", str(who.pid), file))


def listeners(pids: set[int]) -> set[tuple[str, int]]:
    """Return address and port of every TCP socket that these processes listen on.

    Source: proc(5), /proc/net/tcp: state 0A is LISTEN, an address is little-endian 32-bit words in hex.
    """
    inodes = set()
    for pid in pids:
        with suppress(OSError):  # it ended since it was found, or closes files meanwhile
            for link in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    inodes.add(os.readlink(f"/proc/{pid}/fd/{link}"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in inodes:
                words, _, port = local.partition(":")
                raw = b"".join(bytes.fromhex(words[i : i + 8])[::-1] for i in range(0, len(words), 8))
                found.add((str(ip_address(raw)), int(port, 16)))
    return found


def identity_of(broker: PrivateBroker) -> files.NodeIdentity:
    """Return the node's name, secrets and ports."""
    identity = files.load_identity(broker.layout)
    assert identity is not None
    return identity


def starter(home: Path, *, bound: bool) -> subprocess.Popen[str]:
    """Start another program that starts the node, prints a line, and then waits."""
    code = (
        "import sys; from pathlib import Path; from consumer.edges.private_broker import PrivateBroker\n"
        f"PrivateBroker(Path(sys.argv[1])).start(bound={bound}); print('ready', flush=True); sys.stdin.read()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(home)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not ours to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_every_listener_is_on_loopback(private_broker: PrivateBroker, broker: BrokerEndpoint) -> None:
    """AMQP, distribution, epmd, management and metrics listen on loopback, and nothing else listens."""
    pids = {who.pid for who in processes.find_marked(private_broker.layout.marker)}

    found = listeners(pids)

    assert broker.pid in pids
    assert {port for _, port in found} == set(identity_of(private_broker).ports.all())
    assert all(ip_address(address).is_loopback for address, _ in found), found


def test_secrets_are_for_the_owner_only(private_broker: PrivateBroker, broker: BrokerEndpoint) -> None:
    """Password and cookie are in 0600 files, and in no argv, no environment of the node and no repr."""
    identity = identity_of(private_broker)
    secrets = (identity.password.encode(), identity.cookie.encode())

    holders = [
        path
        for folder, _, names in os.walk(private_broker.layout.outside)
        for path in (Path(folder, name) for name in names)
        if any(secret in held_by(path) for secret in secrets)
    ]
    shown = [repr(identity).encode(), repr(broker).encode(), repr(private_broker.status()).encode()]
    for who in processes.find_marked(private_broker.layout.marker):
        shown += [told_of(who, name) for name in ("cmdline", "environ")]

    assert {"identity.json", "rabbitmq.conf", ".erlang.cookie"} <= {
        path.name for path in [*holders, private_broker.layout.identity]
    }
    assert [oct(path.stat().st_mode & 0o777) for path in holders if path.stat().st_mode & 0o077] == []
    assert private_broker.layout.identity.stat().st_mode & 0o777 == 0o600
    assert [text for text in shown if any(secret in text for secret in secrets)] == []


def test_the_node_is_set_up_for_leveret(broker: BrokerEndpoint, management: httpx2.Client) -> None:
    """One user and no guest, the three plugins, every open file that the hard limit grants."""
    users = [user["name"] for user in management.get("/api/users").json()]
    kinds = [kind["name"] for kind in management.get("/api/overview").json()["exchange_types"]]
    with httpx2.Client(trust_env=False) as anyone:
        guest = anyone.get(f"{broker.management_url}/api/overview", auth=("guest", "guest"))
        metrics = anyone.get(f"{broker.prometheus_url}/metrics")
    soft, _ = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert users == [broker.user]
    assert guest.status_code == 401
    assert "x-consistent-hash" in kinds
    assert "rabbitmq_" in metrics.text
    assert soft == (processes.MAX_OPEN_FILES if hard < 0 else min(hard, processes.MAX_OPEN_FILES))


def test_the_logs_of_quorum_queues_stay_small(private_broker: PrivateBroker) -> None:
    """The node took every limit that bounds an empty queue's disk (core proof: idle_queues_disk_mb)."""
    taken = rabbitmqctl(
        private_broker,
        "eval",
        "{element(2, application:get_env(ra, wal_max_size_bytes)),"
        " element(2, application:get_env(ra, segment_max_entries)),"
        " element(2, application:get_env(rabbit, quorum_min_checkpoint_interval)),"
        " element(2, persistent_term:get(quorum_queue_checkpoint_config))}.",
    )

    least = files.CHECKPOINT_MIN_ENTRIES
    assert taken.strip() == f"{{{files.WAL_MAX_SIZE_BYTES},{files.SEGMENT_MAX_ENTRIES},{least},{least}}}"


def test_a_failing_command_says_why(private_broker: PrivateBroker) -> None:
    """An answer of rabbitmqctl that is an error raises, with its text."""
    with pytest.raises(BrokerUnavailable, match="no_such_vhost"):
        rabbitmqctl(private_broker, "delete_vhost", "no_such_vhost")


def test_two_nodes_side_by_side(
    broker: BrokerEndpoint, private_broker: PrivateBroker, own_broker: PrivateBroker
) -> None:
    """Two callers at once start one node, beside another and around a taken port; stop leaves nothing."""
    own_broker.layout.home.mkdir(parents=True)
    before = files.new_identity()
    files.save_identity(own_broker.layout, before)
    with socket.create_server(("127.0.0.1", before.ports.amqp)), ThreadPoolExecutor() as pool:
        another = PrivateBroker(own_broker.layout.home.parent)
        first, second = pool.map(lambda each: each.start(), (own_broker, another))

    assert first.pid == second.pid
    assert sorted([first.fresh, second.fresh]) == [False, True]
    taken = {before.ports.amqp, *identity_of(private_broker).ports.all()}
    assert not set(identity_of(own_broker).ports.all()) & taken
    assert first.node == before.node != broker.node
    assert {"epmd", "beam.smp"} <= set(members(own_broker))
    assert own_broker.stop()
    assert members(own_broker) == []
    assert own_broker.status().state == "stopped"
    assert not own_broker.stop()
    assert private_broker.status().state == "running"


async def test_a_killed_node_comes_back(own_broker: PrivateBroker) -> None:
    """After SIGKILL the next start has the same address and all confirmed messages (fault 59)."""
    first = own_broker.start()
    async with await aio_pika.connect(first.amqp_url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("kept", durable=True, arguments={"x-queue-type": "quorum"})
        await channel.default_exchange.publish(aio_pika.Message(b"kept", delivery_mode=2), "kept")
    # The server writes down which log belongs to a new quorum queue only when half a second was quiet.
    rabbitmqctl(own_broker, "eval", "[ok = dets:sync(Table) || Table <- dets:all()].")

    own_broker.kill()
    down = own_broker.status()
    second = own_broker.start()

    assert down.state == "stopped"
    assert (second.amqp_url, second.management_url) == (first.amqp_url, first.management_url)
    assert second.fresh
    assert second.pid != first.pid
    async with await aio_pika.connect(second.amqp_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue("kept", ensure=False)
        assert (await queue.get(no_ack=True, timeout=30)).body == b"kept"


def test_a_starter_killed_half_way_is_cleaned_up(own_broker: PrivateBroker) -> None:
    """The remains of a starter that kill -9 ended do not hinder the next start, and do not survive it."""
    home = own_broker.layout.home.parent
    with starter(home, bound=False) as process:
        assert processes.wait_until(lambda: "beam.smp" in members(own_broker), 60)
        process.kill()
    own_broker.layout.run.unlink()  # as if it was killed before it wrote it

    endpoint = own_broker.start()

    assert endpoint.fresh
    assert members(own_broker).count("beam.smp") == 1
    assert members(own_broker).count("epmd") == 1


def test_a_bound_node_ends_with_its_owner(own_broker: PrivateBroker) -> None:
    """kill -9 of the program that a node is bound to ends the node, its epmd and its guard."""
    with starter(own_broker.layout.home.parent, bound=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert own_broker.status().state == "running"
        process.send_signal(signal.SIGKILL)

    assert processes.wait_until(lambda: members(own_broker) == [], 90)
    assert not own_broker.layout.run.exists()


def test_a_start_that_fails_leaves_nothing(own_broker: PrivateBroker) -> None:
    """A node that is not ready in time is an error with its log, and no process of it stays."""
    with pytest.raises(BrokerUnavailable, match="is not ready; its log ends with"):
        own_broker.start(timeout_s=0.2)

    assert members(own_broker) == []


def test_a_node_whose_folder_is_gone_can_be_stopped(own_broker: PrivateBroker) -> None:
    """Removing the state folder under a node does not make it unstoppable."""
    with starter(own_broker.layout.home.parent, bound=False) as process:
        assert processes.wait_until(lambda: "epmd" in members(own_broker), 60)
        process.kill()
    shutil.rmtree(own_broker.layout.home)

    own_broker.stop()

    assert members(own_broker) == []


def test_a_stranger_is_never_ended(own_broker: PrivateBroker, bystander: subprocess.Popen[bytes]) -> None:
    """A process that got the id of a node of ours is left alone."""
    own_broker.layout.home.mkdir(parents=True)
    who = processes.identify(bystander.pid)
    assert who is not None
    stale = {"pid": who.pid, "started": "another boot:1"}
    own_broker.layout.run.write_text(json.dumps({"epmd": stale, "node": stale, "guard": stale}))

    assert own_broker.status().state == "stopped"
    assert not own_broker.stop()
    own_broker.kill()

    assert bystander.poll() is None
    assert processes.alive(who)


def test_a_process_is_known_by_more_than_its_id(bystander: subprocess.Popen[bytes]) -> None:
    """The same id with another start time is another process; a zombie does not count as one."""
    who = processes.identify(bystander.pid)
    assert who is not None
    assert processes.alive(who)
    assert not processes.alive(Identity(who.pid, "another"))

    processes.end(who, grace_s=0.0)

    assert not processes.alive(who)  # its exit code was not fetched yet: it is a zombie
    assert bystander.wait() == -signal.SIGKILL


def test_a_process_lives_as_long_as_its_last_thread() -> None:
    """A node whose first thread ended still has its ports: it is still running (fault 59)."""
    code = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start(); ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        who = processes.identify(process.pid)
        assert who is not None
        assert processes.wait_until(lambda: b") Z " in told_of(who, "stat"), 60)
        halfway = processes.alive(who)
        processes.end(who, grace_s=0.0)

        assert halfway
        assert not processes.alive(who)


def test_the_command_line_shows_the_state(own_broker: PrivateBroker, tmp_path: Path) -> None:
    """start, status and stop agree, in JSON; the password on demand only; the state folder is 0700."""
    run, env = CliRunner(), {"LEVERET_HOME": str(own_broker.layout.home.parent)}

    before = run.invoke(app, ["status", "--json"], env=env)
    started = run.invoke(app, ["start", "--json"], env=env)
    masked = run.invoke(app, ["status"], env=env)
    shown = run.invoke(app, ["status", "--json", "--show-secrets"], env=env)
    stopped = run.invoke(app, ["stop", "--json"], env=env)

    password = identity_of(own_broker).password
    assert [each.exit_code for each in (before, started, masked, shown, stopped)] == [1, 0, 0, 0, 0]
    states = [json.loads(each.stdout)["state"] for each in (before, started, shown, stopped)]
    assert states == ["stopped", "running", "running", "stopped"]
    assert password not in started.stdout + masked.stdout
    assert json.loads(shown.stdout)["amqp_url"] == identity_of(own_broker).amqp_url
    folders = (own_broker.layout.home, own_broker.layout.home.parent)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700, 0o700]
    assert members(own_broker) == []


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"node": "x"}', b"\xff"])
def test_a_damaged_identity_is_one_line(tmp_path: Path, damage: bytes) -> None:
    """Fault 61: a disk that lost the file is reported with the remedy; nothing is made in its place."""
    home = tmp_path / "home"
    (home / "broker").mkdir(parents=True)
    (home / "broker" / "identity.json").write_bytes(damage)
    env = {"LEVERET_HOME": str(home)}

    for command in ("status", "start"):
        told = CliRunner().invoke(app, [command], env=env)
        [line] = told.stderr.splitlines()
        assert told.exit_code == 1
        assert "identity.json: is damaged; restore it from a backup, or remove the folder" in line
    assert (home / "broker" / "identity.json").read_bytes() == damage
