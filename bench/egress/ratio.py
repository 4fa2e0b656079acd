"""Requests a second of the whole sender against a bare aiohttp session, over plain HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import python_env, spawn, stop, wait_exit

REQUESTS = 20_000  #: per leg
PAIRS = 5
CONCURRENCY = (20, 200)
LEG_S = 120.0

GOALS = tuple(
    Goal(name=f"sender_ratio_c{concurrency}", text="≥ 0.85", unit="ratio", n=REQUESTS)
    for concurrency in CONCURRENCY
)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race ``aiohttp`` (ours) and ``bare`` in turn, and take the median of the pairs' ratios."""
    requests = bench.count(REQUESTS, 200)
    log = bench.folder / "http_clients.out"
    argv = [
        sys.executable,
        "-m",
        "bench.http_clients",
        "--schemes",
        "http",
        "--contenders",
        "bare",
        "aiohttp",
    ]
    argv += ["--requests", str(requests), "--pairs", str(PAIRS), "--concurrency", *map(str, CONCURRENCY)]
    process = spawn(argv, log=log, env=python_env())
    try:
        await wait_exit(process, LEG_S * PAIRS * len(CONCURRENCY))
    finally:
        await stop(process)
    lines = log.read_text(encoding="utf-8")
    if process.returncode != 0:
        raise RuntimeError(f"the race ended with {process.returncode}: {lines[-800:]}")
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith('{"')]
    for row in rows:
        bench.note(f"{row['client']}_c{row['concurrency']}", f"{row['per_s']}/s, {row['cpu_us']} µs of CPU")
    return [
        Measured(name=f"sender_ratio_c{row['concurrency']}", value=row["ratio"], n=requests)
        for row in rows
        if row["client"] == "aiohttp"
    ]


PROOF = Proof(name="ratio", goals=GOALS, prove=prove)
