"""Let a replay job keep the number of entries that it was made for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; for jobs of before the number is unknown."""
    op.add_column("leveret_jobs", sa.Column("total", sa.Integer))
