"""The tables of the store, the same on SQLite and PostgreSQL.

They are made and changed by the migrations only; the suite checks that both say the same.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA: Final = "0005"
"""The newest migration; four digits, so that they compare as text."""
VERSION_TABLE: Final = "leveret_schema"

METADATA: Final = MetaData()

REVISION: Final = Table(
    "leveret_revision",
    METADATA,
    Column("id", Integer, primary_key=True),  # always 1: writers stand in line at this row
    Column("number", BigInteger, nullable=False),  # of changes to the subscriptions so far
    Column("mark", Text, nullable=False),  # another one after every change
    Column("store", Text, nullable=False),  # of this store alone, as long as it and its copies live
)

SUBSCRIPTIONS: Final = Table(
    "leveret_subscriptions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("entry", Text, nullable=False),  # the rest of the entry, as JSON
    Column("enabled", Boolean, nullable=False),
    Column("disabled_reason", Text),
    Column("disabled_at", Text),
    Column("key_id", Text, nullable=False),  # of the key that sealed the secrets
    Column("secrets", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),  # 1-based, of this entry
    UniqueConstraint("tenant", "name", name="leveret_subscriptions_name"),
    UniqueConstraint("tenant", "url", name="leveret_subscriptions_url"),
)

ENDPOINT_STATES: Final = Table(
    "leveret_endpoint_states",
    METADATA,
    Column("endpoint", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("subscription_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("since", Float, nullable=False),  # Unix seconds, as all times here
    Column("reason", Text, nullable=False),
    Column("updated", Float, nullable=False),
)

HEALTH: Final = Table(
    "leveret_health",
    METADATA,
    Column("endpoint", Text, primary_key=True),
    Column("failing_since", Float),  # the first failure since the last success; null: there was none
    Column("counts", Boolean, nullable=False),  # failures within a day lay far enough apart
    Column("taken_at", Float, nullable=False),  # the last success that was written down; 0: none
)

HOLDS: Final = Table(
    "leveret_holds",
    METADATA,
    Column("endpoint", Text, primary_key=True),
    Column("until", Float, nullable=False),  # nothing is sent before: it said Retry-After
)

PAUSES: Final = Table(
    "leveret_pauses",
    METADATA,
    Column("scope", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("since", Float, nullable=False),
)

TOMBSTONES: Final = Table(
    "leveret_tombstones",
    METADATA,
    Column("id", Text, primary_key=True),  # of a subscription that was deleted
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("deleted_at", Float, nullable=False),
    Column("deleted_by", Text, nullable=False),
    Column("keep_until", Float, nullable=False),  # no delivery of it can come up later
)

GENERATIONS: Final = Table(
    "leveret_generations",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # as in leveret_revision, then
    Column("mark", Text, nullable=False),
)

PARKED_INDEX: Final = Table(
    "leveret_parked_index",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text),
    Column("event_id", Text),
    Column("type", Text),
    Column("subscription_ids", Text, nullable=False),  # separated by blanks
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("code", Text),
    Column("attempts", Integer, nullable=False),
    Column("arrived_at", Float),
    Column("parked_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index("leveret_parked_index_time", "parked_at"),
    Index("leveret_parked_index_tenant", "tenant", "parked_at"),
)
