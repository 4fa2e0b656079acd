"""Send webhooks over HTTP/1.1: SignedRequest -> one attempt under one deadline -> Outcome.

Data flow: flow.deliver -> (AiohttpSender.send) target by URL -> connection from the pool, or a guarded new
one -> request written in one piece -> response head, bounded body -> Outcome -> core.retry decides.

The sender drives aiohttp's connector itself instead of a ``ClientSession``. It uses only the pool of aiohttp.
The session around it (cookies, redirects, objects for URL, headers and response, a task for each body) would
cost as much again: ``bench/http_clients.py`` measures it. As in the other sender, :mod:`.answer` reads the
responses.

**No request is sent twice.** A server may act on a POST as soon as a byte of it has left, so after that a
request is never sent again: a broken connection is an Outcome, and the retry ladder decides. Between taking a
connection from the pool and writing there is no await, and before the first byte the kernel is asked whether
the server has closed meanwhile. Such a connection is dropped, and the request goes out on another one, at
most once.

**Each response belongs to its request.** Bytes that arrive while no request is out belong to none: such a
connection is cut. A 204 has no body, yet some servers write one behind it, and that may arrive after the next
request has left. So until one 204 of an endpoint was followed by nothing, its connection is not used again at
once.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from aiohttp import ClientRequest, ClientTimeout
from aiohttp.connector import Connection

from consumer.core.access import TlsPolicy
from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.edges.http.outcomes import AttemptFailed, answered, classify, control_of, late_in
from consumer.edges.http.parts import Parts
from consumer.edges.http.response.answer import Answer
from consumer.edges.http.response.unread import QUIET_S
from consumer.edges.http.senders.connector import Connector, Handler, PoolTarget
from consumer.edges.http.senders.request import first_lines, read_url, write_head

_TARGETS = 8_192  #: URLs whose target is kept; the oldest is dropped first
_JOIN_BYTES = 65_536  #: a body up to this size is copied behind its head: one buffer, one write
_NO_BOUND = ClientTimeout()  #: the dialer has its own bound


class _Lease(NamedTuple):
    """A connection that this sender uses until it is released or cut."""

    connection: Connection
    protocol: Handler
    transport: asyncio.Transport


@dataclass(slots=True)
class _Attempt:
    """The progress of one attempt, from which its outcome follows."""

    answer: Answer
    lease: _Lease | None = None  #: None before there is a connection, and after its return to the pool

    def took(self, lease: _Lease) -> _Lease:
        """Note the connection of the attempt; return it."""
        self.lease = lease
        return lease

    def gave_back(self) -> None:
        """Forget the connection, as the pool owns it again."""
        self.lease = None


class _Deadline:
    """A faster ``asyncio.timeout`` for a known loop: that one looks the loop up three times per use, and each
    look-up costs a system call."""

    __slots__ = ("_cancelling", "_handle", "_owes", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a request is sent within a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._owes = False  #: whether a cancellation of ours is not undone yet
        self._handle = loop.call_later(timeout_s, self._expire)

    def passed(self) -> bool:
        """Return whether the cancellation that was just caught comes from this deadline alone."""
        return self._owes and self._undo() <= self._cancelling

    def call_off(self) -> None:
        """Stop the timer after the request, and undo a cancellation of ours that is still open."""
        self._handle.cancel()
        if self._owes:  # the cancelled step ended in another way
            self._undo()

    def _undo(self) -> int:
        self._owes = False
        return self._task.uncancel()

    def _expire(self) -> None:
        self._owes = True
        self._task.cancel()


class AiohttpSender:
    """Sends with aiohttp: a :class:`consumer.ports.Sender`. It runs in the loop of its first :meth:`send`."""

    def __init__(self, parts: Parts) -> None:
        """Prepare; nothing is opened before the first request. The creator of *parts* closes them."""
        self._options = parts.options
        self._parts = parts
        self._connector: Connector | None = None
        self._targets: dict[str | tuple[str, TlsPolicy], PoolTarget] = {}
        self._in_flight: set[Handler] = set()
        self._watched: dict[_Lease, asyncio.TimerHandle] = {}  #: see :meth:`_watch`
        self._closed = False
        parts.tls.evicted.append(self._forget)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request* under its total deadline and return the outcome.

        The status decides as soon as there is one: a body that is cut, endless or malformed changes neither a
        success nor a failure. No redirect is followed, no cookie kept, no body decompressed.

        Returns:
            An Outcome in every case; unknown faults are ``CLIENT_ERROR`` with the type's name.

        Raises:
            asyncio.CancelledError: the caller cancelled it; the connection is cut.
        """
        began = time.monotonic()
        answer = Answer(self._options.max_response_bytes)
        attempt = _Attempt(answer)
        kind, detail = OutcomeKind.CLIENT_ERROR, ""
        deadline = _Deadline(self._loop, request.timeout_s)
        try:
            await self._run(request, attempt)
        except asyncio.CancelledError as cut:
            if not deadline.passed():
                raise
            kind, detail = late_in(cut, connected=attempt.lease is not None)
        except Exception as fault:  # the port's promise: every fault is an outcome
            kind, detail = classify(fault)
        finally:
            deadline.call_off()
            if attempt.lease is not None:
                self._cut(attempt.lease)
        duration_s = time.monotonic() - began
        if not answer.status:
            return Outcome(kind=kind, duration_s=duration_s, detail=detail)
        options = self._options
        content = bytes(answer.body), answer.content_type() if options.keep_type else ""
        outcome = answered(answer.status, answer.values, content, duration_s, detail or answer.fault)
        return outcome._replace(control=control_of(answer.values)) if options.obey_control else outcome

    async def close(self) -> None:
        """Close every connection; requests in flight end as ``RESET``, later ones are refused."""
        self._closed = True
        for protocol in self._in_flight:
            protocol.abort()
        for lease, timer in self._watched.items():
            timer.cancel()
            lease.connection.close()
        self._watched.clear()
        if self._connector is not None:
            await self._connector.close(abort_ssl=True)
            self._connector = None
        self._targets.clear()

    async def _run(self, request: SignedRequest, attempt: _Attempt) -> None:
        access = request.access
        policy = None if access is None else access.tls
        key = request.url if policy is None else (request.url, policy)
        target = self._targets.get(key) or await self._target(request.url, policy)
        head = write_head(target.head, request)
        lease = attempt.took(await self._connect(target))
        lease.protocol.begin(target, attempt.answer)
        if len(request.body) <= _JOIN_BYTES:
            lease.transport.write(head + request.body)
        else:
            lease.transport.writelines((head, request.body))
        await lease.protocol.finish()
        if attempt.answer.whole and not lease.transport.get_write_buffer_size():
            attempt.gave_back()
            self._in_flight.discard(lease.protocol)
            if target.context is not None:
                lease.protocol.keep_session(target.context)
            self._give_back(lease, target, attempt.answer)

    def _give_back(self, lease: _Lease, target: PoolTarget, answer: Answer) -> None:
        lease.protocol.rest()
        if not answer.kept or self._loop.time() >= lease.protocol.ends_at:
            lease.connection.close()
        elif target.quiet or not answer.bodiless:
            lease.connection.release()
        elif target.watched:
            lease.connection.close()
        else:
            target.watch()
            self._watched[lease] = self._loop.call_later(QUIET_S, self._watch, lease, target)

    def _watch(self, lease: _Lease, target: PoolTarget) -> None:
        """Check that a 204 was followed by nothing; then its endpoint's connections are kept from now on."""
        del self._watched[lease]
        poll = lease.protocol.poll
        target.seen(quiet=not lease.protocol.should_close and poll is not None and not poll.has_input())
        if target.quiet:
            lease.connection.release()
        else:
            lease.connection.close()

    async def _connect(self, target: PoolTarget) -> _Lease:
        """Return a connection on which the first byte can be written now.

        One that broke in the pool is dropped and replaced once, as nothing was written on it.

        Raises:
            ConnectionResetError: the server also closed the second one, or wrote on it, before its use.
        """
        connector = self._connector
        if connector is None:
            raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        for last in (False, True):
            connection = await connector.connect(target.request, [], _NO_BOUND)
            lease = self._usable(connection)
            if lease is not None:
                self._in_flight.add(lease.protocol)
                return lease
            connection.close()
            if not last:
                await asyncio.sleep(0)  # the loop handles every other close that came with this one
        raise ConnectionResetError(
            "the server closed the connection, or wrote on it, before its first request"
        )

    def _usable(self, connection: Connection) -> _Lease | None:
        """Return the lease unless the connection is unusable.

        It is unusable if either side has closed it, even unnoticed, or if the server wrote out of turn.
        """
        protocol = connection.protocol
        if not isinstance(protocol, Handler) or protocol.should_close:
            return None
        transport = protocol.transport
        if transport is None or transport.is_closing():
            return None
        poll = protocol.poll
        if poll is None:
            poll = protocol.first_use(transport, self._loop.time() + self._options.connection_max_age_s)
            useless = poll.is_closed()  # input may belong to TLS itself, as no request came before
        else:
            useless = poll.has_input()
        return None if useless else _Lease(connection, protocol, transport)

    def _cut(self, lease: _Lease) -> None:
        """Abort the connection: a close would wait for a peer that does not read."""
        self._in_flight.discard(lease.protocol)
        lease.protocol.abort()
        lease.connection.close()

    def _forget(self, policy: TlsPolicy) -> None:
        """Drop every target with the context of *policy*."""
        for key in [key for key in self._targets if isinstance(key, tuple) and key[1] == policy]:
            del self._targets[key]

    async def _target(self, text: str, policy: TlsPolicy | None) -> PoolTarget:
        """Parse a URL into its target, and remember it."""
        url = read_url(text, self._options.egress)
        tls = url.scheme == "https"
        context = await self._parts.tls.of(policy) if tls else None
        if self._closed:
            raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        if self._connector is None:
            self._connector = Connector(self._parts.dialer, self._options)
            self._parts.handles.relieve.append(self._connector.relieve)
        target = PoolTarget(
            request=ClientRequest("POST", url, loop=self._loop, ssl=context or True),
            head=first_lines(url),
            context=context,
        )
        if len(self._targets) >= _TARGETS:
            del self._targets[next(iter(self._targets))]
        self._targets[text if policy is None else (text, policy)] = target
        return target
