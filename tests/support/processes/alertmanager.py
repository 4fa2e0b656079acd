"""A real Alertmanager on the very file that docker-compose.yml mounts; only addresses and waits differ.

Data flow: deploy/alertmanager/alertmanager.yml -> alertmanager -> its HTTP API, and messages to a receiver.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.data import ROOT
from tests.support.processes.children import fetch, free_port, serving, spawn, stop

EXAMPLE = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RECEIVER = "127.0.0.1:9000"  #: where docker-compose.yml has its receiver
START_S = 30.0


class Alertmanager:
    """A private Alertmanager on a free port of 127.0.0.1.

    Args:
        folder: For its file, data and log.
        receiver: HOST:PORT to which it sends its messages.
    """

    def __init__(self, folder: Path, receiver: str) -> None:
        self.folder = folder / "alertmanager"
        self.address = f"127.0.0.1:{free_port()}"
        self._receiver = receiver
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Alertmanager:
        self.folder.mkdir()
        config = self.folder / "alertmanager.yml"
        config.write_text(quick(EXAMPLE.read_text("utf-8")).replace(RECEIVER, self._receiver), "utf-8")
        program = shutil.which("prometheus-alertmanager") or "alertmanager"
        argv = [program, f"--config.file={config}", f"--storage.path={self.folder / 'data'}"]
        argv += [f"--web.listen-address={self.address}", "--cluster.listen-address="]
        log = self.folder / "alertmanager.log"
        self._process = spawn(argv, log=log)
        await serving(self._process, f"http://{self.address}/-/ready", log, START_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool], timeout_s: float = START_S) -> None:
        """Return once *holds* is true of the alerts that it has.

        Raises:
            TimeoutError: it is not within *timeout_s*.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                if holds(await asyncio.to_thread(self.alerts)):
                    return
                await asyncio.sleep(0.2)

    def alerts(self) -> list[dict[str, Any]]:
        """Return every present alert with its labels and its state, inhibited ones too."""
        found: list[dict[str, Any]] = json.loads(fetch(f"http://{self.address}/api/v2/alerts"))
        return found


def quick(config: str) -> str:
    """Return a configuration whose messages leave within a second."""
    return re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", config)
