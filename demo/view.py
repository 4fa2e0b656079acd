"""Draw the demo: a table of endpoints, the tenants, the current news, and links. Pure.

Data flow: Snapshot -> rich renderable, for a terminal that is redrawn, or once at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.account import Row
from demo.cast import TENANTS

_BREAKER_STYLES: Final[Mapping[str, str]] = {
    "closed": "green",
    "open": "bold red",
    "probing": "yellow",
    "disabled": "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the demo at one moment."""

    seconds: float  #: seconds since the first event
    rows: Sequence[Row]
    events: Mapping[str, int]  #: confirmed events by tenant
    events_per_s: float
    deliveries_per_s: float
    breakers: Mapping[str, str]  #: endpoint -> state of its breaker, or disabled; a missing one is closed
    headline: str
    links: Sequence[tuple[str, str]] = field(default=())  #: (name, target)


def live(now: Snapshot) -> RenderableType:
    """Return the whole picture."""
    head = Text.assemble(
        ("Leveret demo", "bold"),
        f"   {now.seconds:,.0f} s   ",
        (f"{now.events_per_s:.0f} events/s", "bold cyan"),
        "  to  ",
        (f"{now.deliveries_per_s:.0f} deliveries/s", "bold green"),
        "   Ctrl-C ends it",
    )
    headline = Text.assemble(("now: ", "dim"), (now.headline, "bold yellow"))
    return Group(
        head, Text(), endpoints(now), Text(), tenants(now), Text(), headline, Text(), links(now.links)
    )


def line(now: Snapshot) -> str:
    """Return the snapshot in one line."""
    sums = {
        "delivered": sum(row.delivered for row in now.rows),
        "waiting": sum(row.waiting for row in now.rows),
        "parked": sum(row.parked for row in now.rows),
    }
    counts = ", ".join(f"{count:,} {what}" for what, count in sums.items())
    return f"{now.seconds:3.0f} s: {sum(now.events.values()):,} events, {counts}; {now.headline}"


def endpoints(now: Snapshot) -> Table:
    """Return the table with one line for each endpoint, and their sum."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("endpoint", "all", style="bold", no_wrap=True)
    table.add_column("answers", no_wrap=True)
    for title, values in (
        ("delivered", [row.delivered for row in now.rows]),
        ("waiting", [row.waiting for row in now.rows]),
        ("parked", [row.parked for row in now.rows]),
        ("unmatched", [row.unmatched for row in now.rows]),
    ):
        table.add_column(title, f"{sum(values):,}", justify="right", no_wrap=True)
    table.add_column("breaker", no_wrap=True)
    table.add_column("typical", justify="right", no_wrap=True)
    for row in now.rows:
        table.add_row(*_cells(row, now.breakers.get(row.endpoint.name, "closed")))
    return table


def _cells(row: Row, breaker: str) -> list[RenderableType]:
    return [
        row.endpoint.name,
        Text(row.endpoint.does, style="dim"),
        Text(f"{row.delivered:,}", style="green" if row.delivered else ""),
        Text(f"{row.waiting:,}", style="yellow" if row.waiting else "dim"),
        Text(f"{row.parked:,}", style="red" if row.parked else "dim"),
        Text(f"{row.unmatched:,}", style="" if row.unmatched else "dim"),
        Text(breaker, style=_BREAKER_STYLES.get(breaker, "")),
        span(row.half_s),
    ]


def tenants(now: Snapshot) -> Text:
    """Return the events of each tenant, in one line."""
    line = Text("events by tenant: ", style="dim")
    for tenant in TENANTS:
        line.append(f"{tenant} ", style="default")
        line.append(f"{now.events.get(tenant, 0):,}  ", style="bold default")
    return line


def links(where: Sequence[tuple[str, str]]) -> RenderableType:
    """Return the links to further information."""
    table = Table.grid(padding=(0, 2))
    for what, target in where:
        table.add_row(Text(what, style="dim"), Text(target, overflow="fold"))
    return table


def span(seconds: float | None) -> str:
    """Write a time for people: 4 ms, 2.1 s."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
