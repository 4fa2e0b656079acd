"""``[api] listen`` of a worker: a child process serves the API, and it ends and begins with the worker."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import httpx2

from tests.support.processes.children import child_of, free_port, lives
from tests.support.system.daemon import Daemon, running
from tests.support.system.waiting import until

SERVES = b"consumer\0serve"  #: in the command line of the child
ANY_PORT = {"LEVERET_API__LISTEN": "127.0.0.1:0"}


async def health(port: int) -> str:
    """Return the status that the API answers with."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return str((await client.get(f"http://127.0.0.1:{port}/v1/health")).json()["status"])


async def test_a_worker_serves_the_api_if_the_settings_say_so(vhost: str, tmp_path: Path) -> None:
    """The child's lines are in the worker's log, and both end tidily: the worker exits with 0."""
    async with running(tmp_path, vhost, ANY_PORT) as daemon:
        port = (await daemon.logged("api.started"))["port"]
        status = await health(port)
        child = child_of(daemon.process, SERVES)
        code = await daemon.stop()

    assert status == "ok"
    assert code == 0
    assert not lives(child)
    assert [line["port"] for line in daemon.lines("api.stopped")] == [port]
    assert not list(daemon.lines("api.ended"))


async def test_another_child_follows_one_that_died(vhost: str, tmp_path: Path) -> None:
    """It serves the same port; a request in between waits for it. The worker stays ready."""
    async with running(tmp_path, vhost, ANY_PORT) as daemon:
        port = (await daemon.logged("api.started"))["port"]
        child = child_of(daemon.process, SERVES)
        os.kill(child, signal.SIGKILL)
        await until(lambda: not lives(child), "the child has died")

        assert daemon.ready()
        assert await health(port) == "ok"
        assert (await daemon.logged("api.ended"))["code"] == -signal.SIGKILL


async def test_the_child_ends_with_a_worker_that_was_killed(vhost: str, tmp_path: Path) -> None:
    """It does not keep the port."""
    async with running(tmp_path, vhost, ANY_PORT) as daemon:
        await daemon.logged("api.started")
        child = child_of(daemon.process, SERVES)
        await daemon.kill()

        await until(lambda: not lives(child), "the child has ended")


async def test_a_worker_does_not_start_at_a_taken_address(vhost: str, tmp_path: Path) -> None:
    """The line names the setting, and nothing is left running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = Daemon(tmp_path, vhost, {"LEVERET_API__LISTEN": place})
        daemon.spawn()
        code = await daemon.wait_exit(60)

    assert code not in (None, 0)
    assert f"api.listen: {place}: Address already in use" in daemon.tail()


async def test_a_worker_does_not_start_with_a_certificate_that_cannot_be_used(
    vhost: str, tmp_path: Path
) -> None:
    """The line names both settings."""
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("no certificate")
    daemon = Daemon(
        tmp_path,
        vhost,
        {
            "LEVERET_API__LISTEN": f"127.0.0.1:{free_port()}",
            "LEVERET_API__TLS_CERTIFICATE": str(tmp_path / "cert.pem"),
            "LEVERET_API__TLS_KEY": str(tmp_path / "key.pem"),
        },
    )
    daemon.spawn()

    assert await daemon.wait_exit(60) not in (None, 0)
    assert "api.tls_certificate, api.tls_key: " in daemon.tail()
