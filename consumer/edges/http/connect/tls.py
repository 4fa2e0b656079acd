"""Make TLS contexts, one for all endpoints and one for each policy of its own, and resume sessions.

Data flow: TlsPolicy -> (TlsContexts) SSLContext, made once -> connections. A session ticket of a server is
offered to the same name at the next handshake.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from consumer.core.access import TlsPolicy
from consumer.core.errors import ConfigError

_KEPT_CONTEXTS = 256  #: policies whose context is kept, in any cache; the oldest is dropped first
_KEPT_SESSIONS = 4_096  #: sessions of all endpoints without a policy
_KEPT_SESSIONS_OF_POLICY = 16


class ResumingContext(ssl.SSLContext):
    """Offers the last session of a name again: a handshake without certificates, one round trip shorter.

    A session belongs to its context, so a session verified under one policy is never resumed under another.
    """

    def __new__(cls, most_sessions: int = _KEPT_SESSIONS) -> ResumingContext:
        """Make a context for a client: it verifies chain, name and dates, and keeps *most_sessions*."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.hostname_checks_common_name = False  # Source: RFC 9525, 6.3
        made.set_alpn_protocols(["http/1.1"])
        made._sessions = {}
        made.most_sessions = most_sessions
        return made

    _sessions: dict[str, ssl.SSLSession]
    most_sessions: int

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *more: Any, **named: Any) -> Any:
        """Called by the event loop, for each connection."""
        session = self._sessions.get(named.get("server_hostname") or "")
        if session is not None:
            named.setdefault("session", session)
        return super().wrap_bio(incoming, outgoing, *more, **named)

    def keep(self, connection: ssl.SSLObject) -> None:
        """Remember the session of *connection*; TLS 1.3 sends its ticket with the first data."""
        name, session = connection.server_hostname, connection.session
        if name is not None and session is not None and session.has_ticket:
            self._sessions.pop(name, None)
            if len(self._sessions) >= self.most_sessions:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[name] = session


class TlsContexts:
    """The contexts of one sender."""

    def __init__(self, ca_file: str | None) -> None:
        """Read *ca_file*, if there is one; every other context is made on first use.

        Raises:
            ConfigError: *ca_file* cannot be read as PEM.
        """
        self._ca_file = ca_file
        self._making = asyncio.Lock()  #: so that simultaneous requests for a context make it once
        self._made: dict[TlsPolicy, ResumingContext] = {}
        #: Called with each policy whose context was dropped.
        self.evicted: list[Callable[[TlsPolicy], None]] = []
        self._shared = None if ca_file is None else _trusting_system(ca_file)

    async def of(self, policy: TlsPolicy | None) -> ResumingContext:
        """Return the context for *policy*, or the shared one for endpoints without a policy.

        A thread makes it, as reading the system's certificates takes a while.

        Raises:
            ssl.SSLError, ValueError, OSError: OpenSSL refuses a part of the policy.
        """
        context = self._shared if policy is None else self._made.get(policy)
        if context is None:
            async with self._making:
                context = await self._make(policy)
        return context

    async def _make(self, policy: TlsPolicy | None) -> ResumingContext:
        if policy is None:
            if self._shared is None:
                self._shared = await asyncio.to_thread(_trusting_system, None)
            return self._shared
        if policy not in self._made:
            made = await asyncio.to_thread(_context_of, policy, self._ca_file)
            if len(self._made) >= _KEPT_CONTEXTS:
                oldest = next(iter(self._made))
                del self._made[oldest]
                for forget in self.evicted:
                    forget(oldest)
            self._made[policy] = made
        return self._made[policy]


def _trusting_system(ca_file: str | None, most_sessions: int = _KEPT_SESSIONS) -> ResumingContext:
    context = ResumingContext(most_sessions)
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is not None and not context.cert_store_stats()["x509_ca"]:
        with open(bundle, "rb"):  # OpenSSL silently skips a file that it cannot open, as without a handle
            pass
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as fault:  # ssl.SSLError is one
            raise ConfigError(f"sending.ca_file: {ca_file!r} is not a readable PEM file ({fault})") from None
    return context


def _context_of(policy: TlsPolicy, ca_file: str | None) -> ResumingContext:
    trusts_system = policy.ca is None or policy.system
    kept = _KEPT_SESSIONS_OF_POLICY
    context = _trusting_system(ca_file, kept) if trusts_system else ResumingContext(kept)
    if policy.ca is not None:
        context.load_verify_locations(cadata=policy.ca)
    if policy.certificate is not None and policy.key is not None:
        with _as_file(f"{policy.certificate}\n{policy.key}\n") as path:
            context.load_cert_chain(path)
    return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Provide *text* as a file, as OpenSSL reads keys only from files: in memory where the system can."""
    make: Any = getattr(os, "memfd_create", None)
    if make is None:
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:  # made with mode 0600
            file.write(text)
            file.flush()
            yield file.name
        return
    with os.fdopen(make("leveret-tls"), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
