"""Let the index of parked entries serve listings: all fields, replays, and the number of messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; rows of before show fewer fields until ``leveret parked reindex``."""
    for column in (
        sa.Column("replays", sa.Integer, nullable=False, server_default="0"),
        sa.Column("messages", sa.Integer, nullable=False, server_default="1"),
        sa.Column("shown", sa.Text, nullable=False, server_default=""),
    ):
        op.add_column("leveret_parked_index", column)
