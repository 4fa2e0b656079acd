"""A command imports only the libraries that it uses, as an operator waits for each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STORE = {"sqlalchemy", "sqlalchemy.orm", "aiosqlite", "asyncpg", "alembic"}
HTTP = {"aiohttp", "fastapi", "httpx2", "uvicorn"}
BROKER = {"aio_pika", "aiormq"}
ENTRIES = {"cryptography.x509", "yaml", "consumer.core.subscription.entry"}

CODE = """
import sys
from consumer.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported_by(folder: Path, *words: str) -> set[str]:
    """Run a command without a store and a broker; return the names of all modules that it imported."""
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "LEVERET_HOME": str(folder / "home"),
        "LEVERET_AMQP_URL": "amqp://127.0.0.1:9",
    }
    argv = [sys.executable, "-c", CODE, *words]
    done = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


LISTINGS = (("list", "--json"), ("list",), ("list", "--group-by", "tenant"), ("stats",))


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_a_listing_of_parked_entries_imports_no_sql_library(words: tuple[str, ...], tmp_path: Path) -> None:
    """The index in SQLite is read without SQLAlchemy, and no model of a subscription is needed."""
    modules = imported_by(tmp_path, "parked", *words)

    assert {"aio_pika", "consumer.edges.sqlite_file.parked"} <= modules
    assert not modules & {*STORE, *HTTP, *ENTRIES, "consumer.edges.operate.parked.queue"}


@pytest.mark.parametrize("words", [("show", "prk_0123456789abcdef"), ("export",)], ids=" ".join)
def test_a_look_into_the_parked_queue_imports_no_sql_library(words: tuple[str, ...], tmp_path: Path) -> None:
    """An entry comes from the queue alone."""
    modules = imported_by(tmp_path, "parked", *words)

    assert "consumer.edges.operate.parked.queue" in modules
    assert not modules & {*STORE, *HTTP, *ENTRIES}


def test_a_listing_of_policies_imports_neither_store_nor_broker(tmp_path: Path) -> None:
    """Policies come from the settings."""
    assert not imported_by(tmp_path, "policy", "list") & {*STORE, *HTTP, *BROKER, "cryptography.x509"}
