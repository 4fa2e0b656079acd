"""The sections ``[sending]`` and ``[egress]``: how webhooks are sent, and which addresses they may reach.

Data flow: load -> these models, frozen -> consumer.daemon -> edges.http.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, field_validator, model_validator

from consumer.core.endpoint.egress import Allowed, parse_allowed
from consumer.core.schema import Section
from consumer.settings.sections import KIB, Network, parse_network

_NAME_SERVER = re.compile(
    r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?|([0-9.]+)(?::([0-9]{1,5}))?|([0-9A-Fa-f:]+)"
)
RESOLVE_RATIO, RESOLVE_MAX_S = 0.8, 4.0
"""Default share and cap of a look-up in the time to connect; the rest shows which of the two was slow."""

_PROXY = re.compile(r"(?:http|socks5)://(?:[^/?#]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+):([0-9]{1,5})/?")


def _is_port(text: str) -> bool:
    return 1 <= int(text) <= 65_535


def _is_name_server(text: str) -> bool:
    match = _NAME_SERVER.fullmatch(text)
    if match is None or not _is_port(match[2] or match[4] or "53"):
        return False
    try:
        return ipaddress.ip_address(match[1] or match[3] or match[5]) is not None
    except ValueError:
        return False


def _is_proxy(url: str) -> bool:
    match = _PROXY.fullmatch(url)
    if match is None or not _is_port(match[2]):
        return False
    try:
        return not match[1].startswith("[") or ipaddress.IPv6Address(match[1][1:-1]) is not None
    except ValueError:
        return False


def _parse_allowed(value: object) -> object:
    """Turn text into an allowed network, with or without a port."""
    if not isinstance(value, str):
        return value if isinstance(value, Allowed) else parse_network(value)
    try:
        return parse_allowed(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a CIDR network: {error}; write one such as 10.1.0.0/16") from None


class SendingSettings(Section):
    """How webhooks are sent."""

    mode: Literal["live", "dry"] = "live"
    """dry: match, transform, sign and log every webhook, send none, and count each as delivered. Events are
    consumed."""
    client: Literal["aiohttp", "httpx"] = "aiohttp"
    """HTTP client that sends webhooks. Both behave the same; aiohttp needs a fraction of the time."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Requests in flight in this worker."""
    rate_per_s: Annotated[float | None, Field(ge=0.001, le=100_000)] = None
    """Requests that this worker starts in a second, to all endpoints together; absent: no limit. For 100 in a
    minute set 1.667. Source: S1-11."""
    burst: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Requests that may start together under *rate_per_s*; absent: the number sent in 0.1 s, at least 2."""
    endpoint_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 16
    """Requests in flight to one endpoint, unless its subscription sets another number."""
    timeout_s: Annotated[float, Field(ge=1, le=30)] = 15.0
    """Total deadline of one attempt, unless its subscription sets another one. Source: SW-42."""
    connect_timeout_s: Annotated[float, Field(ge=0.1, le=30)] = 5.0
    """Part of the deadline for the name look-up and the connect."""
    dns_timeout_s: Annotated[float | None, Field(ge=0.1, le=30)] = None
    """Part of *connect_timeout_s* for a name look-up, or for reaching the egress proxy; absent: four fifths
    of it, at most 4 s."""
    dns_ttl_min_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """Addresses are cached at least this long, whatever their TTL; so is a failed look-up."""
    dns_ttl_max_s: Annotated[float, Field(ge=0, le=86_400)] = 300.0
    """Addresses are looked up again after this long at the latest."""
    dns_servers: Annotated[tuple[str, ...], Field(max_length=8)] = ()
    """Name servers as ADDRESS or ADDRESS:PORT; empty: those of the system."""
    keepalive_s: Annotated[float, Field(ge=0, le=300)] = 4.0
    """Idle life of a connection; many servers close theirs after 5 s."""
    connection_max_age_s: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    """Largest age of a connection, however busy. Then its name is looked up and checked again."""
    connections_per_host: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Connections of this worker to one host and port. A request that finds no free one in its time ends as
    client_error. Absent: one per request in flight, which the concurrency of each endpoint bounds."""
    ca_file: str | None = None
    """PEM file with authorities that are trusted beside the system's."""
    max_response_bytes: Annotated[int, Field(ge=1, le=1 * KIB * KIB)] = 16 * KIB
    """Bytes of a response body that are read; the rest is discarded."""
    obey_webhook_delivery: bool = False
    """Obey the response header webhook-delivery: disable disables the endpoint, abort-message ends the
    delivery."""
    probe_disabled_s: Annotated[float | None, Field(ge=60, le=2_592_000)] = None
    """Interval of a webhook `leveret.test` to an endpoint that was disabled after days without a success; one
    success enables it again. Absent: never."""
    quick_latency_s: Annotated[float, Field(ge=0, le=30)] = 1.0
    """A target whose recent 90th percentile is below this is sent directly from the event."""
    quick_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.25
    """Time that an event may wait for a slot before its target becomes a delivery message."""
    drain_grace_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Time for requests to end after SIGTERM."""
    max_targets_per_message: Annotated[int, Field(ge=1, le=1_000)] = 100
    """Targets of one delivery message; events with more are split."""

    @field_validator("dns_servers")
    @classmethod
    def _check_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if not _is_name_server(text):
                raise ValueError(
                    f"{text!r} is not a name server; write 192.0.2.53, 192.0.2.53:5353 or [fd00::53]:53"
                )
        return value

    @model_validator(mode="after")
    def _check_bounds(self) -> SendingSettings:
        if self.dns_ttl_min_s > self.dns_ttl_max_s:
            raise ValueError("dns_ttl_min_s must not be larger than dns_ttl_max_s")
        if self.dns_timeout_s is not None and self.dns_timeout_s > self.connect_timeout_s:
            raise ValueError("dns_timeout_s must not be larger than connect_timeout_s, which contains it")
        if self.connections_per_host is not None and self.connections_per_host < self.endpoint_concurrency:
            raise ValueError("connections_per_host must not be smaller than endpoint_concurrency")
        return self

    def resolve_timeout_s(self) -> float:
        """Return the bound on a name look-up, or on reaching the proxy, in seconds."""
        if self.dns_timeout_s is not None:
            return self.dns_timeout_s
        return min(RESOLVE_MAX_S, RESOLVE_RATIO * self.connect_timeout_s)


class EgressSettings(Section):
    """Addresses that webhooks may reach, and the route to them."""

    allow: tuple[
        Annotated[Allowed, BeforeValidator(_parse_allowed), PlainSerializer(str, return_type=str)], ...
    ] = ()
    """CIDR networks that the address guard allows, at one port if written as NETWORK:PORT; http:// is
    accepted for addresses in them."""
    allow_http: bool = False
    """Accept http:// for every host."""
    deny: tuple[Annotated[Network, BeforeValidator(parse_network)], ...] = ()
    """CIDR networks that are never reached, even if allow contains them."""
    proxy: SecretStr | None = None
    """Proxy for every webhook: http://USER:PASSWORD@HOST:PORT (CONNECT) or socks5://..."""
    proxy_names: Literal["checked", "proxy"] = "checked"
    """checked: names are resolved and checked here, and the proxy gets the address; proxy: the proxy gets the
    name, and must check the address itself."""

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _is_proxy(value.get_secret_value()):
            raise ValueError("must be http://USER:PASSWORD@HOST:PORT or socks5://USER:PASSWORD@HOST:PORT")
        return value
