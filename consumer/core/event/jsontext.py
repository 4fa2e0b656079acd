"""Check that bytes are JSON and find values in them by their span. The text itself is never rewritten.

Data flow: body -> parse -> members / find -> (start, end) -> core.webhook splices those bytes.

The accepted format is RFC 8259 in UTF-8, with numbers of any size (``1e400``) and duplicate names. Refused
are ``NaN``, ``Infinity``, lone surrogates, a byte order mark, trailing text, and more than 1,024 levels.
orjson refuses the same, and in addition numbers too large for a double; see :func:`parse`.

Producers write this text, so its cost is bounded: a text holds at most :data:`MAX_CONTAINERS` arrays and
objects, each check takes one or two passes of a regular expression, and a search ends after :data:`MAX_STEPS`
steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import orjson

from consumer.core.errors import BadEvent
from consumer.core.model import ParkReason

Span: TypeAlias = tuple[int, int]  #: first byte and one past the last

MAX_CONTAINERS: Final = 16_384
"""The most arrays and objects in one text: parsing and searching so many takes about 3 ms."""

BYTES_A_CONTAINER: Final = 16
"""A longer text, which only a raised ``max_event_bytes`` allows, may hold one of them for so many bytes."""

MAX_HUGE: Final = 1_024  #: the most numbers in one text that may be too large for a double

MAX_QUOTES: Final = 32_768
"""The most quotation marks in a text with a number too large for a double, which is passed twice."""

HUGE_FROM: Final = 1e29  #: a parsed number from here on may come from a text that is too large for a double

MAX_STEPS: Final = 4_096
"""Members, elements and brackets that one search may pass; about 4 ms. A container with at most
:data:`_LEAF_LEVELS` further levels counts as one step, whatever its size."""

_LEAF_LEVELS = 4

_WHITESPACE = b" \t\n\r"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _leaf(levels: int) -> bytes:
    """Return a pattern for a whole container of at most so many further levels."""
    inner = b"|" + _leaf(levels - 1) if levels else b""
    return rb"[\[{](?:[^\"\[\]{}]++|" + _STRING + inner + rb")*+[\]}]"


# An unclosed string extends to the end of the text. Otherwise each quote would start a scan of its own.
_NUMBER = rb"(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_NUMBER_OR_STRING = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?' + _NUMBER, re.DOTALL)

# Only a number with 209 digits, or with a three-digit exponent, can be too large for a double.
_TO_HUGE = re.compile(
    rb'((?:[^"eE0-9]++|[0-9]{1,208}+(?![0-9])|[eE](?!\+?[0-9]{3})|"(?:[^"\\]++|\\.)*+"?)*+)'
    rb"(?:([0-9]{208}[0-9]++|[eE]\+?[0-9]{2}[0-9]++)|\Z)",
    re.DOTALL,
)
_OPENING = rb'[^"\[{]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?[^"\[{]*+)*+[\[{]'
_TO_OPENING = re.compile(_OPENING, re.DOTALL)
_BATCH = 64  #: brackets that one match passes
_OVER_OPENINGS = re.compile(rb"(?:%b){%d}+" % (_OPENING, _BATCH), re.DOTALL)
_SCALAR = re.compile(_STRING + rb"|[^ \t\n\r,\]}]++", re.DOTALL)
_TO_BRACKET = re.compile(
    rb"(?:[^\"\[\]{}]++|" + _STRING + rb"|" + _leaf(_LEAF_LEVELS) + rb")*+([\[\]{}])", re.DOTALL
)
_NAME = re.compile(rb"[ \t\n\r,]*+(" + _STRING + rb")[ \t\n\r]*+:[ \t\n\r]*+", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_GAP = re.compile(rb"[ \t\n\r,]*+")


def _message(text: bytes) -> str | None:
    """Return orjson's error for *text*; None if orjson accepts it."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.msg
    return None


