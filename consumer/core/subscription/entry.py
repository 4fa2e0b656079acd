"""One entry of a subscriptions file: its fields, their checks, and the resulting subscription.

Data flow: YAML or JSON values -> SubscriptionEntry (checked, no defaults added) -> build -> Subscription.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Final, Self, TypeVar

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from consumer.core.access import Access
from consumer.core.endpoint.breaker import outlasting
from consumer.core.endpoint.egress import EgressRule, refuse_address, refuse_url
from consumer.core.event.decode import TENANT_PATTERN
from consumer.core.retry.outcomes import StatusRule, parse_status_rules
from consumer.core.schema import Section, as_value_error, is_secret, leaves, set_at
from consumer.core.subscription.access_entry import ACCOUNT_FIELDS, AuthFields, TlsFields
from consumer.core.subscription.match import check_pattern
from consumer.core.subscription.policy import BreakerFields, RetryChoice, text_keys
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription, endpoint_id, subscription_id
from consumer.core.text.printable import MASK
from consumer.core.text.urls import Url, parse_url
from consumer.core.webhook.signing import SigningKey, parse_secret

NAME_MAX: Final = 128
"""Longest name in characters."""
SECRETS_MAX: Final = 10
"""Most secrets of one endpoint. Source: SW-32 (Svix keeps 10 old keys)."""
HEADERS_MAX: Final = 32
HEADER_VALUE_MAX: Final = 4_096
"""Longest value in characters. Source: fault 28."""

HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Source: RFC 9110, 5.6.2."""
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
OUR_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "user-agent"),
        *("connection", "keep-alive", "te", "trailer", "upgrade", "expect", "traceparent", "tracestate"),
    }
)
"""Headers that Leveret or HTTP itself sets. Source: fault 28; RFC 9110, 7.6.1."""
OUR_PREFIXES: Final = ("webhook-", "proxy-")
"""Prefixes of further header names that Leveret or HTTP itself sets."""


def _normal_url(value: object) -> object:
    return parse_url(value).text if isinstance(value, str) else value


class SubscriptionEntry(Section):
    """One entry of a subscriptions file, as written."""

    tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN.pattern}$")] = "default"
    """Customer to whom the subscription belongs."""
    name: Annotated[str | None, Field(min_length=1, max_length=NAME_MAX)] = None
    """Name, unique per tenant; absent: the host and 8 digits of the endpoint's id."""
    url: Annotated[str, BeforeValidator(_normal_url)]
    """URL to which webhooks are sent, unique per tenant."""
    events: Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)]
    """AMQP topic patterns on the event type."""
    secrets: Annotated[tuple[SecretStr, ...], Field(max_length=SECRETS_MAX)] = ()
    """Secrets, newest first; each signs every webhook; absent: Leveret generates one."""
    retry: RetryChoice | None = None
    """Retry policy; absent: the policy of the settings."""
    on_status: Annotated[dict[str, StatusRule], BeforeValidator(text_keys)] = Field(default_factory=dict)
    """Treatment of a status or class of statuses from this endpoint."""
    breaker: BreakerFields = Field(default_factory=BreakerFields)
    """Breaker of this endpoint."""
    concurrency: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Requests in flight to this endpoint, per worker."""
    rate_per_s: Annotated[float | None, Field(ge=0.01, le=100_000)] = None
    """Requests a second to this endpoint, by all workers together; absent: no limit."""
    burst: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Requests that may start together under *rate_per_s*; absent: the number sent in 0.1 s, at least 2."""
    timeout_s: Annotated[float | None, Field(ge=1, le=30)] = None
    """Total deadline of one attempt."""
    headers: Annotated[dict[str, str], Field(max_length=HEADERS_MAX)] = Field(default_factory=dict)
    """Headers to send with every webhook."""
    send_trace: bool = False
    """Whether an event's ``traceparent`` and ``tracestate`` are sent with its webhooks."""
    auth: AuthFields | None = None
    """Content of the header Authorization; absent: no such header."""
    tls: TlsFields = Field(default_factory=TlsFields)
    """Authorities and client certificate of this endpoint."""
    enabled: bool = True
    """Whether webhooks are sent."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str | None) -> str | None:
        if value is not None and (not value.isprintable() or value != value.strip()):
            raise ValueError("must be printable, without blanks at its ends")
        return value

    @field_validator("events")
    @classmethod
    def _check_events(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            as_value_error(check_pattern, pattern)
        return value

    @field_validator("secrets")
    @classmethod
    def _check_secrets(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        keys = [as_value_error(parse_secret, secret.get_secret_value()) for secret in value]
        if len(set(keys)) < len(keys):
            raise ValueError("the same secret is listed twice; remove one")
        return value

    @field_validator("on_status")
    @classmethod
    def _check_on_status(cls, value: dict[str, StatusRule]) -> dict[str, StatusRule]:
        return as_value_error(parse_status_rules, value)

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, str]) -> dict[str, str]:
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("the same header is listed twice, in different case; remove one")
        for name, text in value.items():
            _check_header(name, text)
        return value

    @model_validator(mode="after")
    def _check_access(self) -> SubscriptionEntry:
        if self.auth is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("auth sets the header authorization; remove it from headers")
        if self.tls.build() is not None and self.url.startswith("http:"):
            raise ValueError("tls has no effect on an http:// URL; remove it or use https://")
        return self

    @property
    def label(self) -> str:
        """The name; built from host and endpoint id if the entry has none."""
        if self.name is not None:
            return self.name
        return f"{parse_url(self.url).host[:64]}-{endpoint_id(self.tenant, self.url)[:8]}"

    @property
    def id(self) -> str:
        """The id of the subscription."""
        return subscription_id(self.tenant, self.label)

    def signing_keys(self) -> Sequence[SigningKey]:
        """Return the keys, newest first."""
        secrets, keys = self._parsed
        return keys if secrets is self.secrets else _keys_of(self.secrets)

    @cached_property
    def _parsed(self) -> tuple[tuple[SecretStr, ...], tuple[SigningKey, ...]]:
        """The secrets with their keys, parsed once; a copy with other secrets may still contain these."""
        return self.secrets, _keys_of(self.secrets)

    def record(self) -> dict[str, object]:
        """Return the fields that differ from the defaults as JSON values, without secrets, and the name."""
        dump = self.model_dump(exclude_defaults=True, exclude={"secrets"})
        return {"tenant": self.tenant, "name": self.label, **json_values(dump, secrets=False)}

    def masked(self) -> dict[str, object]:
        """Return the record with :data:`MASK` in place of each credential."""
        values = self.record()
        for place in self.credentials():
            set_at(values, place, MASK)
        return values

    def credentials(self) -> dict[str, str]:
        """Return the secrets that do not sign, by their place, such as ``auth.bearer``."""
        found: dict[str, str] = {}
        for path in CREDENTIALS:
            value: object = self
            for part in path:
                value = getattr(value, part, None)
            if isinstance(value, SecretStr):
                found[".".join(path)] = value.get_secret_value()
        return found

    def with_secrets(self, secrets: Mapping[str, str]) -> Self:
        """Return the entry with *secrets* at their places, such as ``auth.bearer``; the tables must exist."""
        entry = self
        for place, text in secrets.items():
            entry = _with_secret(entry, place.split("."), SecretStr(text))
        return entry

    def account_of(self, place: str) -> Mapping[str, object]:
        """Return the fields that identify the account of the secret at *place*."""
        section: object = self
        for name in place.split(".")[:-1]:
            section = getattr(section, name)
        return {name: getattr(section, name) for name in ACCOUNT_FIELDS[place]}

    def build(self, rules: SubscriptionRules) -> Subscription:
        """Return the subscription, with *rules* for the fields that the entry leaves out.

        Raises:
            ConfigError: the retry policy is unknown, or a field has no effect on it.
        """
        timeout_s = rules.timeout_s if self.timeout_s is None else self.timeout_s
        return Subscription(
            id=self.id,
            tenant=self.tenant,
            name=self.label,
            url=self.url,
            events=self.events,
            keys=self.signing_keys(),
            retry=rules.retry if self.retry is None else self.retry.build(rules.policies, rules.retry),
            breaker=outlasting(self.breaker.build(rules.breaker), timeout_s),
            on_status=MappingProxyType(self.on_status),
            concurrency=rules.concurrency if self.concurrency is None else self.concurrency,
            rate_per_s=self.rate_per_s,
            burst=self.burst,
            timeout_s=timeout_s,
            headers=(*self.headers.items(), *(() if self.auth is None else self.auth.headers())),
            send_trace=self.send_trace,
            access=self.access(),
            enabled=self.enabled,
        )

    def access(self) -> Access | None:
        """Return the endpoint's TLS and OAuth2 requirements, or None if it has neither."""
        oauth2 = self.auth.oauth2 if self.auth is not None else None
        tls = self.tls.build()
        if oauth2 is None and tls is None:
            return None
        return Access(tls=tls, oauth2=None if oauth2 is None else oauth2.build())


