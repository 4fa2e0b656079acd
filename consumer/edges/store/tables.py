"""Define the tables of the store, the same on SQLite and PostgreSQL.

Only migrations create and change them; a test compares both definitions.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA: Final = "0014"
"""Number of the newest migration; four digits, so that numbers compare as text."""
VERSION_TABLE: Final = "leveret_schema"

METADATA: Final = MetaData()
POSTGRES_ONLY: Final = {"dialect": "postgresql"}
"""Mark of tables that only PostgreSQL has: with SQLite the history is a file of its own."""

REVISION: Final = Table(
    "leveret_revision",
    METADATA,
    Column("id", Integer, primary_key=True),  # always 1: a writer locks this row
    Column("number", BigInteger, nullable=False),  # number of changes to the subscriptions so far
    Column("mark", Text, nullable=False),  # random, new after every change
    Column("store", Text, nullable=False),  # random, the same in this store and its copies
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
    Column("key_id", Text, nullable=False),  # id of the key that sealed the secrets
    Column("secrets", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),  # 1-based version of this entry
    Column("disabled_itself", Boolean),  # whether Leveret disabled it; absent while it is enabled, or unknown
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
    Column("failing_since", Float),  # first failure since the last success; null without one
    Column("counts", Boolean, nullable=False),  # whether failures within a day were far enough apart
    Column("taken_at", Float, nullable=False),  # last recorded success; 0 without one
)

HOLDS: Final = Table(
    "leveret_holds",
    METADATA,
    Column("endpoint", Text, primary_key=True),
    Column("until", Float, nullable=False),  # end of its Retry-After; no request is sent before
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
    Column("id", Text, primary_key=True),  # id of a deleted subscription
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("deleted_at", Float, nullable=False),
    Column("deleted_by", Text, nullable=False),
    Column("keep_until", Float, nullable=False),  # after this time none of its deliveries can turn up
)

GENERATIONS: Final = Table(
    "leveret_generations",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # of leveret_revision at the time
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
    Column("replays", Integer, nullable=False, server_default="0"),
    Column("messages", Integer, nullable=False, server_default="1"),  # in the queue, of this id
    Column("shown", Text, nullable=False, server_default=""),  # JSON
    Index("leveret_parked_index_time", "parked_at"),
    Index("leveret_parked_index_tenant", "tenant", "parked_at"),
)

HISTORY: Final = Table(
    "leveret_history",
    METADATA,
    Column("seq", BigInteger, Identity(), primary_key=True),
    Column("at", Float, nullable=False),  # the columns from here on are the fields of HistoryRow
    Column("step", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("subscription_id", Text, nullable=False),
    Column("delivery_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Integer),
    Column("latency_ms", Float),
    Column("wait_ms", Float),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("answer", LargeBinary),
    Column("answer_type", Text, nullable=False),
    Index("leveret_history_event", "event_id", "seq"),
    Index(
        "leveret_history_subscription",
        "subscription_id",
        "seq",
        postgresql_where=text("subscription_id <> ''"),
    ),
    Index("leveret_history_delivery", "delivery_id", "seq", postgresql_where=text("delivery_id <> ''")),
    Index(
        "leveret_history_failed",
        "tenant",
        "seq",
        postgresql_where=text("(step = 'parked' OR (step = 'attempt' AND reason <> 'delivered'))"),
    ),
    info=POSTGRES_ONLY,
)

HISTORY_WRITERS: Final = Table(
    "leveret_history_writers",
    METADATA,
    Column("writer", Text, primary_key=True),  # random, one for each run of a worker
    Column("batch", BigInteger, nullable=False),  # number of its last batch
    Column("at", Float, nullable=False),
    info=POSTGRES_ONLY,
)

JOBS: Final = Table(
    "leveret_jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("spec", Text, nullable=False),  # filter, rate and target, as JSON
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
    Column("holder", Text, nullable=False),  # the worker that works it off; empty for none
    Column("held_until", Float, nullable=False),  # Unix seconds after which another worker may take it
    Column("replayed", Integer, nullable=False),  # 0 until the job is done: its entries are counted
    Column("refused", Integer, nullable=False),
    Column("detail", Text, nullable=False),
    Column("total", Integer),  # entries that it was made for; null: not counted
)

JOB_ENTRIES: Final = Table(
    "leveret_job_entries",
    METADATA,
    Column("job", Text, primary_key=True),
    Column("entry", Text, primary_key=True),
    Column("sent", Boolean, nullable=False),  # False: a worker was about to send it
)

TOKENS: Final = Table(
    "leveret_tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),  # of its secret, which is stored nowhere
    Column("scope", Text, nullable=False),
    Column("tenant", Text),  # null: every tenant
    Column("created", Float, nullable=False),
    Column("expires", Float),  # null: never
    Column("last_used", Float),  # to the minute; null: not used yet
    Column("revoked", Float),  # null: not revoked
)

AUDIT: Final = Table(
    "leveret_audit",
    METADATA,
    Column("id", Text, primary_key=True),  # UUID of version 7, so that ids are in the order of time
    Column("at", Float, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("tenant", Text),
    Column("before", Text, nullable=False),  # JSON, without secrets
    Column("after", Text, nullable=False),  # JSON, without secrets
    Index("leveret_audit_at", "at"),
    Index("leveret_audit_tenant", "tenant", "id"),
)

PUBLISH_KEYS: Final = Table(
    "leveret_publish_keys",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # as the client sent it
    Column("digest", Text, nullable=False),  # of the request
    Column("event_id", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("confirmed", Boolean, nullable=False),  # False: the broker may not have the event
    Column("claimed_until", Float, nullable=False, server_default="0"),  # until then one process publishes it
    Index("leveret_publish_keys_at", "at"),
)

SESSIONS: Final = Table(
    "leveret_sessions",
    METADATA,
    Column("hash", Text, primary_key=True),  # of the cookie, which is stored nowhere
    Column("token", Text, nullable=False),  # id of the token that logged in
    Column("began", Float, nullable=False),
    Column("seen", Float, nullable=False),  # of the last request, to the minute
    Index("leveret_sessions_token", "token", "seen"),
    Index("leveret_sessions_seen", "seen"),
)
