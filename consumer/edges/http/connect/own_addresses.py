"""Ask the kernel whether an address belongs to this machine."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

from consumer.core.endpoint.egress import Address

# Source: Linux rtnetlink(7), netlink(7); <linux/rtnetlink.h>.
_GET_ROUTE, _NEW_ROUTE, _REQUEST, _DESTINATION = 26, 24, 1, 1
_HERE = (2, 4)  #: types of routes that end here: local, and anycast, one per prefix of a router
_HEADER = struct.Struct("=IHHII")  #: length, type, flags, sequence, port
_ROUTE = struct.Struct("=BBBBBBBBI")  #: family, dst_len, src_len, tos, table, protocol, scope, type, flags
_ATTRIBUTE = struct.Struct("=HH")  #: length, type

_DISCARD_PORT = 9  #: no packet is sent there: connecting a datagram socket only selects its own address


def is_own(address: Address) -> bool:
    """Return whether packets to *address* stay on this machine.

    The kernel's routing decides. So this covers every interface, addresses that come and go, and whole
    prefixes that are routed to this machine. It takes some 10 µs, and sends no packet.
    """
    if address.is_unspecified:  # a connect to it reaches this machine, even without a route to it
        return True
    try:
        return _route_is_local(address)
    except (OSError, AttributeError, struct.error):  # not Linux, or a sandbox without netlink
        return _is_its_own_source(address)


def _route_is_local(address: Address) -> bool:
    packed, family = address.packed, _family(address)
    route = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _DESTINATION) + packed
    length = _HEADER.size + len(route) + len(attribute)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.setblocking(False)  # the kernel answers before send returns
        netlink.send(_HEADER.pack(length, _GET_ROUTE, _REQUEST, 1, 0) + route + attribute)
        answer = netlink.recv(8192)
    if _HEADER.unpack_from(answer)[1] != _NEW_ROUTE:  # an error: there is no route to it
        return False
    return _ROUTE.unpack_from(answer, _HEADER.size)[7] in _HERE


def _is_its_own_source(address: Address) -> bool:
    """Return whether the system would send from *address* itself, as it does only for own addresses."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), _DISCARD_PORT))
        except OSError:
            return False
        return bool(probe.getsockname()[0] == str(address))


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
