"""Create the table of browsers that are logged in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "leveret_sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("began", sa.Float, nullable=False),
        sa.Column("seen", sa.Float, nullable=False),
    )
    op.create_index("leveret_sessions_token", "leveret_sessions", ["token", "seen"])
    op.create_index("leveret_sessions_seen", "leveret_sessions", ["seen"])
