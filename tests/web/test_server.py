"""The API listens, speaks TLS, and says why it cannot."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consumer.core.errors import ConfigError
from consumer.edges.store import SqlStore
from consumer.web.context import open_context
from consumer.web.server import RunningApi
from tests.support.servers.certificates import Authority
from tests.support.web import settings_of


async def test_it_speaks_tls_and_stops(tmp_path: Path, authority: Authority) -> None:
    """With a certificate there is only HTTPS, for browsers for a year; a stop frees the port."""
    pair = authority.pair("localhost")
    (tmp_path / "c.pem").write_text(pair.certificate)
    (tmp_path / "k.pem").write_text(pair.key)
    files = {"TLS_CERTIFICATE": str(tmp_path / "c.pem"), "TLS_KEY": str(tmp_path / "k.pem")}
    trusted = ssl.create_default_context(cafile=authority.file)

    api = await RunningApi.start(settings_of(tmp_path / "home", **files))
    try:
        async with httpx2.AsyncClient(verify=trusted, trust_env=False) as client:
            answer = await client.get(f"https://localhost:{api.port}/v1/health")
    finally:
        await api.stop()

    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"].startswith("max-age=")
    assert "server" not in answer.headers
    with closing(socket.socket()) as probe:
        assert probe.connect_ex(("127.0.0.1", api.port)) != 0


async def test_a_taken_port_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """It names the setting."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"api\.listen: .*LEVERET_API__LISTEN"):
            await RunningApi.start(settings_of(tmp_path, LISTEN=place))


async def test_an_unusable_certificate_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """It names both settings."""
    (tmp_path / "c.pem").write_text("not a certificate")
    files = {"TLS_CERTIFICATE": str(tmp_path / "c.pem"), "TLS_KEY": str(tmp_path / "k.pem")}

    with pytest.raises(ConfigError, match=r"api\.tls_certificate"):
        await RunningApi.start(settings_of(tmp_path, **files))


async def test_a_cancelled_request_ends_before_the_store_is_closed(tmp_path: Path) -> None:
    """A request may outlast the grace of a stop; it still notes its result, as in the audit log."""
    order: list[str] = []
    asked = asyncio.Event()

    class SlowStore:
        """A store whose reader never ends by itself."""

        def __init__(self, store: SqlStore) -> None:
            self._store = store

        async def read_lineage(self) -> None:
            """Wait for the cancellation, and take a while for it."""
            order.append("asked")
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.3)
                order.append("noted")

        async def close(self) -> None:
            """Close the store."""
            order.append("closed")
            await self._store.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    context = open_context(settings_of(tmp_path / "home"))
    slow: Any = SlowStore(context.store)
    listening = socket.create_server(("127.0.0.1", 0))
    api = RunningApi(replace(context, store=slow), listening)
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(10):
        await asked.wait()
    await api.stop()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()

    assert order == ["asked", "noted", "closed"]
