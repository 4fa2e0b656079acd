"""The child that serves the API beside a worker: its code, its settings, and what happens after a fault."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from consumer.daemon.api_process import ApiProcess
from consumer.settings import load_settings

MUTE = "print('x' * 100_000, end='', flush=True); input()"
"""A child whose first line never ends, as seen by its reader."""


class FirstFails(ApiProcess):
    """Its first child never serves, and does not end by itself."""

    first: Process | None = None

    async def _start_child(self) -> Process:
        if self.first is not None:
            return await super()._start_child()
        self.first = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MUTE), stdin=PIPE, stdout=PIPE
        )
        return self.first


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the worker and of its child."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEVERET_HOME", str(tmp_path / "home"))
    return tmp_path


@asynccontextmanager
async def serving(kind: type[ApiProcess] = ApiProcess) -> AsyncIterator[tuple[ApiProcess, list[str]]]:
    """Serve the API at any port; give the process, and a list with an entry for each child that served."""
    served: list[str] = []

    async def started() -> None:
        served.append("served")

    settings = load_settings({"LEVERET_API__LISTEN": "127.0.0.1:0"})
    api = kind.start(settings, asyncio.Event(), started)
    try:
        await api.serving()
        yield api, served
    finally:
        await api.stop()


async def status(api: ApiProcess) -> int:
    """Return the status of an answer of the child."""
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        return int((await client.get(f"{api.url}/v1/openapi.json")).status_code)


async def test_a_package_in_the_working_folder_is_not_run(folder: Path) -> None:
    """The child runs the code of its worker, whatever the folder contains."""
    (folder / "consumer").mkdir()
    (folder / "consumer" / "__init__.py").touch()
    (folder / "consumer" / "__main__.py").write_text("open('foreign', 'w').close()\n")

    async with serving() as (api, served):
        code = await status(api)

    assert not (folder / "foreign").exists()
    assert code < 500
    assert served == ["served"]


async def test_a_changed_file_does_not_change_the_api(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket keeps the rules of the worker: here a new file names a certificate that is missing."""
    file = folder / "new.toml"
    file.write_text('[api]\nlisten = "0.0.0.0:1"\ntls_certificate = "away.pem"\ntls_key = "away.pem"\n')
    monkeypatch.setenv("LEVERET_CONFIG", str(file))  # of the child; the worker has read its settings

    async with serving() as (api, served):
        code = await status(api)

    assert code < 500
    assert served == ["served"]


async def test_another_child_follows_a_fault_of_any_kind() -> None:
    """The first child is ended, as nobody reads its lines any more."""
    async with serving(FirstFails) as (api, served):
        code = await status(api)

    assert isinstance(api, FirstFails)
    assert api.first is not None
    assert api.first.returncode is not None
    assert code < 500
    assert served == ["served"]
