"""Helpers of the proofs of sending: hostile receivers as a child, and runs of a module that end in JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.processes.children import python_env, spawn, stop, wait_exit, wait_until

START_S = 15.0


@asynccontextmanager
async def receivers(folder: Path) -> AsyncIterator[Mapping[str, int]]:
    """Run :mod:`bench.egress.hostile`; yield its ports."""
    log = folder / "hostile.out"
    process = spawn([sys.executable, "-m", "bench.egress.hostile"], log=log, env=python_env())
    try:
        if not await wait_until(lambda: log.exists() and log.read_bytes().endswith(b"}\n"), START_S):
            raise TimeoutError(f"the receivers did not start: {log.read_text(encoding='utf-8')[-800:]}")
        ports: Mapping[str, int] = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        yield ports
    finally:
        await stop(process)


async def result_of(
    module: str, arguments: Sequence[str], folder: Path, timeout_s: float, before: Sequence[str] = ()
) -> Any:
    """Run ``python -m module arguments... RESULT`` to its end and return the JSON that it wrote there.

    Raises:
        RuntimeError: it failed, or took longer than *timeout_s*.
    """
    name = "-".join([module.rpartition(".")[2], *arguments[:1]])
    log, result = folder / f"{name}.out", folder / f"{name}.json"
    argv = [*before, sys.executable, "-m", module, *arguments, str(result)]
    process = spawn(argv, log=log, env=python_env())
    try:
        await wait_exit(process, timeout_s)
    finally:
        await stop(process)
    if process.returncode != 0 or not result.exists():
        text = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        raise RuntimeError(f"{module} ended with {process.returncode}: {text}")
    return json.loads(result.read_text(encoding="utf-8"))
