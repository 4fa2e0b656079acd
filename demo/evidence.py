"""Read the evidence from outside: the endpoints' records, the daemon's log and metrics, the parked queue.

Data flow: growing files -> Tail -> rows -> Watch.look -> Book, News; at the end listings -> a fresh Book.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import orjson
from prometheus_client.parser import text_string_to_metric_families

from demo.account import GONE, Book, Pair, Request
from demo.headlines import News
from demo.stage import Stage
from demo.traffic import Sent

METRICS_S: Final = 2.0  #: longest wait for the daemon's metrics


@dataclass(slots=True)
class Tail:
    """The complete lines that were added to a file of JSON lines since the last look."""

    file: Path
    _read_bytes: int = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the new rows; an incomplete line follows at the next look."""
        with self.file.open("rb") as lines:
            lines.seek(self._read_bytes)
            whole, _, _ = lines.read().rpartition(b"\n")
        if whole:
            self._read_bytes += len(whole) + 1
            yield from (orjson.loads(line) for line in whole.splitlines() if line.startswith(b"{"))


def request_of(row: Mapping[str, Any]) -> Request:
    """Convert one line of ``leveret listen --json`` into a request."""
    began = datetime.fromisoformat(row["at"]).timestamp()
    return Request(
        pair=Pair(str(row["webhook_id"]), row["path"].strip("/")),
        began=began,
        ended=began + row["took_s"],
        status=row["status"],
        good=row["signature"] == "good",
    )


@dataclass(slots=True)
class Watch:
    """The live look: feeds the book and the news from all that was written since the last one."""

    stage: Stage
    book: Book = field(default_factory=Book)
    news: News = field(default_factory=News)
    breakers: dict[str, str] = field(default_factory=dict)  #: endpoint -> state of its breaker, or disabled
    sent: list[Sent] = field(default_factory=list)  #: every made event, for the account at the end
    _requests: Tail = field(init=False)
    _log: Tail = field(init=False)
    _names: dict[str, str] = field(init=False)  #: subscription id -> endpoint

    def __post_init__(self) -> None:
        self._requests = Tail(self.stage.requests)
        self._log = Tail(self.stage.daemon_log)
        self._names = {id_: name for (_, name), id_ in self.stage.subscription_ids.items()}

    def look(self, now: float) -> None:
        """Read all new rows; *now* in Unix seconds."""
        self.news.look(now)
        for row in self._requests.rows():
            request = request_of(row)
            self.book.requested(request)
            self.news.requested(request, row["retry_after_s"])
        for row in self._log.rows():
            self._logged(row)
        self.book.settle_unmatched()

    def _logged(self, row: Mapping[str, Any]) -> None:
        """Add one line of the daemon's log."""
        name = self._names.get(str(row.get("subscription_id")))
        if name is None:
            return
        event = row.get("event")
        if event == "delivery.parked":
            self.book.parked(Pair(row["event_id"], name))
            self.news.parked(name, row["reason"])
        elif event == "breaker.changed":
            self.breakers[name] = row["after"]
            self.news.breaker(name, row["after"])
        elif event == "endpoint.disabled":
            if name == GONE:
                self.book.switched_off()
            self.breakers[name] = "disabled"
            self.news.disabled(name)


def final_book(stage: Stage, watch: Watch) -> Book:
    """Balance the account from the endpoints' whole records and the contents of the parked queue.

    The daemon's log, on which the live view relies, is not used here.

    Raises:
        RuntimeError: a listing failed.
    """
    book = Book()
    for sent in watch.sent:
        book.made(*sent)
        if watch.book.is_confirmed(sent.id):
            book.confirmed(sent.id)
    for row in Tail(stage.requests).rows():
        book.requested(request_of(row))
    names = {id_: name for (_, name), id_ in stage.subscription_ids.items()}
    for entry in stage.parked():
        book.parked(Pair(str(entry["event_id"]), names.get(str(entry["subscription_id"]), "?")))
    enabled = {str(row["id"]): row["enabled"] for row in stage.listing("subscriptions", "list")}
    if any(not enabled[id_] for id_, name in names.items() if name == GONE):
        book.switched_off()
    book.settle_unmatched()
    return book


def daemon_counts(stage: Stage) -> dict[str, int]:
    """Return the daemon's own counts of ended deliveries by verdict; empty if it does not answer."""
    try:
        answer = httpx2.get(f"{stage.health_url}/metrics", timeout=METRICS_S, trust_env=False)
        answer.raise_for_status()
    except httpx2.HTTPError:
        return {}
    return {
        sample.labels["verdict"]: int(sample.value)
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == "leveret_deliveries_total"
    }
