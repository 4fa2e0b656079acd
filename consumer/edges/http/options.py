"""How webhooks are sent: one value for all endpoints."""

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
    names: bool = False  #: True: it is told names and judges addresses itself; False: checked addresses only


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    """Bounds and rules of a sender."""

    connect_timeout_s: float = (
        5.0  #: bound on look-up, TCP, proxy and TLS together, within the total deadline
    )
    resolve_timeout_s: float = 4.0  #: bound on the look-up alone; shorter, to be told apart
    resolve_ttl_min_s: float = 1.0  #: found addresses, and a look-up that failed, are kept at least so long
    resolve_ttl_max_s: float = 300.0  #: found addresses are kept at most so long
    name_servers: tuple[str, ...] = ()  #: ``ADDRESS`` or ``ADDRESS:PORT``; empty: the system's
    max_response_bytes: int = 16_384  #: kept of a response body, at least 1; a longer one is cut off
    keepalive_s: float = 4.0  #: idle life of a connection; Node.js and uvicorn close after 5 s
    connection_max_age_s: float = 300.0  #: a connection is not kept for longer, so that a name may move
    connections_per_host: int = 0  #: 0: as many as there are requests in flight, which the flow bounds
    ca_file: str | None = None  #: PEM file of authorities trusted beside the system's
    egress: EgressRule = field(default_factory=EgressRule)
    proxy: Proxy | None = None
    handles: int | None = None  #: files that the process may have open; None: as the system says
    obey_control: bool = False  #: read the response header ``webhook-delivery``
