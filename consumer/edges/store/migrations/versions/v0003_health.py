"""Create the table that records since when endpoints have failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "leveret_health",
        sa.Column("endpoint", sa.Text, primary_key=True),
        sa.Column("failing_since", sa.Float),
        sa.Column("counts", sa.Boolean, nullable=False),
        sa.Column("taken_at", sa.Float, nullable=False),
    )
