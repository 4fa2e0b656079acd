"""Set structlog up: JSON lines, or colours on a terminal. Text of strangers is escaped either way."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal, TextIO

import orjson
import structlog

FLUSH_S = 0.1  #: the longest that a line waits for company while more are logged
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Lines:
    """Takes whole lines and writes them together: a system call for each would be felt at thousands a second.

    A line waits for company for :data:`FLUSH_S` at most, and not at all from level warning on.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._lines: list[bytes] = []
        self._flushed_at = 0.0
        self._lost = 0  #: lines that could not be written; told once they can be again
        atexit.register(self.flush)

    def flush(self) -> None:
        """Write what waits."""
        if self._lines:
            lines, self._lines = self._lines, []
            if self._lost:
                lines.append(_render("error", {"event": "log.lost", "lines": self._lost}))
            try:
                self._target.write(b"\n".join(lines) + b"\n")
                self._target.flush()
            except (OSError, ValueError):  # a full disk or a closed pipe must not stop a delivery
                self._lost += len(lines)
            else:
                self._lost = 0
        self._flushed_at = time.monotonic()

    def debug(self, line: bytes) -> None:
        """Take a line that may wait."""
        self._lines.append(line)
        if time.monotonic() - self._flushed_at > FLUSH_S:
            self.flush()

    info = debug

    def warning(self, line: bytes) -> None:
        """Take a line that is written at once, behind those that wait."""
        self._lines.append(line)
        self.flush()

    error = critical = warning


class _Forgiving:
    """A terminal that may go away: what cannot be shown is dropped."""

    def __init__(self, target: TextIO) -> None:
        self._target = target

    def write(self, text: str) -> int:
        """Write *text* if that can be done."""
        try:
            return self._target.write(text)
        except (OSError, ValueError):
            return 0

    def flush(self) -> None:
        """Flush if that can be done."""
        with suppress(OSError, ValueError):
            self._target.flush()


_lines: Lines | None = None


def flush() -> None:
    """Write the lines that wait for company; the daemon calls it while little is logged."""
    if _lines is not None:
        _lines.flush()


async def flush_always() -> None:
    """Write the last lines of a burst, behind which nothing more is logged."""
    while True:
        await asyncio.sleep(FLUSH_S)
        flush()


def configure(level: str, form: Literal["auto", "json", "console"], stream: TextIO | None = None) -> None:
    """Send every log line to *stream* (stderr), from *level* on."""
    global _lines  # noqa: PLW0603 - as structlog's own configuration, one per process
    target = sys.stderr if stream is None else stream
    pretty = form == "console" or (form == "auto" and target.isatty())
    if pretty:
        processors: list[Any] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escape,
            structlog.dev.ConsoleRenderer(),
        ]
        factory: Any = structlog.PrintLoggerFactory(_Forgiving(target))  # type: ignore[arg-type]  # a sink is enough
    else:
        processors = []
        _lines = Lines(target.buffer)
        factory = _always(_lines)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]) if pretty else _line_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    # The AMQP library logs what we report ourselves, with URLs; only its errors pass.
    logging.basicConfig(level=logging.ERROR, stream=target, format="%(name)s: %(message)s", force=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    for name in ("aiormq", "aio_pika"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger(name).propagate = True  # the command line had turned it off


def _always(lines: Lines) -> Callable[..., Lines]:
    def factory(*_arguments: object) -> Lines:
        return lines

    return factory


def _line_logger(lowest: str) -> type[structlog.BoundLoggerBase]:
    """Return a logger that writes JSON lines from level *lowest* on, without a chain of processors.

    There is a line for every request: the chain cost 5.6 µs a line, this costs 1.5 µs.
    """

    def method(level: str) -> Callable[..., None]:
        if LEVELS[level] < LEVELS[lowest]:
            return lambda _self, _event, **_fields: None

        def log(self: structlog.BoundLoggerBase, event: str, **fields: object) -> None:
            fields["event"] = event
            if self._context:
                fields = {**self._context, **fields}
            getattr(self._logger, level)(_render(level, fields))

        return log

    return type("LineLogger", (structlog.BoundLoggerBase,), {level: method(level) for level in LEVELS})


def _render(level: str, event: dict[str, Any]) -> bytes:
    """Write one JSON line."""
    event["level"] = level
    event["timestamp"] = datetime.now(UTC)
    if "exc_info" in event:
        event = dict(structlog.processors.format_exc_info(None, level, event))
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_UTC_Z)
    except TypeError:  # text with half a surrogate pair, which a producer may send as a header
        return json.dumps(event, default=str).encode()


def _escape(_logger: Any, _name: str, event: dict[str, Any]) -> dict[str, Any]:
    """Show control characters as escapes: an endpoint must not write to the operator's terminal."""
    return {k: v.encode("unicode_escape").decode() if isinstance(v, str) else v for k, v in event.items()}
