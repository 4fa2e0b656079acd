"""The proofs count the requests that nginx answered since a mark."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.nginx import Nginx
from tests.support.processes.children import fetch, wait_until


async def test_requests_before_a_mark_do_not_count_although_nginx_logs_them_later(tmp_path: Path) -> None:
    """It writes its log once a second, and a race reads it from the mark on."""
    async with Nginx(tmp_path) as nginx:
        for _ in range(5):
            await asyncio.to_thread(fetch, nginx.url("answer/before"))
        last = time.time()
        await wait_until(lambda: time.time() > last + 0.01, 10)  # the log has whole milliseconds

        mark = nginx.mark()
        for name in ("on/e00", "on/e01", "off/e00"):
            await asyncio.to_thread(fetch, nginx.url(name))

        assert await nginx.served_by_path(mark) == {"on": 2, "off": 1}