_Fields = TypeVar("_Fields", bound=Section)


def _keys_of(secrets: Sequence[SecretStr]) -> tuple[SigningKey, ...]:
    return tuple(parse_secret(secret.get_secret_value()) for secret in secrets)


def _with_secret(section: _Fields, path: Sequence[str], secret: SecretStr) -> _Fields:
    name, *rest = path
    value = _with_secret(getattr(section, name), rest, secret) if rest else secret
    return section.model_copy(update={name: value})


CREDENTIALS: Final = tuple(
    path for path, each in leaves(SubscriptionEntry) if is_secret(each) and path != ("secrets",)
)
"""Places of the secrets that do not sign: the credentials."""


def json_values(values: Mapping[str, object], *, secrets: bool) -> dict[str, object]:
    """Return dumped values as JSON values, with secrets in clear or left out."""
    return {
        name: _plain(value, secrets=secrets)
        for name, value in values.items()
        if secrets or not isinstance(value, SecretStr)
    }


def _plain(value: object, *, secrets: bool) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return json_values(value, secrets=secrets)
    if isinstance(value, tuple | list):
        return [_plain(inner, secrets=secrets) for inner in value]
    return value.value if isinstance(value, Enum) else value


def refuse_endpoint(url: Url, rule: EgressRule) -> str | None:
    """Return why *url* may not be registered, or None; a host name is checked again after each look-up.

    ``http://`` with a host name is accepted if the settings allow some network. Each address behind the name
    must then be in an allowed network, or nothing is sent.

    Source: docs/reference.md (``LEVERET_EGRESS__ALLOW``); faults 20-22.
    """
    reason = refuse_url(url.scheme, url.host, rule)
    if reason is None and (":" in url.host or url.host.replace(".", "").isdigit()):
        reason = refuse_address(url.host, rule, tls=url.scheme == "https", port=url.port)
    return reason


def _check_header(name: str, value: str) -> None:
    lower = name.lower()
    if not HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a header name; use letters, digits and -")
    if lower in OUR_HEADERS or lower.startswith(OUR_PREFIXES):
        raise ValueError(f"{name!r} is set by Leveret or by HTTP itself; remove it")
    if len(value) > HEADER_VALUE_MAX:
        raise ValueError(f"{name}: the value is longer than {HEADER_VALUE_MAX} characters; shorten it")
    if not HEADER_VALUE.fullmatch(value):
        raise ValueError(f"{name}: the value must be visible ASCII, not empty, without blanks at its ends")
