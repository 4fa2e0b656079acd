"""The sections of ``leveret.toml``: every field with its unit, bounds, default and description.

Data flow: load (defaults < profile < preset < file < environment) -> these models, frozen -> app.
The reference page of the docs is generated from the descriptions below.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from consumer.core.endpoint.breaker import BREAKERS
from consumer.core.event.decode import TENANT_PATTERN, DecodeRules
from consumer.core.event.sources import SourceRule, parse_rule
from consumer.core.schema import Section, as_value_error
from consumer.core.store.sealing import parse_keys
from consumer.core.subscription.policy import BreakerFields, RetryChoice
from topology.ladder import RUNGS_S
from topology.names import PREFIX_MAX, PREFIX_PATTERN
from topology.plan import QUEUE_COUNT_MAX, SourceSpec

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DAY_S = 86_400.0
GIB = 1024**3
KIB = 1024

_POLICY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
Tenant = Annotated[str, Field(pattern=f"^{TENANT_PATTERN.pattern}$")]


def parse_network(value: object) -> object:
    """Turn text into a network; a single address is a network of one."""
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str):
        raise ValueError("a network is text such as 10.1.0.0/16")  # noqa: TRY004 - pydantic shows ValueError
    try:
        return ipaddress.ip_network(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is no CIDR network: {error}; write one such as 10.1.0.0/16") from None


class AmqpSettings(Section):
    """The connection to the broker."""

    heartbeat_s: Annotated[int, Field(ge=1, le=300)] = 10
    """AMQP heartbeat; a dead peer is noticed within two."""
    connect_timeout_s: Annotated[float, Field(ge=0.5, le=120)] = 10.0
    """Time for one connection attempt: TCP, TLS and AMQP handshake."""
    reconnect_max_s: Annotated[float, Field(ge=0.5, le=300)] = 30.0
    """Cap of the jittered wait between connection attempts; they never end."""
    confirm_slow_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """A publisher confirm older than this stops new attempts (back-pressure)."""
    confirm_lost_s: Annotated[float, Field(ge=1, le=600)] = 60.0
    """A publisher confirm older than this closes the channel; what it left is published again, once."""
    ca_file: str | None = None
    """PEM file with the authorities that amqps:// trusts; absent: the system's."""
    cert_file: str | None = None
    """PEM file with the client certificate for amqps://."""
    key_file: str | None = None
    """PEM file with the client certificate's key."""
    management_url: str | None = None
    """Base URL of the management API, without user and password: those of the AMQP URL are used.

    Absent: the private broker's, or none.
    """

    @field_validator("management_url")
    @classmethod
    def _check_management_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            good = (
                re.fullmatch(r"https?://[^\s/@]+(/[^\s@]*)?", value) is not None and urlsplit(value).port != 0
            )
        except ValueError:
            good = False
        if not good:
            raise ValueError("must be http://HOST:PORT or https://HOST:PORT, without user and password")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _check_order(self) -> AmqpSettings:
        if self.confirm_lost_s <= self.confirm_slow_s:
            raise ValueError("confirm_lost_s must be larger than confirm_slow_s")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file must be set together")
        return self


