"""Fetch OAuth2 tokens for the endpoints that need them, keep them until they expire, and send with them.

Data flow: SignedRequest with an OAuth2Client -> (Tokens) kept token, or one fetch for all who wait -> the
request with its Authorization -> the sender -> Outcome; after a 401 with a kept token one new token is
fetched.

A token endpoint is not the endpoint. Its faults are ``client_error``, which the endpoint's breaker does not
count; only refusals of the guard or the proxy keep their kind. Each fetch has its own connection, so that
only the token outlives it: no cookie, no idle connection, no untrusted text.

Source: RFC 6749, 4.4 and 2.3.1 (client credentials); RFC 6750 (Bearer).
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Coroutine
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode

import httpx2
import orjson

from consumer.core.access import OAuth2Client, TlsPolicy
from consumer.core.endpoint.egress import EgressRule
from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.edges.http.outcomes import AttemptFailed, classify, late_in, shown
from consumer.edges.http.parts import Parts
from consumer.edges.http.senders.httpx_pool import GuardedTransport
from consumer.edges.http.senders.request import read_url
from consumer.ports import Sender

_KEPT_TOKENS = 4_096  #: tokens that are kept; the oldest is dropped first
_ANSWER_BYTES = 65_536  #: bytes of a token endpoint's answer that are read, at most
_FETCH_S = 10.0  #: bound on one fetch; its waiters have their own deadlines
_ASSUMED_S = 300.0  #: life of a token whose answer names none
_EARLY_RATIO = 0.1  #: share of a token's life before its end at which it is fetched anew
_EARLY_S = 60.0  #: upper bound of that time
_FAILED_S = 2.0  #: pause after a failed fetch

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The ``error`` codes that are shown; longer texts may contain a secret. Source: RFC 6749, 5.2."""

_LATE = frozenset((OutcomeKind.TIMEOUT_CONNECT, OutcomeKind.TIMEOUT_TOTAL))
_TOO_LONG_RATIO = 0.5
"""Share of a deadline: if the token took more, a later time-out counts against the token endpoint."""

_OWN_KINDS = frozenset((OutcomeKind.BLOCKED, OutcomeKind.PROXY, OutcomeKind.LOCAL))
"""Outcomes of a fetch that are reported unchanged, as the token endpoint did not cause them."""


class _TokenKey(NamedTuple):
    """The client of a token, and the trust in its token endpoint."""

    client: OAuth2Client
    tls: TlsPolicy | None


class _Token(NamedTuple):
    """The result of a fetch."""

    text: str
    until: float  #: monotonic seconds
    kind: OutcomeKind | None = None  #: why there is no token; None with a token
    detail: str = ""


class Tokens:
    """The tokens of all endpoints."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rule: EgressRule = parts.options.egress
        self._agent = f"leveret/{version('leveret')}"
        self._kept: dict[_TokenKey, _Token] = {}
        self._running: dict[_TokenKey, asyncio.Task[_Token]] = {}

    def kept(self, key: _TokenKey) -> bool:
        """Return whether a valid token of an earlier request is kept."""
        token = self._kept.get(key)
        return token is not None and token.kind is None and token.until > time.monotonic()

    def at_proxy(self, key: _TokenKey) -> bool:
        """Return whether a fetch is in progress that has not reached our proxy yet."""
        return self._running.get(key) in self._parts.dialer.at_proxy

    async def of(self, key: _TokenKey) -> str:
        """Return a token.

        Raises:
            AttemptFailed: the token endpoint gave none; the text never contains the secret.
        """
        token = self._kept.get(key)
        if token is None or token.until <= time.monotonic():
            task = self._running.get(key)
            if task is None:
                task = self._running[key] = asyncio.get_running_loop().create_task(self._renew(key))
            token = await asyncio.shield(task)  # a waiter that gives up leaves the task to the others
        if token.kind is not None:
            raise AttemptFailed(token.kind, token.detail)
        return token.text

    def forget(self, key: _TokenKey, text: str) -> None:
        """Drop the token *text*, unless it has been replaced already."""
        token = self._kept.get(key)
        if token is not None and token.text == text:
            del self._kept[key]

    async def close(self) -> None:
        """End every fetch."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _renew(self, key: _TokenKey) -> _Token:
        try:
            async with asyncio.timeout(_FETCH_S):
                token = await self._fetch(key)
        except asyncio.CancelledError:  # by close(): the waiters still get an answer
            return _failed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        except TimeoutError as fault:
            kind, _ = late_in(fault.__cause__, connected=False)
            token = _failed(kind if kind in _OWN_KINDS else OutcomeKind.CLIENT_ERROR, "no answer in time")
        except Exception as fault:  # any fault of the token endpoint becomes an outcome
            token = _failed(*classify(fault))
        finally:
            self._running.pop(key, None)
        self._kept.pop(key, None)
        if len(self._kept) >= _KEPT_TOKENS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = token
        return token

    async def _fetch(self, key: _TokenKey) -> _Token:
        url = read_url(key.client.token_url, self._rule)
        transport = GuardedTransport(self._parts, _beside_system(key.tls))
        try:
            response = await transport.handle_async_request(_request(key.client, str(url), self._agent))
            try:
                return _read_token(response.status_code, await _bounded(response), key.client)
            finally:
                await response.aclose()
        finally:
            await transport.aclose()


