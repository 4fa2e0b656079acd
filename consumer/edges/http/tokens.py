"""Fetch OAuth2 tokens for endpoints that want them, keep them while they last, and send with them.

Data flow: SignedRequest with an OAuth2Client -> (Tokens) kept token, or one fetch for all who wait -> the
request with its Authorization -> the sender -> Outcome; a 401 on a kept token fetches a new one, once.

Source: RFC 6749, 4.4 and 2.3.1 (client credentials); RFC 6750 (Bearer).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import httpx2
import orjson

from consumer.core.access import OAuth2Client
from consumer.core.egress import EgressRule
from consumer.core.model import Kind, Outcome, SignedRequest
from consumer.edges.http.httpx_pool import GuardedTransport
from consumer.edges.http.outcomes import AttemptFailed, classify, late_in, shown
from consumer.edges.http.parts import Parts
from consumer.edges.http.request import read_url
from consumer.ports import Sender

_KEPT_TOKENS = 4_096  #: the oldest goes first
_ANSWER_BYTES = 65_536  #: of a token endpoint's answer that are read at most
_FETCH_S = 10.0  #: bound on one fetch; who waits has a deadline of its own
_ASSUMED_S = 300.0  #: life of a token that does not say
_EARLY_RATIO = 0.1  #: a token is fetched anew when this share of its life is left, at most
_EARLY_S = 60.0  #: this much
_FAILED_S = 2.0  #: a fetch that failed is not tried again before

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


class _Token(NamedTuple):
    """What came of a fetch."""

    text: str
    fault: AttemptFailed | None
    until: float  #: monotonic seconds


class Tokens:
    """The tokens of all endpoints."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rule: EgressRule = parts.options.egress
        self._client: httpx2.AsyncClient | None = None
        self._kept: dict[OAuth2Client, _Token] = {}
        self._running: dict[OAuth2Client, asyncio.Task[_Token]] = {}

    def kept(self, client: OAuth2Client) -> bool:
        """Return whether a token is at hand that was fetched for an earlier request."""
        token = self._kept.get(client)
        return token is not None and token.fault is None and token.until > time.monotonic()

    async def of(self, client: OAuth2Client) -> str:
        """Return a token.

        Raises:
            AttemptFailed: the token endpoint gave none; never holds the secret.
        """
        token = self._kept.get(client)
        if token is None or token.until <= time.monotonic():
            task = self._running.get(client)
            if task is None:
                task = self._running[client] = asyncio.get_running_loop().create_task(self._renew(client))
            token = await asyncio.shield(task)  # who gives up leaves it to the others
        if token.fault is not None:
            raise AttemptFailed(token.fault.kind, str(token.fault))
        return token.text

    def forget(self, client: OAuth2Client, text: str) -> None:
        """Fetch a new one next time, unless that has happened already."""
        token = self._kept.get(client)
        if token is not None and token.text == text:
            del self._kept[client]

    async def close(self) -> None:
        """End every fetch."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _renew(self, client: OAuth2Client) -> _Token:
        try:
            async with asyncio.timeout(_FETCH_S):
                token = await self._fetch(client)
        except asyncio.CancelledError:  # by close: who waits gets an answer all the same
            return _failed(AttemptFailed(Kind.CLIENT_ERROR, "the sender is closed"))
        except TimeoutError:
            token = _failed(AttemptFailed(Kind.TIMEOUT_TOTAL, "the token endpoint did not answer in time"))
        except AttemptFailed as fault:
            token = _failed(AttemptFailed(fault.kind, f"token endpoint: {fault}"))
        except Exception as fault:  # a stranger's server: whatever it does is told
            kind, text = classify(fault)
            token = _failed(AttemptFailed(kind, f"token endpoint: {text}"))
        finally:
            self._running.pop(client, None)
        self._kept.pop(client, None)
        if len(self._kept) >= _KEPT_TOKENS:
            del self._kept[next(iter(self._kept))]
        self._kept[client] = token
        return token

    async def _fetch(self, client: OAuth2Client) -> _Token:
        read_url(client.token_url, self._rule)
        if self._client is None:
            transport = GuardedTransport(self._parts)
            agent = {"user-agent": f"leveret/{version('leveret')}", "accept-encoding": "identity"}
            self._client = httpx2.AsyncClient(
                transport=transport, trust_env=False, timeout=None, headers=agent
            )
        form = {"grant_type": "client_credentials"}
        form |= {"scope": client.scope} if client.scope else {}
        form |= {"audience": client.audience} if client.audience else {}
        auth: httpx2.BasicAuth | None = None
        if client.secret_in_body:
            form |= {"client_id": client.client_id, "client_secret": client.client_secret}
        else:  # both halves are form-encoded first: RFC 6749, 2.3.1
            auth = httpx2.BasicAuth(quote_plus(client.client_id), quote_plus(client.client_secret))
        request = self._client.build_request(
            "POST", client.token_url, data=form, headers={"accept": "application/json"}
        )
        response = await self._client.send(request, auth=auth, stream=True, follow_redirects=False)
        try:
            return _read_token(response.status_code, await _bounded(response))
        finally:
            await response.aclose()


class AuthorizingSender:
    """A sender that adds tokens where an endpoint wants them; every other request passes straight through."""

    def __init__(self, sender: Sender, tokens: Tokens) -> None:
        self._sender = sender
        self._tokens = tokens

    def send(self, request: SignedRequest) -> Coroutine[Any, Any, Outcome]:
        """Send *request* under its total deadline, the fetch of a token included."""
        access = request.access
        if access is None or access.oauth2 is None:
            return self._sender.send(request)
        return self._authorized(request, access.oauth2)

    async def close(self) -> None:
        """Close every connection."""
        await self._tokens.close()
        await self._sender.close()

    async def _authorized(self, request: SignedRequest, client: OAuth2Client) -> Outcome:
        began = time.monotonic()
        was_kept = self._tokens.kept(client)
        outcome = await self._with_token(request, client, began)
        if outcome.status == 401 and was_kept:  # it may have been revoked; nothing was accepted
            outcome = await self._with_token(request, client, began)
        return outcome._replace(duration_s=time.monotonic() - began)

    async def _with_token(self, request: SignedRequest, client: OAuth2Client, began: float) -> Outcome:
        try:
            async with asyncio.timeout(request.timeout_s - (time.monotonic() - began)):
                token = await self._tokens.of(client)
        except TimeoutError:
            kind, detail = late_in(connected=False)
            return Outcome(kind=kind, duration_s=0.0, detail=f"token endpoint: {detail}")
        except AttemptFailed as fault:
            return Outcome(kind=fault.kind, duration_s=0.0, detail=shown(str(fault)))
        left_s = max(request.timeout_s - (time.monotonic() - began), 0.0)
        headers = (*request.headers, ("authorization", f"Bearer {token}"))
        outcome = await self._sender.send(request._replace(headers=headers, timeout_s=left_s))
        if outcome.status == 401:
            self._tokens.forget(client, token)
        return outcome


def _failed(fault: AttemptFailed) -> _Token:
    return _Token("", fault, time.monotonic() + _FAILED_S)


async def _bounded(response: httpx2.Response) -> bytes:
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > _ANSWER_BYTES:
            raise AttemptFailed(Kind.TOO_LARGE, "the answer is too large")
    return body


def _read_token(status: int, body: bytes) -> _Token:
    """Read the answer. Source: RFC 6749, 5.1 and 5.2."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    if status != 200:
        error = fields.get("error")
        said = f" {error}" if isinstance(error, str) else ""
        raise AttemptFailed(Kind.CLIENT_ERROR, f"it answered {status}{said}")
    text, kind = fields.get("access_token"), fields.get("token_type", "bearer")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise AttemptFailed(Kind.CLIENT_ERROR, "its answer holds no usable access_token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise AttemptFailed(Kind.CLIENT_ERROR, "its answer is no Bearer token")
    life = fields.get("expires_in")
    life_s = float(life) if isinstance(life, int | float) and 0 < life < 1e9 else _ASSUMED_S
    return _Token(text, None, time.monotonic() + life_s - min(life_s * _EARLY_RATIO, _EARLY_S))
