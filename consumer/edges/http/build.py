"""Build the sender that the settings select."""

from __future__ import annotations

from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from consumer.edges.http.connect.guard import Guard
from consumer.edges.http.connect.resolver import Resolve
from consumer.edges.http.options import Proxy, SenderOptions
from consumer.edges.http.parts import Parts
from consumer.edges.http.senders.aiohttp_sender import AiohttpSender
from consumer.edges.http.senders.httpx_sender import HttpxSender
from consumer.edges.http.senders.tokens import AuthorizingSender, Tokens
from consumer.settings import Settings


class WebhookSender(AuthorizingSender):
    """One of the two senders, with tokens. Implements :class:`consumer.ports.Sender`."""

    def __init__(
        self, client: Literal["aiohttp", "httpx"], options: SenderOptions, resolve: Resolve | None = None
    ) -> None:
        """Prepare the sender; it opens nothing before the first request.

        Args:
            client: ``[sending] client``.
            options: Bounds and rules.
            resolve: Looks names up; None uses the system and its name servers.

        Raises:
            ConfigError: the CA file cannot be read.
        """
        self.client = client
        self.options = options
        self.parts = Parts(options, resolve)  #: look-up, guard, dialer and TLS contexts
        build = AiohttpSender if client == "aiohttp" else HttpxSender
        super().__init__(build(self.parts), Tokens(self.parts))

    @property
    def guard(self) -> Guard:
        """The judge of addresses; callers can protect further places with it."""
        return self.parts.guard

    async def close(self) -> None:
        """Close every connection and end the look-ups."""
        await super().close()
        await self.parts.close()


def open_sender(settings: Settings) -> WebhookSender:
    """Return the sender for *settings*; it opens nothing before the first request.

    It refuses webhooks to every place of ours in the settings: broker, management API, database, own port.
    The caller protects the others: the private broker, and a port that the system chose.

    Raises:
        ConfigError: the CA file, or a file that contains a URL, cannot be read.
    """
    sending, egress = settings.sending, settings.egress
    options = SenderOptions(
        connect_timeout_s=sending.connect_timeout_s,
        resolve_timeout_s=sending.resolve_timeout_s(),
        resolve_ttl_min_s=sending.dns_ttl_min_s,
        resolve_ttl_max_s=sending.dns_ttl_max_s,
        name_servers=sending.dns_servers,
        max_response_bytes=sending.max_response_bytes,
        keepalive_s=sending.keepalive_s,
        connection_max_age_s=sending.connection_max_age_s,
        connections_per_host=sending.connections_per_host or 0,
        ca_file=sending.ca_file,
        egress=settings.egress_rule(),
        proxy=_proxy(egress.proxy, names=egress.proxy_names == "proxy"),
        obey_control=sending.obey_webhook_delivery,
        keep_type=settings.history.keeps_answers(),
    )
    sender = WebhookSender(sending.client, options)
    guard = sender.guard
    for url in (*settings.amqp_urls(), settings.amqp.management_url, settings.postgres_url()):
        guard.protect_url(url or "")
    if settings.listen_port:
        guard.protect(settings.listen_host, settings.listen_port)
    return sender


def _proxy(url: SecretStr | None, *, names: bool) -> Proxy | None:
    if url is None:
        return None
    parts = urlsplit(url.get_secret_value())
    return Proxy(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or 0,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        names=names,
    )
