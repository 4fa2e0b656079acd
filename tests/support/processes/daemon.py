"""The daemon as a black box: started, watched, asked and killed from outside."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import yaml

from consumer.edges.private_broker.files import port_is_free
from tests.support.broker.load import secret_of
from tests.support.processes import leveret
from tests.support.processes.children import (
    Child,
    answers,
    children_of,
    fetch,
    free_port,
    listens,
    pause_s,
    python_env,
    spawn,
    stop,
    wait_exit,
    wait_until,
)

READY_S = 120.0  #: it must be consuming within this time
LIMITED = 'ulimit -n "$0" && exec "$@"'  #: runs a command with a limit of open files
CHANGES = re.compile(r"[1-9]\d* (added|changed|removed)")  #: in the output of an apply
STARTS = 3  #: another program may take a drawn port before it listens


class Daemon:
    """``leveret run`` with a home folder of its own.

    Attributes:
        program: Arguments of Python that start it from another module; empty: ``leveret run`` itself.
    """

    program: Sequence[str] = ()

    def __init__(
        self,
        folder: Path,
        amqp_url: str,
        settings: Mapping[str, str] | None = None,
        name: str = "daemon",
        *,
        handles: int | None = None,
    ) -> None:
        self._limited: list[str] = []
        if handles is not None:
            self.limit_handles(handles)
        self.home = folder / f"{name}-home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{name}.log"
        self.listen = ""
        self.env = python_env() | {
            "LEVERET_HOME": str(self.home),
            "LEVERET_AMQP_URL": amqp_url,
            "LEVERET_EGRESS__ALLOW": '["127.0.0.0/8"]',
            "LEVERET_LOG__FORMAT": "json",
            **(settings or {}),
        }
        self._draw_listen()
        self.process: Child | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None:
            self.wake()  # a suspended one would not stop
        await stop(self.process, 25)

    def limit_handles(self, handles: int) -> None:
        """Limit its open files, from its next start on."""
        self._limited = ["sh", "-c", LIMITED, str(handles)]

    async def start(self, failpoint: str = "") -> None:
        """Start it and return when ``/readyz`` is green, or it died at the failpoint before that.

        Where another program took its port before it could listen, it is started once more, at another one.
        """
        self.spawn(failpoint)
        began, left = time.monotonic(), STARTS - 1
        while not await asyncio.to_thread(self.ready):
            if self.process is not None and self.process.poll() is not None:
                if left and not self._port_is_free():
                    left -= 1
                    self.spawn(failpoint)
                    continue
                if failpoint:
                    return
                raise RuntimeError(f"the daemon ended with {self.process.returncode}: {self.tail()}")
            waited_s = time.monotonic() - began
            if waited_s > READY_S:
                raise TimeoutError(f"the daemon is not ready after {READY_S} s: {self.tail()}")
            await asyncio.sleep(pause_s(waited_s))

    def spawn(self, failpoint: str = "") -> None:
        """Start the process and return at once; it moves where another program took its port meanwhile."""
        if not self._port_is_free():
            self._draw_listen()
        env = self.env | ({"LEVERET_FAILPOINT": failpoint} if failpoint else {})
        if self._limited or self.program:
            program = self.program or ("-m", "consumer", "run")
            self.process = spawn([*self._limited, sys.executable, *program], log=self.log, env=env)
        else:
            self.process = leveret.start("run", log=self.log, env=env)

    def _draw_listen(self) -> None:
        self.listen = f"127.0.0.1:{free_port()}"
        self.env["LEVERET_LISTEN"] = self.listen

    def _port_is_free(self) -> bool:
        return port_is_free(self._own_port)

    @property
    def _own_port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    def ready(self) -> bool:
        """Return whether this daemon answers 200 at ``/readyz``; another one may have taken its port."""
        if self.process is None or not answers(f"http://{self.listen}/readyz"):
            return False
        return not sys.platform.startswith("linux") or listens(self.process, self._own_port)

    async def wait_exit(self, timeout_s: float) -> int | None:
        """Return the exit code, or None when it still runs after *timeout_s*."""
        assert self.process is not None
        return await wait_exit(self.process, timeout_s)

    async def kill(self) -> float:
        """SIGKILL it; return the Unix time of the kill."""
        assert self.process is not None
        at = time.time()
        self.process.kill()
        await wait_exit(self.process, 10)
        return at

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGTERM)

    def suspend(self) -> None:
        """SIGSTOP it and its children."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT it and its children."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        for child in children_of(self.process):
            with suppress(ProcessLookupError):
                os.kill(child, number)
        self.process.send_signal(number)

    async def cli(self, *arguments: str) -> str:
        """Run one ``leveret`` command on the same home; return its stdout.

        Raises:
            RuntimeError: the command did not exit with 0.
        """

        done = await asyncio.to_thread(leveret.run, *arguments, env=self.env)
        if done.returncode != 0:
            raise RuntimeError(f"leveret {' '.join(arguments)}: {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    async def subscribe(self, subscriptions: Sequence[Mapping[str, object]]) -> None:
        """Apply a file that holds exactly *subscriptions*; return once a running daemon has them.

        An event that comes before that is unmatched, and would seem lost to a proof.
        """
        path = self.home / "proof-subscriptions.yaml"
        path.write_text(yaml.safe_dump({"subscriptions": [dict(one) for one in subscriptions]}), "utf-8")
        loads, process = self._loads(), self.process
        printed = await self.cli("subscriptions", "apply", "--prune", "--yes", str(path))
        if loads is None or process is None or not CHANGES.search(printed):
            return

        def is_over() -> bool:
            return process.poll() is not None or self._loads() not in (None, loads)

        if not await wait_until(is_over, READY_S):
            raise TimeoutError(f"the daemon does not know the subscriptions after {READY_S:.0f} s")

    def _loads(self) -> float | None:
        """Return how often the running daemon has loaded its subscriptions; None: it does not answer."""
        with suppress(OSError):
            return self.metric("leveret_reloads_total", result="ok")
        return None

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a series that have *labels*; 0 without such samples."""
        total = 0.0
        for line in fetch(f"http://{self.listen}/metrics").decode().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match is None or match[1] != name:
                continue
            found = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            if labels.items() <= found.items():
                total += float(match[3])
        return total

    async def listing(self, *arguments: str) -> list[dict[str, object]]:
        """Run a listing with ``--json`` and return its rows; parked entries come from their queue itself."""
        if arguments[:2] == ("parked", "list"):
            out = await self.cli("parked", "export", "--wait", *arguments[2:])
        else:
            out = await self.cli(*arguments, "--json")
        return [json.loads(line) for line in out.splitlines() if line.strip()]

    def lines(self, event: str = "") -> Iterator[dict[str, object]]:
        """Yield the daemon's JSON log lines, or only those named *event*."""
        with self.log.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):  # it is being written
                    return
                if not line.startswith(b"{") or (event and event.encode() not in line):
                    continue
                row = json.loads(line)
                if not event or row.get("event") == event:
                    yield row

    def tail(self) -> str:
        """Return the end of the log, for an error message."""
        return self.log.read_text("utf-8", "replace")[-1500:] if self.log.exists() else "(no log)"


def subscription(name: str, url: str, **more: object) -> dict[str, object]:
    """Return one entry of a subscriptions file: all events of tenant ``t00``, its own fixed secret."""
    return {
        "tenant": "t00",
        "name": name,
        "url": url,
        "events": ["#"],
        "secrets": [secret_of(name)],
        **more,
    }


#: No breaker: failures of the endpoint never delay a delivery.
NO_BREAKER: Mapping[str, object] = {"failures": 0}


def retry(**fields: object) -> dict[str, object]:
    """Return the default policy's fields (S0-1), changed by *fields*."""
    base = {"max_attempts": 5, "base_s": 1, "multiplier": 2, "max_s": 60, "jitter": 0.1}
    return base | fields
