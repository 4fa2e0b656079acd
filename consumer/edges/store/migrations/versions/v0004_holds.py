"""Create the table that records the ``Retry-After`` of endpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "leveret_holds",
        sa.Column("endpoint", sa.Text, primary_key=True),
        sa.Column("until", sa.Float, nullable=False),
    )
