"""A running ``leveret serve`` on the store and the broker of a daemon, and a client with a token."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.support.processes import leveret
from tests.support.processes.children import stop
from tests.support.processes.daemon import Daemon
from tests.support.system.command import command
from tests.support.system.waiting import until

STOP_S = 10


@dataclass(frozen=True, slots=True)
class ServedApi:
    """An API that another process serves."""

    daemon: Daemon  #: whose store and broker it shares
    url: str
    log: Path

    def client(self, token: str) -> httpx2.AsyncClient:
        """Return a client that presents *token*."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    async def token(self, *options: str) -> str:
        """Make a token, see :func:`make_token`."""
        return await make_token(self.daemon, *options)


async def make_token(daemon: Daemon, *options: str) -> str:
    """Make a token with the command line and return it; *options* such as ``--scope``, ``admin``."""
    made = await command(daemon, "tokens", "create", "test", *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@asynccontextmanager
async def serving(daemon: Daemon, scheme: str = "http", **settings: str) -> AsyncIterator[ServedApi]:
    """Run ``leveret serve`` beside *daemon*; end it afterwards.

    Args:
        daemon: Its store and broker are shared.
        scheme: ``https`` if *settings* name a certificate.
        settings: Further settings of the API, such as ``TLS_KEY``.
    """
    log = daemon.home.parent / f"serve-{secrets.token_hex(4)}.log"  # a test may serve twice
    env = {**daemon.env, "LEVERET_API__LISTEN": "127.0.0.1:0", "LEVERET_LOG__FORMAT": "json"}
    env |= {f"LEVERET_API__{name}": value for name, value in settings.items()}
    process = leveret.start("serve", log=log, env=env)
    try:
        await until(lambda: _port(log) > 0 or process.poll() is not None, "the API listens")
        assert process.poll() is None, log.read_text()
        yield ServedApi(daemon, f"{scheme}://127.0.0.1:{_port(log)}", log)
    finally:
        await stop(process, STOP_S)


def _port(log: Path) -> int:
    """Return the port in the log; 0 before it listens."""
    for line in log.read_text().splitlines() if log.exists() else ():
        if '"api.started"' in line:
            return int(json.loads(line)["port"])
    return 0
