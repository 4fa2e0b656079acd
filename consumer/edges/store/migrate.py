"""Run the store's migrations with Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

FOLDER = Path(__file__).with_name("migrations")


def config() -> Config:
    """Return the configuration of Alembic; there is no ini file."""
    settings = Config()
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return settings


def upgrade(connection: Connection) -> None:
    """Run the missing migrations, in the transaction of *connection*."""
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")
