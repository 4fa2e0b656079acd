"""Decide to which addresses a webhook may go.

Data flow: URL -> (refuse_url) scheme and host -> edges.http resolves -> (refuse_address) every address found,
judged again on the very address that is about to be connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from consumer.core.errors import ConfigError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

#: IPv4 that is not the public internet.
#: Source: IANA IPv4 Special-Purpose Address Registry; RFC 5771 (multicast); RFC 1112 (240/4);
#: 168.63.129.16 is Azure's wire server: a public address that only the host itself sees.
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

#: The only IPv6 block that is handed out as global unicast.
#: Source: IANA IPv6 Global Unicast Address Assignments; RFC 4291, section 2.4.
_GLOBAL_V6 = IPv6Network("2000::/3")

#: Inside 2000::/3 and still not the public internet: Teredo and ORCHID, documentation, 6to4.
#: Source: IANA IPv6 Special-Purpose Address Registry.
_REFUSED_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

#: A host whose last label is a number is an IPv4 address to most resolvers, in octal, hex or with
#: parts left out. Source: WHATWG URL, "ends in a number checker".
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRule:
    """Where webhooks may go beyond the public internet over TLS."""

    allow: tuple[Network, ...] = ()  #: reachable although not public, over ``http`` too
    allow_http: bool = False  #: True: plain ``http`` also to public addresses


def parse_rule(allow: Iterable[str] = (), *, allow_http: bool = False) -> EgressRule:
    """Build a rule from CIDR texts such as ``127.0.0.0/8`` or ``fd00::/8``.

    Raises:
        ConfigError: a text is not a network, or has bits set beyond its prefix.
    """
    networks: list[Network] = []
    for text in allow:
        try:
            networks.append(ip_network(text))
        except ValueError as fault:
            raise ConfigError(
                f"egress.allow: {text!r} is not a network ({fault}); write it like 10.1.0.0/16"
            ) from None
    return EgressRule(allow=tuple(networks), allow_http=allow_http)


def refuse_url(scheme: str, host: str, rule: EgressRule) -> str | None:
    """Return why a URL may not be called whatever its host resolves to, or None."""
    if scheme not in ("http", "https"):
        return f"scheme {scheme!r} is not http or https"
    if scheme == "http" and not rule.allow_http and not rule.allow:
        return "plain http is not allowed"
    if _ENDS_IN_NUMBER.search(host) and not _is_address(host):
        return "the host is a number that is not a plain IPv4 address"
    return None


def refuse_address(text: str, rule: EgressRule, *, tls: bool) -> str | None:
    """Return why no connection may be made to an address, or None when it may.

    Args:
        text: A literal address as a resolver or a socket gives it; an IPv6 zone is looked past.
        rule: What the operator allows.
        tls: False for plain ``http``, which needs an allowed network or ``allow_http``.
    """
    try:
        address = _unmapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return f"{text!r} is not an address"
    if any(address in network for network in rule.allow):
        return None
    if not is_public(address):
        return f"address {address} is not public"
    if not tls and not rule.allow_http:
        return f"plain http to {address} is not allowed"
    return None


def is_public(address: Address) -> bool:
    """Return whether *address* is on the public internet."""
    address = _unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _REFUSED_V6)


def _unmapped(address: Address) -> Address:
    """Return the IPv4 address inside ``::ffff:0:0/96``, which sockets treat as that IPv4 address."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
