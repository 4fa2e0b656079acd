"""``leveret tail``: follow attempts and ends of deliveries as the workers record them.

Data flow: history, each half second -> Follower -> one line per step, or JSON.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from consumer.cli.history.shared import Filtering, demand_subscription, warn_if_off
from consumer.cli.history.show import print_lines, tail_line
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, warn
from consumer.cli.values.traces import Filters
from consumer.core.errors import StoreUnavailable
from consumer.core.history.follow import Follower
from consumer.core.history.records import HistoryRow, Query, Step, StoredStep
from consumer.core.history.wording import as_dict
from consumer.core.text.ids import event_id as webhook_id
from consumer.edges.operate.inquiry import Inquiry, opened_inquiry
from consumer.settings import Settings, load_settings

EVERY_S = 0.5  #: between two looks
PAGE = 1_000  #: rows of one query


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions(Filtering):
    """The command line of ``leveret tail``."""

    event: Annotated[str | None, typer.Option("--event", help="Only of the event with this id.")] = None
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many steps.")] = None
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "tail",
        epilog=examples(
            "leveret tail --tenant acme",
            "leveret tail --subscription acme/shop --failed",
            "leveret tail --since 10m --json",
        ),
    )(takes(TailOptions)(tail))


def tail(options: TailOptions) -> None:
    """Follow attempts and ends of deliveries live; Ctrl-C ends it with exit code 0."""
    with errors_in_one_line():
        filters, settings = options.filters(), load_settings()
        warn_if_off(settings)
        with suppress(KeyboardInterrupt):
            asyncio.run(_follow(settings, options, filters))


async def _follow(settings: Settings, options: TailOptions, filters: Filters) -> None:
    query = Query(
        event_id=webhook_id(options.event) if options.event else "",
        delivery_id=filters.delivery_id,
        subscription_id=filters.subscription_id,
        tenant=filters.tenant,
        failed_only=filters.failed,
        since=filters.since,
        limit=PAGE,
    )
    async with opened_inquiry(settings) as inquiry:
        await demand_subscription(inquiry.lookup, options.subscription or "")
        last = 0 if filters.since else await _last(inquiry)
        printer, left = _Printer(inquiry, as_json=options.as_json), options.limit
        follower, fault = Follower(last), ""
        while True:
            try:
                for row in await _look(inquiry, query, follower):
                    await printer.show(row)
                    left = None if left is None else left - 1
                    if left == 0:
                        return
                fault = ""
            except StoreUnavailable as error:
                if str(error) != fault:
                    fault = str(error)
                    warn(fault)
            await asyncio.sleep(EVERY_S)


async def _last(inquiry: Inquiry) -> int:
    """Return the number of the newest row; 0 if there is none."""
    newest = await inquiry.history.steps(Query(limit=1))
    return newest[-1].seq if newest else 0


async def _look(inquiry: Inquiry, query: Query, follower: Follower) -> Sequence[HistoryRow]:
    """Return the rows that are new since the last look, in order of writing."""
    found: list[StoredStep] = []
    newest, after = await _last(inquiry), follower.after
    while True:
        page = await inquiry.history.steps(replace(query, after=after))
        found += follower.fresh(page)
        if len(page) < PAGE:
            break
        after = page[-1].seq
    follower.looked(time.monotonic(), newest)
    return [step.row for step in found if step.row.step not in (Step.RECEIVED, Step.SETTLED)]


class _Printer:
    """Prints steps, with the names of their subscriptions."""

    def __init__(self, inquiry: Inquiry, *, as_json: bool) -> None:
        self._inquiry = inquiry
        self._as_json = as_json
        self._names: dict[str, str] = {}  #: by id; empty for a subscription that is gone

    async def show(self, row: HistoryRow) -> None:
        """Print one step at once."""
        if self._as_json:
            print_json(as_dict(row))
        else:
            await self._learn(row.subscription_id)
            print_lines(iter([tail_line(row, self._names)]))
        sys.stdout.flush()

    async def _learn(self, subscription_id: str) -> None:
        if subscription_id and subscription_id not in self._names:
            found = await self._inquiry.lookup.subscription(subscription_id)
            self._names[subscription_id] = "" if found is None else found.full_name
