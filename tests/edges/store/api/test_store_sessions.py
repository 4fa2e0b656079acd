"""Sessions of browsers are rows: every process knows them, their number is bounded, a token ends its own."""

from __future__ import annotations

import pytest

from consumer.core.store.tokens import Scope
from consumer.edges.store.rows.access import sessions
from consumer.edges.store.rows.access.sessions import SessionRows, StoredSession
from tests.support.stores import Place


async def opened(rows: SessionRows, token: str, *at: float) -> list[str]:
    """Store a session for each time, and return their hashes."""
    hashes = [f"{token}-{each}" for each in at]
    for of, each in zip(hashes, at, strict=True):
        session = StoredSession(hash=of, token=token, began=each, seen=each)
        await rows.add(session, began_after=each - 1_000, seen_after=each - 100)
    return hashes


async def left(rows: SessionRows, hashes: list[str]) -> list[str]:
    """Return those sessions that there are."""
    return [of for of in hashes if await rows.get(of) is not None]


async def test_another_process_knows_a_session(place: Place) -> None:
    """It was used, and it ends, in each of them; before the first one there is nothing to read."""
    rows, others = place.open().records.sessions, place.open().records.sessions
    assert await rows.get("a-10.0") is None

    await opened(rows, "a", 10.0)
    await others.note_seen("a-10.0", 70.0)
    seen = await rows.get("a-10.0")
    await others.end("a-10.0")

    assert seen == StoredSession(hash="a-10.0", token="a", began=10.0, seen=70.0)
    assert await rows.get("a-10.0") is None


async def test_ended_sessions_are_deleted_by_the_next_login(place: Place) -> None:
    """Those that were idle for too long, and those that began too long ago."""
    rows = place.open().records.sessions
    idle = await opened(rows, "a", 1.0)
    old = await opened(rows, "b", 2.0)
    await rows.note_seen(old[0], 1_050.0)

    await opened(rows, "c", 90.0)
    assert await left(rows, idle + old) == idle + old
    new = await opened(rows, "c", 1_100.0)

    assert await left(rows, idle + old + new) == new


async def test_the_number_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one token, and for all; the one that was used least recently ends first."""
    monkeypatch.setattr(sessions, "SESSIONS_OF_TOKEN", 3)
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 5)
    rows = place.open().records.sessions

    first = await opened(rows, "a", 1.0, 2.0, 3.0, 4.0)
    assert await left(rows, first) == first[1:]
    second = await opened(rows, "b", 5.0, 6.0, 7.0)

    assert await left(rows, first + second) == first[2:] + second


async def test_a_revoked_token_takes_its_sessions_along(place: Place) -> None:
    """Those of other tokens stay."""
    store = place.open()
    token, _ = await store.records.tokens.create("shop", Scope.READ, who="cli:me")
    own = await opened(store.records.sessions, token.id, 1.0, 2.0)
    others = await opened(store.records.sessions, "b", 3.0)

    await store.records.tokens.revoke(token.id, "cli:me")

    assert await left(store.records.sessions, own + others) == others
