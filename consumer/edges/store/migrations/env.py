"""Run the migrations on the given connection and in its transaction. Alembic executes this file."""

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
