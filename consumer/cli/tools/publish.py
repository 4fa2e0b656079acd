"""``leveret publish``: publish one event or many, as an application does.

Data flow: TYPE, DATA (argument, file, stdin) -> Draft, checked -> publish_paced -> ids on stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from consumer.cli.shared.complete import tenant_names
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, warn
from consumer.core.errors import BrokerUnavailable, LeveretError
from consumer.core.event.amqp_values import normalise_type
from consumer.core.event.compose import Composed, Draft, Form, check_id
from consumer.core.subscription.brief import SubscriptionBrief, any_matches
from consumer.core.text.ids import uuid7
from consumer.core.text.printable import printable
from consumer.core.text.rfc3339 import from_ms
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import Link, find_broker
from consumer.edges.operate.paced import Schedule, publish_paced
from consumer.ports import Publication
from consumer.settings import Settings, load_settings
from topology.names import Names

HINT_S = 2.0  #: longest wait for the store after the events are confirmed
FEW = 20  #: on a terminal, more ids than this are not printed

_DATA = "The event's data; - is stdin; absent: --file, or stdin when something is piped in."
_NUMBERED = "With --count, {n} in DATA and --id is the number of the event, from 1."


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """The command line of ``leveret publish``."""

    type: Annotated[str, typer.Argument(metavar="TYPE", help="Event type, such as order.created.")]
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA)] = None
    tenant: Annotated[
        str | None, typer.Option(help="Tenant; absent: the default tenant.", autocompletion=tenant_names)
    ] = None
    file: Annotated[Path | None, typer.Option(help="Read the data from this file.")] = None
    content_type: Annotated[str, typer.Option(help="Media type of the data.")] = "application/json"
    cloudevents: Annotated[
        Literal["structured", "binary"] | None, typer.Option(help="Send a CloudEvent 1.0 in this mode.")
    ] = None
    source: Annotated[str, typer.Option(help="Source of a CloudEvent.")] = "/leveret/publish"
    id: Annotated[str | None, typer.Option(help="Id of the event; absent: a new one for each.")] = None
    count: Annotated[int | None, typer.Option(min=1, help=f"Publish this many events. {_NUMBERED}")] = None
    rate: Annotated[
        float | None, typer.Option(min=0.001, max=1e6, help="Events a second; absent: as fast as possible.")
    ] = None
    as_json: AsJson = False


@dataclass(slots=True)
class _Confirmed:
    """The events that the broker has confirmed so far."""

    began: float  #: monotonic seconds
    count: int = 0
    first: str = ""
    last: str = ""
    seconds: float = 0.0

    def add(self, event_id: str) -> None:
        """Count one event."""
        self.count += 1
        self.first, self.last = self.first or event_id, event_id
        self.seconds = time.monotonic() - self.began


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "publish",
        epilog=examples(
            """leveret publish order.created '{"id":"ord_1","total":"12.50"}' --tenant acme""",
            "leveret publish order.created --file order.json --cloudevents structured",
            """leveret publish order.created '{"n":{n}}' --count 1000 --rate 50""",
        ),
    )(publish)


@takes(PublishOptions)
def publish(options: PublishOptions) -> None:
    """Publish events, each confirmed by the broker, and print their ids."""
    _check_usage(options)
    with errors_in_one_line():
        settings = load_settings()
        draft = _draft(options, settings)
        draft.check(settings.events.max_event_bytes)
        _warn_of_other_type(draft.type)
        link = find_broker(settings)
        done = _Confirmed(time.monotonic())
        try:
            _run(options, draft, link, Names(settings.topology.prefix), done)
        except BrokerUnavailable as error:
            fail(_stopped(done, options.count, str(error)))
        except KeyboardInterrupt:
            typer.echo(f"leveret: stopped: {done.count} of {options.count or 1} confirmed", err=True)
            raise
    if options.count is not None and not options.as_json:
        _sum_up(done)
    _hint_if_unmatched(settings, draft)


def _check_usage(options: PublishOptions) -> None:
    if options.data is not None and options.file is not None:
        raise typer.BadParameter("give the data as an argument or with --file, not both")
    if options.rate is not None and options.count is None:
        raise typer.BadParameter("--rate needs --count")
    if (options.count or 1) > 1 and options.id is not None and "{n}" not in options.id:
        raise typer.BadParameter("--id with --count needs {n} in it, or all events would have the same id")
    if options.data is None and options.file is None and sys.stdin.isatty():
        raise typer.BadParameter("no data: give it as an argument, with --file, or pipe it in")


def _draft(options: PublishOptions, settings: Settings) -> Draft:
    if options.id is not None:
        check_id(options.id)
    return Draft(
        type=options.type,
        tenant=settings.events.default_tenant if options.tenant is None else options.tenant,
        data=_read(options),
        content_type=options.content_type,
        form=Form.PLAIN if options.cloudevents is None else Form(options.cloudevents),
        source=options.source,
        tenant_header=settings.events.tenant_header,
        numbered=options.count is not None,
    )


def _read(options: PublishOptions) -> bytes:
    """Return the data as bytes, unchanged."""
    if options.file is not None:
        return options.file.read_bytes()
    if options.data is None or options.data == "-":
        return sys.stdin.buffer.read()
    return os.fsencode(options.data)


def _warn_of_other_type(given: str) -> None:
    seen = normalise_type(given)
    if seen != given:
        warn(f"receivers see the type {seen}: words of A-Z a-z 0-9 _ joined by full stops")


def _run(options: PublishOptions, draft: Draft, link: Link, names: Names, done: _Confirmed) -> None:
    """Publish all events; *done* is up to date at any time."""
    count = options.count or 1
    sent: dict[str, Composed] = {}

    def make(number: int) -> Publication:
        now = time.time()
        given = uuid7(int(now * 1000), os.urandom(10)) if options.id is None else options.id
        event = draft.compose(given, number, now)
        sent[event.id] = event
        return _publication(event, names)

    with ExitStack() as stack:
        advance = _progress(stack, count)
        shown = options.as_json or count <= FEW or not sys.stdout.isatty()

        def confirmed(publication: Publication) -> None:
            event = sent.pop(str(publication.message_id))
            done.add(event.id)
            if shown:
                _show(event, draft, as_json=options.as_json)
            advance()

        schedule = Schedule(count=count, rate_per_s=options.rate)
        asyncio.run(_publish_all(link, names.events, make, schedule, confirmed))


async def _publish_all(
    link: Link,
    exchange: str,
    make: Callable[[int], Publication],
    schedule: Schedule,
    confirmed: Callable[[Publication], None],
) -> None:
    connection = await connect(link.options, "publish")
    try:
        await publish_paced(connection, exchange, make, schedule, confirmed)
    finally:
        await close_quietly(connection)


def _publication(event: Composed, names: Names) -> Publication:
    return Publication(
        exchange=names.events,
        routing_key=event.routing_key,
        body=event.body,
        headers=event.headers,
        content_type=event.content_type,
        message_id=event.id,
        timestamp_s=event.timestamp_s,
    )


def _progress(stack: ExitStack, count: int) -> Callable[[], None]:
    """Return a function that advances a progress bar; only many events on a terminal have a bar."""
    if count <= FEW or not sys.stderr.isatty():
        return lambda: None
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task("publishing", total=count)
    return lambda: bar.advance(task)


def _show(event: Composed, draft: Draft, *, as_json: bool) -> None:
    if not as_json:
        typer.echo(printable(event.id))
        return
    print_json(
        {
            "id": event.id,
            "webhook_id": event.webhook_id,
            "tenant": draft.tenant,
            "type": draft.type,
            "at": from_ms(int(event.timestamp_s * 1000)),
            "size_bytes": len(event.body),
        }
    )


def _hint_if_unmatched(settings: Settings, draft: Draft) -> None:
    """Note on stderr that no subscription wants the events; without a store at hand nothing is noted."""
    from consumer.edges.store import opened_lookup  # noqa: PLC0415 (its libraries load after the confirms)

    kind = normalise_type(draft.type)

    async def read() -> tuple[str, Sequence[SubscriptionBrief] | None]:
        async with asyncio.timeout(HINT_S), opened_lookup(settings) as lookup:
            return lookup.where, await lookup.subscriptions(draft.tenant)

    try:
        where, known = asyncio.run(read())
    except (LeveretError, OSError):  # a time-out too
        return  # the events are confirmed; a store that is away does not matter for them
    if known is not None and not any_matches(known, kind):
        warn(
            f"unmatched: no enabled subscription of {draft.tenant} in {where} wants {kind}; "
            f"see `leveret subscriptions list --tenant {draft.tenant}`"
        )


def _sum_up(done: _Confirmed) -> None:
    rate = f", {done.count / done.seconds:,.1f} a second" if done.seconds > 0 and done.count > 1 else ""
    ids = f"; ids {printable(done.first)} to {printable(done.last)}" if done.count > FEW else ""
    typer.echo(f"{done.count:,} confirmed in {done.seconds:.2f} s{rate}{ids}", err=True)


def _stopped(done: _Confirmed, count: int | None, error: str) -> str:
    if count is None:
        return error
    return f"{error} ({done.count} of {count} events were confirmed)"