class TopologySettings(Section):
    """Names, numbers and arguments of exchanges and queues."""

    declare: bool = True
    """Create what is missing at start; false needs only read and write rights."""
    prefix: Annotated[str, Field(max_length=PREFIX_MAX, pattern=f"^{PREFIX_PATTERN.pattern}$")] = "leveret"
    """First word of every exchange and queue name; two instances on one broker need two."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """classic has a weaker promise: its dead-lettering has no confirms."""
    lanes: Annotated[int, Field(ge=1, le=QUEUE_COUNT_MAX)] = 16
    """Queues for fresh events; 1 works without the consistent-hash plugin."""
    lanes_before: Annotated[int, Field(ge=0, le=QUEUE_COUNT_MAX)] = 0
    """Lanes that there were before *lanes* was lowered: those above it get no events any more and are
    emptied. Once they are empty, take this out and delete them. 0: none."""
    dedicated: tuple[Tenant, ...] = ()
    """Tenants with a lane of their own."""
    retired: tuple[Tenant, ...] = ()
    """Tenants that had one: it gets no events any more, and is emptied. Once it is empty, take this out and
    delete it."""
    consistent_hash: bool = True
    """Spread lanes with rabbitmq_consistent_hash_exchange; false needs lanes = 1."""
    due_queues: Annotated[int, Field(ge=1, le=QUEUE_COUNT_MAX)] = 4
    """Queues for delivery messages whose wait is over."""
    spill_queues: Annotated[int, Field(ge=0, le=QUEUE_COUNT_MAX)] = 4
    """Queues for tenants that are noisy for a while."""
    rungs_s: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] = RUNGS_S
    """TTL of each wait queue in seconds, ascending, whole milliseconds, 0.01 s to 7 days."""
    hold_s: Annotated[float, Field(ge=0, le=30)] = 1.0
    """A rest of a wait of at most this is held in the worker instead of taking another rung."""
    hold_ratio: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """A rest of at most this share of the whole wait is held too, unless the endpoint named the wait."""
    hold_max_s: Annotated[float, Field(ge=0, le=60)] = 10.0
    """No rest above this is held, whatever the share."""
    parked_max_length: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_000
    """Entries that parked holds; more go to overflow. Source: S1-4."""
    parked_ttl_s: Annotated[float, Field(ge=1, le=366 * DAY_S)] = 604_800.0
    """Time a parked entry is kept before it moves to expired. Source: S1-4."""
    delivery_limit: Annotated[int, Field(ge=10, le=2**31 - 1)] = 1_000
    """Returns after which the broker itself dead-letters a message: a last net."""
    browse_limit: Annotated[int, Field(ge=1_000, le=2**31 - 1)] = 1_000_000
    """Returns that parked and its like allow: each look at an entry counts as one."""
    suspect_limit: Annotated[int, Field(ge=1, le=3)] = 2
    """Tries that a message suspected of killing workers gets before it goes to overflow."""

    @field_validator("rungs_s")
    @classmethod
    def _check_rungs(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0.01 <= rung <= 7 * DAY_S for rung in value):
            raise ValueError("each rung must be from 0.01 to 604800 seconds")
        if any(abs(rung * 1000 - round(rung * 1000)) > 1e-6 for rung in value):
            raise ValueError("each rung must be a whole number of milliseconds")
        if any(after <= before for before, after in itertools.pairwise(value)):
            raise ValueError("rungs must ascend, each larger than the one before")
        return value

    @model_validator(mode="after")
    def _check_lanes(self) -> TopologySettings:
        if self.lanes > 1 and not self.consistent_hash:
            raise ValueError("lanes must be 1 when consistent_hash is false")
        both = sorted(set(self.dedicated) & set(self.retired))
        if both:
            raise ValueError(f"tenant {both[0]} is dedicated and retired at once; write it once")
        return self


class EventsSettings(Section):
    """How a message becomes an event."""

    hash_on: Literal["tenant", "message_id"] = "tenant"
    """What spreads events over lanes; message_id suits a single tenant."""
    missing_id: Literal["inbox", "hash", "park"] = "inbox"
    """An event without usable message_id: republished once with a fresh id, named by a hash of its content
    (equal events become one), or parked."""
    max_event_bytes: Annotated[int, Field(ge=1 * KIB, le=16 * KIB * KIB)] = 256 * KIB
    """Larger bodies are parked too_large."""
    tenant_header: Annotated[str, Field(min_length=1, max_length=255)] = "tenant"
    """Message header that names the tenant."""
    default_tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN.pattern}$")] = "default"
    """Tenant of an event that names none; not `leveret`, which is reserved."""
    missing_tenant: Literal["default", "park"] = "default"
    """An event that names no tenant: belongs to default_tenant, or is parked bad_tenant."""
    default_type: Annotated[
        str | None, Field(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$", max_length=255)
    ] = None
    """Type of an event that has neither a type property nor a routing key; absent: it is parked."""
    extensions: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """CloudEvents extensions that become members of the payload."""
    headers: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """Headers of plain events that become members of the payload."""
    send_app_id: bool = True
    """The property app_id becomes the payload member source."""
    send_correlation_id: bool = False
    """The property correlation_id becomes a member of the payload."""
    honour_expiration: bool = True
    """An event's AMQP expiration ends its deliveries, counted from when a worker reads it; false: only the
    broker looks at it, and parks as expired what passed its expiration in a lane."""

    @field_validator("extensions", "headers")
    @classmethod
    def _check_members(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        as_value_error(lambda names: DecodeRules(extensions=names), frozenset(value))
        return value


class SourceSettings(Section):
    """One existing exchange whose messages are events.

    Expressions: header:NAME, routing_key or routing_key:N (0-based word), body:/JSON/POINTER, const:TEXT.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    """Name of the source, unique; part of its inbox queue's name."""

    exchange: Annotated[str, Field(min_length=1, max_length=255)]
    """Exchange to bind; it must exist."""
    routing_key: Annotated[str, Field(max_length=255)] = "#"
    """Binding key."""
    tenant: str | None = None
    """Expression for the tenant; absent: as [events] says."""
    type: str | None = None
    """Expression for the event type; absent: property type, else routing key."""
    id: str | None = None
    """Expression for the event id; absent: property message_id."""
    time: str | None = None
    """Expression for the event time; absent: property timestamp."""
    data: str | None = None
    """Expression for the data; absent: the whole body."""

    @model_validator(mode="after")
    def _check_expressions(self) -> SourceSettings:
        self.rule()
        return self

    def rule(self) -> SourceRule:
        """Return what reads an event of this source; checked when the settings are built."""
        texts = {name: getattr(self, name) for name in ("tenant", "type", "id", "time", "data")}
        return as_value_error(parse_rule, {name: text for name, text in texts.items() if text is not None})

    def spec(self, tenant_header: str) -> SourceSpec:
        """Return what the topology needs: bound straight to our exchange when headers say all."""
        plain = (self.type, self.id, self.time, self.data) == (None, None, None, None)
        direct = plain and self.tenant in (None, f"header:{tenant_header}")
        return SourceSpec(name=self.name, exchange=self.exchange, routing_key=self.routing_key, direct=direct)


