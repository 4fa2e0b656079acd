"""JSON passes unchanged; any other text is refused, at a bounded cost."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadEvent
from consumer.core.event import jsontext
from tests.support.builders.strategies import JSON, WHITE

VALID = {
    "huge exponent": b"1e400",
    "negative huge exponent": b'{"a":[-1E+400,2]}',
    "400 digits": b"1" * 400,
    "100,000 digits": b"[" + b"9" * 100_000 + b"]",
    "huge number beside a string of digits": b'{"1e400":"01 1. -","b":1e999}',
    "negative zero": b"-0",
    "negative zero, float": b"-0.0",
    "duplicate names": b'{"a":1,"a":2}',
    "surrogate pair": rb'"\ud83d\ude00"',
    "escaped NUL": rb'"\u0000"',
    "noncharacter": '"\uffff"'.encode(),
    "line separator": '"\u2028"'.encode(),
    "white space around": b" \t\r\n1 \n",
    "1,024 levels": b"[" * 1024 + b"]" * 1024,
}
INVALID = {
    "empty": b"",
    "white space only": b" \n\t",
    "NaN": b"NaN",
    "NaN inside": b'{"a":NaN}',
    "Infinity": b"Infinity",
    "-Infinity": b"[-Infinity]",
    "lone high surrogate": rb'"\ud800"',
    "lone low surrogate": rb'"\udc00"',
    "surrogates the wrong way": rb'"\udc00\ud800"',
    "high surrogate and a letter": rb'"\ud800\u0041"',
    "lone surrogate in a name": rb'{"\ud800":1}',
    "lone surrogate beside a huge number": rb'[1e400,"\ud800"]',
    "invalid UTF-8": b'"\xff"',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "overlong UTF-8": b'"\xc0\x80"',
    "trailing text": b"{} x",
    "two values": b"1 2",
    "NUL at the end": b"1\x00",
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "leading zero": b"01",
    "leading zero beside a huge number": b"[1e400,01]",
    "no digit after the point": b"[1e400,1.]",
    "two points": b"1e400.5",
    "plus sign": b"+1e400",
    "minus alone": b"[1e400,-]",
    "number as a name": b"{1e400:1}",
    "number joined to a word": b"[1e400null]",
    "trailing comma": b"[1e400,]",
    "comment": b"[1/*x*/]",
    "single quotes": b"'a'",
    "raw control character": b'"\x1f"',
    "raw tab": b'"\t"',
    "bad escape": rb'"\x41"',
    "open string": b'"abc',
    "open string after a huge number": rb'[1e400,"\"\"',
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "100,000 levels, open": b'{"a":' * 100_000,
}


def passes(text: bytes) -> bool:
    """Return whether *text* passes as JSON."""
    try:
        jsontext.validate(text)
    except BadEvent:
        return False
    return True


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_all_json_passes(text: bytes) -> None:
    """Fault 5: numbers of any size and duplicate names are JSON and pass."""
    assert passes(text)


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID.keys())
def test_nothing_else_passes(text: bytes) -> None:
    """Faults 1, 2, 3, 5: text that is not RFC 8259 JSON in UTF-8, or is nested too deeply, is malformed."""
    with pytest.raises(BadEvent) as caught:
        jsontext.validate(text)

    assert caught.value.reason == "malformed"


@given(st.text(alphabet='[]{},:"\\ \t01239.eE+-ntrufalsdNIy', max_size=24))
def test_agrees_with_a_second_parser(text: str) -> None:
    """Faults 2, 5: the result agrees with Python's json, apart from its extensions of RFC 8259."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
        expected = True
    except ValueError:
        expected = False

    assert passes(text.encode()) == expected


@given(
    st.lists(st.sampled_from(["1e400", "-1E999", "0", '"\\"1e400"', "null"]), min_size=1, max_size=6), WHITE
)
def test_huge_numbers_pass_anywhere(values: list[str], white: bytes) -> None:
    """Fault 5: a number too large for a double passes in every place of a value."""
    text = b"[" + (white + b"," + white).join(value.encode() for value in values) + b"]"

    assert passes(white + text + white)


