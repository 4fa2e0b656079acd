"""``leveret trace``: show what happened to an event, or list deliveries.

Data flow: EVENT_ID and filters -> Inquiry -> EventTrace -> timeline, table or JSON.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import typer

from consumer.cli.history.recorded import RecordedTraces
from consumer.cli.history.shared import Filtering
from consumer.cli.history.show import (
    event_lines,
    print_lines,
    summary,
)
from consumer.cli.remote.choice import chosen
from consumer.cli.remote.traces import RemoteTraces
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, print_rows, warn
from consumer.cli.values.traces import Filters
from consumer.core.history.trace import DeliveryTrace, EventTrace
from consumer.core.operate.trace_as_dict import delivery_as_dict, event_as_dict
from consumer.settings import load_settings

COLUMNS = ("time", "event_id", "type", "subscription", "status", "attempts", "last_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions(Filtering):
    """The command line of ``leveret trace``."""

    event_id: Annotated[
        str | None, typer.Argument(metavar="EVENT_ID", help="Id of the event; absent: list deliveries.")
    ] = None
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="Without EVENT_ID: at most this many deliveries.")
    ] = 20
    live: Annotated[
        bool, typer.Option("--live", help="Look into the rungs too, for deliveries without a history.")
    ] = False
    as_json: AsJson = False


class Traces(Protocol):
    """What is known of events: in the history and the store, or behind an API."""

    def look(self, event_id: str | None, filters: Filters) -> None:
        """Look into the rungs too, for what follows.

        Raises:
            LeveretError: the broker is away, or this source cannot do it.
        """

    def event(self, event_id: str, filters: Filters) -> Sequence[EventTrace]:
        """Return the traces of an event; several if tenants share the id.

        Raises:
            LeveretError: nothing is known of it, or there is no such subscription.
        """

    def newest(self, filters: Filters, limit: int) -> Sequence[EventTrace]:
        """Return traces of the newest matching deliveries, each with this one delivery, in order of time.

        Raises:
            LeveretError: there is no such subscription.
        """


def _traces() -> Traces:
    client = chosen()
    return RecordedTraces(load_settings()) if client is None else RemoteTraces(client)


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "trace",
        epilog=examples(
            "leveret trace ord-17",
            "leveret trace ord-17 --subscription acme/shop --json",
            "leveret trace --tenant acme --failed --since 1h",
            "leveret trace --delivery dlv_0123456789abcdef",
        ),
    )(takes(TraceOptions)(trace))


def trace(options: TraceOptions) -> None:
    """Show what happened to an event: each attempt, its answer, and why a subscription did not get it."""
    with errors_in_one_line():
        filters, source = options.filters(), _traces()
        if options.event_id is None and not filters:
            raise typer.BadParameter(
                "name an event, or choose: --delivery, --subscription, --tenant, --failed or --since"
            )
        now = time.time()
        if options.live:
            _look(source, options, filters)
        if options.event_id is None:
            _list(source.newest(filters, options.limit), options, now)
            return
        found = source.event(options.event_id, filters)
        for number, each in enumerate(_narrowed(each, filters) for each in found):
            if options.as_json:
                print_json(event_as_dict(each))
                continue
            if number:
                typer.echo()
            print_lines(event_lines(each, now))


def _look(source: Traces, options: TraceOptions, filters: Filters) -> None:
    """Look into the rungs.

    Raises:
        BadParameter: there is nothing to choose deliveries by.
    """
    if not (options.event_id or filters.subscription_id or filters.tenant):
        raise typer.BadParameter("--live needs an event, --subscription or --tenant")
    source.look(options.event_id, filters)


def _narrowed(event: EventTrace, filters: Filters) -> EventTrace:
    """Return the trace with only the wanted deliveries; *since* and *failed* judge their rows."""

    def wanted(each: DeliveryTrace) -> bool:
        of = delivery_as_dict(event, each)["delivery_id"]
        return (
            filters.subscription_id in ("", each.subscription_id)
            and filters.delivery_id in ("", of)
            and (each.failed or not filters.failed)
            and each.state.since >= filters.since
        )

    chosen = filters.subscription_id
    return replace(
        event,
        deliveries=[each for each in event.deliveries if wanted(each)],
        misses=[miss for miss in event.misses if chosen in ("", miss.subscription.id)],
    )


def _list(found: Sequence[EventTrace], options: TraceOptions, now: float) -> None:
    """Print one row per delivery; a single delivery that was named by its id is shown whole."""
    if options.delivery is not None:
        if not found:
            fail(
                f"no step of {options.delivery} is in the history; a delivery that succeeded at its first "
                "attempt is found by its event id"
            )
        for each in found:
            print_json(event_as_dict(each)) if options.as_json else print_lines(event_lines(each, now))
        return
    pairs = [(event, one) for event in found for one in (event.deliveries or (None,))]
    if options.as_json:
        for event, one in pairs:
            print_json(summary(event, None) if one is None else delivery_as_dict(event, one))
        return
    print_rows(
        COLUMNS, [summary(event, one) for event, one in pairs], as_json=False, empty="no delivery found"
    )
    if len(pairs) >= options.limit:
        warn(f"only the newest {options.limit} are listed; see --limit")
