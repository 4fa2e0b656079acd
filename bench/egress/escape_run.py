"""Try every case of the corpus: ``python -m bench.egress.escape_run CLIENT SHARE FOLDER RESULT``.

It runs in a network of its own, from which every address leads to :mod:`bench.egress.outside` or back here.
The connections are read from both logs, after each of its parts:

    strict      the corpus, under the rule that only public addresses are reached
    own-port    this machine's own ports, where every address is allowed
    allow-port  refused networks that are allowed at one port, asked for at the others
    deny        refused networks that are denied, where every address is allowed
    control     the same routes with the guard open: their connections show that the logs would see an escape
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import uvloop

from bench.egress import corpus
from bench.egress.corpus import ALLOWED_PORT, Case
from bench.egress.outside import Outside
from consumer.core.access import Access, OAuth2Client
from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.edges.http import Proxy, SenderOptions, WebhookSender
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.proxy_server import ProxyServer

GOOD = ("93.184.216.34", "2606:2800:220:1::1")  #: public; it protects nothing
EVERYWHERE = ("0.0.0.0/0", "::/0")
AT_ONCE = 50
DEADLINE_S = 2.0

Place = tuple[str, int]  #: address and port that were connected to
Scheme = tuple[str, int]


@dataclass(slots=True)
class Findings:
    """The counts of one run."""

    tried: int = 0  #: cases that must not arrive
    escapes: list[str] = field(default_factory=list)  #: part, address and port of those that did
    asked: list[str] = field(default_factory=list)  #: forbidden addresses that a proxy was asked for
    kinds: Counter[str] = field(default_factory=Counter)
    good: int = 0  #: connections to the good addresses meanwhile
    redirects: int = 0  #: answers that named a forbidden address
    controls: dict[str, tuple[int, int]] = field(default_factory=dict)  #: route -> (arrived, tried)


class Run:
    """All senders of one client, and all that a stranger may bring along."""

    def __init__(self, client: Literal["aiohttp", "httpx"], folder: Path) -> None:
        self.client = client
        self.logs = (folder / "outside.log", folder / "inside.log")
        self.found = Findings()
        self.dns = NameServer()
        self.hosts: dict[str, str] = {}  #: where the proxy thinks that names lead: it may be rebound
        self.proxy = ProxyServer(hosts=self.hosts)
        self.names = 0
        self.senders: list[WebhookSender] = []

    def sender(
        self, allow: Iterable[str] = (), deny: Iterable[str] = (), *, names: bool = False
    ) -> Callable[[Case], WebhookSender]:
        """Return a function that picks a sender for a case: a direct one, or one behind the proxy."""
        rule = parse_rule(allow, allow_http=True, deny=deny)
        way = Proxy(scheme="http", host="127.0.0.1", port=self.proxy.port, names=names)
        direct, proxied = (
            WebhookSender(
                self.client,
                SenderOptions(
                    egress=rule,
                    name_servers=(self.dns.address,),
                    resolve_ttl_min_s=0.0,
                    connect_timeout_s=1.0,
                    proxy=proxy,
                ),
            )
            for proxy in (None, way)
        )
        self.senders += [direct, proxied]
        return lambda case: proxied if case.way.startswith("proxy") else direct

    async def run(self, share: float) -> Findings:
        """Try a *share* of all cases, then see that the allowed ones do arrive."""
        inside = Outside(str(self.logs[1]))
        await inside.start()
        async with self.dns, self.proxy:
            await self.strict(share)
            await self.others(share)
            self.found.asked = sorted({host for host, _ in self.proxy.asked} - set(GOOD))
            await self.control()
            for sender in self.senders:
                await sender.close()
        return self.found

    async def strict(self, share: float) -> None:
        """Try the corpus with every scheme; nothing but the good addresses may be seen."""
        wanted = _some(corpus.cases(), share)
        outside, here = await self.phase(self.sender(), wanted, corpus.schemes())
        self.found.good = sum(address in GOOD for address, _ in outside)
        self.count("strict", [*outside, *here], len(wanted) * len(corpus.schemes()))

    async def others(self, share: float) -> None:
        """Try the cases that are refused although their network is allowed."""
        ours = self.sender(EVERYWHERE)
        for sender in self.senders[-2:]:
            for _, port in corpus.schemes():
                sender.guard.protect("127.0.0.1", port)
        wanted = _some(corpus.own_port_cases(), share)
        _, here = await self.phase(ours, wanted, corpus.schemes())
        self.count("own-port", here, len(wanted) * len(corpus.schemes()))
        networks = (*corpus.REFUSED_V4, *corpus.REFUSED_V6)
        at_port = self.sender([f"{network}:{ALLOWED_PORT}" for network in networks])
        wanted = _some(corpus.plain_cases(), share)
        closed = [scheme for scheme in corpus.schemes() if scheme[1] != ALLOWED_PORT]
        outside, here = await self.phase(at_port, wanted, closed)
        self.count("allow-port", [*outside, *here], len(wanted) * len(closed))
        outside, here = await self.phase(at_port, wanted, [("http", ALLOWED_PORT)])
        self.arrived("allow-port", wanted, {*outside, *here}, [ALLOWED_PORT])
        denying = self.sender(EVERYWHERE, networks)
        outside, here = await self.phase(denying, wanted, corpus.schemes())
        self.count("deny", [*outside, *here], len(wanted) * len(corpus.schemes()))

    async def control(self) -> None:
        """Try some of the same addresses by every route, where everything is allowed."""
        wanted = list(corpus.control_cases())
        pick = self.sender(EVERYWHERE, names=True)
        ports = [port for _, port in corpus.schemes()]
        for way in dict.fromkeys(case.way for case in wanted):
            chosen = [case for case in wanted if case.way == way]
            outside, here = await self.phase(pick, chosen, corpus.schemes())
            self.arrived(way, chosen, {*outside, *here}, ports)
        chosen = [case for case in corpus.own_port_cases() if case.way == "url" and _is_plain(case)]
        _, here = await self.phase(pick, chosen, corpus.schemes())
        self.arrived("own-port", chosen, set(here), ports)

    async def phase(
        self, pick: Callable[[Case], WebhookSender], cases: Sequence[Case], schemes: Sequence[Scheme]
    ) -> tuple[list[Place], list[Place]]:
        """Try *cases* with all *schemes*; return the connections to the outside, and to this machine."""
        before = [len(_places(log)) for log in self.logs]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(case: Case, scheme: str, port: int) -> None:
            async with gate:
                await self.attempt(case, scheme, port, pick(case))

        await asyncio.gather(*(one(case, scheme, port) for case in cases for scheme, port in schemes))
        outside, here = (_places(log)[count:] for log, count in zip(self.logs, before, strict=True))
        return outside, here

    async def attempt(self, case: Case, scheme: str, port: int, sender: WebhookSender) -> None:
        """Try one case."""
        bad = Answer((case.address,))
        good = Answer((GOOD[":" in case.address],))
        host, path, access, times = case.host, "/", None, 1
        bracketed = f"[{case.address}]" if ":" in case.address else case.address
        match case.way:
            case "name":
                host = self.name(bad)
            case "name-beside-good":
                host = self.name(Answer((*GOOD, case.address)))
            case "alias":
                host = self.name(Answer(alias=self.name(bad)))
            case "rebind":
                host, times = self.name(good, bad), 2
            case "redirect":
                host, scheme, path = GOOD[0], "http", f"/to?{scheme}://{bracketed}:{port}/"
                port = 80
            case "token":
                host = GOOD[0]
                url = f"{scheme}://{bracketed}:{port}/token"
                access = Access(oauth2=OAuth2Client(token_url=url, client_id=case.way, client_secret="b"))
            case "proxy":
                host = bracketed
            case "proxy-rebind":
                host = self.name(good)
                self.hosts[host] = case.address
        for _ in range(times):
            url = f"{scheme}://{host}:{port}{path}"
            outcome = await sender.send(SignedRequest(url, (("webhook-id", "m"),), b"{}", DEADLINE_S, access))
            self.found.kinds[f"{case.way}: {outcome.kind.value}"] += 1
            self.found.redirects += outcome.kind is OutcomeKind.HTTP_3XX and bool(outcome.location)

    def name(self, *answers: Answer) -> str:
        """Return a new name with these answers."""
        self.names += 1
        name = f"n{self.names}.example"
        self.dns.on(name, *answers)
        return name

    def count(self, part: str, seen: Sequence[Place], tried: int) -> None:
        """Note the connections of a part in which only the good addresses may appear."""
        self.found.tried += tried
        bad = sorted({place for place in seen if place[0] not in GOOD})
        self.found.escapes += [f"{part}: {address} port {port}" for address, port in bad]

    def arrived(self, way: str, cases: Sequence[Case], seen: set[Place], ports: Sequence[int]) -> None:
        """Note how many of the places that *cases* ask for were reached."""
        wanted = {(_unmapped(case.address), port) for case in cases for port in ports}
        if way == "name-beside-good":  # whichever of its addresses was tried first
            wanted = {("good", port) for port in ports}
            seen = {("good", port) for address, port in seen if address in GOOD}
        self.found.controls[way] = (len(wanted & seen), len(wanted))


def _some(cases: Iterable[Case], share: float) -> list[Case]:
    return list(cases)[:: max(1, round(1 / share))]


def _is_plain(case: Case) -> bool:
    """Whether the host is the address as it is, and not one that the kernel gives another name."""
    return case.host.strip("[]") == case.address and not ip_address(case.address).is_unspecified


def _unmapped(text: str) -> str:
    address = ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _places(log: Path) -> list[Place]:
    """Return the entries of a log, mapped addresses as IPv4."""
    if not log.exists():
        return []
    lines = [line.split() for line in log.read_text(encoding="ascii").splitlines()]
    return [(_unmapped(address), int(port)) for address, port in lines]


if __name__ == "__main__":
    _, chosen, part, where, target = sys.argv
    which: Literal["aiohttp", "httpx"] = "aiohttp" if chosen == "aiohttp" else "httpx"
    result = uvloop.run(Run(which, Path(where)).run(float(part)))
    fields = {name: getattr(result, name) for name in Findings.__slots__}
    Path(target).write_text(json.dumps(fields), encoding="utf-8")