@pytest.mark.parametrize(
    "text",
    [rb"\"" * 125_000, b'"' + rb"\"" * 125_000, b"[" * 250_000, b"-" * 250_000, b"[1e400" + b',"' * 80_000],
    ids=["quotes", "open string", "brackets", "signs", "short strings"],
)
def test_time_is_linear(text: bytes) -> None:
    """Fault 3: 250 kB of hostile text take less than a second."""
    began = time.process_time()
    with pytest.raises(BadEvent):
        jsontext.validate(text)

    assert time.process_time() - began < 2.0


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6), WHITE, st.booleans())
def test_members_are_those_of_the_parser(value: dict[str, object], white: bytes, ascii_only: bool) -> None:
    """SW-05: each span, parsed alone, gives the member's value; no member is missing."""
    body = white + json.dumps(value, ensure_ascii=ascii_only, indent=len(white) or None).encode() + white

    found = {m.name: json.loads(body[m.start : m.end]) for m in jsontext.members(body, len(white))}

    assert found == value


@given(JSON, st.data())
def test_find_walks_to_every_value(value: object, data: st.DataObject) -> None:
    """Fault 2: a JSON pointer leads to the bytes of the value that it names."""
    body = json.dumps(value).encode()
    pointer: list[str] = []
    here = value
    while isinstance(here, dict | list) and here and data.draw(st.booleans()):
        if isinstance(here, dict):
            key = data.draw(st.sampled_from(sorted(here)))
            pointer.append(key)
            here = here[key]
        else:
            index = data.draw(st.integers(0, len(here) - 1))
            pointer.append(str(index))
            here = here[index]

    span = jsontext.find(body, pointer)

    assert span is not None
    assert json.loads(body[span[0] : span[1]]) == here


@pytest.mark.parametrize(
    "pointer", [["b"], ["a", "3"], ["a", "-"], ["a", "01"], ["a", "x"], ["a", "0", "y"], ["a", "9" * 40]]
)
def test_find_says_when_there_is_nothing(pointer: list[str]) -> None:
    """Fault 2: a pointer to a missing value gives None instead of an exception."""
    assert jsontext.find(b' {"a": [1, 2, 3 ] } ', pointer) is None


def test_the_last_of_duplicate_names_counts() -> None:
    """Fault 5: the last of duplicate names counts, as in every common parser."""
    assert jsontext.find(rb'{"a":1,"\u0061":22}', ["a"]) == (16, 18)


@pytest.mark.parametrize("outer", [b"[%b]", b'{"a":%b}', b'[["]\\"",%b]]'])
def test_a_member_behind_wide_values_is_found(outer: bytes) -> None:
    """Faults 3, 86: the search passes a container of few levels in one step."""
    inner = outer % b'{"b":[1,{"c":"}"}],"d":"twenty bytes of text"}'
    body = b'{"x":[' + b",".join([inner] * 3_200) + b'],"data":7}'
    jsontext.validate(body)

    span = jsontext.find(body, ["data"])

    assert span is not None
    assert body[span[0] : span[1]] == b"7"


@pytest.mark.parametrize(
    "parts",
    [[b"[" * 500 + b"]" * 500] * 32, [b"[" * 7 + b"]" * 7] * 2_340],
    ids=["deep", "many"],
)
def test_a_search_through_too_many_levels_is_given_up(parts: list[bytes]) -> None:
    """Fault 86: a search through many brackets ends after 4,096 steps, with the reason."""
    body = b'{"x":[' + b",".join(parts) + b'],"data":7}'
    jsontext.validate(body)

    with pytest.raises(BadEvent, match="too_large: the JSON has more than 4096 members"):
        jsontext.find(body, ["data"])


@pytest.mark.parametrize("container", [b"[]", b"{}", b'[{"a":"]"}]'])
def test_more_containers_than_the_loop_can_afford_are_refused(container: bytes) -> None:
    """Fault 86: up to 16,384 arrays and objects pass; 100,000 of them stopped the loop for 20 ms."""
    many = 16_383 // (container.count(b"[") + container.count(b"{"))
    jsontext.validate(b"[" + b",".join([container] * many) + b"]")

    with pytest.raises(BadEvent, match="too_large: the JSON has more than 16384 arrays and objects"):
        jsontext.validate(b"[" + b",".join([container] * (many + 1)) + b"]")


@pytest.mark.parametrize(
    "string", [b'"["', rb'"\"[{"', b'"' + b"[" * 300 + b'"'], ids=["one", "escaped", "many"]
)
def test_brackets_in_strings_are_text(string: bytes) -> None:
    """Only brackets outside strings begin an array or object."""
    jsontext.validate(b"[" + b",".join([string] * 40_000) + b"]")


def test_a_search_through_too_many_members_is_given_up() -> None:
    """Fault 86: 5,000 names, or 5,000 elements before the wanted one, end the search."""
    members = b'{"a":1' + b',"":1' * 5_000 + b"}"
    elements = b"[0" + b",1" * 5_000 + b"]"

    with pytest.raises(BadEvent, match="too_large"):
        jsontext.find(members, ["a"])
    with pytest.raises(BadEvent, match="too_large"):
        jsontext.find(elements, ["4999"])
    assert jsontext.value_at(jsontext.parse(elements), ["4999"]) == 1