class AuthorizingSender:
    """A sender that adds tokens for endpoints that need them; all other requests pass unchanged."""

    def __init__(self, sender: Sender, tokens: Tokens) -> None:
        self._sender = sender
        self._tokens = tokens

    def send(self, request: SignedRequest) -> Coroutine[Any, Any, Outcome]:
        """Send *request* under its total deadline, the fetch of a token included."""
        access = request.access
        if access is None or access.oauth2 is None:
            return self._sender.send(request)
        return self._authorized(request, _TokenKey(access.oauth2, access.tls))

    async def close(self) -> None:
        """Close every connection."""
        await self._tokens.close()
        await self._sender.close()

    async def _authorized(self, request: SignedRequest, key: _TokenKey) -> Outcome:
        began = time.monotonic()
        was_kept = self._tokens.kept(key)
        outcome = await self._with_token(request, key, began)
        has_time = time.monotonic() - began < request.timeout_s
        if outcome.status == 401 and was_kept and has_time:  # it may have been revoked; nothing was accepted
            outcome = await self._with_token(request, key, began)
        return outcome._replace(duration_s=time.monotonic() - began)

    async def _with_token(self, request: SignedRequest, key: _TokenKey, began: float) -> Outcome:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout_s - (time.monotonic() - began)):
                token = await self._tokens.of(key)
        except TimeoutError:
            kind = OutcomeKind.PROXY if self._tokens.at_proxy(key) else OutcomeKind.CLIENT_ERROR
            return Outcome(kind=kind, duration_s=0.0, detail="token endpoint: no token in time")
        except AttemptFailed as fault:
            return Outcome(kind=fault.kind, duration_s=0.0, detail=str(fault))
        now = time.monotonic()
        left_s = max(request.timeout_s - (now - began), 0.0)
        headers = (*request.headers, ("authorization", f"Bearer {token}"))
        outcome = await self._sender.send(request._replace(headers=headers, timeout_s=left_s))
        if outcome.status == 401:
            self._tokens.forget(key, token)
        if outcome.kind in _LATE and now - asked > request.timeout_s * _TOO_LONG_RATIO:
            text = f"token endpoint: it took {now - asked:.1f} s of {request.timeout_s:g} s; {outcome.detail}"
            return outcome._replace(kind=OutcomeKind.CLIENT_ERROR, detail=text)
        return outcome


def _failed(kind: OutcomeKind, text: str) -> _Token:
    """Return the result of a failed fetch: a short text instead of the exception, which keeps more alive."""
    if kind not in _OWN_KINDS:
        text = text if kind is OutcomeKind.CLIENT_ERROR else f"{kind.value}: {text}"
        kind = OutcomeKind.CLIENT_ERROR
    return _Token("", time.monotonic() + _FAILED_S, kind, shown(f"token endpoint: {text}"))


def _beside_system(tls: TlsPolicy | None) -> TlsPolicy | None:
    """Return the trust in a token endpoint: the endpoint's own authorities and those of the system.

    The endpoint's client certificate is sent where it is asked for. Source: RFC 8705, 2 (mutual TLS).
    """
    return tls if tls is None or tls.ca is None else replace(tls, system=True)


def _request(client: OAuth2Client, url: str, agent: str) -> httpx2.Request:
    form = {"grant_type": "client_credentials"}
    form |= {"scope": client.scope} if client.scope else {}
    form |= {"audience": client.audience} if client.audience else {}
    headers = {
        "accept": "application/json",
        "accept-encoding": "identity",
        "connection": "close",
        "content-type": "application/x-www-form-urlencoded",
        "user-agent": agent,
    }
    if client.secret_in_body:
        form |= {"client_id": client.client_id, "client_secret": client.client_secret}
    else:  # both halves are form-encoded first: RFC 6749, 2.3.1
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return httpx2.Request("POST", url, headers=headers, content=urlencode(form).encode())


async def _bounded(response: httpx2.Response) -> bytes:
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > _ANSWER_BYTES:
            raise AttemptFailed(OutcomeKind.TOO_LARGE, "the answer is too large")
    return body


def _read_token(status: int, body: bytes, client: OAuth2Client) -> _Token:
    """Read the answer. Source: RFC 6749, 5.1 and 5.2."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    if status != 200:
        error = fields.get("error")
        named = isinstance(error, str) and _ERROR.fullmatch(error) and client.client_secret not in error
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, f"it answered {status}{f' {error}' if named else ''}")
    text, kind = fields.get("access_token"), fields.get("token_type", "bearer")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "its answer contains no usable access_token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "its answer is not a Bearer token")
    life = fields.get("expires_in")
    life_s = float(life) if isinstance(life, int | float) and 0 < life < 1e9 else _ASSUMED_S
    return _Token(text, time.monotonic() + life_s - min(life_s * _EARLY_RATIO, _EARLY_S))
