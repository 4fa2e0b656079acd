"""Try every case of the corpus: ``python -m bench.egress.escape_run CLIENT SHARE FOLDER RESULT``.

It runs in a network of its own, from which every address leads to :mod:`bench.egress.outside` or back here.
What was connected to is read from both logs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import uvloop

from bench.egress.corpus import Case, addresses, cases, schemes
from bench.egress.outside import Outside
from consumer.core.access import Access, OAuth2Client
from consumer.core.egress import parse_rule
from consumer.core.model import SignedRequest
from consumer.edges.http import Proxy, SenderOptions, WebhookSender
from tests.name_server import Answer, NameServer
from tests.proxy_server import ProxyServer

GOOD = ("93.184.216.34", "2606:2800:220:1::1")  #: public, and nobody's secret
PROXY_TARGET = "elsewhere.example"
AT_ONCE = 50
DEADLINE_S = 2.0


@dataclass(slots=True)
class Findings:
    """What happened."""

    tried: int = 0
    escapes: list[str] = field(default_factory=list)  #: addresses that were connected to
    asked: list[str] = field(default_factory=list)  #: forbidden addresses that a proxy was asked for
    kinds: Counter[str] = field(default_factory=Counter)
    good: int = 0  #: connections to the good addresses: the others would have been seen as well
    open_reached: int = 0  #: of the same addresses without the guard, how many were reached
    open_tried: int = 0


class Run:
    """One sender, guarded, with all that a stranger may bring along."""

    def __init__(self, client: Literal["aiohttp", "httpx"], folder: Path) -> None:
        self.client = client
        self.logs = (folder / "outside.log", folder / "inside.log")
        self.found = Findings()
        self.dns = NameServer()
        self.proxy = ProxyServer(hosts=_Anywhere())
        self.names = 0

    def options(self, **more: object) -> SenderOptions:
        """Return the strict options, with *more*."""
        values: dict[str, object] = {
            "egress": parse_rule(allow_http=True),
            "name_servers": (self.dns.address,),
            "resolve_ttl_min_s": 0.0,
            "connect_timeout_s": 1.0,
            **more,
        }
        return SenderOptions(**values)  # type: ignore[arg-type]  # by name

    def name(self, *answers: Answer) -> str:
        """Return a new name with these answers."""
        self.names += 1
        name = f"n{self.names}.example"
        self.dns.on(name, *answers)
        return name

    async def run(self, share: float) -> Findings:
        """Try a *share* of all cases with every scheme, then the same addresses unguarded."""
        inside = Outside(str(self.logs[1]))
        await inside.start()
        async with self.dns, self.proxy:
            way = Proxy(scheme="http", host="127.0.0.1", port=self.proxy.port)
            direct = WebhookSender(self.client, self.options())
            proxied = WebhookSender(self.client, self.options(proxy=way))
            wanted = list(cases())
            wanted = wanted[:: max(1, round(1 / share))]
            gate = asyncio.Semaphore(AT_ONCE)

            async def one(case: Case, scheme: str, port: int) -> None:
                async with gate:
                    await self.attempt(
                        case, scheme, port, proxied if case.way.startswith("proxy") else direct
                    )

            await asyncio.gather(*(one(c, scheme, port) for c in wanted for scheme, port in schemes()))
            self.read_logs()
            await direct.close()
            await proxied.close()
            await self.without_guard()
        return self.found

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
                access = Access(oauth2=OAuth2Client(token_url=url, client_id="a", client_secret="b"))
            case "proxy":
                host = bracketed
            case "proxy-rebind":
                host = self.name(good)
                self.proxy_hosts[host] = case.address
        for _ in range(times):
            url = f"{scheme}://{host}:{port}{path}"
            outcome = await sender.send(SignedRequest(url, (("webhook-id", "m"),), b"{}", DEADLINE_S, access))
            self.found.kinds[f"{case.way}: {outcome.kind.value}"] += 1
        self.found.tried += 1

    @property
    def proxy_hosts(self) -> dict[str, str]:
        """Where the proxy itself thinks that names lead: it was rebound."""
        hosts = self.proxy.hosts
        assert isinstance(hosts, dict)
        return hosts

    def read_logs(self) -> None:
        """Tell good connections from escapes."""
        seen = [line for log in self.logs for line in _lines(log)]
        self.found.good = sum(each in GOOD for each in seen)
        self.found.escapes = sorted({each for each in seen if each not in GOOD})
        self.found.asked = sorted({host for host, _ in self.proxy.asked if host not in GOOD})

    async def without_guard(self) -> None:
        """Ask for the same addresses where everything is allowed: had they been asked for, we had seen it."""
        before = [len(_lines(log)) for log in self.logs]
        sender = WebhookSender(self.client, self.options(egress=parse_rule(["0.0.0.0/0", "::/0"])))
        for address in addresses():
            host = f"[{address}]" if ":" in str(address) else str(address)
            await sender.send(SignedRequest(f"http://{host}/", (), b"{}", DEADLINE_S))
            self.found.open_tried += 1
        await sender.close()
        reached = [line for log, count in zip(self.logs, before, strict=True) for line in _lines(log)[count:]]
        self.found.open_reached = len(set(reached))


class _Anywhere(dict[str, str]):
    """Names lead where the case says, addresses to themselves."""


def _lines(log: Path) -> list[str]:
    """Return the addresses in a log, mapped ones as IPv4."""
    if not log.exists():
        return []
    found = [ip_address(line) for line in log.read_text(encoding="ascii").split()]
    return [str(getattr(each, "ipv4_mapped", None) or each) for each in found]


if __name__ == "__main__":
    _, chosen, part, where, target = sys.argv
    which: Literal["aiohttp", "httpx"] = "aiohttp" if chosen == "aiohttp" else "httpx"
    result = uvloop.run(Run(which, Path(where)).run(float(part)))
    fields = {name: getattr(result, name) for name in Findings.__slots__}
    Path(target).write_text(json.dumps(fields), encoding="utf-8")
