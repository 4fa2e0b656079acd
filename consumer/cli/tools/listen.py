"""``leveret listen``: a test endpoint on loopback.

Data flow: secrets, behaviour -> Listener -> a line per request on stdout; with --subscribe, the store has a
temporary subscription as long as the command listens.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer

from consumer.cli.shared.complete import tenant_names
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, warn
from consumer.core.errors import BadEvent, ConfigError
from consumer.core.event import jsontext
from consumer.core.text.printable import printable
from consumer.core.text.rfc3339 import from_datetime
from consumer.core.tools.behaviour import Behaviour
from consumer.edges.serve.listen import HOST, Listener, Received
from consumer.settings import load_settings
from consumer.settings.webhook_secret import VARIABLE, verifying_keys

SHOWN_CHARS = 160  #: characters of a body that a line for people shows


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The command line of ``leveret listen``."""

    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = (
        9000
    )
    secret_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the verification secrets, one a line; absent: {VARIABLE}."),
    ] = None
    subscribe: Annotated[
        list[str] | None, typer.Option(help="Subscribe to these event types while it listens; repeatable.")
    ] = None
    tenant: Annotated[
        str | None, typer.Option(help="Tenant of --subscribe.", autocompletion=tenant_names)
    ] = None
    status: Annotated[int, typer.Option(help="Answer with this status.")] = 200
    delay: Annotated[float, typer.Option(help="Wait this many seconds before each answer.")] = 0.0
    fail_ratio: Annotated[
        float, typer.Option(help="Answer this share of all attempts with 503, always the same ones.")
    ] = 0.0
    gone_after: Annotated[int | None, typer.Option(help="Answer 410 after this many requests.")] = None
    retry_after: Annotated[
        int, typer.Option(help="Answer 429 with Retry-After for this many seconds from the first request on.")
    ] = 0
    every: Annotated[int, typer.Option(help="Repeat --retry-after once per this many requests.")] = 10
    hold: Annotated[
        int | None, typer.Option(help="Hold this many requests, then answer all together; 0: never answer.")
    ] = None
    count: Annotated[int | None, typer.Option(min=1, help="End after this many requests.")] = None
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "listen",
        epilog=examples(
            "leveret listen --secret-file secret",
            "leveret listen --subscribe 'order.*' --tenant acme --fail-ratio 0.3",
            "leveret listen --port 9100 --delay 2 --json",
        ),
    )(listen)


@takes(ListenOptions)
def listen(options: ListenOptions) -> None:
    """Receive webhooks, verify them, and print one line for each; Ctrl-C ends it.

    A path that begins with /healthy, /slow, /flaky, /dead, /gone, /busy or /hold behaves as its name
    says, changed by its query: /slow?delay=0.5. Every other path behaves as the options of the command say.
    """
    if options.tenant is not None and not options.subscribe:
        raise typer.BadParameter("--tenant goes with --subscribe")
    if options.secret_file is not None and options.subscribe:
        raise typer.BadParameter("--subscribe makes its own secret; leave --secret-file out")
    with errors_in_one_line():
        asyncio.run(_listen(options))


async def _listen(options: ListenOptions) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    keys = () if options.subscribe else verifying_keys(options.secret_file)
    listener = Listener(keys, _behaviour(options), _Printer(options, stop))
    async with AsyncExitStack() as stack:
        port = await _start(listener, options.port)
        stack.push_async_callback(listener.stop)
        url = f"http://{HOST}:{port}"
        if options.subscribe:
            from consumer.cli.tools.temporary_subscription import TemporarySubscription  # noqa: PLC0415 (it brings the store, which nothing else needs)

            temporary = TemporarySubscription(load_settings(), f"{url}/", options.tenant, options.subscribe)
            listener.keys.append(await temporary.register())
            stack.push_async_callback(temporary.remove)
            types = " ".join(options.subscribe)
            typer.echo(f"subscribed {temporary.name} to {types} while this runs", err=True)
        elif not keys:
            warn(f"signatures are not checked; give --secret-file, {VARIABLE} or --subscribe")
        typer.echo(f"listening on {url}", err=True)
        await stop.wait()


async def _start(listener: Listener, port: int) -> int:
    try:
        return await listener.start(port)
    except OSError as error:
        raise ConfigError(f"port {port}: {error.strerror}; choose another with --port") from None


def _behaviour(options: ListenOptions) -> Behaviour:
    return Behaviour(
        status=options.status,
        delay_s=options.delay,
        fail_ratio=options.fail_ratio,
        gone_after=options.gone_after,
        retry_after_s=options.retry_after,
        every=options.every,
        hold=options.hold,
    )


class _Printer:
    """Prints each request, and stops the listener after the last one that was asked for."""

    def __init__(self, options: ListenOptions, stop: asyncio.Event) -> None:
        self._as_json = options.as_json
        self._left = options.count
        self._stop = stop

    def __call__(self, seen: Received) -> None:
        """Print *seen*."""
        try:
            if self._as_json:
                print_json(_row(seen))
            else:
                typer.echo(_line(seen))
        except BrokenPipeError:
            self._stop.set()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self._stop.set()


def _row(seen: Received) -> dict[str, object]:
    row: dict[str, object] = {
        "at": from_datetime(datetime.fromtimestamp(seen.began, UTC)),
        "took_s": round(seen.took_s, 6),
        "method": seen.method,
        "path": seen.path,
        "webhook_id": seen.event_id,
        "type": _type(seen.body),
        "attempt": seen.attempt,
        "signature": seen.signature,
        "problem": seen.problem,
        "status": seen.status,
        "retry_after_s": seen.retry_after_s,
        "size_bytes": len(seen.body),
    }
    return row | {"body": seen.body.decode("utf-8", "backslashreplace")}


def _line(seen: Received) -> str:
    status = "cut" if seen.status is None else str(seen.status)
    at = datetime.fromtimestamp(seen.began).strftime("%H:%M:%S.%f")[:-3]
    parts = [at, typer.style(status, fg="green" if status[0] == "2" else "red"), printable(seen.path[:80])]
    if seen.event_id is not None:
        parts += [_type(seen.body) or "?", seen.event_id[:80], f"attempt {seen.attempt}"]
    parts.append(f"signature {seen.signature}")
    if seen.retry_after_s is not None:
        parts.append(f"retry-after {seen.retry_after_s} s")
    if seen.problem is not None:
        parts.append(seen.problem)
    text = seen.body.decode("utf-8", "backslashreplace")
    cut = f"… ({len(seen.body)} bytes)" if len(text) > SHOWN_CHARS else ""
    return "  ".join([*parts[:2], *map(printable, parts[2:]), printable(text[:SHOWN_CHARS]) + cut])


def _type(body: bytes) -> str | None:
    """Return the event type in *body*; None if there is none."""
    try:
        jsontext.validate(body)
    except BadEvent:
        return None
    span = jsontext.find(body, ("type",))
    text = b"" if span is None else body[span[0] : span[1]]
    return str(orjson.loads(text)) if text.startswith(b'"') else None
