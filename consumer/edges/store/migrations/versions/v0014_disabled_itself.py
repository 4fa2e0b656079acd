"""Let a subscription keep whether Leveret disabled it, or an operator."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from consumer.core.endpoint.health import is_own_reason

revision = "0014"
down_revision = "0013"

_TABLE = sa.table(
    "leveret_subscriptions",
    sa.column("id", sa.Text),
    sa.column("enabled", sa.Boolean),
    sa.column("disabled_reason", sa.Text),
    sa.column("disabled_itself", sa.Boolean),
)


def upgrade() -> None:
    """Add the column; of subscriptions that were disabled before, only the form of the reason shows it."""
    op.add_column("leveret_subscriptions", sa.Column("disabled_itself", sa.Boolean))
    connection = op.get_bind()
    query = sa.select(_TABLE.c.id, _TABLE.c.disabled_reason).where(sa.not_(_TABLE.c.enabled))
    for subscription_id, reason in connection.execute(query).all():
        one = sa.update(_TABLE).where(_TABLE.c.id == subscription_id)
        connection.execute(one.values(disabled_itself=is_own_reason(reason)))
