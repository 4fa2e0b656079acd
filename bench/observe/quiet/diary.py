"""The times of the moments of a life, and the moment of each alert."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf

from bench.observe.quiet.moments import Moment
from bench.observe.quiet.stage import Stage
from bench.observe.quiet.watch import STEP_S, Alert, own_labels
from tests.support.processes.prometheus import Points


@dataclass(slots=True)
class Entry:
    """One moment that began."""

    name: str
    began: float  #: Unix seconds
    ended: float = inf


@dataclass(slots=True)
class Diary:
    """The moments of one life.

    Attributes:
        began: Begin of the life, in Unix seconds.
    """

    began: float
    entries: list[Entry] = field(default_factory=list)

    async def live(self, stage: Stage, moments: Sequence[Moment]) -> None:
        """Live through all moments, each at its time.

        Raises:
            ExceptionGroup: one of them failed.
        """
        async with asyncio.TaskGroup() as tasks:
            for moment in moments:
                tasks.create_task(self._live_one(stage, moment))

    async def _live_one(self, stage: Stage, moment: Moment) -> None:
        await stage.wait(moment.at_s)
        entry = Entry(moment.name, time.time())
        self.entries.append(entry)
        stage.bench.say(f"{moment.name} begins")
        await moment.act(stage)
        entry.ended = time.time()
        stage.bench.say(f"{moment.name} is over")

    def at(self, when: float) -> str:
        """Return the moments that took place at *when* (Unix seconds), or the one that ended last before."""
        present = [entry.name for entry in self.entries if entry.began <= when < entry.ended]
        if present:
            return ", ".join(present)
        past = [entry for entry in self.entries if entry.ended <= when]
        return f"after {max(past, key=lambda entry: entry.ended).name}" if past else "before any moment"

    def times(self) -> dict[str, tuple[float, float]]:
        """Return begin and end of each moment, in seconds since the begin of life."""
        return {
            entry.name: (round(entry.began - self.began, 1), round(entry.ended - self.began, 1))
            for entry in self.entries
        }

    def row(self, alert: Alert) -> dict[str, object]:
        """Return the note of an alert that Alertmanager received."""
        return {
            "alert": alert.name,
            "labels": own_labels(alert.labels),
            "at_s": round(alert.began - self.began, 1),
            "moment": self.at(alert.began),
            "text": alert.text,
        }

    def pending(self, recorded: Sequence[Points]) -> list[dict[str, object]]:
        """Return the notes of the alerts whose condition was true, each with its longest time in seconds."""
        rows = []
        for labels, points in recorded:
            runs = _runs([at for at, _ in points])
            first, last = max(runs, key=lambda run: run[1] - run[0])
            rows.append(
                {
                    "alert": labels["alertname"],
                    "labels": own_labels(labels),
                    "times": len(runs),
                    "longest_s": round(last - first + STEP_S, 1),
                    "at_s": round(first - self.began, 1),
                    "moment": self.at(first),
                }
            )
        return sorted(rows, key=lambda row: -float(str(row["longest_s"])))


def _runs(times: Sequence[float]) -> list[tuple[float, float]]:
    """Return first and last of each run of points without a gap."""
    numbered = enumerate(times)
    groups = (list(group) for _, group in groupby(numbered, lambda pair: round(pair[1] / STEP_S) - pair[0]))
    return [(group[0][1], group[-1][1]) for group in groups]
