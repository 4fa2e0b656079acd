"""List URLs that lead to a forbidden address: every refused range, in every spelling that we know.

Data flow: ranges -> some addresses of each -> (spellings, names) -> Case, which the run sends and nobody may
ever see arrive. The ranges are written down here again, from the registries, and not taken from the product.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

SEED = 20_26
EACH = 4  #: addresses of a range: the first, the last, and some between
PUBLIC_V6 = "2606:4700:10::"  #: a network that is public, for addresses that hide another one in their tail

#: Source: IANA IPv4 Special-Purpose Address Registry; RFC 5771; RFC 1112; Azure's wire server.
REFUSED_V4 = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
    *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
)
#: Source: IANA IPv6 Special-Purpose Address Registry; IANA IPv6 Address Space (only 2000::/3 is handed out).
REFUSED_V6 = (
    *("::/128", "::1/128", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/32"),
    *("2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
    *("4000::/3", "8000::/3", "e000::/4", "f000::/5", "fc00::/7", "fd00:ec2::/32", "fe80::/10", "fec0::/10"),
    *("ff00::/8", "::ffff:0:0:0/96"),
)


#: The addresses of the machine that sends: public ones, and those that mean it wherever it is.
OWN = ("5.5.5.2", "2a0a::2")
HERE = (*OWN, "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::")  # noqa: S104 - addresses to refuse

#: Routes beside a URL that names the address: a name server, a redirect, a token endpoint, a proxy.
WAYS = ("name", "name-beside-good", "alias", "rebind", "redirect", "token", "proxy", "proxy-rebind")
ALLOWED_PORT = 6379  #: the one that is allowed where a network is allowed at one port only
CONTROL_EVERY = 5  #: with the guard open every such address is tried, by every route


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try."""

    way: str  #: how: ``url`` asks for the host, the others need a name server, a redirect, a proxy ...
    host: str  #: as the URL contains it
    address: str  #: that must not be reached


def addresses() -> list[IPv4Address | IPv6Address]:
    """Return some addresses of every range."""
    chance = random.Random(SEED)
    found: list[IPv4Address | IPv6Address] = []
    networks: list[IPv4Network | IPv6Network] = [*map(IPv4Network, REFUSED_V4), *map(IPv6Network, REFUSED_V6)]
    for network in networks:
        first, last = int(network[0]), int(network[-1])
        numbers = {first, last, *(chance.randint(first, last) for _ in range(EACH - 2))}
        found += [type(network[0])(number) for number in sorted(numbers)]
    return found


def cases() -> Iterator[Case]:
    """Yield everything to try under the strict rule, own addresses of this machine included."""
    for address in (*addresses(), *map(ip_address, OWN)):
        yield from spelt(address)
        yield from (Case(way, "", str(address)) for way in WAYS)


def spelt(address: IPv4Address | IPv6Address) -> Iterator[Case]:
    """Yield *address* in every spelling."""
    hosts = v4_spellings(address) if isinstance(address, IPv4Address) else v6_spellings(address)
    yield from (Case("url", host, str(address)) for host in hosts)


def own_port_cases() -> Iterator[Case]:
    """Yield the cases that lead to a port of ours on this machine, where every address is allowed."""
    for address in map(ip_address, HERE):
        yield from spelt(address)
        yield from (Case(way, "", str(address)) for way in ("name", "rebind", "token", "proxy"))


def plain_cases() -> Iterator[Case]:
    """Yield every address by itself and by a name: for networks allowed at one port, or denied."""
    for address in addresses():
        yield plain(address)
        yield Case("name", "", str(address))


def plain(address: IPv4Address | IPv6Address) -> Case:
    """Return the case that asks for *address* as it is."""
    return Case("url", f"[{address}]" if address.version == 6 else str(address), str(address))


def control_cases() -> Iterator[Case]:
    """Yield cases of every route that have to arrive while the guard is open, without followed redirects."""
    for address in (*addresses()[::CONTROL_EVERY], *map(ip_address, OWN)):
        yield plain(address)
        yield from (Case(way, "", str(address)) for way in WAYS if way != "redirect")


def v4_spellings(address: IPv4Address) -> Iterator[str]:
    """Yield spellings that some resolver, parser or translator takes for *address*."""
    value, text = int(address), str(address)
    a, b, c, d = address.packed
    yield text
    yield f"{text}."
    yield f"{value}"
    yield f"{value:#x}"
    yield f"0{value:o}"
    yield f"{a:#x}.{b:#x}.{c:#x}.{d:#x}"
    yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
    yield f"{a:03}.{b:03}.{c:03}.{d:03}"
    yield f"{a}.{b}.{(c << 8) | d}"
    yield f"{a}.{(b << 16) | (c << 8) | d}"
    yield "".join(f"%{ord(char):02x}" for char in text)
    yield text.translate({ord(char): ord(char) - ord("0") + 0xFF10 for char in "0123456789"})
    yield text.replace(".", "。")
    for tail in (f"::ffff:{text}", f"::{text}", f"::ffff:0:{text}", f"64:ff9b::{text}"):
        yield f"[{tail}]"
        yield f"[{IPv6Address(tail).exploded}]"
    yield f"[2002:{value >> 16:x}:{value & 0xFFFF:x}::1]"
    yield f"[2001:0:{value >> 16:x}:{value & 0xFFFF:x}::{value ^ 0xFFFFFFFF & 0xFFFF:x}]"
    yield f"[{IPv6Address(int(IPv6Address('2001::')) | value ^ 0xFFFF_FFFF)}]"
    for mark in (0x5EFE, 0x0200_5EFE):
        yield f"[{IPv6Address(int(IPv6Address(PUBLIC_V6)) | mark << 32 | value)}]"


def v6_spellings(address: IPv6Address) -> Iterator[str]:
    """Yield the spellings of an IPv6 address."""
    yield f"[{address}]"
    yield f"[{address.exploded.upper()}]"
    yield f"[{address}%25lo]"
    yield f"[{address}%lo]"
    if address.ipv4_mapped is None:
        yield f"[{':'.join(str(address.exploded).split(':')[:6])}:{IPv4Address(int(address) & 0xFFFF_FFFF)}]"


def schemes() -> Sequence[tuple[str, int]]:
    """Return the schemes and ports that every case is tried with."""
    return (("http", 80), ("https", 443), ("http", ALLOWED_PORT))
