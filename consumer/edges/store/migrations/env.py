"""What Alembic runs: the steps, on the connection and in the transaction that it was handed."""

from __future__ import annotations

from alembic import context

from consumer.edges.store.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
