"""Check that bytes are JSON and find values in them by their span. Nothing is ever written anew.

Data flow: body -> validate -> members / find -> (start, end) -> core.webhook splices those bytes.

What passes is RFC 8259 in UTF-8: numbers of any size (``1e400``), duplicate names. What does not:
``NaN``, ``Infinity``, lone surrogates, a byte order mark, trailing text, more than 1,024 levels.
orjson refuses just these, and beside them only numbers that no double holds; see `validate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import orjson

from consumer.core.errors import BadEvent
from consumer.core.model import ParkReason

Span: TypeAlias = tuple[int, int]  #: first byte and one past the last

_WHITESPACE = b" \t\n\r"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_LEAF = rb"[\[{](?:[^\"\[\]{}]++|" + _STRING + rb")*+[\]}]"  # a container that holds no container

# An unclosed string runs to the end: without that, each quote would start its own scan.
_NUMBER_OR_STRING = re.compile(
    rb'("(?:[^"\\]++|\\.)*+"?)|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?', re.DOTALL
)
_SCALAR = re.compile(_STRING + rb"|[^ \t\n\r,\]}]++", re.DOTALL)
_TO_BRACKET = re.compile(rb"(?:[^\"\[\]{}]++|" + _STRING + rb"|" + _LEAF + rb")*+([\[\]{}])", re.DOTALL)
_NAME = re.compile(rb"[ \t\n\r,]*+(" + _STRING + rb")[ \t\n\r]*+:[ \t\n\r]*+", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_GAP = re.compile(rb"[ \t\n\r,]*+")


class Member(NamedTuple):
    """One member of an object and where its value stands."""

    name: str
    start: int
    end: int


def validate(text: bytes) -> None:
    """Return if *text* is one JSON value with nothing but white space around it.

    Raises:
        BadEvent: it is not; ``malformed``.

    Source: RFC 8259; section 8.1 (UTF-8, no byte order mark), section 9 (a parser may limit depth).
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        _validate_without_numbers(text)


def _validate_without_numbers(text: bytes) -> None:
    """Check *text* again with ``null`` for each number, as orjson refuses those above 1.8e308.

    ``null`` joins to no neighbour, so nothing becomes valid by it that was not.
    """
    stripped = _NUMBER_OR_STRING.sub(lambda match: match[1] or b"null", text)
    try:
        orjson.loads(stripped)
    except orjson.JSONDecodeError as error:
        raise BadEvent(ParkReason.MALFORMED, f"the body is not JSON: {error.msg}") from None


def first_fault(text: bytes) -> tuple[int, int, str] | None:
    """Return where *text* stops being JSON: line and column, both from 1, and why; None where it is JSON.

    For people who wrote the text: it takes longer than :func:`validate`.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return *_place(text[: error.start].decode()), "no UTF-8 from here on"
    # Only numbers of five characters and more can be too large for a double: their places stay as they are.
    padded = _NUMBER_OR_STRING.sub(
        lambda match: match[0] if match[1] or len(match[0]) < 5 else b"null".ljust(len(match[0])), text
    )
    try:
        orjson.loads(padded)
    except orjson.JSONDecodeError as error:
        return *_place(padded.decode()[: error.pos]), error.msg.partition(":")[0]
    return None


def _place(before: str) -> tuple[int, int]:
    """Return line and column of what follows *before*."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def trim(text: bytes) -> Span:
    """Return the span of *text* without the white space around it."""
    start = len(text) - len(text.lstrip(_WHITESPACE))
    return start, max(start, len(text.rstrip(_WHITESPACE)))


def members(text: bytes, start: int) -> Iterator[Member]:
    """Yield the members of the object that begins at *start*, duplicates too.

    *text* must have passed :func:`validate`. Takes time linear in the size of the object.
    """
    position = start + 1
    while (match := _NAME.match(text, position)) is not None:
        end = _value_end(text, match.end())
        yield Member(orjson.loads(match[1]), match.end(), end)
        position = _GAP.match(text, end).end()  # type: ignore[union-attr]  # matches the empty text


def find(text: bytes, pointer: Sequence[str]) -> Span | None:
    """Return the span of the value that *pointer* names, or None where there is none.

    Args:
        text: What passed :func:`validate`.
        pointer: Reference tokens, unescaped; empty for the whole value. Of duplicate names the last counts.

    Source: RFC 6901.
    """
    span = trim(text)
    for token in pointer:
        child = _child(text, span[0], token)
        if child is None:
            return None
        span = child
    return span


def _child(text: bytes, start: int, token: str) -> Span | None:
    if text[start] == 0x7B:  # {
        found = None
        for member in members(text, start):
            if member.name == token:
                found = member.start, member.end
        return found
    if text[start] == 0x5B and _is_index(token):  # [
        return _element(text, start, int(token))
    return None


def _is_index(token: str) -> bool:
    return _INDEX.fullmatch(token) is not None


def _element(text: bytes, start: int, index: int) -> Span | None:
    """Return the span of element *index* (from 0) of the array that begins at *start*."""
    position = start + 1
    while True:
        position = _GAP.match(text, position).end()  # type: ignore[union-attr]  # matches the empty text
        if text[position] == 0x5D:  # ]
            return None
        end = _value_end(text, position)
        if index == 0:
            return position, end
        index -= 1
        position = end


def _value_end(text: bytes, start: int) -> int:
    """Return one past the last byte of the value that begins at *start*."""
    if text[start] not in b"{[":
        return _SCALAR.match(text, start).end()  # type: ignore[union-attr]  # the text is valid
    depth, position = 1, start + 1
    while depth:
        match = _TO_BRACKET.match(text, position)
        assert match is not None, "the text passed validate"  # noqa: S101  # for the type checker
        depth += 1 if match[1] in b"{[" else -1
        position = match.end()
    return position