class WindowsSettings(Section):
    """Prefetch per consumer, in messages; absent: min(2000, 2 x [sending] concurrency)."""

    lane_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per lane."""
    due_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per due queue; absent: half of the others where there are several."""
    replay_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages of the replay queue."""
    spill_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per spill queue."""
    due_hold: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Delivery messages whose last second is waited out in the worker; absent: half of a due window."""
    in_hand_s: Annotated[float, Field(ge=1, le=900)] = 60.0
    """A message that was not started for longer goes to the end of a queue."""
    give_back_s: Annotated[float, Field(ge=1, le=900)] = 600.0
    """Under back-pressure for longer than this, unstarted messages are given back to the broker: less than
    half of its consumer timeout, 30 minutes unless it was set."""


class LimitsSettings(Section):
    """Bounds of what one worker and the broker hold for us."""

    memory_bytes: Annotated[int, Field(ge=16 * KIB * KIB, le=1024 * GIB)] = 4 * GIB
    """What one worker may take above its idle size: half of it is for messages in hand, which wait in the
    broker's connection where they are more."""
    waiting_bytes: Annotated[int, Field(ge=1 * KIB * KIB, le=1024 * GIB * KIB)] = 4 * GIB
    """Bytes that wait in our queues: alert at 80 %, at 100 % fresh events stay in their lanes."""


class RetrySettings(RetryChoice):
    """The retry policy of subscriptions that name none: *policy*, changed by the fields beside it."""

    policy: str | None = "default"
    """Name of a built-in policy or of one under [retry.policies]."""
    policies: dict[str, RetryChoice] = Field(default_factory=dict)
    """Own policies by name, each a built-in *policy* changed by fields; none may take a built-in's name."""
    total_budget: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """Retries to all endpoints together per minute and worker; more are postponed. Absent: no limit."""
    suspect_after: Annotated[int, Field(ge=1, le=5)] = 5
    """x-delivery-count from which a message is moved unread to suspect."""

    @field_validator("policies")
    @classmethod
    def _check_names(cls, value: dict[str, RetryChoice]) -> dict[str, RetryChoice]:
        for name in value:
            if not _POLICY_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no policy name: letters, digits, - and _, at most 64")
        return value


class BreakerSettings(BreakerFields):
    """The breaker of endpoints whose subscription says nothing."""

    failures: Annotated[int | None, Field(ge=0, le=10_000)] = BREAKERS["default"].failures
    """Consecutive failures that open the breaker; 0 switches it off."""
    failure_ratio: Annotated[float | None, Field(ge=0, le=1)] = BREAKERS["default"].failure_ratio
    """Share of failures among the last answers that opens it too; 0 looks at none."""
    window_s: Annotated[float | None, Field(ge=0.1, le=3_600)] = BREAKERS["default"].window_s
    """How far back failure_ratio looks: between half of this and all of it."""
    min_requests: Annotated[int | None, Field(ge=1, le=100_000)] = BREAKERS["default"].min_requests
    """Answers in the window below which failure_ratio says nothing."""
    cooldown_s: Annotated[float | None, Field(ge=0.01, le=3_600)] = BREAKERS["default"].cooldown_s
    """Time from opening to the first probe."""
    cooldown_max_s: Annotated[float | None, Field(ge=0.01, le=DAY_S)] = BREAKERS["default"].cooldown_max_s
    """Cap of the cooldown, which grows while probes fail; never under cooldown_s."""
    probe_timeout_s: Annotated[float | None, Field(ge=0.1, le=600)] = BREAKERS["default"].probe_timeout_s
    """A probe silent for longer is lost; another is sent. At least the time-out of a request and 5 s."""


class MetricsSettings(Section):
    """The series under /metrics."""

    tenants: Annotated[int, Field(ge=0, le=2_000)] = 100
    """Tenants with series of their own, the busiest ones if there are more; the rest share `other`."""


class LogSettings(Section):
    """The log on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written."""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, JSON elsewhere."""


class StoreSettings(Section):
    """The store: subscriptions with their secrets, endpoint states, the index of parked entries."""

    key: SecretStr | None = None
    """Key that encrypts the secrets: the base64 of 32 bytes. Several, separated by blanks or commas: the
    first one encrypts, all decrypt.

    Absent, and no key_file: `store.key` in the state folder, made at the first write.
    """
    key_file: Path | None = None
    """File that holds the key or keys, as a mounted secret does; lines that begin with # are left out."""
    busy_timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """How long a command or the daemon waits for another one's write, and for PostgreSQL to connect."""
    parked_index_max: Annotated[int, Field(ge=0, le=1_000_000)] = 20_000
    """Rows of the index of parked entries that are kept; the oldest go first. 0 keeps no index."""

    @field_validator("key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            as_value_error(parse_keys, value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _check_one_key(self) -> StoreSettings:
        if self.key is not None and self.key_file is not None:
            raise ValueError("store.key and store.key_file cannot both be set")
        return self
