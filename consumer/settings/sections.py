"""The sections of ``leveret.toml``: every field with its unit, bounds, default and description.

Data flow: load (defaults < profile < preset < file < environment) -> these models, frozen -> consumer.daemon.
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
    """Turn text into a network; a single address is a network with one address."""
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str):
        raise ValueError("a network is text such as 10.1.0.0/16")  # noqa: TRY004 - pydantic shows ValueError
    try:
        return ipaddress.ip_network(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a CIDR network: {error}; write one such as 10.1.0.0/16") from None


class AmqpSettings(Section):
    """The connection to the broker."""

    heartbeat_s: Annotated[int, Field(ge=1, le=300)] = 10
    """AMQP heartbeat; a dead peer is noticed within two heartbeats."""
    connect_timeout_s: Annotated[float, Field(ge=0.5, le=120)] = 10.0
    """Time for one connection attempt: TCP, TLS and AMQP handshake."""
    reconnect_max_s: Annotated[float, Field(ge=0.5, le=300)] = 30.0
    """Cap of the jittered wait between connection attempts, which continue without end."""
    confirm_slow_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """If the broker confirms no publish for so long, no new attempt starts (back-pressure)."""
    confirm_lost_s: Annotated[float, Field(ge=1, le=600)] = 60.0
    """A publish without a confirm for so long is given up, and made again on another channel."""
    ca_file: str | None = None
    """PEM file with the authorities that amqps:// trusts; absent: the system's."""
    cert_file: str | None = None
    """PEM file with the client certificate for amqps://."""
    key_file: str | None = None
    """PEM file with the client certificate's key."""
    management_url: str | None = None
    """Base URL of the management API, without user and password; those of the AMQP URL are used.

    Absent: that of the private broker, or none.
    """

    @field_validator("management_url")
    @classmethod
    def _check_management_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            valid = (
                re.fullmatch(r"https?://[^\s/@]+(/[^\s@]*)?", value) is not None and urlsplit(value).port != 0
            )
        except ValueError:
            valid = False
        if not valid:
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
    """Create missing parts at start; false needs only read and write rights."""
    prefix: Annotated[str, Field(max_length=PREFIX_MAX, pattern=f"^{PREFIX_PATTERN.pattern}$")] = "leveret"
    """First word of every exchange and queue name; two instances on one broker need different ones."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """classic gives a weaker guarantee: its dead-lettering has no confirms."""
    lanes: Annotated[int, Field(ge=1, le=QUEUE_COUNT_MAX)] = 16
    """Queues for fresh events; 1 works without the consistent-hash plugin."""
    lanes_before: Annotated[int, Field(ge=0, le=QUEUE_COUNT_MAX)] = 0
    """Number of lanes before *lanes* was lowered. Lanes above the new number get no more events and are
    emptied. Once they are empty, remove this setting and delete them. 0: none."""
    dedicated: tuple[Tenant, ...] = ()
    """Tenants with a lane of their own."""
    retired: tuple[Tenant, ...] = ()
    """Tenants that had a lane of their own. It gets no more events and is emptied. Once it is empty, remove
    the tenant here and delete the lane."""
    consistent_hash: bool = True
    """Spread lanes with rabbitmq_consistent_hash_exchange; false requires lanes = 1."""
    due_queues: Annotated[int, Field(ge=1, le=QUEUE_COUNT_MAX)] = 4
    """Queues for delivery messages whose wait is over."""
    spill_queues: Annotated[int, Field(ge=0, le=QUEUE_COUNT_MAX)] = 4
    """Queues for the events of noisy tenants."""
    rungs_s: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] = RUNGS_S
    """TTL of each wait queue in seconds, ascending, whole milliseconds, 0.01 s to 7 days."""
    hold_s: Annotated[float, Field(ge=0, le=30)] = 1.0
    """The worker itself waits for a remaining time up to this, instead of taking another rung."""
    hold_ratio: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """The worker also waits for a remaining time up to this share of the whole wait, unless the endpoint
    named the wait."""
    hold_max_s: Annotated[float, Field(ge=0, le=60)] = 10.0
    """Largest remaining time for which the worker itself waits, whatever its share."""
    parked_max_length: Annotated[int, Field(ge=1, le=2**31 - 1)] = 10_000
    """Most entries in parked; further ones go to overflow. Source: S1-4."""
    parked_ttl_s: Annotated[float, Field(ge=1, le=366 * DAY_S)] = 604_800.0
    """Time after which a parked entry moves to expired. Source: S1-4."""
    delivery_limit: Annotated[int, Field(ge=10, le=2**31 - 1)] = 1_000
    """Returns after which the broker itself dead-letters a message, as a last resort."""
    browse_limit: Annotated[int, Field(ge=1_000, le=2**31 - 1)] = 1_000_000
    """Returns that parked and similar queues allow; each look at an entry counts as one."""
    suspect_limit: Annotated[int, Field(ge=1, le=3)] = 2
    """Attempts for a message suspected of killing workers, before it goes to overflow."""

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
    """Value that spreads events over lanes; message_id suits a single tenant."""
    missing_id: Literal["inbox", "hash", "park"] = "inbox"
    """Treatment of an event without usable message_id: inbox republishes it once with a new id, hash uses a
    hash of its content as id (equal events become one), and park parks it."""
    dedupe_window_s: Annotated[float, Field(ge=0, le=7 * DAY_S)] = 0.0
    """Time for which a repeated event (one tenant, type and id) is acked, counted as duplicate, and sent to
    nobody. A worker remembers its last 50,000 events, and finds those of other workers in the history unless
    [history] keep is off. 0: every event is sent. Source: S1-15."""
    max_event_bytes: Annotated[int, Field(ge=1 * KIB, le=16 * KIB * KIB)] = 256 * KIB
    """Larger bodies are parked too_large."""
    tenant_header: Annotated[str, Field(min_length=1, max_length=255)] = "tenant"
    """Message header that names the tenant."""
    default_tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN.pattern}$")] = "default"
    """Tenant of an event that names none; `leveret` is reserved."""
    missing_tenant: Literal["default", "park"] = "default"
    """Treatment of an event that names no tenant: it belongs to default_tenant, or is parked bad_tenant."""
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
    """An event's AMQP expiration ends its deliveries, counted from the time when a worker reads the event.
    false: only the broker applies it, and events that expire in a lane are parked as expired."""

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
    """Expression for the tenant; absent: as set in [events]."""
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
        """Return the rule that reads events of this source; it is checked when the settings are built."""
        texts = {name: getattr(self, name) for name in ("tenant", "type", "id", "time", "data")}
        return as_value_error(parse_rule, {name: text for name, text in texts.items() if text is not None})

    def spec(self, tenant_header: str) -> SourceSpec:
        """Return the topology of this source: bound directly to our exchange if headers name everything."""
        plain = (self.type, self.id, self.time, self.data) == (None, None, None, None)
        direct = plain and self.tenant in (None, f"header:{tenant_header}")
        return SourceSpec(name=self.name, exchange=self.exchange, routing_key=self.routing_key, direct=direct)


class WindowsSettings(Section):
    """Prefetch per consumer, in messages; absent: min(2000, 2 x [sending] concurrency)."""

    lane_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per lane."""
    due_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per due queue; absent: half of the other windows if there are several queues."""
    replay_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages of the replay queue."""
    spill_prefetch: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Unsettled messages per spill queue."""
    due_hold: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Delivery messages whose last second a worker itself waits out; absent: half of the due windows."""
    in_hand_s: Annotated[float, Field(ge=1, le=900)] = 60.0
    """A message that was not started for so long moves to the end of a queue."""
    give_back_s: Annotated[float, Field(ge=1, le=900)] = 600.0
    """Back-pressure that lasts longer than this returns unstarted messages to the broker. It must be below
    half of the broker's consumer timeout, which is 30 minutes by default."""


