"""Send webhooks over HTTP/1.1: SignedRequest -> one attempt under one deadline -> Outcome.

Data flow: flow.deliver -> (AiohttpSender.send) target by URL -> connection from the pool, or a guarded new
one -> request written in one piece -> response head, bounded body -> Outcome -> core.retry decides.

The sender drives aiohttp's connector itself instead of a ``ClientSession``. Its pool is what we want of it;
the session around it (cookies, redirects, objects for URL, headers and response, a task for each body) costs
as much again: ``bench/http_clients.py`` measures it. Responses are read by :mod:`.answer`, as the other
sender reads them.

**What is sent twice.** A server may act on a POST as soon as a byte of it has left, so after that a request
is never sent again: a connection that breaks is an Outcome, and the retry ladder decides. Between taking a
connection from the pool and writing there is no await, and before the first byte the kernel is asked
whether the server has closed meanwhile. Such a connection is thrown away, and the request goes out on
another: once more and once only.

**Whose answer it is.** What comes on a connection while no request is out belongs to no request: such a
connection is cut. A 204 has no body, yet some servers write one behind it, and that may come after the next
request has left: until an endpoint's 204 has been seen to be followed by nothing, its connection is not used
again at once.
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
from consumer.edges.http.senders.connector import Connector, Handler, Target
from consumer.edges.http.senders.request import first_lines, read_url, write_head

_TARGETS = 8_192  #: URLs kept parsed; the oldest goes first
_JOIN_BYTES = 65_536  #: a body up to this size is copied behind its head: one buffer, one write
_NO_BOUND = ClientTimeout()  #: the dialer has its own


class _Line(NamedTuple):
    """A connection that is ours until it is released or cut."""

    connection: Connection
    protocol: Handler
    transport: asyncio.Transport


@dataclass(slots=True)
class _Attempt:
    """How far one attempt has come; what its outcome is told from."""

    answer: Answer
    line: _Line | None = None  #: None before there is one, and once the pool has it back

    def took(self, line: _Line) -> _Line:
        """Hold a connection; return it."""
        self.line = line
        return line

    def gave_back(self) -> None:
        """Hold none: the pool has it, or will."""
        self.line = None


class _Deadline:
    """What ``asyncio.timeout`` does, on a loop that is known: that one asks for the loop three times per use,
    and each time costs a system call."""

    __slots__ = ("_cancelling", "_handle", "_owes", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a request is sent within a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._owes = False  #: a cancellation was asked for, and is not undone yet
        self._handle = loop.call_later(timeout_s, self._expire)

    def passed(self) -> bool:
        """Say whether the cancellation that has just been caught is this deadline's alone."""
        return self._owes and self._undo() <= self._cancelling

    def call_off(self) -> None:
        """The request has ended; whatever came of it, the task is left with no cancellation of ours."""
        self._handle.cancel()
        if self._owes:  # what was cancelled ended in another way
            self._undo()

    def _undo(self) -> int:
        self._owes = False
        return self._task.uncancel()

    def _expire(self) -> None:
        self._owes = True
        self._task.cancel()


