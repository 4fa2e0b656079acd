"""Reading an answer: the result is the same however the bytes are cut, and no exception escapes."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumer.core.model import OutcomeKind
from consumer.edges.http.outcomes import AttemptFailed
from consumer.edges.http.response.answer import HEAD_BYTES, Answer
from tests.support.servers.answers import KINDS, OK
from tests.support.servers.answers import Kind as Answered

LIMIT = 1_000

WORDS = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 204\n", b"HTTP/1.1 100 x\r\n\r\n", b"HTTP/1.1 ", b"503 \r\n"),
        *(b"Content-Length: 3\r\n", b"content-length:0\n", b"Transfer-Encoding: chunked\r\n"),
        *(
            b"Connection: close\r\n",
            b"Connection: keep-alive\r\n",
            b" folded\r\n",
            b"x\0: y\r\n",
            b"no colon\n",
        ),
        *(
            b"\r\n",
            b"\n",
            b"\r",
            b":",
            b"3\r\nabc\r\n",
            b"0\r\n\r\n",
            b"0\r\nX: y\r\n\r\n",
            b"abc",
            b"zz\r\n",
        ),
    ]
)
BYTES = st.one_of(st.lists(WORDS, max_size=12).map(b"".join), st.binary(max_size=60))


def read(pieces: list[bytes]) -> tuple[object, ...]:
    """Return everything that can be seen of an answer after *pieces* and a close."""
    answer = Answer(LIMIT)
    try:
        for piece in pieces:
            answer.feed(piece)
        kept = answer.kept
        answer.end()
    except AttemptFailed as fault:
        return (fault.kind, answer.status)
    return (answer.status, bytes(answer.body), answer.over, kept, bool(answer.fault), answer.values("x"))


@given(BYTES, st.sets(st.integers(min_value=0, max_value=300), max_size=8))
@example(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", {len(OK) + 31, len(OK) + 40})
def test_how_the_bytes_are_cut_does_not_matter(data: bytes, cuts: set[int]) -> None:
    """Fault 91: the same bytes in one segment, or in many, are the same answer."""
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})

    assert read([data[start:end] for start, end in pairwise(at)]) == read([data])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_byte_by_byte_is_the_same(kind: Answered) -> None:
    """Fault 91: every kind of answer in the table."""
    data = b"".join(kind.pieces)

    assert read([bytes([byte]) for byte in data]) == read([data])


@given(BYTES)
def test_bytes_behind_a_head_never_undo_it(data: bytes) -> None:
    """Fault 91: once there is a status, nothing raises."""
    for head in (OK + b"\r\n", OK + b"Content-Length: 3\r\n\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\n"):
        answer = Answer(LIMIT)
        answer.feed(head + data)
        answer.feed(data)
        answer.end()

        assert (answer.status, answer.over) == (200, True)
        assert len(answer.body) <= LIMIT


@pytest.mark.parametrize(
    ("size", "kind"), [(HEAD_BYTES, None), (HEAD_BYTES + 1, OutcomeKind.TOO_LARGE)], ids=["fits", "too-large"]
)
def test_the_limit_of_a_head_is_exact(size: int, kind: OutcomeKind | None) -> None:
    """Faults 49, 91: 64 KiB with its empty line are taken, one byte more is not; also where it never ends."""
    head = OK + b"X: " + b"y" * (size - len(OK) - len(b"X: \r\n\r\n")) + b"\r\n\r\n"
    assert len(head) == size

    assert read([head])[0] == (kind or 200)
    assert read([head[:-2] + b"zz"])[0] == (kind or OutcomeKind.RESET)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (b"Content-Length: 0\r\n", True),
        (b"Content-Length: 0, 0\r\n", True),
        (b"Connection: Close\r\nContent-Length: 0\r\n", False),
        (b"Connection: keep-alive, close\r\nContent-Length: 0\r\n", False),
        (b"Content-Length : 0\r\n", False),
        (b"X: y\r\n folded\r\nContent-Length: 0\r\n", False),
        (b"X: y\rz\r\nContent-Length: 0\r\n", False),
        (b"no colon\r\nContent-Length: 0\r\n", False),
        (b"", False),
    ],
)
def test_only_a_plain_head_keeps_its_connection(lines: bytes, kept: bool) -> None:
    """Fault 49: where two readers could disagree on where the answer ends, nothing else is sent there."""
    answer = Answer(LIMIT)
    answer.feed(OK + lines + b"\r\n")

    assert (answer.status, answer.kept) == (200, kept)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"a:\n" * 21_000 + b"\n",
        OK + b"a:\r\n" * 990 + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000,
        OK + b"Connection: a,b\n" * 990 + b"\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"x:\n" * 80_000,
        b"HTTP/1.1 100 x\n\n" * 16_000,
        OK + b"X: " + b" \t" * 32_000 + b"\r\n\r\n",
        OK + b"Content-Length: " + b"0," * 32_000 + b"0\r\n\r\n",
    ],
    ids=["lines", "chunks", "options", "trailers", "interim", "spaces", "lengths"],
)
def test_one_segment_costs_little(data: bytes) -> None:
    """256 KiB from a server cost at most 20 ms of CPU, for every content."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        read([data[:262_144]])
        times.append(time.thread_time() - began)

    assert min(times) < 0.020
