"""A private PostgreSQL: made in a folder, started on a free port of loopback, ended with its process.

The server refuses to run as root; there it runs as ``postgres``, or else as ``nobody``.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from tests.support.processes.children import free_port, spawn, wait_exit

USER = "leveret"
PASSWORD = "only-on-loopback"
START_S = 60.0
STOP_S = 20.0

_SETTINGS = ("max_connections=60", "shared_buffers=16MB")
_CARELESS = ("fsync=off", "full_page_writes=off")
_TREES = ("/usr/lib/postgresql", "/usr/local/opt", "/opt/homebrew/opt")


class NoServerError(Exception):
    """There is no PostgreSQL server on this machine; the text names the remedy."""


def find_server() -> Path:
    """Return the folder with ``initdb`` and ``postgres``, of the newest version.

    Raises:
        NoServerError: this machine has no server.
    """
    found = [path.parent for tree in _TREES for path in Path(tree).glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).resolve().parent)
    if not found:
        raise NoServerError(
            "no PostgreSQL server was found; install one with: sh scripts/postgres-install.sh"
        )
    return max(found, key=_version)


def _version(folder: Path) -> tuple[int, ...]:
    text = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return tuple(int(part) for part in text.split()[2].split(".") if part.isdecimal())


class Postgres:
    """One node with a user and a password; databases are made on demand."""

    def __init__(self, *, durable: bool = False) -> None:
        """Prepare a node; *durable*: it writes through to the disk, as in production."""
        self._settings = _SETTINGS if durable else (*_SETTINGS, *_CARELESS)
        self._bin = find_server()
        self._account = _account()
        self.port = free_port()
        self.folder: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    @property
    def log(self) -> Path:
        """The log file of the server."""
        assert self.folder is not None
        return self.folder / "postgres.log"

    def create(self) -> None:
        """Make the node's files; nothing runs yet."""
        self.folder = Path(tempfile.mkdtemp(prefix="leveret-postgres-"))
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._account is not None:
            for path in (self.folder, password):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        argv = [*("initdb", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")]
        argv += [f"--username={USER}", f"--pwfile={password}", f"--pgdata={self.folder / 'data'}"]
        done = subprocess.run(self._as_user(argv), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"initdb: {done.stderr[-1000:]}")

    async def start(self) -> None:
        """Start the server and return once it answers."""
        assert self.folder is not None
        argv = ["postgres", "-D", str(self.folder / "data"), "-k", str(self.folder), "-p", str(self.port)]
        argv += ["-h", "127.0.0.1", *(f"--{setting}" for setting in self._settings)]
        self.process = spawn(self._as_user(argv, "--pdeathsig=QUIT"), log=self.log)
        deadline = time.monotonic() + START_S
        while True:
            try:
                connection = await asyncpg.connect(self.url(), timeout=5)
            except (OSError, asyncpg.PostgresError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-1000:]}") from None
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return

    async def stop(self) -> None:
        """End the server at once, with all connections; its files stay."""
        if self.process is None or self.process.poll() is not None:
            return
        self.resume()
        self.process.send_signal(signal.SIGINT)
        if await wait_exit(self.process, STOP_S) is None:
            self.process.send_signal(signal.SIGQUIT)
            await wait_exit(self.process, STOP_S)

    def suspend(self) -> None:
        """Stop all answers: the processes stop, the connections stay."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after :meth:`suspend`."""
        self._signal_all(signal.SIGCONT)

    async def remove(self) -> None:
        """End the server and remove its files."""
        await self.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def database(self) -> str:
        """Make an empty database and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        connection = await asyncpg.connect(self.url())
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return self.url(name)

    def _signal_all(self, number: signal.Signals) -> None:
        """Signal the server and the processes that serve its connections."""
        if self.process is None or self.process.poll() is not None:
            return
        done = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        for pid in (self.process.pid, *map(int, done.stdout.split())):
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it ended meanwhile
                continue

    def _as_user(self, argv: Sequence[str], *options: str) -> list[str]:
        program = [str(self._bin / argv[0]), *argv[1:]]
        if self._account is None:
            return program
        ids = (f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups")
        return ["setpriv", *ids, *options, *program]


def _account() -> pwd.struct_passwd | None:
    """Return the account that root hands the server to; None for anybody else."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServerError("PostgreSQL does not run as root, and there is no user postgres or nobody")
