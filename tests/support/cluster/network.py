"""Networks for three nodes: a cable from each node to this machine, and a switch between the nodes.

The clients' cables and the switch are separate, so the nodes can be cut off from each other while clients
still reach all of them. A cut drops packets silently: no connection is reset by it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.ip_command import ip

_MARK = "lvc"  #: begins the name of every namespace and cable
_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Place:
    """The network of one node.

    Attributes:
        namespace: Name of its network namespace.
        address: Where clients reach it.
        inner: Its address among the nodes; part of its Erlang name.
        switch: Namespace of the switch.
        port: Name of its port at the switch.
        cable: Name of this machine's end of the clients' cable.
    """

    namespace: str
    address: str
    inner: str
    switch: str
    port: str
    cable: str

    def enter(self, argv: Sequence[str]) -> list[str]:
        """Return the argv that runs *argv* in this network."""
        return ["nsenter", f"--net={_NAMESPACES / self.namespace}", *argv]

    def unplug(self) -> None:
        """Cut the node off from the other nodes; its clients still reach it."""
        ip("-n", self.switch, "link", "set", self.port, "nomaster")

    def plug(self) -> None:
        """End the cut."""
        ip("-n", self.switch, "link", "set", self.port, "master", "switch")

    def shut_out(self) -> None:
        """Cut the node off from its clients; packets vanish, and no connection is reset."""
        ip("-n", self.namespace, "link", "set", "clients", "down")

    def let_in(self) -> None:
        """End that cut."""
        ip("-n", self.namespace, "link", "set", "clients", "up")


def sweep() -> None:
    """Remove the namespaces of processes that have ended without removing them."""
    for path in _NAMESPACES.glob(f"{_MARK}*"):
        owner = path.name[len(_MARK) :].partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove(path.name)


def remove(namespace: str) -> None:
    """Remove a namespace with the cables in it; a missing one is passed over."""
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def lay_out(count: int) -> list[Place]:
    """Make the networks of *count* nodes; :func:`clear` removes them."""
    sweep()
    mark = f"{_MARK}{os.getpid()}"
    switch = f"{mark}-s"
    subnet = secrets.randbelow(256)  # two clusters at a time rarely draw the same
    ip("netns", "add", switch)
    ip("-n", switch, "link", "add", "switch", "type", "bridge")
    ip("-n", switch, "link", "set", "switch", "up")
    places = [
        Place(
            namespace=f"{mark}-{index}",
            address=f"198.18.{subnet}.{4 * index + 2}",
            inner=f"198.19.0.{index}",
            switch=switch,
            port=f"port{index}",
            cable=f"{mark}c{index}",
        )
        for index in range(1, count + 1)
    ]
    for place in places:
        _connect(place)
    return places


def _connect(place: Place) -> None:
    """Make the node's namespace with both cables."""
    name, (start, _, last) = place.namespace, place.address.rpartition(".")
    ip("netns", "add", name)
    ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", place.cable, "type", "veth", "peer", "name", "clients", "netns", name)
    ip("addr", "add", f"{start}.{int(last) - 1}/30", "dev", place.cable)
    ip("link", "set", place.cable, "up")
    ip("-n", name, "addr", "add", f"{place.address}/30", "dev", "clients")
    ip("-n", name, "link", "set", "clients", "up")
    ip("-n", name, "link", "add", "nodes", "type", "veth", "peer", "name", place.port, "netns", place.switch)
    ip("-n", name, "addr", "add", f"{place.inner}/24", "dev", "nodes")
    ip("-n", name, "link", "set", "nodes", "up")
    ip("-n", place.switch, "link", "set", place.port, "up")
    place.plug()


def clear(places: Sequence[Place]) -> None:
    """Remove the networks."""
    for name in {name for place in places for name in (place.namespace, place.switch)}:
        remove(name)
