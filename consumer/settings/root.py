"""The settings as one frozen value. This module reads nothing; :mod:`consumer.settings.load` does.

Data flow: load -> Settings -> consumer.daemon, which passes its part to each edge and policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.endpoint.egress import EgressRule
from consumer.core.errors import ConfigError
from consumer.core.event.decode import DecodeRules, MissingId
from consumer.core.retry.policy import POLICIES, RetryPolicy
from consumer.core.schema import Section
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.text.hosts import split_place
from consumer.settings.api import ApiSettings
from consumer.settings.fairness import FairnessSettings
from consumer.settings.history import HistorySettings
from consumer.settings.parked import ParkedSettings
from consumer.settings.sections import (
    AmqpSettings,
    BreakerSettings,
    EventsSettings,
    LimitsSettings,
    LogSettings,
    MetricsSettings,
    RetrySettings,
    SourceSettings,
    StoreSettings,
    TopologySettings,
    WindowsSettings,
)
from consumer.settings.sending import EgressSettings, SendingSettings
from consumer.settings.tracing import TracingSettings, parse_headers
from topology.names import Names
from topology.plan import TopologySpec

_URL_SEPARATOR = re.compile(r"\s*,\s*(?=amqps?://)|\s+")  # a bare comma may be part of a password

_POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg")
_POSTGRES_HOST = r"(?:\[[^\]]+\]|[^:,\[\]]*)(?::[1-9][0-9]{0,4})?"
_POSTGRES_HOSTS = re.compile(f"{_POSTGRES_HOST}(?:,{_POSTGRES_HOST})*")
_POSTGRES_PORT = re.compile(r":([0-9]+)(?=,|$)")
_T = TypeVar("_T")

WINDOW_MAX = 2_000
"""Largest derived window in messages."""


class Settings(Section):
    """All settings. ``Settings()`` has the defaults and ignores the environment."""

    home: Path = Path(".leveret")
    """State folder, created with mode 0700. A relative path starts at the working folder of the start, so an
    installed daemon needs an absolute one."""
    amqp_url: SecretStr | None = None
    """AMQP URL of the broker; several, separated by spaces or commas, are tried in turn.

    Absent: the private broker.
    """
    amqp_url_file: Path | None = None
    """File that contains the AMQP URL or URLs, for example a mounted secret."""
    rabbitmq_home: Path | None = None
    """RabbitMQ installation for the private broker: a folder with ``sbin`` or ``bin``.

    Absent: the usual places and PATH are searched.
    """
    rabbitmq_chroot: Path | None = None
    """Root folder of another Linux system whose RabbitMQ becomes the private broker; needs root."""
    database_url: SecretStr | None = None
    """URL of the store's PostgreSQL database: postgresql://USER:PASSWORD@HOST:PORT/DATABASE.

    Absent: SQLite, `leveret.db` in the state folder.
    """
    database_url_file: Path | None = None
    """File that contains the database URL, for example a mounted secret."""
    listen: str = "127.0.0.1:8080"
    """HOST:PORT of health and metrics; port 0 chooses a free one."""
    profile: Literal["development", "production"] | None = None
    """Retry numbers for an environment. Source: S2-2."""
    preset: Literal["high-traffic", "low-traffic", "critical"] | None = None
    """Breaker, retry and time-out numbers for a kind of traffic. Source: S3-6."""
    failpoint: Annotated[str | None, Field(max_length=64)] = None
    """Named point at which the daemon kills itself; for the crash tests only."""
    amqp: AmqpSettings = Field(default_factory=AmqpSettings)
    """The connection to the broker."""
    topology: TopologySettings = Field(default_factory=TopologySettings)
    """Names, numbers and arguments of exchanges and queues."""
    events: EventsSettings = Field(default_factory=EventsSettings)
    """How a message becomes an event."""
    sources: tuple[SourceSettings, ...] = ()
    """Existing exchanges whose messages are events."""
    sending: SendingSettings = Field(default_factory=SendingSettings)
    """How webhooks are sent."""
    windows: WindowsSettings = Field(default_factory=WindowsSettings)
    """Prefetch per consumer."""
    fairness: FairnessSettings = Field(default_factory=FairnessSettings)
    """How tenants share a worker."""
    limits: LimitsSettings = Field(default_factory=LimitsSettings)
    """Bounds of the messages in one worker and on the broker."""
    retry: RetrySettings = Field(default_factory=RetrySettings)
    """The retry policy of subscriptions that name none, and custom policies."""
    breaker: BreakerSettings = Field(default_factory=BreakerSettings)
    """The breaker of endpoints whose subscription sets none."""
    egress: EgressSettings = Field(default_factory=EgressSettings)
    """Addresses that webhooks may reach."""
    store: StoreSettings = Field(default_factory=StoreSettings)
    """The store: subscriptions with their secrets, endpoint states, the index of parked entries."""
    parked: ParkedSettings = Field(default_factory=ParkedSettings)
    """Replays of parked entries without an operator."""
    history: HistorySettings = Field(default_factory=HistorySettings)
    """The history of attempts and ends of deliveries."""
    api: ApiSettings = Field(default_factory=ApiSettings)
    """The HTTP API and the pages for operators."""
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    """The series under /metrics."""
    tracing: TracingSettings = Field(default_factory=TracingSettings)
    """OpenTelemetry spans; it needs `pip install 'leveret[otel]'`."""
    log: LogSettings = Field(default_factory=LogSettings)
    """The log on stderr."""

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        if split_place(value) is None:
            raise ValueError("must be HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8080")
        return value

    @field_validator("amqp_url")
    @classmethod
    def _check_amqp_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            split_amqp_urls(value.get_secret_value())
        return value

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            postgres_url(value.get_secret_value())
        return value

    @field_validator("sources")
    @classmethod
    def _check_sources(cls, value: tuple[SourceSettings, ...]) -> tuple[SourceSettings, ...]:
        names = [source.name for source in value]
        if len(set(names)) < len(names):
            raise ValueError("two sources have the same name; rename one")
        return value

    @model_validator(mode="after")
    def _check_one_url(self) -> Settings:
        if self.amqp_url is not None and self.amqp_url_file is not None:
            raise ValueError("amqp_url and amqp_url_file cannot both be set; remove one")
        if self.database_url is not None and self.database_url_file is not None:
            raise ValueError("database_url and database_url_file cannot both be set; remove one")
        return self

    @model_validator(mode="after")
    def _check_slices(self) -> Settings:
        taken = sorted(self.retry.policies.keys() & POLICIES.keys())
        if taken:
            raise ValueError(f"retry.policies.{taken[0]}: is the name of a built-in policy; choose another")
        try:
            self.subscription_rules()
            self.decode_rules()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def listen_host(self) -> str:
        """The host of *listen*, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def listen_port(self) -> int:
        """The port of *listen*; 0 chooses a free one."""
        return int(self.listen.rpartition(":")[2])

    def amqp_urls(self) -> tuple[str, ...]:
        """Return the AMQP URLs in the order of their attempts; no URL means the private broker.

        A URL file is read again on each call, so that the next connection uses a rotated secret.

        Raises:
            ConfigError: the URL file cannot be read or contains no AMQP URL.
        """
        if self.amqp_url is not None:
            return split_amqp_urls(self.amqp_url.get_secret_value())
        if self.amqp_url_file is None:
            return ()
        return _from_file("amqp_url_file", self.amqp_url_file, split_amqp_urls)

    def postgres_url(self) -> str | None:
        """Return the URL of the PostgreSQL database; None means SQLite in the state folder.

        Raises:
            ConfigError: the URL file cannot be read or contains no such URL.
        """
        if self.database_url is not None:
            return postgres_url(self.database_url.get_secret_value())
        if self.database_url_file is None:
            return None
        return _from_file("database_url_file", self.database_url_file, postgres_url)

    def tracing_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers for the collector of spans.

        Raises:
            ConfigError: their file cannot be read or contains something else.
        """
        tracing = self.tracing
        if tracing.headers is not None:
            return parse_headers(tracing.headers.get_secret_value())
        if tracing.headers_file is None:
            return ()
        return _from_file("tracing.headers_file", tracing.headers_file, parse_headers)

    def topology_spec(self) -> TopologySpec:
        """Return the specification of the topology."""
        shape = self.topology.model_dump(exclude={"declare"})
        sources = tuple(source.spec(self.events.tenant_header) for source in self.sources)
        return TopologySpec(
            **shape,
            hash_on=self.events.hash_on,
            hash_header=self.events.tenant_header,
            sources=sources,
        )

    def decode_rules(self) -> DecodeRules:
        """Return the rules for reading messages as events."""
        events = self.events
        names = Names(self.topology.prefix)
        direct = {spec.name: spec.direct for spec in self.topology_spec().sources}
        return DecodeRules(
            max_event_bytes=events.max_event_bytes,
            tenant_header=events.tenant_header,
            default_tenant=events.default_tenant if events.missing_tenant == "default" else None,
            missing_id=MissingId(events.missing_id),
            default_type=events.default_type,
            extensions=frozenset(events.extensions),
            headers=frozenset(events.headers),
            send_app_id=events.send_app_id,
            send_correlation_id=events.send_correlation_id,
            honour_expiration=events.honour_expiration,
            inboxes={
                queue: s.rule()
                for s in self.sources
                if not direct[s.name]
                for queue in (names.inbox(s.name), names.inbox_died(s.name))
            },
            exchanges={s.exchange: s.rule() for s in self.sources if direct[s.name]},
        )

    def retry_policies(self) -> Mapping[str, RetryPolicy]:
        """Return every policy that a subscription may name, built-in and custom."""
        default = POLICIES["default"]
        own = {name: choice.build(POLICIES, default, name) for name, choice in self.retry.policies.items()}
        return {**POLICIES, **own}

    def subscription_rules(self) -> SubscriptionRules:
        """Return the defaults for fields that a subscription leaves out, and the addresses it may use."""
        return SubscriptionRules(
            policies=self.retry_policies(),
            retry=self.retry.build(self.retry_policies(), POLICIES["default"]),
            breaker=self.breaker.build(BreakerPolicy()),
            concurrency=self.sending.endpoint_concurrency,
            timeout_s=self.sending.timeout_s,
            egress=self.egress_rule(),
        )

    def egress_rule(self) -> EgressRule:
        """Return the rule for addresses that webhooks may reach."""
        return EgressRule(allow=self.egress.allow, allow_http=self.egress.allow_http, deny=self.egress.deny)

    def window(self, prefetch: int | None) -> int:
        """Return *prefetch*, or the derived window in messages if it is None."""
        return min(WINDOW_MAX, 2 * self.sending.concurrency) if prefetch is None else prefetch

    def due_window(self) -> int:
        """Return the window of one due queue in messages: half of the other windows if there are several.

        Deliveries are spread over all due queues, so that one queue alone need not fill the worker. A smaller
        window also puts fewer retries of a storm ahead of new events.
        """
        if self.windows.due_prefetch is not None or self.topology.due_queues == 1:
            return self.window(self.windows.due_prefetch)
        return max(1, self.window(None) // 2)

    def due_hold(self) -> int:
        """Return the most delivery messages that one worker holds: by default half of the due windows."""
        if self.windows.due_hold is not None:
            return self.windows.due_hold
        return max(1, self.due_window() * self.topology.due_queues // 2)


def _from_file(key: str, path: Path, read: Callable[[str], _T]) -> _T:
    """Read a file that holds a secret.

    Raises:
        ConfigError: the file cannot be read, or *read* raises ValueError.
    """
    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{key}: cannot read {path}: {reason}") from None
    except ValueError as error:
        raise ConfigError(f"{key}: {path}: {error}") from None


def postgres_url(text: str) -> str:
    """Return *text* as a ``postgresql://`` URL.

    Raises:
        ValueError: *text* is not such a URL. The error never repeats the URL, which contains a password.
    """
    scheme, _, rest = text.strip().partition("://")
    try:
        parts = urlsplit(f"postgresql://{rest}")
        parse_qs(parts.query, strict_parsing=bool(parts.query))  # as the driver reads it
        hosts = parts.netloc.rpartition("@")[2]
        ports = map(int, _POSTGRES_PORT.findall(hosts))
        is_valid = _POSTGRES_HOSTS.fullmatch(hosts) is not None and max(ports, default=0) <= 65_535
    except ValueError:
        is_valid, parts = False, urlsplit("")
    if scheme not in _POSTGRES_SCHEMES or not rest or not is_valid:
        raise ValueError("must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; SQLite takes no URL")
    _refuse_late_at(parts, "has")
    return f"postgresql://{rest}"


def split_amqp_urls(text: str) -> tuple[str, ...]:
    """Split a list of AMQP URLs at white space, or at commas in front of another URL.

    Raises:
        ValueError: *text* has no URL, or one that is not an ``amqp://`` or ``amqps://`` URL. The error never
            repeats the URL, which contains a password.
    """
    urls = tuple(part for part in _URL_SEPARATOR.split(text.strip()) if part)
    if not urls:
        raise ValueError("contains no AMQP URL; write amqp://USER:PASSWORD@HOST:PORT/VHOST")
    for number, url in enumerate(urls, start=1):
        _check_amqp_url(url, f"URL {number} of {len(urls)}")
    return urls


def _check_amqp_url(url: str, which: str) -> None:
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid = False
        parts = urlsplit("")
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname or not port_is_valid:
        raise ValueError(f"{which} must be amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://...")
    if "no_verify_ssl" in parts.query.lower():
        raise ValueError(f"{which} has no_verify_ssl; name the broker's authority in [amqp] ca_file instead")
    _refuse_late_at(parts, f"{which} has")


def _refuse_late_at(parts: SplitResult, what: str) -> None:
    """Refuse an @ after the host: an unescaped slash in a password ends the host and exposes the rest."""
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(f"{what} an @ after its host; write @ / ? # of a password as %40 %2F %3F %23")
