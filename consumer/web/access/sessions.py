"""Sessions of browsers: opaque, in the memory of this process, ended by time or by logout.

A session names a token by its id, and never contains the token. Each request reads that token again, so a
session ends with it. Data flow: login -> :meth:`Sessions.open` -> cookie -> :meth:`Sessions.find`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from consumer.ports import Clock
from consumer.settings import ApiSettings
from consumer.web.pages.views.parts import Flash

SESSIONS_MAX: Final = 10_000  #: of all tokens; the one that was used least recently ends first
SESSIONS_OF_TOKEN: Final = 50
RANDOM_BYTES: Final = 32  #: 256 random bits, which nobody can guess


@dataclass(slots=True)
class Session:
    """One browser that is logged in."""

    token_id: str
    began: float  #: monotonic seconds, as all times here
    seen: float  #: time of the last request
    csrf: str = field(repr=False)  #: hidden field of every form
    flash: Flash | None = None  #: the result of the last form, for the next page

    def is_form_of(self, csrf: str) -> bool:
        """Return whether a form with this hidden field is of this session, in constant time."""
        return is_same(csrf, self.csrf)

    def take_flash(self) -> Flash | None:
        """Return the result of the last form, once."""
        flash, self.flash = self.flash, None
        return flash


class Sessions:
    """The sessions of this process. A restart ends all of them."""

    def __init__(self, settings: ApiSettings, clock: Clock) -> None:
        """Begin without a session.

        Args:
            settings: Idle time and life time.
            clock: Time.
        """
        self._idle_s = settings.session_idle_s
        self._life_s = settings.session_max_s
        self._clock = clock
        self._key = secrets.token_bytes(RANDOM_BYTES)
        self._sessions: OrderedDict[str, Session] = OrderedDict()  #: by the hash of the cookie

    def open(self, token_id: str) -> str:
        """Begin a session of a token, and return the value of its cookie."""
        now, cookie = self._clock.monotonic(), secrets.token_urlsafe(RANDOM_BYTES)
        own = [key for key, each in self._sessions.items() if each.token_id == token_id]
        for key in own[: max(0, len(own) + 1 - SESSIONS_OF_TOKEN)]:
            del self._sessions[key]
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        csrf = secrets.token_urlsafe(RANDOM_BYTES)
        self._sessions[_hash(cookie)] = Session(token_id, began=now, seen=now, csrf=csrf)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie, which counts as used now; None if it has ended."""
        key, now = _hash(cookie), self._clock.monotonic()
        found = self._sessions.get(key)
        if found is None:
            return None
        if now - found.seen >= self._idle_s or now - found.began >= self._life_s:
            del self._sessions[key]
            return None
        found.seen = now
        self._sessions.move_to_end(key)
        return found

    def end(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_hash(cookie), None)

    def login_csrf(self, cookie: str) -> str:
        """Return the hidden field of the login form for a browser with this cookie.

        Only this process can make it, so another site cannot log a browser in.
        """
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


def _hash(cookie: str) -> str:
    """Return the key of a cookie: the look-up of a hash says nothing about a similar cookie."""
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()
