"""Decide to which addresses a webhook may go.

Data flow: URL -> (refuse_url) scheme and host -> edges.http resolves -> (refuse_address) every address found,
and again the one address to which a connection is about to be made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias, TypeVar

from consumer.core.errors import ConfigError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_T = TypeVar("_T")

#: IPv4 that is not the public internet.
#: Source: IANA IPv4 Special-Purpose Address Registry; RFC 5771 (multicast); RFC 1112 (240/4);
#: 168.63.129.16 is Azure's wire server: a public address that only its own host can reach.
_REFUSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)

#: The only IPv6 block that is assigned as global unicast.
#: Source: IANA IPv6 Global Unicast Address Assignments; RFC 4291, section 2.4.
_GLOBAL_V6 = IPv6Network("2000::/3")

#: Networks inside 2000::/3 that are not the public internet: Teredo and ORCHID, documentation, 6to4.
#: Source: IANA IPv6 Special-Purpose Address Registry.
_REFUSED_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

#: Most resolvers take a host whose last label is a number for an IPv4 address, in octal, in hex or with
#: missing parts. Source: WHATWG URL, "ends in a number checker".
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?$")


#: Last 64 bits of an ISATAP address begin so; the IPv4 address follows. Source: RFC 5214, section 6.1.
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)

#: IPv6 networks whose last 32 bits are an IPv4 address, beside ``::ffff:0:0/96``: IPv4-compatible,
#: IPv4-translated, NAT64. Source: RFC 4291, 2.5.5.1; RFC 7915, appendix; RFC 6052, 2.1.
_ENDS_IN_V4 = tuple(IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96"))


#: Sockets treat these addresses as IPv4. Source: RFC 4291, 2.5.5.2.
_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A network that the operator allows."""

    network: Network
    port: int | None = None  #: None: every port

    def __str__(self) -> str:
        """Return the network as it is written in the settings."""
        return f"{self.network}" if self.port is None else f"{self.network}:{self.port}"

    def covers(self, address: Address, port: int | None) -> bool:
        """Return whether *port* of *address* is allowed by this."""
        return holds(self.network, address) and self.port in (None, port)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRule:
    """Where webhooks may go beyond the public internet over TLS."""

    allow: tuple[Allowed, ...] = ()  #: reachable although not public, over ``http`` too
    allow_http: bool = False  #: True: plain ``http`` also to public addresses
    deny: tuple[Network, ...] = ()  #: never reachable, whatever *allow* says

    def allows(self, address: Address, port: int | None) -> bool:
        """Return whether *allow* contains the address."""
        return any(allowed.covers(address, port) for allowed in self.allow)


def parse_allowed(text: str) -> Allowed:
    """Read ``10.1.0.0/16``, ``10.1.0.0/16:8443`` or ``fd00::/8:8443``; one address is a network of one.

    Raises:
        ValueError: *text* has another form, or bits set beyond its prefix.
    """
    head, slash, tail = text.partition("/")
    prefix, colon, port_text = tail.partition(":")
    network = ip_network(f"{head}{slash}{prefix}")
    if not colon:
        return Allowed(network)
    port = int(port_text) if port_text.isascii() and port_text.isdecimal() else 0
    if not 1 <= port <= 65_535:
        raise ValueError(f"{text!r} has a port outside 1 to 65535")
    return Allowed(network, port)


def parse_rule(
    allow: Iterable[str] = (), *, allow_http: bool = False, deny: Iterable[str] = ()
) -> EgressRule:
    """Build a rule from CIDR texts such as ``127.0.0.0/8``, ``fd00::/8`` or ``10.0.0.0/8:8443``.

    Raises:
        ConfigError: a text is not a network, or has bits set beyond its prefix.
    """
    return EgressRule(
        allow=tuple(_configured("egress.allow", text, parse_allowed) for text in allow),
        allow_http=allow_http,
        deny=tuple(_configured("egress.deny", text, ip_network) for text in deny),
    )


def _configured(key: str, text: str, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(text)
    except ValueError as fault:
        raise ConfigError(f"{key}: {text!r} is not a network ({fault}); write it like 10.1.0.0/16") from None


def refuse_url(scheme: str, host: str, rule: EgressRule) -> str | None:
    """Return why a URL may not be called whatever its host resolves to, or None."""
    if scheme not in ("http", "https"):
        return f"scheme {scheme!r} is not http or https"
    if scheme == "http" and not rule.allow_http and not rule.allow:
        return "plain http is not allowed"
    if _ENDS_IN_NUMBER.search(host) and not is_address(host):
        return "the host is a number that is not a plain IPv4 address"
    return None


def refuse_address(text: str, rule: EgressRule, *, tls: bool, port: int | None = None) -> str | None:
    """Return why no connection may be made to an address, or None when it may.

    Args:
        text: A literal address as a resolver or a socket gives it; one with an IPv6 zone is refused.
        rule: The addresses that the operator allows.
        tls: False for plain ``http``, which needs an allowed network or ``allow_http``.
        port: The port to connect to; None matches only rules without a port.
    """
    if "%" in text:
        return f"address {text.partition('%')[0]!r} has a zone, which names an interface of this machine"
    try:
        address = unmapped(ip_address(text))
    except ValueError:
        return f"{text!r} is not an address"
    if any(holds(network, address) for network in rule.deny):
        return f"address {address} is denied"
    inner = _embedded(address)
    if rule.allows(address, port):  # an allowed translator does not allow the addresses behind it
        behind = None if inner is None else refuse_address(str(inner), rule, tls=tls, port=port)
        return None if behind is None else f"{behind}, inside {address}"
    if not is_public(address):
        return f"address {address} is not public"
    if not tls and not rule.allow_http:
        return f"plain http to {address} is not allowed"
    return None


def is_public(address: Address) -> bool:
    """Return whether *address* is on the public internet."""
    address = unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    if _embedded(address) is not None:
        return False
    return address in _GLOBAL_V6 and not any(address in network for network in _REFUSED_V6)


def unmapped(address: Address) -> Address:
    """Return the IPv4 address inside an address of ``::ffff:0:0/96``, or the address itself."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def holds(network: Network, address: Address) -> bool:
    """Return whether *address* is in a configured network; a mapped network counts as its IPv4 network."""
    return address in _unmapped_network(network)


@lru_cache(1024)
def _unmapped_network(network: Network) -> Network:
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & 0xFFFF_FFFF, network.prefixlen - 96))
    return network


def is_address(host: str) -> bool:
    """Return whether *host* is a plain address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address to which a translator or a tunnel leads from an IPv6 address, if any."""
    if isinstance(address, IPv4Address):
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    value = int(address)
    if value <= 1:  # unspecified and loopback contain no IPv4 address
        return None
    ends_in_v4 = any(address in network for network in _ENDS_IN_V4) or (value >> 32) & 0xFFFF_FFFF in _ISATAP
    return IPv4Address(value & 0xFFFF_FFFF) if ends_in_v4 else None
