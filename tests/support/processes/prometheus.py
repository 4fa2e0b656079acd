"""A real Prometheus on the very files that docker-compose.yml mounts; only the targets differ.

Data flow: deploy/prometheus/prometheus.yml and grafana/alerts.yml, copied -> prometheus -> its HTTP API. The
targets are in files of their own (file_sd), as in the compose file.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import yaml

from tests.support.data import ROOT
from tests.support.processes.children import fetch, free_port, serving, spawn, stop

SCRAPE_S = 5.0  #: as in prometheus.yml
START_S = 30.0
Points: TypeAlias = tuple[Mapping[str, str], Sequence[tuple[float, float]]]
"""Labels of a series, and its values by Unix time."""


class Prometheus:
    """A private Prometheus on a free port of 127.0.0.1.

    Args:
        folder: For its files, data and log.
        targets: Scrape job, or ``alertmanager`` -> HOST:PORT; the jobs are those of prometheus.yml.
        rules: Alert rules instead of those of the repository, which are then evaluated each second.
        scrape_s: Seconds between two scrapes; only with *rules*.
    """

    def __init__(
        self, folder: Path, targets: Mapping[str, str], rules: str | None = None, scrape_s: int = 1
    ) -> None:
        self.folder = folder / "prometheus"
        self.config = self.folder / "prometheus.yml"
        self._targets = targets
        self._rules = rules
        self._intervals = {"scrape": scrape_s, "evaluation": 1}
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self.lay_out()
        argv = ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'data'}"]
        argv.append(f"--web.listen-address=127.0.0.1:{self._port}")
        if self._rules is not None:  # an alert may fire before the Alertmanager is discovered, after 5 s
            argv.append("--rules.alert.resend-delay=1s")
        log = self.folder / "prometheus.log"
        self._process = spawn(argv, log=log)
        await serving(self._process, f"http://127.0.0.1:{self._port}/-/ready", log, START_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)

    def lay_out(self) -> None:
        """Put the files where the container has them, with the targets of the test."""
        shutil.copytree(ROOT / "deploy" / "prometheus", self.folder)
        shutil.copy(ROOT / "grafana" / "alerts.yml", self.folder)
        if self._rules is not None:
            (self.folder / "alerts.yml").write_text(self._rules, encoding="utf-8")
            text = self.config.read_text()
            for kind, seconds in self._intervals.items():
                text = re.sub(rf"{kind}_interval: \w+", f"{kind}_interval: {seconds}s", text)
            self.config.write_text(text, encoding="utf-8")
        for job, address in self._targets.items():
            path = self.folder / "targets" / f"{job}.yml"
            path.write_text(yaml.safe_dump([{"targets": [address]}]), encoding="utf-8")

    def has_data(self, promql: str, *, zero_is_data: bool) -> bool:
        """Query *promql* now; return whether any series answers with a number.

        Args:
            promql: The query.
            zero_is_data: False: the number has to be another one than 0.

        Raises:
            OSError: Prometheus cannot parse it, or did not answer.
        """
        return any(not math.isnan(v) and (zero_is_data or v != 0) for v in self.values(promql))

    def values(self, promql: str) -> Sequence[float]:
        """Ask for *promql* now; return the value of each series."""
        result = self._get(f"query?query={quote(promql)}")["result"]
        return [float(sample["value"][1]) for sample in result]

    def samples(self, promql: str) -> Sequence[tuple[Mapping[str, str], float]]:
        """Ask for *promql* now; return labels and value of each series."""
        result = self._get(f"query?query={quote(promql)}")["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def over(self, promql: str, between: tuple[float, float], step_s: float) -> Sequence[Points]:
        """Ask for *promql* at each step *between* two Unix times; return labels and points of each series."""
        start, end = between
        query = f"query_range?query={quote(promql)}&start={start:.3f}&end={end:.3f}&step={step_s:.3f}"
        result = self._get(query)["result"]
        return [
            (series["metric"], [(float(at), float(value)) for at, value in series["values"]])
            for series in result
        ]

    async def until(self, promql: str, timeout_s: float = START_S) -> None:
        """Return once *promql* has a result.

        Raises:
            TimeoutError: it has none within *timeout_s*.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                if await asyncio.to_thread(self.values, promql):
                    return
                await asyncio.sleep(0.2)

    def rules(self) -> Sequence[Mapping[str, Any]]:
        """Return every alert rule that it loaded, with its health."""
        groups: list[dict[str, Any]] = self._get("rules?type=alert")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def alerts(self) -> Sequence[Mapping[str, Any]]:
        """Return every alert that fires or is pending, the newest first."""
        found: list[dict[str, Any]] = self._get("alerts")["alerts"]
        return sorted(found, key=lambda alert: str(alert["activeAt"]), reverse=True)

    def _get(self, path: str) -> Any:
        return json.loads(fetch(f"http://127.0.0.1:{self._port}/api/v1/{path}"))["data"]


def promtool(*arguments: str | Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run Prometheus' own checker, with *text* on its stdin."""
    return subprocess.run(
        ["promtool", *map(str, arguments)],
        input=text,
        capture_output=True,
        check=False,
        env=os.environ | {"GOGC": "800"},  # two thirds of the time: each case is small and short
    )
