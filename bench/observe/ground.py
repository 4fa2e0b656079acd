"""The surroundings of a worker in which nothing is wrong: broker, store, TLS endpoint. A fault changes one.

Data flow: Ground (all well) -> settings and a copy of its home -> a fault is put in -> ``leveret doctor``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import yaml
from typer.testing import CliRunner
from yarl import URL

from bench.broker import Broker
from consumer.cli import app
from tests.support.broker.load import secret_of
from tests.support.processes import leveret
from tests.support.processes.children import free_port, python_env
from tests.support.servers.certificates import Authority

COMMAND_S = 300.0  # longer than every bound of the doctor together
DAYS = 90  #: until the certificates end, so that nothing warns of that
HUSHED = ("hush-token", "hush-bearer")  #: parts of URL and credentials that no output may contain
SHOP: Mapping[str, object] = {
    "tenant": "acme",
    "name": "shop",
    "events": ["order.*"],
    "secrets": [secret_of("shop")],
    "auth": {"bearer": "hush-bearer"},
}

Settings = Mapping[str, str]
"""Variables without their prefix ``LEVERET_``."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one run of `leveret doctor --json`."""

    code: int
    rows: Sequence[Mapping[str, str]]
    output: str
    seconds: float = 0.0  #: from the start of its process to the end

    def troubles(self) -> Sequence[Mapping[str, str]]:
        """Return the lines that are not well."""
        return [row for row in self.rows if row["level"] != "ok"]

    def naming(self, check: str, level: str, words: str) -> str | None:
        """Return the line of that check and level that contains *words* and a remedy; None if none does."""
        for row in self.rows:
            text = f"{row['subject']}: {row['text']}"
            if (row["check"], row["level"]) == (check, level) and words in text and row["remedy"]:
                return f"{text}; {row['remedy']}"
        return None


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


def _outside(words: Sequence[str], variables: Mapping[str, str], wrap: Sequence[str]) -> Done:
    """Run a command in a process of its own; *wrap* begins the command of that process."""
    env = {**python_env(), **variables}
    if wrap:
        argv, nothing = [*wrap, *leveret.COMMAND, *words], subprocess.DEVNULL
        done = subprocess.run(
            argv, env=env, stdin=nothing, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    else:
        done = leveret.run(*words, env=env, timeout_s=COMMAND_S)
    return Done(done.returncode, done.stdout, done.stderr)


def _inside(words: Sequence[str], variables: Mapping[str, str]) -> Done:
    """Run a command of ``leveret`` in this process, one at a time."""
    result = CliRunner().invoke(app, list(words), env=variables)
    return Done(result.exit_code, result.stdout, result.stderr)


class Ground:
    """The surroundings. An async context manager gives one in which nothing is wrong."""

    def __init__(self, folder: Path, broker: Broker, *, is_inside: bool) -> None:
        """Bind to a broker that runs.

        Args:
            folder: A private folder.
            broker: The broker.
            is_inside: Whether commands run in this process, one at a time, which saves their starts.
        """
        self.folder = folder
        self.broker = broker
        self.is_inside = is_inside
        self.authority = Authority(folder, "Ground CA", days=DAYS)
        self.home = folder / "home"
        self.endpoint_port = 0
        self._copies = 0

    @property
    def vhost(self) -> str:
        """Name of the virtual host."""
        return URL(self.broker.url).path.removeprefix("/") or "/"

    @property
    def secrets(self) -> Sequence[str]:
        """Texts that no output may contain."""
        return (*HUSHED, URL(self.broker.url).password or "", secret_of("shop"))

    def settings(self, **changes: str) -> dict[str, str]:
        """Return the settings, with *changes*."""
        management = URL(self.broker.management.url)
        return {
            "HOME": str(self.home),
            "AMQP_URL": self.broker.url,
            "AMQP__MANAGEMENT_URL": str(management.with_user(None)).rstrip("/"),
            "TOPOLOGY__LANES": "2",
            "TOPOLOGY__RUNGS_S": "[0.5, 1.0]",
            "EGRESS__ALLOW": '["127.0.0.0/8"]',
            "SENDING__CA_FILE": self.authority.file,
            "LISTEN": f"127.0.0.1:{free_port()}",
            **changes,
        }

    def shop(self, **fields: object) -> dict[str, object]:
        """Return the entry of the endpoint that is well, with *fields*."""
        url = f"https://127.0.0.1:{self.endpoint_port}/hook?key=hush-token"
        return {**SHOP, "url": url, **fields}

    def copy_home(self) -> Path:
        """Return a copy of the home, for a fault to change."""
        self._copies += 1
        made = self.folder / f"home-{self._copies}"
        shutil.copytree(self.home, made)
        made.chmod(0o700)
        return made

    async def prepare(self) -> None:
        """Declare the topology, store the subscription and record the store on the broker."""
        await self.must(self.settings(), "topology", "apply")
        await self.subscribe(self.settings(), self.shop())
        await self.must(self.settings(), "store", "adopt", "--yes")

    async def subscribe(self, settings: Settings, *entries: Mapping[str, object]) -> None:
        """Apply a file with exactly *entries*."""
        file = Path(settings["HOME"]).with_suffix(".yaml")
        file.write_text(yaml.safe_dump({"subscriptions": [dict(one) for one in entries]}), "utf-8")
        await self.must(settings, "subscriptions", "apply", "--prune", "--yes", str(file))

    async def must(self, settings: Settings, *words: str) -> None:
        """Run a command that must succeed.

        Raises:
            RuntimeError: it fails.
        """
        done = await self.run(settings, *words)
        if done.code != 0:
            raise RuntimeError(f"leveret {' '.join(words)}: {done.stderr[-500:]}")

    async def run(self, settings: Settings, *words: str, wrap: Sequence[str] = ()) -> Done:
        """Run ``leveret`` with *settings*; *wrap* begins the command of its process."""
        variables = {f"LEVERET_{name}": value for name, value in settings.items()}
        if self.is_inside and not wrap:
            return await asyncio.to_thread(_inside, words, variables)
        return await asyncio.to_thread(_outside, words, variables, wrap)

    async def doctor(self, settings: Settings, wrap: Sequence[str] = ()) -> Diagnosis:
        """Run `leveret doctor --json`."""
        began = time.monotonic()
        done = await self.run(settings, "doctor", "--json", wrap=wrap)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return Diagnosis(done.code, rows, done.stdout + done.stderr, time.monotonic() - began)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API.

        Raises:
            httpx2.HTTPStatusError: it refuses.
        """
        url = URL(self.broker.management.url)
        auth = (url.user or "", url.password or "")
        with httpx2.Client(base_url=str(url.with_user(None)), auth=auth, timeout=60, trust_env=False) as api:
            answer = api.request(method, path, json=body)
            answer.raise_for_status()
            return answer.json() if answer.content else None


@asynccontextmanager
async def standing(folder: Path, broker: Broker, *, is_inside: bool) -> AsyncIterator[Ground]:
    """Give a ground in which nothing is wrong, on a broker that runs."""
    ground = Ground(folder, broker, is_inside=is_inside)
    ground.home.mkdir(mode=0o700)
    async with tls_server(ground.authority.server("127.0.0.1", days=DAYS)) as port:
        ground.endpoint_port = port
        await ground.prepare()
        yield ground


@asynccontextmanager
async def tls_server(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve HTTPS on a port of loopback; every request is answered with 204."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readline():
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (OSError, ValueError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def silent_port() -> Iterator[int]:
    """Accept connections on a port of loopback, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]