_OVERFLOW: Final = _message(b"1e999")
_TOO_DEEP: Final = _message(b"[" * 2_000)
_HEAD_BYTES = 16_384  #: searched for too many levels before the brackets of a text are counted


class Member(NamedTuple):
    """One member of an object and the span of its value."""

    name: str
    start: int
    end: int


class _Search:
    """One search through a text, and the number of steps left to it."""

    __slots__ = ("_left", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._left = MAX_STEPS

    def step(self) -> None:
        """Take one step.

        Raises:
            BadEvent: no step is left; ``too_large``.
        """
        self._left -= 1
        if self._left < 0:
            raise BadEvent(
                ParkReason.TOO_LARGE,
                f"the JSON has more than {MAX_STEPS} members, or levels of nesting, before the value",
            )


def validate(text: bytes) -> None:
    """Check that *text* is one JSON value with only white space around it.

    Raises:
        BadEvent: *text* is not such a value; ``malformed``.
    """
    parse(text)


def parse(text: bytes) -> object:
    """Return the value of *text*, which must be one JSON value with only white space around it.

    A number too large for a double is replaced by another float, of :data:`HUGE_FROM` or more.

    Raises:
        BadEvent: *text* is not JSON, ``malformed``; or it holds more than :data:`MAX_CONTAINERS` arrays and
            objects, more than :data:`MAX_HUGE` numbers too large for a double, or one of those beside more
            than :data:`MAX_QUOTES` quotation marks, ``too_large``.

    Source: RFC 8259; section 8.1 (UTF-8, no byte order mark), section 9 (a parser may limit depth).
    """
    _check_containers(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg != _OVERFLOW:
            raise BadEvent(ParkReason.MALFORMED, f"the body is not JSON: {error.msg}") from None
    return _parse_without_huge(text)


def _check_containers(text: bytes) -> None:
    """Refuse too many arrays and objects; brackets in strings are left out only if they are many."""
    most = max(MAX_CONTAINERS, len(text) // (BYTES_A_CONTAINER * _BATCH) * _BATCH)
    if text.count(b"[") + text.count(b"{") <= most:
        return
    if _message(text[:_HEAD_BYTES]) == _TOO_DEEP:
        raise BadEvent(ParkReason.MALFORMED, f"the body is not JSON: {_TOO_DEEP}")
    position = 0
    for _ in range(most // _BATCH):
        match = _OVER_OPENINGS.match(text, position)
        if match is None:
            return
        position = match.end()
    if _TO_OPENING.match(text, position):
        raise BadEvent(
            ParkReason.TOO_LARGE,
            f"the JSON has more than {most} arrays and objects; send less, or a link to it",
        )


def _parse_without_huge(text: bytes) -> object:
    """Parse again with a smaller number for each huge one, as orjson refuses numbers above 1.8e308.

    Only digits become fewer digits, so an invalid text stays invalid.
    """
    if text.count(b'"') > MAX_QUOTES:
        raise BadEvent(
            ParkReason.TOO_LARGE,
            f"the JSON has a number beyond 1e308 and more than {MAX_QUOTES} quotation marks",
        )
    left = MAX_HUGE

    def smaller(match: re.Match[bytes]) -> bytes:
        nonlocal left
        huge = match[2]
        if huge is None:
            return match[1]
        left -= 1
        if left < 0:
            raise BadEvent(ParkReason.TOO_LARGE, f"the JSON has more than {MAX_HUGE} numbers beyond 1e100")
        return match[1] + (huge[:30] if huge[0] in b"0123456789" else b"e99")

    try:
        return orjson.loads(_TO_HUGE.sub(smaller, text))
    except orjson.JSONDecodeError as error:
        raise BadEvent(ParkReason.MALFORMED, f"the body is not JSON: {error.msg}") from None


def first_fault(text: bytes) -> tuple[int, int, str] | None:
    """Return where *text* stops being JSON: line and column, both from 1, and why; None if it is JSON.

    This check is meant for the author of the text: it takes longer than :func:`validate`.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return *_place(text[: error.start].decode()), "not UTF-8 from here on"
    # Only a number of five characters or more can be too large for a double. "null" takes its place, padded.
    padded = _NUMBER_OR_STRING.sub(
        lambda match: match[0] if match[1] or len(match[0]) < 5 else b"null".ljust(len(match[0])), text
    )
    try:
        orjson.loads(padded)
    except orjson.JSONDecodeError as error:
        return *_place(padded.decode()[: error.pos]), error.msg.partition(":")[0]
    return None


def _place(before: str) -> tuple[int, int]:
    """Return line and column of the text that follows *before*."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def trim(text: bytes) -> Span:
    """Return the span of *text* without the white space around it."""
    start = len(text) - len(text.lstrip(_WHITESPACE))
    return start, max(start, len(text.rstrip(_WHITESPACE)))


def members(text: bytes, start: int) -> Iterator[Member]:
    """Yield the members of the object that begins at *start*, including duplicates.

    *text* must have passed :func:`parse`. The time is linear in the size of the object.

    Raises:
        BadEvent: the search takes more than :data:`MAX_STEPS` steps; ``too_large``.
    """
    yield from _members(_Search(text), start)


def find(text: bytes, pointer: Sequence[str]) -> Span | None:
    """Return the span of the value that *pointer* names, or None if that value does not exist.

    Args:
        text: A text that passed :func:`parse`.
        pointer: Reference tokens, unescaped; empty for the whole value. The last of duplicate names counts.

    Raises:
        BadEvent: the search takes more than :data:`MAX_STEPS` steps; ``too_large``.

    Source: RFC 6901.
    """
    span, search = trim(text), _Search(text)
    for token in pointer:
        child = _child(search, span[0], token)
        if child is None:
            return None
        span = child
    return span


def value_at(value: object, pointer: Sequence[str]) -> object:
    """Return the value that *pointer* names in a parsed value; None if it does not exist.

    Source: RFC 6901.
    """
    for token in pointer:
        if isinstance(value, dict):
            value = value.get(token)
        elif isinstance(value, list) and _is_index(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value


def _members(search: _Search, start: int) -> Iterator[Member]:
    text, position = search.text, start + 1
    while (match := _NAME.match(text, position)) is not None:
        end = _value_end(search, match.end())
        yield Member(orjson.loads(match[1]), match.end(), end)
        position = _GAP.match(text, end).end()  # type: ignore[union-attr]  # matches the empty text


def _child(search: _Search, start: int, token: str) -> Span | None:
    first = search.text[start]
    if first == 0x7B:  # {
        found = None
        for member in _members(search, start):
            if member.name == token:
                found = member.start, member.end
        return found
    if first == 0x5B and _is_index(token):  # [
        return _element(search, start, int(token))
    return None


def _is_index(token: str) -> bool:
    return _INDEX.fullmatch(token) is not None


def _element(search: _Search, start: int, index: int) -> Span | None:
    """Return the span of element *index* (from 0) of the array that begins at *start*."""
    text, position = search.text, start + 1
    while True:
        position = _GAP.match(text, position).end()  # type: ignore[union-attr]  # matches the empty text
        if text[position] == 0x5D:  # ]
            return None
        end = _value_end(search, position)
        if index == 0:
            return position, end
        index -= 1
        position = end


def _value_end(search: _Search, start: int) -> int:
    """Return one past the last byte of the value that begins at *start*."""
    search.step()
    text = search.text
    if text[start] not in b"{[":
        return _SCALAR.match(text, start).end()  # type: ignore[union-attr]  # the text is valid
    depth, position = 1, start + 1
    while depth:
        search.step()
        match = _TO_BRACKET.match(text, position)
        assert match is not None, "the text passed parse"  # noqa: S101  # for the type checker
        depth += 1 if match[1] in b"{[" else -1
        position = match.end()
    return position
