"""Serve an aiohttp application on loopback for as long as a block runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def listening(app: web.Application, port: int = 0) -> AsyncIterator[int]:
    """Listen on *port*, or on a free one for 0; give the port."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