class AiohttpSender:
    """Sends with aiohttp: a :class:`consumer.ports.Sender`. Lives in the loop of its first :meth:`send`."""

    def __init__(self, parts: Parts) -> None:
        """Prepare; nothing is opened before the first request. The parts are closed by who made them."""
        self._options = parts.options
        self._parts = parts
        self._connector: Connector | None = None
        self._targets: dict[str | tuple[str, TlsPolicy], Target] = {}
        self._in_flight: set[Handler] = set()
        self._watched: dict[_Line, asyncio.TimerHandle] = {}  #: see :meth:`_watch`
        self._closed = False
        parts.tls.evicted.append(self._forget)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request* under its total deadline and say what came of it.

        The status decides as soon as there is one: a body that is cut, endless or malformed changes
        neither a success nor a failure. Nothing is followed, kept as a cookie, or decompressed.

        Returns:
            An Outcome whatever happens; unknown faults are ``CLIENT_ERROR`` with the type's name.

        Raises:
            asyncio.CancelledError: the caller gave up; the connection is cut.
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
            kind, detail = late_in(cut, connected=attempt.line is not None)
        except Exception as fault:  # the port's promise: every fault is an outcome
            kind, detail = classify(fault)
        finally:
            deadline.call_off()
            if attempt.line is not None:
                self._cut(attempt.line)
        duration_s = time.monotonic() - began
        if not answer.status:
            return Outcome(kind=kind, duration_s=duration_s, detail=detail)
        outcome = answered(
            answer.status, answer.values, bytes(answer.body), duration_s, detail or answer.fault
        )
        return outcome._replace(control=control_of(answer.values)) if self._options.obey_control else outcome

    async def close(self) -> None:
        """Close every connection; requests in flight end as ``RESET``, later ones are refused."""
        self._closed = True
        for protocol in self._in_flight:
            protocol.abort()
        for line, timer in self._watched.items():
            timer.cancel()
            line.connection.close()
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
        line = attempt.took(await self._connect(target))
        line.protocol.begin(target, attempt.answer)
        if len(request.body) <= _JOIN_BYTES:
            line.transport.write(head + request.body)
        else:
            line.transport.writelines((head, request.body))
        await line.protocol.finish()
        if attempt.answer.whole and not line.transport.get_write_buffer_size():
            attempt.gave_back()
            self._in_flight.discard(line.protocol)
            if target.context is not None:
                line.protocol.keep_session(target.context)
            self._give_back(line, target, attempt.answer)

    def _give_back(self, line: _Line, target: Target, answer: Answer) -> None:
        line.protocol.rest()
        if not answer.kept or self._loop.time() >= line.protocol.ends_at:
            line.connection.close()
        elif target.quiet or not answer.bodiless:
            line.connection.release()
        elif target.watched:
            line.connection.close()
        else:
            target.watch()
            self._watched[line] = self._loop.call_later(QUIET_S, self._watch, line, target)

    def _watch(self, line: _Line, target: Target) -> None:
        """See whether a 204 was followed by nothing; its endpoint's connections are kept from then on."""
        del self._watched[line]
        wire = line.protocol.wire
        target.seen(quiet=not line.protocol.should_close and wire is not None and not wire.stirs())
        if target.quiet:
            line.connection.release()
        else:
            line.connection.close()

    async def _connect(self, target: Target) -> _Line:
        """Return a connection on which the first byte can be written now.

        One that died in the pool is thrown away and replaced once: nothing was written on it.

        Raises:
            ConnectionResetError: the server closed the second one, too, or spoke on it, before it was used.
        """
        connector = self._connector
        if connector is None:
            raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        for last in (False, True):
            connection = await connector.connect(target.request, [], _NO_BOUND)
            line = self._usable(connection)
            if line is not None:
                self._in_flight.add(line.protocol)
                return line
            connection.close()
            if not last:
                await asyncio.sleep(0)  # lets the loop see every other close that came with this one
        raise ConnectionResetError("the server closed the connection, or spoke, before anything was written")

    def _usable(self, connection: Connection) -> _Line | None:
        """Return the line if nothing speaks against writing on it.

        Not when it is closed, when the server's close waits unread, or when it spoke out of turn.
        """
        protocol = connection.protocol
        if not isinstance(protocol, Handler) or protocol.should_close:
            return None
        transport = protocol.transport
        if transport is None or transport.is_closing():
            return None
        wire = protocol.wire
        if wire is None:
            wire = protocol.first_use(transport, self._loop.time() + self._options.connection_max_age_s)
            useless = wire.gone()  # bytes may be TLS's own, and belong to no request before this one
        else:
            useless = wire.stirs()
        return None if useless else _Line(connection, protocol, transport)

    def _cut(self, line: _Line) -> None:
        """Cut the connection at once: a close would wait for a peer that does not read."""
        self._in_flight.discard(line.protocol)
        line.protocol.abort()
        line.connection.close()

    def _forget(self, policy: TlsPolicy) -> None:
        """Keep no target that holds the context of *policy*."""
        for key in [key for key in self._targets if isinstance(key, tuple) and key[1] == policy]:
            del self._targets[key]

    async def _target(self, text: str, policy: TlsPolicy | None) -> Target:
        """Work out what a URL means, and remember it."""
        url = read_url(text, self._options.egress)
        tls = url.scheme == "https"
        context = await self._parts.tls.of(policy) if tls else None
        if self._closed:
            raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        if self._connector is None:
            self._connector = Connector(self._parts.dialer, self._options)
            self._parts.handles.relieve.append(self._connector.relieve)
        target = Target(
            request=ClientRequest("POST", url, loop=self._loop, ssl=context or True),
            head=first_lines(url),
            context=context,
        )
        if len(self._targets) >= _TARGETS:
            del self._targets[next(iter(self._targets))]
        self._targets[text if policy is None else (text, policy)] = target
        return target
