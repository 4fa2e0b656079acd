"""Rules that find tenant, type, id, time and data in the events of a foreign exchange (``[[sources]]``).

Data flow: settings text -> parse_rule -> SourceRule; RawMessage + SourceRule -> (decode) Event or NeedsInbox.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from consumer.core.errors import ConfigError
from consumer.core.event import jsontext
from consumer.core.model import OPERATORS, RawMessage

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_FIELDS = frozenset({"tenant", "type", "id", "time", "data"})


@dataclass(frozen=True, slots=True)
class FromHeader:
    """``header:NAME``: the value of a message header."""

    name: str


@dataclass(frozen=True, slots=True)
class FromRoutingKey:
    """``routing_key`` or ``routing_key:N``: the key, or its word N, counted from 0."""

    word: int | None


@dataclass(frozen=True, slots=True)
class FromBody:
    """``body:/json/pointer``: a value in a JSON body."""

    pointer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Const:
    """``const:TEXT``: the same text for every event."""

    text: str


Extract: TypeAlias = FromHeader | FromRoutingKey | FromBody | Const


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """One ``[[sources]]`` entry. A field that is None is read as in any other event."""

    tenant: Extract | None = None
    type: Extract | None = None
    id: Extract | None = None
    time: Extract | None = None
    data: FromBody | None = None


def parse_rule(fields: Mapping[str, str]) -> SourceRule:
    """Build the rule of one ``[[sources]]`` entry.

    Args:
        fields: ``tenant``, ``type``, ``id``, ``time``, ``data``, each with its text; all are optional.

    Raises:
        ConfigError: a field is unknown, or its text is not a rule; the error names the field.
    """
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        raise ConfigError(f"unknown field {unknown[0]!r}; use {', '.join(sorted(_FIELDS))}")
    rules = {name: _parse(name, text) for name, text in fields.items()}
    data = rules.get("data")
    if data is not None and not isinstance(data, FromBody):
        raise ConfigError('data: must be "body:/json/pointer"')
    return SourceRule(
        tenant=rules.get("tenant"),
        type=rules.get("type"),
        id=rules.get("id"),
        time=rules.get("time"),
        data=data,
    )


def _parse(field: str, text: str) -> Extract:
    kind, colon, rest = text.partition(":")
    if kind == "const" and rest:
        if field == "tenant" and rest == OPERATORS:
            raise ConfigError(f"tenant: {rest!r} is reserved for operational events, choose another")
        return Const(rest)
    if kind == "header" and rest:
        if rest.lower().startswith("leveret-"):
            raise ConfigError(f"{field}: headers named leveret-* are ignored on incoming events")
        return FromHeader(rest)
    if kind == "body" and colon and _POINTER.fullmatch(rest):
        return FromBody(tuple(_unescape(token) for token in rest.split("/")[1:]))
    if kind == "routing_key" and (not colon or (rest.isascii() and rest.isdecimal() and len(rest) < 4)):
        return FromRoutingKey(int(rest) if colon else None)
    raise ConfigError(
        f'{field}: {text!r} is not a rule; write "header:NAME", "routing_key:N", '
        '"body:/json/pointer" or "const:TEXT"'
    )


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def extract(rule: Extract, message: RawMessage, value: object) -> object:
    """Return the value that *rule* finds in *message*, or None.

    Args:
        rule: The place of the value.
        message: The message as received.
        value: The parsed body if it is JSON, else None.
    """
    match rule:
        case Const(text):
            return text
        case FromHeader(name):
            return message.headers.get(name)
        case FromRoutingKey(None):
            return message.routing_key or None
        case FromRoutingKey(word):
            words = message.routing_key.split(".")
            return words[word] or None if word is not None and word < len(words) else None
        case FromBody(pointer):
            found = jsontext.value_at(value, pointer)
            if isinstance(found, float) and abs(found) >= jsontext.HUGE_FROM:
                return None
            return found if isinstance(found, str | int | float) else None
