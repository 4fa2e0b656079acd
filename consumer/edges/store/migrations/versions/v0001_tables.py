"""Create the first tables."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables, and the row that each writer locks."""
    revisions = op.create_table(
        "leveret_revision",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("mark", sa.Text, nullable=False),
        sa.Column("store", sa.Text, nullable=False),
    )
    op.bulk_insert(revisions, [{"id": 1, "number": 0, "mark": "", "store": secrets.token_hex(16)}])
    op.create_table(
        "leveret_subscriptions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("disabled_at", sa.Text),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.UniqueConstraint("tenant", "name", name="leveret_subscriptions_name"),
        sa.UniqueConstraint("tenant", "url", name="leveret_subscriptions_url"),
    )
    op.create_table(
        "leveret_endpoint_states",
        sa.Column("endpoint", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("subscription_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
    )
    _make_parked_index()


def _make_parked_index() -> None:
    op.create_table(
        "leveret_parked_index",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text),
        sa.Column("event_id", sa.Text),
        sa.Column("type", sa.Text),
        sa.Column("subscription_ids", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("arrived_at", sa.Float),
        sa.Column("parked_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )
    op.create_index("leveret_parked_index_time", "leveret_parked_index", ["parked_at"])
    op.create_index("leveret_parked_index_tenant", "leveret_parked_index", ["tenant", "parked_at"])
