"""Sessions of browsers: opaque, kept in the store, ended by time, by logout or with their token.

A session names a token by its id, and never contains the token. Each request reads that token again, so a
session ends with it. The store has only the hash of a cookie; a hidden field of forms is made of the cookie
itself, so every process of the API knows it. Data flow: login -> :meth:`Sessions.open` -> cookie ->
:meth:`Sessions.find`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from consumer.core.errors import StoreUnavailable
from consumer.edges.store.rows.access.sessions import SESSIONS_MAX, SessionRows, StoredSession
from consumer.ports import Clock
from consumer.settings import ApiSettings
from consumer.web.pages.views.parts import Flash

RANDOM_BYTES: Final = 32  #: 256 random bits, which nobody can guess
SEEN_EVERY_S: Final = 60.0  #: most seconds between two writes of the time of the last request
SEEN_PART: Final = 30  #: the time is also written after this part of the idle time
CLOCK_SLACK_S: Final = 60.0  #: a session that began later than this from now is of a clock that was set back


@dataclass(slots=True)
class Session:
    """One browser that is logged in, for one request."""

    token_id: str
    csrf: str = field(repr=False)  #: hidden field of every form
    _key: str = field(repr=False)
    _flashes: OrderedDict[str, Flash] = field(repr=False)

    def is_form_of(self, csrf: str) -> bool:
        """Return whether a form with this hidden field is of this session, in constant time."""
        return is_same(csrf, self.csrf)

    def note(self, flash: Flash) -> None:
        """Keep the result of a form for the next page that this process draws."""
        self._flashes[self._key] = flash
        if len(self._flashes) > SESSIONS_MAX:
            self._flashes.popitem(last=False)

    def take_flash(self) -> Flash | None:
        """Return the result of the last form, once."""
        return self._flashes.pop(self._key, None)


class Sessions:
    """The sessions of the store, for every process of the API.

    While the store cannot be written, a new session is in the memory of this process only: an operator can
    look at the pages of a store whose disk is full.
    """

    def __init__(self, rows: SessionRows, settings: ApiSettings, clock: Clock) -> None:
        """Bind to the sessions of a store.

        Args:
            rows: Sessions of the store.
            settings: Idle time and life time.
            clock: Time.
        """
        self._rows = rows
        self._idle_s = settings.session_idle_s
        self._life_s = settings.session_max_s
        self._seen_every_s = min(SEEN_EVERY_S, self._idle_s / SEEN_PART)
        self._clock = clock
        self._unstored: OrderedDict[str, StoredSession] = OrderedDict()  #: by the hash of the cookie
        self._flashes: OrderedDict[str, Flash] = OrderedDict()  #: by the hash of the cookie

    async def open(self, token_id: str) -> str:
        """Begin a session of a token, and return the value of its cookie."""
        now, cookie = self._clock.now(), secrets.token_urlsafe(RANDOM_BYTES)
        session = StoredSession(hash=_hash(cookie), token=token_id, began=now, seen=now)
        try:
            await self._rows.add(session, began_after=now - self._life_s, seen_after=now - self._idle_s)
        except StoreUnavailable:
            self._keep(session)
        return cookie

    async def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie, which counts as used now; None if it has ended.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        key, now = _hash(cookie), self._clock.now()
        found = self._unstored.get(key) or await self._rows.get(key)
        if found is None or not self._holds(found, now):
            return None
        if abs(now - found.seen) >= self._seen_every_s:
            await self._note_seen(found, now)
        return Session(found.token, _mac(cookie, "form"), key, self._flashes)

    async def end(self, cookie: str) -> None:
        """End the session of a cookie.

        Raises:
            StoreUnavailable: the store cannot be written, and the session goes on.
        """
        key = _hash(cookie)
        self._flashes.pop(key, None)
        if self._unstored.pop(key, None) is None:
            await self._rows.end(key)

    def login_csrf(self, cookie: str) -> str:
        """Return the hidden field of the login form for a browser with this cookie.

        Another site knows no cookie of ours, so it cannot log a browser in.
        """
        return _mac(cookie, "login")

    def _holds(self, session: StoredSession, now: float) -> bool:
        is_young = now - self._life_s < session.began <= now + CLOCK_SLACK_S
        return is_young and now - session.seen < self._idle_s

    async def _note_seen(self, session: StoredSession, now: float) -> None:
        if session.hash in self._unstored:
            self._keep(replace(session, seen=now))
            return
        with suppress(StoreUnavailable):  # a later request notes a later time
            await self._rows.note_seen(session.hash, now)

    def _keep(self, session: StoredSession) -> None:
        self._unstored[session.hash] = session
        self._unstored.move_to_end(session.hash)
        if len(self._unstored) > SESSIONS_MAX:
            self._unstored.popitem(last=False)


def is_same(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def _hash(cookie: str) -> str:
    """Return the key of a cookie: the look-up of a hash says nothing about a similar cookie."""
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()


def _mac(cookie: str, purpose: str) -> str:
    """Return a text that only somebody who knows the cookie can make."""
    return hmac.new(cookie.encode(errors="replace"), purpose.encode(), hashlib.sha256).hexdigest()
