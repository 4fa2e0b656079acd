"""Read a captured HTTP request from a raw dump, header lines, or a JSON object of headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from consumer.core.errors import ConfigError

_LINE = re.compile(r"(?:[<>] )?([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*)")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


def parse_headers(text: str) -> Mapping[str, str]:
    """Read ``Name: value`` lines, as curl and proxies print them, or a JSON object.

    Other lines (the request line, blank lines) are skipped. If a name occurs twice, its values are joined, as
    HTTP does.

    Raises:
        ConfigError: *text* contains no header.
    """
    headers: dict[str, str] = {}
    for name, value in _pairs(text):
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    if not headers:
        raise ConfigError("contains no headers; write lines such as `webhook-id: msg_1`, or a JSON object")
    return headers


def _pairs(text: str) -> list[tuple[str, str]]:
    if text.lstrip().startswith("{"):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = {}
        return [(str(name), _text(value)) for name, value in values.items()]
    found = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return [(match[1], match[2].strip()) for match in found if match is not None]


def _text(value: object) -> str:
    """Return a JSON value as text; some frameworks keep a list of values for each name."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def parse_request(raw: bytes) -> tuple[Mapping[str, str], bytes]:
    """Split a raw HTTP/1.1 request into headers and body; the body follows the first blank line.

    Raises:
        ConfigError: the request has no blank line, or no header before it.
    """
    end = _HEAD_END.search(raw)
    if end is None:
        raise ConfigError("has no blank line between headers and body; give --headers and --body instead")
    return parse_headers(raw[: end.start()].decode("latin-1")), raw[end.end() :]
