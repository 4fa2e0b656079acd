"""Set structlog up: JSON lines, or colours on a terminal. Text of strangers is escaped either way."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import orjson
import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(level: str, form: Literal["auto", "json", "console"], stream: TextIO | None = None) -> None:
    """Send every log line to *stream* (stderr), from *level* on."""
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
        factory: Any = structlog.PrintLoggerFactory(target)
    else:
        processors = [_render]
        factory = structlog.BytesLoggerFactory(target.buffer)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    # The AMQP library logs what we report ourselves, with URLs; only its errors pass.
    logging.basicConfig(level=logging.ERROR, stream=target, format="%(name)s: %(message)s")
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    for name in ("aiormq", "aio_pika"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _render(logger: Any, level: str, event: dict[str, Any]) -> bytes:
    """Write one JSON line; a single step, as there is a line for every request."""
    event["level"] = level
    event["timestamp"] = datetime.now(UTC)
    if "exc_info" in event:
        event = dict(structlog.processors.format_exc_info(logger, level, event))
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_UTC_Z)
    except TypeError:  # text with half a surrogate pair, which a producer may send as a header
        return json.dumps(event, default=str).encode()


def _escape(_logger: Any, _name: str, event: dict[str, Any]) -> dict[str, Any]:
    """Show control characters as escapes: an endpoint must not write to the operator's terminal."""
    return {k: v.encode("unicode_escape").decode() if isinstance(v, str) else v for k, v in event.items()}
