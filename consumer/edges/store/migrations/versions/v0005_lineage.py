"""Create the tables of deleted subscriptions and of the store's generations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the tables; the history begins with the current generation."""
    op.create_table(
        "leveret_tombstones",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("deleted_at", sa.Float, nullable=False),
        sa.Column("deleted_by", sa.Text, nullable=False),
        sa.Column("keep_until", sa.Float, nullable=False),
    )
    op.create_table(
        "leveret_generations",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("mark", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO leveret_generations (number, mark) SELECT number, mark FROM leveret_revision")
