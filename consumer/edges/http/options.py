"""Define how webhooks are sent: one set of options for all endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.core.endpoint.egress import EgressRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """The egress proxy."""

    scheme: str  #: ``http`` (CONNECT) or ``socks5``
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    #: True: the proxy gets names and checks addresses itself; False: it gets only checked addresses.
    names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    """Bounds and rules of a sender."""

    #: Bound on look-up, TCP, proxy and TLS together, within the total deadline.
    connect_timeout_s: float = 5.0
    #: Bound on the look-up alone; shorter, so that its time-out differs from others.
    resolve_timeout_s: float = 4.0
    resolve_ttl_min_s: float = 1.0  #: shortest time for which addresses, or a failed look-up, are kept
    resolve_ttl_max_s: float = 300.0  #: longest time for which addresses are kept
    name_servers: tuple[str, ...] = ()  #: ``ADDRESS`` or ``ADDRESS:PORT``; empty: those of the system
    max_response_bytes: int = 16_384  #: bytes of a response body that are kept, at least 1
    keepalive_s: float = 4.0  #: idle life of a connection; Node.js and uvicorn close after 5 s
    connection_max_age_s: float = 300.0  #: longest life of a connection, so that a name may move
    connections_per_host: int = 0  #: 0: one for each request in flight, which the flow bounds
    ca_file: str | None = None  #: PEM file of authorities trusted beside those of the system
    egress: EgressRule = field(default_factory=EgressRule)
    proxy: Proxy | None = None
    handles: int | None = None  #: files that the process may have open; None: the limit of the system
    obey_control: bool = False  #: read the response header ``webhook-delivery``
    keep_type: bool = False  #: read the response header ``content-type``
