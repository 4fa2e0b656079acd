"""The proofs' receiver: a small, fast HTTP server that misbehaves as told and logs every request.

Data flow: JSON rules file -> ``python -m bench.sink RULES LOG`` -> one JSON line a request in LOG.
It parses only what our client sends (POST, Content-Length), so that it is no bottleneck beside a
daemon on two cores. Each request's signature is checked at once by the PyPI reference verifier.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
import uvloop
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from bench.processes import fetch, python_env, spawn, stop, wait_until

FLUSH_S = 0.1  #: the log on disk is at most this much behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the receiver answers one path, ``/<name>``."""

    secret: str  #: ``whsec_...`` of the subscription; checked by the reference verifier
    status: int = 200
    delay_s: float = 0.0
    flaky_share: float = 0.0  #: this share of attempts answers 503, chosen by :func:`flaky_fails`
    fail_first: int = 0  #: the first so many attempts of an id answer *fail_status*
    fail_status: int = 503
    retry_after: str = ""  #: sent with every failure when not empty
    gone_after: int = 0  #: over 0: 410 to every request after so many
    hold: int = 0  #: over 0: first attempts wait until so many are held, then all are answered at once
    log: bool = True  #: False also leaves out digest and signature check: for heavy loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request, as logged."""

    path: str
    id: str
    attempt: int  #: how many requests with this id came to this path so far, 1-based
    status: int
    began: float  #: Unix seconds: the last byte of the request was read
    ended: float  #: Unix seconds: the response was written
    digest: str  #: of the body bytes
    verified: bool  #: by the reference verifier, on arrival


