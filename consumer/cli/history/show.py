"""Lay out traces and steps as text for people; colours appear only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryStatus
from consumer.core.history.trace import DeliveryTrace, EventTrace, Miss
from consumer.core.history.wording import (
    Tone,
    clock,
    counted,
    describe,
    excerpt,
    span,
)
from consumer.core.subscription.brief import MatchNow
from consumer.core.text.printable import printable

STYLES: Mapping[Tone, str] = {Tone.GOOD: "green", Tone.BAD: "red", Tone.WAIT: "yellow", Tone.PLAIN: ""}
STATUS_STYLES: Mapping[DeliveryStatus, str] = {
    DeliveryStatus.DELIVERED: "bold green",
    DeliveryStatus.PARKED: "bold red",
    DeliveryStatus.WAITING: "bold yellow",
    DeliveryStatus.DELIVERING: "bold cyan",
    DeliveryStatus.CANCELLED: "bold",
}
PATTERNS_SHOWN = 5


def print_lines(lines: Iterator[Text]) -> None:
    """Print lines without wrapping."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(line)


def event_lines(found: EventTrace, now: float) -> Iterator[Text]:
    """Yield the timeline of an event; *now* is in Unix seconds."""
    key = found.key
    tenant = f"tenant {printable(key.tenant)}" if key.tenant else "no tenant"
    yield Text.assemble(
        ("event ", "dim"),
        (printable(key.event_id), "bold"),
        f"  {printable(key.type)}  {tenant}  (times in UTC)",
    )
    for row in found.rows:
        yield _step_line(row, width=0)
    if not found.rows:
        yield Text("  its arrival is not in the history", style="dim")
    for delivery in found.deliveries:
        yield Text("")
        yield from delivery_lines(delivery, now)
    if found.missing:
        yield Text("")
        yield Text(
            f"{counted(found.missing, 'further subscription')} matched, without a step so far: in a worker's "
            "hands, or queued"
        )
    if found.misses:
        yield Text("")
        yield Text("No delivery is known for these subscriptions, judged as they are configured now:")
        for miss in found.misses:
            yield _miss_line(miss, key.type)


def delivery_lines(found: DeliveryTrace, now: float) -> Iterator[Text]:
    """Yield the timeline of one delivery."""
    name = printable(found.name) or ("a deleted subscription" if found.subscription_id else "the event")
    state = found.state
    until = "" if state.until is None else f" until {clock(state.until)} (in {span(state.until - now)})"
    yield Text.assemble(
        (name, "bold"),
        f"  {printable(found.subscription_id)}  " if found.subscription_id else "  ",
        (state.status.value, STATUS_STYLES[state.status]),
        f"{until}, {counted(found.attempts, 'attempt')}",
    )
    width = max((len(describe(row).label) for row in found.rows), default=0)
    for row in found.rows:
        yield _step_line(row, width)
        if text := excerpt(row):
            yield Text(f"{'':27}{'':{width}}  answer  {text}", style="dim")
    yield from _queue_lines(found)


def _queue_lines(found: DeliveryTrace) -> Iterator[Text]:
    """Yield the place of the delivery in the broker, as far as it is known."""
    parked = found.parked
    if found.state.status is DeliveryStatus.PARKED:
        if parked is None:
            yield Text("  not in the index of parked entries: purged, or not yet indexed", style="dim")
        else:
            reason = f"{printable(parked.reason)}: {printable(parked.detail)}"
            yield Text(f"  parked entry {parked.entry_id} until {clock(parked.expires_at)}  {reason}")
    if found.waiting is not None:
        yield Text(f"  on the ladder until {clock(found.waiting.until)}")


def _step_line(row: HistoryRow, width: int) -> Text:
    words = describe(row)
    return Text.assemble(
        (f"  {clock(row.at)}  ", "dim"), f"{words.label:{width}}  ", (words.text, STYLES[words.tone])
    )


def _miss_line(miss: Miss, event_type: str) -> Text:
    return Text(f"  {printable(miss.subscription.full_name)}  {_why(miss, event_type)}")


def _why(miss: Miss, event_type: str) -> str:
    brief = miss.subscription
    match miss.match:
        case MatchNow.DISABLED:
            reason = f": {printable(brief.disabled_reason)}" if brief.disabled_reason else ""
            return f"disabled{reason}"
        case MatchNow.PATTERN:
            shown = ", ".join(map(printable, brief.events[:PATTERNS_SHOWN]))
            more = len(brief.events) - PATTERNS_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            return f"pattern: {shown}{rest} does not match {printable(event_type)}"
        case MatchNow.PAUSED:
            return "paused: it matches, and its deliveries wait; see --live"
        case MatchNow.MATCHES:
            return "matches now: it was added or changed later, or the history does not contain the delivery"


def tail_line(row: HistoryRow, names: Mapping[str, str]) -> Text:
    """Return a step as one line; *names* are the subscriptions' full names by id."""
    words = describe(row)
    target = names.get(row.subscription_id) or row.subscription_id or "-"
    answer = excerpt(row) if row.reason != "delivered" else ""
    return Text.assemble(
        (f"{clock(row.at)}  ", "dim"),
        (printable(row.event_id), "bold"),
        f"  {printable(row.type)}  {printable(target)}  {words.label}  ",
        (words.text, STYLES[words.tone]),
        (f"  {answer}" if answer else "", "dim"),
    )


def summary(event: EventTrace, found: DeliveryTrace | None) -> dict[str, object]:
    """Return one row of a list; without a delivery the event was unmatched."""
    if found is None:
        row = event.rows[-1] if event.rows else None
        said = None if row is None else describe(row)
        return {
            "time": None if row is None else clock(row.at),
            "event_id": event.key.event_id,
            "type": event.key.type,
            "subscription": None,
            "status": None if said is None else said.label,
            "attempts": 0,
            "last_step": None if said is None else said.text,
        }
    last = found.rows[-1] if found.rows else None
    return {
        "time": clock(found.state.since),
        "event_id": event.key.event_id,
        "type": event.key.type,
        "subscription": found.name or found.subscription_id,
        "status": found.state.status.value,
        "attempts": found.attempts,
        "last_step": None if last is None else describe(last).text,
    }