class LimitsSettings(Section):
    """Bounds of the messages in one worker and on the broker."""

    memory_bytes: Annotated[int, Field(ge=16 * KIB * KIB, le=1024 * GIB)] = 4 * GIB
    """Memory that one worker may use above its idle size. Half of it is for received messages; further ones
    wait in the broker's connection."""
    waiting_bytes: Annotated[int, Field(ge=1 * KIB * KIB, le=1024 * GIB * KIB)] = 4 * GIB
    """Bytes of waiting messages in our queues: alert at 80 %; at 100 % new events stay in their lanes."""


class RetrySettings(RetryChoice):
    """The retry policy of subscriptions that name none: *policy*, changed by the fields beside it."""

    policy: str | None = "default"
    """Name of a built-in policy or of one under [retry.policies]."""
    policies: dict[str, RetryChoice] = Field(default_factory=dict)
    """Custom policies by name, each a built-in *policy* with changed fields, under a new name."""
    total_budget: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """Retries to all endpoints together per minute and worker; more are postponed. Absent: no limit."""
    suspect_after: Annotated[int, Field(ge=1, le=5)] = 5
    """x-delivery-count at which a message is moved unread to suspect."""

    @field_validator("policies")
    @classmethod
    def _check_names(cls, value: dict[str, RetryChoice]) -> dict[str, RetryChoice]:
        for name in value:
            if not _POLICY_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a policy name; use at most 64 letters, digits, - and _")
        return value


