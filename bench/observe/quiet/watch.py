"""A Prometheus with the rules of Leveret and targets that change, and every alert that Alertmanager received.

Data flow: rules -> :class:`Tower` (Prometheus) -> Alertmanager -> :class:`AlertWatch` -> :class:`Alert`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.support.processes.alertmanager import Alertmanager
from tests.support.processes.prometheus import Points, Prometheus

FOREIGN = "foreign"  #: the scrape job of a RabbitMQ that is not ours
JOBS = ("leveret", "rabbitmq", FOREIGN)
LOOK_S = 0.5  #: between two looks at Alertmanager
STEP_S = 5.0  #: between two points of the alerts that Prometheus recorded
OWN = frozenset(("alertname", "severity", "service", "alertstate", "__name__", "job"))
"""Labels that are left out of the notes: every alert has them, or its name implies them."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert, as it was received first."""

    name: str
    labels: Labels
    began: float  #: Unix seconds
    text: str = ""  #: its description

    def matches(self, name: str, labels: Labels) -> bool:
        """Return whether it has this name, and these among its labels."""
        return self.name == name and labels.items() <= self.labels.items()


class Tower(Prometheus):
    """A Prometheus that also scrapes a foreign RabbitMQ, and whose targets may change."""

    def __init__(self, folder: Path, alertmanager: str, rules: str | None) -> None:
        """Prepare; *rules* as in :class:`Prometheus`, *alertmanager* is HOST:PORT."""
        super().__init__(folder, {"alertmanager": alertmanager}, rules)

    def lay_out(self) -> None:
        """Add the foreign job; no job has a target yet."""
        super().lay_out()
        config = yaml.safe_load(self.config.read_text())
        files = [{"files": [f"targets/{FOREIGN}.yml"]}]
        config["scrape_configs"].append({"job_name": FOREIGN, "file_sd_configs": files})
        self.config.write_text(yaml.safe_dump(config), encoding="utf-8")
        for job in JOBS:
            self.aim(job, ())

    def aim(self, job: str, addresses: Iterable[str]) -> None:
        """Let the targets of *job* be these addresses from now on; Prometheus sees the new file at once."""
        path = self.folder / "targets" / f"{job}.yml"
        fresh = path.with_suffix(".fresh")
        fresh.write_text(yaml.safe_dump([{"targets": sorted(addresses)}]), encoding="utf-8")
        os.replace(fresh, path)

    def recorded(self, state: str, between: tuple[float, float]) -> Sequence[Points]:
        """Return the alerts that were ``pending`` or ``firing`` *between* two Unix times."""
        return self.over(f'ALERTS{{alertstate="{state}"}}', between, STEP_S)


@dataclass(slots=True)
class AlertWatch:
    """Every alert that an Alertmanager received, inhibited ones too, once for each time that it began."""

    alertmanager: Alertmanager
    alerts: list[Alert] = field(default_factory=list)
    _known: set[tuple[frozenset[tuple[str, str]], str]] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look on while the block runs."""
        looking = asyncio.create_task(self._look_on())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _look_on(self) -> None:
        while True:
            with suppress(OSError):  # a busy machine; the next look sees the same alerts
                self.take(await asyncio.to_thread(self.alertmanager.alerts))
            await asyncio.sleep(LOOK_S)

    def take(self, present: Iterable[Mapping[str, Any]]) -> None:
        """Add those of the *present* alerts that are new."""
        for row in present:
            labels, began = dict(row["labels"]), str(row["startsAt"])
            key = frozenset(labels.items()), began
            if key not in self._known:
                self._known.add(key)
                at = datetime.fromisoformat(began).timestamp()
                text = str(row["annotations"].get("description", ""))
                self.alerts.append(Alert(labels["alertname"], labels, at, text))

    def find(self, name: str, labels: Labels, since: float) -> Alert | None:
        """Return the first alert with this name and labels that began after *since*; None: there is none."""
        found = (one for one in self.alerts if one.began >= since and one.matches(name, labels))
        return next(found, None)


def sent_labels(labels: Labels) -> dict[str, str]:
    """Return the labels of an alert that Prometheus recorded, as it sends them to Alertmanager."""
    return {name: value for name, value in labels.items() if name not in ("__name__", "alertstate")}


def own_labels(labels: Labels) -> dict[str, str]:
    """Return the labels by which alerts of one rule differ."""
    return {name: value for name, value in labels.items() if name not in OWN}
