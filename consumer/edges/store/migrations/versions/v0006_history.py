"""Create the history of deliveries on PostgreSQL; with SQLite it has a file of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

FAILED = "(step = 'parked' OR (step = 'attempt' AND reason <> 'delivered'))"


def upgrade() -> None:
    """Create the tables."""
    if op.get_context().dialect.name != "postgresql":
        return
    op.create_table(
        "leveret_history",
        sa.Column("seq", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("subscription_id", sa.Text, nullable=False),
        sa.Column("delivery_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("latency_ms", sa.Float),
        sa.Column("wait_ms", sa.Float),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("answer", sa.LargeBinary),
        sa.Column("answer_type", sa.Text, nullable=False),
    )
    _make_index("event", ["event_id", "seq"])
    _make_index("subscription", ["subscription_id", "seq"], "subscription_id <> ''")
    _make_index("delivery", ["delivery_id", "seq"], "delivery_id <> ''")
    _make_index("failed", ["tenant", "seq"], FAILED)
    op.create_table(
        "leveret_history_writers",
        sa.Column("writer", sa.Text, primary_key=True),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )


def _make_index(name: str, columns: list[str], covers: str | None = None) -> None:
    where = None if covers is None else sa.text(covers)
    op.create_index(f"leveret_history_{name}", "leveret_history", columns, postgresql_where=where)
