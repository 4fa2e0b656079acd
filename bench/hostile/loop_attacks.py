"""Messages, answers and names whose reading costs more than their size: the attacks of item 1."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from bench.hostile.attacks import Attack, Stage, Strike
from bench.hostile.hosts import MANY
from tests.support.hostile.header_tables import HEADER_TABLES
from tests.support.hostile.messages import HOSTILE, Raw, send
from tests.support.processes.daemon import NO_BREAKER, retry, subscription

EVERY_S = 0.04  #: a hostile message each: 200 take 8 s
BODY_BYTES = 256 * 1024  #: the default of ``max_event_bytes``
PATTERNS = 1_000
CLOUDEVENT = "application/cloudevents+json"


def messages(one: Raw) -> Strike:
    """Return a function that publishes *one* again and again, each time with a new id."""

    async def strike(stage: Stage) -> None:
        many = (replace(one, id=f"{one.id}-{number}") for number in range(stage.messages))
        await send(stage.broker.url, many, EVERY_S)

    return strike


def _padded(start: bytes, part: bytes, end: bytes) -> bytes:
    """Return as many of *part* as fit into a body."""
    return start + part * ((BODY_BYTES - len(start) - len(end)) // len(part)) + end


def _headers() -> Sequence[Attack]:
    return [
        Attack(name=f"headers-{name}", item=1, strike=messages(Raw(id=f"headers-{name}", table=table)))
        for name, table in HEADER_TABLES.items()
    ]


_EVENT = b'"specversion":"1.0","id":"1","source":"/s","type":"t"'


def _bodies() -> Sequence[Attack]:
    bomb = gzip.compress(b'"' + bytes(64 * 1024 * 1024), 9)
    bodies = {
        "json-depth": Raw(id="depth", body=b"[" * BODY_BYTES, content_type=CLOUDEVENT),
        "json-objects": Raw(id="objects", body=b'{"a":' * (BODY_BYTES // 5), content_type=CLOUDEVENT),
        "json-members": Raw(
            id="members", body=_padded(b"{" + _EVENT, b',"":1', b"}"), content_type=CLOUDEVENT
        ),
        "json-brackets": Raw(
            id="brackets",
            body=_padded(b"{" + _EVENT + b',"data":[0', b",[[]]", b"]}"),
            content_type=CLOUDEVENT,
        ),
        "json-numbers": Raw(id="numbers", body=_padded(b"[0", b",1e999", b"]")),
        "json-escapes": Raw(id="escapes", body=_padded(b'{"a":[1e999', b',"\\n"', b"]}")),
        "gzip": Raw(id="gzip", body=bomb, content_encoding="gzip"),
    }
    return [Attack(name=name, item=1, strike=messages(raw)) for name, raw in bodies.items()]


def _patterns(stage: Stage) -> Sequence[Mapping[str, object]]:
    """Return 1,000 patterns of 255 characters, each its own, that all stay alive to the last word."""
    heads = list(product("#*a", repeat=7))[:PATTERNS]
    patterns = [".".join((*head, *("#.*.#.a" for _ in range(30)))) for head in heads]
    patterns = [pattern[:253] + ".x" for pattern in patterns]
    own = {"tenant": HOSTILE, "events": patterns}
    return [subscription("patterns", f"{stage.answers}/heads/ok", **own)]


async def _long_types(stage: Stage) -> None:
    """Publish types of 127 words, each another one, so that no answer is remembered."""
    words = ".".join("a" * 120)
    many = (Raw(id=f"type-{n}", type=f"{words}.a.b{n:04d}") for n in range(stage.messages))
    await send(stage.broker.url, many, EVERY_S)


def _answer_attack(name: str, url: str) -> Attack:
    """Return an attack by an endpoint: each delivery gets the answer, or the name's addresses, once."""

    def own(stage: Stage) -> Sequence[Mapping[str, object]]:
        more = {"tenant": HOSTILE, "events": ["hostile.event"], "breaker": NO_BREAKER}
        where = f"http://{MANY}:9/" if url == MANY else f"{stage.answers}{url}"
        return [subscription(name, where, retry=retry(max_attempts=1), **more)]

    return Attack(name=name, item=1, strike=messages(Raw(id=name)), subscriptions=own)


ATTACKS: Sequence[Attack] = (
    *_headers(),
    *_bodies(),
    Attack(name="type-words", item=1, strike=_long_types, subscriptions=_patterns),
    _answer_attack("dns-addresses", MANY),
    _answer_attack("answer-lines", "/heads/lines"),
    _answer_attack("answer-cookies", "/heads/cookies"),
    _answer_attack("answer-retry-after", "/heads/retry-after"),
    _answer_attack("answer-pipelined", "/heads/pipelined"),
    _answer_attack("answer-interim", "/heads/interim"),
)
