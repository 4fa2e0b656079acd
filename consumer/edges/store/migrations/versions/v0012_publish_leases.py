"""Let one process at a time publish the event of an idempotency key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column; for keys of before no process is publishing."""
    claimed = sa.Column("claimed_until", sa.Float, nullable=False, server_default="0")
    op.add_column("leveret_publish_keys", claimed)
