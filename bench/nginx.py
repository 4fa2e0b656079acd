"""nginx as the fastest honest receiver: answers 204, counts requests, keeps connections open."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.children import fetch, free_port, spawn, stop, wait_until

CONFIG = """
daemon off;
master_process off;
worker_rlimit_nofile 8192;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log error;
events {{ worker_connections 4096; }}
http {{
  log_format proof '$msec $uri';
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  client_body_buffer_size 64k;
  client_max_body_size 16m;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    access_log {folder}/nginx.log proof buffer=256k flush=1s;
    location / {{ return 204; }}
    location /answer/ {{ default_type application/json; return 200 '{answer}'; }}
    location /ill/ {{
      if (-f {folder}/ill) {{ return 503; }}
      return 204;
    }}
  }}
  {tls}
  server {{
    listen 127.0.0.1:{status_port};
    access_log off;
    location / {{ stub_status; }}
  }}
}}
"""

ANSWER = '["' + "x" * 596 + '"]'  #: body below ``answer/``, longer than the history keeps

TLS = """server {{
    listen 127.0.0.1:{port} ssl backlog=4096;
    ssl_certificate {file};
    ssl_certificate_key {file};
    access_log off;
    location / {{ return 204; }}
  }}"""

READY_S = 60.0  #: it must answer within this time


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a leg began."""

    served: int  #: requests answered before it
    log_bytes: int  #: length of the log before it; nginx may write earlier lines later
    at: float  #: Unix seconds, in whole milliseconds as in the log


class Nginx:
    """A private nginx in one process, on free ports of 127.0.0.1."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        """Prepare.

        Args:
            folder: For its files.
            certificate: PEM file with certificate and key, for a second port that speaks TLS.
        """
        self.folder = folder
        self.port = 0
        self.tls_port = 0
        self._certificate = certificate
        self._status_port = 0
        self._asked = 0
        self._log = folder / "nginx.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Nginx:
        self.port, self._status_port = free_port(), free_port()
        config = self.folder / "nginx.conf"
        tls = ""
        if self._certificate is not None:
            self.tls_port = free_port()
            tls = TLS.format(port=self.tls_port, file=self._certificate)
        text = CONFIG.format(
            folder=self.folder, port=self.port, status_port=self._status_port, tls=tls, answer=ANSWER
        )
        config.write_text(text, encoding="utf-8")
        argv = ["/usr/sbin/nginx", "-e", str(self.folder / "nginx-error.log"), "-c", str(config)]
        process = self._process = spawn(argv, log=self.folder / "nginx.out")
        is_over = await wait_until(lambda: process.poll() is not None or self._answers(), READY_S)
        if not is_over or process.poll() is not None:
            output = (self.folder / "nginx.out").read_text("utf-8", "replace")
            raise RuntimeError(f"nginx does not answer: {output[-500:]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)

    def url(self, name: str) -> str:
        """Return a URL that is answered with 204."""
        return f"http://127.0.0.1:{self.port}/{name}"

    def ill(self, *, ill: bool) -> None:
        """Answer 503 from now on where the name begins with ``ill/``, or 204 again."""
        (self.folder / "ill").touch() if ill else (self.folder / "ill").unlink()

    def _answers(self) -> bool:
        with suppress(OSError):
            self.served()
            return True
        return False

    def served(self) -> int:
        """Return how many requests it has answered, its own status page left out."""
        fields = fetch(f"http://127.0.0.1:{self._status_port}/").split()
        self._asked += 1
        return int(fields[9]) - self._asked

    def mark(self) -> Mark:
        """Remember the present count and the end of the log: later requests belong to the next leg."""
        at = time.time_ns() // 1_000_000 / 1_000  # before the count: each request after that is not older
        return Mark(self.served(), self._log.stat().st_size if self._log.exists() else 0, at)

    async def wait_for(self, mark: Mark, wanted: int, timeout_s: float) -> float:
        """Wait until *wanted* requests were answered since *mark*; return the rate in requests a second.

        The clock is nginx's own log (milliseconds): it starts with the first of them and stops with the
        last, so starting a client up is outside of it and finishing is inside.

        Raises:
            TimeoutError: they did not come within *timeout_s*.
        """
        deadline = time.monotonic() + timeout_s
        while (count := self.served() - mark.served) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} of {wanted} requests came within {timeout_s} s")
            await asyncio.sleep(0.1)
        times = sorted(await self._logged(mark, wanted))
        return (len(times) - 1) / max(0.001, times[-1] - times[0])

    async def served_by_path(self, mark: Mark) -> Counter[str]:
        """Count the requests since *mark* by the first part of their path."""
        requests = await self._requests(mark, self.served() - mark.served)
        return Counter(path.split(b"/")[1].decode() for _, path in requests)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Answer nothing inside; the system still accepts connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    async def span(self, mark: Mark, wanted: int) -> tuple[float, float]:
        """Return the times of the first and the last of *wanted* requests since *mark*, in Unix seconds."""
        times = await self._logged(mark, wanted)
        return min(times), max(times)

    async def _logged(self, mark: Mark, wanted: int) -> list[float]:
        """Return the time of each request since *mark* in Unix seconds, once the log holds *wanted*."""
        return [at for at, _ in await self._requests(mark, wanted)]

    async def _requests(self, mark: Mark, wanted: int) -> list[tuple[float, bytes]]:
        """Return time and path of each request since *mark*, once the log holds *wanted*."""
        async with asyncio.timeout(10):
            while True:
                with self._log.open("rb") as log:
                    log.seek(mark.log_bytes)
                    text = log.read()
                lines = [line.split(b" ", 1) for line in text.splitlines(True) if line.endswith(b"\n")]
                requests = [(float(at), path) for at, path in lines if float(at) >= mark.at]
                if len(requests) >= wanted:
                    return requests
                await asyncio.sleep(0.2)  # nginx writes its buffer every second
