"""A real name server on loopback, over UDP and TCP, with answers from the test; it counts the questions.

Data flow: resolver -> question -> (NameServer) the next answer of that name -> addresses, a code or silence.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from dataclasses import dataclass
from types import TracebackType

import dnslib  # type: ignore[import-untyped]  # it has no types

from tests.support.processes.children import free_port

_UDP_BYTES = 1_232  #: a longer answer is cut over UDP, and the client comes back over TCP


@dataclass(frozen=True, slots=True)
class Answer:
    """The records of a name, or why it has none."""

    addresses: tuple[str, ...] = ()
    ttl_s: int = 0
    code: str = "NOERROR"  #: NXDOMAIN, SERVFAIL, REFUSED ...
    alias: str | None = None  #: the name that it is a CNAME of
    silent: bool = False  #: never answers


class NameServer:
    """Answers for the names that the test added, at :attr:`address`. An async context manager."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()  #: questions for A records, by name
        self.address = ""
        self._answers: dict[str, list[Answer]] = {}
        self._turn: Counter[tuple[str, int]] = Counter()  #: answers given so far, by name and type
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None

    def on(self, name: str, *answers: Answer) -> None:
        """Answer look-ups of *name* with *answers* in turn; the last one stays."""
        self._answers[name] = list(answers)
        for kind in (dnslib.QTYPE.A, dnslib.QTYPE.AAAA):
            self._turn.pop((name, kind), None)

    async def __aenter__(self) -> NameServer:
        port = free_port()  # for TCP and UDP: of the ports that the kernel gives away, one may be half taken
        self._tcp = await asyncio.start_server(self._serve_tcp, "127.0.0.1", port)
        loop = asyncio.get_running_loop()
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(self), ("127.0.0.1", port))
        self.address = f"127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tcp is not None
        assert self._udp is not None
        self._udp.close()
        self._tcp.close()
        await self._tcp.wait_closed()

    async def refuse_tcp(self) -> None:
        """Answer over UDP only from now on."""
        assert self._tcp is not None
        self._tcp.close()
        await self._tcp.wait_closed()

    def reply(self, question: bytes) -> dnslib.DNSRecord | None:
        """Return the answer to *question*; None is silence."""
        request = dnslib.DNSRecord.parse(question)
        name = str(request.q.qname).rstrip(".")
        answer = self._next(name, request.q.qtype)
        if answer.silent:
            return None
        reply = request.reply()
        reply.header.rcode = getattr(dnslib.RCODE, answer.code)
        self._fill(reply, name, answer, request.q.qtype)
        return reply

    def _next(self, name: str, kind: int) -> Answer:
        """Return the next answer for this type of record: a resolver may keep that the other has none."""
        self.asked[name] += kind == dnslib.QTYPE.A
        answers = self._answers.get(name, [Answer(code="NXDOMAIN")])
        turn = self._turn[name, kind]
        self._turn[name, kind] += 1
        return answers[min(turn, len(answers) - 1)]

    def _fill(self, reply: dnslib.DNSRecord, name: str, answer: Answer, kind: int) -> None:
        if answer.alias is not None:
            target = dnslib.CNAME(answer.alias)
            reply.add_answer(dnslib.RR(name, dnslib.QTYPE.CNAME, ttl=answer.ttl_s, rdata=target))
            self._fill(reply, answer.alias, self._answers[answer.alias][0], kind)
        for address in answer.addresses:
            if (":" in address) == (kind == dnslib.QTYPE.AAAA):
                record = dnslib.AAAA(address) if ":" in address else dnslib.A(address)
                reply.add_answer(dnslib.RR(name, kind, ttl=answer.ttl_s, rdata=record))

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack("!H", await reader.readexactly(2))
                reply = self.reply(await reader.readexactly(size))
                if reply is not None:
                    packed = reply.pack()
                    writer.write(struct.pack("!H", len(packed)) + packed)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.transport.abort()


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a datagram transport; uvloop's fails isinstance

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._server.reply(data)
        if reply is None or self._transport is None:
            return
        packed = reply.pack()
        if len(packed) > _UDP_BYTES:
            cut = dnslib.DNSRecord.parse(data).reply()
            cut.header.tc = 1
            packed = cut.pack()
        self._transport.sendto(packed, addr)
