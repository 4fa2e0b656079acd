"""Connections that get past the address guard, over the whole corpus, in a network where they would be seen.

Two network namespaces: the senders run in the inner one; the outer one takes every packet for every address
of the world, and answers on three ports. Needs root and ``ip``.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.egress.child import result_of
from bench.egress.corpus import OWN, WAYS
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import python_env, spawn, stop, wait_until
from tests.support.processes.ip_command import ip

CASES = 2_000
CLIENTS = ("aiohttp", "httpx")
OPEN_SHARE = 0.5  #: of the places that open senders must reach by each route; multicast and zones cannot be
RUN_S = 900.0

GOALS = (Goal(name="guard_escapes", text="0", unit="connections", n=CASES),)

INNER, OUTER = OWN, ("5.5.5.1", "2a0a::1")

#: Connections that must have arrived with the guard open, or where a port is allowed.
CONTROLLED = ("url", *(way for way in WAYS if way != "redirect"), "own-port", "allow-port")


def lay_out(inner: str, outer: str) -> None:
    """Make both namespaces and the cable between them; everything leads from the inner to the outer one."""
    for name in (inner, outer):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", inner, "type", "veth", "peer", "name", outer)
    for name, (v4, v6) in ((inner, INNER), (outer, OUTER)):
        ip("link", "set", name, "netns", name)
        ip("-n", name, "addr", "add", f"{v4}/30", "dev", name)
        ip("-n", name, "addr", "add", f"{v6}/126", "dev", name, "nodad")
        ip("-n", name, "link", "set", name, "up")
    ip("-n", inner, "route", "add", "default", "via", OUTER[0])
    ip("-n", inner, "-6", "route", "add", "default", "via", OUTER[1])
    # Every address is the outer one's own, but for the one at the other end.
    ip("-n", outer, "route", "add", INNER[0], "dev", outer, "table", "local")
    ip("-n", outer, "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "local")
    ip("-n", outer, "-6", "route", "add", "local", "::/0", "dev", "lo", "table", "100")
    ip("-n", outer, "-6", "rule", "add", "iif", outer, "lookup", "100", "pref", "1")


def clear(*names: str) -> None:
    """Remove the namespaces with their content; missing ones are passed over."""
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[str]:
    """Lay the network out and let the outside listen; yield the name of the inner namespace."""
    mark = secrets.token_hex(3)
    inner, outer = f"lvi{mark}", f"lvo{mark}"
    said = folder / "outside.out"
    outside: subprocess.Popen[bytes] | None = None
    try:
        lay_out(inner, outer)
        argv = ["ip", "netns", "exec", outer, sys.executable, "-m", "bench.egress.outside"]
        outside = spawn([*argv, str(folder / "outside.log")], log=said, env=python_env())
        if not await wait_until(lambda: said.exists() and b"listening" in said.read_bytes(), 15):
            raise TimeoutError(f"the outside did not start: {said.read_text(encoding='utf-8')[-800:]}")
        yield inner
    finally:
        await stop(outside)
        clear(inner, outer)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Try the corpus with both senders, and add up the escapes; the open connections must have arrived."""
    if os.geteuid() != 0:
        raise PermissionError("network namespaces need root")
    escapes = tried = 0
    valid = True
    for client in CLIENTS:
        folder = bench.folder / client
        folder.mkdir()
        async with world(folder) as inner:
            share = str(min(bench.scale, 1.0))
            before = ("ip", "netns", "exec", inner)
            module = "bench.egress.escape_run"
            found = await result_of(module, [client, share, str(folder)], folder, RUN_S, before)
        escapes += len(found["escapes"]) + len(found["asked"])
        tried += found["tried"]
        missed = unseen(found)
        valid = valid and not missed
        bench.note(f"guard_{client}", found)
        bench.note(f"guard_{client}_unseen", missed)
    return [Measured(name="guard_escapes", value=escapes, n=tried, valid=valid)]


def unseen(found: Mapping[str, Any]) -> list[str]:
    """Return the routes by which an escape would not have been seen; with one of them the run proves nothing.

    Args:
        found: The fields of :class:`bench.egress.escape_run.Findings`.
    """
    controls = found["controls"]
    missing = [way for way in CONTROLLED if way not in controls]
    weak = [way for way, (arrived, asked) in controls.items() if arrived < OPEN_SHARE * asked]
    others = (("good addresses", found["good"]), ("redirects", found["redirects"]))
    return [*missing, *weak, *(name for name, count in others if not count)]


PROOF = Proof(name="escapes", goals=GOALS, prove=prove)
