"""``leveret trace``: show what happened to an event, or list deliveries.

Data flow: EVENT_ID and filters -> Inquiry -> EventTrace -> timeline, table or JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from consumer.cli.history.shared import Filtering, Filters, warn_if_off
from consumer.cli.history.show import (
    event_lines,
    print_lines,
    summary,
)
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, print_rows, warn
from consumer.core.history.trace import DeliveryTrace, EventTrace
from consumer.core.operate.trace_as_dict import delivery_as_dict, event_as_dict
from consumer.core.text.ids import event_id as webhook_id
from consumer.edges.operate.inquiry import Ask, Inquiry, SeenWaiting, opened_inquiry
from consumer.settings import Settings, load_settings

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
        filters, settings = options.filters(), load_settings()
        if options.event_id is None and not filters:
            raise typer.BadParameter(
                "name an event, or choose: --delivery, --subscription, --tenant, --failed or --since"
            )
        warn_if_off(settings)
        now = time.time()
        waiting = _look(settings, options, filters) if options.live else ()
        if options.event_id is None:
            _list(asyncio.run(_find(settings, options, filters, waiting)), options, now)
            return
        found = asyncio.run(_trace(settings, options, filters, waiting))
        if not found:
            fail(_nothing(options.event_id, settings, live=options.live))
        for number, each in enumerate(found):
            if options.as_json:
                print_json(event_as_dict(each))
                continue
            if number:
                typer.echo()
            print_lines(event_lines(each, now))


async def _trace(
    settings: Settings, options: TraceOptions, filters: Filters, waiting: Sequence[SeenWaiting]
) -> Sequence[EventTrace]:
    async with opened_inquiry(settings) as inquiry:
        found: Sequence[EventTrace] = ()
        given = options.event_id or ""
        for of in dict.fromkeys((given, webhook_id(given))):  # a producer's id may be sent as its hash
            found = found or await inquiry.event(of, time.time(), tenant=filters.tenant, waiting=waiting)
        await _check(inquiry, options, found)
    return [_narrowed(each, filters) for each in found]


async def _find(
    settings: Settings, options: TraceOptions, filters: Filters, waiting: Sequence[SeenWaiting]
) -> Sequence[EventTrace]:
    ask = Ask(
        delivery_id=filters.delivery_id,
        subscription_id=filters.subscription_id,
        tenant=filters.tenant,
        failed=filters.failed,
        since=filters.since,
        limit=options.limit,
    )
    async with opened_inquiry(settings) as inquiry:
        found = await inquiry.deliveries(ask, time.time(), waiting)
        await _check(inquiry, options, found)
    return found


async def _check(inquiry: Inquiry, options: TraceOptions, found: Sequence[EventTrace]) -> None:
    known = {each.subscription_id for event in found for each in event.deliveries}
    wanted = options.filters().subscription_id
    await options.check_subscription(inquiry.lookup, has_rows=wanted in known)


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


def _look(settings: Settings, options: TraceOptions, filters: Filters) -> Sequence[SeenWaiting]:
    """Return the deliveries on the ladder.

    Raises:
        BadParameter: there is nothing to choose them by.
    """
    from consumer.cli.history.live import look  # noqa: PLC0415 (imports the broker, which few calls need)

    if not (options.event_id or filters.subscription_id or filters.tenant):
        raise typer.BadParameter("--live needs an event, --subscription or --tenant")
    return look(settings, options.event_id and webhook_id(options.event_id), filters)


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


def _nothing(event_id: str, settings: Settings, *, live: bool) -> str:
    look = "" if live else ", or look into the rungs with --live"
    return (
        f"nothing is known of {event_id}: its steps may be older than [history] max_age_s "
        f"({settings.history.max_age_s:g} s), or no worker has taken it yet; check the id{look}"
    )
