"""Check tokens: constant-time, remembered for a second, and bounded per address and per token.

Data flow: ``Authorization`` -> :meth:`Logins.login` -> Token; times of use -> :meth:`Logins.keep_used` ->
store.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from typing import Final

from consumer.core.errors import StoreUnavailable
from consumer.core.store.tokens import Presented, StoredToken, Token, parse_token, secret_hash
from consumer.edges.store.rows.access.tokens import Tokens
from consumer.ports import Clock
from consumer.settings import ApiSettings
from consumer.web.shared.log import Log
from consumer.web.shared.problems import Problem
from consumer.web.shared.rates import RateLimiter

KNOWN_S: Final = 1.0
"""Seconds for which a token is believed without a look into the store; a revoked one is refused by then."""
KNOWN_MAX: Final = 1_000
USED_EVERY_S: Final = 60.0
"""Seconds between two writes of the times of use."""


class Logins:
    """The tokens that requests present."""

    def __init__(self, tokens: Tokens, settings: ApiSettings, clock: Clock, log: Log) -> None:
        """Bind to the store's tokens.

        Args:
            tokens: Tokens of the store.
            settings: Rates.
            clock: Time.
            log: Gets a line for each failed login.
        """
        self._log = log
        self._tokens = tokens
        self._clock = clock
        self._failed = RateLimiter(settings.failed_logins_per_min / 60, settings.failed_logins_per_min)
        self._requests = RateLimiter(settings.requests_per_s, settings.burst)
        self._known: OrderedDict[str, tuple[StoredToken, float]] = OrderedDict()
        self._used: dict[str, float] = {}

    async def login(self, text: str, address: str) -> Token:
        """Return the token that *text* is, and count one request of it.

        A valid token works at an address with too many failed logins, too: others may share that address, and
        nobody can guess a token. The limit keeps the log short.

        Args:
            text: The token, as the client presents it.
            address: The client.

        Raises:
            Problem: 401: it is not a valid token; 429: too many failed logins, or too many requests.
            StoreUnavailable: the store cannot be read.
        """
        presented, now = parse_token(text), self._clock.monotonic()
        found = None if presented is None else self._remembered(presented, now)
        if found is None and presented is not None:
            found = await self._read(presented, now)
        if found is None:
            self._refuse(self._failed.take(address, now), "too many failed logins from your address")
            self._log.warning("api.login_failed", client=address)
            raise unauthorized("the token is not valid")
        self._refuse(self._requests.take(found.id, now), "too many requests with this token")
        self._used[found.id] = self._clock.now()
        return found

    async def resume(self, token_id: str) -> Token | None:
        """Return the token of a session as it is now, and count one request of it; None if it has ended.

        Raises:
            Problem: 429: too many requests.
            StoreUnavailable: the store cannot be read.
        """
        stored = await self._tokens.get(token_id)
        if stored is None or not stored.token.is_valid(self._clock.now()):
            return None
        self._refuse(
            self._requests.take(token_id, self._clock.monotonic()), "too many requests with this token"
        )
        self._used[token_id] = self._clock.now()
        return stored.token

    def forget(self, token_id: str) -> None:
        """Believe a token no longer, as it was revoked here."""
        self._known.pop(token_id, None)

    async def keep_used(self) -> None:
        """Write from time to time when tokens were last used; runs until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(USED_EVERY_S)
                await self._write_used()
        finally:
            await self._write_used()

    async def _write_used(self) -> None:
        used, self._used = self._used, {}
        try:
            await self._tokens.note_used(used)
        except StoreUnavailable:  # the next request of each token notes a later time
            return

    def _remembered(self, presented: Presented, now: float) -> Token | None:
        known = self._known.get(presented.id)
        if known is None or now - known[1] > KNOWN_S:
            return None
        stored = known[0]
        return stored.token if stored.accepts(presented.secret, self._clock.now()) else None

    async def _read(self, presented: Presented, now: float) -> Token | None:
        stored = await self._tokens.get(presented.id)
        if stored is None:
            secret_hash(presented.secret)  # an unknown id takes as long as a wrong secret
            return None
        if not stored.accepts(presented.secret, self._clock.now()):
            return None
        self._known[presented.id] = (stored, now)
        self._known.move_to_end(presented.id)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return stored.token

    def _refuse(self, wait_s: float, detail: str) -> None:
        if wait_s > 0:
            seconds = max(1, math.ceil(wait_s))
            raise Problem(
                429,
                detail,
                remedy=f"try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )


def unauthorized(detail: str) -> Problem:
    """Return the problem of a request without a valid token."""
    return Problem(
        401,
        detail,
        field="Authorization",
        remedy="send Authorization: Bearer lvt_...; `leveret tokens create` makes a token",
        headers={"WWW-Authenticate": 'Bearer realm="leveret"'},
    )