def flaky_fails(webhook_id: str, attempt: int, share: float) -> bool:
    """Say whether a flaky path answers 503: a fixed function of id and attempt (1-based)."""
    digest = hashlib.sha256(f"{webhook_id}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def flaky_attempts(webhook_id: str, share: float, max_attempts: int) -> tuple[int, bool]:
    """Return how many attempts an id needs on a flaky path, and whether the last one is taken."""
    for attempt in range(1, max_attempts + 1):
        if not flaky_fails(webhook_id, attempt, share):
            return attempt, True
    return max_attempts, False


@dataclass(slots=True)
class PathState:
    """One path while the server runs."""

    rule: Rule
    verifier: Webhook
    seen: int = 0
    open: int = 0
    done: int = 0
    attempts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: list[asyncio.Future[None]] = field(default_factory=list)


class Server:
    """State shared by all connections."""

    def __init__(self, rules: Mapping[str, Rule], log: Path) -> None:
        self.paths = {name: PathState(rule, Webhook(rule.secret)) for name, rule in rules.items()}
        self.lines: list[bytes] = []
        self.log = log

    def stats(self) -> bytes:
        """Return requests seen, answered and open per path, as JSON."""
        return orjson.dumps(
            {name: {"seen": p.seen, "done": p.done, "open": p.open} for name, p in self.paths.items()}
        )

    async def flush_for_ever(self) -> None:
        """Append what was logged to the file every :data:`FLUSH_S`."""
        with self.log.open("ab") as out:
            while True:
                await asyncio.sleep(FLUSH_S)
                if self.lines:
                    lines, self.lines = self.lines, []
                    out.write(b"\n".join(lines) + b"\n")
                    out.flush()

    def decide(self, path: PathState, attempt: int, webhook_id: str) -> int:
        """Return the status for this request."""
        rule = path.rule
        if rule.gone_after and path.seen > rule.gone_after:
            return 410
        if attempt <= rule.fail_first or (rule.hold and attempt == 1):
            return rule.fail_status
        if rule.flaky_share and flaky_fails(webhook_id, attempt, rule.flaky_share):
            return 503
        return rule.status

    async def wait(self, path: PathState, attempt: int) -> None:
        """Hold or delay the answer as the rule says."""
        if path.rule.hold and attempt == 1:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            path.held.append(mine)
            if len(path.held) >= path.rule.hold:
                held, path.held = path.held, []
                for future in held:
                    if not future.done():
                        future.set_result(None)
            await mine
        elif path.rule.delay_s:
            await asyncio.sleep(path.rule.delay_s)


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: requests in order, one at a time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b""
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a request whose client is gone; its answer is never logged."""
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self.buffer += data
        if self.task is None:
            self._next()

    def _next(self) -> None:
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        lines = self.buffer[:head_end].decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines[1:])
        headers = {name.lower(): value.strip() for name, value in pairs}
        end = head_end + 4 + int(headers.get("content-length", "0"))
        if len(self.buffer) < end:
            return
        body, self.buffer = self.buffer[head_end + 4 : end], self.buffer[end:]
        name = lines[0].split(" ")[1].lstrip("/")
        path = self.server.paths.get(name)
        if path is None:
            known = name == "_stats"
            self._answer(200 if known else 404, self.server.stats() if known else b"", "")
            self._next()
            return
        self._take(name, path, headers, body)

    def _take(self, name: str, path: PathState, headers: Mapping[str, str], body: bytes) -> None:
        began = time.time()
        webhook_id = headers.get("webhook-id", "")
        path.seen += 1
        path.open += 1
        path.attempts[webhook_id] += 1
        attempt = path.attempts[webhook_id]
        status = self.server.decide(path, attempt, webhook_id)
        seen = Seen(
            path=name,
            id=webhook_id,
            attempt=attempt,
            status=status,
            began=began,
            ended=0.0,
            digest=hashlib.blake2b(body, digest_size=8).hexdigest() if path.rule.log else "",
            verified=path.rule.log and verified(path.verifier, headers, body),
        )
        if path.rule.delay_s or (path.rule.hold and attempt == 1):
            self.task = asyncio.get_running_loop().create_task(self._late(path, seen))
        else:
            self._finish(path, seen)
            self._next()

    async def _late(self, path: PathState, seen: Seen) -> None:
        try:
            await self.server.wait(path, seen.attempt)
        except asyncio.CancelledError:
            path.open -= 1
            self._log(path, seen, ended=-1.0)
            raise
        self._finish(path, seen)
        self.task = None
        self._next()

    def _finish(self, path: PathState, seen: Seen) -> None:
        retry_after = path.rule.retry_after if seen.status >= 400 else ""
        self._answer(seen.status, b"", retry_after)
        path.open -= 1
        path.done += 1
        self._log(path, seen, ended=time.time())

    def _log(self, path: PathState, seen: Seen, *, ended: float) -> None:
        if path.rule.log:
            row = asdict(seen)
            row["ended"] = ended
            self.server.lines.append(orjson.dumps(row))

    def _answer(self, status: int, body: bytes, retry_after: str) -> None:
        extra = f"retry-after: {retry_after}\r\n" if retry_after else ""
        head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        self.transport.write(head.encode() + body)


def verified(verifier: Webhook, headers: Mapping[str, str], body: bytes) -> bool:
    """Ask the reference verifier about one request."""
    try:
        verifier.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):
        return False
    return True


async def serve(rules: Mapping[str, Rule], log: Path) -> None:
    """Listen on a free port of 127.0.0.1, print it, and answer until killed."""
    server = Server(rules, log)
    listener = await asyncio.get_running_loop().create_server(
        lambda: Connection(server), "127.0.0.1", 0, backlog=4096
    )
    port = listener.sockets[0].getsockname()[1]
    log.with_suffix(".port").write_text(str(port), encoding="utf-8")
    await server.flush_for_ever()


class Sink:
    """The receiver as a child process."""

    def __init__(self, folder: Path, rules: Mapping[str, Rule], name: str = "sink") -> None:
        self.log = folder / f"{name}.jsonl"
        self._rules = folder / f"{name}-rules.json"
        self._rules.write_text(json.dumps({n: asdict(rule) for n, rule in rules.items()}), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    async def __aenter__(self) -> Sink:
        argv = [sys.executable, "-m", "bench.sink", str(self._rules), str(self.log)]
        self._process = spawn(argv, log=self.log.with_suffix(".out"), env=python_env())
        port_file = self.log.with_suffix(".port")
        if not await wait_until(lambda: port_file.exists() and port_file.read_text() != "", 15):
            raise TimeoutError("the receiver did not start")
        self.port = int(port_file.read_text())
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)

    def url(self, name: str) -> str:
        """Return the URL of one path."""
        return f"http://127.0.0.1:{self.port}/{name}"

    async def stats(self) -> dict[str, dict[str, int]]:
        """Return ``{path: {"seen", "done", "open"}}`` as of now."""

        def ask() -> dict[str, dict[str, int]]:
            found: dict[str, dict[str, int]] = json.loads(fetch(self.url("_stats")))
            return found

        return await asyncio.to_thread(ask)

    async def total(self, key: str = "done") -> int:
        """Return one counter summed over all paths."""
        return sum(counts[key] for counts in (await self.stats()).values())

    async def read(self) -> list[Seen]:
        """Return every request logged so far, in the order of answering."""
        await asyncio.sleep(3 * FLUSH_S)
        if not self.log.exists():
            return []
        return [Seen(**orjson.loads(line)) for line in self.log.read_bytes().splitlines()]


if __name__ == "__main__":
    loaded = {name: Rule(**rule) for name, rule in json.loads(Path(sys.argv[1]).read_text()).items()}
    uvloop.run(serve(loaded, Path(sys.argv[2])))
