"""Create the tables of replay jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "leveret_jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("held_until", sa.Float, nullable=False),
        sa.Column("replayed", sa.Integer, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "leveret_job_entries",
        sa.Column("job", sa.Text, primary_key=True),
        sa.Column("entry", sa.Text, primary_key=True),
        sa.Column("sent", sa.Boolean, nullable=False),
    )
