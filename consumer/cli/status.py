"""``leveret status``: show the activity of the daemon at the listen address.

Data flow: GET /metrics, a pause, GET /metrics and /readyz -> two MetricsPage -> Status -> table or JSON.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated

import httpx2
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, show
from consumer.core.errors import ConfigError
from consumer.core.text.printable import printable
from consumer.core.tools.daemon_status import MetricsPage, Status, status
from consumer.edges.inquire.daemon_page import Readiness, daemon_address, read_page, read_readiness
from consumer.settings import load_settings

TIMEOUT_S = 10.0
"""Longest wait for one answer of the daemon, in seconds."""

TROUBLES_SHOWN = 5
"""Subscriptions in trouble that the table names; JSON has all."""

At = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Address of the daemon; absent: LEVERET_LISTEN.")
]
Interval = Annotated[
    float, typer.Option(min=0.1, max=3600, help="Seconds between the two samples behind each rate.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")]


@dataclass(frozen=True, slots=True)
class _Now:
    """One state of the daemon, as shown."""

    at: str
    ready: bool
    reasons: tuple[str, ...]  #: why the daemon is not ready; otherwise its notes
    status: Status

    def as_dict(self) -> dict[str, object]:
        """Return the fields of the JSON line."""
        troubles = [one._asdict() for one in self.status.troubles]
        now = {**asdict(self.status), "troubles": troubles}
        return {"at": self.at, "ready": self.ready, "reasons": list(self.reasons), **now}


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "status", epilog=examples("leveret status", "leveret status --watch", "leveret status --json")
    )(status_)


def status_(at: At = None, interval_s: Interval = 1.0, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show what the daemon does now: rates, waiting, breakers, parked. Exit 1 unless it is ready."""
    with errors_in_one_line():
        address = at if at is not None else daemon_address(load_settings())
        looks = _looks(address, interval_s)
        if not watch:
            now = next(looks)
            _print(now, as_json=as_json)
            raise typer.Exit(0 if now.ready else 1)
        with suppress(KeyboardInterrupt):
            _follow(looks, as_json=as_json)


def _follow(looks: Iterator[_Now], *, as_json: bool) -> None:
    console = Console(file=sys.stdout, highlight=False)
    if as_json or not console.is_terminal:
        for now in looks:
            _print(now, as_json=as_json)
            sys.stdout.flush()
        return
    with Live(console=console, auto_refresh=False, screen=False) as live:
        for now in looks:
            live.update(_table(now), refresh=True)


def _looks(at: str, interval_s: float) -> Iterator[_Now]:
    """Yield the daemon's state again and again; each rate covers the time since the previous one.

    Raises:
        ConfigError: nothing answers at the address, or something other than the daemon.
    """
    with _client(at) as client:
        before = _look(client, at)
        while True:
            time.sleep(interval_s)
            after = _look(client, at)
            ready, reasons = _ready(client, at)
            yield _Now(at, ready, reasons, status(before, after))
            before = after


def _client(at: str) -> httpx2.Client:
    try:
        return httpx2.Client(base_url=f"http://{at}", timeout=TIMEOUT_S, trust_env=False)
    except httpx2.InvalidURL as error:
        raise ConfigError(f"{at} is not a valid address: {error}; give --at HOST:PORT") from None


def _look(client: httpx2.Client, at: str) -> MetricsPage:
    text = _get(client, at, "/metrics").text
    moment = time.monotonic()
    page = read_page(text, moment)
    if page is None:
        raise ConfigError(
            f"the server at {at} is not a leveret daemon; give --at HOST:PORT or set LEVERET_LISTEN"
        )
    return page


def _ready(client: httpx2.Client, at: str) -> Readiness:
    answer = _get(client, at, "/readyz", allowed=503)
    return read_readiness(answer.status_code, answer.text)


def _get(client: httpx2.Client, at: str, path: str, allowed: int = 200) -> httpx2.Response:
    try:
        answer = client.get(path)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        remedy = "start it with `leveret run`, give --at HOST:PORT or set LEVERET_LISTEN"
        raise ConfigError(f"no daemon answers at {at}: {error or type(error).__name__}; {remedy}") from None
    if answer.status_code not in (200, allowed):
        raise ConfigError(
            f"{at}{path} answered {answer.status_code}; is it a leveret daemon? give --at HOST:PORT"
        )
    return answer


def _print(now: _Now, *, as_json: bool) -> None:
    if as_json:
        print_json(now.as_dict())
        return
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=200)
    console.print(_table(now))


def _table(now: _Now) -> Group:
    word, style = ("ready", "green") if now.ready else ("not ready", "bold red")
    head = [Text.assemble("leveret at ", now.at, ": ", (word, style))]
    head += [Text(f"  {printable(reason)}", style="yellow") for reason in now.reasons]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value, style in _rows(now.status):
        table.add_row(name, Text(value, style=style))
    return Group(*head, table)


def _rows(one: Status) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and style of each line."""
    ratio = one.success_ratio
    yield "events", f"{show(one.events_per_s)}/s", ""
    unmatched = f"{show(one.unmatched_per_s)}/s, {one.unmatched} since the start"
    yield "unmatched", unmatched, "yellow" if one.unmatched_per_s else ""
    yield "deliveries", f"{show(one.deliveries_per_s)}/s", ""
    yield "attempts", f"{show(one.attempts_per_s)}/s", ""
    style = "red" if ratio is not None and ratio < 0.9 else ""
    yield "success", "- (no attempt)" if ratio is None else f"{ratio:.1%}", style
    yield "in flight", show(one.in_flight), ""
    yield "waiting", _counts(one.waiting), ""
    yield "overdue", _counts(one.overdue), "red" if one.overdue else ""
    yield "in hand", _counts(one.windows), ""
    yield "breakers", _counts(one.breakers), "red" if one.breakers.get("open") else ""
    yield "in trouble", _troubles(one), "red" if one.troubles else ""
    yield "parked", show(one.parked) + _gap(one), "yellow" if one.parked else ""
    off = f", {one.subscriptions_disabled} disabled" if one.subscriptions_disabled else ""
    yield "subscriptions", f"{one.subscriptions}{off}", ""


def _gap(one: Status) -> str:
    """Return how the index of parked entries differs from the queue, with the remedy."""
    if one.parked_indexed is None or one.parked_indexed == one.parked:
        return ""
    return f" (the index has {one.parked_indexed}; if that stays, run `leveret parked reindex`)"


def _troubles(one: Status) -> str:
    """Return the subscriptions in most trouble, the worst first, with causes."""
    worst = [f"{printable(t.subscription)} {t.cause} {t.share:.0%}" for t in one.troubles[:TROUBLES_SHOWN]]
    more = len(one.troubles) - len(worst)
    return ", ".join(worst + ([f"and {more} more"] if more else [])) or "none"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{printable(name)} {count}" for name, count in counts.items() if count) or "none"
