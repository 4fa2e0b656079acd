"""The JSON of the API: what routes return, and what they take."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, RootModel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from consumer.core.schema import describe_fields
from consumer.core.subscription.entry import SubscriptionEntry


class Out(BaseModel):
    """An answer of the API."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Health(Out):
    """Whether the API can work."""

    status: str
    """ok, or degraded if the store is away."""
    version: str
    store: str
    """ok or away."""


class Tenant(Out):
    """One tenant."""

    name: str
    subscriptions: int
    """Number of its subscriptions, enabled or not."""


class SubscriptionRow(Out):
    """One subscription of a list, with its effective settings."""

    id: str
    endpoint: str
    """Id of its endpoint; subscriptions of one tenant with the same URL share it."""
    tenant: str
    name: str
    url: str
    """URL without its query, which may contain a token."""
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    disabled_at: str | None
    paused: bool
    locked: str | None
    """Why its secrets cannot be decrypted; meanwhile nothing is sent to it."""
    fault: str | None
    """Why its retry policy is unusable; meanwhile nothing is sent to it."""
    secrets: int
    """Number of secrets that sign each webhook."""
    retry: str | None
    """Name of its retry policy."""
    max_attempts: int | None
    concurrency: int
    timeout_s: float
    breaker_failures: int
    breaker_cooldown_s: float
    headers: list[str]
    """Names of the headers that are sent with each webhook."""


class Subscription(SubscriptionRow):
    """One subscription with all its effective settings, without its secrets."""

    signed_with: list[str]
    secret_ages: list[str]
    send_trace: bool
    rate_per_s: float | None
    burst: int | None
    auth: dict[str, Any] | None
    tls: dict[str, Any] | None
    on_status: dict[str, str]
    delays_s: list[float] | None
    """Planned waits between attempts, in seconds, before jitter."""
    max_age_s: float | None
    breaker_failure_ratio: float
    breaker_window_s: float
    breaker_min_requests: int
    breaker_cooldown_max_s: float
    breaker_probe_timeout_s: float


class CreatedSubscription(Subscription):
    """A new subscription, with its secret if Leveret generated it."""

    secret: str | None
    """The generated secret, shown this once."""


class SubscriptionFields(RootModel[dict[str, Any]]):
    """The fields of a subscription, as in a subscriptions file; the service checks them."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of an entry of a subscriptions file."""
        describe_fields(SubscriptionEntry)
        return handler(SubscriptionEntry.__pydantic_core_schema__)


class SubscriptionPatch(RootModel[dict[str, Any]]):
    """A merge patch on the fields of a subscription: null removes a field, `***` keeps a stored secret."""
