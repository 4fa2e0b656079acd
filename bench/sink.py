"""The proofs' receiver: ``tests.support.servers.receiver`` as a child process, and its log as values.

Data flow: request -> receiver (child) -> JSON line -> Seen, checked by the PyPI reference verifier.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.support.broker.load import secret_of
from tests.support.processes.children import fetch, python_env, spawn, stop, wait_until
from tests.support.servers.requests import flaky_fails

START_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request, as the receiver logged it."""

    path: str  #: the name that the proof gave the endpoint
    id: str
    attempt: int  #: how many requests with this id came to this endpoint so far, 1-based
    status: int  #: 0: its client was gone before the answer
    began: float  #: Unix seconds when the request had been read
    ended: float  #: Unix seconds when the answer was written or the connection ended
    digest: str  #: SHA-256 of the body bytes
    verified: bool  #: by the reference verifier, while its timestamp was fresh; False without bodies


@dataclass(frozen=True, slots=True)
class Counts:
    """The requests that the receiver has seen so far, over all endpoints."""

    arrived: int
    answered: int
    cut: int  #: their clients went away before the answer

    @property
    def in_flight(self) -> int:
        """Requests that are neither answered nor cut."""
        return self.arrived - self.answered - self.cut


def flaky_attempts(webhook_id: str, share: float, max_attempts: int) -> tuple[int, bool]:
    """Return how many attempts an id needs at a flaky endpoint, and whether the last one is taken."""
    for attempt in range(1, max_attempts + 1):
        if not flaky_fails(webhook_id, attempt, share):
            return attempt, True
    return max_attempts, False


def verified(name: str, row: Mapping[str, object]) -> bool:
    """Ask the reference verifier about one logged request; it refuses timestamps older than 5 minutes."""
    headers = {
        "webhook-id": str(row["id"]),
        "webhook-timestamp": str(row["timestamp"]),
        "webhook-signature": str(row["signature"]),
    }
    try:
        Webhook(secret_of(name)).verify(base64.b64decode(str(row["body"])), headers, json_parse=False)
    except (WebhookVerificationError, ValueError):
        return False
    return True


class Sink:
    """The receiver as a child process.

    Args:
        folder: Where its log goes.
        targets: Name of each endpoint -> path and query for the receiver, such as ``/slow?s=1``.
        bodies: Log whole bodies, so that signatures can be checked.
    """

    def __init__(self, folder: Path, targets: Mapping[str, str], *, bodies: bool = False) -> None:
        self.log = folder / "receiver.jsonl"
        self._targets = dict(targets)
        self._names = {target: name for name, target in targets.items()}
        self._bodies = bodies
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: list[Seen] = []
        self._read_bytes = 0
        self.port = 0

    async def __aenter__(self) -> Sink:
        out = self.log.with_suffix(".out")
        argv = [sys.executable, "-m", "tests.support.servers.receiver", "--log", str(self.log)]
        self._process = spawn([*argv, *(["--bodies"] if self._bodies else [])], log=out, env=python_env())
        if not await wait_until(lambda: out.read_text().endswith("\n"), START_S):
            raise TimeoutError("the receiver did not start")
        self.port = int(out.read_text().split()[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)

    def url(self, name: str) -> str:
        """Return the URL of one endpoint."""
        return f"http://127.0.0.1:{self.port}{self._targets[name]}"

    async def counts(self) -> Counts:
        """Return the counts as of now."""
        found = json.loads(await asyncio.to_thread(fetch, f"http://127.0.0.1:{self.port}/-/counts"))
        tables = list(found["answers"].values())
        answered = sum(count for table in tables for status, count in table.items() if status != "0")
        return Counts(int(found["arrived"]), answered, sum(table.get("0", 0) for table in tables))

    async def answered(self) -> int:
        """Return how many requests were answered."""
        return (await self.counts()).answered

    async def until_answered(self, wanted: int, timeout_s: float) -> bool:
        """Wait until *wanted* requests were answered; return whether they were."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while await self.answered() < wanted:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True

    def read(self) -> list[Seen]:
        """Return every request logged so far, in the order of answering; signatures are checked once."""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(self._read_bytes)
                whole, _, _ = log.read().rpartition(b"\n")
            if whole:
                self._read_bytes += len(whole) + 1
                self._seen += [self._one(orjson.loads(line)) for line in whole.splitlines()]
        return list(self._seen)

    def _one(self, row: Mapping[str, object]) -> Seen:
        name = self._names[str(row["target"])]
        return Seen(
            path=name,
            id=str(row["id"]),
            attempt=int(str(row["attempt"])),
            status=int(str(row["status"])),
            began=float(str(row["start"])),
            ended=float(str(row["end"])),
            digest=str(row["sha256"]),
            verified=self._bodies and verified(name, row),
        )
