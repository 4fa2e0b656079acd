"""The JSON of ``/webhook/subscriptions``: camelCase, durations in milliseconds. Source: S0-4, S0-6."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from consumer.core.subscription.entry import NAME_MAX


class _Camel(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=False, extra="forbid", use_attribute_docstrings=True
    )


_Delay = Annotated[float, Field(ge=0, le=604_800_000)]


class RetryConfig(_Camel):
    """When a delivery is tried again; an absent field keeps the value of the default policy."""

    max_attempts: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Attempts in total, including the first."""
    base_delay: _Delay | None = None
    """Wait after the first failed attempt, in milliseconds."""
    multiplier: Annotated[float, Field(ge=1, le=1_000)] | None = None
    max_delay: _Delay | None = None
    """Longest wait, in milliseconds."""
    enable_jitter: bool | None = None
    jitter_factor: Annotated[float, Field(ge=0, le=1)] | None = None
    """Spread of a wait: 0.1 is plus or minus 10 %."""


class WebhookFields(_Camel):
    """A new subscription."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_MAX)] | None = None
    """Unique per tenant; absent: made from the URL."""
    endpoint_url: str
    secret: str | None = None
    """`whsec_...`, or 24 to 64 bytes of text; absent: Leveret makes one and shows it once."""
    events: Annotated[list[str], Field(min_length=1, max_length=1_000)]
    """Patterns such as `producto.*`."""
    retry_config: RetryConfig | None = None
    enabled: bool | None = None
    tenant: str | None = None
    """Absent: the tenant of the token, or the default tenant."""


class WebhookPatch(_Camel):
    """Changes of a subscription: a merge patch. Null removes a field, so that the default holds."""

    endpoint_url: str | None = None
    events: Annotated[list[str], Field(min_length=1, max_length=1_000)] | None = None
    retry_config: RetryConfig | None = None
    enabled: bool | None = None


class EffectiveRetryConfig(_Camel):
    """The retry configuration in force."""

    max_attempts: int
    base_delay: int
    multiplier: float
    max_delay: int
    enable_jitter: bool
    jitter_factor: float


class Webhook(_Camel):
    """A subscription."""

    id: str
    tenant: str
    name: str
    endpoint_url: str
    """URL without its query, which may contain a token."""
    events: list[str]
    enabled: bool
    paused: bool
    timeout: int
    """Total deadline of one attempt, in milliseconds."""
    retry_config: EffectiveRetryConfig | None
    """Null if its retry policy is unusable; meanwhile nothing is sent."""


class CreatedWebhook(Webhook):
    """A new subscription, with its secret if Leveret generated it."""

    secret: str | None
    """The generated secret, shown this once."""


class BackoffStrategy(_Camel):
    """The waits in words, such as `1000ms`, `2x`, `±10%`."""

    type: str
    max_attempts: int
    base_delay: str
    multiplier: str
    max_delay: str
    jitter: str


class SenderStats(_Camel):
    """The effective defaults of the sender."""

    default_timeout: int
    """Milliseconds."""
    default_retry_config: EffectiveRetryConfig
    backoff_strategy: BackoffStrategy
    delay_sequence: list[str]
    """Waits between attempts, such as `1000ms`."""
    max_total_duration: str
    """Sum of all waits, such as `15000ms`."""