def test_more_huge_numbers_than_anybody_needs_are_refused() -> None:
    """Fault 86: up to 1,024 huge numbers pass unchanged; a text with more is refused."""
    jsontext.validate(b"[" + b",".join([b"1e400"] * 1_024) + b"]")

    with pytest.raises(BadEvent, match="too_large"):
        jsontext.validate(b"[" + b",".join([b"1e400"] * 1_025) + b"]")


def test_a_huge_number_among_more_strings_than_anybody_needs_is_refused() -> None:
    """Fault 86: such a text is passed twice, which took 10 ms for 65,000 strings."""
    jsontext.validate(b"[1e999" + b',""' * 16_384 + b"]")
    jsontext.validate(b"[1e99" + b',""' * 65_000 + b"]")

    with pytest.raises(BadEvent, match="too_large: the JSON has a number beyond 1e308"):
        jsontext.validate(b"[1e999" + b',""' * 16_385 + b"]")


def filled(start: bytes, part: bytes, end: bytes) -> bytes:
    """Return as many of *part* as fit into 256 KiB."""
    return start + part * ((262_144 - len(start) - len(end)) // len(part)) + end


HARMLESS = filled(b"[1", b",1", b"]")
BROKEN = {
    "brackets": b"[" * 262_144,
    "objects": b'{"a":' * 52_428,
    "quotes": b'"' * 262_144,
    "minus signs": b"[1e999," + b"-" * 262_000,
    "backslashes": b'"' + b"\\" * 262_143,
}
COSTLY = {
    "numbers": filled(b"[1e999", b",1", b"]"),
    "floats": filled(b"[1e999", b",1.5", b"]"),
    "exponents": filled(b"[1e999", b",1e1", b"]"),
    "strings": b"[1e999" + b',""' * 16_384 + b"]",
    "letters": filled(b"[1e999,", b"1e", b"]"),
    "huge numbers": filled(b"[0", b",1e999", b"]"),
    "digits": b"9" * 262_144,
    "an exponent": b"1e" + b"1" * 262_142,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_text_costs_no_more_than_sound_one(text: bytes) -> None:
    """Faults 3, 86: broken text is read only up to its fault; a second pass took 8 to 30 ms."""
    assert cost_s(text) < 5 * cost_s(HARMLESS)


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_huge_number_costs_one_more_pass(text: bytes) -> None:
    """Fault 86: with one huge number, 256 KiB of text cost less than 60 times as much as without it."""
    assert cost_s(text) < 60 * cost_s(HARMLESS)


def cost_s(text: bytes) -> float:
    """Return the processor time of one parse of *text*: the least of five runs."""
    return min(_once_s(text) for _ in range(5))


def _once_s(text: bytes) -> float:
    began = time.thread_time()
    passes(text)
    return time.thread_time() - began


@pytest.mark.parametrize("text", [*VALID.values(), *INVALID.values()], ids=[*VALID, *INVALID])
def test_a_fault_has_a_place_exactly_where_the_text_is_no_json(text: bytes) -> None:
    """Fault 2: `first_fault` and `validate` agree about every text."""
    try:
        jsontext.validate(text)
    except BadEvent:
        assert jsontext.first_fault(text) is not None
    else:
        assert jsontext.first_fault(text) is None


@given(JSON, st.integers(0, 200), st.binary(max_size=3))
def test_fault_and_verdict_agree_about_damaged_json(value: object, at: int, damage: bytes) -> None:
    """Fault 2: they also agree about JSON with any insertion."""
    text = json.dumps(value).encode()
    damaged = text[:at] + damage + text[at:]
    try:
        jsontext.validate(damaged)
    except BadEvent:
        assert jsontext.first_fault(damaged) is not None
    else:
        assert jsontext.first_fault(damaged) is None


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b'{"a":1,}', 1, 7),
        (b'{"a":1e400,\n "b":}', 2, 6),
        (b"[1e400, 01]", 1, 9),
        ('{"é":\nx}'.encode(), 2, 1),
        (b'{"a":\n"\xff"}', 2, 2),
        (b"", 1, 1),
    ],
)
def test_the_place_is_where_a_person_looks(text: bytes, line: int, column: int) -> None:
    """Lines and columns count characters from 1; numbers too large for a double are not faults."""
    fault = jsontext.first_fault(text)

    assert fault is not None
    assert fault[:2] == (line, column)