class BreakerSettings(BreakerFields):
    """The breaker of endpoints whose subscription sets none."""

    failures: Annotated[int | None, Field(ge=0, le=10_000)] = BREAKERS["default"].failures
    """Consecutive failures that open the breaker; 0 switches it off."""
    failure_ratio: Annotated[float | None, Field(ge=0, le=1)] = BREAKERS["default"].failure_ratio
    """Share of failures among the last answers that also opens the breaker; 0 disables this check."""
    window_s: Annotated[float | None, Field(ge=0.1, le=3_600)] = BREAKERS["default"].window_s
    """Period that failure_ratio covers: between half of this and all of it."""
    min_requests: Annotated[int | None, Field(ge=1, le=100_000)] = BREAKERS["default"].min_requests
    """Answers in the window that failure_ratio needs to have an effect."""
    cooldown_s: Annotated[float | None, Field(ge=0.01, le=3_600)] = BREAKERS["default"].cooldown_s
    """Time from opening to the first probe."""
    cooldown_max_s: Annotated[float | None, Field(ge=0.01, le=DAY_S)] = BREAKERS["default"].cooldown_max_s
    """Cap of the cooldown, which grows while probes fail; never under cooldown_s."""
    probe_timeout_s: Annotated[float | None, Field(ge=0.1, le=600)] = BREAKERS["default"].probe_timeout_s
    """Time after which an unanswered probe is lost and another sent; at least a request's time-out + 5 s."""


class MetricsSettings(Section):
    """The series under /metrics."""

    tenants: Annotated[int, Field(ge=0, le=2_000)] = 100
    """Tenants with series of their own: the busiest ones if there are more. All others share `other`."""
    subscriptions: Annotated[int, Field(ge=0, le=200)] = 20
    """Subscriptions with series of their own: those in most trouble. All others share `other`."""


class LogSettings(Section):
    """The log on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, JSON elsewhere."""


class StoreSettings(Section):
    """The store: subscriptions with their secrets, endpoint states, the index of parked entries."""

    key: SecretStr | None = None
    """Key that encrypts the secrets: the base64 of 32 bytes. Several are separated by blanks or commas: the
    first one encrypts, all decrypt.

    Absent, without key_file: `store.key` in the state folder, created at the first write.
    """
    key_file: Path | None = None
    """File that contains the key or keys, such as a mounted secret; lines that begin with # are ignored."""
    busy_timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """Time that a command or the daemon waits for another one's write, and for PostgreSQL to connect."""
    parked_index_max: Annotated[int, Field(ge=0, le=1_000_000)] = 20_000
    """Rows in the index of parked entries; the oldest are removed first. 0 disables the index."""

    @field_validator("key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            as_value_error(parse_keys, value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _check_one_key(self) -> StoreSettings:
        if self.key is not None and self.key_file is not None:
            raise ValueError("store.key and store.key_file cannot both be set; remove one")
        return self
